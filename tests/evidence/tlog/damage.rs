//! One flipped bit of anything that leaves the log is found, or changes nothing.

use crawlgate_tlog::{
    Checkpoint, ConsistencyProof, EntryProof, InclusionProof, Note, Resource, Tile, Tree,
    VerifierKey, leaf_hash, push_entry,
};
use proptest::prelude::*;

use super::log::{Log, TIME};

/// Returns each text that differs in one bit.
fn flips(octets: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    (0..8 * octets.len()).map(|bit| (bit, flipped(octets, bit)))
}

fn flipped(octets: &[u8], bit: usize) -> Vec<u8> {
    let mut octets = octets.to_vec();
    octets[bit / 8] ^= 1 << (bit % 8);
    octets
}

#[test]
fn every_bit_of_a_cosigned_proof_counts() {
    let log = Log::new(300);
    let keys = log.keys();
    let proof = EntryProof::new(log.prover(300).inclusion(77).unwrap(), log.checkpoint(300));
    let text = proof.to_string();
    let (checkpoint, verified) = proof.verify(&log.leaves[77], &keys).unwrap();
    assert_eq!((verified.len(), verified[1].time), (2, Some(TIME)));
    let (mut refused, mut unknown_witness) = (0, 0);
    for (bit, damaged) in flips(text.as_bytes()) {
        let Ok(read) = EntryProof::parse(&damaged) else {
            refused += 1;
            continue;
        };
        match read.verify(&log.leaves[77], &keys) {
            Err(_) => refused += 1,
            Ok(found) => {
                // The name or id of the witness has become that of an unknown key, which a verifier must ignore.
                assert_eq!((found.0, found.1.len()), (checkpoint.clone(), 1), "bit {bit}");
                assert_eq!((read.index, &read.path), (77, &proof.path), "bit {bit}");
                unknown_witness += 1;
            }
        }
    }
    assert_eq!(refused + unknown_witness, 8 * text.len());
    // Its name of 18 octets and id of 5 1/3 characters.
    assert!(unknown_witness < 8 * 25, "{unknown_witness}");
}

#[test]
fn every_bit_of_a_checkpoint_counts() {
    let log = Log::new(5);
    let note = log.signer().checkpoint(5, log.root(5));
    let keys = log.keys();
    assert!(Checkpoint::open(&note, &keys).is_ok());
    for (bit, damaged) in flips(note.to_string().as_bytes()) {
        let opened = Note::parse(&damaged).map(|note| Checkpoint::open(&note, &keys).is_ok());
        assert_ne!(opened, Ok(true), "bit {bit}");
    }
}

#[test]
fn every_bit_of_a_key_counts() {
    let log = Log::new(1);
    for key in log.keys() {
        let vkey = key.to_string();
        for (bit, damaged) in flips(vkey.as_bytes()) {
            let read = str::from_utf8(&damaged).map(|text| text.parse::<VerifierKey>().is_ok());
            assert_ne!(read, Ok(true), "bit {bit}");
        }
    }
}

#[test]
fn every_bit_of_a_tile_and_of_a_bundle_counts() {
    let log = Log::new(20);
    let tile = Tile::all(20).next().unwrap();
    let content = log.prover(20).tile(tile).unwrap().as_flattened().to_vec();
    for (bit, damaged) in flips(&content) {
        let root = Tree::root_of(&tile.hashes(&damaged).unwrap());
        assert_ne!(root, log.root(20), "bit {bit}");
    }
    let mut bundle = Vec::new();
    for entry in &log.entries {
        push_entry(&mut bundle, entry).unwrap();
    }
    for (bit, damaged) in flips(&bundle) {
        if let Ok(entries) = tile.entries(&damaged) {
            let leaves: Vec<_> = entries.into_iter().map(leaf_hash).collect();
            assert_ne!(leaves, log.leaves, "bit {bit}");
        }
    }
}

#[test]
fn every_bit_of_a_path_leads_elsewhere() {
    for path in ["tile/0/x001/x234/067.p/8", "tile/entries/000", "tile/12/999"] {
        let resource = Resource::parse(path).unwrap();
        for (bit, damaged) in flips(path.as_bytes()) {
            let found = str::from_utf8(&damaged).ok().and_then(Resource::parse);
            assert_ne!(found, Some(resource), "bit {bit} of {path}");
        }
    }
}

proptest! {
    #[test]
    fn a_bit_of_a_proof_of_any_size_counts(
        size in 2_usize..600,
        index in any::<prop::sample::Index>(),
        bit in any::<prop::sample::Index>(),
    ) {
        let log = Log::new(size);
        let root = log.root(size);
        let index = index.index(size);
        let right = log.prover(size).inclusion(index as u64).unwrap();
        prop_assert_eq!(right.verify(&log.leaves[index], &root), Ok(()));
        let octets = right.path.as_flattened();
        let damaged = flipped(octets, bit.index(8 * octets.len()));
        let path = damaged.as_chunks().0.to_vec();
        let damaged = InclusionProof { path, ..right.clone() };
        prop_assert!(damaged.verify(&log.leaves[index], &root).is_err());
        for bit in 0..64 {
            let moved = InclusionProof {
                index: right.index ^ (1 << bit),
                ..right.clone()
            };
            prop_assert!(moved.verify(&log.leaves[index], &root).is_err());
        }

        let old = 1 + index % (size - 1);
        let right = log.prover(size).consistency(old as u64).unwrap();
        prop_assert_eq!(right.verify(&log.root(old), &root), Ok(()));
        let octets = right.path.as_flattened();
        let damaged = flipped(octets, bit.index(8 * octets.len()));
        let path = damaged.as_chunks().0.to_vec();
        let damaged = ConsistencyProof { path, ..right };
        prop_assert!(damaged.verify(&log.root(old), &root).is_err());
    }
}
