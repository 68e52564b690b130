//! Changes of the store: each act is one transaction of the thread that writes.

use std::sync::Arc;

use rusqlite::{Connection, Transaction};

use super::bounds::Parts;
use super::engine::Failure;
use super::engine::{durably, within};
use super::entries::checkpoint;
use super::log::{Change, LogMemory};
use super::prune::BatchRetention;
use super::{Held, Store, bounds, notes, overrides, prune, write};
use crate::rotation::{Rotation, RotationReason};
use crate::{
    Acknowledgement, Appended, Batch, Belief, FleetOverrides, LogKey, Pruned, Retention, Review,
    Reviewed, ShipMark, StoreError, StoredCheckpoint,
};
use crawlgate_origins::identity::Identity;
use crawlgate_policy::overrides::{Override, OverrideId};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{KeyName, Signature};

impl Store {
    /// Writes all of a batch or nothing of it: origin updates and objects first, then the entries in their order, at the
    /// end of the log. A killed process loses nothing of the batch once this call has resolved.
    pub async fn write(&self, batch: Batch) -> Result<(), StoreError> {
        #[cfg(any(test, feature = "test-support"))]
        self.faults.write();
        self.on_writer(move |connection, held| {
            let mut batch_retention = held.batch_retention.lock();
            let mut memory = held.memory.lock();
            let parts = batch_retention.as_ref().and_then(BatchRetention::parts);
            held.log.before(connection, &held.path, parts)?;
            let mut work = |connection: &mut Connection| {
                write::batch(connection, &batch, batch_retention.as_mut(), &mut memory)
            };
            // The first record must not vanish with the store's whole memory.
            let end = if batch.is_durable || held.state.is_first() {
                durably(connection, work)?
            } else {
                work(connection)?
            };
            if let Some(end) = end {
                held.state.wrote(end);
            }
            held.log.after(connection, &held.path, parts);
            Ok(())
        })
        .await
    }

    /// Tells each entry that the store appends by itself from now on, and the end of each batch, in the order of the log,
    /// after the commit. Entries that other processes append by themselves are told at the next write of this one.
    pub async fn tell_appended(
        &self,
        tell: Arc<dyn Fn(Appended) + Send + Sync>,
    ) -> Result<(), StoreError> {
        self.on_writer(move |connection, held| held.memory.lock().tell(connection, tell)).await
    }

    /// Drops the states and the fetches of an origin: of one identity, or of all. Snapshots and decisions stay. Tells
    /// whether the store knew any.
    pub async fn forget(
        &self,
        origin: &Origin,
        identity: Option<&Identity>,
    ) -> Result<bool, StoreError> {
        #[cfg(any(test, feature = "test-support"))]
        self.faults.read().await?;
        let (origin, identity) = (origin.clone(), identity.map(ToString::to_string));
        self.transact(move |transaction| {
            write::forget(transaction, origin.as_str(), identity.as_deref())
        })
        .await
    }

    /// Records that a person has seen decisions, in one transaction. Each is acknowledged only if it has the
    /// acknowledgement that the review replaces. Returns a result for each, in their order.
    pub async fn acknowledge(
        &self,
        all: Vec<Review>,
        note: Acknowledgement,
    ) -> Result<Vec<Reviewed>, StoreError> {
        self.on_log(move |connection, memory, held| {
            let results = write::acknowledge(connection, memory, &all, &note)?;
            if results.contains(&Reviewed::Done) {
                held.state.wrote(memory.end());
            }
            Ok(results)
        })
        .await
    }

    /// Signs the log as it is now, unless a checkpoint of it exists. It is on the disk when the call has resolved.
    pub async fn checkpoint(
        &self,
        key: Arc<LogKey>,
        now: Moment,
    ) -> Result<Option<StoredCheckpoint>, StoreError> {
        self.on_log(move |connection, memory, held| {
            let signed = write::checkpoint(connection, memory, &held.path, &key, now)?;
            Ok(signed.map(|(checkpoint, root)| {
                held.state.signed((checkpoint.size, root));
                held.signing.announce();
                checkpoint
            }))
        })
        .await
    }

    /// Adds the line of a witness to the checkpoint of this size. False if there is no such checkpoint.
    pub async fn cosign(&self, size: u64, line: Signature) -> Result<bool, StoreError> {
        self.transact(move |transaction| checkpoint::cosign(transaction, size, &line)).await
    }

    /// Notes that a witness knows a checkpoint of a log, of this size, which the store does not have, or that it knows none.
    /// While one does, [`Store::checkpoint`] under that name fails.
    pub async fn note_ahead(
        &self,
        witness: &str,
        log: &KeyName,
        size: Option<u64>,
    ) -> Result<(), StoreError> {
        let (witness, log) = (witness.to_owned(), log.clone());
        self.transact(move |transaction| {
            checkpoint::note_ahead(transaction, &witness, log.as_str(), size)
        })
        .await
    }

    /// Adds an override and returns its identifier: that of the fleet if it has one, otherwise a new number.
    pub async fn add_override(&self, new: Override) -> Result<OverrideId, StoreError> {
        self.change_overrides(move |change| overrides::add(change, &new)).await
    }

    /// Takes an override out of force and keeps it as removed. False if no override has this identifier.
    pub async fn remove_override(
        &self,
        id: OverrideId,
        by: String,
        now: Moment,
    ) -> Result<bool, StoreError> {
        self.change_overrides(move |change| overrides::remove(change, id, &by, now)).await
    }

    /// Takes over what the other instances of a fleet have added and removed, as one write: each override once, and
    /// removed for ever once it is removed. False if the store had all of it.
    pub async fn merge_overrides(
        &self,
        all: FleetOverrides,
        now: Moment,
    ) -> Result<bool, StoreError> {
        self.change_overrides(move |change| overrides::merge(change, &all, now)).await
    }

    /// Gives each override that has only a number an identifier for the fleet, under the name of this instance. False if
    /// there is none.
    pub async fn share_overrides(&self, instance: String, now: Moment) -> Result<bool, StoreError> {
        self.change_overrides(move |change| overrides::share(change, &instance, now)).await
    }

    /// Notes the time that retention believes.
    pub async fn note_belief(&self, belief: Belief) -> Result<(), StoreError> {
        self.transact(move |transaction| notes::note_belief(transaction, &belief)).await
    }

    /// Sets the place that is to have the log, too, and returns the number of entries that it has for sure. From then on,
    /// retention drops no entry that it does not have; `None`: there is no such place.
    pub async fn ship_to(&self, to: Option<ShipMark>) -> Result<u64, StoreError> {
        self.on_writer(move |connection, _| {
            durably(connection, |connection| notes::ship_to(connection, to))
        })
        .await
    }

    /// Notes that this place has so many entries, with all that they name and a checkpoint over them.
    pub async fn note_shipped(&self, size: u64) -> Result<(), StoreError> {
        self.on_writer(move |connection, _| {
            durably(connection, |connection| {
                within(connection, |transaction| notes::note_shipped(transaction, size))
            })
        })
        .await
    }

    /// Drops a part of the data that is older or larger than `retention` allows, in one small step that delays other
    /// writers only briefly. Later writes make their own room within `retention`.
    ///
    /// Decisions make room only for newer decisions: the states of origins have their own room. The oldest decisions
    /// go first.
    pub async fn prune(&self, retention: Retention, now: Moment) -> Result<Pruned, StoreError> {
        self.on_writer(move |connection, held| {
            let parts = retention.max_size.map(Parts::of);
            held.log.again(connection, &held.path, parts);
            let params = prune::RemovalParams { keep: retention.keep, now };
            let mut memory = held.memory.lock();
            let mut step = prune::step(connection, &mut memory, &held.path, retention, &params)?;
            if step.decisions > 0 {
                held.state.wrote(memory.end());
            }
            let mut batch_retention = held.batch_retention.lock();
            if let Some(batch_retention) = batch_retention.as_mut() {
                step.add(batch_retention.take());
            }
            let next = BatchRetention::new(retention, now);
            bounds::bound_log(connection, next.parts())?;
            *batch_retention = Some(next);
            Ok(step)
        })
        .await
    }

    /// Replaces the key of the log by the first one of `new`, in one transaction. It is on the disk when the call has
    /// resolved.
    pub(crate) async fn rotate(
        &self,
        new: LogKey,
        words: RotationReason,
        now: Moment,
    ) -> Result<Rotation, StoreError> {
        self.on_log(move |connection, memory, held| {
            let (rotation, end) = write::rotate(connection, memory, &new, &words, now)?;
            held.state.signed(end);
            held.signing.announce();
            Ok(rotation)
        })
        .await
    }

    /// Changes overrides on the writing thread, and announces it.
    async fn change_overrides<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Change<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.on_log(move |connection, memory, held| {
            let mut change = memory.begin(connection)?;
            let result = work(&mut change)?;
            memory.commit(change)?;
            held.announcer.announce();
            held.state.wrote(memory.end());
            Ok(result)
        })
        .await
    }

    /// Runs a change of the log on the writing thread. It is on the disk when the call has resolved.
    async fn on_log<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &mut LogMemory, &Held) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.on_writer(move |connection, held| {
            let mut memory = held.memory.lock();
            durably(connection, |connection| work(connection, &mut memory, held))
        })
        .await
    }

    /// Runs a transaction without an entry of the log on the writing thread.
    async fn transact<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.on_writer(move |connection, _| within(connection, work)).await
    }
}
