//! Metrics of the robots cache: its fetches, and the states of its origins.

use crate::metrics::{Counters, DurationHistogram, Gauges, Registry, Unit};
use crate::robots::access::AccessResult;
use crate::robots::state::State;
use crate::store::Fetch;

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
    durations: DurationHistogram,
    origins: Gauges,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            fetches: Counters::by("result", &["successful", "unavailable", "unreachable"]),
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
    pub(super) fn fetched(&self, result: &AccessResult, fetch: Option<&Fetch>) {
        let kind = match result {
            AccessResult::Successful { .. } => 0,
            AccessResult::Unavailable { .. } => 1,
            AccessResult::Unreachable { .. } => 2,
        };
        self.fetches.add(kind, 1);
        if let Some(fetch) = fetch {
            self.durations.observe(fetch.duration);
        }
    }

    /// Counts a state that was added.
    pub(super) fn came(&self, known: Known) {
        self.origins.raise(known as usize);
    }

    /// Counts a state that was removed.
    pub(super) fn went(&self, known: Known) {
        self.origins.lower(known as usize);
    }

    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let Counts {
            fetches,
            durations,
            origins,
        } = self.clone();
        registry.register(
            "crawlgate_robots_fetches",
            "Fetches of robots.txt, by result",
            fetches,
        );
        registry.register_with_unit(
            "crawlgate_robots_fetch_duration",
            "Duration of robots.txt fetches, redirects included",
            Unit::Seconds,
            durations,
        );
        registry.register(
            "crawlgate_origins",
            "States in memory, one for each origin and crawler identity, by kind",
            origins,
        );
    }
}
