//! Counts of what sites say of use, and of the uses that are refused.

use crawlgate_config::Mode;
use crawlgate_policy::Decision;
use crawlgate_policy::usage::{Stage, Usage};
use crawlgate_system::metrics::{Counters, Registry};
use crawlgate_usage::{Purpose, Said, Signal};

/// The sources of statements, as [`Place::source`](crawlgate_usage::Place::source) names them.
const SOURCES: [&str; 3] = ["robots", "header", "tdmrep"];

/// The results of reading a statement.
const RESULTS: [&str; 2] = ["read", "invalid"];

/// The times of a refusal.
const STAGES: [Stage; 2] = [Stage::Before, Stage::After];

/// The modes of a refusal.
const MODES: [Mode; 2] = [Mode::Enforce, Mode::Report];

/// The counters.
#[derive(Debug, Clone)]
pub(super) struct UsageCounts {
    /// By signal, source and result, in this order.
    statements: Counters,
    /// By purpose, stage and mode, in this order.
    refusals: Counters,
}

impl Default for UsageCounts {
    fn default() -> UsageCounts {
        let mut statements = Vec::new();
        for signal in Signal::ALL {
            for source in SOURCES {
                for result in RESULTS {
                    let labels = [("signal", signal.as_str()), ("source", source)];
                    statements.push(labels.into_iter().chain([("result", result)]).collect());
                }
            }
        }
        let mut refusals = Vec::new();
        for purpose in Purpose::ALL {
            for stage in STAGES {
                for mode in MODES {
                    let labels = [("purpose", purpose.as_str()), ("stage", stage.as_str())];
                    refusals.push(labels.into_iter().chain([("mode", mode.as_str())]).collect());
                }
            }
        }
        UsageCounts { statements: Counters::of(statements), refusals: Counters::of(refusals) }
    }
}

impl UsageCounts {
    /// Counts what was found in an exchange that has ended.
    pub(super) fn exchanged(&self, decision: &Decision, usage: &Usage) {
        self.said(&usage.before);
        if let Some(after) = &usage.after {
            self.said(&after.said);
        }
        let Some(stage) = usage.stage else { return };
        for purpose in usage.judged.refused.iter() {
            let mode = usize::from(decision.mode == Mode::Report);
            let stage = usize::from(stage == Stage::After);
            let place = (purpose as usize * STAGES.len() + stage) * MODES.len() + mode;
            self.refusals.add(place, 1);
        }
    }

    fn said(&self, said: &Said) {
        let read = said.preferences.iter();
        let read = read.map(|one| (one.signal, &one.place, 0));
        let licenses = said.licenses.iter();
        let licenses = licenses.map(|one| (Signal::License, &one.place, 0));
        let invalid = said.invalid.iter();
        let invalid = invalid.map(|one| (one.signal, &one.place, 1));
        for (signal, place, result) in read.chain(licenses).chain(invalid) {
            let source = place.source();
            let source = SOURCES.iter().position(|known| *known == source);
            let source = source.unwrap_or_default();
            let place = (signal as usize * SOURCES.len() + source) * RESULTS.len() + result;
            self.statements.add(place, 1);
        }
    }

    /// Registers the counters.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "crawlgate_usage_statements",
            "Statements of sites about the use of their content that applied to a request, by signal, source and whether they could be read",
            self.statements.clone(),
        );
        registry.register(
            "crawlgate_usage_refusals",
            "Declared purposes that a site refused, by the time (before the request was sent, or after the response came) and whether that was enforced or only reported",
            self.refusals.clone(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_order_of_the_labels() {
        let signals: Vec<usize> = Signal::ALL.iter().map(|signal| *signal as usize).collect();
        assert_eq!(signals, [0, 1, 2, 3, 4]);
        let purposes: Vec<usize> = Purpose::ALL.iter().map(|one| *one as usize).collect();
        assert_eq!(purposes, [0, 1, 2, 3, 4]);
    }
}
