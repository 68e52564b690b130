//! Records that a store has lost, apart from those that retention has dropped.
//!
//! An entry of the log says which records retention has dropped. Records before the first one that are gone without such an entry are
//! lost: a damaged block was left out when the store was rebuilt, or a person took them away. [`export`](super::export) and
//! `crawlgate audit tiles` ask before they call records dropped.

use crate::entry::{Entry, EventKind};
use crate::store::{DecisionQuery, Store, StoreError, StoreErrorKind};

/// Events to read at once.
const PAGE: usize = 1_000;

/// Returns the index of the first record that stayed when retention last dropped some, as the log says; 0 if it says nothing. Entries that
/// cannot be read say nothing. Once an entry names `enough`, or more, earlier ones are not read.
///
/// # Errors
/// When the store cannot be read for another reason than damage.
pub(crate) async fn end_of_dropped(store: &dyn Store, enough: u64) -> Result<u64, StoreError> {
    let mut query = DecisionQuery {
        newest_first: true,
        limit: PAGE,
        ..DecisionQuery::default()
    };
    let mut dropped = 0;
    while dropped < enough {
        let events = match store.events(query.clone()).await {
            Err(error) if error.kind == StoreErrorKind::Corrupt => break,
            read => read?,
        };
        let Some(last) = events.last() else {
            break;
        };
        query.after = Some(last.seq);
        for event in &events {
            if let Ok(Entry::Event(event)) = Entry::read(&event.entry)
                && let EventKind::Dropped { index, .. } = event.kind
            {
                dropped = dropped.max(index);
            }
        }
    }
    Ok(dropped)
}
