//! Removal of old data, a little at a time: each step is one short transaction, so that writers wait for some
//! milliseconds at most.
//!
//! Old data goes from the front. For lack of room, data goes client by client, see [`shares`](super::shares). A text
//! goes after its last reference: triggers note each lost reference, and a step looks whether another one is left.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::bounds::{self, Parts};
use super::error::Failure;
use super::gaps::{self, Going, How};
use super::open::LOG_SIZE;
use super::rows::{integer, number, time};
use super::write::{begin, head};
use super::{robots, shares};
use crate::clock::Moment;
use crate::store::filter::Head;
use crate::store::{Pruned, Retention, Sha256};

/// Decisions visited by one step.
const DECISIONS: u64 = 250;

/// Texts visited by one step.
const TEXTS: usize = 32;

/// Free pages that one step gives back to the file system.
const PAGES: i64 = 64;

/// An amount of dropped decisions.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// Number of decisions.
    pub(super) count: u64,
    /// Octets of their room.
    pub(super) octets: u64,
    /// Number of decisions younger than [`How::keep`].
    pub(super) early: u64,
    /// The party of the last of those.
    pub(super) of: Option<String>,
}

impl Dropped {
    pub(super) fn add(&mut self, more: Dropped) {
        self.count += more.count;
        self.octets += more.octets;
        self.early += more.early;
        self.of = more.of.or_else(|| self.of.take());
    }

    /// Returns the amounts for a report.
    pub(super) fn told(self) -> Pruned {
        Pruned {
            decisions: self.count,
            early: self.early,
            of: self.of,
            ..Pruned::default()
        }
    }
}

/// See [`Store::prune`](crate::store::Store::prune).
pub(super) fn step(
    connection: &mut Connection,
    path: &Path,
    retention: Retention,
    how: &How<'_>,
) -> Result<Pruned, Failure> {
    let bound = retention.max_size.map(|most| (most, Parts::of(most)));
    let is_held = match bound {
        Some((most, parts)) => is_held(connection, path, parts, most)?,
        None => false,
    };
    let transaction = begin(connection)?;
    let mut dropped = drop_old(&transaction, how)?;
    let mut origins = 0;
    if let (Some((_, parts)), false) = (bound, is_held) {
        origins = robots::make_room(&transaction, parts.robots, 0, how.now)?;
        let need = bounds::excess(&transaction, parts, 0)?;
        if need > 0 {
            dropped.add(drop_largest(&transaction, need, how)?);
        }
    }
    let (looked_at, snapshots) = texts(&transaction, retention.keep, how.now)?;
    transaction.commit()?;
    let mut given_back = 0;
    if let (Some((_, parts)), false) = (bound, is_held) {
        if bounds::file_size(connection)? > parts.content {
            given_back = give_back(connection)?;
        }
        bounds::shorten_log(connection, path, parts)?;
    }
    let most = bound.map_or(2 * number(LOG_SIZE), |(_, parts)| parts.log);
    Ok(Pruned {
        snapshots,
        origins,
        long_log: bounds::log_beyond(connection, path, most)?,
        more: dropped.count > 0 || origins > 0 || looked_at == TEXTS || given_back > 0,
        ..dropped.told()
    })
}

/// Tells whether the store exceeds its bound while a reader keeps the log from being carried over: every removal would
/// make the log longer.
fn is_held(connection: &Connection, path: &Path, parts: Parts, most: u64) -> Result<bool, Failure> {
    if bounds::on_disk(connection, path)? <= most {
        return Ok(false);
    }
    bounds::carry_over(connection)?;
    let is_long = bounds::log_size(path) > number(LOG_SIZE).max(parts.log);
    Ok(is_long && bounds::on_disk(connection, path)? > most)
}

/// Drops expired decisions, from the front.
fn drop_old(transaction: &Transaction<'_>, how: &How<'_>) -> Result<Dropped, Failure> {
    let Some(keep) = how.keep else {
        return Ok(Dropped::default());
    };
    let oldest_kept = how.now - keep;
    let mut oldest = transaction.prepare_cached(
        "SELECT seq, time, hash, party, record FROM decision ORDER BY seq LIMIT ?1",
    )?;
    let rows = oldest.query([integer(DECISIONS)])?;
    // A decision from the future is not old: either clock may be wrong.
    let going = read(transaction, rows, |_, at| at < oldest_kept)?;
    take_out(transaction, &going, how)
}

/// Drops the oldest decisions of the client that takes most, until `need` octets are free or the step is full.
pub(super) fn drop_largest(
    transaction: &Transaction<'_>,
    need: u64,
    how: &How<'_>,
) -> Result<Dropped, Failure> {
    // Mostly the first party has decisions to give; but its only one may be the head of the chain.
    for party in shares::by_size(transaction)? {
        let mut oldest = transaction.prepare_cached(
            "SELECT seq, time, hash, party, record FROM decision WHERE seq >= ?1 AND party = ?2 ORDER BY seq LIMIT ?3",
        )?;
        let rows = oldest.query([party.oldest, party.party, integer(DECISIONS)])?;
        let going = read(transaction, rows, |freed, _| freed < need)?;
        let Some((last, _)) = going.last() else {
            continue;
        };
        shares::move_on(transaction, party.party, last.seq + 1)?;
        let mut dropped = take_out(transaction, &going, how)?;
        if dropped.early > 0 {
            dropped.of = Some(party.name);
        }
        return Ok(dropped);
    }
    Ok(Dropped::default())
}

/// A decision to be removed, and its time.
type Old = (Going, Moment);

/// Reads decisions while `go` accepts them by the octets before them and by their time. The head of the chain stays:
/// the next link follows from it.
fn read(
    transaction: &Transaction<'_>,
    mut rows: rusqlite::Rows<'_>,
    go: impl Fn(u64, Moment) -> bool,
) -> Result<Vec<Old>, Failure> {
    let (last, _) = head(transaction)?;
    let (mut going, mut freed) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let seq = number(row.get(0)?);
        let at = Moment::from_millis(number(row.get(1)?));
        if seq == last || !go(freed, at) {
            break;
        }
        // A damaged decision goes as well; its text is looked at when another decision on it goes.
        let record = row.get_ref(4)?.as_str().unwrap_or_default();
        let octets = shares::octets_of(record.len() as u64);
        freed += octets;
        let one = Going {
            seq,
            hash: row.get(2)?,
            party: row.get(3)?,
            octets,
            sha256: Head::of(record).ok().and_then(|head| head.sha256()),
        };
        going.push((one, at));
    }
    Ok(going)
}

fn take_out(transaction: &Transaction<'_>, old: &[Old], how: &How<'_>) -> Result<Dropped, Failure> {
    let going: Vec<Going> = old.iter().map(|(going, _)| going.clone()).collect();
    if going.is_empty() {
        return Ok(Dropped::default());
    }
    gaps::take_out(transaction, &going, how)?;
    let oldest_kept = how.keep.map_or(Moment::default(), |keep| how.now - keep);
    let early = old.iter().filter(|(_, at)| *at >= oldest_kept).count();
    Ok(Dropped {
        count: going.len() as u64,
        octets: going.iter().map(|one| one.octets).sum(),
        early: early as u64,
        of: None,
    })
}

/// Drops texts that are old enough and without references. Returns the numbers of visited and of dropped texts.
fn texts(
    transaction: &Transaction<'_>,
    keep: Option<Duration>,
    now: Moment,
) -> Result<(usize, u64), Failure> {
    // With unlimited retention, drop only texts that are gone already; the notes on other texts stay.
    let mut due = transaction.prepare_cached(match keep {
        Some(_) => "SELECT sha256 FROM leftover WHERE due <= ?1 ORDER BY due LIMIT ?2",
        None => {
            "SELECT sha256 FROM leftover JOIN snapshot USING (sha256) WHERE due <= ?1 AND dropped IS NOT NULL LIMIT ?2"
        }
    })?;
    let due = due.query_map(params![time(now), TEXTS as i64], |row| row.get(0))?;
    let due: Vec<Sha256> = due.collect::<Result<_, _>>()?;
    let mut dropped = 0;
    for sha256 in &due {
        let mut look = transaction.prepare_cached(
            "SELECT last_fetched, dropped IS NOT NULL, \
             EXISTS (SELECT 1 FROM origin WHERE origin.sha256 = snapshot.sha256) \
             OR EXISTS (SELECT 1 FROM fetch WHERE fetch.sha256 = snapshot.sha256) \
             OR last_decision >= (SELECT coalesce(min(seq), 1) FROM decision) AND last_decision > 0 \
             FROM snapshot WHERE sha256 = ?1",
        )?;
        let found = look.query_row([sha256], |row| {
            Ok((row.get(0)?, row.get::<_, bool>(1)?, row.get::<_, bool>(2)?))
        });
        let waits_until = match found.optional()? {
            // The remaining reference notes the text again when it ends.
            None | Some((.., true)) => None,
            // The row of a dropped text holds nothing.
            Some((fetched, is_dropped, false)) => {
                let due = match (keep, is_dropped) {
                    (Some(keep), false) => Moment::from_millis(number(fetched)) + keep,
                    _ => now,
                };
                if due <= now {
                    transaction
                        .prepare_cached("DELETE FROM snapshot WHERE sha256 = ?1")?
                        .execute([sha256])?;
                    dropped += 1;
                    None
                } else {
                    Some(time(due))
                }
            }
        };
        match waits_until {
            None => transaction
                .prepare_cached("DELETE FROM leftover WHERE sha256 = ?1")?
                .execute([sha256])?,
            Some(due) => transaction
                .prepare_cached("UPDATE leftover SET due = ?2 WHERE sha256 = ?1")?
                .execute(params![sha256, due])?,
        };
    }
    Ok((due.len(), dropped))
}

/// Gives free pages at the end of the file back and returns their number.
fn give_back(connection: &Connection) -> Result<i64, Failure> {
    let free = || connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
    let before = free()?;
    if before == 0 {
        return Ok(0);
    }
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut rows = statement.query([])?;
    // Each step of the statement gives back one page.
    while rows.next()?.is_some() {}
    Ok(before - free()?)
}
