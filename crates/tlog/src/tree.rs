//! The tree that grows: its size and the roots of its perfect subtrees, at most 63 hashes.
//!
//! The writer of the log keeps one [`Tree`] and appends leaf hashes to it. The tree tells when a bundle or a segment is
//! full: the store keeps those roots and nothing below them. After a restart the same tree comes from the stored roots
//! and the entries that are in no full bundle.

use thiserror::Error;

use super::hash::{EMPTY_ROOT, Hash, node_hash};

/// Entries of a bundle, the leaves of one tile of c2sp.org/tlog-tiles.
pub const BUNDLE: u64 = 1 << BUNDLE_LEVEL;

/// Entries of a segment: 256 bundles.
pub const SEGMENT: u64 = 1 << SEGMENT_LEVEL;

/// The largest tree. Go and c2sp.org/tlog-cosignature count in 63 bits as well.
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// The height of a bundle's root above its leaves.
pub(super) const BUNDLE_LEVEL: u32 = 8;

/// The height of a segment's root above its leaves.
pub(super) const SEGMENT_LEVEL: u32 = 16;

/// An append-only Merkle tree (RFC 9162 section 2.1.1), without its leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    /// The roots of the perfect subtrees from left to right: one for each bit of `size` that is set.
    peaks: Vec<Hash>,
}

/// The roots that an appended leaf has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// The root of the bundle that ends with the leaf.
    pub bundle: Hash,
    /// The root of the segment that ends with the leaf.
    pub segment: Option<Hash>,
}

/// A root that does not fit the end of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a subtree of {entries} entries does not fit a tree of {size}")]
pub struct Unaligned {
    /// Entries of the tree.
    pub size: u64,
    /// Entries of the subtree.
    pub entries: u64,
}

impl Tree {
    /// Returns the empty tree.
    #[must_use]
    pub const fn new() -> Self {
        Self { size: 0, peaks: Vec::new() }
    }

    /// Returns the root over these leaf hashes, for example of a recomputed bundle.
    #[must_use]
    pub fn root_of(leaves: &[Hash]) -> Hash {
        let mut tree = Self::new();
        for leaf in leaves {
            tree.push(*leaf);
        }
        tree.root()
    }

    /// Returns the number of leaves.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the root of the tree: the hash that a checkpoint signs.
    #[must_use]
    pub fn root(&self) -> Hash {
        let root = self.peaks.iter().copied();
        root.rev().reduce(|right, left| node_hash(&left, &right)).unwrap_or(EMPTY_ROOT)
    }

    /// Appends a leaf hash. Returns the roots to keep, when the leaf is the last one of a bundle.
    pub fn push(&mut self, leaf: Hash) -> Option<Full> {
        let (mut bundle, mut segment) = (None, None);
        self.add(0, leaf, |level, root| match level {
            BUNDLE_LEVEL => bundle = Some(root),
            SEGMENT_LEVEL => segment = Some(root),
            _ => {}
        });
        bundle.map(|bundle| Full { bundle, segment })
    }

    /// Appends the root of a full bundle. Returns the root of the segment that the bundle completes.
    ///
    /// # Errors
    /// When the tree does not end with a full bundle.
    pub fn push_bundle(&mut self, root: Hash) -> Result<Option<Hash>, Unaligned> {
        self.aligned(BUNDLE)?;
        let mut segment = None;
        self.add(BUNDLE_LEVEL, root, |level, root| {
            if level == SEGMENT_LEVEL {
                segment = Some(root);
            }
        });
        Ok(segment)
    }

    /// Appends the root of a full segment.
    ///
    /// # Errors
    /// When the tree does not end with a full segment.
    pub fn push_segment(&mut self, root: Hash) -> Result<(), Unaligned> {
        self.aligned(SEGMENT)?;
        self.add(SEGMENT_LEVEL, root, |_, _| {});
        Ok(())
    }

    /// Appends a perfect subtree of `1 << level` leaves, of a bundle at most. Returns the root of the bundle that it
    /// completes.
    ///
    /// # Errors
    /// When the subtree is larger than a bundle, or no such subtree begins at the end of the tree.
    pub fn push_subtree(&mut self, level: u32, root: Hash) -> Result<Option<Hash>, Unaligned> {
        let level = level.min(BUNDLE_LEVEL + 1);
        self.aligned(1 << level)?;
        if level > BUNDLE_LEVEL {
            let (size, entries) = (self.size, 1 << level);
            return Err(Unaligned { size, entries });
        }
        let mut bundle = (level == BUNDLE_LEVEL).then_some(root);
        self.add(level, root, |level, root| {
            if level == BUNDLE_LEVEL {
                bundle = Some(root);
            }
        });
        Ok(bundle)
    }

    const fn aligned(&self, entries: u64) -> Result<(), Unaligned> {
        let size = self.size;
        if size.is_multiple_of(entries) { Ok(()) } else { Err(Unaligned { size, entries }) }
    }

    /// Appends a perfect subtree, and calls `full` with each perfect subtree that this completes, upwards.
    fn add(&mut self, mut level: u32, mut root: Hash, mut full: impl FnMut(u32, Hash)) {
        let grown = self.size + (1 << level);
        while (self.size >> level) & 1 == 1
            && let Some(left) = self.peaks.pop()
        {
            root = node_hash(&left, &root);
            level += 1;
            full(level, root);
        }
        self.peaks.push(root);
        self.size = grown;
    }
}

/// Returns the heights of the perfect subtrees, none larger than a bundle, that follow a tree of `first` leaves up to
/// `end`, the end of a bundle. Empty if `end` is no end of a bundle, or not behind `first`.
pub fn subtrees(first: u64, end: u64) -> impl Iterator<Item = u32> {
    let is_range = first < end && end.is_multiple_of(BUNDLE);
    let mut at = first;
    std::iter::from_fn(move || {
        if !is_range || at >= end {
            return None;
        }
        let level = at.trailing_zeros().min(BUNDLE_LEVEL);
        at += 1 << level;
        Some(level)
    })
}

#[cfg(test)]
mod tests {
    use super::super::hash::leaf_hash;
    use super::*;
    use crate::tests::{ENTRIES, ROOTS, hex};

    #[test]
    fn each_size_has_the_root_of_the_published_vectors() {
        let mut tree = Tree::new();
        assert_eq!(tree.root(), EMPTY_ROOT);
        for (entry, root) in ENTRIES.iter().zip(ROOTS) {
            assert_eq!(tree.push(leaf_hash(entry)), None);
            assert_eq!(hex(&tree.root()), root, "{} entries", tree.size());
        }
    }

    #[test]
    fn full_bundles_and_segments_are_told_and_rebuild_the_tree() {
        let leaf = |n: u64| leaf_hash(&n.to_be_bytes());
        let (mut bundles, mut segments) = (Vec::new(), Vec::new());
        let mut tree = Tree::new();
        let size = 2 * SEGMENT + 3 * BUNDLE + 5;
        for n in 0..size {
            let full = tree.push(leaf(n));
            assert_eq!(full.is_some(), (n + 1) % BUNDLE == 0, "{n}");
            let Some(Full { bundle, segment }) = full else {
                continue;
            };
            let leaves: Vec<_> = (n + 1 - BUNDLE..=n).map(leaf).collect();
            assert_eq!(bundle, Tree::root_of(&leaves), "{n}");
            bundles.push(bundle);
            assert_eq!(segment.is_some(), (n + 1) % SEGMENT == 0, "{n}");
            segments.extend(segment);
        }
        assert_eq!((bundles.len(), segments.len()), (2 * 256 + 3, 2));

        let mut again = Tree::new();
        for segment in &segments {
            again.push_segment(*segment).unwrap();
        }
        for bundle in &bundles[2 * 256..] {
            assert_eq!(again.push_bundle(*bundle), Ok(None));
        }
        let rest = size - 5..size;
        rest.clone().for_each(|n| assert_eq!(again.push(leaf(n)), None));
        assert_eq!(again, tree);

        let mut from_bundles = Tree::new();
        let mut roots = Vec::new();
        for bundle in &bundles {
            roots.extend(from_bundles.push_bundle(*bundle).unwrap());
        }
        rest.for_each(|n| assert_eq!(from_bundles.push(leaf(n)), None));
        assert_eq!((from_bundles, roots), (tree, segments));
    }

    #[test]
    fn a_root_that_does_not_fit_the_end_is_refused() {
        let mut tree = Tree::new();
        tree.push([0; 32]);
        let before = tree.clone();
        let unaligned = |size, entries| Unaligned { size, entries };
        assert_eq!(tree.push_bundle([1; 32]), Err(unaligned(1, BUNDLE)));
        assert_eq!(tree.push_segment([1; 32]), Err(unaligned(1, SEGMENT)));
        assert_eq!(tree, before);
        let mut tree = Tree::new();
        assert_eq!(tree.push_bundle([1; 32]), Ok(None));
        assert_eq!(tree.push_segment([1; 32]), Err(unaligned(256, SEGMENT)));
    }

    #[test]
    fn subtrees_take_the_place_of_leaves_that_are_not_at_hand() {
        let leaves: Vec<Hash> = (0..5 * BUNDLE).map(|n| leaf_hash(&n.to_be_bytes())).collect();
        let root = |first: u64, count: u64| {
            let range = first as usize..(first + count) as usize;
            Tree::root_of(&leaves[range])
        };
        let end = 3 * BUNDLE;
        for first in (0..2 * BUNDLE).chain([end - 1]) {
            let mut tree = Tree::new();
            for leaf in &leaves[..first as usize] {
                tree.push(*leaf);
            }
            let mut bundles = Vec::new();
            for level in subtrees(first, end) {
                let subtree = root(tree.size(), 1 << level);
                bundles.extend(tree.push_subtree(level, subtree).unwrap());
            }
            assert_eq!(tree.size(), end, "{first}");
            assert_eq!(tree.root(), root(0, end), "{first}");
            let from = first / BUNDLE;
            let whole: Vec<Hash> = (from..3).map(|n| root(n * BUNDLE, BUNDLE)).collect();
            assert_eq!(bundles, whole, "{first}");
        }
        assert_eq!(subtrees(7, 7).count() + subtrees(9, 300).count(), 0);
        let mut tree = Tree::new();
        assert!(tree.push_subtree(9, EMPTY_ROOT).is_err());
        assert!(tree.push_subtree(u32::MAX, EMPTY_ROOT).is_err());
        tree.push(leaves[0]);
        assert!(tree.push_subtree(1, EMPTY_ROOT).is_err());
    }
}
