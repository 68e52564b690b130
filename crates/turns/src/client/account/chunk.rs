//! The part of a client's quota that one instance of a fleet holds.
//!
//! The engine gives requests in chunks, so that most of them need no question. It knows what each instance has taken and
//! how many octets it has counted; an instance tells these totals with each question, so a total that the engine has lost
//! is soon there again. A question is not repeated; one without an answer has perhaps taken requests, which are wasted.
//!
//! Pure: times go in and come out.

use std::time::Duration;

use crate::fleet::quota::{Charged, is_spent};
use crawlgate_config::Quota;
use crawlgate_system::clock::Uptime;

/// The time for which the answer "nothing is left" stands. Another instance may give back what it does not use.
const SPENT: Duration = Duration::from_millis(250);

/// The time without a request after which an instance gives back what it holds, and the age of what it knows of the
/// octets at the others.
const IDLE: Duration = Duration::from_secs(1);

/// The age at which what is known of the octets at the others is too old for a request.
const OLD: Duration = Duration::from_secs(2);

/// The time for which octets are counted only here.
const UNREPORTED: Duration = Duration::from_millis(500);

/// One instance's part of a quota.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    per: Duration,
    span: Option<Span>,
    /// Counts the spans, so that the answer to an earlier question is known.
    epoch: u64,
    /// Requests that this instance has taken in the span, and octets that it has counted. Without a span, the engine adds
    /// them to the totals that it knows.
    mine: Totals,
    /// The part of `mine` that the engine knows.
    reported: Totals,
    /// Requests that are taken and not used.
    left: u64,
    /// Octets of the other instances at the last answer.
    others: u64,
    /// The time until which nothing is left.
    spent: Uptime,
    answered: Uptime,
    used: Recently,
}

/// Requests and octets in one span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    number: u64,
    ends: Uptime,
}

/// Requests in this second and in the one before.
#[derive(Debug, Default)]
struct Recently {
    since: Uptime,
    now: u64,
    before: u64,
    last: Option<Uptime>,
}

/// The outcome of taking a request out of the quota.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Take {
    /// It is taken.
    Taken(Taken),
    /// The engine has to be asked.
    Ask,
    /// Nothing is left until this time.
    Exceeded(Uptime),
}

/// A request that was taken, to be given back if it is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken(u64);

/// A question to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuotaQuestion {
    per: Duration,
    epoch: u64,
    sent: Uptime,
    /// The span that the totals belong to.
    pub(super) span: Option<u64>,
    pub(super) mine: Totals,
    pub(super) returned: u64,
    pub(super) wanted: u64,
}

impl Chunk {
    /// Takes a request out of the quota.
    pub(super) fn take(&mut self, quota: &Quota, now: Uptime) -> Take {
        self.settle_on(quota.per, now);
        if let Some(until) = self.exceeded(quota, now) {
            return Take::Exceeded(until);
        }
        let is_known = self.span.is_some();
        let is_old = quota.bytes.is_some() && now.since(self.answered) >= OLD;
        if !is_known || is_old || (quota.requests.is_some() && self.left == 0) {
            return Take::Ask;
        }
        self.count(now);
        Take::Taken(Taken(self.epoch))
    }

    /// Counts a request, whether the engine has given it or not.
    pub(super) fn count(&mut self, now: Uptime) {
        match self.left {
            0 => self.mine.requests = self.mine.requests.saturating_add(1),
            _ => self.left -= 1,
        }
        self.used.note(now);
    }

    /// Gives a request back that was not sent.
    pub(super) fn give_back(&mut self, taken: Taken) {
        if taken.0 == self.epoch {
            self.left = self.left.saturating_add(1);
        }
    }

    /// Counts octets.
    pub(super) fn add_bytes(&mut self, bytes: u64, now: Uptime) {
        self.settle_on(self.per, now);
        self.mine.bytes = self.mine.bytes.saturating_add(bytes);
    }

    /// Returns the end of the span if the quota is used up, as far as is known.
    pub(super) fn has_exceeded(&mut self, quota: &Quota, now: Uptime) -> Option<Uptime> {
        self.settle_on(quota.per, now);
        self.exceeded(quota, now)
    }

    fn exceeded(&self, quota: &Quota, now: Uptime) -> Option<Uptime> {
        let span = self.span?;
        let bytes = self.others.saturating_add(self.mine.bytes);
        let is_spent =
            self.spent > now && self.left == 0 || is_spent(quota, self.used_here(), bytes);
        is_spent.then_some(span.ends)
    }

    fn used_here(&self) -> u64 {
        self.mine.requests.saturating_sub(self.left)
    }

    /// Returns the question for a request that waits, with `waiting` others.
    pub(super) fn ask(&mut self, quota: &Quota, waiting: u64, now: Uptime) -> QuotaQuestion {
        self.settle_on(quota.per, now);
        let wanted = match quota.requests {
            Some(_) => waiting.max(self.used.most()).max(1),
            None => 0,
        };
        self.question(0, wanted, now)
    }

    /// Records that the engine may have lost the totals.
    pub(super) fn is_forgotten(&mut self) {
        self.reported = Totals::default();
    }

    /// Tells whether the engine has something to hear, or to tell.
    pub(super) fn has_report(&mut self, quota: &Quota, now: Uptime) -> bool {
        self.settle_on(quota.per, now);
        let silent = now.since(self.answered);
        self.idle(now) > 0
            || self.mine != self.reported && silent >= UNREPORTED
            || quota.bytes.is_some() && self.used.is_recent(now) && silent >= IDLE
    }

    /// Returns the question that tells the totals.
    pub(super) fn tell(&mut self, quota: &Quota, now: Uptime) -> QuotaQuestion {
        self.settle_on(quota.per, now);
        self.question(self.idle(now), 0, now)
    }

    /// Returns the requests that are taken and not in use.
    fn idle(&self, now: Uptime) -> u64 {
        if self.used.is_recent(now) { 0 } else { self.left }
    }

    /// Returns the question that gives back what is not used.
    pub(super) fn give_all_back(&mut self, quota: &Quota, now: Uptime) -> Option<QuotaQuestion> {
        self.settle_on(quota.per, now);
        let has_report = self.left > 0 || self.mine != self.reported;
        has_report.then(|| self.question(self.left, 0, now))
    }

    /// Before the engine hears of it, what is given back is gone here: a lost answer wastes it.
    fn question(&mut self, returned: u64, wanted: u64, now: Uptime) -> QuotaQuestion {
        self.left = self.left.saturating_sub(returned);
        self.mine.requests = self.mine.requests.saturating_sub(returned);
        QuotaQuestion {
            per: self.per,
            epoch: self.epoch,
            sent: now,
            span: self.span.map(|span| span.number),
            mine: self.mine,
            returned,
            wanted,
        }
    }

    /// Takes in the answer to a question.
    pub(super) fn answered(&mut self, question: QuotaQuestion, charged: &Charged, now: Uptime) {
        if question.per != self.per {
            // Another quota came into force meanwhile: what was given is wasted.
            return;
        }
        let reported = Totals { requests: charged.requests, bytes: charged.bytes };
        // The instance may have counted more since it sent the question. If a span has ended since, everything that it has
        // counted is newer than the question.
        let mut sent = Totals::default();
        if question.epoch == self.epoch {
            sent = question.mine;
        }
        let is_another = self.span.map(|span| span.number) != Some(charged.span);
        if is_another {
            self.epoch += 1;
            self.left = 0;
        }
        let count =
            |reported: u64, mine: u64, sent| reported.saturating_add(mine.saturating_sub(sent));
        self.mine = Totals {
            requests: count(reported.requests, self.mine.requests, sent.requests),
            bytes: count(reported.bytes, self.mine.bytes, sent.bytes),
        };
        self.reported = reported;
        self.left = self.left.saturating_add(charged.granted);
        let others = charged.all_bytes.saturating_sub(charged.bytes);
        let is_complete = charged.wait.is_zero();
        if is_another || is_complete {
            self.others = others;
        } else {
            // The others have perhaps not told theirs again.
            self.others = self.others.max(others);
        }
        // The span has begun before the question was sent, so it never seems longer than it is.
        self.span = Some(Span { number: charged.span, ends: question.sent + charged.left });
        if is_complete {
            self.answered = now;
        }
        if charged.granted > 0 {
            // The requests that asked take it in a moment.
            self.used.last = Some(now);
        }
        let is_spent = question.wanted > 0 && charged.granted == 0 && is_complete;
        self.spent = if is_spent { now + SPENT } else { Uptime::default() };
    }

    /// Begins anew if the span is over. A span of another length begins with what was taken in the one before.
    fn settle_on(&mut self, per: Duration, now: Uptime) {
        if self.per != per {
            (self.per, self.span, self.reported) = (per, None, Totals::default());
            self.mine.requests = self.used_here();
            self.left = 0;
            self.epoch += 1;
        }
        if self.span.is_some_and(|span| span.ends <= now) {
            *self = Chunk {
                per,
                epoch: self.epoch + 1,
                used: std::mem::take(&mut self.used),
                ..Chunk::default()
            };
        }
    }
}

impl Recently {
    fn note(&mut self, now: Uptime) {
        let passed = now.since(self.since);
        if passed >= IDLE {
            self.before = if passed < IDLE * 2 { self.now } else { 0 };
            (self.since, self.now) = (now, 0);
        }
        self.now = self.now.saturating_add(1);
        self.last = Some(now);
    }

    fn is_recent(&self, now: Uptime) -> bool {
        self.last.is_some_and(|last| now.since(last) < IDLE)
    }

    fn most(&self) -> u64 {
        self.now.max(self.before)
    }
}

#[cfg(test)]
mod tests;
