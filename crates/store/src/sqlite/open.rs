//! Opening a database: checks of the file in its place, and preparation of the database.
//!
//! No step here depends on the size of the database. crawlgate never silently starts a new store in place of one that
//! has gone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use rustix::fs::fchown;
use tracing::warn;

use super::engine::{Failure, Statements as _};
use super::file::{CHECKPOINT, LOG_SIZE, PAGE, PATIENCE, beside, kind_of};
use super::notes;
use super::schema::{self, SchemaVersion, VERSION};
use crate::collection::foreign_file;
use crate::log_key::log_key_file;
use crate::state_file;
use crate::{Access, StoreError, StoreErrorKind, failed};
use crawlgate_config::Synchronous;
use crawlgate_system::atomic_file::{create_private_folder, folder, owner_for, sync_folder};
use crawlgate_system::descriptors::is_exhaustion;

/// Page cache of a connection, in KiB: of each reader, and of the writer.
const CACHE: i32 = 4 * 1024;
const WRITER_CACHE: i32 = 16 * 1024;

/// Statements that a connection keeps ready.
const STATEMENTS: usize = 64;

/// Prepares the database at `path`: present, ours, and with the present schema. Returns the writing connection.
pub(super) fn writer(path: &Path, synchronous: Synchronous) -> Result<Connection, StoreError> {
    let connection = made_ready(path, synchronous)?;
    let checked = notes::refuse_collected(&connection, path)
        .and_then(|()| warn_of_missing_key(&connection, path));
    checked.map_err(|failure| failure.at(path))?;
    Ok(connection)
}

/// Prepares the database at `path`, of a gate or a collected one.
pub(super) fn made_ready(path: &Path, synchronous: Synchronous) -> Result<Connection, StoreError> {
    make_file(path)?;
    let open = || -> Result<Connection, Failure> {
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let version = known(&connection, path)?;
        if version == SchemaVersion::Empty {
            remove_old_state_file(path)?;
            // Only an empty database accepts a page size.
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
        if version == SchemaVersion::Empty {
            schema::create(&mut connection)?;
            checkpoint_schema(&connection, path)?;
        }
        probe(&connection)?;
        Ok(connection)
    };
    open().map_err(|failure| failure.at(path))
}

/// Removes the state file of an earlier store: its key was moved away to begin anew.
fn remove_old_state_file(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(state_file::state_file(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(state_file::unwritable(path, &error).into())
        }
        _ => Ok(()),
    }
}

/// Carries the schema over into the file: with it only in the log, a lost log would leave a file that looks as if no
/// record had ever been written.
fn checkpoint_schema(connection: &Connection, path: &Path) -> Result<(), Failure> {
    let is_busy: bool = connection.only("PRAGMA wal_checkpoint(TRUNCATE)", [])?;
    let synced = sync_folder(path);
    match synced {
        Ok(()) if !is_busy => Ok(()),
        Ok(()) => Err(failed(format!(
            "{}: another process reads the new store and keeps its schema from the disk; start again",
            path.display()
        ))
        .into()),
        Err(error) => Err(state_file::unwritable(path, &error).into()),
    }
}

/// Reads one row by way of each table and each index: an unusable one is better reported now than by every request.
pub(super) fn probe(connection: &Connection) -> Result<(), Failure> {
    const LOOKS: [&str; 25] = [
        "meta",
        "snapshot NOT INDEXED",
        "snapshot WHERE sha256 >= x''",
        "leftover NOT INDEXED",
        "leftover INDEXED BY leftover_due WHERE due >= 0",
        "origin NOT INDEXED",
        "origin INDEXED BY origin_sha256 WHERE sha256 IS NOT NULL",
        "fetch NOT INDEXED",
        "fetch INDEXED BY fetch_origin WHERE origin >= ''",
        "fetch INDEXED BY fetch_sha256 WHERE sha256 IS NOT NULL",
        "tail",
        "block NOT INDEXED",
        "block INDEXED BY block_time WHERE max_time >= 0",
        "segment",
        "object",
        "checkpoint",
        "rotation",
        "acknowledgement NOT INDEXED",
        "hourly",
        "fetch_hourly",
        "origin INDEXED BY origin_state WHERE state >= ''",
        "object",
        "override NOT INDEXED",
        "kept INDEXED BY kept_used WHERE used >= 0",
        "domain INDEXED BY domain_octets WHERE octets >= 0",
    ];
    for look in LOOKS {
        let text = format!("SELECT 1 FROM {look} LIMIT 1");
        connection.prepare(&text)?.exists([])?;
    }
    // The next entry follows the last one.
    super::entries::Head::read(connection)?;
    Ok(())
}

/// Warns if the key of the log has gone. A new key replaces it; checkpoints of the old one need its public half, which is
/// no longer trusted by itself.
fn warn_of_missing_key(connection: &Connection, path: &Path) -> Result<(), Failure> {
    let key = log_key_file(path);
    if key.exists() {
        return Ok(());
    }
    let Some(last) = super::entries::checkpoint::last(connection)? else {
        return Ok(());
    };
    // A checkpoint names its key without the public half, which the state file has.
    let state = state_file::read(path)?;
    let public = state.and_then(|(state, _)| super::entries::checkpoint::signer(&last, state.key));
    let public = match &public {
        Some(key) => key.to_string(),
        None => "unknown: the state file beside the store does not have it".to_owned(),
    };
    warn!(
        key = %key.display(), %public, checkpoint = last.note,
        "the key that has signed the log of the store is gone; a new one signs from now on. Unless it is brought back, \
         `crawlgate audit verify` needs the public half of the old one beside the new one's (--key)"
    );
    Ok(())
}

/// Returns a reading connection to a database that [`writer`] has prepared, now or earlier.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .and_then(|connection| prepared(path, connection))
        .map_err(|failure| failure.at(path))
}

/// Returns a connection if [`writer`] has prepared its database.
pub(super) fn prepared(path: &Path, connection: Connection) -> Result<Connection, Failure> {
    match known(&connection, path)? {
        SchemaVersion::Empty => Err(missing(path).into()),
        _ => Ok(connection),
    }
}

/// Fails if there is no store to read, or the store has gone from its place.
pub(super) fn require(path: &Path, access: Access) -> Result<(), StoreError> {
    // Check the key first: it is created after the store, so a key proves that there was a store.
    let key = log_key_file(path);
    let was_begun = key.exists();
    let is_there = |error: &io::Error| error.kind() != io::ErrorKind::NotFound;
    match fs::metadata(path) {
        Err(error) if !is_there(&error) && was_begun => Err(StoreErrorKind::Corrupt.at(path, format_args!(
            "the store is gone: there is no such file, but {}, the key that has signed its log, is still there; bring \
             the store back, or move the key away, too, to begin anew",
            key.display(),
        ))),
        Err(error) if !is_there(&error) && access == Access::Read => Err(missing(path)),
        // The engine would wait for a pipe for ever.
        Ok(file) if !file.is_file() => Err(StoreErrorKind::Denied.at(path, format_args!(
            "this is {}; move it away, or name a file with [store] path",
            kind_of(file.file_type()),
        ))),
                Err(error) if is_there(&error) => {
            let way_out = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "let this user enter its directory and read and write the file, or name another with [store] path"
                }
                _ => "see to the disk, or name another place with [store] path",
            };
            let words = format_args!("the store cannot be opened: {error}; {way_out}");
            Err(StoreErrorKind::Denied.at(path, words))
        }
        _ => refuse_other_than_files(path).and_then(|()| refuse_emptied(path)),
    }
}

/// Fails if anything but a file lies in the place of a file that the engine keeps beside the database: the engine's own
/// error does not say which one it cannot open.
fn refuse_other_than_files(path: &Path) -> Result<(), StoreError> {
    for suffix in ["-wal", "-shm", "-journal"] {
        let path = beside(path, suffix);
        if let Ok(file) = fs::metadata(&path)
            && !file.is_file()
        {
            return Err(StoreErrorKind::Denied.at(&path, format_args!(
                "this is {}, and the store keeps a file of its own there; move it away; what that file held (-wal: the \
                 latest decisions) is lost, if it is not brought back",
                kind_of(file.file_type()),
            )));
        }
    }
    Ok(())
}

fn missing(path: &Path) -> StoreError {
    foreign_file(path).unwrap_or_else(|| StoreErrorKind::Missing.at(path,
        "there is no store yet; `crawlgate serve` or `crawlgate run` makes one, or [store] path names another"
    ))
}

/// Opens a connection with the settings that all our connections share.
pub(super) fn connect(path: &Path, mode: OpenFlags) -> Result<Connection, Failure> {
    // No URI: the path is literal. No mutex: a connection stays on its thread.
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -CACHE)?;
    // A temporary file would take a descriptor, and recording must go on when the process has none left.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// Returns the schema version of a database, if this crawlgate knows it.
fn known(connection: &Connection, path: &Path) -> Result<SchemaVersion, Failure> {
    let was_begun = log_key_file(path).exists();
    let path = path.display();
    match schema::read_version(connection)? {
        SchemaVersion::Newer(version) if schema::is_present(connection)? => {
            Err(Failure::Damaged(numbered_beyond(version)))
        }
        // A database of another crawlgate has other tables.
        SchemaVersion::Earlier(version) if schema::is_present(connection)? => {
            Err(Failure::Damaged(format!(
                "it says that its schema is {version}, but its tables are those of {VERSION}"
            )))
        }
        // The schema is on the disk before the key is made.
        SchemaVersion::Empty if was_begun => Err(Failure::Damaged(
            "it holds no table, but the key that signs its log was made after its tables"
                .to_owned(),
        )),
        // The number is written with the tables; and there will never be as many as 1,000.
        SchemaVersion::Earlier(0) => Err(Failure::Damaged("it has no schema".to_owned())),
        SchemaVersion::Newer(1_000..) => Err(Failure::Damaged(
            "its schema number never existed".to_owned(),
        )),
        SchemaVersion::Foreign if was_begun => Err(Failure::Damaged(
            "its beginning is another program's database's".to_owned(),
        )),
        SchemaVersion::Earlier(_) => Err(Failure::Store(StoreErrorKind::Corrupt.error(format!(
                "{path}: an unreleased crawlgate has written the store in a form that is no longer read; move it and the \
                 files beside it away, or name another file with [store] path"
            )))),
        SchemaVersion::Newer(version) => Err(Failure::Store(StoreErrorKind::Newer.error(format!(
            "{path}: a newer crawlgate has written the store (schema {version}, known here: up to {VERSION}); run that \
             version, or name another file with [store] path"
        )))),
        SchemaVersion::Foreign => Err(Failure::Store(StoreErrorKind::Corrupt.error(format!(
                "{path}: this is another program's database; name another file with [store] path"
            )))),
        version => Ok(version),
    }
}

/// Returns the words for a version number that is too high for the tables: of a newer crawlgate that has added none, or
/// damaged.
pub(super) fn numbered_beyond(version: i32) -> String {
    format!(
        "its schema is {version}, but its tables are those of {VERSION}, the last that is known here: a newer crawlgate has \
         written the store, or the number is damaged"
    )
}

/// Creates the file, and its directory if need be, readable only by their owner. A file that root creates in the directory
/// of another user belongs to that user, and the engine gives the files beside it to the same one.
fn make_file(path: &Path) -> Result<(), StoreError> {
    let error_of = |error: io::Error| {
        if is_exhaustion(&error) {
            return Failure::NoDescriptor.at(path);
        }
        StoreErrorKind::of_write(&error).at(path, format_args!(
            "the store cannot be made: {error}; let this user write there, name another file with [store] path, or do \
             without one: [store] path = \"\""
        ))
    };
    if path.try_exists().map_err(error_of)? {
        return Ok(());
    }
    create_private_folder(folder(path)).map_err(error_of)?;
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    match file {
        Ok(file) => match owner_for(path) {
            Some((user, group)) => {
                let given = fchown(&file, Some(user), Some(group));
                given.map_err(|error| error_of(error.into()))
            }
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error_of(error)),
    }
}

/// Fails for an emptied file: the engine would take it for a new database and discard the log beside it. A file emptied
/// by others must not become a store without memory.
fn refuse_emptied(path: &Path) -> Result<(), StoreError> {
    let is_empty = fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0);
    let logged = fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
    if is_empty && (logged || log_key_file(path).exists()) {
        return Err(StoreErrorKind::Corrupt.at(path, format_args!(
            "the store was emptied: the file has no content, but what lies beside it shows that there was some; bring \
             it back, or move it and {} away to begin anew",
            log_key_file(path).display(),
        )));
    }
    Ok(())
}
