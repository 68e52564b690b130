//! Product tokens: the names by which robots.txt and a crawler know each other.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The longest product token, in octets. Real ones have fewer than 40.
pub(super) const MAX_TOKEN: usize = 128;

/// A crawler's product token (RFC 9309 section 2.2.1), compared without regard to case.
///
/// The RFC's grammar has letters, `-` and `_` only. Real crawlers are called `MJ12bot`, `360Spider`
/// and `archive.org_bot`, so digits and dots are accepted here.
#[derive(Clone, Debug)]
pub struct ProductToken(Arc<str>);

impl ProductToken {
    /// Returns the product token that `name` spells.
    ///
    /// # Errors
    /// When `name` is empty, longer than 128 octets or holds anything but ASCII letters, digits,
    /// `-`, `_` and `.`.
    pub fn new(name: &str) -> Result<Self, TokenError> {
        let valid = (1..=MAX_TOKEN).contains(&name.len()) && name.bytes().all(is_wide);
        if valid { Ok(Self(Arc::from(name))) } else { Err(TokenError) }
    }

    /// Returns the token in its original spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for ProductToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for ProductToken {}

impl Hash for ProductToken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for octet in self.0.bytes() {
            state.write_u8(octet.to_ascii_lowercase());
        }
        state.write_u8(0xFF);
    }
}

impl fmt::Display for ProductToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is no product token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenError;

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a product token is 1 to {MAX_TOKEN} of the characters A-Z a-z 0-9 _ - . without a version"
        )
    }
}

impl std::error::Error for TokenError {}

/// Returns the part of a user-agent line's value that names crawlers with a token of letters, `-` and `_` (RFC 9309's
/// grammar).
pub(super) fn narrow(value: &[u8]) -> &[u8] {
    prefix(value, is_narrow)
}

/// Tells whether RFC 9309's grammar lets a product token hold an octet.
pub(super) fn is_narrow(octet: u8) -> bool {
    octet.is_ascii_alphabetic() || matches!(octet, b'-' | b'_')
}

/// Returns the part of a user-agent line's value that names crawlers with digits or dots in their token.
pub(super) fn wide(value: &[u8]) -> &[u8] {
    prefix(value, is_wide)
}

/// Tells whether a product token may hold an octet.
pub(super) fn is_wide(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.')
}

fn prefix(value: &[u8], belongs: impl Fn(u8) -> bool) -> &[u8] {
    let end = value.iter().position(|octet| !belongs(*octet)).unwrap_or(value.len());
    value.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    // A failed unwrap is a failed test.
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_of_real_crawlers_are_tokens() {
        for name in [
            "Googlebot",
            "Googlebot-Image",
            "MJ12bot",
            "360Spider",
            "archive.org_bot",
            "a",
            &"a".repeat(128),
        ] {
            assert_eq!(ProductToken::new(name).unwrap().as_str(), name);
        }
        for name in ["", "a b", "a/1.0", "*", "a:", "bót", "a\n", &"a".repeat(129)] {
            assert_eq!(ProductToken::new(name), Err(TokenError), "{name:?}");
        }
    }

    #[test]
    fn rfc9309_tokens_compare_without_case() {
        let [one, other] = ["GoogleBot", "googlebot"].map(|name| ProductToken::new(name).unwrap());
        assert_eq!(one, other);
        assert_eq!(one.to_string(), "GoogleBot", "shown as written");
        assert_eq!(HashSet::from([one, other]).len(), 1, "equal tokens hash alike");
        assert_ne!(ProductToken::new("googlebot"), ProductToken::new("googlebots"));
    }
}
