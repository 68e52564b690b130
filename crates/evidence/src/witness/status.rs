//! The state of each witness, for the console, the API and `/metrics`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::protocol::Outcome;
use crawlgate_config::AuditConfig;
use crawlgate_store::StoredCheckpoint;
use crawlgate_store::log_key::last_witnessed;
use crawlgate_system::clock::Moment;
use crawlgate_system::metrics::Collector;
use crawlgate_tlog::VerifierKey;

/// The state of a witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its name in the configuration.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// Its vkey.
    pub vkey: String,
    /// The size of the newest checkpoint that it has cosigned, and the time at which it did.
    pub cosigned: Option<(u64, Moment)>,
    /// True while the newest checkpoint lacks its cosignature.
    pub is_pending: bool,
    /// The size that it knows and the store does not have.
    pub ahead: Option<u64>,
    /// The reason why its last answer was no cosignature.
    pub failure: Option<String>,
}

/// The changing part of the state of a witness.
#[derive(Debug, Default)]
pub(super) struct StatusCell {
    state: Mutex<State>,
    outcomes: [AtomicU64; Outcome::WORDS.len()],
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) cosigned: Option<(u64, Moment)>,
    /// The size of the newest checkpoint.
    pub(super) newest: u64,
    pub(super) ahead: Option<u64>,
    pub(super) failure: Option<String>,
}

impl State {
    /// Tells whether the newest checkpoint lacks the cosignature.
    pub(super) fn is_pending(&self) -> bool {
        self.cosigned.map_or(0, |(size, _)| size) < self.newest
    }
}

impl StatusCell {
    pub(super) fn now(&self) -> State {
        self.state.lock().clone()
    }

    /// Changes the state, and returns what `change` does.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock())
    }

    pub(super) fn count(&self, outcome: Outcome) {
        if let Some(counter) = self.outcomes.get(outcome.place()) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The number of witnesses that a witnessed checkpoint has, and the newest such checkpoint.
#[derive(Debug)]
pub(super) struct Quorum {
    count: usize,
    keys: Vec<VerifierKey>,
    last: Mutex<Option<(u64, Moment)>>,
}

impl Quorum {
    pub(super) fn of(config: &AuditConfig) -> Self {
        Self { count: config.quorum, keys: config.witness_keys(), last: Mutex::default() }
    }

    /// Finds the newest of these checkpoints that enough witnesses have cosigned.
    pub(super) fn look(&self, checkpoints: &[StoredCheckpoint]) {
        let last = last_witnessed(checkpoints, &self.keys, self.count);
        *self.last.lock() = last.map(|(one, time)| (one.size, time));
    }

    pub(super) fn last(&self) -> Option<(u64, Moment)> {
        *self.last.lock()
    }
}

/// The instruments of all witnesses.
pub(super) struct Instruments(pub(super) Vec<(String, Arc<StatusCell>)>);

impl Collector for Instruments {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let states: Vec<(&str, State)> =
            self.0.iter().map(|(name, status)| (name.as_str(), status.now())).collect();
        let mut gauge = |name: &str, help: &str, value: fn(&State) -> u64| {
            let mut encoder = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            states.iter().try_for_each(|(witness, state)| {
                encoder.encode_family(&[("witness", *witness)])?.encode_gauge(&value(state))
            })
        };
        gauge(
            "crawlgate_witness_cosigned_size",
            "Records in the newest checkpoint that the witness has cosigned",
            |state| state.cosigned.map_or(0, |(size, _)| size),
        )?;
        gauge(
            "crawlgate_witness_pending",
            "1 while the newest checkpoint lacks the cosignature of the witness",
            |state| u64::from(state.is_pending()),
        )?;
        gauge(
            "crawlgate_witness_ahead",
            "1 while the witness knows a checkpoint that the store does not have: no checkpoint is signed then",
            |state| u64::from(state.ahead.is_some()),
        )?;
        let mut counter = encoder.encode_descriptor(
            "crawlgate_witness_requests",
            "Requests to the witness for a cosignature, by their outcome",
            None,
            MetricType::Counter,
        )?;
        for (witness, status) in &self.0 {
            for (word, count) in Outcome::WORDS.iter().zip(&status.outcomes) {
                counter
                    .encode_family(&[("witness", witness.as_str()), ("outcome", *word)])?
                    .encode_counter::<NoLabelSet, u64, u64>(&count.load(Ordering::Relaxed), None)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Instruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instruments")
    }
}
