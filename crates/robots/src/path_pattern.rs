//! A path pattern outside any robots.txt, which an operator writes to name some paths of an origin.
//!
//! It matches exactly as the path of a rule does (RFC 9309 section 2.2.3), so there is one kind of pattern to learn.
//! Unlike an author of a robots.txt, its author gets an answer: a pattern that can never match is an error, not
//! ignored.

use std::fmt;

use super::guard::{Comparison, Punctuation, Spelling, decoded_value};
use super::path::ComparisonPath;
use super::pattern::{Pattern, Subject};

/// The longest pattern, in octets; longer than any URL that crawlgate forwards needs.
const LONGEST: usize = 2_083;

/// A path pattern that can match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    pattern: Pattern,
    length: usize,
    /// The pattern with its escapes decoded, if decoding changes it.
    decoded: Option<Box<Pattern>>,
}

impl PathPattern {
    /// Compiles `value`.
    ///
    /// # Errors
    /// When no path can match it, or it is too long.
    pub fn new(value: &str) -> Result<Self, PathPatternError> {
        if value.len() > LONGEST {
            return Err(PathPatternError::TooLong);
        }
        // A client never sends a fragment.
        if value.contains('#') {
            return Err(PathPatternError::Fragment);
        }
        Self::compile(value.as_bytes(), Punctuation::default()).ok_or(PathPatternError::Start)
    }

    /// Compiles the path of a statement, which is not the operator's. `None` if no path can match. An escaped slash in it
    /// is no slash in either spelling.
    pub fn of_octets(value: &[u8]) -> Option<Self> {
        Self::compile(value, Punctuation::SLASH)
    }

    /// Compiles a value, of which the decoded spelling keeps the escapes of some characters.
    fn compile(value: &[u8], kept: Punctuation) -> Option<Self> {
        let (pattern, length) = Pattern::new(value)?;
        let decoded = decoded_value(value, kept).and_then(|value| Pattern::new(&value));
        Some(Self { pattern, length, decoded: decoded.map(|(pattern, _)| Box::new(pattern)) })
    }

    /// Tells whether the pattern matches a path with its query.
    pub fn matches(&self, path: &ComparisonPath<'_>) -> bool {
        self.matches_in(path, Spelling::Written)
    }

    /// Tells whether the pattern matches in the given spelling.
    fn matches_in(&self, path: &ComparisonPath<'_>, spelling: Spelling) -> bool {
        let pattern = self.spelt(spelling);
        let path = path.as_bytes();
        path.starts_with(pattern.head()) && pattern.matches(&Subject::new(path))
    }

    /// Tells whether the pattern, as one that denies, matches a variant.
    pub fn denies(&self, comparison: &Comparison<'_>) -> bool {
        self.matches_in(&comparison.path, comparison.spelling)
            && comparison.is_about(self.spelt(comparison.spelling).as_text())
    }

    /// Tells whether the pattern, as one that allows, matches a variant: also with the empty query that the variant lacks.
    pub fn allows(&self, comparison: &Comparison<'_>) -> bool {
        let matches = |path: &ComparisonPath<'_>| self.matches_in(path, comparison.spelling);
        matches(&comparison.path) || comparison.with_query().is_some_and(|path| matches(&path))
    }

    /// Returns the pattern in the given spelling.
    pub(super) fn spelt(&self, spelling: Spelling) -> &Pattern {
        match &self.decoded {
            Some(decoded) if spelling == Spelling::Decoded => decoded,
            _ => &self.pattern,
        }
    }

    /// Returns the octets of heap used.
    pub fn bytes(&self) -> usize {
        let decoded = self.decoded.as_deref();
        let of = |pattern: &Pattern| pattern.text().len();
        of(&self.pattern) + decoded.map_or(0, |decoded| size_of::<Pattern>() + of(decoded))
    }

    /// Tells whether decoding escapes changes the pattern.
    pub fn has_escapes(&self) -> bool {
        self.decoded.is_some()
    }

    /// Returns the pattern's octets in comparison form, every `*` and `$` counted: of two patterns that match, the
    /// longer is the more specific.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Tells whether the pattern matches every path: `/`, `*` and equivalents.
    pub fn is_everything(&self) -> bool {
        self.pattern.is_prefix() && matches!(self.pattern.head(), b"" | b"/")
    }
}

/// The reason why a text is not a path pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPatternError {
    /// The text begins with neither `/` nor `*`.
    Start,
    /// The text holds a `#`, which no sent path has.
    Fragment,
    /// The text is longer than any path that it could match.
    TooLong,
}

impl fmt::Display for PathPatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => {
                f.write_str("a path pattern begins with / or *, else it matches nothing")
            }
            Self::Fragment => f.write_str("a path holds no #: what follows it is never sent"),
            Self::TooLong => write!(f, "a path pattern has at most {LONGEST} octets"),
        }
    }
}

impl std::error::Error for PathPatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9309_matches_like_the_path_of_a_rule() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[&str], &[&str])] = &[
            ("anchored at the start, open at the end", "/a", &["/a", "/ab", "/a/b?c"], &["/", "/b/a"]),
            ("stars and an end", "/*.gif$", &["/a.gif", "/.gif"], &["/a.gif?x"]),
            ("another spelling of the same path", "/%7Ea/ü", &["/~a/%c3%bc", "/%7ea/ü"], &["/~a/u"]),
            ("an escaped star is a character", "/a%2A", &["/a*", "/a%2a"], &["/ab"]),
            ("everything", "/", &["/", "/a", "?q", ""], &[]),
        ];
        for (name, value, matched, missed) in cases {
            let pattern = PathPattern::new(value).expect(name);
            for path in *matched {
                assert!(pattern.matches(&ComparisonPath::new(path.as_bytes())), "{name}: {path}");
            }
            for path in *missed {
                assert!(!pattern.matches(&ComparisonPath::new(path.as_bytes())), "{name}: {path}");
            }
        }
    }

    #[test]
    fn ours_a_pattern_that_can_never_match_is_refused() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a name", "private/", PathPatternError::Start),
            ("nothing", "", PathPatternError::Start),
            ("a URL", "https://a.example/private", PathPatternError::Start),
            ("a fragment", "/a#b", PathPatternError::Fragment),
            ("too long", &format!("/{}", "a".repeat(LONGEST)), PathPatternError::TooLong),
        ];
        for (name, value, why) in cases {
            assert_eq!(PathPattern::new(value), Err(why), "{name}");
        }
    }

    #[test]
    fn ours_a_pattern_for_every_path_is_recognised_in_any_spelling() {
        for (value, everything) in [
            ("/", true),
            ("*", true),
            ("/*", true),
            ("/**", true),
            ("*$", true),
            ("/$", false),
            ("/a", false),
            ("*a", false),
            ("//", false),
        ] {
            let pattern = PathPattern::new(value).expect(value);
            assert_eq!(pattern.is_everything(), everything, "{value}");
        }
    }

    #[test]
    fn ours_more_octets_are_more_specific() {
        for (value, length) in [("/", 1), ("/a*b$", 5), ("/%61", 2), ("/ü", 7)] {
            assert_eq!(PathPattern::new(value).expect(value).length(), length, "{value}");
        }
    }
}
