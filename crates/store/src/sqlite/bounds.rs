//! The room of each part of a bounded store.
//!
//! Each part has its own room. States of origins never take the room of decisions: robots.txt texts make room
//! only for newer ones. The file grows page by page and does not shrink by itself, and crawlers write faster than
//! maintenance runs, so each batch makes its room before it is written ([`BatchRetention`](super::prune::BatchRetention)).
//!
//! The engine carries the write-ahead log over at a commit, and says nothing when that fails: the log would grow until the
//! disk is full. So a log that has grown too long is carried over once more, by a statement that reports its failure
//! ([`CarryOver`]).

use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use tracing::{error, info};

use super::engine::{Failure, Statements as _, number};
use super::file::{CHECKPOINT, LOG_SIZE, PAGE, PATIENCE, beside};
use super::robots;
use crawlgate_config::format_bytes;

/// Growth of the log after which a failed attempt is made again.
const STEP: u64 = 1024 * 1024;

/// The parts of a bounded store, in octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    /// The write-ahead log.
    pub(super) log: u64,
    /// The database.
    pub(super) content: u64,
    /// Part of the content for origins: states, fetches, and the texts of robots.txt.
    pub(super) robots: u64,
    /// Part of the content for decisions, with what they name.
    pub(super) decisions: u64,
}

impl Parts {
    /// Returns the parts of a store of `most` octets.
    pub(super) fn of(most: u64) -> Self {
        const LEAST_LOG: u64 = 256 * 1024;
        let log = (most / 8).clamp(LEAST_LOG, number(LOG_SIZE) + 8 * 1024 * 1024);
        let content = most.saturating_sub(log);
        let robots = content / 4;
        // The rest is for data without a room: overrides, hours, checkpoints.
        let decisions = content - robots - content / 32;
        Self { log, content, robots, decisions }
    }
}

/// Returns by how many octets the decisions would exceed their part after a write of `incoming`.
pub(super) fn excess(connection: &Connection, parts: Parts, incoming: u64) -> Result<u64, Failure> {
    let content = content(connection)?;
    let of_decisions = content.saturating_sub(robots::octets(connection)?);
    let by_part = (of_decisions + incoming).saturating_sub(parts.decisions);
    let by_page = (content + incoming).saturating_sub(parts.content);
    Ok(by_part.max(by_page))
}

/// Returns the octets of the database and its log on disk.
pub(super) fn on_disk(connection: &Connection, path: &Path) -> Result<u64, Failure> {
    Ok(file_size(connection)? + log_size(path))
}

/// Returns the octets of the database on disk after its log is carried over.
pub(super) fn file_size(connection: &Connection) -> Result<u64, Failure> {
    let text = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
    connection.only(text, []).map(number)
}

/// Returns the octets of the write-ahead log.
pub(super) fn log_size(path: &Path) -> u64 {
    std::fs::metadata(beside(path, "-wal")).map_or(0, |log| log.len())
}

/// Returns the octets of the database without its free pages: this number falls with each removal.
pub(super) fn content(connection: &Connection) -> Result<u64, Failure> {
    let text = "SELECT (page_count - freelist_count) * page_size \
                FROM pragma_page_count, pragma_freelist_count, pragma_page_size";
    connection.only(text, []).map(number)
}

/// Sets how often the log is carried over, by its part of the bound.
pub(super) fn bound_log(connection: &Connection, parts: Option<Parts>) -> Result<(), Failure> {
    let (limit, pages) = match parts {
        None => (LOG_SIZE, CHECKPOINT),
        Some(parts) => {
            let limit = i64::try_from(parts.log / 2).unwrap_or(LOG_SIZE).min(LOG_SIZE);
            let pages = i32::try_from(limit / 2 / i64::from(PAGE)).unwrap_or(i32::MAX);
            (limit, pages.clamp(8, CHECKPOINT))
        }
    };
    connection.pragma_update(None, "journal_size_limit", limit)?;
    connection.pragma_update(None, "wal_autocheckpoint", pages)?;
    Ok(())
}

/// Cuts a log back that has grown beyond half of its part. A reader may prevent this; the function does not wait, and
/// the next batch tries again.
pub(super) fn shorten_log(
    connection: &Connection,
    path: &Path,
    parts: Parts,
) -> Result<(), Failure> {
    if log_size(path) > parts.log / 2 {
        carry_over(connection)?;
    }
    Ok(())
}

/// Returns the octets of a log larger than `most` that a reader keeps from being carried over; else 0.
pub(super) fn log_beyond(connection: &Connection, path: &Path, most: u64) -> Result<u64, Failure> {
    if log_size(path) <= most {
        return Ok(0);
    }
    carry_over(connection)?;
    let octets = log_size(path);
    Ok(if octets > most { octets } else { 0 })
}

/// Carries the log over into the database and cuts it back, unless a reader prevents it.
pub(super) fn carry_over(connection: &Connection) -> Result<(), Failure> {
    connection.busy_timeout(Duration::ZERO)?;
    let shortened = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    connection.busy_timeout(PATIENCE)?;
    Ok(shortened?)
}

/// The outcome of the latest attempt to carry the log over.
#[derive(Debug, Default)]
pub(super) struct CarryOver(Mutex<Option<Failed>>);

#[derive(Debug)]
struct Failed {
    /// Octets of the log at the latest attempt.
    at: u64,
}

impl CarryOver {
    /// Tells whether the log cannot be carried over.
    pub(super) fn is_failing(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Makes room in the log before a write.
    ///
    /// # Errors
    /// When the log has reached its bound and still cannot be carried over. Nothing may be written then.
    pub(super) fn before(
        &self,
        connection: &Connection,
        path: &Path,
        parts: Option<Parts>,
    ) -> Result<(), Failure> {
        if self.is_failing() && log_size(path) > most(parts) {
            self.attempt(connection, path, parts)
        } else {
            Ok(())
        }
    }

    /// Carries a long log over after a write. The write is done, so a failure is only told.
    pub(super) fn after(&self, connection: &Connection, path: &Path, parts: Option<Parts>) {
        let size = log_size(path);
        let is_due = match &*self.0.lock() {
            None => size > most(parts) / 2,
            Some(failed) => size > failed.at + STEP,
        };
        if is_due {
            let _ = self.attempt(connection, path, parts); // told
        }
    }

    /// Tries again, if the last attempt failed.
    pub(super) fn again(&self, connection: &Connection, path: &Path, parts: Option<Parts>) {
        if self.is_failing() {
            let _ = self.attempt(connection, path, parts); // told
        }
    }

    fn attempt(
        &self,
        connection: &Connection,
        path: &Path,
        parts: Option<Parts>,
    ) -> Result<(), Failure> {
        let outcome = carry_over(connection);
        let mut failed = self.0.lock();
        match &outcome {
            Ok(()) => {
                if failed.take().is_some() {
                    info!("the write-ahead log of the store (-wal) is carried over again");
                }
            }
            Err(failure) => {
                if failed.is_none() {
                    error!(
                        most = %format_bytes(most(parts)),
                        "the write-ahead log of the store (-wal) cannot be carried over into the database: {failure}; it \
                         grows to its bound, and then requests are denied; see to the disk"
                    );
                }
                *failed = Some(Failed { at: log_size(path) });
            }
        }
        outcome
    }
}

/// Returns the octets beyond which a log that cannot be carried over takes no more.
fn most(parts: Option<Parts>) -> u64 {
    parts.map_or(2 * number(LOG_SIZE), |parts| parts.log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_takes_the_room_of_another() {
        for most in [1 << 20, 64 << 20, 10 << 30, 1 << 50] {
            let parts = Parts::of(most);
            assert!(parts.log + parts.content <= most, "{parts:?}");
            assert!(parts.robots + parts.decisions < parts.content, "{parts:?}");
            assert!(parts.decisions >= most / 2, "{parts:?} of {most}");
        }
    }
}
