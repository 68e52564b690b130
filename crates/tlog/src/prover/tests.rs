use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::tests::{leaves, prover};
use crate::{BUNDLE, MAX_SIZE, SEGMENT, Tree};

/// A log in memory, of which parts may be dropped: a tile that a dropped part would hold is an error.
struct Log {
    leaves: Vec<Hash>,
    bundles: Vec<Hash>,
    segments: Vec<Hash>,
    /// The first bundle with kept entries.
    first_bundle: u64,
    /// The first segment with kept bundle roots.
    first_segment: u64,
    asked: RefCell<Vec<Tile>>,
}

impl Log {
    fn new(size: u64) -> Self {
        let (mut tree, mut bundles, mut segments) = (Tree::new(), Vec::new(), Vec::new());
        let leaves = leaves(size);
        for full in leaves.iter().filter_map(|leaf| tree.push(*leaf)) {
            bundles.push(full.bundle);
            segments.extend(full.segment);
        }
        Self {
            leaves,
            bundles,
            segments,
            first_bundle: 0,
            first_segment: 0,
            asked: RefCell::default(),
        }
    }

    fn size(&self) -> u64 {
        self.leaves.len() as u64
    }

    fn root(&self, size: u64) -> Hash {
        Tree::root_of(&self.leaves[..size as usize])
    }

    /// Returns the prover of a size, which reads only kept parts.
    fn prover(&self, size: u64) -> Prover<impl FnMut(Tile) -> Result<Vec<Hash>, String>> {
        Prover::new(size, move |tile: Tile| {
            self.asked.borrow_mut().push(tile);
            let (hashes, first) = match tile.level() {
                0 => (&self.leaves, self.first_bundle),
                1 => (&self.bundles, self.first_segment),
                2 => (&self.segments, 0),
                _ => panic!("{tile}"),
            };
            if tile.index() < first {
                return Err(format!("{tile} was dropped"));
            }
            let begin = tile.index() as usize * 256;
            Ok(hashes[begin..begin + usize::from(tile.width())].to_vec())
        })
    }
}

#[test]
fn each_tile_is_asked_for_once() {
    let log = Log::new(SEGMENT + 3 * BUNDLE + 7);
    let mut prover = log.prover(log.size());
    let proof = prover.inclusion(2 * BUNDLE + 5).unwrap();
    assert_eq!(proof.path.len(), 17);
    let root = prover.root().unwrap();
    assert_eq!(root, log.root(log.size()));
    let leaf = log.leaves[2 * BUNDLE as usize + 5];
    assert_eq!(proof.verify(&leaf, &root), Ok(()));
    let mut asked: Vec<_> = log.asked.take().iter().map(Tile::to_string).collect();
    asked.sort();
    let want = ["tile/0/002", "tile/0/259.p/7", "tile/1/000", "tile/1/001.p/3", "tile/2/000.p/1"];
    assert_eq!(asked, want);
}

#[test]
fn every_range_of_a_proof_is_a_subtree_of_rfc_9162() {
    for size in 1..=130 {
        let is_subtree = |range: &Range<u64>| {
            let length = range.end - range.start;
            range.end <= size && range.start.is_multiple_of(length.next_power_of_two())
        };
        for other in 0..size {
            assert!(inclusion_path(other, size).iter().all(is_subtree));
            assert!(consistency_path(other, size).iter().all(is_subtree));
        }
    }
}

#[test]
fn dropped_ground_needs_the_edges_alone() {
    let size = 3 * SEGMENT + 2 * BUNDLE + 9;
    let mut log = Log::new(size);
    // Dropped below here, in two steps: entries up to the third segment's fourth bundle, bundle roots of two segments.
    let kept = 2 * SEGMENT + 4 * BUNDLE;
    #[rustfmt::skip] // one row, one group of sizes
    let sizes = [
        1, 2, 3, 255, 256, 257, 300, 511, 40_000, SEGMENT - 1, SEGMENT,
        SEGMENT + 1, SEGMENT + 12_345, 2 * SEGMENT - 256, 2 * SEGMENT,
        2 * SEGMENT + 1, 2 * SEGMENT + 3 * BUNDLE + 77, kept,
        kept + 1, kept + 12_345, 3 * SEGMENT, 3 * SEGMENT + 1, size - 1, size,
    ];
    let mut edges = BTreeMap::new();
    for size in sizes.into_iter().filter(|size| *size < kept) {
        let unit = match size {
            _ if size <= 2 * SEGMENT => DropUnit::Segment,
            _ => DropUnit::Bundle,
        };
        let edge = log.prover(log.size()).edge(size, unit).unwrap();
        assert!(edge.hashes.len() <= 17);
        let octets = edge.to_bytes();
        assert_eq!(Edge::from_bytes(size, &octets), Some(edge));
        edges.insert(size, octets);
    }
    log.first_bundle = kept / BUNDLE;
    log.first_segment = 2;

    let with_edges = |sizes: [u64; 2]| {
        let [new, _] = sizes;
        let edges = sizes.map(|size| Some((size, edges.get(&size)?)));
        let edges = edges.into_iter().flatten();
        edges.fold(log.prover(new), |prover, (size, octets)| {
            prover.with_edge(&Edge::from_bytes(size, octets).unwrap())
        })
    };
    let (mut tree, mut roots) = (Tree::new(), BTreeMap::new());
    for leaf in &log.leaves {
        tree.push(*leaf);
        if sizes.contains(&tree.size()) {
            roots.insert(tree.size(), tree.root());
        }
    }
    for new in sizes {
        let root = roots[&new];
        assert_eq!(with_edges([new, new]).root(), Ok(root), "{new}");
        for old in sizes.into_iter().filter(|old| *old <= new) {
            let proof = with_edges([new, old]).consistency(old);
            // Within a dropped part the edges do not reach each other.
            let is_promised = new >= kept || old / SEGMENT != new / SEGMENT;
            match proof {
                Ok(proof) => {
                    assert_eq!(proof.verify(&roots[&old], &root), Ok(()), "{old} to {new}");
                }
                Err(why) => assert!(!is_promised, "{old} to {new}: {why}"),
            }
        }
        for index in [kept, kept + 1, kept + 999, 3 * SEGMENT, size - 1] {
            if index < new {
                let proof = log.prover(new).inclusion(index).unwrap();
                assert_eq!(proof.verify(&log.leaves[index as usize], &root), Ok(()));
            }
        }
    }
    // The edges are needed.
    for old in [1, 300, SEGMENT + 12_345, 2 * SEGMENT + 1] {
        let proof = log.prover(size).consistency(old);
        assert!(matches!(proof, Err(ProverError::Source(_))), "{old}");
    }
}

#[test]
fn an_edge_waits_until_its_ground_is_full() {
    let log = Log::new(SEGMENT + 300);
    let edge = |size, unit| log.prover(log.size()).edge(size, unit).map(|edge| edge.hashes.len());
    assert_eq!(edge(1, DropUnit::Segment), Ok(17));
    assert_eq!(edge(1, DropUnit::Bundle), Ok(9));
    assert_eq!(edge(0, DropUnit::Segment), Ok(0));
    assert_eq!(edge(256, DropUnit::Bundle), Ok(0));
    assert_eq!(edge(256, DropUnit::Segment), Ok(9));
    assert_eq!(edge(SEGMENT, DropUnit::Segment), Ok(0));
    assert_eq!(edge(SEGMENT + 1, DropUnit::Bundle), Ok(9));
    let beyond = |entries| Err(ProverError::Beyond { size: SEGMENT + 300, entries });
    assert_eq!(edge(SEGMENT + 1, DropUnit::Segment), beyond(256));
    assert_eq!(edge(SEGMENT + 257, DropUnit::Bundle), beyond(32));
    assert_eq!(edge(u64::MAX, DropUnit::Segment), beyond(1));
}

#[test]
fn octets_that_are_no_edge_are_refused() {
    for (size, octets) in
        [(1, 0), (1, 32), (1, 31), (1, 16 * 32), (1, 18 * 32), (256, 2 * 32), (0, 32)]
    {
        assert_eq!(Edge::from_bytes(size, &vec![0; octets]), None, "{size}, {octets}");
    }
}

/// Returns the roots of perfect trees in which all leaves are equal, by level.
fn uniform() -> Vec<Hash> {
    let next = |hash: &Hash| Some(node_hash(hash, hash));
    std::iter::successors(Some([7; 32]), next).take(64).collect()
}

/// Returns a prover of a tree in which all leaves are equal.
fn uniform_prover(
    size: u64,
    roots: &[Hash],
) -> Prover<impl FnMut(Tile) -> Result<Vec<Hash>, Infallible>> {
    Prover::new(size, move |tile: Tile| {
        let hash = roots[8 * usize::from(tile.level())];
        Ok(vec![hash; tile.width().into()])
    })
}

#[test]
fn proofs_of_a_tree_of_millions_hold() {
    let roots = uniform();
    let root = |size: u64| {
        let set = (0..63).filter(|level| size >> level & 1 == 1);
        let peaks = set.map(|level| roots[level]);
        peaks.reduce(|right, left| node_hash(&left, &right)).unwrap()
    };
    let sizes = [1 << 24, (1 << 24) + 1, 100_000_000, (1 << 28) - 1, 300_000_007];
    for new in sizes {
        let mut prover = uniform_prover(new, &roots);
        assert_eq!(prover.root(), Ok(root(new)), "{new}");
        for index in [0, 65_535, 65_536, new / 2, new - 1] {
            let proof = prover.inclusion(index).unwrap();
            assert_eq!(proof.verify(&roots[0], &root(new)), Ok(()), "{index} in {new}");
        }
        for old in [1, 65_535, 1 << 20, new / 3, new - 1] {
            let proof = prover.consistency(old).unwrap();
            assert_eq!(proof.verify(&root(old), &root(new)), Ok(()), "{old} to {new}");
        }
        for tile in Tile::all(new).filter(|tile| tile.level() >= 2) {
            let level = 8 * usize::from(tile.level());
            assert_eq!(prover.tile(tile), Ok(vec![roots[level]; tile.width().into()]), "{tile}");
        }
    }
}

#[test]
fn tiles_of_all_levels_are_those_of_the_tree() {
    let log = Log::new(SEGMENT + BUNDLE + 3);
    let mut prover = log.prover(log.size());
    let mut level_1 = Vec::new();
    for tile in Tile::all(log.size()) {
        let hashes = prover.tile(tile).unwrap();
        assert_eq!(hashes.len(), usize::from(tile.width()));
        match tile.level() {
            0 if tile.width() == 256 => level_1.push(Tree::root_of(&hashes)),
            0 => assert_eq!(hashes, log.leaves[log.leaves.len() - 3..]),
            1 => assert_eq!(hashes, level_1.drain(..hashes.len()).collect::<Vec<_>>()),
            _ => assert_eq!(hashes, [log.root(SEGMENT)]),
        }
    }
    assert_eq!(level_1, [[0; 32]; 0]);
    let beyond = Tile::all(2 * SEGMENT).last().unwrap();
    let size = log.size();
    let entries = SEGMENT;
    assert_eq!(prover.tile(beyond), Err(ProverError::Beyond { size, entries }));
}

#[test]
fn a_question_that_the_tree_cannot_answer_is_an_error() {
    let leaves = leaves(5);
    let mut prover = prover(&leaves);
    let out = ProofError::OutOfTree { index: 5, size: 5 };
    assert_eq!(prover.inclusion(5), Err(ProverError::Sizes(out)));
    let shrunk = ProofError::Shrunk { old: 6, new: 5 };
    assert_eq!(prover.consistency(6), Err(ProverError::Sizes(shrunk)));
    assert!(prover.consistency(MAX_SIZE).is_err());

    let none = |_: Tile| Ok::<_, Infallible>(vec![[0; 32]; 4]);
    let tile = Tile::all(5).next().unwrap();
    assert_eq!(Prover::new(5, none).inclusion(0), Err(ProverError::Short(tile)));
    assert_eq!(Prover::new(0, none).root(), Ok(EMPTY_ROOT));
    let failing = |_: Tile| Err::<Vec<Hash>, _>("the disk is gone");
    let failed = Prover::new(5, failing).root().unwrap_err();
    assert_eq!(failed.to_string(), "the disk is gone");
}
