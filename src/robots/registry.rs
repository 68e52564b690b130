//! Origin and identity → state: who knows what, and the one fetch that all wait for.
//!
//! Promises: however many requests ask about an origin as one identity at once, one fetch runs (*single flight*); it
//! runs in a task of its own, so a crawler that hangs up cancels nothing; a fetch that panics or is
//! dropped still ends, as [`Cause::Internal`](super::access::Cause::Internal), and wakes its waiters; what is held is bounded by count
//! and by octets, all identities counted, and what goes first is what was asked for least recently and is not being fetched.
//!
//! An origin has at most [`OWN_STATES`](super::identity::OWN_STATES) identities with states of their own; further ones share that of `*`. What
//! an origin refuses to one identity is believed only if it refuses it to `*`, too (`flight`).
//!
//! With a [`Memory`], what is known outlives the process: the first request to an origin asks the store for all of its
//! states, and only then it is known what is due; every fetch that ends is handed to the log before anybody sees what
//! it changed; and what is evicted is found again. Starting up reads nothing. While the store cannot be read, nobody
//! guesses: requests to origins that are not in memory are deferred.
//!
//! Locks are held for a few instructions and never across an await.

mod counts;
mod entry;
mod flight;
mod hops;
mod recall;

pub use self::counts::Counts;
use self::counts::Known;
use self::entry::{Change, ENTRY_BYTES, Entry, Recall, SLOT_BYTES, Slot, Slots};
use self::hops::{Hopper, Waits};
pub use self::recall::Memory;

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

use super::access::AccessResult;
use super::fetch::{self, Asked};
use super::identity::{Crawler, FetchedAs, Identity, UserAgents};
use super::reach::Tracker;
use super::state::{Due, Stance, State};
use crate::clock::{Clock, Moment};
use crate::config::{CacheConfig, Config, ProfileName, RobotsConfig};
use crate::egress::Egress;
use crate::pace::{Fetches, Pace};
use crate::policy::generation::{Changes, Landings};
use crate::policy::terms::{Terms, TermsDigest};
use crate::rep::Origin;
use crate::store::{self, StoreError};

/// Part of what is held that one eviction frees, so that its scan is paid for by many insertions.
const EVICTED_SHARE: usize = 16;

/// What a request learns about its origin.
#[derive(Debug)]
pub struct View {
    /// The origin's state, for the identity that asks.
    pub state: Arc<State>,
    /// How that was learnt; none where nothing is known.
    pub fetched_as: Option<Arc<FetchedAs>>,
    /// What it means now. [`Stance::Unknown`] when the fetch outlasted the hold.
    pub stance: Stance,
    /// When that was so: the clock is read once for all that follows.
    pub now: Moment,
    /// Nothing is known of the origin because this machine had no descriptor left to ask it with.
    pub is_exhausted: bool,
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
    user_agents: UserAgents,
    ours: Arc<InForce>,
    by_profile: [(ProfileName, Arc<InForce>); 3],
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
type Fetch = Box<dyn Fn(Asked) -> Fetching + Send + Sync>;

type Fetching = Pin<Box<dyn Future<Output = (AccessResult, store::Fetch)> + Send>>;

struct Shared {
    entries: DashMap<Origin, Arc<Entry>, ahash::RandomState>,
    /// States held, see [`Slots::count`].
    states: AtomicUsize,
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
    /// Fetches that wait for another origin's.
    waits: Waits,
}

/// What a request waits for.
enum Awaited {
    /// The store tells what is known; then it is looked at.
    Recall(watch::Receiver<()>),
    /// A fetch.
    Fetch(watch::Receiver<()>),
}

impl Registry {
    /// An empty registry that fetches through `egress`. What it knows ends with it.
    pub fn new(config: &Config, egress: Egress, pace: Pace, clock: Clock) -> Registry {
        Registry::with_memory(config, egress, None, pace, clock)
    }

    /// A registry that fetches through `egress` and knows what `memory` keeps.
    pub fn with_memory(
        config: &Config,
        egress: Egress,
        memory: Option<Memory>,
        pace: Pace,
        clock: Clock,
    ) -> Registry {
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
        Registry::fetching(config, clock, memory, fetch, changes)
    }

    fn fetching(
        config: &Config,
        clock: Clock,
        memory: Option<Memory>,
        fetch: Fetch,
        changes: Arc<Changes>,
    ) -> Registry {
        let settings = Settings::of(config.robots.clone(), UserAgents::of(config));
        Registry {
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

    /// Puts new settings in force for what happens from now on, also for what is held: a file is read by them when it is
    /// looked at next. A limit of its size and a User-Agent count when it is fetched. The bounds of what is held stay as
    /// they were.
    pub fn reconfigure(&self, config: &Config) {
        let settings = Settings::of(config.robots.clone(), UserAgents::of(config));
        self.shared.settings.store(Arc::new(settings));
    }

    /// Returns what is known of `origin` for `crawler`, fetched first where nothing usable is known. Waits for that at
    /// most the configured hold; a refresh of what is still fresh happens behind the request's back.
    pub async fn view(&self, origin: &Origin, crawler: Crawler<'_>) -> View {
        self.view_under(origin, crawler, None).await
    }

    /// The same for a client whose `profile`, where it has one of its own, tells what an outage means. The state of an
    /// identity and its fetches know no profile; what the state means does.
    pub async fn view_under(
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

    /// Fetches the robots.txt of `origin` although that is not due, for a request that has reason to doubt the state it
    /// has `seen`. One fetch serves all who doubt the same state; waits for it as [`Registry::view_under`] does.
    pub async fn doubt(
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
            None => self.view_under(origin, crawler, profile).await,
        }
    }

    /// Fetches the robots.txt of `origin` now, as `which` or as all identities that something is known for, whatever is
    /// known and when the next attempt is due; returns what is known then. A fetch under way began before this was
    /// asked: it is waited for, and another follows. Waits without a bound of its own: a fetch has one.
    ///
    /// # Errors
    /// When the store cannot tell what was known before. Nothing is fetched then: what came of it could not be added
    /// to that.
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

    /// Drops what is known of `origin`, of one identity or of all, here and in the store; the next request finds it as
    /// one never heard of. Tells whether anything was known. A fetch under way goes on and is the first thing known then.
    ///
    /// # Errors
    /// When the store cannot drop it. Nothing is forgotten then.
    pub async fn forget(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<bool, StoreError> {
        let shared = &self.shared;
        let entry = shared.entry(origin);
        let is_meant = |slot: &Slot| which.is_none_or(|identity| slot.identity == *identity);
        // First, so that a flight that lands meanwhile lands on nothing.
        let (before, recall) = {
            let mut slots = entry.slots.lock();
            let mut before = Vec::new();
            for slot in slots.iter_mut().filter(|slot| is_meant(slot)) {
                let state = std::mem::take(&mut slot.state);
                slot.failed = None;
                before.push((slot.identity.clone(), state, slot.fetched_as.take()));
                shared.weigh(slot);
            }
            let unused = |slot: &Slot| is_meant(slot) && slot.flight.is_none();
            slots.retain(|slot| !unused(slot), &mut |change| shared.count(change));
            shared.recount(&mut slots);
            shared.changes.landed(entry.group);
            let recall = match which {
                // The others are still to be read.
                Some(_) => None,
                None => Some(std::mem::replace(&mut slots.recall, Recall::Done)),
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
                        shared.weigh(slot);
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

    /// Returns what is known of `origin` for a crawler without asking anybody.
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

    /// States held, each of one identity.
    pub fn states(&self) -> usize {
        self.shared.states.load(Ordering::Relaxed)
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
            self.states.fetch_add(1, Ordering::Relaxed);
            Arc::new(Entry {
                group: self.changes.group(),
                slots: Mutex::new(Slots::new(match self.memory {
                    Some(_) => Recall::Due,
                    None => Recall::Done,
                })),
                used: AtomicU64::new(self.clock.now().as_millis()),
                asked: AtomicU64::new(0),
            })
        }));
        self.bound();
        entry
    }

    /// The stance now, and what to wait for where there is no usable one. So many flights wait already for one that takes
    /// off for this.
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
        // Read under the lock: what has landed has landed before now.
        let now = self.clock.now();
        let landings = self.changes.landings(entry.group);
        entry.used.store(now.as_millis(), Ordering::Relaxed);
        match slots.recall {
            Recall::Done => {}
            // The store has just failed: this request is not held for the next attempt. One that lies further away was
            // set by a clock that was ahead.
            Recall::Failed { until, .. }
                if now < until && until <= now + by.config.timing.retry_min =>
            {
                return (View::unknown(now, by, landings), None);
            }
            Recall::Failed { .. } | Recall::Due => {
                let recalling = self.join_recall(entry, origin, &mut slots);
                return (
                    View::unknown(now, by, landings),
                    Some(Awaited::Recall(recalling)),
                );
            }
        }
        let Some(slot) = slots.slot(crawler, now, &mut |change| self.count(change)) else {
            return (View::unknown(now, by, landings), None);
        };
        slot.used = now;
        let state = slot.settle(now, &by.config);
        let mut grown = self.weigh(slot);
        let stance = state.stance(now, &by.config.timing.profile);
        // A flight that is up is worth waiting for only where nothing usable is known: a complete
        // disallow whose next attempt is not due yet has none.
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
        self.weigh(slot);
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

    /// Waits until the fetch that `awaited` is, or leads to, has landed.
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
            // The sender is never used, only dropped, when the slots have their new states.
            match awaited {
                Awaited::Fetch(mut flight) => {
                    let _ = flight.changed().await;
                    return;
                }
                Awaited::Recall(mut recalling) => {
                    let _ = recalling.changed().await;
                    match self.look(entry, origin, crawler, profile, depth) {
                        (_, Some(next)) => awaited = next,
                        (_, None) => return,
                    }
                }
            }
        }
    }

    /// Returns the flight of a slot, which takes off where none is up.
    fn join(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        crawler: Crawler<'_>,
        slot: &mut Slot,
        depth: u8,
    ) -> watch::Receiver<()> {
        let flight = slot.flight.get_or_insert_with(|| {
            // One that shares the state of `*` asks as that.
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
            self.take_off(entry, hopper)
        });
        flight.clone()
    }

    /// Fetches once more for one identity, see [`Registry::refresh`].
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
            // The sender is never used, only dropped, when the slot has its new state.
            let _ = flight.changed().await;
            if is_ours {
                let mut slots = entry.slots.lock();
                let slot = slots.held(crawler, self.clock.now());
                return slot.map_or_else(Arc::default, |slot| Arc::clone(&slot.state));
            }
        }
    }

    /// A slot has come or gone.
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

    /// Brings the number of states up to what an origin has now; tells whether that is more than it was.
    fn recount(&self, slots: &mut Slots) -> bool {
        let count = slots.count();
        let before = std::mem::replace(&mut slots.counted, count);
        if count != before {
            // Added before it is taken away, so that the sum never wraps.
            self.states.fetch_add(count, Ordering::Relaxed);
            self.states.fetch_sub(before, Ordering::Relaxed);
        }
        count > before
    }

    /// Weighs a slot that is counted later, by [`Shared::count`].
    fn weigh_new(slot: &mut Slot) {
        slot.known = Known::of(&slot.state);
        slot.bytes = SLOT_BYTES + slot.state.snapshot().map_or(0, |snapshot| snapshot.bytes());
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
        let bytes = SLOT_BYTES + snapshot.map_or(0, |snapshot| snapshot.bytes());
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
            // A flight holds a second reference to its entry; so does a request that waits.
            let gone = self
                .entries
                .remove_if(&origin, |_, entry| Arc::strong_count(entry) == 1);
            if let Some((_, entry)) = gone {
                // A permit that rests on it would not hear of a landing on the entry that follows it.
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
            "forgot the origins used least recently"
        );
    }
}

impl View {
    /// Nothing is known, and nothing is waited for.
    fn unknown(now: Moment, by: Arc<InForce>, landings: Landings) -> View {
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
