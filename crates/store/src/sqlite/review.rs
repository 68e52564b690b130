//! Acknowledgements: what people have seen.
//!
//! Each names the acknowledgement that it replaces, and is refused if the decision has another one by then. The transaction
//! decides: two reviewers, in one process or in several, never overwrite each other unseen.

use rusqlite::Connection;

use super::engine::Failure;
use super::entries::extent;
use super::read;

use super::write::{LogMemory, note_acknowledged};
use crate::{Acknowledgement, Review, Reviewed, failed};
use crawlgate_record::{Event, EventKind};
use crawlgate_text::DecisionId;
use crawlgate_tlog::push_entry;

/// See [`Store::acknowledge`](crate::Store::acknowledge).
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
