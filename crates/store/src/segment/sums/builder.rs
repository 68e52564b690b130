//! The making of sums.

use std::collections::HashMap;

use super::columns::Decided;
use super::{MAGIC, MAX_RAW, MAX_WORDS, MILLIS};
use crate::search::Group;
use crate::search::words::{origin, rule, shape_facts};
use crawlgate_block::words::Dictionary;
use crawlgate_block::{Block, BlockError, NO_WORD, Word, WordKind};
use crawlgate_record::{Mode, Verdict};

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
        let rules = self.numbers(block, WordKind::Rule, |this, word| {
            Some(this.rules.place(rule(word)?).0)
        });
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
            self.decided
                .entry(packed(decided))
                .or_default()
                .count(*time);
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
            Decided {
                hour,
                facts,
                origin,
                rule,
                group,
            }
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

    /// Returns the number of each word of a block here; [`NO_WORD`] for one that is none.
    fn numbers(
        &mut self,
        block: &Block<'_>,
        kind: WordKind,
        number: impl Fn(&mut Self, &Word<'_>) -> Option<u32>,
    ) -> Vec<u32> {
        let words = block.words(kind);
        words
            .map(|word| number(self, &word).unwrap_or(NO_WORD))
            .collect()
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
    key.into_iter()
        .fold(0, |packed, number| packed << 32 | u128::from(number))
}

fn unpacked(key: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (key >> shift) as u32)
}
