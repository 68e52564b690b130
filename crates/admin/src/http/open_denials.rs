//! The number of denials without an acknowledgement, for the navigation of the console.
//!
//! The log is counted part by part, and a part is counted again only when it has grown or a decision in it was
//! acknowledged, which the log itself tells. A refresh counts few parts, so its cost does not grow with the log: after a
//! start, the number of a large log is a lower bound for some pages, and says so.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use crawlgate_policy::Verdict;
use crawlgate_record::{Entry, EventKind};
use crawlgate_store::{DecisionQuery, GroupBy, Store, StoreError};

/// Records of one part.
const PART: u64 = 65_536;

/// Parts that one refresh counts.
const AT_ONCE: usize = 4;

/// Events that one refresh reads. If there are more, all parts are counted again.
const EVENTS: usize = 1_000;

/// Time that a page waits for its refresh. A page shows the number before rather than come late.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The number, kept up to date by [`OpenDenials::refresh`].
#[derive(Debug, Default)]
pub(super) struct OpenDenials {
    /// One refresh at a time.
    counted: tokio::sync::Mutex<PartCounts>,
    shown: Mutex<Option<OpenCount>>,
}

/// The number as pages show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenCount {
    /// Number of open denials.
    pub(super) count: u64,
    /// False if parts of the log are not counted yet: there may be more.
    pub(super) is_complete: bool,
}

/// The counts of the parts.
#[derive(Debug, Default)]
struct PartCounts {
    /// Records of the log that the parts cover.
    size: u64,
    parts: BTreeMap<u64, Part>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// `None` until it was counted once.
    count: Option<u64>,
    is_current: bool,
}

impl OpenDenials {
    /// Returns the number; `None` until it was counted once.
    pub(super) fn shown(&self) -> Option<OpenCount> {
        *self.shown.lock()
    }

    /// Counts what has changed. If another request does so, or it takes long, the number stays as it is.
    pub(super) async fn refresh(&self, store: &Store) {
        let Ok(mut counted) = self.counted.try_lock() else {
            return;
        };
        // A failure shows on the page that reads the store.
        if let Ok(Ok(())) = timeout(TIMEOUT, counted.refresh(store)).await {
            *self.shown.lock() = Some(counted.sum());
        }
    }
}

impl PartCounts {
    async fn refresh(&mut self, store: &Store) -> Result<(), StoreError> {
        let extent = store.extent().await?;
        if extent.size != self.size {
            self.find_changes(store, extent.size).await?;
        }
        let first = extent.first / PART;
        let before = self.parts.len();
        self.parts = self.parts.split_off(&first);
        if before != self.parts.len() || !extent.first.is_multiple_of(PART) {
            self.expire(first);
        }
        let stale = self.parts.iter().rev().filter(|(_, part)| !part.is_current);
        let stale: Vec<u64> = stale.map(|(number, _)| *number).take(AT_ONCE).collect();
        for number in stale {
            let count = count(store, number).await?;
            let part = Part { count: Some(count), is_current: true };
            self.parts.insert(number, part);
        }
        Ok(())
    }

    /// Finds the parts that have changed since the log had fewer records.
    async fn find_changes(&mut self, store: &Store, size: u64) -> Result<(), StoreError> {
        let query = DecisionQuery {
            from: Some(self.size.saturating_add(1)),
            to: Some(size),
            limit: EVENTS,
            ..DecisionQuery::default()
        };
        let events = match self.size {
            0 => Vec::new(), // all parts are new
            _ => store.events(query).await?,
        };
        for number in self.size / PART..=size.saturating_sub(1) / PART {
            self.expire(number);
        }
        for event in &events {
            if let Ok(Entry::Event(event)) = Entry::read(&event.entry)
                && let EventKind::Acknowledged { index, .. } = event.kind
            {
                self.expire(index / PART);
            }
        }
        if events.len() >= EVENTS {
            self.parts.values_mut().for_each(|part| part.is_current = false);
        }
        self.size = size;
        Ok(())
    }

    fn expire(&mut self, number: u64) {
        self.parts.entry(number).or_default().is_current = false;
    }

    fn sum(&self) -> OpenCount {
        let counts = self.parts.values().map(|part| part.count);
        OpenCount {
            count: counts.clone().flatten().sum(),
            is_complete: counts.clone().all(|count| count.is_some()),
        }
    }
}

/// Counts the open denials of a part.
async fn count(store: &Store, number: u64) -> Result<u64, StoreError> {
    let first = number.saturating_mul(PART);
    let query = DecisionQuery {
        verdict: Some(Verdict::Deny.as_str().to_owned()),
        acknowledged: Some(false),
        from: Some(first.saturating_add(1)),
        to: Some(first.saturating_add(PART)),
        ..DecisionQuery::default()
    };
    let tallies = store.count_by(query, GroupBy::Reason, usize::MAX).await?;
    Ok(tallies.iter().map(|tally| tally.count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_store::samples::{ROW, Row};
    use crawlgate_store::{Acknowledgement, Batch, Review, Store};
    use crawlgate_system::clock::Moment;

    async fn record(store: &Store, count: u64, row: Row<'_>) {
        let mut batch = Batch::default();
        for _ in 0..count {
            row.file(&mut batch);
        }
        store.write(batch).await.unwrap();
    }

    #[tokio::test]
    async fn the_number_follows_the_log_part_by_part() {
        let store = Store::temporary();
        let mut counted = PartCounts::default();
        let mut open = async || {
            counted.refresh(&store).await.unwrap();
            counted.sum()
        };
        let complete = |count| OpenCount { count, is_complete: true };
        assert_eq!(open().await, complete(0));
        record(&store, 3, ROW).await;
        let allowed = Row { verdict: "allow", reason: "robots_allow", ..ROW };
        record(&store, PART, allowed).await;
        record(&store, 2, ROW).await;
        assert_eq!(open().await, complete(5));
        // Of the first part, of which the end has not changed; once more for one of them, and for no denial.
        let note = Acknowledgement {
            time: Moment::from_millis(1_795_176_000_123),
            by: "Ada".to_owned(),
            note: "known".to_owned(),
        };
        let all = vec![Review::first(1), Review::first(2), Review::first(7)];
        store.acknowledge(all, note.clone()).await.unwrap();
        assert_eq!(open().await, complete(3));
        let again = Review { seq: 1, replaces: Some(note.clone()) };
        store.acknowledge(vec![again], note).await.unwrap();
        assert_eq!(open().await, complete(3));
        record(&store, 1, ROW).await;
        assert_eq!(open().await, complete(4));
    }
}
