//! A robots.txt, parsed once.
//!
//! Parsing keeps the text and, for every line that counts, where in the text its value stands and
//! what kind of line it is: four octets a line. Nothing is copied out of the text, and nothing is
//! read twice, until somebody asks: the end of a value, the number of its line and the name of its
//! group are found again from its place. A file of which one crawler's rules are wanted is paid for
//! by its length and by that crawler's rules, not by all others.
//!
//! A group here is what the file shows: a run of user-agent lines with the rules below it. Merging
//! the groups of one token is left to whoever selects them.
//!
//! Cost: one search for each line's end and one look at its first octets, so linear in the text,
//! whatever it holds.

use std::borrow::Cow;
use std::sync::Arc;

use super::field::Field;
use super::line::{self, Line, MAX_LINE, is_space};
use super::note::{Note, notes};
use super::utf16::Utf16;

/// How a robots.txt is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOptions {
    /// Whether field names may be misspelt in the frequent ways and a line of two words may lack
    /// its colon.
    pub lenient: bool,
    /// How many octets count. RFC 9309 section 2.5 asks for at least 512,000; more than 64 MiB
    /// (67,108,864) are taken as that.
    pub limit: usize,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            lenient: true,
            limit: 512_000,
        }
    }
}

/// The most octets that ever count, so that a place and four flags fit into 32 bits, also in
/// patterns that the comparison form has made three times as long.
const MOST: usize = 1 << 26;

/// A parsed robots.txt. A clone shares the text.
#[derive(Clone, Debug)]
pub struct Robots {
    pub(super) file: Arc<File>,
}

/// The text, and where in it lies what counts.
#[derive(Debug, Default)]
pub(super) struct File {
    text: Box<[u8]>,
    /// What `text` was decoded from, where that is UTF-16.
    utf16: Option<Box<[u8]>>,
    is_truncated: bool,
    lenient: bool,
    /// The user-agent lines, the rules of groups and the other known fields, in order.
    entries: Box<[Entry]>,
    /// The first entry of each group; the next group's ends it.
    groups: Box<[u32]>,
    /// The number of every [`MARKED`]th entry's line.
    marks: Box<[u32]>,
    pub(super) is_global_named: bool,
    /// Whether values must be looked up with an eye on the limit of a line's length.
    has_overlong: bool,
}

/// From one line number that is kept to the next, in entries.
const MARKED: usize = 64;

/// A line that counts: what it is, and where its value begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

/// What a line is.
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

    /// Where in the text the value begins.
    pub(super) fn place(self) -> u32 {
        self.0 << 2 >> 2
    }
}

impl Robots {
    /// Parses a robots.txt. Any octets are one; what makes no sense is passed over.
    ///
    /// Of `text`, the first `options.limit` octets count; the line that the limit cuts is dropped.
    /// To tell a file that ends at the limit from one that goes on, hand over one octet more where
    /// there is one.
    pub fn parse(text: &[u8], options: ParseOptions) -> Self {
        // Three octets may come of two.
        let most = if Utf16::new(text).is_some() {
            MOST / 2
        } else {
            MOST
        };
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
        };
        Self {
            file: Arc::new(file),
        }
    }

    /// The text that counts, octet for octet: all of it, or its whole lines within the limit. Its lines are those of
    /// [`decoded`](super::decoded).
    pub fn text(&self) -> &[u8] {
        self.file.utf16.as_deref().unwrap_or(&self.file.text)
    }

    /// Whether it was read leniently: see [`ParseOptions::lenient`].
    pub fn is_lenient(&self) -> bool {
        self.file.lenient
    }

    /// Whether the text was longer than the limit.
    pub fn is_truncated(&self) -> bool {
        self.file.is_truncated
    }

    /// Heap used, in octets. Rules compiled from this file share its text and count their own.
    pub fn bytes(&self) -> usize {
        let file = &*self.file;
        size_of::<File>()
            + file.text.len()
            + file.utf16.as_deref().map_or(0, <[u8]>::len)
            + size_of_val(&*file.entries)
            + size_of_val(&*file.groups)
            + size_of_val(&*file.marks)
    }

    /// What its author should know: lines that do not do what they seem to. Reads the text anew.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = notes(&self.file.text, self.file.lenient, self.file.is_truncated);
        if self.file.utf16.is_some() {
            notes.insert(0, Note::of_utf16());
        }
        notes
    }
}

impl File {
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// How many lines count.
    pub(super) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entry(&self, at: usize) -> Option<Entry> {
        self.entries.get(at).copied()
    }

    /// The number of the entry whose value begins at `place`.
    pub(super) fn entry_at(&self, place: u32) -> Option<usize> {
        self.entries
            .binary_search_by_key(&place, |entry| entry.place())
            .ok()
    }

    /// The entries of each group: their range.
    pub(super) fn groups(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let ends = self.groups.iter().skip(1).copied();
        self.groups
            .iter()
            .zip(ends.chain([index(self.entries.len())]))
            .map(|(start, end)| *start as usize..end as usize)
    }

    /// The range of the group that holds an entry.
    pub(super) fn group_of(&self, entry: usize) -> Option<std::ops::Range<usize>> {
        let after = self
            .groups
            .partition_point(|first| *first as usize <= entry);
        let start = *self.groups.get(after.checked_sub(1)?)?;
        let end = self
            .groups
            .get(after)
            .map_or(self.entries.len(), |end| *end as usize);
        Some(start as usize..end)
    }

    pub(super) fn entries(&self, range: std::ops::Range<usize>) -> &[Entry] {
        self.entries.get(range).unwrap_or_default()
    }

    /// The whole line of an entry. Its number is not known from its place.
    pub(super) fn line(&self, place: u32) -> Line<'_> {
        let start = line::start(&self.text, place as usize);
        let rest = self.text.get(start..).unwrap_or_default();
        Line::new(&self.text, start, start + line::length(rest), 0)
    }

    /// The field and the value of the line whose value begins at `place`.
    pub(super) fn pair(&self, place: u32) -> (Option<Field>, &[u8]) {
        let pair = self.line(place).pair(self.lenient);
        pair.map_or((None, &[]), |pair| (pair.field, pair.value))
    }

    /// What stands where a value begins, to the end of the text. Of an overlong line, the value
    /// itself.
    pub(super) fn from(&self, place: u32) -> &[u8] {
        if self.has_overlong {
            return self.pair(place).1;
        }
        self.text.get(place as usize..).unwrap_or_default()
    }

    /// The number of an entry's line, from 1.
    pub(super) fn number(&self, entry: usize) -> u32 {
        let marked = entry / MARKED;
        let place = |entry| self.entry(entry).map_or(0, |entry| entry.place() as usize);
        let between = self.text.get(place(marked * MARKED)..place(entry));
        let mark = self.marks.get(marked).copied().unwrap_or_default();
        mark.saturating_add(between.map_or(0, line::endings))
    }
}

/// Finds the lines that count.
struct Reader<'a> {
    text: &'a [u8],
    entries: Vec<Entry>,
    groups: Vec<u32>,
    marks: Vec<u32>,
    is_global_named: bool,
    has_overlong: bool,
    /// Whether the next user-agent line joins the group before it.
    is_group_open: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            // A little more than most files need; what is left over is given back.
            entries: Vec::with_capacity(text.len() / 24),
            groups: Vec::new(),
            marks: Vec::new(),
            is_global_named: false,
            has_overlong: false,
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
            // Most lines are of a few fields, written as they should be.
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
                    self.keep(field, place, value, number);
                }
                _ if matches!(rest, [b'\n' | b'\r' | b'#', ..]) => {}
                _ => {
                    let line = Line::new(self.text, start, end, number);
                    if let Some(pair) = line.pair(lenient)
                        && let Some(field) = pair.field
                    {
                        self.keep(field, line.start + pair.value_start, pair.value, number);
                    }
                }
            }
            start = line::after_ending(self.text, end);
        }
    }

    /// Keeps a line whose value is at `place`, and is what `value` begins with. A rule before the
    /// first user-agent line is nobody's.
    fn keep(&mut self, field: Field, place: usize, value: &[u8], number: u32) {
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
            EntryKind::Other => {}
        }
        if self.entries.len().is_multiple_of(MARKED) {
            self.marks.push(number);
        }
        self.entries.push(Entry::new(kind, place));
    }
}

/// Whether the value that `text` begins with is `*`, or `*` then white space and more (Google).
pub(super) fn is_global(text: &[u8]) -> bool {
    matches!(text, [b'*', after @ ..]
        if after.first().is_none_or(|octet| is_space(*octet) || matches!(octet, b'\n' | b'\r' | b'#' | 0)))
}

/// The whole lines of `text` within `limit`.
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
    use crate::rep::{ProductToken, Selection};

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
            let file = Robots::parse(
                b"a:b\nc:",
                ParseOptions {
                    limit: *limit,
                    lenient: true,
                },
            );
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
        let path = crate::rep::ComparisonPath::new("/\u{fc}".as_bytes());
        let rule = rules.verdict(&path).expect("it is disallowed").into_rule();
        assert_eq!((&*rule.text, rule.line), ("Disallow: /\u{fc}", 2));
        let notes = file.notes();
        assert_eq!(notes[0].kind.as_str(), "utf_16");
        assert!(file.bytes() > octets.len() + text.len());
        let short = Robots::parse(
            &octets,
            ParseOptions {
                limit: octets.len() - 5,
                lenient: true,
            },
        );
        assert_eq!((short.text(), short.is_truncated()), (&octets[..32], true));
    }

    #[test]
    fn strictness_is_one_switch() {
        let text = b"useragent: a\nuser-agent: *\ndissallow: /3\ndisallow /4\ndisallow: /5\n";
        let found = |lenient| {
            let file = Robots::parse(
                text,
                ParseOptions {
                    lenient,
                    ..ParseOptions::default()
                },
            );
            let rules: Vec<u32> = file
                .groups()
                .flat_map(|group| group.rules())
                .map(|(_, _, line)| line)
                .collect();
            let chain = [ProductToken::new("a").unwrap()];
            (matches!(file.selection(&chain), Selection::Token(_)), rules)
        };
        assert_eq!(found(true), (true, vec![3, 4, 5]));
        assert_eq!(found(false), (false, vec![5]));
    }
}
