//! A flight: the task that fetches one document of an origin, as one identity, while requests wait for it.

use std::sync::Arc;

use http::HeaderValue;
use tracing::{debug, info};

use super::Shared;
use super::entry::{CUT, Cut, EXHAUSTED, Entry};
use super::fetch_handle::{FetchCompletion, FetchHandle};
use super::hops::FetchSubject;
use super::settings::Settings;
use crate::cache::fetch::{FetchRequest, HopJudge};
use crawlgate_origins::access::{AccessResult, Cause};
use crawlgate_origins::identity::{FetchedAs, Identity, OWN};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{FetchEnd, State};
use crawlgate_robots::Origin;
use crawlgate_store::{self as store, OriginUpdate};
use crawlgate_system::clock::Moment;

/// One flight. It ends exactly once, also when its task panics or is dropped.
pub(super) struct FetchTask {
    pub(super) shared: Arc<Shared>,
    pub(super) entry: Arc<Entry>,
    /// The origin, and the crawler that started it.
    pub(super) subject: Arc<FetchSubject>,
    stage: Stage,
    /// Dropped last: waiters then find the new state.
    completion: FetchCompletion,
}

/// The progress of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It asks the origin.
    Fetching,
    /// It has ended.
    Completed,
}

impl Shared {
    pub(super) fn start_fetch(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        subject: FetchSubject,
    ) -> FetchHandle {
        let (completion, flight) = FetchHandle::new(subject.depth);
        let task = FetchTask {
            shared: Arc::clone(self),
            entry: Arc::clone(entry),
            subject: Arc::new(subject),
            stage: Stage::Fetching,
            completion,
        };
        tokio::spawn(task.run());
        flight
    }
}

impl FetchTask {
    async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let settings = shared.settings.load_full();
        match &shared.sharing {
            None => {
                let (result, fetch) = self.fetched(&settings).await;
                self.end(result, fetch);
            }
            // Boxed: a fleet should not burden the fetches of an instance without one.
            Some(sharing) => Box::pin(self.run_in_fleet(sharing, &settings)).await,
        }
        drop(self);
        shared.bound_after_flight();
    }

    /// Asks the origin.
    pub(super) async fn fetched(&self, settings: &Settings) -> (AccessResult, store::Fetch) {
        let (result, fetch) = (self.shared.fetch)(self.asked(settings)).await;
        self.confirmed(settings, result, fetch).await
    }

    /// Ends the flight with the result of its fetch; returns the fetch if it has changed the state.
    pub(super) fn end(
        &mut self,
        result: AccessResult,
        fetch: store::Fetch,
    ) -> Option<store::Fetch> {
        if result.is_of_this_machine() {
            self.give_up(&result);
            return None;
        }
        if self.is_cut_short(&result) {
            self.cut_short(&result);
            return None;
        }
        let mut published = fetch.clone();
        result.name().clone_into(&mut published.result);
        self.complete(result, Some(fetch));
        Some(published)
    }

    /// Ends the flight without a fetch.
    pub(super) fn end_without_fetch(&mut self) {
        self.stage = Stage::Completed;
        // A slot with a flight is never removed.
        if let Some(slot) = self.entry.slots.lock().of(&self.subject.identity) {
            slot.flight = None;
        }
    }

    /// Returns the parameters of the fetch.
    pub(super) fn asked(&self, settings: &Settings) -> FetchRequest {
        let user_agent = settings.user_agents.for_identity(&self.subject.identity);
        let user_agent = HeaderValue::from_str(&user_agent);
        FetchRequest {
            origin: self.subject.origin.clone(),
            identity: self.subject.identity.clone(),
            client: self.subject.client.clone(),
            // The configuration accepts only valid values.
            user_agent: user_agent.unwrap_or(HeaderValue::from_static(OWN)),
            signed_as: settings.signed_as.of(self.subject.identity.client()).cloned(),
            config: Arc::clone(&settings.ours.config),
            judge: self.judge(),
        }
    }

    fn judge(&self) -> HopJudge {
        let (shared, subject) = (Arc::clone(&self.shared), Arc::clone(&self.subject));
        Box::new(move |origin, path| {
            let (shared, subject) = (Arc::clone(&shared), Arc::clone(&subject));
            Box::pin(async move { shared.judge_hop(&subject, &origin, &path).await })
        })
    }

    /// Ends the flight without having asked the origin, so its state stays as it is.
    fn give_up(&mut self, result: &AccessResult) {
        self.stage = Stage::Completed;
        tell(&self.subject.origin, &self.subject.identity, result);
        let document = self.subject.identity.document();
        self.shared.counts.fetched(document, result, None);
        // A slot with a flight is never removed.
        if let Some(slot) = self.entry.slots.lock().of(&self.subject.identity) {
            slot.flight = None;
            slot.exhausted_until = Some(self.shared.clock.now() + EXHAUSTED);
        }
    }

    /// Tells whether the origin could not be judged because it stands in the middle of a chain of redirects. A fetch
    /// that begins here may judge it, so this result says nothing about it.
    fn is_cut_short(&self, result: &AccessResult) -> bool {
        let is_chain = matches!(result, AccessResult::Unreachable { cause: Cause::HopChain, .. });
        is_chain && self.subject.depth > 0
    }

    /// Ends the flight in the middle of a chain of redirects. Its state stays as it is.
    fn cut_short(&mut self, result: &AccessResult) {
        self.stage = Stage::Completed;
        tell(&self.subject.origin, &self.subject.identity, result);
        let document = self.subject.identity.document();
        self.shared.counts.fetched(document, result, None);
        // A slot with a flight is never removed.
        if let Some(slot) = self.entry.slots.lock().of(&self.subject.identity) {
            slot.flight = None;
            slot.cut =
                Some(Cut { depth: self.subject.depth, until: self.shared.clock.now() + CUT });
        }
        self.completion.cut();
    }

    /// Returns the newest copy of the origin's file, fetched for any crawler, and the User-Agent that was given it.
    fn newest_copy(&self) -> Option<(Arc<Snapshot>, Arc<str>)> {
        let slots = self.entry.slots.lock();
        let (slot, copy) = slots.newest_copy(self.subject.identity.document())?;
        let fetched_as = slot.fetched_as.as_ref();
        let user_agent = fetched_as.map(|one| Arc::clone(&one.user_agent));
        Some((Arc::clone(copy), user_agent.unwrap_or_default()))
    }

    /// Ends the flight with the meaning of a fetch. Without a `fetch`, none has finished and nothing is stored.
    fn complete(&mut self, result: AccessResult, mut fetch: Option<store::Fetch>) {
        self.stage = Stage::Completed;
        let settings = self.shared.settings.load_full();
        let config = &settings.ours.config;
        let document = self.subject.identity.document();
        // A copy for any crawler counts: this crawler is not judged by it, but it proves that the origin has a file.
        let held = self.newest_copy();
        let result = match held {
            Some(_) => result.with_stored_copy(),
            None => result,
        };
        if let Some(fetch) = &mut fetch {
            result.name().clone_into(&mut fetch.result);
        }
        tell(&self.subject.origin, &self.subject.identity, &result);
        let counts = &self.shared.counts;
        counts.fetched(document, &result, fetch.as_ref());
        let mut slots = self.entry.slots.lock();
        let now = self.shared.clock.now();
        // A slot with a flight is never removed.
        let Some(slot) = slots.of(&self.subject.identity) else {
            return;
        };
        // First, so that a failure below cannot leave a flight that never ends.
        (slot.flight, slot.cut) = (None, None);
        let uptime = self.shared.clock.uptime();
        let end = FetchEnd {
            now,
            since_failure: slot.failed.map(|failed| uptime.since(failed)),
            reach: self.shared.reach.fetched(&self.subject.origin, &result),
        };
        let before = State::clone(&slot.normalize(now, config));
        let has_told = !matches!(result, AccessResult::Unreachable { .. });
        let mut state =
            before.after(result, end, &config.timing, jitter(&self.subject.origin, now));
        // A long outage must not open the origin to a new name, when the rules for others are known.
        let lent = match held {
            Some((copy, user_agent)) if is_bare(&state) => {
                state = state.with_last_good(copy);
                Some(FetchedAs::new(self.subject.identity.clone(), user_agent))
            }
            _ => None,
        };
        match state.outage().map(|outage| outage.last_failure) {
            Some(Some(last)) if last == now => slot.failed = Some(uptime),
            // The gate's own failure leaves the moment of the origin's last failure unchanged.
            Some(_) => {}
            None => slot.failed = None,
        }
        slot.state = Arc::new(state);
        self.shared.changes.origin_updated(self.entry.group);
        // A failure replaces no earlier knowledge.
        let rests_on_it = has_told || is_bare(&slot.state) || slot.fetched_as.is_none();
        let fetched_as = match (lent, &slot.fetched_as) {
            (Some(lent), _) => Arc::new(lent),
            (None, Some(before)) if !rests_on_it => Arc::clone(before),
            (None, _) => {
                let identity = &self.subject.identity;
                let user_agent = match &fetch {
                    Some(fetch) => fetch.user_agent.as_str().into(),
                    None => settings.user_agents.for_identity(identity).into(),
                };
                Arc::new(FetchedAs::new(identity.clone(), user_agent))
            }
        };
        slot.fetched_as = Some(Arc::clone(&fetched_as));
        self.shared.update_size(slot);
        if let (Some(persistent), Some(fetch)) = (&self.shared.persistent, fetch) {
            // Under the lock: no request uses this state before the log has it, so its records come after it.
            persistent.record(OriginUpdate {
                origin: self.subject.origin.clone(),
                state: Arc::clone(&slot.state),
                user_agent: Arc::clone(&fetched_as.user_agent),
                fetch,
            });
        }
    }
}

/// Tells whether a state rests only on failures.
fn is_bare(state: &State) -> bool {
    matches!(state, State::Unreachable { last_good: None, .. })
}

impl Drop for FetchTask {
    fn drop(&mut self) {
        match self.stage {
            Stage::Fetching => {
                let result =
                    AccessResult::Unreachable { cause: Cause::Internal, retry_after: None };
                self.complete(result, None);
            }
            Stage::Completed => {}
        }
    }
}

fn tell(origin: &Origin, identity: &Identity, result: &AccessResult) {
    let document = identity.document();
    match result {
        AccessResult::Successful { snapshot, .. } => {
            debug!(%origin, %identity, status = snapshot.status, from = %snapshot.final_url, "{document} fetched");
        }
        AccessResult::Unavailable { why, .. } => {
            debug!(%origin, %identity, "no {document}: {why}");
        }
        AccessResult::Unreachable { cause, .. } => {
            info!(%origin, %identity, "{document} cannot be had: {cause}");
        }
    }
}

/// Returns a number in `0.0..1.0` that differs between origins and attempts: enough to spread retries.
fn jitter(origin: &Origin, now: Moment) -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let hash = RandomState::new().hash_one((origin, now.as_millis()));
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}
