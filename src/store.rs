//! What outlives the process: what is known of each origin, every robots.txt that was ever fetched, the
//! decisions and the proof of them, and what people have said about both.
//!
//! [`Store`] is what the rest of crawlgate sees. It knows no SQL, every call may wait, and writing is by batches:
//! so that an engine shared by many gates can stand behind it as well as the embedded one ([`sqlite`]) and the one
//! for tests ([`memory`]).
//!
//! What is written together is kept together: a [`Batch`] goes in as a whole or not at all, its landings before its
//! records, so no record is ever kept without the robots.txt that it rests on.
//!
//! Records are chained: each is kept with the hash of its predecessor's hash and its own text ([`chain`]). At
//! intervals the head of the chain is sealed with a key that lies outside the store. What is changed or taken out
//! afterwards is found by whoever walks the chain.

pub mod chain;
mod error;
mod filter;
mod keep;
pub mod memory;
pub mod sqlite;

use self::error::failed;
pub use self::error::{StoreError, StoreErrorKind};
pub(crate) use self::filter::Filter;
pub use self::keep::keep;

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

/// Fetches kept per origin and identity; older ones go as new ones come.
pub const FETCHES_KEPT: usize = 32;

/// The span that decisions are counted by.
pub const HOUR: Duration = Duration::from_secs(3_600);

/// A SHA-256.
pub type Sha256 = [u8; 32];

/// An answer of the store, on its way.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// An engine that keeps what must outlive the process.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Keeps all of a batch, or nothing of it: landings first, then records in their order, each linked to the chain.
    /// When this resolves, a process that is killed loses nothing of it.
    fn write(&self, batch: Batch) -> Pending<'_, ()>;

    /// The states of an origin, one for each identity, that of `*` first.
    fn origin(&self, origin: &Origin) -> Pending<'_, Vec<OriginMemory>>;

    /// States of origins in the order of the origins' names and identities, by page: those after `query.after`.
    fn origins(&self, query: OriginQuery) -> Pending<'_, Vec<OriginMemory>>;

    /// The latest fetches of an origin's robots.txt, of all identities, newest first.
    fn fetches(&self, origin: &Origin, limit: usize) -> Pending<'_, Vec<Fetch>>;

    /// Drops the states and the fetches of an origin: of one identity, or of all. Snapshots and decisions stay. Tells
    /// whether anything was known.
    fn forget(&self, origin: &Origin, identity: Option<&Identity>) -> Pending<'_, bool>;

    /// The text of a robots.txt that was once in force.
    fn snapshot(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>>;

    /// The settings that a decision was made under, by the digest in its record.
    fn policy(&self, digest: &str) -> Pending<'_, Option<String>>;

    /// A page of decisions.
    fn decisions(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>>;

    /// One decision.
    fn decision(&self, id: &str) -> Pending<'_, Option<StoredDecision>>;

    /// How many decisions there are by `key`, most frequent first, at most `limit` groups.
    fn tally(&self, query: DecisionQuery, key: TallyKey, limit: usize) -> Pending<'_, Vec<Tally>>;

    /// How many decisions were written of each hour from the one that `since` is in to the last one that begins before
    /// `until`, by mode, verdict and reason, in this order. Hours of which retention has dropped everything are gone.
    fn hours(&self, since: Moment, until: Moment) -> Pending<'_, Vec<Hourly>>;

    /// Notes that a person has seen a decision. False where there is no such decision.
    fn acknowledge(&self, id: &str, note: Acknowledgement) -> Pending<'_, bool>;

    /// The links of the chain after the record `after`, at most `limit`, with the records they are made from.
    fn links(&self, after: u64, limit: usize) -> Pending<'_, Vec<StoredDecision>>;

    /// The seals, oldest first.
    fn seals(&self) -> Pending<'_, Vec<chain::Seal>>;

    /// The gaps of the chain that are not wholly before the record `from` or behind the record `to`, in order.
    fn gaps(&self, from: u64, to: u64) -> Pending<'_, Vec<chain::Gap>>;

    /// Whether the text of a robots.txt was there, or was to be, and was dropped to make room.
    fn is_dropped(&self, sha256: Sha256) -> Pending<'_, bool>;

    /// Seals the chain at its present head, where that is not sealed yet.
    fn seal(&self, key: Arc<chain::SealingKey>, now: Moment) -> Pending<'_, Option<chain::Seal>>;

    /// The overrides that were added and not removed, those that have expired included.
    fn overrides(&self) -> Pending<'_, Vec<Override>>;

    /// The overrides that were removed, in the order of their numbers.
    fn removed_overrides(&self) -> Pending<'_, Vec<Removed>>;

    /// Adds an override (its `id` is not looked at) and gives it its number.
    fn add_override(&self, new: Override) -> Pending<'_, u64>;

    /// Takes an override out of force and keeps that it was. False where there is none of this number.
    fn remove_override(&self, number: u64, by: String, now: Moment) -> Pending<'_, bool>;

    /// A number that changes whenever somebody else may have changed what this store holds: overrides are read
    /// again then.
    fn version(&self) -> Pending<'_, u64>;

    /// Drops some of what is older or more than `retention` allows, in one small step that holds nobody up for long. What
    /// is written from then on makes its own room within `retention`.
    ///
    /// Decisions go for newer decisions alone: what is known of origins has a room of its own. Of decisions, the oldest go
    /// first that are of the client that takes most.
    fn prune(
        &self,
        retention: Retention,
        key: Arc<chain::SealingKey>,
        now: Moment,
    ) -> Pending<'_, Pruned>;

    /// How much is kept.
    fn size(&self) -> Pending<'_, Size>;
}

/// What is written at once.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// What has become known of origins, in order.
    pub landings: Vec<Landing>,
    /// Settings that records of this batch name for the first time: digest and text.
    pub policies: Vec<(Arc<str>, Arc<str>)>,
    /// Records as lines, each a JSON object and a line feed, as [`crate::audit::Record::write_line`] writes them.
    pub lines: Vec<u8>,
    /// What each line says of itself, in their order, by whoever wrote them. Where they are not as many as the lines, the
    /// lines are read.
    pub notes: Vec<Note>,
}

/// What a record is put away by, known without reading it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Its time.
    pub time: Moment,
    /// Whose room it takes.
    pub party: Party,
    /// What it adds to its hour; none of a line that counts no decision.
    pub kind: Option<Kind>,
    /// How many decisions it speaks of.
    pub count: u64,
    /// Digest of the robots.txt that it rests on.
    pub sha256: Option<Sha256>,
}

/// Who takes room with a record. Each has a share that others cannot take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Party {
    /// A client, or an address without one.
    Client(ClientKey),
    /// All requests that no client answers for, together: there is no end of those that could come.
    Strangers,
    /// A line that is crawlgate's own.
    Own,
}

impl Party {
    /// The party of a decision for this reason, on a request from `address`, by the client of this name if it has one.
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

/// Whether a decision for this reason is on a request that no client answers for.
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

/// What decisions are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// `enforce` or `report`.
    pub mode: &'static str,
    /// `allow`, `deny` or `defer`.
    pub verdict: &'static str,
    /// The reason code.
    pub reason: &'static str,
}

/// A fetch of robots.txt has ended, and the state of its identity with it.
#[derive(Debug, Clone)]
pub struct Landing {
    /// Whose.
    pub origin: Origin,
    /// What it is now, for the identity of the fetch. A new snapshot in it is kept, too.
    pub state: Arc<State>,
    /// The User-Agent of the fetch that the state rests on.
    pub user_agent: Arc<str>,
    /// The fetch.
    pub fetch: Fetch,
}

/// One fetch of a robots.txt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// For which identity.
    pub identity: Identity,
    /// The User-Agent of the answer that counts.
    pub user_agent: String,
    /// The answer to another User-Agent that was asked for as well, where one was.
    pub other: Option<OtherAnswer>,
    /// When it ended.
    pub time: Moment,
    /// How long it took.
    pub duration: Duration,
    /// What it meant: `successful`, `unavailable` or `unreachable`.
    pub result: String,
    /// Why, where it was not successful.
    pub cause: Option<String>,
    /// The final answer's status; none where there was no answer.
    pub status: Option<u16>,
    /// The URLs that were asked, first to last.
    pub hops: Vec<String>,
    /// The body's digest, where it was read.
    pub sha256: Option<Sha256>,
    /// Fields of the final answer that matter: content-type, cache-control, etag, last-modified, date, …
    pub fields: Vec<(String, String)>,
}

/// An answer that was held against the one that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherAnswer {
    /// The User-Agent that got it.
    pub user_agent: String,
    /// What it was, in one word: the code of an absence or of a cause, or `successful`.
    pub code: String,
}

/// What is kept of an origin, for one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginMemory {
    /// Whose.
    pub origin: Origin,
    /// For whom.
    pub identity: Identity,
    /// The User-Agent of the fetch that the state rests on.
    pub user_agent: String,
    /// Its state.
    pub state: Remembered,
    /// When that was written.
    pub updated: Moment,
}

/// A [`State`] at rest: the file by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remembered {
    /// See [`State::Successful`].
    Successful {
        /// The file.
        copy: CopyOf,
        /// How long it may be used.
        fresh: Fresh,
        /// Failures since.
        outage: Option<Outage>,
    },
    /// See [`State::Unavailable`].
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
    /// See [`State::Unreachable`].
    Unreachable {
        /// The failures.
        outage: Outage,
        /// The last file that was fetched.
        last_good: Option<CopyOf>,
    },
}

/// A robots.txt that was fetched, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOf {
    /// Digest of the text that counts.
    pub sha256: Sha256,
    /// When the fetch ended.
    pub fetched: Moment,
    /// Status of the final answer.
    pub status: u16,
    /// Where it came from, after redirects.
    pub final_url: String,
    /// Octets of the text that counts.
    pub bytes: u64,
    /// Whether there was more than the size limit.
    pub truncated: bool,
}

/// Which origins.
#[derive(Debug, Clone, Default)]
pub struct OriginQuery {
    /// Those after this place, as [`OriginMemory::place`] gives it; an origin alone is the place of its last identity.
    pub after: Option<String>,
    /// Those whose name holds this.
    pub containing: Option<String>,
    /// Those in this state: `successful`, `unavailable` or `unreachable`.
    pub state: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// Which decisions, and in which order.
#[derive(Debug, Clone, Default)]
pub struct DecisionQuery {
    /// Not before.
    pub since: Option<Moment>,
    /// Before.
    pub until: Option<Moment>,
    /// Of this origin (`https://example.com`), or of this host whatever the scheme and port.
    pub origin: Option<String>,
    /// With a path that this matches: a pattern as in robots.txt.
    pub path: Option<String>,
    /// From this address (without its port) or of this name.
    pub client: Option<String>,
    /// By a crawler with this product token in its chain, whatever the case.
    pub agent: Option<String>,
    /// For this reason.
    pub reason: Option<String>,
    /// By the rule of this text, as its file has it: `Disallow: /private`.
    pub rule: Option<String>,
    /// With this verdict.
    pub verdict: Option<String>,
    /// In this mode.
    pub mode: Option<String>,
    /// Acknowledged, or not.
    pub acknowledged: Option<bool>,
    /// After this place in the order; the last `seq` of a page leads to the next.
    pub after: Option<u64>,
    /// Not before this place in the order, and not after that one: how far a search may go.
    pub from: Option<u64>,
    /// See `from`.
    pub to: Option<u64>,
    /// From the newest to the oldest.
    pub newest_first: bool,
    /// At most so many.
    pub limit: usize,
}

/// A decision as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDecision {
    /// Its place in the order of writing, from 1, without gaps.
    pub seq: u64,
    /// The time that it is found by: its record's, unless somebody has changed one of the two.
    pub time: Moment,
    /// The record: a JSON object, octet for octet as it was written, without its line feed.
    pub record: String,
    /// Its link in the chain.
    pub hash: Sha256,
    /// Who has seen it.
    pub acknowledged: Option<Acknowledgement>,
}

/// A person has seen a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledgement {
    /// When.
    pub time: Moment,
    /// Who.
    pub by: String,
    /// What there is to say of it.
    pub note: String,
}

/// An override that was taken out of force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// What it said.
    pub asserted: Override,
    /// When it was removed.
    pub time: Moment,
    /// Who removed it.
    pub by: String,
}

/// What decisions are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TallyKey {
    /// Origin.
    Origin,
    /// Reason code.
    Reason,
    /// Origin and rule.
    Rule,
}

/// Decisions counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// What they have in common: the origin, the reason, or the origin and the rule.
    pub key: Vec<String>,
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Moment,
    /// The last.
    pub last: Moment,
}

/// Decisions of one hour that have their mode, verdict and reason in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hourly<T = String> {
    /// When the hour began.
    pub hour: Moment,
    /// Mode.
    pub mode: T,
    /// Verdict.
    pub verdict: T,
    /// Reason code.
    pub reason: T,
    /// How many.
    pub count: u64,
}

impl Hourly {
    /// Whether `other` counts the same kind of decision.
    fn is_kind(&self, other: &Hourly<&str>) -> bool {
        self.hour == other.hour
            && self.reason == other.reason
            && self.verdict == other.verdict
            && self.mode == other.mode
    }
}

/// How long and how much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Decisions, and snapshots that nothing refers to, for so long; `None`: for ever.
    pub keep: Option<Duration>,
    /// Octets of the store on disk: its room. Where decisions have none left, the oldest go of the client that takes most;
    /// `None`: as much as comes.
    pub max_size: Option<u64>,
}

/// What one step of [`Store::prune`] has dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Decisions.
    pub decisions: u64,
    /// Of these, those that were younger than [`Retention::keep`]: there was no room for them.
    pub early: u64,
    /// Whose the last of those were.
    pub of: Option<String>,
    /// Snapshots.
    pub snapshots: u64,
    /// Origins, and texts of theirs, that had no room.
    pub origins: u64,
    /// Whether there is more to drop.
    pub more: bool,
    /// Octets of the engine's log, where a reader keeps it beyond its part of the room; else 0.
    pub long_log: u64,
}

impl Pruned {
    /// Adds what another step has dropped.
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

/// How much is kept.
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

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To look something up: it must be there, and is left as it is.
    Read,
    /// To write, too: it is made if it is not there.
    Write,
}

/// Opens the store that the configuration names.
///
/// # Errors
/// When none is named, or it cannot be opened; the message names the file and the way out.
pub fn open(config: &Config, access: Access) -> Result<Arc<dyn Store>, StoreError> {
    let path = named(config)?;
    let store = sqlite::Sqlite::open(path, access, config.store.synchronous)?;
    if access == Access::Write {
        // Made with the store: from then on a store without content is one that was emptied.
        sealing_key(config)?;
    }
    Ok(Arc::new(store))
}

/// The key that seals the records of the store that the configuration names, made if there is none.
///
/// # Errors
/// When no store is named, or the key can neither be read nor made.
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
    /// Its place in the order of origins and identities.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{} {}", self.origin, self.identity)
    }
}

/// The origin and the identity of a place. Of an origin alone, all identities come before it.
fn place(after: &str) -> (&str, &str) {
    after.split_once(' ').unwrap_or((after, "\u{7f}"))
}

impl Remembered {
    /// The state's name, as [`State::name`] has it.
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
