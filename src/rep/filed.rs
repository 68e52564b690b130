//! Compiled patterns, filed where a path finds them.
//!
//! A file of ten thousand rules has ten thousand patterns, so a pattern is eight octets: where its
//! text stands and how long it is. The text stays in the file if the author wrote it in comparison
//! form already, as nearly all do; else it is in an arena beside the rules.

use std::cmp::Reverse;

use super::key::Key;
use super::parse::index;
use super::pattern::Subject;
use super::rules::RuleKind;

/// A pattern and what its rule says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Filed {
    /// Where the text begins, with flags in the four highest bits; the lower half first. Two halves
    /// are aligned like the rest, so that there are no gaps around them.
    at: [u16; 2],
    length: u16,
    octets: u16,
}

/// How a pattern is to be matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Whether the path must end where the pattern does.
    pub(super) is_anchored: bool,
    /// Whether to match in the literal form.
    pub(super) is_literal: bool,
}

/// The texts of patterns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'a> {
    /// The file's text.
    pub(super) file: &'a [u8],
    /// Texts that the comparison form has changed, each behind the place of what was written.
    pub(super) arena: &'a [u8],
}

fn halves(at: u32) -> [u16; 2] {
    [at as u16, (at >> 16) as u16]
}

const IN_ARENA: u32 = 1 << 31;
const ALLOW: u32 = 1 << 30;
const ANCHORED: u32 = 1 << 29;
const LITERAL: u32 = 1 << 28;
const PLACE: u32 = LITERAL - 1;

impl Filed {
    /// A pattern whose text is in the file at `place`, `length` octets long.
    pub(super) fn written(
        kind: RuleKind,
        place: u32,
        is_anchored: bool,
        length: usize,
        octets: usize,
    ) -> Self {
        let manner = Manner {
            is_anchored,
            is_literal: false,
        };
        Self::new(kind, manner, place, length, octets)
    }

    /// A pattern whose text is put into the arena.
    pub(super) fn rewritten(
        kind: RuleKind,
        manner: Manner,
        place: u32,
        text: &[u8],
        octets: usize,
        arena: &mut Vec<u8>,
    ) -> Self {
        arena.extend(place.to_le_bytes());
        let at = index(arena.len());
        arena.extend(text);
        Self::new(kind, manner, at | IN_ARENA, text.len(), octets)
    }

    fn new(kind: RuleKind, manner: Manner, at: u32, length: usize, octets: usize) -> Self {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        // A line's 16,663 octets are at most three times as many in comparison form.
        let short = |length| u16::try_from(length).unwrap_or(u16::MAX);
        Self {
            at: halves(
                at & (PLACE | IN_ARENA)
                    | flag(kind == RuleKind::Allow, ALLOW)
                    | flag(manner.is_anchored, ANCHORED)
                    | flag(manner.is_literal, LITERAL),
            ),
            length: short(length),
            octets: short(octets),
        }
    }

    /// No pattern, but where more are: behind the class of this number.
    pub(super) fn to_class(number: usize) -> Self {
        Self {
            at: halves(index(number)),
            length: 0,
            octets: 0,
        }
    }

    /// The class behind which more patterns are, if this is no pattern.
    pub(super) fn signpost(self) -> Option<usize> {
        // No pattern has no octets.
        (self.octets == 0).then(|| self.at() as usize)
    }

    fn at(self) -> u32 {
        let [low, high] = self.at;
        u32::from(high) << 16 | u32::from(low)
    }

    pub(super) fn kind(self) -> RuleKind {
        if self.at() & ALLOW == 0 {
            RuleKind::Disallow
        } else {
            RuleKind::Allow
        }
    }

    /// The length of the text.
    pub(super) fn length(self) -> usize {
        usize::from(self.length)
    }

    fn is_literal(self) -> bool {
        self.at() & LITERAL != 0
    }

    /// Whether the path must end where the pattern does.
    pub(super) fn is_anchored(self) -> bool {
        self.at() & ANCHORED != 0
    }

    /// What decides between rules that match: the greater, and of equals the first in the file.
    /// Never 0.
    pub(super) fn precedence(self) -> u32 {
        u32::from(self.octets) << 1 | u32::from(self.at() & ALLOW != 0)
    }

    pub(super) fn text<'a>(self, texts: Texts<'a>) -> &'a [u8] {
        let from = if self.at() & IN_ARENA == 0 {
            texts.file
        } else {
            texts.arena
        };
        let start = (self.at() & PLACE) as usize;
        from.get(start..start + self.length()).unwrap_or_default()
    }

    /// Where in the file the rule's value begins.
    pub(super) fn place(self, texts: Texts<'_>) -> u32 {
        let at = self.at() & PLACE;
        if self.at() & IN_ARENA == 0 {
            return at;
        }
        let before = texts.arena.get(..at as usize);
        before
            .and_then(<[u8]>::last_chunk)
            .map_or(0, |place| u32::from_le_bytes(*place))
    }

    /// Whether this rule goes before another that matches, too.
    pub(super) fn is_before(self, other: Self, texts: Texts<'_>) -> bool {
        let (mine, its) = (self.precedence(), other.precedence());
        mine > its || mine == its && self.place(texts) < other.place(texts)
    }

    /// Whether two patterns match the same paths for having the same text.
    pub(super) fn is_like(self, other: Self, texts: Texts<'_>) -> bool {
        let manner = ANCHORED | LITERAL;
        self.length == other.length
            && self.at() & manner == other.at() & manner
            && self.text(texts) == other.text(texts)
    }

    /// Whether a path matches a pattern without wildcards that is not literal.
    pub(super) fn begins(self, path: &[u8], texts: Texts<'_>) -> bool {
        let length = self.length();
        (!self.is_anchored() || path.len() == length) && path.starts_with(self.text(texts))
    }

    /// Whether a path matches.
    pub(super) fn matches(self, path: &Subject<'_>, texts: Texts<'_>) -> bool {
        path.matches(self.text(texts), self.is_anchored(), self.is_literal())
    }
}

/// Of what matches, what decides.
pub(super) fn better(one: Option<Filed>, other: Filed, texts: Texts<'_>) -> Option<Filed> {
    match one {
        Some(one) if !other.is_before(one, texts) => Some(one),
        _ => Some(other),
    }
}

/// Patterns by a hash of what every path that they match holds: a hash table without gaps.
#[derive(Clone, Debug)]
pub(super) struct Buckets<T = Filed> {
    /// Where each bucket's slots begin; the last entry ends the last bucket.
    starts: Starts,
    slots: Box<[T]>,
    /// What is left of 32 bits of hash when it is shifted so far is the bucket.
    shift: u32,
}

/// Few files need more than 16 bits.
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
    /// Files entries by their hashes, in about as many buckets as there are entries.
    pub(super) fn new(entries: &[(u32, T)]) -> Self {
        Self::of(entries, entries.len())
    }

    /// Files entries by their hashes in `count` buckets, or up to twice as many.
    pub(super) fn of(entries: &[(u32, T)], count: usize) -> Self {
        let bits = count.next_power_of_two().trailing_zeros().clamp(1, 28);
        let shift = 32 - bits;
        let mut starts = vec![0_u32; (1 << bits) + 1];
        for (hash, _) in entries {
            if let Some(count) = starts.get_mut((hash >> shift) as usize) {
                *count += 1;
            }
        }
        // From sizes to ends; filling from behind makes them starts.
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
        Self {
            starts,
            slots,
            shift,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The number of the bucket of a hash.
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

    /// Heap used, in octets.
    pub(super) fn bytes(&self) -> usize {
        let starts = match &self.starts {
            Starts::Short(starts) => size_of_val(&**starts),
            Starts::Long(starts) => size_of_val(&**starts),
        };
        starts + size_of_val(&*self.slots)
    }
}

impl Buckets {
    /// All patterns, with hashes of no meaning; where more than `crowd` are in one bucket, those
    /// only that can ever decide: of equal texts the best.
    pub(super) fn distinct(&self, crowd: usize, texts: Texts<'_>, key: Key) -> Vec<(u32, Filed)> {
        let mut kept: Vec<(u32, Filed)> = Vec::with_capacity(self.slots.len());
        for bucket in self.iter() {
            if bucket.len() <= crowd {
                kept.extend(bucket.iter().map(|filed| (0, *filed)));
                continue;
            }
            let hashed = |filed: &Filed| (key.hash(filed.text(texts)), *filed);
            let mut crowded: Vec<(u32, Filed)> = bucket.iter().map(hashed).collect();
            crowded.sort_unstable_by_key(|(hash, filed)| {
                (*hash, Reverse(filed.precedence()), filed.place(texts))
            });
            crowded.dedup_by(|(hash, filed), (other_hash, other)| {
                hash == other_hash && filed.is_like(*other, texts)
            });
            kept.append(&mut crowded);
        }
        kept
    }
}
