//! The write-ahead log: it is carried over into the database, or that it is not is told, and it stays bounded.
//!
//! The engine carries the log over at a commit, and says nothing when that fails: the log would grow until the disk is
//! full. So a log that has grown too long is carried over once more, by a statement that reports its failure.

use std::path::Path;

use parking_lot::Mutex;
use rusqlite::Connection;
use tracing::{error, info};

use super::bounds::{Parts, carry_over, log_size};
use super::engine::{Failure, number};
use super::file::LOG_SIZE;
use crawlgate_config::format_bytes;

/// Growth of the log after which a failed attempt is made again.
const STEP: u64 = 1024 * 1024;

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
        match self.is_failing() && log_size(path) > most(parts) {
            true => self.attempt(connection, path, parts),
            false => Ok(()),
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
