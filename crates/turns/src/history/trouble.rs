//! The gap and the rest of an origin in trouble.
//!
//! The gap doubles with every sign of trouble and halves with every good answer; a refusal asks for a rest, too.

use std::time::Duration;

use super::micros;

/// A gap below this counts as no gap.
const LEAST: u64 = 200_000;

/// A gap is forgotten after this time without a sign.
const FORGOTTEN: u64 = 600_000_000;

/// The trouble of one origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The least time from one request to the next; 0: none.
    pub(crate) gap: u64,
    /// The start of the present gap: an answer to a request sent before says nothing new.
    pub(crate) since: u64,
    /// The end of the rest.
    pub(crate) rest: u64,
    /// Its intended length.
    pub(crate) length: u64,
}

/// The sign that an origin has given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A good answer.
    Fine,
    /// 429 or 503: a wider gap, and a rest.
    Refused {
        /// `Retry-After`; zero: none.
        retry_after: Duration,
    },
    /// It fails or is slow: a wider gap.
    Troubled,
}

/// A sign, with the bounds on what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) sign: Sign,
    /// The gap after a first sign.
    pub(crate) first: Duration,
    /// The widest gap.
    pub(crate) widest: Duration,
}

impl Trouble {
    /// Tells whether it delays no request.
    pub(crate) fn is_calm(&self) -> bool {
        self.gap == 0 && self.rest == 0
    }

    /// Forgets a rest or gap that is over.
    pub(crate) fn settle(&mut self, now: u64) {
        if self.rest <= now {
            self.rest = 0;
        }
        if self.gap > 0 && now.saturating_sub(self.since) >= self.gap.max(FORGOTTEN) {
            self.gap = 0;
        }
    }

    /// Ends the gap and the rest.
    pub(crate) fn end(&mut self) {
        (self.gap, self.rest) = (0, 0);
    }

    /// Moves times back with a clock that was set back.
    pub(crate) fn set_back(&mut self, by: u64) {
        self.since = self.since.saturating_sub(by);
        self.rest = self.rest.saturating_sub(by);
    }

    /// Takes over the trouble that a fleet sees. A rest that is known here is never shortened.
    pub(crate) fn adopt(&mut self, (gap, rest): (Duration, Duration), now: u64) {
        self.settle(now);
        let (gap, rest) = (micros(gap), micros(rest));
        if self.gap != gap {
            (self.gap, self.since) = (gap, now);
        }
        self.extend(rest, now);
    }

    /// Enters a sign of a request that was sent at `sent`. No rest is longer than `longest`.
    pub(crate) fn enter(&mut self, report: Report, sent: u64, now: u64, longest: Duration) {
        self.settle(now);
        let is_new = sent >= self.since;
        if report.sign == Sign::Fine {
            if self.gap > 0 && is_new {
                (self.gap, self.since) = (self.gap / 2, now);
                if self.gap < LEAST {
                    self.gap = 0;
                }
            }
            return;
        }
        // Once for all requests in flight at the time.
        if is_new {
            let wider = self.gap.saturating_mul(2).max(micros(report.first));
            // A bound below another sign's gap shortens nothing.
            self.gap = self.gap.max(wider.min(micros(report.widest)));
            self.since = now;
        }
        if let Sign::Refused { retry_after } = report.sign {
            self.extend(micros(retry_after).max(self.gap).min(micros(longest)), now);
        }
    }

    fn extend(&mut self, length: u64, now: u64) {
        let until = now.saturating_add(length);
        if length > 0 && until > self.rest {
            (self.rest, self.length) = (until, length);
        }
    }
}
