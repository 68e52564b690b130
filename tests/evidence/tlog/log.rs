//! A log in memory, with the hashes that a store keeps.

use std::convert::Infallible;

use aws_lc_rs::signature::Ed25519KeyPair;
use crawlgate_tlog::{
    Hash, KeyKind, Note, Prover, Signature, Signer, Tile, Tree, VerifierKey, leaf_hash,
};

pub(crate) const NAME: &str = "logs.example.org/crawlgate/test-1";
pub(crate) const WITNESS: &str = "witness.example/w1";

/// The time of each cosignature.
pub(crate) const TIME: u64 = 1_785_000_000;

pub(crate) struct Log {
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) leaves: Vec<Hash>,
    bundles: Vec<Hash>,
    segments: Vec<Hash>,
    pub(crate) pair: Ed25519KeyPair,
    witness: Ed25519KeyPair,
}

impl Log {
    /// Makes a log of entries from 0 to 400 octets.
    pub(crate) fn new(size: usize) -> Self {
        let entry = |n: usize| vec![(n % 251) as u8; n * 7 % 401];
        Self::of((0..size).map(entry).collect())
    }

    /// Makes a log of these entries.
    pub(crate) fn of(entries: Vec<Vec<u8>>) -> Self {
        let leaves: Vec<_> = entries.iter().map(|entry| leaf_hash(entry)).collect();
        let (mut tree, mut bundles, mut segments) = (Tree::new(), Vec::new(), Vec::new());
        for full in leaves.iter().filter_map(|leaf| tree.push(*leaf)) {
            bundles.push(full.bundle);
            segments.extend(full.segment);
        }
        Self {
            entries,
            leaves,
            bundles,
            segments,
            pair: Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap(),
            witness: Ed25519KeyPair::from_seed_unchecked(&[2; 32]).unwrap(),
        }
    }

    pub(crate) fn root(&self, size: usize) -> Hash {
        Tree::root_of(&self.leaves[..size])
    }

    pub(crate) fn prover(
        &self,
        size: usize,
    ) -> Prover<impl FnMut(Tile) -> Result<Vec<Hash>, Infallible>> {
        Prover::new(size as u64, |tile: Tile| {
            let hashes = match tile.level() {
                0 => &self.leaves,
                1 => &self.bundles,
                _ => &self.segments,
            };
            let begin = tile.index() as usize * 256;
            Ok(hashes[begin..begin + usize::from(tile.width())].to_vec())
        })
    }

    pub(crate) fn signer(&self) -> Signer<'_> {
        Signer::new(NAME.parse().unwrap(), &self.pair)
    }

    /// Returns the checkpoint of a size, with a cosignature.
    pub(crate) fn checkpoint(&self, size: usize) -> Note {
        self.cosigned(self.signer().checkpoint(size as u64, self.root(size)))
    }

    /// Returns a checkpoint with the cosignature of the witness.
    pub(crate) fn cosigned(&self, mut note: Note) -> Note {
        let message = format!("cosignature/v1\ntime {TIME}\n{}", note.text());
        let signature = self.witness.sign(message.as_bytes());
        let octets = [&TIME.to_be_bytes(), signature.as_ref()].concat();
        let key = self.witness();
        note.push(Signature::new(key.name().clone(), key.id(), octets)).unwrap();
        note
    }

    /// Returns the key of the witness.
    pub(crate) fn witness(&self) -> VerifierKey {
        let name = WITNESS.parse().unwrap();
        let public = *Signer::new(NAME.parse().unwrap(), &self.witness).key().public();
        VerifierKey::new(name, KeyKind::CosignatureV1, public)
    }

    /// Returns the keys of the log and of the witness.
    pub(crate) fn keys(&self) -> [VerifierKey; 2] {
        [self.signer().key().clone(), self.witness()]
    }
}
