//! The full explanation of a verdict for a chain of product tokens and a path: the tokens asked for, the groups found,
//! and the reasons why rules lost.
//!
//! [`Rules::verdict`](super::Rules::verdict) is fast and keeps only the deciding rule. This module answers the same
//! question slowly, rule by rule, for a person who wants to see the reasons. A property test checks that the two agree.

use std::cmp::Reverse;
use std::fmt;
use std::slice;

use super::guard::{Comparison, PathVariants, Punctuation, Spelling, decoded_value, latin1_value};
use super::line::is_space;
use super::parse::Robots;
use super::path::ComparisonPath;
use super::pattern::{Pattern, Subject};
use super::rule::Selection;
use super::rule::{Rule, RuleKind};
use super::token::{ProductToken, narrow, wide};

/// The reasons why a path is allowed or disallowed to a crawler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The tokens of the chain, in its order, each with its standing.
    pub chain: Vec<(ProductToken, TokenRole)>,
    /// The groups that apply, in file order; several are merged into one (RFC 9309 section 2.2.1).
    pub groups: Vec<ApplicableGroup>,
    /// The verdict on the path as written.
    pub written: Judged,
    /// The verdicts on the paths that the origin server may read it as ([`PathVariants`](super::PathVariants)); the
    /// path guard denies if one of them is disallowed.
    pub readings: Vec<Judged>,
    /// True if `readings` is complete. Otherwise the path guard denies if anything is disallowed at all.
    pub are_all_readings: bool,
}

/// The role of a token of the chain in the selection of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRole {
    /// A group names the token, and none names an earlier one: its groups apply.
    Named,
    /// No group names it.
    NotNamed,
    /// An earlier token is named, so this one does not matter.
    NotAsked,
}

/// A group that applies to the crawler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicableGroup {
    /// The crawler's name as the file writes it, or `*`.
    pub name: Box<str>,
    /// The number of the user-agent line that names it, from 1.
    pub line: u32,
    /// The values of all user-agent lines of the group, lossily decoded, and their line numbers.
    pub user_agents: Vec<(Box<str>, u32)>,
    /// The number of the group's allow and disallow lines.
    pub rules: usize,
}

/// The verdict on one path, with every rule that took part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The path and query, as written or as the server reads them.
    pub path: Box<[u8]>,
    /// Its comparison form.
    pub form: Box<[u8]>,
    /// Every rule that matches, in order of precedence: the first decides, unless the path is robots.txt itself.
    pub matches: Vec<Match>,
    /// The reason for the verdict.
    pub why: VerdictReason,
}

impl Explanation {
    /// Tells whether a group names a token of the chain.
    pub fn is_named(&self) -> bool {
        let mut roles = self.chain.iter().map(|(_, role)| role);
        roles.any(|role| *role == TokenRole::Named)
    }

    /// Returns the line that decides: that of the first disallowed reading, if there is one.
    pub fn deciding(&self) -> Option<u32> {
        let mut all = std::iter::once(&self.written).chain(&self.readings);
        let judged = all.find(|judged| judged.is_disallowed());
        let rule = judged.unwrap_or(&self.written).rule();
        rule.map(|rule| rule.line)
    }
}

impl Judged {
    /// Returns the form that is compared, where it differs from the path.
    pub fn other_form(&self) -> Option<&[u8]> {
        let path = self.path.split(|octet| *octet == b'#').next();
        Some(&*self.form).filter(|form| path != Some(form))
    }

    /// Returns the deciding rule; `None` if no rule decides, which allows the path.
    pub fn rule(&self) -> Option<&Rule> {
        match self.why {
            VerdictReason::RobotsTxt => None,
            _ => self.matches.first().map(|found| &found.rule),
        }
    }

    /// Tells whether the path is disallowed.
    pub fn is_disallowed(&self) -> bool {
        self.rule().is_some_and(|rule| rule.kind == RuleKind::Disallow)
    }
}

/// A rule that matches a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The rule.
    pub rule: Rule,
    /// The pattern that matches, as written and lossily decoded.
    pub pattern: Box<str>,
    /// Its length for precedence: octets in comparison form, each `*` and `$` counted.
    pub octets: usize,
    /// The part of the rule that matches.
    pub by: MatchedBy,
}

/// The part of a rule that matches a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedBy {
    /// The rule's path.
    Path,
    /// The folder of the rule's path: an `allow` of `…/index.htm…` allows the folder itself, too (Google).
    Folder,
}

/// The reason for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictReason {
    /// The path is robots.txt itself, which no rule can disallow (RFC 9309 section 2.2.2).
    RobotsTxt,
    /// No group names the crawler, and none names `*`.
    NoGroup,
    /// The groups that apply hold no rule that could match anything.
    NoRules,
    /// No rule matches.
    NoMatch,
    /// One rule matches.
    Only,
    /// The deciding rule has more octets than all others that match.
    Longest,
    /// An `allow` and a `disallow` of the same length match, and `allow` wins.
    AllowOnTie,
    /// Rules that say the same have the same length; the first in the file is named.
    First,
}

impl VerdictReason {
    /// Returns a stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RobotsTxt => "robots_txt",
            Self::NoGroup => "no_group",
            Self::NoRules => "no_rules",
            Self::NoMatch => "no_match",
            Self::Only => "only",
            Self::Longest => "longest",
            Self::AllowOnTie => "allow_on_tie",
            Self::First => "first",
        }
    }
}

impl fmt::Display for VerdictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RobotsTxt => "robots.txt itself is always allowed",
            Self::NoGroup => "no group speaks to this agent, and none to `*`",
            Self::NoRules => "the group holds no rule that could match anything",
            Self::NoMatch => "no rule matches",
            Self::Only => "the only rule that matches",
            Self::Longest => "the longest pattern that matches",
            Self::AllowOnTie => "of the longest patterns that match, allow wins",
            Self::First => "of the longest patterns that match, the first in the file",
        })
    }
}

impl Robots {
    /// Explains why a crawler with this chain of product tokens, most specific first, may or may not fetch a path.
    ///
    /// ```
    /// use crawlgate_robots::{ParseOptions, ProductToken, Robots, VerdictReason};
    ///
    /// let text = b"User-agent: *\nDisallow: /a\nAllow: /a/b\n";
    /// let robots = Robots::parse(text, ParseOptions::default());
    /// let explained = robots.explain(&[ProductToken::new("examplebot").unwrap()], b"/a/b/c");
    ///
    /// assert_eq!((explained.groups[0].line, explained.written.why), (1, VerdictReason::Longest));
    /// let matches: Vec<_> = explained.written.matches.iter().map(|it| (it.rule.line, it.octets)).collect();
    /// assert_eq!(matches, [(3, 4), (2, 2)]);
    /// ```
    pub fn explain(&self, chain: &[ProductToken], path_and_query: &[u8]) -> Explanation {
        let selection = self.selection(chain);
        let is_named = |token: &ProductToken| {
            matches!(self.selection(slice::from_ref(token)), Selection::Token(_))
        };
        let named = chain.iter().position(is_named);
        let standing = |at: usize| match named {
            Some(named) if at == named => TokenRole::Named,
            Some(named) if at > named => TokenRole::NotAsked,
            _ => TokenRole::NotNamed,
        };
        let path = ComparisonPath::new(path_and_query);
        let patterns = self.patterns(selection);
        let disallows =
            patterns.iter().filter(|candidate| candidate.found.rule.kind == RuleKind::Disallow);
        let tested = disallows.fold(Punctuation::default(), |all, candidate| {
            all.union(Punctuation::tested_by(candidate.found.pattern.as_bytes()))
        });
        let has_escapes = patterns.iter().any(|candidate| !candidate.decoded.is_empty());
        let variants = PathVariants::of(&path);
        let decoded = variants.decoded(tested);
        let mut all = vec![(variants, decoded)];
        all.extend(PathVariants::keeping_some(&path, decoded));
        let groups = match named.and_then(|at| chain.get(at)) {
            Some(token) => self.speakers(|value| {
                let names = [narrow(value), wide(value)];
                let is_it = |name: &&[u8]| name.eq_ignore_ascii_case(token.as_str().as_bytes());
                names.into_iter().find(is_it)
            }),
            None => self.speakers(|value| is_global(value).then_some(b"*".as_slice())),
        };
        Explanation {
            chain: chain
                .iter()
                .enumerate()
                .map(|(at, token)| (token.clone(), standing(at)))
                .collect(),
            written: judge(
                path_and_query,
                &path,
                Spelling::Written,
                &patterns,
                !groups.is_empty(),
                |_, pattern| is_match(&path, pattern),
            ),
            readings: judge_readings(&all, has_escapes, |comparison, decoded| {
                let Comparison { path, spelling, .. } = comparison;
                let with_query = comparison.with_query();
                let is_match = |kind, pattern: &Pattern| match kind {
                    RuleKind::Allow => {
                        is_match(path, pattern)
                            || with_query.as_ref().is_some_and(|path| is_match(path, pattern))
                    }
                    RuleKind::Disallow => {
                        is_match(path, pattern) && comparison.admits(decoded, pattern.as_text())
                    }
                };
                let octets = path.as_bytes();
                let is_spoken_to = !groups.is_empty();
                judge(octets, path, *spelling, &patterns, is_spoken_to, is_match)
            }),
            are_all_readings: all.iter().all(|(variants, _)| variants.is_complete()),
            groups,
        }
    }

    /// Returns the patterns of the selected groups, in file order; the pattern of an index's folder follows that of its
    /// rule.
    fn patterns(&self, selection: Selection) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for source in self.sources(selection) {
            let rule = source.rule();
            let folder = index_folder(source.kind, source.value);
            let patterns =
                [(Some(source.value), MatchedBy::Path), (folder.as_deref(), MatchedBy::Folder)];
            for (value, by) in patterns {
                let compiled = value.and_then(|value| Some((value, Pattern::new(value)?)));
                if let Some((value, (pattern, octets))) = compiled {
                    candidates.push(Candidate {
                        pattern,
                        decoded: decoded_patterns(value),
                        found: Match {
                            rule: rule.clone(),
                            pattern: Box::from(String::from_utf8_lossy(value)),
                            octets,
                            by,
                        },
                    });
                }
            }
        }
        candidates
    }

    /// Returns the groups with a user-agent line that names the crawler.
    fn speakers<'a>(&'a self, name: impl Fn(&'a [u8]) -> Option<&'a [u8]>) -> Vec<ApplicableGroup> {
        let lossy = |octets: &[u8]| Box::from(String::from_utf8_lossy(octets));
        self.groups()
            .filter_map(|group| {
                let (spoken, line) =
                    group.user_agents().find_map(|(value, line)| Some((name(value)?, line)))?;
                Some(ApplicableGroup {
                    name: lossy(spoken),
                    line,
                    user_agents: group
                        .user_agents()
                        .map(|(value, line)| (lossy(value), line))
                        .collect(),
                    rules: group.rules().count(),
                })
            })
            .collect()
    }
}

/// Returns the verdicts on the readings. A reading that is compared with both spellings of the rules appears once: with
/// the verdict that disallows it, if there is one.
fn judge_readings(
    all: &[(PathVariants<'_>, Punctuation)],
    has_escapes: bool,
    judge: impl Fn(&Comparison<'_>, Punctuation) -> Judged,
) -> Vec<Judged> {
    let mut readings: Vec<Judged> = Vec::new();
    for (variants, decoded) in all {
        let mut others = variants.paths().peekable();
        for comparison in variants.comparisons(has_escapes) {
            let judged = judge(&comparison, *decoded);
            let form = comparison.path.as_bytes();
            let is_next = others.next_if(|next| **next == *form).is_some();
            match readings.iter_mut().find(|known| *known.form == *form) {
                Some(known) if known.is_disallowed() || !judged.is_disallowed() => {}
                Some(known) => *known = judged,
                // Otherwise it is the path as written, compared with decoded rules.
                None if is_next || judged.is_disallowed() => readings.push(judged),
                None => {}
            }
        }
    }
    readings
}

/// A pattern, and the match to report if it matches.
struct Candidate {
    pattern: Pattern,
    /// The pattern with its escapes decoded and read as ISO-8859-1, with its new length, if that changes it.
    decoded: Vec<(Pattern, usize)>,
    found: Match,
}

fn judge(
    path_and_query: &[u8],
    path: &ComparisonPath<'_>,
    spelling: Spelling,
    candidates: &[Candidate],
    is_spoken_to: bool,
    is_match: impl Fn(RuleKind, &Pattern) -> bool,
) -> Judged {
    let form = path.as_bytes();
    let mut matches: Vec<Match> = Vec::new();
    for candidate in candidates {
        let found = &candidate.found;
        let written = [(&candidate.pattern, found.octets)].into_iter();
        let decoded = candidate.decoded.iter().map(|(pattern, octets)| (pattern, *octets));
        let mut matching = match spelling {
            Spelling::Decoded if !candidate.decoded.is_empty() => decoded.collect::<Vec<_>>(),
            _ => written.collect(),
        };
        matching.retain(|(pattern, _)| is_match(found.rule.kind, pattern));
        let is_listed = matches.last().is_some_and(|last| last.rule.line == found.rule.line);
        let longest = matching.into_iter().map(|(_, octets)| octets).max();
        if let Some(octets) = longest.filter(|_| !is_listed) {
            matches.push(Match { octets, ..found.clone() });
        }
    }
    // The sort is stable: file order decides last.
    matches.sort_by_key(|found| (Reverse(found.octets), found.rule.kind));
    let why = if path.is_robots_txt() {
        VerdictReason::RobotsTxt
    } else if !is_spoken_to {
        VerdictReason::NoGroup
    } else if candidates.is_empty() {
        VerdictReason::NoRules
    } else {
        why(&matches)
    };
    Judged { path: Box::from(path_and_query), form: Box::from(form), matches, why }
}

/// Returns the patterns that stand for a value among decoded rules; none if it stands as it is written.
fn decoded_patterns(value: &[u8]) -> Vec<(Pattern, usize)> {
    let decoded = decoded_value(value, Punctuation::default());
    let latin1 = latin1_value(value);
    let of_latin1 = latin1.map(|it| decoded_value(&it, Punctuation::default()).unwrap_or(it));
    let itself = of_latin1.as_ref().and_then(|_| Pattern::new(value));
    let decoded = match decoded {
        Some(decoded) => Pattern::new(&decoded),
        None => itself,
    };
    let of_latin1 = of_latin1.and_then(|value| Pattern::new(&value));
    decoded.into_iter().chain(of_latin1).collect()
}

/// Tells whether a pattern matches a path.
fn is_match(path: &ComparisonPath<'_>, pattern: &Pattern) -> bool {
    let form = path.as_bytes();
    form.starts_with(pattern.head()) && pattern.matches(&Subject::new(form))
}

/// Returns the reason why the first of these matches, in order of precedence, decides.
fn why(matches: &[Match]) -> VerdictReason {
    let Some((first, others)) = matches.split_first() else {
        return VerdictReason::NoMatch;
    };
    let mut equals = others.iter().take_while(|other| other.octets == first.octets).peekable();
    if others.is_empty() {
        VerdictReason::Only
    } else if equals.peek().is_none() {
        VerdictReason::Longest
    } else if equals.any(|equal| equal.rule.kind != first.rule.kind) {
        VerdictReason::AllowOnTie
    } else {
        VerdictReason::First
    }
}

/// Tells whether a user-agent line's value is `*`, or `*` followed by white space and more (Google).
pub(super) fn is_global(value: &[u8]) -> bool {
    matches!(value, [b'*', after @ ..] if after.first().is_none_or(|octet| is_space(*octet)))
}

/// Returns the folder that an `allow: …/index.html` allows too, exactly (Google), as a pattern.
pub(super) fn index_folder(kind: RuleKind, value: &[u8]) -> Option<Vec<u8>> {
    let slash = value.iter().rposition(|octet| *octet == b'/')?;
    let (folder, name) = value.split_at_checked(slash + 1)?;
    (kind == RuleKind::Allow && name.starts_with(b"index.htm")).then(|| [folder, b"$"].concat())
}

#[cfg(test)]
mod tests;
