//! What of a URL others may see.

use std::borrow::Cow;

/// What stands where a query was.
const REDACTED: &[u8] = "?…redacted".as_bytes();

/// `url` as others may see it: without userinfo and, if `redact_query`, without its query.
pub(crate) fn public_url(url: &[u8], redact_query: bool) -> Cow<'_, [u8]> {
    let (before, after) = around_userinfo(url);
    let query = redact_query.then(|| memchr::memchr(b'?', after)).flatten();
    match query {
        None if before.is_empty() => Cow::Borrowed(after),
        None => Cow::Owned([before, after].concat()),
        Some(at) => Cow::Owned([before, after.split_at(at).0, REDACTED].concat()),
    }
}

/// What stands before and after the userinfo of `url`; all of it after, where there is none.
///
/// Generous in what it takes for userinfo, since other readers of URLs disagree about slashes and backslashes: everything
/// up to the last `@` of what any of them could read as the authority. A path in origin form has no authority.
fn around_userinfo(url: &[u8]) -> (&[u8], &[u8]) {
    let has_none = memchr::memchr(b'@', url).is_none();
    if has_none || matches!(url.first(), None | Some(b'/' | b'?' | b'#' | b'*')) {
        return (&[], url);
    }
    let is_slash = |octet: &u8| matches!(octet, b'/' | b'\\');
    let scheme = url
        .iter()
        .position(|octet| !octet.is_ascii_alphanumeric() && !b"+-.".contains(octet))
        .filter(|&end| url.get(end) == Some(&b':') && url.get(end + 1).is_some_and(is_slash));
    // Without slashes it is the authority form of CONNECT, or read as if it were.
    let start = scheme.map_or(0, |colon| {
        let slashes = url.iter().skip(colon + 1).take_while(|o| is_slash(o));
        colon + 1 + slashes.count()
    });
    let (before, rest) = url.split_at(start);
    let end = rest
        .iter()
        .position(|octet| matches!(octet, b'/' | b'?' | b'#'))
        .unwrap_or(rest.len());
    match rest.iter().take(end).rposition(|&octet| octet == b'@') {
        Some(at) => (before, rest.split_at(at + 1).1),
        None => (&[], url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn userinfo_is_left_out() {
        let cases = [
            (
                "absolute form",
                "http://user:secret@a.example/x",
                "http://a.example/x",
            ),
            (
                "a user alone",
                "http://secret@a.example/",
                "http://a.example/",
            ),
            (
                "an at sign in the password",
                "http://u:sec@ret@a.example/",
                "http://a.example/",
            ),
            (
                "authority form",
                "user:secret@a.example:443",
                "a.example:443",
            ),
            ("no path", "https://u:secret@a.example", "https://a.example"),
            (
                "a query at once",
                "https://u:secret@a.example?x",
                "https://a.example?x",
            ),
            (
                "another scheme",
                "ftp://u:secret@a.example/x",
                "ftp://a.example/x",
            ),
            (
                "one slash",
                "http:/u:secret@a.example/x",
                "http:/a.example/x",
            ),
            (
                "three slashes",
                "http:///u:secret@a.example/x",
                "http:///a.example/x",
            ),
            (
                "backslashes",
                "http:\\\\u:secret@a.example/x",
                "http:\\\\a.example/x",
            ),
            (
                "a backslash inside",
                "http://u:secret\\@a.example/x",
                "http://a.example/x",
            ),
            ("no slash", "https:u:secret@a.example/x", "a.example/x"),
            // What only looks like it.
            ("none", "http://a.example/x", "http://a.example/x"),
            (
                "an at sign in the path",
                "http://a.example/@b",
                "http://a.example/@b",
            ),
            (
                "an at sign in the query",
                "http://a.example?a@b",
                "http://a.example?a@b",
            ),
            ("origin form", "/@b?c@d", "/@b?c@d"),
            ("asterisk form", "*", "*"),
            ("nothing", "", ""),
        ];
        for (name, url, want) in cases {
            let public = public_url(url.as_bytes(), false);
            assert_eq!(public, want.as_bytes(), "{name}");
        }
    }

    #[test]
    fn the_query_is_left_out_on_demand() {
        let cases = [
            (
                "http://a.example/x?token=secret",
                "http://a.example/x?…redacted",
            ),
            (
                "http://u:secret@a.example/x?secret",
                "http://a.example/x?…redacted",
            ),
            ("/x?a?b=secret", "/x?…redacted"),
            ("http://a.example/x", "http://a.example/x"),
        ];
        for (url, want) in cases {
            assert_eq!(public_url(url.as_bytes(), true), want.as_bytes());
        }
    }
}
