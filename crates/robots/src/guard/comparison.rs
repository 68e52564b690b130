//! One comparison of a variant with rules: the spelling of the rules, and the rules that take part.

use std::borrow::Cow;

use memchr::memchr;

use super::Punctuation;
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
        self.lacks_query
            .then(|| ComparisonPath::of_form(with_query()))
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
