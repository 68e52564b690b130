//! Time that a crawler may keep a body waiting, its own or the one sent to it.
//!
//! A crawler has a span of waiting, and each octet that passes adds to it, up to the same span. So a crawler that has
//! stopped is cut after that span, one that moves an octet now and then is cut a little later, and one that keeps to
//! the rate never is. Only waiting for the crawler counts: a slow origin costs it nothing.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crawlgate_config::Limits;

/// Limit on a crawler's waiting.
#[derive(Debug, Clone, Copy)]
pub struct StallLimit {
    /// Longest wait without an octet.
    pub span: Duration,
    /// Octets that add a second; 0: any octet restores the whole span.
    pub rate: u32,
}

impl StallLimit {
    /// Returns the configured limit.
    pub fn of(limits: &Limits) -> StallLimit {
        StallLimit { span: limits.body_timeout, rate: limits.body_rate }
    }

    fn time_for(self, octets: u64) -> Duration {
        match u64::from(self.rate) {
            _ if octets == 0 => Duration::ZERO,
            0 => self.span,
            rate => Duration::from_micros(octets.saturating_mul(1_000_000) / rate),
        }
    }
}

/// Stall timer of one direction of one connection.
#[derive(Debug)]
pub struct StallTimer {
    limit: StallLimit,
    /// Waiting time left.
    left: Duration,
    /// Start of the current wait, if any.
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl StallTimer {
    /// Starts a timer that has not waited yet.
    pub fn new(limit: StallLimit) -> StallTimer {
        StallTimer { limit, left: limit.span, since: None, timer: None }
    }

    /// Ends the current wait: `octets` have passed.
    pub fn moved(&mut self, octets: u64) {
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
        let left = self.left.saturating_add(self.limit.time_for(octets));
        self.left = left.min(self.limit.span);
    }

    /// Waits for the crawler; ready when that took too long.
    pub fn poll_too_long(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let end = *self.since.get_or_insert_with(Instant::now) + self.left;
        // The end never comes nearer: a timer that was set before fires early, and is set again.
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= end {
                return Poll::Ready(());
            }
            timer.as_mut().reset(end);
        }
    }
}

/// A timer that serves several times: setting it again costs less than creating another one.
#[derive(Debug)]
pub struct Timer(Pin<Box<Sleep>>);

impl Timer {
    /// Creates a timer that fires after this time.
    pub fn new(after: Duration) -> Timer {
        Timer(Box::pin(sleep(after)))
    }

    /// Sets the timer again, from now.
    pub fn restart(&mut self, after: Duration) {
        self.0.set(sleep(after));
    }

    /// Waits until it fires.
    pub async fn fire(&mut self) {
        self.0.as_mut().await;
    }

    /// Polls whether the timer has fired.
    pub fn poll_fire(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{advance, timeout};

    use super::*;

    const SPAN: Duration = Duration::from_secs(10);

    /// Returns how long a crawler lasts that, again and again, waits for `pause` and then lets `octets` pass.
    async fn lasts(rate: u32, pause: Duration, octets: u64) -> Option<Duration> {
        let mut waiting = StallTimer::new(StallLimit { span: SPAN, rate });
        let start = Instant::now();
        for _ in 0..1000 {
            let cut = poll_fn(|cx| waiting.poll_too_long(cx));
            if timeout(pause, cut).await.is_ok() {
                return Some(start.elapsed());
            }
            waiting.moved(octets);
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_crawler_that_keeps_to_the_rate_lasts_and_others_are_cut() {
        let s = Duration::from_secs;
        for (name, rate, pause, octets, from, to) in [
            ("nothing at all", 100, s(3600), 0, s(10), s(11)),
            ("an octet now and then", 100, s(4), 1, s(10), s(11)),
            ("half of the rate", 100, s(2), 100, s(18), s(22)),
            ("nothing, with no rate", 0, s(3600), 0, s(10), s(11)),
        ] {
            let lasted = lasts(rate, pause, octets).await.expect(name);
            assert!((from..to).contains(&lasted), "{name}: {lasted:?}");
        }
        for (name, rate, pause, octets) in [
            ("exactly the rate", 100, s(2), 200),
            ("bursts with pauses shorter than the span", 100, s(9), 5000),
            ("an octet now and then, with no rate", 0, s(9), 1),
        ] {
            assert_eq!(lasts(rate, pause, octets).await, None, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_spent_on_the_origin_costs_the_crawler_nothing() {
        let mut waiting = StallTimer::new(StallLimit { span: SPAN, rate: 100 });
        for _ in 0..100 {
            let cut = poll_fn(|cx| waiting.poll_too_long(cx));
            assert!(timeout(Duration::from_millis(1), cut).await.is_err());
            waiting.moved(1);
            // The origin thinks.
            advance(Duration::from_secs(60)).await;
        }
    }
}
