//! The public part of a URL.

use std::borrow::Cow;

/// Replacement of a query.
const REDACTED: &[u8] = "?…redacted".as_bytes();

/// Stands for the beginning of a URL of which no reader can tell where its userinfo ends.
const UNKNOWN: &[u8] = "…redacted@".as_bytes();

/// Returns `url` without userinfo and, if `redact_query`, without its query.
pub fn public_url(url: &[u8], redact_query: bool) -> Cow<'_, [u8]> {
    match public_parts(url, redact_query) {
        [[], only, []] => Cow::Borrowed(only),
        parts => Cow::Owned(parts.concat()),
    }
}

/// Returns [`public_url`] in parts, without an allocation.
pub fn public_parts(url: &[u8], redact_query: bool) -> [&[u8]; 3] {
    let (before, after) = around_userinfo(url);
    let query = redact_query.then(|| memchr::memchr(b'?', after)).flatten();
    match query {
        None => [before, after, &[]],
        Some(at) => [before, after.split_at(at).0, REDACTED],
    }
}

/// Splits `url` into the parts before and after its userinfo; without any, all of it comes after.
///
/// Generous in its idea of userinfo, since other readers of URLs disagree about slashes and backslashes: the userinfo
/// is everything up to the last `@` of any possible authority. If that leaves no host, as in
/// `http://user:pass/word@host/`, its end is unknown: everything up to the last `@` of the URL counts, and [`UNKNOWN`] takes
/// its place, since the host behind it may be none that was asked for. A path in
/// origin form has no authority unless it begins with two slashes (RFC 3986, section 4.2).
fn around_userinfo(url: &[u8]) -> (&[u8], &[u8]) {
    let is_slash = |octet: &u8| matches!(octet, b'/' | b'\\');
    let is_path = match url {
        [b'/', second, ..] => !is_slash(second),
        _ => matches!(url.first(), None | Some(b'/' | b'?' | b'#' | b'*')),
    };
    if is_path || memchr::memchr(b'@', url).is_none() {
        return (&[], url);
    }
    let scheme = url
        .iter()
        .position(|octet| !octet.is_ascii_alphanumeric() && !b"+-.".contains(octet))
        .filter(|&end| url.get(end) == Some(&b':') && url.get(end + 1).is_some_and(is_slash));
    // Without slashes it is the authority form of CONNECT, or read as if it were.
    let start = scheme.map_or(0, |colon| colon + 1);
    let slashes = url.iter().skip(start).take_while(|o| is_slash(o));
    let (before, rest) = url.split_at(start + slashes.count());
    let end =
        rest.iter().position(|octet| matches!(octet, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let authority = rest.split_at(end).0;
    let (before, at) = match memchr::memrchr(b'@', authority) {
        None if !is_host(authority, scheme.is_some()) => (UNKNOWN, memchr::memrchr(b'@', rest)),
        at => (before, at),
    };
    match at {
        Some(at) => (before, rest.split_at(at + 1).1),
        None => (&[], url),
    }
}

/// Tells whether the text could be `host[:port]`. After a scheme, the port may be missing behind its colon (RFC 3986,
/// section 3.2.3); without one, the colon may be a scheme's.
fn is_host(authority: &[u8], may_lack_port: bool) -> bool {
    let is_digit = |octet: &u8| octet.is_ascii_digit();
    if authority.first() == Some(&b'[') {
        return true;
    }
    let colon = memchr::memchr(b':', authority).unwrap_or(authority.len());
    let (name, port) = authority.split_at(colon);
    let is_name =
        |octet: &u8| octet.is_ascii_alphanumeric() || b"-._~%".contains(octet) || !octet.is_ascii();
    let is_port = match port {
        [] => true,
        [_] => may_lack_port,
        [_, digits @ ..] => digits.iter().all(is_digit),
    };
    !name.is_empty() && name.iter().all(is_name) && is_port
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn userinfo_is_left_out() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("absolute form", "http://user:secret@a.example/x", "http://a.example/x"),
            ("a user alone", "http://secret@a.example/", "http://a.example/"),
            ("an at sign in the password", "http://u:sec@ret@a.example/", "http://a.example/"),
            ("authority form", "user:secret@a.example:443", "a.example:443"),
            ("no path", "https://u:secret@a.example", "https://a.example"),
            ("a query at once", "https://u:secret@a.example?x", "https://a.example?x"),
            ("another scheme", "ftp://u:secret@a.example/x", "ftp://a.example/x"),
            ("one slash", "http:/u:secret@a.example/x", "http:/a.example/x"),
            ("three slashes", "http:///u:secret@a.example/x", "http:///a.example/x"),
            ("backslashes", "http:\\\\u:secret@a.example/x", "http:\\\\a.example/x"),
            ("a backslash inside", "http://u:secret\\@a.example/x", "http://a.example/x"),
            ("no slash", "https:u:secret@a.example/x", "a.example/x"),
            ("a slash in the password", "http://u:SECRET/x@a.example/private", "…redacted@a.example/private"),
            ("several", "http://u:SEC/RET/@/x@a.example/private", "…redacted@a.example/private"),
            ("a question mark in the password", "http://u:SECRET?x@a.example/", "…redacted@a.example/"),
            ("a number sign in the password", "http://u:SECRET#x@a.example/", "…redacted@a.example/"),
            ("digits before the slash", "http://u:1234a/x@a.example/", "…redacted@a.example/"),
            ("a slash in the password of an authority", "u:SECRET/x@a.example:443", "…redacted@a.example:443"),
            ("a port that is none, and an at sign in the query", "http://a.example:pp/private?by=me@b.example", "…redacted@b.example"),
            ("no scheme", "//u:secret@a.example/x", "//a.example/x"),
            ("no scheme, and backslashes", "\\\\u:secret@a.example/x", "\\\\a.example/x"),
            ("a slash and a backslash", "/\\u:secret@a.example/x", "/\\a.example/x"),
            ("a space before the scheme", " http://u:secret@a.example/x", "…redacted@a.example/x"),
            ("a scheme that is none", "ht_tp://u:secret@a.example/x", "…redacted@a.example/x"),
            // What only looks like it.
            ("an at sign behind a port", "http://a.example:80/@b", "http://a.example:80/@b"),
            ("an at sign behind no port", "http://a.example:/@b", "http://a.example:/@b"),
            ("an at sign behind an address", "http://[2001:db8::1]:80/@b", "http://[2001:db8::1]:80/@b"),
            ("an at sign behind a name that is not ASCII", "http://b\u{fc}cher.example/@b", "http://b\u{fc}cher.example/@b"),
            ("an at sign in the path of a host alone", "a.example/@b", "a.example/@b"),
            ("none", "http://a.example/x", "http://a.example/x"),
            ("an at sign in the path", "http://a.example/@b", "http://a.example/@b"),
            ("an at sign in the query", "http://a.example?a@b", "http://a.example?a@b"),
            ("origin form", "/@b?c@d", "/@b?c@d"),
            ("asterisk form", "*", "*"),
            ("nothing", "", ""),
        ];
        for (name, url, want) in cases {
            let public = public_url(url.as_bytes(), false);
            assert_eq!(String::from_utf8_lossy(&public), want, "{name}");
        }
    }

    #[test]
    fn the_query_is_left_out_on_demand() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("http://a.example/x?token=secret", "http://a.example/x?…redacted"),
            ("http://u:secret@a.example/x?secret", "http://a.example/x?…redacted"),
            ("/x?a?b=secret", "/x?…redacted"),
            ("http://a.example/x", "http://a.example/x"),
        ];
        for (url, want) in cases {
            assert_eq!(public_url(url.as_bytes(), true), want.as_bytes());
        }
    }
}
