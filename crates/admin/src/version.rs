//! The version of the program and its build: `crawlgate --version`, the metric `crawlgate_build_info`, the first message of
//! `serve`. `build.rs` finds commit and day.

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, 12 digits, with `-dirty` behind it where sources differed from it; or `unknown`, as in each debug build.
pub const COMMIT: &str = env!("CRAWLGATE_BUILD_COMMIT");

/// The day of the commit, in UTC, or `unknown`.
pub const DATE: &str = env!("CRAWLGATE_BUILD_DATE");

/// The target triple.
pub const TARGET: &str = env!("CRAWLGATE_BUILD_TARGET");

/// The features that were compiled in, with commas.
pub const FEATURES: &str =
    if crawlgate_proxy::telemetry::IS_COMPILED { "telemetry" } else { "none" };

/// Returns the text after the program's name that `--version` prints.
#[must_use]
pub fn text() -> String {
    format!("{VERSION}\ncommit: {COMMIT}\ndate: {DATE}\ntarget: {TARGET}\nfeatures: {FEATURES}")
}
