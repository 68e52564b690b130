//! The work of crawlgate on one page.

use std::time::Duration;

use askama::Template;
use axum::extract::{RawQuery, State};
use url::form_urlencoded::Serializer;

use super::super::health::{Check, readiness};
use super::super::logs::MAX_PASSED;
use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::chart::{Chart, Series};
use super::denials::{SearchExtent, origin_link};
use super::filter::params;
use super::format::number;
use super::layout::{Layout, Page, PageResult, Section};
use super::origins::{next, state_link};
use crate::{ShipReport, Status, WitnessReport};
use crawlgate_config::{Recorded, format_moment};
use crawlgate_evidence::summary::sum;
use crawlgate_gate::explain::states::{about, since};
use crawlgate_policy::{Outcome, Reason};
use crawlgate_robots::Origin;
use crawlgate_store::logs::{EntryKind, MergedList};
use crawlgate_store::{DecisionQuery, GroupBy, HOUR, Hourly, OriginQuery, StoredOrigin};
use crawlgate_system::clock::Moment;
use crawlgate_turns::pace::Source;

/// Time for the records so far to be written.
const PATIENCE: Duration = Duration::from_millis(500);

/// Origins in a list.
const ORIGINS: usize = 10;

/// Parts of a number to show.
const PARTS: usize = 6;

#[derive(Template)]
#[template(path = "overview.html", config = "src/http/console/askama.toml")]
pub(super) struct OverviewPage {
    layout: Layout,
    ranges: Vec<Range>,
    range: &'static str,
    chart: Chart,
    /// The colours of the chart, each with the list of its decisions.
    legend: Vec<(Series, Option<String>)>,
    /// The query for the same hours, allowed requests included.
    recorded: String,
    figures: Vec<Figure>,
    busiest: Vec<OriginCount>,
    disallowed: Vec<OriginCount>,
    disallowed_of: Option<SearchExtent>,
    unreachable: Vec<StoredOrigin>,
    checks: Vec<Check>,
    is_ready: bool,
    is_kept: bool,
    status: Status,
}

/// Returns the state of a witness of the decision log: `good`, `fair` or `bad`, and its words.
fn witness(report: &WitnessReport) -> (&'static str, String) {
    match (report.ahead, &report.failure, report.pending) {
        (Some(size), ..) => (
            "bad",
            format!(
                "knows a checkpoint of {} records, which the store does not have: no checkpoint is signed",
                number(size)
            ),
        ),
        (None, Some(why), _) => ("bad", why.clone()),
        (None, None, true) => ("fair", "has not cosigned the newest checkpoint yet".to_owned()),
        (None, None, false) => ("good", "agrees".to_owned()),
    }
}

/// Returns the state of shipping the decision log, like that of a witness.
fn shipping(report: &ShipReport) -> (&'static str, String) {
    match (&report.failure, report.missing) {
        (Some(why), _) => ("bad", why.clone()),
        (None, missing @ 1..) => (
            "fair",
            format!(
                "{} records were damaged before they were shipped: the place has the statement of a gap instead",
                number(missing)
            ),
        ),
        (None, 0) if report.passed_at.is_none() => ("fair", "no pass has ended yet".to_owned()),
        (None, 0) => ("good", "is shipped".to_owned()),
    }
}

/// A range of time.
struct Range {
    word: &'static str,
    name: &'static str,
    is_here: bool,
}

/// A number and its meaning.
struct Figure {
    name: &'static str,
    count: String,
    /// The parts of the number.
    parts: Vec<FigurePart>,
    /// The list of what is counted, if there is one.
    href: Option<String>,
}

/// A part of a number.
struct FigurePart {
    name: String,
    count: String,
    href: Option<String>,
}

/// An origin with its count.
struct OriginCount {
    name: String,
    href: String,
    count: String,
}

impl OriginCount {
    fn of(origin: &str, count: u64) -> OriginCount {
        OriginCount { name: origin.to_owned(), href: origin_link(origin), count: number(count) }
    }
}

/// Names, hours to a bar, bars.
const RANGES: [(&str, &str, u64, usize); 3] =
    [("24h", "24 hours", 1, 24), ("7d", "7 days", 6, 28), ("30d", "30 days", 24, 30)];

/// `/`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
) -> PageResult<OverviewPage> {
    let mut params = params(query.as_deref());
    let words = RANGES.map(|(word, ..)| word);
    let word = params.word("range", &words)?;
    params.finish(&["range"])?;
    let chosen = RANGES.iter().find(|(known, ..)| Some(*known) == word.as_deref());
    let (word, range, step, bars) = *chosen.unwrap_or(&RANGES[0]);
    let now = app.now();
    // The figures below have what the store is about to have. A log that cannot be written now is told of under health.
    let _ = tokio::time::timeout(PATIENCE, app.proxy().log().flush()).await;
    let hours = hours(&app, now, step * bars as u64).await?;
    let is_denied = |one: &&Hourly| one.verdict != "allow";
    let denied: Vec<Hourly> = hours.iter().filter(is_denied).cloned().collect();
    let (most_disallowed, disallowed_of) = most_disallowed(&app).await?;
    let readiness = readiness(app.proxy()).await;
    let mut chart = Chart::of(&denied, now, step, bars);
    let start = format_moment(chart.start);
    let series = std::mem::take(&mut chart.series).into_iter();
    let legend = series.map(|one| {
        let is_listed = app.store().is_some() && !one.is_rest;
        let conditions = [("verdict", "any"), ("reason", &one.name)];
        let href = is_listed.then(|| listed(&start, &conditions));
        (one, href)
    });
    Ok(Page(OverviewPage {
        layout: Layout::new(&app, &actor, Section::Overview, "Overview"),
        ranges: RANGES
            .iter()
            .map(|(known, name, ..)| Range { word: known, name, is_here: *known == word })
            .collect(),
        range,
        legend: legend.collect(),
        chart,
        recorded: number(hours.iter().map(|one| one.count).sum::<u64>()),
        figures: figures(&app),
        busiest: busiest(&app),
        disallowed: most_disallowed,
        disallowed_of,
        unreachable: unreachable(&app).await?,
        is_ready: readiness.ready,
        checks: readiness.checks,
        is_kept: app.store().is_some(),
        status: app.process().status(),
    }))
}

impl OverviewPage {
    /// Returns the newest witnessed checkpoint in words.
    fn witnessed(&self) -> String {
        let status = &self.status;
        let (quorum, count) = (status.quorum.unwrap_or_default(), status.witnesses.len());
        match status.witnessed_size {
            Some(size) => format!(
                "The log is witnessed up to record {}: at least {quorum} of {count} have cosigned.",
                number(size)
            ),
            None => {
                format!(
                    "The log is not witnessed yet: fewer than {quorum} of {count} have cosigned."
                )
            }
        }
    }
}

async fn hours(app: &AppState, now: Moment, count: u64) -> Result<Vec<Hourly>, Problem> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    match app.store() {
        Some(store) => Ok(store.hours(now - HOUR.saturating_mul(count), now + HOUR).await?),
        None => Ok(Vec::new()),
    }
}

/// Returns the link to the decisions since `start` under conditions.
fn listed(start: &str, conditions: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("since", start).extend_pairs(conditions);
    format!("/denials?{}", query.finish())
}

/// Returns the first counts by code, each with its list.
fn parts(codes: &[(String, u64)], list_of: impl Fn(&str) -> Option<String>) -> Vec<FigurePart> {
    let codes = codes.iter().take(PARTS);
    let parts = codes.map(|(code, count)| FigurePart {
        name: code.clone(),
        count: number(*count),
        href: list_of(code),
    });
    parts.collect()
}

/// Returns the counts since the process began, with the lists of what they count.
fn figures(app: &AppState) -> Vec<Figure> {
    let totals = app.proxy().summary().totals();
    let gate = app.proxy().gate();
    let (start, is_kept) = (format_moment(app.started()), app.store().is_some());
    // Of the forwarded requests, other settings record a part.
    let has_all = is_kept && app.proxy().log().records(Recorded::All);
    let figure = |name, count: u64, conditions: &[(&str, &str)]| Figure {
        name,
        count: number(count),
        parts: Vec::new(),
        href: is_kept.then(|| listed(&start, conditions)),
    };
    let by_reason = |name, codes: &[(String, u64)], verdict, mode| {
        let list_of = |code: &str| {
            let conditions = [("verdict", "any"), ("mode", mode), ("reason", code)];
            is_kept.then(|| listed(&start, &conditions))
        };
        Figure {
            parts: parts(codes, list_of),
            ..figure(name, sum(codes), &[("verdict", verdict), ("mode", mode)])
        }
    };
    // No condition has several reasons: each part has its list.
    let denial = |name, codes: &[(String, u64)]| Figure {
        href: None,
        ..by_reason(name, codes, "deny", "enforce")
    };
    let now = |name, count: usize, href: Option<&str>| Figure {
        name,
        count: number(count as u64),
        parts: Vec::new(),
        href: href.filter(|_| is_kept).map(str::to_owned),
    };
    let (requests, forwarded) = (totals.requests(), totals.forwarded);
    let list_of = |conditions: &[(&str, &str)]| has_all.then(|| listed(&start, conditions));
    let forwarded_list = list_of(&[("verdict", "allow"), ("failed", "false")]);
    let mut figures = vec![
        Figure { href: list_of(&[("verdict", "any")]), ..figure("Requests", requests, &[]) },
        Figure {
            // No condition has both what is allowed and what report mode let out.
            href: forwarded_list.filter(|_| totals.reported.is_empty()),
            ..figure("Forwarded", forwarded, &[])
        },
        denial("Disallowed", &totals.disallowed),
        Figure {
            // The parts are causes, which no condition has.
            parts: parts(&totals.unreachable, |_| None),
            ..figure(
                "Unreachable",
                sum(&totals.unreachable),
                &[
                    ("verdict", "deny"),
                    ("mode", "enforce"),
                    ("reason", Reason::RobotsUnreachable.as_str()),
                ],
            )
        },
        denial("Refused here", &totals.refused_here),
        by_reason("Put off", &totals.deferred, "defer", "enforce"),
        Figure {
            parts: parts(&totals.failed, |_| None),
            ..figure("Failed", sum(&totals.failed), &[("failed", "true")])
        },
    ];
    if !totals.reported.is_empty() {
        figures.push(by_reason("Would be denied", &totals.reported, "deny", "report"));
    }
    let uncounted = app.proxy().log().refused_without_record();
    if uncounted > 0 {
        figures
            .push(Figure { href: None, ..figure("Of the refused, only counted", uncounted, &[]) });
    }
    let in_memory = gate.robots_cache().len();
    figures.push(now("Held now", gate.pace().held(), None));
    figures.push(now("Origins in memory", in_memory, Some("/origins")));
    figures
}

/// Returns the present pace of requests to an origin, in words.
pub(super) fn pace_in_force(app: &AppState, origin: &Origin) -> Option<String> {
    let pace = app.proxy().gate().pace().of(origin)?;
    let why = match pace.source {
        Source::Own => "[pace] requests_per_second",
        Source::CrawlDelay => "the Crawl-delay of its robots.txt",
        Source::RequestRate => "the Request-rate of its robots.txt",
        Source::Backoff => {
            "what the origin has answered: it is asked too much, slows down or cannot be reached"
        }
        Source::Concurrency => "[pace] concurrency",
        Source::Address => "[pace] per_address",
        Source::MaxHeld => "[pace] max_held",
    };
    let mut text = match pace.interval {
        Duration::ZERO => format!("by {why}"),
        interval => format!("{interval:?} from one request to the next, by {why}"),
    };
    if pace.clamped {
        text.push_str("; its robots.txt asks for more than [pace] max_crawl_delay lets it");
    }
    Some(text)
}

fn busiest(app: &AppState) -> Vec<OriginCount> {
    let busiest = app.proxy().gate().robots_cache().busiest(ORIGINS);
    busiest.iter().map(|(origin, count)| OriginCount::of(origin.as_str(), *count)).collect()
}

/// Returns the origins that disallow most, enforced or not, of the records that one page looks at.
async fn most_disallowed(
    app: &AppState,
) -> Result<(Vec<OriginCount>, Option<SearchExtent>), Problem> {
    if app.store().is_none() {
        return Ok((Vec::new(), None));
    }
    let logs = app.logs(None)?;
    let permit = app.work_permit().await?;
    let query = DecisionQuery {
        denial: Some(Outcome::Disallowed),
        newest_first: true,
        ..DecisionQuery::default()
    };
    let mut list = MergedList::new(&logs, EntryKind::Decisions, query).passing(MAX_PASSED);
    let tallies = list.count_by(GroupBy::Origin, ORIGINS).await?;
    drop(permit);
    let named = tallies.iter().filter_map(|tally| {
        let origin = tally.key.first().filter(|origin| !origin.is_empty())?;
        Some(OriginCount::of(origin, tally.count))
    });
    Ok((named.collect(), SearchExtent::of(&list, app.now())))
}

async fn unreachable(app: &AppState) -> Result<Vec<StoredOrigin>, Problem> {
    let Some(store) = app.store() else {
        return Ok(Vec::new());
    };
    let query = OriginQuery {
        state: Some("unreachable".to_owned()),
        limit: ORIGINS,
        ..OriginQuery::default()
    };
    Ok(store.origins(query).await?)
}
