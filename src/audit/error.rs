//! A present failure to record decisions.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A present failure to record decisions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogFailed(Arc<str>);

impl LogFailed {
    pub(super) fn new(log: &str, error: &dyn fmt::Display) -> Self {
        Self(format!("decisions cannot be recorded in {log}: {error}").into())
    }

    /// Returns the failure after the last attempt, with `count` decisions missing.
    pub(super) fn at_the_end(&self, count: u64) -> Self {
        Self(format!("decisions left unrecorded: {count}; {self}").into())
    }

    pub(super) fn ended() -> Self {
        Self("decisions are no longer recorded: the writer of the log has ended".into())
    }
}

impl fmt::Display for LogFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for LogFailed {}
