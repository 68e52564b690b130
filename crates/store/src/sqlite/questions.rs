//! The questions that the store answers.

use std::sync::Arc;

use super::entries::{self, StoredTree};
use super::{Store, bounds, fetches, hours, notes, objects, read, robots, rotations, search};
use crate::figures::Figures;
use crate::rotation::Rotation;
use crate::{
    DecisionQuery, Extent, Fetch, FetchSums, GroupBy, GroupCount, Hourly, Miscount, OriginQuery,
    Progress, Removed, Sha256, Size, StoreError, StoredCheckpoint, StoredDecision, StoredOrigin,
    StoredRoot,
};
use crawlgate_policy::overrides::Override;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{ConsistencyProof, InclusionProof, KeyName};

impl Store {
    /// Returns the states of an origin, one for each identity, that of `*` first.
    pub async fn origin(&self, origin: &Origin) -> Result<Vec<StoredOrigin>, StoreError> {
        #[cfg(any(test, feature = "test-support"))]
        self.faults.look_up().await?;
        let origin = origin.clone();
        self.read(move |connection| read::origin(connection, origin.as_str())).await
    }

    /// Returns a page of states, ordered by origin and identity: those after `query.after`.
    pub async fn origins(&self, query: OriginQuery) -> Result<Vec<StoredOrigin>, StoreError> {
        self.read(move |connection| read::origins(connection, &query)).await
    }

    /// Returns the latest fetches of an origin's robots.txt, of all identities, newest first.
    pub async fn fetches(&self, origin: &Origin, limit: usize) -> Result<Vec<Fetch>, StoreError> {
        let origin = origin.clone();
        self.read(move |connection| read::fetches(connection, origin.as_str(), limit)).await
    }

    /// Returns the text of a robots.txt that was once in force.
    pub async fn snapshot(&self, sha256: Sha256) -> Result<Option<Vec<u8>>, StoreError> {
        #[cfg(any(test, feature = "test-support"))]
        if self.faults.text().await? {
            return Ok(None);
        }
        self.read(move |connection| read::snapshot(connection, sha256)).await
    }

    /// Returns the body of an object that an entry names.
    pub async fn object(&self, sha256: Sha256) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(move |connection| objects::body(connection, &sha256)).await
    }

    /// Returns the settings of a decision, by the digest in its record.
    pub async fn policy(&self, sha256: Sha256) -> Result<Option<String>, StoreError> {
        self.read(move |connection| objects::policy_settings(connection, &sha256)).await
    }

    /// Returns a page of decisions.
    pub async fn decisions(&self, query: DecisionQuery) -> Result<Vec<StoredDecision>, StoreError> {
        self.walk(move |connection, blocks| search::decisions(connection, blocks, &query)).await
    }

    /// Returns a page of the entries that are no decisions, by the times, the order and the bounds of a query.
    pub async fn events(&self, query: DecisionQuery) -> Result<Vec<StoredDecision>, StoreError> {
        self.walk(move |connection, blocks| search::events(connection, blocks, &query)).await
    }

    /// Returns one decision.
    pub async fn decision(&self, id: &str) -> Result<Option<StoredDecision>, StoreError> {
        let id = id.to_owned();
        self.read_blocks(move |connection, blocks| read::decision(connection, blocks, &id)).await
    }

    /// Counts decisions by `key`, most frequent first, at most `limit` groups.
    pub async fn count_by(
        &self,
        query: DecisionQuery,
        key: GroupBy,
        limit: usize,
    ) -> Result<Vec<GroupCount>, StoreError> {
        self.walk(move |connection, blocks| {
            search::count_by(connection, blocks, &query, key, limit)
        })
        .await
    }

    /// Adds the decisions and events of the query's places to figures. Events have neither origin nor agent: of the
    /// conditions, only time and client choose among them.
    pub async fn figures(
        &self,
        query: DecisionQuery,
        figures: Figures,
    ) -> Result<Figures, StoreError> {
        self.walk(move |connection, blocks| {
            search::count_figures(connection, blocks, &query, figures)
        })
        .await
    }

    /// Counts the decisions of each hour by mode, verdict and reason, in this order. The first hour contains `since`,
    /// the last one begins before `until`. Hours without a decision left after retention are gone.
    pub async fn hours(&self, since: Moment, until: Moment) -> Result<Vec<Hourly>, StoreError> {
        self.read(move |connection| hours::read(connection, since, until)).await
    }

    /// Counts the fetches of robots.txt by result. The first hour contains `since`, the last one begins before `until`.
    pub async fn fetch_sums(&self, since: Moment, until: Moment) -> Result<FetchSums, StoreError> {
        self.read(move |connection| fetches::read(connection, since, until)).await
    }

    /// Returns at most `limit` records of all kinds after the record `after`, in order.
    pub async fn records(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<StoredDecision>, StoreError> {
        self.read_blocks(move |connection, blocks| read::records(connection, blocks, after, limit))
            .await
    }

    /// Returns the checkpoints, by their sizes.
    pub async fn checkpoints(&self) -> Result<Vec<StoredCheckpoint>, StoreError> {
        self.read(|connection| entries::checkpoint::all(connection)).await
    }

    /// Returns which entries the log has.
    pub async fn extent(&self) -> Result<Extent, StoreError> {
        self.read(|connection| {
            let (first, size) = entries::extent(connection)?;
            Ok(Extent { first, size })
        })
        .await
    }

    /// Returns the roots of bundles and segments that the store keeps, those of dropped entries included.
    pub async fn roots(&self) -> Result<Vec<StoredRoot>, StoreError> {
        self.read(|connection| entries::roots(connection)).await
    }

    /// Returns the proof that the tree over the first `size` entries holds the entry `index`.
    pub async fn inclusion(&self, index: u64, size: u64) -> Result<InclusionProof, StoreError> {
        self.read_blocks(move |connection, blocks| {
            StoredTree::new(connection, blocks).inclusion(index, size)
        })
        .await
    }

    /// Returns the proof that the tree over the first `new` entries begins with the one over the first `old`.
    pub async fn consistency(&self, old: u64, new: u64) -> Result<ConsistencyProof, StoreError> {
        self.read_blocks(move |connection, blocks| {
            StoredTree::new(connection, blocks).consistency(old, new)
        })
        .await
    }

    /// Tells whether retention has dropped the text of a robots.txt, or refused it, to make room.
    pub async fn is_dropped(&self, sha256: Sha256) -> Result<bool, StoreError> {
        self.read(move |connection| robots::is_dropped(connection, sha256)).await
    }

    /// Returns the rotations of the key that signs the log, in their order, as far as they are undamaged.
    pub async fn rotations(&self) -> Result<Vec<Rotation>, StoreError> {
        self.read(|connection| rotations::readable(connection)).await
    }

    /// Returns the numbers of the rotations that are damaged.
    pub async fn damaged_rotations(&self) -> Result<Vec<u64>, StoreError> {
        self.read(|connection| rotations::damaged(connection)).await
    }

    /// Returns the decisions that the store counts and has no record of; `None` if there are none, or it counts none.
    pub async fn miscounted(&self) -> Result<Option<Miscount>, StoreError> {
        self.walk(move |connection, blocks| hours::miscounted(connection, blocks)).await
    }

    /// Waits until the size of the newest checkpoint, 0 without one, is no longer `seen`, and returns it. A checkpoint
    /// signed through this store ends the wait at once, one by another process within a second.
    pub async fn signed(&self, seen: u64) -> Result<u64, StoreError> {
        let newest = || {
            self.read(|connection| {
                let newest = entries::checkpoint::last(connection)?;
                Ok(newest.map_or(0, |newest| newest.size))
            })
        };
        self.held.signing.changed(seen, newest).await
    }

    /// Returns the witnesses that know a checkpoint of a log which the store does not have, each with its size.
    pub async fn ahead(&self, log: &KeyName) -> Result<Vec<(String, u64)>, StoreError> {
        let log = log.clone();
        self.read(move |connection| entries::checkpoint::ahead(connection, log.as_str())).await
    }

    /// Returns the overrides that were added and not removed, those that have expired included.
    pub async fn overrides(&self) -> Result<Vec<Override>, StoreError> {
        self.read(|connection| read::overrides(connection)).await
    }

    /// Returns the overrides that were removed, in the order of their numbers.
    pub async fn removed_overrides(&self) -> Result<Vec<Removed>, StoreError> {
        self.read(|connection| read::removed_overrides(connection)).await
    }

    /// Returns the version of the overrides. Each change of theirs makes another.
    pub async fn version(&self) -> Result<u64, StoreError> {
        let guard = self.writer.as_ref().map(|writer| Arc::clone(&writer.guard));
        self.read(move |connection| {
            // Asked every second, with requests or without.
            guard.map_or(Ok(()), |guard| guard.look())?;
            read::version(connection)
        })
        .await
    }

    /// Returns a present fault that no write reports yet.
    pub fn fault(&self) -> Option<&'static str> {
        let what = "its write-ahead log cannot be carried over into the database";
        self.held.log.is_failing().then_some(what)
    }

    /// Waits until the overrides are no longer those of the version `seen`, and returns the present version. A write
    /// through this store ends the wait at once, one by another process within a second.
    pub async fn changes(&self, seen: u64) -> Result<u64, StoreError> {
        self.held.announcer.changed(seen, || self.version()).await
    }

    /// Returns the facts that retention measures the wall clock by.
    pub async fn progress(&self) -> Result<Progress, StoreError> {
        self.read(|connection| notes::progress(connection)).await
    }

    /// Returns the number of entries that the place has which is to have the log, too; `None` if there is no such place.
    pub async fn shipped(&self) -> Result<Option<u64>, StoreError> {
        self.read(|connection| notes::shipped_until(connection)).await
    }

    /// Returns how much the store keeps.
    pub async fn size(&self) -> Result<Size, StoreError> {
        let held = Arc::clone(&self.held);
        self.read(move |connection| {
            let size = read::size(connection)?;
            let bytes = bounds::on_disk(connection, &held.path)?;
            Ok(Size { bytes, ..size })
        })
        .await
    }
}
