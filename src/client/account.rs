//! What a client has had: its turns over all origins together, and what its quota has left.
//!
//! Two bounds. A rate (`requests_per_second`, `burst`) spreads what goes out: a request that comes too early is given a
//! turn and held for it, in the order of arrival, and refused where its turn lies further away than the longest hold. A
//! quota counts what goes out in each span and refuses the rest of the span. What is denied for another reason counts
//! against neither; what is let through and then waits in vain for its origin's turn counts.
//!
//! Counted in memory, for as long as the process lives: a reload changes bounds, not what was had.

use std::time::Duration;

use parking_lot::Mutex;

use super::Client;
use crate::clock::Moment;
use crate::config::{Quota, Rate};

/// What one client has had. Equal to any other: it is no part of what a client *is*.
#[derive(Debug, Default)]
pub struct Account(Mutex<Had>);

impl PartialEq for Account {
    fn eq(&self, _: &Account) -> bool {
        true
    }
}

#[derive(Debug, Default)]
struct Had {
    /// When the next turn would come without a burst, in microseconds since the epoch.
    next_turn: u64,
    /// Which span of the quota is counted, from the epoch.
    span: u64,
    requests: u64,
    bytes: u64,
}

/// A client has had what it may have, and may come again at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent(pub Moment);

impl Account {
    /// Enters a request that would go out `now`; tells how long it is to be held first.
    ///
    /// # Errors
    /// [`Spent`] when the quota is, or the turn would come after `max_hold`. Nothing is entered then.
    pub fn enter(
        &self,
        client: &Client,
        now: Moment,
        max_hold: Duration,
    ) -> Result<Duration, Spent> {
        let mut had = self.0.lock();
        if let Some(quota) = &client.quota {
            had.turn_page(quota, now);
            let is_spent = quota.requests.is_some_and(|most| had.requests >= most)
                || quota.bytes.is_some_and(|most| had.bytes >= most);
            if is_spent {
                return Err(Spent(end_of_span(had.span, quota)));
            }
        }
        let hold = match &client.rate {
            Some(rate) => had.take_turn(rate, now, max_hold)?,
            None => Duration::ZERO,
        };
        had.requests = had.requests.saturating_add(1);
        Ok(hold)
    }

    /// Enters what a request took, once that is known.
    pub fn took(&self, quota: &Quota, bytes: u64, now: Moment) {
        let mut had = self.0.lock();
        had.turn_page(quota, now);
        had.bytes = had.bytes.saturating_add(bytes);
    }
}

impl Had {
    fn turn_page(&mut self, quota: &Quota, now: Moment) {
        let span = now.as_millis() / millis(quota.per);
        if span != self.span {
            self.span = span;
            (self.requests, self.bytes) = (0, 0);
        }
    }

    /// The generic cell rate algorithm: a turn each interval, and as many ahead of their time as the burst allows.
    fn take_turn(
        &mut self,
        rate: &Rate,
        now: Moment,
        max_hold: Duration,
    ) -> Result<Duration, Spent> {
        let interval = (1e6 / rate.requests_per_second).round().max(1.0) as u64;
        let ahead = interval.saturating_mul(u64::from(rate.burst.saturating_sub(1)));
        let max_hold = micros(max_hold);
        let time = now.as_millis().saturating_mul(1_000);
        let furthest = time
            .saturating_add(max_hold)
            .saturating_add(ahead)
            .saturating_add(interval);
        if self.next_turn > furthest {
            // No turn is given that far ahead: the clock was set back, or the bounds are others now.
            self.next_turn = furthest;
        }
        let turn = self.next_turn.max(time);
        let hold = turn.saturating_sub(ahead).saturating_sub(time);
        if hold > max_hold {
            return Err(Spent(now + Duration::from_micros(hold)));
        }
        self.next_turn = turn.saturating_add(interval);
        Ok(Duration::from_micros(hold))
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

    fn enter(client: &Client, now: Moment, max_hold: Duration) -> Result<Duration, Spent> {
        client.account.enter(client, now, max_hold)
    }

    #[test]
    fn a_quota_is_spent_until_its_span_ends() {
        let client = with_quota(Some(2), None);
        let noon = MIDNIGHT + DAY / 2;
        for _ in 0..2 {
            assert_eq!(enter(&client, noon, DAY), Ok(Duration::ZERO));
        }
        assert_eq!(enter(&client, noon, DAY), Err(Spent(MIDNIGHT + DAY)));
        let last = MIDNIGHT + (DAY - Duration::from_millis(1));
        assert_eq!(enter(&client, last, DAY), Err(Spent(MIDNIGHT + DAY)));
        assert_eq!(enter(&client, MIDNIGHT + DAY, DAY), Ok(Duration::ZERO));
    }

    #[test]
    fn octets_count_when_they_are_known() {
        let client = with_quota(None, Some(100));
        let quota = client.quota.expect("has one");
        for (took, fits) in [(60, true), (60, true), (0, false)] {
            assert_eq!(enter(&client, MIDNIGHT, DAY).is_ok(), fits, "before {took}");
            client.account.took(&quota, took, MIDNIGHT);
        }
        assert!(enter(&client, MIDNIGHT + DAY, DAY).is_ok(), "the next day");
    }

    #[test]
    fn turns_are_an_interval_apart_and_a_burst_comes_at_once() {
        let ms = Duration::from_millis;
        let client = with_rate(10.0, 3);
        let holds: Vec<_> = (0..6).map(|_| enter(&client, MIDNIGHT, ms(200))).collect();
        let late = Err(Spent(MIDNIGHT + ms(300)));
        let want = [
            Ok(ms(0)),
            Ok(ms(0)),
            Ok(ms(0)),
            Ok(ms(100)),
            Ok(ms(200)),
            late,
        ];
        assert_eq!(holds, want);
        // What was refused took no turn.
        let later = MIDNIGHT + ms(100);
        assert_eq!(enter(&client, later, ms(200)), Ok(ms(200)));
    }

    #[test]
    fn a_clock_that_is_set_back_stops_nobody() {
        let client = with_rate(1.0, 1);
        let second = Duration::from_secs(1);
        assert_eq!(enter(&client, MIDNIGHT + DAY, second), Ok(Duration::ZERO));
        // A turn was just given: one is waited for, not a day.
        let waits = enter(&client, MIDNIGHT, second);
        assert!(waits.is_err_and(|Spent(at)| at <= MIDNIGHT + 2 * second));
        assert_eq!(
            enter(&client, MIDNIGHT + 2 * second, second),
            Ok(Duration::ZERO)
        );
    }

    #[test]
    fn what_is_refused_by_the_rate_counts_against_no_quota() {
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
