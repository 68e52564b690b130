//! The chain of records, and its seals.

use super::Sha256;
use crate::clock::Moment;

/// The head of the chain at some time, signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// The record it is the link of; everything up to it is sealed.
    pub seq: u64,
    /// That link.
    pub hash: Sha256,
    /// When.
    pub time: Moment,
    /// What was dropped before it: the first record that is still there, and the link before that, as they were when
    /// this was sealed.
    pub start: (u64, Sha256),
    /// Ed25519 (RFC 8032) over all of that.
    pub signature: [u8; 64],
    /// The public key.
    pub key: [u8; 32],
}

/// The key that seals, kept outside the store.
#[derive(Debug)]
pub struct SealingKey;
