//! How other commands reach the running process: a Unix socket, one line of JSON to ask, one line to answer.
//!
//! The store is shared by everybody who may open it, so most commands read and write that and need nobody. This is for
//! what only the process can do: to fetch an origin's robots.txt now, to forget what it holds in memory, to look at
//! the overrides at once.
//!
//! Who may ask: the user that the process runs as, and root. The kernel vouches for that at both ends (`SO_PEERCRED`),
//! so a command does not believe a stranger who has put a socket in that place, either. The socket's own mode, 0600, only
//! says the same earlier.
//!
//! People and programs elsewhere look at it over HTTP: see [`http`]. Both ask in the words of [`query`], and are told in
//! the shapes of [`view`].
//!
//! Nobody can hold it up: questions are short and must come soon, answers are given up where nobody takes them, and
//! only so many are open at once. The process listens in a task of its own, and what fails here never touches a request.

mod client;
pub mod http;
pub mod query;
mod server;
pub mod view;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::client::{AskError, ask};
pub(crate) use self::server::claim;
pub use self::server::{BindError, Service, Socket, SocketFile};

/// Octets of a question, its line feed included: a URL is the longest that there is to say.
const LONGEST_REQUEST: u64 = 8 * 1024;

/// Octets of an answer.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// What a process can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Fetch the robots.txt of this origin now, whatever is known of it.
    Refresh {
        /// The origin, as a URL.
        origin: String,
        /// As this identity; none: as all that something is known for.
        #[serde(default)]
        identity: Option<String>,
    },
    /// Drop what is known of this origin, in memory and in the store.
    Forget {
        /// The origin, as a URL.
        origin: String,
        /// For this identity; none: for all.
        #[serde(default)]
        identity: Option<String>,
    },
    /// Tell the pace that this origin is asked in now.
    Pace {
        /// The origin, as a URL.
        origin: String,
    },
    /// The overrides in the store have changed.
    OverridesChanged,
    /// Tell how it is.
    Status,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The fetches have ended, and the store has what came of them.
    Refreshed {
        /// What each identity was answered, that of `*` first.
        states: Vec<RefreshedState>,
    },
    /// It is forgotten.
    Forgotten {
        /// Whether anything was known.
        was_known: bool,
    },
    /// The pace of an origin, whatever its robots.txt asks for; nothing where nothing bounds it.
    Pace {
        /// The least time from one request to the next, in milliseconds.
        interval_ms: Option<u64>,
        /// What makes it so, such as `own` or `backoff`.
        source: Option<String>,
    },
    /// It will be looked at.
    Noted,
    /// How it is.
    Status(Status),
    /// It cannot be done.
    Failed {
        /// Why.
        error: String,
    },
}

/// What the fetch of a robots.txt has come to, for one identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefreshedState {
    /// The identity: a product token, or `*`.
    pub identity: String,
    /// The state now: `successful`, `unavailable` or `unreachable`.
    pub state: String,
    /// Why the origin counts as one without robots.txt, if it does.
    pub absence: Option<String>,
    /// Why the fetch failed, if it did; what was known before holds for as long as its state says.
    pub failure: Option<String>,
}

/// How a running process is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Its version.
    pub version: String,
    /// Its process identifier.
    pub pid: u32,
    /// When it started, RFC 3339.
    pub started: String,
    /// `enforce` or `report`.
    pub mode: String,
    /// Origins in memory.
    pub origins: usize,
    /// Octets that they take, roughly.
    pub bytes: usize,
}

#[cfg(test)]
mod tests;
