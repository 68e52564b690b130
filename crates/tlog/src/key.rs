//! Names and keys of logs and witnesses (c2sp.org/signed-note@v1.0.0, "Verifier keys").
//!
//! A log has a name and an Ed25519 key; a verifier gets both as one text, the vkey: `name+id+base64`.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use super::hash::sha256;

/// The name of a key: at least one character, no white space, no plus sign, no control character.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyName(String);

/// The kind of a verifier key. The octet is its signature type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// Signs the text of a note.
    Ed25519 = 0x01,
    /// Cosigns a checkpoint with a time (c2sp.org/tlog-cosignature@v1.0.1).
    CosignatureV1 = 0x04,
}

/// A public key with its name. `Display` writes the vkey.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VerifierKey {
    name: KeyName,
    kind: KeyKind,
    public: [u8; 32],
    id: u32,
}

/// The reason why a text is no name or no vkey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The name is empty, or has a character that no name may have.
    #[error(
        "the name of a key must not be empty nor contain white space, '+' or control characters"
    )]
    Name,
    /// The text is not of the form `name+id+base64`.
    #[error("a key has the form name+id+base64, with an id of eight hexadecimal digits")]
    Form,
    /// The signature type is not supported here.
    #[error("the signature type {0:#04x} of the key is not supported")]
    Kind(u8),
    /// The id does not follow from name and key.
    #[error("the id of the key must be {expected:08x}, not {found:08x}")]
    Id {
        /// The id that follows from name and key.
        expected: u32,
        /// The id in the text.
        found: u32,
    },
}

impl KeyName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = KeyError;

    fn from_str(name: &str) -> Result<Self, KeyError> {
        let is_barred = |one: char| one.is_whitespace() || one == '+' || one < ' ';
        if name.is_empty() || name.contains(is_barred) {
            Err(KeyError::Name)
        } else {
            Ok(Self(name.to_owned()))
        }
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl VerifierKey {
    /// Returns the key of this kind with the 32 octets of RFC 8032.
    #[must_use]
    pub fn new(name: KeyName, kind: KeyKind, public: [u8; 32]) -> Self {
        let named = [name.0.as_bytes(), &[b'\n', kind as u8], &public].concat();
        let [a, b, c, d, ..] = sha256(&named);
        let id = u32::from_be_bytes([a, b, c, d]);
        Self { name, kind, public, id }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns the number that signatures name beside the name: the first octets of SHA-256 over name, kind and key.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Returns the public key, 32 octets.
    #[must_use]
    pub const fn public(&self) -> &[u8; 32] {
        &self.public
    }

    pub(super) fn is_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.public);
        key.verify(message, signature).is_ok()
    }
}

impl FromStr for VerifierKey {
    type Err = KeyError;

    /// Reads a vkey, and refuses each text that `Display` would not write.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        // Base64 may contain a plus sign, a name none.
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(KeyError::Form);
        };
        let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        let is_id = id.len() == 8 && id.bytes().all(is_digit);
        let found = u32::from_str_radix(id, 16).ok().filter(|_| is_id);
        let octets = STANDARD.decode(key).ok();
        let (Some(found), Some([kind, public @ ..])) = (found, octets.as_deref()) else {
            return Err(KeyError::Form);
        };
        let kind = match kind {
            0x01 => KeyKind::Ed25519,
            0x04 => KeyKind::CosignatureV1,
            other => return Err(KeyError::Kind(*other)),
        };
        let public = public.try_into().map_err(|_| KeyError::Form)?;
        let key = Self::new(name.parse()?, kind, public);
        match key.id {
            id if id == found => Ok(key),
            expected => Err(KeyError::Id { expected, found }),
        }
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = STANDARD.encode([&[self.kind as u8], &self.public[..]].concat());
        write!(f, "{}+{:08x}+{key}", self.name, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{pair, signer};

    /// The key of the example in c2sp.org/signed-note.
    const EXAMPLE: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";

    #[test]
    fn a_vkey_is_read_and_written() {
        let key: VerifierKey = EXAMPLE.parse().unwrap();
        assert_eq!(key.name().as_str(), "example.com/foo");
        assert_eq!((key.kind(), key.id()), (KeyKind::Ed25519, 0x530d_903a));
        assert_eq!(key.to_string(), EXAMPLE);

        let cosigner = VerifierKey::new(key.name, KeyKind::CosignatureV1, key.public);
        assert_ne!(cosigner.id(), key.id);
        assert_eq!(cosigner.to_string().parse(), Ok(cosigner));

        let pair = pair(1);
        let own = signer("log", &pair);
        assert_eq!(own.key().to_string().parse().as_ref(), Ok(own.key()));
    }

    #[test]
    fn a_vkey_in_any_other_form_is_refused() {
        let expected = 0x530d_903a;
        let id = |found| KeyError::Id { expected, found };
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("nothing", "", KeyError::Form),
            ("a name alone", "example.com/foo", KeyError::Form),
            ("no key", "example.com/foo+530d903a", KeyError::Form),
            ("an empty key", "example.com/foo+530d903a+", KeyError::Form),
            ("no name", "+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", KeyError::Name),
            ("a space in the name", "example.com foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", KeyError::Name),
            ("another name", "example.com/fop+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", KeyError::Id { expected: 0x7de3_800f, found: expected }),
            ("another id", "example.com/foo+530d903b+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", id(0x530d_903b)),
            ("an id in capitals", "example.com/foo+530D903A+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", KeyError::Form),
            ("a short id", "example.com/foo+30d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", KeyError::Form),
            ("a sign in the id", "example.com/foo++30d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", KeyError::Form),
            ("a short key", "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3Q==", KeyError::Form),
            ("bits behind the key", "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2l=", KeyError::Form),
            ("ECDSA", "example.com/foo+530d903a+Aukyeg==", KeyError::Kind(2)),
            ("ML-DSA-44", "example.com/foo+530d903a+BukyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", KeyError::Kind(6)),
            ("a line feed", "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k\n", KeyError::Form),
        ];
        for (name, text, why) in rows {
            let found = text.parse::<VerifierKey>();
            assert_eq!(found, Err(why), "{name}");
        }
    }

    #[test]
    fn a_name_has_no_character_that_ends_it() {
        for name in ["a", "logs.example.org/crawlgate/fra-1", "crawlgate/0123456789abcdef", "è—~"]
        {
            assert_eq!(name.parse::<KeyName>().unwrap().as_str(), name);
        }
        for name in
            ["", " ", "a b", "a+b", "a\n", "a\tb", "a\u{a0}b", "a\u{2003}b", "a\0b", "a\x1bb"]
        {
            assert_eq!(name.parse::<KeyName>(), Err(KeyError::Name), "{name:?}");
        }
    }
}
