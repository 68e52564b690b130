//! The copy of the readable rows of each table, in their order, over the damage and back up to it from behind.

use std::cell::Cell;
use std::io::Read as _;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, MAIN_DB, OpenFlags, Statement, params_from_iter};

use super::super::engine::{Failure, Statements as _, number};
use super::super::entries::Frames;
use super::lenient;
use crawlgate_record::Entry;

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
const TABLES: [(&str, Key); 14] = [
    ("snapshot", Key::Number("number")),
    ("origin", Key::Text("origin")),
    ("fetch", Key::Number("number")),
    ("fetch_hourly", Key::Number("hour")),
    ("segment", Key::Number("number")),
    ("block", Key::Number("first")),
    ("tail", Key::Number("first")),
    ("checkpoint", Key::Number("size")),
    ("rotation", Key::Number("seq")),
    ("ahead", Key::Text("witness")),
    ("acknowledgement", Key::Number("seq")),
    ("object", Key::Text("sha256")),
    ("override", Key::Number("number")),
    ("leftover", Key::Text("sha256")),
];

/// The largest number that an override ever had.
pub(super) const LAST: &str = "SELECT seq FROM sqlite_sequence WHERE name = 'override'";

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

/// Copies the readable rows of each table.
pub(super) fn save(path: &Path, target: &mut Connection) -> Result<Vec<Saved>, Failure> {
    let source = lenient(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    target.pragma_update(None, "foreign_keys", false)?;
    let mut tables = Vec::new();
    for (table, key) in TABLES {
        let counted = source.only(&format!("SELECT count(*) FROM \"{table}\""), []);
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
    let version: Result<i64, _> = source.only("SELECT value FROM meta WHERE name = 'version'", []);
    let version = version.unwrap_or_default().saturating_add(1);
    target.run("UPDATE meta SET value = ?1 WHERE name = 'version'", [version])?;
    keep_numbers(&source, target)?;
    Ok(tables)
}

/// Tells whether the readable schema has a table.
fn is_known(source: &Connection, table: &str) -> bool {
    let text = format!("SELECT 1 FROM \"{table}\"");
    source.prepare(&text).is_ok()
}

/// Copies the readable rows of a table and returns their number.
fn copy(source: &Connection, target: &Connection, table: &str, key: Key) -> Result<u64, Failure> {
    let columns = columns_of(target, table)?;
    let marks = vec!["?"; columns.len()].join(", ");
    let (columns, column) = (columns.join(", "), key.column());
    let mut put = target
        .prepare(&format!("INSERT OR IGNORE INTO \"{table}\" ({columns}) VALUES ({marks})"))?;
    let count = Cell::new(0);
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
                    count.set(count.get() + put_row(&mut put, &values)?);
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
                        if let Some(next) = next_row(source, table, column, at) {
                            if table == "tail" {
                                count.set(count.get() + put_beginning(source, target, next)?);
                            }
                            (at, leap) = (next, 1);
                            continue;
                        }
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
    Ok(count.get())
}

/// Returns the names of a table's columns, quoted.
fn columns_of(connection: &Connection, table: &str) -> Result<Vec<String>, Failure> {
    let text = "SELECT name FROM pragma_table_info(?1)";
    connection.all(text, [table], |row| Ok(format!("\"{}\"", row.get::<_, String>(0)?)))
}

/// Puts a row into the new store; returns 0 if that refuses it: such a row is damaged, too.
fn put_row(put: &mut Statement<'_>, values: &[Value]) -> Result<u64, Failure> {
    match put.execute(params_from_iter(values)) {
        Ok(count) => Ok(count as u64),
        Err(error) => match Failure::from(error) {
            failure if failure.is_of_one_row() => Ok(0),
            // No room, for instance: that the row is lost would be wrong.
            failure => Err(failure),
        },
    }
}

/// Returns the number of the row behind `at`, if the page that begins the row can be read.
fn next_row(source: &Connection, table: &str, column: &str, at: i64) -> Option<i64> {
    let text = format!(
        "SELECT \"{column}\" FROM \"{table}\" WHERE \"{column}\" > ?1 ORDER BY \"{column}\" LIMIT 1"
    );
    source.only(&text, [at]).ok()
}

/// Puts the entries at the beginning of a row of the tail, of which the end cannot be read.
fn put_beginning(source: &Connection, target: &Connection, first: i64) -> Result<u64, Failure> {
    let facts = "SELECT count, min_time, max_time FROM tail WHERE first = ?1";
    let facts = source.query_row(facts, [first], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]));
    let (Ok([count, min, max]), octets) = (facts, beginning(source, first)) else {
        return Ok(0);
    };
    let readable = |entry: &&[u8]| Entry::read(entry).is_ok();
    let whole = Frames(&octets).map_while(Result::ok);
    let whole: Vec<&[u8]> = whole.take_while(readable).collect();
    let kept = i64::try_from(whole.len()).unwrap_or(count).min(count);
    if kept == 0 {
        return Ok(0);
    }
    // Each entry has its length in two octets before it.
    let end: usize = whole.iter().map(|entry| entry.len() + 2).sum();
    let entries = octets.get(..end).unwrap_or_default().to_vec();
    let numbers = [first, kept, min, max].map(Value::Integer);
    let mut put = target.prepare_cached(
        "INSERT OR IGNORE INTO tail (first, count, min_time, max_time, entries) VALUES (?, ?, ?, ?, ?)",
    )?;
    put_row(&mut put, &[&numbers[..], &[Value::Blob(entries)]].concat())
}

/// Returns the octets of a row's entries up to the first page that cannot be read.
fn beginning(source: &Connection, first: i64) -> Vec<u8> {
    let mut octets = Vec::new();
    let Ok(mut blob) = source.blob_open(MAIN_DB, "tail", "entries", first, true) else {
        return octets;
    };
    let mut part = [0; 512];
    while let Ok(count @ 1..) = blob.read(&mut part) {
        octets.extend_from_slice(part.get(..count).unwrap_or_default());
    }
    octets
}

/// Reserves the numbers of the damaged store's overrides: records name overrides by their numbers.
fn keep_numbers(source: &Connection, target: &Connection) -> Result<(), Failure> {
    // If it is unreadable, take the numbers of the saved ones.
    let Ok(last) = source.only::<i64>(LAST, []) else {
        return Ok(());
    };
    if last > target.value(LAST, [])?.unwrap_or_default() {
        target.run("DELETE FROM sqlite_sequence WHERE name = 'override'", [])?;
        let add = "INSERT INTO sqlite_sequence (name, seq) VALUES ('override', ?1)";
        target.run(add, [last])?;
    }
    Ok(())
}
