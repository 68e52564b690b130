//! Notes for the author of a robots.txt on lines that do not do what they seem to.
//!
//! Notes never change a verdict. They come from a second reading of the text, so files without a request for notes (all
//! but a few) pay nothing for them.

mod kind;
mod value;
mod whole;

pub use self::kind::LintKind;

use std::collections::HashMap;

use self::value::{has_tag, invisible_end, is_list, second_field};
use super::delay::Interval;
use super::explain::is_global;
use super::field::Field;
use super::line::{BYTE_ORDER_MARK, Line, Lines, Pair, is_space};
use super::origin::Origin;
use super::redundant::{Draft, DraftRule, Redundancy, redundancies};
use super::rule::RuleKind;
use super::token::{narrow, wide};

/// A remark on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// The line's number, from 1.
    pub line: u32,
    /// The kind of remark.
    pub kind: LintKind,
    /// The line without its comment, lossily decoded.
    pub text: Box<str>,
}

/// Returns the notes on a text, in order of their lines.
pub(super) fn notes(text: &[u8], lenient: bool, is_truncated: bool) -> Vec<Lint> {
    let mut notes = match whole::unreadable(text) {
        Some(kind) => vec![Lint::new(1, kind, b"")],
        None => of_lines(text, lenient),
    };
    if is_truncated {
        notes.push(Lint {
            line: lines_in(text).saturating_add(1),
            kind: LintKind::Truncated,
            text: Box::default(),
        });
    }
    notes
}

fn of_lines(text: &[u8], lenient: bool) -> Vec<Lint> {
    let mut reader = Reader {
        notes: Vec::new(),
        groups: Vec::new(),
        run: Run::None,
        is_apart: false,
        named: HashMap::new(),
    };
    let mut before = 0;
    for line in Lines::new(text) {
        let end = text.get(line.start + line.content.len());
        let is_blank = line.content.is_empty() && !matches!(end, Some(b'#' | 0));
        reader.is_apart |= is_blank || line.number > before + 1;
        before = line.number;
        if line.is_cut {
            reader.note(&line, LintKind::Cut);
        }
        if text.get(line.start + line.content.len()) == Some(&0) {
            reader.note(&line, LintKind::Nul);
        }
        if line.content.is_empty() {
            continue;
        }
        match line.pair(lenient) {
            Some(pair) => reader.read(&line, &pair, text),
            None => reader.note(&line, LintKind::NoField),
        }
    }
    reader.end();
    let Reader { mut notes, .. } = reader;
    if let Some(page) = whole::markup(text) {
        // One note stands for all lines of markup.
        let is_of_markup =
            |kind| matches!(kind, LintKind::NoField | LintKind::UnknownField | LintKind::Markup);
        notes.retain(|note| !is_of_markup(note.kind));
        notes.insert(0, page);
    }
    if text.starts_with(&BYTE_ORDER_MARK) {
        notes.insert(0, Lint::new(1, LintKind::ByteOrderMark, b""));
    }
    notes.sort_by_key(|note| note.line);
    notes
}

/// Returns the note on a line with another field than those of groups and rules.
fn other(field: Field, line: &Line<'_>, value: &[u8]) -> Option<LintKind> {
    match field {
        // The note on a line that is cut says enough.
        _ if line.is_cut => None,
        Field::Sitemap if is_list(value) => Some(LintKind::SitemapList),
        Field::Sitemap if !is_url(value) => Some(LintKind::SitemapUrl),
        Field::CrawlDelay | Field::RequestRate => match Interval::of(field, value) {
            None => Some(LintKind::DelayUnread),
            Some(Interval { is_plain: true, .. }) => None,
            Some(Interval { time, .. }) => Some(LintKind::DelayForm(time)),
        },
        _ => None,
    }
}

/// Tells whether a Sitemap's value is the URL of a file.
fn is_url(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|value| Origin::parse(value).is_ok())
}

/// Returns the number of lines that end in `text`.
fn lines_in(text: &[u8]) -> u32 {
    let ends = text.iter().zip(text.iter().skip(1).chain([&0]));
    let ends = ends.filter(|(octet, next)| match octet {
        b'\n' => true,
        b'\r' => **next != b'\n',
        _ => false,
    });
    u32::try_from(ends.count()).unwrap_or(u32::MAX)
}

/// Returns a field's name as written.
fn name<'a>(line: &Line<'a>, pair: &Pair<'_>) -> &'a [u8] {
    let before = line.content.get(..pair.value_start).unwrap_or_default();
    let is_end = |octet: &u8| *octet == b':';
    let end = before.iter().position(is_end).unwrap_or(before.len());
    let name = before.get(..end).unwrap_or_default();
    let last = name.iter().rposition(|octet| !is_space(*octet));
    last.and_then(|last| name.get(..=last)).unwrap_or_default()
}

impl Lint {
    /// Returns the note on a file that was decoded as UTF-16, and whether it was something else, of which no line can be
    /// read.
    pub(super) fn of_decoded(octets: &[u8]) -> (Self, bool) {
        let is_utf32 = whole::is_utf32(octets);
        let kind = if is_utf32 { LintKind::Utf32 } else { LintKind::Utf16 };
        (Self::new(1, kind, b""), is_utf32)
    }

    /// Returns a note on a line with this content.
    pub fn new(line: u32, kind: LintKind, content: &[u8]) -> Self {
        Self { line, kind, text: Box::from(String::from_utf8_lossy(content)) }
    }
}

/// The run of user-agent lines that the next one would join.
#[derive(Clone, Copy)]
enum Run<'a> {
    /// No run: the next user-agent line opens a group.
    None,
    /// A run that began with this line, without interruption.
    Open(Line<'a>),
    /// A run with another field behind it.
    Interrupted(Line<'a>),
}

struct Reader<'a> {
    notes: Vec<Lint>,
    groups: Vec<Draft<'a>>,
    run: Run<'a>,
    /// True behind a blank line that no user-agent line has followed yet.
    is_apart: bool,
    /// The group that has a name first, and the line of that name.
    named: HashMap<Vec<u8>, (usize, u32)>,
}

impl<'a> Reader<'a> {
    fn note(&mut self, line: &Line<'_>, kind: LintKind) {
        self.notes.push(Lint::new(line.number, kind, line.content));
    }

    fn read(&mut self, line: &Line<'a>, pair: &Pair<'a>, text: &[u8]) {
        if let Some(end) = invisible_end(line.content).or_else(|| invisible_end(pair.value)) {
            self.note(line, LintKind::Invisible(end));
        }
        let Some(field) = pair.field else {
            self.note(line, LintKind::UnknownField);
            return;
        };
        if !line.content.contains(&b':') {
            self.note(line, LintKind::NoColon);
        }
        if !name(line, pair).eq_ignore_ascii_case(field.as_str().as_bytes()) {
            self.note(line, LintKind::Misspelt(field));
        }
        if std::str::from_utf8(line.content).is_err() {
            self.note(line, LintKind::NotUtf8);
        }
        if let Some(second) = second_field(pair.value) {
            self.note(line, LintKind::SecondField(second));
        }
        if has_tag(pair.value) {
            self.note(line, LintKind::Markup);
        }
        let kind = match field {
            Field::UserAgent => return self.user_agent(line, pair.value),
            Field::Allow => RuleKind::Allow,
            Field::Disallow => RuleKind::Disallow,
            _ => {
                if let Some(kind) = other(field, line, pair.value) {
                    self.note(line, kind);
                }
                if let Run::Open(first) = self.run {
                    self.run = Run::Interrupted(first);
                }
                return;
            }
        };
        self.run = Run::None;
        let rule = DraftRule { kind, value: pair.value, content: line.content, line: line.number };
        match self.groups.last_mut() {
            Some(group) => group.rules.push(rule),
            None => return self.note(line, LintKind::NobodysRule),
        }
        if !matches!(pair.value.first(), None | Some(b'/' | b'*')) {
            self.note(line, LintKind::NeverMatches);
        }
        let is_in_path = !pair.value.is_empty();
        if is_in_path && text.get(line.start + line.content.len()) == Some(&b'#') {
            self.note(line, LintKind::CommentInside);
        }
    }

    fn user_agent(&mut self, line: &Line<'a>, value: &[u8]) {
        self.run = match self.run {
            Run::None => {
                self.groups.push(Draft::default());
                Run::Open(*line)
            }
            Run::Open(first) if !self.is_apart => Run::Open(first),
            Run::Open(first) | Run::Interrupted(first) => {
                self.note(line, LintKind::JoinsGroup);
                Run::Open(first)
            }
        };
        self.is_apart = false;
        let names: &[&[u8]] = if is_global(value) {
            &[b"*"]
        } else if wide(value).is_empty() {
            self.note(line, LintKind::NamesNobody);
            &[]
        } else {
            if wide(value) != value {
                self.note(line, LintKind::NameCut);
            }
            &[narrow(value), wide(value)]
        };
        let group = self.groups.len();
        if let Some(name) = names.last() {
            let name = name.to_ascii_lowercase();
            let (first, number) = *self.named.entry(name).or_insert((group, line.number));
            if first != group {
                self.note(line, LintKind::NamedAgain { line: number });
            }
        }
        if let Some(group) = self.groups.last_mut() {
            let names = names.iter().filter(|name| !name.is_empty());
            group.names.extend(names.map(|name| name.to_ascii_lowercase()));
        }
    }

    /// Adds the notes that need the whole text.
    fn end(&mut self) {
        if let Run::Open(first) | Run::Interrupted(first) = self.run {
            self.note(&first, LintKind::EmptyGroup);
        }
        let mut redundancy = redundancies(&self.groups).into_iter().peekable();
        for rule in self.groups.iter().flat_map(|group| &group.rules) {
            if let Some((line, why)) = redundancy.next_if(|(line, _)| *line == rule.line) {
                let kind = match why {
                    Redundancy::Duplicate(line) => LintKind::Duplicate { line },
                    Redundancy::Shadowed(line) => LintKind::Shadowed { line },
                    Redundancy::Unneeded => LintKind::Unneeded,
                };
                self.notes.push(Lint::new(line, kind, rule.content));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    // A table's type is spelt where the table is.
    #![allow(clippy::type_complexity, reason = "a case is one row, its columns a tuple")]
    use std::time::Duration;

    use super::*;

    fn kinds(text: &[u8], lenient: bool) -> Vec<(u32, LintKind)> {
        notes(text, lenient, false).iter().map(|note| (note.line, note.kind)).collect()
    }

    #[test]
    fn lines_that_do_not_do_what_they_seem_to() {
        use LintKind::*;
        let long = format!("Allow: /{}", "a".repeat(20_000));
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[(u32, LintKind)])] = &[
            ("an ordinary file", "\n# x\nUser-agent: *\nDisallow:\nAllow: /a # why\nSitemap: https://a/\nUser-agent: * x\nDisallow: /b\n", &[(5, Unneeded), (7, NamedAgain { line: 3 })]),
            ("no field", "<p>", &[(1, NoField)]),
            ("a page in place of the file", "\n<!DOCTYPE html>\n<html>\n<a href=x>y:</a>\nDisallow: /a\n", &[(2, Html), (5, NobodysRule)]),
            ("a page behind a line that ends at a NUL", "\0\n<html>", &[(1, Nul), (2, Html)]),
            ("a page without a declaration", "<HTML lang=en>\n<p>\n", &[(1, Html)]),
            ("markup in a file", "User-agent: *\nDisallow: /a\n<html>\n", &[(3, NoField)]),
            ("a byte order mark", "\u{feff}User-agent: *\nDisallow: /a\n", &[(1, ByteOrderMark)]),
            ("a page after a byte order mark", "\u{feff}<html>", &[(1, ByteOrderMark), (1, Html)]),
            ("a byte order mark elsewhere", "User-agent: *\nDisallow: /a\u{feff}\n", &[(2, Invisible('\u{feff}'))]),
            ("an invisible character in front", "\u{200b}User-agent: *\nDisallow: \u{a0}/a\n", &[(1, Invisible('\u{200b}')), (1, UnknownField), (2, Invisible('\u{a0}')), (2, NobodysRule)]),
            ("one inside", "User-agent: *\nDisallow: /a\u{200b}b\n", &[]),
            ("a tag in a value", "User-agent: *<br>\nUser-agent: a\nDisallow: /a<br />\nAllow: /a<b>.html$\nDisallow: /a<b\n", &[(1, Markup), (1, NamesNobody), (3, Markup), (4, Markup)]),
            ("a page behind a declaration, with tags in its lines", "<?xml version=\"1.0\"?>\n<html>\nUser-agent: *<br>\n", &[(2, Html), (3, NamesNobody), (3, EmptyGroup)]),
            ("another document", "<?xml version=\"1.0\"?>\n<Error><Code>x:y</Code></Error>", &[(2, Xml)]),
            ("two fields on one line", "User-agent: * Disallow: /\nDisallow: /a allow : /b\nAllow: /c?d e: f\n", &[(1, SecondField(Field::Disallow)), (2, SecondField(Field::Allow)), (3, Unneeded)]),
            ("several sitemaps on one line", "Sitemap: https://a/1.xml https://a/2.xml\nSitemap: https://a/1.xml,https://a/2.xml\nSitemap: https://a/1.xml, https://a/2.xml\nSitemap: https://a/1 2.xml\nSitemap: https://a/1,2.xml", &[(1, SitemapList), (2, SitemapList), (3, SitemapList), (4, SitemapList)]),
            ("delays in odd forms", "User-agent: *\nDisallow: /a\nCrawl-delay: 1,5\nCrawl-delay: 10\nCrawl-delay: 1000ms\nRequest-rate: 1/10m 0600-0845\nRequest-rate: 1/2 sec", &[(3, DelayForm(Duration::from_millis(1500))), (5, DelayForm(Duration::from_secs(1))), (7, DelayForm(Duration::from_secs(2)))]),
            ("delays that cannot be read", "User-agent: *\nDisallow: /a\nCrawl-delay: soon\nCrawl-delay:\nRequest-rate: 10\nCrawl-delay: 1,500", &[(3, DelayUnread), (4, DelayUnread), (5, DelayUnread), (6, DelayUnread)]),
            ("one name in two groups", "User-agent: A/1\nDisallow: /a\nUser-agent: b\nUser-agent: a\nDisallow: /b\n", &[(1, NameCut), (4, NamedAgain { line: 1 })]),
            ("all crawlers in two groups", "User-agent: *\nDisallow: /a\n\nUser-agent: * x\nDisallow: /b\n", &[(4, NamedAgain { line: 1 })]),
            ("one name twice in a group", "User-agent: a\nUser-agent: A\nDisallow: /b\n", &[]),
            ("names that begin alike", "User-agent: MJ12bot\nDisallow: /a\nUser-agent: MJ\nDisallow: /b\n", &[]),
            ("a compressed file", "PK\u{3}\u{4}Disallow: /", &[(1, Compressed("zip"))]),
            ("UTF-16 without a mark", "D\0i\0s\0a\0l\0l\0o\0w\0:\0 \0/\0\n\0", &[(1, Utf16Unmarked)]),
            ("no URL of a sitemap", "Sitemap: /map.xml\nSitemap:\nSitemap: //a/map.xml\nSitemap: a.example/map.xml\nSitemap: gopher://a/", &[(1, SitemapUrl), (2, SitemapUrl), (3, SitemapUrl), (4, SitemapUrl), (5, SitemapUrl)]),
            ("sitemaps of any host", "Sitemap: https://cdn.example:8443/map.xml?a\nsitemap: HTTP://a/\nSitemap: ftp://a/map.xml", &[]),
            ("unknown field", "noindex: /a", &[(1, UnknownField)]),
            ("no colon", "User-agent *\nDisallow\t/a", &[(1, NoColon), (2, NoColon)]),
            ("misspelt", "useragent : *\nDissallow: /a\nAllow-list: /a/b\nsite-map: https://a/", &[(1, Misspelt(Field::UserAgent)), (2, Misspelt(Field::Disallow)), (3, Misspelt(Field::Allow)), (4, Misspelt(Field::Sitemap))]),
            ("a rule before any user-agent line", "Disallow: /a\nUser-agent: a\nDisallow: /a", &[(1, NobodysRule)]),
            ("a name of no crawler", "User-agent:\nUser-agent: *a\nUser-agent: 360\nDisallow: /", &[(1, NamesNobody), (2, NamesNobody)]),
            ("a name with more after it", "User-agent: a/1.0\nUser-agent: b c\nDisallow: /", &[(1, NameCut), (2, NameCut)]),
            ("a group that joins the one above", "User-agent: a\nCrawl-delay: 1\n\nUser-agent: b\nDisallow: /", &[(4, JoinsGroup)]),
            ("one that joins it over a blank line", "User-agent: a\n\nUser-agent: b\n# c\nUser-agent: c\n \t\nUser-agent: d\nDisallow: /", &[(3, JoinsGroup), (7, JoinsGroup)]),
            ("a list of names is not a group without rules", "User-agent: a\nUser-agent: b\nDisallow: /\nCrawl-delay: 1\nUser-agent: c\nDisallow: /", &[]),
            ("a group without rules", "User-agent: a\nDisallow: /\nUser-agent: b\nUser-agent: c\nCrawl-delay: 1", &[(3, EmptyGroup)]),
            ("a path that matches nothing", "User-agent: *\nDisallow: a", &[(2, NeverMatches)]),
            ("a comment inside a path", "User-agent: *# b\nDisallow: /a#b", &[(2, CommentInside)]),
            ("a NUL", "User-agent: *\nDisallow: /a\0b", &[(2, Nul)]),
            ("overlong", &format!("User-agent: *\n{long}"), &[(2, Cut)]),
            ("twice", "User-agent: *\nDisallow: /a\nDisallow: /a", &[(3, Duplicate { line: 2 })]),
            ("outranked", "User-agent: *\nDisallow: /a\nAllow: /a", &[(2, Shadowed { line: 3 })]),
        ];
        for (name, text, expected) in cases {
            assert_eq!(kinds(text.as_bytes(), true), *expected, "{name}");
        }
        let latin = b"User-agent: *\nDisallow: /\xE9 # \xE9\nAllow: /b # \xE9\nAllow: /*";
        assert_eq!(kinds(latin, true), [(2, NotUtf8), (3, Unneeded), (4, Unneeded)], "Latin-1");
    }

    #[test]
    fn what_strict_reading_ignores_has_other_notes() {
        use LintKind::{NoField, UnknownField};
        let text = b"User-agent: *\nDisallow /a\nDissallow: /b\nDisallow: /c";
        assert_eq!(kinds(text, false), [(2, NoField), (3, UnknownField)]);
    }

    #[test]
    fn a_file_that_is_cut_says_where() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, u32)] = &[
            ("before its first line ends", "", 1),
            ("after a line", "User-agent: *\n", 2),
            ("whatever ends the lines", "User-agent: *\r\n\rAllow: /\n\n", 5),
        ];
        for (name, text, line) in cases {
            let notes = notes(text.as_bytes(), true, true);
            let last = notes.last().map(|note| (note.line, note.kind));
            assert_eq!(last, Some((*line, LintKind::Truncated)), "{name}");
        }
    }

    #[test]
    fn every_note_has_a_code_of_its_own_and_the_line_it_is_about() {
        let notes = notes(b"User-agent: *\nDisallow: a # x\n<p>\n", true, false);
        let shown: Vec<_> = notes.iter().map(|note| (note.kind.as_str(), &*note.text)).collect();
        assert_eq!(shown, [("never_matches", "Disallow: a"), ("no_field", "<p>")]);
    }
}
