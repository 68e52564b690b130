//! The room that a store takes, its limits, and the data dropped to keep within them.

use std::time::Duration;

/// Limits of time and size for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Time for which decisions, and snapshots without references, are kept; `None`: for ever.
    pub keep: Option<Duration>,
    /// Octets of the store on disk. Without room for new decisions, the oldest ones go; `None`: no bound.
    pub max_size: Option<u64>,
}

/// The place to which the log of a store is shipped: the first octets of a digest over its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShipMark(pub [u8; 8]);

/// The amount of data that one step of [`Store::prune`](super::Store::prune) has dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Decisions.
    pub decisions: u64,
    /// Of these, decisions younger than [`Retention::keep`], dropped for lack of room.
    pub early: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Origins, and texts of theirs, dropped for lack of room.
    pub origins: u64,
    /// True if there is more to drop.
    pub more: bool,
    /// True if decisions have expired that are not shipped yet, and stay.
    pub is_held: bool,
    /// True if there is no room for new decisions, because the oldest are not shipped yet.
    pub is_full: bool,
    /// True if these wait for a checkpoint: every signed decision is shipped.
    pub waits_for_checkpoint: bool,
    /// Octets of the engine's log if a reader keeps it larger than its part of the room; else 0.
    pub long_log: u64,
}

impl Pruned {
    /// Adds the amounts of another step.
    pub fn add(&mut self, other: Pruned) {
        let Pruned {
            decisions,
            early,
            snapshots,
            origins,
            more,
            is_held,
            is_full,
            waits_for_checkpoint,
            long_log,
        } = other;
        self.decisions += decisions;
        self.early += early;
        self.snapshots += snapshots;
        self.origins += origins;
        self.more |= more;
        self.is_held |= is_held;
        self.is_full |= is_full;
        self.waits_for_checkpoint |= waits_for_checkpoint;
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
