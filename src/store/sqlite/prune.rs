//! What goes again, a little at a time: each step is one short transaction, so that whoever writes waits for some
//! milliseconds at most.
//!
//! Decisions go from the front, so that what is left is still a chain, and the seal that is made with it says where it
//! begins. Texts go when the last one that referred to them has gone: triggers note who has lost a reference, and a
//! step looks whether there is another.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::error::Failure;
use super::open::{LOG_SIZE, PATIENCE, beside};
use super::rows::{self, integer, number, time};
use super::write::{begin, head, not_before_last};
use crate::clock::Moment;
use crate::store::filter::Head;
use crate::store::{Pruned, Retention, Sha256, chain};

/// Decisions that one step looks at.
const DECISIONS: u64 = 250;

/// Texts that one step looks at.
const TEXTS: usize = 32;

/// Free pages that one step gives back to the file system.
const PAGES: i64 = 64;

/// See [`Store::prune`](crate::store::Store::prune).
pub(super) fn step(
    connection: &mut Connection,
    path: &Path,
    retention: Retention,
    key: &chain::SealingKey,
    now: Moment,
) -> Result<Pruned, Failure> {
    let excess = match retention.max_size {
        Some(most) => excess(connection, path, most)?,
        None => Excess::None,
    };
    let too_much = matches!(excess, Excess::Content);
    let transaction = begin(connection)?;
    let dropped = decisions(&transaction, retention.keep, too_much, key, now)?;
    let (looked_at, snapshots) = texts(&transaction, retention.keep, now)?;
    transaction.commit()?;
    let given_back = match excess {
        Excess::None | Excess::Held => 0,
        Excess::Room | Excess::Content => give_back(connection)?,
    };
    Ok(Pruned {
        decisions: dropped,
        snapshots,
        more: dropped == DECISIONS || looked_at == TEXTS || given_back > 0,
    })
}

/// Octets of the database and its log on disk.
pub(super) fn on_disk(connection: &Connection, path: &Path) -> Result<u64, Failure> {
    let text = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    let octets: i64 = connection
        .prepare_cached(text)?
        .query_row([], |row| row.get(0))?;
    Ok(number(octets) + log_size(path))
}

fn log_size(path: &Path) -> u64 {
    std::fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len())
}

/// Octets that the database would have without its free pages: what dropping something makes less at once.
fn content(connection: &Connection) -> Result<u64, Failure> {
    let text = "SELECT (page_count - freelist_count) * page_size \
                FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    let octets: i64 = connection
        .prepare_cached(text)?
        .query_row([], |row| row.get(0))?;
    Ok(number(octets))
}

/// What there is more of than may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excess {
    /// Nothing.
    None,
    /// Room on disk that holds nothing, or that the log takes for a while: nothing is dropped for it.
    Room,
    /// What is kept.
    Content,
    /// What is kept, but somebody reads who keeps the log from being carried over: whatever is dropped makes it longer.
    Held,
}

/// Looks what there is too much of. The log counts for nothing here: it grows with each page that is dropped, and is
/// bounded by other means.
fn excess(connection: &Connection, path: &Path, most: u64) -> Result<Excess, Failure> {
    if on_disk(connection, path)? <= most {
        return Ok(Excess::None);
    }
    // Who reads meanwhile keeps the log as it is: that is not waited for, the next step tries again.
    connection.busy_timeout(Duration::ZERO)?;
    let shortened = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    connection.busy_timeout(PATIENCE)?;
    shortened?;
    let log_is_long = log_size(path) > number(LOG_SIZE);
    Ok(match content(connection)? > most {
        true if log_is_long => Excess::Held,
        true => Excess::Content,
        false if on_disk(connection, path)? > most => Excess::Room,
        false => Excess::None,
    })
}

/// Drops the oldest decisions; how many.
fn decisions(
    transaction: &Transaction<'_>,
    keep: Option<Duration>,
    too_much: bool,
    key: &chain::SealingKey,
    now: Moment,
) -> Result<u64, Failure> {
    let (last, head) = head(transaction)?;
    let oldest_kept = keep.map_or(Moment::default(), |keep| now - keep);
    let mut gone: Option<(u64, Sha256)> = None;
    let mut count = 0;
    {
        let mut oldest = transaction
            .prepare_cached("SELECT seq, time, hash, record FROM decision ORDER BY seq LIMIT ?1")?;
        let mut loose =
            transaction.prepare_cached("INSERT OR IGNORE INTO leftover VALUES (?1, 0)")?;
        let mut rows = oldest.query([integer(DECISIONS)])?;
        while let Some(row) = rows.next()? {
            let seq = number(row.get(0)?);
            let at = Moment::from_millis(number(row.get(1)?));
            // One from the future is not old: whether its clock was wrong or ours is now, nobody can tell.
            let is_old = at < oldest_kept;
            // The head stays: the chain goes on from it.
            if seq == last || !(is_old || too_much) {
                break;
            }
            let record: String = row.get(3)?;
            if let Some(sha256) = Head::of(&record)?.sha256() {
                loose.execute([sha256])?;
            }
            gone = Some((seq, row.get(2)?));
            count += 1;
        }
    }
    let Some((seq, hash)) = gone else {
        return Ok(0);
    };
    transaction.execute("DELETE FROM decision WHERE seq <= ?1", [integer(seq)])?;
    super::hours::prune(transaction)?;
    // Seals of heads that are gone: their word is in the one that follows, which says what it begins with.
    transaction.execute("DELETE FROM seal WHERE seq <= ?1", [integer(seq)])?;
    let now = not_before_last(transaction, now)?;
    let seal = key.seal(last, head, (seq + 1, hash), now);
    rows::write_seal(transaction, &seal)?;
    Ok(count)
}

/// Drops texts that nobody refers to any more and that are old enough; how many were looked at, how many went.
fn texts(
    transaction: &Transaction<'_>,
    keep: Option<Duration>,
    now: Moment,
) -> Result<(usize, u64), Failure> {
    // Nothing goes, so nothing is looked at: what is noted stays noted.
    let Some(keep) = keep else {
        return Ok((0, 0));
    };
    let mut due = transaction
        .prepare_cached("SELECT sha256 FROM leftover WHERE due <= ?1 ORDER BY due LIMIT ?2")?;
    let due = due.query_map(params![time(now), TEXTS as i64], |row| row.get(0))?;
    let due: Vec<Sha256> = due.collect::<Result<_, _>>()?;
    let mut dropped = 0;
    for sha256 in &due {
        let mut look = transaction.prepare_cached(
            "SELECT last_fetched, EXISTS (SELECT 1 FROM origin WHERE origin.sha256 = snapshot.sha256) \
             OR EXISTS (SELECT 1 FROM fetch WHERE fetch.sha256 = snapshot.sha256) \
             OR last_decision >= (SELECT coalesce(min(seq), 1) FROM decision) AND last_decision > 0 \
             FROM snapshot WHERE sha256 = ?1",
        )?;
        let found = look.query_row([sha256], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, bool>(1)?))
        });
        let waits_until = match found.optional()? {
            // Whoever refers to it notes it again when that ends.
            None | Some((_, true)) => None,
            Some((fetched, false)) => {
                let due = Moment::from_millis(number(fetched)) + keep;
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

/// Gives free pages at the end of the file back; how many.
fn give_back(connection: &Connection) -> Result<i64, Failure> {
    let free = || connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
    let before = free()?;
    if before == 0 {
        return Ok(0);
    }
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({PAGES})"))?;
    let mut rows = statement.query([])?;
    // Each step of it gives back one page.
    while rows.next()?.is_some() {}
    Ok(before - free()?)
}
