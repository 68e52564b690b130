//! A decision replayed from its record is the same; a changed record gives another one.

use std::sync::Arc;

use crawlgate_evidence::replay::{self, Files, Missing, NotReplayable, Outcome};
use crawlgate_origins::access::Cause;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Outage, State};
use crawlgate_policy::Reason;
use crawlgate_policy::overrides::Action;
use crawlgate_record::{Asserted, Basis, Event, EventKind, Rule, Told, Untold, Url, Verdict};
use proptest::prelude::*;

use super::any_case::a_case;
use super::case::{Case, MINUTE, NOON, asserted};

/// Replays a record with the evidence that the store would keep of the case.
fn replayed(one: &Told<'_>, case: &Case) -> Outcome {
    let text = case.state.snapshot().map(|snapshot| snapshot.robots.text().to_vec());
    let truncated = one.robots.is_some_and(|robots| robots.truncated);
    let file = text.map(|text| replay::snapshot(&text, &case.terms, truncated));
    let file = file.filter(|_| one.robots.is_some_and(|robots| robots.sha256.is_some()));
    replay::replay(one, Some(&case.terms), files(file.as_ref()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn any_decision_is_made_again_from_its_record(case in a_case()) {
        let decision = case.decide();
        let record = case.record(&decision);
        let want = match decision.reason {
            Reason::RobotsPending => Outcome::Attested(NotReplayable::Pending),
            _ => Outcome::Same,
        };
        prop_assert_eq!(replayed(&record.told(), &case), want, "{:?}", record.told());
    }

    #[test]
    fn a_record_that_says_otherwise_is_found(case in a_case(), verdict in 0_usize..3, reason in 0_usize..15) {
        let decision = case.decide();
        let record = case.record(&decision);
        let mut told = record.told();
        let verdict = [Verdict::Allow, Verdict::Deny, Verdict::Defer][verdict];
        let reason = Reason::ALL[reason].as_str();
        let is_true = (verdict, reason) == (decision.verdict(), decision.reason.as_str());
        told.decision.verdict = verdict;
        told.decision.reason = reason;
        match replayed(&told, &case) {
            Outcome::Same => prop_assert!(is_true, "{told:?}"),
            Outcome::Differs(_) => prop_assert!(!is_true, "{told:?}"),
            // Reasons without evidence: only the log shows that they were changed.
            Outcome::Attested(_) => prop_assert!(verdict != Verdict::Allow, "{told:?}"),
            Outcome::Missing(missing) => prop_assert!(false, "{missing:?}"),
        }
    }
}

const FILE: &str =
    "User-agent: *\nDisallow: /private\n\nUser-agent: ExampleBot\nAllow: /\nDisallow: /secret\n";

/// Returns the difference found after `change` altered the record of a denial.
fn found(case: &Case, change: impl FnOnce(&mut Told<'_>)) -> Outcome {
    let record = case.record(&case.decide());
    let mut told = record.told();
    change(&mut told);
    replayed(&told, case)
}

type Change = fn(&mut Told<'_>);

/// Returns the rule of a record to change.
fn rule<'t, 'a>(one: &'t mut Told<'a>) -> &'t mut Rule<'a> {
    one.decision.rule.as_mut().unwrap()
}

/// Returns the state of a record's robots.txt to change.
fn robots<'t, 'a>(one: &'t mut Told<'a>) -> &'t mut Basis<'a> {
    &mut one.robots.as_mut().unwrap().basis
}

fn url(one: &mut Told<'_>, url: &'static str) {
    one.decision.url = Url::of([url.as_bytes(), b"", b""], one.decision.origin);
}

const OVERRIDE: Asserted<'static> = Asserted {
    id: "1",
    origin: "https://site.example",
    pattern: "/",
    action: Action::Allow,
    by: "",
    reason: "",
    until: None,
    created: 0,
    instance: None,
};

#[test]
fn the_changed_part_is_named() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, &str)] = &[
        ("the verdict", |r| r.decision.verdict = Verdict::Allow, "verdict"),
        ("the reason", |r| r.decision.reason = "path_guard", "reason"),
        ("the reason, and the verdict with it", |r| { r.decision.reason = "robots_allow"; r.decision.verdict = Verdict::Allow; }, "reason"),
        ("the rule's text", |r| rule(r).text = b"Disallow: /s"[..].into(), "rule.text"),
        ("the rule's line", |r| rule(r).line = 2, "rule.line"),
        ("the rule's group", |r| rule(r).group = "*".into(), "rule.group"),
        ("the rule is gone", |r| r.decision.rule = None, "rule"),
        ("the path", |r| url(r, "https://site.example/open"), "reason"),
        ("the host in the URL", |r| url(r, "https://other.example/secret"), "url"),
        ("the origin", |r| { r.decision.origin = Some("https://other.example"); url(r, "https://site.example/secret"); }, "url"),
        ("the scheme", |r| r.decision.origin = Some("gopher://site.example"), "origin"),
        ("the origin is gone", |r| r.decision.origin = None, "origin"),
        ("the crawler", |r| r.decision.chain = (&["OtherBot"][..]).into(), "reason"),
        ("an invalid crawler", |r| r.decision.chain = (&["Example Bot"][..]).into(), "agent.chain"),
        ("the time of the decision", |r| r.decision.decided_after = 86_400_000, "reason"),
        ("the state", |r| robots(r).state = "unavailable", "reason"),
        ("an invalid state", |r| robots(r).state = "gone", "robots.state"),
        ("the end of freshness", |r| robots(r).fresh_until = Some(NOON.as_millis()), "reason"),
        ("the end of freshness is gone", |r| robots(r).fresh_until = None, "robots.fresh_until"),
        ("the length of the copy", |r| robots(r).bytes = Some(7), "robots.bytes"),
        ("the digest is gone", |r| robots(r).sha256 = None, "robots.sha256"),
        ("the robots.txt is gone", |r| r.robots = None, "robots"),
        ("the settings are gone", |r| r.decision.policy = None, "policy"),
        ("an invented override", |r| r.overridden = Some(OVERRIDE), "reason"),
        ("an invented tunnel", |r| r.decision.opaque = true, "reason"),
    ];
    let case = Case::of(FILE, "ExampleBot", "/secret/x");
    assert_eq!(found(&case, |_| {}), Outcome::Same);
    for (name, change, what) in cases {
        match found(&case, change) {
            Outcome::Differs(differences) => {
                let whats: Vec<&str> = differences.iter().map(|one| one.what).collect();
                assert!(whats.contains(what), "{name}: {differences:?}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn the_reading_that_decided_is_part_of_the_evidence() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &str, Option<&str>)] = &[
        ("an escaped slash", "/secret%2Fdiary", Some("/secret/diary")),
        ("a host", "//host/secret", Some("/secret")),
        ("an escape in the rule", "/hidden/page", Some("/hidden/page")),
        ("more readings than are judged", &"/a;b%2F..%5C//c;%252F..".repeat(30), None),
    ];
    const RULES: &str =
        "User-agent: *\nDisallow: /secret/\nDisallow: /secret$\nDisallow: /hidden%2Fpage\n";
    for (name, path, reading) in cases {
        let case = Case::of(RULES, "ExampleBot", path);
        let decision = case.decide();
        assert_eq!(decision.reason.as_str(), "path_guard", "{name}");
        assert_eq!(decision.reading.as_deref(), *reading, "{name}");
        assert_eq!(decision.rule.is_some(), reading.is_some(), "{name}");
        assert_eq!(found(&case, |_| {}), Outcome::Same, "{name}");
        for (what, altered) in [("another", "/secret/other"), ("the path itself", path)] {
            if Some(altered) == *reading {
                continue;
            }
            let altered: &'static str = altered.to_owned().leak();
            match found(&case, |r| {
                r.decision.reading = Some(altered.as_bytes().into());
            }) {
                Outcome::Differs(differences) => {
                    assert_eq!(differences[0].what, "reading", "{name}: {what}");
                }
                other => panic!("{name}: {what}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_file_of_another_origin_proves_nothing() {
    let case = Case::of("User-agent: *\nDisallow: /x\n", "ExampleBot", "/x");
    assert_eq!(found(&case, |_| {}), Outcome::Same);
    match found(&case, |r| robots(r).origin = "https://other.example") {
        Outcome::Differs(differences) => assert_eq!(differences[0].what, "robots.url"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_outage_is_part_of_the_evidence() {
    let outage = Outage {
        cause: Cause::Dns,
        since: NOON - MINUTE,
        last_failure: Some(NOON),
        last_attempt: NOON,
        attempts: 2,
        next_attempt: NOON + MINUTE,
    };
    let mut case = Case::of("", "ExampleBot", "/x");
    case.state = State::Unreachable { outage, last_good: None };
    assert_eq!(found(&case, |_| {}), Outcome::Same);
    fn outage_of<'t, 'a>(one: &'t mut Told<'a>) -> &'t mut crawlgate_record::Outage<'a> {
        robots(one).outage.as_mut().unwrap()
    }
    const DAY: u64 = 86_400_000;
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, &str)] = &[
        ("since when", |r| outage_of(r).since = NOON.as_millis() - 50 * DAY, "reason"),
        ("the latest failure", |r| outage_of(r).last_failure = Some(NOON.as_millis() + 41 * DAY), "reason"),
        ("why", |r| outage_of(r).cause = "status_503", "robots.unreachable.answers"),
        ("an invalid cause", |r| outage_of(r).cause = "luck", "robots.unreachable.cause"),
        ("that it was", |r| robots(r).outage = None, "robots.unreachable"),
    ];
    for (name, change, what) in cases {
        match found(&case, change) {
            Outcome::Differs(differences) => assert_eq!(differences[0].what, *what, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn overrides_are_replayed_by_their_content() {
    let denied = |action, until| {
        let mut case = Case::of("", "ExampleBot", "/private/x");
        case.overrides = vec![asserted("/private", action, until)];
        case
    };
    let deny = denied(Action::Deny, Some(NOON + MINUTE));
    assert_eq!(deny.decide().reason, Reason::OperatorDeny);
    assert_eq!(found(&deny, |_| {}), Outcome::Same);
    let allow = denied(Action::Allow, None);
    assert_eq!(allow.decide().reason, Reason::OperatorAllow);
    assert_eq!(found(&allow, |_| {}), Outcome::Same);
    fn overridden<'t, 'a>(one: &'t mut Told<'a>) -> &'t mut Asserted<'a> {
        one.overridden.as_mut().unwrap()
    }
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change)] = &[
        ("the action", |r| overridden(r).action = Action::Allow),
        ("the pattern", |r| overridden(r).pattern = "/public"),
        ("the origin", |r| overridden(r).origin = "https://other.example"),
        ("an invalid origin", |r| overridden(r).origin = "other.example"),
        ("the end date", |r| overridden(r).until = Some(NOON.as_millis())),
    ];
    for (name, change) in cases {
        let outcome = found(&deny, change);
        assert!(matches!(outcome, Outcome::Differs(_)), "{name}: {outcome:?}");
    }
}

#[test]
fn a_decision_that_cannot_be_replayed_gives_the_reason() {
    use NotReplayable::{NotHttp, Paced, Pending, Redacted, Unjudged, Unknown, Unrecorded};
    fn to(record: &mut Told<'_>, reason: &'static str, verdict: Verdict) {
        record.decision.reason = reason;
        record.decision.verdict = verdict;
    }
    const REDACTED: &str = "https://site.example/secret?…redacted";
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, NotReplayable)] = &[
        ("malformed", |r| to(r, "bad_request", Verdict::Deny), Unjudged),
        ("misdirected", |r| to(r, "misdirected", Verdict::Deny), Unjudged),
        ("deferred for robots.txt", |r| to(r, "robots_pending", Verdict::Defer), Pending),
        ("deferred for the pace", |r| to(r, "paced", Verdict::Defer), Paced),
        ("not recorded", |r| to(r, "log_failed", Verdict::Defer), Unrecorded),
        ("neither TLS nor HTTP", |r| { to(r, "opaque_tunnel", Verdict::Deny); r.decision.policy = None; }, NotHttp),
        ("a reason of tomorrow", |r| to(r, "robots_maybe", Verdict::Deny), Unknown),
        ("a query left out", |r| url(r, REDACTED), Redacted),
    ];
    let case = Case::of(FILE, "ExampleBot", "/secret/x");
    for (name, change, why) in cases {
        assert_eq!(found(&case, change), Outcome::Attested(*why), "{name}");
    }
}

#[test]
fn a_limit_that_has_changed_since_the_fetch_changes_nothing() {
    // Cut in the middle of the last line, which would disallow the requested path.
    let cut = "User-agent: *\nDisallow: /secret\nDisallow: /open/x";
    for (fetched, decided) in [(512_000, 20), (cut.len() - 2, 512_000), (cut.len() - 2, 20)] {
        let mut case = Case::of("", "ExampleBot", "/open/");
        case.terms.size_limit = fetched as u64;
        case.state = super::case::successful(cut, &case.terms);
        case.terms.size_limit = decided;
        for path in ["/secret", "/open/", "/open/x"] {
            case.path = path.to_owned();
            let record = case.record(&case.decide());
            assert_eq!(replayed(&record.told(), &case), Outcome::Same, "{path}");
        }
    }
}

#[test]
fn missing_evidence_is_named() {
    let case = Case::of(FILE, "ExampleBot", "/secret/x");
    let record = case.record(&case.decide());
    let told = record.told();
    let file = Arc::clone(case.state.snapshot().unwrap());
    assert_eq!(
        replay::replay(&told, None, files(Some(&file))),
        Outcome::Missing(Missing::PolicySettings)
    );
    assert_eq!(
        replay::replay(&told, Some(&case.terms), files(None)),
        Outcome::Missing(Missing::Snapshot)
    );
}

#[test]
fn a_query_that_was_left_out_is_not_made_up() {
    let mut case = Case::of(FILE, "ExampleBot", "/secret/x?token=1");
    case.redact = true;
    let record = case.record(&case.decide());
    assert_eq!(replayed(&record.told(), &case), Outcome::Attested(NotReplayable::Redacted));
}

/// The entry holds more of a URL than the line.
#[test]
fn only_a_url_or_a_chain_that_the_entry_cuts_is_not_made_again() {
    let cut = Outcome::Attested(NotReplayable::Cut);
    for (octets, want) in [(3_000, Outcome::Same), (16_300, Outcome::Same), (16_400, cut.clone())] {
        let case = Case::of(FILE, "ExampleBot", &format!("/secret/{}", "x".repeat(octets)));
        assert_eq!(found(&case, |_| {}), want, "{octets}");
    }
    let token = |nth: u8| format!("Bot{}", char::from(b'a' + nth));
    for (tokens, want) in [(26, Outcome::Same), (40, cut)] {
        let chain: Vec<String> =
            (0..tokens).map(|nth| token(nth % 26).repeat(1 + usize::from(nth / 26))).collect();
        let case = Case::of(FILE, &chain.join(" "), "/private");
        assert_eq!(found(&case, |_| {}), want, "{tokens}");
    }
}

#[test]
fn octets_that_are_no_decision_are_no_evidence() {
    let record = Case::of(FILE, "ExampleBot", "/secret/x");
    let record = record.record(&record.decide());
    let mut longer = record.entry.clone();
    longer.push(0);
    for entry in [&[][..], b"{}", &longer] {
        let read = Told::read(entry, &record.objects);
        assert!(matches!(read, Err(Untold::Malformed(_))), "{entry:?}");
    }
    let mut event = Vec::new();
    let kind = EventKind::AnsweredLogFailed { decision: [1; 16] };
    Event { id: [1; 16], kind }.encode(&mut event);
    let read = Told::read(&event, &record.objects);
    assert_eq!(read, Err(Untold::Event("answered_log_failed")));
}

fn files(robots: Option<&Arc<Snapshot>>) -> Files<'_> {
    Files { robots, tdmrep: None }
}
