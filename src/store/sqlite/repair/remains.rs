//! The consistency of a rebuilt store: rows without their references go, and losses are noted.

use rusqlite::{Transaction, params};

use super::super::digests;
use super::super::error::Failure;
use super::super::gaps;
use super::super::objects;
use super::super::rows::{integer, number, time};
use super::copy::Saved;
use super::{evidence, overrides, wrong_texts};
use crate::clock::Moment;
use crate::store::filter::Head;
use crate::store::{Sha256, chain};
use crate::text::hex;

/// Drops saved rows without their references, and notes losses, so that the new store is consistent: `audit verify`
/// goes on reporting records that can no longer be proven. Adds repairs and losses to the report.
pub(super) fn drop_remains(
    target: &Transaction<'_>,
    tables: &mut [Saved],
    now: Moment,
) -> Result<Vec<String>, Failure> {
    let mut told = Vec::new();
    for number in wrong_texts(target)? {
        target.execute("DELETE FROM snapshot WHERE number = ?1", [number])?;
    }
    for sha256 in objects::wrong(target)? {
        target.execute("DELETE FROM object WHERE sha256 = ?1", [&sha256])?;
        told.push(format!(
            "object {}: it was not what its digest names",
            hex(sha256)
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
