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
//! requests count by the new pace. At most `limiters::KEPT` origins are kept; beyond that, origins without relevant history are
//! dropped first, then those asked least recently.
//!
//! The next turn follows from the origin's history, by one law (`history`): a gate without a fleet keeps it itself, and
//! grants turns by it at once. In a fleet, the instances share the pace of each origin: the engine keeps the history,
//! turns are reserved there (`limiter`), and this instance's own past delays nothing. An origin that nothing bounds is
//! asked about once.
//!
//! governor's limiter does not fit: checking it already takes a turn, and a request here needs several turns at once or
//! none. The limit on all fetches of robots.txt (`fetches`) only takes turns, so it uses governor
//! ([`RateLimit`](crate::rate_limit::RateLimit)).
//!
//! [`crawl_delay`]: crawlgate_origins::crawl_delay

mod backoff;
mod bound;
mod context;
mod fetches;
mod fleet;
mod grants;
mod limiter;
mod limiters;
mod queue;
mod settings;
mod shared;
mod slots;
mod turn;
mod wait;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;

pub use self::bound::{EffectivePace, Source, TooEarly};
use self::context::{Context, FleetPace};
pub use self::fetches::{FetchSlot, Fetches, WaitingFetch};
use self::limiters::Limiters;
use self::settings::PaceSettings;
pub use self::shared::SharedPace;
pub use self::turn::Turn;
use crate::fleet::Fleet;
use crawlgate_config::{CrawlDelayMode, PaceConfig};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Clock;

/// The pace of all origins. Clones share it.
#[derive(Clone)]
pub struct Pace(Arc<Shared>);

struct Shared {
    context: Arc<Context>,
    origins: Limiters<Origin>,
    addresses: Limiters<IpAddr>,
    waited: AtomicU64,
    refused: AtomicU64,
}

/// A request for a turn.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The origin that it goes to.
    pub origin: &'a Origin,
    /// The interval that the origin's robots.txt asks this crawler to keep, if it is to be honoured.
    pub crawl_delay: Option<&'a Arc<CrawlDelay>>,
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
        Pace::in_fleet(config, None, clock)
    }

    /// Builds the limiter of an instance that shares its turns with a fleet, if there is one.
    pub fn in_fleet(config: &PaceConfig, fleet: Option<&Arc<Fleet>>, clock: Clock) -> Pace {
        Pace(Arc::new(Shared {
            context: Arc::new(Context {
                settings: ArcSwap::from_pointee(PaceSettings::of(config)),
                clock,
                fleet: fleet.map(FleetPace::new),
                held: AtomicUsize::new(0),
            }),
            origins: Limiters::default(),
            addresses: Limiters::default(),
            waited: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Puts a new pace in force, also for held requests. Earlier requests count by the new pace, so a reload never
    /// permits a new burst.
    pub fn reconfigure(&self, config: &PaceConfig) {
        if self.0.context.settings.load().config == *config {
            return;
        }
        let settings = Arc::new(PaceSettings::of(config));
        self.0.context.settings.store(Arc::clone(&settings));
        for limiter in &self.0.origins.limiters {
            limiter.reconsider(&settings);
        }
        for limiter in &self.0.addresses.limiters {
            limiter.reconsider(&settings);
        }
    }

    /// Tells whether each request gets its turn at once and its outcome is not recorded.
    pub fn is_unlimited(&self) -> bool {
        self.0.context.settings.load().is_off
    }

    /// Tells whether the operator honours the intervals that a robots.txt asks for.
    pub fn honours_crawl_delay(&self) -> bool {
        self.0.context.settings.load().config.crawl_delay == CrawlDelayMode::Honour
    }

    /// Tells whether a turn needs the address of its origin, too.
    pub fn is_per_address(&self) -> bool {
        self.0.context.settings.load().is_per_address()
    }

    /// Returns the present bound on requests to an origin, apart from its robots.txt. `None` if nothing bounds them, or
    /// the origin was not asked for a long time.
    pub fn of(&self, origin: &Origin) -> Option<EffectivePace> {
        let limiter = self.0.origins.limiters.get(origin);
        let limiter = limiter.map(|limiter| Arc::clone(&limiter))?;
        let pace = limiter.due(&self.0.context, &self.0.context.settings.load()).pace;
        (!pace.interval.is_zero()).then_some(pace)
    }

    /// Returns the part of a robots.txt's interval that is kept; `None` if intervals are only recorded.
    pub fn kept_of(&self, crawl_delay: &CrawlDelay) -> Option<EffectivePace> {
        let settings = self.0.context.settings.load();
        (settings.config.crawl_delay == CrawlDelayMode::Honour)
            .then(|| settings.effective_pace(crawl_delay))
    }

    /// Returns the pace of an origin without trouble under `config`, with the interval of its robots.txt. `None` if
    /// nothing bounds it.
    pub fn planned(config: &PaceConfig, crawl_delay: Option<&CrawlDelay>) -> Option<EffectivePace> {
        PaceSettings::of(config).planned(crawl_delay)
    }

    /// Returns the number of requests that are held now.
    pub fn held(&self) -> usize {
        self.0.context.held.load(Ordering::Relaxed)
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
