//! The making of sums.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use super::columns::{Decided, Repeated, Requested, Table};
use super::{MAGIC, MAX_RAW, MAX_WORDS, MILLIS, Sums};
use crate::search::Group;
use crate::search::words::{chain, client, origin, rule, shape_facts};
use crawlgate_block::words::Dictionary;
use crawlgate_block::{Block, BlockError, NO_WORD, Word, WordKind};
use crawlgate_record::{Entry, EventKind, Mode, Verdict};

/// Groups by four numbers in one, which is hashed and compared at once.
type Table4<T> = HashMap<u128, T, ahash::RandomState>;

/// Counts the decisions of a segment.
#[derive(Debug, Default)]
pub struct SumsBuilder {
    facts: Dictionary,
    origins: Dictionary,
    rules: Dictionary,
    clients: Dictionary,
    tokens: Dictionary,
    /// By hour, facts, origin and rule.
    decided: Table4<Group>,
    /// By hour, client, token and verdict.
    requested: Table4<u64>,
    /// By hour and facts.
    repeated: HashMap<[u32; 2], u64, ahash::RandomState>,
    word: Vec<u8>,
}

impl SumsBuilder {
    /// Returns sums of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts the entries of a block.
    ///
    /// # Errors
    /// When its section of entries outside the columns is damaged. Nothing is then counted.
    pub fn add_block(&mut self, block: &Block<'_>) -> Result<(), BlockError> {
        let others = (0..block.other_places().len()).map(|nth| block.other(nth));
        let others: Vec<&[u8]> = others.collect::<Result<_, _>>()?;
        // A shape that no decision has is not counted.
        let facts = self.numbers(block, WordKind::Shape, |this, word| {
            let facts = shape_facts(word)?;
            Some(this.facts_of(facts.mode, facts.verdict, facts.reason))
        });
        let verdicts: Vec<u32> = block
            .words(WordKind::Shape)
            .map(|word| shape_facts(&word).map_or(0, |facts| facts.verdict as u32))
            .collect();
        let origins = self.numbers(block, WordKind::Origin, |this, word| {
            Some(this.origins.place(origin(word)?.as_bytes()).0)
        });
        let rules = self.numbers(block, WordKind::Rule, |this, word| {
            Some(this.rules.place(rule(word)?).0)
        });
        let clients = self.numbers(block, WordKind::Client, |this, word| {
            let (address, name) = client(word);
            Some(this.client_of(address, name))
        });
        let tokens = self.numbers(block, WordKind::Requester, |this, word| {
            let first = chain(word).iter().next();
            let token = first.map_or("", |token| token.kept);
            Some(this.tokens.place(token.as_bytes()).0)
        });
        let get =
            |numbers: &[u32], word: u32| numbers.get(word as usize).copied().unwrap_or(NO_WORD);
        let keys = block.keys();
        let words = keys.shape.iter().zip(&keys.client).zip(&keys.requester);
        let words = words.zip(&keys.origin).zip(&keys.rule).zip(&keys.time);
        for (((((shape, client), requester), origin), rule), time) in words {
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
            let verdict = get(&verdicts, *shape);
            let requested = [
                hour,
                get(&clients, *client),
                get(&tokens, *requester),
                verdict,
            ];
            *self.requested.entry(packed(requested)).or_default() += 1;
        }
        for octets in others {
            if let Ok(entry) = Entry::read(octets) {
                self.add(&entry);
            }
        }
        Ok(())
    }

    /// Counts one entry: a decision, or refusals that were counted.
    pub fn add(&mut self, entry: &Entry<'_>) {
        let time = entry.time();
        let hour = (time / MILLIS) as u32;
        match entry {
            Entry::Decision(one) => {
                let facts = self.facts_of(one.mode, one.verdict, one.reason);
                let origin = one
                    .origin
                    .map(|origin| self.origins.place(origin.as_bytes()).0);
                let rule = one.rule.map(|rule| self.rules.place(rule.text.kept).0);
                let decided = [
                    hour,
                    facts,
                    origin.unwrap_or(NO_WORD),
                    rule.unwrap_or(NO_WORD),
                ];
                self.decided.entry(packed(decided)).or_default().count(time);
                let name = one.client_name.map(|name| name.kept);
                let client = self.client_of(Some(one.client.ip()), name);
                let token = one.chain.iter().next().map_or("", |token| token.kept);
                let token = self.tokens.place(token.as_bytes()).0;
                let requested = [hour, client, token, one.verdict as u32];
                *self.requested.entry(packed(requested)).or_default() += 1;
            }
            Entry::Event(event) => {
                if let EventKind::Repeated(one) = event.kind {
                    let facts = self.facts_of(one.mode, one.verdict, one.reason);
                    let sum = self.repeated.entry([hour, facts]).or_default();
                    *sum = sum.saturating_add(one.count);
                }
            }
        }
    }

    /// Adds the sums of another segment.
    pub fn merge(&mut self, sums: &Sums) {
        let numbers = |words: &mut Dictionary, of: &crawlgate_block::words::Words| {
            let all = (0..of.len()).map(|nth| of.get(&sums.section, nth as u32));
            all.map(|word| words.place(word.unwrap_or_default()).0)
                .collect::<Vec<u32>>()
        };
        let facts = numbers(&mut self.facts, &sums.facts);
        let origins = numbers(&mut self.origins, &sums.origins);
        let rules = numbers(&mut self.rules, &sums.rules);
        let clients = numbers(&mut self.clients, &sums.clients);
        let tokens = numbers(&mut self.tokens, &sums.tokens);
        let get =
            |numbers: &[u32], word: u32| numbers.get(word as usize).copied().unwrap_or(NO_WORD);
        for row in &sums.decided {
            let key = [
                row.hour,
                get(&facts, row.facts),
                get(&origins, row.origin),
                get(&rules, row.rule),
            ];
            self.decided.entry(packed(key)).or_default().add(row.group);
        }
        for row in &sums.requested {
            let key = [
                row.hour,
                get(&clients, row.client),
                get(&tokens, row.token),
                row.verdict,
            ];
            let sum = self.requested.entry(packed(key)).or_default();
            *sum = sum.saturating_add(row.count);
        }
        for row in &sums.repeated {
            let sum = self.repeated.entry([row.hour, get(&facts, row.facts)]);
            let sum = sum.or_default();
            *sum = sum.saturating_add(row.count);
        }
    }

    /// Returns the sums as they are stored; `None` if they would be too long.
    ///
    /// # Errors
    /// When there is no memory to compress them.
    pub fn finish(mut self) -> Result<Option<Vec<u8>>, BlockError> {
        const FAILED: BlockError = BlockError("the sums cannot be compressed");
        let mut raw = Vec::new();
        for words in [
            &mut self.facts,
            &mut self.origins,
            &mut self.rules,
            &mut self.clients,
            &mut self.tokens,
        ] {
            if words.len() > MAX_WORDS {
                return Ok(None);
            }
            words.finish(&mut raw);
        }
        let decided = sorted(self.decided).into_iter();
        let decided = decided.map(|(key, group)| {
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
        let requested = sorted(self.requested).into_iter();
        let requested = requested.map(|(key, count)| {
            let [hour, client, token, verdict] = unpacked(key);
            Requested {
                hour,
                client,
                token,
                verdict,
                count,
            }
        });
        Requested::write_all(&requested.collect::<Vec<_>>(), &mut raw);
        let repeated = sorted(self.repeated).into_iter();
        let repeated = repeated.map(|([hour, facts], count)| Repeated { hour, facts, count });
        Repeated::write_all(&repeated.collect::<Vec<_>>(), &mut raw);
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

    fn client_of(&mut self, address: Option<IpAddr>, name: Option<&str>) -> u32 {
        self.word.clear();
        match (name, address) {
            (Some(name), _) => {
                self.word.push(0);
                self.word.extend_from_slice(name.as_bytes());
            }
            (None, Some(IpAddr::V4(address))) => {
                self.word.push(1);
                self.word.extend_from_slice(&address.octets());
            }
            (None, Some(IpAddr::V6(address))) => {
                self.word.push(1);
                self.word.extend_from_slice(&address.octets());
            }
            (None, None) => {}
        }
        self.clients.place(&self.word).0
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

/// Returns the rows of a table in the order of their keys.
fn sorted<K: Ord + Hash, T, S>(table: HashMap<K, T, S>) -> Vec<(K, T)> {
    let mut rows: Vec<(K, T)> = table.into_iter().collect();
    rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    rows
}
