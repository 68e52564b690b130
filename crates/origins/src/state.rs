//! The error-state machine of one document of an origin (RFC 9309 section 2.3.1, Google's published interpretation).
//!
//! Pure: a state, an [`AccessResult`] and the moment give the next state; a state and the moment give the [`Stance`]
//! that requests meet and the need for a fetch ([`Due`]). No clock, no sockets, no flags:
//!
//! ```text
//!              2xx                        4xx
//! NeverFetched ───► Successful ◄────────► Unavailable
//!       │              │ a failed refresh is an `outage` beside the fresh copy,
//!       │ 429, 5xx,    │ and counts once the copy is stale
//!       ▼ network      ▼
//!        Unreachable { since the first failure, last good copy, next attempt }
//! ```
//!
//! An outage is only as long as it was observed: from failure to failure, each at most [`OBSERVED`] after the one
//! before. Its length is the time between two recorded failures, never between a failure and now, so neither a pause
//! nor a clock that is set can lengthen it. Failures while the gate reaches no origin at all ([`Reach`]) deny requests
//! but do not count for the outage.

mod outage;
mod tdmrep;

pub use self::outage::{OBSERVED, Outage};

use std::sync::Arc;
use std::time::Duration;

use super::access::{Absence, AccessResult, Cause, Freshness};
use super::document::Document;
use super::reach::Reach;
use super::snapshot::Snapshot;
use super::timing::{ProfileRules, Timing};
use crawlgate_text::Moment;

/// The state of a document of an origin: of its robots.txt, or of its tdmrep.json.
///
/// Both live and are retried alike; they differ in their [stance](State::stance_of), and in the fetches that requests
/// [wait for](State::due_of).
#[derive(Debug, Clone, Default)]
pub enum State {
    /// No fetch has ended yet.
    #[default]
    NeverFetched,
    /// The origin has the document.
    Successful {
        /// The file.
        snapshot: Arc<Snapshot>,
        /// The life of the copy.
        fresh: Fresh,
        /// Failures since the fetch.
        outage: Option<Outage>,
    },
    /// The origin has no such document.
    Unavailable {
        /// The reason that it counts as having none.
        why: Absence,
        /// The moment of that fetch.
        fetched: Moment,
        /// The life of this result.
        fresh: Fresh,
        /// Failures since the fetch.
        outage: Option<Outage>,
    },
    /// The document is unknown.
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
    /// The moment from which an origin in use is fetched again, ahead of expiry.
    pub refresh_from: Moment,
    /// The moment from which the copy is stale.
    pub until: Moment,
}

/// The moment and circumstances of a fetch's end.
#[derive(Debug, Clone, Copy)]
pub struct FetchEnd {
    /// The moment by the wall clock.
    pub now: Moment,
    /// The time since the origin's latest failure by a clock that is never set; none if unknown, as after a restart.
    pub since_failure: Option<Duration>,
    /// The gate's reach.
    pub reach: Reach,
}

/// Time between fetches while an outage lets requests out, or while the gate itself cannot ask.
const SOON: Duration = Duration::from_secs(60);

/// The consequence of a state for requests.
#[derive(Debug, Clone)]
pub enum Stance {
    /// No usable state: wait for a fetch.
    Unknown,
    /// This file decides: the rules of robots.txt, the entries of tdmrep.json.
    Rules(Arc<Snapshot>),
    /// No restrictions: the origin has no such document, or has been unreachable for long enough.
    AllowAll,
    /// Complete disallow until the origin's robots.txt is known again.
    DisallowAll {
        /// The cause that it is unknown.
        cause: Cause,
        /// The earliest next fetch.
        next_attempt: Moment,
    },
}

impl Stance {
    /// Tells whether the address policy is known to prohibit the origin itself.
    #[must_use]
    pub fn is_prohibited(&self) -> bool {
        matches!(self, Stance::DisallowAll { cause: Cause::Prohibited, .. })
    }
}

/// The need for a fetch.
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
    /// Returns the state after a fetch with this `end` and `result`. `jitter` in `0.0..1.0` spreads retries.
    #[must_use]
    pub fn after(self, result: AccessResult, end: FetchEnd, timing: &Timing, jitter: f64) -> State {
        let now = end.now;
        let result = match self.snapshot() {
            Some(_) => result.with_stored_copy(),
            None => result,
        };
        match result {
            AccessResult::Successful { snapshot, freshness } => State::Successful {
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
                    Outage::extended(earlier, cause, retry_after, end, timing, jitter)
                };
                match self {
                    State::NeverFetched => {
                        State::Unreachable { outage: next(None), last_good: None }
                    }
                    State::Successful { snapshot, fresh, outage } if now < fresh.until => {
                        State::Successful { snapshot, fresh, outage: Some(next(outage)) }
                    }
                    State::Successful { snapshot, outage, .. } => {
                        State::Unreachable { outage: next(outage), last_good: Some(snapshot) }
                    }
                    State::Unavailable { why, fetched, fresh, outage } if now < fresh.until => {
                        State::Unavailable { why, fetched, fresh, outage: Some(next(outage)) }
                    }
                    State::Unavailable { outage, .. } => {
                        State::Unreachable { outage: next(outage), last_good: None }
                    }
                    State::Unreachable { outage, last_good } => {
                        State::Unreachable { outage: next(Some(outage)), last_good }
                    }
                }
            }
        }
    }

    /// Returns the state of an unreachable document with this copy as the last good one, unless it has one.
    #[must_use]
    pub fn with_last_good(self, copy: Arc<Snapshot>) -> State {
        match self {
            State::Unreachable { outage, last_good } => {
                State::Unreachable { outage, last_good: last_good.or(Some(copy)) }
            }
            state => state,
        }
    }

    /// Returns the state corrected for a clock or settings that changed, or `None` if it is plausible (the usual case).
    ///
    /// A clock that was ahead leaves future moments behind, and settings may have changed since. A copy from the
    /// future, or one with too long a life, becomes stale; an outage that ends in the future moves back to end now and
    /// keeps its length; too long a wait is over. Each correction fails closed: a doubtful copy is treated as stale.
    pub fn corrected(&self, now: Moment, timing: &Timing) -> Option<State> {
        let fresh = match self {
            State::Successful { snapshot, fresh, .. } => Some((fresh, snapshot.fetched)),
            State::Unavailable { fresh, fetched, .. } => Some((fresh, *fetched)),
            State::NeverFetched | State::Unreachable { .. } => None,
        };
        let is_stale = fresh.is_some_and(|(fresh, from)| !fresh.is_possible(from, now, timing));
        let is_off = self.outage().is_some_and(|outage| !outage.is_possible(now, timing));
        if !is_stale && !is_off {
            return None;
        }
        let mut state = self.clone();
        match &mut state {
            State::Successful { fresh, outage, .. } | State::Unavailable { fresh, outage, .. } => {
                if is_stale {
                    *fresh = Fresh { refresh_from: now, until: now };
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

    /// Returns this state with its file parsed leniently or not; `None` if the file is already parsed so.
    pub fn reparsed(&self, lenient: bool) -> Option<State> {
        let held = self.snapshot()?;
        if held.robots.is_lenient() == lenient {
            return None;
        }
        let anew = Arc::new(held.reparsed(lenient));
        let mut state = self.clone();
        match &mut state {
            State::Successful { snapshot, .. }
            | State::Unreachable { last_good: Some(snapshot), .. } => *snapshot = anew,
            State::NeverFetched | State::Unavailable { .. } | State::Unreachable { .. } => {}
        }
        Some(state)
    }

    /// Returns this state without the life that it has left: the next request fetches the document first. The outage and
    /// the last good copy stay.
    #[must_use]
    pub fn overdue(mut self, now: Moment) -> State {
        let outage = match &mut self {
            State::NeverFetched => None,
            State::Successful { fresh, outage, .. } | State::Unavailable { fresh, outage, .. } => {
                fresh.until = fresh.until.min(now);
                fresh.refresh_from = fresh.refresh_from.min(now);
                outage.as_mut()
            }
            State::Unreachable { outage, .. } => Some(outage),
        };
        if let Some(outage) = outage {
            outage.next_attempt = outage.next_attempt.min(now);
        }
        self
    }

    /// Returns the moment of the fetch that the state follows from; of an outage, that of the last one.
    pub fn fetched(&self) -> Option<Moment> {
        match self {
            State::NeverFetched => None,
            State::Successful { snapshot, .. } => Some(snapshot.fetched),
            State::Unavailable { fetched, .. } => Some(*fetched),
            State::Unreachable { outage, .. } => Some(outage.last_attempt),
        }
    }

    /// Returns the stance of a document for requests at `now`.
    pub fn stance_of(&self, document: Document, now: Moment, profile: &ProfileRules) -> Stance {
        match document {
            Document::RobotsTxt => self.stance(now, profile),
            Document::TdmRep => self.stance_of_tdmrep(now, profile),
        }
    }

    /// Tells whether a fetch of a document should start at `now`, for a request under `profile`.
    pub fn due_of(&self, document: Document, now: Moment, profile: &ProfileRules) -> Due {
        match document {
            Document::RobotsTxt => self.due(now, profile),
            Document::TdmRep => self.due_of_tdmrep(now),
        }
    }

    /// Returns the stance of a robots.txt for requests at `now`.
    pub fn stance(&self, now: Moment, profile: &ProfileRules) -> Stance {
        match self {
            State::NeverFetched => Stance::Unknown,
            State::Successful { snapshot, fresh, .. } if now < fresh.until => {
                Stance::Rules(Arc::clone(snapshot))
            }
            State::Unavailable { fresh, .. } if now < fresh.until => Stance::AllowAll,
            State::Successful { outage: None, .. } | State::Unavailable { outage: None, .. } => {
                Stance::Unknown
            }
            State::Successful { snapshot, outage: Some(outage), .. } => {
                outage.stance(Some(snapshot), profile)
            }
            State::Unavailable { outage: Some(outage), .. } => outage.stance(None, profile),
            State::Unreachable { outage, last_good } => outage.stance(last_good.as_ref(), profile),
        }
    }

    /// Tells whether a fetch of robots.txt should start at `now`, for a request under `profile`.
    ///
    /// Only a fresh copy is refreshed in the background. The permission at the end of an outage rests on failures, and
    /// the origin may be back: it is asked again before a request goes, at least every minute that the origin is used.
    pub fn due(&self, now: Moment, profile: &ProfileRules) -> Due {
        if let Some(outage) = self.outage()
            && now < outage.next_attempt
            && (now < outage.last_attempt + SOON || !self.lets_out(now, profile))
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

    /// Tells whether only a long outage lets requests out.
    fn lets_out(&self, now: Moment, profile: &ProfileRules) -> bool {
        let stance = || self.stance(now, profile);
        !self.is_fresh(now) && matches!(stance(), Stance::Rules(_) | Stance::AllowAll)
    }

    /// Tells whether the result of the last fetch still holds.
    fn is_fresh(&self, now: Moment) -> bool {
        match self {
            State::Successful { fresh, .. } | State::Unavailable { fresh, .. } => now < fresh.until,
            State::NeverFetched | State::Unreachable { .. } => false,
        }
    }

    /// Returns the failures since the last success, if any.
    pub fn outage(&self) -> Option<&Outage> {
        match self {
            State::NeverFetched => None,
            State::Successful { outage, .. } | State::Unavailable { outage, .. } => outage.as_ref(),
            State::Unreachable { outage, .. } => Some(outage),
        }
    }

    /// Returns the stored file, however old.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match self {
            State::Successful { snapshot, .. } => Some(snapshot),
            State::Unreachable { last_good, .. } => last_good.as_ref(),
            State::NeverFetched | State::Unavailable { .. } => None,
        }
    }

    /// Returns the state's name in records.
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
    /// RFC 9309 2.4: a cached copy is used for up to 24 hours, or for the time in `Cache-Control` within the operator's
    /// bounds.
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

    /// Tells whether a copy fetched at `from` can have this life; a stale one always can.
    fn is_possible(&self, from: Moment, now: Moment, timing: &Timing) -> bool {
        let longest = timing.fresh_max.max(timing.fresh_min).max(AT_LEAST);
        // Checked from its fetch, too: a lowered bound applies to stored copies.
        let is_within = from <= now && now < from + longest && self.until <= now + longest;
        is_within || self.until <= now
    }
}

/// Least life of a copy, so that the requests that waited for it can use it.
const AT_LEAST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
