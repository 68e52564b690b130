//! The statements of one robots.txt about use, for one crawler: the lines of its groups, compiled once.
//!
//! Of Content-Usage and of Content-Signal, each by itself, the lines with the longest matching path count, all of that
//! length together (attach-05 section 3.1). A line that does not parse is no line, so a shorter one still counts. Lines
//! before the first user-agent line: of Content-Usage they count for no crawler (RFC 9309 section 2.2.1);
//! Content-Signal and License there count for crawlers with no such line of their own groups.
//!
//! The work per request is bounded by [`RankedPaths`]: where a path is too much work, all lines count.

use std::sync::Arc;

use super::category::Categories;
use super::judge::is_held;
use super::license;
use super::modes::{Modes, SignalMode};
use super::purpose::Purposes;
use super::said::{
    Invalid, License, Place, Preference, Said, Signal, Text, UnusedReason, Value, text,
};
use super::statement::{self, Parse, Statement};
use crawlgate_robots::{
    Applicable, ComparisonPath, Field, OtherLine, PathPattern, ProductToken, RankedPaths, Robots,
    Selection,
};

/// The statements of one selection of groups of one robots.txt.
#[derive(Debug, Default)]
pub struct Statements {
    usage: Lines,
    signals: Lines,
    licenses: Box<[License]>,
    /// The first lines that are not used, each with the path that it is about.
    invalid: Box<[(Invalid, Option<PathPattern>)]>,
}

/// The lines of one field.
#[derive(Debug, Default)]
struct Lines {
    paths: RankedPaths,
    lines: Box<[Line]>,
    /// The categories that any line disallows.
    disallowed: Categories,
}

/// A line that does not count for a path although it matches, because another one has a longer path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// The number of the line.
    pub line: u32,
    /// The number of the first line that counts instead.
    pub by: u32,
}

/// A line that parses.
#[derive(Debug)]
struct Line {
    number: u32,
    preferences: Box<[Preference]>,
    ignored: Box<[Arc<str>]>,
}

impl Statements {
    /// Compiles the statements for a crawler with this chain of product tokens.
    pub fn of(robots: &Robots, chain: &[ProductToken]) -> Statements {
        Statements::selected(robots, robots.selection(chain))
    }

    /// Compiles the statements of the selected groups.
    pub fn selected(robots: &Robots, selection: Selection) -> Statements {
        if !robots.has_usage() {
            return Statements::default();
        }
        let mut reader = Reader::default();
        reader.above_groups(robots);
        reader.groups(robots, selection);
        reader.finish()
    }

    /// Tells whether nothing is said at all.
    pub fn is_empty(&self) -> bool {
        self.usage.lines.is_empty()
            && self.signals.lines.is_empty()
            && self.licenses.is_empty()
            && self.invalid.is_empty()
    }

    /// Returns what is said about a path with its query. If `is_guarded`, all readings of the path are asked, and what
    /// is said about each is united. /robots.txt itself has no preferences.
    pub fn at(&self, path: &[u8], is_guarded: bool, modes: &Modes) -> Said {
        let mut said = Said::default();
        if self.is_empty() {
            return said;
        }
        let path = ComparisonPath::new(path);
        if path.is_robots_txt() {
            return said;
        }
        if modes.content_usage.is_read() {
            self.usage.add(&path, is_guarded, &mut said);
        }
        if modes.content_signal.is_read() {
            self.signals.add(&path, is_guarded, &mut said);
        }
        for (invalid, pattern) in &self.invalid {
            let is_about = || pattern.as_ref().is_none_or(|pattern| pattern.matches(&path));
            if invalid.signal.mode(modes, &invalid.place).is_read() && is_about() {
                said.reject(invalid.clone());
            }
        }
        if modes.license.is_read() {
            for license in &self.licenses {
                said.license(license.clone());
            }
        }
        said
    }

    /// Returns the lines that match a path and do not count for it. The work is not bounded: for people who ask about one
    /// path.
    pub fn shadowed(&self, path: &[u8], is_guarded: bool, modes: &Modes) -> Vec<Shadowed> {
        let path = ComparisonPath::new(path);
        if path.is_robots_txt() {
            return Vec::new();
        }
        let read = |mode: SignalMode, lines| mode.is_read().then_some(lines);
        let usage = read(modes.content_usage, &self.usage);
        let signals = read(modes.content_signal, &self.signals);
        let all = usage.into_iter().chain(signals);
        all.flat_map(|lines| lines.shadowed(&path, is_guarded)).collect()
    }

    /// Tells whether an enforced line refuses one of the purposes on any path, or a licence is required: what an opaque
    /// tunnel must ask.
    pub fn refuses_somewhere(&self, purposes: Purposes, modes: &Modes) -> bool {
        let enforced = |mode: SignalMode, lines: &Lines| match mode {
            SignalMode::Enforce => lines.disallowed,
            SignalMode::Record | SignalMode::Off => Categories::NONE,
        };
        let disallowed = enforced(modes.content_usage, &self.usage)
            .and(enforced(modes.content_signal, &self.signals));
        let is_unlicensed = modes.license == SignalMode::Enforce
            && !purposes.is_empty()
            && (self.licenses.len() > Said::LICENSES
                || self.licenses.iter().any(|one| !is_held(&one.url, modes)));
        is_unlicensed || !purposes.refused_by(disallowed).is_empty()
    }

    /// Returns the octets of heap used, roughly.
    pub fn bytes(&self) -> usize {
        let licenses = self.licenses.iter().map(|it| it.url.len() + 16);
        let patterns = self.invalid.iter().filter_map(|(_, pattern)| pattern.as_ref());
        self.usage.bytes()
            + self.signals.bytes()
            + size_of_val(&*self.licenses)
            + licenses.sum::<usize>()
            + size_of_val(&*self.invalid)
            + patterns.map(PathPattern::bytes).sum::<usize>()
    }
}

impl Lines {
    fn new(drafts: Vec<Draft>) -> Lines {
        let mut disallowed = Categories::NONE;
        for preference in drafts.iter().flat_map(|draft| &draft.line.preferences) {
            if preference.value == Value::Disallow {
                disallowed = disallowed.and(Categories::one(preference.category));
            }
        }
        let (paths, lines): (Vec<_>, Vec<_>) =
            drafts.into_iter().map(|draft| (draft.path, draft.line)).unzip();
        // The longest path first; an absent one has length 0.
        let ranked = paths.into_iter().map(|pattern| {
            let length = pattern.as_ref().map_or(0, PathPattern::length);
            (u32::MAX - u32::try_from(length).unwrap_or(u32::MAX), pattern)
        });
        Lines { paths: RankedPaths::new(ranked), lines: lines.into_boxed_slice(), disallowed }
    }

    fn add(&self, path: &ComparisonPath<'_>, is_guarded: bool, said: &mut Said) {
        if self.lines.is_empty() {
            return;
        }
        match self.paths.pick(path, is_guarded) {
            Applicable::All => self.lines.iter().for_each(|line| line.add(said)),
            Applicable::These(picked) => {
                let picked = picked.iter().filter_map(|at| self.lines.get(*at as usize));
                picked.for_each(|line| line.add(said));
            }
        }
    }

    fn shadowed(&self, path: &ComparisonPath<'_>, is_guarded: bool) -> Vec<Shadowed> {
        let number = |at: u32| self.lines.get(at as usize).map(|line| line.number);
        let picked = |is_guarded| match self.paths.pick(path, is_guarded) {
            Applicable::These(picked) => Some(picked),
            Applicable::All => None,
        };
        let (Some(written), Some(counting)) = (picked(false), picked(is_guarded)) else {
            return Vec::new();
        };
        let Some(by) = written.first().and_then(|at| number(*at)) else {
            return Vec::new();
        };
        let matching = self.paths.matching(path).into_iter();
        let shadowed = matching.filter(|at| !counting.contains(at));
        shadowed.filter_map(|at| Some(Shadowed { line: number(at)?, by })).collect()
    }

    fn bytes(&self) -> usize {
        // Every line keeps its text once, with two counts.
        let line = |line: &Line| {
            let text = line.preferences.first().map_or(0, |one| one.text.len() + 16);
            let ignored = line.ignored.iter().map(|key| key.len() + 32);
            size_of_val(&*line.preferences) + text + ignored.sum::<usize>()
        };
        self.paths.bytes() + size_of_val(&*self.lines) + self.lines.iter().map(line).sum::<usize>()
    }
}

impl Line {
    fn add(&self, said: &mut Said) {
        for preference in &self.preferences {
            said.prefer(preference.clone());
        }
        for key in &self.ignored {
            said.ignore(key);
        }
    }
}

/// A line that parses, with its path.
struct Draft {
    path: Option<PathPattern>,
    line: Line,
}

/// Reads the lines that may count.
#[derive(Default)]
struct Reader {
    usage: Vec<Draft>,
    signals: Vec<Draft>,
    licenses: Vec<License>,
    invalid: Vec<(Invalid, Option<PathPattern>)>,
}

impl Reader {
    fn above_groups(&mut self, robots: &Robots) {
        for other in robots.others_above_groups() {
            match other.field {
                Field::ContentUsage => {
                    self.reject(Signal::ContentUsage, &other, None, UnusedReason::NoGroup);
                }
                _ => self.read(&other, None),
            }
        }
    }

    /// Reads the lines of the selected groups. Those of a field replace the ones above all groups.
    fn groups(&mut self, robots: &Robots, selection: Selection) {
        let mut own = Reader::default();
        let mut group: Option<Arc<str>> = None;
        for (name, other) in robots.named_others_of(selection) {
            let name = String::from_utf8_lossy(name);
            if group.as_deref() != Some(&*name) {
                group = Some(Arc::from(name));
            }
            own.read(&other, group.as_ref());
        }
        self.usage = own.usage;
        if !own.signals.is_empty() {
            self.signals = own.signals;
        }
        if !own.licenses.is_empty() {
            self.licenses = own.licenses;
        }
        self.invalid.append(&mut own.invalid);
        self.invalid.truncate(Said::INVALID);
    }

    fn read(&mut self, other: &OtherLine<'_>, group: Option<&Arc<str>>) {
        let (signal, parse): (_, Parse) = match other.field {
            Field::ContentUsage => (Signal::ContentUsage, Statement::usage),
            Field::ContentSignal => (Signal::ContentSignal, Statement::signal),
            Field::License => return self.license(other, group),
            _ => return,
        };
        let (path, text) = statement::split(other.value);
        let parsed = if other.is_cut { Err(UnusedReason::Cut) } else { parse(text) };
        let statement = match parsed {
            Ok(statement) => statement,
            Err(why) => return self.reject(signal, other, group, why),
        };
        let draft = Draft {
            path: path.and_then(PathPattern::of_octets),
            line: Line::new(signal, statement, other, group),
        };
        match signal {
            Signal::ContentUsage => self.usage.push(draft),
            _ => self.signals.push(draft),
        }
    }

    fn license(&mut self, other: &OtherLine<'_>, group: Option<&Arc<str>>) {
        let url = if other.is_cut { Err(UnusedReason::Cut) } else { license::url(other.value) };
        match url {
            Err(why) => self.reject(Signal::License, other, group, why),
            // One more than is shown, which tells that there are more.
            Ok(url) if self.licenses.iter().any(|one| *one.url == *url) => {}
            Ok(url) if self.licenses.len() <= Said::LICENSES => {
                self.licenses.push(License { url: Arc::from(url), place: place(other, group) });
            }
            Ok(_) => {}
        }
    }

    fn reject(
        &mut self,
        signal: Signal,
        other: &OtherLine<'_>,
        group: Option<&Arc<str>>,
        why: UnusedReason,
    ) {
        if self.invalid.len() >= Said::INVALID {
            return;
        }
        let path = match signal {
            Signal::License => None,
            _ => statement::split(other.value).0.and_then(PathPattern::of_octets),
        };
        let place = place(other, group);
        self.invalid.push((Invalid { signal, place, why }, path));
    }

    fn finish(self) -> Statements {
        Statements {
            usage: Lines::new(self.usage),
            signals: Lines::new(self.signals),
            licenses: self.licenses.into_boxed_slice(),
            invalid: self.invalid.into_boxed_slice(),
        }
    }
}

impl Line {
    fn new(
        signal: Signal,
        read: Statement,
        other: &OtherLine<'_>,
        group: Option<&Arc<str>>,
    ) -> Line {
        let text = Text::Copied(text(other.content));
        let preference = |(category, value)| Preference {
            category,
            value,
            signal,
            place: place(other, group),
            text: text.clone(),
        };
        Line {
            number: other.line,
            preferences: read.values().map(preference).collect(),
            ignored: read.ignored.into_boxed_slice(),
        }
    }
}

fn place(other: &OtherLine<'_>, group: Option<&Arc<str>>) -> Place {
    Place::Robots { group: group.map(Arc::clone), line: other.line }
}
