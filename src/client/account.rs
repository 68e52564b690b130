//! A client's usage: its turns over all origins together, and the rest of its quota.
//!
//! Two bounds apply. A rate (`requests_per_second`, `burst`) spreads requests: a request that comes too early gets a
//! turn and is held for it, in the order of arrival; it is refused if its turn is further away than the longest hold. A
//! quota counts the requests of each span and refuses the rest of the span. Each answered request counts, also one that
//! is denied, refused or deferred for another reason: its record takes room. Such a request takes a turn, too, without
//! being held for it. A request gives its turn back if its client disconnects while it is held; the next request gets
//! that turn.
//!
//! Usage is counted in memory, for as long as the process lives: a reload changes bounds, not usage. Turns are counted
//! by the clock that is never set, so a change of the wall clock does not affect a rate. Spans are days and hours of
//! the wall clock.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;

use super::Client;
pub use super::shared::QuotaExceeded;
use super::shared::{Reserved, SharedUsage};
use crate::clock::{Moment, Uptime};
use crate::config::{Quota, Rate};
use crate::gcra::{self, Gcra};

/// One client's usage. It equals any other: usage is no part of a client's identity.
#[derive(Debug, Default)]
pub struct ClientAccount(Mutex<Counters>);

impl PartialEq for ClientAccount {
    fn eq(&self, _: &ClientAccount) -> bool {
        true
    }
}

#[derive(Debug, Default)]
struct Counters {
    /// The turns, in microseconds since the machine started.
    gcra: Gcra,
    /// Earlier turns that were given back, likewise.
    free: BTreeSet<u64>,
    /// The length of the quota's span at its last use; zero before the first use.
    per: Duration,
    /// The span that is counted, from the epoch.
    span: u64,
    requests: u64,
    bytes: u64,
}

/// One request's entry in the usage. Dropping it takes the entry back: the request was not sent.
#[derive(Debug)]
#[must_use = "dropping it takes the entry back"]
pub struct Reservation<'a> {
    account: &'a ClientAccount,
    hold: Duration,
    /// Its turn, and the delay of the next one after it, in microseconds.
    turn: Option<(u64, u64)>,
    span: u64,
    /// True once the entry cannot be taken back.
    has_gone: bool,
}

impl Reserved for Reservation<'_> {
    fn hold(&self) -> Duration {
        self.hold
    }

    fn commit(mut self) -> Duration {
        self.has_gone = true;
        self.hold
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.has_gone {
            self.account.0.lock().take_back(self);
        }
    }
}

impl SharedUsage for ClientAccount {
    type Reservation<'a> = Reservation<'a>;

    fn enter(
        &self,
        client: &Client,
        now: Moment,
        uptime: impl FnOnce() -> Uptime,
        max_hold: Duration,
    ) -> Result<Reservation<'_>, QuotaExceeded> {
        let mut had = self.0.lock();
        if let Some(quota) = &client.quota {
            had.has_left(quota, now)?;
        }
        let (hold, turn) = match &client.rate {
            Some(rate) => {
                let turn = had.take_turn(rate, uptime(), max_hold);
                let (hold, turn) = turn.map_err(|hold| QuotaExceeded(now + hold))?;
                (hold, Some((turn, in_micros(rate).interval)))
            }
            None => (Duration::ZERO, None),
        };
        had.requests = had.requests.saturating_add(1);
        Ok(Reservation {
            account: self,
            hold,
            turn,
            span: had.span,
            has_gone: false,
        })
    }

    fn has_left(&self, client: &Client, now: Moment) -> Result<(), QuotaExceeded> {
        match &client.quota {
            Some(quota) => self.0.lock().has_left(quota, now),
            None => Ok(()),
        }
    }

    fn add_bytes(&self, bytes: u64, now: Moment) {
        let mut had = self.0.lock();
        had.turn_page(now);
        had.bytes = had.bytes.saturating_add(bytes);
    }
}

impl Counters {
    fn has_left(&mut self, quota: &Quota, now: Moment) -> Result<(), QuotaExceeded> {
        self.settle_on(quota.per, now);
        let is_spent = quota.requests.is_some_and(|most| self.requests >= most)
            || quota.bytes.is_some_and(|most| self.bytes >= most);
        match is_spent {
            true => Err(QuotaExceeded(end_of_span(self.span, quota))),
            false => Ok(()),
        }
    }

    /// Resets the counters if a new span has begun.
    fn turn_page(&mut self, now: Moment) {
        if self.per.is_zero() {
            return;
        }
        let span = now.as_millis() / millis(self.per);
        if span != self.span {
            self.span = span;
            (self.requests, self.bytes) = (0, 0);
        }
    }

    /// Resets likewise, with spans of length `per` from now on. Usage in the present span stays, also if the span is
    /// cut short.
    fn settle_on(&mut self, per: Duration, now: Moment) {
        self.turn_page(now);
        if self.per != per {
            self.per = per;
            self.span = now.as_millis() / millis(per);
        }
    }

    fn take_back(&mut self, entered: &Reservation<'_>) {
        if entered.span == self.span {
            self.requests = self.requests.saturating_sub(1);
        }
        let Some((turn, interval)) = entered.turn else {
            return;
        };
        self.free.insert(turn);
        // Turns at the end, before any held request, count as never given.
        while let Some(last) = self.free.last().copied()
            && last.saturating_add(interval) == self.gcra.paid()
        {
            self.free.pop_last();
            self.gcra.give_back(interval);
        }
    }

    /// Takes the first turn that is free, and returns the wait and the turn; if the wait is too long, returns the wait
    /// alone.
    fn take_turn(
        &mut self,
        rate: &Rate,
        now: Uptime,
        max_hold: Duration,
    ) -> Result<(Duration, u64), Duration> {
        let rate = in_micros(rate);
        let max_hold = micros(max_hold);
        let time = now.as_micros();
        let furthest = time
            .saturating_add(max_hold)
            .saturating_add(rate.ahead())
            .saturating_add(rate.interval);
        if self.gcra.limit(furthest) {
            // No turn is given that far ahead, so the bounds have changed.
            self.free.clear();
        }
        // Turns that were given back expire when their time passes.
        self.free = self.free.split_off(&time.saturating_add(rate.ahead()));
        let freed = self.free.first().copied();
        let turn = freed.unwrap_or_else(|| self.gcra.paid().max(time));
        let hold = turn.saturating_sub(rate.ahead()).saturating_sub(time);
        if hold > max_hold {
            return Err(Duration::from_micros(hold));
        }
        if freed.is_some() {
            self.free.pop_first();
        } else {
            self.gcra.take(1, rate, time);
        }
        Ok((Duration::from_micros(hold), turn))
    }
}

/// Returns the rate in microseconds.
fn in_micros(rate: &Rate) -> gcra::Rate {
    gcra::Rate {
        interval: (1e6 / rate.requests_per_second).round().max(1.0) as u64,
        burst: rate.burst,
    }
}

fn end_of_span(span: u64, quota: &Quota) -> Moment {
    let end = span.saturating_add(1).saturating_mul(millis(quota.per));
    Moment::from_millis(end)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::clock::Clock;

    const DAY: Duration = Duration::from_secs(86_400);
    const MIDNIGHT: Moment = Moment::from_millis(20_000 * 86_400_000);

    fn with_quota(requests: Option<u64>, bytes: Option<u64>) -> Client {
        Client {
            quota: Some(Quota {
                requests,
                bytes,
                per: DAY,
            }),
            ..Client::default()
        }
    }

    fn with_rate(requests_per_second: f64, burst: u32) -> Client {
        Client {
            rate: Some(Rate {
                requests_per_second,
                burst,
            }),
            ..Client::default()
        }
    }

    /// Returns the uptime of a machine that started at the epoch; its clock was never set.
    fn uptime(now: Moment) -> impl FnOnce() -> Uptime {
        let clock = Clock::manual(Moment::default());
        clock.advance_to(now);
        move || clock.uptime()
    }

    fn enter(client: &Client, now: Moment, max_hold: Duration) -> Result<Duration, QuotaExceeded> {
        let entered = client.account.enter(client, now, uptime(now), max_hold);
        entered.map(Reservation::commit)
    }

    /// Asserts the promises of any implementation, with a burst of one and a quota of two.
    fn keeps_its_promises<U: SharedUsage>(usage: &U) {
        let second = Duration::from_secs(1);
        let client = Client {
            rate: with_rate(1.0, 1).rate,
            ..with_quota(Some(2), Some(100))
        };
        let enter = |now| usage.enter(&client, now, uptime(now), second);
        // An entry that is dropped was never made.
        for _ in 0..3 {
            let entered = enter(MIDNIGHT).expect("an entry");
            assert_eq!(entered.hold(), Duration::ZERO);
        }
        let first = enter(MIDNIGHT).expect("an entry");
        assert_eq!(first.commit(), Duration::ZERO);
        let held = enter(MIDNIGHT).expect("an entry");
        assert_eq!(held.commit(), second);
        assert_eq!(
            enter(MIDNIGHT).map(drop),
            Err(QuotaExceeded(MIDNIGHT + DAY))
        );
        let tomorrow = MIDNIGHT + DAY;
        assert_eq!(usage.has_left(&client, tomorrow), Ok(()));
        usage.add_bytes(100, tomorrow);
        let spent = Err(QuotaExceeded(tomorrow + DAY));
        assert_eq!(usage.has_left(&client, tomorrow), spent);
    }

    #[test]
    fn one_process_keeps_what_a_fleet_would_share() {
        keeps_its_promises(&ClientAccount::default());
    }

    #[test]
    fn a_quota_is_spent_until_its_span_ends() {
        let client = with_quota(Some(2), None);
        let noon = MIDNIGHT + DAY / 2;
        for _ in 0..2 {
            assert_eq!(enter(&client, noon, DAY), Ok(Duration::ZERO));
        }
        assert_eq!(
            enter(&client, noon, DAY),
            Err(QuotaExceeded(MIDNIGHT + DAY))
        );
        let last = MIDNIGHT + (DAY - Duration::from_millis(1));
        assert_eq!(
            enter(&client, last, DAY),
            Err(QuotaExceeded(MIDNIGHT + DAY))
        );
        assert_eq!(enter(&client, MIDNIGHT + DAY, DAY), Ok(Duration::ZERO));
    }

    #[test]
    fn octets_count_when_they_are_known() {
        let client = with_quota(None, Some(100));
        for (took, fits) in [(60, true), (60, true), (0, false)] {
            assert_eq!(enter(&client, MIDNIGHT, DAY).is_ok(), fits, "before {took}");
            client.account.add_bytes(took, MIDNIGHT);
        }
        assert!(enter(&client, MIDNIGHT + DAY, DAY).is_ok(), "the next day");
    }

    #[test]
    fn turns_are_an_interval_apart_and_a_burst_comes_at_once() {
        let ms = Duration::from_millis;
        let client = with_rate(10.0, 3);
        let holds: Vec<_> = (0..6).map(|_| enter(&client, MIDNIGHT, ms(200))).collect();
        let late = Err(QuotaExceeded(MIDNIGHT + ms(300)));
        let want = [
            Ok(ms(0)),
            Ok(ms(0)),
            Ok(ms(0)),
            Ok(ms(100)),
            Ok(ms(200)),
            late,
        ];
        assert_eq!(holds, want);
        // The refused request took no turn.
        let later = MIDNIGHT + ms(100);
        assert_eq!(enter(&client, later, ms(200)), Ok(ms(200)));
    }

    #[test]
    fn a_clock_that_is_set_changes_no_rate() {
        let second = Duration::from_secs(1);
        for set in [MIDNIGHT - 300 * second, MIDNIGHT - DAY, MIDNIGHT + DAY] {
            let client = with_rate(1.0, 1);
            let clock = Clock::manual(MIDNIGHT);
            let enter = || {
                let (now, hold) = (clock.now(), 5 * second);
                let entered = client.account.enter(&client, now, || clock.uptime(), hold);
                entered.map(Reservation::commit)
            };
            assert_eq!(enter(), Ok(Duration::ZERO));
            clock.set(set);
            assert_eq!(enter(), Ok(second), "one a second, and no more");
            for _ in 0..10 {
                clock.advance(second);
                assert_eq!(enter(), Ok(second), "as before");
            }
            clock.advance(10 * second);
            assert_eq!(enter(), Ok(Duration::ZERO), "nothing is left over");
        }
        // The reported moment is one of the wall clock.
        let (client, clock) = (with_rate(0.1, 1), Clock::manual(MIDNIGHT));
        let enter = |now| {
            client
                .account
                .enter(&client, now, || clock.uptime(), second)
        };
        assert!(enter(MIDNIGHT).map(Reservation::commit).is_ok());
        let spent = enter(MIDNIGHT - DAY).map(Reservation::commit);
        assert_eq!(spent, Err(QuotaExceeded(MIDNIGHT - DAY + 10 * second)));
    }

    #[test]
    fn a_client_that_disconnects_while_held_gives_its_turn_back() {
        let ms = Duration::from_millis;
        let client = with_rate(10.0, 1);
        let take = || {
            client
                .account
                .enter(&client, MIDNIGHT, uptime(MIDNIGHT), ms(300))
        };
        assert_eq!(enter(&client, MIDNIGHT, ms(300)), Ok(ms(0)));
        // Requests that come and leave keep the turn free for the one that stays.
        for _ in 0..100 {
            assert_eq!(take().map(|entered| entered.hold()), Ok(ms(100)));
        }
        // A turn between two others goes to the next request, and no two requests go at the same time.
        let (first, second, third) = (take(), take(), take());
        assert!(take().is_err(), "the next would be late");
        drop(second);
        assert_eq!(enter(&client, MIDNIGHT, ms(300)), Ok(ms(200)));
        assert!(take().is_err());
        // A turn given back after its time is lost.
        drop(first);
        let later = MIDNIGHT + ms(150);
        assert_eq!(enter(&client, later, ms(300)), Ok(ms(250)));
        assert_eq!(third.map(Reservation::commit), Ok(ms(300)));
    }

    #[test]
    fn a_client_that_disconnects_while_held_uses_up_no_quota() {
        let client = Client {
            rate: with_rate(1.0, 1).rate,
            ..with_quota(Some(2), None)
        };
        assert!(enter(&client, MIDNIGHT, DAY).is_ok());
        for _ in 0..5 {
            assert!(
                client
                    .account
                    .enter(&client, MIDNIGHT, uptime(MIDNIGHT), DAY)
                    .is_ok()
            );
        }
        assert!(enter(&client, MIDNIGHT, DAY).is_ok());
        assert!(enter(&client, MIDNIGHT, DAY).is_err(), "two have gone");
    }

    #[test]
    fn a_change_of_the_span_keeps_the_usage() {
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        let per = |per| Client {
            quota: Some(Quota {
                requests: Some(2),
                bytes: None,
                per,
            }),
            ..Client::default()
        };
        let before = per(hours(1));
        let mut after = per(hours(2));
        after.account = std::sync::Arc::clone(&before.account);
        assert!(enter(&before, MIDNIGHT, DAY).is_ok());
        assert!(enter(&after, MIDNIGHT, DAY).is_ok(), "one is left");
        assert!(enter(&after, MIDNIGHT, DAY).is_err(), "none is");
        // A span of the old quota ends.
        before.account.add_bytes(10, MIDNIGHT + hours(1));
        let late = MIDNIGHT + hours(1);
        assert_eq!(
            enter(&after, late, DAY),
            Err(QuotaExceeded(MIDNIGHT + hours(2)))
        );
        assert!(enter(&after, MIDNIGHT + hours(2), DAY).is_ok());
    }

    #[test]
    fn a_request_refused_by_the_rate_uses_up_no_quota() {
        let client = Client {
            rate: with_rate(1.0, 1).rate,
            ..with_quota(Some(2), None)
        };
        assert!(enter(&client, MIDNIGHT, Duration::ZERO).is_ok());
        for _ in 0..5 {
            assert!(enter(&client, MIDNIGHT, Duration::ZERO).is_err());
        }
        let later = MIDNIGHT + Duration::from_secs(1);
        assert!(enter(&client, later, Duration::ZERO).is_ok());
    }
}
