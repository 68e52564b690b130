//! Saving the readable data of a damaged store into a new one.
//!
//! If not a row of any table is readable, only the schema may be damaged: a copy gets the schema pages of a new store,
//! and the rebuild tries once more.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction};
use rustix::fs::{FlockOperation, fcntl_lock};

use super::super::agree::{self, Relation};
use super::super::engine::{Failure, Statements as _};
use super::super::entries::Head;
use super::super::file::{PAGE, beside};
use super::super::notes;
use super::super::open;
use super::copy::{Saved, save};
use super::remains::drop_remains;
use super::{evidence, may_be_ours};
use crate::log_key::log_key_file;
use crate::state_file::{self, End, StateFile, state_file};
use crate::{Access, Records, StoreError, StoreErrorKind, failed};
use crawlgate_config::Synchronous;
use crawlgate_record::EventKind;
use crawlgate_system::clock::Moment;

/// The result of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The saved rows, table by table.
    pub tables: Vec<Saved>,
    /// Repairs, and the known losses.
    pub report: Vec<String>,
    /// The place of the damaged file.
    pub aside: PathBuf,
}

/// Saves the readable data of the store at `path` into a new one in its place, and keeps the damaged one beside it.
///
/// Records keep their places, or begin a new log, so that no signature is contradicted.
///
/// # Errors
/// When another process has the store open, none of it is readable, or the new one cannot be written. The store is then
/// unchanged.
pub fn rebuild(path: &Path, now: Moment) -> Result<Rebuilt, StoreError> {
    // The engine discards the log of an empty file, which may be all that is left.
    open::require(path, Access::Read)?;
    match open::reader(path) {
        Ok(connection) => {
            // A kind that cannot be read is damage, too.
            if let Err(refusal @ Failure::Store(_)) = notes::refuse_collected(&connection, path) {
                return Err(refusal.at(path));
            }
        }
        // A rebuild would lose the additions of a newer crawlgate.
        Err(error) if error.kind == StoreErrorKind::Newer => return Err(error),
        Err(error) if error.kind == StoreErrorKind::Corrupt && !may_be_ours(path) => {
            return Err(error);
        }
        Err(_) => {}
    }
    refuse_if_open(path)?;
    let new = sibling_path(path, "rebuilding");
    remove(&new);
    let salvaged = salvage(path, &new, now).inspect_err(|_| remove(&new));
    let (tables, report, new_log) = salvaged.map_err(|error| match error.kind {
        StoreErrorKind::Full => StoreError {
            message: format!(
                "{}: no room is left on the disk for the rebuilt store; make as much as the store takes; the store is as \
                 it was",
                path.display()
            ),
            ..error
        },
        _ => error,
    })?;
    let aside = sibling_path(path, &format!("damaged-{}", now.as_millis()));
    let moved = || -> io::Result<()> {
        for suffix in ["", "-wal"] {
            let (from, to) = (beside(path, suffix), beside(&aside, suffix));
            if suffix.is_empty() || from.exists() {
                fs::rename(from, to)?;
            }
        }
        // Nothing that the old key signs may contradict what it has signed: a new log gets a new key.
        for file in [log_key_file(path), state_file(path)] {
            if new_log.is_some() && file.exists() {
                fs::rename(&file, beside(&file, &format!(".damaged-{}", now.as_millis())))?;
            }
        }
        // Useless without its process.
        let _ = fs::remove_file(beside(path, "-shm"));
        fs::rename(&new, path)?;
        new_log.map_or(Ok(()), |end| StateFile::of(path).begin(end))
    };
    moved().map_err(|error| failed(format!("{}: {error}", path.display())))?;
    Ok(Rebuilt { tables, report, aside })
}

/// Fails while another process has the database open: such a process holds a lock on part of it.
pub(crate) fn refuse_if_open(path: &Path) -> Result<(), StoreError> {
    let error_of = |error: io::Error| {
        StoreErrorKind::Denied.at(path, format_args!("{error}; let this user read and write it"))
    };
    let file = File::options().read(true).write(true).open(path).map_err(error_of)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        // Given back at once: otherwise its end would release the engine's own locks, too.
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Err(StoreErrorKind::Busy.at(path,
            "another process has the store open; end it first, or it goes on writing to the damaged one"
        )),
        // On a file system without locks, the operator has to make sure.
        Err(_) => Ok(()),
    }
}

/// Returns the place of another store beside `path`. The names of its key and of its state file are others: those files
/// replace the extension of the store, and `store.damaged` would share them with `store`.
fn sibling_path(path: &Path, name: &str) -> PathBuf {
    let before = if path.extension().is_some() { '.' } else { '-' };
    beside(path, &format!("{before}{name}"))
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(beside(path, suffix)); // most often it is missing
    }
}

/// The saved rows, the report, and the end of the log if it is a new one.
type Salvaged = (Vec<Saved>, Vec<String>, Option<End>);

fn salvage(path: &Path, new: &Path, now: Moment) -> Result<Salvaged, StoreError> {
    let mut target = open::writer(new, Synchronous::Normal)?;
    let mut tables = save(path, &mut target).map_err(|failure| failure.at(path))?;
    if nothing_saved(&tables) {
        let mended = sibling_path(path, "mending");
        let again = mend(path, &target, new, &mended).and_then(|()| {
            tables = save(&mended, &mut target)?;
            Ok(())
        });
        remove(&mended);
        again.map_err(|failure| failure.at(path))?;
    }
    if nothing_saved(&tables) {
        return Err(not_salvageable(path));
    }
    let (mut report, mut new_log) = (Vec::new(), None);
    let mut last = || -> Result<(), Failure> {
        let transaction = target.transaction()?;
        for size in evidence::forged(&transaction, path)? {
            evidence::drop_checkpoint(&transaction, size, &mut report)?;
        }
        let is_new = drop_remains(&transaction, &mut tables, now, &mut report)?
            || note_missing(&transaction, path, now, &mut report)?;
        if is_new {
            let head = Head::read(&transaction)?;
            new_log = Some((head.size(), head.root()));
        }
        transaction.commit()?;
        target.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    };
    last().map_err(|failure| failure.at(path))?;
    target.close().map_err(|(_, error)| Failure::from(error).at(new))?;
    Ok((tables, report, new_log))
}

/// Notes records that are missing at the end. Returns whether the log is a new one from here on: a checkpoint has named
/// what is missing.
fn note_missing(
    target: &Transaction<'_>,
    path: &Path,
    now: Moment,
    report: &mut Vec<String>,
) -> Result<bool, Failure> {
    match agree::look(target, path) {
        Ok(Relation::Misses(missing)) => {
            report.push(missing.describe());
            if missing.is_refused() {
                evidence::rebuild_log(target, now, Some(missing.event()), report)?;
                return Ok(true);
            }
            // The next process that opens the store notes it.
        }
        Ok(Relation::Unknown) => report.push(state_file::gone(path)),
        Ok(_) => {}
        // A damaged state file names its own way out.
        Err(Failure::Store(error)) => report.push(error.message),
        Err(failure) => return Err(failure),
    }
    let Some((size, signed)) = evidence::beyond(target)? else {
        return Ok(false);
    };
    let records = Records::new(size + 1, signed);
    let are = records.are();
    report.push(format!("{records} {are} missing: a checkpoint covers more"));
    let at = now.as_millis();
    let missing = EventKind::Lost { count: signed - size, first: at, last: at, size: Some(signed) };
    evidence::rebuild_log(target, now, Some(missing), report)?;
    Ok(true)
}

/// Tells whether there were unreadable rows, and no readable one.
fn nothing_saved(tables: &[Saved]) -> bool {
    let lost = |saved: &Saved| saved.lost != Some(0);
    tables.iter().all(|saved| saved.rows == 0) && tables.iter().any(lost)
}

/// Copies the store to `mended` and replaces its schema pages by a new store's: they say at which page each table
/// begins, which is the same in all stores.
fn mend(path: &Path, target: &Connection, new: &Path, mended: &Path) -> Result<(), Failure> {
    target.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let text = "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'";
    let schema: Vec<i64> = target.all(text, [], |row| Ok(row.get(0)?))?;
    let copied = || -> io::Result<()> {
        remove(mended);
        fs::copy(path, mended)?;
        if let log = beside(path, "-wal")
            && log.exists()
        {
            fs::copy(log, beside(mended, "-wal"))?;
        }
        let (from, to) = (File::open(new)?, File::options().write(true).open(mended)?);
        let mut page = vec![0; PAGE.unsigned_abs() as usize];
        for number in schema {
            let place = number.saturating_sub(1).unsigned_abs() * page.len() as u64;
            from.read_exact_at(&mut page, place)?;
            // The engine finds the number of pages by itself if the header has none.
            if place == 0
                && let Some(pages) = page.get_mut(28..32)
            {
                pages.fill(0);
            }
            to.write_all_at(&page, place)?;
        }
        Ok(())
    };
    let error_of = |error| failed(format!("{}: {error}", mended.display()));
    copied().map_err(|error| error_of(error).into())
}

/// Reports that nothing can be saved, and the way out.
fn not_salvageable(path: &Path) -> StoreError {
    let key = log_key_file(path);
    let beside_it = [beside(path, "-wal"), key, state_file(path)];
    let beside_it = beside_it.iter().filter(|file| file.exists());
    let beside_it: Vec<_> = beside_it.map(|file| file.display().to_string()).collect();
    let them = match beside_it.as_slice() {
        [] => "it".to_owned(),
        files => format!("it and {}", files.join(" and ")),
    };
    StoreErrorKind::Corrupt.at(path, format_args!(
        "nothing of the store can be read; bring back a copy of it, or move {them} away to begin anew"
    ))
}
