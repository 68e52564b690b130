//! What the engine says, as a person can use it: which file, what happened, the way out.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::store::{StoreError, StoreErrorKind};

/// Why work on the database has failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The engine says so.
    Engine(rusqlite::Error),
    /// What it holds is not what was put there.
    Damaged(String),
    /// It is told already.
    Told(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
}

const DAMAGED: &str =
    "`crawlgate store check` tells how badly, `crawlgate store rebuild` saves what can be read";

impl Failure {
    /// Whether it is about the very row at hand, so that others can be written nonetheless. What is about the database
    /// or the disk is not.
    pub(super) fn is_of_one_row(&self) -> bool {
        let Self::Engine(error) = self else {
            return false;
        };
        let code = error.sqlite_error_code();
        matches!(
            code,
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch | ErrorCode::TooBig)
        )
    }

    /// The failure of the database at `path`.
    pub(super) fn at(self, path: &Path) -> StoreError {
        use StoreErrorKind as Kind;
        let path = path.display();
        let told = |kind, what: &str| StoreError {
            kind,
            message: format!("{path}: {what}"),
        };
        let error = match self {
            Self::Told(error) => return error,
            Self::Damaged(what) => {
                return told(
                    Kind::Corrupt,
                    &format!("the store is damaged: {what}; {DAMAGED}"),
                );
            }
            Self::Engine(error) => error,
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => told(
                Kind::Full,
                "no room is left on the disk; make some, or lower [audit] keep or max_size",
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => told(
                Kind::Busy,
                "another process has been writing to the store for too long; end it, or wait",
            ),
            Some(ErrorCode::NotADatabase) => told(
                Kind::Corrupt,
                &format!(
                    "this is no store of crawlgate's, or its beginning is damaged; name another file with [store] path; \
                     or, if it was one, {DAMAGED}"
                ),
            ),
            // Unknown: a table or the format is not the one that we have made. None: nor is a row.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) | None => {
                let what = match &error {
                    // Without the statement, which may be long.
                    rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
                    error => error.to_string(),
                };
                let error = format!("the store is damaged: {what}; {DAMAGED}");
                told(Kind::Corrupt, &error)
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                told(
                    Kind::Denied,
                    &format!(
                        "the store cannot be opened: {error}; let this user read and write the file and its directory, or \
                     name another with [store] path"
                    ),
                )
            }
            Some(ErrorCode::SystemIoFailure) => told(
                Kind::Failed,
                &format!(
                    "the disk fails under the store: {error}; see to the disk, then start again"
                ),
            ),
            _ => told(Kind::Failed, &format!("the store fails: {error}")),
        }
    }
}
