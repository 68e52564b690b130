//! Removal of old data, a little at a time: each step is one short transaction, so that writers wait for some
//! milliseconds at most.
//!
//! Entries go from the front, a block at once, when they are old or for lack of room, and none before it is shipped
//! ([`notes`](super::notes)). A text goes after its last reference: triggers note each lost reference, and a step looks
//! whether another one is left. A batch makes its own room before it is written ([`BatchRetention`]).

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Transaction, params};

use super::bounds::{Parts, excess};
use super::engine::{Failure, Statements as _, moment, number, time};
use super::entries::retention::Oldest;
use super::entries::{Blocks, extent, retention};
use super::file::LOG_SIZE;
use super::log::{Change, LogMemory};
use super::{bounds, fetches, hours, notes, objects, robots};
use crate::{Pruned, Retention, Sha256};
use crawlgate_record::{DropCause, EventKind};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::BUNDLE;

const DAY: Duration = Duration::from_secs(86_400);

/// Blocks dropped by one step.
const BLOCKS: usize = 8;

/// Texts visited by one step.
const TEXTS: usize = 32;

/// Blocks dropped at once to make room for a batch.
const AT_ONCE: usize = 16;

/// Free pages that one step gives back to the file system.
const PAGES: i64 = 64;

/// The parameters of a removal.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemovalParams {
    /// Younger entries go only for lack of room.
    pub(super) keep: Option<Duration>,
    /// Time of the step.
    pub(super) now: Moment,
}

/// See [`Store::prune`](crate::Store::prune).
pub(super) fn step(
    connection: &mut Connection,
    log: &mut LogMemory,
    path: &Path,
    retention: Retention,
    params: &RemovalParams,
) -> Result<Pruned, Failure> {
    let bound = retention.max_size.map(|most| (most, Parts::of(most)));
    let is_held = match bound {
        Some((most, parts)) => is_held(connection, path, parts, most)?,
        None => false,
    };
    let mut change = log.begin(connection)?;
    let mut dropped = drop_old(&mut change, log.blocks(), params)?;
    if let (Some((_, parts)), false) = (bound, is_held) {
        dropped.origins = robots::make_room(&change, parts.robots, 0, params.now)?;
        if bounds::excess(&change, parts, 0)? > 0 {
            dropped.add(drop_for_room(&mut change, log.blocks(), params)?);
        }
    }
    let oldest = retention::oldest_kept(&change)?.unwrap_or(params.now);
    let objects = objects::drop_unused(&change, oldest, params.now)?;
    let (looked_at, snapshots) = texts(&change, retention.keep, params.now)?;
    if dropped.decisions > 0 {
        hours::prune(&change, oldest)?;
        fetches::prune(&change, oldest)?;
    }
    log.commit(change)?;
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
        long_log: bounds::log_beyond(connection, path, most)?,
        more: dropped.decisions > 0
            || dropped.origins > 0
            || objects > 0
            || looked_at == TEXTS
            || given_back > 0,
        ..dropped
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

/// Drops blocks of which all entries have expired.
fn drop_old(
    change: &mut Change<'_>,
    blocks: &Blocks,
    params: &RemovalParams,
) -> Result<Pruned, Failure> {
    let mut dropped = Pruned::default();
    let Some(keep) = params.keep else {
        return Ok(dropped);
    };
    let oldest_kept = params.now - keep;
    fold_before(change, oldest_kept.max(params.now - DAY))?;
    let until = notes::shipped_until(change)?.unwrap_or(u64::MAX);
    for _ in 0..BLOCKS {
        let Some(oldest) = retention::oldest(change)? else {
            break;
        };
        // An entry from the future is not old: either clock may be wrong.
        if oldest.max_time >= oldest_kept {
            break;
        }
        if oldest.first + oldest.count > until {
            dropped.is_held = true;
            break;
        }
        dropped.add(drop_block(change, blocks, &oldest, params)?);
    }
    tell(change, &dropped, DropCause::Keep, params.now)?;
    Ok(dropped)
}

/// Turns entries of the tail that are older than `before` into blocks: a block goes as a whole, so it must not wait for
/// entries of another month.
fn fold_before(change: &mut Change<'_>, before: Moment) -> Result<(), Failure> {
    let text = "SELECT first FROM tail WHERE max_time >= ?1 ORDER BY first LIMIT 1";
    let young = change.value(text, [time(before)])?;
    change.fold(young.map_or(u64::MAX, number))
}

/// Drops the oldest block to make room. Without a block, the tail becomes blocks. Nothing goes that is not shipped.
pub(super) fn drop_for_room(
    change: &mut Change<'_>,
    blocks: &Blocks,
    params: &RemovalParams,
) -> Result<Pruned, Failure> {
    let until = notes::shipped_until(change)?;
    let mut oldest = retention::oldest(change)?;
    if oldest.is_none() {
        change.fold(until.unwrap_or(u64::MAX))?;
        oldest = retention::oldest(change)?;
    }
    let (first, size) = extent(change)?;
    let end = oldest.map_or(size, |oldest| oldest.first + oldest.count);
    // Fewer entries than a bundle stay in any case.
    if size - first >= BUNDLE && until.is_some_and(|until| end > until) {
        return Ok(Pruned {
            is_full: true,
            waits_for_checkpoint: notes::waits_for_checkpoint(change)?,
            ..Pruned::default()
        });
    }
    let Some(oldest) = oldest else {
        return Ok(Pruned::default());
    };
    let dropped = drop_block(change, blocks, &oldest, params)?;
    tell(change, &dropped, DropCause::Size, params.now)?;
    Ok(dropped)
}

fn drop_block(
    transaction: &Transaction<'_>,
    blocks: &Blocks,
    oldest: &Oldest,
    params: &RemovalParams,
) -> Result<Pruned, Failure> {
    let end = oldest.first + oldest.count;
    retention::drop_before(transaction, blocks, end)?;
    let oldest_kept = params.keep.map_or(Moment::default(), |keep| params.now - keep);
    let is_early = oldest.max_time >= oldest_kept;
    Ok(Pruned {
        decisions: oldest.count,
        early: if is_early { oldest.count } else { 0 },
        ..Pruned::default()
    })
}

/// Appends the entry that says what was dropped.
fn tell(
    change: &mut Change<'_>,
    dropped: &Pruned,
    cause: DropCause,
    now: Moment,
) -> Result<(), Failure> {
    if dropped.decisions == 0 {
        return Ok(());
    }
    let (index, _) = extent(change)?;
    change.event(now, EventKind::Dropped { index, cause })
}

/// Drops texts that are old enough and without references. Returns the numbers of visited and of dropped texts.
fn texts(
    transaction: &Transaction<'_>,
    keep: Option<Duration>,
    now: Moment,
) -> Result<(usize, u64), Failure> {
    // With unlimited retention, drop only texts that are gone already; the notes on other texts stay.
    let text = match keep {
        Some(_) => "SELECT sha256 FROM leftover WHERE due <= ?1 ORDER BY due LIMIT ?2",
        None => {
            "SELECT sha256 FROM leftover JOIN snapshot USING (sha256) WHERE due <= ?1 AND dropped IS NOT NULL LIMIT ?2"
        }
    };
    let most = [time(now), TEXTS as i64];
    let due: Vec<Sha256> = transaction.all(text, most, |row| Ok(row.get(0)?))?;
    let mut dropped = 0;
    for sha256 in &due {
        let text = "SELECT last_fetched, dropped IS NOT NULL, \
                    EXISTS (SELECT 1 FROM origin WHERE origin.sha256 = snapshot.sha256) \
                    OR EXISTS (SELECT 1 FROM fetch WHERE fetch.sha256 = snapshot.sha256) \
                    OR EXISTS (SELECT 1 FROM object WHERE object.names = snapshot.sha256) \
                    FROM snapshot WHERE sha256 = ?1";
        let found = transaction.first(text, [sha256], |row| {
            Ok((row.get(0)?, row.get::<_, bool>(1)?, row.get::<_, bool>(2)?))
        })?;
        let waits_until = match found {
            // The remaining reference notes the text again when it ends.
            None | Some((.., true)) => None,
            // The row of a dropped text holds nothing.
            Some((fetched, is_dropped, false)) => {
                let due = match (keep, is_dropped) {
                    (Some(keep), false) => moment(fetched) + keep,
                    _ => now,
                };
                if due <= now {
                    transaction.run("DELETE FROM snapshot WHERE sha256 = ?1", [sha256])?;
                    dropped += 1;
                    None
                } else {
                    Some(time(due))
                }
            }
        };
        match waits_until {
            None => transaction.run("DELETE FROM leftover WHERE sha256 = ?1", [sha256])?,
            Some(due) => transaction
                .run("UPDATE leftover SET due = ?2 WHERE sha256 = ?1", params![sha256, due])?,
        };
    }
    Ok((due.len(), dropped))
}

/// Gives free pages at the end of the file back and returns their number.
fn give_back(connection: &Connection) -> Result<i64, Failure> {
    let free = || connection.only::<i64>("PRAGMA freelist_count", []);
    let before = free()?;
    if before == 0 {
        return Ok(0);
    }
    // Each step of the statement gives back one page.
    let text = format!("PRAGMA incremental_vacuum({PAGES})");
    connection.each(&text, [], |_| Ok(()))?;
    Ok(before - free()?)
}

/// The latest request of maintenance: it bounds batches, too.
#[derive(Debug)]
pub(super) struct BatchRetention {
    retention: Retention,
    now: Moment,
    /// Amounts dropped by batches since the last maintenance step.
    dropped: Pruned,
}

impl BatchRetention {
    pub(super) fn new(retention: Retention, now: Moment) -> Self {
        Self { retention, now, dropped: Pruned::default() }
    }

    /// Returns the parts of a bounded store.
    pub(super) fn parts(&self) -> Option<Parts> {
        self.retention.max_size.map(Parts::of)
    }

    /// Adds the amounts that a batch has dropped, after its commit.
    pub(super) fn tell(&mut self, dropped: Pruned) {
        self.dropped.add(dropped);
    }

    /// Takes the amounts dropped since the last maintenance step.
    pub(super) fn take(&mut self) -> Pruned {
        std::mem::take(&mut self.dropped)
    }

    /// Drops as many of the oldest entries as `incoming` octets of new ones need.
    ///
    /// # Errors
    /// When they are not shipped yet. Nothing may be written then, as on a full disk.
    pub(super) fn make_room(
        &mut self,
        change: &mut Change<'_>,
        blocks: &Blocks,
        incoming: u64,
    ) -> Result<Pruned, Failure> {
        let mut gone = Pruned::default();
        let Some(parts) = self.parts() else {
            return Ok(gone);
        };
        for _ in 0..AT_ONCE {
            if excess(change, parts, incoming)? == 0 {
                break;
            }
            let params = RemovalParams { keep: self.retention.keep, now: self.now };
            let step = drop_for_room(change, blocks, &params)?;
            if step.is_full {
                self.dropped.add(step);
                return Err(notes::full());
            }
            if step.decisions == 0 {
                break;
            }
            gone.add(step);
        }
        Ok(gone)
    }
}
