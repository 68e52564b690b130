//! One comparison of a variant with rules: the spelling of the rules, and the rules that take part.
//!
//! Punctuation that rules test for.
//!
//! A rule such as `/*,*` or `/*?` names no resource: it tests whether a URL is written with a character. `/C%2B%2B` is
//! not written with a `+`, so `Disallow: /*+*` does not apply to it, although a server decodes it. Such a rule applies
//! to a variant only if none of the characters that it tests for was decoded.

use std::borrow::Cow;

use memchr::memchr;

use super::octets::escape;
use super::query::{speaks, unmarked};
use crate::path::ComparisonPath;
use crate::pattern::PatternText;

/// The spelling of the rules that a path is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// The author's spelling, in comparison form: `%2F` is not `/`.
    Written,
    /// The rules with their escapes decoded, as a server decodes the escapes of a path.
    Decoded,
}

/// One comparison that the guard makes besides that of the path as written.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// The variant.
    pub path: ComparisonPath<'a>,
    /// The spelling of the rules that the variant is compared with.
    pub spelling: Spelling,
    /// True if another variant equals this one with a final slash. Rules without a `?` and without a `$` at their end have
    /// already decided about that one.
    pub lacks_slash: bool,
    /// True if another variant equals this one with an empty query. An allow that holds that query allows this one, too.
    pub lacks_query: bool,
    /// The variant with marks.
    pub(super) form: &'a [u8],
}

impl<'a> Comparison<'a> {
    /// Returns a comparison of a form in which all rules take part.
    pub(super) fn of(form: &'a [u8], spelling: Spelling) -> Self {
        Self {
            path: ComparisonPath::of_form(unmarked(form)),
            spelling,
            lacks_slash: false,
            lacks_query: false,
            form,
        }
    }

    /// Returns the path with the empty query that the variant lacks. An allow that matches this path allows the variant.
    pub(in super::super) fn with_query(&self) -> Option<ComparisonPath<'static>> {
        let with_query = || Cow::Owned([self.path.as_bytes(), b"?"].concat());
        self.lacks_query.then(|| ComparisonPath::of_form(with_query()))
    }

    /// Tells whether a disallow with this pattern, which matches, takes part, given the punctuation that the variants decode.
    pub(in super::super) fn admits(&self, decoded: Punctuation, pattern: PatternText<'_>) -> bool {
        (!self.lacks_slash || tells_slash(pattern))
            && (decoded.is_empty() || !decoded.meets(Punctuation::tested_by(pattern.text)))
            && self.is_about(pattern)
    }

    /// Tells whether a pattern that matches matches more than a slash that the variant has decoded in the query, or speaks
    /// of the query.
    pub(in super::super) fn is_about(&self, pattern: PatternText<'_>) -> bool {
        speaks(pattern, self.form)
    }
}

/// Tells whether a pattern can match a path without its final slash and not the same path with it. Such a pattern ends in
/// `$`, or holds the `?` of a query. Every other pattern that matches the first path also matches the second.
pub(in super::super) fn tells_slash(pattern: PatternText<'_>) -> bool {
    pattern.is_anchored || memchr(b'?', pattern.text).is_some()
}

/// A set of reserved characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Punctuation(u16);

/// The slash, and the reserved characters that a rule can test for. A slash separates segments, so no rule tests for it;
/// `*` and `$` mean themselves in both spellings; `%` and `#` are never decoded.
const RESERVED: &[u8; 15] = b"/?:[]@!&'()+,;=";

impl Punctuation {
    /// The slash alone: the first of the reserved characters.
    pub(in super::super) const SLASH: Self = Self(1);

    /// Returns the set of one reserved octet; the empty set for all others.
    fn of(octet: u8) -> Self {
        let at = RESERVED.iter().position(|reserved| *reserved == octet);
        Self(at.map_or(0, |at| 1 << at))
    }

    /// Returns the characters that a pattern tests for: those of its pieces behind a star that hold no letter, no
    /// digit, no slash and no escape.
    pub(in super::super) fn tested_by(text: &[u8]) -> Self {
        let is_name =
            |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'/' | b'%' | 0x80..);
        let pieces = text.split(|octet| *octet == b'*').skip(1);
        pieces
            .filter(|piece| !piece.iter().any(is_name))
            .flatten()
            .fold(Self::default(), |all, octet| all.union(Self::of(*octet)))
    }

    /// Returns the characters that a form hides in escapes, or in escapes of escapes.
    pub(super) fn escaped_in(form: &[u8]) -> Self {
        memchr::memchr_iter(b'%', form).fold(Self::default(), |all, at| {
            let once = form.get(at..).and_then(escape);
            let twice = once.and_then(|(octet, after)| match (octet, after) {
                (b'%', [high, low, ..]) => escape(&[b'%', *high, *low]).map(|(octet, _)| octet),
                _ => None,
            });
            let octets = once.map(|(octet, _)| octet).into_iter().chain(twice);
            octets.fold(all, |all, octet| all.union(Self::of(octet)))
        })
    }

    /// Returns the sets to keep escaped in turn: every character by itself, and all together. So each rule meets a
    /// variant that decodes none of the characters that it tests for, and as many others as possible.
    pub(in super::super) fn to_keep(self) -> impl Iterator<Item = Self> {
        let singles = (0..RESERVED.len()).map(|at| Self(1 << at));
        let singles = singles.filter(move |single| self.meets(*single));
        singles.chain((self.0.count_ones() > 1).then_some(self))
    }

    pub(in super::super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(in super::super) const fn within(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(in super::super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(in super::super) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(in super::super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn holds(self, octet: u8) -> bool {
        !self.is_empty() && self.meets(Self::of(octet))
    }
}
