//! Entries for the tests of all crates: at random, and frozen ones.

// A failed unwrap or index is a failed test.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc
)]

pub mod dice;
pub mod golden;

/// Numbers that look random and follow from the first (SplitMix64).
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns the next number.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would be an Option at each use"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the next number, below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
