//! `crawlgate origins` on a store that was filled before. Longer than 400 lines of code because all commands read one
//! kind of store, which is filled here.

use std::sync::Arc;
use std::time::Duration;

use crate::support::Setup;
use crawlgate_config::Config;
use crawlgate_origins::access::{Absence, AccessResult, Cause, Freshness};
use crawlgate_origins::reach::Reach;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{FetchEnd, State};
use crawlgate_robots::{Origin, ParseOptions, Robots};
use crawlgate_store::{self as store, Access, Batch, Fetch, OriginUpdate};
use crawlgate_system::clock::{Clock, Moment};
use serde_json::Value;

const HOUR: Duration = Duration::from_secs(3600);

/// A store to be filled, and the commands that read it.
struct TestStore {
    setup: Setup,
    config: Config,
    now: Moment,
}

impl TestStore {
    fn new() -> TestStore {
        let setup = Setup::new();
        let config = Config::load(Some(&setup.write())).unwrap();
        let now = Clock::system().now();
        TestStore { setup, config, now }
    }

    /// Fills the store with the results of these fetches of an origin, each ended so many hours ago.
    fn learn(&self, origin: &str, fetches: &[(u32, AccessResult)]) {
        let store = store::open(&self.config, Access::Write).unwrap();
        let origin = Origin::parse(origin).unwrap().0;
        let timing = &self.config.robots.timing;
        let mut state = State::NeverFetched;
        let mut batch = Batch::default();
        for (hours, result) in fetches {
            let time = self.now - HOUR * *hours;
            let result = at(result, time);
            state = state.after(result.clone(), ended(time), timing, 0.0);
            let (status, cause, sha256) = match &result {
                AccessResult::Successful { snapshot, .. } => {
                    (Some(200), None, Some(snapshot.sha256))
                }
                AccessResult::Unavailable { why, .. } => (Some(404), Some(why.code()), None),
                AccessResult::Unreachable { cause, .. } => (None, Some(cause.code()), None),
            };
            batch.updates.push(OriginUpdate {
                origin: origin.clone(),
                state: Arc::new(state.clone()),
                user_agent: "crawlgate/0.1".into(),
                fetch: Fetch {
                    identity: crawlgate_origins::identity::Identity::default(),
                    user_agent: "crawlgate/0.1".to_owned(),
                    other: None,
                    time,
                    duration: Duration::from_millis(70),
                    result: result.name().to_owned(),
                    cause,
                    status,
                    hops: vec![origin.robots_url(), "http://cdn.example/r".to_owned()],
                    sha256,
                    fields: vec![("etag".to_owned(), "\"7\"".to_owned())],
                },
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(store.write(batch)).unwrap();
    }

    /// `crawlgate origins WORDS…`
    #[track_caller]
    fn ask(&self, words: &[&str]) -> (i32, String, String) {
        let output = self.setup.command("origins").args(words).output().unwrap();
        let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// Returns the names in a list.
    #[track_caller]
    fn names(&self, words: &[&str]) -> Vec<String> {
        let (code, said, error) = self.ask(&[words, &["--json"]].concat());
        assert!(code < 2, "{words:?}: {error}");
        let origin = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["origin"].as_str().unwrap().to_owned()
        };
        said.lines().map(origin).collect()
    }
}

/// Returns a fetch that ended at this time.
fn ended(now: Moment) -> FetchEnd {
    FetchEnd { now, since_failure: None, reach: Reach::Some }
}

/// Returns the same result at another time.
fn at(result: &AccessResult, time: Moment) -> AccessResult {
    match result {
        AccessResult::Successful { snapshot, freshness } => AccessResult::Successful {
            snapshot: Arc::new(Snapshot::new(
                snapshot.robots.clone(),
                time,
                200,
                "http://cdn.example/r",
            )),
            freshness: *freshness,
        },
        other => other.clone(),
    }
}

fn file(text: &str) -> AccessResult {
    let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
    AccessResult::Successful {
        snapshot: Arc::new(Snapshot::new(robots, Moment::default(), 200, "")),
        freshness: Freshness::Unsaid,
    }
}

fn missing() -> AccessResult {
    AccessResult::Unavailable { why: Absence::Status(404), freshness: Freshness::Unsaid }
}

fn down() -> AccessResult {
    AccessResult::Unreachable { cause: Cause::Dns, retry_after: None }
}

const RULES: &str = "User-agent: a\nUser-agent: b\nDisallow: /x\nCrawl-delay: 5\n\nUser-agent: *\nDisallow: /\n\
    Sitemap: http://one.example/map\u{1b}[2J.xml\n";

fn three() -> TestStore {
    let test_store = TestStore::new();
    test_store.learn("http://one.example", &[(3, file(RULES))]);
    test_store.learn("http://two.example", &[(2, missing())]);
    test_store.learn(
        "https://three.example",
        &[(90, file(RULES)), (50, down()), (27, down()), (4, down())],
    );
    test_store
}

#[test]
fn origins_are_listed_filtered_and_paged() {
    let test_store = three();
    let [one, two, three] = ["http://one.example", "http://two.example", "https://three.example"];
    for (words, expected) in [
        (&[][..], &[one, two, three][..]),
        (&["--state", "unavailable"], &[two]),
        (&["--state", "unreachable"], &[three]),
        (&["--containing", "t"], &[one, two, three]),
        (&["--containing", "https"], &[three]),
        (&["--containing", "%"], &[]),
        (&["--limit", "2"], &[one, two]),
        (&["--limit", "2", "--after", two], &[three]),
        (&["--after", three], &[]),
        (&["--limit", "0"], &[]),
        (&["--all", "--state", "successful"], &[one]),
    ] {
        assert_eq!(test_store.names(words), expected, "{words:?}");
    }
    let (code, said, _) = test_store.ask(&[]);
    assert_eq!(code, 0);
    let lines: Vec<Vec<&str>> =
        said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..5], ["ORIGIN", "AS", "STATE", "SINCE", "NEXT"], "{said}");
    assert_eq!(lines[1][..5], [one, "*", "successful", "3h", "in"], "{said}");
    assert_eq!(lines[3][..4], [three, "*", "unreachable", "2d"], "{said}");
    says!(said, "failed 3 times: its name did not resolve; last good copy");
}

#[test]
fn more_origins_than_a_page_are_all_listed() {
    let test_store = TestStore::new();
    let store = store::open(&test_store.config, Access::Write).unwrap();
    let state = State::NeverFetched.after(
        missing(),
        ended(test_store.now),
        &test_store.config.robots.timing,
        0.0,
    );
    let origin_update = |number: u32| OriginUpdate {
        origin: Origin::parse(&format!("http://h{number:05}.example")).unwrap().0,
        state: Arc::new(state.clone()),
        user_agent: "crawlgate/0.1".into(),
        fetch: Fetch {
            identity: crawlgate_origins::identity::Identity::default(),
            user_agent: "crawlgate/0.1".to_owned(),
            other: None,
            time: test_store.now,
            duration: Duration::ZERO,
            result: "unavailable".to_owned(),
            cause: None,
            status: Some(404),
            hops: Vec::new(),
            sha256: None,
            fields: Vec::new(),
        },
    };
    let batch = Batch { updates: (0..1203).map(origin_update).collect(), ..Batch::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(store.write(batch)).unwrap();
    let names = test_store.names(&["--all"]);
    assert_eq!(names.len(), 1203);
    assert!(names.is_sorted());
    assert_eq!(test_store.names(&[]).len(), 100);
    assert_eq!(test_store.names(&["-n", "700"]).len(), 700);
}

#[test]
fn one_origin_is_shown_with_what_its_robots_txt_holds() {
    let test_store = three();
    let (code, said, error) = test_store.ask(&["show", "http://one.example/any/page?of=it"]);
    assert_eq!(code, 0, "{error}");
    says!(
        said,
        "state          successful: ",
        "known as       *",
        "fetched with   crawlgate/0.1",
        "requests       its rules decide",
        "(3h ago)",
        "group          a, b (line 1): 1 rule",
        "group          * (line 6): 1 rule",
        "sitemap        http://one.example/map\\u{1b}[2J.xml",
        "crawl-delay    5 (line 4)",
        "by way of http://one.example/robots.txt → http://cdn.example/r"
    );
    let (_, said, _) = test_store.ask(&["show", "http://two.example"]);
    says!(said, "it answered 404", "no restrictions");
    let (_, said, _) = test_store.ask(&["show", "https://three.example", "--history", "2"]);
    says!(said, "complete disallow until", "(in 27d)", "(2d ago)", "last good copy");
    assert_eq!(said.matches("unreachable 70 ms").count(), 2, "{said}");
    let (code, said, _) = test_store.ask(&["show", "http://four.example"]);
    assert_eq!((code, said.trim_end()), (1, "http://four.example: nothing is known of it"));
}

#[test]
fn sitemaps_are_listed_with_the_verdict_of_their_own_origin() {
    let test_store = TestStore::new();
    let maps = "User-agent: a\nDisallow: /\nSitemap: http://two.example/open.xml\n\
        Sitemap: http://two.example/shut.xml\nSitemap: https://new.example/map.xml\nSitemap: /map.xml\n\
        Sitemap: http://none.example/map.xml\nSitemap: http://down.example/map.xml\nSitemap: http://old.example/map.xml\n";
    let rules = "User-agent: *\nDisallow: /shut\n\nUser-agent: ExampleBot\nDisallow: /open\n";
    test_store.learn("http://one.example", &[(3, file(maps))]);
    test_store.learn("http://two.example", &[(3, file(rules))]);
    test_store.learn("http://none.example", &[(3, missing())]);
    test_store.learn("http://down.example", &[(3, down())]);
    let late = "User-agent: *\nDisallow: /\nSitemap: ftp://one.example/late.xml\n";
    test_store.learn("http://old.example", &[(90, file(late))]);
    let listed = |words: &[&str]| -> Vec<Value> {
        let (code, said, error) = test_store.ask(&[&["sitemaps", "--json"], words].concat());
        assert_eq!((code, &*error), (0, ""), "{words:?}: {said}");
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let told = |line: &Value| {
        let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
        let rule = line["rule"]["text"].as_str().unwrap_or("-").to_owned();
        let place = format!("{} {}", text("origin"), line["line"]);
        [place, text("access"), text("reason"), rule].join("; ")
    };
    let all: Vec<String> = listed(&[]).iter().map(told).collect();
    assert_eq!(
        all,
        [
            "http://old.example 3; unknown; -; -",
            "http://one.example 3; allowed; robots_allow; -",
            "http://one.example 4; disallowed; robots_disallow; Disallow: /shut",
            "http://one.example 5; unknown; -; -",
            "http://one.example 6; invalid; -; -",
            "http://one.example 7; allowed; robots_unavailable; -",
            "http://one.example 8; disallowed; robots_unreachable; -",
            "http://one.example 9; disallowed; robots_disallow; Disallow: /",
        ]
    );
    let whole = listed(&[]);
    assert_eq!(whole[7]["stale"], true, "{}", whole[7]);
    has!(whole, {"1.stale": false, "1.judged_as": "*"});
    says!(whole[4]["error"].as_str().unwrap(), "with scheme and host");
    // Another crawler, another group.
    let for_bot: Vec<String> =
        listed(&["--agent", "ExampleBot/2.1 (+https://bot.example)"]).iter().map(told).collect();
    assert_eq!(for_bot[1], "http://one.example 3; disallowed; robots_disallow; Disallow: /open");
    assert_eq!(for_bot[2], "http://one.example 4; allowed; robots_allow; -");
    // Page by page, also from the middle of a file.
    for (words, lines) in [
        (&["--limit", "3"][..], 0..3),
        (&["--after", "http://old.example"], 1..8),
        (&["--after", "http://one.example * 6"], 5..8),
        (&["--after", "http://one.example * 6", "-n", "2"], 5..7),
        (&["--containing", "old", "--all"], 0..1),
        (&["--state", "successful"], 0..8),
    ] {
        let found: Vec<String> = listed(words).iter().map(told).collect();
        assert_eq!(found, all[lines], "{words:?}");
    }
    let (code, said, _) = test_store.ask(&["sitemaps"]);
    assert_eq!(code, 0);
    says!(
        said,
        "http://two.example/shut.xml  Disallow: /shut (line 2)\n",
        "https://new.example/map.xml  the robots.txt of its origin is not known\n",
        "Disallow: / (line 2); by a stale copy, fetched as *\n"
    );
    let (code, said, _) = test_store.ask(&["sitemaps", "--after", "http://one.example"]);
    assert_eq!((code, &*said), (1, ""));
    // The file of an outage, and that of another state.
    let last_good = "Sitemap: https://new.example/map.xml\n";
    test_store.learn("http://lost.example", &[(90, file(last_good)), (1, down())]);
    let lost: Vec<String> = listed(&["--state", "unreachable"]).iter().map(told).collect();
    assert_eq!(lost, ["http://lost.example 1; unknown; -; -"]);
}

#[test]
fn preferences_about_use_are_shown_with_their_groups() {
    let test_store = TestStore::new();
    let rules = "License: https://one.example/l.xml\nUser-agent: a\nUser-agent: b\nDisallow: /x\n\
        Content-Usage: train-ai=n\n\nUser-agent: *\nContent-Signal: search=maybe\nCrawl-delay: 5\n";
    test_store.learn("http://one.example", &[(3, file(rules))]);
    let (code, said, error) = test_store.ask(&["show", "http://one.example"]);
    assert_eq!(code, 0, "{error}");
    for part in [
        "  license        https://one.example/l.xml (line 1, above all groups)\n",
        "  content-usage  train-ai=n (line 5, group a, b)\n",
        "  content-signal search=maybe (line 8, group *; signal_value)\n",
        "  crawl-delay    5 (line 9)\n",
        "  note           line 7: no rule follows: the group restricts nothing: User-agent: *\n",
        "  note           line 8: a value that is neither `yes` nor `no`: the preference is unknown: Content-Signal: search=maybe\n",
    ] {
        assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
    }
    assert_eq!(said.matches("train-ai").count(), 1, "{said}");
    let (_, said, _) = test_store.ask(&["show", "http://one.example", "--json"]);
    let shown: Value = serde_json::from_str(&said).unwrap();
    let others = shown["others"].as_array().unwrap();
    assert_eq!(others.len(), 1, "{said}");
    assert_eq!(others[0]["field"], "crawl-delay", "{said}");
    for (pointer, expected) in [
        ("/usage/0/field", "license"),
        ("/usage/1/value", "train-ai=n"),
        ("/usage/1/user_agents/1", "b"),
        ("/usage/2/note", "signal_value"),
        ("/notes/0/kind", "empty_group"),
        ("/notes/0/message", "no rule follows: the group restricts nothing"),
        ("/notes/1/text", "Content-Signal: search=maybe"),
    ] {
        let found = shown.pointer(pointer).and_then(Value::as_str);
        assert_eq!(found, Some(expected), "{pointer}: {said}");
    }
}

#[test]
fn one_origin_is_shown_as_json() {
    let test_store = three();
    let (code, said, error) = test_store.ask(&["show", "https://three.example", "--json"]);
    assert_eq!(code, 0, "{error}");
    let shown: Value = serde_json::from_str(&said).unwrap();
    for (pointer, expected) in [
        ("/origin", "https://three.example"),
        ("/state", "unreachable"),
        ("/stance", "disallow_all"),
        ("/outage/cause", "dns"),
        ("/groups/0/user_agents/1", "b"),
        ("/others/0/field", "crawl-delay"),
        ("/history/0/cause", "dns"),
        ("/history/3/fields/etag", "\"7\""),
        ("/history/3/result", "successful"),
    ] {
        let found = shown.pointer(pointer).and_then(Value::as_str);
        assert_eq!(found, Some(expected), "{pointer}: {said}");
    }
    has!(shown, {"outage.attempts": 3, "robots.sha256": shown["history"][3]["sha256"]});
}

#[test]
fn robots_txt_is_printed_octet_for_octet() {
    let test_store = three();
    let (code, said, _) = test_store.ask(&["show", "https://three.example", "--robots"]);
    assert_eq!((code, &*said), (0, RULES));
    let (code, _, error) = test_store.ask(&["show", "http://two.example", "--robots"]);
    assert_eq!(code, 2);
    says!(error, "there is no robots.txt: it answered 404");
}

#[test]
fn two_robots_txt_are_compared() {
    let test_store = TestStore::new();
    let origin = "http://one.example";
    let [a, b, c] = ["Disallow: /a\n", "Disallow: /b\n", "Disallow: /c\n"]
        .map(|rule| file(&format!("User-agent: *\n{rule}")));
    let fetches = [(100, a), (80, b.clone()), (60, b), (40, down()), (20, c)];
    test_store.learn(origin, &fetches);
    let digest = |file: &AccessResult| match file {
        AccessResult::Successful { snapshot, .. } => {
            snapshot.sha256[..6].iter().map(|octet| format!("{octet:02x}")).collect::<String>()
        }
        _ => panic!("no file"),
    };
    let [first, second] = [&fetches[0].1, &fetches[1].1].map(digest);
    for (name, words, old, new) in [
        ("the latest change", &[][..], "b", "c"),
        ("from then to now", &["90h"], "a", "c"),
        ("between two times", &["90h ago", "70h"], "a", "b"),
        ("between two digests", &[&*first, &*second], "a", "b"),
        ("backwards", &[&*second, &*first], "b", "a"),
    ] {
        let (code, said, error) = test_store.ask(&[&["show", origin, "--diff"], words].concat());
        assert_eq!(code, 0, "{name}: {error}");
        let changes = format!("\n User-agent: *\n-Disallow: /{old}\n+Disallow: /{new}\n");
        assert!(said.contains(&changes), "{name}: {said}");
    }
    let (code, said, _) = test_store.ask(&["show", origin, "--diff", &first, &first]);
    assert_eq!((code, &*said), (0, ""), "no difference");
    let (code, _, error) = test_store.ask(&["show", origin, "--diff", "200h"]);
    assert_eq!(code, 2);
    says!(error, "no robots.txt from before that is known");
    test_store.learn("http://two.example", &[(1, file("User-agent: *\n"))]);
    let (code, said, _) = test_store.ask(&["show", "http://two.example", "--diff"]);
    assert_eq!(code, 1, "{said}");
}

#[test]
fn mistakes_get_a_clear_message() {
    let test_store = three();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no scheme", &["show", "one.example"][..], "https://one.example, or http://one.example"),
        ("no such state", &["--state", "gone"], "unreachable"),
        ("options of the list with a command", &["--json", "forget", "http://one.example"], "options of the list"),
        ("nothing to forget", &["forget"], "ORIGIN"),
    ];
    for (name, words, part) in cases {
        let (code, _, error) = test_store.ask(words);
        assert_eq!(code, 2, "{name}: {error}");
        assert!(error.contains(part), "{name}: {error}");
    }
    let none = Setup::new();
    let output = none.command("origins").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    says!(said, "crawlgate.db");
    let made = none.dir().join("crawlgate.db").exists();
    assert!(!made, "looking makes no store");
}
