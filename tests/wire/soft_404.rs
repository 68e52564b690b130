//! A 5xx that says "page not found": believed only of a site that answers every missing page in this way.
//! Page: `docs/robots.md`.

use serde_json::Value;

use crate::access::{Access, check};
use crate::support::{CrawlgateProcess, Head, Origin, RULES, Reply};

const MISSING: &str = "<!doctype html><title>Oops</title><h1>Page not found</h1>";

/// Returns an origin that answers robots.txt with `robots`, and every other text file with `missing`.
fn site(robots: Reply, missing: Reply) -> Origin {
    Origin::http().on("/robots.txt", [robots]).missing(missing)
}

/// Returns its requests apart from those for robots.txt and the pages of [`check`].
fn probes(origin: &Origin) -> Vec<String> {
    let is_page = |line: &String| line.ends_with("/private") || line.ends_with("/open");
    let mut seen = origin.seen_but_robots();
    seen.retain(|line| !is_page(line));
    // A request that is lost with a reused connection is sent once more.
    seen.dedup();
    seen
}

#[test]
fn a_5xx_is_no_missing_robots_txt_without_evidence() {
    use Access::{Free, Nothing};
    let gate = CrawlgateProcess::start();
    let german = "<h1>Fehler</h1> Diese Seite wurde nicht gefunden.";
    let php = "<b>Warning</b>: include(rules.php): Failed to open stream: file not found";
    // Name, the answer to robots.txt, the answer to missing pages, the result, and the number of probes: evidence for a
    // missing file is checked once more only under crawlgate's name.
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("every missing page gets the same", Reply::status(500, MISSING), Reply::status(500, MISSING), Free, 2),
        ("in another language", Reply::status(503, german), Reply::status(503, german), Free, 2),
        ("a missing page is found", Reply::status(500, MISSING), Reply::ok("a page"), Nothing, 1),
        ("a missing page is missing", Reply::status(500, MISSING), Reply::status(404, MISSING), Nothing, 1),
        ("another status", Reply::status(500, MISSING), Reply::status(503, MISSING), Nothing, 1),
        ("the same status, another page", Reply::status(500, MISSING), Reply::status(500, "try later"), Nothing, 1),
        ("another language", Reply::status(500, MISSING), Reply::status(500, german), Nothing, 1),
        ("a missing page leads elsewhere", Reply::status(500, MISSING), Reply::redirect(302, "/"), Nothing, 1),
        ("no answer for a missing page", Reply::status(500, MISSING), Reply::silent().close(), Nothing, 1),
        ("a broken script says that a file of its own is missing", Reply::status(500, php), Reply::status(500, php), Nothing, 0),
        ("an outage that says when it ends", Reply::with(503, "Retry-After: 60", MISSING), Reply::status(503, MISSING), Nothing, 0),
        ("an error page that says nothing", Reply::status(500, "sorry"), Reply::status(500, "sorry"), Nothing, 0),
    ];
    for (case, robots, missing, access, looks) in cases {
        let origin = site(robots, missing);
        check(case, &gate, &origin, access);
        assert_eq!(probes(&origin).len(), looks, "{case}: {:?}", probes(&origin));
        let fetches = if access == Free { 2 } else { 1 };
        assert_eq!(origin.robots_fetches(), fetches, "{case}");
    }
}

#[test]
fn the_probe_is_a_fetch_like_that_of_robots_txt_and_leaves_its_trace() {
    let gate = CrawlgateProcess::start();
    let origin = site(Reply::status(500, MISSING), Reply::status(500, MISSING));
    // For a crawler without a name, the gate probes only under crawlgate's name, once.
    gate.connect()
        .exchange(format!("GET {} HTTP/1.1\r\nHost: x\r\nCookie: a=b\r\n\r\n", origin.url("/open")))
        .is(200);
    let probes = probes(&origin);
    let [probe] = &probes[..] else {
        panic!("{probes:?}");
    };
    let target = probe.strip_prefix("GET ").unwrap();
    let name = target.strip_prefix('/').and_then(|name| name.strip_suffix(".txt")).unwrap();
    assert!(name.len() == 32 && name.bytes().all(|octet| octet.is_ascii_hexdigit()), "{probe}");
    let (probe, robots) = (origin.last(target).head, origin.last("/robots.txt").head);
    for field in "user-agent accept accept-encoding host cookie connection".split(' ') {
        assert_eq!(probe.field(field), robots.field(field), "{field}");
    }
    assert_eq!(probe.field("cookie"), None);
    let words = ["show", &origin.url("/"), "--json"];
    let said = gate.beside_until("origins", &words, |said| said.contains("history"));
    let shown: Value = serde_json::from_str(&said).unwrap();
    let fetch = &shown["history"][0];
    has!(fetch, {"cause": "not_found_behind_500", "status": 500}, "{said}");
    let trace = format!("{}: it answered 500, as robots.txt", origin.url(target));
    assert_eq!(fetch["fields"]["(probe)"], *trace, "{said}");
}

#[test]
fn a_missing_page_for_one_name_alone_lifts_nothing() {
    let gate = CrawlgateProcess::start();
    let is_test_bot = |head: &Head| {
        let sent = head.field("user-agent").unwrap_or_default();
        sent.contains("TestBot")
    };
    let missing = || Reply::status(500, MISSING);
    let origin = site(Reply::ok(RULES), missing()).on_if("/robots.txt", is_test_bot, missing());
    check("rules for all others", &gate, &origin, Access::Rules);
    assert_eq!(probes(&origin).len(), 1, "{:?}", probes(&origin));
    let agents = origin.robots_agents();
    let [named, own] = &agents[..] else {
        panic!("{agents:?}");
    };
    assert!(named.contains("TestBot") && !own.contains("TestBot"));
    has!(gate.record_of(&origin.url("/private")), {"robots.user_agent": **own});
}

#[test]
fn another_origins_error_page_is_not_looked_into() {
    let gate = CrawlgateProcess::start();
    let other = site(Reply::status(500, MISSING), Reply::status(500, MISSING));
    let hop = Reply::redirect(301, &other.url_as("other.test", "/robots.txt"));
    let origin = Origin::http().on("/robots.txt", [hop]);
    check("an error page behind a redirect", &gate, &origin, Access::Nothing);
    assert_eq!(probes(&other), [""; 0]);
    assert_eq!(probes(&origin), [""; 0]);
}

#[test]
fn an_operator_names_the_phrases_and_switches_it_off() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("robots", "soft_404_phrases", "[\"nothing here\"]");
    });
    let ours = || Reply::status(500, "Nothing\nhere.");
    check("a phrase of the operator's", &gate, &site(ours(), ours()), Access::Free);
    let theirs = || Reply::status(500, MISSING);
    check("one of the built-in ones", &gate, &site(theirs(), theirs()), Access::Nothing);
    let gate = CrawlgateProcess::with(|setup| setup.set("robots", "soft_404", "false"));
    let origin = site(theirs(), theirs());
    check("switched off", &gate, &origin, Access::Nothing);
    assert_eq!(probes(&origin), [""; 0]);
}
