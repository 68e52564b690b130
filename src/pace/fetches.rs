//! Limits the fetches of robots.txt over all origins: their number at the same time, and their starts per second.
//!
//! A crawl that meets ten thousand new hosts at once would fetch as many files at once; name servers and the network
//! are shared with others.

use std::future::Future;
use std::time::Duration;

use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Turn;
use crate::clock::{Clock, Moment};
use crate::config::RobotsConfig;

type Limiter = RateLimiter<NotKeyed, InMemoryState, Ticks, NoOpMiddleware<Nanos>>;

/// The bound on fetches.
pub struct Fetches {
    slots: Semaphore,
    rate: Option<(Quota, Mutex<Limiter>)>,
    clock: Clock,
}

/// The slot of a fetch in progress, and its turn at its origin.
#[derive(Debug)]
pub struct FetchSlot<'a> {
    fetches: &'a Fetches,
    turn: Option<Turn>,
    slot: Option<SemaphorePermit<'a>>,
}

impl FetchSlot<'_> {
    /// Returns its turn, if it has one.
    pub fn turn(&self) -> Option<&Turn> {
        self.turn.as_ref()
    }

    /// Waits for a future that other fetches may have to serve. The slot and the turn are free for them meanwhile.
    pub async fn outside<T>(&mut self, waited_for: impl Future<Output = T>) -> T {
        self.turn = None;
        self.slot = None;
        let result = waited_for.await;
        self.slot = self.fetches.slots.acquire().await.ok();
        result
    }
}

impl Fetches {
    /// Builds the limit as configured, on `clock`.
    pub fn new(config: &RobotsConfig, clock: Clock) -> Fetches {
        let interval = config
            .fetches_per_second
            .and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        let quota = interval.and_then(Quota::with_period);
        Fetches {
            slots: Semaphore::new(config.max_fetches.clamp(1, Semaphore::MAX_PERMITS)),
            rate: quota.map(|quota| (quota, Mutex::new(limiter(quota, &clock)))),
            clock,
        }
    }

    /// Waits until a fetch with this `turn` may begin. The fetch counts as in progress until the result is dropped.
    pub async fn begin(&self, turn: Option<Turn>) -> FetchSlot<'_> {
        // The semaphore is never closed.
        let slot = self.slots.acquire().await.ok();
        while let Some(wait) = self.wait() {
            tokio::time::sleep(wait).await;
        }
        FetchSlot {
            fetches: self,
            turn,
            slot,
        }
    }

    /// Takes a turn, or returns the time to wait before the next try.
    fn wait(&self) -> Option<Duration> {
        let (quota, rate) = self.rate.as_ref()?;
        let mut rate = rate.lock();
        let early = rate.check().err()?;
        let wait = early.wait_time_from(Ticks::at(self.clock.now()));
        if wait > quota.replenish_interval().saturating_mul(2) {
            // No turn is that far away: the clock was set back, and the limiter remembers a future time.
            *rate = limiter(*quota, &self.clock);
        }
        // Ticks are milliseconds: never retry within the tick that was refused.
        let most = quota.replenish_interval();
        Some(wait.min(most).max(Duration::from_millis(1)))
    }
}

fn limiter(quota: Quota, clock: &Clock) -> Limiter {
    RateLimiter::direct_with_clock(quota, Ticks(clock.clone()))
}

/// Our clock for governor.
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

impl std::fmt::Debug for Fetches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetches")
            .field("free", &self.slots.available_permits())
            .finish_non_exhaustive()
    }
}
