//! Origin → state: who knows what, and the one fetch that all wait for.
//!
//! Promises: however many requests ask about an origin at once, one fetch runs (*single flight*); it
//! runs in a task of its own, so a crawler that hangs up cancels nothing; a fetch that panics or is
//! dropped still ends, as [`Cause::Internal`](super::access::Cause::Internal), and wakes its waiters; what is held is bounded by count
//! and by octets, and what goes first is what was asked for least recently and is not being fetched.
//!
//! With a [`Memory`], what is known outlives the process: the first request to an origin asks the store inside the
//! flight, which fetches only what is due then; every fetch that ends is handed to the log before anybody sees what
//! it changed; and what is evicted is found again. Starting up reads nothing. While the store cannot be read, nobody
//! guesses: requests to origins that are not in memory are deferred.
//!
//! Locks are held for a few instructions and never across an await.

mod counts;
mod flight;
mod recall;

pub use self::counts::Counts;
use self::counts::Known;
pub use self::recall::Memory;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use dashmap::DashMap;
use http::HeaderValue;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::debug;

use self::flight::Purpose;
use super::access::AccessResult;
use super::fetch;
use super::reach::Tracker;
use super::state::{Due, Stance, State};
use crate::clock::{Clock, Moment, Uptime};
use crate::config::{CacheConfig, ProfileName, RobotsConfig};
use crate::egress::Egress;
use crate::pace::{Fetches, Pace};
use crate::policy::generation::{Changes, Group, Landings};
use crate::policy::terms::{Terms, TermsDigest};
use crate::rep::Origin;
use crate::store::{self, StoreError};

/// What an entry costs beside its snapshot, in octets, roughly.
const ENTRY_BYTES: usize = 512;

/// Part of what is held that one eviction frees, so that its scan is paid for by many insertions.
const EVICTED_SHARE: usize = 16;

/// What a request learns about its origin.
#[derive(Debug)]
pub struct View {
    /// The origin's state.
    pub state: Arc<State>,
    /// What it means now. [`Stance::Unknown`] when the fetch outlasted the hold.
    pub stance: Stance,
    /// When that was so: the clock is read once for all that follows.
    pub now: Moment,
    /// Under which settings: the file was read by them, and the stance follows from them.
    pub by: Arc<InForce>,
    /// The landings that the state takes into account.
    pub landings: Landings,
}

/// Settings, and what records name them by. What is decided by a [`View`] is decided under its settings, whatever the
/// configuration says meanwhile.
#[derive(Debug)]
pub struct InForce {
    /// The settings.
    pub config: Arc<RobotsConfig>,
    /// Their digest.
    pub terms: TermsDigest,
}

/// What is in force: the settings, and the same with the profile that a client may have of its own.
struct Settings {
    ours: Arc<InForce>,
    by_profile: [(ProfileName, Arc<InForce>); 3],
}

impl Settings {
    fn of(config: RobotsConfig) -> Settings {
        let by_profile = [
            ProfileName::Standard,
            ProfileName::Google,
            ProfileName::Archive,
        ];
        Settings {
            by_profile: by_profile.map(|name| (name, Arc::new(InForce::of(config.under(name))))),
            ours: Arc::new(InForce::of(config)),
        }
    }

    fn under(&self, profile: Option<ProfileName>) -> Arc<InForce> {
        let found = profile.and_then(|profile| {
            let mut all = self.by_profile.iter();
            all.find(|(name, _)| *name == profile)
        });
        Arc::clone(found.map_or(&self.ours, |(_, by)| by))
    }
}

impl InForce {
    /// These settings.
    pub fn of(config: RobotsConfig) -> InForce {
        InForce {
            terms: Terms::of(&config).digest(),
            config: Arc::new(config),
        }
    }
}

/// The states of all origins in memory.
pub struct Registry {
    shared: Arc<Shared>,
}

/// How a robots.txt is had: over the network, or from a test's hand.
type Fetch = Box<dyn Fn(Origin, Option<HeaderValue>, Arc<RobotsConfig>) -> Fetching + Send + Sync>;

type Fetching = Pin<Box<dyn Future<Output = (AccessResult, store::Fetch)> + Send>>;

struct Shared {
    entries: DashMap<Origin, Arc<Entry>, ahash::RandomState>,
    bytes: AtomicUsize,
    bounds: CacheConfig,
    settings: ArcSwap<Settings>,
    fetch: Fetch,
    clock: Clock,
    /// Told of each change of a state.
    changes: Arc<Changes>,
    /// None where nothing outlives the process.
    memory: Option<Memory>,
    /// Only one task evicts at a time.
    evicting: Mutex<()>,
    counts: Counts,
    /// Whether any origin is reached.
    reach: Tracker,
}

struct Entry {
    slot: Mutex<Slot>,
    /// With which other origins' its landings are counted.
    group: Group,
    used: AtomicU64,
    /// Requests that have asked for it.
    asked: AtomicU64,
}

struct Slot {
    state: Arc<State>,
    /// When the origin's latest failure was; none where that was before this process, or the state was not in memory.
    failed: Option<Uptime>,
    recall: Recall,
    flight: Option<watch::Receiver<()>>,
    bytes: usize,
    /// As what it is counted.
    known: Known,
}

/// Whether the store was asked what is known of the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Recall {
    /// Not yet.
    Due,
    /// In vain.
    Failed {
        /// Not again before this.
        until: Moment,
        error: StoreError,
    },
    /// It was, or there is none.
    Done,
}

impl Registry {
    /// An empty registry that fetches through `egress`. What it knows ends with it.
    pub fn new(config: RobotsConfig, egress: Egress, pace: Pace, clock: Clock) -> Registry {
        Registry::with_memory(config, egress, None, pace, clock)
    }

    /// A registry that fetches through `egress` and knows what `memory` keeps.
    pub fn with_memory(
        config: RobotsConfig,
        egress: Egress,
        memory: Option<Memory>,
        pace: Pace,
        clock: Clock,
    ) -> Registry {
        let changes = egress.changes();
        let fetch: Fetch = {
            let clock = clock.clone();
            let fetches = Arc::new(Fetches::new(&config, clock.clone()));
            Box::new(move |origin, user_agent, config| {
                let (egress, clock) = (egress.clone(), clock.clone());
                let (pace, fetches) = (pace.clone(), Arc::clone(&fetches));
                Box::pin(async move {
                    let address = match pace.is_per_address() {
                        true => egress.address_of(&origin).await,
                        false => None,
                    };
                    let turn = pace.turn_for_robots(&origin, address).await;
                    let _begun = fetches.begin().await;
                    if let Some(turn) = &turn {
                        pace.restart(turn);
                    }
                    let user_agent = user_agent.as_ref();
                    fetch::fetch(&egress, &pace, &origin, user_agent, &config, &clock).await
                })
            })
        };
        Registry::fetching(config, clock, memory, fetch, changes)
    }

    fn fetching(
        config: RobotsConfig,
        clock: Clock,
        memory: Option<Memory>,
        fetch: Fetch,
        changes: Arc<Changes>,
    ) -> Registry {
        Registry {
            shared: Arc::new(Shared {
                entries: DashMap::default(),
                bytes: AtomicUsize::new(0),
                bounds: config.cache.clone(),
                settings: ArcSwap::from_pointee(Settings::of(config)),
                fetch,
                clock,
                changes,
                memory,
                evicting: Mutex::new(()),
                counts: Counts::default(),
                reach: Tracker::default(),
            }),
        }
    }

    /// Puts new settings in force for what happens from now on, also for what is held: a file is read by them when it is
    /// looked at next. A limit of its size counts when it is fetched. The bounds of what is held stay as they were.
    pub fn reconfigure(&self, config: RobotsConfig) {
        self.shared.settings.store(Arc::new(Settings::of(config)));
    }

    /// What is known of `origin`, fetched first where nothing usable is known. Waits for that at most
    /// the configured hold; a refresh of what is still fresh happens behind the request's back.
    pub async fn view(&self, origin: &Origin, user_agent: Option<&HeaderValue>) -> View {
        self.view_under(origin, user_agent, None).await
    }

    /// The same for a client whose `profile`, where it has one of its own, tells what an outage means. The state of an
    /// origin is one for all clients, and so are its fetches; what it means is the client's.
    pub async fn view_under(
        &self,
        origin: &Origin,
        user_agent: Option<&HeaderValue>,
        profile: Option<ProfileName>,
    ) -> View {
        let entry = self.shared.entry(origin);
        let (view, flight) = self.shared.look(&entry, origin, user_agent, profile);
        match flight {
            None => view,
            // Boxed: a rare wait should not burden every request's future.
            Some(flight) => Box::pin(self.shared.wait(&entry, flight, profile)).await,
        }
    }

    /// Fetches the robots.txt of `origin` although that is not due, for a request that has reason to doubt the state it
    /// has `seen`. One fetch serves all who doubt the same state; waits for it as [`Registry::view_under`] does.
    pub async fn doubt(
        &self,
        origin: &Origin,
        seen: &Arc<State>,
        user_agent: Option<&HeaderValue>,
        profile: Option<ProfileName>,
    ) -> View {
        let shared = &self.shared;
        let entry = shared.entry(origin);
        let flight = {
            let mut slot = entry.slot.lock();
            let stands = Arc::ptr_eq(&slot.state, seen);
            if stands && slot.flight.is_none() {
                let flight = shared.take_off(&entry, origin, user_agent, Purpose::Refresh);
                slot.flight = Some(flight);
            }
            slot.flight.clone().filter(|_| stands)
        };
        match flight {
            Some(flight) => Box::pin(shared.wait(&entry, flight, profile)).await,
            None => self.view_under(origin, user_agent, profile).await,
        }
    }

    /// Fetches the robots.txt of `origin` now, whatever is known of it and when the next attempt is due, and tells
    /// what is known then. A fetch under way began before this was asked: it is waited for, and another follows. Waits
    /// without a bound of its own: a fetch has one.
    ///
    /// # Errors
    /// When the store cannot tell what was known before. Nothing is fetched then: what came of it could not be added
    /// to that.
    pub async fn refresh(&self, origin: &Origin) -> Result<Arc<State>, StoreError> {
        let shared = &self.shared;
        let entry = shared.entry(origin);
        loop {
            let (mut flight, is_ours) = {
                let mut slot = entry.slot.lock();
                match &slot.flight {
                    Some(flight) => (flight.clone(), false),
                    None => {
                        let flight = shared.take_off(&entry, origin, None, Purpose::Refresh);
                        slot.flight = Some(flight.clone());
                        (flight, true)
                    }
                }
            };
            // The sender is never used, only dropped, when the slot has its new state.
            let _ = flight.changed().await;
            if is_ours {
                let slot = entry.slot.lock();
                return match &slot.recall {
                    Recall::Failed { error, .. } => Err(error.clone()),
                    Recall::Due | Recall::Done => Ok(Arc::clone(&slot.state)),
                };
            }
        }
    }

    /// Drops what is known of `origin`, here and in the store; the next request finds it as one never heard of. Tells
    /// whether anything was known. A fetch under way goes on and is the first thing known then.
    ///
    /// # Errors
    /// When the store cannot drop it. Nothing is forgotten then.
    pub async fn forget(&self, origin: &Origin) -> Result<bool, StoreError> {
        let entry = self.shared.entry(origin);
        // First, so that a flight that lands meanwhile lands on nothing.
        let (before, recall) = {
            let mut slot = entry.slot.lock();
            let before = std::mem::take(&mut slot.state);
            slot.failed = None;
            let recall = std::mem::replace(&mut slot.recall, Recall::Done);
            self.shared.weigh(&mut slot);
            self.shared.changes.landed(entry.group);
            (before, recall)
        };
        let was_known = !matches!(*before, State::NeverFetched);
        let Some(memory) = &self.shared.memory else {
            return Ok(was_known);
        };
        match memory.forget(origin).await {
            Ok(was_kept) => Ok(was_known || was_kept),
            Err(error) => {
                let mut slot = entry.slot.lock();
                if let State::NeverFetched = *slot.state {
                    slot.state = before;
                    slot.recall = recall;
                    self.shared.weigh(&mut slot);
                }
                Err(error)
            }
        }
    }

    /// What is known of `origin` without asking anybody.
    pub fn known(&self, origin: &Origin) -> Option<Arc<State>> {
        let entry = self.shared.entries.get(origin)?;
        let state = Arc::clone(&entry.slot.lock().state);
        Some(state)
    }

    /// Tells whether a request to `origin` of a client with this `profile` would wait for a fetch.
    pub fn would_fetch(&self, origin: &Origin, profile: Option<ProfileName>, now: Moment) -> bool {
        let by = self.shared.settings.load().under(profile);
        let profile = &by.config.timing.profile;
        let known = self.known(origin);
        known.is_none_or(|state| state.due(now, profile) == Due::Now)
    }

    /// The origins in memory that most requests have asked for, and how many did since each came into memory.
    pub fn busiest(&self, limit: usize) -> Vec<(Origin, u64)> {
        let mut busiest: Vec<(Origin, u64)> = Vec::with_capacity(limit.saturating_add(1));
        let mut least = 0;
        for entry in &self.shared.entries {
            let asked = entry.asked.load(Ordering::Relaxed);
            if asked <= least && (asked == 0 || busiest.len() >= limit) {
                continue;
            }
            busiest.push((entry.key().clone(), asked));
            busiest.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
            busiest.truncate(limit);
            if busiest.len() == limit {
                least = busiest.last().map_or(0, |(_, asked)| *asked);
            }
        }
        busiest
    }

    /// Takes in that an origin has answered: some origins are reached.
    pub fn reached(&self) {
        self.shared.reach.reached();
    }

    /// Origins held.
    pub fn len(&self) -> usize {
        self.shared.entries.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.shared.entries.is_empty()
    }

    /// What is counted.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Octets held, roughly.
    pub fn bytes(&self) -> usize {
        self.shared.bytes.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn entry(&self, origin: &Origin) -> Arc<Entry> {
        if let Some(entry) = self.entries.get(origin) {
            return Arc::clone(&entry);
        }
        let entry = Arc::clone(&self.entries.entry(origin.clone()).or_insert_with(|| {
            self.bytes.fetch_add(ENTRY_BYTES, Ordering::Relaxed);
            self.counts.came(Known::Nothing);
            Arc::new(Entry {
                slot: Mutex::new(Slot {
                    state: Arc::default(),
                    failed: None,
                    recall: match self.memory {
                        Some(_) => Recall::Due,
                        None => Recall::Done,
                    },
                    flight: None,
                    bytes: ENTRY_BYTES,
                    known: Known::Nothing,
                }),
                group: self.changes.group(),
                used: AtomicU64::new(self.clock.now().as_millis()),
                asked: AtomicU64::new(0),
            })
        }));
        self.bound();
        entry
    }

    /// The stance now, and the flight to wait for where there is no usable one.
    fn look(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        user_agent: Option<&HeaderValue>,
        profile: Option<ProfileName>,
    ) -> (View, Option<watch::Receiver<()>>) {
        let by = self.settings.load().under(profile);
        let mut slot = entry.slot.lock();
        // Read under the lock: what has landed has landed before now.
        let now = self.clock.now();
        let landings = self.changes.landings(entry.group);
        entry.used.store(now.as_millis(), Ordering::Relaxed);
        // Beside it, on the same cache line.
        entry.asked.fetch_add(1, Ordering::Relaxed);
        let state = slot.settle(now, &by.config);
        let grown = self.weigh(&mut slot);
        let stance = state.stance(now, &by.config.timing.profile);
        let due = match slot.recall {
            // The store has just failed: this request is not held for the next attempt. One that lies further away was
            // set by a clock that was ahead.
            Recall::Failed { until, .. }
                if now < until && until <= now + by.config.timing.retry_min =>
            {
                Due::No
            }
            Recall::Failed { .. } | Recall::Due | Recall::Done => {
                state.due(now, &by.config.timing.profile)
            }
        };
        if due != Due::No && slot.flight.is_none() {
            slot.flight = Some(self.take_off(entry, origin, user_agent, Purpose::Learn(profile)));
        }
        // A flight that is up is worth waiting for only where nothing usable is known: a complete
        // disallow whose next attempt is not due yet has none.
        let flight = match due {
            Due::Now => slot.flight.clone(),
            Due::No | Due::Ahead => None,
        };
        drop(slot);
        if grown {
            self.bound();
        }
        let view = View {
            state,
            stance,
            now,
            by,
            landings,
        };
        (view, flight)
    }

    async fn wait(
        &self,
        entry: &Entry,
        mut flight: watch::Receiver<()>,
        profile: Option<ProfileName>,
    ) -> View {
        let hold = self.settings.load().ours.config.hold;
        // The sender is never used, only dropped, when the slot has its new state.
        let landed = timeout(hold, flight.changed()).await.is_ok();
        let by = self.settings.load().under(profile);
        let mut slot = entry.slot.lock();
        let now = self.clock.now();
        let landings = self.changes.landings(entry.group);
        let state = slot.settle(now, &by.config);
        self.weigh(&mut slot);
        drop(slot);
        let stance = if landed {
            state.stance(now, &by.config.timing.profile)
        } else {
            Stance::Unknown
        };
        View {
            state,
            stance,
            now,
            by,
            landings,
        }
    }

    /// Brings the sum up to what the slot holds now, rules compiled since included; tells whether
    /// that is more than it was.
    fn weigh(&self, slot: &mut Slot) -> bool {
        let known = Known::of(&slot.state);
        if known != slot.known {
            self.counts.came(known);
            self.counts.went(std::mem::replace(&mut slot.known, known));
        }
        let snapshot = slot.state.snapshot();
        let bytes = ENTRY_BYTES + snapshot.map_or(0, |snapshot| snapshot.bytes());
        let before = std::mem::replace(&mut slot.bytes, bytes);
        if bytes != before {
            // Added before it is taken away, so that the sum never wraps.
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.bytes.fetch_sub(before, Ordering::Relaxed);
        }
        bytes > before
    }

    /// Evicts what was used least recently while more is held than the bounds allow.
    fn bound(&self) {
        let over = || {
            self.entries.len() > self.bounds.origins
                || self.bytes.load(Ordering::Relaxed) > self.bounds.bytes
        };
        if !over() {
            return;
        }
        let Some(_evicting) = self.evicting.try_lock() else {
            return;
        };
        let mut by_age: Vec<(u64, Origin)> = self
            .entries
            .iter()
            .map(|entry| (entry.used.load(Ordering::Relaxed), entry.key().clone()))
            .collect();
        by_age.sort_unstable_by_key(|(used, _)| *used);
        let enough = by_age.len() / EVICTED_SHARE;
        let mut evicted = 0_usize;
        for (_, origin) in by_age {
            if evicted > enough && !over() {
                break;
            }
            // A flight holds a second reference to its entry; so does a request that waits.
            let gone = self
                .entries
                .remove_if(&origin, |_, entry| Arc::strong_count(entry) == 1);
            if let Some((_, entry)) = gone {
                // A permit that rests on it would not hear of a landing on the entry that follows it.
                self.changes.landed(entry.group);
                let slot = entry.slot.lock();
                self.counts.went(slot.known);
                self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
                evicted += 1;
            }
        }
        debug!(
            evicted,
            held = self.entries.len(),
            "forgot the origins used least recently"
        );
    }
}

impl Slot {
    /// The state as it may be believed at `now` and as `config` reads it. Nearly always as it is.
    fn settle(&mut self, now: Moment, config: &RobotsConfig) -> Arc<State> {
        if let Some(corrected) = self.state.corrected(now, &config.timing) {
            self.state = Arc::new(corrected);
        }
        if let Some(anew) = self.state.read_anew(config.lenient) {
            self.state = Arc::new(anew);
        }
        Arc::clone(&self.state)
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registry")
            .field("origins", &self.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
