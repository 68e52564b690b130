//! Making proofs from what a store keeps: bundle roots, segment roots, and the leaves of one or two recomputed bundles.
//!
//! A proof consists of roots of ranges of leaves (RFC 9162 sections 2.1.3.1 and 2.1.4.1). [`Prover`] splits each range
//! into perfect subtrees and asks its source for the tiles that hold them, each tile once. Above the segments it computes.
//!
//! A store drops old entries, then the bundle roots of old segments. An [`Edge`] holds the few hashes that a checkpoint in
//! a dropped part still needs: with it, the consistency with each later tree remains provable.

use std::collections::HashMap;
use std::ops::Range;

use thiserror::Error;

use super::hash::{EMPTY_ROOT, Hash, node_hash};
use super::proof::{ConsistencyProof, InclusionProof, ProofError};
use super::tile::{Tile, WIDTH};
use super::tree::{BUNDLE_LEVEL, SEGMENT_LEVEL};

/// A maker of proofs in the tree of one size.
///
/// The source is a function that returns the hashes of a tile. It is asked only for levels 0, 1 and 2: the leaf hashes
/// of a bundle, the bundle roots of a segment, the roots of 256 segments. The width of the tile tells how many of them
/// the tree of this size has; the source may return more.
///
/// A prover remembers each hash that it has read or computed, so many proofs of neighbours cost little. A caller that
/// proves entries all over a large log makes a new prover for each segment.
///
/// The prover does not check the hashes. A caller that does not trust its store verifies the proof that comes out.
#[derive(Debug)]
pub struct Prover<S> {
    size: u64,
    source: S,
    known: HashMap<Node, Hash>,
}

/// The reason why a proof was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProverError<E> {
    /// The source gave no hashes.
    #[error("{0}")]
    Source(E),
    /// The source returned fewer hashes than the tile has.
    #[error("{0}: too few hashes")]
    Short(Tile),
    /// The tree has no such entry or older size.
    #[error("{0}")]
    Sizes(ProofError),
    /// The tree ends before a subtree that the answer needs.
    #[error("a tree of {size} entries has no full subtree of {entries} there")]
    Beyond {
        /// Entries of the tree.
        size: u64,
        /// Entries of the subtree.
        entries: u64,
    },
}

/// The part of the tree that a store drops at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropUnit {
    /// Bundles: the entries go, the roots of bundles stay.
    Bundle,
    /// A segment: the roots of its bundles go, the root of the segment stays.
    Segment,
}

/// The hashes around the end of a tree that a checkpoint needs after its unit has been dropped, at most 17.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    size: u64,
    hashes: Vec<Hash>,
}

/// The root of a perfect subtree: of the leaves from `index << level` to `(index + 1) << level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    level: u32,
    index: u64,
}

impl<S, E> Prover<S>
where
    S: FnMut(Tile) -> Result<Vec<Hash>, E>,
{
    /// Returns a prover for the tree of `size` entries.
    pub fn new(size: u64, source: S) -> Self {
        Self { size, source, known: HashMap::new() }
    }

    /// Adds the hashes of an edge, which the prover takes instead of asking its source.
    #[must_use]
    pub fn with_edge(mut self, edge: &Edge) -> Self {
        // The nodes of a bundle are the first of those of its segment.
        let nodes = edge_nodes(edge.size, DropUnit::Segment);
        self.known.extend(nodes.zip(edge.hashes.iter().copied()));
        self
    }

    /// Returns the root of the tree.
    ///
    /// # Errors
    /// When the source fails.
    pub fn root(&mut self) -> Result<Hash, ProverError<E>> {
        match self.size {
            0 => Ok(EMPTY_ROOT),
            size => self.range(0..size),
        }
    }

    /// Proves that entry `index` is in the tree (RFC 9162 section 2.1.3.1).
    ///
    /// # Errors
    /// When the tree has no such entry, or the source fails.
    pub fn inclusion(&mut self, index: u64) -> Result<InclusionProof, ProverError<E>> {
        let size = self.size;
        if index >= size {
            return Err(ProverError::Sizes(ProofError::OutOfTree { index, size }));
        }
        let path = self.ranges(inclusion_path(index, size))?;
        Ok(InclusionProof { index, size, path })
    }

    /// Proves that the tree begins with the tree of `old` entries (RFC 9162 section 2.1.4.1).
    ///
    /// # Errors
    /// When the tree is smaller than that, or the source fails.
    pub fn consistency(&mut self, old: u64) -> Result<ConsistencyProof, ProverError<E>> {
        let new = self.size;
        if old > new {
            return Err(ProverError::Sizes(ProofError::Shrunk { old, new }));
        }
        let path = self.ranges(consistency_path(old, new))?;
        Ok(ConsistencyProof { old, new, path })
    }

    /// Collects the hashes that the checkpoint at `size` needs after its unit has gone. The caller stores them before
    /// it drops the unit.
    ///
    /// # Errors
    /// When the tree ends inside that unit, or the source fails.
    pub fn edge(&mut self, size: u64, unit: DropUnit) -> Result<Edge, ProverError<E>> {
        let nodes = edge_nodes(size, unit).map(|node| self.node(node));
        let hashes = nodes.collect::<Result<_, _>>()?;
        Ok(Edge { size, hashes })
    }

    /// Returns the hashes of a tile of any level.
    ///
    /// # Errors
    /// When the tree has no such tile, or the source fails.
    pub fn tile(&mut self, tile: Tile) -> Result<Vec<Hash>, ProverError<E>> {
        let level = 8 * u32::from(tile.level());
        let first = tile.index() * u64::from(WIDTH);
        let indices = first..first + u64::from(tile.width());
        self.check(level, indices.end - 1)?;
        match level {
            ..=SEGMENT_LEVEL => self.read(tile),
            _ => indices.map(|index| self.node(Node { level, index })).collect(),
        }
    }

    fn ranges(&mut self, path: Vec<Range<u64>>) -> Result<Vec<Hash>, ProverError<E>> {
        path.into_iter().map(|range| self.range(range)).collect()
    }

    /// Returns the root of a range that is a subtree of RFC 9162: it begins at a multiple of the smallest power of two
    /// that is not below its length.
    fn range(&mut self, range: Range<u64>) -> Result<Hash, ProverError<E>> {
        let mut begin = range.start;
        let mut hashes = Vec::new();
        while let Some(level) = (range.end - begin).checked_ilog2() {
            let index = begin >> level;
            hashes.push(self.node(Node { level, index })?);
            begin += 1 << level;
        }
        let root = hashes.into_iter().rev().reduce(|right, left| node_hash(&left, &right));
        Ok(root.unwrap_or(EMPTY_ROOT))
    }

    fn node(&mut self, node: Node) -> Result<Hash, ProverError<E>> {
        if let Some(hash) = self.known.get(&node) {
            return Ok(*hash);
        }
        let Node { level, index } = node;
        self.check(level, index)?;
        let hash = match level {
            0 | BUNDLE_LEVEL | SEGMENT_LEVEL => {
                let tile = Tile::holding((level / 8) as u8, index, self.size);
                let first = tile.index() * u64::from(WIDTH);
                let hashes = (first..).zip(self.read(tile)?);
                let nodes = hashes.map(|(index, hash)| (Node { level, index }, hash));
                self.known.extend(nodes);
                return self.known.get(&node).copied().ok_or(ProverError::Short(tile));
            }
            _ => {
                let mut child = |index| {
                    let level = level - 1;
                    self.node(Node { level, index })
                };
                node_hash(&child(2 * index)?, &child(2 * index + 1)?)
            }
        };
        self.known.insert(node, hash);
        Ok(hash)
    }

    /// Checks that the tree has this subtree.
    fn check(&self, level: u32, index: u64) -> Result<(), ProverError<E>> {
        let size = self.size;
        if index < size.checked_shr(level).unwrap_or(0) {
            return Ok(());
        }
        let entries = 1_u64.checked_shl(level).unwrap_or(u64::MAX);
        Err(ProverError::Beyond { size, entries })
    }

    fn read(&mut self, tile: Tile) -> Result<Vec<Hash>, ProverError<E>> {
        let mut hashes = (self.source)(tile).map_err(ProverError::Source)?;
        hashes.truncate(tile.width().into());
        if hashes.len() == usize::from(tile.width()) {
            Ok(hashes)
        } else {
            Err(ProverError::Short(tile))
        }
    }
}

impl ConsistencyProof {
    /// Returns the hashes of the subtrees behind the older tree, from left to right.
    #[must_use]
    pub fn behind(&self) -> Vec<Hash> {
        let ranges = consistency_path(self.old, self.new);
        let all = ranges.iter().zip(&self.path);
        let behind = all.filter(|(range, _)| range.start >= self.old);
        behind.map(|(_, hash)| *hash).collect()
    }
}

impl DropUnit {
    const fn level(self) -> u32 {
        match self {
            Self::Bundle => BUNDLE_LEVEL,
            Self::Segment => SEGMENT_LEVEL,
        }
    }
}

impl Edge {
    /// Returns the octets to store: the hashes one after the other.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.hashes.as_flattened().to_vec()
    }

    /// Reads the stored octets of the edge of the checkpoint at `size`.
    ///
    /// Returns `None` when no edge of that size has so many octets.
    #[must_use]
    pub fn from_bytes(size: u64, octets: &[u8]) -> Option<Self> {
        let (hashes, []) = octets.as_chunks() else {
            return None;
        };
        let mut units = [DropUnit::Bundle, DropUnit::Segment].into_iter();
        let is_whole = units.any(|unit| edge_nodes(size, unit).count() == hashes.len());
        let hashes = hashes.to_vec();
        is_whole.then_some(Self { size, hashes })
    }
}

/// Returns the nodes of an edge: the subtree with which a tree of `size` entries ends, and the sibling at each level
/// from there to the root of the unit. The siblings to the left belong to the tree, those to the right follow it.
fn edge_nodes(size: u64, unit: DropUnit) -> impl Iterator<Item = Node> {
    let end = size.trailing_zeros();
    let last = size.saturating_sub(1);
    let node = move |level, other| Node { level, index: (last >> level) ^ other };
    let siblings = (end..unit.level()).map(move |level| node(level, 1));
    let first = (end < unit.level()).then(|| node(end, 0));
    first.into_iter().chain(siblings)
}

/// Returns the ranges below the siblings of a leaf, from the leaf upwards (RFC 9162 section 2.1.3.1).
fn inclusion_path(index: u64, size: u64) -> Vec<Range<u64>> {
    let (mut tree, mut path) = (0..size, Vec::new());
    while tree.end - tree.start > 1 {
        let middle = middle(&tree);
        if index < middle {
            path.push(middle..tree.end);
            tree.end = middle;
        } else {
            path.push(tree.start..middle);
            tree.start = middle;
        }
    }
    path.reverse();
    path
}

/// Returns the ranges below the nodes of a consistency proof (RFC 9162 section 2.1.4.1).
fn consistency_path(old: u64, new: u64) -> Vec<Range<u64>> {
    let (mut tree, mut path) = (0..new, Vec::new());
    if old == 0 {
        return path;
    }
    while tree.end != old {
        let middle = middle(&tree);
        if old <= middle {
            path.push(middle..tree.end);
            tree.end = middle;
        } else {
            path.push(tree.start..middle);
            tree.start = middle;
        }
    }
    // The root of the whole older tree is known to the verifier.
    if tree.start > 0 {
        path.push(tree);
    }
    path.reverse();
    path
}

/// Returns the place at which RFC 9162 splits a range of at least two leaves: the left side has the largest power of two
/// that is smaller than the whole.
const fn middle(range: &Range<u64>) -> u64 {
    range.start + (1 << (range.end - range.start - 1).ilog2())
}

#[cfg(test)]
mod tests;
