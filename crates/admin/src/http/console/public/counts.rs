//! The counts of the page for everyone.

use crawlgate_system::metrics::{Counters, Registry};

/// The counts of questions, by outcome.
#[derive(Debug, Clone)]
pub struct TryCounts(Counters);

/// The outcome of a question, in the order of its labels.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome {
    Judged,
    Invalid,
    NotPublic,
    Limited,
    Busy,
}

impl Default for TryCounts {
    fn default() -> TryCounts {
        let outcomes = ["judged", "invalid", "not_public", "limited", "busy"];
        TryCounts(Counters::by("outcome", &outcomes))
    }
}

impl TryCounts {
    pub(super) fn add(&self, outcome: Outcome) {
        self.0.add(outcome as usize, 1);
    }

    /// Registers the metric.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "crawlgate_public_try_questions",
            "Questions at the page of [admin] public_try, by outcome; not_public: the site has no public address; limited: \
             the peer asks too often",
            self.0.clone(),
        );
    }
}
