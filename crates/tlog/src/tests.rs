//! The published vectors of RFC 6962 trees, as the tests of Certificate Transparency have them.

use std::convert::Infallible;

pub(crate) use super::samples::{cosign, pair, signer};
use super::{Hash, Prover, Tile, Tree, leaf_hash};

/// The entries.
pub(super) const ENTRIES: [&[u8]; 8] = [
    b"",
    b"\x00",
    b"\x10",
    b"\x20\x21",
    b"\x30\x31",
    b"\x40\x41\x42\x43",
    b"\x50\x51\x52\x53\x54\x55\x56\x57",
    b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
];

/// The roots of the trees with the first entry, the first two, and so on.
pub(super) const ROOTS: [&str; 8] = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

/// Returns the lower-case hexadecimal digits of octets.
pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Returns the leaf hashes of some entries.
pub(super) fn leaves(count: u64) -> Vec<Hash> {
    let entries = (0..count).map(u64::to_be_bytes);
    entries.map(|entry| leaf_hash(&entry)).collect()
}

/// Returns a prover that has all leaves in memory.
pub(super) fn prover(leaves: &[Hash]) -> Prover<impl FnMut(Tile) -> Result<Vec<Hash>, Infallible>> {
    Prover::new(leaves.len() as u64, move |tile: Tile| {
        let below = 256_usize.pow(tile.level().into());
        let roots = leaves.chunks_exact(below).map(Tree::root_of);
        Ok(roots.skip(tile.index() as usize * 256).take(tile.width().into()).collect())
    })
}

#[test]
fn the_published_proofs_are_made_and_hold() {
    let leaves = ENTRIES.map(leaf_hash);
    let root = |size: usize| Tree::root_of(&leaves[..size]);
    #[rustfmt::skip] // one row, one case
    let inclusion: [(u64, usize, &[&str]); 5] = [
        (0, 1, &[]),
        (0, 8, &[
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ]),
        (5, 8, &[
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ]),
        (2, 3, &["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
        (1, 5, &[
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ]),
    ];
    for (index, size, path) in inclusion {
        let proof = prover(&leaves[..size]).inclusion(index).unwrap();
        let found: Vec<_> = proof.path.iter().map(|hash| hex(hash)).collect();
        assert_eq!(found, path, "{index} in {size}");
        assert_eq!(proof.verify(&leaves[index as usize], &root(size)), Ok(()));
    }
    #[rustfmt::skip] // one row, one case
    let consistency: [(usize, usize, &[&str]); 4] = [
        (1, 1, &[]),
        (1, 8, &[
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ]),
        (6, 8, &[
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ]),
        (2, 5, &[
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ]),
    ];
    for (old, new, path) in consistency {
        let proof = prover(&leaves[..new]).consistency(old as u64).unwrap();
        let found: Vec<_> = proof.path.iter().map(|hash| hex(hash)).collect();
        assert_eq!(found, path, "{old} to {new}");
        assert_eq!(proof.verify(&root(old), &root(new)), Ok(()));
    }
}
