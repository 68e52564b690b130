//! The quota and the rate of a client, over all origins. Page: `docs/clients.md`.

use std::thread;

use crate::clients::gate_with;
use crate::pace::held_and_broken_off;
use crate::support::{CrawlgateProcess, Origin, RULES, Response, eventually};

#[test]
fn a_quota_is_spent_once() {
    let mut gate = gate_with(
        "[[client]]\nname = 'rest'\nquota = { requests = 3, bytes = '1MiB', per = '365d' }\n",
    );
    let origin = Origin::with_rules(RULES);
    let url = |n| origin.url(&format!("/open/{n}"));
    gate.get(&url(1)).is_origins(200, "page /open/1");
    // A denial counts like any other request, because its record takes room.
    gate.denies(&origin.url("/private"));
    gate.get(&url(2)).is_origins(200, "page /open/2");
    let answer = gate.get(&url(3));
    gate.refused(&answer, 429, "quota_spent");
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    assert_eq!(origin.seen_but_robots(), ["GET /open/1", "GET /open/2"]);
    // A crawler's request for robots.txt counts like any other.
    gate.refuses(&origin.url("/robots.txt"), 429, "quota_spent");
    // A reload that allows more keeps the usage so far.
    gate.reload(|setup| {
        setup.tables("[[client]]\nname = 'rest'\nquota = { requests = 4, per = '365d' }\n");
    });
    gate.get(&url(4)).is_origins(200, "page /open/4");
    gate.refuses(&url(5), 429, "quota_spent");
}

#[test]
fn the_octets_of_a_quota_are_counted_when_a_request_ends() {
    let gate = gate_with("[[client]]\nname = 'rest'\nquota = { bytes = 8, per = '365d' }\n");
    let origin = Origin::with_rules(RULES);
    let url = |n: u32| origin.url(&format!("/{n}"));
    // Answers of crawlgate itself cost nothing.
    for _ in 0..2 {
        gate.denies(&origin.url("/private"));
    }
    // First seven octets, then more than eight.
    for n in 1..=2 {
        gate.get(&url(n)).is_origins(200, &format!("page /{n}"));
        gate.record_of(&url(n));
    }
    gate.refuses(&url(3), 429, "quota_spent");
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"]);
}

#[test]
fn a_client_that_disconnects_while_held_keeps_no_turn() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "max_hold", "\"150s\"");
        setup.tables("[[client]]\nname = 'rest'\nrequests_per_second = 0.01\n");
    });
    let origin = Origin::with_rules(RULES);
    gate.passes(&origin.url("/a"));
    for _ in 0..3 {
        // The hold would have ended after 100 seconds; if earlier turns were kept, both requests would be refused.
        has!(held_and_broken_off(&gate, &origin, "quota_spent"), {"reason": "robots_allow"});
    }
    assert_eq!(origin.seen_but_robots(), ["GET /a"]);
}

#[test]
fn a_client_that_is_too_fast_is_held_or_refused() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "max_hold", "\"400ms\"");
        setup.tables("[[client]]\nname = 'rest'\nrequests_per_second = 4\n");
    });
    let (one, other) = (Origin::with_rules(RULES), Origin::with_rules(RULES));
    // Over all origins together: the turn comes after a quarter of a second, which a slow machine may let pass.
    let mut pairs = 0..;
    eventually("a request to be held", || {
        let path = format!("/b/{}", pairs.next()?);
        gate.passes(&one.url("/a"));
        gate.get(&other.url(&path)).is_origins(200, &format!("page {path}"));
        let record = gate.record_of(&other.url(&path));
        let hold = record["hold_ms"].as_f64();
        hold.is_some_and(|hold| hold > 1.0).then_some(())
    });
    let refused: Vec<Response> = eventually("more requests at once than can be held", || {
        let answers = thread::scope(|scope| {
            let threads = [0, 1, 2, 3, 4, 5].map(|n| {
                let (gate, url) = (&gate, one.url(&format!("/{n}")));
                scope.spawn(move || gate.get(&url))
            });
            threads.map(|thread| thread.join().unwrap())
        });
        let refused = answers.into_iter().filter(|answer| answer.status == 429);
        Some(refused.collect::<Vec<_>>()).filter(|refused| !refused.is_empty())
    });
    for answer in &refused {
        gate.refused(answer, 429, "quota_spent");
        answer.field_is("retry-after", Some("1"));
    }
}
