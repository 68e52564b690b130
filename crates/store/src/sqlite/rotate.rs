//! The replacement of the key that signs the log.

use rusqlite::Connection;

use super::engine::Failure;
use super::entries::{self, checkpoint};
use super::rotations;

use super::write::LogMemory;
use crate::failed;
use crate::log_key::LogKey;
use crate::rotation::{self, Rotation, RotationReason};
use crate::state_file::End;
use crawlgate_record::{Event, EventKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

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
