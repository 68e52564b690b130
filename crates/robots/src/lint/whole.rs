//! Files that are something else as a whole: compressed, in another encoding, a page.

use super::super::line::{BYTE_ORDER_MARK, beginning, endings, length};
use super::{Lint, LintKind};

/// Octets in front that show an encoding without a mark.
const SHOWN: usize = 64;

/// The first octets of compressed files.
const COMPRESSED: [(&str, &[u8]); 5] = [
    ("gzip", &[0x1f, 0x8b]),
    ("zstd", &[0x28, 0xb5, 0x2f, 0xfd]),
    ("zip", b"PK\x03\x04"),
    ("bzip2", b"BZh"),
    ("xz", b"\xfd7zXZ\0"),
];

/// Returns the note on a file of which no line can be read.
pub(super) fn unreadable(text: &[u8]) -> Option<LintKind> {
    let is_compressed = |(_, magic): &&(&str, &[u8])| text.starts_with(magic);
    if let Some((name, _)) = COMPRESSED.iter().find(is_compressed) {
        return Some(LintKind::Compressed(name));
    }
    if has(text, &[false, true]) || has(text, &[true, false]) {
        return Some(LintKind::Utf16Unmarked);
    }
    is_utf32(text).then_some(LintKind::Utf32)
}

/// Tells whether a file is UTF-32, with its mark or without. UTF-16 that begins with NUL has the same mark.
pub(super) fn is_utf32(text: &[u8]) -> bool {
    let big = text.strip_prefix(&[0, 0, 0xfe, 0xff]).unwrap_or(text);
    let little = text.strip_prefix(&[0xff, 0xfe, 0, 0]).unwrap_or(text);
    has(little, &[false, true, true, true]) || has(big, &[true, true, true, false])
}

/// Tells whether a text begins with units of ASCII in which just these octets are zero.
fn has(text: &[u8], zeros: &[bool]) -> bool {
    let start = text.get(..SHOWN).unwrap_or(text);
    let units = start.chunks_exact(zeros.len());
    let is_ascii = |unit: &[u8]| {
        let mut octets = unit.iter().zip(zeros);
        octets.all(|(octet, is_zero)| (*octet == 0) == *is_zero && octet.is_ascii())
    };
    units.len() > 1 && units.clone().all(is_ascii)
}

/// Returns the note on a file that is a page or another document of markup. Declarations, comments and empty lines may stand
/// before it.
pub(super) fn markup(text: &[u8]) -> Option<Lint> {
    let mut at = beginning(text);
    let mut is_xml = false;
    loop {
        let rest = text.get(at..)?;
        let skipped = match rest {
            [b' ' | b'\t' | b'\r' | b'\n' | 0 | 0x0b | 0x0c, ..] => 1,
            [b'#', ..] => length(rest),
            [b'<', b'?', ..] => {
                is_xml |= begins(rest, b"<?xml");
                behind(rest, b"?>")?
            }
            _ if rest.starts_with(b"<!--") => behind(rest, b"-->")?,
            _ if rest.starts_with(&BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
            _ => break,
        };
        at += skipped;
    }
    let rest = text.get(at..)?;
    let tags: [&[u8]; 4] = [b"<!doctype", b"<html", b"<head", b"<body"];
    let kind = match tags.iter().any(|tag| begins(rest, tag)) {
        true => LintKind::Html,
        false if is_xml && rest.starts_with(b"<") => LintKind::Xml,
        false => return None,
    };
    let number = endings(text.get(..at).unwrap_or_default()).saturating_add(1);
    let line = rest.get(..length(rest)).unwrap_or_default();
    Some(Lint::new(number, kind, line.trim_ascii_end()))
}

fn begins(text: &[u8], start: &[u8]) -> bool {
    let found = text.get(..start.len());
    found.is_some_and(|found| found.eq_ignore_ascii_case(start))
}

/// Returns the number of octets to the end of the first `mark`.
fn behind(text: &[u8], mark: &[u8]) -> Option<usize> {
    let found = memchr::memmem::find(text, mark)?;
    Some(found + mark.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str, unit: usize, is_big: bool) -> Vec<u8> {
        let octets = |octet: u8| {
            let mut octets = vec![0; unit];
            octets[if is_big { unit - 1 } else { 0 }] = octet;
            octets
        };
        text.bytes().flat_map(octets).collect()
    }

    #[test]
    fn a_file_of_which_no_line_can_be_read_is_named() {
        use LintKind::{Compressed, Utf16Unmarked, Utf32};
        let rules = "User-agent: *\nDisallow: /\n";
        #[rustfmt::skip] // one row, one case
        let cases: Vec<(&str, Vec<u8>, Option<LintKind>)> = vec![
            ("rules", rules.into(), None),
            ("rules in other letters", "# é ツ\nDisallow: /".into(), None),
            ("nothing", vec![], None),
            ("zeros", vec![0; 8], None),
            ("one letter", b"a\0".to_vec(), None),
            ("a NUL here and there", b"a\0bb\0c".to_vec(), None),
            ("gzip", vec![0x1f, 0x8b, 8, 0], Some(Compressed("gzip"))),
            ("zstd", vec![0x28, 0xb5, 0x2f, 0xfd, 4], Some(Compressed("zstd"))),
            ("zip", b"PK\x03\x04\x14".to_vec(), Some(Compressed("zip"))),
            ("bzip2", b"BZh91AY".to_vec(), Some(Compressed("bzip2"))),
            ("xz", b"\xfd7zXZ\0\0".to_vec(), Some(Compressed("xz"))),
            ("UTF-16, little-endian", encoded(rules, 2, false), Some(Utf16Unmarked)),
            ("UTF-16, big-endian", encoded(rules, 2, true), Some(Utf16Unmarked)),
            ("UTF-32, little-endian", encoded(rules, 4, false), Some(Utf32)),
            ("UTF-32, big-endian", encoded(rules, 4, true), Some(Utf32)),
            ("UTF-32 with its mark", [&[0xff, 0xfe, 0, 0][..], &encoded("ab", 4, false)].concat(), Some(Utf32)),
            ("the same, big-endian", [&[0, 0, 0xfe, 0xff][..], &encoded("ab", 4, true)].concat(), Some(Utf32)),
            ("UTF-16 that begins with NUL", [&[0xff, 0xfe, 0, 0][..], &encoded("ab", 2, false)].concat(), None),
        ];
        for (name, text, expected) in cases {
            assert_eq!(unreadable(&text), expected, "{name}");
        }
    }

    #[test]
    fn a_page_is_found_behind_what_may_stand_before_it() {
        use LintKind::{Html, Xml};
        type Case<'a> = (&'a str, &'a str, Option<(u32, LintKind)>);
        #[rustfmt::skip] // one row, one case
        let cases: &[Case<'_>] = &[
            ("a page", "<!DOCTYPE html>\n<html>", Some((1, Html))),
            ("without a declaration", "<HTML lang=en>", Some((1, Html))),
            ("a part of one", "\n\n  <head><title>", Some((3, Html))),
            ("behind a comment", "<!-- a\nb -->\n<html>", Some((3, Html))),
            ("behind two, on its line", "<!-- a --><!-- b --><html>", Some((1, Html))),
            ("behind a comment of a robots.txt", "# nothing here\n<body>", Some((2, Html))),
            ("behind a declaration of XML", "<?xml version=\"1.0\"?>\r\n<!DOCTYPE html PUBLIC>", Some((2, Html))),
            ("behind a byte order mark", "\u{feff}<html>", Some((1, Html))),
            ("another document", "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", Some((1, Xml))),
            ("markup without a declaration", "<Error>", None),
            ("a comment without an end", "<!-- <html>", None),
            ("rules first", "User-agent: *\n<html>", None),
            ("rules behind a comment of a page", "<!-- a -->\nUser-agent: *\n", None),
            ("nothing", "", None),
        ];
        for (name, text, expected) in cases {
            let found = markup(text.as_bytes()).map(|note| (note.line, note.kind));
            assert_eq!(found, *expected, "{name}");
        }
    }
}
