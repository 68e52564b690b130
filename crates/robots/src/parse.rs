//! A robots.txt, parsed once.
//!
//! Parsing keeps the text and, for every line that counts, the place of its value and the kind of the line: four octets
//! a line. It copies nothing out of the text. The end of a value, the number of its line and the name of its group are
//! found again from the value's place when needed. So a file costs its length and the rules of the crawlers that ask,
//! not the rules of all others.
//!
//! A group here is a run of user-agent lines with the rules below it. Selecting a token merges its groups later.
//!
//! Cost: one search for each line's end and one look at its first octets, so linear in any text.

use std::borrow::Cow;
use std::sync::Arc;

use super::field::Field;
use super::line::{self, Line, MAX_LINE, is_space};
use super::lint::{Lint, LintKind, notes};
use super::utf16::Utf16;

/// Options for reading a robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOptions {
    /// True if field names may have frequent misspellings and a line of two words may lack its colon.
    pub lenient: bool,
    /// The number of octets that count. RFC 9309 section 2.5 asks for at least 512,000; values above 64 MiB
    /// (67,108,864) mean 64 MiB.
    pub limit: usize,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self { lenient: true, limit: 512_000 }
    }
}

/// The upper bound of `limit`: a place and four flags fit into 32 bits, also in patterns that the comparison form has
/// made three times as long.
const MAX: usize = 1 << 26;

/// A parsed robots.txt. A clone shares the text.
#[derive(Clone, Debug)]
pub struct Robots {
    pub(super) file: Arc<File>,
}

/// The text, and the places of the lines that count.
#[derive(Debug, Default)]
pub(super) struct File {
    text: Box<[u8]>,
    /// The original octets of a UTF-16 file.
    utf16: Option<Box<[u8]>>,
    is_truncated: bool,
    lenient: bool,
    /// The user-agent lines, the rules of groups and the other known fields, in order.
    entries: Box<[Entry]>,
    /// The first entry of each group, which ends the group before it.
    groups: Box<[u32]>,
    /// The line number of every [`MARKED`]th entry.
    marks: Box<[u32]>,
    pub(super) is_global_named: bool,
    /// True if a line exceeds the length limit, which look-ups of values must then respect.
    has_overlong: bool,
    /// True if a line speaks about the use of the content.
    has_usage: bool,
}

/// The number of entries from one kept line number to the next.
const MARKED: usize = 64;

/// A line that counts: its kind, and the place of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Agent,
    Allow,
    Disallow,
    Other,
}

impl Entry {
    fn new(kind: EntryKind, value: usize) -> Self {
        let kind = match kind {
            EntryKind::Agent => 0,
            EntryKind::Allow => 1,
            EntryKind::Disallow => 2,
            EntryKind::Other => 3,
        };
        Self(index(value) | kind << 30)
    }

    pub(super) fn kind(self) -> EntryKind {
        match self.0 >> 30 {
            0 => EntryKind::Agent,
            1 => EntryKind::Allow,
            2 => EntryKind::Disallow,
            _ => EntryKind::Other,
        }
    }

    /// Returns the place in the text at which the value begins.
    pub(super) fn place(self) -> u32 {
        self.0 << 2 >> 2
    }
}

impl Robots {
    /// Parses a robots.txt. Any octets are valid; lines that make no sense are skipped.
    ///
    /// The first `options.limit` octets of `text` count; a line that the limit cuts is dropped. Pass one octet beyond
    /// the limit, if there is one, so that a file that ends at the limit differs from a longer one.
    pub fn parse(text: &[u8], options: ParseOptions) -> Self {
        // In UTF-8, two octets of UTF-16 may become three.
        let most = if Utf16::new(text).is_some() { MAX / 2 } else { MAX };
        let limit = options.limit.min(most);
        let (kept, utf16) = match Utf16::new(text) {
            None => (Cow::Borrowed(within(text, limit)), None),
            Some(utf16) => {
                let kept = utf16.within(limit);
                (Cow::Owned(kept.decoded()), Some(Box::from(kept.octets())))
            }
        };
        let mut reader = Reader::new(&kept);
        reader.read(options.lenient);
        let file = File {
            text: Box::from(&*kept),
            utf16,
            is_truncated: text.len() > limit,
            lenient: options.lenient,
            entries: reader.entries.into_boxed_slice(),
            groups: reader.groups.into_boxed_slice(),
            marks: reader.marks.into_boxed_slice(),
            is_global_named: reader.is_global_named,
            has_overlong: reader.has_overlong,
            has_usage: reader.has_usage,
        };
        Self { file: Arc::new(file) }
    }

    /// Returns the text that counts, octet for octet: all of it, or its whole lines within the limit. Its lines are
    /// those of [`decoded`](super::decoded).
    pub fn text(&self) -> &[u8] {
        self.file.utf16.as_deref().unwrap_or(&self.file.text)
    }

    /// Tells whether the file was read leniently: see [`ParseOptions::lenient`].
    pub fn is_lenient(&self) -> bool {
        self.file.lenient
    }

    /// Tells whether the text was longer than the limit.
    pub fn is_truncated(&self) -> bool {
        self.file.is_truncated
    }

    /// Tells whether any line speaks about the use of the content: [`Field::is_of_usage`].
    pub fn has_usage(&self) -> bool {
        self.file.has_usage
    }

    /// Returns the octets of heap used. Rules compiled from this file share its text and count their own.
    pub fn bytes(&self) -> usize {
        let file = &*self.file;
        size_of::<File>()
            + file.text.len()
            + file.utf16.as_deref().map_or(0, <[u8]>::len)
            + size_of_val(&*file.entries)
            + size_of_val(&*file.groups)
            + size_of_val(&*file.marks)
    }

    /// Returns notes for the author on lines that do not do what they seem to. Reads the text again.
    pub fn notes(&self) -> Vec<Lint> {
        let mut notes = notes(&self.file.text, self.file.lenient, self.file.is_truncated);
        if let Some(octets) = &self.file.utf16 {
            let (note, is_unreadable) = Lint::of_decoded(octets);
            if is_unreadable {
                notes.retain(|note| note.kind == LintKind::Truncated);
            }
            notes.insert(0, note);
        }
        notes
    }
}

impl File {
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Tells whether the file was read leniently.
    pub(super) fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Returns the number of lines that count.
    pub(super) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entry(&self, at: usize) -> Option<Entry> {
        self.entries.get(at).copied()
    }

    /// Returns the number of the entry with its value at `place`.
    pub(super) fn entry_at(&self, place: u32) -> Option<usize> {
        self.entries.binary_search_by_key(&place, |entry| entry.place()).ok()
    }

    /// Returns the range of each group's entries.
    pub(super) fn groups(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let ends = self.groups.iter().skip(1).copied();
        self.groups
            .iter()
            .zip(ends.chain([index(self.entries.len())]))
            .map(|(start, end)| *start as usize..end as usize)
    }

    /// Returns the range of the group that holds an entry.
    pub(super) fn group_of(&self, entry: usize) -> Option<std::ops::Range<usize>> {
        let after = self.groups.partition_point(|first| *first as usize <= entry);
        let start = *self.groups.get(after.checked_sub(1)?)?;
        let end = self.groups.get(after).map_or(self.entries.len(), |end| *end as usize);
        Some(start as usize..end)
    }

    pub(super) fn entries(&self, range: std::ops::Range<usize>) -> &[Entry] {
        self.entries.get(range).unwrap_or_default()
    }

    /// Returns the whole line of an entry. The line's number is not known from its place.
    pub(super) fn line(&self, place: u32) -> Line<'_> {
        let start = line::start(&self.text, place as usize);
        let rest = self.text.get(start..).unwrap_or_default();
        Line::new(&self.text, start, start + line::length(rest), 0)
    }

    /// Returns the field and the value of the line with its value at `place`.
    pub(super) fn pair(&self, place: u32) -> (Option<Field>, &[u8]) {
        let pair = self.line(place).pair(self.lenient);
        pair.map_or((None, &[]), |pair| (pair.field, pair.value))
    }

    /// Returns the text from the start of a value to the end of the text. For an overlong line, only the value.
    pub(super) fn from(&self, place: u32) -> &[u8] {
        if self.has_overlong {
            return self.pair(place).1;
        }
        self.text.get(place as usize..).unwrap_or_default()
    }

    /// Returns the number of an entry's line, from 1.
    pub(super) fn number(&self, entry: usize) -> u32 {
        let marked = entry / MARKED;
        let place = |entry| self.entry(entry).map_or(0, |entry| entry.place() as usize);
        let between = self.text.get(place(marked * MARKED)..place(entry));
        let mark = self.marks.get(marked).copied().unwrap_or_default();
        mark.saturating_add(between.map_or(0, line::endings))
    }
}

/// The state of parsing: finds the lines that count.
struct Reader<'a> {
    text: &'a [u8],
    entries: Vec<Entry>,
    groups: Vec<u32>,
    marks: Vec<u32>,
    is_global_named: bool,
    has_overlong: bool,
    has_usage: bool,
    /// True if the next user-agent line joins the group before it.
    is_group_open: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            // A little more than most files need; the rest is freed afterwards.
            entries: Vec::with_capacity(text.len() / 24),
            groups: Vec::new(),
            marks: Vec::new(),
            is_global_named: false,
            has_overlong: false,
            has_usage: false,
            is_group_open: false,
        }
    }

    fn read(&mut self, lenient: bool) {
        let mut start = line::beginning(self.text);
        let mut number = 0_u32;
        while let Some(rest) = self.text.get(start..)
            && !rest.is_empty()
        {
            number += 1;
            // Most lines have one of a few fields, in the usual spelling.
            let usual = Field::usual(rest);
            let after_name = usual.map_or(0, |(_, length)| length);
            let unread = rest.get(after_name..).unwrap_or_default();
            let end = start + after_name + line::length(unread);
            let is_overlong = end - start > MAX_LINE;
            self.has_overlong |= is_overlong;
            match usual {
                Some((field, _)) if !is_overlong => {
                    let is_blank = |octet: &&u8| is_space(**octet);
                    let place = start + after_name + unread.iter().take_while(is_blank).count();
                    let value = self.text.get(place..).unwrap_or_default();
                    self.push(field, place, value, number);
                }
                _ if matches!(rest, [b'\n' | b'\r' | b'#', ..]) => {}
                _ => {
                    let line = Line::new(self.text, start, end, number);
                    if let Some(pair) = line.pair(lenient)
                        && let Some(field) = pair.field
                    {
                        self.push(field, line.start + pair.value_start, pair.value, number);
                    }
                }
            }
            start = line::next_line_start(self.text, end);
        }
    }

    /// Keeps a line with its value at `place`; `value` begins with that value. A rule before the first user-agent line
    /// belongs to no group and is dropped.
    fn push(&mut self, field: Field, place: usize, value: &[u8], number: u32) {
        let kind = match field {
            Field::UserAgent => EntryKind::Agent,
            Field::Allow => EntryKind::Allow,
            Field::Disallow => EntryKind::Disallow,
            _ => EntryKind::Other,
        };
        match kind {
            EntryKind::Agent => {
                if !self.is_group_open {
                    self.is_group_open = true;
                    self.groups.push(index(self.entries.len()));
                }
                self.is_global_named |= is_global(value);
            }
            EntryKind::Allow | EntryKind::Disallow => {
                self.is_group_open = false;
                if self.groups.is_empty() {
                    return;
                }
            }
            EntryKind::Other => self.has_usage |= field.is_of_usage(),
        }
        if self.entries.len().is_multiple_of(MARKED) {
            self.marks.push(number);
        }
        self.entries.push(Entry::new(kind, place));
    }
}

/// Tells whether the value that `text` begins with is `*`, or `*` followed by white space and more (Google).
pub(super) fn is_global(text: &[u8]) -> bool {
    matches!(text, [b'*', after @ ..]
        if after.first().is_none_or(|octet| is_space(*octet) || matches!(octet, b'\n' | b'\r' | b'#' | 0)))
}

/// Returns the whole lines of `text` within `limit`.
fn within(text: &[u8], limit: usize) -> &[u8] {
    let Some((kept, beyond)) = text.split_at_checked(limit) else {
        return text;
    };
    let is_end = |octet: &u8| matches!(octet, b'\n' | b'\r');
    if beyond.first().is_none_or(is_end) {
        return kept;
    }
    let end = kept.iter().rposition(is_end).map_or(0, |at| at + 1);
    kept.get(..end).unwrap_or_default()
}

pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    // A failed unwrap is a failed test.
    use super::*;
    use crate::{ProductToken, Selection};

    #[test]
    fn ours_the_line_that_the_limit_cuts_is_dropped() {
        let cases: &[(&str, usize, &str, bool)] = &[
            ("the whole text fits", 6, "a:b\nc:", false),
            ("cut inside a line", 5, "a:b\n", true),
            ("cut after a line", 4, "a:b\n", true),
            ("cut before its ending", 3, "a:b", true),
            ("cut inside the first line", 2, "", true),
            ("nothing counts", 0, "", true),
        ];
        for (name, limit, kept, is_truncated) in cases {
            let file = Robots::parse(b"a:b\nc:", ParseOptions { limit: *limit, lenient: true });
            assert_eq!(
                (file.text(), file.is_truncated()),
                (kept.as_bytes(), *is_truncated),
                "{name}"
            );
        }
    }

    #[test]
    fn ours_a_file_in_utf_16_is_read_as_its_text_and_kept_as_its_octets() {
        let text = "User-agent: *\r\nDisallow: /\u{fc}\r\n";
        let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
        let octets: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
        let file = Robots::parse(&octets, ParseOptions::default());
        assert_eq!((file.text(), file.is_truncated()), (&*octets, false));
        let rules = file.rules(file.selection(&[]));
        let path = crate::ComparisonPath::new("/\u{fc}".as_bytes());
        let rule = rules.verdict(&path).expect("it is disallowed").into_rule();
        assert_eq!((&*rule.text, rule.line), ("Disallow: /\u{fc}", 2));
        let notes = file.notes();
        assert_eq!(notes[0].kind.as_str(), "utf_16");
        assert!(file.bytes() > octets.len() + text.len());
        let short = Robots::parse(&octets, ParseOptions { limit: octets.len() - 5, lenient: true });
        assert_eq!((short.text(), short.is_truncated()), (&octets[..32], true));
    }

    #[test]
    fn strictness_is_one_switch() {
        let text = b"useragent: a\nuser-agent: *\ndissallow: /3\ndisallow /4\ndisallow: /5\n";
        let found = |lenient| {
            let file = Robots::parse(text, ParseOptions { lenient, ..ParseOptions::default() });
            let rules: Vec<u32> =
                file.groups().flat_map(|group| group.rules()).map(|(_, _, line)| line).collect();
            let chain = [ProductToken::new("a").unwrap()];
            (matches!(file.selection(&chain), Selection::Token(_)), rules)
        };
        assert_eq!(found(true), (true, vec![3, 4, 5]));
        assert_eq!(found(false), (false, vec![5]));
    }
}
