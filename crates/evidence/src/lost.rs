//! Records that a store has lost, apart from those that retention has dropped.
//!
//! An entry of the log says which records retention has dropped. Records before the first one that are gone without such an entry are
//! lost: a damaged block was left out when the store was rebuilt, or a person took them away. [`export`](super::export) and
//! `crawlgate audit tiles` ask before they call records dropped.

use crawlgate_record::{Entry, EventKind};
use crawlgate_store::{DecisionQuery, Records, Store, StoreError, StoreErrorKind, StoredDecision};

/// Records or events to read at once.
const PAGE: usize = 1_000;

/// Returns the words on lost records, and on what follows.
pub fn told(records: Records, follows: &str) -> String {
    format!(
        "{records} {} lost: no record says that retention has dropped them; {follows}; `crawlgate audit verify --all` tells more",
        records.are()
    )
}

/// Returns the index of the first record that stayed when retention last dropped some, as the log says; 0 if it says nothing. Entries that
/// cannot be read say nothing. Once an entry names `enough`, or more, earlier ones are not read.
///
/// # Errors
/// When the store cannot be read for another reason than damage.
pub async fn end_of_dropped(store: &Store, enough: u64) -> Result<u64, StoreError> {
    let mut query = DecisionQuery { newest_first: true, limit: PAGE, ..DecisionQuery::default() };
    let mut dropped = 0;
    while dropped < enough {
        let events = match store.events(query.clone()).await {
            // A search ends at damage, whatever lies behind it.
            Err(error) if error.kind == StoreErrorKind::Corrupt => {
                return end_in_readable(store, dropped).await;
            }
            read => read?,
        };
        let Some(last) = events.last() else {
            break;
        };
        query.after = Some(last.seq);
        dropped = events.iter().map(named).fold(dropped, u64::max);
    }
    Ok(dropped)
}

/// Returns the same from all records that can be read: reading in their order passes damaged blocks.
async fn end_in_readable(store: &Store, mut dropped: u64) -> Result<u64, StoreError> {
    let mut after = 0;
    loop {
        let records = match store.records(after, PAGE).await {
            Err(error) if error.kind == StoreErrorKind::Corrupt => break,
            read => read?,
        };
        let Some(last) = records.last() else {
            break;
        };
        after = last.seq;
        dropped = records.iter().map(named).fold(dropped, u64::max);
    }
    Ok(dropped)
}

/// Returns the index of the first record that stayed, if an entry tells of dropped ones; else 0.
fn named(record: &StoredDecision) -> u64 {
    match Entry::read(&record.entry) {
        Ok(Entry::Event(event)) => match event.kind {
            EventKind::Dropped { index, .. } => index,
            _ => 0,
        },
        _ => 0,
    }
}
