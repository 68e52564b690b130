//! Proofs about a tree, and their verification: inclusion of one entry, consistency of two sizes.
//!
//! The verification is that of RFC 9162, sections 2.1.3.2 and 2.1.4.2, step by step. It trusts nothing in a proof; the
//! roots and the size come from signed checkpoints. A root does not fix the size: two sizes may give the same
//! path. A caller takes size and root from one checkpoint.

use thiserror::Error;

use super::hash::{EMPTY_ROOT, Hash, node_hash};

/// A proof that an entry stands at one place of a tree (RFC 9162 section 2.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InclusionProof {
    /// The place of the entry, from 0.
    pub index: u64,
    /// Entries of the tree.
    pub size: u64,
    /// The siblings on the way from the leaf to the root.
    pub path: Vec<Hash>,
}

/// A proof that a tree begins with all entries of an older one (RFC 9162 section 2.1.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsistencyProof {
    /// Entries of the older tree.
    pub old: u64,
    /// Entries of the newer tree.
    pub new: u64,
    /// The nodes from which both roots follow. Empty when the sizes are equal, and when the older tree is empty.
    pub path: Vec<Hash>,
}

/// The reason why a proof does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProofError {
    /// The index is not below the size.
    #[error("entry {index} is not in a tree of {size}")]
    OutOfTree {
        /// The place of the entry.
        index: u64,
        /// Entries of the tree.
        size: u64,
    },
    /// The older tree is larger than the newer one.
    #[error("a tree of {new} entries cannot continue one of {old}")]
    Shrunk {
        /// Entries of the older tree.
        old: u64,
        /// Entries of the newer tree.
        new: u64,
    },
    /// The path has more or fewer hashes than these sizes need.
    #[error("the proof has the wrong number of hashes")]
    Length,
    /// The path leads to another root.
    #[error("the proof leads to another root")]
    Root,
    /// The path leads to another root of the older tree.
    #[error("the proof leads to another root of the older tree")]
    OldRoot,
}

impl InclusionProof {
    /// Checks that the entry with this leaf hash stands at the index, in the tree with this root.
    ///
    /// # Errors
    /// When it does not follow from the path.
    pub fn verify(&self, leaf: &Hash, root: &Hash) -> Result<(), ProofError> {
        let Self { index, size, .. } = *self;
        if index >= size {
            return Err(ProofError::OutOfTree { index, size });
        }
        let (mut place, mut last) = (index, size - 1);
        let mut hash = *leaf;
        for sibling in &self.path {
            if last == 0 {
                return Err(ProofError::Length);
            }
            if place & 1 == 1 || place == last {
                hash = node_hash(sibling, &hash);
                // Skips the levels at which the last node of the tree has no sibling.
                let levels = place.trailing_zeros();
                (place, last) = (place >> levels, last >> levels);
            } else {
                hash = node_hash(&hash, sibling);
            }
            (place, last) = (place >> 1, last >> 1);
        }
        match last {
            0 if hash == *root => Ok(()),
            0 => Err(ProofError::Root),
            _ => Err(ProofError::Length),
        }
    }
}

impl ConsistencyProof {
    /// Checks that the tree with the root `new` begins with the entries of the tree with the root `old`.
    ///
    /// # Errors
    /// When it does not follow from the path.
    pub fn verify(&self, old: &Hash, new: &Hash) -> Result<(), ProofError> {
        let sizes = (self.old, self.new);
        match sizes {
            (before, after) if before > after => {
                return Err(ProofError::Shrunk { old: before, new: after });
            }
            (0, _) if *old != EMPTY_ROOT => return Err(ProofError::OldRoot),
            (before, after) if before == after || before == 0 => {
                return match self.path.is_empty() {
                    false => Err(ProofError::Length),
                    true if before == after && old != new => Err(ProofError::Root),
                    true => Ok(()),
                };
            }
            _ => {}
        }
        // The first node of the path is the largest subtree with which the older tree ends. If that is the whole older
        // tree, the verifier knows its root, and the path leaves it out.
        let mut path = self.path.iter();
        let first = if self.old.is_power_of_two() { Some(old) } else { path.next() };
        let mut hashes = match first {
            Some(first) => (*first, *first),
            None => return Err(ProofError::Length),
        };
        let levels = self.old.trailing_zeros();
        let (mut place, mut last) = ((self.old - 1) >> levels, (self.new - 1) >> levels);
        for node in path {
            if last == 0 {
                return Err(ProofError::Length);
            }
            if place & 1 == 1 || place == last {
                hashes = (node_hash(node, &hashes.0), node_hash(node, &hashes.1));
                let levels = place.trailing_zeros();
                (place, last) = (place >> levels, last >> levels);
            } else {
                hashes.1 = node_hash(&hashes.1, node);
            }
            (place, last) = (place >> 1, last >> 1);
        }
        match last {
            0 if hashes.0 != *old => Err(ProofError::OldRoot),
            0 if hashes.1 != *new => Err(ProofError::Root),
            0 => Ok(()),
            _ => Err(ProofError::Length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{leaves, prover};
    use crate::{MAX_SIZE, Tree};

    fn other(hash: &Hash) -> Hash {
        let mut other = *hash;
        other[31] ^= 1;
        other
    }

    #[test]
    fn a_proof_of_inclusion_holds_for_its_entry_place_and_root_alone() {
        let leaves = leaves(7);
        let root = Tree::root_of(&leaves);
        let right = prover(&leaves).inclusion(4).unwrap();
        assert_eq!(right.verify(&leaves[4], &root), Ok(()));
        assert_eq!(right.verify(&leaves[5], &root), Err(ProofError::Root));
        assert_eq!(right.verify(&leaves[4], &other(&root)), Err(ProofError::Root));
        let out = |index, size| ProofError::OutOfTree { index, size };
        type Change = fn(&mut InclusionProof);
        #[rustfmt::skip] // one row, one case
        let rows: [(&str, Change, ProofError); 10] = [
            ("another place", |proof| proof.index = 5, ProofError::Root),
            ("a place with a shorter path", |proof| proof.index = 6, ProofError::Length),
            ("the end of the tree", |proof| proof.index = 7, out(7, 7)),
            ("the last number", |proof| proof.index = u64::MAX, out(u64::MAX, 7)),
            ("a smaller tree", |proof| proof.size = 5, ProofError::Length),
            ("a far larger tree", |proof| proof.size = MAX_SIZE, ProofError::Length),
            ("no tree", |proof| proof.size = 0, out(4, 0)),
            ("a hash less", |proof| { proof.path.pop(); }, ProofError::Length),
            ("a hash more", |proof| proof.path.push([0; 32]), ProofError::Length),
            ("another order", |proof| proof.path.swap(0, 1), ProofError::Root),
        ];
        for (name, change, why) in rows {
            let mut proof = right.clone();
            change(&mut proof);
            assert_eq!(proof.verify(&leaves[4], &root), Err(why), "{name}");
        }
    }

    #[test]
    fn a_proof_of_consistency_holds_for_its_two_roots_alone() {
        let leaves = leaves(7);
        let root = |size: usize| Tree::root_of(&leaves[..size]);
        let right = prover(&leaves).consistency(3).unwrap();
        let verify = |proof: &ConsistencyProof| proof.verify(&root(3), &root(7));
        assert_eq!(verify(&right), Ok(()));
        assert_eq!(right.verify(&root(4), &root(7)), Err(ProofError::OldRoot));
        assert_eq!(right.verify(&root(3), &root(6)), Err(ProofError::Root));
        type Change = fn(&mut ConsistencyProof);
        #[rustfmt::skip] // one row, one case
        let rows: [(&str, Change, ProofError); 10] = [
            ("another older size", |proof| proof.old = 5, ProofError::OldRoot),
            ("a power of two", |proof| proof.old = 4, ProofError::Length),
            ("no older tree", |proof| proof.old = 0, ProofError::OldRoot),
            ("the same size", |proof| proof.new = 3, ProofError::Length),
            ("a smaller tree", |proof| proof.new = 2, ProofError::Shrunk { old: 3, new: 2 }),
            ("a far larger tree", |proof| proof.new = u64::MAX, ProofError::Length),
            ("a hash less", |proof| { proof.path.pop(); }, ProofError::Length),
            ("a hash more", |proof| proof.path.push([0; 32]), ProofError::Length),
            ("no hash", |proof| proof.path.clear(), ProofError::Length),
            ("another order", |proof| proof.path.swap(0, 1), ProofError::OldRoot),
        ];
        for (name, change, why) in rows {
            let mut proof = right.clone();
            change(&mut proof);
            assert_eq!(verify(&proof), Err(why), "{name}");
        }
    }

    #[test]
    fn equal_and_empty_trees_need_no_hashes() {
        let leaves = leaves(5);
        let root = Tree::root_of(&leaves);
        let proof = |old, new, path: &[Hash]| ConsistencyProof { old, new, path: path.to_vec() };
        let (empty, one) = (EMPTY_ROOT, [[1; 32]]);
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("equal", proof(5, 5, &[]), root, root, Ok(())),
            ("equal sizes, two trees", proof(5, 5, &[]), root, other(&root), Err(ProofError::Root)),
            ("equal, and a hash", proof(5, 5, &one), root, root, Err(ProofError::Length)),
            ("from nothing", proof(0, 5, &[]), empty, root, Ok(())),
            ("from nothing, and a hash", proof(0, 5, &one), empty, root, Err(ProofError::Length)),
            ("from nothing with a root", proof(0, 5, &[]), root, root, Err(ProofError::OldRoot)),
            ("nothing to nothing", proof(0, 0, &[]), empty, empty, Ok(())),
            ("nothing to nothing with a root", proof(0, 0, &[]), empty, root, Err(ProofError::Root)),
            ("smaller", proof(5, 4, &[]), root, root, Err(ProofError::Shrunk { old: 5, new: 4 })),
        ];
        for (name, proof, old, new, want) in rows {
            assert_eq!(proof.verify(&old, &new), want, "{name}");
        }
    }
}
