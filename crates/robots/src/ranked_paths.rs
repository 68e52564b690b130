//! Path patterns of statements that are no rules: of all that match a path, those of the best rank are picked.
//!
//! The rank is what decides between two patterns that match: the longer path (Content-Usage), or the earlier entry
//! (tdmrep.json). Unlike rules, patterns of the same rank are picked together.
//!
//! # Cost
//!
//! A path asks the patterns in order of rank, up to the last one of the first rank that matches; almost every pattern
//! is passed over at the comparison of its head. With the path guard, the variants of the path ask too. The work for
//! one path is bounded ([`WORK`]): beyond it, and for a path with more variants than the guard examines, all statements
//! are picked. No author of a page writes such a path, and few write such a file.
//!
//! No variant makes a slash of an escaped one: `%2F` is not `/` (RFC 9309 section 2.2.2). A rule keeps a crawler out of a
//! page, so the guard takes the strictest reading of any server; a statement is about the page that was asked for. All
//! other escapes are decoded. A pattern that tests only for punctuation counts in every variant, unlike such a rule.

use super::guard::{PathVariants, Spelling, tells_slash};
use super::path::ComparisonPath;
use super::path_pattern::PathPattern;
use super::pattern::Subject;

/// The work for one path: patterns passed over, and per pattern that is searched for one more for every
/// [`SEARCHED`] octets of it and of the path.
const WORK: usize = 1 << 20;

/// The octets that one unit of work searches.
const SEARCHED: usize = 16;

/// Patterns in order of rank.
#[derive(Clone, Debug, Default)]
pub struct RankedPaths {
    entries: Box<[Ranked]>,
}

#[derive(Clone, Debug)]
struct Ranked {
    rank: u32,
    /// The place in the order in which the patterns were given.
    number: u32,
    /// `None` for a statement about every path.
    pattern: Option<PathPattern>,
}

/// The statements about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applicable {
    /// Those with these numbers, in order: the places at which they were given, from 0.
    These(Vec<u32>),
    /// All, because the work for this path was too much.
    All,
}

impl RankedPaths {
    /// Puts patterns in order of rank, the least first; `None` matches every path.
    pub fn new(patterns: impl IntoIterator<Item = (u32, Option<PathPattern>)>) -> Self {
        let entries = (0..).zip(patterns);
        let entries = entries.map(|(number, (rank, pattern))| Ranked { rank, number, pattern });
        let mut entries: Box<[Ranked]> = entries.collect();
        entries.sort_by_key(|entry| entry.rank);
        Self { entries }
    }

    /// Tells whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the octets of heap used.
    pub fn bytes(&self) -> usize {
        let patterns = self.entries.iter().filter_map(|it| it.pattern.as_ref());
        size_of_val(&*self.entries) + patterns.map(PathPattern::bytes).sum::<usize>()
    }

    /// Picks the statements about a path with its query. If `is_guarded`, all variants of the path are asked, and what
    /// each picks is united.
    pub fn pick(&self, path: &ComparisonPath<'_>, is_guarded: bool) -> Applicable {
        let mut search = Search { paths: self, picked: Vec::new(), work: WORK };
        if search.all(path, is_guarded) {
            Applicable::These(search.picked)
        } else {
            Applicable::All
        }
    }

    /// Returns the numbers of all patterns that match a path as written, of whatever rank, in order. The work is not bounded:
    /// for people who ask about one path.
    pub fn matching(&self, path: &ComparisonPath<'_>) -> Vec<u32> {
        let matches = |entry: &&Ranked| {
            let pattern = entry.pattern.as_ref();
            pattern.is_none_or(|pattern| pattern.matches(path))
        };
        let mut matching: Vec<u32> =
            self.entries.iter().filter(matches).map(|it| it.number).collect();
        matching.sort_unstable();
        matching
    }
}

struct Search<'a> {
    paths: &'a RankedPaths,
    /// In order, each once.
    picked: Vec<u32>,
    work: usize,
}

impl Search<'_> {
    /// Asks about all variants of a path; false if that is too much work.
    fn all(&mut self, path: &ComparisonPath<'_>, is_guarded: bool) -> bool {
        let is_of_paths = |entry: &Ranked| entry.pattern.is_some();
        if !self.one(path, Spelling::Written, false) {
            return false;
        }
        if !is_guarded || !self.paths.entries.iter().any(is_of_paths) {
            return true;
        }
        let has_escapes = |entry: &Ranked| {
            let pattern = entry.pattern.as_ref();
            pattern.is_some_and(PathPattern::has_escapes)
        };
        let variants = PathVariants::keeping_slashes(path);
        let mut comparisons = variants.comparisons(self.paths.entries.iter().any(has_escapes));
        variants.is_complete()
            && comparisons.all(|comparison| {
                self.one(&comparison.path, comparison.spelling, comparison.lacks_slash)
            })
    }

    /// Adds the statements of the best rank that match in the given spelling; false if that is too much work. If
    /// `lacks_slash`, only patterns that tell the path from the one with a final slash take part.
    fn one(&mut self, path: &ComparisonPath<'_>, spelling: Spelling, lacks_slash: bool) -> bool {
        let octets = path.as_bytes();
        let subject = Subject::new(octets);
        let known = self.picked.len();
        let mut best = None;
        for entry in &self.paths.entries {
            if best.is_some_and(|best| best != entry.rank) {
                break;
            }
            let mut cost = 1;
            let matches = match &entry.pattern {
                None => !lacks_slash,
                Some(pattern) => {
                    let pattern = pattern.spelt(spelling);
                    let takes_part = !lacks_slash || tells_slash(pattern.as_text());
                    takes_part && octets.starts_with(pattern.head()) && {
                        if !pattern.is_prefix() {
                            cost += (octets.len() + pattern.text().len()) / SEARCHED;
                        }
                        pattern.matches(&subject)
                    }
                }
            };
            if matches {
                best = Some(entry.rank);
                self.picked.push(entry.number);
            }
            let Some(left) = self.work.checked_sub(cost) else {
                return false;
            };
            self.work = left;
        }
        if known > 0 {
            self.picked.sort_unstable();
            self.picked.dedup();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(patterns: &[&str]) -> RankedPaths {
        let compile = |pattern: &&str| {
            let pattern = PathPattern::of_octets(pattern.as_bytes());
            let length = pattern.as_ref().map_or(0, PathPattern::length);
            (u32::MAX - length as u32, pattern)
        };
        RankedPaths::new(patterns.iter().map(compile))
    }

    fn picked(paths: &RankedPaths, path: &str, is_guarded: bool) -> Vec<u32> {
        match paths.pick(&ComparisonPath::new(path.as_bytes()), is_guarded) {
            Applicable::These(picked) => picked,
            Applicable::All => panic!("too much work for {path}"),
        }
    }

    #[test]
    fn ours_all_patterns_of_the_best_rank_are_picked() {
        let paths = longest(&["", "/a", "/*b", "/a*", "/ab", "/ab"]);
        let cases: &[(&str, &[u32])] =
            &[("/", &[0]), ("/a", &[3]), ("/ab", &[2, 3, 4, 5]), ("/ac", &[3]), ("/cb", &[2])];
        for (path, expected) in cases {
            assert_eq!(picked(&paths, path, true), *expected, "{path}");
        }
        let matching = |path: &str| paths.matching(&ComparisonPath::new(path.as_bytes()));
        assert_eq!(matching("/ab"), [0, 1, 2, 3, 4, 5]);
        assert_eq!(matching("/cb"), [0, 2]);
        // An absent pattern is no pattern that can never match.
        let first = ["/a/", "/"].map(|it| PathPattern::of_octets(it.as_bytes()));
        let first = RankedPaths::new((0..).zip(first));
        assert_eq!(picked(&first, "/a/b", true), [0]);
        assert_eq!(picked(&first, "/b", true), [1]);
    }

    #[test]
    fn ours_what_each_variant_of_a_path_picks_is_united() {
        let paths = longest(&["/", "/private/", "/x/..", "/file$", "/%2fa"]);
        let cases: &[(&str, bool, &[u32])] = &[
            ("//private/x", true, &[0, 1]),
            ("//private/x", false, &[0]),
            ("/x/../private/y", true, &[1, 2]),
            ("/a/%2e%2e/file", true, &[0, 3]),
            ("/%2Fa", true, &[4]),
            ("//a", true, &[0]),
            ("/private%2Fx", true, &[0]),
            ("/private%252Fx", true, &[0]),
            ("/x%2F..%2Fprivate%2Fx", true, &[0]),
            ("/private/x", true, &[1]),
            ("/private%3Bx/y", true, &[0, 1]),
            ("/private%3Bx/y", false, &[0]),
        ];
        for (path, is_guarded, expected) in cases {
            assert_eq!(picked(&paths, path, *is_guarded), *expected, "{path}");
        }
    }

    #[test]
    fn ours_all_escapes_but_that_of_a_slash_are_decoded() {
        let paths = longest(&["/", "/a(1)/", "/b%28/", "/c%2F(", "/*+*"]);
        let cases: &[(&str, bool, &[u32])] = &[
            ("/a%281%29/x", true, &[0, 1]),
            ("/a%281%29/x", false, &[0]),
            ("/a%25281%2529/x", true, &[0, 1]),
            ("/a%281%29%2Fx", true, &[0]),
            ("/b(/x", true, &[0, 2]),
            ("/b%28/x", true, &[2]),
            ("/c%2F%28", true, &[0, 3]),
            ("/c/%28", true, &[0]),
            ("/C%2B%2B", true, &[0, 4]),
        ];
        for (path, is_guarded, expected) in cases {
            assert_eq!(picked(&paths, path, *is_guarded), *expected, "{path}");
        }
    }

    #[test]
    fn ours_too_much_work_picks_all() {
        let many: Vec<String> = (0..25_000).map(|n| format!("/*{n}")).collect();
        let paths = longest(&many.iter().map(String::as_str).collect::<Vec<_>>());
        let long = format!("/{}", "a".repeat(8_000));
        let pick = |path: &str| paths.pick(&ComparisonPath::new(path.as_bytes()), true);
        assert_eq!(pick("/a"), Applicable::These(Vec::new()));
        assert_eq!(pick(&long), Applicable::All);
        let variants = format!("/a%28b;{}", "x/".repeat(30_000));
        assert_eq!(
            longest(&["/a"]).pick(&ComparisonPath::new(variants.as_bytes()), true),
            Applicable::All
        );
    }
}
