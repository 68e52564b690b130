//! The parts of an answer that a fetch reads: Location and Retry-After.

use super::*;

use crawlgate_system::clock::Moment;

fn with(name: http::HeaderName, values: &[&str]) -> HeaderMap {
    let value = |text: &&str| HeaderValue::from_bytes(text.as_bytes()).expect("a field value");
    values.iter().map(|text| (name.clone(), value(text))).collect()
}

#[test]
fn a_location_is_followed_only_to_http() {
    let base = "https://a.example/x/robots.txt?q";
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], Option<&str>)] = &[
        ("absolute", &["http://b.example/r"], Some("http://b.example/r")),
        ("another port", &["https://a.example:8443/"], Some("https://a.example:8443/")),
        ("without a scheme", &["//b.example/r"], Some("https://b.example/r")),
        ("an absolute path", &["/robots.txt"], Some("https://a.example/robots.txt")),
        ("a relative path", &["r"], Some("https://a.example/x/r")),
        ("dot segments", &["../../r"], Some("https://a.example/r")),
        ("a query alone", &["?p"], Some("https://a.example/x/robots.txt?p")),
        ("empty: itself, a loop", &[""], Some(base)),
        ("the fragment is dropped", &["/r#f"], Some("https://a.example/r")),
        ("credentials are dropped", &["https://u:p@b.example/r"], Some("https://b.example/r")),
        ("raw UTF-8", &["/ü"], Some("https://a.example/%C3%BC")),
        ("twice", &["/1", "/1"], Some("https://a.example/1")),
        ("two that differ", &["/1", "/2"], None),
        ("no Location", &[], None),
        ("another scheme", &["ftp://b.example/robots.txt"], None),
        ("no address at all", &["data:text/plain,Allow"], None),
        ("a local file", &["file:///etc/passwd"], None),
        ("not a URL", &["http://["], None),
    ];
    for (name, values, expected) in cases {
        let found = location(base, &with(LOCATION, values));
        assert_eq!(found.as_deref(), *expected, "{name}");
    }
}

#[test]
fn a_missing_page_is_of_the_origin_and_cannot_be_guessed() {
    let (origin, _) = Origin::parse("https://a.example:8443/x/y").expect("a URL");
    let urls = [(); 2].map(|()| missing_page(&origin).expect("randomness"));
    assert_ne!(urls[0], urls[1]);
    for url in urls {
        let name = url.strip_prefix("https://a.example:8443/").expect("its own");
        let name = name.strip_suffix(".txt").expect("a text");
        assert!(name.len() == 32 && name.bytes().all(|octet| octet.is_ascii_hexdigit()));
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    // Sun, 06 Nov 1994 08:49:37 GMT
    let clock = Clock::manual(Moment::from_millis(784_111_777_000));
    let secs = |n| Some(Duration::from_secs(n));
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], Option<Duration>)] = &[
        ("seconds", &["120"], secs(120)),
        ("none at all", &["0"], secs(0)),
        ("white space around", &[" 120 "], secs(120)),
        ("more than any clock holds", &["99999999999999999999"], secs(u64::from(u32::MAX))),
        ("a date to come", &["Sun, 06 Nov 1994 08:50:37 GMT"], secs(60)),
        ("a date gone by", &["Sun, 06 Nov 1994 07:00:00 GMT"], secs(0)),
        ("the obsolete forms of a date", &["Sunday, 06-Nov-94 08:50:37 GMT"], secs(60)),
        ("the first of two", &["1", "2"], secs(1)),
        ("a fraction", &["1.5"], None),
        ("a negative number", &["-1"], None),
        ("a sign", &["+1"], None),
        ("words", &["soon"], None),
        ("nothing", &[""], None),
        ("no Retry-After", &[], None),
    ];
    for (name, values, expected) in cases {
        let found = retry_after(&with(RETRY_AFTER, values), &clock);
        assert_eq!(found, *expected, "{name}");
    }
}
