//! The agreement of a database with the files beside it: its log, its sealing key and its state file.
//!
//! A kill leaves the latest records in the log alone. If the log is deleted, damaged or exchanged afterwards, or an older
//! copy takes the place of the database, the database still looks whole. The state file knows better
//! ([`state_file`](crate::store::state_file)).
//!
//! A missing record that was sealed, or a database that has lost all its records, is refused: a new record in such a
//! place would contradict a signature. Other losses (a power cut takes the latest records, too) are reported, and an
//! unsigned gap takes the place of the lost records, so that no number is given twice.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use tracing::{error, warn};

use super::error::{Failure, said};
use super::open::{beside, connect};
use super::rows::{integer, number};
use super::schema::{self, STEPS, Standing};
use super::{gaps, write};
use crate::clock::Moment;
use crate::store::state_file::{self, End, State};
use crate::store::{StoreError, StoreErrorKind, chain};

/// Records that are missing at the end of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Missing {
    /// The last record that the store holds.
    last: End,
    /// The last record that it once held.
    written: End,
    /// Time of the latest write.
    at: Moment,
    /// True if a missing record was sealed, or the store holds no record at all.
    is_refused: bool,
}

impl Missing {
    /// Returns the loss in words.
    pub(super) fn told(&self) -> String {
        let (from, to) = (self.last.0 + 1, self.written.0);
        format!(
            "decisions {from} to {to} are missing ({}), the last of them written at {}: the log beside the store (-wal) was \
             deleted or damaged, an older copy of the store was put in its place, or a power cut took them",
            to - self.last.0,
            crate::text::time_text(self.at),
        )
    }
}

/// The relation of a database to its state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// The database holds the records that the file names.
    Agrees,
    /// The database ends before a record that the file names.
    Misses(Missing),
    /// This record is another one than the file says.
    Differs(u64),
}

/// Compares a database with a state file that was read before, and written at `at`.
fn relation(connection: &Connection, state: &State, at: Moment) -> Result<Relation, Failure> {
    for (seq, hash) in [state.sealed, state.written] {
        let mut link = connection.prepare_cached("SELECT hash FROM decision WHERE seq = ?1")?;
        let link: Option<Vec<u8>> = link
            .query_row([integer(seq)], |row| row.get(0))
            .optional()?;
        if link.is_some_and(|link| link != hash) {
            return Ok(Relation::Differs(seq));
        }
    }
    let last = write::end(connection)?;
    if state.written.0 <= last.0 {
        return Ok(Relation::Agrees);
    }
    Ok(Relation::Misses(Missing {
        last,
        written: state.written,
        at,
        is_refused: last.0 == 0 || state.sealed.0 > last.0,
    }))
}

/// Compares a database with the state file beside it.
pub(super) fn look(connection: &Connection, path: &Path) -> Result<Relation, Failure> {
    match state_file::read(path)? {
        Some((state, at)) => relation(connection, &state, at),
        None => Ok(Relation::Agrees),
    }
}

/// Fails unless the database agrees with its key and its state file; notes a loss that is no contradiction.
pub(super) fn require(connection: &mut Connection, path: &Path) -> Result<(), Failure> {
    let state = state_file::read(path)?;
    require_key(connection, path, state.as_ref().map(|(state, _)| state))?;
    let Some((state, at)) = state else {
        if write::end(connection)?.0 > 0 && chain::key_file(path).exists() {
            warn!(
                file = %state_file::state_file(path).display(),
                "the state file of the store is gone and is made anew: whether the latest records are missing cannot be \
                 told"
            );
        }
        return Ok(());
    };
    match relation(connection, &state, at)? {
        Relation::Agrees => Ok(()),
        Relation::Misses(missing) if missing.is_refused && is_anothers_key(connection, path)? => {
            Err(foreign(path, missing.written.0))
        }
        Relation::Misses(missing) if missing.is_refused => Err(refused(format!(
            "{}: {}; bring back the log, or the store as it was; or let `crawlgate store rebuild` note the loss and go on \
             without them",
            path.display(),
            missing.told()
        ))),
        Relation::Misses(missing) => {
            let transaction = write::begin(connection)?;
            note(&transaction, &missing)?;
            transaction.commit()?;
            error!(
                "{}; the store goes on behind them, and `crawlgate audit verify --all` names them from now on",
                missing.told()
            );
            Ok(())
        }
        Relation::Differs(seq) => Err(foreign(path, seq)),
    }
}

/// Reports a state file of another store.
fn foreign(path: &Path, seq: u64) -> Failure {
    let (state, key) = (state_file::state_file(path), chain::key_file(path));
    let (state, key) = (state.display(), key.display());
    refused(format!(
        "{}: decision {seq} is not the one that {state} names: the store and the sealing key beside it are of different \
         stores, or the store was altered; bring back what belongs together; or move {state} and {key} away: a new key is \
         made then, and `crawlgate audit verify` needs the public half of the one that has sealed this store (--key)",
        path.display(),
    ))
}

/// Leaves an unsigned gap in the place of missing records.
pub(super) fn note(connection: &Connection, missing: &Missing) -> Result<(), Failure> {
    let Missing {
        last, written, at, ..
    } = *missing;
    let gap = chain::Gap {
        first: last.0 + 1,
        last: written.0,
        before: last.1,
        after: written.1,
        time: at,
        proof: None,
    };
    gaps::write(connection, &gap)
}

/// Fails if the sealing key beside the store is another store's.
fn require_key(connection: &Connection, path: &Path, state: Option<&State>) -> Result<(), Failure> {
    let file = chain::key_file(path);
    let is_anothers = match (state, chain::SealingKey::load(&file)) {
        // A missing key is told elsewhere, and so is an unreadable one.
        (_, Err(_)) => false,
        (Some(state), Ok(key)) => state.key != [0; 32] && state.key != key.public(),
        (None, Ok(_)) => is_anothers_key(connection, path)?,
    };
    if !is_anothers {
        return Ok(());
    }
    Err(refused(format!(
        "{}: this store was sealed by another key than {}; bring back its own key; or, if that is lost, move this one away: a \
         new key is made then, and `crawlgate audit verify` needs the public half of the lost one (--key)",
        path.display(),
        file.display(),
    )))
}

/// Tells whether the store is sealed, but never by the key beside it.
fn is_anothers_key(connection: &Connection, path: &Path) -> Result<bool, Failure> {
    let Ok(key) = chain::SealingKey::load(&chain::key_file(path)) else {
        return Ok(false);
    };
    let mut seals = connection.prepare("SELECT 1 FROM seal WHERE ?1 IS NULL OR key = ?1")?;
    Ok(seals.exists([None::<[u8; 32]>])? && !seals.exists([Some(key.public())])?)
}

fn refused(message: String) -> Failure {
    Failure::Told(StoreError {
        kind: StoreErrorKind::Corrupt,
        message,
    })
}

/// Octets of the smallest record, with its row.
const RECORD: u64 = 256;

/// Records at the end of the chain that are looked at in any case.
const LAST: u64 = 1_000;

/// Fails if the log beside a database is not its own: the engine would write such a log into the database. Reads alone,
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
    // All records that the log may hold, and the last ones before them.
    let Some(why) = broken(&connection, size(&log) / RECORD + LAST)? else {
        return Ok(());
    };
    Err(refused(format!(
        "{}: the store and {} do not belong together, or are damaged: {why}. If the store was brought back from a backup, move \
         that log away, or bring back the backup's own; otherwise `crawlgate store rebuild` saves the readable data",
        path.display(),
        log.display(),
    )))
}

/// Reads a database and its log as a process does that opens them now, and returns what is wrong with them.
pub(super) fn examine(path: &Path) -> Result<Option<String>, Failure> {
    let connection = to_examine(path)?;
    if !is_ours(&connection) {
        return Ok(Some("it is no store".to_owned()));
    }
    if let Some(why) = broken(&connection, LAST)? {
        return Ok(Some(why));
    }
    Ok(match look(&connection, path) {
        Ok(Relation::Agrees) => None,
        Ok(Relation::Misses(missing)) => Some(missing.told()),
        Ok(Relation::Differs(seq)) => Some(format!("decision {seq} is another one")),
        Err(Failure::Engine(error)) => Some(said(&error)),
        Err(failure) => return Err(failure),
    })
}

fn to_examine(path: &Path) -> Result<Connection, Failure> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(connection)
}

fn is_ours(connection: &Connection) -> bool {
    matches!(schema::standing(connection), Ok(Standing::Known(steps)) if steps == STEPS.len())
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Returns what breaks the chain among its last `most` records.
fn broken(connection: &Connection, most: u64) -> Result<Option<String>, Failure> {
    match hole(connection, most) {
        Ok(None) => Ok(None),
        Ok(Some((from, to))) => Ok(Some(format!("decisions {from} to {to} are in neither"))),
        Err(Failure::Engine(error)) => Ok(Some(said(&error))),
        Err(failure) => Err(failure),
    }
}

/// Returns the first records that are missing among the last `most` of the chain, where no gap says so.
fn hole(connection: &Connection, most: u64) -> Result<Option<(u64, u64)>, Failure> {
    let mut places = connection.prepare("SELECT seq FROM decision ORDER BY seq DESC LIMIT ?1")?;
    let mut noted = connection.prepare(
        "SELECT coalesce(sum(last - first + 1), 0) FROM gap WHERE first >= ?1 AND last <= ?2",
    )?;
    let mut rows = places.query([integer(most)])?;
    let mut later: Option<u64> = None;
    while let Some(row) = rows.next()? {
        let seq = number(row.get(0)?);
        if let Some(later) = later
            && seq + 1 < later
        {
            let (from, to) = (seq + 1, later - 1);
            let count: i64 = noted.query_row([integer(from), integer(to)], |row| row.get(0))?;
            if number(count) != to - seq {
                return Ok(Some((from, to)));
            }
        }
        later = Some(seq);
    }
    Ok(None)
}
