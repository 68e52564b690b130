//! Enforcement, and report mode.

/// The effect of denials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A denied request does not reach its origin.
    Enforce,
    /// Everything is decided and recorded, nothing is denied.
    Report,
}

impl Mode {
    /// Returns the mode's name, in the configuration as in records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Report => "report",
        }
    }
}
