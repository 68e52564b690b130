//! What changes the store: each act is one transaction of the thread that writes.

use std::sync::Arc;

use super::batch_retention::BatchRetention;
use super::bounds::Parts;
use super::engine::Failure;
use super::transaction::durably;
use super::{Store, belief, bounds, overrides, prune, review, rotate, shipping, write};
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
        let (path, batch_retention) = (Arc::clone(&self.path), Arc::clone(&self.batch_retention));
        let (state, log) = (Arc::clone(&self.state), Arc::clone(&self.log));
        let memory = Arc::clone(&self.memory);
        self.on_writer(move |connection| {
            let mut batch_retention = batch_retention.lock();
            let mut memory = memory.lock();
            let parts = batch_retention.as_ref().and_then(BatchRetention::parts);
            log.before(connection, &path, parts)?;
            let mut work = |connection: &mut rusqlite::Connection| {
                write::batch(connection, &batch, batch_retention.as_mut(), &mut memory)
            };
            // The first record must not vanish with the store's whole memory.
            let end = match batch.is_durable || state.is_first() {
                true => durably(connection, work)?,
                false => work(connection)?,
            };
            if let Some(end) = end {
                state.wrote(end);
            }
            log.after(connection, &path, parts);
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
        let memory = Arc::clone(&self.memory);
        self.on_writer(move |connection| memory.lock().tell(connection, tell))
            .await
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
        self.on_writer(move |connection| {
            write::forget(connection, origin.as_str(), identity.as_deref())
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
        let (memory, state) = (Arc::clone(&self.memory), Arc::clone(&self.state));
        self.on_writer(move |connection| {
            let mut memory = memory.lock();
            let results = durably(connection, |connection| {
                review::acknowledge(connection, &mut memory, &all, &note)
            })?;
            if results.contains(&Reviewed::Done) {
                state.wrote(memory.end());
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
        let (memory, state) = (Arc::clone(&self.memory), Arc::clone(&self.state));
        let (signing, path) = (self.signing.clone(), Arc::clone(&self.path));
        self.on_writer(move |connection| {
            let mut memory = memory.lock();
            let signed = durably(connection, |connection| {
                write::checkpoint(connection, &mut memory, &path, &key, now)
            })?;
            Ok(signed.map(|(checkpoint, root)| {
                state.signed((checkpoint.size, root));
                signing.announce();
                checkpoint
            }))
        })
        .await
    }

    /// Adds the line of a witness to the checkpoint of this size. False if there is no such checkpoint.
    pub async fn cosign(&self, size: u64, line: Signature) -> Result<bool, StoreError> {
        self.on_writer(move |connection| write::cosign(connection, size, &line))
            .await
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
        self.on_writer(move |connection| {
            write::note_ahead(connection, &witness, log.as_str(), size)
        })
        .await
    }

    /// Adds an override and returns its identifier: that of the fleet if it has one, otherwise a new number.
    pub async fn add_override(&self, new: Override) -> Result<OverrideId, StoreError> {
        self.change_overrides(move |connection, memory| overrides::add(connection, memory, &new))
            .await
    }

    /// Takes an override out of force and keeps it as removed. False if there is none with this identifier.
    pub async fn remove_override(
        &self,
        id: OverrideId,
        by: String,
        now: Moment,
    ) -> Result<bool, StoreError> {
        self.change_overrides(move |connection, memory| {
            overrides::remove(connection, memory, id, &by, now)
        })
        .await
    }

    /// Takes over what the other instances of a fleet have added and removed, as one write: each override once, and
    /// removed for ever once it is removed. False if the store had all of it.
    pub async fn merge_overrides(
        &self,
        all: FleetOverrides,
        now: Moment,
    ) -> Result<bool, StoreError> {
        self.change_overrides(move |connection, memory| {
            overrides::fleet::merge(connection, memory, &all, now)
        })
        .await
    }

    /// Gives each override that has only a number an identifier for the fleet, under the name of this instance. False if
    /// there is none.
    pub async fn share_overrides(&self, instance: String, now: Moment) -> Result<bool, StoreError> {
        self.change_overrides(move |connection, memory| {
            overrides::fleet::share(connection, memory, &instance, now)
        })
        .await
    }

    /// Notes the time that retention believes.
    pub async fn note_belief(&self, belief: Belief) -> Result<(), StoreError> {
        self.on_writer(move |connection| belief::note(connection, &belief))
            .await
    }

    /// Sets the place that is to have the log, too, and returns the number of entries that it has for sure. From then on,
    /// retention drops no entry that it does not have; `None`: there is no such place.
    pub async fn ship_to(&self, to: Option<ShipMark>) -> Result<u64, StoreError> {
        self.on_writer(move |connection| {
            durably(connection, |connection| shipping::ship_to(connection, to))
        })
        .await
    }

    /// Notes that this place has so many entries, with all that they name and a checkpoint over them.
    pub async fn note_shipped(&self, size: u64) -> Result<(), StoreError> {
        self.on_writer(move |connection| {
            durably(connection, |connection| shipping::note(connection, size))
        })
        .await
    }

    /// Drops a part of the data that is older or larger than `retention` allows, in one small step that delays other
    /// writers only briefly. Later writes make their own room within `retention`.
    ///
    /// Decisions make room for newer decisions alone: the states of origins have a room of their own. The oldest decisions
    /// go first.
    pub async fn prune(&self, retention: Retention, now: Moment) -> Result<Pruned, StoreError> {
        let (path, batch_retention) = (Arc::clone(&self.path), Arc::clone(&self.batch_retention));
        let (log, memory) = (Arc::clone(&self.log), Arc::clone(&self.memory));
        let state = Arc::clone(&self.state);
        self.on_writer(move |connection| {
            log.again(connection, &path, retention.max_size.map(Parts::of));
            let params = prune::RemovalParams {
                keep: retention.keep,
                now,
            };
            let mut memory = memory.lock();
            let mut step = prune::step(connection, &mut memory, &path, retention, &params)?;
            if step.decisions > 0 {
                state.wrote(memory.end());
            }
            let mut batch_retention = batch_retention.lock();
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
        let (memory, state) = (Arc::clone(&self.memory), Arc::clone(&self.state));
        let signing = self.signing.clone();
        self.on_writer(move |connection| {
            let mut memory = memory.lock();
            let (rotation, end) = durably(connection, |connection| {
                rotate::rotate(connection, &mut memory, &new, &words, now)
            })?;
            state.signed(end);
            signing.announce();
            Ok(rotation)
        })
        .await
    }

    /// Changes overrides on the writing thread, and announces it.
    async fn change_overrides<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut rusqlite::Connection, &mut write::LogMemory) -> Result<T, Failure>
        + Send
        + 'static,
    ) -> Result<T, StoreError> {
        let announcer = self.announcer.clone();
        let (memory, state) = (Arc::clone(&self.memory), Arc::clone(&self.state));
        self.on_writer(move |connection| {
            let mut memory = memory.lock();
            let result = durably(connection, |connection| change(connection, &mut memory))?;
            announcer.announce();
            state.wrote(memory.end());
            Ok(result)
        })
        .await
    }
}
