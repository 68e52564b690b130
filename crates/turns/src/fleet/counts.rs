//! Counts of the calls of an engine: scripts by outcome, round trips, turns.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crawlgate_system::metrics::{Counters, DurationHistogram, Registry, Unit};

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was carried out.
    Done,
    /// The engine has lost what it knew.
    Lost,
    /// The engine has refused it.
    Refused,
    /// No answer came in time.
    Unanswered,
}

impl Outcome {
    const ALL: [&'static str; 4] = ["done", "lost", "refused", "unanswered"];
}

/// The counts of an engine's calls.
#[derive(Debug)]
pub struct Counts {
    /// By script, then by outcome.
    calls: Counters,
    scripts: usize,
    round_trips: DurationHistogram,
    turns_asked: AtomicU64,
    turns_granted: AtomicU64,
}

impl Counts {
    /// Returns counts of these scripts, by their places.
    pub(super) fn of(scripts: &[&'static str]) -> Counts {
        let kinds = scripts.iter().flat_map(|script| {
            Outcome::ALL.map(|outcome| vec![("script", *script), ("outcome", outcome)])
        });
        Counts {
            calls: Counters::of(kinds),
            scripts: scripts.len(),
            // From 30 µs to a second.
            round_trips: DurationHistogram::between(-15..0),
            turns_asked: AtomicU64::new(0),
            turns_granted: AtomicU64::new(0),
        }
    }

    /// Counts a call of the script at this place, and the time of its answer, if one came.
    pub(super) fn called(&self, place: usize, outcome: Outcome, time: Duration) {
        self.calls.add(place * Outcome::ALL.len() + outcome as usize, 1);
        if outcome != Outcome::Unanswered {
            self.round_trips.observe(time);
        }
    }

    /// Counts turns.
    pub(super) fn turns(&self, asked: u32, granted: usize) {
        self.turns_asked.fetch_add(asked.into(), Ordering::Relaxed);
        self.turns_granted.fetch_add(granted as u64, Ordering::Relaxed);
    }

    /// Returns the turns that were asked for, and those that were granted.
    pub(super) fn turns_asked_and_granted(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.turns_asked), read(&self.turns_granted))
    }

    /// Returns the number of calls with this outcome.
    pub(super) fn calls(&self, outcome: Outcome) -> u64 {
        let kinds = (outcome as usize..).step_by(Outcome::ALL.len());
        kinds.take(self.scripts).map(|kind| self.calls.count(kind)).sum()
    }

    /// Registers the instruments.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "crawlgate_fleet_script_calls",
            "Calls of scripts in the fleet's engine, by script and outcome",
            self.calls.clone(),
        );
        registry.register_with_unit(
            "crawlgate_fleet_round_trip",
            "Time of the answers of the fleet's engine",
            Unit::Seconds,
            self.round_trips.clone(),
        );
    }
}
