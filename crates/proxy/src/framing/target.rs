//! The characters of request targets.
//!
//! One rule holds for path and query. Visible characters pass: as they are, or escaped where the type of a URI holds them
//! only so (`<`, `>`; the grave accent in a path, the quotation mark in a query). Octets that are no text are refused by name.

use memchr::memchr;

/// Tells whether a target is certainly a URI: in absolute-form with a plain host or in origin-form, of these octets
/// only.
pub(super) fn is_plain_target(target: &str) -> bool {
    let plain = |rest: &str| {
        rest.bytes().all(|b| {
            b.is_ascii_alphanumeric()
                || matches!(
                    b,
                    b'/' | b'.'
                        | b'-'
                        | b'_'
                        | b'~'
                        | b'%'
                        | b'?'
                        | b'='
                        | b'&'
                        | b'+'
                        | b','
                        | b';'
                )
        })
    };
    if target.starts_with('/') {
        return plain(target);
    }
    let Some(rest) = target.strip_prefix("http://") else {
        return false;
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = authority.split_once(':').unwrap_or((authority, "1"));
    let is_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
    !host.is_empty()
        && host.bytes().all(is_host)
        && (1..=5).contains(&port.len())
        && port.parse::<u16>().is_ok()
        && plain(path)
}

/// Splits a target behind its authority.
fn split(target: &str) -> (&str, &str) {
    let start = match target.split_once("://") {
        Some((scheme, rest)) if !target.starts_with('/') => {
            let behind_scheme = scheme.len() + "://".len();
            behind_scheme + rest.find(['/', '?', '#']).unwrap_or(rest.len())
        }
        _ => 0,
    };
    target.split_at_checked(start).unwrap_or((target, ""))
}

/// Tells whether a URL ends behind its authority. The type of a URI tells it from the root only if a fragment follows.
pub(super) fn has_no_path(target: &str) -> bool {
    let (before, rest) = split(target);
    !before.is_empty() && rest.is_empty()
}

/// Returns a target with its characters escaped that a URI holds only so, and the lack of a path written as a URI holds it.
pub(super) fn escaped(target: &str) -> String {
    let (before, rest) = split(target);
    let mut escaped = before.to_owned();
    if has_no_path(target) {
        escaped.push('#');
    }
    let mut is_in_query = false;
    for character in rest.chars() {
        match character {
            '<' => escaped.push_str("%3C"),
            '>' => escaped.push_str("%3E"),
            '`' if !is_in_query => escaped.push_str("%60"),
            '"' if is_in_query => escaped.push_str("%22"),
            _ => escaped.push(character),
        }
        is_in_query |= character == '?';
    }
    escaped
}

/// Returns a head with its target escaped.
pub fn escape(head: &[u8]) -> Vec<u8> {
    let whole = || {
        let start = memchr(b' ', head)? + 1;
        let end = start + memchr(b' ', head.get(start..)?)?;
        let target = std::str::from_utf8(head.get(start..end)?).ok()?;
        let (before, behind) = (head.get(..start)?, head.get(end..)?);
        Some([before, escaped(target).as_bytes(), behind].concat())
    };
    whole().unwrap_or_else(|| head.to_vec())
}

/// Returns the first octet of a request line's target that is no part of a text: a control, a space, or none of UTF-8.
pub(super) fn stray_octet(head: &[u8]) -> Option<u8> {
    let line = head.get(..memchr(b'\r', head)?)?;
    let start = memchr(b' ', line)? + 1;
    let end = memchr::memmem::rfind(line, b" HTTP/1.")?;
    let target = line.get(start..end)?;
    let text = match std::str::from_utf8(target) {
        Ok(_) => target.len(),
        Err(error) => error.valid_up_to(),
    };
    let control = |octet: &u8| *octet <= b' ' || *octet == 0x7f;
    let stray = target.iter().take(text).find(|octet| control(octet));
    stray.or_else(|| target.get(text)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_uri_does_not_hold_are_escaped() {
        for (target, expected) in [
            ("/a<b>`\"{|}^[]\\'", "/a%3Cb%3E%60\"{|}^[]\\'"),
            ("/a?b<c>`\"{|}^[]\\'?", "/a?b%3Cc%3E`%22{|}^[]\\'?"),
            ("http://a.test/`", "http://a.test/%60"),
            ("http://a.test", "http://a.test#"),
            ("http://a.test?\"", "http://a.test?%22"),
            ("/x?http://a.test/\"", "/x?http://a.test/%22"),
            // No host has such a character: it stays, and is refused.
            ("http://a<b/", "http://a<b/"),
            ("/caf\u{e9}`", "/caf\u{e9}%60"),
        ] {
            assert_eq!(escaped(target), expected);
            let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            let expected = format!("GET {expected} HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(escape(head.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn the_octet_that_is_no_text_is_found() {
        for (target, expected) in [
            (&b"/a"[..], None),
            (b"/a\x01", Some(1)),
            (b"/a b", Some(b' ')),
            (b"/\x7f", Some(0x7f)),
            (b"/caf\xe9", Some(0xe9)),
            ("/caf\u{e9}".as_bytes(), None),
        ] {
            let head = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            assert_eq!(stray_octet(&head), expected, "{target:?}");
        }
    }
}
