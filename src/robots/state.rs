//! The error-state machine of one origin (RFC 9309 section 2.3.1, Google's published interpretation).
//!
//! Pure: a state, an [`AccessResult`] and the moment give the next state; a state and the moment give
//! the [`Stance`] that requests meet and whether a fetch is [`Due`]. No clock, no sockets, no flags:
//!
//! ```text
//!              2xx                        4xx
//! NeverFetched ───► Successful ◄────────► Unavailable
//!       │              │ a failed refresh is an `outage` beside the fresh copy,
//!       │ 429, 5xx,    │ and counts once the copy is stale
//!       ▼ network      ▼
//!        Unreachable { since the first failure, last good copy, next attempt }
//! ```

use std::sync::Arc;
use std::time::Duration;

use super::access::{Absence, AccessResult, Cause, Freshness};
use super::snapshot::Snapshot;
use crate::clock::Moment;
use crate::config::{Finally, ProfileRules, Timing};

/// What is known of an origin's robots.txt.
#[derive(Debug, Clone, Default)]
pub enum State {
    /// No fetch has ended yet.
    #[default]
    NeverFetched,
    /// The origin has a robots.txt.
    Successful {
        /// The file.
        snapshot: Arc<Snapshot>,
        /// How long it may be used.
        fresh: Fresh,
        /// Failures since it was fetched.
        outage: Option<Outage>,
    },
    /// The origin has no robots.txt.
    Unavailable {
        /// Why it counts as having none.
        why: Absence,
        /// When that was learnt.
        fetched: Moment,
        /// How long that holds.
        fresh: Fresh,
        /// Failures since.
        outage: Option<Outage>,
    },
    /// Nobody knows.
    Unreachable {
        /// The failures.
        outage: Outage,
        /// The last file that was fetched, however old.
        last_good: Option<Arc<Snapshot>>,
    },
}

/// The life of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fresh {
    /// From here on an origin in use is fetched again, ahead of expiry.
    pub refresh_from: Moment,
    /// Stale from here on.
    pub until: Moment,
}

/// A row of failed fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The latest failure.
    pub cause: Cause,
    /// The *first* failure.
    pub since: Moment,
    /// Failures so far, at least one.
    pub attempts: u32,
    /// No fetch before this.
    pub next_attempt: Moment,
}

/// What a state tells a request.
#[derive(Debug, Clone)]
pub enum Stance {
    /// Nothing usable is known: wait for a fetch.
    Unknown,
    /// These rules decide.
    Rules(Arc<Snapshot>),
    /// No restrictions: the origin has no robots.txt, or has been unreachable for so long.
    AllowAll,
    /// Complete disallow until the origin's robots.txt is known again.
    DisallowAll {
        /// Why it is not known.
        cause: Cause,
        /// When the next fetch is allowed.
        next_attempt: Moment,
    },
}

impl Stance {
    /// Whether the origin itself lies behind a wall of [`crate::egress::walls`], as far as is known.
    #[must_use]
    pub fn is_walled(&self) -> bool {
        matches!(
            self,
            Stance::DisallowAll {
                cause: Cause::Prohibited,
                ..
            }
        )
    }
}

/// Whether a fetch should start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Not now.
    No,
    /// Yes, in the background; the stance holds meanwhile.
    Ahead,
    /// Yes, and the request waits for it.
    Now,
}

impl State {
    /// The state after a fetch that ended `now` with `result`. `luck` in `0.0..1.0` spreads retries.
    #[must_use]
    pub fn after(self, result: AccessResult, now: Moment, timing: &Timing, luck: f64) -> State {
        match result {
            AccessResult::Successful {
                snapshot,
                freshness,
            } => State::Successful {
                snapshot,
                fresh: Fresh::starting(now, freshness, timing),
                outage: None,
            },
            AccessResult::Unavailable { why, freshness } => State::Unavailable {
                why,
                fetched: now,
                fresh: Fresh::starting(now, freshness, timing),
                outage: None,
            },
            AccessResult::Unreachable { cause, retry_after } => {
                let next = |earlier: Option<Outage>| {
                    Outage::extended(earlier, cause, retry_after, now, timing, luck)
                };
                match self {
                    State::NeverFetched => State::Unreachable {
                        outage: next(None),
                        last_good: None,
                    },
                    State::Successful {
                        snapshot,
                        fresh,
                        outage,
                    } if now < fresh.until => State::Successful {
                        snapshot,
                        fresh,
                        outage: Some(next(outage)),
                    },
                    State::Successful {
                        snapshot, outage, ..
                    } => State::Unreachable {
                        outage: next(outage),
                        last_good: Some(snapshot),
                    },
                    State::Unavailable {
                        why,
                        fetched,
                        fresh,
                        outage,
                    } if now < fresh.until => State::Unavailable {
                        why,
                        fetched,
                        fresh,
                        outage: Some(next(outage)),
                    },
                    State::Unavailable { outage, .. } => State::Unreachable {
                        outage: next(outage),
                        last_good: None,
                    },
                    State::Unreachable { outage, last_good } => State::Unreachable {
                        outage: next(Some(outage)),
                        last_good,
                    },
                }
            }
        }
    }

    /// What of this state can be so at `now`, under `timing`; `None` where all of it can, as nearly always.
    ///
    /// A clock that was ahead leaves moments behind that have not come yet, and settings may have changed since. A copy
    /// from the future, or one that would be good for longer than any may be, is stale; an outage began at the latest
    /// now; a wait that is longer than any is over. The closed side in each case: what is stale is asked for again.
    pub fn corrected(&self, now: Moment, timing: &Timing) -> Option<State> {
        let fresh = match self {
            State::Successful {
                snapshot, fresh, ..
            } => Some((fresh, snapshot.fetched)),
            State::Unavailable { fresh, fetched, .. } => Some((fresh, *fetched)),
            State::NeverFetched | State::Unreachable { .. } => None,
        };
        let is_stale = fresh.is_some_and(|(fresh, from)| !fresh.is_possible(from, now, timing));
        let is_off = self
            .outage()
            .is_some_and(|outage| !outage.is_possible(now, timing));
        if !is_stale && !is_off {
            return None;
        }
        let mut state = self.clone();
        match &mut state {
            State::Successful { fresh, outage, .. } | State::Unavailable { fresh, outage, .. } => {
                if is_stale {
                    *fresh = Fresh {
                        refresh_from: now,
                        until: now,
                    };
                }
                if let Some(outage) = outage {
                    outage.correct(now, timing);
                }
            }
            State::Unreachable { outage, .. } => outage.correct(now, timing),
            State::NeverFetched => {}
        }
        Some(state)
    }

    /// This state with its file read leniently or not; `None` where it was read so.
    pub fn read_anew(&self, lenient: bool) -> Option<State> {
        let held = self.snapshot()?;
        if held.robots.is_lenient() == lenient {
            return None;
        }
        let anew = Arc::new(held.read_anew(lenient));
        let mut state = self.clone();
        match &mut state {
            State::Successful { snapshot, .. }
            | State::Unreachable {
                last_good: Some(snapshot),
                ..
            } => *snapshot = anew,
            State::NeverFetched | State::Unavailable { .. } | State::Unreachable { .. } => {}
        }
        Some(state)
    }

    /// What requests meet at `now`.
    pub fn stance(&self, now: Moment, profile: &ProfileRules) -> Stance {
        match self {
            State::NeverFetched => Stance::Unknown,
            State::Successful {
                snapshot, fresh, ..
            } if now < fresh.until => Stance::Rules(Arc::clone(snapshot)),
            State::Unavailable { fresh, .. } if now < fresh.until => Stance::AllowAll,
            State::Successful { outage: None, .. } | State::Unavailable { outage: None, .. } => {
                Stance::Unknown
            }
            State::Successful {
                snapshot,
                outage: Some(outage),
                ..
            } => outage.stance(Some(snapshot), now, profile),
            State::Unavailable {
                outage: Some(outage),
                ..
            } => outage.stance(None, now, profile),
            State::Unreachable { outage, last_good } => {
                outage.stance(last_good.as_ref(), now, profile)
            }
        }
    }

    /// Whether a fetch should start at `now`.
    ///
    /// Only a fresh copy is refreshed behind a request's back. Whatever an outage permits in the end
    /// rests on failures that may lie weeks back, so each request first gives the origin a chance.
    pub fn due(&self, now: Moment) -> Due {
        if self
            .outage()
            .is_some_and(|outage| now < outage.next_attempt)
        {
            return Due::No;
        }
        match self {
            State::Successful { fresh, .. } | State::Unavailable { fresh, .. }
                if now < fresh.until =>
            {
                if now < fresh.refresh_from {
                    Due::No
                } else {
                    Due::Ahead
                }
            }
            State::NeverFetched
            | State::Successful { .. }
            | State::Unavailable { .. }
            | State::Unreachable { .. } => Due::Now,
        }
    }

    /// The failures since the last success, if any.
    pub fn outage(&self) -> Option<&Outage> {
        match self {
            State::NeverFetched => None,
            State::Successful { outage, .. } | State::Unavailable { outage, .. } => outage.as_ref(),
            State::Unreachable { outage, .. } => Some(outage),
        }
    }

    /// The file that is held, however old.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match self {
            State::Successful { snapshot, .. } => Some(snapshot),
            State::Unreachable { last_good, .. } => last_good.as_ref(),
            State::NeverFetched | State::Unavailable { .. } => None,
        }
    }

    /// The state's name in records.
    pub fn name(&self) -> &'static str {
        match self {
            State::NeverFetched => "never_fetched",
            State::Successful { .. } => "successful",
            State::Unavailable { .. } => "unavailable",
            State::Unreachable { .. } => "unreachable",
        }
    }
}

impl Fresh {
    /// RFC 9309 2.4: a cached copy is used for up to 24 hours, or as `Cache-Control` says within the
    /// operator's bounds.
    fn starting(now: Moment, freshness: Freshness, timing: &Timing) -> Fresh {
        let life = match freshness {
            Freshness::Unsaid => timing.fresh,
            Freshness::MaxAge(age) => age,
            Freshness::Shortest => timing.fresh_min,
        }
        .clamp(timing.fresh_min, timing.fresh_max.max(timing.fresh_min))
        .max(AT_LEAST);
        Fresh {
            refresh_from: now + life.mul_f64(timing.refresh_ahead.clamp(0.0, 1.0)),
            until: now + life,
        }
    }

    /// Whether a copy that was fetched at `from` can be as fresh as this says; what is stale anyway can.
    fn is_possible(&self, from: Moment, now: Moment, timing: &Timing) -> bool {
        let longest = timing.fresh_max.max(timing.fresh_min).max(AT_LEAST);
        // From its own time, too: a bound that was lowered holds for what is held.
        let is_within = from <= now && now < from + longest && self.until <= now + longest;
        is_within || self.until <= now
    }
}

/// What was just fetched is good for those who waited for it.
const AT_LEAST: Duration = Duration::from_secs(1);

fn longest_wait(timing: &Timing) -> Duration {
    timing.retry_max.max(timing.retry_min)
}

impl Outage {
    /// Whether this can be so at `now`.
    fn is_possible(&self, now: Moment, timing: &Timing) -> bool {
        self.since <= now && self.next_attempt <= now + longest_wait(timing)
    }

    fn correct(&mut self, now: Moment, timing: &Timing) {
        self.since = self.since.min(now);
        if self.next_attempt > now + longest_wait(timing) {
            self.next_attempt = now;
        }
    }

    fn extended(
        earlier: Option<Outage>,
        cause: Cause,
        retry_after: Option<Duration>,
        now: Moment,
        timing: &Timing,
        luck: f64,
    ) -> Outage {
        let attempts = earlier
            .map_or(0, |outage| outage.attempts)
            .saturating_add(1);
        let longest = match (retry_after, cause) {
            (None, Cause::Status(503)) => timing.retry_max.min(timing.retry_max_503),
            _ => timing.retry_max,
        }
        .max(timing.retry_min);
        let doublings = (attempts - 1).min(31);
        let back_off = || timing.retry_min.saturating_mul(1 << doublings);
        let wait = retry_after
            .unwrap_or_else(back_off)
            .clamp(timing.retry_min, longest);
        // Spread later, never earlier: the origin's word and the lower bound hold, and the upper one.
        let spread = wait.mul_f64((timing.jitter * luck).clamp(0.0, 1.0));
        Outage {
            cause,
            since: earlier.map_or(now, |outage| outage.since.min(now)),
            attempts,
            next_attempt: now + (wait + spread).min(longest),
        }
    }

    fn stance(
        &self,
        last_good: Option<&Arc<Snapshot>>,
        now: Moment,
        profile: &ProfileRules,
    ) -> Stance {
        let disallow = Stance::DisallowAll {
            cause: self.cause,
            next_attempt: self.next_attempt,
        };
        let length = now.since(self.since);
        if length < profile.disallow_for {
            return disallow;
        }
        if profile.last_good_until.is_none_or(|until| length < until) {
            return match last_good {
                Some(snapshot) => Stance::Rules(Arc::clone(snapshot)),
                None => Stance::AllowAll,
            };
        }
        match profile.finally {
            Finally::Allow => Stance::AllowAll,
            Finally::Reachable if self.cause.is_answer() => Stance::AllowAll,
            Finally::Reachable => disallow,
        }
    }
}

#[cfg(test)]
mod tests;
