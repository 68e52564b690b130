//! Overrides that a rebuild cannot save. A lost denial lets requests through, so each is named.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::super::digests;
use super::super::engine::{Failure, Statements as _, integer, number};
use super::MAX_FAULTS;
use crawlgate_text::json::printable;

/// The largest number that an override ever had.
const LAST: &str = "SELECT seq FROM sqlite_sequence WHERE name = 'override'";

/// Reserves the numbers of the damaged store's overrides: records name overrides by their numbers.
pub(super) fn keep_numbers(source: &Connection, target: &Connection) -> Result<(), Failure> {
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

/// Returns the readable parts of damaged overrides, by their numbers.
pub(super) fn damaged(connection: &Connection) -> Result<BTreeMap<u64, String>, Failure> {
    let mut damaged = BTreeMap::new();
    connection.each("SELECT * FROM override ORDER BY number", [], |row| {
        if digests::holds("override", row)? {
            return Ok(());
        }
        let words = ["action", "origin", "pattern", "person"]
            .map(|column| row.get::<_, String>(column).unwrap_or_default());
        let [action, origin, pattern, person] = words.each_ref().map(|word| printable(word));
        damaged.insert(
            number(row.get("number")?),
            format!("it was damaged, and read {action} {origin} {pattern}, by {person}"),
        );
        Ok(())
    })?;
    Ok(damaged)
}

/// Names the overrides that were added once and are missing.
pub(super) fn tell_lost(
    connection: &Connection,
    damaged: &BTreeMap<u64, String>,
    report: &mut Vec<String>,
) -> Result<(), Failure> {
    let last = connection.value(LAST, [])?.map_or(0, number);
    let count = connection
        .only("SELECT count(*) FROM override", [])
        .map(number)?;
    let lost = last.saturating_sub(count);
    let mut named = 0;
    for one in 1..=last {
        if named >= lost.min(MAX_FAULTS.unsigned_abs()) {
            break;
        }
        if connection.has("SELECT 1 FROM override WHERE number = ?1", [integer(one)])? {
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
