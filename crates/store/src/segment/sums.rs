//! The sums of a segment: its decisions, counted by the hour.
//!
//! Decisions of the same hour, facts (mode, verdict, reason), origin and rule are one row: their number, and the times of the
//! first and of the last.
//!
//! They are stored as `cgs2`, the raw length (32 bits, big-endian) and one zstd frame with a checksum: three dictionaries
//! (facts, origins, rules), as those of a block, then the number of rows and the columns of numbers. The same entries in the
//! same blocks make the same octets.

mod builder;
mod columns;

pub use self::builder::SumsBuilder;
use self::columns::Decided;
use crate::HOUR;
use crate::search::{GroupCounts, Search, ShapeFacts};
use crawlgate_block::frame::unpack;
use crawlgate_block::varint::Input;
use crawlgate_block::words::Words;
use crawlgate_block::{BlockError, NO_WORD};
use crawlgate_record::{Mode, Verdict};

/// The first octets of sums: their kind and their version.
const MAGIC: &[u8; 4] = b"cgs2";

/// Maximum octets of sums, unpacked. A segment with more has no sums.
const MAX_RAW: usize = 16 * 1024 * 1024;

/// Maximum number of words in a dictionary.
const MAX_WORDS: usize = 1 << 20;

/// Milliseconds of an hour.
const MILLIS: u64 = HOUR.as_millis() as u64;

/// The sums of a segment.
#[derive(Debug)]
pub struct Sums {
    section: Vec<u8>,
    facts: Words,
    origins: Words,
    rules: Words,
    decided: Vec<Decided>,
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
        let of_facts = [facts.len(), origins.len(), rules.len()];
        let read = Self {
            decided: Decided::read_all(&mut input, of_facts)?,
            facts,
            origins,
            rules,
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

    fn all<'s, T>(&'s self, words: &Words, get: impl Fn(&'s [u8]) -> Option<T>) -> Vec<Option<T>> {
        let word = |place: usize| get(words.get(&self.section, place as u32).ok()?);
        (0..words.len()).map(word).collect()
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

#[cfg(test)]
mod tests;
