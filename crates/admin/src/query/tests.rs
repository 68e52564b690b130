use super::*;
use crawlgate_policy::overrides::Action;
use crawlgate_text::time_text;

/// 2026-11-20T12:00:00.123Z
const NOW: Moment = Moment::from_millis(1_795_176_000_123);

#[test]
fn conditions_are_read_and_mistakes_are_told() {
    let with = |change: fn(&mut Conditions)| {
        let mut conditions = Conditions::default();
        change(&mut conditions);
        conditions.query(NOW)
    };
    type Change = fn(&mut Conditions);
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(with(|_| {}).unwrap().acknowledged, None);
    let origin: Change = |asked| asked.origin = Some("HTTPS://B\u{fc}cher.example:443/x".into());
    assert_eq!(with(origin).unwrap().origin, some("https://xn--bcher-kva.example"));
    let host: Change = |asked| asked.origin = Some("A.Example.".into());
    assert_eq!(with(host).unwrap().origin, some("a.example"));
    #[rustfmt::skip] // one row, one case
    let mistakes: &[(&str, Change, &str)] = &[
        ("a reason that is none", |asked| asked.reason = Some("disallow".into()), "reason disallow: it is one of robots_allow"),
        ("a verdict that is none", |asked| asked.verdict = Some("denied".into()), "verdict denied: it is one of allow, deny, defer"),
        ("a mode that is none", |asked| asked.mode = Some("dry".into()), "mode dry: it is one of enforce, report"),
        ("a pattern that matches nothing", |asked| asked.path = Some("private".into()), "path private: a path pattern begins with"),
        ("a time that is none", |asked| asked.since = Some("soon".into()), "since soon: not a time"),
        ("an end that is none", |asked| asked.until = Some("soon".into()), "until soon: not a time"),
        ("a host that is none", |asked| asked.origin = Some("a b".into()), "origin a b: "),
    ];
    for (name, change, says) in mistakes {
        let error = with(*change).expect_err(name).to_string();
        assert!(error.starts_with(says), "{name}: {error}");
    }
}

#[test]
fn an_override_is_of_an_origin_and_ends() {
    let asserted = Asserted {
        origin: "HTTPS://A.example:443/",
        pattern: None,
        action: Action::Deny,
        until: "30d",
        by: "Ada",
        reason: "a letter",
    };
    let read = asserted.read(NOW).expect("valid");
    assert_eq!(read.origin.to_string(), "https://a.example");
    assert_eq!(read.pattern, "/");
    assert_eq!(read.until.map(time_text).as_deref(), Some("2026-12-20T12:00:00.123Z"));
    #[rustfmt::skip] // one row, one case
    let mistakes: &[(&str, Asserted<'_>, &str)] = &[
        ("no scheme", Asserted { origin: "a.example", ..asserted }, "origin a.example: "),
        ("a URL", Asserted { origin: "https://a.example/p", ..asserted }, "origin https://a.example/p: this is more than an origin"),
        ("a scheme that is not forwarded", Asserted { origin: "gopher://a.example", ..asserted }, "origin gopher://a.example: "),
        ("a pattern that matches nothing", Asserted { pattern: Some("p"), ..asserted }, "pattern p: "),
        ("no name", Asserted { by: " ", ..asserted }, "by "),
        ("no reason", Asserted { reason: "", ..asserted }, "reason "),
        ("an end that is past", Asserted { until: "2026-11-19", ..asserted }, "until 2026-11-19: this has passed"),
        ("an end too far ahead", Asserted { until: "367d", ..asserted }, "until 367d: this is more than a year"),
        ("an end that is none", Asserted { until: "soon", ..asserted }, "until soon: write a day"),
    ];
    for (name, asserted, says) in mistakes {
        let error = asserted.read(NOW).expect_err(name).to_string();
        assert!(error.starts_with(says), "{name}: {error}");
    }
}

#[test]
fn an_override_ends_within_a_year() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a day counts whole", "2026-11-20", Some("2026-11-21T00:00:00.000Z")),
        ("a time", "2026-11-20T13:00:00Z", Some("2026-11-20T13:00:00.000Z")),
        ("a span", "30d", Some("2026-12-20T12:00:00.123Z")),
        ("a year", "366d", Some("2027-11-21T12:00:00.123Z")),
        ("more than a year", "367d", None),
        ("yesterday", "2026-11-19", None),
        ("now", "0s", None),
        ("a word", "soon", None),
        ("for ever", "forever", None),
    ];
    for (name, text, expected) in cases {
        let got = end(text, NOW).ok().map(time_text);
        assert_eq!(got.as_deref(), expected, "{name}");
    }
}
