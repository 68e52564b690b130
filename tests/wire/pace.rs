//! Politeness: the rate of requests to an origin, and the requests that must wait. Times have lower bounds only: a test
//! machine may be slow, but a gap may never be shorter than promised. Page: `docs/politeness.md`.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::overrides::proven;
use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply, eventually};

/// Returns the `pace` member of a record.
fn pace(interval_ms: f64, source: &str, clamped: bool) -> Value {
    json!({ "interval_ms": interval_ms, "source": source, "clamped": clamped })
}

fn delayed(seconds: &str) -> String {
    format!("User-agent: *\nCrawl-delay: {seconds}\nDisallow: /private\n")
}

#[test]
fn a_request_beyond_the_pace_is_held_and_one_far_beyond_it_is_told_when_to_come() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "requests_per_second", "2");
        setup.set("pace", "max_hold", "\"600ms\"");
    });
    let origin = Origin::with_rules(RULES);
    let began = Instant::now();
    // The fetch of robots.txt was the first request.
    gate.passes(&origin.url("/1"));
    assert!(began.elapsed() >= Duration::from_millis(490));
    let record = gate.record_of(&origin.url("/1"));
    assert_eq!(record["pace"], pace(500.0, "own", false), "{record}");
    assert!(record["hold_ms"].as_f64().unwrap() >= 490.0, "{record}");

    // Of three requests at once, one has its turn at most, and one is held; the next would be held for a second. On a slow
    // machine, they may come one after the other.
    let url = origin.url("/2");
    let answer = eventually("three requests at once", || {
        thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(|| gate.get(&url)));
            let answers = threads.map(|thread| thread.join().unwrap());
            answers.into_iter().find(|answer| answer.status == 429)
        })
    });
    has!(gate.refused(&answer, 429, "paced"), {"pace": pace(500.0, "own", false)});
    let seconds: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    assert_eq!(seconds, 1);
    proven(&gate);
}

#[test]
fn a_crawl_delay_is_kept_if_honoured_and_otherwise_only_recorded() {
    for (honour, clamp, waits, shown) in [
        ("honour", "30s", 500, pace(500.0, "crawl_delay", false)),
        ("honour", "300ms", 300, pace(300.0, "crawl_delay", true)),
        ("record", "30s", 0, Value::Null),
    ] {
        let gate = CrawlgateProcess::with(|setup| {
            setup.set("pace", "crawl_delay", &format!("{honour:?}"));
            setup.set("pace", "max_crawl_delay", &format!("{clamp:?}"));
        });
        let origin = Origin::with_rules(&delayed("0.5"));
        // The turns count from the first request, that for robots.txt: an answer may be read late, and a record may come later.
        let began = Instant::now();
        for (turns, path) in [(1, "/1"), (2, "/2")] {
            gate.get(&origin.url(path)).is_origins(200, &format!("page {path}"));
            // To a tick of the clock.
            let least = Duration::from_millis(turns * waits);
            let least = least.saturating_sub(Duration::from_millis(60));
            assert!(began.elapsed() >= least, "{honour} {clamp} {path}");
            has!(gate.record_of(&origin.url(path)), {"pace": shown}, "{honour} {clamp} {path}");
        }
        let shown = gate.beside("origins", &["show", &origin.url("")]);
        let kept = match (honour, clamp) {
            ("record", _) => "not kept ([pace] crawl_delay = \"record\")",
            (_, "30s") => "line 2), kept",
            _ => "shortened by [pace] max_crawl_delay",
        };
        says!(shown.1, kept, "* is asked for 500ms (crawl-delay, line 2)");
    }
}

#[test]
fn the_retry_after_of_a_page_is_respected() {
    let gate = CrawlgateProcess::with(|setup| setup.set("pace", "max_hold", "\"1s\""));
    let busy = Reply::with(429, "Retry-After: 60\r\n", "busy");
    let origin = Origin::with_rules(RULES).on("/busy", [busy]);
    gate.passes(&origin.url("/open"));
    gate.get(&origin.url("/busy")).is_origins(429, "busy");
    let answer = gate.get(&origin.url("/open/2"));
    has!(gate.refused(&answer, 429, "paced"), {"pace": pace(60_000.0, "backoff", false)});
    let seconds: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    assert!((50..=60).contains(&seconds), "{seconds}");
    assert_eq!(origin.seen_but_robots(), ["GET /open", "GET /busy"]);
    let shown = gate.beside("origins", &["show", &origin.url("")]).1;
    says!(shown, "in trouble     asked at most once in 1m at present");
    // A denial needs no turn, and another origin is not affected.
    gate.denies(&origin.url("/private"));
    let other = Origin::with_rules(RULES);
    gate.passes(&other.url("/open"));
    proven(&gate);
}

#[test]
fn without_backoff_requests_go_on() {
    let gate = CrawlgateProcess::with(|setup| setup.set("pace", "backoff", "false"));
    let busy = Reply::with(503, "Retry-After: 60\r\n", "busy");
    let origin = Origin::with_rules(RULES).on("/busy", [busy]);
    for _ in 0..3 {
        gate.get(&origin.url("/busy")).is_origins(503, "busy");
    }
    assert_eq!(origin.seen_but_robots(), ["GET /busy"; 3]);
}

#[test]
fn no_more_requests_are_in_progress_at_an_origin_than_allowed() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "concurrency", "1");
        setup.set("pace", "max_hold", "\"200ms\"");
    });
    let latch = Latch::new();
    let slow =
        Reply::silent().wait(&latch).send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
    let origin = Origin::with_rules(RULES).on("/slow", [slow]);
    let url = origin.url("/slow");
    thread::scope(|scope| {
        let first = scope.spawn(|| gate.get(&url));
        latch.arrivals(1);
        let record = gate.refuses(&origin.url("/2"), 429, "paced");
        assert_eq!(record["pace"], pace(0.0, "concurrency", false), "{record}");
        assert!(record["hold_ms"].as_f64().unwrap() >= 190.0, "{record}");
        latch.open();
        first.join().unwrap().is_origins(200, "slow");
    });
    // A request slot is free once the body has ended and the record is made.
    gate.record_of(&url);
    gate.passes(&origin.url("/3"));
    assert_eq!(origin.seen_but_robots(), ["GET /slow", "GET /3"]);
}

#[test]
fn origins_at_one_address_are_paced_together_if_configured() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "requests_per_second", "0.1");
        setup.set("pace", "burst", "2");
        setup.set("pace", "max_hold", "\"0s\"");
        setup.set("pace", "per_address", "true");
    });
    // A robots.txt and a page; the next robots.txt does not wait here, but its page would.
    let origins = [Origin::http(), Origin::http(), Origin::http()];
    for (number, origin) in origins.iter().enumerate() {
        let answer = gate.get(&origin.url("/page"));
        if number < 1 {
            answer.is_origins(200, "page /page");
        } else {
            gate.refused(&answer, 429, "paced");
            assert_eq!(origin.seen_but_robots(), [""; 0]);
        }
    }
}

#[test]
fn a_reload_changes_the_pace_and_lets_no_burst_through() {
    let mut gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "requests_per_second", "0.05");
        setup.set("pace", "burst", "2");
        setup.set("pace", "max_hold", "\"0s\"");
    });
    let origin = Origin::with_rules(RULES);
    gate.passes(&origin.url("/1"));
    gate.refuses(&origin.url("/2"), 429, "paced");
    gate.reload(|setup| {
        setup.set("pace", "requests_per_second", "0.04");
        setup.set("pace", "burst", "1");
    });
    gate.refuses(&origin.url("/3"), 429, "paced");
    gate.reload(|setup| setup.set("pace", "requests_per_second", "\"unlimited\""));
    gate.passes(&origin.url("/4"));
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /4"]);
}

/// Sends two requests, of which one can be held and the other is refused for this reason; then disconnects. Returns the
/// record of the held request.
pub(crate) fn held_and_broken_off(gate: &CrawlgateProcess, origin: &Origin, reason: &str) -> Value {
    let before = gate.records().len();
    let is_new = |record: &Value| {
        let records = gate.records();
        records.iter().skip(before).any(|new| new["id"] == record["id"])
    };
    let wires = ["/held/1", "/held/2"].map(|path| gate.asks(&origin.url(path)));
    // There was no room for one request, so the other is held.
    gate.record("one refused", |record| record["reason"] == reason && is_new(record));
    drop(wires);
    gate.record("one broken off", |record| record["error"] == "client_closed" && is_new(record))
}

#[test]
fn a_request_that_ends_while_held_is_recorded_with_its_reason() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "requests_per_second", "0.01");
        setup.set("pace", "burst", "2");
        setup.set("pace", "max_hold", "\"150s\"");
    });
    let origin = Origin::with_rules(RULES);
    gate.passes(&origin.url("/1"));
    let record = held_and_broken_off(&gate, &origin, "paced");
    assert_eq!(record["verdict"], "allow", "{record}");
    assert_eq!(record["reason"], "robots_allow", "{record}");
    has!(record, {"pace": pace(100_000.0, "own", false), "error": "client_closed"});
    assert!(record["robots"].is_object(), "{record}");
    has!(record, {"status": null, "upstream": null});
    assert_eq!(origin.seen_but_robots(), ["GET /1"]);
    proven(&gate);
}

#[test]
fn a_repeated_request_waits_for_another_turn() {
    let gate = CrawlgateProcess::with(|setup| setup.set("pace", "requests_per_second", "2"));
    let lost = Reply::silent().cut();
    let origin = Origin::with_rules(RULES).on("/2", [lost, Reply::ok("page /2")]);
    let began = Instant::now();
    gate.passes(&origin.url("/1"));
    // By now the connection has been idle for long.
    gate.passes(&origin.url("/2"));
    // The turns count from the request for robots.txt: one for the first page, one for the second, and one for its repetition.
    assert!(began.elapsed() >= Duration::from_millis(1_440), "{:?}", began.elapsed());
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2", "GET /2"]);
}
