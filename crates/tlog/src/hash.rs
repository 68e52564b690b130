//! The two hashes of the tree, and the base64 text of a hash.
//!
//! RFC 6962 section 2.1, repeated in RFC 9162 section 2.1.1: a leaf is SHA-256 over 0x00 and the entry, an inner node is
//! SHA-256 over 0x01 and its two children. The different first octets keep an entry from passing as a node.

use aws_lc_rs::digest::{Context, SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The hash of a leaf, of an inner node, or of a whole tree.
pub type Hash = [u8; 32];

/// The root of a tree without entries: SHA-256 over nothing.
pub const EMPTY_ROOT: Hash = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// Octets of an entry that [`leaf_hash`] copies behind the 0x00. A digest in one call is faster than one in two parts.
const SHORT: usize = 1023;

/// Returns the leaf hash of an entry.
#[must_use]
pub fn leaf_hash(entry: &[u8]) -> Hash {
    let mut leaf = [0; 1 + SHORT];
    if let Some(leaf) = leaf.get_mut(..=entry.len())
        && let Some((_, copy)) = leaf.split_first_mut()
    {
        copy.copy_from_slice(entry);
        return sha256(leaf);
    }
    let mut context = Context::new(&SHA256);
    context.update(&[0]);
    context.update(entry);
    array(context.finish().as_ref())
}

/// Returns the hash of the inner node above two nodes.
#[must_use]
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let mut node = [1; 65];
    node[1..33].copy_from_slice(left);
    node[33..].copy_from_slice(right);
    sha256(&node)
}

/// Returns a hash as standard base64 with padding, 44 characters.
#[must_use]
pub fn hash_text(hash: &Hash) -> String {
    STANDARD.encode(hash)
}

/// Returns the hash that a text encodes, or `None` unless [`hash_text`] writes exactly that text.
#[must_use]
pub fn hash_from_text(text: &str) -> Option<Hash> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

pub(super) fn sha256(octets: &[u8]) -> Hash {
    array(digest(&SHA256, octets).as_ref())
}

fn array(digest: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_any_length_has_the_hash_of_rfc_6962() {
        for length in [0, 1, 342, 1022, 1023, 1024, 1025, 65_535] {
            let entry: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let framed = [&[0], &entry[..]].concat();
            assert_eq!(leaf_hash(&entry), sha256(&framed), "{length}");
        }
    }

    #[test]
    fn the_empty_tree_has_the_hash_of_nothing() {
        assert_eq!(sha256(b""), EMPTY_ROOT);
    }

    #[test]
    fn the_text_of_a_hash_is_read_strictly() {
        let text = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";
        assert_eq!(hash_text(&EMPTY_ROOT), text);
        assert_eq!(hash_from_text(text), Some(EMPTY_ROOT));
        #[rustfmt::skip] // one row, one case
        let wrong = [
            ("without padding", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"),
            ("bits behind the last octet", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFV="),
            ("the alphabet for URLs", "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="),
            ("a space", " 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
            ("31 octets", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuA=="),
            ("33 octets", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFUA"),
            ("nothing", ""),
        ];
        for (name, text) in wrong {
            assert_eq!(hash_from_text(text), None, "{name}");
        }
    }
}
