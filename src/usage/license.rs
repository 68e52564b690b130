//! The URL of a licence (RSL 1.0), as robots.txt and Link name it.

use super::said::Why;

/// Limit on a licence's URL, in octets.
const LONGEST: usize = 2_048;

/// Returns the URL if it is absolute, http or https, and without user and white space. It need not be percent-encoded.
pub(super) fn url(value: &[u8]) -> Result<&str, Why> {
    let text = str::from_utf8(value).map_err(|_| Why::NotAbsolute)?;
    if is_url(text) {
        Ok(text)
    } else {
        Err(Why::NotAbsolute)
    }
}

fn is_url(text: &str) -> bool {
    let is_plain = |one: char| !one.is_whitespace() && !one.is_control() && one != '\\';
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let is_http = ["http", "https"]
        .iter()
        .any(|http| scheme.eq_ignore_ascii_case(http));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    text.len() <= LONGEST
        && is_http
        && text.chars().all(is_plain)
        && !authority.is_empty()
        && !authority.contains('@')
        && url::Url::parse(text).is_ok_and(|url| url.has_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_an_absolute_url_of_the_web() {
        let long = format!("https://a.example/{}", "a".repeat(2_048));
        let cases = [
            ("https://a.example/l.xml", true),
            ("HTTP://a.example", true),
            ("https://a.example/lizenz-ü.xml?v=1#a@b", true),
            ("https://[::1]:8/l", true),
            ("/l.xml", false),
            ("//a.example/l.xml", false),
            ("https:a.example", false),
            ("https:///l.xml@", false),
            ("https://", false),
            ("https:///a.example/l", false),
            ("ftp://a.example/l", false),
            ("https://u@a.example/l", false),
            ("https://u:p@a.example/l", false),
            ("https://a.example\\@b.example/", false),
            ("https://a.example/ l", false),
            ("https://a.example/\u{a0}l", false),
            ("https://a.example:99999/l", false),
            ("", false),
            (&*long, false),
        ];
        for (text, expected) in cases {
            assert_eq!(url(text.as_bytes()).is_ok(), expected, "{text}");
        }
        assert_eq!(url(b"https://a.example/\xE9"), Err(Why::NotAbsolute));
    }
}
