//! Enforcement, and report mode.

crawlgate_text::named! {
    /// The effect of denials.
    Mode {
        /// A denied request does not reach its origin.
        #[default]
        Enforce = 0 "enforce",
        /// Everything is decided and recorded, nothing is denied: the verdict is the one that would apply.
        Report = 1 "report",
    }
}
