//! Failures of the engine in words for a person: the file, the failure, the way out.

use std::fmt;
use std::path::Path;

use rusqlite::ErrorCode;

use crate::collection::{COLLECT_ANEW, is_in_collection};
use crate::{StoreError, StoreErrorKind};
use crawlgate_system::descriptors::are_exhausted;

/// A failure of work on the database.
#[derive(Debug)]
pub(crate) enum Failure {
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
        if cannot_open && are_exhausted() { Self::NoDescriptor } else { Self::Engine(error) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

const REBUILD: &str =
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
    /// Tells whether the failure concerns only the present row, so that other rows can be written nonetheless. A
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
        let is_copy = is_in_collection(path);
        let way_out = if is_copy { COLLECT_ANEW } else { REBUILD };
        let path = path.display();
        let store_error = |kind: Kind, what: &str| kind.error(format!("{path}: {what}"));
        let error = match self {
            Self::Store(error) => return error,
            Self::Damaged(what) => {
                return store_error(
                    Kind::Corrupt,
                    &format!("the store is damaged: {what}; {way_out}"),
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
            Some(ErrorCode::NotADatabase) if is_copy => store_error(
                Kind::Corrupt,
                &format!(
                    "this is no collected copy of a log, or its beginning is damaged; {way_out}"
                ),
            ),
            Some(ErrorCode::NotADatabase) => store_error(
                Kind::Corrupt,
                &format!(
                    "this is no store of crawlgate's, or its beginning is damaged; name another file with [store] path; \
                     or, if it was one, {way_out}"
                ),
            ),
            // Unknown: a table or the format differs from ours. None: so does a row.
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) | None => {
                let error = format!("the store is damaged: {}; {way_out}", said(&error));
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
            Some(ErrorCode::SystemIoFailure) if is_copy => store_error(
                Kind::Failed,
                &format!(
                    "the disk fails under the collected copy, or its file was cut off: {error}; see to the disk; if the file is cut off, \
                     {way_out}"
                ),
            ),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_out_of_damage_fits_the_kind_of_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        let said = |name: &str| {
            let failure = Failure::Damaged("a row".to_owned());
            failure.at(&folder.path().join(name)).message
        };
        let is_rebuilt = |name: &str| {
            let said = said(name);
            let is_moved = said.contains("`crawlgate collect` files the log anew");
            assert_ne!(said.contains("`crawlgate store rebuild`"), is_moved, "{said}");
            !is_moved
        };
        assert!(is_rebuilt("crawlgate.db"), "the store of a gate");
        file("copy.log.vkey");
        assert!(!is_rebuilt("copy.db"), "a copy with its public key");
        assert!(is_rebuilt("crawlgate.db"));
        file("collect.lock");
        assert!(!is_rebuilt("foreign.db"), "a file in a collection");
        file("crawlgate.log.key");
        assert!(is_rebuilt("crawlgate.db"), "a gate has a private key");
    }
}
