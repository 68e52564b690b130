//! Data that outlives the process: the state of each origin, every robots.txt that was ever fetched, the decisions with
//! the proof of them, and the overrides and acknowledgements that people have added.
//!
//! The rest of crawlgate sees a [`Store`]. The trait knows no SQL, every call may wait, and writes come in batches: an
//! engine shared by many gates fits behind it as well as the embedded one ([`sqlite`]).
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
mod denial_tables;
mod error;
pub mod figures;
pub mod log_key;
pub mod logs;
mod maintenance;
mod miscount;
mod origins;
pub mod persist;
pub mod public_keys;
mod range;
pub mod review;
mod room;
pub mod rotation;
pub mod search;
pub mod segment;
pub mod sqlite;
pub mod state_file;

pub use self::batch::{Batch, Entries, Object, ObjectKind, OriginUpdate, RoomOwner, objects_of};
pub use self::believed::{Belief, Progress, Reading};
use self::decisions::hourly;
pub use self::decisions::{
    Acknowledgement, Appended, DecisionQuery, Extent, FleetOverrides, GroupBy, GroupCount, Hourly,
    Removed, Review, Reviewed, StoredDecision, StoredRoot,
};
pub use self::denial_tables::finish_tables;
pub use self::error::{StoreError, StoreErrorKind};
use self::error::{behind, failed};
use self::figures::Figures;
pub use self::log_key::{LogKey, StoredCheckpoint};
pub use self::maintenance::maintain;
pub use self::miscount::Miscount;
pub use self::origins::{
    Fetch, FetchSum, FetchSums, OriginQuery, OtherAnswer, SnapshotMeta, StoredOrigin, StoredState,
};
pub use self::range::Records;
pub use self::room::{Pruned, Retention, ShipMark, Size};
use self::rotation::{Rotation, RotationReason};
use self::state_file::StateFile;

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crawlgate_config::Config;
use crawlgate_origins::identity::Identity;
use crawlgate_policy::overrides::{Override, OverrideId};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{ConsistencyProof, InclusionProof, KeyName, Signature};

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
    /// Writes all of a batch or nothing of it: origin updates and objects first, then the entries in their order, at the
    /// end of the log. A killed process loses nothing of the batch once this call has resolved.
    fn write(&self, batch: Batch) -> Pending<'_, ()>;

    /// Tells each entry that the store appends by itself from now on, and the end of each batch, in the order of the log,
    /// after the commit. Entries that other processes append by themselves are told at the next write of this one.
    fn tell_appended(&self, tell: Arc<dyn Fn(Appended) + Send + Sync>) -> Pending<'_, ()>;

    /// Returns the states of an origin, one for each identity, that of `*` first.
    fn origin(&self, origin: &Origin) -> Pending<'_, Vec<StoredOrigin>>;

    /// Returns a page of states, ordered by origin and identity: those after `query.after`.
    fn origins(&self, query: OriginQuery) -> Pending<'_, Vec<StoredOrigin>>;

    /// Returns the latest fetches of an origin's robots.txt, of all identities, newest first.
    fn fetches(&self, origin: &Origin, limit: usize) -> Pending<'_, Vec<Fetch>>;

    /// Drops the states and the fetches of an origin: of one identity, or of all. Snapshots and decisions stay. Tells
    /// whether the store knew any.
    fn forget(&self, origin: &Origin, identity: Option<&Identity>) -> Pending<'_, bool>;

    /// Returns the text of a robots.txt that was once in force.
    fn snapshot(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>>;

    /// Returns the body of an object that an entry names.
    fn object(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>>;

    /// Returns the settings of a decision, by the digest in its record.
    fn policy(&self, sha256: Sha256) -> Pending<'_, Option<String>>;

    /// Returns a page of decisions.
    fn decisions(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>>;

    /// Returns a page of the entries that are no decisions, by the times, the order and the bounds of a query.
    fn events(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>>;

    /// Returns one decision.
    fn decision(&self, id: &str) -> Pending<'_, Option<StoredDecision>>;

    /// Counts decisions by `key`, most frequent first, at most `limit` groups.
    fn count_by(
        &self,
        query: DecisionQuery,
        key: GroupBy,
        limit: usize,
    ) -> Pending<'_, Vec<GroupCount>>;

    /// Adds the decisions and events of the query's places to figures. Events have neither origin nor agent: of the
    /// conditions, only time and client choose among them.
    fn figures(&self, query: DecisionQuery, figures: Figures) -> Pending<'_, Figures>;

    /// Counts the decisions of each hour by mode, verdict and reason, in this order. The first hour contains `since`,
    /// the last one begins before `until`. Hours without a decision left after retention are gone.
    fn hours(&self, since: Moment, until: Moment) -> Pending<'_, Vec<Hourly>>;

    /// Counts the fetches of robots.txt by result. The first hour contains `since`, the last one begins before `until`.
    fn fetch_sums(&self, since: Moment, until: Moment) -> Pending<'_, FetchSums>;

    /// Records that a person has seen decisions, in one transaction. Each is acknowledged only if it has the
    /// acknowledgement that the review replaces. Returns a result for each, in their order.
    fn acknowledge(&self, all: Vec<Review>, note: Acknowledgement) -> Pending<'_, Vec<Reviewed>>;

    /// Returns at most `limit` records of all kinds after the record `after`, in order.
    fn records(&self, after: u64, limit: usize) -> Pending<'_, Vec<StoredDecision>>;

    /// Returns the checkpoints, by their sizes.
    fn checkpoints(&self) -> Pending<'_, Vec<StoredCheckpoint>>;

    /// Returns which entries the log has.
    fn extent(&self) -> Pending<'_, Extent>;

    /// Returns the roots of bundles and segments that the store keeps, those of dropped entries included.
    fn roots(&self) -> Pending<'_, Vec<StoredRoot>>;

    /// Returns the proof that the tree over the first `size` entries holds the entry `index`.
    fn inclusion(&self, index: u64, size: u64) -> Pending<'_, InclusionProof>;

    /// Returns the proof that the tree over the first `new` entries begins with the one over the first `old`.
    fn consistency(&self, old: u64, new: u64) -> Pending<'_, ConsistencyProof>;

    /// Tells whether retention has dropped the text of a robots.txt, or refused it, to make room.
    fn is_dropped(&self, sha256: Sha256) -> Pending<'_, bool>;

    /// Signs the log as it is now, unless a checkpoint of it exists. It is on the disk when the call has resolved.
    fn checkpoint(&self, key: Arc<LogKey>, now: Moment) -> Pending<'_, Option<StoredCheckpoint>>;

    /// Returns the rotations of the key that signs the log, in their order, as far as they are undamaged.
    fn rotations(&self) -> Pending<'_, Vec<Rotation>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns the numbers of the rotations that are damaged.
    fn damaged_rotations(&self) -> Pending<'_, Vec<u64>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Returns the decisions that the store counts and has no record of; `None` if there are none, or it counts none.
    fn miscounted(&self) -> Pending<'_, Option<Miscount>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Waits until the size of the newest checkpoint, 0 if there is none, is no longer `seen`, and returns it. A checkpoint
    /// signed through this store ends the wait at once, one by another process within a second.
    fn signed(&self, seen: u64) -> Pending<'_, u64>;

    /// Adds the line of a witness to the checkpoint of this size. False if there is no such checkpoint.
    fn cosign(&self, size: u64, line: Signature) -> Pending<'_, bool>;

    /// Notes that a witness knows a checkpoint of a log, of this size, which the store does not have, or that it knows none.
    /// While one does, [`Store::checkpoint`] under that name fails.
    fn note_ahead(&self, witness: &str, log: &KeyName, size: Option<u64>) -> Pending<'_, ()>;

    /// Returns the witnesses that know a checkpoint of a log which the store does not have, each with its size.
    fn ahead(&self, log: &KeyName) -> Pending<'_, Vec<(String, u64)>>;

    /// Returns the overrides that were added and not removed, those that have expired included.
    fn overrides(&self) -> Pending<'_, Vec<Override>>;

    /// Returns the overrides that were removed, in the order of their numbers.
    fn removed_overrides(&self) -> Pending<'_, Vec<Removed>>;

    /// Adds an override and returns its identifier: that of the fleet if it has one, otherwise a new number.
    fn add_override(&self, new: Override) -> Pending<'_, OverrideId>;

    /// Takes an override out of force and keeps it as removed. False if there is none with this identifier.
    fn remove_override(&self, id: OverrideId, by: String, now: Moment) -> Pending<'_, bool>;

    /// Takes over what the other instances of a fleet have added and removed, as one write: each override once, and
    /// removed for ever once it is removed. False if the store had all of it.
    fn merge_overrides(&self, all: FleetOverrides, now: Moment) -> Pending<'_, bool>;

    /// Gives each override that has only a number an identifier for the fleet, under the name of this instance. False if
    /// there is none.
    fn share_overrides(&self, instance: String, now: Moment) -> Pending<'_, bool>;

    /// Returns the version of the overrides. Each change of theirs makes another.
    fn version(&self) -> Pending<'_, u64>;

    /// Returns a present fault that no write reports yet.
    fn fault(&self) -> Option<&'static str> {
        None
    }

    /// Waits until the overrides are no longer those of the version `seen`, and returns the present version. A write
    /// through this store ends the wait at once, one by another process within a second.
    fn changes(&self, seen: u64) -> Pending<'_, u64>;

    /// Returns the facts that retention measures the wall clock by.
    fn progress(&self) -> Pending<'_, Progress>;

    /// Notes the time that retention believes.
    fn note_belief(&self, belief: Belief) -> Pending<'_, ()>;

    /// Sets the place that is to have the log, too, and returns the number of entries that it has for sure. From then on,
    /// retention drops no entry that it does not have; `None`: there is no such place.
    fn ship_to(&self, to: Option<ShipMark>) -> Pending<'_, u64>;

    /// Notes that this place has so many entries, with all that they name and a checkpoint over them.
    fn note_shipped(&self, size: u64) -> Pending<'_, ()>;

    /// Returns that number; `None` if there is no such place.
    fn shipped(&self) -> Pending<'_, Option<u64>>;

    /// Drops a part of the data that is older or larger than `retention` allows, in one small step that delays other
    /// writers only briefly. Later writes make their own room within `retention`.
    ///
    /// Decisions make room for newer decisions alone: the states of origins have a room of their own. The oldest decisions
    /// go first.
    fn prune(&self, retention: Retention, now: Moment) -> Pending<'_, Pruned>;

    /// Lists the newest denials for programs that read the store by themselves, a thousand of those that are missing there at
    /// most. An engine without such programs does nothing. `max_size` is that of the retention.
    fn list_denials(&self, max_size: Option<u64>) -> Pending<'_, ()> {
        let _ = max_size;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Counts for such programs which rules have denied most often, on each day that has other entries than at the last call.
    fn count_denied_rules(&self, max_size: Option<u64>) -> Pending<'_, ()> {
        let _ = max_size;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Returns how much the store keeps.
    fn size(&self) -> Pending<'_, Size>;
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
    Ok(Arc::new(engine(config, access)?))
}

fn engine(config: &Config, access: Access) -> Result<sqlite::Sqlite, StoreError> {
    let path = named(config)?;
    let store = sqlite::Sqlite::open(path, access, config.store.synchronous)?;
    if access == Access::Write {
        sqlite::finish_rotation(path)?;
        // The key is made together with the store: later, an empty store beside a key was emptied by others.
        let key = log_key(config)?;
        sqlite::require_name(path, &key)?;
        StateFile::of(path)
            .set_key(*key.vkey().public())
            .map_err(|error| state_file::unwritable(path, &error))?;
    }
    Ok(store)
}

/// Replaces the key that signs the log of the configured store by a new one (see [`rotation`]). Other processes may have the
/// store open: each finds the new key before it signs again.
///
/// # Errors
/// When the store or the key cannot be read or written. Once the new key is in the log, the next process that opens the
/// store does what is left.
pub async fn rotate_key(
    config: &Config,
    words: RotationReason,
    now: Moment,
) -> Result<Rotation, StoreError> {
    let path = named(config)?;
    let store = engine(config, Access::Write)?;
    let file = log_key::log_key_file(path);
    let lock = rotation::lock(&file).map_err(|error| rotation::unwritable(&file, &error))?;
    let old = kept_log_key(config)?;
    let new = old.successor()?;
    let earlier = public_keys::earlier_keys_file(path);
    public_keys::add_earlier_key(path, &old.vkey())
        .map_err(|error| rotation::unwritable(&earlier, &error))?;
    rotation::prepare(path, &new)?;
    let rotation = store.rotate(new, words, now).await?;
    rotation::put_in_place(path, &lock)?;
    StateFile::of(path)
        .set_key(*rotation.new.public())
        .map_err(|error| state_file::unwritable(path, &error))?;
    Ok(rotation)
}

/// Returns the key of the configured store's log, and creates it if there is none.
///
/// # Errors
/// When no store is configured, or the key can neither be read nor made.
pub fn log_key(config: &Config) -> Result<Arc<LogKey>, StoreError> {
    let path = log_key::log_key_file(named(config)?);
    let key = LogKey::load_or_create(&path, config.audit.log_name.clone())?;
    Ok(Arc::new(key))
}

/// Returns the key of the configured store's log, which must be there.
///
/// # Errors
/// When no store is configured, or the key is missing or cannot be read.
pub fn kept_log_key(config: &Config) -> Result<Arc<LogKey>, StoreError> {
    let path = log_key::log_key_file(named(config)?);
    LogKey::load(&path, config.audit.log_name.clone()).map(Arc::new)
}

/// Returns the file of the configured store.
///
/// # Errors
/// When no store is configured.
pub fn named(config: &Config) -> Result<&Path, StoreError> {
    config.store.path.as_deref().ok_or_else(|| StoreError {
        kind: StoreErrorKind::Missing,
        message: "there is no store: [store] path is \"\"; name a file there".to_owned(),
    })
}

#[cfg(any(test, feature = "test-support"))]
pub mod samples;
#[cfg(test)]
pub(crate) mod tests;
