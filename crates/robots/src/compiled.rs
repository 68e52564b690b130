//! Compiled patterns, stored where a path looks for them.
//!
//! A file of ten thousand rules has ten thousand patterns, so a pattern takes eight octets: the place of its text and
//! its length. The text stays in the file if the author wrote it in comparison form, as nearly all do; otherwise it is
//! in an arena beside the rules.

use std::cmp::Reverse;

use super::key::Key;
use super::parse::index;
use super::pattern::{Pattern, PatternText, Subject};
use super::rule::RuleKind;

/// A pattern and the kind of its rule.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CompiledPattern {
    /// The place of the text, with flags in the four highest bits; the lower half first. Two halves are aligned like
    /// the other fields, so there are no gaps around them.
    at: [u16; 2],
    length: u16,
    octets: u16,
}

/// The texts of patterns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'a> {
    /// The file's text.
    pub(super) file: &'a [u8],
    /// Texts that the comparison form has changed, each after the place of the value in the file.
    pub(super) arena: &'a [u8],
}

fn halves(at: u32) -> [u16; 2] {
    [at as u16, (at >> 16) as u16]
}

fn flag(is_set: bool, flag: u32) -> u32 {
    if is_set { flag } else { 0 }
}

const IN_ARENA: u32 = 1 << 31;
const ALLOW: u32 = 1 << 30;
const ANCHORED: u32 = 1 << 29;
const LITERAL: u32 = 1 << 28;
const PLACE: u32 = LITERAL - 1;

impl CompiledPattern {
    /// Returns a pattern: its text of `length` octets is in the file at `place`.
    pub(super) fn written(
        kind: RuleKind,
        place: u32,
        is_anchored: bool,
        length: usize,
        octets: usize,
    ) -> Self {
        Self::new(kind, flag(is_anchored, ANCHORED), place, length, octets)
    }

    /// Returns a pattern and puts its text into the arena.
    pub(super) fn rewritten(
        kind: RuleKind,
        pattern: &Pattern,
        place: u32,
        octets: usize,
        arena: &mut Vec<u8>,
    ) -> Self {
        arena.extend(place.to_le_bytes());
        let at = index(arena.len());
        arena.extend(pattern.text());
        let flags =
            IN_ARENA | flag(pattern.is_anchored(), ANCHORED) | flag(pattern.is_literal(), LITERAL);
        Self::new(kind, flags, at, pattern.text().len(), octets)
    }

    fn new(kind: RuleKind, flags: u32, at: u32, length: usize, octets: usize) -> Self {
        // In comparison form, the 16,663 octets of a line become at most three times as many.
        let short = |length| u16::try_from(length).unwrap_or(u16::MAX);
        Self {
            at: halves(at & PLACE | flags | flag(kind == RuleKind::Allow, ALLOW)),
            length: short(length),
            octets: short(octets),
        }
    }

    /// Returns a reference to the finer classes of class `number`, in place of a pattern.
    pub(super) fn to_class(number: usize) -> Self {
        Self { at: halves(index(number)), length: 0, octets: 0 }
    }

    /// Returns the class that this entry refers to; `None` if the entry is a pattern.
    pub(super) fn overflow(self) -> Option<usize> {
        // Every pattern has at least one octet.
        (self.octets == 0).then(|| self.at() as usize)
    }

    fn at(self) -> u32 {
        let [low, high] = self.at;
        u32::from(high) << 16 | u32::from(low)
    }

    pub(super) fn kind(self) -> RuleKind {
        if self.at() & ALLOW == 0 { RuleKind::Disallow } else { RuleKind::Allow }
    }

    /// Returns the length of the text.
    pub(super) fn length(self) -> usize {
        usize::from(self.length)
    }

    fn is_literal(self) -> bool {
        self.at() & LITERAL != 0
    }

    /// Returns the text with how to match it.
    pub(super) fn as_text(self, texts: Texts<'_>) -> PatternText<'_> {
        PatternText {
            text: self.text(texts),
            is_anchored: self.is_anchored(),
            is_literal: self.is_literal(),
        }
    }

    /// Tells whether the path must end where the pattern does.
    fn is_anchored(self) -> bool {
        self.at() & ANCHORED != 0
    }

    /// Returns the precedence among matching rules, never 0: the greater decides, and of equals the first in the file.
    pub(super) fn precedence(self) -> u32 {
        u32::from(self.octets) << 1 | u32::from(self.at() & ALLOW != 0)
    }

    pub(super) fn text<'a>(self, texts: Texts<'a>) -> &'a [u8] {
        let from = if self.at() & IN_ARENA == 0 { texts.file } else { texts.arena };
        let start = (self.at() & PLACE) as usize;
        from.get(start..start + self.length()).unwrap_or_default()
    }

    /// Returns the place in the file at which the rule's value begins.
    pub(super) fn place(self, texts: Texts<'_>) -> u32 {
        let at = self.at() & PLACE;
        if self.at() & IN_ARENA == 0 {
            return at;
        }
        let before = texts.arena.get(..at as usize);
        before.and_then(<[u8]>::last_chunk).map_or(0, |place| u32::from_le_bytes(*place))
    }

    /// Tells whether this rule takes precedence over another that matches.
    pub(super) fn is_before(self, other: Self, texts: Texts<'_>) -> bool {
        let (mine, its) = (self.precedence(), other.precedence());
        mine > its || mine == its && self.place(texts) < other.place(texts)
    }

    /// Tells whether two patterns have the same text and so match the same paths.
    pub(super) fn has_same_text(self, other: Self, texts: Texts<'_>) -> bool {
        let mode = ANCHORED | LITERAL;
        self.length == other.length
            && self.at() & mode == other.at() & mode
            && self.text(texts) == other.text(texts)
    }

    /// Tells whether a path matches this pattern, which has no wildcards and is not literal.
    pub(super) fn begins(self, path: &[u8], texts: Texts<'_>) -> bool {
        let length = self.length();
        (!self.is_anchored() || path.len() == length) && path.starts_with(self.text(texts))
    }

    /// Tells whether a path matches.
    pub(super) fn matches(self, path: &Subject<'_>, texts: Texts<'_>) -> bool {
        path.matches(self.text(texts), self.is_anchored(), self.is_literal())
    }
}

/// Returns the one of two matching patterns that decides.
pub(super) fn better(
    one: Option<CompiledPattern>,
    other: CompiledPattern,
    texts: Texts<'_>,
) -> Option<CompiledPattern> {
    match one {
        Some(one) if !other.is_before(one, texts) => Some(one),
        _ => Some(other),
    }
}

/// A hash table of patterns without gaps, by a hash of octets that every matching path holds.
#[derive(Clone, Debug)]
pub(super) struct Buckets<T = CompiledPattern> {
    /// The start of each bucket's slots; the last entry ends the last bucket.
    starts: Starts,
    slots: Box<[T]>,
    /// The shift that leaves the bucket's number of a 32-bit hash.
    shift: u32,
}

/// The starts, in 16 bits if they fit: few files need more.
#[derive(Clone, Debug)]
enum Starts {
    Short(Box<[u16]>),
    Long(Box<[u32]>),
}

impl<T: Copy + Default> Default for Buckets<T> {
    fn default() -> Self {
        Self::of(&[], 0)
    }
}

impl<T: Copy + Default> Buckets<T> {
    /// Puts entries into about as many buckets as there are entries.
    pub(super) fn new(entries: &[(u32, T)]) -> Self {
        Self::of(entries, entries.len())
    }

    /// Puts entries into `count` buckets, or up to twice as many.
    pub(super) fn of(entries: &[(u32, T)], count: usize) -> Self {
        let bits = count.next_power_of_two().trailing_zeros().clamp(1, 28);
        let shift = 32 - bits;
        let mut starts = vec![0_u32; (1 << bits) + 1];
        for (hash, _) in entries {
            if let Some(count) = starts.get_mut((hash >> shift) as usize) {
                *count += 1;
            }
        }
        // Turns sizes into ends; filling from behind turns the ends into starts.
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        let mut slots = vec![T::default(); entries.len()].into_boxed_slice();
        for (hash, entry) in entries.iter().rev() {
            if let Some(start) = starts.get_mut((hash >> shift) as usize) {
                *start -= 1;
                if let Some(slot) = slots.get_mut(*start as usize) {
                    *slot = *entry;
                }
            }
        }
        let starts = if u16::try_from(entries.len()).is_ok() {
            Starts::Short(starts.iter().map(|start| *start as u16).collect())
        } else {
            Starts::Long(starts.into_boxed_slice())
        };
        Self { starts, slots, shift }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the number of a hash's bucket.
    pub(super) fn number(&self, hash: u32) -> usize {
        (hash >> self.shift) as usize
    }

    pub(super) fn get(&self, number: usize) -> &[T] {
        let range = match &self.starts {
            Starts::Short(starts) => match starts.get(number..number + 2) {
                Some([start, end]) => usize::from(*start)..usize::from(*end),
                _ => 0..0,
            },
            Starts::Long(starts) => match starts.get(number..number + 2) {
                Some([start, end]) => *start as usize..*end as usize,
                _ => 0..0,
            },
        };
        self.slots.get(range).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[T]> {
        (0..1_usize << (32 - self.shift)).map(|number| self.get(number))
    }

    /// Returns the octets of heap used.
    pub(super) fn bytes(&self) -> usize {
        let starts = match &self.starts {
            Starts::Short(starts) => size_of_val(&**starts),
            Starts::Long(starts) => size_of_val(&**starts),
        };
        starts + size_of_val(&*self.slots)
    }
}

impl Buckets {
    /// Returns all patterns, with meaningless hashes. If a bucket holds more than `crowd`, only the best pattern of
    /// each text stays: the others can never decide.
    pub(super) fn distinct(
        &self,
        crowd: usize,
        texts: Texts<'_>,
        key: Key,
    ) -> Vec<(u32, CompiledPattern)> {
        let mut kept: Vec<(u32, CompiledPattern)> = Vec::with_capacity(self.slots.len());
        for bucket in self.iter() {
            if bucket.len() <= crowd {
                kept.extend(bucket.iter().map(|compiled| (0, *compiled)));
                continue;
            }
            let hashed = |compiled: &CompiledPattern| (key.hash(compiled.text(texts)), *compiled);
            let mut crowded: Vec<(u32, CompiledPattern)> = bucket.iter().map(hashed).collect();
            crowded.sort_unstable_by_key(|(hash, compiled)| {
                (*hash, Reverse(compiled.precedence()), compiled.place(texts))
            });
            crowded.dedup_by(|(hash, compiled), (other_hash, other)| {
                hash == other_hash && compiled.has_same_text(*other, texts)
            });
            kept.append(&mut crowded);
        }
        kept
    }
}
