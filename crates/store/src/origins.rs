//! The kept states and fetches of origins, and the query for them.

use std::time::Duration;

use super::Sha256;
use crawlgate_origins::access::Absence;
use crawlgate_origins::identity::Identity;
use crawlgate_origins::state::{Fresh, Outage};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;

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
pub struct StoredOrigin {
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

/// A stored [`State`](crawlgate_origins::state::State): the file by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredState {
    /// See [`State::Successful`](crawlgate_origins::state::State::Successful).
    Successful {
        /// The file.
        copy: SnapshotMeta,
        /// Time for which the file may be used.
        fresh: Fresh,
        /// Failures since the fetch.
        outage: Option<Outage>,
    },
    /// See [`State::Unavailable`](crawlgate_origins::state::State::Unavailable).
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
    /// See [`State::Unreachable`](crawlgate_origins::state::State::Unreachable).
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

/// Fetches of robots.txt in whole hours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchSums {
    /// Start of the first hour of which the store has counted fetches; `None` if it has counted none.
    pub first: Option<Moment>,
    /// The sums by result.
    pub by_result: Vec<FetchSum>,
}

/// The number of fetches with one result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchSum {
    /// The result: `successful`, `unavailable` or `unreachable`.
    pub result: String,
    /// All fetches.
    pub fetches: u64,
    /// Of these, fetches that brought the text that was known of the origin.
    pub unchanged: u64,
    /// Of these, fetches that brought another text than the one that was known.
    pub changed: u64,
    /// Of these, fetches of a text that was longer than the limit.
    pub truncated: u64,
}

/// A query for states of origins.
#[derive(Debug, Clone, Default)]
pub struct OriginQuery {
    /// States after this place, as [`StoredOrigin::place`] gives it; only an origin is the place of its last identity.
    pub after: Option<String>,
    /// Part of the origins' names.
    pub containing: Option<String>,
    /// The state: `successful`, `unavailable` or `unreachable`.
    pub state: Option<String>,
    /// Maximum number of states.
    pub limit: usize,
}

impl StoredOrigin {
    /// Returns the place in the order of origins and identities.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{} {}", self.origin, self.identity)
    }
}

/// Splits a place into origin and identity. For an origin without an identity, all its identities come before the place.
pub(super) fn place(after: &str) -> (&str, &str) {
    after.split_once(' ').unwrap_or((after, "\u{7f}"))
}

impl StoredState {
    /// Returns the state's name, as [`State::name`](crawlgate_origins::state::State::name) has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Successful { .. } => "successful",
            Self::Unavailable { .. } => "unavailable",
            Self::Unreachable { .. } => "unreachable",
        }
    }
}
