//! Data that outlives the process: the state of each origin, every robots.txt that was ever fetched, the decisions with
//! the proof of them, and the overrides and acknowledgements that people have added.
//!
//! The rest of crawlgate sees a [`Store`]. The trait knows no SQL, every call may wait, and writes come in batches: an
//! engine shared by many gates fits behind it as well as the embedded one ([`sqlite`]) and the one for tests
//! (`in_memory`).
//!
//! A [`Batch`] is written as a whole or not at all, its origin updates before its records, so the store keeps no record
//! without the robots.txt behind it.
//!
//! Records are chained: the hash of each record covers its predecessor's hash and its own text ([`chain`]). At
//! intervals a key outside the store signs the head of the chain. A walk along the chain finds every later change or
//! removal.

pub mod chain;
mod changes;
mod error;
mod filter;
#[cfg(test)]
pub(crate) mod in_memory;
mod maintenance;
pub mod persist;
pub mod sqlite;

use self::error::failed;
pub use self::error::{StoreError, StoreErrorKind};
pub(crate) use self::filter::Filter;
pub use self::maintenance::keep;

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::client::ClientKey;
use crate::clock::Moment;
use crate::config::Config;
use crate::policy::Reason;
use crate::policy::overrides::Override;
use crate::rep::Origin;
use crate::robots::access::Absence;
use crate::robots::identity::Identity;
use crate::robots::state::{Fresh, Outage, State};

/// The event of a line that tells of many refusals at once.
pub(crate) const REFUSALS_REPEATED: &str = "refusals_repeated";

/// Fetches kept per origin and identity; newer ones replace older ones.
pub const FETCHES_KEPT: usize = 32;

/// The span over which decisions are counted.
pub const HOUR: Duration = Duration::from_secs(3_600);

/// A SHA-256.
pub type Sha256 = [u8; 32];

/// The future of a store's answer.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// An engine that keeps data beyond the process.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Writes all of a batch or nothing of it: origin updates first, then records in their order, each linked to the
    /// chain. A killed process loses nothing of the batch once this call has resolved.
    fn write(&self, batch: Batch) -> Pending<'_, ()>;

    /// Returns the states of an origin, one for each identity, that of `*` first.
    fn origin(&self, origin: &Origin) -> Pending<'_, Vec<OriginMemory>>;

    /// Returns a page of states, ordered by origin and identity: those after `query.after`.
    fn origins(&self, query: OriginQuery) -> Pending<'_, Vec<OriginMemory>>;

    /// Returns the latest fetches of an origin's robots.txt, of all identities, newest first.
    fn fetches(&self, origin: &Origin, limit: usize) -> Pending<'_, Vec<Fetch>>;

    /// Drops the states and the fetches of an origin: of one identity, or of all. Snapshots and decisions stay. Tells
    /// whether the store knew any.
    fn forget(&self, origin: &Origin, identity: Option<&Identity>) -> Pending<'_, bool>;

    /// Returns the text of a robots.txt that was once in force.
    fn snapshot(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>>;

    /// Returns the settings of a decision, by the digest in its record.
    fn policy(&self, digest: &str) -> Pending<'_, Option<String>>;

    /// Returns a page of decisions.
    fn decisions(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>>;

    /// Returns one decision.
    fn decision(&self, id: &str) -> Pending<'_, Option<StoredDecision>>;

    /// Counts decisions by `key`, most frequent first, at most `limit` groups.
    fn tally(&self, query: DecisionQuery, key: TallyKey, limit: usize) -> Pending<'_, Vec<Tally>>;

    /// Counts the decisions of each hour by mode, verdict and reason, in this order. The first hour contains `since`,
    /// the last one begins before `until`. Hours without a decision left after retention are gone.
    fn hours(&self, since: Moment, until: Moment) -> Pending<'_, Vec<Hourly>>;

    /// Records that a person has seen a decision. False if there is no such decision.
    fn acknowledge(&self, id: &str, note: Acknowledgement) -> Pending<'_, bool>;

    /// Returns at most `limit` links of the chain after the record `after`, with the records that they cover.
    fn links(&self, after: u64, limit: usize) -> Pending<'_, Vec<StoredDecision>>;

    /// Returns the seals, oldest first.
    fn seals(&self) -> Pending<'_, Vec<chain::Seal>>;

    /// Returns the gaps of the chain that touch the records `from` to `to`, in order.
    fn gaps(&self, from: u64, to: u64) -> Pending<'_, Vec<chain::Gap>>;

    /// Tells whether retention has dropped the text of a robots.txt, or refused it, to make room.
    fn is_dropped(&self, sha256: Sha256) -> Pending<'_, bool>;

    /// Seals the chain at its present head unless a seal for it exists.
    fn seal(&self, key: Arc<chain::SealingKey>, now: Moment) -> Pending<'_, Option<chain::Seal>>;

    /// Returns the overrides that were added and not removed, those that have expired included.
    fn overrides(&self) -> Pending<'_, Vec<Override>>;

    /// Returns the overrides that were removed, in the order of their numbers.
    fn removed_overrides(&self) -> Pending<'_, Vec<Removed>>;

    /// Adds an override (its `id` is ignored) and returns its new number.
    fn add_override(&self, new: Override) -> Pending<'_, u64>;

    /// Takes an override out of force and keeps it as removed. False if there is none of this number.
    fn remove_override(&self, number: u64, by: String, now: Moment) -> Pending<'_, bool>;

    /// Returns the version of the overrides. Each change of theirs makes another.
    fn version(&self) -> Pending<'_, u64>;

    /// Waits until the overrides are no longer those of the version `seen`, and returns the present version. A write
    /// through this store ends the wait at once, one by another process within a second.
    fn changes(&self, seen: u64) -> Pending<'_, u64>;

    /// Drops a part of the data that is older or larger than `retention` allows, in one small step that delays other
    /// writers only briefly. Later writes make their own room within `retention`.
    ///
    /// Decisions make room for newer decisions alone: the states of origins have a room of their own. The client that
    /// takes most room loses its oldest decisions first.
    fn prune(
        &self,
        retention: Retention,
        key: Arc<chain::SealingKey>,
        now: Moment,
    ) -> Pending<'_, Pruned>;

    /// Returns how much the store keeps.
    fn size(&self) -> Pending<'_, Size>;
}

/// Data written at once.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Updates of origins, in order.
    pub landings: Vec<OriginUpdate>,
    /// Settings that records of this batch name for the first time: digest and text.
    pub policies: Vec<(Arc<str>, Arc<str>)>,
    /// Records as lines, each a JSON object and a line feed, as [`crate::audit::Record::write_line`] writes them.
    pub lines: Vec<u8>,
    /// A summary of each line, in their order, by the writer of the lines. If their numbers differ, the store reads the
    /// lines.
    pub notes: Vec<RecordSummary>,
}

/// The facts by which the store files a record, known without reading the record again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSummary {
    /// Time of the record.
    pub time: Moment,
    /// The party that pays for the room of the record.
    pub party: Party,
    /// The kind of decision that its hour counts; `None` for a line that counts no decision.
    pub kind: Option<DecisionKind>,
    /// Number of decisions that the record covers.
    pub count: u64,
    /// Digest of the robots.txt behind the decision.
    pub sha256: Option<Sha256>,
}

/// A party that takes room with its records. Each has a share that others cannot take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Party {
    /// A client, or an address without one.
    Client(ClientKey),
    /// All requests without an identified client, together: their number has no bound.
    Strangers,
    /// crawlgate itself, for lines about its own work.
    Own,
}

impl Party {
    /// Returns the party of a decision for this reason, on a request from `address`, by the named client if there is
    /// one.
    #[must_use]
    pub fn of(name: Option<&str>, address: IpAddr, reason: &str) -> Party {
        if is_strange(reason) {
            return Party::Strangers;
        }
        Party::Client(match name {
            Some(name) => ClientKey::Named(name.into()),
            None => ClientKey::at(address),
        })
    }
}

/// Tells whether a decision for this reason is on a request without an identified client.
pub(crate) fn is_strange(reason: &str) -> bool {
    let strange = [Reason::Unauthenticated, Reason::UnknownClient];
    strange.iter().any(|strange| strange.as_str() == reason)
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(ClientKey::Named(name)) => write!(f, "client {name}"),
            Self::Client(ClientKey::At(address)) => write!(f, "address {address}"),
            Self::Strangers => f.write_str("unknown clients"),
            Self::Own => f.write_str("crawlgate"),
        }
    }
}

/// The traits by which hours count decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionKind {
    /// `enforce` or `report`.
    pub mode: &'static str,
    /// `allow`, `deny` or `defer`.
    pub verdict: &'static str,
    /// The reason code.
    pub reason: &'static str,
}

/// An ended fetch of robots.txt, with the new state of its identity.
#[derive(Debug, Clone)]
pub struct OriginUpdate {
    /// The origin.
    pub origin: Origin,
    /// The new state, for the identity of the fetch. A new snapshot in it is kept, too.
    pub state: Arc<State>,
    /// The User-Agent of the fetch behind the state.
    pub user_agent: Arc<str>,
    /// The fetch.
    pub fetch: Fetch,
}

/// One fetch of a robots.txt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// The identity of the fetch.
    pub identity: Identity,
    /// The User-Agent that received the answer in force.
    pub user_agent: String,
    /// The answer to the other User-Agent, if the fetch compared two.
    pub other: Option<OtherAnswer>,
    /// Time of the end.
    pub time: Moment,
    /// Duration of the fetch.
    pub duration: Duration,
    /// The outcome: `successful`, `unavailable` or `unreachable`.
    pub result: String,
    /// Cause of an outcome other than `successful`.
    pub cause: Option<String>,
    /// The final answer's status; `None` without an answer.
    pub status: Option<u16>,
    /// The requested URLs, first to last.
    pub hops: Vec<String>,
    /// The body's digest, if the body was read.
    pub sha256: Option<Sha256>,
    /// Relevant fields of the final answer: content-type, cache-control, etag, last-modified, date, …
    pub fields: Vec<(String, String)>,
}

/// An answer to a second User-Agent, fetched for comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherAnswer {
    /// The User-Agent that received it.
    pub user_agent: String,
    /// The outcome in one word: the code of an absence or of a cause, or `successful`.
    pub code: String,
}

/// The stored state of an origin, for one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginMemory {
    /// The origin.
    pub origin: Origin,
    /// The identity of the state.
    pub identity: Identity,
    /// The User-Agent of the fetch behind the state.
    pub user_agent: String,
    /// The state.
    pub state: StoredState,
    /// Time when the state was written.
    pub updated: Moment,
}

/// A stored [`State`]: the file by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredState {
    /// See [`State::Successful`].
    Successful {
        /// The file.
        copy: SnapshotMeta,
        /// Time for which the file may be used.
        fresh: Fresh,
        /// Failures since the fetch.
        outage: Option<Outage>,
    },
    /// See [`State::Unavailable`].
    Unavailable {
        /// The reason why the origin counts as having no robots.txt.
        why: Absence,
        /// Time of the fetch that found none.
        fetched: Moment,
        /// Time for which this result may be used.
        fresh: Fresh,
        /// Failures since the fetch.
        outage: Option<Outage>,
    },
    /// See [`State::Unreachable`].
    Unreachable {
        /// The failures.
        outage: Outage,
        /// The last file that was fetched.
        last_good: Option<SnapshotMeta>,
    },
}

/// A fetched robots.txt, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// Digest of the text in force.
    pub sha256: Sha256,
    /// Time of the end of the fetch.
    pub fetched: Moment,
    /// Status of the final answer.
    pub status: u16,
    /// The URL of the file, after redirects.
    pub final_url: String,
    /// Octets of the text in force.
    pub bytes: u64,
    /// True if the file was larger than the size limit.
    pub truncated: bool,
}

/// A query for states of origins.
#[derive(Debug, Clone, Default)]
pub struct OriginQuery {
    /// States after this place, as [`OriginMemory::place`] gives it; an origin alone is the place of its last identity.
    pub after: Option<String>,
    /// Part of the origins' names.
    pub containing: Option<String>,
    /// The state: `successful`, `unavailable` or `unreachable`.
    pub state: Option<String>,
    /// Maximum number of states.
    pub limit: usize,
}

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
    /// The indexed time: its record's, unless the file was altered.
    pub time: Moment,
    /// The record: a JSON object, octet for octet as it was written, without its line feed.
    pub record: String,
    /// The link in the chain.
    pub hash: Sha256,
    /// The person who has seen the decision, and their note.
    pub acknowledged: Option<Acknowledgement>,
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
pub enum TallyKey {
    /// Origin.
    Origin,
    /// Reason code.
    Reason,
    /// Origin and rule.
    Rule,
}

/// A counted group of decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
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
    fn is_kind(&self, other: &Hourly<&str>) -> bool {
        self.hour == other.hour
            && self.reason == other.reason
            && self.verdict == other.verdict
            && self.mode == other.mode
    }
}

/// Limits of time and size for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Time for which decisions, and snapshots without references, are kept; `None`: for ever.
    pub keep: Option<Duration>,
    /// Octets of the store on disk. Without room for new decisions, the client that takes most loses its oldest ones;
    /// `None`: no bound.
    pub max_size: Option<u64>,
}

/// The amount of data that one step of [`Store::prune`] has dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Decisions.
    pub decisions: u64,
    /// Of these, decisions younger than [`Retention::keep`], dropped for lack of room.
    pub early: u64,
    /// The party of the last of those.
    pub of: Option<String>,
    /// Snapshots.
    pub snapshots: u64,
    /// Origins, and texts of theirs, dropped for lack of room.
    pub origins: u64,
    /// True if there is more to drop.
    pub more: bool,
    /// Octets of the engine's log if a reader keeps it larger than its part of the room; else 0.
    pub long_log: u64,
}

impl Pruned {
    /// Adds the amounts of another step.
    pub fn add(&mut self, other: Pruned) {
        let Pruned {
            decisions,
            early,
            of,
            snapshots,
            origins,
            more,
            long_log,
        } = other;
        self.decisions += decisions;
        self.early += early;
        self.of = of.or_else(|| self.of.take());
        self.snapshots += snapshots;
        self.origins += origins;
        self.more |= more;
        self.long_log = self.long_log.max(long_log);
    }
}

/// The size of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Octets on disk.
    pub bytes: u64,
    /// States of origins, each of one identity.
    pub origins: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Decisions.
    pub decisions: u64,
}

/// The purpose of opening a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads only: the store must exist and stays unchanged.
    Read,
    /// Reads and writes: a missing store is created.
    Write,
}

/// Opens the store that the configuration names.
///
/// # Errors
/// When the configuration names none, or the store cannot be opened; the message names the file and the way out.
pub fn open(config: &Config, access: Access) -> Result<Arc<dyn Store>, StoreError> {
    let path = named(config)?;
    let store = sqlite::Sqlite::open(path, access, config.store.synchronous)?;
    if access == Access::Write {
        // The key is made together with the store: later, an empty store beside a key was emptied by others.
        sealing_key(config)?;
    }
    Ok(Arc::new(store))
}

/// Returns the sealing key of the configured store, and creates it if there is none.
///
/// # Errors
/// When no store is configured, or the key can neither be read nor made.
pub fn sealing_key(config: &Config) -> Result<Arc<chain::SealingKey>, StoreError> {
    let key = chain::SealingKey::load_or_create(&chain::key_file(named(config)?))?;
    Ok(Arc::new(key))
}

pub(crate) fn named(config: &Config) -> Result<&Path, StoreError> {
    config.store.path.as_deref().ok_or_else(|| StoreError {
        kind: StoreErrorKind::Missing,
        message: "there is no store: [store] path is \"\"; name a file there".to_owned(),
    })
}

impl OriginMemory {
    /// Returns the place in the order of origins and identities.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{} {}", self.origin, self.identity)
    }
}

/// Splits a place into origin and identity. For an origin alone, all its identities come before the place.
fn place(after: &str) -> (&str, &str) {
    after.split_once(' ').unwrap_or((after, "\u{7f}"))
}

impl StoredState {
    /// Returns the state's name, as [`State::name`] has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Successful { .. } => "successful",
            Self::Unavailable { .. } => "unavailable",
            Self::Unreachable { .. } => "unreachable",
        }
    }
}

#[cfg(test)]
mod tests;
