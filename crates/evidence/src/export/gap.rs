//! The statement that entries are missing: hashes in their place, which lead to the signed root.
//!
//! The entries of a gap could not be read, or were other than the signed ones. A file of a gap holds the roots of the perfect subtrees
//! over them, none larger than a bundle. A reader continues behind them, and the signed root proves that the log has
//! nothing else there. The statement has no signature: a carrier that takes entries away can state a gap, too.

use crawlgate_tlog::{BUNDLE, Hash, Tree, Unaligned, subtrees};

/// Entries that are missing, from `first` to before `end`, the end of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The index of the first.
    pub first: u64,
    /// The index behind the last.
    pub end: u64,
    /// The roots of the perfect subtrees over them, from left to right.
    hashes: Vec<Hash>,
}

impl Gap {
    /// Returns a gap. `None` unless these are as many hashes as it needs.
    #[must_use]
    pub fn new((first, end): (u64, u64), hashes: Vec<Hash>) -> Option<Self> {
        let needed = subtrees(first, end).take(hashes.len() + 1).count();
        let is_whole = !hashes.is_empty() && needed == hashes.len();
        is_whole.then_some(Self { first, end, hashes })
    }

    /// Reads the octets of a file: the hashes one after the other. `None` unless these are as many as the gap needs.
    #[must_use]
    pub fn from_bytes(range: (u64, u64), octets: &[u8]) -> Option<Self> {
        let (hashes, []) = octets.as_chunks() else {
            return None;
        };
        Self::new(range, hashes.to_vec())
    }

    /// Returns the octets of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.hashes.as_flattened().to_vec()
    }

    /// Returns the part of the gap from `at` to the last end of a bundle before or at `until`. `None` if none begins there.
    #[must_use]
    pub fn part(&self, at: u64, until: u64) -> Option<Self> {
        let end = self.end.min(until / BUNDLE * BUNDLE);
        let (mut first, mut from) = (self.first, 0);
        for level in subtrees(self.first, at.min(self.end) / BUNDLE * BUNDLE) {
            first += 1 << level;
            from += 1;
        }
        let count = subtrees(first, end).count();
        let hashes = self.hashes.get(from..from + count)?.to_vec();
        if first == at { Self::new((at, end), hashes) } else { None }
    }

    /// Appends the gap to the tree over the entries before it. Returns the roots of the bundles that it completes.
    ///
    /// # Errors
    /// When the tree has another size.
    pub fn append_to(&self, tree: &mut Tree) -> Result<Vec<Hash>, Unaligned> {
        if tree.size() != self.first {
            let (size, entries) = (tree.size(), self.end - self.first);
            return Err(Unaligned { size, entries });
        }
        let mut bundles = Vec::new();
        for (level, hash) in subtrees(self.first, self.end).zip(&self.hashes) {
            bundles.extend(tree.push_subtree(level, *hash)?);
        }
        Ok(bundles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_tlog::leaf_hash;

    fn leaves(range: std::ops::Range<u64>) -> Vec<Hash> {
        range.map(|n| leaf_hash(&n.to_be_bytes())).collect()
    }

    fn tree(size: u64) -> Tree {
        let mut tree = Tree::new();
        for leaf in leaves(0..size) {
            tree.push(leaf);
        }
        tree
    }

    fn gap(first: u64, end: u64) -> Gap {
        let mut at = first;
        let hashes = subtrees(first, end).map(|level| {
            let begin = at;
            at += 1 << level;
            Tree::root_of(&leaves(begin..at))
        });
        Gap::new((first, end), hashes.collect()).unwrap()
    }

    #[test]
    fn a_gap_leads_from_any_entry_to_the_end_of_its_last_bundle() {
        let end = 3 * BUNDLE;
        for first in [0, 1, 77, 128, 255, 256, 300, 511, 512, 767] {
            let gap = gap(first, end);
            let mut tree = tree(first);
            gap.append_to(&mut tree).unwrap();
            assert_eq!(tree, self::tree(end), "{first}");
            let read = Gap::from_bytes((first, end), &gap.to_bytes()).unwrap();
            assert_eq!(read, gap);
            let short = &gap.to_bytes()[32..];
            assert_eq!(Gap::from_bytes((first, end), short), None, "{first}");
            let long = [gap.to_bytes(), vec![0; 32]].concat();
            assert_eq!(Gap::from_bytes((first, end), &long), None, "{first}");
        }
        assert_eq!(Gap::from_bytes((0, 300), &[0; 64]), None, "no bundle ends");
        assert_eq!(Gap::from_bytes((0, u64::MAX), &[0; 64]), None);
        assert!(gap(300, end).append_to(&mut tree(299)).is_err());
    }

    #[test]
    fn a_part_begins_where_its_gap_does_or_a_bundle() {
        let whole = gap(300, 4 * BUNDLE);
        assert_eq!(whole.part(300, u64::MAX), Some(whole.clone()));
        assert_eq!(whole.part(300, 600), Some(gap(300, 512)));
        assert_eq!(whole.part(512, 1_000), Some(gap(512, 768)));
        for (at, until) in [(301, 1_024), (256, 1_024), (300, 511), (768, 700), (1_024, 2_000)] {
            assert_eq!(whole.part(at, until), None, "{at}, {until}");
        }
    }
}
