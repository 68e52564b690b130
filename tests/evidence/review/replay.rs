//! A decision replayed from its record is the same; a changed record gives another one.

use std::sync::Arc;

use crawlgate_evidence::replay::{self, Evidence, Files, Missing, NotReplayable, Outcome};
use crawlgate_origins::access::Cause;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Outage, State};
use crawlgate_policy::Reason;
use crawlgate_policy::overrides::Action;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::any_case::a_case;
use super::case::{Case, MINUTE, NOON, asserted};

/// Replays a record with the evidence that the store would keep of the case.
fn replayed(record: &str, case: &Case) -> Outcome {
    let evidence = Evidence::read(record).expect("a record");
    let text = case
        .state
        .snapshot()
        .map(|snapshot| snapshot.robots.text().to_vec());
    let truncated = evidence
        .robots
        .as_ref()
        .is_some_and(|robots| robots.truncated);
    let file = text.map(|text| replay::snapshot(&text, &case.terms, truncated));
    let file = file.filter(|_| evidence.snapshot().expect("a digest").is_some());
    replay::replay(&evidence, Some(&case.terms), files(file.as_ref()))
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
        prop_assert_eq!(replayed(&record, &case), want, "{}", record);
    }

    #[test]
    fn a_record_that_says_otherwise_is_found(case in a_case(), verdict in 0_usize..3, reason in 0_usize..15) {
        let decision = case.decide();
        let mut record: Value = serde_json::from_str(&case.record(&decision)).unwrap();
        let verdict = ["allow", "deny", "defer"][verdict];
        let reason = Reason::ALL[reason].as_str();
        let is_true = (verdict, reason) == (decision.verdict().as_str(), decision.reason.as_str());
        record["verdict"] = verdict.into();
        record["reason"] = reason.into();
        match replayed(&record.to_string(), &case) {
            Outcome::Same => prop_assert!(is_true, "{record}"),
            Outcome::Differs(_) => prop_assert!(!is_true, "{record}"),
            // Reasons without evidence: only the log shows that they were changed.
            Outcome::Attested(_) => prop_assert!(verdict != "allow", "{record}"),
            Outcome::Missing(missing) => prop_assert!(false, "{missing:?}"),
        }
    }
}

const FILE: &str =
    "User-agent: *\nDisallow: /private\n\nUser-agent: ExampleBot\nAllow: /\nDisallow: /secret\n";

/// Returns the difference found after `change` altered the record of a denial.
fn found(case: &Case, change: impl FnOnce(&mut Value)) -> Outcome {
    let mut record: Value = serde_json::from_str(&case.record(&case.decide())).unwrap();
    change(&mut record);
    replayed(&record.to_string(), case)
}

#[test]
fn the_changed_part_is_named() {
    type Change = fn(&mut Value);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, &str)] = &[
        ("the verdict", |r| r["verdict"] = "allow".into(), "verdict"),
        ("the reason", |r| r["reason"] = "path_guard".into(), "reason"),
        ("the reason, and the verdict with it", |r| { r["reason"] = "robots_allow".into(); r["verdict"] = "allow".into(); }, "reason"),
        ("the rule's text", |r| r["rule"]["text"] = "Disallow: /s".into(), "rule.text"),
        ("the rule's line", |r| r["rule"]["line"] = 2.into(), "rule.line"),
        ("the rule's group", |r| r["rule"]["group"] = "*".into(), "rule.group"),
        ("the rule is gone", |r| r["rule"] = Value::Null, "rule"),
        ("the path", |r| r["url"] = "https://site.example/open".into(), "reason"),
        ("the host in the URL", |r| r["url"] = "https://other.example/secret".into(), "url"),
        ("the host in its field", |r| r["host"] = "other.example".into(), "url"),
        ("the port", |r| r["port"] = 8443.into(), "url"),
        ("the scheme", |r| r["scheme"] = "gopher".into(), "host"),
        ("the crawler", |r| r["agent"]["chain"] = json!(["OtherBot"]), "reason"),
        ("an invalid crawler", |r| r["agent"]["chain"] = json!(["Example Bot"]), "agent.chain"),
        ("the mode", |r| r["mode"] = "dry".into(), "mode"),
        ("the time of the decision", |r| r["decided_at"] = "2026-11-21T12:00:00.000Z".into(), "reason"),
        ("an invalid time", |r| r["decided_at"] = "noon".into(), "decided_at"),
        ("the state", |r| r["robots"]["state"] = "unavailable".into(), "reason"),
        ("an invalid state", |r| r["robots"]["state"] = "gone".into(), "robots.state"),
        ("the end of freshness", |r| r["robots"]["fresh_until"] = "2026-11-20T12:00:00.123Z".into(), "reason"),
        ("the end of freshness is gone", |r| r["robots"]["fresh_until"] = Value::Null, "robots.fresh_until"),
        ("the length of the copy", |r| r["robots"]["bytes"] = 7.into(), "robots.bytes"),
        ("the digest is gone", |r| r["robots"]["sha256"] = Value::Null, "robots.sha256"),
        ("the robots.txt is gone", |r| r["robots"] = Value::Null, "robots"),
        ("the settings are gone", |r| r["policy"] = Value::Null, "policy"),
        ("an invented override", |r| r["override"] = json!({"id": "1", "origin": "https://site.example", "pattern": "/",
            "action": "allow", "by": "", "reason": "", "until": null}), "reason"),
        ("an invented tunnel", |r| r["opaque"] = true.into(), "reason"),
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
        for (what, altered) in [
            ("another", json!("/secret/other")),
            ("the path itself", json!(path)),
        ] {
            if Some(altered.as_str().unwrap()) == *reading {
                continue;
            }
            match found(&case, |record| record["reading"] = altered) {
                Outcome::Differs(differences) => {
                    assert_eq!(differences[0].what, "reading", "{name}: {what}");
                }
                other => panic!("{name}: {what}: {other:?}"),
            }
        }
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
    case.state = State::Unreachable {
        outage,
        last_good: None,
    };
    assert_eq!(found(&case, |_| {}), Outcome::Same);
    type Change = fn(&mut Value);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, &str)] = &[
        ("since when", |r| r["robots"]["unreachable"]["since"] = "2026-10-01T00:00:00.000Z".into(), "reason"),
        ("the latest failure", |r| r["robots"]["unreachable"]["last_failure"] = "2026-12-31T00:00:00.000Z".into(), "reason"),
        ("an invalid time", |r| r["robots"]["unreachable"]["last_failure"] = "soon".into(), "robots.unreachable.last_failure"),
        ("why", |r| r["robots"]["unreachable"]["cause"] = "status_503".into(), "robots.unreachable.answers"),
        ("an invalid cause", |r| r["robots"]["unreachable"]["cause"] = "luck".into(), "robots.unreachable.cause"),
        ("that it was", |r| r["robots"]["unreachable"] = Value::Null, "robots.unreachable"),
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
    type Change = fn(&mut Value);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change)] = &[
        ("the action", |r| r["override"]["action"] = "allow".into()),
        ("an invalid action", |r| r["override"]["action"] = "maybe".into()),
        ("the pattern", |r| r["override"]["pattern"] = "/public".into()),
        ("the origin", |r| r["override"]["origin"] = "https://other.example".into()),
        ("the end date", |r| r["override"]["until"] = "2026-11-20T12:00:00.123Z".into()),
    ];
    for (name, change) in cases {
        let outcome = found(&deny, change);
        assert!(
            matches!(outcome, Outcome::Differs(_)),
            "{name}: {outcome:?}"
        );
    }
}

#[test]
fn a_decision_that_cannot_be_replayed_gives_the_reason() {
    use NotReplayable::{
        Cut, NotHttp, Older, Paced, Pending, Redacted, Unjudged, Unknown, Unrecorded,
    };
    fn to(record: &mut Value, reason: &str, verdict: &str) {
        record["reason"] = reason.into();
        record["verdict"] = verdict.into();
    }
    type Change = fn(&mut Value);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, NotReplayable)] = &[
        ("malformed", |r| to(r, "bad_request", "deny"), Unjudged),
        ("misdirected", |r| to(r, "misdirected", "deny"), Unjudged),
        ("deferred for robots.txt", |r| to(r, "robots_pending", "defer"), Pending),
        ("deferred for the pace", |r| to(r, "paced", "defer"), Paced),
        ("not recorded", |r| to(r, "log_failed", "defer"), Unrecorded),
        ("neither TLS nor HTTP", |r| { to(r, "opaque_tunnel", "deny"); r["policy"] = Value::Null; }, NotHttp),
        ("a reason of tomorrow", |r| to(r, "robots_maybe", "deny"), Unknown),
        ("a query left out", |r| r["url"] = "https://site.example/secret?…redacted".into(), Redacted),
        ("a URL cut", |r| r["url"] = "https://site.example/secret…[+9000 bytes]".into(), Cut),
        ("a chain cut", |r| r["agent"]["chain"] = json!(["ExampleBot", "…[+3]"]), Cut),
        ("before there was evidence", |r| drop(r.as_object_mut().unwrap().remove("decided_at")), Older),
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
            assert_eq!(replayed(&record, &case), Outcome::Same, "{path}: {record}");
        }
    }
}

#[test]
fn missing_evidence_is_named() {
    let case = Case::of(FILE, "ExampleBot", "/secret/x");
    let record = case.record(&case.decide());
    let evidence = Evidence::read(&record).unwrap();
    let file = Arc::clone(case.state.snapshot().unwrap());
    assert_eq!(
        replay::replay(&evidence, None, files(Some(&file))),
        Outcome::Missing(Missing::PolicySettings)
    );
    assert_eq!(
        replay::replay(&evidence, Some(&case.terms), files(None)),
        Outcome::Missing(Missing::Snapshot)
    );
}

#[test]
fn a_query_that_was_left_out_is_not_made_up() {
    let mut case = Case::of(FILE, "ExampleBot", "/secret/x?token=1");
    case.redact = true;
    let record = case.record(&case.decide());
    assert_eq!(
        replayed(&record, &case),
        Outcome::Attested(NotReplayable::Redacted)
    );
}

#[test]
fn a_text_that_is_not_a_record_is_no_evidence() {
    let record = Case::of(FILE, "ExampleBot", "/secret/x");
    let record = record.record(&record.decide());
    let mut wrong: Value = serde_json::from_str(&record).unwrap();
    wrong["port"] = "443".into();
    let twice = record.replacen("{\"time\"", "{\"verdict\":\"allow\",\"time\"", 1);
    for text in [
        "",
        "{}",
        "[]",
        "{\"event\":\"records_lost\"}",
        &wrong.to_string(),
        &twice,
    ] {
        assert!(Evidence::read(text).is_err(), "{text}");
    }
    let more = record.replacen("{\"time\"", "{\"of_tomorrow\":1,\"time\"", 1);
    assert!(
        Evidence::read(&more).is_ok(),
        "a newer crawlgate may say more"
    );
}

fn files(robots: Option<&Arc<Snapshot>>) -> Files<'_> {
    Files {
        robots,
        tdmrep: None,
    }
}
