//! The log as the writing process has it: its end, and the transactions that append to it.
//!
//! After each commit of this process, the entries before its batch are looked at: those of the same transaction, and
//! those that other processes have committed since. Of these, a process tells its decisions and its own life by itself, and
//! the notifier the rest.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use rusqlite::{Connection, Transaction};
use tracing::warn;

use super::engine::{Failure, begin};
use super::entries::{Blocks, Head, Lines, Memory, Uses, append, event_frames, extent, fold, walk};
use crate::Appended;
use crate::state_file::End;
use crawlgate_record::{Entry, Event, EventKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

/// A transaction that writes, and the end of the log in it.
pub(super) struct Change<'c> {
    pub(super) transaction: Transaction<'c>,
    pub(super) head: Head,
}

impl<'c> Deref for Change<'c> {
    type Target = Transaction<'c>;

    fn deref(&self) -> &Transaction<'c> {
        &self.transaction
    }
}

impl Change<'_> {
    /// Turns the whole bundles of the tail before the index `until` into blocks.
    pub(super) fn fold(&mut self, until: u64) -> Result<(), Failure> {
        fold(&self.transaction, &mut self.head, until)
    }

    /// Appends entries to the log.
    pub(super) fn append(&mut self, frames: &[u8]) -> Result<(), Failure> {
        append(&self.transaction, &mut self.head, frames, None, None)
    }

    /// Appends one event to the log.
    pub(super) fn event(&mut self, now: Moment, kind: EventKind<'_>) -> Result<(), Failure> {
        event(&self.transaction, &mut self.head, now, kind)
    }
}

/// The log as the writing process remembers it.
#[derive(Debug, Default)]
pub(super) struct LogMemory {
    memory: Memory,
    pub(super) uses: Uses,
    blocks: Arc<Blocks>,
    notifier: Option<AppendNotifier>,
}

impl LogMemory {
    pub(super) fn new(blocks: Arc<Blocks>) -> Self {
        Self { blocks, ..Self::default() }
    }

    /// Begins a transaction that writes.
    pub(super) fn begin<'c>(
        &mut self,
        connection: &'c mut Connection,
    ) -> Result<Change<'c>, Failure> {
        self.change(begin(connection)?)
    }

    pub(super) fn change<'c>(
        &mut self,
        transaction: Transaction<'c>,
    ) -> Result<Change<'c>, Failure> {
        let head = self.memory.head(&transaction)?;
        Ok(Change { transaction, head })
    }

    /// See [`Store::tell_appended`](crate::Store::tell_appended).
    pub(super) fn tell(&mut self, connection: &Connection, tell: OnAppend) -> Result<(), Failure> {
        let (_, size) = extent(connection)?;
        self.notifier = Some(AppendNotifier::new(tell, size));
        Ok(())
    }

    /// Commits a transaction, after which the log ends so.
    pub(super) fn commit(&mut self, change: Change<'_>) -> Result<(), Failure> {
        self.commit_batch(change, 0)
    }

    /// Commits a transaction, after which the log ends so, with `count` entries of a batch at its end.
    pub(super) fn commit_batch(&mut self, change: Change<'_>, count: usize) -> Result<(), Failure> {
        let Change { transaction, head } = change;
        let size = head.size();
        let events = match &self.notifier {
            Some(notifier) => notifier.events(&transaction, size - count as u64),
            None => Vec::new(),
        };
        if let Err(error) = transaction.commit() {
            self.memory.forget();
            self.uses.forget();
            return Err(error.into());
        }
        self.memory.committed(head);
        if let Some(notifier) = &mut self.notifier {
            notifier.tell(events, count > 0, size);
        }
        Ok(())
    }

    /// Returns the end of the log after the last commit of this process.
    pub(super) fn end(&self) -> End {
        let head = self.memory.last();
        (head.size(), head.root())
    }

    /// Returns the blocks that were read last.
    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }
}

/// Appends one event to the log, in a transaction with more.
pub(super) fn event(
    transaction: &Transaction<'_>,
    head: &mut Head,
    now: Moment,
    kind: EventKind<'_>,
) -> Result<(), Failure> {
    let id = DecisionId::mint(now).octets();
    let (_, frames) = event_frames(&Event { id, kind })?;
    append(transaction, head, &frames, None, None)
}

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
        Self { tell, notified: size }
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
            warn!(?failure, "events that the store has appended cannot be read, and are not shown");
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
        f.debug_struct("AppendNotifier").field("notified", &self.notified).finish_non_exhaustive()
    }
}
