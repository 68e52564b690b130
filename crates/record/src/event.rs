//! The entries of all events but decisions.

mod read;
mod rows;
mod write;

use std::net::IpAddr;

pub use self::rows::{Row, RowClient, Rows};
use super::Digest;
use super::decision::{Mode, Verdict, time_of};
use super::value::{Text, Texts};
use crawlgate_text::named;

/// An event of the log that is no decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event<'a> {
    /// The identifier. Its first 48 bits are the time, in milliseconds since the epoch.
    pub id: [u8; 16],
    /// The event.
    pub kind: EventKind<'a>,
}

/// The kinds of events. Times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EventKind<'a> {
    /// Records were lost: for lack of room before they were written, or from the store.
    Lost {
        /// Number of records.
        count: u64,
        /// Time of the first record lost.
        first: u64,
        /// Time of the last record lost.
        last: u64,
        /// Number of entries that the log had once, where entries of it are missing.
        size: Option<u64>,
    },
    /// A process began to record.
    Started(Process<'a>),
    /// A process recorded its last entry.
    Stopped(Process<'a>),
    /// Settings came into force, at the start or by a reload.
    Settings(Settings<'a>),
    /// An override was added.
    OverrideAdded {
        /// SHA-256 of the override.
        overridden: &'a Digest,
    },
    /// An override was removed.
    OverrideRemoved {
        /// SHA-256 of the override.
        overridden: &'a Digest,
        /// The person who removed it.
        by: Text<'a>,
    },
    /// A person has seen a decision.
    Acknowledged {
        /// The index of the decision's entry.
        index: u64,
        /// The person.
        by: Text<'a>,
        /// The person's remark.
        note: Text<'a>,
    },
    /// Retention dropped entries.
    Dropped {
        /// The first index that was not dropped.
        index: u64,
        /// The cause.
        cause: DropCause,
    },
    /// A new key signs the log from now on. Keys are written as vkeys (c2sp.org/signed-note).
    KeyRotated {
        /// The key that signed before.
        old: &'a str,
        /// The key that signs from now on.
        new: &'a str,
        /// The person who replaced it.
        by: Text<'a>,
        /// The person's reason.
        reason: Text<'a>,
    },
    /// The log continues where another one ended.
    Forked {
        /// The name of the other log.
        log: &'a str,
        /// Number of its entries.
        size: u64,
        /// The root of its tree.
        root: &'a Digest,
        /// The person's reason.
        reason: Text<'a>,
    },
    /// Requests were forwarded without a record of their own.
    Forwarded {
        /// Number of requests.
        count: u64,
        /// Time of the first.
        first: u64,
        /// Time of the last.
        last: u64,
        /// Their numbers by client, as far as there is room.
        rows: Rows<'a>,
    },
    /// Refusals with the same client and reason were counted instead of recorded one by one.
    Repeated(Repeated<'a>),
    /// A request was refused because its record could not be written in time; the record says otherwise.
    AnsweredLogFailed {
        /// The identifier of that record.
        decision: [u8; 16],
    },
}

/// A process that records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process<'a> {
    /// The number in the last 48 bits of its identifiers.
    pub number: u64,
    /// The version of crawlgate.
    pub release: &'a str,
    /// SHA-256 of the configuration.
    pub configuration: &'a Digest,
}

/// Settings that came into force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings<'a> {
    /// SHA-256 of the settings that verdicts follow from.
    pub policy: &'a Digest,
    /// The mode.
    pub mode: Mode,
    /// Origins in report mode.
    pub report_origins: Texts<'a>,
    /// Clients in report mode.
    pub report_clients: Texts<'a>,
    /// The name of each client that is exempt from what robots.txt disallows, and the operator's reason.
    pub exempt_clients: Texts<'a>,
}

/// Refusals that were counted. Times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeated<'a> {
    /// The mode.
    pub mode: Mode,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason code.
    pub reason: &'a str,
    /// The client's address, without a port; `0.0.0.0` if the client has a name, or is one of many.
    pub client: IpAddr,
    /// The client's name.
    pub client_name: Option<Text<'a>>,
    /// Number of refusals.
    pub count: u64,
    /// Time of the first.
    pub first: u64,
    /// Time of the last.
    pub last: u64,
}

named! {
    /// The cause of dropping entries.
    DropCause {
        /// Their age.
        #[default]
        Keep = 0 "keep",
        /// The room that they took.
        Size = 1 "size",
    }
}

/// Rows, or texts of a list, in one entry.
const MAX_ROWS: usize = 1_000;

impl EventKind<'_> {
    /// Returns the number of the kind in entries.
    #[must_use]
    pub fn number(&self) -> u64 {
        match self {
            Self::Lost { .. } => 1,
            Self::Started(_) => 2,
            Self::Stopped(_) => 3,
            Self::Settings(_) => 4,
            Self::OverrideAdded { .. } => 5,
            Self::OverrideRemoved { .. } => 6,
            Self::Acknowledged { .. } => 7,
            Self::Dropped { .. } => 8,
            Self::KeyRotated { .. } => 9,
            Self::Forked { .. } => 10,
            Self::Forwarded { .. } => 11,
            Self::Repeated(_) => 12,
            Self::AnsweredLogFailed { .. } => 13,
        }
    }

    /// Returns the name of the kind in lines.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Lost { .. } => "records_lost",
            Self::Started(_) => "started",
            Self::Stopped(_) => "stopped",
            Self::Settings(_) => "settings",
            Self::OverrideAdded { .. } => "override_added",
            Self::OverrideRemoved { .. } => "override_removed",
            Self::Acknowledged { .. } => "acknowledged",
            Self::Dropped { .. } => "dropped",
            Self::KeyRotated { .. } => "key_rotated",
            Self::Forked { .. } => "forked",
            Self::Forwarded { .. } => "forwarded",
            Self::Repeated(_) => "refusals_repeated",
            Self::AnsweredLogFailed { .. } => "answered_log_failed",
        }
    }
}

impl Event<'_> {
    /// Returns the time, in milliseconds since the epoch.
    #[must_use]
    pub fn time(&self) -> u64 {
        time_of(&self.id)
    }
}
