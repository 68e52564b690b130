//! Why a store cannot do what is asked.

use std::fmt;

/// The store cannot do what is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// What kind of failure it is.
    pub kind: StoreErrorKind,
    /// What happened, and the way out.
    pub message: String,
}

/// Kinds of [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// There is no store at this place.
    Missing,
    /// No room: it will do again when there is.
    Full,
    /// Somebody else holds it for too long.
    Busy,
    /// It is damaged, or no store at all.
    Corrupt,
    /// A newer crawlgate has written it.
    Newer,
    /// It may not be opened or written.
    Denied,
    /// Anything else.
    Failed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StoreError {}

/// A failure of no kind that anybody asks for.
pub(super) fn failed(what: impl Into<String>) -> StoreError {
    StoreError {
        kind: StoreErrorKind::Failed,
        message: what.into(),
    }
}
