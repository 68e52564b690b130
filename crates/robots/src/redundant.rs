//! Rules that an author could remove without changing any verdict.
//!
//! Only provable cases are reported. A rule is redundant if one of these holds in every set of merged groups that it
//! belongs to:
//!
//! - another rule matches exactly the same paths and takes precedence (it has more octets, or it is the `allow` of two
//!   rules with as many, or it stands earlier);
//! - the rule is an `allow`, and every `disallow` that could match one of its paths takes precedence anyway. Two
//!   patterns can match the same path only if the plain text in front of one begins that of the other.
//!
//! A file that would take more than [`MAX`] comparisons is not judged.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::explain::index_folder;
use super::pattern::Pattern;
use super::rule::RuleKind;

/// The limit on rules to examine, counted once for each set of merged groups that holds them. A file of 500 KiB with
/// few names for its groups has a fifth of it.
const MAX: usize = 1 << 18;

/// A group: the names that its user-agent lines give, in lower case (`*` for all), and its rules.
#[derive(Debug, Default)]
pub(super) struct Draft<'a> {
    pub(super) names: Vec<Vec<u8>>,
    pub(super) rules: Vec<DraftRule<'a>>,
}

/// A rule line.
#[derive(Clone, Copy, Debug)]
pub(super) struct DraftRule<'a> {
    pub(super) kind: RuleKind,
    /// The rule's path.
    pub(super) value: &'a [u8],
    /// The line, trimmed and without its comment.
    pub(super) content: &'a [u8],
    pub(super) line: u32,
}

/// The reason why a rule is redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redundancy {
    /// The rule of this line says the same.
    Duplicate(u32),
    /// The rule of this line says the opposite of the same paths and takes precedence.
    Shadowed(u32),
    /// No `disallow` that this `allow` could win against matches any of its paths.
    Unneeded,
}

/// Returns the numbers of the lines with redundant rules, in order, each with its reason.
pub(super) fn redundancies(groups: &[Draft<'_>]) -> Vec<(u32, Redundancy)> {
    let mut looks = 0_usize;
    let mut found: HashMap<u32, Option<Redundancy>> = HashMap::new();
    for set in merged(groups) {
        let rules: Vec<DraftRule<'_>> = set
            .iter()
            .filter_map(|at| groups.get(*at))
            .flat_map(|group| group.rules.iter().copied())
            .collect();
        looks = looks.saturating_add(rules.len());
        if looks > MAX {
            return Vec::new();
        }
        for (line, redundancy) in redundancies_of(&rules) {
            // A rule that is redundant for one crawler only is not redundant.
            let known = found.entry(line).or_insert(redundancy);
            *known = known.and(redundancy).and(*known);
        }
    }
    let mut found: Vec<(u32, Redundancy)> =
        found.into_iter().filter_map(|(line, redundancy)| Some((line, redundancy?))).collect();
    found.sort_unstable_by_key(|(line, _)| *line);
    found
}

/// Returns the sets of groups that are merged for some crawler, each once, in the order of the first name that asks for
/// it.
fn merged(groups: &[Draft<'_>]) -> Vec<Vec<usize>> {
    let mut by_name: HashMap<&[u8], usize> = HashMap::new();
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        for name in &group.names {
            let number = *by_name.entry(name).or_insert_with(|| {
                sets.push(Vec::new());
                sets.len() - 1
            });
            if let Some(set) = sets.get_mut(number)
                && set.last() != Some(&at)
            {
                set.push(at);
            }
        }
    }
    let mut seen = HashSet::new();
    sets.retain(|set| seen.insert(set.clone()));
    sets
}

/// One pattern of a rule.
struct Candidate {
    pattern: Pattern,
    octets: usize,
    kind: RuleKind,
    /// The rule's place in file order.
    rule: usize,
}

/// Returns, for each rule of a merged set that could match anything, whether it is redundant there.
fn redundancies_of(rules: &[DraftRule<'_>]) -> Vec<(u32, Option<Redundancy>)> {
    let mut candidates = Vec::with_capacity(rules.len());
    for (at, rule) in rules.iter().enumerate() {
        let folder = index_folder(rule.kind, rule.value);
        for value in [Some(rule.value), folder.as_deref()].into_iter().flatten() {
            if let Some((pattern, octets)) = Pattern::new(value) {
                candidates.push(Candidate { pattern, octets, kind: rule.kind, rule: at });
            }
        }
    }
    // Order of precedence, as in `Rules`. The sort is stable: file order decides last.
    candidates.sort_by_key(|candidate| (Reverse(candidate.octets), candidate.kind));

    // The result for each rule: redundant if all its patterns are.
    let mut judgements: Vec<Option<Judgement>> = vec![None; rules.len()];
    let mut judge = |rule: usize, redundancy: Option<Redundancy>| {
        if let Some(judgement) = judgements.get_mut(rule) {
            *judgement = Some(match (*judgement, redundancy) {
                (None, Some(redundancy)) => Judgement::Redundant(redundancy),
                // The first pattern is that of the rule's own path: its reason stays.
                (Some(Judgement::Redundant(redundancy)), Some(_)) => {
                    Judgement::Redundant(redundancy)
                }
                (_, None) | (Some(Judgement::Needed), _) => Judgement::Needed,
            });
        }
    };
    let mut first: HashMap<&Pattern, &Candidate> = HashMap::with_capacity(candidates.len());
    let mut needed = Vec::with_capacity(candidates.len());
    let mut shadowed = Vec::new();
    for (rank, candidate) in candidates.iter().enumerate() {
        let Some(winner) = first.get(&candidate.pattern) else {
            first.insert(&candidate.pattern, candidate);
            needed.push((rank, candidate));
            continue;
        };
        let line = rules.get(winner.rule).map_or(0, |rule| rule.line);
        let redundancy = match (winner.kind, candidate.kind) {
            (RuleKind::Allow, RuleKind::Disallow) => {
                shadowed.push((rank, candidate));
                Redundancy::Shadowed(line)
            }
            (RuleKind::Disallow, RuleKind::Allow) => Redundancy::Shadowed(line),
            _ => Redundancy::Duplicate(line),
        };
        judge(candidate.rule, Some(redundancy));
    }
    for (_, candidate) in needed.iter().filter(|(_, it)| it.kind == RuleKind::Disallow) {
        judge(candidate.rule, None);
    }
    // An allow that outranks a disallow is needed because of it, so these disallows count.
    let met: Vec<(usize, &Candidate)> = needed.into_iter().chain(shadowed).collect();
    for (candidate, is_unneeded) in unneeded(&met) {
        judge(candidate.rule, is_unneeded.then_some(Redundancy::Unneeded));
    }
    rules
        .iter()
        .zip(judgements)
        .filter_map(|(rule, judgement)| match judgement? {
            Judgement::Redundant(redundancy) => Some((rule.line, Some(redundancy))),
            Judgement::Needed => Some((rule.line, None)),
        })
        .collect()
}

#[derive(Clone, Copy)]
enum Judgement {
    Redundant(Redundancy),
    Needed,
}

/// A pattern's place in the tree of heads, in which a head stands below every head that begins it.
struct TreePosition<'a> {
    candidate: &'a Candidate,
    /// The pattern's rank, if it disallows.
    own: Option<usize>,
    /// The last rank of the disallow patterns above it, and of those at or below it.
    above: Option<usize>,
    below: Option<usize>,
}

/// Returns, for each `allow` of these candidates, whether it comes after every `disallow` that could match one of its
/// paths. If nothing is disallowed, no `allow` is unneeded: many authors write `Allow: /` to say exactly that.
fn unneeded<'a>(met: &[(usize, &'a Candidate)]) -> Vec<(&'a Candidate, bool)> {
    let is_disallow = |candidate: &Candidate| candidate.kind == RuleKind::Disallow;
    let restricts = met.iter().any(|(_, candidate)| is_disallow(candidate));
    let mut places: Vec<(usize, TreePosition<'a>)> = met
        .iter()
        .map(|(rank, candidate)| {
            let own = is_disallow(candidate).then_some(*rank);
            let place = TreePosition { candidate, own, above: None, below: own };
            (*rank, place)
        })
        .collect();
    places.sort_by(|(_, a), (_, b)| a.candidate.pattern.head().cmp(b.candidate.pattern.head()));
    // The heads that begin the current one, shortest first.
    let mut open: Vec<(usize, TreePosition<'a>)> = Vec::new();
    let mut found = Vec::new();
    let mut close = |open: &mut Vec<(usize, TreePosition<'a>)>| {
        let Some((rank, place)) = open.pop() else {
            return;
        };
        if let Some((_, parent)) = open.last_mut() {
            parent.below = parent.below.max(place.below);
        }
        // A greater rank comes later in precedence.
        let last = place.above.max(place.below);
        if place.own.is_none() {
            let is_unneeded = restricts && last.is_none_or(|last| last < rank);
            found.push((place.candidate, is_unneeded));
        }
    };
    for (rank, mut place) in places {
        let head = place.candidate.pattern.head();
        while let Some((_, parent)) = open.last() {
            if head.starts_with(parent.candidate.pattern.head()) {
                place.above = parent.above.max(parent.own);
                break;
            }
            close(&mut open);
        }
        open.push((rank, place));
    }
    while !open.is_empty() {
        close(&mut open);
    }
    found
}

#[cfg(test)]
mod tests {
    // A failed unwrap is a failed test; a table's type is spelt where the table is.
    #![allow(clippy::type_complexity, reason = "a case is one row, its columns a tuple")]
    use proptest::prelude::*;

    use super::*;
    use crate::{ComparisonPath, LintKind, ParseOptions, ProductToken, Robots};

    fn found(text: &str) -> Vec<(u32, Redundancy)> {
        let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
        let redundancy = |kind| match kind {
            LintKind::Duplicate { line } => Some(Redundancy::Duplicate(line)),
            LintKind::Shadowed { line } => Some(Redundancy::Shadowed(line)),
            LintKind::Unneeded => Some(Redundancy::Unneeded),
            _ => None,
        };
        robots.notes().iter().filter_map(|note| Some((note.line, redundancy(note.kind)?))).collect()
    }

    #[test]
    fn redundant_rules_are_found() {
        use Redundancy::{Duplicate, Shadowed, Unneeded};
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[(u32, Redundancy)])] = &[
            ("nothing", "disallow: /a\nallow: /a/b\nallow: /\ndisallow: /b", &[(4, Unneeded)]),
            ("the same rule twice", "disallow: /a\ndisallow: /a", &[(3, Duplicate(2))]),
            ("in another spelling", "disallow: /a\ndisallow: /%61", &[(3, Duplicate(2))]),
            ("a longer spelling takes precedence", "disallow: /a\ndisallow: /a*", &[(2, Duplicate(3))]),
            ("an allow of the same paths wins", "disallow: /a\nallow: /a", &[(2, Shadowed(3))]),
            ("an allow that outranks a disallow is needed", "disallow: /a\nallow: /a\ndisallow: /a/b", &[(2, Shadowed(3))]),
            ("a shorter allow of the same paths loses", "disallow: /a*\nallow: /a", &[(3, Shadowed(2))]),
            ("an allow without a disallow above it", "disallow: /a\nallow: /b", &[(3, Unneeded)]),
            ("an allow after every disallow that it meets", "disallow: /a/b\nallow: /a", &[(3, Unneeded)]),
            ("an allow that may meet a wildcard", "disallow: /*b\nallow: /acc", &[]),
            ("an allow after a longer wildcard", "disallow: /*bbbb\nallow: /a", &[(3, Unneeded)]),
            ("a lone allow says that nothing is disallowed", "allow: /", &[]),
            ("two allows for different paths", "disallow: /a\nallow: /a/index.html\nallow: /a/index.html*", &[]),
            ("an allow of a folder that another rule allows", "disallow: /a\nallow: /a/index.html\nallow: /a/$", &[(4, Duplicate(3))]),
            ("a rule that matches nothing has a note of its own", "disallow: a\ndisallow: a\ndisallow:\ndisallow:", &[]),
        ];
        for (name, rules, expected) in cases {
            assert_eq!(found(&format!("user-agent: *\n{rules}\n")), *expected, "{name}");
        }
    }

    #[test]
    fn a_rule_is_redundant_only_if_it_is_for_every_crawler() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[(u32, Redundancy)])] = &[
            ("merged groups are one", "user-agent: a\ndisallow: /x\nuser-agent: A\ndisallow: /x\n", &[(4, Redundancy::Duplicate(2))]),
            ("others' groups do not count", "user-agent: a\ndisallow: /x\nuser-agent: b\ndisallow: /x\n", &[]),
            ("redundant for one of two", "user-agent: a\nuser-agent: b\nallow: /x\nuser-agent: a\ndisallow: /x/y\nuser-agent: b\ndisallow: /\n", &[]),
            ("redundant for both", "user-agent: a\nuser-agent: b\nallow: /x\nuser-agent: a\ndisallow: /x/y\nuser-agent: b\ndisallow: /x/z\n", &[(3, Redundancy::Unneeded)]),
            ("a list of a name and a star is for two crawlers", "user-agent: a\nuser-agent: *\ndisallow: /x\nuser-agent: a\nallow: /x\n", &[]),
            ("one name for two kinds of readers is two names", "user-agent: a\ndisallow: /x\nuser-agent: a1\ndisallow: /x\n", &[]),
            ("a group without a name is for no crawler", "user-agent:\ndisallow: /x\ndisallow: /x\n", &[]),
        ];
        for (name, text, expected) in cases {
            assert_eq!(found(text), *expected, "{name}");
        }
    }

    #[test]
    fn a_file_with_too_many_comparisons_is_not_judged() {
        let rules: String = (0..600).map(|n| format!("disallow: /{n}\ndisallow: /{n}\n")).collect();
        let text = format!("user-agent: *\n{rules}");
        assert_eq!(found(&text).len(), 600);
        let names = || (0..500).map(|n| format!("user-agent: x{n}\n"));
        let groups: String = names().map(|name| format!("{name}disallow: /\n")).collect();
        let list: String = names().collect();
        // 500 sets of 1,201 rules each.
        assert_eq!(found(&format!("{groups}{list}{rules}")).len(), 0);
    }

    fn a_line() -> impl Strategy<Value = String> {
        let path = "[/*]{1,2}[/*$ab%2A4]{0,5}(/index\\.html?)?";
        prop_oneof![
            2 => "(a|b|a1|\\*)".prop_map(|name| format!("user-agent: {name}")),
            3 => path.prop_map(|path| format!("allow: {path}")),
            4 => path.prop_map(|path| format!("disallow: {path}")),
        ]
    }

    proptest! {
        /// Removes all redundant rules at once: every verdict stays.
        #[test]
        fn removing_redundant_rules_changes_no_verdict(
            mut lines in prop::collection::vec(a_line(), 0..16),
            paths in prop::collection::vec("/[/*$ab%24]{0,8}(/|/index\\.html)?", 1..12),
        ) {
            let before = lines.join("\n");
            let redundancy = found(&before);
            for (line, _) in &redundancy {
                // An empty rule keeps the line's effect on the groups.
                lines[*line as usize - 1] = "allow:".to_owned();
            }
            let after = lines.join("\n");
            let parse = |text: &str| Robots::parse(text.as_bytes(), ParseOptions::default());
            let (before, after) = (parse(&before), parse(&after));
            for token in ["a", "b", "a1", "c"] {
                let chain = [ProductToken::new(token).unwrap()];
                let verdicts = |robots: &Robots| {
                    let rules = robots.rules(robots.selection(&chain));
                    let kind = |path: &String| {
                        let rule = rules.verdict(&ComparisonPath::new(path.as_bytes()));
                        rule.is_some_and(|rule| rule.kind == RuleKind::Disallow)
                    };
                    paths.iter().map(kind).collect::<Vec<_>>()
                };
                prop_assert_eq!(verdicts(&before), verdicts(&after), "{} {:?} {:?}", token, redundancy, &lines);
            }
        }
    }
}
