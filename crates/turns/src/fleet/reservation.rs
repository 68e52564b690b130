//! Turns at an origin that the engine reserves for an instance, and reports of an origin's trouble.
//!
//! The engine hands out moments, not permissions: a lost answer or a killed instance wastes a turn and never makes one.
//! A moment reaches the instance as a span that begins when the answer arrives, so no turn is used early.
//!
//! An engine that does not know an origin counts it as used at the moment when its generation began: the burst is empty,
//! and each interval has just begun. So a loss costs at most one interval, and nothing has to be told again.

use std::sync::Arc;
use std::time::Duration;

pub use crate::history::Sign;

/// The horizon of all turns but the first: an instance reserves no more than it uses within this time.
pub const NEAR: Duration = Duration::from_millis(250);

/// The time after which a turn that is due is lost: the next turns do not wait for it.
pub(crate) const LATE: Duration = Duration::from_millis(50);

/// The time before a question without an answer is asked again, and for which "too far ahead" and "all slots are taken" stand.
pub(crate) const ENGINE_RETRY: Duration = Duration::from_millis(100);

/// The time after which the slot of a silent instance is free again.
pub const SLOT_LIFE: Duration = Duration::from_secs(15);

/// The time between two renewals of a slot.
pub const SLOT_RENEWAL: Duration = Duration::from_secs(3);

/// A moment by the engine's clock, in microseconds. Only the engine compares it with its present time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EngineTime(pub u64);

/// The use of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnKind {
    /// A request for a page.
    Page,
    /// A robots.txt. It keeps the intervals of all groups and counts for all, and ignores the concurrency.
    Robots,
    /// A robots.txt that goes now, due or not.
    Now,
    /// A robots.txt that goes now and counts only if it is due (a redirect hop).
    RedirectHop,
}

/// A group of a robots.txt, and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupInterval<'a> {
    /// The name of the group.
    pub name: &'a str,
    /// Its interval.
    pub interval: Duration,
}

impl GroupInterval<'_> {
    /// Returns the group of this name and interval.
    pub(crate) fn of((name, interval): &(Arc<str>, Duration)) -> GroupInterval<'_> {
        let interval = *interval;
        GroupInterval { name, interval }
    }
}

/// The bound of requests in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots<'a> {
    /// The most requests in flight.
    pub most: u32,
    /// The names of the slots to take, unique over all instances: one for each turn.
    pub names: &'a [String],
}

/// A question for turns.
#[derive(Debug, Clone, Copy)]
pub struct Reserve<'a> {
    /// The origin, in ASCII and without braces.
    pub origin: &'a str,
    /// Their use.
    pub kind: TurnKind,
    /// Turns wanted.
    pub wanted: u32,
    /// The longest time until the first of them.
    pub horizon: Duration,
    /// The time between two turns at the operator's own rate; zero: no rate.
    pub interval: Duration,
    /// Turns that may go at once at that rate.
    pub burst: u32,
    /// The group that the requests keep the interval of.
    pub group: Option<GroupInterval<'a>>,
    /// The rest that this instance knows the origin to need.
    pub rest: Duration,
    /// The gap that this instance knows the origin to need. It counts if the engine does not know the origin.
    pub gap: Duration,
    /// The bound of requests in flight.
    pub slots: Option<Slots<'a>>,
    /// The longest time for which a request can delay another.
    pub memory: Duration,
}

/// A turn that is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedTurn {
    /// The time from the arrival of the answer to the turn.
    pub after: Duration,
    /// The moment of the turn, which names it.
    pub at: EngineTime,
}

/// The answer to [`Reserve`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reserved {
    /// The turns, in their order.
    pub turns: Vec<ReservedTurn>,
    /// The time until another turn is due.
    pub next: Duration,
    /// True if requests in flight, and not the time, delay the next turn.
    pub is_full: bool,
    /// True if only the group delays the next turn.
    pub is_of_group: bool,
    /// The back-off from the origin.
    pub backoff: OriginBackoff,
}

/// The back-off from an origin in trouble, as the fleet sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OriginBackoff {
    /// The least time between two requests; zero: none.
    pub gap: Duration,
    /// The rest that it still needs.
    pub rest: Duration,
}

impl OriginBackoff {
    /// Tells whether it delays no request.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.gap.is_zero() && self.rest.is_zero()
    }
}

/// A turn that was not used.
#[derive(Debug, Clone, Copy)]
pub struct GiveBack<'a> {
    /// The origin.
    pub origin: &'a str,
    /// The moment of the turn.
    pub at: EngineTime,
    /// The group that it was reserved for.
    pub group: Option<GroupInterval<'a>>,
}

/// A report of an origin's sign.
#[derive(Debug, Clone, Copy)]
pub struct ReportBackoff<'a> {
    /// The origin.
    pub origin: &'a str,
    /// The sign.
    pub sign: Sign,
    /// The time since the request was sent.
    pub age: Duration,
    /// The gap after a first sign.
    pub first: Duration,
    /// The widest gap.
    pub widest: Duration,
    /// The longest rest.
    pub longest: Duration,
    /// The longest time for which a request can delay another.
    pub memory: Duration,
}
