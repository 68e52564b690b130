//! Notes for the author of a robots.txt on lines that do not do what they seem to.
//!
//! Notes never change a verdict. They come from a second reading of the text, so files without a request for notes (all
//! but a few) pay nothing for them.

mod kind;

pub use self::kind::LintKind;

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
    let mut reader = Reader {
        notes: Vec::new(),
        groups: Vec::new(),
        run: Run::None,
    };
    for line in Lines::new(text) {
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
    if let Some(line) = html(text) {
        // One note stands for all lines of markup.
        notes.retain(|note| !matches!(note.kind, LintKind::NoField | LintKind::UnknownField));
        notes.insert(0, Lint::new(line.number, LintKind::Html, line.content));
    }
    if text.starts_with(&BYTE_ORDER_MARK) {
        notes.insert(0, Lint::new(1, LintKind::ByteOrderMark, b""));
    }
    notes.sort_by_key(|note| note.line);
    if is_truncated {
        notes.push(Lint {
            line: lines_in(text).saturating_add(1),
            kind: LintKind::Truncated,
            text: Box::default(),
        });
    }
    notes
}

/// Returns the first line with content if it begins an HTML page.
fn html(text: &[u8]) -> Option<Line<'_>> {
    let first = Lines::new(text).find(|line| !line.content.is_empty())?;
    let begins = |tag: &str| {
        let start = first.content.get(..tag.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
    };
    (begins("<!doctype") || begins("<html")).then_some(first)
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
    /// Returns the note on a file that was decoded.
    pub(super) fn of_utf16() -> Self {
        Self::new(1, LintKind::Utf16, b"")
    }

    /// Returns a note on a line with this content.
    pub fn new(line: u32, kind: LintKind, content: &[u8]) -> Self {
        Self {
            line,
            kind,
            text: Box::from(String::from_utf8_lossy(content)),
        }
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
}

impl<'a> Reader<'a> {
    fn note(&mut self, line: &Line<'_>, kind: LintKind) {
        self.notes.push(Lint::new(line.number, kind, line.content));
    }

    fn read(&mut self, line: &Line<'a>, pair: &Pair<'a>, text: &[u8]) {
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
        let kind = match field {
            Field::UserAgent => return self.user_agent(line, pair.value),
            Field::Allow => RuleKind::Allow,
            Field::Disallow => RuleKind::Disallow,
            _ => {
                // The note on a line that is cut says enough.
                if field == Field::Sitemap && !line.is_cut && !is_url(pair.value) {
                    self.note(line, LintKind::SitemapUrl);
                }
                if let Run::Open(first) = self.run {
                    self.run = Run::Interrupted(first);
                }
                return;
            }
        };
        self.run = Run::None;
        let rule = DraftRule {
            kind,
            value: pair.value,
            content: line.content,
            line: line.number,
        };
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
            Run::Open(first) => Run::Open(first),
            Run::Interrupted(first) => {
                self.note(line, LintKind::JoinsGroup);
                Run::Open(first)
            }
        };
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
        if let Some(group) = self.groups.last_mut() {
            let names = names.iter().filter(|name| !name.is_empty());
            group
                .names
                .extend(names.map(|name| name.to_ascii_lowercase()));
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
    #![allow(
        clippy::type_complexity,
        reason = "a case is one row, its columns a tuple"
    )]
    use super::*;

    fn kinds(text: &[u8], lenient: bool) -> Vec<(u32, LintKind)> {
        notes(text, lenient, false)
            .iter()
            .map(|note| (note.line, note.kind))
            .collect()
    }

    #[test]
    fn lines_that_do_not_do_what_they_seem_to() {
        use LintKind::*;
        let long = format!("Allow: /{}", "a".repeat(20_000));
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[(u32, LintKind)])] = &[
            ("an ordinary file", "\n# x\nUser-agent: *\nDisallow:\nAllow: /a # why\nSitemap: https://a/\nUser-agent: * x\nDisallow: /b\n", &[(5, Unneeded)]),
            ("no field", "<p>", &[(1, NoField)]),
            ("a page in place of the file", "\n<!DOCTYPE html>\n<html>\n<a href=x>y:</a>\nDisallow: /a\n", &[(2, Html), (5, NobodysRule)]),
            ("a page behind a line that ends at a NUL", "\0\n<html>", &[(1, Nul), (2, Html)]),
            ("a page without a declaration", "<HTML lang=en>\n<p>\n", &[(1, Html)]),
            ("markup in a file", "User-agent: *\nDisallow: /a\n<html>\n", &[(3, NoField)]),
            ("a byte order mark", "\u{feff}User-agent: *\nDisallow: /a\n", &[(1, ByteOrderMark)]),
            ("a page after a byte order mark", "\u{feff}<html>", &[(1, ByteOrderMark), (1, Html)]),
            ("a byte order mark elsewhere", "User-agent: *\nDisallow: /a\u{feff}\n", &[]),
            ("no URL of a sitemap", "Sitemap: /map.xml\nSitemap:\nSitemap: //a/map.xml\nSitemap: a.example/map.xml\nSitemap: gopher://a/", &[(1, SitemapUrl), (2, SitemapUrl), (3, SitemapUrl), (4, SitemapUrl), (5, SitemapUrl)]),
            ("sitemaps of any host", "Sitemap: https://cdn.example:8443/map.xml?a\nsitemap: HTTP://a/\nSitemap: ftp://a/map.xml", &[]),
            ("unknown field", "noindex: /a", &[(1, UnknownField)]),
            ("no colon", "User-agent *\nDisallow\t/a", &[(1, NoColon), (2, NoColon)]),
            ("misspelt", "useragent : *\nDissallow: /a\nAllow-list: /a/b\nsite-map: https://a/", &[(1, Misspelt(Field::UserAgent)), (2, Misspelt(Field::Disallow)), (3, Misspelt(Field::Allow)), (4, Misspelt(Field::Sitemap))]),
            ("a rule before any user-agent line", "Disallow: /a\nUser-agent: a\nDisallow: /a", &[(1, NobodysRule)]),
            ("a name of no crawler", "User-agent:\nUser-agent: *a\nUser-agent: 360\nDisallow: /", &[(1, NamesNobody), (2, NamesNobody)]),
            ("a name with more after it", "User-agent: a/1.0\nUser-agent: b c\nDisallow: /", &[(1, NameCut), (2, NameCut)]),
            ("a group that joins the one above", "User-agent: a\nCrawl-delay: 1\n\nUser-agent: b\nDisallow: /", &[(4, JoinsGroup)]),
            ("a list of names is not a group without rules", "User-agent: a\n\nUser-agent: b\nDisallow: /\nCrawl-delay: 1\nUser-agent: c\nDisallow: /", &[]),
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
        assert_eq!(
            kinds(latin, true),
            [(2, NotUtf8), (3, Unneeded), (4, Unneeded)],
            "Latin-1"
        );
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
        let shown: Vec<_> = notes
            .iter()
            .map(|note| (note.kind.as_str(), &*note.text))
            .collect();
        assert_eq!(
            shown,
            [("never_matches", "Disallow: a"), ("no_field", "<p>")]
        );
    }
}
