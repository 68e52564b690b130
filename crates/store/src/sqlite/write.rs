//! Every change of the log in the database, each in one transaction.
//!
//! A transaction begins as one that writes, and reads the end of the log inside, so that several processes may write to
//! one store and the log stays one.

use std::path::Path;

use rusqlite::{Connection, Transaction, params};

use super::engine::{Failure, Statements as _, begin, changed, integer, time};
use super::entries::{append, checkpoint, extent};
use super::log::{Change, LogMemory};
use super::origin_update::update_or_nothing;
use super::prune::BatchRetention;
use super::{entries, objects, read, rotations};
use crate::log_key::{LogKey, StoredCheckpoint};
use crate::rotation::{Rotation, RotationReason};
use crate::state_file::End;
use crate::{Acknowledgement, Batch, Pruned, Review, Reviewed, Sha256, failed, rotation};
use crawlgate_record::{Event, EventKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;
use crawlgate_tlog::push_entry;

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

/// See [`Store::acknowledge`](crate::Store::acknowledge).
///
/// Each review names the acknowledgement that it replaces, and is refused if the decision has another one. The transaction
/// decides: two reviewers, in one process or in several, never overwrite each other unseen.
pub(super) fn acknowledge(
    connection: &mut Connection,
    log: &mut LogMemory,
    all: &[Review],
    note: &Acknowledgement,
) -> Result<Vec<Reviewed>, Failure> {
    let mut change = log.begin(connection)?;
    let (first, size) = extent(&change)?;
    let (mut results, mut frames) = (Vec::with_capacity(all.len()), Vec::new());
    for review in all {
        let index = review.seq.checked_sub(1);
        let Some(index) = index.filter(|index| (first..size).contains(index)) else {
            results.push(Reviewed::Unknown);
            continue;
        };
        let present = read::acknowledgement(&change, review.seq)?;
        if present != review.replaces {
            results.push(Reviewed::Differs(present));
            continue;
        }
        note_acknowledged(&change, index, note.time, (&note.by, &note.note))?;
        push_entry(&mut frames, &entry(index, note)).map_err(|error| failed(error.to_string()))?;
        results.push(Reviewed::Done);
    }
    if !frames.is_empty() {
        change.append(&frames)?;
        log.commit(change)?;
    }
    Ok(results)
}

/// Returns the entry of the log about an acknowledgement.
fn entry(index: u64, note: &Acknowledgement) -> Vec<u8> {
    let kind = EventKind::Acknowledged {
        index,
        by: note.by.as_str().into(),
        note: note.note.as_str().into(),
    };
    let id = DecisionId::mint(note.time).octets();
    let mut entry = Vec::new();
    Event { id, kind }.encode(&mut entry);
    entry
}

/// Replaces the key of the log by the first one of `new`: appends the entry, and signs the log with both.
pub(super) fn rotate(
    connection: &mut Connection,
    log: &mut LogMemory,
    new: &LogKey,
    words: &RotationReason,
    now: Moment,
) -> Result<(Rotation, End), Failure> {
    let mut change = log.begin(connection)?;
    let rotations = rotations::all(&change)?;
    let keys = new.vkeys();
    let [successor, old, ..] = &keys[..] else {
        return Err(failed("a new key without the old one".to_owned()).into());
    };
    if rotation::present(*old.public(), &rotations) != *old.public() {
        let message = "another process has replaced the key meanwhile; call this again";
        return Err(failed(message.to_owned()).into());
    }
    let id = DecisionId::mint(now).octets();
    let (of_old, of_new) = (old.to_string(), successor.to_string());
    let kind = EventKind::KeyRotated {
        old: &of_old,
        new: &of_new,
        by: words.by.as_str().into(),
        reason: words.reason.as_str().into(),
    };
    let (entry, frames) = entries::event_frames(&Event { id, kind })?;
    change.append(&frames)?;
    let end = (change.head.size(), change.head.root());
    let note = rotation::sign_as_new(new, *old.public(), &rotations, now, end);
    let rotation = rotations::put(&change, entry, end.0, &note)?
        .ok_or_else(|| failed("the proof of the new key does not hold".to_owned()))?;
    checkpoint::put(&change, end.0, &note, now)?;
    log.commit(change)?;
    Ok((rotation, end))
}
