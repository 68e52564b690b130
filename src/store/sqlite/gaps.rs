//! Decisions taken out of the chain, at its front or between others that stay.
//!
//! The remaining decisions can be proven all the same. At the front, the next seal names the link with which the chain
//! begins. Between others, a signed gap names the links before and after it: the links up to it must be those that were
//! sealed, because the signature covers them. Adjacent gaps become one, so there are never more gaps than decisions.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::error::Failure;
use super::rows::{self, integer, number};
use super::write::{head, not_before_last, start};
use super::{hours, shares};
use crate::clock::Moment;
use crate::store::{Sha256, chain};

/// The parameters of a removal.
#[derive(Debug, Clone, Copy)]
pub(super) struct How<'k> {
    /// Younger decisions go only for lack of room.
    pub(super) keep: Option<Duration>,
    /// The key that signs the remaining chain.
    pub(super) key: &'k chain::SealingKey,
    /// Time of the step.
    pub(super) now: Moment,
}

/// A decision to be removed.
#[derive(Debug, Clone)]
pub(super) struct Going {
    /// Its place in the chain.
    pub(super) seq: u64,
    /// Its link.
    pub(super) hash: Sha256,
    /// The party that pays for its room.
    pub(super) party: i64,
    /// Octets of its room.
    pub(super) octets: u64,
    /// The robots.txt behind the decision.
    pub(super) sha256: Option<Sha256>,
}

/// Removes decisions, in the order of their places. The head of the chain must not be among them.
pub(super) fn take_out(
    transaction: &Transaction<'_>,
    going: &[Going],
    how: &How<'_>,
) -> Result<(), Failure> {
    let mut front = None;
    let mut seals = 0;
    for run in going.chunk_by(|one, next| one.seq + 1 == next.seq) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            continue;
        };
        transaction
            .prepare_cached("DELETE FROM decision WHERE seq BETWEEN ?1 AND ?2")?
            .execute([integer(first.seq), integer(last.seq)])?;
        // The chain goes on with the record behind the last one.
        let (to, link_after) = match following(transaction, last.seq + 1)? {
            Some(gap) => (gap.last, gap.after),
            None => (last.seq, last.hash),
        };
        let (from, link_before) = match preceding(transaction, first.seq)? {
            Some(before) => before,
            None => {
                front = Some((to + 1, link_after));
                seals += unseal(transaction, 0, to)?;
                transaction
                    .prepare_cached("DELETE FROM gap WHERE last <= ?1")?
                    .execute([integer(to)])?;
                continue;
            }
        };
        let now = not_before_last(transaction, how.now)?;
        let mut gap = how.key.gap(from, to, link_before, link_after, now);
        if link_before == chain::GENESIS {
            // An earlier gap here came from damage and has no signature, so the joint gap has none.
            gap.proof = None;
        }
        write(transaction, &gap)?;
        seals += unseal(transaction, from, to)?;
    }
    if front.is_some() {
        hours::prune(transaction)?;
    }
    if front.is_some() || seals > 0 {
        let (last, head) = head(transaction)?;
        let start = match front {
            Some(start) => start,
            None => start(transaction)?,
        };
        // The new gap repeats the facts of earlier seals at this place.
        unseal(transaction, last, last)?;
        let now = not_before_last(transaction, how.now)?;
        rows::write_seal(transaction, &how.key.seal(last, head, start, now))?;
    }
    settle(transaction, going)
}

/// Subtracts the decisions from their shares, and notes the texts that have lost a decision.
fn settle(transaction: &Transaction<'_>, going: &[Going]) -> Result<(), Failure> {
    let mut octets: BTreeMap<i64, u64> = BTreeMap::new();
    let mut loose = transaction.prepare_cached("INSERT OR IGNORE INTO leftover VALUES (?1, 0)")?;
    for one in going {
        *octets.entry(one.party).or_default() += one.octets;
        if let Some(sha256) = one.sha256 {
            loose.execute([sha256])?;
        }
    }
    for (party, octets) in octets {
        shares::take_off(transaction, party, octets)?;
    }
    Ok(())
}

/// Drops the seals of removed places: the next seal repeats their facts.
fn unseal(transaction: &Transaction<'_>, first: u64, last: u64) -> Result<usize, Failure> {
    let mut drop = transaction.prepare_cached("DELETE FROM seal WHERE seq BETWEEN ?1 AND ?2")?;
    Ok(drop.execute([integer(first), integer(last)])?)
}

/// Returns the start of the gap that will end right before `seq`, and the link before it; `None` at the front of the
/// chain. Joins the preceding gap to it.
fn preceding(transaction: &Transaction<'_>, seq: u64) -> Result<Option<(u64, Sha256)>, Failure> {
    let before = integer(seq.saturating_sub(1));
    let met: Option<(i64, Sha256)> = transaction
        .prepare_cached("DELETE FROM gap WHERE last = ?1 RETURNING first, link_before")?
        .query_row([before], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((first, link)) = met {
        return Ok(Some((number(first), link)));
    }
    let link: Option<Sha256> = transaction
        .prepare_cached("SELECT hash FROM decision WHERE seq = ?1")?
        .query_row([before], |row| row.get(0))
        .optional()?;
    if let Some(link) = link {
        return Ok(Some((seq, link)));
    }
    // Behind missing records the chain does not begin here, and their links are unknown.
    let is_front = !transaction
        .prepare_cached("SELECT 1 FROM decision WHERE seq < ?1")?
        .exists([integer(seq)])?;
    Ok((!is_front).then_some((seq, chain::GENESIS)))
}

/// Returns the gap that begins with `seq`, which becomes part of another.
fn following(transaction: &Transaction<'_>, seq: u64) -> Result<Option<chain::Gap>, Failure> {
    let Some(gap) = transaction
        .prepare_cached("SELECT * FROM gap WHERE first = ?1")?
        .query_and_then([integer(seq)], rows::gap)?
        .next()
        .transpose()?
    else {
        return Ok(None);
    };
    transaction
        .prepare_cached("DELETE FROM gap WHERE first = ?1")?
        .execute([integer(seq)])?;
    Ok(Some(gap))
}

/// Adds a gap.
pub(super) fn write(connection: &Connection, gap: &chain::Gap) -> Result<(), Failure> {
    let proof = gap.proof.as_ref();
    connection
        .prepare_cached("INSERT INTO gap VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
        .execute(params![
            integer(gap.first),
            integer(gap.last),
            gap.before,
            gap.after,
            rows::time(gap.time),
            proof.map(|proof| proof.signature),
            proof.map(|proof| proof.key),
        ])?;
    Ok(())
}

/// Returns the gaps that touch the records `from` to `to`, in order.
pub(super) fn between(
    connection: &Connection,
    from: u64,
    to: u64,
) -> Result<Vec<chain::Gap>, Failure> {
    let mut gaps = connection
        .prepare_cached("SELECT * FROM gap WHERE last >= ?1 AND first <= ?2 ORDER BY first")?;
    gaps.query_and_then([integer(from), integer(to)], rows::gap)?
        .collect()
}
