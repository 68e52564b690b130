//! One list of the entries of several logs, by time.
//!
//! Each log gives its entries in its own order. The list compares the next entry of each log and takes the earliest, or the
//! latest. Entries of the same time come in the order of the logs' names. Where a search may pass a limited number of
//! records ([`MergedList::passing`]), the list ends before what one of the logs may still have.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use super::{Fault, Listed, Log, Logs, Place, Places};
use crate::{DecisionQuery, GroupBy, GroupCount, Store, StoreError, StoredDecision, failed};
use crawlgate_system::clock::Moment;

/// Entries to read of a log at once, at least and at most.
const CHUNK: (usize, usize) = (16, 500);

/// Records that a search passes in each log, at least.
const LEAST_PASSED: u64 = 1_000;

/// The entries that a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Decisions.
    Decisions,
    /// Entries that are no decisions.
    Events,
}

/// A list of the entries of several logs that meet a query, page by page.
#[derive(Debug)]
pub struct MergedList<'l> {
    logs: &'l Logs,
    kind: EntryKind,
    query: DecisionQuery,
    /// The records that each log may pass.
    reach: Option<u64>,
    parts: Vec<Part<'l>>,
}

/// The extent of a search that stopped before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Records that it passed in all logs.
    pub passed: u64,
    /// The time up to which it saw all of them.
    pub time: Moment,
}

/// The part of a log in the list.
#[derive(Debug)]
struct Part<'l> {
    log: &'l Log,
    /// The number of the last entry that the list has taken.
    taken: u64,
    /// The number of the last entry that was read.
    read: u64,
    /// The last number to visit.
    end: Option<u64>,
    /// Entries that were read and not taken.
    ahead: VecDeque<StoredDecision>,
    rest: Rest,
    passed: u64,
}

/// The entries of a log that were not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rest {
    /// Nothing of the log was read yet.
    Untouched,
    /// There may be more; `edge` is the place and the time at which the search stops before the end.
    More { edge: Option<Edge> },
    /// The search has stopped, and there may be more beyond.
    Beyond(Edge),
    /// There is no more.
    Nothing,
    /// The log cannot be read.
    Failed(StoreError),
}

/// The last record that a search passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    seq: u64,
    time: Moment,
}

/// The next of a log, by which the list chooses.
enum Next {
    Entry,
    /// The search has stopped: the next entry is unknown.
    Unknown,
}

impl<'l> MergedList<'l> {
    /// Begins the list of the entries that meet the conditions of `query`, in its order.
    #[must_use]
    pub fn new(logs: &'l Logs, kind: EntryKind, query: DecisionQuery) -> Self {
        let start = start(query.newest_first);
        let part = |log| Part {
            log,
            taken: start,
            read: start,
            end: None,
            ahead: VecDeque::new(),
            rest: Rest::Untouched,
            passed: 0,
        };
        Self { logs, kind, query, reach: None, parts: logs.iter().map(part).collect() }
    }

    /// Bounds the records that the search passes, in all logs together.
    #[must_use]
    pub fn passing(mut self, most: u64) -> Self {
        let each = most / (self.parts.len() as u64).max(1);
        self.reach = Some(each.max(LEAST_PASSED.min(most)));
        self
    }

    /// Goes on behind these places. A log without one is left out.
    #[must_use]
    pub fn after(mut self, places: &Places) -> Self {
        for part in &mut self.parts {
            match places.get(part.log.name()) {
                Some(Place::At(seq)) => (part.taken, part.read) = (seq, seq),
                Some(Place::Failed) => {
                    let why = "left out since an earlier page, which could not read it";
                    part.rest = Rest::Failed(failed(why));
                }
                None => part.rest = Rest::Nothing,
            }
        }
        self
    }

    /// Leaves out what lies behind these places; all of a log without one.
    #[must_use]
    pub fn up_to(mut self, places: &Places) -> Self {
        for part in &mut self.parts {
            let last = places.number(part.log.name());
            if self.query.newest_first {
                let before = part.taken.min(last.saturating_add(1));
                (part.taken, part.read) = (before, before);
            } else {
                part.end = Some(last);
            }
        }
        self
    }

    /// Returns the next entries, at most `limit`.
    ///
    /// # Errors
    /// When there is only one log, and it cannot be read.
    pub async fn page(&mut self, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let mut page = Vec::new();
        let (least, most) = CHUNK;
        let share = match self.parts.len() {
            0 | 1 => limit,
            parts => (2 * limit / parts).max(least),
        };
        let chunk = share.min(most).min(limit);
        while page.len() < limit {
            for nth in 0..self.parts.len() {
                self.read(nth, chunk).await;
            }
            let Some((nth, Next::Entry)) = self.next() else {
                break;
            };
            let Some(part) = self.parts.get_mut(nth) else {
                break;
            };
            let Some(entry) = part.ahead.pop_front() else {
                break;
            };
            part.taken = entry.seq;
            let log = part.log.name().clone();
            page.push(Listed { log, entry });
        }
        self.alone().map(|()| page)
    }

    /// Counts the decisions by `key`, most frequent first, at most `limit` groups.
    ///
    /// # Errors
    /// When there is only one log, and it cannot be read.
    pub async fn count_by(
        &mut self,
        key: GroupBy,
        limit: usize,
    ) -> Result<Vec<GroupCount>, StoreError> {
        let each = match self.parts.len() {
            0 | 1 => limit,
            // A group may be frequent only in all of them together.
            _ => usize::MAX,
        };
        let mut groups: HashMap<Vec<String>, GroupCount> = HashMap::new();
        for nth in 0..self.parts.len() {
            for one in self.count(nth, key, each).await {
                match groups.get_mut(&one.key) {
                    Some(sum) => {
                        sum.count = sum.count.saturating_add(one.count);
                        sum.first = sum.first.min(one.first);
                        sum.last = sum.last.max(one.last);
                    }
                    None => drop(groups.insert(one.key.clone(), one)),
                }
            }
        }
        self.alone()?;
        let mut groups: Vec<GroupCount> = groups.into_values().collect();
        groups.sort_unstable_by(|a, b| (Reverse(a.count), &a.key).cmp(&(Reverse(b.count), &b.key)));
        groups.truncate(limit);
        Ok(groups)
    }

    /// Returns the logs that could not be read.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let fault = |part: &Part<'_>| match &part.rest {
            Rest::Failed(error) => {
                Some(Fault { log: part.log.name().clone(), error: error.clone() })
            }
            _ => None,
        };
        self.parts.iter().filter_map(fault).collect()
    }

    /// Returns how far each log was read, for the next page; `None` at the end.
    #[must_use]
    pub fn next_places(&self) -> Option<Places> {
        let mut places = Places::default();
        let newest_first = self.query.newest_first;
        for part in &self.parts {
            let place = match (part.ahead.front(), &part.rest) {
                (_, Rest::Failed(_)) => Some(Place::Failed),
                // Behind the entry before: an entry that comes meanwhile does not go before those of this page.
                (Some(next), _) => Some(Place::At(if newest_first {
                    next.seq.saturating_add(1)
                } else {
                    next.seq.saturating_sub(1)
                })),
                (None, Rest::Beyond(edge)) => Some(Place::At(edge.seq)),
                (None, Rest::Untouched | Rest::More { .. }) => Some(Place::At(part.taken)),
                (None, Rest::Nothing) => None,
            };
            if let Some(place) = place {
                places.insert(part.log.name(), place);
            }
        }
        places.lead_on().then_some(places)
    }

    /// Returns the places behind which a list in the other order has what this one has taken.
    #[must_use]
    pub fn turned(&self) -> Places {
        let mut places = Places::default();
        for part in &self.parts {
            let before = if self.query.newest_first {
                part.taken.saturating_sub(1)
            } else {
                part.taken.saturating_add(1)
            };
            places.insert(part.log.name(), Place::At(before));
        }
        places
    }

    /// Returns how far the search came, if it stopped before the end.
    #[must_use]
    pub fn reached(&self) -> Option<Reached> {
        let edges = self.parts.iter().filter_map(|part| match part.rest {
            Rest::Beyond(edge) if part.ahead.is_empty() => Some(edge.time),
            _ => None,
        });
        let time = if self.query.newest_first { edges.max() } else { edges.min() };
        Some(Reached { passed: self.parts.iter().map(|part| part.passed).sum(), time: time? })
    }

    /// Fails if there is only one log, and it cannot be read.
    fn alone(&self) -> Result<(), StoreError> {
        match &*self.parts {
            [Part { rest: Rest::Failed(error), .. }] => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Returns the part with the next entry. The list stops at a part that may have an earlier entry, not read yet.
    fn next(&self) -> Option<(usize, Next)> {
        let head = |part: &Part<'_>| match (part.ahead.front(), &part.rest) {
            (_, Rest::Failed(_)) => None,
            (Some(next), _) => Some((next.time, Next::Entry)),
            (None, Rest::Beyond(edge)) => Some((edge.time, Next::Unknown)),
            _ => None,
        };
        let parts = self.parts.iter().enumerate();
        let heads = parts.filter_map(|(nth, part)| head(part).map(|head| (nth, head)));
        let next = if self.query.newest_first {
            heads.max_by_key(|(nth, (time, _))| (*time, *nth))
        } else {
            heads.min_by_key(|(nth, (time, _))| (*time, *nth))
        };
        next.map(|(nth, (_, next))| (nth, next))
    }

    /// Reads the next entries of a log, unless some are there.
    async fn read(&mut self, nth: usize, chunk: usize) {
        let (logs, kind, reach) = (self.logs, self.kind, self.reach);
        let Some(part) = self.parts.get_mut(nth) else {
            return;
        };
        if !part.ahead.is_empty() || !matches!(part.rest, Rest::Untouched | Rest::More { .. }) {
            return;
        }
        let read = async {
            let store = logs.open(part.log).await?;
            let edge = match &part.rest {
                Rest::More { edge } => *edge,
                _ => part.begin(&store, &self.query, reach).await?,
            };
            if part.rest == Rest::Nothing {
                return Ok(());
            }
            let query = part.query(&self.query, chunk);
            let page = entries(&store, kind, query).await?;
            if let Some(last) = page.last() {
                part.read = last.seq;
            }
            part.rest = match (page.len() < chunk, edge) {
                (false, edge) => Rest::More { edge },
                (true, Some(edge)) => Rest::Beyond(edge),
                (true, None) => Rest::Nothing,
            };
            part.ahead.extend(page);
            Ok(())
        };
        if let Err(error) = read.await {
            part.rest = Rest::Failed(error);
        }
    }

    /// Counts the decisions of a log.
    async fn count(&mut self, nth: usize, key: GroupBy, limit: usize) -> Vec<GroupCount> {
        let (logs, reach) = (self.logs, self.reach);
        let Some(part) = self.parts.get_mut(nth) else {
            return Vec::new();
        };
        if part.rest != Rest::Untouched {
            return Vec::new();
        }
        let count = async {
            let store = logs.open(part.log).await?;
            let edge = part.begin(&store, &self.query, reach).await?;
            if part.rest == Rest::Nothing {
                return Ok(Vec::new());
            }
            let query = part.query(&self.query, 0);
            let counts = store.count_by(query, key, limit).await?;
            part.rest = edge.map_or(Rest::Nothing, Rest::Beyond);
            Ok(counts)
        };
        count.await.unwrap_or_else(|error| {
            part.rest = Rest::Failed(error);
            Vec::new()
        })
    }
}

impl Part<'_> {
    /// Finds where the search of this page stops, if that is before the end. Sets [`Rest::Nothing`] for a log without an
    /// entry of the time.
    async fn begin(
        &mut self,
        store: &Store,
        query: &DecisionQuery,
        reach: Option<u64>,
    ) -> Result<Option<Edge>, StoreError> {
        let Some(reach) = reach else {
            return Ok(None);
        };
        let first = end_of(store, query, false).await?;
        let last = end_of(store, query, true).await?;
        let (Some(first), Some(last)) = (first, last) else {
            self.rest = Rest::Nothing;
            return Ok(None);
        };
        let (edge, last_wanted) = if query.newest_first {
            self.read = self.read.min(last.saturating_add(1));
            (self.read.saturating_sub(reach).max(first), first)
        } else {
            self.read = self.read.max(first.saturating_sub(1));
            let last = last.min(self.end.unwrap_or(last));
            (self.read.saturating_add(reach).min(last), last)
        };
        let is_over =
            if query.newest_first { self.read <= first } else { self.read >= last_wanted };
        if is_over {
            self.rest = Rest::Nothing;
            return Ok(None);
        }
        self.end = Some(edge);
        self.passed = self.read.abs_diff(edge);
        if edge == last_wanted {
            return Ok(None);
        }
        let at = store.records(edge.saturating_sub(1), 1).await?.pop();
        Ok(at.map(|at| Edge { seq: edge, time: at.time }))
    }

    fn query(&self, query: &DecisionQuery, limit: usize) -> DecisionQuery {
        let newest_first = query.newest_first;
        DecisionQuery {
            after: (self.read != start(newest_first)).then_some(self.read),
            from: self.end.filter(|_| newest_first),
            to: self.end.filter(|_| !newest_first),
            newest_first,
            limit,
            ..query.clone()
        }
    }
}

/// Returns the place before the first entry of a list.
fn start(newest_first: bool) -> u64 {
    if newest_first { u64::MAX } else { 0 }
}

async fn entries(
    store: &Store,
    kind: EntryKind,
    query: DecisionQuery,
) -> Result<Vec<StoredDecision>, StoreError> {
    match kind {
        EntryKind::Decisions => store.decisions(query).await,
        EntryKind::Events => store.events(query).await,
    }
}

/// Returns the number of the first or the last decision of the time of a query, found without a search.
async fn end_of(
    store: &Store,
    query: &DecisionQuery,
    newest_first: bool,
) -> Result<Option<u64>, StoreError> {
    let query = DecisionQuery {
        since: query.since,
        until: query.until,
        newest_first,
        limit: 1,
        ..DecisionQuery::default()
    };
    Ok(store.decisions(query).await?.first().map(|one| one.seq))
}
