//! A rule's compiled path pattern, and its match against a path.
//!
//! RFC 9309 section 2.2.3: a pattern is anchored at the start of the path and open at its end; `*` is any run of
//! octets, and a final `$` is the end of the path. Between its stars a pattern is plain text, so matching is a prefix
//! test followed by searches for the pieces from left to right, each of which takes the first place it finds. The first
//! place is always as good as a later one, because it leaves more room for the rest. So there is no backtracking, and
//! every search is linear for any pattern.
//!
//! A `%2A` or `%24` in a rule, or a `$` that is not its last octet, means the character itself in either spelling of
//! the path. Such a rule is matched in the *literal form*, where both spellings of both characters are one octet.

use std::cell::OnceCell;

use memchr::memchr;

use super::line::is_space;
use super::path::{Unit, Units, is_comparison_form, is_encoded};
use super::suffix_array::{SuffixArray, find};

/// A literal `*` in the literal form. Comparison forms are ASCII, so the octet is free.
const STAR: u8 = 0x80;

/// A literal `$` in the literal form.
const DOLLAR: u8 = 0x81;

/// The length from which a path may be indexed.
const FAR: usize = 128;

/// The product of a path's length and the number of patterns to try from which the path is indexed.
const INDEXED: usize = 1 << 20;

/// A path in comparison form, and in the literal form once a pattern needs it.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    path: &'a [u8],
    literal: OnceCell<Vec<u8>>,
    /// True if there are enough patterns to try that an index pays.
    is_indexed: bool,
    index: OnceCell<SuffixArray>,
    literal_index: OnceCell<SuffixArray>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(path: &'a [u8]) -> Self {
        Self::of_many(path, 0)
    }

    /// Returns a path that will be matched against this many patterns.
    pub(super) fn of_many(path: &'a [u8], patterns: usize) -> Self {
        Self {
            path,
            literal: OnceCell::new(),
            is_indexed: path.len() >= FAR && patterns.saturating_mul(path.len()) >= INDEXED,
            index: OnceCell::new(),
            literal_index: OnceCell::new(),
        }
    }

    /// Tells whether the path matches a pattern's text, see [`matches()`].
    pub(super) fn matches(&self, text: &[u8], is_anchored: bool, is_literal: bool) -> bool {
        let (path, index) = if is_literal {
            (self.literal(), &self.literal_index)
        } else {
            (self.path, &self.index)
        };
        if !self.is_indexed {
            return matches(text, is_anchored, path);
        }
        matches_by(text, is_anchored, path, |piece, at| {
            let index = index.get_or_init(|| SuffixArray::of(path));
            let found = if piece.is_empty() { Some(at) } else { index.next(path, piece, at) };
            Some(found? + piece.len())
        })
    }

    /// Returns the path in the literal form.
    fn literal(&self) -> &[u8] {
        self.literal.get_or_init(|| literal(self.path))
    }
}

/// Returns a path in the literal form.
pub(super) fn literal(path: &[u8]) -> Vec<u8> {
    let mut form = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        let (octet, after) = match rest {
            [b'*', ..] => (STAR, after),
            [b'$', ..] => (DOLLAR, after),
            [b'%', b'2', b'A', after @ ..] => (STAR, after),
            [b'%', b'2', b'4', after @ ..] => (DOLLAR, after),
            _ => (*first, after),
        };
        form.push(octet);
        rest = after;
    }
    form
}

/// A pattern's text, as it is matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct PatternText<'a> {
    /// The text, see [`matches()`].
    pub(super) text: &'a [u8],
    /// True if the path must end where the pattern does.
    pub(super) is_anchored: bool,
    /// True if the pattern is matched in the literal form.
    pub(super) is_literal: bool,
}

/// A rule's value as written, with the traits that matching needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    pub(super) octets: &'a [u8],
    pub(super) has_star: bool,
    has_escape: bool,
    /// True if it holds octets that are compared as their escapes.
    is_raw: bool,
    /// True if it holds a literal `$`.
    has_dollar: bool,
}

impl<'a> Value<'a> {
    /// Returns the value that `text` begins with: up to the end of the line or of its part that counts, without
    /// trailing white space.
    pub(super) fn read(text: &'a [u8]) -> Self {
        let mut seen = 0;
        let is_end = |octet: &u8| {
            let class = CLASSES.get(usize::from(*octet)).copied().unwrap_or(END);
            seen |= class;
            class & END != 0
        };
        let end = text.iter().position(is_end).unwrap_or(text.len());
        let mut octets = text.get(..end).unwrap_or_default();
        if seen & RAW != 0 {
            while let [before @ .., last] = octets
                && is_space(*last)
            {
                octets = before;
            }
        }
        Self {
            octets,
            has_star: seen & STARRED != 0,
            has_escape: seen & ESCAPE != 0,
            is_raw: seen & RAW != 0 && octets.iter().any(|octet| is_encoded(*octet)),
            has_dollar: seen & DOLLARS != 0 && memchr(b'$', without_end(octets)).is_some(),
        }
    }

    /// Tells whether the value holds a `%`, or an octet that is compared as its escape.
    pub(super) fn may_be_decoded(&self) -> bool {
        self.has_escape || self.is_raw
    }

    /// Tells whether the value can be matched as it stands: it is in comparison form and does not need the literal
    /// form.
    pub(super) fn is_comparison_form(&self) -> bool {
        let is_literal =
            || Units(self.octets).any(|unit| matches!(unit, Unit::Escaped(b'*' | b'$')));
        !self.is_raw
            && !self.has_dollar
            && (!self.has_escape || is_comparison_form(self.octets) && !is_literal())
    }
}

const END: u8 = 1;
const STARRED: u8 = 2;
const ESCAPE: u8 = 4;
const RAW: u8 = 8;
const DOLLARS: u8 = 16;

/// Classes of octets in a value.
#[expect(clippy::indexing_slicing, reason = "the compiler evaluates it, and an octet is below 256")]
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut octet = 0_u8;
    loop {
        classes[octet as usize] = match octet {
            b'\n' | b'\r' | b'#' | 0 => END,
            b'*' => STARRED,
            b'%' => ESCAPE,
            b'$' => DOLLARS,
            _ if is_encoded(octet) => RAW,
            _ => 0,
        };
        if octet == u8::MAX {
            break classes;
        }
        octet += 1;
    }
};

/// Returns a value without the final `$` that anchors it, if it has one.
fn without_end(value: &[u8]) -> &[u8] {
    value.strip_suffix(b"$").unwrap_or(value)
}

/// A path pattern that can match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pattern {
    /// The pattern without a trailing `*` and the final `$`, with one star for each run of stars. It is in comparison
    /// form, or in the literal form if `is_literal`; wildcards are `*` in both.
    text: Box<[u8]>,
    /// The length of the part of `text` that is the same in all forms: everything before the first wildcard or literal
    /// `*` or `$`.
    head: usize,
    /// True if the path must end where the pattern does.
    is_anchored: bool,
    /// True if the pattern is matched in the literal form.
    is_literal: bool,
}

impl Pattern {
    /// Compiles a rule's value, and returns its length for precedence: octets in comparison form, every `*` and `$`
    /// counted.
    ///
    /// `None` if no path can match: an empty value, or one that begins with neither `/` nor `*` (Google).
    pub(super) fn new(value: &[u8]) -> Option<(Self, usize)> {
        if !matches!(value.first(), Some(b'/' | b'*')) {
            return None;
        }
        let (body, mut is_anchored) = match value.strip_suffix(b"$") {
            Some(body) => (body, true),
            None => (value, false),
        };
        let is_literal =
            Units(body).any(|unit| matches!(unit, Unit::Escaped(b'*' | b'$') | Unit::Raw(b'$')));
        let mut length = usize::from(is_anchored);
        let mut text = Vec::with_capacity(body.len());
        for unit in Units(body) {
            length += match unit {
                Unit::Raw(_) => 1,
                Unit::Escaped(_) => 3,
            };
            match unit {
                Unit::Raw(b'*') if text.last() == Some(&b'*') => {}
                Unit::Escaped(b'*') => text.push(STAR),
                Unit::Escaped(b'$') => text.push(DOLLAR),
                Unit::Raw(b'$') => text.push(DOLLAR),
                unit => unit.write(&mut text),
            }
        }
        if text.last() == Some(&b'*') {
            // A trailing star matches any rest of the path, also an empty one.
            text.pop();
            is_anchored = false;
        }
        let head = text.iter().position(|octet| is_special(*octet)).unwrap_or(text.len());
        Some((Self { text: text.into_boxed_slice(), head, is_anchored, is_literal }, length))
    }

    /// Returns the plain text that every matching path begins with.
    pub(super) fn head(&self) -> &[u8] {
        self.text.get(..self.head).unwrap_or_default()
    }

    /// Tells whether the pattern consists only of its head.
    pub(super) fn is_prefix(&self) -> bool {
        self.head == self.text.len() && !self.is_anchored
    }

    /// Returns the text to match, see [`matches()`].
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the text with how to match it.
    pub(super) fn as_text(&self) -> PatternText<'_> {
        PatternText { text: &self.text, is_anchored: self.is_anchored, is_literal: self.is_literal }
    }

    /// Tells whether the path must end where the pattern does.
    pub(super) fn is_anchored(&self) -> bool {
        self.is_anchored
    }

    /// Tells whether the pattern is matched in the literal form.
    pub(super) fn is_literal(&self) -> bool {
        self.is_literal
    }

    /// Tells whether the pattern matches a path that is known to begin with its head.
    pub(super) fn matches(&self, subject: &Subject<'_>) -> bool {
        if self.is_literal {
            // The head may end within an escape that is one octet in the literal form.
            subject.literal().strip_prefix(self.head()).is_some_and(|rest| self.matches_rest(rest))
        } else {
            subject.path.get(self.head..).is_some_and(|rest| self.matches_rest(rest))
        }
    }

    /// Tells whether the pattern behind its head matches the rest of the path.
    fn matches_rest(&self, rest: &[u8]) -> bool {
        let text = self.text.get(self.head..).unwrap_or_default();
        matches(text, self.is_anchored, rest)
    }
}

/// Tells whether a path matches a pattern's text: both in comparison form, or both in the literal form. The text does
/// not end with a star.
pub(super) fn matches(text: &[u8], is_anchored: bool, path: &[u8]) -> bool {
    matches_by(text, is_anchored, path, |piece, at| Some(at + find(piece, path.get(at..)?)?))
}

/// Does the same with `find`, which returns the end of the next occurrence of a piece from a place on.
fn matches_by(
    text: &[u8],
    is_anchored: bool,
    path: &[u8],
    find: impl Fn(&[u8], usize) -> Option<usize>,
) -> bool {
    // The piece before the first star must stand at the start of the path.
    let star = memchr(b'*', text).unwrap_or(text.len());
    let (first, mut text) = text.split_at_checked(star).unwrap_or_default();
    if !path.starts_with(first) {
        return false;
    }
    let mut at = first.len();
    if text.is_empty() {
        return !is_anchored || path.len() == at;
    }
    // From here on `text` begins with a star, and a piece follows it.
    while let Some(pieces) = text.strip_prefix(b"*") {
        let end = memchr(b'*', pieces).unwrap_or(pieces.len());
        let (piece, after) = pieces.split_at_checked(end).unwrap_or_default();
        if after.is_empty() && is_anchored {
            return path.get(at..).is_some_and(|rest| rest.ends_with(piece));
        }
        match find(piece, at) {
            Some(end) => at = end,
            None => return false,
        }
        text = after;
    }
    true
}

pub(super) fn is_special(octet: u8) -> bool {
    matches!(octet, b'*' | STAR | DOLLAR)
}

#[cfg(test)]
mod tests;
