//! Lets other commands reach the running process: a Unix socket, one line of JSON for a request, one for its answer.
//!
//! Every command may open the store, so most commands read and write the store directly and need no process. The socket
//! is for work that only the process can do: fetch an origin's robots.txt now, drop an origin's state from memory, take
//! over changed overrides at once, write the records that it holds.
//!
//! Only the process's own user and root may send requests. The kernel vouches for the user at both ends
//! (`SO_PEERCRED`), so a command does not believe another user's socket at that path, either. The socket's mode, 0600,
//! only says the same earlier.
//!
//! People and programs elsewhere use HTTP: see [`http`]. Both sides read requests with [`query`] and answer in the
//! shapes of [`view`].
//!
//! No client can hold the socket up: requests are short and have a deadline, an answer that the client does not read is
//! given up, and the number of open requests is bounded. The process listens in a task of its own, and a failure here
//! never touches a proxied request.

mod client;
pub mod http;
pub mod query;
mod reach;
mod run_socket;
mod server;
pub mod view;

use serde::{Deserialize, Serialize};

pub use self::client::{AskError, ask};
pub use self::http::health::Readiness;
pub use self::reach::{LateMember, Reach};
pub use self::run_socket::run_sockets;
pub(crate) use self::server::claim;
pub use self::server::{BindError, Service, Socket};
use crate::ship;
use crate::witness;
use crawlgate_text::time_text;
use crawlgate_turns::fleet::overview::FleetView;

/// Octets of a request, its line feed included: a URL is the longest content.
const LONGEST_REQUEST: u64 = 8 * 1024;

/// Octets of an answer: a fleet has some hundreds of octets for each of its members.
const LONGEST_ANSWER: u64 = 1024 * 1024;

/// A request to the running process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Fetch the robots.txt of this origin now, even if the stored state is fresh.
    Refresh {
        /// The origin, as a URL.
        origin: String,
        /// The identity to fetch as; none: every identity with a stored state.
        #[serde(default)]
        identity: Option<String>,
    },
    /// Drop the state of this origin, in memory and in the store.
    Forget {
        /// The origin, as a URL.
        origin: String,
        /// The identity to drop; none: all.
        #[serde(default)]
        identity: Option<String>,
    },
    /// Return the pace of this origin.
    Pace {
        /// The origin, as a URL.
        origin: String,
    },
    /// The overrides in the store have changed.
    OverridesChanged,
    /// Add an override, here and at all instances of the fleet.
    AddOverride(NewOverride),
    /// Take an override out of force, here and at all instances of the fleet.
    RemoveOverride {
        /// The identifier.
        id: String,
        /// The person who removes it.
        by: String,
    },
    /// Return the status of the process.
    Status,
    /// Tell whether the process is ready for requests.
    Ready,
    /// Return how this process's fleet is, as it sees it.
    Fleet,
    /// Write the records made so far into the store: the command reads it next.
    Flush,
    /// The same, with the counts so far of requests that have no record of their own.
    FlushCounts,
}

/// An override to add, as people write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewOverride {
    /// The origin.
    pub origin: String,
    /// The paths: a pattern as in robots.txt; none: all.
    pub pattern: Option<String>,
    /// The name of its action.
    pub action: String,
    /// The end: a day, a time or a span.
    pub until: String,
    /// The person who answers for it.
    pub by: String,
    /// The reason.
    pub reason: String,
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The fetches have ended, and the store has their results.
    Refreshed {
        /// The result for each identity, that of `*` first.
        states: Vec<RefreshedState>,
    },
    /// The state is dropped.
    Forgotten {
        /// True if there was a state.
        was_known: bool,
    },
    /// The pace of an origin, including its crawl delay; no interval if the origin has no limit.
    Pace {
        /// The least time from one request to the next, in milliseconds.
        interval_ms: Option<u64>,
        /// The setting or answer that sets the interval, such as `own` or `backoff`.
        source: Option<String>,
    },
    /// The process will read the overrides.
    Noted,
    /// The override is in force here.
    OverrideAdded {
        /// Its identifier.
        id: String,
        /// Its way in the fleet; none outside a fleet.
        reach: Option<Reach>,
    },
    /// The override is out of force here.
    OverrideRemoved {
        /// True if it was in force.
        was_there: bool,
        /// The way of the removal in the fleet; none outside a fleet.
        reach: Option<Reach>,
    },
    /// The status.
    Status(Status),
    /// The checks of the readiness.
    Readiness(Readiness),
    /// The fleet.
    Fleet(Box<FleetView>),
    /// The store has the records.
    Flushed,
    /// The request failed.
    Failed {
        /// The reason.
        error: String,
    },
}

/// The result of fetching a robots.txt for one identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefreshedState {
    /// The identity: a product token, or `*`.
    pub identity: String,
    /// The state now: `successful`, `unavailable` or `unreachable`.
    pub state: String,
    /// The reason to treat the origin as one without robots.txt, if it is.
    pub absence: Option<String>,
    /// The reason why the fetch failed, if it did; an earlier copy holds for as long as its state allows.
    pub failure: Option<String>,
}

/// The status of a running process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Status {
    /// The version of the process.
    pub version: String,
    /// The process identifier.
    pub pid: u32,
    /// When it started, RFC 3339.
    pub started: String,
    /// The mode: `enforce` or `report`.
    pub mode: String,
    /// Origins in memory.
    pub origins: usize,
    /// Octets of these origins in memory, roughly.
    pub bytes: usize,
    /// The witnesses of the decision log.
    pub witnesses: Vec<WitnessReport>,
    /// The number of witnesses that a witnessed checkpoint has (`[audit] quorum`); null without witnesses.
    pub quorum: Option<usize>,
    /// Records in the newest witnessed checkpoint.
    pub witnessed_size: Option<u64>,
    /// The time by which it was witnessed, by the clocks of the witnesses, RFC 3339.
    pub witnessed_at: Option<String>,
    /// The place that has the decision log, too (`[ship] to`); null without. Boxed: few processes have it.
    pub ship: Option<Box<ShipReport>>,
}

/// The state of shipping the decision log to another place (`[ship]`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShipReport {
    /// The place.
    pub to: String,
    /// Records that it has, with a checkpoint over them.
    pub shipped_size: u64,
    /// The time of that checkpoint, RFC 3339; null without one.
    pub shipped_at: Option<String>,
    /// Signed records that it does not have.
    pub pending: u64,
    /// Age of the first checkpoint that it does not have, in seconds; 0 if it has all.
    pub behind_s: u64,
    /// Records that were damaged before they were shipped, since the process started: the place has the statement of a gap
    /// instead.
    pub missing: u64,
    /// The time at which a pass came to its end, RFC 3339; null before the first one of this process.
    pub passed_at: Option<String>,
    /// The reason why the log cannot be shipped at present.
    pub failure: Option<String>,
    /// The last reason of this process, also of a failure that is over.
    pub last_failure: Option<String>,
    /// The time of that failure, RFC 3339.
    pub last_failure_at: Option<String>,
}

impl From<ship::Status> for ShipReport {
    fn from(status: ship::Status) -> Self {
        Self {
            to: status.to,
            shipped_size: status.shipped,
            shipped_at: status.shipped_at.map(time_text),
            pending: status.behind,
            behind_s: status.behind_for.as_secs(),
            missing: status.missing,
            passed_at: status.passed_at.map(time_text),
            failure: status.failure,
            last_failure_at: status.last_failure.as_ref().map(|(at, _)| time_text(*at)),
            last_failure: status.last_failure.map(|(_, why)| why),
        }
    }
}

/// The state of a witness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WitnessReport {
    /// The name in the configuration.
    pub name: String,
    /// The URL.
    pub url: String,
    /// The public key.
    pub vkey: String,
    /// Records in the newest checkpoint that the witness has cosigned.
    pub cosigned_size: Option<u64>,
    /// The time of that cosignature by the clock of the witness, RFC 3339.
    pub cosigned_at: Option<String>,
    /// True while the newest checkpoint lacks its cosignature.
    pub pending: bool,
    /// Records in a checkpoint that the witness knows and the store does not have. No checkpoint is signed then.
    pub ahead: Option<u64>,
    /// The reason why the last answer was no cosignature.
    pub failure: Option<String>,
}

impl From<witness::Status> for WitnessReport {
    fn from(status: witness::Status) -> Self {
        Self {
            name: status.name,
            url: status.url,
            vkey: status.vkey,
            cosigned_size: status.cosigned.map(|(size, _)| size),
            cosigned_at: status.cosigned.map(|(_, time)| time_text(time)),
            pending: status.is_pending,
            ahead: status.ahead,
            failure: status.failure,
        }
    }
}

#[cfg(test)]
mod tests;
