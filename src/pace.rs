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
    regime: ArcSwap<Regime>,
    clock: Clock,
}

/// One pace, and the limiters that go by it: they are replaced together.
struct Regime {
    config: PaceConfig,
    quota: Option<Quota>,
    limiters: DashMap<Origin, Arc<Limiter>, ahash::RandomState>,
}

/// A request came too early and may come again at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooEarly(pub Moment);

impl Pace {
    /// With the configured pace, on `clock`.
    pub fn new(config: &PaceConfig, clock: Clock) -> Pace {
        Pace {
            regime: ArcSwap::from_pointee(Regime::of(config)),
            clock,
        }
    }

    /// Puts a new pace in force. Turns given under the old one are forgotten, unless the new one is the
    /// same: reading a configuration again must not let a burst through.
    pub fn reconfigure(&self, config: &PaceConfig) {
        if self.regime.load().config != *config {
            self.regime.store(Arc::new(Regime::of(config)));
        }
    }

    /// Whether every request has its turn at once.
    pub fn is_unlimited(&self) -> bool {
        self.regime.load().quota.is_none()
    }

    /// Waits for the turn of a request to `origin`; tells how long that took.
    ///
    /// # Errors
    /// [`TooEarly`] when the turn would come after the longest hold. No turn is used up then.
    pub async fn turn(&self, origin: &Origin) -> Result<Duration, TooEarly> {
        let regime = self.regime.load_full();
        let Some(quota) = regime.quota else {
            return Ok(Duration::ZERO);
        };
        let mut limiter = regime.limiter(origin, quota, &self.clock);
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
            if wait > quota.replenish_interval().saturating_mul(2) {
                // No turn is that far away: the clock was set back, and the limiter remembers a time
                // that is yet to come.
                regime.forget(origin, &limiter);
                limiter = regime.limiter(origin, quota, &self.clock);
                continue;
            }
            if now.since(start) + wait > regime.config.max_hold {
                return Err(TooEarly(now + wait));
            }
            tokio::time::sleep(wait).await;
        }
    }
}

impl Regime {
    fn of(config: &PaceConfig) -> Regime {
        let quota = config.requests_per_second.and_then(|rate| {
            let interval = Duration::try_from_secs_f64(1.0 / rate).ok()?;
            let burst = NonZeroU32::new(config.burst.max(1))?;
            Some(Quota::with_period(interval)?.allow_burst(burst))
        });
        Regime {
            config: config.clone(),
            quota,
            limiters: DashMap::default(),
        }
    }

    fn limiter(&self, origin: &Origin, quota: Quota, clock: &Clock) -> Arc<Limiter> {
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
            let ticks = Ticks(clock.clone());
            Arc::new(RateLimiter::direct_with_clock(quota, ticks))
        };
        Arc::clone(&self.limiters.entry(origin.clone()).or_insert_with(fresh))
    }

    fn forget(&self, origin: &Origin, limiter: &Arc<Limiter>) {
        self.limiters
            .remove_if(origin, |_, known| Arc::ptr_eq(known, limiter));
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
            .field("origins", &self.regime.load().limiters.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Moment = Moment::from_millis(1_790_000_000_000);

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn config(requests_per_second: f64, burst: u32, max_hold: Duration) -> PaceConfig {
        PaceConfig {
            requests_per_second: Some(requests_per_second),
            burst,
            max_hold,
        }
    }

    /// A pace whose requests are never held: each has its turn now or is too early.
    fn impatient(requests_per_second: f64, burst: u32) -> (Pace, Clock) {
        let clock = Clock::manual(START);
        let config = config(requests_per_second, burst, Duration::ZERO);
        (Pace::new(&config, clock.clone()), clock)
    }

    fn origin(name: &str) -> Origin {
        let (origin, _) = Origin::parse(&format!("http://{name}.example/")).expect("a URL");
        origin
    }

    /// When the turn comes, counted from the start; none where it is now.
    async fn early(pace: &Pace, origin: &Origin) -> Option<Duration> {
        match pace.turn(origin).await {
            Ok(hold) => {
                assert_eq!(hold, Duration::ZERO);
                None
            }
            Err(TooEarly(at)) => Some(at.since(START)),
        }
    }

    #[tokio::test]
    async fn turns_keep_the_gap_and_one_that_is_too_early_uses_none() {
        let (pace, clock) = impatient(2.0, 1);
        let a = origin("a");
        for (at, expected) in [
            (0, None),
            (0, Some(500)),
            (1, Some(500)),
            (499, Some(500)),
            (500, None),
            (500, Some(1000)),
            (10_000, None),
            (10_000, Some(10_500)),
        ] {
            clock.set(START + ms(at));
            assert_eq!(early(&pace, &a).await, expected.map(ms), "at {at} ms");
        }
    }

    #[tokio::test]
    async fn a_burst_has_its_turns_at_once_and_is_saved_up_again() {
        let (pace, clock) = impatient(1.0, 3);
        let a = origin("a");
        for (at, turns) in [(0, 3), (1_000, 1), (3_000, 2), (60_000, 3)] {
            clock.set(START + ms(at));
            for turn in 0..turns {
                assert_eq!(early(&pace, &a).await, None, "turn {turn} at {at} ms");
            }
            assert_eq!(early(&pace, &a).await, Some(ms(at + 1_000)), "at {at} ms");
        }
    }

    #[tokio::test]
    async fn each_origin_has_a_pace_of_its_own() {
        let (pace, _clock) = impatient(1.0, 1);
        let (a, b) = (origin("a"), origin("b"));
        assert_eq!(early(&pace, &a).await, None);
        assert_eq!(early(&pace, &b).await, None);
        assert_eq!(early(&pace, &a).await, Some(ms(1_000)));
    }

    #[tokio::test]
    async fn a_request_is_held_until_its_turn() {
        let clock = Clock::manual(START);
        let pace = Pace::new(&config(100.0, 1, ms(10)), clock.clone());
        let a = origin("a");
        assert_eq!(pace.turn(&a).await, Ok(Duration::ZERO));
        // The wait ends by real time, the turn comes by the clock.
        let mut held = Box::pin(pace.turn(&a));
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(held.as_mut().poll(cx)));
        assert!(first.await.is_pending());
        clock.advance(ms(10));
        assert_eq!(held.await, Ok(ms(10)));
    }

    #[tokio::test]
    async fn a_longest_hold_that_just_suffices_does() {
        for (max_hold, is_early) in [(ms(9), true), (ms(10), false)] {
            let clock = Clock::manual(START);
            let pace = Pace::new(&config(100.0, 1, max_hold), clock.clone());
            let a = origin("a");
            assert_eq!(pace.turn(&a).await, Ok(Duration::ZERO));
            let mut second = Box::pin(pace.turn(&a));
            let found = std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx)));
            assert_eq!(found.await.is_ready(), is_early, "{max_hold:?}");
        }
    }

    #[tokio::test]
    async fn without_a_pace_every_turn_is_now() {
        let unlimited = PaceConfig {
            requests_per_second: None,
            burst: 1,
            max_hold: Duration::ZERO,
        };
        let pace = Pace::new(&unlimited, Clock::manual(START));
        assert!(pace.is_unlimited());
        for _ in 0..100 {
            assert_eq!(early(&pace, &origin("a")).await, None);
        }
        pace.reconfigure(&config(1.0, 1, Duration::ZERO));
        assert!(!pace.is_unlimited());
        assert_eq!(early(&pace, &origin("a")).await, None);
        assert_eq!(early(&pace, &origin("a")).await, Some(ms(1_000)));
    }

    #[tokio::test]
    async fn turns_are_forgotten_only_when_the_pace_changes() {
        for (name, next, expected) in [
            ("the same pace", config(1.0, 1, Duration::ZERO), Some(1_000)),
            ("another rate", config(2.0, 1, Duration::ZERO), None),
            ("another burst", config(1.0, 2, Duration::ZERO), None),
        ] {
            let (pace, _clock) = impatient(1.0, 1);
            let a = origin("a");
            assert_eq!(early(&pace, &a).await, None, "{name}");
            pace.reconfigure(&next);
            assert_eq!(early(&pace, &a).await, expected.map(ms), "{name}");
        }
    }

    #[tokio::test]
    async fn a_clock_that_is_set_back_stops_nobody_for_long() {
        let (pace, clock) = impatient(1.0, 1);
        let a = origin("a");
        assert_eq!(early(&pace, &a).await, None);
        clock.set(START - Duration::from_secs(3_600));
        assert_eq!(early(&pace, &a).await, None);
        assert_eq!(pace.turn(&a).await, Err(TooEarly(clock.now() + ms(1_000))));
    }

    proptest! {
        #[test]
        fn no_origin_is_asked_more_often_than_promised(
            gaps in prop::collection::vec(0..700_u64, 1..200),
            burst in 1..5_u32,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            let (pace, clock) = impatient(4.0, burst);
            let a = origin("a");
            let mut turns = Vec::new();
            for gap in gaps {
                clock.advance(ms(gap));
                if runtime.block_on(early(&pace, &a)).is_none() {
                    turns.push(clock.now());
                }
            }
            for (first, start) in turns.iter().enumerate() {
                for (count, end) in turns[first..].iter().enumerate() {
                    let earned = end.since(*start).as_millis() / 250 + u128::from(burst);
                    prop_assert!(count < earned as usize, "{count} turns after one in {earned}");
                }
            }
        }
    }
}
