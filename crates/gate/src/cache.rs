//! The cache of the states of robots.txt and tdmrep.json, by origin and identity, with the one fetch that all requests wait
//! for.
//!
//! Promises: however many requests ask for a document of an origin as one identity at once, one fetch runs (*single flight*); it
//! runs in a separate task, so a disconnecting crawler cancels nothing; a fetch that panics or is dropped still ends,
//! as [`Cause::Internal`](crawlgate_origins::access::Cause::Internal), and wakes its waiters; the cache is bounded by count
//! and by octets, over all identities, and evicts the least recently used origins that are not being fetched.
//!
//! A document of an origin has at most [`OWN_STATES`](crawlgate_origins::identity::OWN_STATES) identities with states of their
//! own; further ones share that of `*` at robots.txt, and have none at tdmrep.json. Clients divide these states evenly, so
//! that none can fill them with names that it makes up. A refusal to one identity is believed only if the origin refuses
//! `*`, too (`confirm`).
//!
//! With a [`PersistentStates`], states outlive the process: the first request to an origin loads all its states from the
//! store, which tells when a fetch is due; each finished fetch is handed to the log before any request sees the new
//! state; and evicted states are found again. Starting up reads nothing. While the store cannot be read, requests to origins that
//! are not in memory are deferred: their state is not guessed.
//!
//! Locks are held for a few instructions and never across an await.

mod confirm;
mod counts;
mod entry;
pub mod fetch;
mod fetch_handle;
mod flight;
mod hops;
mod lookup;
mod recall;
mod recalling;
mod refresh;
mod settings;
mod shared;
mod size;
mod tdmrep;

pub use self::counts::Counts;
use self::entry::{ENTRY_BYTES, Entry, FlightReason, Slot, Slots, StoreLookup};
use self::hops::WaitGraph;
use self::lookup::Awaited;
pub use self::lookup::View;
pub use self::recall::PersistentStates;
pub use self::refresh::NotForgotten;
pub use self::settings::EffectiveSettings;
use self::settings::Settings;
use self::shared::Sharing;
pub use self::tdmrep::Effort;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use dashmap::DashMap;
use parking_lot::Mutex;

use self::fetch::FetchRequest;
use crawlgate_config::{CacheConfig, Config, ProfileName};
use crawlgate_egress::RobotsFetcher;
use crawlgate_origins::access::AccessResult;
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::Crawler;
use crawlgate_origins::reach::Tracker;
use crawlgate_origins::state::{Due, State};
use crawlgate_policy::generation::Changes;
use crawlgate_policy::overrides::Overrides;
use crawlgate_robots::Origin;
use crawlgate_store as store;
use crawlgate_system::clock::{Clock, Moment, Uptime};
use crawlgate_turns::fleet::{Fleet, HeartbeatReply};
use crawlgate_turns::pace::{Fetches, Pace, SharedPace as _};

/// The cache of the states of all origins.
pub struct RobotsCache {
    shared: Arc<Shared>,
}

/// The source of a document: the network, or a test.
type Fetch = Box<dyn Fn(FetchRequest) -> Fetching + Send + Sync>;

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
    persistent: Option<PersistentStates>,
    /// Stored states from fetches before this moment are fetched anew, in milliseconds; 0: none.
    doubted_before: AtomicU64,
    /// None without a fleet.
    sharing: Option<Sharing>,
    /// Only one task evicts at a time. After a pass that left the cache over its bounds, the next one is not before this.
    evicting: Mutex<Option<Uptime>>,
    counts: Counts,
    /// Tells whether any origin is reached.
    reach: Tracker,
    /// Fetches that wait for another origin's fetch.
    waits: WaitGraph,
    /// The operator's overrides, which also decide about redirects of a robots.txt.
    overrides: ArcSwap<Overrides>,
}

impl RobotsCache {
    /// Builds an empty cache that fetches by `fetcher`. Its states end with it.
    pub fn new(config: &Config, fetcher: RobotsFetcher, pace: Pace, clock: Clock) -> RobotsCache {
        RobotsCache::with_memory(config, fetcher, None, None, pace, clock)
    }

    /// Builds a cache that fetches by `fetcher`, uses the states in `persistent`, and shares them with `fleet`.
    pub fn with_memory(
        config: &Config,
        fetcher: RobotsFetcher,
        persistent: Option<PersistentStates>,
        fleet: Option<Arc<Fleet>>,
        pace: Pace,
        clock: Clock,
    ) -> RobotsCache {
        let changes = fetcher.egress().changes();
        let fetcher = Arc::new(fetcher);
        let fetch: Fetch = {
            let clock = clock.clone();
            let fetches = Arc::new(Fetches::new(&config.robots, clock.clone()));
            Box::new(move |asked| {
                let (fetcher, clock) = (Arc::clone(&fetcher), clock.clone());
                let (pace, fetches) = (pace.clone(), Arc::clone(&fetches));
                Box::pin(async move {
                    let Some(waiting) = fetches.enter(asked.client.as_ref()) else {
                        return fetch::without_room(&asked, &clock);
                    };
                    let address = match pace.is_per_address() {
                        true => fetcher.egress().address_of(&asked.origin).await,
                        false => None,
                    };
                    let turn = pace.turn_for_robots(&asked.origin, address).await;
                    let mut place = waiting.begin(turn).await;
                    if let Some(turn) = place.turn() {
                        pace.restart(turn);
                    }
                    fetch::fetch(&fetcher, &pace, &mut place, &asked, &clock).await
                })
            })
        };
        RobotsCache::fetching(config, clock, persistent, fleet, fetch, changes)
    }

    fn fetching(
        config: &Config,
        clock: Clock,
        persistent: Option<PersistentStates>,
        fleet: Option<Arc<Fleet>>,
        fetch: Fetch,
        changes: Arc<Changes>,
    ) -> RobotsCache {
        let settings = Settings::of(config);
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
                persistent,
                doubted_before: AtomicU64::new(0),
                sharing: fleet.map(Sharing::new),
                evicting: Mutex::default(),
                counts: Counts::default(),
                reach: Tracker::default(),
                waits: WaitGraph::default(),
                overrides: ArcSwap::default(),
            }),
        }
    }

    /// Puts new settings in force, also for cached states: a file is parsed by them at its next use. The size limit and
    /// the User-Agent apply from the next fetch. The bounds of the cache stay as they were.
    pub fn reconfigure(&self, config: &Config) {
        let settings = Settings::of(config);
        self.shared.settings.store(Arc::new(settings));
    }

    /// Takes in a heartbeat: after a loss of the engine or of messages, each state is compared once with that of the fleet.
    pub fn on_heartbeat(&self, reply: &HeartbeatReply) {
        if let Some(sharing) = &self.shared.sharing {
            sharing.on_heartbeat(reply);
        }
    }

    /// Puts the operator's overrides in force, for the redirects of fetches from now on.
    pub fn set_overrides(&self, overrides: Arc<Overrides>) {
        self.shared.overrides.store(overrides);
    }

    /// Returns the state of `origin` for `crawler`, fetching it first if none is usable. Waits at most the configured
    /// hold; the refresh of a fresh state runs in the background.
    pub async fn view(&self, origin: &Origin, crawler: Crawler<'_>) -> View {
        self.lookup_for(origin, crawler, None).await
    }

    /// Like [`RobotsCache::view`], for a client with its own `profile` for outages. The profile changes the meaning
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
            let asked = (origin, crawler.requester);
            doubted.map(|slot| shared.join(&entry, asked, slot, 0, FlightReason::Fetch))
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
        // Of two with as many requests, the first by name.
        let order = |one: (&Origin, u64), other: (&Origin, u64)| {
            other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0))
        };
        for entry in &self.shared.entries {
            let asked = entry.asked.load(Ordering::Relaxed);
            let last = busiest.last().filter(|_| busiest.len() >= limit);
            let is_behind = |(origin, most): &(Origin, u64)| {
                order((entry.key(), asked), (origin, *most)).is_gt()
            };
            if asked == 0 || last.is_some_and(is_behind) {
                continue;
            }
            busiest.push((entry.key().clone(), asked));
            busiest.sort_by(|(a, more), (b, less)| order((a, *more), (b, *less)));
            busiest.truncate(limit);
        }
        busiest
    }

    /// Records that an origin has answered: some origins are reached.
    pub fn reached(&self) {
        self.shared.reach.reached();
    }

    /// Fetches a document anew before the next request that would use a stored state from before this moment.
    pub fn doubt_before(&self, moment: Moment) {
        let shared = &self.shared;
        shared.doubted_before.store(moment.as_millis(), Ordering::Relaxed);
    }

    /// Returns the origins that requests were judged for since `moment` by a robots.txt that was fetched before it, with the
    /// moment of the oldest such fetch. The oldest come first.
    pub fn judged_by_older(&self, moment: Moment) -> Vec<(Origin, Moment)> {
        let is_older = |slot: &&Slot| {
            let is_robots = slot.identity.document() == Document::RobotsTxt;
            is_robots && slot.used >= moment
        };
        let mut older: Vec<(Origin, Moment)> = Vec::new();
        for entry in &self.shared.entries {
            let slots = entry.slots.lock();
            let fetched = slots.iter().filter(is_older);
            let fetched = fetched.filter_map(|slot| slot.state.fetched());
            if let Some(oldest) = fetched.filter(|fetched| *fetched < moment).min() {
                older.push((entry.key().clone(), oldest));
            }
        }
        older.sort_by(|(a, one), (b, other)| one.cmp(other).then_with(|| a.cmp(b)));
        older
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
    /// Tells whether the states are another process's.
    fn is_onlooker(&self) -> bool {
        let persistent = self.persistent.as_ref();
        persistent.is_some_and(PersistentStates::are_of_others)
    }

    /// Tells whether a stored state is to be fetched anew.
    fn is_doubted(&self, state: &State) -> bool {
        let before = Moment::from_millis(self.doubted_before.load(Ordering::Relaxed));
        state.fetched().is_some_and(|fetched| fetched < before)
    }

    fn entry(&self, origin: &Origin) -> Arc<Entry> {
        if let Some(entry) = self.entries.get(origin) {
            return Arc::clone(&entry);
        }
        let entry = Arc::clone(&self.entries.entry(origin.clone()).or_insert_with(|| {
            self.bytes.fetch_add(ENTRY_BYTES, Ordering::Relaxed);
            self.states.fetch_add(1, Ordering::Relaxed);
            Arc::new(Entry {
                group: self.changes.group(),
                slots: Mutex::new(Slots::new(match self.persistent {
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
