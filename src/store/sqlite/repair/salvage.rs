//! Saving the readable data of a damaged store into a new one.
//!
//! The rebuild copies table by table, in the order of its rows, over the damage, and back up to it from behind. If not
//! a row of any table is readable, only the schema may be damaged: a copy gets the schema pages of a new store, and the
//! rebuild tries once more.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Transaction, params, params_from_iter};
use rustix::fs::{FlockOperation, fcntl_lock};

use super::super::digests;
use super::super::error::Failure;
use super::super::gaps;
use super::super::open::{self, PAGE, beside};
use super::super::rows::{integer, number, time};
use super::{evidence, lenient, may_be_ours, overrides, wrong_settings, wrong_texts};
use crate::clock::Moment;
use crate::config::Synchronous;
use crate::store::filter::Head;
use crate::store::{Access, Sha256, StoreError, StoreErrorKind, chain, failed};
use crate::text::json::printable;

/// The result of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// The saved rows, table by table.
    pub tables: Vec<Saved>,
    /// Repairs, and the known losses.
    pub told: Vec<String>,
    /// The place of the damaged file.
    pub aside: PathBuf,
}

/// The saved rows of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The table.
    pub table: &'static str,
    /// Rows in the new store.
    pub rows: u64,
    /// Lost rows; `None` if the damage prevents a count.
    pub lost: Option<u64>,
}

/// A table, and the column that gives its order.
const TABLES: [(&str, Key); 10] = [
    ("snapshot", Key::Number("number")),
    ("origin", Key::Text("origin")),
    ("fetch", Key::Number("number")),
    ("decision", Key::Number("seq")),
    ("acknowledgement", Key::Number("seq")),
    ("policy", Key::Text("digest")),
    ("override", Key::Number("number")),
    ("seal", Key::Number("number")),
    ("gap", Key::Number("first")),
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

/// Saves the readable data of the store at `path` into a new one in its place, and keeps the damaged one beside it.
///
/// Records keep their places and links, so the chain shows any loss.
///
/// # Errors
/// When another process has the store open, none of it is readable, or the new one cannot be written. The store is then
/// unchanged.
pub fn rebuild(path: &Path, now: Moment) -> Result<Rebuilt, StoreError> {
    // The engine discards the log of an empty file, which may be all that is left.
    open::require(path, Access::Read)?;
    match open::reader(path) {
        // A rebuild would lose the additions of a newer crawlgate.
        Err(error) if error.kind == StoreErrorKind::Newer => return Err(error),
        Err(error) if error.kind == StoreErrorKind::Corrupt && !may_be_ours(path) => {
            return Err(error);
        }
        _ => {}
    }
    refuse_company(path)?;
    let new = beside(path, ".rebuilding");
    remove(&new);
    let (tables, told) = salvage(path, &new, now).inspect_err(|_| remove(&new))?;
    let aside = beside(path, &format!(".damaged-{}", now.as_millis()));
    let moved = || -> io::Result<()> {
        for suffix in ["", "-wal"] {
            let (from, to) = (beside(path, suffix), beside(&aside, suffix));
            if suffix.is_empty() || from.exists() {
                fs::rename(from, to)?;
            }
        }
        // Useless without its process.
        let _ = fs::remove_file(beside(path, "-shm"));
        fs::rename(&new, path)
    };
    moved().map_err(|error| failed(format!("{}: {error}", path.display())))?;
    Ok(Rebuilt {
        tables,
        told,
        aside,
    })
}

/// Fails while another process has the database open: such a process holds a lock on part of it.
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
        // Given back at once: otherwise its end would release the engine's own locks, too.
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Err(StoreError {
            kind: StoreErrorKind::Busy,
            message: format!(
                "{}: another process has the store open; end it first, or it goes on writing to the damaged one",
                path.display()
            ),
        }),
        // On a file system without locks, the operator has to make sure.
        Err(_) => Ok(()),
    }
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(beside(path, suffix)); // most often there is none
    }
}

fn salvage(path: &Path, new: &Path, now: Moment) -> Result<(Vec<Saved>, Vec<String>), StoreError> {
    let mut target = open::writer(new, Synchronous::Normal)?;
    let mut tables = save(path, &mut target).map_err(|failure| failure.at(path))?;
    if nothing_saved(&tables) {
        let mended = beside(path, ".mending");
        let again = mend(path, &target, new, &mended).and_then(|()| {
            tables = save(&mended, &mut target)?;
            Ok(())
        });
        remove(&mended);
        again.map_err(|failure| failure.at(path))?;
    }
    if nothing_saved(&tables) {
        return Err(nothing_left(path));
    }
    let mut told = Vec::new();
    let mut last = || -> Result<(), Failure> {
        let transaction = target.transaction()?;
        told = drop_remains(&transaction, &mut tables, now)?;
        transaction.commit()?;
        target.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    };
    last().map_err(|failure| failure.at(path))?;
    target
        .close()
        .map_err(|(_, error)| Failure::from(error).at(new))?;
    Ok((tables, told))
}

/// Tells whether there were unreadable rows, and no readable one.
fn nothing_saved(tables: &[Saved]) -> bool {
    let lost = |saved: &Saved| saved.lost != Some(0);
    tables.iter().all(|saved| saved.rows == 0) && tables.iter().any(lost)
}

/// Copies the readable rows of each table.
fn save(path: &Path, target: &mut Connection) -> Result<Vec<Saved>, Failure> {
    let source = lenient(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    target.pragma_update(None, "foreign_keys", false)?;
    let mut tables = Vec::new();
    for (table, key) in TABLES {
        let count = format!("SELECT count(*) FROM \"{table}\"");
        let counted = source.query_row(&count, [], |row| row.get::<_, i64>(0));
        let transaction = target.transaction()?;
        // A damaged place in the schema makes even preparing a statement fail.
        let rows = match counted {
            Err(_) if !is_known(&source, table) => 0,
            _ => copy(&source, &transaction, table, key)?,
        };
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
        [version.saturating_add(1)],
    )?;
    overrides::keep_numbers(&source, target)?;
    Ok(tables)
}

/// Copies the store to `mended` and replaces its schema pages by a new store's: they say at which page each table
/// begins, which is the same in all stores.
fn mend(path: &Path, target: &Connection, new: &Path, mended: &Path) -> Result<(), Failure> {
    target.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let mut schema = target.prepare("SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'")?;
    let schema = schema.query_map([], |row| row.get::<_, i64>(0))?;
    let schema = schema.collect::<rusqlite::Result<Vec<i64>>>()?;
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
    let told = |error| failed(format!("{}: {error}", mended.display()));
    copied().map_err(|error| told(error).into())
}

/// Tells whether the readable schema has a table.
fn is_known(source: &Connection, table: &str) -> bool {
    let text = format!("SELECT 1 FROM \"{table}\"");
    source.prepare(&text).is_ok()
}

/// Reports that nothing can be saved, and the way out.
fn nothing_left(path: &Path) -> StoreError {
    let key = chain::key_file(path);
    let beside_it = [beside(path, "-wal"), key];
    let beside_it = beside_it.iter().filter(|file| file.exists());
    let beside_it: Vec<_> = beside_it.map(|file| file.display().to_string()).collect();
    let them = match beside_it.as_slice() {
        [] => "it".to_owned(),
        files => format!("it and {}", files.join(" and ")),
    };
    StoreError {
        kind: StoreErrorKind::Corrupt,
        message: format!(
            "{}: nothing of the store can be read; bring back a copy of it, or move {them} away to begin anew",
            path.display()
        ),
    }
}

/// Copies the readable rows of a table and returns their number.
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
                    // A row that the new store refuses is damaged, too.
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
                // Leap over the damage in ever longer steps, and from its end go back up to it.
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

/// Drops saved rows without their references, and notes losses, so that the new store is consistent: `audit verify`
/// goes on reporting records that can no longer be proven. Adds repairs and losses to the report.
fn drop_remains(
    target: &Transaction<'_>,
    tables: &mut [Saved],
    now: Moment,
) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for number in wrong_texts(target)? {
        target.execute("DELETE FROM snapshot WHERE number = ?1", [number])?;
    }
    for digest in wrong_settings(target)? {
        target.execute("DELETE FROM policy WHERE digest = ?1", [&digest])?;
        told.push(format!(
            "policy {}: the settings were not what their digest names",
            printable(&digest)
        ));
    }
    evidence::drop_unproven(target, &mut told)?;
    evidence::mend_links(target, &mut told)?;
    let damaged = overrides::damaged(target)?;
    for table in digests::TABLES {
        digests::drop_damaged(target, table)?;
    }
    // A state without its text is no state: the origin is fetched anew.
    target.execute_batch(
        "DELETE FROM origin WHERE sha256 IS NOT NULL AND sha256 NOT IN \
         (SELECT sha256 FROM snapshot WHERE dropped IS NULL);
         DELETE FROM fetch WHERE (origin, identity) NOT IN (SELECT origin, identity FROM origin);
         DELETE FROM acknowledgement WHERE seq NOT IN (SELECT seq FROM decision);
         DELETE FROM leftover WHERE length(sha256) <> 32;",
    )?;
    overrides::tell_lost(target, &damaged, &mut told)?;
    note_texts(target, now)?;
    note_gaps(target, now)?;
    super::super::hours::recount(target)?;
    super::super::shares::recount(target)?;
    super::super::robots::recount(target)?;
    for saved in tables {
        let text = format!("SELECT count(*) FROM \"{}\"", saved.table);
        let left = number(target.query_row(&text, [], |row| row.get(0))?);
        let dropped = saved.rows.saturating_sub(left);
        saved.rows = left;
        saved.lost = saved.lost.map(|lost| lost + dropped);
    }
    Ok(told)
}

/// Leaves a row for each lost text that another row names, as for a dropped one.
fn note_texts(target: &Transaction<'_>, now: Moment) -> Result<(), Failure> {
    let mut lack = target.prepare(
        "INSERT INTO snapshot (sha256, bytes, body, first_fetched, last_fetched, last_decision, dropped) \
         VALUES (?1, 0, x'', ?3, ?3, ?2, ?3)",
    )?;
    let mut refer = target
        .prepare("UPDATE snapshot SET last_decision = max(last_decision, ?2) WHERE sha256 = ?1")?;
    let mut name = |sha256: Sha256, seq: i64| -> Result<(), Failure> {
        if refer.execute(params![sha256, seq])? == 0 {
            lack.execute(params![sha256, seq, time(now)])?;
        }
        Ok(())
    };
    let mut fetched = target.prepare(
        "SELECT DISTINCT sha256 FROM fetch WHERE sha256 IS NOT NULL AND length(sha256) = 32",
    )?;
    let mut rows = fetched.query([])?;
    while let Some(row) = rows.next()? {
        name(row.get(0)?, 0)?;
    }
    let mut decisions = target.prepare("SELECT seq, record FROM decision ORDER BY seq")?;
    let mut rows = decisions.query([])?;
    // Most decisions rest on the same text as the previous one.
    let mut before: Option<(Sha256, i64)> = None;
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        let record = row.get_ref(1)?.as_str().unwrap_or_default();
        let Some(sha256) = Head::of(record).ok().and_then(|head| head.sha256()) else {
            continue;
        };
        if let Some((text, last)) = before
            && text != sha256
        {
            name(text, last)?;
        }
        before = Some((sha256, seq));
    }
    if let Some((text, last)) = before {
        name(text, last)?;
    }
    Ok(())
}

/// Leaves an unsigned gap in place of lost decisions. Seals of lost decisions prove nothing any more.
fn note_gaps(target: &Transaction<'_>, now: Moment) -> Result<(), Failure> {
    target.execute_batch(
        "DELETE FROM gap WHERE last < first OR EXISTS (SELECT 1 FROM decision WHERE seq BETWEEN first AND last)
             OR first < (SELECT coalesce(min(seq), 0) FROM decision)
             OR last > (SELECT coalesce(max(seq), 0) FROM decision);
         DELETE FROM seal WHERE seq NOT IN (SELECT seq FROM decision)",
    )?;
    let mut there = target.prepare(
        "SELECT seq, seq, hash FROM decision UNION ALL SELECT first, last, link_after FROM gap ORDER BY 1",
    )?;
    let mut rows = there.query([])?;
    let mut lost = Vec::new();
    let mut before: Option<(u64, Sha256)> = None;
    while let Some(row) = rows.next()? {
        let (first, last) = (number(row.get(0)?), number(row.get(1)?));
        if let Some((end, link)) = before
            && end + 1 < first
        {
            lost.push(chain::Gap {
                first: end + 1,
                last: first - 1,
                before: link,
                after: chain::GENESIS,
                time: now,
                proof: None,
            });
        }
        before = Some((last, row.get(2)?));
    }
    for gap in &lost {
        gaps::write(target, gap)?;
    }
    // If the front of the chain is lost, the chain begins somewhere else, and no seal can say so.
    let first: Option<i64> =
        target.query_row("SELECT min(seq) FROM decision", [], |row| row.get(0))?;
    if let Some(first) = first.map(number).filter(|first| *first > 1) {
        let is_known = target
            .prepare("SELECT 1 FROM seal WHERE start_seq = ?1")?
            .exists([integer(first)])?;
        if !is_known {
            gaps::write(
                target,
                &chain::Gap {
                    first: 1,
                    last: first - 1,
                    before: chain::GENESIS,
                    after: chain::GENESIS,
                    time: now,
                    proof: None,
                },
            )?;
        }
    }
    Ok(())
}
