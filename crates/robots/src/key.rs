//! Keyed hashing, so that no author can write a file in which all patterns hash alike.

use std::hash::{BuildHasher, RandomState};

/// The hash key of one set of rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key(u64, u64);

impl Key {
    /// Returns a random key, which no author of a file can know.
    pub(super) fn new() -> Self {
        let random = RandomState::new();
        let key = random.hash_one(0_u8);
        // Odd: a multiplication by an odd number loses nothing.
        Self(key, key.rotate_left(32) | 1)
    }

    /// Returns the hash of `octets`: multiplies in eight at a time and keeps both halves of the product.
    pub(super) fn hash(self, octets: &[u8]) -> u32 {
        let mut hash = self.0 ^ octets.len() as u64;
        let (words, _) = octets.as_chunks::<8>();
        for word in words {
            hash = fold(hash ^ u64::from_le_bytes(*word), self.1);
        }
        // The last eight octets a second time, or all octets of a shorter text.
        let last = match octets.last_chunk::<8>() {
            Some(last) => u64::from_le_bytes(*last),
            None => short(octets),
        };
        (fold(hash ^ last, self.1) >> 32) as u32
    }

    /// Returns the hash of a number that holds three octets.
    pub(super) fn hash_word(self, word: u32) -> u32 {
        (u64::from(word).wrapping_mul(self.1) >> 32) as u32
    }
}

/// Returns fewer than eight octets as a number.
fn short(octets: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (octets.first_chunk::<4>(), octets.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    octets.iter().fold(0, |word, octet| word << 8 | u64::from(*octet))
}

fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}
