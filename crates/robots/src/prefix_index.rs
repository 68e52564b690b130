//! The patterns without wildcards, looked up by the beginning of a path.
//!
//! Such a pattern matches the paths that begin with its text. Patterns form classes by the length of their text. Within
//! a class, each pattern is stored under the hash of its first octets: as many octets as the shortest of the class has.
//! A path looks once into each class, and the classes are few: lengths double from one to the next.
//!
//! If more than [`CROWD`] patterns share a hash, a overflow takes their place, and they move to finer classes of a
//! quarter of the length range. Only paths that meet the overflow look there. A class in which all texts have one
//! length is stored by whole texts: equal texts are one pattern, of which the best is kept. So a path looks at no more
//! than [`CROWD`] patterns in a class. There are at most twice as many classes as distinct lengths, and *n* lengths
//! take *n*²/2 octets of text: about a thousand classes in 500 KiB.

use super::compiled::{Buckets, CompiledPattern, Texts, better};
use super::key::Key;

/// The most patterns that may share one hash.
const CROWD: usize = 6;

#[derive(Clone, Debug, Default)]
pub(super) struct PrefixIndex {
    /// First the classes that every path visits, the longest first; then those behind overflows.
    classes: Box<[Class]>,
    /// The number of classes that every path visits.
    roots: usize,
    buckets: Buckets,
}

/// A class: patterns of similar length.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// The number of octets of the path that are hashed.
    prefix: u16,
    /// The finer classes for crowded hashes: the first, and their number.
    finer: (u32, u8),
    /// The best precedence in this and all finer classes.
    best: u32,
}

impl PrefixIndex {
    pub(super) fn new(patterns: &[CompiledPattern], texts: Texts<'_>, key: Key) -> Self {
        if patterns.is_empty() {
            return Self::default();
        }
        let mut builder = Builder {
            texts,
            key,
            classes: Vec::new(),
            entries: Vec::with_capacity(patterns.len()),
            crowds: Vec::new(),
        };
        let of_two = |compiled: &CompiledPattern| usize::BITS - compiled.length().leading_zeros();
        let mut present = 0_u32;
        for compiled in patterns {
            present |= 1 << of_two(compiled);
        }
        let mut members = Vec::new();
        for class in (0..u32::BITS).rev().filter(|class| present >> class & 1 == 1) {
            members.extend(patterns.iter().filter(|compiled| of_two(compiled) == class));
            builder.class(&members);
            members.clear();
        }
        let roots = builder.classes.len();
        builder.divide();
        Self {
            classes: builder.classes.into_boxed_slice(),
            roots,
            buckets: Buckets::of(&builder.entries, builder.entries.len() * 3 / 4),
        }
    }

    /// Returns the deciding pattern among those that match.
    pub(super) fn best(
        &self,
        path: &[u8],
        texts: Texts<'_>,
        key: Key,
        admits: impl Fn(CompiledPattern) -> bool,
    ) -> Option<CompiledPattern> {
        let mut search = Search { admits, path, texts, key, best: None, least: 0 };
        self.ask(0..self.roots, &mut search);
        search.best
    }

    fn ask(
        &self,
        classes: std::ops::Range<usize>,
        search: &mut Search<'_, impl Fn(CompiledPattern) -> bool>,
    ) {
        for (number, class) in classes.clone().zip(self.classes.get(classes).unwrap_or_default()) {
            if class.best < search.least {
                continue;
            }
            let Some(prefix) = search.path.get(..usize::from(class.prefix)) else {
                continue;
            };
            let bucket = self.buckets.get(self.buckets.number(search.key.hash(prefix)));
            for compiled in bucket {
                if let Some(class_behind) = compiled.overflow() {
                    // A overflow of another class may be in the same bucket.
                    if class_behind == number {
                        let (first, count) = class.finer;
                        self.ask(first as usize..first as usize + usize::from(count), search);
                    }
                } else if compiled.precedence() >= search.least
                    && compiled.begins(search.path, search.texts)
                    && (search.admits)(*compiled)
                {
                    search.best = better(search.best, *compiled, search.texts);
                    search.least = search.best.map_or(0, CompiledPattern::precedence);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Returns the patterns, without those that can never decide.
    pub(super) fn distinct(
        &self,
        texts: Texts<'_>,
        key: Key,
    ) -> impl Iterator<Item = CompiledPattern> {
        let all = self.buckets.distinct(0, texts, key).into_iter();
        all.map(|(_, compiled)| compiled).filter(|compiled| compiled.overflow().is_none())
    }

    /// Returns the octets of heap used.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.bytes() + size_of_val(&*self.classes)
    }
}

/// The state of one look-up.
struct Search<'a, F> {
    /// Decides which patterns take part.
    admits: F,
    path: &'a [u8],
    texts: Texts<'a>,
    key: Key,
    best: Option<CompiledPattern>,
    /// The least precedence that can still decide.
    least: u32,
}

/// The classes under construction.
struct Builder<'a> {
    texts: Texts<'a>,
    key: Key,
    classes: Vec<Class>,
    entries: Vec<(u32, CompiledPattern)>,
    /// Crowded patterns, with the class of each.
    crowds: Vec<(usize, Vec<CompiledPattern>)>,
}

impl Builder<'_> {
    /// Makes a class of patterns. `divide` moves its crowded patterns later.
    fn class(&mut self, members: &[CompiledPattern]) {
        let lengths = members.iter().map(|compiled| compiled.length());
        let (shortest, longest) = lengths.fold((usize::MAX, 0), |(shortest, longest), length| {
            (shortest.min(length), longest.max(length))
        });
        let number = self.classes.len();
        self.classes.push(Class {
            prefix: shortest as u16,
            finer: (0, 0),
            best: members.iter().map(|compiled| compiled.precedence()).max().unwrap_or(0),
        });
        let start = self.entries.len();
        for compiled in members {
            let prefix = compiled.text(self.texts).get(..shortest).unwrap_or_default();
            self.entries.push((self.key.hash(prefix), *compiled));
        }
        if members.len() <= CROWD {
            return;
        }
        let shift = 32 - members.len().next_power_of_two().trailing_zeros();
        let slot = |hash: u32| (hash >> shift) as usize;
        // For each range of hashes: the number of patterns, and the hash of the last overflow.
        let mut counts = vec![(0_u32, None); 1 << (32 - shift)];
        for (hash, _) in self.entries.iter().skip(start) {
            if let Some((count, _)) = counts.get_mut(slot(*hash)) {
                *count += 1;
            }
        }
        if counts.iter().all(|(count, _)| *count as usize <= CROWD) {
            return;
        }
        if shortest == longest {
            // A crowd under whole texts consists of equal texts, except for collisions.
            let own = Buckets::new(self.entries.get(start..).unwrap_or_default());
            self.entries.truncate(start);
            for (_, compiled) in own.distinct(CROWD, self.texts, self.key) {
                self.entries.push((self.key.hash(compiled.text(self.texts)), compiled));
            }
            return;
        }
        let mut crowd = Vec::new();
        let mut overflows = Vec::new();
        let end = self.entries.len();
        let mut at = start;
        let mut kept = start;
        while at < end {
            let Some((hash, compiled)) = self.entries.get(at).copied() else {
                break;
            };
            at += 1;
            match counts.get_mut(slot(hash)) {
                Some((count, last)) if *count as usize > CROWD => {
                    crowd.push(compiled);
                    if *last != Some(hash) {
                        *last = Some(hash);
                        overflows.push((hash, CompiledPattern::to_class(number)));
                    }
                }
                _ => {
                    if let Some(entry) = self.entries.get_mut(kept) {
                        *entry = (hash, compiled);
                    }
                    kept += 1;
                }
            }
        }
        self.entries.truncate(kept);
        overflows.sort_unstable_by_key(|(hash, _)| *hash);
        overflows.dedup_by_key(|(hash, _)| *hash);
        self.entries.append(&mut overflows);
        self.crowds.push((number, crowd));
    }

    /// Makes the finer classes until no crowds are left.
    fn divide(&mut self) {
        while let Some((number, crowd)) = self.crowds.pop() {
            let lengths = || crowd.iter().map(|compiled| compiled.length());
            let (Some(shortest), Some(longest)) = (lengths().min(), lengths().max()) else {
                continue;
            };
            let range = (longest - shortest) / 4 + 1;
            let first = self.classes.len();
            for quarter in (0..4).rev() {
                let is_member =
                    |compiled: &&CompiledPattern| (compiled.length() - shortest) / range == quarter;
                let members: Vec<CompiledPattern> =
                    crowd.iter().filter(is_member).copied().collect();
                if !members.is_empty() {
                    self.class(&members);
                }
            }
            let count = self.classes.len() - first;
            if let Some(class) = self.classes.get_mut(number) {
                class.finer = (first as u32, count as u8);
            }
        }
    }
}
