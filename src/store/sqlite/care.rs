//! What to do when the database is damaged: look how badly, and save what can be read.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, params_from_iter};
use rustix::fs::{FlockOperation, fcntl_lock};

use super::error::Failure;
use super::open::{beside, connect};
use super::rows::{integer, number};
use super::{open, read};
use crate::clock::Moment;
use crate::config::Synchronous;
use crate::store::{Access, Sha256, StoreError, StoreErrorKind, chain, failed};

/// Faults of the engine's own structure that are told one by one.
const MOST_FAULTS: i64 = 20;

/// Links of the chain that a check walks, back from its head; `crawlgate audit verify --all` walks all.
const LINKS: u64 = 10_000;

/// Looks the store at `path` over; what is wrong with it, a sentence for each, nothing if nothing is.
///
/// # Errors
/// When it cannot be opened at all.
pub fn check(path: &Path) -> Result<Vec<String>, StoreError> {
    open::require(path, Access::Read)?;
    let connection = open::reader(path)?;
    let mut faults = Vec::new();
    // What cannot be read to its end is told, too, and the next is looked at all the same.
    let looks: [Look; 4] = [structure, references, links, texts];
    for look in looks {
        if let Err(failure) = look(&connection, &mut faults) {
            let told = failure.at(path).message;
            if !faults.contains(&told) {
                faults.push(told);
            }
        }
    }
    Ok(faults)
}

/// Adds what is wrong in one respect.
type Look = fn(&Connection, &mut Vec<String>) -> Result<(), Failure>;

/// The engine's own look at its pages and indices.
fn structure(connection: &Connection, faults: &mut Vec<String>) -> Result<(), Failure> {
    let mut statement = connection.prepare(&format!("PRAGMA integrity_check({MOST_FAULTS})"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let said: String = row.get(0)?;
        if said != "ok" {
            faults.push(said);
        }
    }
    Ok(())
}

/// Rows that refer to rows that are not there.
fn references(connection: &Connection, faults: &mut Vec<String>) -> Result<(), Failure> {
    let mut statement = connection.prepare(
        "SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check GROUP BY \"table\", parent",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (table, parent, count): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        faults.push(format!(
            "{table}: {count} rows refer to a {parent} that is not there"
        ));
    }
    Ok(())
}

/// The end of the chain, its seals, and whether records are missing.
fn links(connection: &Connection, faults: &mut Vec<String>) -> Result<(), Failure> {
    let (first, _) = super::write::start(connection)?;
    let (last, _) = super::write::head(connection)?;
    if last == 0 {
        return Ok(());
    }
    let count: i64 = connection.query_row("SELECT count(*) FROM decision", [], |row| row.get(0))?;
    let missing = (last - first + 1).saturating_sub(number(count));
    if missing > 0 {
        faults.push(format!(
            "decision: {missing} between the first and the last are missing"
        ));
    }
    let mut link_of = connection.prepare("SELECT hash FROM decision WHERE seq = ?1")?;
    for seal in read::seals(connection)? {
        let link: Sha256 = match link_of.query_row([integer(seal.seq)], |row| row.get(0)) {
            Ok(link) => link,
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                faults.push(format!(
                    "seal: decision {} was sealed and is missing",
                    seal.seq
                ));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if !seal.is_genuine() {
            faults.push(format!(
                "seal: the one of decision {} is not genuine",
                seal.seq
            ));
        } else if link != seal.hash {
            let seq = seal.seq;
            faults.push(format!(
                "seal: the chain up to decision {seq} is not the one that was sealed"
            ));
        }
    }
    let from = last.saturating_sub(LINKS).max(first);
    let mut before: Option<Sha256> = None;
    let mut statement = connection
        .prepare("SELECT seq, record, hash FROM decision WHERE seq >= ?1 ORDER BY seq")?;
    let mut rows = statement.query([integer(from)])?;
    while let Some(row) = rows.next()? {
        let seq = number(row.get(0)?);
        let hash: Sha256 = row.get(2)?;
        let record = row.get_ref(1)?.as_bytes().unwrap_or_default();
        if before.is_some_and(|before| chain::link(&before, record) != hash) {
            faults.push(format!(
                "decision {seq}: it is not what the chain says it was"
            ));
        }
        before = Some(hash);
    }
    Ok(())
}

/// Whether each text is the one that its digest names.
fn texts(connection: &Connection, faults: &mut Vec<String>) -> Result<(), Failure> {
    let wrong = wrong_texts(connection)?;
    if !wrong.is_empty() {
        let count = wrong.len();
        faults.push(format!("snapshot: {count} are not what their digests name"));
    }
    Ok(())
}

/// Numbers of the texts that are not what their digests name.
fn wrong_texts(connection: &Connection) -> Result<Vec<i64>, Failure> {
    let mut wrong = Vec::new();
    let mut statement = connection.prepare("SELECT number, sha256 FROM snapshot")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (number, sha256): (i64, Sha256) = (row.get(0)?, row.get(1)?);
        let is_right = match read::snapshot(connection, sha256) {
            Ok(text) => text.is_some_and(|text| digest(&text) == sha256),
            Err(Failure::Damaged(_)) => false,
            Err(failure) => return Err(failure),
        };
        if !is_right {
            wrong.push(number);
        }
    }
    Ok(wrong)
}

fn digest(text: &[u8]) -> Sha256 {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text);
    digest.as_ref().try_into().unwrap_or_default()
}

/// What a rebuild has saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// What was saved, table by table.
    pub tables: Vec<Saved>,
    /// Where the damaged file lies now.
    pub aside: PathBuf,
}

/// What was saved of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The table.
    pub table: &'static str,
    /// Rows that are in the new store.
    pub rows: u64,
    /// Rows that are lost; `None` where the damage does not let them be counted.
    pub lost: Option<u64>,
}

/// A table, and the column that gives its order.
const TABLES: [(&str, Key); 9] = [
    ("snapshot", Key::Number("number")),
    ("origin", Key::Text("origin")),
    ("fetch", Key::Number("number")),
    ("decision", Key::Number("seq")),
    ("acknowledgement", Key::Number("seq")),
    ("policy", Key::Text("digest")),
    ("override", Key::Number("number")),
    ("seal", Key::Number("number")),
    ("leftover", Key::Text("sha256")),
];

#[derive(Clone, Copy)]
enum Key {
    Number(&'static str),
    Text(&'static str),
}

impl Key {
    fn column(self) -> &'static str {
        match self {
            Self::Number(column) | Self::Text(column) => column,
        }
    }
}

/// Saves what can be read of the store at `path` into a new one in its place, and keeps the damaged one beside it.
///
/// Records keep their places and links: where some are lost, the chain shows it.
///
/// # Errors
/// When another process has it open, nothing of it can be read, or the new one cannot be written. The store is as it
/// was then.
pub fn rebuild(path: &Path, now: Moment) -> Result<Rebuilt, StoreError> {
    let nothing_there = |_| StoreError {
        kind: StoreErrorKind::Missing,
        message: format!("{}: there is no store to rebuild", path.display()),
    };
    fs::metadata(path).map_err(nothing_there)?;
    refuse_company(path)?;
    let new = beside(path, ".rebuilding");
    remove(&new);
    let saved = salvage(path, &new).inspect_err(|_| remove(&new))?;
    let aside = beside(path, &format!(".damaged-{}", now.as_millis()));
    let moved = || -> io::Result<()> {
        for suffix in ["", "-wal"] {
            let (from, to) = (beside(path, suffix), beside(&aside, suffix));
            if suffix.is_empty() || from.exists() {
                fs::rename(from, to)?;
            }
        }
        // Of no use without its process.
        let _ = fs::remove_file(beside(path, "-shm"));
        fs::rename(&new, path)
    };
    moved().map_err(|error| failed(format!("{}: {error}", path.display())))?;
    Ok(Rebuilt {
        tables: saved,
        aside,
    })
}

/// Every process that has the database open holds a lock on part of it.
fn refuse_company(path: &Path) -> Result<(), StoreError> {
    let told = |error: io::Error| StoreError {
        kind: StoreErrorKind::Denied,
        message: format!(
            "{}: {error}; let this user read and write it",
            path.display()
        ),
    };
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(told)?;
    match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
        // Given back at once: the engine's own locks would be lost with it otherwise.
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Err(StoreError {
            kind: StoreErrorKind::Busy,
            message: format!(
                "{}: another process has the store open; end it first, or it goes on writing to the damaged one",
                path.display()
            ),
        }),
        // A file system without locks leaves it to the operator.
        Err(_) => Ok(()),
    }
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(beside(path, suffix)); // most often there is none
    }
}

fn salvage(path: &Path, new: &Path) -> Result<Vec<Saved>, StoreError> {
    let mut target = open::writer(new, Synchronous::Normal)?;
    let mut work = || -> Result<Vec<Saved>, Failure> {
        let source = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // Says early, and for all, that nothing can be read.
        source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        target.pragma_update(None, "foreign_keys", false)?;
        let mut tables = Vec::new();
        for (table, key) in TABLES {
            let counted =
                source.query_row(&format!("SELECT count(*) FROM \"{table}\""), [], |row| {
                    row.get::<_, i64>(0)
                });
            let transaction = target.transaction()?;
            let rows = copy(&source, &transaction, table, key)?;
            transaction.commit()?;
            let lost = counted.ok().map(|count| number(count).saturating_sub(rows));
            tables.push(Saved { table, rows, lost });
        }
        let version: i64 = source
            .query_row("SELECT value FROM meta WHERE name = 'version'", [], |row| {
                row.get(0)
            })
            .unwrap_or_default();
        target.execute(
            "UPDATE meta SET value = ?1 WHERE name = 'version'",
            [version + 1],
        )?;
        drop_remains(&target, &mut tables)?;
        target.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(tables)
    };
    let saved = work().map_err(|failure| failure.at(path))?;
    target
        .close()
        .map_err(|(_, error)| Failure::from(error).at(new))?;
    Ok(saved)
}

/// Copies the rows of a table that can be read; how many.
fn copy(source: &Connection, target: &Connection, table: &str, key: Key) -> Result<u64, Failure> {
    let mut columns = Vec::new();
    {
        let mut statement = target.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let mut rows = statement.query([table])?;
        while let Some(row) = rows.next()? {
            columns.push(format!("\"{}\"", row.get::<_, String>(0)?));
        }
    }
    let marks = vec!["?"; columns.len()].join(", ");
    let (columns, column) = (columns.join(", "), key.column());
    let mut put = target.prepare(&format!(
        "INSERT OR IGNORE INTO \"{table}\" ({columns}) VALUES ({marks})"
    ))?;
    let mut count = 0;
    let mut take = |text: &str, bounds: &[&Value]| -> Result<(Option<Value>, bool), Failure> {
        let mut statement = source.prepare(text)?;
        let width = statement.column_count();
        let mut rows = statement.query(params_from_iter(bounds))?;
        let mut last = None;
        loop {
            match rows.next() {
                Ok(Some(row)) => {
                    let values: Result<Vec<Value>, _> = (0..width).map(|at| row.get(at)).collect();
                    let Ok(mut values) = values else { continue };
                    last = values.pop();
                    // What the new one does not take is damaged, too.
                    count += put.execute(params_from_iter(values)).unwrap_or_default() as u64;
                }
                Ok(None) => return Ok((last, true)),
                Err(_) => return Ok((last, false)),
            }
        }
    };
    let select = format!("SELECT {columns}, \"{column}\" FROM \"{table}\"");
    let forth = format!("{select} WHERE \"{column}\" > ?1 ORDER BY \"{column}\"");
    let back = format!(
        "{select} WHERE \"{column}\" > ?1 AND \"{column}\" < ?2 ORDER BY \"{column}\" DESC"
    );
    match key {
        Key::Text(_) => {
            // Everything comes after the smallest integer, and nothing after an endless blob.
            let (last, whole) = take(&forth, &[&Value::Integer(i64::MIN)])?;
            if !whole {
                let last = last.unwrap_or(Value::Integer(i64::MIN));
                take(&back, &[&last, &Value::Blob(vec![0xff; 64])])?;
            }
        }
        Key::Number(_) => {
            let mut at = i64::MIN;
            let mut leap: i64 = 1;
            loop {
                let (last, whole) = take(&forth, &[&Value::Integer(at)])?;
                if whole {
                    break;
                }
                // Over the damage in ever longer leaps, and from where it ends back up to it.
                match last {
                    Some(Value::Integer(last)) => (at, leap) = (last, 1),
                    _ => {
                        at = at.max(0).saturating_add(leap);
                        leap = leap.saturating_mul(2);
                        let behind = Value::Integer(at.saturating_add(leap));
                        take(&back, &[&Value::Integer(at), &behind])?;
                        if at == i64::MAX {
                            break;
                        }
                        continue;
                    }
                }
            }
        }
    }
    Ok(count)
}

/// Drops what was saved without what it rests on.
fn drop_remains(target: &Connection, tables: &mut [Saved]) -> Result<(), Failure> {
    for number in wrong_texts(target)? {
        target.execute("DELETE FROM snapshot WHERE number = ?1", [number])?;
    }
    // A state without its text is no state: the origin is fetched anew.
    target.execute_batch(
        "DELETE FROM origin WHERE sha256 IS NOT NULL AND sha256 NOT IN (SELECT sha256 FROM snapshot);
         DELETE FROM fetch WHERE origin NOT IN (SELECT origin FROM origin);
         DELETE FROM acknowledgement WHERE seq NOT IN (SELECT seq FROM decision);",
    )?;
    for saved in tables {
        let text = format!("SELECT count(*) FROM \"{}\"", saved.table);
        let left = number(target.query_row(&text, [], |row| row.get(0))?);
        let dropped = saved.rows.saturating_sub(left);
        saved.rows = left;
        saved.lost = saved.lost.map(|lost| lost + dropped);
    }
    Ok(())
}
