//! The overrides that were in force at any time of a span.

use std::collections::BTreeMap;

use super::content::OverrideRow;
use super::rows::time;
use super::{Readable, ReportQuery};
use crate::grounds::asserted;
use crawlgate_record::{Asserted, Digest, origin_parts};
use crawlgate_store::StoreError;
use crawlgate_store::figures::{Figures, NotedKind, Sum};
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;

/// The values by which two texts about an override are about the same one.
type Key = (String, String, String, Option<String>);

/// Returns the overrides, by their numbers.
pub(super) async fn overrides(
    figures: &Figures,
    question: &ReportQuery,
    logs: &Readable<'_>,
) -> Result<Vec<OverrideRow>, StoreError> {
    let mut rows: BTreeMap<Key, OverrideRow> = BTreeMap::new();
    let (present, removed) = logs.overrides().await?;
    for one in present {
        add(&mut rows, asserted(&one, of_record));
    }
    for one in removed {
        let row = add(&mut rows, asserted(&one.asserted, of_record));
        row.removed = Some(time_text(one.time));
        row.removed_by = Some(one.by);
    }
    let mut digests: BTreeMap<Digest, u64> = BTreeMap::new();
    for (digest, sum) in figures.overrides.largest(usize::MAX, Sum::requests) {
        digests.insert(*digest, sum.requests());
    }
    for event in &figures.events {
        if let NotedKind::OverrideAdded { overridden }
        | NotedKind::OverrideRemoved { overridden, .. } = &event.kind
        {
            digests.entry(*overridden).or_default();
        }
    }
    let named: Vec<Digest> = digests.keys().copied().collect();
    let bodies = logs.objects(&named).await?;
    let body_of = |digest: &Digest| {
        let body = bodies.get(digest);
        body.and_then(|body| Asserted::read(body).ok())
    };
    for (digest, decisions) in &digests {
        if let Some(asserted) = body_of(digest) {
            let row = add(&mut rows, of_record(&asserted));
            row.decisions += *decisions;
        }
    }
    for event in &figures.events {
        let NotedKind::OverrideRemoved { overridden, by } = &event.kind else {
            continue;
        };
        if let Some(asserted) = body_of(overridden) {
            let row = add(&mut rows, of_record(&asserted));
            row.removed.get_or_insert_with(|| time(event.time));
            row.removed_by.get_or_insert_with(|| by.clone());
        }
    }
    let mut rows: Vec<OverrideRow> = rows.into_values().collect();
    rows.retain(|row| row.decisions > 0 || (is_about(row, question) && is_in_span(row, question)));
    rows.sort_by_cached_key(|row| (row.id.parse::<u64>().unwrap_or(0), row.id.clone()));
    Ok(rows)
}

fn add(rows: &mut BTreeMap<Key, OverrideRow>, row: OverrideRow) -> &mut OverrideRow {
    let key = (row.id.clone(), row.origin.clone(), row.pattern.clone(), row.created.clone());
    rows.entry(key).or_insert(row)
}

fn of_record(one: &Asserted<'_>) -> OverrideRow {
    OverrideRow {
        id: one.id.to_owned(),
        origin: one.origin.to_owned(),
        pattern: one.pattern.to_owned(),
        action: one.action.as_str(),
        by: one.by.to_owned(),
        reason: one.reason.to_owned(),
        created: created(Moment::from_millis(one.created)),
        until: one.until.map(time),
        removed: None,
        removed_by: None,
        decisions: 0,
    }
}

/// Returns the time of creation; one of the configuration does not say any.
fn created(time: Moment) -> Option<String> {
    (time.as_millis() > 0).then(|| time_text(time))
}

fn is_about(row: &OverrideRow, question: &ReportQuery) -> bool {
    question.origin.as_deref().is_none_or(|wanted| {
        row.origin.eq_ignore_ascii_case(wanted)
            || origin_parts(&row.origin).1.eq_ignore_ascii_case(wanted)
    })
}

/// Tells whether it was in force at any time of the span. Times of the same form compare as texts.
fn is_in_span(row: &OverrideRow, question: &ReportQuery) -> bool {
    let (since, until) = (time_text(question.since), time_text(question.until));
    let begins = row.created.as_ref().is_none_or(|created| *created < until);
    let mut ends = [&row.until, &row.removed].into_iter().flatten();
    begins && ends.all(|end| *end > since)
}
