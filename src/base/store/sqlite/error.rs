//! Failures of the engine in words for a person: the file, the failure, the way out.

use std::fmt;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::descriptors::are_exhausted;
use crate::store::{StoreError, StoreErrorKind};

/// A failure of work on the database.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of the engine.
    Engine(rusqlite::Error),
    /// Content that differs from the written one.
    Damaged(String),
    /// The process has no descriptor left to open a file with.
    NoDescriptor,
    /// A failure that already has its words.
    Store(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        // Ask while the connection is open: the engine's error does not say why a file cannot be opened.
        let cannot_open = error.sqlite_error_code() == Some(ErrorCode::CannotOpen);
        match cannot_open && are_exhausted() {
            true => Self::NoDescriptor,
            false => Self::Engine(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

const DAMAGED: &str =
    "`crawlgate store check` shows the damage, `crawlgate store rebuild` saves the readable data";

const NO_DESCRIPTOR: &str = "the store cannot be opened: this process has no descriptor left; raise its limit (`ulimit -n`, LimitNOFILE= in a \
     systemd unit), or lower [limits] connections";

/// Returns the words of an engine's error on damage.
pub(super) fn said(error: &rusqlite::Error) -> String {
    use rusqlite::Error;
    match error {
        // Leave out the statement, which may be long.
        Error::SqlInputError { msg, .. } => msg.clone(),
        Error::FromSqlConversionFailure(..)
        | Error::InvalidColumnType(..)
        | Error::IntegralValueOutOfRange(..) => {
            "a row holds what was never written there".to_owned()
        }
        error => error.to_string(),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => f.write_str(&said(error)),
            Self::Damaged(what) => f.write_str(what),
            Self::NoDescriptor => f.write_str(NO_DESCRIPTOR),
            Self::Store(error) => f.write_str(&error.message),
        }
    }
}

impl Failure {
    /// Tells whether the failure concerns the row at hand alone, so that other rows can be written nonetheless. A
    /// failure of the database or the disk concerns all.
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

    /// Returns the failure as an error of the database at `path`.
    pub(super) fn at(self, path: &Path) -> StoreError {
        use StoreErrorKind as Kind;
        let path = path.display();
        let store_error = |kind, what: &str| StoreError {
            kind,
            message: format!("{path}: {what}"),
        };
        let error = match self {
            Self::Store(error) => return error,
            Self::Damaged(what) => {
                return store_error(
                    Kind::Corrupt,
                    &format!("the store is damaged: {what}; {DAMAGED}"),
                );
            }
            Self::NoDescriptor => return store_error(Kind::Failed, NO_DESCRIPTOR),
            Self::Engine(error) => error,
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => store_error(
                Kind::Full,
                "no room is left on the disk; make some, or lower [audit] keep or max_size",
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => store_error(
                Kind::Busy,
                "another process has been writing to the store for too long; end it, or wait",
            ),
            Some(ErrorCode::NotADatabase) => store_error(
                Kind::Corrupt,
                &format!(
                    "this is no store of crawlgate's, or its beginning is damaged; name another file with [store] path; \
                     or, if it was one, {DAMAGED}"
                ),
            ),
            // Unknown: a table or the format differs from ours. None: so does a row.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) | None => {
                let error = format!("the store is damaged: {}; {DAMAGED}", said(&error));
                store_error(Kind::Corrupt, &error)
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                store_error(
                    Kind::Denied,
                    &format!(
                        "the store cannot be opened: {error}; let this user read and write the file and its directory, or \
                     name another with [store] path"
                    ),
                )
            }
            Some(ErrorCode::SystemIoFailure) => store_error(
                Kind::Failed,
                &format!(
                    "the disk fails under the store, or its file was cut off: {error}; see to the disk, then start again; if \
                     the file is cut off, `crawlgate store rebuild` saves the readable data"
                ),
            ),
            _ => store_error(Kind::Failed, &format!("the store fails: {error}")),
        }
    }
}
