//! The sums of a segment: its decisions, counted by the hour.
//!
//! Decisions of the same hour, facts (mode, verdict, reason), origin and rule are one row: their number, and the times of the
//! first and of the last.
//!
//! They are stored as `cgs2`, the raw length (32 bits, big-endian) and one zstd frame with a checksum: three dictionaries
//! (facts, origins, rules), as those of a block, then the number of rows and the columns of numbers. The same entries in the
//! same blocks make the same octets.

mod columns;

use std::collections::HashMap;

use self::columns::Decided;
use crate::HOUR;
use crate::search::words::{origin, rule, shape_facts};
use crate::search::{Group, GroupCounts, Search, ShapeFacts};
use crawlgate_block::frame::unpack;
use crawlgate_block::varint::Input;
use crawlgate_block::words::{Dictionary, Words};
use crawlgate_block::{Block, BlockError, NO_WORD, Word, WordKind};
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
        let facts =
            self.all(&self.facts, |word| facts_of(word).filter(|facts| search.holds_shape(facts)));
        let origins = self.all(&self.origins, |word| {
            str::from_utf8(word).ok().filter(|origin| search.holds_origin(Some(origin)))
        });
        let rules =
            self.all(&self.rules, |word| Some(word).filter(|rule| search.holds_rule(Some(rule))));
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
        let matching = || self.decided.iter().filter_map(|row| Some((get(row)?, row.group)));
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

/// Counts the decisions of a segment.
#[derive(Debug, Default)]
pub struct SumsBuilder {
    facts: Dictionary,
    origins: Dictionary,
    rules: Dictionary,
    /// By hour, facts, origin and rule: four numbers in one, which is hashed and compared at once.
    decided: HashMap<u128, Group, ahash::RandomState>,
    word: Vec<u8>,
}

impl SumsBuilder {
    /// Returns sums of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts the decisions of a block.
    pub fn add_block(&mut self, block: &Block<'_>) {
        // A shape that no decision has is not counted.
        let facts = self.numbers(block, WordKind::Shape, |this, word| {
            let facts = shape_facts(word)?;
            Some(this.facts_of(facts.mode, facts.verdict, facts.reason))
        });
        let origins = self.numbers(block, WordKind::Origin, |this, word| {
            Some(this.origins.place(origin(word)?.as_bytes()).0)
        });
        let rules =
            self.numbers(block, WordKind::Rule, |this, word| Some(this.rules.place(rule(word)?).0));
        let get =
            |numbers: &[u32], word: u32| numbers.get(word as usize).copied().unwrap_or(NO_WORD);
        let keys = block.keys();
        let words = keys.shape.iter().zip(&keys.origin).zip(&keys.rule);
        for (((shape, origin), rule), time) in words.zip(&keys.time) {
            let of_shape = get(&facts, *shape);
            if of_shape == NO_WORD {
                continue;
            }
            let hour = (time / MILLIS) as u32;
            let decided = [hour, of_shape, get(&origins, *origin), get(&rules, *rule)];
            self.decided.entry(packed(decided)).or_default().count(*time);
        }
    }

    /// Returns the sums as they are stored; `None` if they would be too long.
    ///
    /// # Errors
    /// When there is no memory to compress them.
    pub fn finish(mut self) -> Result<Option<Vec<u8>>, BlockError> {
        const FAILED: BlockError = BlockError("the sums cannot be compressed");
        let mut raw = Vec::new();
        for words in [&mut self.facts, &mut self.origins, &mut self.rules] {
            if words.len() > MAX_WORDS {
                return Ok(None);
            }
            words.finish(&mut raw);
        }
        let mut rows: Vec<(u128, Group)> = self.decided.into_iter().collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        let decided = rows.into_iter().map(|(key, group)| {
            let [hour, facts, origin, rule] = unpacked(key);
            Decided { hour, facts, origin, rule, group }
        });
        Decided::write_all(&decided.collect::<Vec<_>>(), &mut raw);
        if raw.len() > MAX_RAW {
            return Ok(None);
        }
        let mut compressor = zstd::bulk::Compressor::new(3).map_err(|_| FAILED)?;
        compressor.include_checksum(true).map_err(|_| FAILED)?;
        let frame = compressor.compress(&raw).map_err(|_| FAILED)?;
        let length = u32::try_from(raw.len()).map_err(|_| FAILED)?;
        Ok(Some([&MAGIC[..], &length.to_be_bytes(), &frame].concat()))
    }

    /// Returns the number of each word of a block here; [`NO_WORD`] for one without a number.
    fn numbers(
        &mut self,
        block: &Block<'_>,
        kind: WordKind,
        number: impl Fn(&mut Self, &Word<'_>) -> Option<u32>,
    ) -> Vec<u32> {
        let words = block.words(kind);
        words.map(|word| number(self, &word).unwrap_or(NO_WORD)).collect()
    }

    fn facts_of(&mut self, mode: Mode, verdict: Verdict, reason: &str) -> u32 {
        self.word.clear();
        self.word.extend_from_slice(&[mode as u8, verdict as u8]);
        self.word.extend_from_slice(reason.as_bytes());
        self.facts.place(&self.word).0
    }
}

/// Packs a key, so that the order stays.
fn packed(key: [u32; 4]) -> u128 {
    key.into_iter().fold(0, |packed, number| packed << 32 | u128::from(number))
}

fn unpacked(key: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (key >> shift) as u32)
}

#[cfg(test)]
mod tests;
