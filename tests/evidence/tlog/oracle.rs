//! Every size from 0 to 600 and every pair of them, beside the crate `ct-merkle`.

use crawlgate_tlog::{EMPTY_ROOT, Hash, Tree};
use ct_merkle::mem_backed_tree::MemoryBackedTree;
use sha2::Sha256;

use super::log::Log;

const SIZES: usize = 600;

#[test]
fn roots_and_proofs_of_all_sizes_are_those_of_ct_merkle() {
    let log = Log::new(SIZES);
    let mut tree = Tree::new();
    let mut roots = vec![EMPTY_ROOT];
    let mut oracle = MemoryBackedTree::<Sha256, Vec<u8>>::new();
    assert_eq!(oracle.root().as_bytes()[..], EMPTY_ROOT);
    for size in 1..=SIZES {
        tree.push(log.leaves[size - 1]);
        oracle.push(log.entries[size - 1].clone());
        let root = tree.root();
        assert_eq!(oracle.root().as_bytes()[..], root, "{size}");

        let mut prover = log.prover(size);
        assert_eq!(prover.root(), Ok(root), "{size}");
        for (other, old) in roots.iter().enumerate() {
            let proof = prover.inclusion(other as u64).unwrap();
            let wanted = oracle.prove_inclusion(other);
            assert_eq!(octets(&proof.path), wanted.as_bytes(), "{other} in {size}");
            let found = proof.verify(&log.leaves[other], &root);
            assert_eq!(found, Ok(()), "{other} in {size}");

            let proof = prover.consistency(other as u64).unwrap();
            let found = proof.verify(old, &root);
            assert_eq!(found, Ok(()), "{other} to {size}");
            // The oracle has no proof from the empty tree.
            if other > 0 {
                let wanted = oracle.prove_consistency(size - other);
                assert_eq!(octets(&proof.path), wanted.as_bytes(), "{other} to {size}");
            }
        }
        let same = prover.consistency(size as u64).unwrap();
        assert_eq!((same.path.len(), same.verify(&root, &root)), (0, Ok(())));
        roots.push(root);
    }
}

fn octets(path: &[Hash]) -> &[u8] {
    path.as_flattened()
}
