//! What the engine says, as a person can use it: which file, what happened, the way out.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::descriptors::are_exhausted;
use crate::store::{StoreError, StoreErrorKind};

/// Why work on the database has failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The engine says so.
    Engine(rusqlite::Error),
    /// What it holds is not what was put there.
    Damaged(String),
    /// The process has no descriptor left to open a file with.
    NoDescriptor,
    /// It is told already.
    Told(StoreError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        // Asked while the connection is open: the engine does not say why a file cannot be opened.
        let cannot_open = error.sqlite_error_code() == Some(ErrorCode::CannotOpen);
        match cannot_open && are_exhausted() {
            true => Self::NoDescriptor,
            false => Self::Engine(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
}

const DAMAGED: &str =
    "`crawlgate store check` tells how badly, `crawlgate store rebuild` saves what can be read";

const NO_DESCRIPTOR: &str = "the store cannot be opened: this process has no descriptor left; raise its limit (`ulimit -n`, LimitNOFILE= in a \
     systemd unit), or lower [limits] connections";

/// Returns the words of an engine's error on damage.
pub(super) fn said(error: &rusqlite::Error) -> String {
    use rusqlite::Error;
    match error {
        // Without the statement, which may be long.
        Error::SqlInputError { msg, .. } => msg.clone(),
        Error::FromSqlConversionFailure(..)
        | Error::InvalidColumnType(..)
        | Error::IntegralValueOutOfRange(..) => {
            "a row holds what was never written there".to_owned()
        }
        error => error.to_string(),
    }
}

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
            Self::NoDescriptor => return told(Kind::Failed, NO_DESCRIPTOR),
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
                let error = format!("the store is damaged: {}; {DAMAGED}", said(&error));
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
