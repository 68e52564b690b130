//! What the registry counts: fetches, and what is known of the origins that it holds.

use crate::metrics::{Levels, Registry, Tally, Times, Unit};
use crate::robots::access::AccessResult;
use crate::robots::state::State;
use crate::store::Fetch;

/// What a state tells of its origin, as it is counted.
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

/// What the registry counts.
#[derive(Debug, Clone)]
pub struct Counts {
    fetches: Tally,
    durations: Times,
    origins: Levels,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            fetches: Tally::by("result", &["successful", "unavailable", "unreachable"]),
            // From a millisecond to half a minute.
            durations: Times::between(-10..6),
            origins: Levels::by(
                "state",
                &["never_fetched", "successful", "unavailable", "unreachable"],
            ),
        }
    }
}

impl Counts {
    /// A fetch has ended.
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

    /// Another state is held.
    pub(super) fn came(&self, known: Known) {
        self.origins.raise(known as usize);
    }

    /// One is held no longer.
    pub(super) fn went(&self, known: Known) {
        self.origins.lower(known as usize);
    }

    /// Shows all of it.
    pub fn register(&self, registry: &mut Registry) {
        let Counts {
            fetches,
            durations,
            origins,
        } = self.clone();
        registry.register(
            "crawlgate_robots_fetches",
            "Fetches of robots.txt, by what they meant",
            fetches,
        );
        registry.register_with_unit(
            "crawlgate_robots_fetch_duration",
            "How long fetches of robots.txt took, redirects included",
            Unit::Seconds,
            durations,
        );
        registry.register(
            "crawlgate_origins",
            "States held in memory, one for each origin and crawler identity, by what is known of robots.txt",
            origins,
        );
    }
}
