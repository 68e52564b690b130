//! Politeness: limits the requests to each origin, from all clients together.
//!
//! Each origin has one pace, shared by all clients. The time from one request to the next is at least the longest of
//!
//! - the operator's own interval (`[pace] requests_per_second`, in bursts of `burst`),
//! - the interval that its robots.txt asks this crawler to keep, if the operator honours it ([`crawl_delay`]), counted for
//!   each group of the file since the group's own last request,
//! - the gap of an origin that is in trouble (`backoff`), and its `Retry-After`.
//!
//! At most `concurrency` requests are in flight. With `per_address`, the own interval and the concurrency hold for all
//! origins at one address together: the lowest address of the origin's name, looked up before the turn. If an upstream
//! proxy resolves names, the address is unknown here and nothing holds over several origins.
//!
//! A request that is too early is *held*. Held requests of an origin get their turns client by client in rounds
//! (`queue`), so a client that floods the origin delays its own requests, and others by one request a round. A request
//! leaves the queue if its client disconnects. A request that would wait for longer than `max_hold`, or would be one
//! too many, is told at once when to come again. A held request costs its connection, its head and its entry in the
//! queue: usually 20 KiB, and at most `[limits] header_bytes` more. So `max_held` bounds octets, too; one client gets
//! at most half of it at one origin.
//!
//! A robots.txt counts as a request. Its fetch goes before all held requests, when it is due or has waited for
//! `max_hold`, because requests that need the file wait longest of all. A fetch for a redirect hop does not wait; it is
//! counted only if the origin is due, and delays none that is already held. A crawler's own request for robots.txt is a
//! request like any other. If origins at one address share limits, fetches go there one after the other, each when it
//! is due or has been the first of them for `max_hold`. They ignore `concurrency`: a request that has a turn may be
//! waiting for one of them.
//!
//! A request that has to be sent again after its connection was lost takes another turn, before all held requests, or
//! is given up.
//!
//! Times are those at which requests get their turns, by the wall clock and to the millisecond; time on the network
//! does not count. If the clock is set back, recorded times move back with it. Paces can change at any time: earlier
//! requests count by the new pace. At most `KEPT` origins are kept; beyond that, origins without relevant history are
//! dropped first, then those asked least recently.
//!
//! governor's limiter does not fit: checking it already takes a turn, and a request here needs several turns at once or
//! none. The limit on all fetches of robots.txt (`fetches`) stands alone, so it uses governor.
//!
//! [`crawl_delay`]: crate::robots::crawl_delay

mod backoff;
mod fetches;
mod history;
mod limiter;
mod queue;
mod settings;
mod turns;

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
use self::history::Due;
use self::limiter::{Claim, Entry, OriginLimiter};
use self::settings::PaceSettings;
use crate::client::ClientKey;
use crate::clock::{Clock, Moment};
use crate::config::{CrawlDelayMode, PaceConfig};
use crate::rep::Origin;
use crate::robots::crawl_delay::CrawlDelay;

/// Limit of origins, and of addresses, that are kept.
const KEPT: usize = 100_000;

/// Fraction of them that is evicted at once, so that many requests share the cost of one scan.
const SHARE: usize = 16;

/// Retry time if none can be computed, because the wait depends on other requests' ends.
const SOON: Duration = Duration::from_secs(1);

/// Timers may be late: a turn that comes just at the end of the longest hold still counts.
const GRACE: Duration = Duration::from_millis(20);

/// The group of a robots.txt that an interval belongs to.
type Group = Arc<str>;

/// The pace of all origins. Clones share it.
#[derive(Clone)]
pub struct Pace(Arc<Shared>);

struct Shared {
    settings: ArcSwap<PaceSettings>,
    clock: Clock,
    origins: Limiters<Origin>,
    addresses: Limiters<IpAddr>,
    /// Requests that are held now.
    held: AtomicUsize,
    waited: AtomicU64,
    refused: AtomicU64,
}

/// The origin limiters by origin or address.
struct Limiters<K> {
    limiters: DashMap<K, Arc<OriginLimiter>, ahash::RandomState>,
    /// Only one task evicts at a time.
    evicting: Mutex<()>,
}

/// The bound on requests to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectivePace {
    /// The least time from one request to the next; the length of a rest; zero if the wait is not for time.
    pub interval: Duration,
    /// The source of the bound.
    pub source: Source,
    /// True if the robots.txt asks for more than the operator's `max_crawl_delay`.
    pub clamped: bool,
}

/// The source of a bound that makes a request wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// `[pace] requests_per_second`.
    Own,
    /// `Crawl-delay` in the origin's robots.txt.
    CrawlDelay,
    /// `Request-rate` there.
    RequestRate,
    /// The origin has reported overload, slows down or cannot be reached.
    Backoff,
    /// The limit of requests in flight to the origin is reached.
    Concurrency,
    /// The same bounds, for all origins at the address (`[pace] per_address`).
    Address,
    /// The limit of held requests is reached.
    MaxHeld,
}

/// A request for a turn.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The origin that it goes to.
    pub origin: &'a Origin,
    /// The interval that the origin's robots.txt asks this crawler to keep, if it is to be honoured.
    pub crawl_delay: Option<&'a Arc<CrawlDelay>>,
}

/// The permission for one request to go. The request counts as in flight until this is dropped.
#[derive(Debug)]
#[must_use = "the request is under way for as long as this is kept"]
pub struct Turn {
    limiter: Arc<OriginLimiter>,
    at_address: Option<Box<Turn>>,
    /// The moment of the turn.
    at: Moment,
    /// Its number at its origin limiter.
    number: u64,
}

/// The fate of a prioritised request at its time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Late {
    /// It goes, even if it is not due.
    Goes,
    /// It is given up.
    GivesUp,
}

/// A request that came too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooEarly {
    /// The moment at which it may come again.
    pub at: Moment,
    /// The bound that delays it.
    pub pace: EffectivePace,
}

/// Counters of held requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that are held now.
    pub held: usize,
    /// Requests that were held and then had their turn, since the start.
    pub waited: u64,
    /// Requests that were refused with a time to come again, since the start.
    pub refused: u64,
}

impl Pace {
    /// Builds the limiter with the configured pace, on `clock`.
    pub fn new(config: &PaceConfig, clock: Clock) -> Pace {
        Pace(Arc::new(Shared {
            settings: ArcSwap::from_pointee(PaceSettings::of(config)),
            clock,
            origins: Limiters::default(),
            addresses: Limiters::default(),
            held: AtomicUsize::new(0),
            waited: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Puts a new pace in force, also for held requests. Earlier requests count by the new pace, so a reload never
    /// permits a new burst.
    pub fn reconfigure(&self, config: &PaceConfig) {
        if self.0.settings.load().config == *config {
            return;
        }
        let settings = Arc::new(PaceSettings::of(config));
        self.0.settings.store(Arc::clone(&settings));
        for limiter in &self.0.origins.limiters {
            limiter.reconsider(&settings);
        }
        for limiter in &self.0.addresses.limiters {
            limiter.reconsider(&settings);
        }
    }

    /// Tells whether each request gets its turn at once and its outcome is not recorded.
    pub fn is_unlimited(&self) -> bool {
        self.0.settings.load().is_off
    }

    /// Tells whether the operator honours the intervals that a robots.txt asks for.
    pub fn honours_crawl_delay(&self) -> bool {
        self.0.settings.load().config.crawl_delay == CrawlDelayMode::Honour
    }

    /// Tells whether a turn needs the address of its origin, too.
    pub fn is_per_address(&self) -> bool {
        self.0.settings.load().is_per_address()
    }

    /// Takes a turn at `now`, just past, if one is free without waiting.
    pub fn try_turn(&self, ask: Ask<'_>, now: Moment) -> Option<Turn> {
        let settings = self.0.settings.load();
        if settings.is_per_address() {
            return None;
        }
        let limiter = self.0.origin(ask.origin);
        let passed = match settings.is_quiet && ask.crawl_delay.is_none() {
            true => limiter.pass(now),
            false => None,
        };
        passed.or_else(|| {
            limiter.take(
                &self.0,
                &settings,
                ask.crawl_delay.map(|crawl_delay| &**crawl_delay),
            )
        })
    }

    /// Waits for the turn of a request of `client`. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`TooEarly`] when the turn comes after the longest hold. No turn is used up then.
    pub async fn turn(
        &self,
        ask: Ask<'_>,
        client: &ClientKey,
        address: Option<IpAddr>,
    ) -> Result<(Turn, Option<EffectivePace>), TooEarly> {
        self.turn_telling(ask, client, address, &mut None).await
    }

    /// Like [`turn`](Pace::turn), but sets `waits_for` to the bound as soon as the request waits.
    ///
    /// # Errors
    /// As for [`turn`](Pace::turn).
    pub async fn turn_telling(
        &self,
        ask: Ask<'_>,
        client: &ClientKey,
        address: Option<IpAddr>,
        waits_for: &mut Option<EffectivePace>,
    ) -> Result<(Turn, Option<EffectivePace>), TooEarly> {
        let turn = self.0.turn(ask, client, address, waits_for).await;
        if turn.is_err() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        turn
    }

    /// Waits for the turn of a robots.txt fetch, which goes before all held requests and waits at most the longest
    /// hold; at `address`, the hold begins once the fetch is the first there.
    pub async fn turn_for_robots(&self, origin: &Origin, address: Option<IpAddr>) -> Option<Turn> {
        if self.is_unlimited() {
            return None;
        }
        let limiter = self.0.origin(origin);
        let at_address = address.map(|key| self.0.addresses.limiter(&self.0, &key));
        self.0
            .turn_ahead(&limiter, at_address.as_ref(), Late::Goes)
            .await
    }

    /// Waits until a request with this turn may be sent again after its connection was lost. Returns false if the wait
    /// would be longer than the longest hold.
    pub async fn again(&self, turn: &Turn) -> bool {
        if self.is_unlimited() {
            return true;
        }
        let at_address = turn.at_address.as_ref().map(|turn| &turn.limiter);
        let again = self.0.turn_ahead(&turn.limiter, at_address, Late::GivesUp);
        // The request is already in flight: its second turn only counts.
        again.await.is_some() || self.is_unlimited()
    }

    /// Counts a request for a robots.txt that waits for no turn, such as a redirect hop. However many there are, they
    /// delay other requests by one interval at most.
    pub fn count_robots(&self, origin: &Origin) {
        let settings = self.0.settings.load();
        if !settings.is_off {
            self.0.origin(origin).count_robots(&self.0, &settings, None);
        }
    }

    /// Counts the turn of a robots.txt fetch from now, when the fetch really starts.
    pub fn restart(&self, turn: &Turn) {
        let settings = self.0.settings.load();
        for turn in [Some(turn), turn.at_address.as_deref()]
            .into_iter()
            .flatten()
        {
            let before = Some(turn.number);
            turn.limiter.count_robots(&self.0, &settings, before);
        }
    }

    /// Records that an origin has answered with this status and `Retry-After`. `is_telling` is true if the
    /// answer's time depends on the origin alone: the request had no body.
    pub fn answered(
        &self,
        turn: &Turn,
        status: u16,
        retry_after: impl FnOnce() -> Option<Duration>,
        is_telling: bool,
    ) {
        let settings = self.0.settings.load();
        if !settings.config.backoff {
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
        let most = settings.config.backoff_max;
        turn.limiter.take_in(outcome, turn.at, now, most);
    }

    /// Records that an origin could not be reached, or did not answer in time.
    pub fn failed(&self, turn: &Turn) {
        let settings = self.0.settings.load();
        if settings.config.backoff {
            let now = self.0.clock.now();
            let most = settings.config.backoff_max;
            turn.limiter.take_in(Outcome::Failed, turn.at, now, most);
        }
    }

    /// Returns the present bound on requests to an origin, apart from its robots.txt. `None` if nothing bounds them, or
    /// the origin was not asked for a long time.
    pub fn of(&self, origin: &Origin) -> Option<EffectivePace> {
        let limiter = self.0.origins.limiters.get(origin);
        let limiter = limiter.map(|limiter| Arc::clone(&limiter))?;
        let pace = limiter.due(&self.0, &self.0.settings.load()).pace;
        (!pace.interval.is_zero()).then_some(pace)
    }

    /// Returns the part of a robots.txt's interval that is kept; `None` if intervals are only recorded.
    pub fn kept_of(&self, crawl_delay: &CrawlDelay) -> Option<EffectivePace> {
        let settings = self.0.settings.load();
        (settings.config.crawl_delay == CrawlDelayMode::Honour).then(|| settings.keep(crawl_delay))
    }

    /// Returns the pace of an origin without trouble under `config`, with the interval of its robots.txt. `None` if
    /// nothing bounds it.
    pub fn planned(config: &PaceConfig, crawl_delay: Option<&CrawlDelay>) -> Option<EffectivePace> {
        let settings = PaceSettings::of(config);
        let own = settings
            .rate
            .map(|rate| EffectivePace::plain(rate.interval(), Source::Own));
        let asked = crawl_delay.filter(|_| config.crawl_delay == CrawlDelayMode::Honour);
        let asked = asked.map(|crawl_delay| settings.keep(crawl_delay));
        // Of two equal ones, the operator's own.
        asked
            .into_iter()
            .chain(own)
            .max_by_key(|pace| pace.interval)
    }

    /// Returns the number of requests that are held now.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        Counts {
            held: self.held(),
            waited: self.0.waited.load(Ordering::Relaxed),
            refused: self.0.refused.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    fn origin(&self, origin: &Origin) -> Arc<OriginLimiter> {
        self.origins.limiter(self, origin)
    }

    async fn turn(
        self: &Arc<Self>,
        ask: Ask<'_>,
        client: &ClientKey,
        address: Option<IpAddr>,
        waits_for: &mut Option<EffectivePace>,
    ) -> Result<(Turn, Option<EffectivePace>), TooEarly> {
        let settings = self.settings.load_full();
        let patience = settings.config.max_hold;
        let limiter = self.origin(ask.origin);
        let claim = Claim {
            client,
            crawl_delay: ask.crawl_delay,
            address: address.filter(|_| settings.is_per_address()),
            patience: Some(patience),
        };
        let (number, granted, expected) = match limiter.enter(self, &settings, claim) {
            Entry::Gone(turn) => return Ok((turn, None)),
            Entry::Refused(due) => return Err(self.too_early(due)),
            Entry::Waits(number, granted, expected) => (number, granted, expected),
        };
        *waits_for = Some(expected.pace);
        drop(settings);
        let place = Place::new(self, &limiter, client, number);
        let granted = timeout(patience.saturating_add(GRACE), granted).await;
        drop(place);
        let turn = match granted {
            Ok(Ok(granted)) => granted.take(),
            // The hold was too long, or the runtime is stopping.
            Ok(Err(_)) | Err(_) => None,
        };
        match turn {
            Some(turn) => {
                self.waited.fetch_add(1, Ordering::Relaxed);
                Ok((turn, Some(expected.pace)))
            }
            None => {
                let settings = self.settings.load();
                let at_address = claim.address.map(|key| self.addresses.limiter(self, &key));
                let limiters = [Some(limiter), at_address].into_iter().flatten();
                let at = limiters
                    .map(|limiter| limiter.due(self, &settings).at)
                    .max();
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

    /// Waits for a turn before all held requests in `limiter` and, where origins at one address share limits, in
    /// `at_address`. `None` if a request that gives up late waited too long, or nothing is bounded any more.
    async fn turn_ahead(
        &self,
        limiter: &Arc<OriginLimiter>,
        at_address: Option<&Arc<OriginLimiter>>,
        late: Late,
    ) -> Option<Turn> {
        let row = at_address.unwrap_or(limiter);
        let started = Instant::now();
        let patience = self.settings.load().config.max_hold;
        // An address may have any number of fetches: each time-out starts when its fetch is the first.
        let (_first, started) = match (at_address, late) {
            (Some(_), Late::Goes) => (Some(row.ahead.lock().await), Instant::now()),
            (_, Late::GivesUp) => (
                Some(timeout(patience, row.ahead.lock()).await.ok()?),
                started,
            ),
            (None, Late::Goes) => (None, started),
        };
        loop {
            let settings = self.settings.load_full();
            if settings.is_off {
                return None;
            }
            let left = settings.config.max_hold.saturating_sub(started.elapsed());
            let goes = left.is_zero() && late == Late::Goes;
            let at_address = at_address.filter(|_| settings.is_per_address());
            let taken = match at_address {
                None => limiter.take_for_robots(self, &settings, goes),
                Some(at_address) => match limiter.wait_for_robots(self, &settings) {
                    Some(wait) if !goes => Err(wait),
                    // Both turns at once: no other request gets ahead at this origin.
                    _ => at_address
                        .take_for_robots(self, &settings, goes)
                        .and_then(|first| {
                            let mut turn = limiter.take_for_robots(self, &settings, true)?;
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

    /// Waits for the turn of an address, without a time limit.
    async fn turn_at(self: &Arc<Self>, address: IpAddr, client: &ClientKey) -> Option<Turn> {
        let settings = self.settings.load_full();
        if !settings.is_per_address() {
            return None;
        }
        let limiter = self.addresses.limiter(self, &address);
        let claim = Claim {
            client,
            crawl_delay: None,
            address: None,
            patience: None,
        };
        match limiter.enter(self, &settings, claim) {
            Entry::Gone(turn) => Some(turn),
            Entry::Waits(_, granted, _) => granted.await.ok()?.take(),
            Entry::Refused(_) => None,
        }
    }
}

impl<K: Clone + Eq + std::hash::Hash> Limiters<K> {
    fn limiter(&self, shared: &Shared, key: &K) -> Arc<OriginLimiter> {
        if let Some(limiter) = self.limiters.get(key) {
            return Arc::clone(&limiter);
        }
        if self.limiters.len() >= KEPT {
            self.evict(shared);
        }
        Arc::clone(&self.limiters.entry(key.clone()).or_default())
    }

    /// Drops origins without relevant history; if those are few, also the origins asked least recently.
    fn evict(&self, shared: &Shared) {
        let Some(_evicting) = self.evicting.try_lock() else {
            return;
        };
        let settings = shared.settings.load();
        // Each turn and each held request holds a reference to its origin limiter.
        let is_used = |limiter: &Arc<OriginLimiter>| Arc::strong_count(limiter) > 1;
        self.limiters
            .retain(|_, limiter| is_used(limiter) || limiter.last(shared, &settings).is_some());
        let least = KEPT - KEPT / SHARE;
        let Some(surplus) = self.limiters.len().checked_sub(least).filter(|n| *n > 0) else {
            return;
        };
        let mut by_age: Vec<(Moment, K)> = self
            .limiters
            .iter()
            .map(|limiter| {
                (
                    limiter.last(shared, &settings).unwrap_or_default(),
                    limiter.key().clone(),
                )
            })
            .collect();
        by_age.sort_unstable_by_key(|(last, _)| *last);
        for (_, key) in by_age.into_iter().take(surplus) {
            self.limiters
                .remove_if(&key, |_, limiter| !is_used(limiter));
        }
    }
}

impl<K: Eq + std::hash::Hash> Default for Limiters<K> {
    fn default() -> Limiters<K> {
        Limiters {
            limiters: DashMap::default(),
            evicting: Mutex::default(),
        }
    }
}

/// An entry in the queue, removed on drop.
struct Place<'a> {
    shared: &'a Shared,
    limiter: &'a OriginLimiter,
    client: &'a ClientKey,
    number: u64,
}

impl<'a> Place<'a> {
    fn new(
        shared: &'a Shared,
        limiter: &'a OriginLimiter,
        client: &'a ClientKey,
        number: u64,
    ) -> Place<'a> {
        shared.held.fetch_add(1, Ordering::Relaxed);
        Place {
            shared,
            limiter,
            client,
            number,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.limiter.leave(self.client, self.number);
        self.shared.held.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turn {
    fn new(limiter: &Arc<OriginLimiter>, at: Moment, number: u64) -> Turn {
        Turn {
            limiter: Arc::clone(limiter),
            at_address: None,
            at,
            number,
        }
    }

    /// Gives back an unused turn: the next request need not wait for it, unless another one has gone since.
    pub fn give_back(mut self) {
        self.limiter.undo(self.number);
        if let Some(turn) = self.at_address.take() {
            turn.give_back();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.limiter.end();
    }
}

impl EffectivePace {
    const fn plain(interval: Duration, source: Source) -> EffectivePace {
        EffectivePace {
            interval,
            source,
            clamped: false,
        }
    }
}

impl Source {
    /// Returns the source's name in records.
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
            .field("origins", &self.0.origins.limiters.len())
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
