//! A client's usage within one process.
//!
//! Usage is counted in memory, for as long as the process lives: a reload changes bounds, not usage. Turns are counted
//! by the clock that is never set, so a change of the wall clock does not affect a rate. Spans are days and hours of
//! the wall clock.

use std::collections::BTreeSet;
use std::time::Duration;

use super::QuotaExceeded;
use crate::client::Client;
use crate::fleet::quota;
use crate::gcra::{self, Gcra};
use crate::history::micros;
use crawlgate_config::{Quota, Rate};
use crawlgate_system::clock::{Moment, Uptime};

#[derive(Debug, Default)]
pub(super) struct Counters {
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

/// One request's entry.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) hold: Duration,
    /// Its turn, and the delay of the next one after it, in microseconds.
    turn: Option<(u64, u64)>,
    span: u64,
}

impl Counters {
    /// Enters a request. The second clock is read only if there is a rate.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when the quota is used up, or the turn would come after `max_hold`. Nothing is entered then.
    pub(super) fn enter(
        &mut self,
        client: &Client,
        now: Moment,
        uptime: impl FnOnce() -> Uptime,
        max_hold: Duration,
    ) -> Result<Entry, QuotaExceeded> {
        if let Some(quota) = &client.quota {
            self.has_left(quota, now)?;
        }
        let (hold, turn) = match &client.rate {
            Some(rate) => {
                let turn = self.take_turn(rate, uptime(), max_hold);
                let (hold, turn) = turn.map_err(|hold| QuotaExceeded(now + hold))?;
                (hold, Some((turn, in_micros(rate).interval)))
            }
            None => (Duration::ZERO, None),
        };
        self.requests = self.requests.saturating_add(1);
        Ok(Entry { hold, turn, span: self.span })
    }

    /// Adds octets.
    pub(super) fn add_bytes(&mut self, bytes: u64, now: Moment) {
        self.turn_page(now);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Checks that the quota leaves room for a request.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when it does not.
    pub(super) fn has_left(&mut self, quota: &Quota, now: Moment) -> Result<(), QuotaExceeded> {
        self.settle_on(quota.per, now);
        if quota::is_spent(quota, self.requests, self.bytes) {
            let end = self.span.saturating_add(1).saturating_mul(millis(quota.per));
            return Err(QuotaExceeded(Moment::from_millis(end)));
        }
        Ok(())
    }

    /// Resets the counters if a new span has begun. A clock that is set back begins none.
    fn turn_page(&mut self, now: Moment) {
        if self.per.is_zero() {
            return;
        }
        let present = now.as_millis() / millis(self.per);
        let span = quota::span_after(self.span, present);
        if span > self.span {
            (self.requests, self.bytes) = (0, 0);
        }
        self.span = span;
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

    /// Takes an entry back: the request was not sent.
    pub(super) fn take_back(&mut self, entered: &Entry) {
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

    /// Takes the first turn that is free, and returns the wait and the turn; if the wait is too long, returns only
    /// the wait.
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
pub(super) fn in_micros(rate: &Rate) -> gcra::Rate {
    gcra::Rate {
        interval: (1e6 / rate.requests_per_second).round().max(1.0) as u64,
        burst: rate.burst,
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).max(1)
}
