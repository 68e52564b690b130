//! `[[admin.user]]`: the users of the admin side, the credentials of each, and its role.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;

use super::PasswordHash;
use crawlgate_text::hex::{from_hex, hex};

/// One `[[admin.user]]`: a person or a program. It has a password, a token or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminUser {
    /// The name, in records and as the user name of credentials.
    pub name: Arc<str>,
    /// The acts that the user may do.
    pub role: Role,
    /// The hash of the user's password.
    pub password: Option<PasswordHash>,
    /// The digest of the user's token.
    pub token: Option<TokenDigest>,
}

/// The acts that a user may do. Each role may do what the ones before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// See everything, and ask for decisions.
    Read,
    /// Acknowledge decisions, too.
    Review,
    /// Change everything that the admin side can change.
    Operate,
}

impl Role {
    /// All roles, each after those that may do less.
    pub const ALL: [Role; 3] = [Role::Read, Role::Review, Role::Operate];

    /// Returns the role as the configuration writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Review => "review",
            Role::Operate => "operate",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The SHA-256 of a token. All digests have equal length, so a comparison reveals nothing. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Reads `sha256:` and 64 hexadecimal digits.
    ///
    /// # Errors
    /// The allowed form, when `text` is something else.
    pub fn parse(text: &str) -> Result<TokenDigest, &'static str> {
        const EXPECTED: &str = "expected the digest of a token, \"sha256:\" and 64 digits, as `crawlgate admin user add --token` \
            makes it";
        let digits = text.strip_prefix("sha256:").ok_or(EXPECTED)?;
        from_hex(digits).map(TokenDigest).ok_or(EXPECTED)
    }

    /// Returns the digest of a token.
    #[must_use]
    pub fn of(token: &[u8]) -> TokenDigest {
        let mut octets = [0; 32];
        for (octet, of_digest) in octets.iter_mut().zip(digest(&SHA256, token).as_ref()) {
            *octet = *of_digest;
        }
        TokenDigest(octets)
    }

    /// Tells whether `token` has this digest.
    #[must_use]
    pub fn is_of(&self, token: &[u8]) -> bool {
        verify_slices_are_equal(&TokenDigest::of(token).0, &self.0).is_ok()
    }

    /// Returns the text that [`parse`](Self::parse) reads, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("sha256:{}", hex(self.0))
    }

    /// Returns eight digits that tell one digest of this user from another and lead to no token. The name is the key, so no
    /// table of marks serves for several users.
    #[must_use]
    pub fn mark(&self, user: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, user.as_bytes());
        let of_it = hmac::sign(&key, &self.0);
        of_it.as_ref().get(..4).map(hex).unwrap_or_default()
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The certificate of the admin listener. The files are read again at a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTls {
    /// The certificate, then its issuers, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_and_matches_its_token_alone() {
        // printf %s 0123456789abcdef | sha256sum
        let digits = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
        let digest = TokenDigest::parse(&format!("sha256:{digits}")).expect("a digest");
        assert_eq!(digest, TokenDigest::of(b"0123456789abcdef"));
        assert_eq!(digest.reveal(), format!("sha256:{digits}"));
        assert_eq!(format!("{digest:?}"), "***");
        assert!(!digits.contains(&digest.mark("ada")));
        assert_eq!(
            digest.mark("ada"),
            TokenDigest::of(b"0123456789abcdef").mark("ada")
        );
        assert_ne!(digest.mark("ada"), digest.mark("eve"), "of another user");
        assert_ne!(digest.mark("ada"), TokenDigest::of(b"0").mark("ada"));
        for (token, right) in [
            ("0123456789abcdef", true),
            ("0123456789abcdeF", false),
            ("0123456789abcde", false),
            ("", false),
            (digits, false),
        ] {
            assert_eq!(digest.is_of(token.as_bytes()), right, "{token:?}");
        }
        for text in [
            "",
            "sha256:",
            digits,
            "0123456789abcdef",
            &format!("sha256:{digits}0"),
        ] {
            assert!(TokenDigest::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn each_role_may_do_what_the_ones_before_it_may() {
        assert!(Role::Read < Role::Review && Role::Review < Role::Operate);
    }
}
