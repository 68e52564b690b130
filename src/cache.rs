//! The cache of robots.txt states, by origin and identity, with the one fetch that all requests wait for.
//!
//! Promises: however many requests ask about an origin as one identity at once, one fetch runs (*single flight*); it
//! runs in a task of its own, so a disconnecting crawler cancels nothing; a fetch that panics or is dropped still ends,
//! as [`Cause::Internal`](crate::robots::access::Cause::Internal), and wakes its waiters; the cache is bounded by count
//! and by octets, over all identities, and evicts the least recently used origins that are not being fetched.
//!
//! An origin has at most [`OWN_STATES`](crate::robots::identity::OWN_STATES) identities with states of their own;
//! further ones share that of `*`. A refusal to one identity is believed only if the origin refuses `*`, too
//! (`flight`).
//!
//! With a [`PersistentStates`], states outlive the process: the first request to an origin loads all its states from the store,
//! which tells when a fetch is due; each finished fetch is handed to the log before any request sees the new state; and
//! evicted states are found again. Starting up reads nothing. While the store cannot be read, requests to origins that
//! are not in memory are deferred: their state is not guessed.
//!
//! Locks are held for a few instructions and never across an await.

mod counts;
mod entry;
pub mod fetch;
mod flight;
mod hops;
mod recall;

pub use self::counts::Counts;
use self::counts::Known;
use self::entry::{Change, ENTRY_BYTES, Entry, SLOT_BYTES, Slot, Slots, StoreLookup};
use self::hops::{Hopper, Waits};
pub use self::recall::PersistentStates;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

use self::fetch::Asked;
use crate::clock::{Clock, Moment};
use crate::config::{CacheConfig, Config, ProfileName, RobotsConfig};
use crate::egress::Egress;
use crate::pace::{Fetches, Pace};
use crate::policy::generation::{Changes, OriginUpdates};
use crate::policy::terms::PolicyDigest;
use crate::rep::Origin;
use crate::robots::access::AccessResult;
use crate::robots::identity::{Crawler, FetchedAs, Identity, UserAgents};
use crate::robots::reach::Tracker;
use crate::robots::state::{Due, Stance, State};
use crate::store::{self, StoreError};

/// Fraction of the cache that one eviction frees, so that many insertions share the cost of its scan.
const EVICTED_SHARE: usize = 16;

/// The answer about an origin for one request.
#[derive(Debug)]
pub struct View {
    /// The origin's state, for the request's identity.
    pub state: Arc<State>,
    /// The identity and User-Agent of the fetch behind it; none without a fetch.
    pub fetched_as: Option<Arc<FetchedAs>>,
    /// Its meaning now. [`Stance::Unknown`] when the fetch outlasted the hold.
    pub stance: Stance,
    /// The moment of this view: the clock is read once for the whole decision.
    pub now: Moment,
    /// True if the state is unknown because this machine had no descriptor left for a fetch.
    pub is_exhausted: bool,
    /// The settings that the file was parsed by and that the stance follows from.
    pub by: Arc<EffectiveSettings>,
    /// The updates that the state takes into account.
    pub landings: OriginUpdates,
}

/// Settings with the digest that records name. A decision from a [`View`] uses the view's settings, even if the
/// configuration changes meanwhile.
#[derive(Debug)]
pub struct EffectiveSettings {
    /// The settings.
    pub config: Arc<RobotsConfig>,
    /// Their digest.
    pub terms: PolicyDigest,
}

/// The settings in force, also in their variants with a client's own profile.
struct Settings {
    user_agents: UserAgents,
    ours: Arc<EffectiveSettings>,
    by_profile: [(ProfileName, Arc<EffectiveSettings>); 3],
}

impl Settings {
    fn of(config: RobotsConfig, user_agents: UserAgents) -> Settings {
        let by_profile = [
            ProfileName::Standard,
            ProfileName::Google,
            ProfileName::Archive,
        ];
        Settings {
            user_agents,
            by_profile: by_profile
                .map(|name| (name, Arc::new(EffectiveSettings::of(config.under(name))))),
            ours: Arc::new(EffectiveSettings::of(config)),
        }
    }

    fn under(&self, profile: Option<ProfileName>) -> Arc<EffectiveSettings> {
        let found = profile.and_then(|profile| {
            let mut all = self.by_profile.iter();
            all.find(|(name, _)| *name == profile)
        });
        Arc::clone(found.map_or(&self.ours, |(_, by)| by))
    }
}

impl EffectiveSettings {
    /// Returns these settings with their digest.
    pub fn of(config: RobotsConfig) -> EffectiveSettings {
        EffectiveSettings {
            terms: config.terms().digest(),
            config: Arc::new(config),
        }
    }
}

/// The cache of the states of all origins.
pub struct RobotsCache {
    shared: Arc<Shared>,
}

/// The source of a robots.txt: the network, or a test.
type Fetch = Box<dyn Fn(Asked) -> Fetching + Send + Sync>;

type Fetching = Pin<Box<dyn Future<Output = (AccessResult, store::Fetch)> + Send>>;

struct Shared {
    entries: DashMap<Origin, Arc<Entry>, ahash::RandomState>,
    /// States in memory, see [`Slots::count`].
    states: AtomicUsize,
    bytes: AtomicUsize,
    bounds: CacheConfig,
    settings: ArcSwap<Settings>,
    fetch: Fetch,
    clock: Clock,
    /// Counts each change of a state.
    changes: Arc<Changes>,
    /// None if states end with the process.
    memory: Option<PersistentStates>,
    /// Only one task evicts at a time.
    evicting: Mutex<()>,
    counts: Counts,
    /// Tells whether any origin is reached.
    reach: Tracker,
    /// Fetches that wait for another origin's fetch.
    waits: Waits,
}

/// The event that a request waits for.
enum Awaited {
    /// The store's answer; then the state is checked again.
    StoreLookup(watch::Receiver<()>),
    /// A fetch.
    Fetch(watch::Receiver<()>),
}

impl RobotsCache {
    /// Builds an empty cache that fetches through `egress`. Its states end with it.
    pub fn new(config: &Config, egress: Egress, pace: Pace, clock: Clock) -> RobotsCache {
        RobotsCache::with_memory(config, egress, None, pace, clock)
    }

    /// Builds a cache that fetches through `egress` and uses the states in `memory`.
    pub fn with_memory(
        config: &Config,
        egress: Egress,
        memory: Option<PersistentStates>,
        pace: Pace,
        clock: Clock,
    ) -> RobotsCache {
        let changes = egress.changes();
        let fetch: Fetch = {
            let clock = clock.clone();
            let fetches = Arc::new(Fetches::new(&config.robots, clock.clone()));
            Box::new(move |asked| {
                let (egress, clock) = (egress.clone(), clock.clone());
                let (pace, fetches) = (pace.clone(), Arc::clone(&fetches));
                Box::pin(async move {
                    let address = match pace.is_per_address() {
                        true => egress.address_of(&asked.origin).await,
                        false => None,
                    };
                    let turn = pace.turn_for_robots(&asked.origin, address).await;
                    let mut place = fetches.begin(turn).await;
                    if let Some(turn) = place.turn() {
                        pace.restart(turn);
                    }
                    fetch::fetch(&egress, &pace, &mut place, &asked, &clock).await
                })
            })
        };
        RobotsCache::fetching(config, clock, memory, fetch, changes)
    }

    fn fetching(
        config: &Config,
        clock: Clock,
        memory: Option<PersistentStates>,
        fetch: Fetch,
        changes: Arc<Changes>,
    ) -> RobotsCache {
        let settings = Settings::of(config.robots.clone(), config.user_agents());
        RobotsCache {
            shared: Arc::new(Shared {
                entries: DashMap::default(),
                states: AtomicUsize::new(0),
                bytes: AtomicUsize::new(0),
                bounds: config.robots.cache.clone(),
                settings: ArcSwap::from_pointee(settings),
                fetch,
                clock,
                changes,
                memory,
                evicting: Mutex::new(()),
                counts: Counts::default(),
                reach: Tracker::default(),
                waits: Waits::default(),
            }),
        }
    }

    /// Puts new settings in force, also for cached states: a file is parsed by them at its next use. The size limit and
    /// the User-Agent apply from the next fetch. The bounds of the cache stay as they were.
    pub fn reconfigure(&self, config: &Config) {
        let settings = Settings::of(config.robots.clone(), config.user_agents());
        self.shared.settings.store(Arc::new(settings));
    }

    /// Returns the state of `origin` for `crawler`, fetching it first if none is usable. Waits at most the configured
    /// hold; the refresh of a fresh state runs in the background.
    pub async fn view(&self, origin: &Origin, crawler: Crawler<'_>) -> View {
        self.lookup_for(origin, crawler, None).await
    }

    /// Like [`RobotsCache::view`], for a client with a `profile` of its own for outages. The profile changes the meaning
    /// of a state, not the state or its fetches.
    pub async fn lookup_for(
        &self,
        origin: &Origin,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
    ) -> View {
        let entry = self.shared.entry(origin);
        // Beside the moment of its use, on the same cache line.
        entry.asked.fetch_add(1, Ordering::Relaxed);
        let (view, awaited) = self.shared.look(&entry, origin, crawler, profile, 0);
        match awaited {
            None => view,
            // Boxed: a rare wait should not burden every request's future.
            Some(awaited) => {
                let waiting = self.shared.wait(&entry, origin, crawler, profile, awaited);
                Box::pin(waiting).await
            }
        }
    }

    /// Fetches the robots.txt of `origin` ahead of time, for a request that has reason to doubt the state it has
    /// `seen`. One fetch serves all requests that doubt the same state; the wait is that of [`RobotsCache::lookup_for`].
    pub async fn revalidate(
        &self,
        origin: &Origin,
        seen: &Arc<State>,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
    ) -> View {
        let shared = &self.shared;
        let entry = shared.entry(origin);
        let flight = {
            let now = shared.clock.now();
            let mut slots = entry.slots.lock();
            let slot = slots.held(crawler, now);
            let doubted = slot.filter(|slot| Arc::ptr_eq(&slot.state, seen));
            doubted.map(|slot| shared.join(&entry, origin, crawler, slot, 0))
        };
        match flight {
            Some(flight) => {
                let awaited = Awaited::Fetch(flight);
                let waiting = shared.wait(&entry, origin, crawler, profile, awaited);
                Box::pin(waiting).await
            }
            None => self.lookup_for(origin, crawler, profile).await,
        }
    }

    /// Fetches the robots.txt of `origin` now, as `which` or as all identities with a state, even if the next attempt
    /// is not due; returns the states afterwards. A fetch in progress began before this call, so it is awaited and
    /// another follows. There is no time-out here: a fetch has its own.
    ///
    /// # Errors
    /// When the store cannot load the earlier states. Nothing is fetched then: the outcome could not be added to them.
    pub async fn refresh(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<Vec<(Identity, Arc<State>)>, StoreError> {
        let shared = &self.shared;
        let entry = shared.entry(origin);
        shared.recalled(&entry, origin).await?;
        let identities = match which {
            Some(identity) => vec![identity.clone()],
            None => {
                let slots = entry.slots.lock();
                let known: Vec<_> = slots.iter().map(|slot| slot.identity.clone()).collect();
                if known.is_empty() {
                    vec![Identity::default()]
                } else {
                    known
                }
            }
        };
        let mut refreshing = JoinSet::new();
        for (at, identity) in identities.into_iter().enumerate() {
            let (shared, entry) = (Arc::clone(shared), Arc::clone(&entry));
            let origin = origin.clone();
            refreshing.spawn(async move {
                let state = shared.refresh(&entry, &origin, &identity).await;
                (at, identity, state)
            });
        }
        let mut refreshed = refreshing.join_all().await;
        refreshed.sort_by_key(|(at, ..)| *at);
        let refreshed = refreshed.into_iter();
        Ok(refreshed
            .map(|(_, identity, state)| (identity, state))
            .collect())
    }

    /// Drops the states of `origin`, of one identity or of all, from memory and from the store; the next request treats
    /// the origin as new. Tells whether there were any. A fetch in progress goes on and makes the first new state.
    ///
    /// # Errors
    /// When the store cannot drop them. Nothing is forgotten then.
    pub async fn forget(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<bool, StoreError> {
        let shared = &self.shared;
        let entry = shared.entry(origin);
        let is_meant = |slot: &Slot| which.is_none_or(|identity| slot.identity == *identity);
        // First, so that a flight that ends meanwhile changes a state that is dropped.
        let (before, recall) = {
            let mut slots = entry.slots.lock();
            let mut before = Vec::new();
            for slot in slots.iter_mut().filter(|slot| is_meant(slot)) {
                let state = std::mem::take(&mut slot.state);
                slot.failed = None;
                before.push((slot.identity.clone(), state, slot.fetched_as.take()));
                shared.update_size(slot);
            }
            let unused = |slot: &Slot| is_meant(slot) && slot.flight.is_none();
            slots.retain(|slot| !unused(slot), &mut |change| shared.count(change));
            shared.recount(&mut slots);
            shared.changes.landed(entry.group);
            let recall = match which {
                // The other identities' states are still to be loaded.
                Some(_) => None,
                None => Some(std::mem::replace(&mut slots.recall, StoreLookup::Done)),
            };
            (before, recall)
        };
        let was_known = before
            .iter()
            .any(|(_, state, _)| !matches!(**state, State::NeverFetched));
        let Some(memory) = &shared.memory else {
            return Ok(was_known);
        };
        match memory.forget(origin, which).await {
            Ok(was_kept) => Ok(was_known || was_kept),
            Err(error) => {
                let mut slots = entry.slots.lock();
                for (identity, state, fetched_as) in before {
                    let crawler = identity.token().map_or(&[][..], std::slice::from_ref);
                    let crawler = Crawler::with(&identity, crawler);
                    let now = shared.clock.now();
                    let slot = slots.slot(crawler, now, &mut |change| shared.count(change));
                    if let Some(slot) = slot
                        && matches!(*slot.state, State::NeverFetched)
                    {
                        (slot.state, slot.fetched_as) = (state, fetched_as);
                        shared.update_size(slot);
                    }
                }
                if let Some(recall) = recall {
                    slots.recall = recall;
                }
                shared.recount(&mut slots);
                Err(error)
            }
        }
    }

    /// Returns the cached state of `origin` for a crawler, without a look-up or a fetch.
    pub fn known(&self, origin: &Origin, crawler: Crawler<'_>) -> Option<Arc<State>> {
        let entry = Arc::clone(&*self.shared.entries.get(origin)?);
        let mut slots = entry.slots.lock();
        let slot = slots.held(crawler, self.shared.clock.now());
        slot.map(|slot| Arc::clone(&slot.state))
    }

    /// Tells whether a request to `origin` of a client with this `profile` would wait for a fetch.
    pub fn would_fetch(
        &self,
        origin: &Origin,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
        now: Moment,
    ) -> bool {
        let by = self.shared.settings.load().under(profile);
        let profile = &by.config.timing.profile;
        let known = self.known(origin, crawler);
        known.is_none_or(|state| state.due(now, profile) == Due::Now)
    }

    /// Returns the cached origins with the most requests, and the number of requests since each was loaded.
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

    /// Records that an origin has answered: some origins are reached.
    pub fn reached(&self) {
        self.shared.reach.reached();
    }

    /// Returns the number of origins in the cache.
    pub fn len(&self) -> usize {
        self.shared.entries.len()
    }

    /// Tells whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.shared.entries.is_empty()
    }

    /// Returns the metrics.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Returns the number of cached states, each of one identity.
    pub fn states(&self) -> usize {
        self.shared.states.load(Ordering::Relaxed)
    }

    /// Returns the octets in the cache, roughly.
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
            self.states.fetch_add(1, Ordering::Relaxed);
            Arc::new(Entry {
                group: self.changes.group(),
                slots: Mutex::new(Slots::new(match self.memory {
                    Some(_) => StoreLookup::Due,
                    None => StoreLookup::Done,
                })),
                used: AtomicU64::new(self.clock.now().as_millis()),
                asked: AtomicU64::new(0),
            })
        }));
        self.bound();
        entry
    }

    /// Returns the present view, and the event to wait for if the state is not usable. `depth` is the number of flights
    /// that already wait for a flight started here.
    fn look(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
        depth: u8,
    ) -> (View, Option<Awaited>) {
        let by = self.settings.load().under(profile);
        let mut slots = entry.slots.lock();
        // Read under the lock, so that each update counted here is earlier than `now`.
        let now = self.clock.now();
        let landings = self.changes.landings(entry.group);
        entry.used.store(now.as_millis(), Ordering::Relaxed);
        match slots.recall {
            StoreLookup::Done => {}
            // The store has just failed: this request is not held for the next attempt. An attempt further away was set
            // by a clock that was ahead.
            StoreLookup::Failed { until, .. }
                if now < until && until <= now + by.config.timing.retry_min =>
            {
                return (View::unknown(now, by, landings), None);
            }
            StoreLookup::Failed { .. } | StoreLookup::Due => {
                let recalling = self.join_recall(entry, origin, &mut slots);
                return (
                    View::unknown(now, by, landings),
                    Some(Awaited::StoreLookup(recalling)),
                );
            }
        }
        let Some(slot) = slots.slot(crawler, now, &mut |change| self.count(change)) else {
            return (View::unknown(now, by, landings), None);
        };
        slot.used = now;
        let state = slot.settle(now, &by.config);
        let mut grown = self.update_size(slot);
        let stance = state.stance(now, &by.config.timing.profile);
        // A request waits for a flight in progress only if no state is usable; a complete disallow before its next
        // attempt is usable.
        let is_exhausted = slot.is_exhausted(now);
        let due = match is_exhausted {
            true => Due::No,
            false => state.due(now, &by.config.timing.profile),
        };
        let awaited = match due {
            Due::No => None,
            Due::Ahead => {
                self.join(entry, origin, crawler, slot, depth);
                None
            }
            Due::Now => Some(Awaited::Fetch(
                self.join(entry, origin, crawler, slot, depth),
            )),
        };
        let fetched_as = slot.fetched_as.clone();
        grown |= self.recount(&mut slots);
        drop(slots);
        if grown {
            self.bound();
        }
        let view = View {
            state,
            fetched_as,
            stance,
            now,
            is_exhausted,
            by,
            landings,
        };
        (view, awaited)
    }

    async fn wait(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
        awaited: Awaited,
    ) -> View {
        let hold = self.settings.load().ours.config.hold;
        let landing = self.landed(entry, origin, crawler, profile, awaited, 0);
        let landed = timeout(hold, landing).await.is_ok();
        let by = self.settings.load().under(profile);
        let mut slots = entry.slots.lock();
        let now = self.clock.now();
        let landings = self.changes.landings(entry.group);
        let Some(slot) = slots.held(crawler, now) else {
            return View::unknown(now, by, landings);
        };
        let state = slot.settle(now, &by.config);
        let is_exhausted = slot.is_exhausted(now);
        self.update_size(slot);
        let fetched_as = slot.fetched_as.clone();
        drop(slots);
        let stance = if landed {
            state.stance(now, &by.config.timing.profile)
        } else {
            Stance::Unknown
        };
        View {
            state,
            fetched_as,
            stance,
            now,
            is_exhausted,
            by,
            landings,
        }
    }

    /// Waits until the fetch that `awaited` is, or leads to, has ended.
    async fn landed(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
        mut awaited: Awaited,
        depth: u8,
    ) {
        loop {
            // The sender is never used; it is dropped when the slots have their new states.
            match awaited {
                Awaited::Fetch(mut flight) => {
                    let _ = flight.changed().await;
                    return;
                }
                Awaited::StoreLookup(mut recalling) => {
                    let _ = recalling.changed().await;
                    match self.look(entry, origin, crawler, profile, depth) {
                        (_, Some(next)) => awaited = next,
                        (_, None) => return,
                    }
                }
            }
        }
    }

    /// Returns the flight of a slot, starting one if there is none.
    fn join(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        crawler: Crawler<'_>,
        slot: &mut Slot,
        depth: u8,
    ) -> watch::Receiver<()> {
        let flight = slot.flight.get_or_insert_with(|| {
            // A crawler that shares the state of `*` fetches as `*`.
            let tokens = match crawler.is(&slot.identity) {
                true => crawler.tokens(),
                false => &[],
            };
            let hopper = Hopper {
                origin: origin.clone(),
                identity: slot.identity.clone(),
                tokens: tokens.into(),
                depth,
            };
            self.start_fetch(entry, hopper)
        });
        flight.clone()
    }

    /// Fetches once more for one identity, see [`RobotsCache::refresh`].
    async fn refresh(
        self: Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        identity: &Identity,
    ) -> Arc<State> {
        let tokens = identity.token().map_or(&[][..], std::slice::from_ref);
        let crawler = Crawler::with(identity, tokens);
        loop {
            let (mut flight, is_ours) = {
                let mut slots = entry.slots.lock();
                let now = self.clock.now();
                let slot = slots.slot(crawler, now, &mut |change| self.count(change));
                let Some(slot) = slot else {
                    return Arc::default();
                };
                let is_ours = slot.flight.is_none();
                (self.join(entry, origin, crawler, slot, 0), is_ours)
            };
            // The sender is never used; it is dropped when the slot has its new state.
            let _ = flight.changed().await;
            if is_ours {
                let mut slots = entry.slots.lock();
                let slot = slots.held(crawler, self.clock.now());
                return slot.map_or_else(Arc::default, |slot| Arc::clone(&slot.state));
            }
        }
    }

    /// Counts a slot that was added or removed.
    fn count(&self, change: Change<'_>) {
        match change {
            Change::Came(slot) => {
                self.counts.came(slot.known);
                self.bytes.fetch_add(slot.bytes, Ordering::Relaxed);
            }
            Change::Went(slot) => {
                self.counts.went(slot.known);
                self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
            }
        }
    }

    /// Updates the number of states for an origin; tells whether it has grown.
    fn recount(&self, slots: &mut Slots) -> bool {
        let count = slots.count();
        let before = std::mem::replace(&mut slots.counted, count);
        if count != before {
            // Added before the subtraction, so that the sum never wraps.
            self.states.fetch_add(count, Ordering::Relaxed);
            self.states.fetch_sub(before, Ordering::Relaxed);
        }
        count > before
    }

    /// Sets the weight of a new slot; [`Shared::count`] adds it later.
    fn weigh_new(slot: &mut Slot) {
        slot.known = Known::of(&slot.state);
        slot.bytes = SLOT_BYTES + slot.state.snapshot().map_or(0, |snapshot| snapshot.bytes());
    }

    /// Updates the sum of octets for a slot, with rules compiled since; tells whether it has grown.
    fn update_size(&self, slot: &mut Slot) -> bool {
        let known = Known::of(&slot.state);
        if known != slot.known {
            self.counts.came(known);
            self.counts.went(std::mem::replace(&mut slot.known, known));
        }
        let snapshot = slot.state.snapshot();
        let bytes = SLOT_BYTES + snapshot.map_or(0, |snapshot| snapshot.bytes());
        let before = std::mem::replace(&mut slot.bytes, bytes);
        if bytes != before {
            // Added before the subtraction, so that the sum never wraps.
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.bytes.fetch_sub(before, Ordering::Relaxed);
        }
        bytes > before
    }

    /// Evicts the least recently used origins while the cache is over its bounds.
    fn bound(&self) {
        let over = || {
            self.states.load(Ordering::Relaxed) > self.bounds.origins
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
            // A flight holds a second reference to its entry; so does a waiting request.
            let gone = self
                .entries
                .remove_if(&origin, |_, entry| Arc::strong_count(entry) == 1);
            if let Some((_, entry)) = gone {
                // A permit from this entry would not notice an update of the entry that replaces it.
                self.changes.landed(entry.group);
                let slots = entry.slots.lock();
                slots.iter().for_each(|slot| self.count(Change::Went(slot)));
                self.bytes.fetch_sub(ENTRY_BYTES, Ordering::Relaxed);
                self.states.fetch_sub(slots.counted, Ordering::Relaxed);
                evicted += 1;
            }
        }
        debug!(
            evicted,
            held = self.entries.len(),
            "evicted the least recently used origins"
        );
    }
}

impl View {
    /// Returns a view without a state.
    fn unknown(now: Moment, by: Arc<EffectiveSettings>, landings: OriginUpdates) -> View {
        View {
            state: Arc::default(),
            fetched_as: None,
            stance: Stance::Unknown,
            now,
            is_exhausted: false,
            by,
            landings,
        }
    }
}

impl std::fmt::Debug for RobotsCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RobotsCache")
            .field("origins", &self.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
