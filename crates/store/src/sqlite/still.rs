//! Reading a store where nothing can be written: on a full or a read-only disk, or in a directory of another user.
//!
//! The engine needs files beside the database to read it beside a writer. Where it cannot make them, there is no writer
//! either, unless another process has the database open.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::engine::Failure;
use super::file::beside;
use super::open;
use crate::{StoreError, StoreErrorKind};

/// Returns a reading connection to the database at `path`, for a process that does not write it. Where the engine can
/// make no file, the database is read as it lies there, if it holds all records and no process has it open.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let usual = open::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let opened = match usual.and_then(|usual| open::prepared(path, usual)) {
        Err(Failure::Engine(error)) if may_lack_files(&error) => as_it_lies(path, error),
        opened => opened,
    };
    opened.map_err(|failure| failure.at(path))
}

/// Tells whether an error may come from files that the engine cannot make.
fn may_lack_files(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
        )
    )
}

fn as_it_lies(path: &Path, error: rusqlite::Error) -> Result<Connection, Failure> {
    let log = beside(path, "-wal");
    if is_in_use(path) || fs::metadata(path).is_err() {
        return Err(error.into());
    }
    if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let (path, log) = (path.display(), log.display());
        return Err(Failure::Store(StoreErrorKind::Denied.error(format!(
                "{path}: the latest records are in {log}, which cannot be read where no file can be made ({error}): make \
                 room, or copy both files to another place and read them there ([store] path)"
            ))));
    }
    let mode = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    open::prepared(path, open::connect(&uri(path, IMMUTABLE)?, mode)?)
}

/// Tells whether another process has the database open: such a process holds a lock on part of it.
fn is_in_use(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let lock = Flock::from(FlockType::WriteLock);
    matches!(fcntl_getlk(&file, &lock), Ok(Some(_)))
}

/// Opens the database without locks and without its log.
pub(super) const IMMUTABLE: &str = "immutable=1";

/// Returns the URI of a database, with a parameter.
pub(super) fn uri(path: &Path, parameter: &str) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(path)
        .map_err(|error| Failure::Store(StoreErrorKind::Failed.at(path, error)))?;
    let mut uri = String::from("file:");
    for octet in path.as_os_str().as_bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                uri.push(char::from(*octet));
            }
            octet => {
                let _ = write!(uri, "%{octet:02X}"); // a String takes all
            }
        }
    }
    uri.push('?');
    uri.push_str(parameter);
    Ok(uri.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use crate::Store;
    use crawlgate_config::Synchronous;

    #[test]
    fn any_name_of_a_file_is_opened_as_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["plain.db", "with blank?mode=rwc#é%41&.db"] {
            let path = folder.path().join(name);
            drop(Store::open(&path, Access::Write, Synchronous::Normal).unwrap());
            let connection = as_it_lies(&path, rusqlite::Error::InvalidQuery).unwrap();
            let count = "SELECT count(*) FROM meta";
            let count = connection.query_row(count, [], |row| row.get::<_, i64>(0));
            assert!(count.unwrap() > 0, "{name}");
        }
        let count = fs::read_dir(folder.path()).unwrap().count();
        // A state file for each.
        assert_eq!(count, 4, "no file is made");
    }

    #[test]
    fn a_database_with_records_in_its_log_is_not_read_without_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crawlgate.db");
        drop(Store::open(&path, Access::Write, Synchronous::Normal).unwrap());
        fs::write(beside(&path, "-wal"), "something").unwrap();
        let Err(Failure::Store(error)) = as_it_lies(&path, rusqlite::Error::InvalidQuery) else {
            panic!("it is read");
        };
        assert!(error.message.contains("crawlgate.db-wal"), "{error}");
        assert!(error.message.contains("copy both files"), "{error}");
    }
}
