//! The compiled rules for one crawler: the most specific match decides (RFC 9309 section 2.2.2).
//!
//! Each pattern is stored where the paths that it could match will look: by its first octets (`prefix_index`) if it has
//! no wildcards, otherwise by three octets that such paths must hold (`trigram_index`). Precedence does not depend on
//! the path: the longest matching pattern first, then allow before disallow, then file order. Patterns that cannot win
//! any more are not tried.
//!
//! The rules keep the file's text and borrow their patterns from it, so they are small. The line, number and group of a
//! deciding rule are found again in the text when a [`Finding`] is asked for them; most are not.

use std::cell::OnceCell;
use std::ops::Deref;
use std::sync::Arc;

use memchr::{memchr, memrchr};

use super::compiled::{CompiledPattern, MatchMode, Texts};
use super::guard::{PathVariants, Punctuation, Spelling, decoded_value};
use super::key::Key;
use super::parse::File;
use super::path::ComparisonPath;
use super::pattern::{Pattern, Value};
use super::prefix_index::PrefixIndex;
use super::rule::Selection;
use super::rule::{Rule, RuleKind, Source, rule_kind};
use super::trigram_index::TrigramIndex;

/// The compiled rules of one selection of groups. They share the file's text and own all other data.
#[derive(Clone, Debug)]
pub struct Rules {
    file: Arc<File>,
    selection: Selection,
    key: Key,
    written: Index,
    /// The patterns with their escapes decoded, if decoding changes any.
    decoded: Option<Box<Index>>,
    /// The punctuation that at least one disallow tests for.
    tested: Punctuation,
}

/// An index of patterns in one spelling.
#[derive(Clone, Debug)]
struct Index {
    arena: Box<[u8]>,
    prefix_index: PrefixIndex,
    trigram_index: TrigramIndex,
}

/// The result of the path guard.
#[derive(Debug)]
pub enum Guarded<'a> {
    /// No variant of the path is disallowed.
    Clear,
    /// A variant is disallowed.
    Disallowed {
        /// The variant, in comparison form.
        reading: Box<[u8]>,
        /// The rule that disallows it.
        rule: Finding<'a>,
    },
    /// The path has more variants than the guard examines, and the rules disallow something.
    TooMany,
}

/// The rule that decides about a path. Its kind is known; the rest of [`Rule`] is read from the file at first use.
#[derive(Debug)]
pub struct Finding<'a> {
    /// The rule's kind.
    pub kind: RuleKind,
    rules: &'a Rules,
    /// The place at which the rule's value begins.
    place: u32,
    rule: OnceCell<Rule>,
}

impl Finding<'_> {
    /// Reads the rule from the file.
    pub fn into_rule(self) -> Rule {
        let Self {
            rules, place, rule, ..
        } = self;
        rule.into_inner().unwrap_or_else(|| rules.rule(place))
    }
}

impl Deref for Finding<'_> {
    type Target = Rule;

    fn deref(&self) -> &Rule {
        self.rule.get_or_init(|| self.rules.rule(self.place))
    }
}

impl Rules {
    /// Compiles the rules of the selected groups.
    pub(super) fn compile(file: &Arc<File>, selection: Selection) -> Self {
        let mut values = Vec::new();
        if let Some(name) = file.name(selection) {
            for group in file.groups() {
                if file.speaker(group.clone(), name).is_none() {
                    continue;
                }
                for entry in file.entries(group) {
                    if let Some(kind) = rule_kind(*entry) {
                        let value = Value::read(file.from(entry.place()));
                        values.push((kind, entry.place(), value));
                    }
                }
            }
        }
        let key = Key::new();
        let has_escapes = |(_, _, value): &(_, _, Value<'_>)| decoded(*value).is_some();
        let has_decoded = values.iter().any(has_escapes);
        let disallows = values
            .iter()
            .filter(|(kind, _, value)| *kind == RuleKind::Disallow && value.has_star);
        let tested = disallows.fold(Punctuation::default(), |all, (_, _, value)| {
            all.and(Punctuation::tested_by(value.octets))
        });
        Self {
            written: Index::new(&values, Spelling::Written, file, key),
            decoded: has_decoded
                .then(|| Box::new(Index::new(&values, Spelling::Decoded, file, key))),
            file: Arc::clone(file),
            selection,
            key,
            tested,
        }
    }

    /// Returns the rule that decides about a path. `None` if no rule matches, which allows the path; robots.txt itself
    /// is always allowed.
    pub fn verdict(&self, path: &ComparisonPath<'_>) -> Option<Finding<'_>> {
        self.verdict_of(path, Spelling::Written, |_, _| true)
    }

    /// Judges the other variants of a path that is allowed as written.
    pub fn guard(&self, path: &ComparisonPath<'_>) -> Guarded<'_> {
        let variants = PathVariants::of(path);
        // True for almost every path.
        if variants.are_none() && self.decoded.is_none() {
            return Guarded::Clear;
        }
        self.guard_variants(path, &variants)
    }

    /// Judges a path that has other variants or that rules in the decoded spelling may match.
    fn guard_variants(
        &self,
        path: &ComparisonPath<'_>,
        variants: &PathVariants<'_>,
    ) -> Guarded<'_> {
        let decoded = variants.decoded(self.tested);
        let mut is_complete = variants.is_complete();
        if let Some(disallowed) = self.disallowed(variants, decoded) {
            return disallowed;
        }
        if !decoded.is_empty() {
            for (variants, decoded) in PathVariants::keeping_some(path, decoded) {
                if let Some(disallowed) = self.disallowed(&variants, decoded) {
                    return disallowed;
                }
                is_complete &= variants.is_complete();
            }
        }
        if is_complete || self.disallows_nothing() {
            Guarded::Clear
        } else {
            Guarded::TooMany
        }
    }

    /// Returns the first variant that is disallowed, given the punctuation that some variants decode.
    fn disallowed(&self, variants: &PathVariants<'_>, decoded: Punctuation) -> Option<Guarded<'_>> {
        for question in variants.questions(self.decoded.is_some()) {
            let admits = |compiled: CompiledPattern, texts: Texts<'_>| {
                compiled.kind() == RuleKind::Allow
                    || question.admits(decoded, compiled.text(texts), compiled.is_anchored())
            };
            if let Some(rule) = self.verdict_of(&question.path, question.spelling, admits)
                && rule.kind == RuleKind::Disallow
            {
                return Some(Guarded::Disallowed {
                    reading: Box::from(question.path.as_bytes()),
                    rule,
                });
            }
        }
        None
    }

    fn verdict_of(
        &self,
        path: &ComparisonPath<'_>,
        spelling: Spelling,
        admits: impl Fn(CompiledPattern, Texts<'_>) -> bool,
    ) -> Option<Finding<'_>> {
        if path.is_robots_txt() {
            return None;
        }
        let index = match &self.decoded {
            Some(decoded) if spelling == Spelling::Decoded => decoded,
            _ => &self.written,
        };
        let path = path.as_bytes();
        let texts = index.texts(&self.file);
        let admits = |compiled| admits(compiled, texts);
        let best = index.prefix_index.best(path, texts, self.key, admits);
        let best = index
            .trigram_index
            .best(path, texts, self.key, best, admits)?;
        Some(Finding {
            kind: best.kind(),
            rules: self,
            place: best.place(texts),
            rule: OnceCell::new(),
        })
    }

    /// Returns the group that applies: its product token as the file writes it, and the number of the line that names
    /// it. Of several merged groups, the first. `None` without any rule.
    pub fn group(&self) -> Option<(&str, u32)> {
        let places = self.patterns().map(|compiled| compiled.place(self.texts()));
        let first = places.min()?;
        let (entry, name) = self.speaker(self.file.entry_at(first)?)?;
        Some((
            str::from_utf8(name).unwrap_or_default(),
            self.file.number(entry),
        ))
    }

    /// Tells whether the rules hold no pattern that could match anything.
    pub fn is_empty(&self) -> bool {
        self.written.prefix_index.is_empty() && self.written.trigram_index.is_empty()
    }

    /// Tells whether no rule can ever disallow a path.
    pub fn disallows_nothing(&self) -> bool {
        self.patterns()
            .all(|compiled| compiled.kind() == RuleKind::Allow)
    }

    /// Returns the octets of heap used, without the file's text.
    pub fn bytes(&self) -> usize {
        let decoded = self.decoded.as_ref();
        self.written.bytes() + decoded.map_or(0, |index| size_of::<Index>() + index.bytes())
    }

    fn texts(&self) -> Texts<'_> {
        self.written.texts(&self.file)
    }

    /// Returns the patterns, without those that can never decide because an equal one takes precedence.
    fn patterns(&self) -> impl Iterator<Item = CompiledPattern> {
        let texts = self.texts();
        let plain = self.written.prefix_index.distinct(texts, self.key);
        plain.chain(self.written.trigram_index.distinct(texts, self.key))
    }

    /// Returns the user-agent line through which a rule applies, and the name on it.
    fn speaker(&self, entry: usize) -> Option<(usize, &[u8])> {
        let name = self.file.name(self.selection)?;
        self.file.speaker(self.file.group_of(entry)?, name)
    }

    /// Returns the rule with its value at `place`.
    fn rule(&self, place: u32) -> Rule {
        let entry = self.file.entry_at(place);
        let kind = entry.and_then(|entry| rule_kind(self.file.entry(entry)?));
        let speaker = entry.and_then(|entry| self.speaker(entry));
        let source = Source {
            kind: kind.unwrap_or(RuleKind::Disallow),
            content: self.file.line(place).content,
            value: &[],
            line: entry.map_or(0, |entry| self.file.number(entry)),
            group: Arc::from(speaker.map_or("*".into(), |(_, name)| String::from_utf8_lossy(name))),
            group_line: speaker.map_or(0, |(entry, _)| self.file.number(entry)),
        };
        source.rule()
    }
}

impl Index {
    fn new(
        values: &[(RuleKind, u32, Value<'_>)],
        spelling: Spelling,
        file: &File,
        key: Key,
    ) -> Self {
        let mut patterns = Patterns::default();
        for (kind, place, value) in values {
            match decoded(*value).filter(|_| spelling == Spelling::Decoded) {
                Some(decoded) => patterns.add_decoded(*kind, *place, &decoded),
                None => patterns.add(*kind, *place, *value),
            }
        }
        let arena = patterns.arena.into_boxed_slice();
        let texts = Texts {
            file: file.text(),
            arena: &arena,
        };
        Self {
            prefix_index: PrefixIndex::new(&patterns.plain, texts, key),
            trigram_index: TrigramIndex::new(&patterns.wild, texts, key),
            arena,
        }
    }

    fn texts<'a>(&'a self, file: &'a File) -> Texts<'a> {
        Texts {
            file: file.text(),
            arena: &self.arena,
        }
    }

    fn bytes(&self) -> usize {
        self.arena.len() + self.prefix_index.bytes() + self.trigram_index.bytes()
    }
}

/// Patterns without wildcards, patterns with wildcards, and texts that differ from the file's.
#[derive(Default)]
struct Patterns {
    plain: Vec<CompiledPattern>,
    wild: Vec<CompiledPattern>,
    arena: Vec<u8>,
}

impl Patterns {
    /// Adds the patterns of a rule line.
    fn add(&mut self, kind: RuleKind, place: u32, value: Value<'_>) {
        let Value { octets, .. } = value;
        if !matches!(octets.first(), Some(b'/' | b'*')) {
            return;
        }
        let folder = folder(kind, octets);
        if value.is_comparison_form() {
            self.written(kind, place, octets, value.has_star);
            if let Some(folder) = folder {
                let compiled =
                    CompiledPattern::written(kind, place, true, folder.len(), folder.len() + 1);
                self.file(compiled, value.has_star && memchr(b'*', folder).is_some());
            }
        } else {
            self.rewritten(kind, place, octets);
            if let Some(folder) = folder {
                self.rewritten(kind, place, &[folder, b"$"].concat());
            }
        }
    }

    /// Adds the patterns of a rule line with its escapes decoded.
    fn add_decoded(&mut self, kind: RuleKind, place: u32, octets: &[u8]) {
        self.rewritten(kind, place, octets);
        if let Some(folder) = folder(kind, octets) {
            self.rewritten(kind, place, &[folder, b"$"].concat());
        }
    }

    /// Adds a pattern in comparison form, which stays in the file.
    fn written(&mut self, kind: RuleKind, place: u32, value: &[u8], has_star: bool) {
        let (mut text, mut is_anchored) = match value.strip_suffix(b"$") {
            Some(text) => (text, true),
            None => (value, false),
        };
        // A trailing star matches any rest of the path, also an empty one.
        while let Some(before) = text.strip_suffix(b"*") {
            (text, is_anchored) = (before, false);
        }
        let compiled = CompiledPattern::written(kind, place, is_anchored, text.len(), value.len());
        self.file(compiled, has_star && memchr(b'*', text).is_some());
    }

    fn rewritten(&mut self, kind: RuleKind, place: u32, value: &[u8]) {
        let Some((pattern, octets)) = Pattern::new(value) else {
            return;
        };
        let mode = MatchMode {
            is_anchored: pattern.is_anchored(),
            is_literal: pattern.is_literal(),
        };
        let text = pattern.text();
        let compiled = CompiledPattern::rewritten(kind, mode, place, text, octets, &mut self.arena);
        self.file(compiled, mode.is_literal || memchr(b'*', text).is_some());
    }

    fn file(&mut self, compiled: CompiledPattern, is_wild: bool) {
        if is_wild {
            self.wild.push(compiled);
        } else {
            self.plain.push(compiled);
        }
    }
}

/// Returns a rule's path with its escapes decoded, if decoding changes it.
fn decoded(value: Value<'_>) -> Option<Vec<u8>> {
    let is_path = matches!(value.octets.first(), Some(b'/' | b'*'));
    (is_path && value.may_be_decoded())
        .then(|| decoded_value(value.octets))
        .flatten()
}

/// Returns the folder that an `allow: …/index.html` allows too, exactly (Google).
fn folder(kind: RuleKind, value: &[u8]) -> Option<&[u8]> {
    if kind == RuleKind::Disallow {
        return None;
    }
    let (folder, name) = value.split_at_checked(memrchr(b'/', value)? + 1)?;
    name.starts_with(b"index.htm").then_some(folder)
}

#[cfg(test)]
mod tests {
    // A failed unwrap is a failed test.
    use std::cmp::Reverse;

    use super::*;
    use crate::rep::pattern::Subject;
    use crate::rep::{ParseOptions, Robots};

    /// Returns rules of `a`llow and `d`isallow lines, numbered from 1.
    fn rules(lines: &[&str]) -> Rules {
        let line = |line: &&str| {
            let (kind, value) = line.split_once(' ').unwrap();
            let field = if kind == "a" { "allow" } else { "disallow" };
            format!("{field}: {value}\n")
        };
        let text: String = lines.iter().map(line).collect();
        let robots = Robots::parse(
            format!("user-agent: *\n{text}").as_bytes(),
            ParseOptions::default(),
        );
        robots.rules(Selection::Global)
    }

    /// Returns the number of the deciding rule, from 1.
    fn decided(rules: &Rules, path: &str) -> Option<u32> {
        let verdict = rules.verdict(&ComparisonPath::new(path.as_bytes()))?;
        Some(verdict.line - 1)
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
            assert_eq!(decided(&rules, path), *expected, "{name}");
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
            assert_eq!(decided(&rules, &path), Some(n + 1));
            assert_eq!(decided(&rules, &format!("{path}x")), None);
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
            assert_eq!(decided(&rules, path), Some(expected), "{path}");
        }
    }

    /// Decides as `Rules` must: tries every pattern and keeps the best.
    fn decided_slowly(lines: &[String], path: &str) -> Option<u32> {
        let form = ComparisonPath::new(path.as_bytes());
        let subject = Subject::new(form.as_bytes());
        let matching = (1..).zip(lines).filter_map(|(number, line)| {
            let (kind, value) = line.split_once(' ').unwrap();
            let (pattern, octets) = Pattern::new(value.as_bytes())?;
            let starts = form.as_bytes().starts_with(pattern.head());
            (starts && pattern.matches(&subject)).then_some((octets, kind == "a", Reverse(number)))
        });
        matching.max().map(|(_, _, Reverse(number))| number)
    }

    #[test]
    fn ours_crowded_rules_decide_like_a_linear_search() {
        let word = |number: usize| ["ab", "abc", "b", "/", "ab/", "c*a", "*", "$b"][number % 8];
        // Alike in their beginnings, in their ends, in their trigrams.
        let shapes: [fn(usize) -> String; 5] = [
            |n| format!("/common/beginning/{n}"),
            |n| format!("/{}", "a".repeat(n % 300)),
            |n| format!("/{}{}", "ab".repeat(n % 9), n % 70),
            |n| format!("/*abc{}*abc$", n % 200),
            |n| format!("/common/*{}/x{}", n % 11, n % 13),
        ];
        for (at, shape) in shapes.iter().enumerate() {
            let lines: Vec<String> = (0..2_000)
                .map(|n| {
                    let kind = if n % 3 == 0 { "a" } else { "d" };
                    let tail = if n % 5 == 0 { word(n / 5) } else { "" };
                    format!("{kind} {}{tail}", shape(n * 7))
                })
                .collect();
            let borrowed: Vec<&str> = lines.iter().map(String::as_str).collect();
            let rules = rules(&borrowed);
            for n in (0..2_000).step_by(41) {
                let path = shape(n).replace('*', "abc").replace('$', "");
                for path in [path.clone(), format!("{path}abc"), format!("{path}/xab")] {
                    let expected = decided_slowly(&lines, &path);
                    assert_eq!(decided(&rules, &path), expected, "{at}: {path}");
                }
            }
        }
    }

    #[test]
    fn empty_rules_and_rules_without_disallows_are_recognised() {
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
