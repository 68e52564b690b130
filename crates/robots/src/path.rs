//! The comparison form: the spelling in which paths and rules are compared.
//!
//! RFC 9309 section 2.2.2: octets outside ASCII and reserved characters are compared percent-encoded; percent-encoded
//! unreserved characters are decoded. One pass makes this form of paths and of rules:
//!
//! | octets | in comparison form |
//! |---|---|
//! | an escape of an unreserved character (`%61`, `%7E`) | the character |
//! | any other escape (`%2f`, `%E3`) | the same, hex digits upper case |
//! | a `%` that begins no escape | as written |
//! | controls, space, `"` `<` `>` `\` `^` `` ` `` `{` `\|` `}`, octets from 0x80 | their escape |
//! | everything else | as written: `%2F` is not `/` |
//!
//! The comparison form serves comparison only. Requests are sent with the original path.

use std::borrow::Cow;

use memchr::memchr;

/// A request's path and query in comparison form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparisonPath<'a>(Cow<'a, [u8]>);

impl<'a> ComparisonPath<'a> {
    /// Returns the comparison form of a path with its query. Borrows a path that is in this form already.
    ///
    /// The fragment is left out; a path that does not begin with `/` (empty, `?query`, `;params`) gets one in front.
    pub fn new(path_and_query: &'a [u8]) -> Self {
        let is_rooted = path_and_query.first() == Some(&b'/');
        // For nearly every path, one branchless scan of its octets, which compiles to vector instructions.
        let is_plain = path_and_query.iter().fold(true, |plain, octet| plain & is_kept(*octet));
        if is_rooted && is_plain {
            return Self(Cow::Borrowed(path_and_query));
        }
        let rest = before_fragment(path_and_query);
        if is_rooted && is_comparison_form(rest) {
            return Self(Cow::Borrowed(rest));
        }
        let mut form = Vec::with_capacity(rest.len() + 16);
        if !is_rooted {
            form.push(b'/');
        }
        for unit in Units(rest) {
            unit.write(&mut form);
        }
        Self(Cow::Owned(form))
    }

    /// Wraps octets that are in comparison form already.
    pub(super) fn of_form(form: Cow<'a, [u8]>) -> Self {
        Self(form)
    }

    /// Returns the octets to compare. All are ASCII, the first is `/`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Tells whether this is robots.txt itself, which no rule can disallow (RFC 9309 section 2.2.2).
    pub fn is_robots_txt(&self) -> bool {
        &*self.0 == b"/robots.txt"
    }
}

/// Tells whether text is in comparison form already.
pub(super) fn is_comparison_form(mut rest: &[u8]) -> bool {
    while let Some(at) = rest.iter().position(|octet| !is_kept(*octet)) {
        let Some([b'%', after @ ..]) = rest.get(at..) else {
            return false;
        };
        rest = after;
        if let [high, low, after @ ..] = rest
            && let (Some(h), Some(l)) = (digit(*high), digit(*low))
        {
            if is_unreserved(h << 4 | l) || high.is_ascii_lowercase() || low.is_ascii_lowercase() {
                return false;
            }
            rest = after;
        }
    }
    true
}

/// Returns the part of a URL before the first `#`.
pub(super) fn before_fragment(url: &[u8]) -> &[u8] {
    memchr(b'#', url).and_then(|at| url.get(..at)).unwrap_or(url)
}

/// One octet of a path or pattern: raw, or written as an escape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// An octet that stands for itself.
    Raw(u8),
    /// An octet that is compared as its escape, in either spelling.
    Escaped(u8),
}

impl Unit {
    pub(super) fn write(self, form: &mut Vec<u8>) {
        match self {
            Self::Raw(octet) => form.push(octet),
            Self::Escaped(octet) => form.extend([b'%', hex(octet >> 4), hex(octet & 15)]),
        }
    }
}

/// The units of a path or pattern: the one pass of the table above.
pub(super) struct Units<'a>(pub(super) &'a [u8]);

impl Iterator for Units<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        let (&first, rest) = self.0.split_first()?;
        if let (b'%', [high, low, after @ ..]) = (first, rest)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            self.0 = after;
            let octet = high << 4 | low;
            return Some(if is_unreserved(octet) {
                Unit::Raw(octet)
            } else {
                Unit::Escaped(octet)
            });
        }
        self.0 = rest;
        Some(if is_encoded(first) { Unit::Escaped(first) } else { Unit::Raw(first) })
    }
}

/// Tells whether an octet is always compared as it is written. `#` ends the path; `%` may begin an escape.
const fn is_kept(octet: u8) -> bool {
    !is_encoded(octet) & (octet != b'%') & (octet != b'#')
}

/// Tells whether a raw octet is compared as its escape.
pub(super) const fn is_encoded(octet: u8) -> bool {
    (octet <= b' ')
        | (octet >= 0x7F)
        | (octet == b'"')
        | (octet == b'<')
        | (octet == b'>')
        | (octet == b'\\')
        | (octet == b'^')
        | (octet == b'`')
        | (octet == b'{')
        | (octet == b'|')
        | (octet == b'}')
}

/// Tells whether an octet is unreserved (RFC 3986 section 2.3).
pub(super) fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~')
}

/// Returns the value of a hexadecimal digit.
pub fn digit(octet: u8) -> Option<u8> {
    match octet {
        b'0'..=b'9' => Some(octet - b'0'),
        b'a'..=b'f' => Some(octet - b'a' + 10),
        b'A'..=b'F' => Some(octet - b'A' + 10),
        _ => None,
    }
}

fn hex(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'A' + nibble - 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_form() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[u8], &[u8])] = &[
            ("rfc9309: an escaped unreserved character is decoded", b"/%61%7E%2d%2E%5F%30", b"/a~-._0"),
            ("rfc9309: hex digits are upper case", b"/%e3%83%84%2f", b"/%E3%83%84%2F"),
            ("rfc9309: octets outside ASCII are escaped", "/ツ".as_bytes(), b"/%E3%83%84"),
            ("rfc9309: also where they are not UTF-8", b"/\xFF\x80", b"/%FF%80"),
            ("rfc9309: reserved characters stay as they are written", b"/%3A:%3F?%26&%3D=%2F/", b"/%3A:%3F?%26&%3D=%2F/"),
            ("rfc9309: stars and dollars too", b"/*%2A$%24", b"/*%2A$%24"),
            ("ours: controls, space and delimiters are escaped", b"/ \x01\x7F\"<>\\^`{|}", b"/%20%01%7F%22%3C%3E%5C%5E%60%7B%7C%7D"),
            ("ours: their escapes stay", b"/%20%7c", b"/%20%7C"),
            ("ours: text that is not an escape stays", b"/%zz%%a%", b"/%zz%%a%"),
            ("ours: one pass, what it decodes forms no new escape", b"/%2%35%25%36%31", b"/%25%2561"),
            ("google: an empty path is the root", b"", b"/"),
            ("google: a query alone", b"?a", b"/?a"),
            ("google: parameters alone", b";a", b"/;a"),
            ("google: a fragment takes no part", b"/a#b", b"/a"),
            ("google: a fragment alone", b"#b", b"/"),
            ("ours: dot segments are left to the guard", b"/a/../%2e%2e", b"/a/../.."),
        ];
        for (name, written, expected) in cases {
            assert_eq!(ComparisonPath::new(written).as_bytes(), *expected, "{name}");
        }
    }

    #[test]
    fn a_path_in_comparison_form_is_borrowed() {
        let cases: &[(&[u8], bool)] = &[
            (b"/a/b.html?c=d&e=%2F", true),
            (b"/a%zz%", true),
            (b"/a#b", true),
            (b"/%61", false),
            (b"/%2f", false),
            (b"/ ", false),
            (b"a", false),
        ];
        for (path, expected) in cases {
            let is_borrowed = matches!(ComparisonPath::new(path).0, Cow::Borrowed(_));
            assert_eq!(is_borrowed, *expected, "{}", String::from_utf8_lossy(path));
        }
    }

    #[test]
    fn only_robots_txt_is_robots_txt() {
        let cases: &[(&[u8], bool)] = &[
            (b"/robots.txt", true),
            (b"/%72obots.txt", true),
            (b"/robots.txt#x", true),
            (b"/robots.txt?x", false),
            (b"/Robots.txt", false),
            (b"/a/robots.txt", false),
            (b"/robots.txt/", false),
        ];
        for (path, expected) in cases {
            assert_eq!(
                ComparisonPath::new(path).is_robots_txt(),
                *expected,
                "{}",
                String::from_utf8_lossy(path)
            );
        }
    }
}
