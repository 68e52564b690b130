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

use super::compiled::{CompiledPattern, Texts};
use super::guard::{Comparison, PathVariants, Punctuation, Spelling, decoded_value, latin1_value};
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
pub enum GuardVerdict<'a> {
    /// No variant of the path is disallowed.
    Allowed,
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
        let Self { rules, place, rule, .. } = self;
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
        let has_escapes = |(_, _, value): &(_, _, Value<'_>)| {
            decoded(*value).is_some() || latin1(*value).is_some()
        };
        let has_decoded = values.iter().any(has_escapes);
        let disallows =
            values.iter().filter(|(kind, _, value)| *kind == RuleKind::Disallow && value.has_star);
        let tested = disallows.fold(Punctuation::default(), |all, (_, _, value)| {
            all.union(Punctuation::tested_by(value.octets))
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
        let (best, texts) = self.best(path, Spelling::Written, |_, _| true)?;
        Some(self.finding(best, texts))
    }

    /// Judges the other variants of a path that is allowed as written.
    pub fn guard(&self, path: &ComparisonPath<'_>) -> GuardVerdict<'_> {
        let variants = PathVariants::of(path);
        // True for almost every path.
        if variants.are_none() && self.decoded.is_none() {
            return GuardVerdict::Allowed;
        }
        self.guard_variants(path, &variants)
    }

    /// Judges a path that has other variants or that rules in the decoded spelling may match.
    fn guard_variants(
        &self,
        path: &ComparisonPath<'_>,
        variants: &PathVariants<'_>,
    ) -> GuardVerdict<'_> {
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
            GuardVerdict::Allowed
        } else {
            GuardVerdict::TooMany
        }
    }

    /// Returns the first variant that is disallowed, given the punctuation that some variants decode.
    fn disallowed(
        &self,
        variants: &PathVariants<'_>,
        decoded: Punctuation,
    ) -> Option<GuardVerdict<'_>> {
        for comparison in variants.comparisons(self.decoded.is_some()) {
            let admits = |compiled: CompiledPattern, texts: Texts<'_>| {
                compiled.kind() == RuleKind::Allow
                    || comparison.admits(decoded, compiled.as_text(texts))
            };
            let Comparison { path, spelling, .. } = &comparison;
            let Some((best, texts)) = self.best(path, *spelling, admits) else {
                continue;
            };
            if best.kind() == RuleKind::Disallow && !self.allows_with_query(&comparison, best) {
                return Some(GuardVerdict::Disallowed {
                    reading: Box::from(path.as_bytes()),
                    rule: self.finding(best, texts),
                });
            }
        }
        None
    }

    /// Tells whether a rule that allows the path with its empty query takes precedence over a rule that disallows it without.
    fn allows_with_query(&self, comparison: &Comparison<'_>, disallow: CompiledPattern) -> bool {
        let is_allow = |compiled: CompiledPattern, _: Texts<'_>| compiled.kind() == RuleKind::Allow;
        let path = comparison.with_query();
        let allow = path.and_then(|path| Some(self.best(&path, comparison.spelling, is_allow)?.0));
        allow.is_some_and(|allow| allow.precedence() > disallow.precedence())
    }

    /// Returns the deciding pattern among those that match a path, and the texts of its index.
    fn best(
        &self,
        path: &ComparisonPath<'_>,
        spelling: Spelling,
        admits: impl Fn(CompiledPattern, Texts<'_>) -> bool,
    ) -> Option<(CompiledPattern, Texts<'_>)> {
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
        let best = index.trigram_index.best(path, texts, self.key, best, admits)?;
        Some((best, texts))
    }

    fn finding(&self, best: CompiledPattern, texts: Texts<'_>) -> Finding<'_> {
        Finding { kind: best.kind(), rules: self, place: best.place(texts), rule: OnceCell::new() }
    }

    /// Returns the group that applies: its product token as the file writes it, and the number of the line that names
    /// it. Of several merged groups, the first. `None` without any rule.
    pub fn group(&self) -> Option<(&str, u32)> {
        let places = self.patterns().map(|compiled| compiled.place(self.texts()));
        let first = places.min()?;
        let (entry, name) = self.speaker(self.file.entry_at(first)?)?;
        Some((str::from_utf8(name).unwrap_or_default(), self.file.number(entry)))
    }

    /// Tells whether the rules hold no pattern that could match anything.
    pub fn is_empty(&self) -> bool {
        self.written.prefix_index.is_empty() && self.written.trigram_index.is_empty()
    }

    /// Tells whether no rule can ever disallow a path.
    pub fn disallows_nothing(&self) -> bool {
        self.patterns().all(|compiled| compiled.kind() == RuleKind::Allow)
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
            // Beside the other: some servers read octets, others characters.
            if let Some(latin1) = latin1(*value).filter(|_| spelling == Spelling::Decoded) {
                patterns.add_decoded(*kind, *place, &latin1);
            }
        }
        let arena = patterns.arena.into_boxed_slice();
        let texts = Texts { file: file.text(), arena: &arena };
        Self {
            prefix_index: PrefixIndex::new(&patterns.plain, texts, key),
            trigram_index: TrigramIndex::new(&patterns.wild, texts, key),
            arena,
        }
    }

    fn texts<'a>(&'a self, file: &'a File) -> Texts<'a> {
        Texts { file: file.text(), arena: &self.arena }
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
        let compiled = CompiledPattern::rewritten(kind, &pattern, place, octets, &mut self.arena);
        let is_wild = pattern.is_literal() || memchr(b'*', pattern.text()).is_some();
        self.file(compiled, is_wild);
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
        .then(|| decoded_value(value.octets, Punctuation::default()))
        .flatten()
}

/// Returns a rule's path read as ISO-8859-1 with its escapes decoded, if it is no UTF-8.
fn latin1(value: Value<'_>) -> Option<Vec<u8>> {
    let is_path = matches!(value.octets.first(), Some(b'/' | b'*'));
    let latin1 = (is_path && value.may_be_decoded()).then(|| latin1_value(value.octets))??;
    Some(decoded_value(&latin1, Punctuation::default()).unwrap_or(latin1))
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
mod tests;
