//! Politeness: how often one origin is asked, whoever asks.
//!
//! Each origin has one pace, shared by all clients. From one request to the next passes at least the longest of
//!
//! - the operator's own interval (`[pace] requests_per_second`, in bursts of `burst`),
//! - the interval that its robots.txt asks this crawler to keep, where the operator honours that ([`wish`]), each group
//!   of the file since its own last request,
//! - the gap of an origin that is in trouble (`backoff`), and its `Retry-After`.
//!
//! No more than `concurrency` requests are under way, and where `per_address` is set, own interval and concurrency hold
//! over all origins at one address together: the lowest of those that the origin's name leads to, looked up before the
//! turn. Where an upstream proxy looks names up, nobody here knows the address, and nothing holds over several origins.
//!
//! A request beyond the pace is *held*. Those who wait at an origin are let go client by client in rounds (`queue`), so
//! a client that floods it delays its own requests, and others by one request a round. A request that hangs up leaves its
//! place; one that would wait for longer than `max_hold`, or would be one too many, is told at once when to come again.
//! A held request costs its connection, its head and a place here: 20 KiB as a rule, and no more than `[limits]
//! header_bytes` beyond that. So `max_held` bounds octets, too; one client has half of it at one origin at most.
//!
//! A robots.txt counts as a request. Its fetch goes before all who wait, when it is due or has waited for `max_hold`: who
//! waits for it waits longer than anybody. What a redirect of it asks for waits for nothing; it counts where the origin owes
//! nothing, and puts nobody off who waits already. One that a crawler asks for itself is a request like any other.
//! Where origins at one address are bounded together, fetches go there one after the other, each when it is due or has
//! been the first of them for `max_hold`. They pass `concurrency` by: whoever has a turn may be waiting for one of them.
//!
//! A request that has to be sent a second time, as its connection was lost, takes a turn again, before all who wait, or
//! goes no more.
//!
//! Times are those at which requests are let go, by the wall clock and to the millisecond; how long each is on its way
//! is the network's. When it is set back, what was done goes back with it. Paces
//! can change at any time: what was let through counts by the new one. Kept are at most `KEPT` origins; past it, those
//! go that have nothing to remember, and then those asked least recently.
//!
//! Not governor's limiter: that takes a turn in the act of asking whether there is one, and a request here needs several
//! at once or none. Where one limit is all there is, for all fetches of robots.txt (`fetches`), it is governor's.
//!
//! [`wish`]: crate::robots::wish

mod backoff;
mod fetches;
mod lane;
mod meter;
mod queue;
mod regime;
mod track;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};

use self::backoff::Outcome;
pub use self::fetches::{FetchSlot, Fetches};
use self::lane::{Claim, Entry, Lane};
use self::regime::Regime;
use self::track::Due;
use crate::client::ClientKey;
use crate::clock::{Clock, Moment};
use crate::config::{CrawlDelay, PaceConfig};
use crate::rep::Origin;
use crate::robots::wish::Wish;

/// Origins kept, and addresses.
const KEPT: usize = 100_000;

/// Part of what is kept that goes at once, so that looking through it is paid for by many requests.
const SHARE: usize = 16;

/// When to come again where nobody can tell: what is waited for is others' requests to end.
const SOON: Duration = Duration::from_secs(1);

/// Timers may be late: whoever's turn comes just at the end of the longest hold is to have it.
const GRACE: Duration = Duration::from_millis(20);

/// The group of a robots.txt that an interval is kept for.
type Group = Arc<str>;

/// The pace of all origins. Clones share it.
#[derive(Clone)]
pub struct Pace(Arc<Shared>);

struct Shared {
    regime: ArcSwap<Regime>,
    clock: Clock,
    origins: Lanes<Origin>,
    addresses: Lanes<IpAddr>,
    /// Requests that wait now.
    held: AtomicUsize,
    waited: AtomicU64,
    refused: AtomicU64,
}

/// Lanes by what they belong to.
struct Lanes<K> {
    lanes: DashMap<K, Arc<Lane>, ahash::RandomState>,
    /// Only one task evicts at a time.
    evicting: Mutex<()>,
}

/// What bounds the requests to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InForce {
    /// The least time from one request to the next; of a rest, how long it is; zero where time is not what is waited
    /// for.
    pub interval: Duration,
    /// What makes it so.
    pub source: Source,
    /// The robots.txt asks for more than the operator lets it (`max_crawl_delay`).
    pub clamped: bool,
}

/// What makes a request wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// `[pace] requests_per_second`.
    Own,
    /// `Crawl-delay` in the origin's robots.txt.
    CrawlDelay,
    /// `Request-rate` there.
    RequestRate,
    /// The origin has said that it is asked too much, slows down or cannot be reached.
    Backoff,
    /// As many requests are under way to it as may be.
    Concurrency,
    /// The same bounds, over all origins at the address (`[pace] per_address`).
    Address,
    /// As many requests are held as may be.
    MaxHeld,
}

/// What wants a turn.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Where it goes.
    pub origin: &'a Origin,
    /// What the origin's robots.txt asks this crawler to keep, where that is to be honoured.
    pub wish: Option<&'a Arc<Wish>>,
}

/// A request may go. It counts as under way until this is dropped.
#[derive(Debug)]
#[must_use = "the request is under way for as long as this is kept"]
pub struct Turn {
    lane: Arc<Lane>,
    at_address: Option<Box<Turn>>,
    /// When it was given.
    at: Moment,
    /// Names it in its lane.
    number: u64,
}

/// What becomes of one that goes before all others when its patience ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Late {
    /// It goes, due or not.
    Goes,
    /// It goes no more.
    GivesUp,
}

/// A request came too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooEarly {
    /// When it may come again.
    pub at: Moment,
    /// Why.
    pub pace: InForce,
}

/// How many were held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that wait for their turn now.
    pub held: usize,
    /// Requests that have waited and had their turn, since the start.
    pub waited: u64,
    /// Requests that were told to come again later, since the start.
    pub refused: u64,
}

impl Pace {
    /// With the configured pace, on `clock`.
    pub fn new(config: &PaceConfig, clock: Clock) -> Pace {
        Pace(Arc::new(Shared {
            regime: ArcSwap::from_pointee(Regime::of(config)),
            clock,
            origins: Lanes::default(),
            addresses: Lanes::default(),
            held: AtomicUsize::new(0),
            waited: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Puts a new pace in force, also for those who wait. What was let through counts by it: reading a configuration
    /// again lets no burst through, whatever it says.
    pub fn reconfigure(&self, config: &PaceConfig) {
        if self.0.regime.load().config == *config {
            return;
        }
        let regime = Arc::new(Regime::of(config));
        self.0.regime.store(Arc::clone(&regime));
        for lane in &self.0.origins.lanes {
            lane.reconsider(&regime);
        }
        for lane in &self.0.addresses.lanes {
            lane.reconsider(&regime);
        }
    }

    /// Whether every request has its turn at once, and nobody watches how it goes.
    pub fn is_unlimited(&self) -> bool {
        self.0.regime.load().is_off
    }

    /// Whether what a robots.txt asks for is kept.
    pub fn honours_wishes(&self) -> bool {
        self.0.regime.load().config.crawl_delay == CrawlDelay::Honour
    }

    /// Whether a turn needs the address of its origin, too.
    pub fn is_per_address(&self) -> bool {
        self.0.regime.load().is_per_address()
    }

    /// Takes a turn at `now`, just past, where there is one without waiting.
    pub fn try_turn(&self, ask: Ask<'_>, now: Moment) -> Option<Turn> {
        let regime = self.0.regime.load();
        if regime.is_per_address() {
            return None;
        }
        let lane = self.0.origin(ask.origin);
        let passed = match regime.is_quiet && ask.wish.is_none() {
            true => lane.pass(now),
            false => None,
        };
        passed.or_else(|| lane.take(&self.0, &regime, ask.wish.map(|wish| &**wish)))
    }

    /// Waits for the turn of a request of `client`. Dropped, it leaves its place.
    ///
    /// # Errors
    /// [`TooEarly`] when the turn comes after the longest hold. No turn is used up then.
    pub async fn turn(
        &self,
        ask: Ask<'_>,
        client: &ClientKey,
        address: Option<IpAddr>,
    ) -> Result<(Turn, Option<InForce>), TooEarly> {
        self.turn_telling(ask, client, address, &mut None).await
    }

    /// The same; what it waits for stands in `waits_for` as soon as it waits.
    ///
    /// # Errors
    /// As for [`turn`](Pace::turn).
    pub async fn turn_telling(
        &self,
        ask: Ask<'_>,
        client: &ClientKey,
        address: Option<IpAddr>,
        waits_for: &mut Option<InForce>,
    ) -> Result<(Turn, Option<InForce>), TooEarly> {
        let turn = self.0.turn(ask, client, address, waits_for).await;
        if turn.is_err() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        turn
    }

    /// Waits for the turn of a fetch of robots.txt, which goes before all others and waits no longer than the longest
    /// hold; at `address`, no longer than that once it is the first.
    pub async fn turn_for_robots(&self, origin: &Origin, address: Option<IpAddr>) -> Option<Turn> {
        if self.is_unlimited() {
            return None;
        }
        let lane = self.0.origin(origin);
        let at_address = address.map(|key| self.0.addresses.lane(&self.0, &key));
        self.0
            .turn_ahead(&lane, at_address.as_ref(), Late::Goes)
            .await
    }

    /// Waits until a request may be sent a second time that had this turn, as its connection was lost. Tells whether it
    /// may: not where that takes longer than the longest hold.
    pub async fn again(&self, turn: &Turn) -> bool {
        if self.is_unlimited() {
            return true;
        }
        let at_address = turn.at_address.as_ref().map(|turn| &turn.lane);
        let again = self.0.turn_ahead(&turn.lane, at_address, Late::GivesUp);
        // It is under way already, once: a second turn only counts.
        again.await.is_some() || self.is_unlimited()
    }

    /// Counts a request for a robots.txt that waits for no turn, as that of a redirect. However many there are, others
    /// wait one interval for them, not more.
    pub fn count_robots(&self, origin: &Origin) {
        let regime = self.0.regime.load();
        if !regime.is_off {
            self.0.origin(origin).count_robots(&self.0, &regime, None);
        }
    }

    /// A fetch of robots.txt goes only now that had its turn before.
    pub fn restart(&self, turn: &Turn) {
        let regime = self.0.regime.load();
        for turn in [Some(turn), turn.at_address.as_deref()]
            .into_iter()
            .flatten()
        {
            let before = Some(turn.number);
            turn.lane.count_robots(&self.0, &regime, before);
        }
    }

    /// Takes in that an origin has answered: `at` what time, with which status and `Retry-After`. `is_telling` says that
    /// the time that took tells of the origin: the request had no body.
    pub fn answered(
        &self,
        turn: &Turn,
        status: u16,
        retry_after: impl FnOnce() -> Option<Duration>,
        is_telling: bool,
    ) {
        let regime = self.0.regime.load();
        if !regime.config.backoff {
            return;
        }
        let now = self.0.clock.now();
        let outcome = match status {
            429 | 503 => Outcome::Refused {
                retry_after: retry_after(),
            },
            _ => Outcome::Fine {
                took: is_telling.then(|| now.since(turn.at)),
            },
        };
        let most = regime.config.backoff_max;
        turn.lane.take_in(outcome, turn.at, now, most);
    }

    /// Takes in that an origin could not be reached, or did not answer in time.
    pub fn failed(&self, turn: &Turn) {
        let regime = self.0.regime.load();
        if regime.config.backoff {
            let now = self.0.clock.now();
            let most = regime.config.backoff_max;
            turn.lane.take_in(Outcome::Failed, turn.at, now, most);
        }
    }

    /// What bounds the requests to an origin now, whatever its robots.txt asks for. None where nothing does, or it was
    /// not asked for long.
    pub fn of(&self, origin: &Origin) -> Option<InForce> {
        let lane = self.0.origins.lanes.get(origin);
        let lane = lane.map(|lane| Arc::clone(&lane))?;
        let pace = lane.due(&self.0, &self.0.regime.load()).pace;
        (!pace.interval.is_zero()).then_some(pace)
    }

    /// What is kept of what a robots.txt asks for: nothing, where that is only recorded.
    pub fn kept_of(&self, wish: &Wish) -> Option<InForce> {
        let regime = self.0.regime.load();
        (regime.config.crawl_delay == CrawlDelay::Honour).then(|| regime.keep(wish))
    }

    /// The pace of an origin in no trouble under `config`, whose robots.txt has this wish. None where nothing bounds it.
    pub fn planned(config: &PaceConfig, wish: Option<&Wish>) -> Option<InForce> {
        let regime = Regime::of(config);
        let own = regime
            .rate
            .map(|rate| InForce::plain(rate.interval(), Source::Own));
        let asked = wish.filter(|_| config.crawl_delay == CrawlDelay::Honour);
        let asked = asked.map(|wish| regime.keep(wish));
        // Of two that are alike, the operator's own.
        asked
            .into_iter()
            .chain(own)
            .max_by_key(|pace| pace.interval)
    }

    /// Requests that wait for their turn now.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// How many were held, and how many refused.
    pub fn counts(&self) -> Counts {
        Counts {
            held: self.held(),
            waited: self.0.waited.load(Ordering::Relaxed),
            refused: self.0.refused.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    fn origin(&self, origin: &Origin) -> Arc<Lane> {
        self.origins.lane(self, origin)
    }

    async fn turn(
        self: &Arc<Self>,
        ask: Ask<'_>,
        client: &ClientKey,
        address: Option<IpAddr>,
        waits_for: &mut Option<InForce>,
    ) -> Result<(Turn, Option<InForce>), TooEarly> {
        let regime = self.regime.load_full();
        let patience = regime.config.max_hold;
        let lane = self.origin(ask.origin);
        let claim = Claim {
            client,
            wish: ask.wish,
            address: address.filter(|_| regime.is_per_address()),
            patience: Some(patience),
        };
        let (number, granted, expected) = match lane.enter(self, &regime, claim) {
            Entry::Gone(turn) => return Ok((turn, None)),
            Entry::Refused(due) => return Err(self.too_early(due)),
            Entry::Waits(number, granted, expected) => (number, granted, expected),
        };
        *waits_for = Some(expected.pace);
        drop(regime);
        let place = Place::new(self, &lane, client, number);
        let granted = timeout(patience.saturating_add(GRACE), granted).await;
        drop(place);
        let turn = match granted {
            Ok(Ok(granted)) => granted.take(),
            // Too long, or the runtime ends.
            Ok(Err(_)) | Err(_) => None,
        };
        match turn {
            Some(turn) => {
                self.waited.fetch_add(1, Ordering::Relaxed);
                Ok((turn, Some(expected.pace)))
            }
            None => {
                let regime = self.regime.load();
                let at_address = claim.address.map(|key| self.addresses.lane(self, &key));
                let lanes = [Some(lane), at_address].into_iter().flatten();
                let at = lanes.map(|lane| lane.due(self, &regime).at).max();
                Err(self.too_early(Due {
                    at: at.unwrap_or_default(),
                    ..expected
                }))
            }
        }
    }

    fn too_early(&self, due: Due) -> TooEarly {
        let now = self.clock.now();
        TooEarly {
            at: if due.at > now { due.at } else { now + SOON },
            pace: due.pace,
        }
    }

    /// Waits for a turn before all who wait in `lane` and, where origins are bounded together, `at_address`. None where
    /// it came too late for one that gives up then, or nothing is bounded any more.
    async fn turn_ahead(
        &self,
        lane: &Arc<Lane>,
        at_address: Option<&Arc<Lane>>,
        late: Late,
    ) -> Option<Turn> {
        let row = at_address.unwrap_or(lane);
        let started = Instant::now();
        let patience = self.regime.load().config.max_hold;
        // At an address there may be any number of them: each has its patience from when it is the first.
        let (_first, started) = match (at_address, late) {
            (Some(_), Late::Goes) => (Some(row.ahead.lock().await), Instant::now()),
            (_, Late::GivesUp) => (
                Some(timeout(patience, row.ahead.lock()).await.ok()?),
                started,
            ),
            (None, Late::Goes) => (None, started),
        };
        loop {
            let regime = self.regime.load_full();
            if regime.is_off {
                return None;
            }
            let left = regime.config.max_hold.saturating_sub(started.elapsed());
            let goes = left.is_zero() && late == Late::Goes;
            let at_address = at_address.filter(|_| regime.is_per_address());
            let taken = match at_address {
                None => lane.take_for_robots(self, &regime, goes),
                Some(at_address) => match lane.wait_for_robots(self, &regime) {
                    Some(wait) if !goes => Err(wait),
                    // Both at once: nobody else goes before all others here.
                    _ => at_address
                        .take_for_robots(self, &regime, goes)
                        .and_then(|first| {
                            let mut turn = lane.take_for_robots(self, &regime, true)?;
                            turn.at_address = Some(Box::new(first));
                            Ok(turn)
                        }),
                },
            };
            match taken {
                Ok(turn) => return Some(turn),
                Err(_) if left.is_zero() => return None,
                Err(wait) if wait > left && late == Late::GivesUp => return None,
                Err(wait) => sleep(wait.min(left)).await,
            }
        }
    }

    /// Waits for the turn of an address, for as long as that takes.
    async fn turn_at(self: &Arc<Self>, address: IpAddr, client: &ClientKey) -> Option<Turn> {
        let regime = self.regime.load_full();
        if !regime.is_per_address() {
            return None;
        }
        let lane = self.addresses.lane(self, &address);
        let claim = Claim {
            client,
            wish: None,
            address: None,
            patience: None,
        };
        match lane.enter(self, &regime, claim) {
            Entry::Gone(turn) => Some(turn),
            Entry::Waits(_, granted, _) => granted.await.ok()?.take(),
            Entry::Refused(_) => None,
        }
    }
}

impl<K: Clone + Eq + std::hash::Hash> Lanes<K> {
    fn lane(&self, shared: &Shared, key: &K) -> Arc<Lane> {
        if let Some(lane) = self.lanes.get(key) {
            return Arc::clone(&lane);
        }
        if self.lanes.len() >= KEPT {
            self.evict(shared);
        }
        Arc::clone(&self.lanes.entry(key.clone()).or_default())
    }

    /// Drops those that have nothing to remember; where those are few, those asked least recently.
    fn evict(&self, shared: &Shared) {
        let Some(_evicting) = self.evicting.try_lock() else {
            return;
        };
        let regime = shared.regime.load();
        // Whoever holds a turn, or waits, holds its lane, too.
        let is_used = |lane: &Arc<Lane>| Arc::strong_count(lane) > 1;
        self.lanes
            .retain(|_, lane| is_used(lane) || lane.last(shared, &regime).is_some());
        let least = KEPT - KEPT / SHARE;
        let Some(surplus) = self.lanes.len().checked_sub(least).filter(|n| *n > 0) else {
            return;
        };
        let mut by_age: Vec<(Moment, K)> = self
            .lanes
            .iter()
            .map(|lane| {
                (
                    lane.last(shared, &regime).unwrap_or_default(),
                    lane.key().clone(),
                )
            })
            .collect();
        by_age.sort_unstable_by_key(|(last, _)| *last);
        for (_, key) in by_age.into_iter().take(surplus) {
            self.lanes.remove_if(&key, |_, lane| !is_used(lane));
        }
    }
}

impl<K: Eq + std::hash::Hash> Default for Lanes<K> {
    fn default() -> Lanes<K> {
        Lanes {
            lanes: DashMap::default(),
            evicting: Mutex::default(),
        }
    }
}

/// A place among those who wait; left when this is dropped.
struct Place<'a> {
    shared: &'a Shared,
    lane: &'a Lane,
    client: &'a ClientKey,
    number: u64,
}

impl<'a> Place<'a> {
    fn new(shared: &'a Shared, lane: &'a Lane, client: &'a ClientKey, number: u64) -> Place<'a> {
        shared.held.fetch_add(1, Ordering::Relaxed);
        Place {
            shared,
            lane,
            client,
            number,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.lane.leave(self.client, self.number);
        self.shared.held.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turn {
    fn new(lane: &Arc<Lane>, at: Moment, number: u64) -> Turn {
        Turn {
            lane: Arc::clone(lane),
            at_address: None,
            at,
            number,
        }
    }

    /// Gives up a turn that was not used: who comes next need not wait for it, unless somebody has come already.
    pub fn give_back(mut self) {
        self.lane.undo(self.number);
        if let Some(turn) = self.at_address.take() {
            turn.give_back();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.lane.end();
    }
}

impl InForce {
    const fn plain(interval: Duration, source: Source) -> InForce {
        InForce {
            interval,
            source,
            clamped: false,
        }
    }
}

impl Source {
    /// Its name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Own => "own",
            Source::CrawlDelay => "crawl_delay",
            Source::RequestRate => "request_rate",
            Source::Backoff => "backoff",
            Source::Concurrency => "concurrency",
            Source::Address => "address",
            Source::MaxHeld => "max_held",
        }
    }
}

impl std::fmt::Debug for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pace")
            .field("origins", &self.0.origins.lanes.len())
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
