//! The acknowledgements of a store, compared with the log.
//!
//! Searches read acknowledgements from a table, which no digest covers. Each acknowledgement is an entry of the log as well,
//! and the last entry about a decision is the one that holds.

use std::collections::HashMap;

use super::fault::LogFault;
use crawlgate_record::{Entry, Event, EventKind, Text};
use crawlgate_store::{Acknowledgement, Store, StoreError, StoredDecision};

/// The acknowledgements of the records so far that only one side has, by the number of the decision.
///
/// A log may have millions, so texts are not kept: a keyed hash stands for an acknowledgement that the store shows, and the
/// number of its record for one that the log tells of.
#[derive(Debug, Default)]
pub struct Acknowledged {
    hasher: ahash::RandomState,
    shown: HashMap<u64, u64, ahash::RandomState>,
    /// The last about each decision.
    told: HashMap<u64, u64, ahash::RandomState>,
    /// The time at which the log began where another one ended: earlier entries speak of the numbers of that one.
    since: u64,
}

/// An acknowledgement as an entry has it.
struct Told<'e> {
    /// The index of the decision.
    index: u64,
    /// Milliseconds since the epoch.
    time: u64,
    by: Text<'e>,
    note: Text<'e>,
}

impl<'e> Told<'e> {
    fn of(event: &Event<'e>) -> Option<Self> {
        let EventKind::Acknowledged { index, by, note } = event.kind else {
            return None;
        };
        let time = event.time();
        Some(Self { index, time, by, note })
    }

    /// Tells whether the store shows this one.
    fn is(&self, shown: &Acknowledgement) -> bool {
        shown.time.as_millis() == self.time
            && is_text(&shown.by, self.by)
            && is_text(&shown.note, self.note)
    }
}

impl Acknowledged {
    /// Takes the next record.
    pub fn step(&mut self, record: &StoredDecision) {
        if let Some(shown) = &record.acknowledged {
            let hash = self.hash(shown.time.as_millis(), &shown.by, &shown.note);
            self.shown.insert(record.seq, hash);
        }
    }

    /// Takes the next record, which is no decision.
    pub fn event(&mut self, record: &StoredDecision) {
        let Ok(Entry::Event(event)) = Entry::read(&record.entry) else {
            return;
        };
        if let EventKind::Forked { .. } = event.kind {
            self.since = event.time();
        }
        let Some(told) = Told::of(&event).filter(|told| told.time >= self.since) else {
            return;
        };
        let seq = told.index.saturating_add(1);
        let hash = self.hash(told.time, told.by.kept, told.note.kept);
        if self.shown.get(&seq) == Some(&hash) {
            self.shown.remove(&seq);
            self.told.remove(&seq);
        } else {
            self.told.insert(seq, record.seq);
        }
    }

    /// Adds a fault for each decision of which the store shows another acknowledgement than the log tells of. Decisions up
    /// to the record `dropped` are gone.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn end(
        self,
        store: &Store,
        dropped: u64,
        faults: &mut Vec<LogFault>,
    ) -> Result<(), StoreError> {
        let mut differing: Vec<u64> = self.shown.keys().chain(self.told.keys()).copied().collect();
        differing.sort_unstable();
        differing.dedup();
        for seq in differing.into_iter().filter(|seq| *seq > dropped) {
            // A person may have acknowledged it while the log was read, and retention may have dropped it.
            let Some(decision) = record(store, seq).await? else {
                continue;
            };
            let entry = match self.told.get(&seq) {
                Some(told) => record(store, *told).await?.map(|record| record.entry),
                None => None,
            };
            let told = match entry.as_deref().map(Entry::read) {
                Some(Ok(Entry::Event(event))) => Told::of(&event),
                _ => None,
            };
            let agree = match (&told, &decision.acknowledged) {
                (Some(told), Some(shown)) => told.is(shown),
                (None, None) => true,
                _ => false,
            };
            if !agree {
                faults.push(LogFault::Acknowledgement { seq });
            }
        }
        Ok(())
    }

    fn hash(&self, time: u64, by: &str, note: &str) -> u64 {
        self.hasher.hash_one((time, by, note))
    }
}

/// Returns the record with a number, if it is there.
async fn record(store: &Store, seq: u64) -> Result<Option<StoredDecision>, StoreError> {
    let records = store.records(seq.saturating_sub(1), 1).await?;
    Ok(records.into_iter().find(|record| record.seq == seq))
}

/// Tells whether a text is that of an entry, which may have kept only its beginning.
fn is_text(text: &str, kept: Text<'_>) -> bool {
    match kept.cut {
        0 => text == kept.kept,
        _ => text.starts_with(kept.kept),
    }
}
