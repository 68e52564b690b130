//! Opening a database: what may be found in its place, and what is made of it.
//!
//! Nothing here depends on how much is in it. A place where a store was and is no more is never begun anew in silence.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tracing::warn;

use super::error::Failure;
use super::schema::{self, STEPS, Standing};
use crate::config::Synchronous;
use crate::store::{Access, StoreError, StoreErrorKind, chain};

/// How long one process waits for another's write.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Octets of a page: several records fit, so that little is left over behind the last one.
const PAGE: i32 = 8_192;

/// Pages in the write-ahead log after which it is carried over into the database: 16 MiB.
const CHECKPOINT: i32 = 2_048;

/// What the write-ahead log is cut back to when it has grown beyond, in octets.
const LOG_SIZE: i64 = 32 * 1024 * 1024;

/// What a connection keeps of the database in memory, in KiB: one that reads, and the one that writes.
const CACHE: i32 = 4 * 1024;
const WRITER_CACHE: i32 = 16 * 1024;

/// Statements that a connection keeps ready.
const STATEMENTS: usize = 64;

/// Makes the database at `path` ready: there, ours, and with the present schema. The connection writes.
pub(super) fn writer(path: &Path, synchronous: Synchronous) -> Result<Connection, StoreError> {
    make_file(path)?;
    let open = || -> Result<Connection, Failure> {
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let standing = known(&connection, path)?;
        if standing == Standing::Empty {
            // Only an empty database can be told so.
            connection.pragma_update(None, "page_size", PAGE)?;
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match synchronous {
            Synchronous::Normal => "NORMAL",
            Synchronous::Full => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
        connection.pragma_update(None, "journal_size_limit", LOG_SIZE)?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE)?;
        if standing != Standing::Known(STEPS.len()) {
            schema::migrate(&mut connection, STEPS)?;
        }
        Ok(connection)
    };
    open().map_err(|failure| failure.at(path))
}

/// A connection that only reads, to a database that [`writer`] has made ready, now or earlier.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    let open = || -> Result<Connection, Failure> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match known(&connection, path)? {
            Standing::Known(steps) if steps == STEPS.len() => Ok(connection),
            Standing::Empty => Err(missing(path).into()),
            _ => Err(Failure::Told(StoreError {
                kind: StoreErrorKind::Failed,
                message: format!(
                    "{}: an older crawlgate has written the store; it is brought up to date when `crawlgate serve` \
                     starts",
                    path.display()
                ),
            })),
        }
    };
    open().map_err(|failure| failure.at(path))
}

/// Says so where there is nothing to read.
pub(super) fn require(path: &Path, access: Access) -> Result<(), StoreError> {
    if access == Access::Read
        && let Err(error) = fs::metadata(path)
        && error.kind() == io::ErrorKind::NotFound
    {
        return Err(missing(path));
    }
    refuse_emptied(path)
}

fn missing(path: &Path) -> StoreError {
    StoreError {
        kind: StoreErrorKind::Missing,
        message: format!(
            "{}: there is no store yet; `crawlgate serve` or `crawlgate run` makes one, or [store] path names another",
            path.display()
        ),
    }
}

/// A connection as all of ours are.
pub(super) fn connect(path: &Path, mode: OpenFlags) -> rusqlite::Result<Connection> {
    // No URI: a path is a path. No mutex: a connection stays on its thread.
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -CACHE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// How far the database is, where that is somewhere that we know.
fn known(connection: &Connection, path: &Path) -> Result<Standing, Failure> {
    let path = path.display();
    match schema::standing(connection)? {
        Standing::Newer(version) => Err(Failure::Told(StoreError {
            kind: StoreErrorKind::Newer,
            message: format!(
                "{path}: a newer crawlgate has written the store (schema {version}, known here: up to {}); run that \
                 version, or name another file with [store] path",
                STEPS.len()
            ),
        })),
        Standing::Foreign => Err(Failure::Told(StoreError {
            kind: StoreErrorKind::Corrupt,
            message: format!(
                "{path}: this is another program's database; name another file with [store] path"
            ),
        })),
        standing => Ok(standing),
    }
}

/// Makes the file, and its directory if need be, readable by their owner alone.
fn make_file(path: &Path) -> Result<(), StoreError> {
    let told = |error: io::Error| StoreError {
        kind: match error.kind() {
            io::ErrorKind::StorageFull => StoreErrorKind::Full,
            _ => StoreErrorKind::Denied,
        },
        message: format!(
            "{}: the store cannot be made: {error}; let this user write there, name another file with [store] path, or \
             do without one: [store] path = \"\"",
            path.display()
        ),
    };
    if path.try_exists().map_err(told)? {
        return Ok(());
    }
    let key = chain::key_file(path);
    if key.exists() {
        warn!(
            store = %path.display(), key = %key.display(),
            "a new store begins: the one that this key has sealed is gone"
        );
    }
    if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
        let mut made = DirBuilder::new();
        made.recursive(true).mode(0o700);
        made.create(folder).map_err(told)?;
    }
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match file {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(told(error)),
    }
}

/// The engine takes an empty file for a new database, and throws away the log beside it. A file that was emptied by
/// others must not become a store that remembers nothing.
fn refuse_emptied(path: &Path) -> Result<(), StoreError> {
    let is_empty = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0);
    let logged = fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
    if is_empty && (logged || chain::key_file(path).exists()) {
        return Err(StoreError {
            kind: StoreErrorKind::Corrupt,
            message: format!(
                "{}: the store was emptied: the file has no content, but what lies beside it shows that there was some; \
                 bring it back, or move it and {} away to begin anew",
                path.display(),
                chain::key_file(path).display(),
            ),
        });
    }
    Ok(())
}

/// A file of the engine's beside the database.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
