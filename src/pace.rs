//! Politeness: how often one origin is asked, whoever asks.
//!
//! One limiter per origin (governor's cell-rate algorithm on our clock). A request beyond the pace is held
//! for its turn; one whose turn comes later than the longest hold is told when to come again.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use dashmap::DashMap;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crate::clock::{Clock, Moment};
use crate::config::PaceConfig;
use crate::rep::Origin;

/// Limiters kept; past it, those that have no effect any more are dropped.
const KEPT: usize = 100_000;

type Limiter = RateLimiter<NotKeyed, InMemoryState, Ticks, NoOpMiddleware<Nanos>>;

/// The pace of all origins.
pub struct Pace {
    settings: ArcSwap<Settings>,
    limiters: DashMap<Origin, Arc<Limiter>, ahash::RandomState>,
    clock: Clock,
}

struct Settings {
    quota: Option<Quota>,
    max_hold: Duration,
}

/// A request came too early and may come again at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooEarly(pub Moment);

impl Pace {
    /// With the configured pace, on `clock`.
    pub fn new(config: &PaceConfig, clock: Clock) -> Pace {
        Pace {
            settings: ArcSwap::from_pointee(Settings::of(config)),
            limiters: DashMap::default(),
            clock,
        }
    }

    /// Puts a new pace in force. Turns given under the old one stand.
    pub fn reconfigure(&self, config: &PaceConfig) {
        self.settings.store(Arc::new(Settings::of(config)));
        self.limiters.clear();
    }

    /// Whether every request has its turn at once.
    pub fn is_unlimited(&self) -> bool {
        self.settings.load().quota.is_none()
    }

    /// Waits for the turn of a request to `origin`; tells how long that took.
    ///
    /// # Errors
    /// [`TooEarly`] when the turn would come after the longest hold. No turn is used up then.
    pub async fn turn(&self, origin: &Origin) -> Result<Duration, TooEarly> {
        let settings = self.settings.load_full();
        let Some(quota) = settings.quota else {
            return Ok(Duration::ZERO);
        };
        let limiter = self.limiter(origin, quota);
        let start = self.clock.now();
        loop {
            let Err(early) = limiter.check() else {
                return Ok(self.clock.now().since(start));
            };
            let now = self.clock.now();
            // Ticks are milliseconds: never come back within the one that was refused.
            let wait = early
                .wait_time_from(Ticks::at(now))
                .max(Duration::from_millis(1));
            if now.since(start) + wait > settings.max_hold {
                return Err(TooEarly(now + wait));
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn limiter(&self, origin: &Origin, quota: Quota) -> Arc<Limiter> {
        if let Some(limiter) = self.limiters.get(origin) {
            return Arc::clone(&limiter);
        }
        if self.limiters.len() >= KEPT {
            // A limiter that lets a whole burst through has nothing to remember.
            let burst = quota.burst_size();
            self.limiters.retain(|_, limiter| {
                Arc::strong_count(limiter) > 1 || limiter.check_n(burst).is_err()
            });
        }
        let fresh = || {
            Arc::new(RateLimiter::direct_with_clock(
                quota,
                Ticks(self.clock.clone()),
            ))
        };
        Arc::clone(&self.limiters.entry(origin.clone()).or_insert_with(fresh))
    }
}

impl Settings {
    fn of(config: &PaceConfig) -> Settings {
        let quota = config.requests_per_second.and_then(|rate| {
            let interval = Duration::try_from_secs_f64(1.0 / rate).ok()?;
            let burst = NonZeroU32::new(config.burst.max(1))?;
            Some(Quota::with_period(interval)?.allow_burst(burst))
        });
        Settings {
            quota,
            max_hold: config.max_hold,
        }
    }
}

/// Our clock in governor's terms.
#[derive(Debug, Clone)]
struct Ticks(Clock);

impl Ticks {
    fn at(moment: Moment) -> Nanos {
        Nanos::from(Duration::from_millis(moment.as_millis()))
    }
}

impl governor::clock::Clock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Ticks::at(self.0.now())
    }
}

impl std::fmt::Debug for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pace")
            .field("origins", &self.limiters.len())
            .finish_non_exhaustive()
    }
}
