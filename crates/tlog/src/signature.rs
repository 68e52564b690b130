//! Signatures of a text: how a key makes one, and the line of a note that carries it.
//!
//! An Ed25519 key signs only the text (c2sp.org/signed-note@v1.0.0). A witness cosigns a checkpoint with a time
//! (c2sp.org/tlog-cosignature@v1.0.1). The secret key is an argument of [`Signer`]: this room neither loads nor keeps it.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use super::key::{KeyKind, KeyName, VerifierKey};

/// The latest time of a cosignature, in seconds.
const MAX_TIME: u64 = i64::MAX as u64;

/// A secret key with the name under which it signs.
pub struct Signer<'k> {
    pair: &'k Ed25519KeyPair,
    key: VerifierKey,
}

/// A signature line. `Display` writes it, without the line feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    name: KeyName,
    id: u32,
    octets: Vec<u8>,
}

/// A signature that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified<'k> {
    /// The key that signed.
    pub key: &'k VerifierKey,
    /// The time that a cosignature states, in seconds since 1970 (POSIX). It is the witness's own.
    pub time: Option<u64>,
}

/// A line that is no signature of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the signature line is malformed")]
pub struct MalformedLine;

impl<'k> Signer<'k> {
    /// Returns the signer of a log: an Ed25519 key under the name of the log.
    #[must_use]
    pub fn new(name: KeyName, pair: &'k Ed25519KeyPair) -> Self {
        let mut public = [0; 32];
        public.copy_from_slice(pair.public_key().as_ref());
        let key = VerifierKey::new(name, KeyKind::Ed25519, public);
        Self { pair, key }
    }

    /// Returns the public half.
    #[must_use]
    pub const fn key(&self) -> &VerifierKey {
        &self.key
    }

    /// Signs the text of a note.
    #[must_use]
    pub fn sign(&self, text: &str) -> Signature {
        let octets = self.pair.sign(text.as_bytes()).as_ref().to_vec();
        Signature::new(self.key.name().clone(), self.key.id(), octets)
    }
}

/// Returns the octets that a witness signs.
fn cosigned(seconds: u64, text: &str) -> String {
    format!("cosignature/v1\ntime {seconds}\n{text}")
}

impl fmt::Debug for Signer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Signature {
    /// Returns the signature of a key with this name and id; the octets are those of its kind.
    #[must_use]
    pub const fn new(name: KeyName, id: u32, octets: Vec<u8>) -> Self {
        Self { name, id, octets }
    }

    /// Returns the name of the key that the line names.
    #[must_use]
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// Tells whether the line names this key. Only the signature itself shows that the key has signed.
    #[must_use]
    pub fn is_named_after(&self, key: &VerifierKey) -> bool {
        self.name == *key.name() && self.id == key.id()
    }

    /// Tells whether both lines name the same key.
    #[must_use]
    pub fn is_of_same_key(&self, other: &Self) -> bool {
        self.name == other.name && self.id == other.id
    }

    /// Returns the time at which a witness has cosigned the text of a note, or `None` if this is no such signature.
    #[must_use]
    pub fn time_over(&self, text: &str, witness: &VerifierKey) -> Option<u64> {
        self.check(text, witness)?.time
    }

    /// Returns the statement that the key has signed over the text of a note, or `None` if it has not.
    pub(super) fn check<'k>(&self, text: &str, key: &'k VerifierKey) -> Option<Verified<'k>> {
        match key.kind() {
            KeyKind::Ed25519 => {
                key.is_signed(text.as_bytes(), &self.octets).then_some(Verified { key, time: None })
            }
            KeyKind::CosignatureV1 => {
                let (time, signature) = self.octets.split_first_chunk()?;
                let time = u64::from_be_bytes(*time);
                let message = cosigned(time, text);
                let holds = time <= MAX_TIME && key.is_signed(message.as_bytes(), signature);
                let time = Some(time);
                holds.then_some(Verified { key, time })
            }
        }
    }
}

impl FromStr for Signature {
    type Err = MalformedLine;

    /// Reads one line, without its line feed.
    fn from_str(line: &str) -> Result<Self, MalformedLine> {
        let read = || {
            let (name, octets) = line.strip_prefix("— ")?.split_once(' ')?;
            let octets = STANDARD.decode(octets).ok()?;
            let (id, octets) = octets.split_first_chunk()?;
            let is_whole = !octets.is_empty();
            is_whole.then_some(Self {
                name: name.parse().ok()?,
                id: u32::from_be_bytes(*id),
                octets: octets.to_vec(),
            })
        };
        read().ok_or(MalformedLine)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let octets = [&self.id.to_be_bytes(), &self.octets[..]].concat();
        write!(f, "— {} {}", self.name, STANDARD.encode(octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{cosign, pair, signer};
    use crate::{Note, NoteError};

    #[test]
    fn a_signer_shows_no_secret() {
        let pair = pair(1);
        let shown = format!("{:?}", signer("log", &pair));
        assert!(shown.ends_with(", .. }") && !shown.contains("pair"), "{shown}");
    }

    #[test]
    fn one_false_signature_of_a_known_key_spoils_the_note() {
        let pair = pair(1);
        let log = signer("log", &pair);
        let note = Note::sign("text\n".to_owned(), &log).unwrap();
        let log = log.key();
        let text = note.text();
        let (witness, right) = cosign(text, "witness", 3, 7);
        let named =
            |octets: &[u8]| Signature::new(witness.name().clone(), witness.id(), octets.to_vec());
        let mut later = right.octets.clone();
        later[7] += 1;
        let (_, beyond) = cosign(text, "witness", 3, MAX_TIME + 1);
        let (_, of_another) = cosign(text, "witness", 4, 7);
        let plain = signer("witness", &pair).sign(text);
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("another time", named(&later)),
            ("a time beyond 63 bits", beyond),
            ("the signature of another key", named(&of_another.octets)),
            ("a signature of the text alone", named(&plain.octets)),
            ("seven octets", named(&right.octets[..7])),
            ("a time alone", named(&right.octets[..8])),
            ("a cut signature", named(&right.octets[..71])),
            ("an octet more", named(&[&right.octets[..], &[0]].concat())),
        ];
        let keys = [log.clone(), witness.clone()];
        for (name, signature) in rows {
            let mut note = note.clone();
            note.push(signature).unwrap();
            let why = NoteError::Invalid(witness.name().clone());
            assert_eq!(note.verify(&keys), Err(why), "{name}");
            assert_eq!(note.verify(&keys[..1]).map(|all| all.len()), Ok(1), "{name}");
        }
    }
}
