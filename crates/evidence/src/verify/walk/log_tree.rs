//! The tree over the entries of a walk, beside the stored roots of its bundles and segments.
//!
//! A bundle of which entries are missing counts by its stored root, and so does a segment of which bundle roots are
//! missing. Where entries and stored root disagree, one of them was altered, and the tree is kept both ways until a
//! checkpoint tells which.

use std::collections::BTreeMap;

use super::super::fault::LogFault;
use super::bundle_of;
use crawlgate_tlog::{BUNDLE, Full, Hash, SEGMENT, Tree};

/// The stored root of a bundle or of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtree {
    first: u64,
    count: u64,
    root: Hash,
}

impl Subtree {
    /// Returns the root of `count` entries, the first of them `first`; `None` unless that is a bundle or a segment.
    #[must_use]
    pub fn of(first: u64, count: u64, root: Hash) -> Option<Self> {
        let is_whole = matches!(count, BUNDLE | SEGMENT) && first.is_multiple_of(count);
        let ends = first.checked_add(count).is_some();
        (is_whole && ends).then_some(Self { first, count, root })
    }
}

/// The size after a step.
pub(super) struct Taken {
    pub(super) size: u64,
}

/// The root that a statement agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreement {
    /// The one over the entries.
    Entries,
    /// The one over stored roots, where these disagree with entries.
    Roots,
    /// None.
    Neither,
    /// Missing entries leave the root unknown.
    Unknown,
}

/// The tree, in both ways as long as they differ.
#[derive(Clone, Debug, Default)]
struct Trees {
    entries: Tree,
    /// The tree over stored roots in place of the entries in doubt.
    roots: Option<Tree>,
}

impl Trees {
    /// Appends the root of missing entries. `None` if it does not fit.
    fn with<T>(&self, mut push: impl FnMut(&mut Tree) -> Option<T>) -> Option<(Self, Vec<T>)> {
        let mut trees = self.clone();
        let both = std::iter::once(&mut trees.entries).chain(&mut trees.roots);
        let pushed = both.map(&mut push).collect::<Option<_>>()?;
        Some((trees, pushed))
    }

    fn settle(&mut self, agreement: Agreement) {
        let roots = self.roots.take();
        if let (Agreement::Roots, Some(roots)) = (agreement, roots) {
            self.entries = roots;
        }
    }
}

#[derive(Debug)]
pub(super) struct LogTree {
    size: u64,
    /// The tree; `None` while it is unknown.
    trees: Option<Trees>,
    /// The tree at the beginning of the present bundle, and of the present segment.
    at_bundle: Option<Trees>,
    at_segment: Option<Trees>,
    /// True if entries of the present bundle are missing.
    is_torn: bool,
    /// Stored roots that are still to be compared, by first entry and number of entries.
    stored: BTreeMap<(u64, u64), Hash>,
    /// Bundles of which entries and stored root disagree, since the last checkpoint.
    doubts: Vec<(u64, u64)>,
}

impl Default for LogTree {
    fn default() -> Self {
        let empty = Some(Trees::default());
        Self {
            size: 0,
            trees: empty.clone(),
            at_bundle: empty.clone(),
            at_segment: empty,
            is_torn: false,
            stored: BTreeMap::new(),
            doubts: Vec::new(),
        }
    }
}

impl LogTree {
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn expect(&mut self, roots: impl IntoIterator<Item = Subtree>) {
        let roots = roots.into_iter();
        let roots = roots.map(|one| ((one.first, one.count), one.root));
        self.stored.extend(roots);
    }

    /// Returns the end of the last stored root.
    pub(super) fn end(&self) -> u64 {
        let ends = self.stored.keys().map(|(first, count)| first + count);
        ends.max().unwrap_or_default()
    }

    /// Tells whether the tree is known.
    pub(super) const fn is_known(&self) -> bool {
        self.trees.is_some() && !self.is_torn
    }

    /// Returns the root of the tree, if it is known.
    pub(super) fn root(&self) -> Option<Hash> {
        let trees = self.trees.as_ref().filter(|_| !self.is_torn);
        trees.map(|trees| trees.entries.root())
    }

    /// Appends the leaf hash of the next entry.
    pub(super) fn push(&mut self, leaf: Hash, faults: &mut Vec<LogFault>) -> Taken {
        self.size += 1;
        let mut full = None;
        let mut segments = Vec::new();
        if let Some(trees) = self.trees.as_mut().filter(|_| !self.is_torn) {
            full = trees.entries.push(leaf);
            let other = trees.roots.as_mut().and_then(|roots| roots.push(leaf));
            let both = [full, other].into_iter().flatten();
            segments.extend(both.filter_map(|full: Full| full.segment));
        }
        if self.size.is_multiple_of(BUNDLE) {
            self.end_bundle(full.map(|full| full.bundle), segments, faults);
        }
        Taken { size: self.size }
    }

    /// Continues towards `to` without entries, by stored roots.
    pub(super) fn pass(&mut self, to: u64, faults: &mut Vec<LogFault>) -> Taken {
        let end_of_bundle = bundle_of(self.size) + BUNDLE;
        if self.trees.is_some() {
            self.is_torn = true;
            self.size = end_of_bundle.min(to);
            if self.size == end_of_bundle {
                self.end_bundle(None, Vec::new(), faults);
            }
            return Taken { size: self.size };
        }
        let segment = self.size - self.size % SEGMENT;
        let end = segment + SEGMENT;
        let has_root = self.stored.contains_key(&(segment, SEGMENT));
        if end <= to && has_root && self.at_segment.is_some() {
            self.size = end;
            self.end_segment(&[], faults);
            self.at_bundle = self.trees.clone();
        } else {
            self.size = to;
            if end <= to {
                self.at_segment = None;
            }
        }
        Taken { size: self.size }
    }

    /// Compares the root of the bundle that ends here with the stored one, or takes that.
    fn end_bundle(
        &mut self,
        root: Option<Hash>,
        mut segments: Vec<Hash>,
        faults: &mut Vec<LogFault>,
    ) {
        let first = self.size - BUNDLE;
        let stored = self.stored.remove(&(first, BUNDLE));
        match (root, stored, &self.at_bundle) {
            (Some(root), Some(stored), Some(before)) if root != stored => {
                self.doubts.push((first, self.size - 1));
                let mut tree = before.roots.as_ref().unwrap_or(&before.entries).clone();
                if let Ok(segment) = tree.push_bundle(stored)
                    && let Some(trees) = &mut self.trees
                {
                    segments.extend(segment);
                    trees.roots = Some(tree);
                }
            }
            (Some(_), ..) => {}
            (None, Some(stored), Some(before)) => {
                let pushed = before.with(|tree| tree.push_bundle(stored).ok());
                self.trees = pushed.map(|(trees, of_segments)| {
                    segments.extend(of_segments.into_iter().flatten());
                    trees
                });
            }
            (None, ..) => self.trees = None,
        }
        self.is_torn = false;
        if self.size.is_multiple_of(SEGMENT) {
            self.end_segment(&segments, faults);
        }
        self.at_bundle.clone_from(&self.trees);
    }

    /// Compares the root of the segment that ends here with the stored one, or takes that if the tree is unknown.
    fn end_segment(&mut self, segments: &[Hash], faults: &mut Vec<LogFault>) {
        let (from, to) = (self.size - SEGMENT, self.size - 1);
        let stored = self.stored.remove(&(from, SEGMENT));
        match (&self.trees, stored, &self.at_segment) {
            (Some(_), Some(stored), _) if !segments.contains(&stored) => {
                faults.push(LogFault::Segment { from, to });
            }
            (None, Some(stored), Some(before)) => {
                let pushed = before.with(|tree| tree.push_segment(stored).ok());
                self.trees = pushed.map(|(trees, _)| trees);
            }
            _ => {}
        }
        self.at_segment.clone_from(&self.trees);
    }

    /// Compares a stated root with that of the tree.
    pub(super) fn ask(&self, root: &Hash) -> Agreement {
        let Some(trees) = self.trees.as_ref().filter(|_| !self.is_torn) else {
            return Agreement::Unknown;
        };
        let agreement = |tree: &Tree| tree.root() == *root;
        match (agreement(&trees.entries), &trees.roots) {
            (true, _) => Agreement::Entries,
            (false, Some(roots)) if agreement(roots) => Agreement::Roots,
            (false, _) => Agreement::Neither,
        }
    }

    /// Continues with the tree that a checkpoint confirms, or with both, and tells of the doubts so far.
    pub(super) fn settle(&mut self, agreement: Agreement, faults: &mut Vec<LogFault>) {
        if matches!(agreement, Agreement::Entries | Agreement::Roots) {
            let all = [&mut self.trees, &mut self.at_bundle, &mut self.at_segment];
            let all = all.into_iter().flatten();
            all.for_each(|trees| trees.settle(agreement));
        }
        match agreement {
            Agreement::Entries => self.tell(faults, |from, to| LogFault::Root { from, to }),
            _ => self.tell_doubts(faults),
        }
    }

    /// Tells of bundles of which entries and stored root disagree.
    pub(super) fn tell_doubts(&mut self, faults: &mut Vec<LogFault>) {
        self.tell(faults, |from, to| LogFault::Bundle { from, to });
    }

    fn tell(&mut self, faults: &mut Vec<LogFault>, fault: fn(u64, u64) -> LogFault) {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (from, to) in self.doubts.drain(..) {
            match ranges.last_mut() {
                Some(last) if last.1 + 1 == from => last.1 = to,
                _ => ranges.push((from, to)),
            }
        }
        faults.extend(ranges.into_iter().map(|(from, to)| fault(from, to)));
    }
}
