//! Metrics of the robots cache: its fetches, and the states of its origins.

use crawlgate_origins::access::AccessResult;
use crawlgate_origins::document::Document;
use crawlgate_origins::state::State;
use crawlgate_store::Fetch;
use crawlgate_system::metrics::{Counters, DurationHistogram, Gauges, Registry, Unit};

/// The kind of a state, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    Successful,
    Unavailable,
    Unreachable,
}

impl Known {
    pub(super) fn of(state: &State) -> Known {
        match state {
            State::NeverFetched => Known::Nothing,
            State::Successful { .. } => Known::Successful,
            State::Unavailable { .. } => Known::Unavailable,
            State::Unreachable { .. } => Known::Unreachable,
        }
    }
}

/// The metrics of the robots cache.
#[derive(Debug, Clone)]
pub struct Counts {
    fetches: Counters,
    /// Fetches of tdmrep.json.
    tdmrep_fetches: Counters,
    durations: DurationHistogram,
    origins: Gauges,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            fetches: Counters::by("result", &["successful", "unavailable", "unreachable"]),
            tdmrep_fetches: Counters::by(
                "result",
                &["successful", "unavailable", "unreachable", "unusable"],
            ),
            // From a millisecond to half a minute.
            durations: DurationHistogram::between(-10..6),
            origins: Gauges::by(
                "state",
                &["never_fetched", "successful", "unavailable", "unreachable"],
            ),
        }
    }
}

impl Counts {
    /// Counts a fetch that has ended.
    pub(super) fn fetched(&self, document: Document, result: &AccessResult, fetch: Option<&Fetch>) {
        let kind = match result {
            AccessResult::Successful { snapshot, .. }
                if document == Document::TdmRep && snapshot.tdmrep().is_err() =>
            {
                3
            }
            AccessResult::Successful { .. } => 0,
            AccessResult::Unavailable { .. } => 1,
            AccessResult::Unreachable { .. } => 2,
        };
        match document {
            Document::RobotsTxt => self.fetches.add(kind, 1),
            Document::TdmRep => {
                self.tdmrep_fetches.add(kind, 1);
                return;
            }
        }
        if let Some(fetch) = fetch {
            self.durations.observe(fetch.duration);
        }
    }

    /// Counts a state that was added. Those of tdmrep.json are not counted here.
    pub(super) fn state_added(&self, document: Document, known: Known) {
        if document == Document::RobotsTxt {
            self.origins.raise(known as usize);
        }
    }

    /// Counts a state that was removed.
    pub(super) fn state_removed(&self, document: Document, known: Known) {
        if document == Document::RobotsTxt {
            self.origins.lower(known as usize);
        }
    }

    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let Counts { fetches, tdmrep_fetches, durations, origins } = self.clone();
        registry.register("crawlgate_robots_fetches", "Fetches of robots.txt, by result", fetches);
        registry.register(
            "crawlgate_tdmrep_fetches",
            "Fetches of tdmrep.json, by result; unusable is an answer that is no such file",
            tdmrep_fetches,
        );
        registry.register_with_unit(
            "crawlgate_robots_fetch_duration",
            "Duration of robots.txt fetches, redirects included",
            Unit::Seconds,
            durations,
        );
        registry.register(
            "crawlgate_origins",
            "States of robots.txt in memory, one for each origin and crawler identity, by kind",
            origins,
        );
    }
}
