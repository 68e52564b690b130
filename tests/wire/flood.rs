//! Refusals cost their client nothing, so a flood of them must not displace the evidence of others.
//! Page: `docs/decisions.md`.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply};

/// Ends the gate; returns the number of refusals with a record of their own, and the counts of the others.
fn told(gate: &mut CrawlgateProcess, reason: &str) -> (u64, Vec<Value>) {
    gate.signal(Signal::TERM);
    gate.wait();
    let records = gate.log_lines();
    let (counts, single): (Vec<_>, Vec<_>) = records
        .into_iter()
        .filter(|record| record["reason"] == reason)
        .partition(|record| record["event"] == "refusals_repeated");
    (single.len() as u64, counts)
}

#[test]
fn denials_beyond_a_number_are_one_record_with_a_count() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("audit", "refusals_per_minute", "5"));
    let origin = Origin::with_rules(RULES);
    for n in 0..60 {
        gate.answers(&origin.url(&format!("/private/{n}")), 403);
    }
    // Requests that go out are recorded as usual.
    gate.passes(&origin.url("/open"));
    gate.record_of(&origin.url("/open"));
    let (single, counts) = told(&mut gate, "robots_disallow");
    let beyond: u64 = counts.iter().map(|line| line["count"].as_u64().unwrap()).sum();
    // A minute may have ended in between.
    assert!((5..=10).contains(&single), "{single} {counts:?}");
    assert_eq!(single + beyond, 60, "{counts:?}");
    let count = &counts[0];
    has!(count, {"client.address": "127.0.0.1:0", "verdict": "deny"});
    assert!(count["id"].is_null() && count["first"].is_string() && count["last"].is_string());
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

#[test]
fn no_denial_of_a_client_at_full_speed_lacks_a_record() {
    const DENIALS: usize = 9_000;
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    gate.denies(&origin.url("/private/first"));
    let mut wire = gate.connect();
    for n in 1..DENIALS {
        let url = origin.url(&format!("/private/{n}"));
        wire.exchange(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n")).is(403);
    }
    let (single, counts) = told(&mut gate, "robots_disallow");
    assert_eq!((single, counts), (DENIALS as u64, vec![]));
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_denial_counts_against_the_rate_of_its_client() {
    let mut gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "max_hold", "\"0s\"");
        setup.tables("[[client]]\nname = 'rest'\nrequests_per_second = 0.001\nburst = 3\n");
    });
    let origin = Origin::with_rules(RULES);
    let mut answers = Vec::new();
    for n in 0..100 {
        answers.push(gate.get(&origin.url(&format!("/private/{n}"))));
    }
    for answer in &answers[..3] {
        gate.denied(answer);
    }
    for answer in &answers[3..] {
        assert_eq!(answer.status, 429);
    }
    // A request that is refused before its judgement gets its own answer, and is recorded as an excess one.
    for _ in 0..15 {
        let mut wire = gate.sends("TRACE", &origin.url("/open"), "\r\n");
        assert_ne!(wire.response("TRACE").status, 200);
    }
    let (single, counts) = told(&mut gate, "quota_spent");
    let records = gate.log_lines();
    let early = records.iter().filter(|record| record["reason"] == "bad_request");
    let early: Vec<_> = early.map(|record| record["event"].is_string()).collect();
    assert!((10..=15).contains(&early.len()), "{records:?}");
    let beyond: u64 = counts.iter().map(|line| line["count"].as_u64().unwrap()).sum();
    assert!((10..=20).contains(&single), "{single} {counts:?}");
    assert_eq!(single + beyond, 97, "{counts:?}");
    assert_eq!(counts[0]["client"]["name"], "rest");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_long_url_is_cut_and_named_by_its_digest() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let url = origin.url(&format!("/private/{}", "x".repeat(6_000)));
    gate.denies(&url);
    let record = gate.record("the long one", |record| !record["url_sha256"].is_null());
    let kept = record["url"].as_str().unwrap();
    assert!(kept.len() <= 2_048, "{}", kept.len());
    let (start, _) = kept.split_once('…').unwrap();
    assert!(url.starts_with(start), "{kept}");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, url.as_bytes());
    let digest: String = digest.as_ref().iter().map(|octet| format!("{octet:02x}")).collect();
    assert_eq!(record["url_sha256"], digest);
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    // The rule could match in the part that the line lacks; the entry has it.
    let id = record["id"].as_str().unwrap();
    let out = gate.succeeds("audit", &["verify", id]);
    says!(out, "proven: the same decision follows");
}

#[test]
fn few_fetches_of_robots_txt_wait_for_their_beginning() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("robots", "max_fetches", "1");
        setup.set("robots", "first_byte_timeout", "\"60s\"");
        setup.set("robots", "fetch_timeout", "\"60s\"");
        setup.set("robots", "hold", "\"1s\"");
    });
    let latch = Latch::new();
    let origins: Vec<Origin> = (0..4)
        .map(|_| {
            let held = Reply::silent().wait(&latch).send("HTTP/1.1 404 No\r\n\r\n");
            Origin::http().on("/robots.txt", [held.close()])
        })
        .collect();
    // One fetch is in progress, and two wait: half of four, because they are one client's. They outlast their requests.
    for origin in &origins[..3] {
        gate.refuses(&origin.url("/page"), 503, "robots_pending");
    }
    let answer = gate.get(&origins[3].url("/page"));
    gate.refused(&answer, 503, "overloaded");
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    let seen: Vec<_> = origins.iter().map(|origin| origin.seen().len()).collect();
    assert_eq!(seen, [1, 0, 0, 0]);
    latch.open();
    for origin in &origins {
        gate.until(200, &origin.url("/page"));
    }
}
