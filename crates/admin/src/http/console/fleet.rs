//! The fleet: this instance's link, the engine, and the members. The script renews the page's content.

use askama::Template;
use axum::extract::{RawQuery, State};

use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::filter::params;
use super::format::{Timestamp, line, number};
use super::layout::{Layout, Page, PageResult, Section};
use crawlgate_system::clock::Moment;
use crawlgate_turns::fleet::overview::{EngineView, FleetCounts, FleetView, LinkView, MemberView};

/// The share of its memory, in hundredths, from which an engine is said to be full soon.
const FULL_SOON: u64 = 80;

/// Silence after which a member is marked, in milliseconds.
const SILENT: u64 = 1_000;

#[derive(Template)]
#[template(path = "fleet.html", config = "src/http/console/askama.toml")]
pub(super) struct FleetPage {
    layout: Layout,
    instance: String,
    checks: Vec<Check>,
    members: Vec<MemberRow>,
    figures: Vec<(&'static str, String)>,
}

/// A part of the fleet with its state: `good`, `fair` or `bad`.
struct Check {
    class: &'static str,
    name: &'static str,
    detail: String,
}

struct MemberRow {
    name: String,
    class: &'static str,
    link: String,
    heard: String,
    overrides: String,
    since: Option<Timestamp>,
    version: String,
    /// The sections of the configuration that differ, in words.
    differs: String,
}

impl MemberRow {
    fn of(one: &MemberView, now: Moment) -> MemberRow {
        MemberRow {
            name: line(&one.name),
            class: class(&one.link, one.silent_ms >= SILENT),
            link: line(&one.link.replace('_', " ")),
            heard: format!("{} ms ago", number(one.silent_ms)),
            overrides: number(one.overrides),
            since: one
                .since
                .as_deref()
                .and_then(|time| Timestamp::of(time, now)),
            version: line(&one.version),
            differs: line(&one.differs.join(", ")),
        }
    }
}

/// `/fleet`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
) -> PageResult<FleetPage> {
    params(query.as_deref()).finish(&[])?;
    let view = app.process().fleet().await;
    let alone = || Problem::missing("This instance is not in a fleet: there is no [fleet] engine.");
    let now = app.now();
    let FleetView {
        instance,
        link,
        engine,
        members,
        counts,
    } = view.ok_or_else(alone)?;
    let checks = [
        link.as_ref().map(link_check),
        engine.as_ref().map(engine_check),
    ];
    Ok(Page(FleetPage {
        layout: Layout::new(&app, &actor, Section::Fleet, "Fleet"),
        instance: line(&instance.unwrap_or_default()),
        checks: checks.into_iter().flatten().collect(),
        members: members.iter().map(|one| MemberRow::of(one, now)).collect(),
        figures: counts.as_ref().map(figures).unwrap_or_default(),
    }))
}

fn class(link: &str, is_silent: bool) -> &'static str {
    match (link, is_silent) {
        ("connected", false) => "good",
        ("cut_off", _) => "bad",
        _ => "fair",
    }
}

fn link_check(link: &LinkView) -> Check {
    let last = match (link.heard_ms, link.round_trip_us) {
        (Some(heard), Some(trip)) => format!(
            "last answer {} ms ago, after {} µs",
            number(heard),
            number(trip)
        ),
        _ => "no answer yet".to_owned(),
    };
    let since = link.since.as_deref().unwrap_or("-");
    Check {
        class: class(&link.state, false),
        name: "Link",
        detail: format!("{} since {since}; {last}", link.state.replace('_', " ")),
    }
}

fn engine_check(engine: &EngineView) -> Check {
    let used = engine.memory_used;
    let share = engine
        .memory_limit
        .map(|limit| used.saturating_mul(100) / limit.max(1));
    let memory = match (share, engine.memory_limit) {
        (Some(share), Some(limit)) => format!("{share} % of {} octets in use", number(limit)),
        _ => format!("{} octets in use, without a limit", number(used)),
    };
    let age = match engine.generation_age_ms {
        Some(age) => format!("; it has forgotten nothing for {} s", number(age / 1_000)),
        None => String::new(),
    };
    Check {
        class: if share.is_some_and(|share| share >= FULL_SOON) {
            "fair"
        } else {
            "good"
        },
        name: "Engine",
        detail: line(&format!(
            "{}, {}: {memory}{age}",
            engine.address, engine.version
        )),
    }
}

fn figures(counts: &FleetCounts) -> Vec<(&'static str, String)> {
    let figures = [
        ("Leases held", counts.leases_held),
        ("Leases acquired", counts.leases_acquired),
        ("Leases lost", counts.leases_lost),
        ("Late results refused", counts.results_refused),
        ("Turns asked for", counts.turns_asked),
        ("Turns granted", counts.turns_granted),
        ("Heartbeats without an answer", counts.heartbeats_failed),
        ("Scripts without an answer", counts.scripts_unanswered),
        ("Scripts refused", counts.scripts_refused),
        ("Seals that did not verify", counts.unsealed),
    ];
    figures.map(|(name, count)| (name, number(count))).into()
}
