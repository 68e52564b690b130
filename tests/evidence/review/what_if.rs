//! The decisions of another robots.txt about recorded requests.

use std::fmt::Write as _;
use std::time::Duration;

use crawlgate_evidence::replay::NotReplayable;
use crawlgate_evidence::replay::otherwise::{Inapplicable, OtherFile, otherwise};
use crawlgate_evidence::what_if::WhatIf;
use crawlgate_origins::access::{Absence, Cause};
use crawlgate_origins::state::{Fresh, Outage, State};
use crawlgate_policy::Verdict;
use crawlgate_policy::overrides::Action;
use crawlgate_record::{Rule, Told, Url};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::any_case::a_case;
use super::case::{Case, MINUTE, NOON, asserted, snapshot, successful, terms};
use super::test_store::{ProgramOutput, TestStore};

const OLD: &str = "User-agent: *\nDisallow: /private/\n";

const NEW: &str = "\
User-agent: *
Disallow: /archive/

User-agent: NewsBot
Disallow: /
Allow: /news/
";

fn other(text: &str) -> OtherFile {
    OtherFile::of(&snapshot(text, &terms(), NOON))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn another_file_decides_as_it_would_have_decided_then(case in a_case(), file in prop::sample::select(vec![
        "", OLD, NEW, "User-agent: *\nDisallow /a\nDissalow: /private\n", "User-agent: ExampleBot\nAllow: /a/b\nDisallow: /\n",
    ])) {
        let decision = case.decide();
        let record = case.record(&decision);
        let told = record.told();
        let then = Case { state: successful(file, &case.terms), ..case.clone() }.decide();
        match otherwise(&told, Some(&case.terms), &other(file), None, None) {
            Ok(found) => {
                prop_assert_eq!(found.reason, then.reason, "{:?}", told);
                prop_assert_eq!(found.rule, then.rule, "{:?}", told);
                prop_assert_eq!(found.reading, then.reading, "{:?}", told);
            }
            Err(Inapplicable::WithoutRobots) => prop_assert_eq!(decision.reason, then.reason, "{:?}", told),
            Err(Inapplicable::Deferred) => prop_assert_eq!(decision.verdict(), Verdict::Defer, "{:?}", told),
            Err(Inapplicable::Unreachable) => {
                let is_unreachable = matches!(case.state, State::Unreachable { last_good: None, .. });
                prop_assert!(is_unreachable, "{told:?}");
            }
            Err(aside) => prop_assert!(false, "{aside:?}: {told:?}"),
        }
    }
}

#[test]
fn what_no_robots_txt_decides_about_is_left_aside() {
    type Change = fn(&mut Told<'_>);
    fn url(one: &mut Told<'_>, url: &'static str) {
        one.decision.url = Url::of([url.as_bytes(), b"", b""], one.decision.origin);
    }
    const REDACTED: &str = "https://site.example/private/?…redacted";
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, Inapplicable)] = &[
        ("malformed", |r| r.decision.reason = "bad_request", Inapplicable::WithoutRobots),
        ("an address", |r| r.decision.reason = "address_prohibited", Inapplicable::WithoutRobots),
        ("for the pace", |r| { r.decision.reason = "paced"; r.decision.verdict = Verdict::Defer; }, Inapplicable::Deferred),
        ("robots.txt itself", |r| url(r, "https://site.example/robots.txt"), Inapplicable::WithoutRobots),
        ("a query left out", |r| url(r, REDACTED), Inapplicable::Redacted),
        ("without settings", |r| r.decision.policy = None, Inapplicable::Incomplete),
        ("a reason of tomorrow", |r| r.decision.reason = "robots_maybe", Inapplicable::Incomplete),
    ];
    let case = Case::of(OLD, "ExampleBot", "/private/x");
    let record = case.record(&case.decide());
    for (name, change, want) in cases {
        let mut told = record.told();
        change(&mut told);
        let found = otherwise(&told, Some(&case.terms), &other(NEW), None, None);
        assert_eq!(found.map(|decision| decision.reason), Err(*want), "{name}");
    }
    let chain: Vec<String> = (1..40).map(|length| "a".repeat(length)).collect();
    let long = format!("/private/{}", "x".repeat(16_400));
    for (agent, path) in [("ExampleBot", &*long), (&*chain.join(" "), "/private/x")] {
        let case = Case::of(OLD, agent, path);
        let record = case.record(&case.decide());
        let found = otherwise(&record.told(), Some(&case.terms), &other(NEW), None, None);
        assert_eq!(found.map(|decision| decision.reason), Err(Inapplicable::Cut), "{agent}");
    }
    let told = record.told();
    let found = otherwise(&told, None, &other(NEW), None, None);
    assert_eq!(found.map(|decision| decision.reason), Err(Inapplicable::Incomplete));
    assert_eq!(Inapplicable::from(NotReplayable::NotHttp), Inapplicable::WithoutRobots);
}

#[test]
fn the_memory_of_a_summary_is_bounded() {
    let mut summary = WhatIf::default();
    let case = Case::of(OLD, "ExampleBot", "/private/x");
    let record = case.record(&case.decide());
    for nth in 0..1_500_u64 {
        let text = format!("Disallow: /private/ # {nth}");
        let path = format!("/private/{nth}");
        let mut told = record.told();
        told.decision.rule = told.rule.map(|rule| Rule { text: text.as_bytes().into(), ..rule });
        let origin = told.origin;
        let parts = [origin.unwrap_or_default().as_bytes(), path.as_bytes(), b""];
        told.decision.url = Url::of(parts, origin);
        for _ in 0..2 {
            let decision = otherwise(&told, Some(&case.terms), &other(NEW), None, None);
            let time = NOON + Duration::from_secs(nth);
            assert!(summary.count(&told, time, &decision));
        }
    }
    let groups = summary.groups();
    assert_eq!((groups.len(), summary.beyond()), (1_000, 1_000));
    assert_eq!((summary.allowed(), summary.denied()), (3_000, 0));
    assert!(groups.iter().all(|group| group.examples.len() == 1));
}

/// Returns a store with requests of all kinds, and two files to ask about beside it.
fn db() -> TestStore {
    let at = |case: Case, second: u64| Case {
        asked: NOON + Duration::from_secs(second),
        now: NOON + Duration::from_secs(second),
        ..case
    };
    let of = |agent, path| Case::of(OLD, agent, path);
    let unavailable = State::Unavailable {
        why: Absence::Status(404),
        fetched: NOON - MINUTE,
        fresh: Fresh { refresh_from: NOON + MINUTE, until: NOON + MINUTE },
        outage: None,
    };
    let unreachable = State::Unreachable {
        outage: Outage {
            cause: Cause::Dns,
            since: NOON - MINUTE,
            last_failure: Some(NOON),
            last_attempt: NOON,
            attempts: 2,
            next_attempt: NOON + MINUTE,
        },
        last_good: None,
    };
    let db = TestStore::new();
    db.put(&[
        at(of("ExampleBot", "/archive/1"), 1),
        at(of("ExampleBot", "/archive/1"), 2),
        at(of("ExampleBot", "/archive/2"), 3),
        at(of("ExampleBot", "/private/a"), 4),
        at(of("ExampleBot", "/open"), 5),
        at(of("NewsBot", "/news/"), 6),
        at(of("NewsBot", "/open"), 7),
        at(of("NewsBot", "/private/a"), 8),
        at(Case { state: unavailable, ..of("ExampleBot", "/archive/3") }, 9),
        at(Case { state: unreachable, ..of("ExampleBot", "/archive/4") }, 10),
        at(
            Case {
                overrides: vec![asserted("/archive", Action::Allow, None)],
                ..of("ExampleBot", "/archive/5")
            },
            11,
        ),
        at(Case { redact: true, ..of("ExampleBot", "/archive/6?q") }, 12),
        at(
            Case { origin: "https://other.example".to_owned(), ..of("ExampleBot", "/archive/7") },
            13,
        ),
    ]);
    std::fs::create_dir(db.directory().join("collected")).unwrap();
    std::fs::write(db.directory().join("new.txt"), NEW).unwrap();
    std::fs::write(db.directory().join("old.txt"), OLD).unwrap();
    db
}

fn ask(db: &TestStore, words: &[&str]) -> ProgramOutput {
    let site = ["check", "--origin", "https://site.example"];
    db.run(&[&site, words].concat())
}

#[test]
fn a_what_if_tells_what_changes_by_which_rule() {
    let db = db();
    let said = ask(&db, &["--robots", "new.txt", "--since", "2026-11-20"]);
    let expected = "\
new.txt, as the robots.txt of https://site.example, for requests since 2026-11-20 00:00:00
  judged:   9 recorded requests, 6 would be decided otherwise
  denied:   5 that were allowed
                 4  Disallow: /archive/ (line 2, of *)
                    2026-11-20 12:00:01 to 2026-11-20 12:00:09
                    https://site.example/archive/1
                    https://site.example/archive/2
                    https://site.example/archive/3
                 1  Disallow: / (line 5, of NewsBot)
                    2026-11-20 12:00:07
                    https://site.example/open
  allowed:  1 that was denied
                 1  no rule matches it; before: Disallow: /private/
                    2026-11-20 12:00:04
                    https://site.example/private/a
  aside:    1: something else than robots.txt decided: an override, the identity, the address or the form of the request
            1: the origin was unreachable, and would not have served this file either
            1: the URL's query was left out of the record ([log] redact_query)
  unknown:  [log] decisions is \"denied\": a request that was allowed has no record, so the file may deny more than this; \"all\" records each from now on
";
    assert_eq!((said.code, said.err.as_str()), (1, ""), "{said:?}");
    assert_eq!(said.out, expected);

    let said = ask(&db, &["--robots", "new.txt", "--since", "2026-11-20", "--json"]);
    assert_eq!(said.code, 1, "{said:?}");
    let told = said.json();
    for (name, count) in
        [("judged", 9), ("changed", 6), ("denied", 5), ("allowed", 1), ("beyond", 0)]
    {
        assert_eq!(told[name], count, "{name}: {told}");
    }
    has!(told, {"aside": {"without_robots": 1, "unreachable": 1, "redacted": 1}});
    let group = &told["groups"][0];
    has!(group, {
        "rule": {"group": "*", "text": "Disallow: /archive/", "line": 2}, "to": "deny",
        "reason": "robots_disallow", "count": 4, "was": null,
    });
    has!(told, {
        "groups.2.was": {"reason": "robots_disallow", "rule": "Disallow: /private/", "exempt": null},
    });

    let said = ask(&db, &["--robots", "new.txt", "--since", "2026-11-20", "--jsonl"]);
    let changes: Vec<Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((said.code, changes.len()), (1, 6), "{said:?}");
    has!(changes, {
        "0.from": {"verdict": "allow", "reason": "robots_allow", "rule": null, "exempt": null},
        "0.to": {"verdict": "deny", "reason": "robots_disallow", "rule": group["rule"], "exempt": null},
    });
    let id = changes[3]["id"].as_str().unwrap();
    let shown: Value = serde_json::from_str(&db.run(&["log", "show", id, "--json"]).out).unwrap();
    assert_eq!(shown["url"], changes[3]["url"]);
}

#[test]
fn a_client_is_exempt_from_the_other_file_if_it_is_exempt_now() {
    let of = |path, client, second| Case {
        asked: NOON + Duration::from_secs(second),
        now: NOON + Duration::from_secs(second),
        client: Some(client),
        ..Case::of(OLD, "ExampleBot", path)
    };
    let then = ("then", Some("a person asked"));
    let db = TestStore::new();
    db.put(&[
        of("/private/a", then, 1),
        of("/archive/a", then, 2),
        of("/private/b", ("now", None), 3),
        of("/archive/b", ("now", None), 4),
        of("/open", ("now", None), 5),
        of("/archive/c", ("always", Some("a person asks")), 6),
    ]);
    std::fs::write(db.directory().join("both.txt"), format!("{OLD}Disallow: /archive/\n")).unwrap();
    let file = db.directory().join("config.toml");
    let mut config = std::fs::read_to_string(&file).unwrap();
    for (name, exempt) in
        [("then", ""), ("now", "exempt = 'a person asks'"), ("always", "exempt = 'a person asks'")]
    {
        let _ =
            writeln!(config, "[[client]]\nname = '{name}'\nnetworks = ['192.0.2.0/24']\n{exempt}");
    }
    std::fs::write(&file, config).unwrap();
    let words = ["--robots", "both.txt", "--since", "2026-11-20"];
    let said = ask(&db, &words);
    let expected = "\
  judged:   6 recorded requests, 3 would be decided otherwise
  denied:   2 that were allowed
                 1  Disallow: /private/ (line 2, of *); before: exempt (a person asked)
                    2026-11-20 12:00:01
                    https://site.example/private/a
                 1  Disallow: /archive/ (line 3, of *)
                    2026-11-20 12:00:02
                    https://site.example/archive/a
  allowed:  1 that was denied
                 1  exempt from Disallow: /private/ (line 2, of *); before: Disallow: /private/
                    2026-11-20 12:00:03
                    https://site.example/private/b
  exempt:   1 by the record; 3 by this file, of clients that are exempt now
  unknown:";
    assert!(said.out.contains(expected), "{}", said.out);
    let told = ask(&db, &[&words[..], &["--json"]].concat()).json();
    assert_eq!(told["exempt"], json!({"recorded": 1, "now": 3}), "{told}");
    let said = ask(&db, &[&words[..], &["--jsonl"]].concat());
    let changes = said.out.lines().map(|line| {
        let change: Value = serde_json::from_str(line).unwrap();
        json!([change["from"]["exempt"], change["to"]["exempt"]])
    });
    let exempt = |reason| json!({"from": "robots_disallow", "reason": reason});
    assert_eq!(
        changes.collect::<Vec<_>>(),
        [
            json!([exempt("a person asked"), null]),
            json!([null, null]),
            json!([null, exempt("a person asks")]),
        ]
    );
}

#[test]
fn the_span_the_file_and_the_settings_narrow_a_what_if() {
    let db = db();
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], i32, &str)] = &[
        ("the same file", &["--robots", "old.txt", "--since", "2026-11-20"], 0, "9 recorded requests, none would be decided otherwise"),
        ("a span", &["--robots", "new.txt", "--since", "2026-11-20T12:00:02Z", "--until", "2026-11-20T12:00:04Z"], 1, "2 recorded requests, 2 would be"),
        ("no request", &["--robots", "new.txt", "--since", "2026-11-21"], 0, "0 recorded requests, none"),
        ("its exit code alone", &["--robots", "new.txt", "--since", "2026-11-20", "--quiet"], 1, ""),
        ("several logs", &["--robots", "new.txt", "--since", "2026-11-20", "--log", "*", "--collection", "collected"], 1, "9 recorded requests, 6"),
        ("no time", &["--robots", "new.txt", "--since", "soon"], 2, "--since soon: not a time"),
        ("no file", &["--robots", "none.txt", "--since", "2026-11-20"], 2, "none.txt: "),
        ("without a span", &["--robots", "new.txt"], 2, "--since <TIME>"),
    ];
    for (name, words, code, told) in cases {
        let said = ask(&db, words);
        assert_eq!(said.code, *code, "{name}: {said:?}");
        assert!(said.out.contains(told) || said.err.contains(told), "{name}: {said:?}");
    }
    #[rustfmt::skip] // one row, one case
    let rows = [
        (&["check", "--robots", "new.txt", "--since", "1d"][..], "--origin <ORIGIN>"),
        (&["check", "--robots", "new.txt", "--log", "*"], "--since"),
        (&["check", "--robots", "new.txt", "--jsonl"], "--since"),
        (&["check", "https://site.example/", "--since", "1d"], "cannot be used with"),
    ];
    for (words, told) in rows {
        let said = db.run(words);
        assert_eq!(said.code, 2, "{words:?}: {said:?}");
        assert!(said.err.contains(told), "{words:?}: {said:?}");
    }
    let mut config = std::fs::read_to_string(db.directory().join("config.toml")).unwrap();
    let _ = write!(config, "[log]\ndecisions = \"all\"\n");
    std::fs::write(db.directory().join("config.toml"), config).unwrap();
    let said = ask(&db, &["--robots", "new.txt", "--since", "2026-11-20"]);
    assert!(!said.out.contains("unknown:"), "{said:?}");
}
