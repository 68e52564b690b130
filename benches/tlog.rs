//! The cost of the transparency log: `cargo bench --bench tlog`.
//!
//! - `leaf`: the hash of one entry.
//! - `inner_nodes`: a leaf hash appended to the tree, with its share of the nodes above.
//! - `proof`: the inclusion of one entry among a million, from stored roots and two recomputed bundles.
//! - `checkpoint`: the signature of a checkpoint.
//! - `verify`: a text read and checked by a stranger, with the signature of the log.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a benchmark that cannot be set up ends loudly"
)]

use std::convert::Infallible;

use aws_lc_rs::signature::Ed25519KeyPair;
use crawlgate_tlog::{EntryProof, Hash, InclusionProof, Prover, Signer, Tile, Tree, leaf_hash};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};

/// The octets of a usual entry, and of entries that do not fit the fast path.
const ENTRIES: [usize; 3] = [342, 1_023, 16_384];

/// Entries of the log.
const SIZE: usize = 1_000_000;

fn main() {
    divan::main();
}

#[divan::bench(args = ENTRIES)]
fn leaf(bencher: Bencher<'_, '_>, octets: usize) {
    let entry = vec![7; octets];
    bencher.bench(|| leaf_hash(black_box(&entry)));
}

/// One iteration appends a bundle: short enough to run between two turns of another process.
#[divan::bench]
fn inner_nodes(bencher: Bencher<'_, '_>) {
    let count = 256_u32;
    bencher.counter(ItemsCount::new(count)).bench(|| {
        let mut tree = Tree::new();
        for n in 0..count {
            black_box(tree.push([n as u8; 32]));
        }
        tree.root()
    });
}

#[divan::bench]
fn proof(bencher: Bencher<'_, '_>) {
    let log = Log::new();
    bencher.bench(|| log.prove(black_box(654_321)));
}

#[divan::bench]
fn checkpoint(bencher: Bencher<'_, '_>) {
    let pair = Ed25519KeyPair::generate().unwrap();
    let signer = Signer::new("log".parse().unwrap(), &pair);
    bencher.bench(|| signer.checkpoint(black_box(1_000_000), [7; 32]));
}

#[divan::bench]
fn verify(bencher: Bencher<'_, '_>) {
    let log = Log::new();
    let pair = Ed25519KeyPair::generate().unwrap();
    let signer = Signer::new("log".parse().unwrap(), &pair);
    let keys = [signer.key().clone()];
    let note = signer.checkpoint(SIZE as u64, log.root);
    let text = EntryProof::new(log.prove(654_321), note).to_string();
    let leaf = leaf_hash(&entry(654_321));
    bencher.bench(|| {
        let proof = EntryProof::parse(black_box(text.as_bytes())).unwrap();
        proof.verify(&leaf, &keys).is_ok()
    });
}

/// The roots that a store keeps.
struct Log {
    bundles: Vec<Hash>,
    segments: Vec<Hash>,
    root: Hash,
}

impl Log {
    fn new() -> Self {
        let (mut tree, mut bundles, mut segments) = (Tree::new(), Vec::new(), Vec::new());
        for full in (0..SIZE).filter_map(|n| tree.push(leaf_hash(&entry(n)))) {
            bundles.push(full.bundle);
            segments.extend(full.segment);
        }
        let root = tree.root();
        Self { bundles, segments, root }
    }

    fn prove(&self, index: u64) -> InclusionProof {
        let source = |tile: Tile| {
            let begin = tile.index() as usize * 256;
            let range = begin..begin + usize::from(tile.width());
            Ok::<_, Infallible>(match tile.level() {
                0 => range.map(|n| leaf_hash(&entry(n))).collect(),
                1 => self.bundles[range].to_vec(),
                _ => self.segments[range].to_vec(),
            })
        };
        Prover::new(SIZE as u64, source).inclusion(index).unwrap()
    }
}

/// Returns an entry of usual length.
fn entry(n: usize) -> [u8; 342] {
    [n as u8; 342]
}
