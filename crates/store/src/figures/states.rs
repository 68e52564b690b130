//! The states of robots.txt that decisions rest on, and the outages among them.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Figures, Lookup, MAX_ROWS, Sum};
use crawlgate_policy::Reason;
use crawlgate_record::{Basis, Digest};

/// Outages that are told one by one.
const MAX_OUTAGES: usize = 10_000;

/// The use of a state for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// An unreachable robots.txt meant complete disallow.
    Disallow,
    /// Its rules, or the lack of them, decided.
    Rules,
}

impl Use {
    pub(super) fn of(reason: &str) -> Self {
        if reason == Reason::RobotsUnreachable.as_str() { Self::Disallow } else { Self::Rules }
    }
}

/// The facts of a state that are counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StateFacts {
    fetched_at: Option<u64>,
    state: Option<&'static str>,
    outage: Option<usize>,
    has_text: bool,
}

impl StateFacts {
    /// Tells whether the store has the state.
    pub(super) fn is_known(&self) -> bool {
        self.state.is_some()
    }
}

/// The states that decisions rest on.
#[derive(Clone, Debug, Default)]
pub struct Robots {
    /// Requests that were judged by a robots.txt, or the lack of one, that the store can name. What an unreachable
    /// robots.txt kept back was not judged.
    pub judged: u64,
    /// Of these, requests that came at most a day after the fetch.
    pub within_a_day: u64,
    /// Requests by the state of the robots.txt.
    pub states: BTreeMap<&'static str, Sum>,
    /// Different states that decisions rest on.
    pub different: u64,
    /// Of these, files that were longer than the limit.
    pub truncated: u64,
    /// Requests that rest on a state that the store has lost.
    pub lost: u64,
    /// Outages, in no order.
    pub outages: Vec<OutageFigures>,
    /// Outages that found no room.
    pub outages_left_out: u64,
    /// The places of outages by origin and first failure.
    places: HashMap<(String, u64), Option<usize>, ahash::RandomState>,
    /// The texts of each origin.
    texts: HashSet<(String, Digest), ahash::RandomState>,
}

/// A series of failed fetches that decisions rest on. Times are milliseconds since the epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutageFigures {
    /// The origin.
    pub origin: String,
    /// The first failure.
    pub since: u64,
    /// The cause of the last failure that a decision rests on.
    pub cause: String,
    /// Failed fetches.
    pub attempts: u32,
    /// The last request.
    pub last: u64,
    /// Requests that the outage disallowed.
    pub disallowed: u64,
    /// Requests that the last good copy decided.
    pub by_copy: u64,
    /// Requests without any rules.
    pub without_rules: u64,
}

impl Robots {
    /// Returns the number of origins, and of those that had more than one text.
    #[must_use]
    pub fn changed(&self) -> (u64, u64) {
        let mut texts: HashMap<&str, u64> = HashMap::new();
        for (origin, _) in &self.texts {
            *texts.entry(origin).or_default() += 1;
        }
        let changed = texts.values().filter(|count| **count > 1).count();
        (texts.len() as u64, changed as u64)
    }

    fn learn(&mut self, basis: &Basis<'_>) -> StateFacts {
        self.different += 1;
        self.truncated += u64::from(basis.truncated);
        if let Some(sha256) = basis.sha256
            && self.texts.len() < MAX_ROWS
        {
            self.texts.insert((basis.origin.to_owned(), *sha256));
        }
        let outage = basis.outage.and_then(|outage| {
            let key = (basis.origin.to_owned(), outage.since);
            let known = self.places.get(&key).copied();
            let place = known.unwrap_or_else(|| {
                let has_room = self.outages.len() < MAX_OUTAGES;
                let place = has_room.then_some(self.outages.len());
                self.outages_left_out += u64::from(!has_room);
                if has_room {
                    self.outages.push(OutageFigures {
                        origin: key.0.clone(),
                        since: outage.since,
                        ..OutageFigures::default()
                    });
                }
                if self.places.len() < MAX_ROWS {
                    self.places.insert(key, place);
                }
                place
            });
            let at = self.outages.get_mut(place?)?;
            if outage.attempts >= at.attempts {
                at.attempts = outage.attempts;
                outage.cause.clone_into(&mut at.cause);
            }
            place
        });
        StateFacts {
            fetched_at: basis.fetched_at,
            state: Some(state(basis.state)),
            outage,
            has_text: basis.sha256.is_some(),
        }
    }
}

/// Returns the name of a state. There are few; another one than today's is counted as such.
fn state(name: &str) -> &'static str {
    const STATES: [&str; 4] = ["pending", "successful", "unavailable", "unreachable"];
    let known = STATES.into_iter().find(|known| *known == name);
    known.unwrap_or("other")
}

impl Figures {
    /// Returns the time of the fetch that a state rests on.
    pub(super) fn fetched_at(&mut self, digest: &Digest, objects: Lookup<'_>) -> Option<u64> {
        if let Some(known) = self.states.get(digest) {
            return known.fetched_at;
        }
        let body = objects(digest);
        let basis = body.as_deref().and_then(|body| Basis::read(body).ok());
        let facts = basis.map(|basis| self.robots.learn(&basis));
        let facts = facts.unwrap_or_default();
        self.states.insert(*digest, facts);
        facts.fetched_at
    }

    /// Counts requests that rest on a state, of which `fresh` came within a day after the fetch.
    pub(super) fn rest_on(&mut self, digest: &Digest, how: Use, sum: &Sum, fresh: u64) {
        let Some(facts) = self.states.get(digest).copied() else {
            return;
        };
        let robots = &mut self.robots;
        let requests = sum.requests();
        let Some(state) = facts.state else {
            robots.lost += requests;
            return;
        };
        if how == Use::Rules {
            robots.judged += requests;
            robots.within_a_day += fresh;
        }
        robots.states.entry(state).or_default().add(sum);
        let Some(outage) = facts.outage.and_then(|place| robots.outages.get_mut(place)) else {
            return;
        };
        outage.last = outage.last.max(sum.last);
        let of = match (how, facts.has_text) {
            (Use::Disallow, _) => &mut outage.disallowed,
            (Use::Rules, true) => &mut outage.by_copy,
            (Use::Rules, false) => &mut outage.without_rules,
        };
        *of += requests;
    }
}
