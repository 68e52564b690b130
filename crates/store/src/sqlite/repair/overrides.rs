//! Overrides that a rebuild cannot save. A lost denial lets requests through, so each is named.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::digests;
use super::super::error::Failure;
use super::super::rows::{integer, number};
use super::MAX_FAULTS;
use crawlgate_text::json::printable;

/// Reserves the numbers of the damaged store's overrides: records name overrides by their numbers.
pub(super) fn keep_numbers(source: &Connection, target: &Connection) -> Result<(), Failure> {
    let text = "SELECT seq FROM sqlite_sequence WHERE name = 'override'";
    // If it is unreadable, take the numbers of the saved ones.
    let Ok(last) = source.query_row(text, [], |row| row.get::<_, i64>(0)) else {
        return Ok(());
    };
    let known = target.query_row(text, [], |row| row.get::<_, i64>(0));
    let known = known.optional()?.unwrap_or_default();
    if last > known {
        target.execute("DELETE FROM sqlite_sequence WHERE name = 'override'", [])?;
        let add = "INSERT INTO sqlite_sequence (name, seq) VALUES ('override', ?1)";
        target.execute(add, params![last])?;
    }
    Ok(())
}

/// Returns the readable parts of damaged overrides, by their numbers.
pub(super) fn damaged(connection: &Connection) -> Result<BTreeMap<u64, String>, Failure> {
    let mut statement = connection.prepare("SELECT * FROM override ORDER BY number")?;
    let mut rows = statement.query([])?;
    let mut damaged = BTreeMap::new();
    while let Some(row) = rows.next()? {
        if digests::holds("override", row)? {
            continue;
        }
        let words = ["action", "origin", "pattern", "person"]
            .map(|column| row.get::<_, String>(column).unwrap_or_default());
        let [action, origin, pattern, person] = words.each_ref().map(|word| printable(word));
        damaged.insert(
            number(row.get("number")?),
            format!("it was damaged, and read {action} {origin} {pattern}, by {person}"),
        );
    }
    Ok(damaged)
}

/// Names the overrides that were added once and are missing.
pub(super) fn tell_lost(
    connection: &Connection,
    damaged: &BTreeMap<u64, String>,
    report: &mut Vec<String>,
) -> Result<(), Failure> {
    let text = "SELECT seq FROM sqlite_sequence WHERE name = 'override'";
    let last: Option<i64> = connection
        .query_row(text, [], |row| row.get(0))
        .optional()?;
    let count: i64 = connection.query_row("SELECT count(*) FROM override", [], |row| row.get(0))?;
    let last = number(last.unwrap_or_default());
    let lost = last.saturating_sub(number(count));
    let mut is_there = connection.prepare("SELECT 1 FROM override WHERE number = ?1")?;
    let mut named = 0;
    for one in 1..=last {
        if named >= lost.min(MAX_FAULTS.unsigned_abs()) {
            break;
        }
        if is_there.exists([integer(one)])? {
            continue;
        }
        named += 1;
        let what = damaged
            .get(&one)
            .map_or("nothing of it can be read", String::as_str);
        report.push(format!(
            "override {one}: {what}; it is not in force any more: if it is to hold, add it anew"
        ));
    }
    if lost > named {
        report.push(format!("override: and {} more", lost - named));
    }
    Ok(())
}
