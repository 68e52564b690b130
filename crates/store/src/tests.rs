//! Tests of what a store answers.

mod counts;
mod overrides;
mod queries;
mod records;
mod retention;
mod reviews;
mod states;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use super::samples::{
    DAY, NOON, ROW, Row, absent, acknowledge, origin, origin_update, successful,
};
use super::samples::{fresh, snapshot};
use super::*;
use crawlgate_origins::access::{Absence, Cause};
use crawlgate_origins::state::{Outage, State};
use crawlgate_policy::overrides::{Action, Override, OverrideId};
use crawlgate_record::{Event, EventKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

/// Returns an empty store.
fn engine() -> Store {
    Store::temporary()
}

fn outage(since: Moment) -> Outage {
    Outage {
        cause: Cause::Status(503),
        since,
        last_failure: Some(since + Duration::from_secs(7)),
        last_attempt: since + Duration::from_secs(9),
        attempts: 3,
        next_attempt: since + Duration::from_secs(20),
    }
}

/// Fails unless a text has a part.
#[track_caller]
pub(crate) fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{text}");
}

/// Returns the numbers of all decisions of a query, page by page.
async fn paged(store: &Store, mut query: DecisionQuery) -> Vec<u64> {
    let mut seen = Vec::new();
    loop {
        let page = store.decisions(query.clone()).await.unwrap();
        let Some(last) = page.last() else {
            return seen;
        };
        query.after = Some(last.seq);
        seen.extend(page.iter().map(|one| one.seq));
    }
}

/// Returns a batch with one event.
pub(crate) fn event(time: Moment, kind: EventKind<'_>) -> Batch {
    let id = DecisionId::mint(time).octets();
    let mut batch = Batch::default();
    batch.entries.push(|out| Event { id, kind }.encode(out));
    batch
}

/// Returns a batch with the event that three records were lost at noon.
pub(crate) fn lost() -> Batch {
    let noon = NOON.as_millis();
    let kind = EventKind::Lost { count: 3, first: noon, last: noon, size: None };
    event(NOON, kind)
}

/// Writes records and returns their identifiers.
pub(super) async fn record(store: &Store, rows: &[Row<'_>]) -> Vec<String> {
    let mut batch = Batch::default();
    let ids = rows.iter().map(|row| row.file(&mut batch)).collect();
    store.write(batch).await.unwrap();
    ids
}

pub(super) fn rows(count: u64) -> Vec<Row<'static>> {
    let time = |n| NOON + Duration::from_secs(n);
    (0..count).map(|n| Row { time: time(n), ..ROW }).collect()
}

pub(super) async fn update_origin(store: &Store, origin_update: OriginUpdate) {
    let batch = Batch { updates: vec![origin_update], ..Batch::default() };
    store.write(batch).await.unwrap();
}

fn forever() -> Retention {
    Retention { keep: None, max_size: None }
}

fn key() -> Arc<LogKey> {
    Arc::new(LogKey::generate(None).unwrap())
}

pub(super) fn unreachable(since: Moment) -> State {
    State::Unreachable { outage: outage(since), last_good: None }
}

/// Prunes until there is nothing more to drop, and returns the amounts.
async fn prune(store: &Store, retention: Retention, now: Moment) -> Pruned {
    let mut all = Pruned::default();
    loop {
        let step = store.prune(retention, now).await.unwrap();
        all.decisions += step.decisions;
        all.snapshots += step.snapshots;
        if !step.more {
            return all;
        }
    }
}
