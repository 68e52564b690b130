//! The patterns with wildcards, looked up by the octets that a path holds.
//!
//! A pattern with a piece of three octets or more between its stars matches only paths that hold these three (a
//! trigram). Each pattern is stored under one of its trigrams that few other patterns have. A path looks up each of its
//! own trigrams in a bit set that nearly always says no, so thousands of patterns cost little more than a few. Patterns
//! without three octets in a row are tried one by one.
//!
//! A path tries every pattern at most once, however often it holds the pattern's trigram.

use std::cmp::Reverse;

use super::compiled::{Buckets, CompiledPattern, Texts, better};
use super::key::Key;
use super::pattern::{Subject, is_special};

/// From this number of patterns with one trigram on, equal texts are merged.
const CROWD: usize = 24;

/// Bits of the set for each pattern: one look-up of this many says yes by chance.
const BITS: usize = 6;

/// The least number of bits, as a path looks up some fifty trigrams.
const LEAST_BITS: usize = 1024;

/// The number of a pattern's trigrams that are considered.
const CONSIDERED: usize = 4;

/// The number of bits of a trigram's hash in the set of a path.
const PATH_BITS: u32 = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct TrigramIndex {
    bits: Box<[u64]>,
    /// The shift that leaves the bit's number of a 32-bit hash.
    shift: u32,
    buckets: Buckets<Wild>,
    /// The best precedence in the buckets.
    best: u32,
    /// The patterns without three octets in a row, best first.
    loose: Box<[CompiledPattern]>,
}

/// A pattern, and two more trigrams that its paths hold.
#[derive(Clone, Copy, Debug, Default)]
struct Wild {
    compiled: CompiledPattern,
    also: [u8; 2],
}

/// The hashes of some trigrams of a pattern.
type Trigrams = ([u32; CONSIDERED], usize);

impl TrigramIndex {
    pub(super) fn new(patterns: &[CompiledPattern], texts: Texts<'_>, key: Key) -> Self {
        if patterns.is_empty() {
            return Self::default();
        }
        let mut loose = Vec::new();
        let mut found: Vec<(CompiledPattern, Trigrams)> = Vec::with_capacity(patterns.len());
        for compiled in patterns {
            match trigrams(compiled.text(texts), key) {
                (_, 0) => loose.push((0, *compiled)),
                trigrams => found.push((*compiled, trigrams)),
            }
        }
        let mut common = Common::of(&found);
        let mut entries: Vec<(u32, Wild)> = Vec::with_capacity(found.len());
        entries.extend(found.iter().map(|(compiled, trigrams)| common.entry(*compiled, trigrams)));
        let mut buckets = bucketed(&entries);
        if buckets.iter().any(|bucket| bucket.len() > CROWD) {
            // Many patterns may have equal texts.
            let hashed = |(compiled, _): &(CompiledPattern, Trigrams)| {
                (key.hash(compiled.text(texts)), *compiled)
            };
            let hashed: Vec<(u32, CompiledPattern)> = found.iter().map(hashed).collect();
            let distinct = Buckets::new(&hashed).distinct(2, texts, key);
            if distinct.len() < found.len() {
                let again = |(_, compiled): &(u32, CompiledPattern)| {
                    (*compiled, trigrams(compiled.text(texts), key))
                };
                found = distinct.iter().map(again).collect();
                common = Common::of(&found);
                entries.clear();
                entries.extend(
                    found.iter().map(|(compiled, trigrams)| common.entry(*compiled, trigrams)),
                );
                buckets = bucketed(&entries);
            }
        }
        let bits = (BITS * entries.len()).next_power_of_two().clamp(LEAST_BITS, 1 << 31);
        let mut set = vec![0_u64; bits / 64];
        let shift = 32 - bits.trailing_zeros();
        for (hash, _) in &entries {
            let bit = hash >> shift;
            if let Some(word) = set.get_mut(bit as usize / 64) {
                *word |= 1 << (bit % 64);
            }
        }
        let mut loose = Buckets::new(&loose).distinct(CROWD, texts, key);
        loose.sort_unstable_by_key(|(_, compiled)| Reverse(compiled.precedence()));
        Self {
            bits: set.into_boxed_slice(),
            shift,
            best: found.iter().map(|(compiled, _)| compiled.precedence()).max().unwrap_or(0),
            buckets,
            loose: loose.iter().map(|(_, compiled)| *compiled).collect(),
        }
    }

    /// Returns the deciding pattern among those that match and the best one so far.
    pub(super) fn best(
        &self,
        path: &[u8],
        texts: Texts<'_>,
        key: Key,
        mut best: Option<CompiledPattern>,
        admits: impl Fn(CompiledPattern) -> bool,
    ) -> Option<CompiledPattern> {
        let mut least = best.map_or(0, CompiledPattern::precedence);
        if self.is_empty() {
            return best;
        }
        let visited = if self.best >= least && !self.buckets.is_empty() {
            self.visited(path, key)
        } else {
            VisitedBuckets::default()
        };
        let candidates = visited.buckets().iter().map(|bucket| self.buckets.get(*bucket as usize));
        let count = candidates.clone().map(<[Wild]>::len).sum::<usize>();
        let subject = Subject::of_many(path, count + self.loose.len());
        // Worth its cost only if there are several patterns to try.
        let filter = (count > 4).then(|| PathFilter::of(path, key));
        let may_match = |wild: &Wild| filter.as_ref().is_none_or(|filter| filter.holds(wild.also));
        for wild in candidates.flatten() {
            let compiled = wild.compiled;
            if compiled.precedence() >= least
                && may_match(wild)
                && compiled.matches(&subject, texts)
                && admits(compiled)
            {
                best = better(best, compiled, texts);
                least = best.map_or(0, CompiledPattern::precedence);
            }
        }
        for compiled in &self.loose {
            if compiled.precedence() < least {
                break;
            }
            if compiled.matches(&subject, texts) && admits(*compiled) {
                best = better(best, *compiled, texts);
                least = best.map_or(0, CompiledPattern::precedence);
            }
        }
        best
    }

    /// Returns the buckets of all trigrams that a path holds.
    fn visited(&self, path: &[u8], key: Key) -> VisitedBuckets {
        let mut visited = VisitedBuckets::default();
        hashes(path, key).for_each(|hash| {
            let bit = hash >> self.shift;
            let word = self.bits.get(bit as usize / 64).copied().unwrap_or_default();
            if word >> (bit % 64) & 1 == 1 {
                visited.add(self.buckets.number(hash));
            }
        });
        visited
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty() && self.loose.is_empty()
    }

    /// Returns the patterns, without those that can never decide.
    pub(super) fn distinct(
        &self,
        texts: Texts<'_>,
        key: Key,
    ) -> impl Iterator<Item = CompiledPattern> {
        let wild = self.buckets.iter().flatten().map(|wild| (0, wild.compiled));
        let all: Vec<(u32, CompiledPattern)> =
            wild.chain(self.loose.iter().map(|compiled| (0, *compiled))).collect();
        let all = Buckets::new(&all).distinct(0, texts, key).into_iter();
        all.map(|(_, compiled)| compiled)
    }

    /// Returns the octets of heap used.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.bytes() + size_of_val(&*self.bits) + size_of_val(&*self.loose)
    }
}

/// Returns the hashes of all trigrams in a path.
fn hashes(path: &[u8], key: Key) -> impl Iterator<Item = u32> {
    // No pattern holds a zero, so the first one or two octets of the path equal no trigram. A trigram stands in the
    // highest bits, so that shifting drops earlier octets.
    let mut three = 0_u32;
    path.iter().map(move |octet| {
        three = three << 8 | u32::from(*octet) << 8;
        key.hash_word(three)
    })
}

/// The trigrams of a path, as a small approximate set: it may report one that the path lacks, but never misses one.
struct PathFilter([u64; 1 << (PATH_BITS - 6)]);

impl PathFilter {
    fn of(path: &[u8], key: Key) -> Self {
        let mut filter = [0; 1 << (PATH_BITS - 6)];
        for bit in hashes(path, key).map(filter_bit) {
            if let Some(word) = filter.get_mut(usize::from(bit / 64)) {
                *word |= 1_u64 << (bit % 64);
            }
        }
        Self(filter)
    }

    fn holds(&self, bits: [u8; 2]) -> bool {
        let word = |bit: u8| self.0.get(usize::from(bit / 64)).copied().unwrap_or_default();
        bits.iter().all(|bit| word(*bit) >> (bit % 64) & 1 == 1)
    }
}

/// Returns trigrams that every path holds that matches a text: the ends and beginnings of its pieces, the last piece
/// first.
fn trigrams(text: &[u8], key: Key) -> Trigrams {
    let (mut hashes, mut count) = ([0; CONSIDERED], 0);
    let mut rest = text;
    while !rest.is_empty() {
        let start = rest.iter().rposition(|octet| is_special(*octet)).map_or(0, |at| at + 1);
        let piece = rest.get(start..).unwrap_or_default();
        rest = rest.get(..start.saturating_sub(1)).unwrap_or_default();
        let ends = [piece.last_chunk::<3>(), piece.first_chunk::<3>().filter(|_| piece.len() > 4)];
        for [one, other, third] in ends.into_iter().flatten() {
            let Some(hash) = hashes.get_mut(count) else {
                return (hashes, count);
            };
            *hash = key.hash_word(u32::from_be_bytes([*one, *other, *third, 0]));
            count += 1;
        }
    }
    (hashes, count)
}

/// Returns the bit of a hash in the set of a path.
fn filter_bit(hash: u32) -> u8 {
    (hash >> (32 - PATH_BITS)) as u8
}

/// Stores patterns in few, well filled buckets: a path visits only a few.
fn bucketed(entries: &[(u32, Wild)]) -> Buckets<Wild> {
    Buckets::of(entries, entries.len() / 2)
}

/// The number of patterns that hold each trigram.
struct Common {
    counts: Vec<u16>,
    shift: u32,
}

impl Common {
    fn of(patterns: &[(CompiledPattern, Trigrams)]) -> Self {
        let slots = if patterns.len() <= CROWD {
            1
        } else {
            (CONSIDERED * patterns.len()).next_power_of_two()
        };
        let shift = 31 - slots.trailing_zeros();
        let mut counts = vec![0_u16; slots];
        for (_, (hashes, count)) in patterns {
            for hash in hashes.iter().take(*count) {
                if let Some(count) = counts.get_mut((hash >> 1 >> shift) as usize) {
                    *count = count.saturating_add(1);
                }
            }
        }
        Self { counts, shift }
    }

    /// Returns a pattern's entry under the rarest of its trigrams.
    fn entry(&self, compiled: CompiledPattern, (hashes, count): &Trigrams) -> (u32, Wild) {
        let hashes = hashes.get(..*count).unwrap_or_default();
        let count = |hash: u32| self.counts.get((hash >> 1 >> self.shift) as usize).copied();
        let rarest = hashes.iter().copied().min_by_key(|hash| count(*hash)).unwrap_or_default();
        let mut others = hashes.iter().copied().filter(|hash| *hash != rarest);
        let mut other = || filter_bit(others.next().unwrap_or(rarest));
        let also = [other(), other()];
        (rarest, Wild { compiled, also })
    }
}

/// The buckets that a path visits, each once.
#[derive(Default)]
struct VisitedBuckets {
    few: [u32; 16],
    count: usize,
    /// All bucket numbers, once they exceed `few`.
    more: Vec<u32>,
    /// The numbers in `more`, as a bit set.
    known: Vec<u64>,
}

impl VisitedBuckets {
    fn add(&mut self, bucket: usize) {
        let number = bucket as u32;
        if self.more.is_empty() {
            if self.buckets().contains(&number) {
                return;
            }
            if let Some(free) = self.few.get_mut(self.count) {
                *free = number;
                self.count += 1;
                return;
            }
            for known in self.few {
                self.note(known);
            }
        }
        self.note(number);
    }

    /// Adds a bucket to `more`.
    fn note(&mut self, number: u32) {
        let word = number as usize / 64;
        if self.known.len() <= word {
            self.known.resize((word + 1).next_power_of_two(), 0);
        }
        if let Some(known) = self.known.get_mut(word)
            && *known >> (number % 64) & 1 == 0
        {
            *known |= 1 << (number % 64);
            self.more.push(number);
        }
    }

    fn buckets(&self) -> &[u32] {
        if self.more.is_empty() {
            self.few.get(..self.count).unwrap_or(&self.few)
        } else {
            &self.more
        }
    }
}
