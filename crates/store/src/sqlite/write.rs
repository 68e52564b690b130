//! Every change of the database, each in one transaction.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, Transaction, params};

use super::append_notifier::{AppendNotifier, OnAppend};
use super::batch_retention::BatchRetention;
use super::engine::{Failure, Statements as _, integer, time};
use super::entries::{Blocks, Head, Memory, Uses, append, checkpoint, event_frames, extent, fold};
use super::objects;
use super::origin_update::update_or_nothing;
use super::rotations;
use super::transaction::{begin, changed};
use crate::log_key::{LogKey, StoredCheckpoint};
use crate::rotation;
use crate::state_file::End;
use crate::{Batch, Pruned, Sha256};
use crawlgate_record::{Event, EventKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

/// A transaction that writes, and the end of the log in it.
pub(super) struct Change<'c> {
    transaction: Transaction<'c>,
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
    uses: Uses,
    blocks: Arc<Blocks>,
    notifier: Option<AppendNotifier>,
}

impl LogMemory {
    pub(super) fn new(blocks: Arc<Blocks>) -> Self {
        Self {
            blocks,
            ..Self::default()
        }
    }

    /// Begins a transaction that writes.
    pub(super) fn begin<'c>(
        &mut self,
        connection: &'c mut Connection,
    ) -> Result<Change<'c>, Failure> {
        self.change(begin(connection)?)
    }

    fn change<'c>(&mut self, transaction: Transaction<'c>) -> Result<Change<'c>, Failure> {
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
    fn commit_batch(&mut self, change: Change<'_>, count: usize) -> Result<(), Failure> {
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

/// See [`Store::write`](crate::Store::write). Under maintenance, the batch makes its room within the bound. Returns
/// the new end of the log, if it has one.
pub(super) fn batch(
    connection: &mut Connection,
    batch: &Batch,
    mut batch_retention: Option<&mut BatchRetention>,
    log: &mut LogMemory,
) -> Result<Option<End>, Failure> {
    let parts = batch_retention.as_ref().and_then(|one| one.parts());
    let mut dropped = Pruned::default();
    let mut transaction = begin(connection)?;
    for one in &batch.updates {
        dropped.origins += update_or_nothing(&mut transaction, one, parts)?;
    }
    objects::write(&transaction, batch)?;
    if batch.entries.is_empty() {
        transaction.commit()?;
        if let Some(batch_retention) = batch_retention {
            batch_retention.tell(dropped);
        }
        return Ok(None);
    }
    let mut change = log.change(transaction)?;
    if let Some(batch_retention) = batch_retention.as_deref_mut() {
        let incoming = batch.entries.octets() as u64;
        dropped.add(batch_retention.make_room(&mut change, log.blocks(), incoming)?);
    }
    let most = parts.map(|parts| parts.decisions / 8);
    let mut effects = log.uses.begin();
    let frames = batch.entries.frames();
    let Change { transaction, head } = &mut change;
    append(transaction, head, frames, most, Some(&mut effects))?;
    let noted = effects.write(&change, &batch.objects)?;
    log.commit_batch(change, batch.entries.len())?;
    log.uses.committed(noted);
    if let Some(batch_retention) = batch_retention {
        batch_retention.tell(dropped);
    }
    Ok(Some(log.end()))
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

/// See [`Store::checkpoint`](crate::Store::checkpoint).
pub(super) fn checkpoint(
    connection: &mut Connection,
    log: &mut LogMemory,
    path: &Path,
    key: &LogKey,
    now: Moment,
) -> Result<Option<(StoredCheckpoint, Sha256)>, Failure> {
    let change = log.begin(connection)?;
    // Another process may have replaced the key.
    let rotations = rotations::all(&change)?;
    let later = rotation::follow(key, path, &rotations)?;
    let key = later.as_ref().unwrap_or(key);
    let sign = |end| rotation::sign(key, &rotations, now, end);
    let Some(signed) = checkpoint::sign(&change, &change.head, sign, now)? else {
        return Ok(None);
    };
    let root = change.head.root();
    log.commit(change)?;
    Ok(Some((signed, root)))
}

/// See [`Store::forget`](crate::Store::forget).
pub(super) fn forget(
    transaction: &Transaction<'_>,
    origin: &str,
    identity: Option<&str>,
) -> Result<bool, Failure> {
    let text = "DELETE FROM origin WHERE origin = ?1 AND (?2 IS NULL OR identity = ?2)";
    let is_known = transaction.run(text, params![origin, identity])? > 0;
    if is_known {
        changed(transaction)?;
    }
    Ok(is_known)
}

/// Notes that a person has acknowledged the decision of an index, in these words.
pub(super) fn note_acknowledged(
    transaction: &Transaction<'_>,
    index: u64,
    at: Moment,
    (by, note): (&str, &str),
) -> Result<(), Failure> {
    let text = "INSERT OR REPLACE INTO acknowledgement VALUES (?1, ?2, ?3, ?4)";
    let values = params![integer(index.saturating_add(1)), time(at), by, note];
    transaction.run(text, values).map(drop)
}
