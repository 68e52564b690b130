//! The content of a store in memory, and the changes of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::clock::Moment;
use crate::entry::Objects;
use crate::policy::overrides::Override;
use crate::rep::Origin;
use crate::robots::identity::OWN_STATES;
use crate::store::derived;
use crate::store::filter::Head;
use crate::store::persist::to_stored;
use crate::store::{
    Batch, Belief, FETCHES_KEPT, Fetch, HOUR, Object, ObjectKind, OriginMemory, OriginUpdate,
    Pruned, Removed, Retention, Sha256, StoreError, StoredDecision, chain,
};

#[derive(Debug, Default)]
pub(super) struct Kept {
    /// By origin and identity.
    pub(super) origins: BTreeMap<(String, String), (OriginMemory, Vec<Fetch>)>,
    pub(super) snapshots: HashMap<Sha256, Text>,
    pub(super) objects: HashMap<Sha256, (ObjectKind, Vec<u8>)>,
    /// The first one's number is one more than the number of dropped decisions.
    pub(super) decisions: Vec<StoredDecision>,
    /// By hour, mode, verdict and reason.
    pub(super) hours: BTreeMap<(Moment, String, String, String), u64>,
    pub(super) dropped: u64,
    /// The link before the first.
    pub(super) before: Sha256,
    pub(super) seals: Vec<chain::Seal>,
    pub(super) overrides: Vec<Override>,
    pub(super) removed: Vec<Removed>,
    pub(super) next_override: u64,
    pub(super) version: u64,
    pub(super) belief: Option<Belief>,
}

/// A robots.txt.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) text: Vec<u8>,
    pub(super) used: Moment,
}

/// The objects of a batch and those before.
struct Named<'a> {
    kept: &'a HashMap<Sha256, (ObjectKind, Vec<u8>)>,
    new: &'a [Object],
}

impl Objects for Named<'_> {
    fn body(&self, sha256: &Sha256) -> Option<&[u8]> {
        let new = self.new.iter().find(|one| one.sha256 == *sha256);
        let new = new.map(|one| &*one.body);
        new.or_else(|| self.kept.get(sha256).map(|(_, body)| body.as_slice()))
    }
}

impl Kept {
    pub(super) fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        // Read the entries first: a batch with an unreadable one must change nothing.
        let mut records = Vec::new();
        let objects = Named {
            kept: &self.objects,
            new: &batch.objects,
        };
        for row in derived::rows(&batch.entries, &objects)? {
            let hour = row.head.hourly().map(|new| {
                let [mode, verdict, reason] =
                    [new.mode, new.verdict, new.reason].map(str::to_owned);
                ((new.hour, mode, verdict, reason), new.count)
            });
            records.push((row.line, row.head.time(), hour));
        }
        for OriginUpdate {
            origin,
            state,
            user_agent,
            fetch,
        } in batch.landings
        {
            let Some(remembered) = to_stored(&state) else {
                continue;
            };
            let updated = fetch.time;
            if let Some(snapshot) = state.snapshot() {
                let kept = self.snapshots.entry(snapshot.sha256);
                let text = || snapshot.robots.text().to_vec();
                kept.or_insert_with(|| Text {
                    text: text(),
                    used: updated,
                })
                .used = updated;
            }
            let memory = OriginMemory {
                origin: origin.clone(),
                identity: fetch.identity.clone(),
                user_agent: user_agent.to_string(),
                state: remembered,
                updated,
            };
            let name = (origin.as_str().to_owned(), fetch.identity.to_string());
            let known = self.origins.entry(name);
            let (last, fetches) = known.or_insert_with(|| (memory.clone(), Vec::new()));
            *last = memory;
            fetches.push(fetch);
            let surplus = fetches.len().saturating_sub(FETCHES_KEPT);
            fetches.drain(..surplus);
            self.replace(&origin);
        }
        for object in batch.objects {
            let known = self.objects.entry(object.sha256);
            known.or_insert_with(|| (object.kind, object.body.to_vec()));
        }
        for (record, time, hour) in records {
            if let Some((hour, count)) = hour {
                *self.hours.entry(hour).or_default() += count;
            }
            let (seq, head) = self.head();
            self.decisions.push(StoredDecision {
                seq: seq + 1,
                time,
                hash: chain::link(&head, record.as_bytes()),
                record,
                acknowledged: None,
            });
        }
        Ok(())
    }

    /// Returns the states of an origin with their fetches, oldest first.
    pub(super) fn of(
        &self,
        origin: &Origin,
    ) -> impl DoubleEndedIterator<Item = &(OriginMemory, Vec<Fetch>)> {
        let all = self.origins.values();
        all.filter(move |(memory, _)| memory.origin == *origin)
    }

    /// Drops the oldest states of identities beyond [`OWN_STATES`].
    fn replace(&mut self, origin: &Origin) {
        let own = self.of(origin).filter(|(one, _)| !one.identity.is_common());
        let mut own: Vec<_> = own
            .map(|(one, _)| (std::cmp::Reverse(one.updated), one.identity.to_string()))
            .collect();
        own.sort();
        for (_, identity) in own.into_iter().skip(OWN_STATES) {
            self.origins.remove(&(origin.to_string(), identity));
        }
    }

    pub(super) fn head(&self) -> (u64, Sha256) {
        let last = self.decisions.last();
        last.map_or((self.dropped, self.before), |last| (last.seq, last.hash))
    }

    pub(super) fn find(&mut self, id: &str) -> Option<&mut StoredDecision> {
        self.decisions.iter_mut().find(|one| {
            let record = serde_json::from_str::<serde_json::Value>(&one.record);
            record.is_ok_and(|record| record.get("id").and_then(|id| id.as_str()) == Some(id))
        })
    }

    pub(super) fn seal(&mut self, key: &chain::SealingKey, now: Moment) -> Option<chain::Seal> {
        let (seq, hash) = self.head();
        if seq == 0 {
            return None;
        }
        let start = (self.dropped + 1, self.before);
        let last = self.decisions.last().map(|last| last.time);
        let seal = key.seal(seq, hash, start, now.max(last.unwrap_or_default()));
        self.seals.push(seal.clone());
        Some(seal)
    }

    pub(super) fn bytes(&self) -> u64 {
        let decisions = self.decisions.iter().map(|one| one.record.len() + 100);
        let snapshots = self.snapshots.values().map(|one| one.text.len());
        (decisions.sum::<usize>() + snapshots.sum::<usize>() + self.origins.len() * 500) as u64
    }

    pub(super) fn prune(
        &mut self,
        retention: Retention,
        key: &chain::SealingKey,
        now: Moment,
    ) -> Result<Pruned, StoreError> {
        const STEP: usize = 500;
        let oldest_kept = retention.keep.map_or(Moment::default(), |keep| now - keep);
        let mut octets = self.bytes();
        let mut count = 0;
        // The head stays: the next link follows from it.
        for one in self.decisions.iter().rev().skip(1).rev().take(STEP) {
            let is_old = Head::of(&one.record)?.time() < oldest_kept;
            let is_too_much = retention.max_size.is_some_and(|most| octets > most);
            if !is_old && !is_too_much {
                break;
            }
            octets = octets.saturating_sub(one.record.len() as u64 + 100);
            count += 1;
        }
        let gone: Vec<_> = self.decisions.drain(..count).collect();
        if let Some(last) = gone.last() {
            (self.dropped, self.before) = (last.seq, last.hash);
            self.seals.retain(|seal| seal.seq >= last.seq);
            self.seal(key, now);
            if let Some(first) = self.decisions.first() {
                let oldest = first.time;
                self.hours.retain(|(hour, ..), _| *hour + HOUR > oldest);
            }
        }
        let mut used: HashSet<Sha256> = HashSet::new();
        for (memory, fetches) in self.origins.values() {
            used.extend(memory.state.copy().map(|copy| copy.sha256));
            used.extend(fetches.iter().filter_map(|fetch| fetch.sha256));
        }
        for one in &self.decisions {
            used.extend(Head::of(&one.record)?.sha256());
        }
        let before = self.snapshots.len();
        self.snapshots
            .retain(|sha256, kept| used.contains(sha256) || kept.used >= oldest_kept);
        Ok(Pruned {
            decisions: count as u64,
            snapshots: (before - self.snapshots.len()) as u64,
            more: count == STEP,
            ..Pruned::default()
        })
    }
}
