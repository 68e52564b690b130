//! The logs of a report: the facts of each, and the objects that the readable ones hold.

use std::collections::HashMap;
use std::pin::Pin;

use super::content::{CheckpointFacts, LogFacts};
use super::gathering::Gathering;
use crate::verify::case::Trusted;
use crate::verify::keys::CoveringCheckpoint;
use crawlgate_policy::overrides::Override;
use crawlgate_record::Digest;
use crawlgate_store::logs::{Log, Logs};
use crawlgate_store::{FetchSums, Removed, Store, StoreError, StoredCheckpoint};
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;

/// Boxed: the future borrows the store, and a generic bound on a closure cannot express that lifetime.
type Answer<'s, T> = Pin<Box<dyn Future<Output = Result<Option<T>, StoreError>> + Send + 's>>;

/// The logs that could be read, and are counted.
pub(super) struct Readable<'l> {
    logs: &'l Logs,
    counted: Vec<&'l Log>,
}

impl<'l> Readable<'l> {
    pub(super) fn of(gathering: &Gathering, logs: &'l Logs) -> Self {
        let parts = logs.iter().zip(&gathering.parts);
        let counted = parts.filter(|(_, part)| part.fault.is_none());
        Self { logs, counted: counted.map(|(log, _)| log).collect() }
    }

    /// Returns the bodies of objects, each from a store that has it.
    pub(super) async fn objects(
        &self,
        digests: &[Digest],
    ) -> Result<HashMap<Digest, Vec<u8>>, StoreError> {
        self.look_up(digests, |store, digest| Box::pin(store.object(digest))).await
    }

    /// Returns the texts of settings, each from a store that has it.
    pub(super) async fn policies(
        &self,
        digests: &[Digest],
    ) -> Result<HashMap<Digest, String>, StoreError> {
        self.look_up(digests, |store, digest| Box::pin(store.policy(digest))).await
    }

    /// Returns the present and the removed overrides of all stores.
    pub(super) async fn overrides(&self) -> Result<(Vec<Override>, Vec<Removed>), StoreError> {
        let (mut present, mut removed) = (Vec::new(), Vec::new());
        for log in &self.counted {
            let store = self.logs.open(log).await?;
            present.extend(store.overrides().await?);
            removed.extend(store.removed_overrides().await?);
        }
        Ok((present, removed))
    }

    /// Returns the fetches of robots.txt that each store has counted.
    pub(super) async fn fetch_sums(
        &self,
        since: Moment,
        until: Moment,
    ) -> Result<Vec<FetchSums>, StoreError> {
        let mut all = Vec::new();
        for log in &self.counted {
            let store = self.logs.open(log).await?;
            all.push(store.fetch_sums(since, until).await?);
        }
        Ok(all)
    }

    /// Asks each store for what those before it do not have.
    async fn look_up<T>(
        &self,
        digests: &[Digest],
        look: for<'s> fn(&'s Store, Digest) -> Answer<'s, T>,
    ) -> Result<HashMap<Digest, T>, StoreError> {
        let mut found = HashMap::new();
        for log in &self.counted {
            let store = self.logs.open(log).await?;
            for digest in digests {
                if !found.contains_key(digest)
                    && let Some(one) = look(&store, *digest).await?
                {
                    found.insert(*digest, one);
                }
            }
        }
        Ok(found)
    }
}

/// Returns the facts of each log. `trusted` are the keys of each.
pub(super) async fn facts_of(
    gathering: &Gathering,
    logs: &Logs,
    trusted: &[Trusted],
) -> Result<Vec<LogFacts>, StoreError> {
    let mut all = Vec::new();
    for ((log, part), trusted) in logs.iter().zip(&gathering.parts).zip(trusted) {
        let keys: Vec<String> = trusted.keys.all.iter().map(ToString::to_string).collect();
        let mut facts = LogFacts {
            log: Some(log.name().to_string()),
            keys,
            records: part.extent.size,
            first_kept: part.extent.first + 1,
            kept_since: part.kept_since.map(time_text),
            is_cut_off: part.extent.first > 0
                && part.kept_since.is_none_or(|kept| gathering.question.since < kept),
            unread: part.fault.as_ref().map(ToString::to_string),
            checkpoint: None,
            verification: None,
        };
        if part.fault.is_none() {
            let checkpoints = logs.open(log).await?.checkpoints().await?;
            // Keys of earlier logs may be trusted, too: the newest checkpoint names the log.
            let name = match CoveringCheckpoint::of(0, &checkpoints, &trusted.keys) {
                Some(newest) => Some(newest.checkpoint.origin.to_string()),
                None => trusted.keys.all.first().map(|key| key.name().to_string()),
            };
            facts.checkpoint = checkpoints.last().map(checkpoint);
            facts.log = name.or(facts.log.filter(|_| logs.only().is_none()));
        }
        all.push(facts);
    }
    Ok(all)
}

fn checkpoint(checkpoint: &StoredCheckpoint) -> CheckpointFacts {
    CheckpointFacts {
        size: checkpoint.size,
        signed_at: time_text(checkpoint.time),
        note: checkpoint.note.clone(),
    }
}
