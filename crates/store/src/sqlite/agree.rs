//! The agreement of a database with the files beside it: its write-ahead log, its key and its state file.
//!
//! A kill leaves the latest records only in the log. If the log is deleted, damaged or exchanged afterwards, or an older
//! copy takes the place of the database, the database still looks whole. The state file knows better
//! ([`state_file`](crate::state_file)).
//!
//! A missing record that was signed, or a database that has lost all its records, is refused: a new record in such a
//! place would contradict a signature. A database without its state file is refused, too: nothing tells what it has lost,
//! and its key may have signed that. Other losses (a power cut takes the latest records, too) are reported, and an entry of the log
//! says how many records were lost there.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tracing::error;

use super::bounds;
use super::engine;
use super::engine::{Failure, Statements as _};
use super::entries::{self, Blocks, Head, StoredTree, checkpoint};
use super::error::said;
use super::file::beside;
use super::log;
use super::notes;
use super::open::{self, connect, probe};
use super::rotations;
use super::schema::{self, SchemaVersion};
use super::still;
use crate::collection::{COLLECT_ANEW, is_in_collection};
use crate::log_key::{LogKey, StoredCheckpoint, log_key_file};
use crate::rotation;
use crate::state_file::{self, State, StateFile};
use crate::{Records, Sha256, StoreError, StoreErrorKind};
use crawlgate_record::EventKind;
use crawlgate_system::clock::Moment;

/// Maximum octets of a database. The structure of a larger one is not checked as a whole.
const SMALL: u64 = 64 * 1024 * 1024;

/// Blocks at the end of the log that are read in any case.
const LATEST: usize = 4;

/// The part of a database that an examination reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// The end of the log, and one block. A process at work carries its log over every few seconds, and all the rest
    /// took it half a microsecond for each record.
    End,
    /// Several blocks, too, and the structure of a small database.
    Whole,
}

/// Records that are missing at the end of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing {
    /// Number of records that the log has.
    size: u64,
    /// Number of records that it once had.
    written: u64,
    /// Time of the latest write.
    at: Moment,
    /// True if a missing record was signed, or the store holds no record at all.
    is_refused: bool,
}

impl Missing {
    /// Returns the loss in words.
    pub(super) fn describe(&self) -> String {
        let Self { size, written, .. } = *self;
        let records = Records::new(size + 1, written);
        format!(
            "{records} {} missing ({}), the last of them written at {}: the log beside the store (-wal) was \
             deleted or damaged, an older copy of the store was put in its place, or a power cut took them",
            records.are(),
            written - size,
            crawlgate_text::time_text(self.at),
        )
    }

    /// Returns the number of records that the log once had.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Tells whether a store that misses them may not go on.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Returns the event that notes the loss in the log.
    pub(super) fn event(&self) -> EventKind<'static> {
        let at = self.at.as_millis();
        EventKind::Lost {
            count: self.written - self.size,
            first: at,
            last: at,
            size: Some(self.written),
        }
    }
}

/// The relation of a database to its state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// The log leads to the roots that the file names.
    Agrees,
    /// The log ends before a size that the file names.
    Misses(Missing),
    /// The root at this size is another one than the file says.
    Differs(u64),
    /// There is no such file, and there must be one: it is made before the key and the first record.
    Unknown,
}

/// Compares a database with a state file that was read before, and written at `at`.
fn relation(connection: &Connection, state: &State, at: Moment) -> Result<Relation, Failure> {
    let _reading = entries::reading(connection)?;
    let (first, size) = entries::extent(connection)?;
    let blocks = Blocks::default();
    let tree = StoredTree::new(connection, &blocks);
    for (known, root) in [state.signed, state.written] {
        // The root below dropped entries rests on other roots, which proofs check.
        let is_there = known > first && known <= size;
        if is_there && tree.root(known)? != root {
            return Ok(Relation::Differs(known));
        }
    }
    if state.written.0 <= size {
        return Ok(Relation::Agrees);
    }
    Ok(Relation::Misses(Missing {
        size,
        written: state.written.0,
        at,
        is_refused: size == 0 || state.signed.0 > size,
    }))
}

/// Compares a database with the state file beside it.
pub(super) fn look(connection: &Connection, path: &Path) -> Result<Relation, Failure> {
    let state = state_file::read(path)?;
    beside_state(connection, path, state.as_ref())
}

fn beside_state(
    connection: &Connection,
    path: &Path,
    state: Option<&(State, Moment)>,
) -> Result<Relation, Failure> {
    match state {
        Some((state, at)) => relation(connection, state, *at),
        None if was_begun(connection, path)? => Ok(Relation::Unknown),
        None => Ok(Relation::Agrees),
    }
}

/// Tells whether a store has a record, or the key that is made before the first one. A collected log has no file beside it.
fn was_begun(connection: &Connection, path: &Path) -> Result<bool, Failure> {
    let has_begun = entries::extent(connection)?.1 > 0 || log_key_file(path).exists();
    Ok(has_begun && !notes::is_collected(connection)?)
}

/// Tells whether the state file of the store at `path` is gone.
///
/// # Errors
/// When the store or the file cannot be read.
pub fn is_state_gone(path: &Path) -> Result<bool, StoreError> {
    let look = || look(&still::reader(path)?, path);
    let relation = look().map_err(|failure: Failure| failure.at(path))?;
    Ok(relation == Relation::Unknown)
}

/// Returns the size of the newest checkpoint that the state file names, if the database has neither that one nor a later one.
pub(super) fn missing_checkpoint(
    connection: &Connection,
    path: &Path,
) -> Result<Option<u64>, Failure> {
    let Some((state, _)) = state_file::read(path)? else {
        return Ok(None);
    };
    let newest = checkpoint::last(connection)?.map_or(0, |last| last.size);
    Ok(Some(state.signed.0).filter(|signed| *signed > newest))
}

/// Fails unless the database agrees with its key and its state file; notes a loss that is no contradiction.
pub(super) fn require(
    connection: &mut Connection,
    path: &Path,
    state_file: &StateFile,
) -> Result<(), Failure> {
    let state = state_file::read(path)?;
    require_key(connection, path, state.as_ref().map(|(state, _)| state))?;
    match beside_state(connection, path, state.as_ref())? {
        Relation::Agrees => Ok(()),
        Relation::Misses(missing) if missing.is_refused && is_anothers_key(connection, path)? => {
            Err(foreign(path, missing.written))
        }
        Relation::Misses(missing) if missing.is_refused => Err(refused(format!(
            "{}: {}; bring back the log, or the store as it was; or let `crawlgate audit fork` note the loss and begin a \
             new log, which goes on without them",
            path.display(),
            missing.describe()
        ))),
        Relation::Misses(missing) => {
            note(connection, path, state_file, &missing)?;
            error!(
                "{}; the store goes on behind them, and its log says so from now on",
                missing.describe()
            );
            Ok(())
        }
        Relation::Differs(size) => Err(foreign(path, size)),
        Relation::Unknown => Err(refused(state_file::gone(path))),
    }
}

/// Notes a loss in the log, and then in the state file.
fn note(
    connection: &mut Connection,
    path: &Path,
    state_file: &StateFile,
    missing: &Missing,
) -> Result<(), Failure> {
    let end = engine::durably(connection, |connection| {
        let transaction = engine::begin(connection)?;
        let mut head = Head::read(&transaction)?;
        log::event(&transaction, &mut head, missing.at, missing.event())?;
        transaction.commit()?;
        Ok((head.size(), head.root()))
    })?;
    let error_of = |error: std::io::Error| state_file::unwritable(path, &error);
    state_file.lost(end).map_err(error_of)?;
    Ok(())
}

/// Reports a state file of another store.
pub(super) fn foreign(path: &Path, size: u64) -> Failure {
    let (state, key) = (state_file::state_file(path), log_key_file(path));
    let (state, key) = (state.display(), key.display());
    refused(format!(
        "{}: its log of {size} records is not the one that {state} names: the store and the key beside it are of different \
         stores, or the store was altered; bring back what belongs together; or move {state} and {key} away, and let \
         `crawlgate audit fork` begin a new log with a new key; `crawlgate audit verify` needs the public half of the one that \
         has signed this log (--key)",
        path.display(),
    ))
}

/// Fails if the key beside the store is another store's.
pub(super) fn require_key(
    connection: &Connection,
    path: &Path,
    state: Option<&State>,
) -> Result<(), Failure> {
    let file = log_key_file(path);
    let is_anothers = match (state, LogKey::load(&file, None)) {
        // A missing key is told elsewhere, and so is an unreadable one.
        (_, Err(_)) => false,
        (Some(state), Ok(key)) => {
            let is_noted = state.key != [0; 32];
            is_noted && !is_of_one_log(connection, state.key, &key)?
        }
        (None, Ok(_)) => is_anothers_key(connection, path)?,
    };
    if !is_anothers {
        return Ok(());
    }
    Err(refused(format!(
        "{}: this log was signed by another key than {}; bring back its own key; or, if that is lost, move this one away: a \
         new key is made then, and `crawlgate audit verify` needs the public half of the lost one (--key)",
        path.display(),
        file.display(),
    )))
}

/// Tells whether a key is the one with this public half, or one of them has replaced the other. The file of a key knows
/// the keys before it, where the database is older than it.
fn is_of_one_log(connection: &Connection, public: Sha256, key: &LogKey) -> Result<bool, Failure> {
    let keys = key.vkeys();
    Ok(keys.iter().any(|one| *one.public() == public) || {
        let rotations = rotations::readable(connection)?;
        let mut keys = keys.iter();
        keys.any(|one| rotation::are_of_one_log(*one.public(), public, &rotations))
    })
}

/// Tells whether the log is signed, but never by the key beside it, nor by one before it.
pub(super) fn is_anothers_key(connection: &Connection, path: &Path) -> Result<bool, Failure> {
    let Ok(key) = LogKey::load(&log_key_file(path), None) else {
        return Ok(false);
    };
    let (all, keys) = (checkpoint::all(connection)?, key.vkeys());
    let by_one = |one: &StoredCheckpoint| keys.iter().any(|key| is_signed(one, *key.public()));
    Ok(!all.is_empty() && !all.iter().any(by_one))
}

/// Puts a new key in its place, if a process was killed that had replaced the key.
pub(crate) fn finish_rotation(path: &Path) -> Result<(), StoreError> {
    let rotations = open::reader(path)
        .map_err(Failure::from)
        .and_then(|connection| rotations::readable(&connection));
    rotation::finish(path, &rotations.map_err(|failure| failure.at(path))?)
}

/// Fails if the key has signed the log before under another name: two names would be two logs.
pub(crate) fn require_name(path: &Path, key: &LogKey) -> Result<(), StoreError> {
    let last = || checkpoint::last(&open::reader(path)?);
    let Some(last) = last().map_err(|failure| failure.at(path))? else {
        return Ok(());
    };
    match last.content().map(|content| content.origin) {
        Some(name)
            if name != *key.name()
                && key
                    .vkeys()
                    .iter()
                    .any(|one| is_signed(&last, *one.public())) =>
        {
            Err(StoreErrorKind::Denied.at(path, format_args!(
                "its log is signed under the name {name}, and [audit] log_name makes it {}; a log keeps its name: set \
                 log_name = \"{name}\"",
                key.name(),
            )))
        }
        _ => Ok(()),
    }
}

/// Tells whether a key has signed a checkpoint, under the name that the checkpoint has.
fn is_signed(checkpoint: &StoredCheckpoint, public: [u8; 32]) -> bool {
    checkpoint::signer(checkpoint, public).is_some()
}

fn refused(message: String) -> Failure {
    Failure::Store(StoreErrorKind::Corrupt.error(message))
}

/// Fails if the log beside a database belongs to another: the engine would write such a log into the database. Only reads,
/// and leaves the log where it is.
pub(super) fn refuse_foreign_log(path: &Path) -> Result<(), Failure> {
    let log = beside(path, "-wal");
    if size(&log) == 0 || size(path) == 0 {
        return Ok(());
    }
    let connection = to_examine(path)?;
    if !is_ours(&connection) {
        // The writer reports what it is.
        return Ok(());
    }
    let Some(why) = broken(&connection, Depth::Whole)? else {
        return Ok(());
    };
    if is_in_collection(path) {
        return Err(refused(format!(
            "{}: the store and {} do not belong together, or are damaged: {why}; {COLLECT_ANEW}",
            path.display(),
            log.display(),
        )));
    }
    Err(refused(format!(
        "{}: the store and {} do not belong together, or are damaged: {why}. If the store was brought back from a backup, move \
         that log away, or bring back the backup's own; otherwise `crawlgate store rebuild` saves the readable data",
        path.display(),
        log.display(),
    )))
}

/// Reads a database and its log as a process does that opens them now, and returns what is wrong with them.
pub(super) fn examine(path: &Path, depth: Depth) -> Result<Option<String>, Failure> {
    let look = || -> Result<Option<String>, Failure> {
        let connection = to_examine(path)?;
        if !is_ours(&connection) {
            return Ok(Some("it is no store".to_owned()));
        }
        if let Some(why) = broken(&connection, depth)? {
            return Ok(Some(why));
        }
        Ok(match look(&connection, path)? {
            Relation::Agrees => None,
            Relation::Misses(missing) => Some(missing.describe()),
            Relation::Differs(size) => Some(format!("the log of {size} records is another one")),
            // A process at work knows the end by itself, and writes the file again.
            Relation::Unknown => None,
        })
    };
    match look() {
        Err(Failure::Engine(error)) => Ok(Some(said(&error))),
        Err(Failure::Damaged(why)) => Ok(Some(why)),
        outcome => outcome,
    }
}

fn to_examine(path: &Path) -> Result<Connection, Failure> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

fn is_ours(connection: &Connection) -> bool {
    matches!(schema::read_version(connection), Ok(SchemaVersion::Present))
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Returns what breaks the log: its rows follow one another, and the latest ones and their pages can be read.
fn broken(connection: &Connection, depth: Depth) -> Result<Option<String>, Failure> {
    let look = || {
        let _reading = entries::reading(connection)?;
        // The probe reads the end of the log, too.
        probe(connection)?;
        if depth == Depth::Whole && bounds::file_size(connection)? <= SMALL {
            let said: String = connection.only("PRAGMA quick_check(1)", [])?;
            if said != "ok" {
                return Err(Failure::Damaged(said));
            }
        }
        let blocks = match depth {
            Depth::End => 1,
            Depth::Whole => LATEST,
        };
        // Not all blocks: their number grows with the store.
        for block in entries::latest_blocks(connection, blocks)? {
            if let entries::Relation::Unreadable(why) = block.relation(connection)? {
                return Err(Failure::Damaged(format!("{}: {why}", block.records())));
            }
        }
        Ok(())
    };
    match look() {
        Ok(()) => Ok(None),
        Err(Failure::Damaged(why)) => Ok(Some(why)),
        Err(Failure::Engine(error)) => Ok(Some(said(&error))),
        Err(failure) => Err(failure),
    }
}
