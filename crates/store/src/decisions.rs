//! The kept decisions with the acts of people on them, and the query for them.

use std::sync::Arc;

use super::HOUR;
use super::Sha256;
use crawlgate_policy::Outcome;
use crawlgate_policy::overrides::Override;
use crawlgate_record::{Counted, Outline, Told, Untold};
use crawlgate_system::clock::Moment;

/// A query for decisions, and their order.
#[derive(Debug, Clone, Default)]
pub struct DecisionQuery {
    /// Earliest time.
    pub since: Option<Moment>,
    /// Time before which all of them are.
    pub until: Option<Moment>,
    /// The origin (`https://example.com`), or the host whatever the scheme and port.
    pub origin: Option<String>,
    /// A pattern as in robots.txt that the path matches.
    pub path: Option<String>,
    /// The client: its address (without the port) or its name.
    pub client: Option<String>,
    /// A product token in the crawler's chain, whatever the case.
    pub agent: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The text of the rule, as its file has it: `Disallow: /private`.
    pub rule: Option<String>,
    /// The verdict.
    pub verdict: Option<String>,
    /// The mode.
    pub mode: Option<String>,
    /// The outcome of a denial, enforced or not: one of [`Outcome::DENIALS`].
    pub denial: Option<Outcome>,
    /// True for requests that crawlgate let through and that failed after that, false for the others.
    pub failed: Option<bool>,
    /// True for acknowledged decisions, false for the others.
    pub acknowledged: Option<bool>,
    /// Decisions after this place in the order; the last `seq` of a page leads to the next.
    pub after: Option<u64>,
    /// First place in the order that a search may visit.
    pub from: Option<u64>,
    /// Last place in the order that a search may visit.
    pub to: Option<u64>,
    /// True for an order from the newest to the oldest.
    pub newest_first: bool,
    /// Maximum number of decisions.
    pub limit: usize,
}

/// A stored decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDecision {
    /// Its place in the order of writing, from 1, without gaps.
    pub seq: u64,
    /// Its time, by which queries find it.
    pub time: Moment,
    /// The entry, octet for octet as it was written.
    pub entry: Vec<u8>,
    /// The objects that the line needs, as far as they are kept.
    pub bodies: Bodies,
    /// The line of the entry, without its line feed.
    pub record: String,
    /// The person who has seen the decision, and their note.
    pub acknowledged: Option<Acknowledgement>,
}

/// Objects with their digests.
pub type Bodies = Vec<(Sha256, Arc<[u8]>)>;

impl StoredDecision {
    /// Reads the entry with its objects.
    ///
    /// # Errors
    /// When the entry is no decision.
    pub fn told(&self) -> Result<Told<'_>, Untold> {
        Told::read(&self.entry, &self.bodies)
    }
}

/// Entries that a store has appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// The line of an entry that the store has made, without its line feed.
    Event(Box<str>),
    /// The entries of a batch.
    Batch,
}

/// The entries of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The index of the first entry that is kept.
    pub first: u64,
    /// Number of entries that the log has ever taken.
    pub size: u64,
}

/// The root of a bundle or a segment of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredRoot {
    /// The index of its first entry.
    pub first: u64,
    /// Number of its entries.
    pub count: u64,
    /// The root.
    pub root: Sha256,
}

/// A person's note of having seen a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Time of the note.
    pub time: Moment,
    /// The person.
    pub by: String,
    /// The person's remark.
    pub note: String,
}

/// A decision to acknowledge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// The decision's place in the order of writing.
    pub seq: u64,
    /// The acknowledgement that the new one replaces; `None` if there may be none.
    pub replaces: Option<Acknowledgement>,
}

impl Review {
    /// Returns the review of a decision as it was read: it replaces the acknowledgement that the reader saw.
    #[must_use]
    pub fn of(decision: &StoredDecision) -> Self {
        Self { seq: decision.seq, replaces: decision.acknowledged.clone() }
    }

    /// Returns the first review of a decision: it replaces nothing.
    #[must_use]
    pub fn first(seq: u64) -> Self {
        Self { seq, replaces: None }
    }
}

/// The result of a [`Review`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reviewed {
    /// The decision is acknowledged.
    Done,
    /// Nothing is changed: the decision has this acknowledgement instead of the one to be replaced.
    Differs(Option<Acknowledgement>),
    /// The store does not have the decision: retention has dropped it.
    Unknown,
}

/// The overrides that a fleet has in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetOverrides {
    /// Those that were added, whether they are removed or not.
    pub added: Vec<Override>,
    /// Those that are removed.
    pub removed: Vec<Removed>,
}

/// A removed override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The override.
    pub asserted: Override,
    /// Time of the removal.
    pub time: Moment,
    /// The person who removed it.
    pub by: String,
}

/// The trait by which decisions are grouped and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupBy {
    /// Origin.
    Origin,
    /// Reason code.
    Reason,
    /// Origin and rule.
    Rule,
}

/// A counted group of decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCount {
    /// The common trait: the origin, the reason, or the origin and the rule.
    pub key: Vec<String>,
    /// Number of decisions.
    pub count: u64,
    /// Time of the first decision.
    pub first: Moment,
    /// Time of the last decision.
    pub last: Moment,
}

/// The count of one hour's decisions with the same mode, verdict and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hourly<T = String> {
    /// Start of the hour.
    pub hour: Moment,
    /// Mode.
    pub mode: T,
    /// Verdict.
    pub verdict: T,
    /// Reason code.
    pub reason: T,
    /// Number of decisions.
    pub count: u64,
}

impl Hourly {
    /// Tells whether `other` counts the same kind of decision.
    pub(super) fn is_kind(&self, other: &Hourly<&str>) -> bool {
        self.hour == other.hour
            && self.reason == other.reason
            && self.verdict == other.verdict
            && self.mode == other.mode
    }
}

/// Returns the count of an entry for its hour; `None` unless it stands for decisions.
pub(super) fn hourly<'e>(entry: &Outline<'e>) -> Option<Hourly<&'e str>> {
    let Counted { mode, verdict, reason, count } = entry.counted?;
    let time = entry.time;
    let hour = u64::try_from(HOUR.as_millis()).unwrap_or(1);
    Some(Hourly {
        hour: Moment::from_millis(time - time % hour),
        mode: mode.as_str(),
        verdict: verdict.as_str(),
        reason,
        count,
    })
}
