//! Data that outlives the process: the state of each origin, every robots.txt that was ever fetched, the decisions with
//! the proof of them, and the overrides and acknowledgements that people have added.
//!
//! The rest of crawlgate sees a [`Store`], an SQLite file ([`sqlite`]). Its callers know no SQL, every call may wait, and writes
//! come in batches.
//!
//! A [`Batch`] is written as a whole or not at all, its origin updates and objects before its records, so the store keeps
//! no record without the robots.txt behind it. A record is the line that an entry and its objects give.
//!
//! Entries are leaves of a tree ([`crawlgate_tlog`]). At intervals a key outside the store signs its size and root
//! ([`StoredCheckpoint`]), so every later change or removal of an entry is found.

mod batch;
mod believed;
mod changes;
pub mod collection;
mod decisions;
mod error;
#[cfg(any(test, feature = "test-support"))]
pub mod faults;
pub mod figures;
pub mod log_key;
pub mod logs;
mod maintenance;
mod open;
mod origins;
pub mod persist;
pub mod public_keys;
pub mod review;
mod room;
pub mod rotation;
pub mod search;
pub mod segment;
pub mod sqlite;
pub mod state_file;
mod types;

pub use self::batch::{Batch, Entries, Object, ObjectKind, OriginUpdate, RoomOwner, objects_of};
pub use self::believed::{Belief, Progress, Reading};
pub(crate) use self::decisions::hourly;
pub use self::decisions::{
    Acknowledgement, Appended, Bodies, DecisionQuery, Extent, FleetOverrides, GroupBy, GroupCount,
    Hourly, Removed, Review, Reviewed, StoredDecision, StoredRoot,
};
pub use self::error::{StoreError, StoreErrorKind};
pub(crate) use self::error::{behind, failed};
pub use self::log_key::{LogKey, StoredCheckpoint};
pub use self::maintenance::maintain;
pub use self::open::{kept_log_key, log_key, named, open, rotate_key};
pub use self::origins::{
    Fetch, FetchSum, FetchSums, OriginQuery, OtherAnswer, SnapshotMeta, StoredOrigin, StoredState,
};
pub use self::room::{Pruned, Retention, ShipMark, Size};
pub use self::sqlite::{Miscount, Store};
pub use self::types::{Access, FETCHES_KEPT, HOUR, Records, Sha256};

#[cfg(any(test, feature = "test-support"))]
pub mod samples;
#[cfg(test)]
pub(crate) mod tests;
