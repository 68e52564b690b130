//! The entries that the store appends by itself, in their order among the batches.
//!
//! After each commit of this process, the entries before its batch are looked at: those of the same transaction, and
//! those that other processes have committed since. Of these, a process tells its decisions and its own life by itself.

use std::fmt;
use std::sync::Arc;

use rusqlite::Connection;
use tracing::warn;

use super::engine::Failure;
use super::entries::{Blocks, Lines, walk};
use crate::Appended;
use crawlgate_record::{Entry, EventKind};

/// Called with the entries that the store has appended.
pub(super) type OnAppend = Arc<dyn Fn(Appended) + Send + Sync>;

/// A listener, and the entries that it has been given so far.
pub(super) struct AppendNotifier {
    tell: OnAppend,
    /// Entries up to which events are told.
    notified: u64,
}

impl AppendNotifier {
    /// Returns a notifier for the entries after the first `size` ones.
    pub(super) fn new(tell: OnAppend, size: u64) -> Self {
        Self {
            tell,
            notified: size,
        }
    }

    /// Returns the lines of events that are not told yet, up to the place `end`. What cannot be read is left out: no
    /// write may fail for it.
    pub(super) fn events(&self, connection: &Connection, end: u64) -> Vec<String> {
        if end <= self.notified {
            return Vec::new();
        }
        let mut found = Vec::new();
        let mut lines = Lines::default();
        let look = |_, entry: &[u8]| -> Result<bool, Failure> {
            if is_of_a_store(entry) {
                found.push(lines.line(connection, entry)?);
            }
            Ok(true)
        };
        // Not the blocks that are shared: this transaction may be rolled back.
        let blocks = Blocks::default();
        if let Err(failure) = walk(connection, &blocks, self.notified..=end - 1, false, look) {
            warn!(
                ?failure,
                "events that the store has appended cannot be read, and are not shown"
            );
        }
        found
    }

    /// Tells what is committed: these events, then the batch, if there was one. The log has `size` entries now.
    pub(super) fn tell(&mut self, events: Vec<String>, has_batch: bool, size: u64) {
        self.notified = size;
        for line in events {
            (self.tell)(Appended::Event(line.into()));
        }
        if has_batch {
            (self.tell)(Appended::Batch);
        }
    }
}

/// Tells whether an entry is one that stores append by themselves.
fn is_of_a_store(entry: &[u8]) -> bool {
    let Ok(Entry::Event(event)) = Entry::read(entry) else {
        return false;
    };
    matches!(
        event.kind,
        EventKind::Lost { size: Some(_), .. }
            | EventKind::OverrideAdded { .. }
            | EventKind::OverrideRemoved { .. }
            | EventKind::Acknowledged { .. }
            | EventKind::Dropped { .. }
            | EventKind::KeyRotated { .. }
            | EventKind::Forked { .. }
    )
}

impl fmt::Debug for AppendNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendNotifier")
            .field("notified", &self.notified)
            .finish_non_exhaustive()
    }
}
