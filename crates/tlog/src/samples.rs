//! Keys and signatures for the tests of all crates.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use aws_lc_rs::signature::Ed25519KeyPair;

use super::{KeyKind, Signature, Signer, VerifierKey};

/// Returns a secret key that is the same at each call.
pub fn pair(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

/// Returns a signer with a name.
pub fn signer<'k>(name: &str, pair: &'k Ed25519KeyPair) -> Signer<'k> {
    Signer::new(name.parse().unwrap(), pair)
}

/// Cosigns a text at a time as a witness, and returns the key of the witness.
pub fn cosign(text: &str, name: &str, seed: u8, time: u64) -> (VerifierKey, Signature) {
    let pair = pair(seed);
    let public = *signer(name, &pair).key().public();
    let key = VerifierKey::new(name.parse().unwrap(), KeyKind::CosignatureV1, public);
    let message = format!("cosignature/v1\ntime {time}\n{text}");
    let octets = [&time.to_be_bytes(), pair.sign(message.as_bytes()).as_ref()].concat();
    let signature = Signature::new(key.name().clone(), key.id(), octets);
    (key, signature)
}
