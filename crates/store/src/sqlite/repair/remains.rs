//! The consistency of a rebuilt store: rows without their references go, and losses are noted. A lost denial lets requests
//! through, so each lost override is named.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction, params};

use super::super::engine::{Failure, Statements as _, integer, number, time};
use super::super::entries::Blocks;
use super::super::{digests, objects};
use super::copy::{LAST, Saved};
use super::{MAX_FAULTS, evidence, wrong_texts};
use crate::Sha256;
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_text::json::printable;

/// Drops saved rows without their references, and notes losses, so that the new store is consistent: `audit verify`
/// continues to report records that can no longer be proven. Tells repairs and losses, and returns whether the log is a new
/// one.
pub(super) fn drop_remains(
    target: &Transaction<'_>,
    tables: &mut [Saved],
    now: Moment,
    report: &mut Vec<String>,
) -> Result<bool, Failure> {
    // Objects name these texts, of which no row was saved.
    let text = "SELECT sha256 FROM snapshot WHERE bytes = 0 AND dropped = first_fetched AND dropped = last_fetched";
    target.each(text, [], |row| {
        let sha256: Sha256 = row.get(0)?;
        report.push(format!(
            "robots.txt {}: it is not here, and decisions may rest on it",
            hex(sha256)
        ));
        Ok(())
    })?;
    for number in wrong_texts(target)? {
        let text = "DELETE FROM snapshot WHERE number = ?1 RETURNING sha256";
        let sha256: Vec<u8> = target.only(text, [number])?;
        report.push(format!(
            "robots.txt {}: it was not what its digest names, and is lost",
            hex(sha256)
        ));
    }
    for sha256 in objects::wrong(target)? {
        target.run("DELETE FROM object WHERE sha256 = ?1", [&sha256])?;
        report.push(format!("object {}: it was not what its digest names", hex(sha256)));
    }
    objects::mend(target, now)?;
    let is_new = evidence::mend(target, now, report)?;
    evidence::note_lost(target, now, report)?;
    let damaged = damaged(target)?;
    for table in digests::TABLES {
        digests::drop_damaged(target, table)?;
    }
    // A state without its text is no state: the origin is fetched anew.
    target.execute_batch(
        "DELETE FROM origin WHERE sha256 IS NOT NULL AND sha256 NOT IN \
         (SELECT sha256 FROM snapshot WHERE dropped IS NULL);
         DELETE FROM fetch WHERE (origin, identity) NOT IN (SELECT origin, identity FROM origin);
         DELETE FROM leftover WHERE length(sha256) <> 32;",
    )?;
    tell_lost(target, &damaged, report)?;
    super::super::hours::recount(target, &Blocks::default())?;
    for saved in tables {
        let text = format!("SELECT count(*) FROM \"{}\"", saved.table);
        // A trigger adds rows for texts that are named and not there.
        let left = target.only(&text, []).map(number)?.min(saved.rows);
        let dropped = saved.rows - left;
        saved.rows = left;
        saved.lost = saved.lost.map(|lost| lost + dropped);
    }
    note_texts(target, now)?;
    super::super::robots::recount(target)?;
    Ok(is_new)
}

/// Leaves a row for each lost text that another row names, as for a dropped one.
fn note_texts(target: &Transaction<'_>, now: Moment) -> Result<(), Failure> {
    let lack = "INSERT INTO snapshot (sha256, bytes, body, first_fetched, last_fetched, last_named, dropped) \
                VALUES (?1, 0, x'', ?3, ?3, ?2, ?3)";
    let refer = "UPDATE snapshot SET last_named = max(last_named, ?2) WHERE sha256 = ?1";
    for text in [
        "SELECT DISTINCT sha256, 0 FROM fetch WHERE sha256 IS NOT NULL AND length(sha256) = 32",
        "SELECT names, used FROM object WHERE length(names) = 32",
    ] {
        target.each(text, [], |row| {
            let (sha256, named): (Sha256, i64) = (row.get(0)?, row.get(1)?);
            if target.run(refer, params![sha256, named])? == 0 {
                target.run(lack, params![sha256, named, time(now)])?;
            }
            Ok(())
        })?;
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
    let count = connection.only("SELECT count(*) FROM override", []).map(number)?;
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
        let what = damaged.get(&one).map_or("nothing of it can be read", String::as_str);
        report.push(format!(
            "override {one}: {what}; it is not in force any more: if it is to hold, add it anew"
        ));
    }
    if lost > named {
        report.push(format!("override: and {} more", lost - named));
    }
    Ok(())
}
