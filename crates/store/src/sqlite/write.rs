//! Every change of the database, each in one transaction.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, Transaction, params};

use super::append_notifier::{AppendNotifier, OnAppend};
use super::batch_retention::BatchRetention;
use super::engine::{Failure, Statements as _, integer, time};
use super::entries::{Blocks, Head, Memory, Uses, append, append_event, checkpoint, extent};
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
use crawlgate_tlog::Signature;

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

    /// Returns the end of the log, inside a transaction that writes.
    pub(super) fn head(&mut self, transaction: &Transaction<'_>) -> Result<Head, Failure> {
        self.memory.head(transaction)
    }

    /// See [`Store::tell_appended`](crate::Store::tell_appended).
    pub(super) fn tell(&mut self, connection: &Connection, tell: OnAppend) -> Result<(), Failure> {
        let (_, size) = extent(connection)?;
        self.notifier = Some(AppendNotifier::new(tell, size));
        Ok(())
    }

    /// Commits a transaction, after which the log ends so.
    pub(super) fn commit(
        &mut self,
        transaction: Transaction<'_>,
        head: Head,
    ) -> Result<(), Failure> {
        self.commit_batch(transaction, head, 0)
    }

    /// Commits a transaction, after which the log ends so, with `count` entries of a batch at its end.
    fn commit_batch(
        &mut self,
        transaction: Transaction<'_>,
        head: Head,
        count: usize,
    ) -> Result<(), Failure> {
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
    let parts = batch_retention
        .as_ref()
        .and_then(|batch_retention| batch_retention.parts());
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
    let mut head = log.head(&transaction)?;
    if let Some(batch_retention) = batch_retention.as_deref_mut() {
        let incoming = batch.entries.octets() as u64;
        dropped.add(batch_retention.make_room(&transaction, &mut head, log.blocks(), incoming)?);
    }
    let most = parts.map(|parts| parts.decisions / 8);
    let mut effects = log.uses.begin();
    let frames = batch.entries.frames();
    append(&transaction, &mut head, frames, most, Some(&mut effects))?;
    let noted = effects.write(&transaction, &batch.objects)?;
    log.commit_batch(transaction, head, batch.entries.len())?;
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
    append_event(transaction, head, &Event { id, kind }).map(drop)
}

/// See [`Store::checkpoint`](crate::Store::checkpoint).
pub(super) fn checkpoint(
    connection: &mut Connection,
    log: &mut LogMemory,
    path: &Path,
    key: &LogKey,
    now: Moment,
) -> Result<Option<(StoredCheckpoint, Sha256)>, Failure> {
    let transaction = begin(connection)?;
    let head = log.head(&transaction)?;
    // Another process may have replaced the key.
    let rotations = rotations::all(&transaction)?;
    let later = rotation::follow(key, path, &rotations)?;
    let key = later.as_ref().unwrap_or(key);
    let sign = |end| rotation::sign(key, &rotations, now, end);
    let Some(signed) = checkpoint::sign(&transaction, &head, sign, now)? else {
        return Ok(None);
    };
    let root = head.root();
    log.commit(transaction, head)?;
    Ok(Some((signed, root)))
}

/// See [`Store::cosign`](crate::Store::cosign).
pub(super) fn cosign(
    connection: &mut Connection,
    size: u64,
    line: &Signature,
) -> Result<bool, Failure> {
    let transaction = begin(connection)?;
    let is_known = checkpoint::cosign(&transaction, size, line)?;
    transaction.commit()?;
    Ok(is_known)
}

/// See [`Store::note_ahead`](crate::Store::note_ahead).
pub(super) fn note_ahead(
    connection: &mut Connection,
    witness: &str,
    log: &str,
    size: Option<u64>,
) -> Result<(), Failure> {
    let transaction = begin(connection)?;
    checkpoint::note_ahead(&transaction, witness, log, size)?;
    transaction.commit()?;
    Ok(())
}

/// See [`Store::forget`](crate::Store::forget).
pub(super) fn forget(
    connection: &mut Connection,
    origin: &str,
    identity: Option<&str>,
) -> Result<bool, Failure> {
    let transaction = begin(connection)?;
    let known = transaction.run(
        "DELETE FROM origin WHERE origin = ?1 AND (?2 IS NULL OR identity = ?2)",
        params![origin, identity],
    )?;
    if known > 0 {
        changed(&transaction)?;
    }
    transaction.commit()?;
    Ok(known > 0)
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
