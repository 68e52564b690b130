//! An escaped slash in a query, and the rules that speak of it.
//!
//! A URL inside a parameter is no path of this site: `Disallow: */login` says nothing of `/auth?next=%2Flogin`. So a slash
//! that a reading has decoded in the query meets only a slash behind a `?`, `&` or `=` of a pattern. [`ESCAPED_SLASH`]
//! marks its place in a variant. A slash that the crawler wrote as it is meets any slash (RFC 9309 section 2.2.2).
//!
//! A rule such as `/*?*/` tests whether a query is written with a slash, so its piece of mere punctuation meets no mark either.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use crate::pattern::{PatternText, literal};

/// A decoded slash of the query, in a variant. Comparison forms are ASCII, and the literal form uses other octets.
pub(super) const ESCAPED_SLASH: u8 = 0x82;

/// The places of one piece that are looked at. Beyond them, the pattern counts as one that speaks of the query.
const TRIES: usize = 64;

/// Returns a variant in comparison form: with a slash in each marked place.
pub(super) fn unmarked(form: &[u8]) -> Cow<'_, [u8]> {
    match memchr(ESCAPED_SLASH, form) {
        None => Cow::Borrowed(form),
        Some(_) => {
            form.iter().map(|octet| if *octet == ESCAPED_SLASH { b'/' } else { *octet }).collect()
        }
    }
}

/// Tells whether a pattern that matches a variant matches it also where no slash outside of the pattern's own query meets
/// a marked place.
pub(super) fn speaks(pattern: PatternText<'_>, form: &[u8]) -> bool {
    if memchr(ESCAPED_SLASH, form).is_none() {
        return true;
    }
    let marked = if pattern.is_literal { Cow::Owned(literal(form)) } else { Cow::Borrowed(form) };
    let subject = Subject {
        plain: &unmarked(&marked),
        marked: &marked,
        query: pattern.text.iter().position(|octet| matches!(octet, b'?' | b'&' | b'=')),
    };
    subject.matches(pattern.text, pattern.is_anchored)
}

/// A variant, and the place in a pattern at which that speaks of the query.
struct Subject<'a> {
    plain: &'a [u8],
    marked: &'a [u8],
    query: Option<usize>,
}

impl Subject<'_> {
    /// Matches as [`matches()`](crate::pattern::matches) does.
    fn matches(&self, text: &[u8], is_anchored: bool) -> bool {
        let mut end = 0;
        let mut start = 0;
        let mut pieces = text.split(|octet| *octet == b'*').peekable();
        while let Some(piece) = pieces.next() {
            let is_end = is_anchored && pieces.peek().is_none();
            let last = self.plain.len().checked_sub(piece.len());
            let place = match (start, is_end) {
                (0, false) => Some(0),
                (0, true) => last.filter(|at| *at == 0),
                (_, true) => last.filter(|at| *at >= end),
                (_, false) => self.find(piece, start, end),
            };
            let is_there = |at: &usize| start > 0 && !is_end || self.is_at(piece, start, *at);
            match place.filter(is_there) {
                Some(at) => end = at + piece.len(),
                None => return false,
            }
            start += piece.len() + 1;
        }
        true
    }

    /// Returns the first place of a piece, which begins at `start` of the pattern, from `end` on.
    fn find(&self, piece: &[u8], start: usize, end: usize) -> Option<usize> {
        // Only a piece that holds the separator can be found where it does not stand.
        let is_marked = self.before_query(piece, start) == piece.len();
        let text = if is_marked { self.marked } else { self.plain };
        let finder = memmem::Finder::new(piece);
        let mut from = end;
        for _ in 0..TRIES {
            let at = from + finder.find(text.get(from..)?)?;
            if self.is_at(piece, start, at) {
                return Some(at);
            }
            from = at + 1;
        }
        Some(from)
    }

    /// Tells whether a piece, which begins at `start` of the pattern, stands at a place.
    fn is_at(&self, piece: &[u8], start: usize, at: usize) -> bool {
        let (before, query) = piece.split_at(self.before_query(piece, start));
        let is_there = |text: &[u8], piece: &[u8], at| {
            text.get(at..).is_some_and(|rest: &[u8]| rest.starts_with(piece))
        };
        is_there(self.marked, before, at) && is_there(self.plain, query, at + before.len())
    }

    /// Returns the number of octets of a piece, which begins at `start` of the pattern, that meet no marked place.
    fn before_query(&self, piece: &[u8], start: usize) -> usize {
        let is_name = piece.iter().any(u8::is_ascii_alphanumeric);
        match self.query {
            Some(query) if is_name || start == 0 => query.saturating_sub(start).min(piece.len()),
            _ => piece.len(),
        }
    }
}
