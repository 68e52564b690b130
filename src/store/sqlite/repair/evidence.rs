//! The chain, its seals and its gaps: checks and repairs.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::super::error::Failure;
use super::super::rows::{self, integer, number};
use super::super::write;
use super::links::{self, Doubt};
use super::{Faults, LINKS};
use crate::store::chain;

/// Finds gaps of the chain that contradict their neighbours.
pub(super) fn gaps(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let mut link_of = connection.prepare("SELECT hash FROM decision WHERE seq = ?1")?;
    let mut within = connection.prepare("SELECT 1 FROM decision WHERE seq BETWEEN ?1 AND ?2")?;
    let mut all = connection.prepare("SELECT * FROM gap ORDER BY first")?;
    let mut all = all.query([])?;
    while let Some(row) = all.next()? {
        let gap = match rows::gap(row) {
            Err(Failure::Damaged(what)) => {
                let first: i64 = row.get("first")?;
                let what = format!("gap: of the decisions from {first} on: {what}");
                faults.damaged.push(what);
                continue;
            }
            gap => gap?,
        };
        let (first, last) = (gap.first, gap.last);
        let tell = |what: &str| format!("gap: of the decisions {first} to {last}: {what}");
        if gap.proof.is_some() && !gap.is_genuine() {
            faults.damaged.push(tell("the signature is not genuine"));
        }
        if within.exists([integer(first), integer(last)])? {
            faults.damaged.push(tell("some are there all the same"));
        }
        let before: Option<Vec<u8>> = link_of
            .query_row([integer(first.saturating_sub(1))], |row| row.get(0))
            .optional()?;
        if gap.proof.is_some() && before.is_some_and(|before| before != gap.before) {
            let what = "the decision before them is not the one that was there";
            faults.altered.push(tell(what));
        }
    }
    Ok(())
}

/// Finds missing decisions.
pub(super) fn places(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let (first, _) = write::start(connection)?;
    let text = "SELECT count(*), coalesce(max(seq), 0) FROM decision";
    let (count, last) = connection.query_row(text, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let text = "SELECT coalesce(sum(last - first + 1), 0) FROM gap \
                WHERE first > (SELECT min(seq) FROM decision)";
    let dropped: i64 = connection.query_row(text, [], |row| row.get(0))?;
    let there = number(count).saturating_add(number(dropped));
    let missing = (number(last) + 1).saturating_sub(first.saturating_add(there));
    if missing > 0 {
        faults.damaged.push(format!(
            "decision: {missing} between the first and the last are missing"
        ));
    }
    Ok(())
}

/// Checks the end of the chain, and its seals.
pub(super) fn links(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let text = "SELECT coalesce(max(seq), 0) FROM decision";
    let last: i64 = connection.query_row(text, [], |row| row.get(0))?;
    let doubts = links::doubts(connection, number(last).saturating_sub(LINKS))?;
    for doubt in &doubts {
        match doubt {
            Doubt::Link { seq, .. } => faults.damaged.push(format!(
                "decision {seq}: its link is damaged; the chain proves what it was"
            )),
            Doubt::Unreadable { seq } => faults.damaged.push(format!(
                "decision {seq}: its link cannot be read, and nothing proves what it was"
            )),
            Doubt::Altered { seq } => faults.altered.push(format!(
                "decision {seq}: it is not what the chain says it was"
            )),
        }
    }
    seals(connection, &doubts, faults)
}

/// Finds seals that are unreadable, not genuine, or of other decisions than the stored ones.
fn seals(connection: &Connection, doubts: &[Doubt], faults: &mut Faults) -> Result<(), Failure> {
    let mut link_of = connection.prepare("SELECT hash FROM decision WHERE seq = ?1")?;
    let mut all = connection.prepare("SELECT * FROM seal ORDER BY number")?;
    let mut all = all.query([])?;
    while let Some(row) = all.next()? {
        let seal = match rows::seal(row) {
            Err(Failure::Damaged(what)) => {
                let seq: i64 = row.get("seq")?;
                let what = format!("seal: the one of decision {seq}: {what}");
                faults.damaged.push(what);
                continue;
            }
            seal => seal?,
        };
        let seq = seal.seq;
        if !seal.is_genuine() {
            let what = format!("seal: the one of decision {seq} is not genuine");
            faults.damaged.push(what);
            continue;
        }
        let link: Option<Vec<u8>> = link_of
            .query_row([integer(seq)], |row| row.get(0))
            .optional()?;
        match link {
            None => {
                let what = format!("seal: decision {seq} was sealed and is missing");
                faults.damaged.push(what);
            }
            // The check of links has reported a damaged link.
            Some(link)
                if link != seal.hash && !doubts.iter().any(|doubt| doubt.is_of_link(seq)) =>
            {
                let what =
                    format!("seal: the chain up to decision {seq} is not the one that was sealed");
                faults.altered.push(what);
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Drops seals and gaps that are unreadable or not genuine: they prove nothing.
pub(super) fn drop_unproven(
    target: &Transaction<'_>,
    told: &mut Vec<String>,
) -> Result<(), Failure> {
    let mut dropped = Vec::new();
    let mut seals = target.prepare("SELECT * FROM seal ORDER BY number")?;
    let mut rows = seals.query([])?;
    while let Some(row) = rows.next()? {
        if !rows::seal(row).is_ok_and(|seal| seal.is_genuine()) {
            let (number, seq): (i64, i64) = (row.get("number")?, row.get("seq")?);
            dropped.push(("DELETE FROM seal WHERE number = ?1", number));
            told.push(format!(
                "seal of decision {seq}: it was damaged and vouches for nothing any more"
            ));
        }
    }
    let mut gaps = target.prepare("SELECT * FROM gap ORDER BY first")?;
    let mut rows = gaps.query([])?;
    while let Some(row) = rows.next()? {
        let holds = |gap: &chain::Gap| gap.proof.is_none() || gap.is_genuine();
        if !rows::gap(row).is_ok_and(|gap| holds(&gap)) {
            let first: i64 = row.get("first")?;
            dropped.push(("DELETE FROM gap WHERE first = ?1", first));
            told.push(format!(
                "gap from decision {first} on: it was damaged, so nothing proves that retention made it"
            ));
        }
    }
    for (text, number) in dropped {
        target.execute(text, [number])?;
    }
    Ok(())
}

/// Restores the links that the chain proves, and drops decisions without a provable link. An altered decision stays as
/// it is: it is evidence.
pub(super) fn mend_links(target: &Transaction<'_>, told: &mut Vec<String>) -> Result<(), Failure> {
    for doubt in links::doubts(target, 0)? {
        match doubt {
            Doubt::Link { seq, proven } => {
                target.execute(
                    "UPDATE decision SET hash = ?2 WHERE seq = ?1",
                    params![integer(seq), proven],
                )?;
                told.push(format!(
                    "decision {seq}: its link was damaged; the chain proves what it was, and it is put back"
                ));
            }
            Doubt::Unreadable { seq } => {
                target.execute("DELETE FROM decision WHERE seq = ?1", [integer(seq)])?;
                told.push(format!(
                    "decision {seq}: its link cannot be read and nothing proves what it was, so it is not in the new \
                     store"
                ));
            }
            Doubt::Altered { .. } => {}
        }
    }
    Ok(())
}
