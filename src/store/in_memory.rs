//! A store in memory: for tests, and a model for engines.

mod kept;

use std::future;
use std::sync::Arc;

use parking_lot::Mutex;

use self::kept::Kept;
use super::changes::Announcer;
use super::filter::{Filter, Tallies};
use super::origins::place;
use super::{
    Acknowledgement, Batch, Belief, DecisionQuery, Fetch, HOUR, Hourly, ObjectKind, OriginMemory,
    OriginQuery, Pending, Progress, Pruned, Removed, Retention, Sha256, Size, Store, StoreError,
    StoredDecision, Tally, TallyKey, chain,
};
use crate::clock::Moment;
use crate::policy::overrides::{Override, OverrideId};
use crate::rep::Origin;
use crate::robots::identity::Identity;

/// A store in memory.
#[derive(Debug, Default)]
pub struct InMemoryStore {
    kept: Mutex<Kept>,
    announcer: Announcer,
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

    fn object(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>> {
        self.with(|kept| Ok(kept.objects.get(&sha256).map(|(_, body)| body.clone())))
    }

    fn policy(&self, sha256: Sha256) -> Pending<'_, Option<String>> {
        self.with(|kept| {
            let found = kept.objects.get(&sha256);
            let text = found.filter(|(kind, _)| *kind == ObjectKind::Terms);
            Ok(text.and_then(|(_, body)| String::from_utf8(body.clone()).ok()))
        })
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

    fn progress(&self) -> Pending<'_, Progress> {
        self.with(|kept| {
            Ok(Progress {
                belief: kept.belief,
                first: kept.decisions.first().map(|one| one.time),
                last: kept.decisions.last().map(|one| one.time),
            })
        })
    }

    fn note_belief(&self, belief: Belief) -> Pending<'_, ()> {
        self.with(|kept| {
            kept.belief = Some(belief);
            Ok(())
        })
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
