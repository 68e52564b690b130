//! The figures of a span of the log, counted in one pass: what a report tells of its decisions and events.
//!
//! ```text
//! let mut figures = Figures::default();
//! figures.count_block(&search, &block, range, acknowledged, &mut objects)?
//! ```
//!
//! Each text is looked up once per word of the dictionaries; the rows are counted by numbers. A crawler or a site can make up any number of texts, so each table has a bound: what comes after it is counted
//! together.
//!
//! The room knows no IO, clock or log.

mod count;
mod events;
mod states;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

pub use self::events::{Noted, NotedKind};
use self::states::StateFacts;
pub use self::states::{OutageFigures, Robots};
use crawlgate_policy::Outcome;
use crawlgate_record::{Digest, Mode, Verdict};
use crawlgate_usage::Purpose;
use crawlgate_usage::record::UsageRecord;

/// Rows of one table.
const MAX_ROWS: usize = 250_000;

/// Rows of a table of texts that the crawler makes up.
const MAX_AGENTS: usize = 10_000;

/// Milliseconds of a day.
const DAY: u64 = 86_400_000;

/// Age up to which a robots.txt counts as fresh: RFC 9309, section 2.4, asks for no more.
const FRESH: u64 = DAY;

/// A number of requests by outcome, and their span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Requests that went out and were answered.
    pub forwarded: u64,
    /// Requests that went out and failed.
    pub failed: u64,
    /// Requests that the site disallows.
    pub disallowed: u64,
    /// Requests that were denied because a robots.txt was unreachable.
    pub unreachable: u64,
    /// Requests that the proxy or its operator refused.
    pub refused_here: u64,
    /// Requests that were refused for now.
    pub deferred: u64,
    /// Of those that went out, requests that only report mode let out.
    pub reported: u64,
    /// Time of the first, in milliseconds since the epoch.
    pub first: u64,
    /// Time of the last.
    pub last: u64,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            forwarded: 0,
            failed: 0,
            disallowed: 0,
            unreachable: 0,
            refused_here: 0,
            deferred: 0,
            reported: 0,
            first: u64::MAX,
            last: 0,
        }
    }
}

impl Sum {
    /// Returns the number of all requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let kept = self.denied().saturating_add(self.deferred);
        kept.saturating_add(self.forwarded).saturating_add(self.failed)
    }

    /// Returns the number of denied requests.
    #[must_use]
    pub fn denied(&self) -> u64 {
        self.disallowed.saturating_add(self.unreachable).saturating_add(self.refused_here)
    }

    /// Counts `count` requests of one outcome between two times.
    #[inline]
    fn count(&mut self, (outcome, is_reported): OutcomeInMode, count: u64, first: u64, last: u64) {
        let of = match outcome {
            Outcome::Forwarded => &mut self.forwarded,
            Outcome::Failed => &mut self.failed,
            Outcome::Disallowed => &mut self.disallowed,
            Outcome::Unreachable => &mut self.unreachable,
            Outcome::RefusedHere => &mut self.refused_here,
            Outcome::Deferred => &mut self.deferred,
        };
        *of = of.saturating_add(count);
        if is_reported {
            self.reported = self.reported.saturating_add(count);
        }
        self.first = self.first.min(first);
        self.last = self.last.max(last);
    }

    /// Adds other requests.
    pub fn add(&mut self, other: &Self) {
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        add(&mut self.forwarded, other.forwarded);
        add(&mut self.failed, other.failed);
        add(&mut self.disallowed, other.disallowed);
        add(&mut self.unreachable, other.unreachable);
        add(&mut self.refused_here, other.refused_here);
        add(&mut self.deferred, other.deferred);
        add(&mut self.reported, other.reported);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }
}

/// An outcome; true if only report mode let the request out.
type OutcomeInMode = (Outcome, bool);

/// Requests by a common trait, with a bound.
#[derive(Clone, Debug)]
pub struct Table<K> {
    rows: HashMap<K, Sum, ahash::RandomState>,
    most: usize,
    /// The requests that found no row.
    pub others: Sum,
}

impl<K: Hash + Ord + Clone> Table<K> {
    fn of(most: usize) -> Self {
        Self { rows: HashMap::default(), most, others: Sum::default() }
    }

    fn add(&mut self, key: K, sum: &Sum) {
        if sum.requests() == 0 {
            return;
        }
        if let Some(row) = self.rows.get_mut(&key) {
            row.add(sum);
        } else if self.rows.len() < self.most {
            self.rows.insert(key, *sum);
        } else {
            self.others.add(sum);
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Tells whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rows in the order of their keys.
    #[must_use]
    pub fn all(&self) -> Vec<(&K, &Sum)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        rows
    }

    /// Returns the rows with the largest numbers, at most `limit`, rows of the same number by key. Rows without are left
    /// out.
    #[must_use]
    pub fn largest(&self, limit: usize, number: impl Fn(&Sum) -> u64) -> Vec<(&K, &Sum)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.retain(|(_, sum)| number(sum) > 0);
        rows.sort_unstable_by(|(a, of_a), (b, of_b)| {
            number(of_b).cmp(&number(of_a)).then_with(|| a.cmp(b))
        });
        rows.truncate(limit);
        rows
    }
}

/// Requests with the same mode, verdict and reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasonFigures {
    /// The requests.
    pub sum: Sum,
    /// The identifier of the first that has a record.
    pub example: Option<[u8; 16]>,
}

/// Decisions that record what the site says of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageFigures {
    /// Their number.
    pub decisions: u64,
    /// Those that refused a purpose, in the order of [`Purpose::ALL`].
    pub refused: [u64; Purpose::ALL.len()],
}

impl UsageFigures {
    fn count(&mut self, text: &str) {
        self.decisions += 1;
        let refused = UsageRecord::refused_in(text).unwrap_or_default();
        for (purpose, count) in Purpose::ALL.iter().zip(&mut self.refused) {
            *count += u64::from(refused.has(*purpose));
        }
    }
}

/// The figures.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Decisions with a record of their own.
    pub records: u64,
    /// Requests that were forwarded and counted without a record of their own. The other figures contain them, too.
    pub unrecorded: u64,
    /// Refusals that were counted without a record of their own. The other figures contain them, too.
    pub repeated: u64,
    /// Requests that were counted only by client, in a span that asks for an origin: nothing else contains them.
    pub elsewhere: u64,
    /// Requests by day, counted from the epoch.
    pub days: BTreeMap<u64, Sum>,
    /// Requests by mode, verdict and reason.
    pub reasons: HashMap<(Mode, Verdict, String), ReasonFigures>,
    /// Failed requests by error.
    pub errors: Table<String>,
    /// Requests by client: its name, or its address; empty if several were counted together.
    pub clients: Table<String>,
    /// Requests by first product token; empty without any.
    pub tokens: Table<String>,
    /// Requests by User-Agent; empty without one.
    pub user_agents: Table<String>,
    /// Requests by origin; empty for an unreadable target.
    pub origins: Table<String>,
    /// Refused requests, those of report mode included, by origin and deciding rule.
    pub rules: Table<(String, String)>,
    /// Requests that only report mode let out, by origin.
    pub reported: Table<String>,
    /// Requests through opaque tunnels, by origin.
    pub opaque: Table<String>,
    /// Requests by the settings that their verdict follows from.
    pub policies: Table<Digest>,
    /// Requests by the override that decided.
    pub overrides: Table<Digest>,
    /// The states of robots.txt that decisions rest on.
    pub robots: Robots,
    /// Decisions that record what the site says of use.
    pub usage: UsageFigures,
    /// Refusals that a person has acknowledged.
    pub acknowledged: u64,
    /// Refusals with a record of their own.
    pub acknowledgeable: u64,
    /// The events, in order.
    pub events: Vec<Noted>,
    /// Events that found no room.
    pub events_left_out: u64,
    states: HashMap<Digest, StateFacts, ahash::RandomState>,
    /// The log that is counted.
    log: usize,
}

impl Default for Figures {
    fn default() -> Self {
        Self {
            records: 0,
            unrecorded: 0,
            repeated: 0,
            elsewhere: 0,
            days: BTreeMap::new(),
            reasons: HashMap::new(),
            errors: Table::of(MAX_AGENTS),
            clients: Table::of(MAX_ROWS),
            tokens: Table::of(MAX_AGENTS),
            user_agents: Table::of(MAX_AGENTS),
            origins: Table::of(MAX_ROWS),
            rules: Table::of(MAX_ROWS),
            reported: Table::of(MAX_ROWS),
            opaque: Table::of(MAX_ROWS),
            policies: Table::of(MAX_AGENTS),
            overrides: Table::of(MAX_AGENTS),
            robots: Robots::default(),
            usage: UsageFigures::default(),
            acknowledged: 0,
            acknowledgeable: 0,
            events: Vec::new(),
            events_left_out: 0,
            states: HashMap::default(),
            log: 0,
        }
    }
}

impl Figures {
    /// Goes on with the log of this number. Its store may have what that of the one before has lost.
    pub fn begin_log(&mut self, number: usize) {
        self.log = number;
        self.states.retain(|_, facts| facts.is_known());
    }

    /// Tells whether each request of the span is counted under its client, or whether some were counted for all origins
    /// together, in a span that asks for one.
    #[must_use]
    pub fn knows_forwarded(&self) -> bool {
        self.elsewhere == 0
    }

    /// Tells whether each request of the span has a record: the origin, the crawler and the robots.txt of others are
    /// unknown.
    #[must_use]
    pub fn knows_each_forwarded(&self) -> bool {
        self.knows_forwarded() && self.unrecorded == 0
    }

    /// Returns the sum over all days.
    #[must_use]
    pub fn total(&self) -> Sum {
        let mut total = Sum::default();
        self.days.values().for_each(|day| total.add(day));
        total
    }
}

/// Looks up the body of an object by its digest.
pub type Lookup<'l> = &'l mut dyn FnMut(&Digest) -> Option<Vec<u8>>;
