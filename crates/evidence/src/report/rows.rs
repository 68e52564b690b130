//! The tables of a report out of the figures.

use std::collections::BTreeMap;

use super::content::{
    Acknowledgements, FetchCounts, Listed, NamedCount, OutageRow, Outcomes, Period, ReasonRow,
    RobotsFacts, Row, RuleRow, SettingsRow, Summary, UsageFacts,
};
use super::{Readable, ReportQuery, TOP};
use crawlgate_policy::Reason;
use crawlgate_record::Digest;
use crawlgate_store::StoreError;
use crawlgate_store::figures::{Figures, Robots, Sum, Table};
use crawlgate_system::clock::Moment;
use crawlgate_text::{DecisionId, hex, time_text};
use crawlgate_usage::Purpose;

/// Milliseconds of a day.
const DAY: u64 = 86_400_000;

pub(super) fn time(millis: u64) -> String {
    time_text(Moment::from_millis(millis))
}

/// Returns the requests by outcome. Unless `is_whole`, some that were forwarded may be missing in the sum.
fn outcomes(sum: &Sum, is_whole: bool) -> Outcomes {
    Outcomes {
        requests: is_whole.then(|| sum.requests()),
        forwarded: is_whole.then_some(sum.forwarded),
        failed: sum.failed,
        denied: sum.denied(),
        disallowed: sum.disallowed,
        unreachable: sum.unreachable,
        refused_here: sum.refused_here,
        deferred: sum.deferred,
        reported: sum.reported,
    }
}

pub(super) fn summary(figures: &Figures) -> Summary {
    Summary {
        outcomes: outcomes(&figures.total(), figures.knows_forwarded()),
        forwarded_without_record: figures.unrecorded,
        refused_without_record: figures.repeated,
        judged: figures.robots.judged,
        judged_within_24h: figures.robots.within_a_day,
        errors: counts(&figures.errors),
    }
}

/// Returns all rows with their numbers, the most frequent first.
fn counts(table: &Table<String>) -> Vec<NamedCount> {
    let rows = table.largest(TOP, Sum::requests).into_iter();
    let named =
        |(name, sum): (&String, &Sum)| NamedCount { name: name.clone(), count: sum.requests() };
    rows.map(named).collect()
}

/// Returns the decisions that record what the site says of use.
pub(super) fn usage(figures: &Figures) -> UsageFacts {
    let refused = Purpose::ALL.iter().zip(figures.usage.refused);
    let refused = refused.filter(|(_, count)| *count > 0);
    let named =
        |(purpose, count): (&Purpose, u64)| NamedCount { name: purpose.as_str().to_owned(), count };
    UsageFacts { decisions: figures.usage.decisions, refused: refused.map(named).collect() }
}

/// Returns the requests of each month or day: of all days with the same first `length` characters.
pub(super) fn periods(figures: &Figures, length: usize) -> Vec<Period> {
    let mut periods: BTreeMap<String, Sum> = BTreeMap::new();
    for (day, sum) in &figures.days {
        let mut period = time(day.saturating_mul(DAY));
        period.truncate(length);
        periods.entry(period).or_default().add(sum);
    }
    let period =
        |(period, sum)| Period { period, outcomes: outcomes(&sum, figures.knows_forwarded()) };
    periods.into_iter().map(period).collect()
}

fn row((name, sum): (&String, &Sum), is_whole: bool) -> Row {
    Row {
        name: name.clone(),
        purpose: None,
        outcomes: outcomes(sum, is_whole),
        first: time(sum.first),
        last: time(sum.last),
    }
}

/// Returns the most frequent rows of a table. Unless `is_whole`, it has not all that were forwarded.
pub(super) fn listed(
    table: &Table<String>,
    is_whole: bool,
    purpose: impl Fn(&String) -> Option<String>,
) -> Listed {
    let rows = most_asked(table, TOP, is_whole)
        .into_iter()
        .map(|row| Row { purpose: purpose(&row.name), ..row });
    Listed { count: super::named(table), rows: rows.collect(), others: table.others.requests() }
}

pub(super) fn most_asked(table: &Table<String>, limit: usize, is_whole: bool) -> Vec<Row> {
    let rows = table.largest(limit, Sum::requests).into_iter();
    rows.map(|named| row(named, is_whole)).collect()
}

pub(super) fn most_refused(table: &Table<String>, limit: usize, is_whole: bool) -> Vec<Row> {
    let rows = table.largest(limit, refused).into_iter();
    rows.map(|named| row(named, is_whole)).collect()
}

/// Returns the number of refused requests, those of report mode included.
fn refused(sum: &Sum) -> u64 {
    sum.denied().saturating_add(sum.deferred).saturating_add(sum.reported)
}

pub(super) fn rules(table: &Table<(String, String)>, limit: usize) -> Vec<RuleRow> {
    let rows = table.largest(limit, refused).into_iter();
    let rule = |((origin, rule), sum): (&(String, String), &Sum)| RuleRow {
        origin: origin.clone(),
        rule: rule.clone(),
        count: refused(sum),
        reported: sum.reported,
        first: time(sum.first),
        last: time(sum.last),
    };
    rows.map(rule).collect()
}

pub(super) fn reasons(figures: &Figures) -> Vec<ReasonRow> {
    let mut rows: Vec<ReasonRow> = figures
        .reasons
        .iter()
        .map(|((mode, verdict, reason), of)| ReasonRow {
            reason: reason.clone(),
            mode: mode.as_str(),
            verdict: verdict.as_str(),
            meaning: Reason::from_name(reason).map(|reason| reason.info().meaning),
            count: of.sum.requests(),
            example: of.example.map(|id| DecisionId::from_octets(id).to_string()),
            first: time(of.sum.first),
            last: time(of.sum.last),
        })
        .collect();
    rows.sort_by(|a, b| {
        let names = |row: &ReasonRow| (row.reason.clone(), row.mode, row.verdict);
        b.count.cmp(&a.count).then_with(|| names(a).cmp(&names(b)))
    });
    rows
}

pub(super) fn robots(robots: &Robots, fetches: Option<FetchCounts>, limit: usize) -> RobotsFacts {
    let (origins, changed) = robots.changed();
    let states = robots.states.iter();
    let states =
        states.map(|(name, sum)| NamedCount { name: (*name).to_owned(), count: sum.requests() });
    let mut outages: Vec<_> = robots.outages.iter().collect();
    // One that no counted request met is no part of the span.
    outages.retain(|outage| outage.last > 0);
    let count = outages.len() as u64 + robots.outages_left_out;
    let requests = |outage: &crawlgate_store::figures::OutageFigures| {
        outage.disallowed + outage.by_copy + outage.without_rules
    };
    outages.sort_by(|a, b| {
        let key = |outage: &crawlgate_store::figures::OutageFigures| {
            (outage.origin.clone(), outage.since)
        };
        requests(b).cmp(&requests(a)).then_with(|| key(a).cmp(&key(b)))
    });
    outages.truncate(limit);
    let row = |outage: &crawlgate_store::figures::OutageFigures| OutageRow {
        origin: outage.origin.clone(),
        since: time(outage.since),
        last_request: time(outage.last),
        cause: outage.cause.clone(),
        attempts: outage.attempts,
        disallowed: outage.disallowed,
        by_last_good_copy: outage.by_copy,
        without_rules: outage.without_rules,
    };
    RobotsFacts {
        states: states.collect(),
        different: robots.different,
        truncated: robots.truncated,
        origins,
        changed,
        lost: robots.lost,
        fetches,
        outage_count: count,
        outages: outages.into_iter().map(row).collect(),
    }
}

/// Returns the settings, in the order of their first use.
pub(super) async fn settings(
    table: &Table<Digest>,
    logs: &Readable<'_>,
) -> Result<Vec<SettingsRow>, StoreError> {
    let named = table.largest(TOP, Sum::requests);
    let digests: Vec<Digest> = named.iter().map(|(digest, _)| **digest).collect();
    let texts = logs.policies(&digests).await?;
    let row = |(digest, sum): (&Digest, &Sum)| SettingsRow {
        sha256: hex(digest),
        count: sum.requests(),
        first: time(sum.first),
        last: time(sum.last),
        settings: texts.get(digest).and_then(|text| serde_json::from_str(text).ok()),
    };
    let mut rows: Vec<SettingsRow> = named.into_iter().map(row).collect();
    rows.sort_by(|a, b| a.first.cmp(&b.first));
    Ok(rows)
}

pub(super) fn acknowledgements(figures: &Figures) -> Acknowledgements {
    Acknowledgements {
        refusals: figures.acknowledgeable,
        acknowledged: figures.acknowledged,
        unacknowledged: figures.acknowledgeable.saturating_sub(figures.acknowledged),
    }
}

/// Returns the fetches of robots.txt in the span, of all logs together; `None` unless the report is about all of them, and
/// some were counted. True if one of several logs has no counts.
pub(super) async fn fetches(
    question: &ReportQuery,
    logs: &Readable<'_>,
) -> Result<(Option<FetchCounts>, bool), StoreError> {
    if question.is_of_a_part() {
        return Ok((None, false));
    }
    let all = logs.fetch_sums(question.since, question.until).await?;
    let of_logs = all.len();
    let counted: Vec<_> = all
        .into_iter()
        .filter_map(|sums| {
            let first = sums.first.filter(|first| *first < question.until)?;
            Some((first, sums.by_result))
        })
        .collect();
    let lacks_some = of_logs > 1 && counted.len() < of_logs;
    let Some(first) = counted.iter().map(|(first, _)| *first).max() else {
        return Ok((None, lacks_some));
    };
    let mut fetches = FetchCounts {
        counted_since: time_text(first),
        is_cut_off: first > question.since,
        ..FetchCounts::default()
    };
    for sum in counted.into_iter().flat_map(|(_, by_result)| by_result) {
        fetches.count += sum.fetches;
        match &*sum.result {
            "successful" => fetches.successful += sum.fetches,
            "unavailable" => fetches.unavailable += sum.fetches,
            _ => fetches.unreachable += sum.fetches,
        }
        fetches.unchanged += sum.unchanged;
        fetches.changed += sum.changed;
        fetches.truncated += sum.truncated;
    }
    Ok((Some(fetches), lacks_some))
}
