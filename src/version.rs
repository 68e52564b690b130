//! The version of the program, its commit, and what it was built for: `crawlgate --version`, the metric
//! `crawlgate_build_info`, the first message of `serve`.
//!
//! Only the binary knows its commit (`main.rs` hands it over): the library is not compiled again for a commit that leaves
//! its sources as they were. A program that uses the library alone has no commit.

use std::sync::OnceLock;

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The target triple.
pub const TARGET: &str = env!("CRAWLGATE_TARGET");

/// The features that were compiled in, with commas.
pub const FEATURES: &str = match cfg!(feature = "telemetry") {
    true => "telemetry",
    false => "none",
};

static BUILD: OnceLock<Build> = OnceLock::new();

/// The build of a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// The commit, 12 digits, with `-dirty` behind it where sources differed from it; or `unknown`.
    pub commit: &'static str,
    /// The day of the commit, in UTC, or `unknown`.
    pub date: &'static str,
}

impl Build {
    const UNKNOWN: Self = Self {
        commit: "unknown",
        date: "unknown",
    };

    /// Makes this the build of the process, unless it has one.
    pub fn set(self) {
        let _ = BUILD.set(self);
    }

    /// Returns the build of the process.
    #[must_use]
    pub fn current() -> Self {
        BUILD.get().copied().unwrap_or(Self::UNKNOWN)
    }

    /// Returns the text after the program's name that `--version` prints.
    #[must_use]
    pub fn text(self) -> String {
        let Self { commit, date } = self;
        format!("{VERSION}\ncommit: {commit}\ndate: {date}\ntarget: {TARGET}\nfeatures: {FEATURES}")
    }
}
