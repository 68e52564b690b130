//! The sums of a segment: its decisions, counted by the hour.
//!
//! | table | by | counts |
//! |---|---|---|
//! | decisions | hour, facts (mode, verdict, reason), origin, rule | number, time of the first and of the last |
//! | requesters | hour, client (name, or address without a name), first product token, verdict | number |
//! | repeated | hour, facts | refusals that were counted instead of recorded one by one |
//!
//! They are stored as `cgs1`, the raw length (32 bits, big-endian) and one zstd frame with a checksum: five dictionaries
//! (facts, origins, rules, clients, tokens), as those of a block, then each table with the number of its rows and its
//! columns of numbers. The same entries in the same blocks make the same octets.

mod builder;
mod columns;

use std::collections::BTreeMap;
use std::net::IpAddr;

pub use self::builder::SumsBuilder;
use self::columns::{Decided, Repeated, Requested, Table};
use crate::search::{GroupCounts, Search, ShapeFacts};
use crate::{HOUR, Hourly};
use crawlgate_block::frame::unpack;
use crawlgate_block::varint::Input;
use crawlgate_block::words::Words;
use crawlgate_block::{BlockError, NO_WORD};
use crawlgate_record::{Mode, Verdict};
use crawlgate_system::clock::Moment;

/// The first octets of sums: their kind and their version.
const MAGIC: &[u8; 4] = b"cgs1";

/// Maximum octets of sums, unpacked. A segment with more has no sums.
const MAX_RAW: usize = 16 * 1024 * 1024;

/// Maximum number of words in a dictionary.
const MAX_WORDS: usize = 1 << 20;

/// Milliseconds of an hour.
const MILLIS: u64 = HOUR.as_millis() as u64;

/// The sums of a segment, or of several together.
#[derive(Debug)]
pub struct Sums {
    section: Vec<u8>,
    facts: Words,
    origins: Words,
    rules: Words,
    clients: Words,
    tokens: Words,
    decided: Vec<Decided>,
    requested: Vec<Requested>,
    repeated: Vec<Repeated>,
}

/// A client in sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client<'s> {
    /// A client with a name.
    Named(&'s str),
    /// A client without one, by its address.
    At(IpAddr),
}

/// The requests of a client under a product token within an hour, by verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests<'s> {
    /// The start of the hour.
    pub hour: Moment,
    /// The client.
    pub client: Client<'s>,
    /// The first product token; empty if nothing names the crawler.
    pub token: &'s str,
    /// The verdict.
    pub verdict: Verdict,
    /// Number of requests.
    pub count: u64,
}

impl Sums {
    /// Reads sums.
    ///
    /// # Errors
    /// When they are damaged, or none. Nothing is unpacked beyond 16 MiB.
    pub fn read(octets: &[u8]) -> Result<Self, BlockError> {
        const NONE: BlockError = BlockError("sums that are none");
        let rest = octets.strip_prefix(MAGIC).ok_or(NONE)?;
        let (raw, frame) = rest.split_first_chunk().ok_or(NONE)?;
        let raw = u32::from_be_bytes(*raw) as usize;
        if raw > MAX_RAW {
            return Err(BlockError("sums that are too long"));
        }
        let section = unpack(frame, raw)?;
        let mut input = Input(&section);
        let mut words = || Words::read(&section, &mut input, MAX_WORDS);
        let (facts, origins, rules) = (words()?, words()?, words()?);
        let (clients, tokens) = (words()?, words()?);
        let of_facts = [facts.len(), origins.len(), rules.len()];
        let read = Self {
            decided: Decided::read_all(&mut input, of_facts)?,
            requested: Requested::read_all(&mut input, [clients.len(), tokens.len(), 0])?,
            repeated: Repeated::read_all(&mut input, of_facts)?,
            facts,
            origins,
            rules,
            clients,
            tokens,
            section: Vec::new(),
        };
        input.end()?;
        Ok(Self { section, ..read })
    }

    /// Counts the matching decisions if the sums suffice, and tells whether they do. They do not if the query asks for other
    /// facts, or if its span begins or ends among decisions that they count together.
    #[must_use]
    pub fn count_by(&self, search: &Search, counts: &mut GroupCounts) -> bool {
        if !search.asks_only_for_sums() {
            return false;
        }
        let facts = self.all(&self.facts, |word| {
            facts_of(word).filter(|facts| search.holds_shape(facts))
        });
        let origins = self.all(&self.origins, |word| {
            str::from_utf8(word)
                .ok()
                .filter(|origin| search.holds_origin(Some(origin)))
        });
        let rules = self.all(&self.rules, |word| {
            Some(word).filter(|rule| search.holds_rule(Some(rule)))
        });
        let (no_origin, no_rule) = (search.holds_origin(None), search.holds_rule(None));
        // A word that does not match, or no word where one is wanted: `None`.
        let get = |row: &Decided| {
            let facts = (*facts.get(row.facts as usize)?)?;
            let origin = match row.origin {
                NO_WORD => no_origin.then_some(None)?,
                origin => Some((*origins.get(origin as usize)?)?),
            };
            let rule = match row.rule {
                NO_WORD => no_rule.then_some(None)?,
                rule => Some((*rules.get(rule as usize)?)?),
            };
            Some((facts, origin, rule))
        };
        let matching = || {
            self.decided
                .iter()
                .filter_map(|row| Some((get(row)?, row.group)))
        };
        let is_split = |first, last| {
            search.holds_time(first) != search.holds_time(last) || search.lies_between(first, last)
        };
        if matching().any(|(_, group)| is_split(group.first, group.last)) {
            return false;
        }
        for ((facts, origin, rule), group) in matching() {
            if search.holds_time(group.first) {
                counts.add(facts.reason, origin, rule, group);
            }
        }
        true
    }

    /// Returns the requests of each client, by hour, product token and verdict.
    pub fn requests(&self) -> impl Iterator<Item = Requests<'_>> {
        self.requested.iter().filter_map(|row| {
            let client = self.clients.get(&self.section, row.client).ok()?;
            Some(Requests {
                hour: Moment::from_millis(u64::from(row.hour) * MILLIS),
                client: client_of(client)?,
                token: str::from_utf8(self.tokens.get(&self.section, row.token).ok()?).ok()?,
                verdict: Verdict::from_number(row.verdict.into())?,
                count: row.count,
            })
        })
    }

    fn all<'s, T>(&'s self, words: &Words, get: impl Fn(&'s [u8]) -> Option<T>) -> Vec<Option<T>> {
        let word = |place: usize| get(words.get(&self.section, place as u32).ok()?);
        (0..words.len()).map(word).collect()
    }
}

/// Counts of decisions by hour, mode, verdict and reason, of many segments.
#[derive(Debug, Default)]
pub struct Hours(BTreeMap<(u32, &'static str, &'static str, String), u64>);

impl Hours {
    /// Adds the hours of sums, from the one that contains `since` to the last that begins before `until`. Refusals that
    /// were counted instead of recorded count with their number.
    pub fn add(&mut self, sums: &Sums, since: Moment, until: Moment) {
        let first = since.as_millis() / MILLIS;
        let decided = sums.decided.iter();
        let decided = decided.map(|row| (row.hour, row.facts, row.group.count));
        let repeated = sums.repeated.iter();
        let repeated = repeated.map(|row| (row.hour, row.facts, row.count));
        for (hour, facts, count) in decided.chain(repeated) {
            let is_in = u64::from(hour) >= first && u64::from(hour) * MILLIS < until.as_millis();
            let word = sums.facts.get(&sums.section, facts).ok();
            let Some(facts) = word.filter(|_| is_in).and_then(facts_of) else {
                continue;
            };
            let names = (facts.mode.as_str(), facts.verdict.as_str());
            let key = (hour, names.0, names.1, facts.reason.to_owned());
            let sum = self.0.entry(key).or_default();
            *sum = sum.saturating_add(count);
        }
    }

    /// Returns the counts in the order of hour, mode, verdict and reason.
    #[must_use]
    pub fn into_hourly(self) -> Vec<Hourly> {
        let hourly = self.0.into_iter();
        let one =
            |((hour, mode, verdict, reason), count): ((u32, &str, &str, String), u64)| Hourly {
                hour: Moment::from_millis(u64::from(hour) * MILLIS),
                mode: mode.to_owned(),
                verdict: verdict.to_owned(),
                reason,
                count,
            };
        hourly.map(one).collect()
    }
}

/// Reads the word of mode, verdict and reason.
fn facts_of(word: &[u8]) -> Option<ShapeFacts<'_>> {
    let [mode, verdict, reason @ ..] = word else {
        return None;
    };
    Some(ShapeFacts {
        mode: Mode::from_number(u64::from(*mode))?,
        verdict: Verdict::from_number(u64::from(*verdict))?,
        reason: str::from_utf8(reason).ok()?,
        error: None,
        ends_in_failure: false,
    })
}

/// Reads the word of a client: its name after the octet 0, or its address after the octet 1.
fn client_of(word: &[u8]) -> Option<Client<'_>> {
    match word {
        [0, name @ ..] => Some(Client::Named(str::from_utf8(name).ok()?)),
        [1, octets @ ..] => {
            let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
            let address = v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from));
            address.ok().map(Client::At)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
