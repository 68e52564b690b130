//! A flight: the task that fetches one origin's robots.txt, as one identity, while requests wait for it.
//!
//! A refusal to one identity says nothing about the robots.txt until the origin refuses crawlgate's own User-Agent,
//! too: the flight of that identity then joins or starts the flight of `*`, within its own deadline, and the stricter
//! answer counts. So one fetch confirms the refusals of any number of identities.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{debug, info};

use super::entry::{Change, EXHAUSTED, Entry, Slot, Slots, StoreLookup};
use super::hops::Hopper;
use super::{Settings, Shared};
use crate::cache::fetch::{Asked, Judges};
use crate::clock::Moment;
use crate::config::RobotsConfig;
use crate::rep::Origin;
use crate::robots::access::{AccessResult, Cause, Freshness};
use crate::robots::identity::{Crawler, FetchedAs, Identity, OWN};
use crate::robots::state::{FetchEnd, State};
use crate::store::{self, OriginUpdate, OtherAnswer, StoreError};

/// Greatest age of the state of `*` that may confirm a new answer to another identity.
const RECENT: Duration = Duration::from_secs(300);

/// One flight. It ends exactly once, also when its task panics or is dropped.
struct FetchTask {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
    /// The origin, and the crawler that started it.
    hopper: Arc<Hopper>,
    stage: Stage,
    /// Dropped last: waiters then find the new state.
    _landing: watch::Sender<()>,
}

/// The progress of a flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It asks the origin.
    Fetching,
    /// It has ended.
    Landed,
}

/// The state of `*`.
struct Common {
    state: Arc<State>,
    fetched_as: Option<Arc<FetchedAs>>,
    /// True if this machine had no descriptor left for the fetch.
    is_exhausted: bool,
}

/// A look-up of an origin in the store, in progress.
struct Recalling {
    entry: Arc<Entry>,
    /// Dropped last.
    _landing: watch::Sender<()>,
}

impl Shared {
    pub(super) fn start_fetch(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        hopper: Hopper,
    ) -> watch::Receiver<()> {
        let (landing, flight) = watch::channel(());
        let flight_of = FetchTask {
            shared: Arc::clone(self),
            entry: Arc::clone(entry),
            hopper: Arc::new(hopper),
            stage: Stage::Fetching,
            _landing: landing,
        };
        tokio::spawn(flight_of.fly());
        flight
    }

    /// Returns the look-up in the store that is in progress, or starts one.
    pub(super) fn join_recall(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        slots: &mut Slots,
    ) -> watch::Receiver<()> {
        let recalling = slots.recalling.get_or_insert_with(|| {
            let (landing, recalling) = watch::channel(());
            let recalled = Recalling {
                entry: Arc::clone(entry),
                _landing: landing,
            };
            tokio::spawn(recalled.ask(Arc::clone(self), origin.clone()));
            recalling
        });
        recalling.clone()
    }

    /// Waits until the store has loaded an origin's states; asks it again if it failed last.
    pub(super) async fn recalled(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
    ) -> Result<(), StoreError> {
        let mut recalling = {
            let mut slots = entry.slots.lock();
            if slots.recall == StoreLookup::Done {
                return Ok(());
            }
            self.join_recall(entry, origin, &mut slots)
        };
        // The sender is never used, only dropped.
        let _ = recalling.changed().await;
        match &entry.slots.lock().recall {
            StoreLookup::Failed { error, .. } => Err(error.clone()),
            StoreLookup::Due | StoreLookup::Done => Ok(()),
        }
    }

    /// Returns the state of `*`, if it is recent or its next attempt is not due; otherwise fetches it. `None` if that
    /// takes longer than `patience`.
    async fn common(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        config: &RobotsConfig,
        patience: Duration,
        depth: u8,
    ) -> Option<Common> {
        let seen = |slots: &mut Slots| {
            let now = self.clock.now();
            let crawler = Crawler::default();
            let slot = slots.slot(crawler, now, &mut |change: Change<'_>| self.count(change))?;
            slot.used = now;
            let state = slot.settle(now, config);
            let flight =
                (!is_recent(&state, now)).then(|| self.join(entry, origin, crawler, slot, depth));
            Some((state, slot.fetched_as.clone(), flight))
        };
        let (state, fetched_as, flight) = {
            let mut slots = entry.slots.lock();
            let found = seen(&mut slots)?;
            self.recount(&mut slots);
            found
        };
        let Some(mut flight) = flight else {
            return Some(Common {
                state,
                fetched_as,
                is_exhausted: false,
            });
        };
        timeout(patience, flight.changed()).await.ok().map(drop)?;
        let mut slots = entry.slots.lock();
        let slot = slots.of(&Identity::default())?;
        let now = self.clock.now();
        Some(Common {
            state: slot.settle(now, config),
            fetched_as: slot.fetched_as.clone(),
            is_exhausted: slot.is_exhausted(now),
        })
    }
}

/// Tells whether the state of `*` can confirm a new answer without a fetch.
fn is_recent(state: &State, now: Moment) -> bool {
    let is_waited_for = state
        .outage()
        .is_some_and(|outage| now < outage.next_attempt);
    let learnt = match state {
        State::Successful { snapshot, .. } => Some(snapshot.fetched),
        State::Unavailable { fetched, .. } => Some(*fetched),
        State::NeverFetched | State::Unreachable { .. } => None,
    };
    is_waited_for || learnt.is_some_and(|learnt| now.since(learnt) < RECENT)
}

impl Recalling {
    async fn ask(self, shared: Arc<Shared>, origin: Origin) {
        let config = Arc::clone(&shared.settings.load().ours.config);
        let recalled = match &shared.memory {
            Some(memory) => memory.recall(&origin, &config).await,
            None => Ok(Vec::new()),
        };
        {
            let mut slots = self.entry.slots.lock();
            let now = shared.clock.now();
            match recalled {
                // The origin was forgotten meanwhile.
                Ok(_) if slots.recall == StoreLookup::Done => {}
                Ok(known) => {
                    slots.recall = StoreLookup::Done;
                    for one in known {
                        let mut slot = Slot::new(one.fetched_as.identity.clone(), one.updated);
                        slot.state = Arc::new(one.state);
                        slot.fetched_as = Some(Arc::new(one.fetched_as));
                        Shared::weigh_new(&mut slot);
                        slots.put(slot, &mut |change| shared.count(change));
                    }
                    shared.recount(&mut slots);
                }
                Err(error) => {
                    let until = now + config.timing.retry_min;
                    slots.recall = StoreLookup::Failed { until, error };
                }
            }
        }
        drop(self);
        shared.bound();
    }
}

impl Drop for Recalling {
    fn drop(&mut self) {
        self.entry.slots.lock().recalling = None;
    }
}

impl FetchTask {
    async fn fly(mut self) {
        let shared = Arc::clone(&self.shared);
        let settings = shared.settings.load_full();
        let asked = self.asked(&settings);
        let (result, fetch) = (shared.fetch)(asked).await;
        match self.confirmed(&settings, result, fetch).await {
            (result, _) if result.is_of_this_machine() => self.give_up(&result),
            (result, fetch) => self.land(result, Some(fetch)),
        }
        drop(self);
        shared.bound();
    }

    fn asked(&self, settings: &Settings) -> Asked {
        let user_agent = settings.user_agents.for_identity(&self.hopper.identity);
        let user_agent = HeaderValue::from_str(&user_agent);
        Asked {
            origin: self.hopper.origin.clone(),
            identity: self.hopper.identity.clone(),
            // The configuration accepts only valid values.
            user_agent: user_agent.unwrap_or(HeaderValue::from_static(OWN)),
            config: Arc::clone(&settings.ours.config),
            judges: self.judges(),
        }
    }

    fn judges(&self) -> Judges {
        let (shared, hopper) = (Arc::clone(&self.shared), Arc::clone(&self.hopper));
        Box::new(move |origin, path| {
            let (shared, hopper) = (Arc::clone(&shared), Arc::clone(&hopper));
            Box::pin(async move { shared.judge_hop(&hopper, &origin, &path).await })
        })
    }

    /// Returns the answer that counts: for a refusal that may concern this identity alone, the stricter one of it and
    /// the answer to `*`.
    async fn confirmed(
        &self,
        settings: &Settings,
        result: AccessResult,
        fetch: store::Fetch,
    ) -> (AccessResult, store::Fetch) {
        let own = settings.user_agents.own();
        let refusal = match &result {
            AccessResult::Unavailable { why, .. } if why.may_be_personal() => *why,
            _ => return (result, fetch),
        };
        if fetch.user_agent == own {
            return (result, fetch);
        }
        let config = &settings.ours.config;
        let patience = config.fetch_timeout.saturating_sub(fetch.duration);
        let common = self.shared.common(
            &self.entry,
            &self.hopper.origin,
            config,
            patience,
            self.hopper.depth,
        );
        let (state, fetched_as, is_exhausted) = match common.await {
            Some(common) => (Some(common.state), common.fetched_as, common.is_exhausted),
            None => (None, None, false),
        };
        let now = self.shared.clock.now();
        let user_agent = match fetched_as {
            Some(fetched_as) => fetched_as.user_agent.to_string(),
            None => own.to_owned(),
        };
        let ours = OtherAnswer {
            user_agent: fetch.user_agent.clone(),
            code: refusal.code(),
        };
        match state.as_deref() {
            Some(State::Successful {
                snapshot, fresh, ..
            }) if now < fresh.until => {
                let fetch = store::Fetch {
                    time: now,
                    duration: fetch.duration + now.since(fetch.time),
                    user_agent,
                    other: Some(ours),
                    result: "successful".to_owned(),
                    cause: None,
                    status: Some(snapshot.status),
                    hops: vec![snapshot.final_url.to_string()],
                    sha256: Some(snapshot.sha256),
                    fields: Vec::new(),
                    identity: fetch.identity,
                };
                let result = AccessResult::Successful {
                    snapshot: Arc::clone(snapshot),
                    freshness: Freshness::MaxAge(fresh.until.since(now)),
                };
                (result, fetch)
            }
            Some(State::Unavailable { why, fresh, .. }) if now < fresh.until => {
                let other = OtherAnswer {
                    user_agent,
                    code: why.code(),
                };
                let fetch = store::Fetch {
                    other: Some(other),
                    ..fetch
                };
                (result, fetch)
            }
            other => {
                let outage = other.and_then(State::outage);
                let cause = match other {
                    _ if is_exhausted => Cause::Exhausted,
                    Some(_) => outage.map_or(Cause::Internal, |outage| outage.cause),
                    None => Cause::Timeout,
                };
                let result = AccessResult::Unreachable {
                    cause,
                    retry_after: None,
                };
                let fetch = store::Fetch {
                    time: now,
                    duration: fetch.duration + now.since(fetch.time),
                    user_agent,
                    other: Some(ours),
                    result: result.name().to_owned(),
                    cause: Some(cause.code()),
                    status: match cause {
                        Cause::Status(status) => Some(status),
                        _ => None,
                    },
                    fields: Vec::new(),
                    ..fetch
                };
                (result, fetch)
            }
        }
    }

    /// Ends the flight without having asked the origin, so its state stays as it is.
    fn give_up(&mut self, result: &AccessResult) {
        self.stage = Stage::Landed;
        tell(&self.hopper.origin, &self.hopper.identity, result);
        self.shared.counts.fetched(result, None);
        // A slot with a flight is never removed.
        if let Some(slot) = self.entry.slots.lock().of(&self.hopper.identity) {
            slot.flight = None;
            slot.exhausted_until = Some(self.shared.clock.now() + EXHAUSTED);
        }
    }

    /// Ends the flight with the meaning of a fetch. Without a `fetch`, none has finished and nothing is stored.
    fn land(&mut self, result: AccessResult, mut fetch: Option<store::Fetch>) {
        self.stage = Stage::Landed;
        let settings = self.shared.settings.load_full();
        let config = &settings.ours.config;
        // A copy for any crawler counts: this crawler is not judged by it, but it proves that the origin has a file.
        let is_held = self.entry.slots.lock().holds_a_copy();
        let result = match is_held {
            true => result.beside_a_copy(),
            false => result,
        };
        if let Some(fetch) = &mut fetch {
            result.name().clone_into(&mut fetch.result);
        }
        tell(&self.hopper.origin, &self.hopper.identity, &result);
        self.shared.counts.fetched(&result, fetch.as_ref());
        let mut slots = self.entry.slots.lock();
        let now = self.shared.clock.now();
        // A slot with a flight is never removed.
        let Some(slot) = slots.of(&self.hopper.identity) else {
            return;
        };
        // First, so that a failure below cannot leave a flight that never ends.
        slot.flight = None;
        let uptime = self.shared.clock.uptime();
        let end = FetchEnd {
            now,
            since_failure: slot.failed.map(|failed| uptime.since(failed)),
            reach: self.shared.reach.fetched(&self.hopper.origin, &result),
        };
        let before = State::clone(&slot.settle(now, config));
        let has_told = !matches!(result, AccessResult::Unreachable { .. });
        let state = before.after(
            result,
            end,
            &config.timing,
            jitter(&self.hopper.origin, now),
        );
        match state.outage().map(|outage| outage.last_failure) {
            Some(Some(last)) if last == now => slot.failed = Some(uptime),
            // The gate's own failure leaves the moment of the origin's last failure unchanged.
            Some(_) => {}
            None => slot.failed = None,
        }
        slot.state = Arc::new(state);
        self.shared.changes.landed(self.entry.group);
        // A failure replaces no earlier knowledge.
        let rests_on_it = has_told || is_bare(&slot.state) || slot.fetched_as.is_none();
        let fetched_as = match (&slot.fetched_as, &fetch) {
            (Some(before), _) if !rests_on_it => Arc::clone(before),
            (_, fetch) => {
                let user_agent: Arc<str> = match fetch {
                    Some(fetch) => fetch.user_agent.as_str().into(),
                    None => settings
                        .user_agents
                        .for_identity(&self.hopper.identity)
                        .into(),
                };
                Arc::new(FetchedAs::new(self.hopper.identity.clone(), user_agent))
            }
        };
        slot.fetched_as = Some(Arc::clone(&fetched_as));
        self.shared.update_size(slot);
        if let (Some(memory), Some(fetch)) = (&self.shared.memory, fetch) {
            // Under the lock: no request uses this state before the log has it, so its records come after it.
            memory.keep(OriginUpdate {
                origin: self.hopper.origin.clone(),
                state: Arc::clone(&slot.state),
                user_agent: Arc::clone(&fetched_as.user_agent),
                fetch,
            });
        }
    }
}

/// Tells whether a state rests on failures alone.
fn is_bare(state: &State) -> bool {
    matches!(
        state,
        State::Unreachable {
            last_good: None,
            ..
        }
    )
}

impl Drop for FetchTask {
    fn drop(&mut self) {
        match self.stage {
            Stage::Fetching => {
                let result = AccessResult::Unreachable {
                    cause: Cause::Internal,
                    retry_after: None,
                };
                self.land(result, None);
            }
            Stage::Landed => {}
        }
    }
}

fn tell(origin: &Origin, identity: &Identity, result: &AccessResult) {
    match result {
        AccessResult::Successful { snapshot, .. } => {
            debug!(%origin, %identity, status = snapshot.status, from = %snapshot.final_url, "robots.txt fetched");
        }
        AccessResult::Unavailable { why, .. } => {
            debug!(%origin, %identity, "no robots.txt: {why}");
        }
        AccessResult::Unreachable { cause, .. } => {
            info!(%origin, %identity, "robots.txt cannot be had: {cause}");
        }
    }
}

/// Returns a number in `0.0..1.0` that differs between origins and attempts: enough to spread retries.
fn jitter(origin: &Origin, now: Moment) -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let hash = RandomState::new().hash_one((origin, now.as_millis()));
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}
