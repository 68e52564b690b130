//! The part of the log that a place has, for the API and `/metrics`.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crawlgate_store::StoredCheckpoint;
use crawlgate_system::clock::{Clock, Moment, Uptime};
use crawlgate_system::metrics::{Collector, Unit, show};

/// Faults that are remembered as told.
const MAX_KNOWN_FAULTS: usize = 256;

/// The part of the log that a place has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The place.
    pub to: String,
    /// Number of records that it has, with a checkpoint over them.
    pub shipped: u64,
    /// Time of that checkpoint; `None` without one, or the store does not have it any more.
    pub shipped_at: Option<Moment>,
    /// Number of signed records that it does not have.
    pub behind: u64,
    /// Age of the first checkpoint that it does not have; zero if it has all.
    pub behind_for: Duration,
    /// Number of records in the place of which this process has shipped the statement of a gap.
    pub missing: u64,
    /// Time at which a pass came to its end.
    pub passed_at: Option<Moment>,
    /// The reason why the last pass came to nothing.
    pub failure: Option<String>,
    /// The last of these reasons, and its time.
    pub last_failure: Option<(Moment, String)>,
}

/// The changing state of the shipping.
#[derive(Debug)]
pub(super) struct StatusCell {
    to: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Without what follows from the time and from the checkpoints.
    status: Status,
    /// The size of the newest checkpoint.
    newest: u64,
    /// Time of the first checkpoint that is not shipped.
    waits_since: Option<Moment>,
    failures: u64,
    /// Time of the first of the last passes that another process has kept from the place.
    busy_since: Option<Uptime>,
    known_faults: BTreeSet<String>,
}

impl StatusCell {
    pub(super) fn new(to: String, shipped: u64) -> Self {
        let state = State {
            status: Status { to: to.clone(), shipped, ..Status::default() },
            newest: 0,
            waits_since: None,
            failures: 0,
            busy_since: None,
            known_faults: BTreeSet::new(),
        };
        let state = Mutex::new(state);
        Self { to, state }
    }

    pub(super) fn to(&self) -> &str {
        &self.to
    }

    /// Notes how far the log is signed.
    pub(super) fn look(&self, checkpoints: &[StoredCheckpoint]) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.newest = checkpoints.last().map_or(0, |newest| newest.size);
        let shipped = state.status.shipped;
        let at = checkpoints.iter().find(|one| one.size == shipped);
        state.status.shipped_at = at.map(|one| one.time);
        let first = checkpoints.iter().find(|one| one.size > shipped);
        state.waits_since = first.map(|one| one.time);
    }

    /// Notes how far the log is shipped.
    pub(super) fn shipped(&self, size: u64) {
        self.state.lock().status.shipped = size;
    }

    /// Notes that a pass came to its end. Returns the number of shipped records if the one before did not.
    pub(super) fn succeeded(&self, now: Moment) -> Option<u64> {
        let mut state = self.state.lock();
        state.busy_since = None;
        state.status.passed_at = Some(now);
        let shipped = state.status.shipped;
        state.status.failure.take().map(|_| shipped)
    }

    /// Notes that another process has the place. Returns for how long it has had it.
    pub(super) fn busy(&self, now: Uptime) -> Duration {
        let mut state = self.state.lock();
        now.since(*state.busy_since.get_or_insert(now))
    }

    /// Notes that a pass came to nothing. True if the reason is another one than before.
    pub(super) fn failed(&self, why: &str, now: Moment) -> bool {
        let mut state = self.state.lock();
        state.failures += 1;
        state.status.last_failure = Some((now, why.to_owned()));
        let before = state.status.failure.replace(why.to_owned());
        before.as_deref() != Some(why)
    }

    /// Notes records in the place of which a gap is stated.
    pub(super) fn missing(&self, records: u64) {
        self.state.lock().status.missing += records;
    }

    /// Tells whether a fault was not told before.
    pub(super) fn is_new_fault(&self, fault: &str) -> bool {
        let mut state = self.state.lock();
        if state.known_faults.len() >= MAX_KNOWN_FAULTS {
            state.known_faults.clear();
        }
        state.known_faults.insert(fault.to_owned())
    }

    pub(super) fn status(&self, now: Moment) -> Status {
        let state = self.state.lock();
        let waits = state.waits_since.map(|since| now.since(since));
        Status {
            behind: state.newest.saturating_sub(state.status.shipped),
            behind_for: waits.unwrap_or_default(),
            ..state.status.clone()
        }
    }
}

/// The instruments.
#[derive(Debug)]
pub(super) struct Instruments(pub(super) Arc<StatusCell>, pub(super) Clock);

impl Collector for Instruments {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.1.now();
        let status = self.0.status(now);
        let seconds = |span: Duration| ConstGauge::new(span.as_secs_f64());
        show(
            &mut encoder,
            "crawlgate_ship_size",
            "Records that the place of [ship] has, with a checkpoint over them",
            None,
            &ConstGauge::new(status.shipped),
        )?;
        show(
            &mut encoder,
            "crawlgate_ship_pending_records",
            "Signed records that the place of [ship] does not have",
            None,
            &ConstGauge::new(status.behind),
        )?;
        show(
            &mut encoder,
            "crawlgate_ship_behind",
            "Age of the first checkpoint that the place of [ship] does not have; 0 if it has all",
            Some(&Unit::Seconds),
            &seconds(status.behind_for),
        )?;
        let age = status.shipped_at.map_or(Duration::ZERO, |at| now.since(at));
        show(
            &mut encoder,
            "crawlgate_ship_checkpoint_age",
            "Age of the newest checkpoint that the place of [ship] has; 0 without one",
            Some(&Unit::Seconds),
            &seconds(age),
        )?;
        show(
            &mut encoder,
            "crawlgate_ship_failing",
            "1 while the decision log cannot be shipped",
            None,
            &ConstGauge::new(i64::from(status.failure.is_some())),
        )?;
        show(
            &mut encoder,
            "crawlgate_ship_failures",
            "Passes of [ship] that came to nothing",
            None,
            &ConstCounter::new(self.0.state.lock().failures),
        )?;
        show(
            &mut encoder,
            "crawlgate_ship_missing_records",
            "Records that were damaged before they were shipped: the place of [ship] has the statement of a gap instead",
            None,
            &ConstCounter::new(status.missing),
        )
    }
}
