//! A digest in each row behind decisions and reports: states of origins, fetches and their counts, overrides.
//!
//! One flipped bit in a moment lifts a disallow, or hides the removal of an override. The engine keeps no check sums of
//! its pages, so each row carries the first half of the SHA-256 of all its columns. The digest has no key: every reader
//! of the store must be able to check it, and it finds accidental changes by a disk, a memory or a person. A process
//! that may write the file and wants to deceive could as well write the configuration; evidence is in the log,
//! which a key signs.
//!
//! A row that contradicts its digest is not used: an origin is asked anew, a fetch is left out, and with a damaged override
//! crawlgate does not start.

use aws_lc_rs::digest::{Context, SHA256};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, ToSql};

use super::engine::{Failure, Statements as _};

/// The tables with a digest in each row.
pub(super) const TABLES: [&str; 4] = ["origin", "fetch", "fetch_hourly", "override"];

/// Half a SHA-256: no accident produces another row with the same digest.
type Digest = [u8; 16];

/// The column with the digest.
const COLUMN: &str = "digest";

/// Returns the digest of a row without its last columns.
fn of_first(table: &str, row: &Row<'_>, without: usize) -> rusqlite::Result<Digest> {
    let mut context = Context::new(&SHA256);
    let mut add = |kind: u8, octets: &[u8]| {
        context.update(&[kind]);
        context.update(&(octets.len() as u64).to_be_bytes());
        context.update(octets);
    };
    add(b'T', table.as_bytes());
    let statement = row.as_ref();
    let columns = statement.column_count() - without;
    for place in 0..columns {
        let column = statement.column_name(place)?;
        if column == COLUMN {
            continue;
        }
        add(b'C', column.as_bytes());
        match row.get_ref(place)? {
            ValueRef::Null => add(b'n', &[]),
            ValueRef::Integer(integer) => add(b'i', &integer.to_be_bytes()),
            ValueRef::Real(real) => add(b'r', &real.to_bits().to_be_bytes()),
            ValueRef::Text(text) => add(b't', text),
            ValueRef::Blob(blob) => add(b'b', blob),
        }
    }
    let mut half = Digest::default();
    for (to, from) in half.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    Ok(half)
}

/// Tells whether a row, read with all its columns, is as it was written.
pub(super) fn holds(table: &str, row: &Row<'_>) -> rusqlite::Result<bool> {
    holds_of(table, row, 0)
}

fn holds_of(table: &str, row: &Row<'_>, without: usize) -> rusqlite::Result<bool> {
    let kept = match row.get_ref(COLUMN)? {
        ValueRef::Blob(blob) => Digest::try_from(blob).ok(),
        _ => None,
    };
    Ok(kept == Some(of_first(table, row, without)?))
}

/// Fails for a row that differs from the written one.
pub(super) fn require(table: &str, row: &Row<'_>) -> Result<(), Failure> {
    if holds(table, row)? {
        return Ok(());
    }
    Err(Failure::Damaged(format!("{table}: a row is not what was written")))
}

/// Writes the digest into the new row of a table for which `condition` holds.
pub(super) fn stamp(
    connection: &Connection,
    table: &str,
    condition: &str,
    params: &[&dyn ToSql],
) -> Result<(), Failure> {
    let text = format!("SELECT * FROM \"{table}\" WHERE {condition}");
    let digest = connection.first(&text, params, |row| Ok(of_first(table, row, 0)?))?;
    let place = params.len() + 1;
    let text = format!("UPDATE \"{table}\" SET {COLUMN} = ?{place} WHERE {condition}");
    let all: Vec<&dyn ToSql> = params.iter().copied().chain([&digest as _]).collect();
    connection.run(&text, &*all).map(drop)
}

/// Drops the damaged rows of a table and returns their number.
pub(super) fn drop_damaged(connection: &Connection, table: &str) -> Result<u64, Failure> {
    let (columns, condition) = key(table);
    let mut damaged = Vec::new();
    let width = columns.split(',').count();
    let text = format!("SELECT *, {columns} FROM \"{table}\"");
    connection.each(&text, [], |row| {
        if !holds_of(table, row, width)? {
            let all = row.as_ref().column_count();
            let names = (all - width..all).map(|at| row.get(at));
            damaged.push(names.collect::<Result<Vec<Value>, _>>()?);
        }
        Ok(())
    })?;
    let text = format!("DELETE FROM \"{table}\" WHERE {condition}");
    for names in &damaged {
        connection.run(&text, rusqlite::params_from_iter(names))?;
    }
    Ok(damaged.len() as u64)
}

/// Returns the columns that identify a row of a table.
fn key(table: &str) -> (&'static str, &'static str) {
    match table {
        "origin" => ("origin, identity", "origin = ?1 AND identity = ?2"),
        "fetch_hourly" => ("hour, result", "hour = ?1 AND result = ?2"),
        _ => ("number", "number = ?1"),
    }
}
