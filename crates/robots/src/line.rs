//! Lines of robots.txt: their ends, the part that counts, and the field that they hold.
//!
//! Nothing here can fail. RFC 9309 section 2.2 gives a grammar, and section 2.3.1.5 asks parsers to take the lines that
//! they can parse and skip the rest. Lines are read exactly as Google's library reads them, because authors have tested
//! their files against it.

use memchr::{memchr_iter, memchr2, memrchr2};

use super::field::Field;

/// The number of octets of an overlong line that count: as many as Google's library keeps (8 × 2083 − 1).
pub(super) const MAX_LINE: usize = 16_663;

/// The UTF-8 byte order mark.
pub(super) const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// One line, without its comment and the white space around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// Counted from 1; CR, LF and CRLF each end one line.
    pub(super) number: u32,
    /// The place in the text at which `content` begins.
    pub(super) start: usize,
    /// The part of the line that counts.
    pub(super) content: &'a [u8],
    /// True if the line was too long and only its beginning counts.
    pub(super) is_cut: bool,
}

/// The lines of a text that are not empty, in order.
#[derive(Clone, Debug)]
pub(super) struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    number: u32,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: beginning(text), number: 0 }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let mut rest = self.text.get(self.at..)?;
        while let [b'\r', b'\n', after @ ..] | [b'\r' | b'\n', after @ ..] = rest {
            rest = after;
            self.number = self.number.saturating_add(1);
        }
        if rest.is_empty() {
            return None;
        }
        let start = self.text.len() - rest.len();
        let end = start + length(rest);
        self.at = next_line_start(self.text, end);
        self.number = self.number.saturating_add(1);
        Some(Line::new(self.text, start, end, self.number))
    }
}

/// Returns the lines of a file with the numbering of rules and notes, from 1: lines end at LF, CR or CRLF (RFC 9309
/// section 2.2), and empty ones count.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        if text.is_empty() {
            rest = None;
            return None;
        }
        let end = memchr::memchr2(b'\r', b'\n', text);
        let Some((line, after)) = end.and_then(|end| text.split_at_checked(end)) else {
            rest = None;
            return Some(text);
        };
        rest = after.strip_prefix(b"\r\n").or_else(|| after.get(1..));
        Some(line)
    })
}

/// Tells whether any line of a text is a rule or names a crawler, also a rule that belongs to no group.
pub fn has_rules(text: &[u8]) -> bool {
    let mut fields = Lines::new(text).filter_map(|line| line.pair(true)?.field);
    fields.any(|field| matches!(field, Field::UserAgent | Field::Allow | Field::Disallow))
}

/// Returns the place at which the first line begins: behind a byte order mark, also a partial one (Google).
pub(super) fn beginning(text: &[u8]) -> usize {
    text.iter().zip(BYTE_ORDER_MARK).take_while(|(octet, mark)| **octet == *mark).count()
}

/// Returns the length of the line that `text` begins with, without its ending.
pub(super) fn length(text: &[u8]) -> usize {
    find_either(b'\n', b'\r', text).unwrap_or(text.len())
}

/// Works like `memchr2`, but looks at the nearest octets first: many lines are shorter than the cost of starting a
/// vector search.
fn find_either(one: u8, other: u8, text: &[u8]) -> Option<usize> {
    const NEAR: usize = 8;
    let near = text.get(..NEAR).unwrap_or(text);
    let is_it = |octet: &u8| *octet == one || *octet == other;
    match near.iter().position(is_it) {
        Some(at) => Some(at),
        None => memchr2(one, other, text.get(NEAR..)?).map(|at| at + NEAR),
    }
}

/// Returns the place at which the next line begins, given a line's end.
pub(super) fn next_line_start(text: &[u8], end: usize) -> usize {
    end + match text.get(end..) {
        Some([b'\r', b'\n', ..]) => 2,
        Some([_, ..]) => 1,
        _ => 0,
    }
}

/// Returns the place at which the line begins that holds the octet at `at`, or ends there.
pub(super) fn start(text: &[u8], at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    memrchr2(b'\n', b'\r', before).map_or_else(|| beginning(text), |end| end + 1)
}

/// Returns the number of lines that end in `text`.
pub(super) fn endings(text: &[u8]) -> u32 {
    let lone = |at: &usize| text.get(at + 1) != Some(&b'\n');
    let count = memchr_iter(b'\n', text).count() + memchr_iter(b'\r', text).filter(lone).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A line read as `name : value`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    /// The field; `None` if its name is unknown.
    pub(super) field: Option<Field>,
    pub(super) value: &'a [u8],
    /// The place in the line's content at which `value` begins.
    pub(super) value_start: usize,
}

impl<'a> Line<'a> {
    /// Returns the line from `start` to its ending at `end`.
    pub(super) fn new(text: &'a [u8], start: usize, end: usize, number: u32) -> Self {
        let line = text.get(start..end).unwrap_or_default();
        let is_cut = line.len() > MAX_LINE;
        let line = line.get(..MAX_LINE).unwrap_or(line);
        let line = find_either(b'#', 0, line).and_then(|at| line.get(..at)).unwrap_or(line);
        let (skipped, content) = trim(line);
        Self { number, start: start + skipped, content, is_cut }
    }

    /// Returns the line as a field and its value; `None` if the line has another form.
    pub(super) fn pair(&self, lenient: bool) -> Option<Pair<'a>> {
        let separator = match self.content.iter().position(|octet| *octet == b':') {
            Some(at) => at,
            None if lenient => two_words(self.content)?,
            None => return None,
        };
        let (name, rest) = self.content.split_at_checked(separator)?;
        let (_, name) = trim(name);
        if name.is_empty() {
            return None;
        }
        let (skipped, value) = trim(rest.get(1..)?);
        Some(Pair {
            field: Field::named(name, lenient),
            value,
            value_start: separator + 1 + skipped,
        })
    }
}

/// Returns the end of the first of exactly two words (Google: "some people forget the colon").
fn two_words(content: &[u8]) -> Option<usize> {
    let end = memchr2(b' ', b'\t', content)?;
    let rest = content.get(end..)?;
    let second = rest.iter().position(|octet| !matches!(octet, b' ' | b'\t'))?;
    memchr2(b' ', b'\t', rest.get(second..)?).is_none().then_some(end)
}

/// Tells whether `octet` is white space inside a line.
pub(super) fn is_space(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t' | 0x0B | 0x0C)
}

/// Returns `octets` without the white space at both ends, and the number of octets cut off in front.
fn trim(octets: &[u8]) -> (usize, &[u8]) {
    let start = octets.iter().position(|octet| !is_space(*octet)).unwrap_or(octets.len());
    let end = octets.iter().rposition(|octet| !is_space(*octet)).map_or(start, |last| last + 1);
    (start, octets.get(start..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    // A table's type is spelt where the table is.
    #![allow(clippy::type_complexity, reason = "a case is one row, its columns a tuple")]
    use super::*;

    fn contents(text: &[u8]) -> Vec<(u32, &[u8])> {
        Lines::new(text).map(|line| (line.number, line.content)).collect()
    }

    fn only(line: &[u8], lenient: bool) -> Option<(Option<Field>, &[u8])> {
        Lines::new(line).next()?.pair(lenient).map(|pair| (pair.field, pair.value))
    }

    #[test]
    fn google_lines_end_in_lf_cr_or_crlf_and_nothing_else() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[u8], &[(u32, &[u8])])] = &[
            ("each ending ends one line", b"a\nb\rc\r\nd", &[(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]),
            ("LF CR is two endings", b"a\n\rb", &[(1, b"a"), (3, b"b")]),
            ("empty lines are passed over", b"\n\r\n\ra\n\n", &[(4, b"a")]),
            ("lines of white space are not", b" \na", &[(1, b""), (2, b"a")]),
            ("VT and FF end nothing", b"a\x0Bb\x0Cc", &[(1, b"a\x0Bb\x0Cc")]),
            ("NEL and LS end nothing", b"a\xC2\x85b\xE2\x80\xA8c", &[(1, b"a\xC2\x85b\xE2\x80\xA8c")]),
            ("an ending at the end begins no line", b"a\n", &[(1, b"a")]),
            ("nothing is no line", b"", &[]),
        ];
        for (name, text, expected) in cases {
            assert_eq!(contents(text), *expected, "{name}");
        }
    }

    #[test]
    fn google_the_part_of_a_line_that_counts() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[u8], &[u8])] = &[
            ("white space around a line does not count", b" \t\x0B\x0Ca b\x0C\x0B\t ", b"a b"),
            ("NBSP is not white space", b"\xC2\xA0a", b"\xC2\xA0a"),
            ("a comment does not count", b"a # b", b"a"),
            ("a comment may begin anywhere", b"/a#b", b"/a"),
            ("a line ends at a NUL", b"a\0b#c", b"a"),
            ("a byte order mark at the start does not count", b"\xEF\xBB\xBFa", b"a"),
            ("two octets of a byte order mark do not count", b"\xEF\xBBa", b"a"),
            ("one octet of a byte order mark does not count", b"\xEFa", b"a"),
            ("a second byte order mark counts", b"\xEF\xBB\xBF\xEF\xBB\xBFa", b"\xEF\xBB\xBFa"),
        ];
        for (name, text, expected) in cases {
            assert_eq!(contents(text), [(1, *expected)], "{name}");
        }
    }

    #[test]
    fn google_the_first_16663_octets_of_a_line_count() {
        let text = [&b"x"[..], &vec![b'a'; 16_662], b"bc\nd"].concat();
        let lines: Vec<Line<'_>> = Lines::new(&text).collect();
        let shown: Vec<(usize, bool)> =
            lines.iter().map(|line| (line.content.len(), line.is_cut)).collect();
        assert_eq!(shown, [(16_663, true), (1, false)]);
        let whole = vec![b'a'; 16_663];
        assert!(Lines::new(&whole).all(|line| !line.is_cut), "a line of just that length is whole");
        let in_a_character = [&vec![b'a'; 16_662][..], "ツ".as_bytes()].concat();
        assert_eq!(
            contents(&in_a_character).iter().map(|(_, line)| line.len()).sum::<usize>(),
            16_663,
            "a cut inside a character"
        );
    }

    #[test]
    fn google_a_line_splits_at_its_first_colon_or_between_two_words() {
        let allow = |value: &'static [u8]| Some((Some(Field::Allow), value));
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[u8], Option<(Option<Field>, &[u8])>)] = &[
            ("white space on both sides of the colon", b"allow \t: \x0B/a", allow(b"/a")),
            ("later colons belong to the value", b"allow:/a:b", allow(b"/a:b")),
            ("no value", b"allow:", allow(b"")),
            ("two words", b"allow /a", allow(b"/a")),
            ("two words, far apart", b"allow \t /a", allow(b"/a")),
            ("three words are nothing", b"allow /a b", None),
            ("one word is nothing", b"allow", None),
            ("VT does not part words", b"allow\x0B/a", None),
            ("no name", b": /a", None),
            ("an empty line", b"", None),
        ];
        for (name, line, expected) in cases {
            assert_eq!(only(line, true), *expected, "{name}");
        }
        assert_eq!(only(b"allow /a", false), None, "strict: the colon is needed");
    }
}
