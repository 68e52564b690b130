//! The fleet: this instance's link, the engine, and the members. The script renews the page's content.

use askama::Template;
use axum::extract::{RawQuery, State};

use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::filter::params;
use super::format::number;
use super::layout::{Layout, Page, PageResult, Section};
use crawlgate_turns::fleet::overview::{EngineView, FleetCounts, FleetView, LinkView, MemberView};

/// The share of its memory, in hundredths, from which an engine is said to be full soon.
const FULL_SOON: u64 = 80;

/// Silence after which a member is marked, in milliseconds.
const SILENT: u64 = 1_000;

#[derive(Template)]
#[template(path = "fleet.html", config = "src/http/console/askama.toml")]
pub(super) struct FleetPage {
    layout: Layout,
    fleet: FleetView,
}

/// A part of the fleet with its state: `good`, `fair` or `bad`.
struct Check {
    class: &'static str,
    name: &'static str,
    detail: String,
}

impl FleetPage {
    fn checks(&self) -> Vec<Check> {
        let link = self.fleet.link.as_ref().map(link_check);
        let engine = self.fleet.engine.as_ref().map(engine_check);
        link.into_iter().chain(engine).collect()
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.fleet.counts.as_ref().map(figures).unwrap_or_default()
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
    Ok(Page(FleetPage {
        layout: Layout::new(&app, &actor, Section::Fleet, "Fleet"),
        fleet: view.ok_or_else(alone)?,
    }))
}

/// Returns the class of a member.
fn member(one: &MemberView) -> &'static str {
    class(&one.link, one.silent_ms >= SILENT)
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
        (Some(heard), Some(trip)) => {
            format!("last answer {} ms ago, after {} µs", number(heard), number(trip))
        }
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
    let share = engine.memory_limit.map(|limit| used.saturating_mul(100) / limit.max(1));
    let memory = match (share, engine.memory_limit) {
        (Some(share), Some(limit)) => format!("{share} % of {} octets in use", number(limit)),
        _ => format!("{} octets in use, without a limit", number(used)),
    };
    let age = match engine.generation_age_ms {
        Some(age) => format!("; it has forgotten nothing for {} s", number(age / 1_000)),
        None => String::new(),
    };
    Check {
        class: if share.is_some_and(|share| share >= FULL_SOON) { "fair" } else { "good" },
        name: "Engine",
        detail: format!("{}, {}: {memory}{age}", engine.address, engine.version),
    }
}

fn figures(counts: &FleetCounts) -> Vec<(&'static str, u64)> {
    vec![
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
    ]
}
