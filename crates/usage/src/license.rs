//! The URL of a licence (RSL 1.0), as robots.txt and Link name it.

use super::said::UnusedReason;

/// Limit on a licence's URL, in octets.
const LONGEST: usize = 2_048;

/// Limit on a label of a host name, in octets.
const LONGEST_LABEL: usize = 63;

/// Returns the URL if it is absolute, http or https, and without user and white space. It need not be percent-encoded.
pub(super) fn url(value: &[u8]) -> Result<&str, UnusedReason> {
    let text = str::from_utf8(value).map_err(|_| UnusedReason::NotAbsolute)?;
    if is_url(text) { Ok(text) } else { Err(UnusedReason::NotAbsolute) }
}

fn is_url(text: &str) -> bool {
    let is_graphic = |one: u8| one.is_ascii_graphic() && one != b'\\';
    let is_plain = |one: char| !one.is_whitespace() && !one.is_control() && one != '\\';
    let without = |scheme: &str| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let Some(rest) = without("https://").or_else(|| without("http://")) else {
        return false;
    };
    let end = rest.find(['/', '?', '#']);
    let authority = end.and_then(|end| rest.get(..end)).unwrap_or(rest);
    let is_host =
        || !authority.contains('@') && url::Url::parse(text).is_ok_and(|url| url.has_host());
    text.len() <= LONGEST
        && (text.bytes().all(is_graphic) || text.chars().all(is_plain))
        && !authority.is_empty()
        && (is_plain_host(authority) || is_host())
}

/// Tells whether an authority is a host of usual spelling, which no parser refuses: labels of letters, digits and hyphens,
/// the last one without a digit in front, so that it is no address. All others are left to the parser.
fn is_plain_host(authority: &str) -> bool {
    let is_of_label = |octet: &u8| octet.is_ascii_alphanumeric() || *octet == b'-';
    let is_encoded = |label: &[u8]| {
        let start = label.get(..4);
        start.is_some_and(|start| start.eq_ignore_ascii_case(b"xn--"))
    };
    let mut last = None;
    let mut labels = authority.as_bytes().split(|octet| *octet == b'.');
    authority.len() <= LONGEST_LABEL
        && labels.all(|label| {
            last = label.first();
            last.is_some() && label.iter().all(is_of_label) && !is_encoded(label)
        })
        && last.is_some_and(u8::is_ascii_alphabetic)
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
        assert_eq!(url(b"https://a.example/\xE9"), Err(UnusedReason::NotAbsolute));
    }

    #[test]
    fn the_parser_takes_each_host_of_usual_spelling() {
        let mut hosts = vec![String::new()];
        let mut plain = 0;
        for _ in 0..6 {
            let longer = hosts
                .iter()
                .flat_map(|host| "xn-.0".chars().map(move |one| format!("{host}{one}")));
            hosts = longer.collect();
            for host in hosts.iter().filter(|host| is_plain_host(host)) {
                plain += 1;
                let url = url::Url::parse(&format!("https://{host}/l"));
                assert!(url.is_ok_and(|url| url.has_host()), "{host}");
            }
        }
        assert!(plain > 1_000, "{plain}");
        for host in ["", "a.", ".a", "a..b", "1.2.3.4", "a.0x1", "xn--a", "a:80", "ä"] {
            assert!(!is_plain_host(host), "{host}");
        }
    }
}
