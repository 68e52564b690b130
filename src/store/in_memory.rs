//! A store in memory: for tests, and a model for engines.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future;
use std::sync::Arc;

use parking_lot::Mutex;

use super::changes::Announcer;
use super::filter::{Filter, Head, Tallies, records_of};
use super::{
    Acknowledgement, Batch, DecisionQuery, FETCHES_KEPT, Fetch, HOUR, Hourly, OriginMemory,
    OriginQuery, OriginUpdate, Pending, Pruned, Removed, Retention, Sha256, Size, Store,
    StoreError, StoredDecision, Tally, TallyKey, chain, place,
};
use crate::clock::Moment;
use crate::policy::overrides::{Override, OverrideId};
use crate::rep::Origin;
use crate::robots::identity::{Identity, OWN_STATES};
use crate::store::persist::to_stored;

/// A store in memory.
#[derive(Debug, Default)]
pub struct InMemoryStore {
    kept: Mutex<Kept>,
    announcer: Announcer,
}

#[derive(Debug, Default)]
struct Kept {
    /// By origin and identity.
    origins: BTreeMap<(String, String), (OriginMemory, Vec<Fetch>)>,
    snapshots: HashMap<Sha256, Text>,
    policies: HashMap<String, String>,
    /// The first one's number is one more than the number of dropped decisions.
    decisions: Vec<StoredDecision>,
    /// By hour, mode, verdict and reason.
    hours: BTreeMap<(Moment, String, String, String), u64>,
    dropped: u64,
    /// The link before the first.
    before: Sha256,
    seals: Vec<chain::Seal>,
    overrides: Vec<Override>,
    removed: Vec<Removed>,
    next_override: u64,
    version: u64,
}

/// A robots.txt.
#[derive(Debug)]
struct Text {
    text: Vec<u8>,
    used: Moment,
}

impl InMemoryStore {
    /// Returns an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a future that is ready at once.
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Kept) -> Result<T, StoreError>,
    ) -> Pending<'static, T> {
        Box::pin(future::ready(work(&mut self.kept.lock())))
    }
}

impl Store for InMemoryStore {
    fn write(&self, batch: Batch) -> Pending<'_, ()> {
        self.with(|kept| kept.write(batch))
    }

    fn origin(&self, origin: &Origin) -> Pending<'_, Vec<OriginMemory>> {
        self.with(|kept| {
            let known = kept.of(origin);
            Ok(known.map(|(memory, _)| memory.clone()).collect())
        })
    }

    fn origins(&self, query: OriginQuery) -> Pending<'_, Vec<OriginMemory>> {
        self.with(|kept| {
            let after = query.after.as_deref().map(place);
            let wanted = kept
                .origins
                .iter()
                .filter(|((name, identity), (memory, _))| {
                    after.is_none_or(|after| (&**name, &**identity) > after)
                        && query
                            .containing
                            .as_deref()
                            .is_none_or(|part| name.contains(part))
                        && query
                            .state
                            .as_deref()
                            .is_none_or(|state| memory.state.name() == state)
                });
            let page = wanted.take(query.limit);
            Ok(page.map(|(_, (memory, _))| memory.clone()).collect())
        })
    }

    fn fetches(&self, origin: &Origin, limit: usize) -> Pending<'_, Vec<Fetch>> {
        self.with(|kept| {
            let fetches = kept.of(origin).flat_map(|(_, fetches)| fetches);
            let mut fetches: Vec<Fetch> = fetches.rev().cloned().collect();
            fetches.sort_by_key(|fetch| std::cmp::Reverse(fetch.time));
            fetches.truncate(limit);
            Ok(fetches)
        })
    }

    fn forget(&self, origin: &Origin, identity: Option<&Identity>) -> Pending<'_, bool> {
        self.with(|kept| {
            let before = kept.origins.len();
            kept.origins.retain(|_, (memory, _)| {
                memory.origin != *origin || identity.is_some_and(|one| *one != memory.identity)
            });
            Ok(kept.origins.len() < before)
        })
    }

    fn snapshot(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>> {
        self.with(|kept| Ok(kept.snapshots.get(&sha256).map(|kept| kept.text.clone())))
    }

    fn policy(&self, digest: &str) -> Pending<'_, Option<String>> {
        self.with(|kept| Ok(kept.policies.get(digest).cloned()))
    }

    fn decisions(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>> {
        self.with(|kept| {
            let filter = Filter::new(&query)?;
            let wanted = |decision: &&StoredDecision| {
                let seen = decision.acknowledged.as_ref();
                filter.facts(&decision.record, seen).is_some()
            };
            let all = kept.decisions.iter();
            let all = all.filter(|one| is_between(one.seq, &query));
            Ok(if query.newest_first {
                let page = all
                    .rev()
                    .filter(|one| query.after.is_none_or(|after| one.seq < after));
                page.filter(wanted).take(query.limit).cloned().collect()
            } else {
                let page = all.filter(|one| query.after.is_none_or(|after| one.seq > after));
                page.filter(wanted).take(query.limit).cloned().collect()
            })
        })
    }

    fn decision(&self, id: &str) -> Pending<'_, Option<StoredDecision>> {
        self.with(|kept| Ok(kept.find(id).cloned()))
    }

    fn tally(&self, query: DecisionQuery, key: TallyKey, limit: usize) -> Pending<'_, Vec<Tally>> {
        self.with(|kept| {
            let filter = Filter::new(&query)?;
            let mut tallies = Tallies::new(key);
            let all = kept.decisions.iter();
            let all = all.filter(|one| is_between(one.seq, &query));
            for one in all {
                if let Some(facts) = filter.facts(&one.record, one.acknowledged.as_ref()) {
                    tallies.count(&facts);
                }
            }
            Ok(tallies.into_most_frequent(limit))
        })
    }

    fn hours(&self, since: Moment, until: Moment) -> Pending<'_, Vec<Hourly>> {
        self.with(|kept| {
            let hours = kept.hours.iter();
            let wanted = hours.filter(|((hour, ..), _)| *hour + HOUR > since && *hour < until);
            let told = wanted.map(|((hour, mode, verdict, reason), count)| Hourly {
                hour: *hour,
                mode: mode.clone(),
                verdict: verdict.clone(),
                reason: reason.clone(),
                count: *count,
            });
            Ok(told.collect())
        })
    }

    fn acknowledge(&self, id: &str, note: Acknowledgement) -> Pending<'_, bool> {
        self.with(|kept| {
            let found = kept.find(id);
            Ok(found.map(|one| one.acknowledged = Some(note)).is_some())
        })
    }

    fn links(&self, after: u64, limit: usize) -> Pending<'_, Vec<StoredDecision>> {
        self.with(|kept| {
            let page = kept.decisions.iter().filter(|one| one.seq > after);
            Ok(page.take(limit).cloned().collect())
        })
    }

    fn seals(&self) -> Pending<'_, Vec<chain::Seal>> {
        self.with(|kept| Ok(kept.seals.clone()))
    }

    fn gaps(&self, _: u64, _: u64) -> Pending<'_, Vec<chain::Gap>> {
        // This store drops from the front alone.
        self.with(|_| Ok(Vec::new()))
    }

    fn is_dropped(&self, _: Sha256) -> Pending<'_, bool> {
        self.with(|_| Ok(false))
    }

    fn seal(&self, key: Arc<chain::SealingKey>, now: Moment) -> Pending<'_, Option<chain::Seal>> {
        self.with(|kept| {
            let is_sealed = kept
                .seals
                .last()
                .is_some_and(|seal| seal.seq == kept.head().0);
            Ok(if is_sealed {
                None
            } else {
                kept.seal(&key, now)
            })
        })
    }

    fn overrides(&self) -> Pending<'_, Vec<Override>> {
        self.with(|kept| Ok(kept.overrides.clone()))
    }

    fn removed_overrides(&self) -> Pending<'_, Vec<Removed>> {
        self.with(|kept| {
            let mut removed = kept.removed.clone();
            removed.sort_by_key(|one| one.asserted.id);
            Ok(removed)
        })
    }

    fn add_override(&self, new: Override) -> Pending<'_, u64> {
        self.with(|kept| {
            kept.next_override += 1;
            kept.version += 1;
            let id = OverrideId::Stored(kept.next_override);
            kept.overrides.push(Override { id, ..new });
            self.announcer.announce();
            Ok(kept.next_override)
        })
    }

    fn remove_override(&self, number: u64, by: String, now: Moment) -> Pending<'_, bool> {
        self.with(|kept| {
            let is_meant = |one: &Override| one.id == OverrideId::Stored(number);
            let Some(place) = kept.overrides.iter().position(is_meant) else {
                return Ok(false);
            };
            kept.removed.push(Removed {
                asserted: kept.overrides.remove(place),
                time: now,
                by,
            });
            kept.version += 1;
            self.announcer.announce();
            Ok(true)
        })
    }

    fn version(&self) -> Pending<'_, u64> {
        self.with(|kept| Ok(kept.version))
    }

    fn changes(&self, seen: u64) -> Pending<'_, u64> {
        Box::pin(self.announcer.changed(seen, || self.version()))
    }

    fn prune(
        &self,
        retention: Retention,
        key: Arc<chain::SealingKey>,
        now: Moment,
    ) -> Pending<'_, Pruned> {
        self.with(|kept| kept.prune(retention, &key, now))
    }

    fn size(&self) -> Pending<'_, Size> {
        self.with(|kept| {
            Ok(Size {
                bytes: kept.bytes(),
                origins: kept.origins.len() as u64,
                snapshots: kept.snapshots.len() as u64,
                decisions: kept.decisions.len() as u64,
            })
        })
    }
}

/// Tells whether a search may visit this place.
fn is_between(seq: u64, query: &DecisionQuery) -> bool {
    query.from.is_none_or(|from| seq >= from) && query.to.is_none_or(|to| seq <= to)
}

impl Kept {
    fn write(&mut self, batch: Batch) -> Result<(), StoreError> {
        // Read the lines first: a batch with an unreadable line must change nothing.
        let mut records = Vec::new();
        for record in records_of(&batch.lines)? {
            let head = Head::of(record)?;
            let hour = head.hourly().map(|new| {
                let [mode, verdict, reason] =
                    [new.mode, new.verdict, new.reason].map(str::to_owned);
                ((new.hour, mode, verdict, reason), new.count)
            });
            records.push((record.to_owned(), head.time(), hour));
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
        for (digest, text) in batch.policies {
            let known = self.policies.entry(digest.to_string());
            known.or_insert_with(|| text.to_string());
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
    fn of(&self, origin: &Origin) -> impl DoubleEndedIterator<Item = &(OriginMemory, Vec<Fetch>)> {
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

    fn head(&self) -> (u64, Sha256) {
        let last = self.decisions.last();
        last.map_or((self.dropped, self.before), |last| (last.seq, last.hash))
    }

    fn find(&mut self, id: &str) -> Option<&mut StoredDecision> {
        self.decisions.iter_mut().find(|one| {
            let record = serde_json::from_str::<serde_json::Value>(&one.record);
            record.is_ok_and(|record| record.get("id").and_then(|id| id.as_str()) == Some(id))
        })
    }

    fn seal(&mut self, key: &chain::SealingKey, now: Moment) -> Option<chain::Seal> {
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

    fn bytes(&self) -> u64 {
        let decisions = self.decisions.iter().map(|one| one.record.len() + 100);
        let snapshots = self.snapshots.values().map(|one| one.text.len());
        (decisions.sum::<usize>() + snapshots.sum::<usize>() + self.origins.len() * 500) as u64
    }

    fn prune(
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
