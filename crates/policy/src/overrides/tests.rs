use proptest::prelude::*;

use super::*;

const NOW: Moment = Moment::from_millis(1_790_000_000_000);

fn origin(url: &str) -> Origin {
    Origin::parse(url).expect("a URL").0
}

fn assertion(id: u64, pattern: &str, action: Action) -> Override {
    Override {
        id: OverrideId::Stored(id),
        origin: origin("https://a.example"),
        pattern: pattern.to_owned(),
        action,
        until: Some(NOW + std::time::Duration::from_secs(60)),
        by: "Ada Example".to_owned(),
        reason: "a letter".to_owned(),
        created: NOW,
        instance: None,
    }
}

/// Parses `+/pattern` as an allow and `-/pattern` as a deny, numbered from 1.
fn overrides(texts: &[&str]) -> Overrides {
    Overrides::new((1..).zip(texts).map(|(id, text)| {
        let action = if text.starts_with('+') { Action::Allow } else { Action::Deny };
        assertion(id, &text[1..], action)
    }))
}

fn number(found: Option<&Arc<ActiveOverride>>) -> Option<OverrideId> {
    found.map(|asserted| asserted.id)
}

#[test]
fn the_most_specific_override_decides_about_a_path_in_all_its_readings() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], &str, Option<u64>)] = &[
        ("none", &[], "/a", None),
        ("one that matches", &["-/a"], "/ab", Some(1)),
        ("one that does not", &["-/a"], "/b", None),
        ("more octets win over their order", &["+/", "-/a/", "+/a/b"], "/a/x", Some(2)),
        ("an allow inside a deny", &["-/a/", "+/a/b"], "/a/b/c", Some(2)),
        ("a deny on a tie", &["+/a*", "-/*a"], "/a", Some(2)),
        ("of two that say the same, the older", &["-/a", "-/a"], "/a", Some(1)),
        ("another spelling of the path", &["-/~a"], "/%7ea", Some(1)),
        ("the query takes part", &["-/*?q"], "/x?q=1", Some(1)),
        ("a deny of what the path may be read as", &["-/private"], "/a/../private", Some(1)),
        ("a deny behind doubled slashes", &["-/private"], "//private", Some(1)),
        ("either order of resolving counts", &["-/a/b/c"], "/a//../b/c", Some(1)),
        ("an allow of the written path does not lift that", &["+/open/", "-/private"], "/open/../private", Some(2)),
        ("an allow of one reading only does not count", &["+/open/"], "/open/../private", None),
        ("an allow of all variants does", &["+/"], "/open/../private", Some(1)),
        ("an allow that only a reading meets does not count", &["+/private"], "/open/../private", None),
        ("another allow of the reading does not help", &["+/open/", "+/private"], "/open/../private", None),
        ("a deny of what an escaped slash makes of it", &["-/private/"], "/private%2Fdiary", Some(1)),
        ("and of what a doubly escaped one does", &["-/private/"], "/private%252Fdiary", Some(1)),
        ("parameters hide nothing", &["-/a/b"], "/a;x/b", Some(1)),
        ("nor does a host", &["-/private"], "//host/private", Some(1)),
        ("nor a backslash", &["-/private/x"], "/private%5Cx", Some(1)),
        ("nor what a final dot segment leaves", &["-/page.php$"], "/page.php/.", Some(1)),
        ("nor an empty query", &["-/page.php$"], "/page.php?", Some(1)),
        ("nor what is no UTF-8", &["-/private"], "/pri%80vate", Some(1)),
        ("nor dots at the end of a segment", &["-/private/"], "/private./x", Some(1)),
        ("a path in a parameter is none of this site", &["-/*/cart"], "/in?to=%2Fde%2Fcart&x=%3A", None),
        ("a pattern that speaks of the query meets it", &["-/*?to=/secret"], "/in?to=%2Fsecret", Some(1)),
        ("an allow of a path in a parameter", &["+/in?to=%2Fx"], "/in?to=%2Fx%3A", Some(1)),
        ("an allow that holds an empty query", &["-/w/", "+/w/load.php?"], "/w/load.php?", Some(2)),
        ("but not without it", &["-/w/", "+/w/load.php?"], "/w%2Fload.php", Some(1)),
        ("an escape in the pattern is decoded, too", &["-/a%2Fb"], "/a/b", Some(1)),
        ("an allow with an escape speaks of its own path", &["+/a%2Fb", "-/c"], "/a%2Fb", Some(1)),
        ("an allow that only one spelling meets does not count", &["+/a%2F"], "/a%2F/../b", None),
        ("a more specific allow takes the reading from a deny", &["+/", "-/p", "+/private"], "/open/../private", Some(1)),
    ];
    for (name, texts, path, expected) in cases {
        let overrides = overrides(texts);
        let found = overrides.about(&origin("https://a.example"), path.as_bytes(), NOW);
        assert_eq!(number(found), expected.map(OverrideId::Stored), "{name}");
    }
}

#[test]
fn a_tunnel_is_decided_by_any_deny_and_by_an_allow_of_everything() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], Option<u64>)] = &[
        ("none", &[], None),
        ("an allow of some paths", &["+/a"], None),
        ("an allow of the whole origin", &["+/"], Some(1)),
        ("in another spelling", &["+*"], Some(1)),
        ("a deny of some paths", &["-/a"], Some(1)),
        ("a deny beside an allow of everything", &["+/", "-/a"], Some(2)),
        ("a deny inside which something is allowed", &["-/a", "+/a/b"], Some(1)),
    ];
    for (name, texts, expected) in cases {
        let overrides = overrides(texts);
        let found = overrides.about_all(&origin("https://a.example"), NOW);
        assert_eq!(number(found), expected.map(OverrideId::Stored), "{name}");
    }
}

#[test]
fn an_override_applies_to_its_origin_and_until_its_end() {
    let overrides = overrides(&["-/"]);
    let until = NOW + std::time::Duration::from_secs(60);
    let just_before = Moment::from_millis(until.as_millis() - 1);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("its origin", "https://a.example", NOW, true),
        ("the last millisecond", "https://a.example", just_before, true),
        ("its end", "https://a.example", until, false),
        ("another scheme", "http://a.example", NOW, false),
        ("another port", "https://a.example:8443", NOW, false),
        ("a sub-domain", "https://www.a.example", NOW, false),
    ];
    for (name, asked, now, decides) in cases {
        let asked = origin(asked);
        assert_eq!(overrides.about(&asked, b"/", now).is_some(), decides, "{name}");
        assert_eq!(overrides.about_all(&asked, now).is_some(), decides, "{name}");
    }
}

#[test]
fn an_expired_override_gives_way_to_a_less_specific_one() {
    let mut expired = assertion(1, "/a/b", Action::Deny);
    expired.until = Some(NOW);
    let mut endless = assertion(2, "/a", Action::Allow);
    endless.until = None;
    let overrides = Overrides::new([expired, endless]);
    let found = overrides.about(&origin("https://a.example"), b"/a/b", NOW);
    assert_eq!(number(found), Some(OverrideId::Stored(2)));
}

#[test]
fn words_are_one_line_and_fit_a_record() {
    let long = "x".repeat(MAX_WORDS);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a name", "Ada Example", Some("Ada Example")),
        ("white space around it", " Ada\n", Some("Ada")),
        ("any script", "契約書", Some("契約書")),
        ("as long as it may be", &*long, Some(&*long)),
        ("longer", &format!("{long}x"), None),
        ("nothing", "  ", None),
        ("two lines", "a\nb", None),
        ("what drives a terminal", "a\u{1b}[2J", None),
    ];
    for (name, text, expected) in cases {
        assert_eq!(words(text).ok().as_deref(), expected, "{name}");
    }
}

#[test]
fn a_path_with_too_many_readings_meets_any_deny_and_only_an_allow_of_everything() {
    let path = format!("/{}", "a;b%2F..%5C//c;%252F../".repeat(200));
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], Option<u64>)] = &[
        ("a deny of something else", &["-/nowhere"], Some(1)),
        ("an allow of the path", &["+/a"], None),
        ("an allow of everything", &["+/"], Some(1)),
        ("both", &["+/", "-/nowhere"], Some(2)),
    ];
    for (name, texts, expected) in cases {
        let overrides = overrides(texts);
        let found = overrides.about(&origin("https://a.example"), path.as_bytes(), NOW);
        assert_eq!(number(found), expected.map(OverrideId::Stored), "{name}");
    }
}

fn paths() -> impl Strategy<Value = String> {
    "/([ab./;]|%2e|//|%2f|%5c|%252f){0,8}(\\?[ab]{0,2})?"
}

fn patterns() -> impl Strategy<Value = String> {
    "[/*][ab/.*]{0,4}\\$?"
}

proptest! {
    #[test]
    fn the_deciding_override_would_decide_alone(
        path in paths(),
        said in proptest::collection::vec((patterns(), any::<bool>()), 1..5),
    ) {
        let all: Vec<_> = (1..)
            .zip(&said)
            .map(|(id, (pattern, allows))| {
                assertion(id, pattern, if *allows { Action::Allow } else { Action::Deny })
            })
            .collect();
        let (origin, path) = (origin("https://a.example"), path.as_bytes());
        let overrides = Overrides::new(all);
        if let Some(found) = overrides.about(&origin, path, NOW) {
            let alone = Overrides::new([Override::clone(found)]);
            prop_assert_eq!(number(alone.about(&origin, path, NOW)), Some(found.id));
        }
        if let Some(found) = overrides.about_all(&origin, NOW) {
            let alone = Overrides::new([Override::clone(found)]);
            prop_assert_eq!(number(alone.about_all(&origin, NOW)), Some(found.id));
        }
    }

    #[test]
    fn without_overrides_none_decides(path in paths()) {
        let none = Overrides::default();
        prop_assert!(none.about(&origin("https://a.example"), path.as_bytes(), NOW).is_none());
    }

    #[test]
    fn a_deny_decides_as_the_most_specific_match_of_any_reading(
        path in paths(),
        pattern in patterns(),
        allows in proptest::collection::vec(patterns(), 0..3),
    ) {
        let deny = PathPattern::new(&pattern).expect("a pattern");
        let allowed: Vec<_> = allows
            .iter()
            .map(|allow| PathPattern::new(allow).expect("a pattern"))
            .collect();
        // The deny decides if it is the most specific match of any reading.
        let decides = |path: &ComparisonPath<'_>| {
            deny.matches(path)
                && !allowed.iter().any(|allow| allow.matches(path) && allow.length() > deny.length())
        };
        let written = ComparisonPath::new(path.as_bytes());
        let variants = PathVariants::of(&written);
        let expected = decides(&written)
            || variants.comparisons(false).any(|comparison| decides(&comparison.path))
            || !variants.is_complete();
        let all = std::iter::once(assertion(1, &pattern, Action::Deny)).chain(
            (2..).zip(&allows).map(|(id, allow)| assertion(id, allow, Action::Allow)),
        );
        let overrides = Overrides::new(all);
        let found = overrides.about(&origin("https://a.example"), path.as_bytes(), NOW);
        let denies = found.is_some_and(|asserted| asserted.action == Action::Deny);
        prop_assert_eq!(denies, expected);
    }
}
