//! A series of failed fetches: its length as far as it was observed, and the wait until the next attempt.

use std::sync::Arc;
use std::time::Duration;

use super::{FetchEnd, SOON, Stance};
use crate::access::Cause;
use crate::reach::Reach;
use crate::snapshot::Snapshot;
use crate::timing::{Finally, ProfileRules, Timing};
use crawlgate_text::Moment;

/// Longest time between two failures of one outage; after a longer one, a new outage begins.
pub const OBSERVED: Duration = Duration::from_secs(24 * 60 * 60);

/// Two clocks that differ by at most this much agree.
const TOLERANCE: Duration = Duration::from_secs(5);

/// A series of failed fetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// The latest failure.
    pub cause: Cause,
    /// The *first* failure of the outage as far as it was observed. If the wall clock was set meanwhile, this moment is
    /// by the present clock.
    pub since: Moment,
    /// The latest failure of the origin itself; none if only the gate has failed.
    pub last_failure: Option<Moment>,
    /// The latest failure of any cause.
    pub last_attempt: Moment,
    /// Failures so far, at least one.
    pub attempts: u32,
    /// The earliest next fetch, unless the outage lets requests out.
    pub next_attempt: Moment,
}

fn longest_wait(timing: &Timing) -> Duration {
    timing.retry_max.max(timing.retry_min)
}

impl Outage {
    /// Returns the length of the outage, as far as it was observed.
    pub fn length(&self) -> Duration {
        self.last_failure.map_or(Duration::ZERO, |last| last.since(self.since))
    }

    /// Tells whether the latest failure is one of the origin's own document: not of crawlgate, nor of a redirect that may
    /// not be followed.
    pub(super) fn is_of_the_document(&self) -> bool {
        self.last_failure == Some(self.last_attempt) && self.cause.is_of_the_document()
    }

    /// Tells whether the outage is possible at `now`.
    pub(super) fn is_possible(&self, now: Moment, timing: &Timing) -> bool {
        self.latest() <= now && self.next_attempt <= now + longest_wait(timing)
    }

    /// Returns the latest moment that should be past.
    fn latest(&self) -> Moment {
        let failure = self.last_failure.unwrap_or(self.since);
        self.last_attempt.max(failure).max(self.since)
    }

    pub(super) fn correct(&mut self, now: Moment, timing: &Timing) {
        // All moments move, so that the outage keeps its length.
        let ahead = self.latest().since(now);
        self.since = self.since - ahead;
        self.last_failure = self.last_failure.map(|last| last - ahead);
        self.last_attempt = self.last_attempt - ahead;
        if self.next_attempt > now + longest_wait(timing) {
            self.next_attempt = now;
        }
    }

    pub(super) fn extended(
        earlier: Option<Outage>,
        cause: Cause,
        retry_after: Option<Duration>,
        end: FetchEnd,
        timing: &Timing,
        jitter: f64,
    ) -> Outage {
        let now = end.now;
        let (since, last_failure, before) = Outage::observed(earlier, &cause, end);
        let attempts = before.saturating_add(1);
        let longest = match (retry_after, &cause) {
            (_, Cause::UpstreamProxy) => timing.retry_max.min(SOON),
            _ if end.reach == Reach::Nothing => timing.retry_max.min(SOON),
            (None, Cause::Status(503)) => timing.retry_max.min(timing.retry_max_503),
            (None, Cause::Ftp(reply)) if reply.code() < 500 => {
                timing.retry_max.min(timing.retry_max_503)
            }
            _ => timing.retry_max,
        }
        .max(timing.retry_min);
        let doublings = (attempts - 1).min(31);
        let back_off = || timing.retry_min.saturating_mul(1 << doublings);
        let wait = retry_after.unwrap_or_else(back_off).clamp(timing.retry_min, longest);
        // Spread later, never earlier, within the bounds and after the origin's `Retry-After`.
        let spread = wait.mul_f64((timing.jitter * jitter).clamp(0.0, 1.0));
        Outage {
            cause,
            since,
            last_failure,
            last_attempt: now,
            attempts,
            next_attempt: now + (wait + spread).min(longest),
        }
    }

    /// Returns the start of the observed outage after another failure, the latest failure of the origin itself, and the
    /// number of failures before.
    fn observed(
        earlier: Option<Outage>,
        cause: &Cause,
        end: FetchEnd,
    ) -> (Moment, Option<Moment>, u32) {
        let now = end.now;
        let attempts = earlier.as_ref().map_or(0, |outage| outage.attempts);
        let before = earlier.and_then(|outage| {
            let last = outage.last_failure?;
            Some((outage, last))
        });
        let is_the_origins = end.reach == Reach::Some && cause.tells_of_origin();
        match before {
            // The gate's own failures neither start an outage nor lengthen it.
            Some((outage, last)) if !is_the_origins => (outage.since, Some(last), attempts),
            None if !is_the_origins => (now, None, attempts),
            None => (now, Some(now), attempts),
            Some((outage, last)) => {
                let by_the_wall = now.since(last);
                let gap = match end.since_failure {
                    // The wall clock was set in between.
                    Some(gap) if gap.abs_diff(by_the_wall) > TOLERANCE => gap,
                    _ => by_the_wall,
                };
                if gap > OBSERVED {
                    // A new outage, without earlier failures.
                    (now, Some(now), 0)
                } else {
                    (now - (outage.length() + gap), Some(now), attempts)
                }
            }
        }
    }

    pub(super) fn stance(
        &self,
        last_good: Option<&Arc<Snapshot>>,
        profile: &ProfileRules,
    ) -> Stance {
        let disallow =
            Stance::DisallowAll { cause: self.cause.clone(), next_attempt: self.next_attempt };
        let length = self.length();
        if length < profile.disallow_for {
            return disallow;
        }
        // The gate's own failures open no origin, whatever the profile.
        let open = match self.last_failure {
            Some(_) => Stance::AllowAll,
            None => disallow.clone(),
        };
        if profile.last_good_until.is_none_or(|until| length < until) {
            return match last_good {
                Some(snapshot) => Stance::Rules(Arc::clone(snapshot)),
                None => open,
            };
        }
        match profile.finally {
            Finally::Allow => open,
            Finally::Reachable if self.cause.is_answer() => open,
            Finally::Reachable => disallow,
        }
    }
}
