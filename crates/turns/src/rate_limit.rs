//! A limit on how often something may happen that only takes turns, and gives none back: governor's limiter, on the clock
//! that is never set.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};

use crawlgate_system::clock::{Clock, Uptime};

/// A limit on one thing.
#[derive(Debug)]
pub struct RateLimit {
    limiter: RateLimiter<NotKeyed, InMemoryState, MonotonicClock, NoOpMiddleware<Nanos>>,
    clock: MonotonicClock,
}

/// The clock that is never set, for governor.
#[derive(Debug, Clone)]
pub struct MonotonicClock(pub Clock);

impl RateLimit {
    /// Permits one in each `interval`, and `burst` at once, at least one. An interval of zero is one nanosecond.
    #[must_use]
    pub fn new(interval: Duration, burst: u32, clock: Clock) -> RateLimit {
        let clock = MonotonicClock(clock);
        let burst = NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(interval.max(Duration::from_nanos(1)));
        let quota = quota.unwrap_or(Quota::per_second(NonZeroU32::MIN));
        RateLimit {
            limiter: RateLimiter::direct_with_clock(quota.allow_burst(burst), clock.clone()),
            clock,
        }
    }

    /// Takes one turn.
    ///
    /// # Errors
    /// The time until the next one, if it is too early. None is taken then.
    pub fn take(&self) -> Result<(), Duration> {
        let taken = self.limiter.check();
        taken.map_err(|early| early.wait_time_from(self.clock.now()))
    }

    /// Takes this many turns. Returns false if they are too many now; none is taken then.
    #[must_use]
    pub fn take_all(&self, turns: u32) -> bool {
        let turns = NonZeroU32::new(turns);
        turns.is_none_or(|turns| matches!(self.limiter.check_n(turns), Ok(Ok(()))))
    }
}

impl governor::clock::Clock for MonotonicClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.uptime().since(Uptime::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_system::clock::Moment;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_burst_goes_at_once_and_then_one_for_each_interval() {
        let clock = Clock::manual(Moment::from_millis(1_795_176_000_000));
        let limit = RateLimit::new(MINUTE / 3, 3, clock.clone());
        let taken = || (0..9).filter(|_| limit.take().is_ok()).count();
        assert_eq!(taken(), 3);
        assert_eq!(limit.take(), Err(MINUTE / 3));
        clock.advance(MINUTE);
        assert_eq!(taken(), 3, "a minute later");
        clock.advance(MINUTE / 3);
        assert_eq!(taken(), 1);
        // A clock that is set back neither gives turns nor takes any.
        clock.set(Moment::default());
        assert_eq!(limit.take(), Err(MINUTE / 3));
        clock.advance(MINUTE / 3);
        assert_eq!(taken(), 1);
    }

    #[test]
    fn several_turns_are_taken_together_or_not_at_all() {
        let clock = Clock::manual(Moment::default());
        let limit = RateLimit::new(MINUTE / 5, 5, clock.clone());
        assert!(limit.take_all(0) && limit.take_all(4) && limit.take_all(1));
        assert!(!limit.take_all(1));
        clock.advance(MINUTE / 5);
        assert!(!limit.take_all(2) && limit.take_all(1) && !limit.take_all(1));
        clock.advance(MINUTE);
        assert!(!limit.take_all(6), "more than go at once");
    }
}
