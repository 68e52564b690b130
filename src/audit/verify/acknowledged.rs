//! The acknowledgements of a store, compared with the log.
//!
//! Searches read acknowledgements from a table, which no digest covers. Each acknowledgement is an entry of the log as well,
//! and the last entry about a decision is the one that holds.

use std::collections::HashMap;

use super::fault::LogFault;
use crate::clock::Moment;
use crate::entry::{Entry, EventKind, Text};
use crate::store::{Acknowledgement, Store, StoreError, StoredDecision};

/// The acknowledgements of the records so far for which the other side is missing, by the number of the decision.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// Those that the store shows.
    shown: HashMap<u64, Acknowledgement>,
    /// The last that the log tells of.
    told: HashMap<u64, Acknowledgement>,
    /// The time at which the log began where another one ended: earlier entries speak of the numbers of that one.
    since: u64,
}

impl Acknowledged {
    /// Takes the next record.
    pub fn step(&mut self, record: &StoredDecision) {
        if let Some(shown) = &record.acknowledged {
            self.shown.insert(record.seq, shown.clone());
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
        let EventKind::Acknowledged { index, by, note } = event.kind else {
            return;
        };
        if event.time() < self.since {
            return;
        }
        let seq = index.saturating_add(1);
        let shown = self.shown.get(&seq);
        let is_shown = shown.is_some_and(|shown| {
            shown.time.as_millis() == event.time()
                && is_text(&shown.by, by)
                && is_text(&shown.note, note)
        });
        if is_shown {
            self.shown.remove(&seq);
            self.told.remove(&seq);
        } else {
            let told = Acknowledgement {
                time: Moment::from_millis(event.time()),
                by: by.kept.to_owned(),
                note: note.kept.to_owned(),
            };
            self.told.insert(seq, told);
        }
    }

    /// Adds a fault for each decision of which the store shows another acknowledgement than the log tells of. Decisions up
    /// to the record `dropped` are gone.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn end(
        self,
        store: &dyn Store,
        dropped: u64,
        faults: &mut Vec<LogFault>,
    ) -> Result<(), StoreError> {
        let mut differing: Vec<u64> = self.shown.keys().chain(self.told.keys()).copied().collect();
        differing.sort_unstable();
        differing.dedup();
        for seq in differing.into_iter().filter(|seq| *seq > dropped) {
            // A person may have acknowledged it while the log was read.
            let now = store.records(seq - 1, 1).await?;
            let now = now.into_iter().find(|record| record.seq == seq);
            let now = now.and_then(|record| record.acknowledged);
            let is_told = match (self.told.get(&seq), &now) {
                (Some(told), Some(now)) => told == now,
                (None, None) => true,
                _ => false,
            };
            if !is_told {
                faults.push(LogFault::Acknowledgement { seq });
            }
        }
        Ok(())
    }
}

/// Tells whether a text is that of an entry, which may have kept its beginning alone.
fn is_text(text: &str, kept: Text<'_>) -> bool {
    match kept.cut {
        0 => text == kept.kept,
        _ => text.starts_with(kept.kept),
    }
}
