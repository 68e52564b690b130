//! Failures of a store.

use std::fmt;
use std::io;
use std::path::Path;

use thiserror::Error;

/// A failure of the store.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct StoreError {
    /// The kind of failure.
    pub kind: StoreErrorKind,
    /// The failure in words, and the way out.
    pub message: String,
}

/// Kinds of [`StoreError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// There is no store at this place.
    Missing,
    /// No room: the next write succeeds as soon as there is some.
    Full,
    /// Another process holds the store for too long.
    Busy,
    /// The store is damaged, or the file is no store at all.
    Corrupt,
    /// A newer crawlgate has written the store.
    Newer,
    /// The process may not open or write the store.
    Denied,
    /// The question names more than one thing.
    Ambiguous,
    /// Anything else.
    Failed,
}

impl StoreErrorKind {
    /// Returns the kind of a failed write.
    pub(super) fn of_write(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull => Self::Full,
            _ => Self::Denied,
        }
    }

    /// Returns the failure of this kind in these words.
    #[must_use]
    pub fn error(self, message: impl Into<String>) -> StoreError {
        StoreError { kind: self, message: message.into() }
    }

    /// Returns the failure of this kind of a file. Its name stands before the words.
    pub(super) fn at(self, path: &Path, words: impl fmt::Display) -> StoreError {
        self.error(format!("{}: {words}", path.display()))
    }
}

/// Returns a failure of no particular kind.
pub(super) fn failed(what: impl Into<String>) -> StoreError {
    StoreErrorKind::Failed.error(what.into())
}

/// Returns the error of a store that lacks a checkpoint which a witness knows.
pub(super) fn behind(witness: &str, size: u64) -> StoreError {
    StoreErrorKind::Corrupt.error(format!(
        "no checkpoint is signed: the witness {witness} knows one of {size} records of this log, and this store does \
         not have it. It is an older copy, or another store signs with the same key: end crawlgate and bring back the \
         newer store; or, if the witness is wrong, remove its [[audit.witness]] section and restart"
    ))
}
