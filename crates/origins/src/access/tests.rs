//! Statuses, validity and codes, as tables.

use super::tls_fault::TlsFault;
use super::*;
use crawlgate_ftp::reply::Reply;
use crawlgate_ftp::status::{Refusal, Step};

#[test]
fn a_status_is_read_as_the_rules_say() {
    use Reading::*;
    #[rustfmt::skip] // one row, one case
    let cases = [
        (200, &[][..], true, Body, "2xx: the body's rules"),
        (204, &[], true, Body, "2xx without a body: no rules"),
        (206, &[], true, Unreachable, "a part of the file"),
        (299, &[], true, Body, "any other 2xx"),
        (301, &[], true, Follow, "a redirect"),
        (308, &[], true, Follow, "a permanent redirect"),
        (304, &[], true, Nonsense, "304 to an unconditional GET"),
        (300, &[], true, Follow, "300, where it has a Location"),
        (305, &[], true, Nonsense, "a redirect that is none any more"),
        (404, &[], true, Absent, "no file"),
        (401, &[], true, Absent, "google: 401 as any 4xx"),
        (403, &[], true, Absent, "google: 403 as any 4xx"),
        (400, &[], true, Unreachable, "our request was bad"),
        (405, &[], true, Unreachable, "our method was bad"),
        (407, &[], true, Absent, "any other 4xx"),
        (410, &[], true, Absent, "no file any more"),
        (411, &[], true, Unreachable, "our request was bad"),
        (414, &[], true, Unreachable, "our URL was too long"),
        (417, &[], true, Unreachable, "our request was bad"),
        (418, &[], true, Absent, "any other 4xx"),
        (421, &[], true, Unreachable, "our request went astray"),
        (431, &[], true, Unreachable, "our fields were too long"),
        (494, &[], true, Unreachable, "our fields were too long, says nginx"),
        (403, &[401, 403], true, Unreachable, "the operator denies on 403"),
        (429, &[], true, Unreachable, "too many requests is an outage"),
        (500, &[], true, UnreachableUnlessNotFound, "5xx, soft 404 looked for"),
        (503, &[], false, Unreachable, "5xx, soft 404 switched off"),
        (101, &[], true, Nonsense, "1xx is not an answer"),
        (600, &[], true, Nonsense, "not a status of HTTP"),
    ];
    for (status, deny, soft, expected, why) in cases {
        assert_eq!(read_status(status, deny, soft), expected, "{status}: {why}");
    }
}

#[test]
fn cache_control_is_read() {
    use Freshness::*;
    let secs = |s| MaxAge(Duration::from_secs(s));
    for (values, expected) in [
        (&[][..], Unsaid),
        (&["public"], Unsaid),
        (&["max-age=60"], secs(60)),
        (&["public, Max-Age = 60"], secs(60)),
        (&["max-age=\"60\""], secs(60)),
        (&["max-age=60", "max-age=90"], secs(60)),
        (&["max-age=x"], secs(0)),
        (&["max-age=99999999999999999999999"], secs(u64::from(u32::MAX))),
        (&["max-age=60", "no-store"], Shortest),
        (&["NO-CACHE"], Shortest),
    ] {
        let read = Freshness::from_cache_control(values.iter().copied());
        assert_eq!(read, expected, "{values:?}");
    }
}

#[test]
fn age_and_expires_are_read() {
    use Freshness::*;
    let secs = |s| MaxAge(Duration::from_secs(s));
    // Sun, 06 Nov 1994 08:49:37 GMT
    let now = Moment::from_millis(784_111_777_000);
    let (then, later) = ("Sun, 06 Nov 1994 08:00:00 GMT", "Sun, 06 Nov 1994 09:00:00 GMT");
    type Case<'a> =
        (&'a str, Option<&'a str>, Option<&'a str>, Option<&'a str>, Option<&'a str>, Freshness);
    #[rustfmt::skip] // one row, one case: Cache-Control, Expires, Date, Age
    let cases: &[Case<'_>] = &[
        ("nothing said", None, None, None, None, Unsaid),
        ("an age alone tells no life", None, None, None, Some("900"), Unsaid),
        ("an age is subtracted", Some("max-age=1000"), None, None, Some("900"), secs(100)),
        ("older than it may be", Some("max-age=1000"), None, None, Some("1001"), secs(0)),
        ("an age that is none", Some("max-age=1000"), None, None, Some("x"), secs(1000)),
        ("expires, from its date", None, Some(later), Some(then), None, secs(3600)),
        ("expires, from now", None, Some(later), None, None, secs(623)),
        ("expires, less its age", None, Some(later), Some(then), Some("600"), secs(3000)),
        ("expired", None, Some(then), None, None, secs(0)),
        ("expires never said when: stale", None, Some("0"), None, None, secs(0)),
        ("max-age comes before expires", Some("max-age=60"), Some(later), Some(then), None, secs(60)),
        ("no-cache before all", Some("no-cache"), Some(later), Some(then), None, Shortest),
        ("another directive is none", Some("public"), Some(later), Some(then), None, secs(3600)),
    ];
    for (name, cache_control, expires, date, age, expected) in cases {
        let said = Validity {
            cache_control: cache_control.iter().copied().collect(),
            expires: *expires,
            date: *date,
            age: *age,
        };
        assert_eq!(Freshness::of(&said, now), *expected, "{name}");
    }
}

#[test]
fn codes_are_read_back() {
    let reply = FtpReply::of(&Reply { code: 530, text: b"Use encryption.".to_vec() });
    let causes = [
        Cause::Status(503),
        Cause::Ftp(reply),
        Cause::Redirect(304),
        Cause::Dns,
        Cause::Refused,
        Cause::Connect,
        Cause::from(TlsFault::NotTls),
        Cause::Timeout,
        Cause::Incomplete,
        Cause::Length,
        Cause::Protocol,
        Cause::Encoding(None),
        Cause::Encoding(Some(Codings::new(CodingField::Content, b"gzip, x"))),
        Cause::Encoding(Some(Codings::new(CodingField::Transfer, &[b'\"'; 99]))),
        Cause::Unaddressable,
        Cause::UpstreamProxy,
        Cause::Prohibited,
        Cause::ProhibitedHop,
        Cause::DisallowedHop,
        Cause::UnjudgedHop,
        Cause::DeniedHop,
        Cause::HopChain,
        Cause::Exhausted,
        Cause::Internal,
    ];
    for cause in causes {
        assert_eq!(Cause::from_code(&cause.code()), Some(cause));
    }
    let absences = [
        Absence::Status(404),
        Absence::Ftp(reply),
        Absence::NotFoundBehind(500),
        Absence::TooManyRedirects,
        Absence::RedirectLoop,
        Absence::DisallowedHop,
    ];
    for absence in absences {
        assert_eq!(Absence::from_code(&absence.code()), Some(absence));
    }
    for wrong in ["", "status_", "status_x", "status_99999", "DNS", "content_encoding:\u{e9}"] {
        assert_eq!(Cause::from_code(wrong), None, "{wrong:?}");
        assert_eq!(Absence::from_code(wrong), None, "{wrong:?}");
    }
}

#[test]
fn only_a_missing_file_speaks_to_every_crawler() {
    for (absence, expected) in [
        (Absence::Status(404), false),
        (Absence::Status(410), false),
        (Absence::Status(401), true),
        (Absence::Status(403), true),
        (Absence::NotFoundBehind(500), true),
        (Absence::TooManyRedirects, true),
        (Absence::RedirectLoop, true),
        (Absence::DisallowedHop, true),
    ] {
        assert_eq!(absence.may_be_personal(), expected, "{absence:?}");
    }
}

#[test]
fn an_invalid_status_is_reported_unchanged() {
    for (status, expected) in [
        (300, "it answered 300 without a usable Location"),
        (301, "it answered 301 without a usable Location"),
        (308, "it answered 308 without a usable Location"),
        (101, "it answered 101, which answers no plain GET"),
        (304, "it answered 304, which answers no plain GET"),
        (305, "it answered 305, which answers no plain GET"),
        (600, "it answered 600, which is no status of HTTP"),
        (999, "it answered 999, which is no status of HTTP"),
    ] {
        assert_eq!(Cause::Redirect(status).to_string(), expected);
    }
}

#[test]
fn an_error_page_says_that_there_is_no_such_page() {
    let phrases = ["page not found", "Página no encontrada", "страница не найдена"];
    let phrases = phrases.map(str::to_owned);
    let late = [vec![b' '; ERROR_PAGE], b"page not found".to_vec()].concat();
    let cut = ["page not found ".as_bytes(), "ж".repeat(ERROR_PAGE).as_bytes()].concat();
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[u8], &[usize])] = &[
        ("in other letters", b"<h1>Page Not Found</h1>", &[0]),
        ("over the end of a line", b"<p>page\r\n\tnot  found", &[0]),
        ("in another language", "PÁGINA NO ENCONTRADA".as_bytes(), &[1]),
        ("in Latin-1", b"P\xe1gina no encontrada", &[1]),
        ("in other script", "Страница не найдена".as_bytes(), &[2]),
        ("two of them", "Page not found. Página no encontrada.".as_bytes(), &[0, 1]),
        ("cut within a character", &cut, &[0]),
        ("a failing include is no missing page", b"Warning: include(a.php): file not found", &[]),
        ("a robots.txt", b"User-agent: *\nDisallow: /", &[]),
        ("after what is looked at", &late, &[]),
        ("nothing", b"", &[]),
    ];
    for (name, page, expected) in cases {
        let expected: Vec<&str> = expected.iter().map(|at| &*phrases[*at]).collect();
        assert_eq!(phrases_in(page, &phrases), expected, "{name}");
    }
}

#[test]
fn only_a_missing_file_opens_an_origin() {
    for step in [Step::Login, Step::Name, Step::MissingName, Step::Transfer] {
        for code in 100..600 {
            let reply = Reply { code, text: Vec::new() };
            let status = Refusal { step, reply }.status();
            let reading = read_status(status, &[], false);
            let expected = match (step, code) {
                (Step::Name | Step::MissingName, 550) | (Step::MissingName, 551 | 553) => {
                    Reading::Absent
                }
                _ => Reading::Unreachable,
            };
            assert_eq!(reading, expected, "{step:?} {code}: {status}");
        }
    }
}
