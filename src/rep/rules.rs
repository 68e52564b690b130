//! The rules that hold for one crawler, compiled: the most specific match wins (RFC 9309 section
//! 2.2.2).
//!
//! Precedence does not depend on the path, so it is settled once: rules are ranked when they are
//! compiled (longest pattern first, allow before disallow, then file order), and the verdict is the
//! matching rule of lowest rank.
//!
//! To find it without asking every rule, rules are filed under their *head*, the plain text before
//! the first wildcard. The heads are sorted, and each knows the longest other head that begins it.
//! A binary search finds the one head from which all heads of a path can be reached, so a file of
//! ten thousand rules costs about what one of ten does.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::path::ComparisonPath;
use super::pattern::{Pairs, Pattern, Subject};

/// Whether a rule allows or disallows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleKind {
    /// `allow`
    Allow,
    /// `disallow`
    Disallow,
}

impl RuleKind {
    /// The field's name, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Disallow => "disallow",
        }
    }
}

impl fmt::Display for RuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A rule, as its author wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it allows or disallows.
    pub kind: RuleKind,
    /// The line, trimmed and without its comment; octets that are not UTF-8 are replaced.
    pub text: Box<str>,
    /// The line's number, from 1.
    pub line: u32,
    /// The group that holds it: the product token as the file writes it, or `*`.
    pub group: Arc<str>,
    /// The number of the user-agent line that names the group.
    pub group_line: u32,
}

/// The rules of one selection of groups, compiled. Owns all it needs.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Box<[Rule]>,
    /// By rank.
    ranked: Box<[Ranked]>,
    /// Sorted by head.
    nodes: Box<[Node]>,
    /// The patterns that have more than their head to match; each node has a range of them, best
    /// first.
    wild: Box<[Wild]>,
}

/// A rule that is still part of its file.
#[derive(Clone, Debug)]
pub(super) struct Source<'a> {
    pub(super) kind: RuleKind,
    /// The line, trimmed and without its comment.
    pub(super) content: &'a [u8],
    /// Its path.
    pub(super) value: &'a [u8],
    pub(super) line: u32,
    pub(super) group: Arc<str>,
    pub(super) group_line: u32,
}

impl Source<'_> {
    fn rule(&self) -> Rule {
        Rule {
            kind: self.kind,
            text: Box::from(String::from_utf8_lossy(self.content)),
            line: self.line,
            group: Arc::clone(&self.group),
            group_line: self.group_line,
        }
    }
}

#[derive(Clone, Debug)]
struct Ranked {
    pattern: Pattern,
    rule: u32,
}

#[derive(Clone, Copy, Debug)]
struct Wild {
    rank: u32,
    pairs: Pairs,
}

/// A head, and the patterns under it.
#[derive(Clone, Debug)]
struct Node {
    head: Box<[u8]>,
    /// The longest other head that begins this one.
    parent: Option<u32>,
    /// The best rank among patterns that match whatever begins with this head, or with one that
    /// begins it.
    best: u32,
    /// The range in [`Rules::wild`].
    wild: (u32, u32),
    /// The nearest head that begins this one and has a range that is not empty.
    wild_parent: Option<u32>,
    /// How many patterns the ranges of this and all such heads hold.
    wilds: u32,
}

/// The rank of no rule.
const NO_RANK: u32 = u32::MAX;

impl Rules {
    /// Compiles rules, in file order.
    pub(super) fn compile(sources: &[Source<'_>]) -> Self {
        let mut candidates = Vec::with_capacity(sources.len());
        for source in sources {
            candidates.extend(Pattern::new(source.value).map(|pattern| (pattern, source)));
            let folder = folder(source.kind, source.value);
            candidates.extend(
                folder
                    .and_then(|folder| Pattern::new(&folder))
                    .map(|pattern| (pattern, source)),
            );
        }
        // Stable: file order decides last.
        candidates.sort_by_key(|((_, length), source)| (Reverse(*length), source.kind));
        // Of patterns that match the same paths, only the first can ever decide.
        let mut seen = HashSet::with_capacity(candidates.len());
        let is_first: Vec<bool> = candidates
            .iter()
            .map(|((pattern, _), _)| seen.insert(pattern))
            .collect();
        let (mut rules, mut ranked) = (Vec::new(), Vec::new());
        for (((pattern, _), source), is_first) in candidates.into_iter().zip(is_first) {
            if is_first {
                ranked.push(Ranked {
                    pattern,
                    rule: index(rules.len()),
                });
                rules.push(source.rule());
            }
        }
        let (nodes, wild) = file(&ranked);
        Self {
            rules: rules.into(),
            ranked: ranked.into(),
            nodes,
            wild,
        }
    }

    /// The rule that decides about a path. `None`: no rule matches, so it is allowed. Robots.txt
    /// itself always is.
    pub fn verdict(&self, path: &ComparisonPath<'_>) -> Option<&Rule> {
        if path.is_robots_txt() {
            return None;
        }
        let path = path.as_bytes();
        let node = self.nearest(path)?;
        let mut best = node.best;
        // Worth their price only where there are several patterns to try.
        let pairs = (node.wilds > 4).then(|| Pairs::default().with(path));
        let subject = Subject::new(path);
        let mut next = Some(node);
        while let Some(node) = next {
            let (start, end) = node.wild;
            let wild = self
                .wild
                .get(start as usize..end as usize)
                .unwrap_or_default();
            let hit = wild
                .iter()
                .take_while(|wild| wild.rank < best)
                .filter(|wild| pairs.is_none_or(|pairs| wild.pairs.may_be_in(pairs)))
                .find(|wild| {
                    self.ranked
                        .get(wild.rank as usize)
                        .is_some_and(|ranked| ranked.pattern.matches(&subject))
                });
            if let Some(wild) = hit {
                best = wild.rank;
            }
            next = node.wild_parent.and_then(|at| self.nodes.get(at as usize));
        }
        let ranked = self.ranked.get(best as usize)?;
        self.rules.get(ranked.rule as usize)
    }

    /// The group that speaks: its product token as the file writes it, and the line that names it. Of several groups
    /// that were merged, the first. `None` where there are no rules.
    pub fn group(&self) -> Option<(&str, u32)> {
        let rule = self.rules.first()?;
        Some((&rule.group, rule.group_line))
    }

    /// Whether there is no rule that could match anything.
    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// Whether no rule can ever disallow a path.
    pub fn disallows_nothing(&self) -> bool {
        let is_disallow = |ranked: &Ranked| {
            self.rules
                .get(ranked.rule as usize)
                .is_some_and(|rule| rule.kind == RuleKind::Disallow)
        };
        !self.ranked.iter().any(is_disallow)
    }

    /// Heap used, in octets, about.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.rules.iter().map(|rule| rule.text.len()).sum();
        let patterns: usize = self
            .ranked
            .iter()
            .map(|ranked| ranked.pattern.bytes())
            .sum();
        let heads: usize = self.nodes.iter().map(|node| node.head.len()).sum();
        texts
            + patterns
            + heads
            + size_of_val(&*self.rules)
            + size_of_val(&*self.ranked)
            + size_of_val(&*self.nodes)
            + size_of_val(&*self.wild)
    }

    /// The node of the longest head with which `path` begins.
    fn nearest(&self, path: &[u8]) -> Option<&Node> {
        // Whatever stands between that head and the path in the order begins with that head too: so
        // the last head before the path is it, or leads to it.
        let after = self.nodes.partition_point(|node| *node.head <= *path);
        let mut node = self.nodes.get(after.checked_sub(1)?)?;
        let common = node
            .head
            .iter()
            .zip(path)
            .take_while(|(a, b)| a == b)
            .count();
        while node.head.len() > common {
            node = self.nodes.get(node.parent? as usize)?;
        }
        Some(node)
    }
}

/// Files ranked patterns under their heads.
fn file(ranked: &[Ranked]) -> (Box<[Node]>, Box<[Wild]>) {
    let mut order: Vec<u32> = (0..index(ranked.len())).collect();
    let pattern = |rank: &u32| ranked.get(*rank as usize).map(|ranked| &ranked.pattern);
    order.sort_by_key(|rank| (pattern(rank).map(Pattern::head), *rank));

    let mut nodes: Vec<Node> = Vec::new();
    let mut wild = Vec::new();
    // The heads that begin the current one, shortest first.
    let mut path: Vec<u32> = Vec::new();
    for rank in order {
        let Some(pattern) = pattern(&rank) else {
            continue;
        };
        let head = pattern.head();
        if nodes.last().is_none_or(|node| *node.head != *head) {
            while let Some(parent) = path.last().and_then(|at| nodes.get(*at as usize)) {
                if head.starts_with(&parent.head) {
                    break;
                }
                path.pop();
            }
            let parent = path.last().and_then(|at| nodes.get(*at as usize));
            let node = Node {
                head: Box::from(head),
                parent: path.last().copied(),
                best: parent.map_or(NO_RANK, |parent| parent.best),
                wild: (index(wild.len()), index(wild.len())),
                wilds: parent.map_or(0, |parent| parent.wilds),
                wild_parent: match parent {
                    Some(parent) if parent.wild.0 < parent.wild.1 => path.last().copied(),
                    Some(parent) => parent.wild_parent,
                    None => None,
                },
            };
            path.push(index(nodes.len()));
            nodes.push(node);
        }
        let Some(node) = nodes.last_mut() else {
            continue;
        };
        if pattern.is_prefix() {
            node.best = node.best.min(rank);
        } else {
            wild.push(Wild {
                rank,
                pairs: pattern.pairs(),
            });
            node.wild.1 = index(wild.len());
            node.wilds += 1;
        }
    }
    (nodes.into_boxed_slice(), wild.into_boxed_slice())
}

/// The folder that an `allow: …/index.html` allows too, exactly (Google).
fn folder(kind: RuleKind, value: &[u8]) -> Option<Vec<u8>> {
    let slash = value.iter().rposition(|octet| *octet == b'/')?;
    let (folder, name) = value.split_at_checked(slash + 1)?;
    (kind == RuleKind::Allow && name.starts_with(b"index.htm")).then(|| [folder, b"$"].concat())
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    // A failed unwrap is a failed test.
    use super::*;

    /// Rules of `a`llow and `d`isallow lines, numbered from 1.
    fn rules(lines: &[&str]) -> Rules {
        let sources: Vec<Source<'_>> = (1..)
            .zip(lines)
            .map(|(line, text)| Source {
                kind: if text.starts_with('a') {
                    RuleKind::Allow
                } else {
                    RuleKind::Disallow
                },
                content: text.as_bytes(),
                value: text.split_once(' ').unwrap().1.as_bytes(),
                line,
                group: Arc::from("*"),
                group_line: 0,
            })
            .collect();
        Rules::compile(&sources)
    }

    #[test]
    fn the_most_specific_rule_decides() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[&str], &str, Option<u32>)] = &[
            ("rfc9309: the longest", &["d /", "a /a", "d /a/b"], "/a/b", Some(3)),
            ("rfc9309: whatever its place", &["d /a/b", "a /a", "d /"], "/a/b", Some(1)),
            ("rfc9309: allow on a tie", &["d /a", "a /a"], "/a", Some(2)),
            ("google: allow on a tie of different patterns", &["d /*b", "a /ab"], "/ab", Some(2)),
            ("ours: the first of equals", &["d /a*", "d /*a"], "/aa", Some(1)),
            ("google: stars count", &["a /ab", "d /a*b"], "/ab", Some(2)),
            ("google: the end counts", &["a /a", "d /a$"], "/a", Some(2)),
            ("ours: length is that of the comparison form", &["a /aaaaa", "d /*\u{30c4}"], "/aaaaa%E3%83%84", Some(2)),
            ("rfc9309: none matches", &["d /a"], "/b", None),
            ("rfc9309: robots.txt is always allowed", &["d /", "d /robots.txt"], "/robots.txt", None),
            ("rfc9309: but not with a query", &["d /"], "/robots.txt?a", Some(1)),
            ("google: an empty rule does not decide", &["d /", "a "], "/", Some(1)),
            ("google: nor does one that begins with a name", &["d /", "a a*aaaa"], "/aaaa", Some(1)),
            ("google: an allowed index allows its folder", &["d /", "a /a/index.html"], "/a/", Some(2)),
            ("google: .htm too", &["d /", "a /a/index.htm"], "/a/", Some(2)),
            ("google: only the folder itself", &["d /", "a /a/index.html"], "/a/b", Some(1)),
            ("google: with the folder's length", &["d /a/*", "a /a/index.html", "d /*/*/"], "/a/", Some(2)),
            ("google: the index itself by its own length", &["d /a/index", "a /a/index.html"], "/a/index.html", Some(2)),
            ("google: not for disallow", &["a /", "d /a/index.html"], "/a/", Some(1)),
            ("google: the last slash counts", &["d /", "a /a/index.html/b"], "/a/", Some(1)),
        ];
        for (name, lines, path, expected) in cases {
            let rules = rules(lines);
            let decided = rules
                .verdict(&ComparisonPath::new(path.as_bytes()))
                .map(|rule| rule.line);
            assert_eq!(decided, *expected, "{name}");
        }
    }

    #[test]
    fn ours_ten_thousand_rules_find_theirs() {
        let lines: Vec<String> = (0..10_000)
            .map(|n| {
                format!(
                    "{} /dir{}/*page{n}$",
                    if n % 2 == 0 { "a" } else { "d" },
                    n % 97
                )
            })
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let rules = rules(&lines);
        for n in (0..10_000).step_by(61) {
            let path = format!("/dir{}/x/page{n}", n % 97);
            assert_eq!(
                rules
                    .verdict(&ComparisonPath::new(path.as_bytes()))
                    .unwrap()
                    .line as usize,
                n + 1
            );
            assert!(
                rules
                    .verdict(&ComparisonPath::new(format!("{path}x").as_bytes()))
                    .is_none()
            );
        }
    }

    #[test]
    fn heads_within_heads_are_all_found() {
        let rules = rules(&[
            "d /a/b/c*x",
            "d /a/b",
            "d /a*yyyyyyyy",
            "d *zzzzzzzzzzzz",
            "d /a/b/d",
            "d /a/bb",
        ]);
        let cases = [
            ("/a/b/cx", 1),
            ("/a/b/c", 2),
            ("/a/b/cyyyyyyyy", 3),
            ("/a/b/czzzzzzzzzzzz", 4),
            ("/zzzzzzzzzzzz", 4),
            ("/a/bzz", 2),
        ];
        for (path, expected) in cases {
            assert_eq!(
                rules
                    .verdict(&ComparisonPath::new(path.as_bytes()))
                    .unwrap()
                    .line,
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn what_rules_say_of_themselves() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[&str], bool, bool)] = &[
            // name, rules, is_empty, disallows_nothing
            ("none", &[], true, true),
            ("empty ones", &["d ", "a "], true, true),
            ("one that never matches", &["d a"], true, true),
            ("allow only", &["a /"], false, true),
            ("disallow", &["d /a", "a /"], false, false),
            ("the same both ways: allow wins", &["d /a", "a /a"], false, true),
        ];
        for (name, lines, is_empty, disallows_nothing) in cases {
            let rules = rules(lines);
            assert_eq!(
                (rules.is_empty(), rules.disallows_nothing()),
                (*is_empty, *disallows_nothing),
                "{name}"
            );
        }
        assert!(
            rules(&["d /a"; 1000]).bytes() < 1000,
            "repetitions cost nothing"
        );
    }
}
