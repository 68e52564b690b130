//! A present failure to record decisions.

use std::fmt::Display;
use std::sync::Arc;

use thiserror::Error;

/// A present failure to record decisions. Cheap to clone.
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub struct LogFailed(Arc<str>);

impl LogFailed {
    pub(super) fn new(log: &str, error: &dyn Display) -> Self {
        Self(format!("decisions cannot be recorded in {log}: {error}").into())
    }

    /// Returns the failure after the last attempt, with `count` records missing: of decisions, and of events such as the end of
    /// the process.
    pub(super) fn at_the_end(&self, count: u64) -> Self {
        Self(format!("records left unwritten: {count}; {self}").into())
    }

    pub(super) fn ended() -> Self {
        Self("decisions are no longer recorded: the writer of the log has ended".into())
    }
}
