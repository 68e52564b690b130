//! Failures that are not an outage of an origin: a suspended process, a lost network. Page: `docs/robots.md`.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply};

#[test]
fn a_fetch_that_failed_while_the_process_was_stopped_is_begun_anew() {
    let gate = CrawlgateProcess::with(|setup| setup.set("robots", "first_byte_timeout", "\"2s\""));
    let latch = Latch::new();
    let origin = Origin::http().on("/robots.txt", [Reply::silent().wait(&latch), Reply::ok(RULES)]);
    let mut wire = gate.asks(&origin.url("/private"));
    latch.arrivals(1);
    gate.signal(Signal::STOP);
    // The time for which the process is stopped, which is the point of the test.
    std::thread::sleep(Duration::from_secs(7));
    gate.signal(Signal::CONT);
    gate.denied(&wire.response("GET"));
    assert_eq!(origin.robots_fetches(), 2, "asked again at once");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    gate.wait_said("the process stood still");
    let (_, said, _) = gate.beside("origins", &["show", &origin.url("/"), "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(shown["history"].as_array().map(Vec::len), Some(1), "{said}");
    assert_eq!(shown["outage"], serde_json::Value::Null, "{said}");
}

#[test]
fn failures_while_no_origin_is_reached_are_no_origins() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("robots", "retry_min", "\"100ms\"");
        setup.set("robots", "jitter", "0");
    });
    let dead: Vec<Origin> = (0..4).map(|_| Origin::http()).collect();
    dead.iter().for_each(Origin::stop);
    let last_failure = |origin: &Origin, path: &str| {
        let answer = gate.get(&origin.url(path));
        let record = gate.unreachable(&answer);
        let outage = &record["robots"]["unreachable"];
        assert_eq!(outage["cause"], "refused", "{record}");
        outage["last_failure"].is_string()
    };
    let counted: Vec<bool> = dead.iter().map(|origin| last_failure(origin, "/a")).collect();
    assert_eq!(counted, [true, true, false, false], "three that fail are the gate's own outage");
    let alive = Origin::with_rules(RULES);
    gate.denies(&alive.url("/private"));
    let fifth = Origin::http();
    fifth.stop();
    assert!(last_failure(&fifth, "/b"), "one is reached: this one's failure is its own");
    // An answered page shows as well that the network works; it needs no new robots.txt.
    for origin in &dead {
        let other = origin.url_as("other.test", "/c");
        gate.unreachable(&gate.get(&other));
    }
    assert_eq!(gate.get(&alive.url("/open")).status, 200);
    let sixth = Origin::http();
    sixth.stop();
    assert!(last_failure(&sixth, "/d"));
}
