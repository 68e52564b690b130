//! `[audit] durability = "strict"`: the gate stores a denial before it answers. Page: `docs/decisions.md`.

use std::collections::HashSet;

use rustix::process::Signal;
use serde_json::json;

use crate::clients::{PASSWORD, basic, entry};
use crate::metrics;
use crate::opaque::{SWITCH, upgrade};
use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply, Setup, StoredLog};

fn strict(configure: impl FnOnce(&mut Setup)) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
        setup.set("audit", "durability", "\"strict\"");
        configure(setup);
    })
}

#[test]
fn the_record_is_in_place_when_the_denial_arrives() {
    let gate = strict(|_| ());
    let origin = Origin::with_rules(RULES);
    let mut wire = gate.connect();
    for n in 0..50 {
        let url = origin.url(&format!("/private/{n}"));
        let answer = wire.get(&url);
        // Read at once, without waiting.
        let records = gate.records();
        let found: Vec<_> = records.iter().filter(|record| record["url"] == url).collect();
        assert_eq!(found.len(), 1, "{url}: {records:?}");
        assert_eq!(found[0]["id"], answer.problem()["id"], "{url}");
        has!(found, {"0.status": 403, "0.bytes_out": answer.text().len()}, "{url}");
        assert!(found[0]["error"] == "http_request_denied", "{}", found[0]);
    }
    // Other refusals are denials, too; forwarded requests do not wait for their record.
    let answer = gate.connect().exchange("GET /origin-form HTTP/1.1\r\nHost: x\r\n\r\n");
    let id = answer.problem()["id"].clone();
    assert!(gate.records().iter().any(|record| record["id"] == id));
    let url = origin.url("/open");
    gate.get(&url).is_origins(200, "page /open");
    gate.record_of(&url);
    let ids: HashSet<_> = gate.records().iter().map(|record| record["id"].to_string()).collect();
    assert_eq!(ids.len(), gate.records().len(), "one was recorded twice");
}

#[test]
fn a_head_request_is_denied_without_a_body_and_recorded_so() {
    let gate = strict(|_| ());
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/private");
    gate.request("HEAD", &url, "").is(403);
    let records = gate.records();
    has!(records.iter().find(|record| record["url"] == url).unwrap(), {"bytes_out": 0});
}

#[test]
fn a_denial_that_cannot_be_stored_is_not_answered_unless_configured() {
    for (on_failure, status, reason) in
        [("\"deny\"", 503, "log_failed"), ("\"continue\"", 403, "robots_disallow")]
    {
        let gate = strict(|setup| {
            setup.set("log", "file", "\"/dev/full\"");
            setup.set("log", "decisions", "\"denied\"");
            setup.set("log", "on_failure", on_failure);
            setup.set("store", "path", "\"\"");
        });
        let origin = Origin::with_rules(RULES);
        for n in 0..3 {
            let answer = gate.get(&origin.url(&format!("/private/{n}")));
            assert_eq!(answer.status, status, "{on_failure}: {answer:?}");
            assert!(answer.is_ours() && answer.whole, "{answer:?}");
            assert_eq!(answer.problem()["reason"], json!(reason), "{answer:?}");
        }
        assert_eq!(origin.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn a_kill_takes_no_refusal_that_was_told() {
    let mut gate = strict(|setup| {
        setup.set("audit", "refusals_per_minute", "3");
        setup.set("pace", "max_hold", "\"0s\"");
        setup.tables("[[client]]\nname = 'rest'\nrequests_per_second = 0.001\nburst = 20\n");
    });
    let origin = Origin::with_rules(RULES);
    let mut told = HashSet::new();
    // More than the limit on single records: denials, and requests beyond the client's rate.
    for n in 0..60 {
        let answer = gate.get(&origin.url(&format!("/private/{n}")));
        let status = if n < 20 { 403 } else { 429 };
        assert_eq!(answer.status, status, "{n}: {answer:?}");
        told.insert(answer.problem()["id"].as_str().unwrap().to_owned());
    }
    gate.signal(Signal::KILL);
    gate.wait();
    let store = gate.setup.dir().join("crawlgate.db");
    let kept = StoredLog::read(&store).decisions;
    assert_eq!(told.len(), 60);
    assert_eq!(told.difference(&kept).count(), 0, "{kept:?}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

/// Configures a client that is exempt.
fn exempt(setup: &mut Setup) {
    let tables = entry("helper", "exempt = 'a person asks for each page'\n");
    setup.tables(&(tables + "[[client]]\nname = 'rest'\nnetworks = '127.0.0.0/8'\n"));
}

#[test]
fn a_page_that_an_exemption_lets_out_is_recorded_before_it_leaves() {
    let mut gate = strict(exempt);
    let origin = Origin::with_rules(RULES).on("/private/ws", [Reply::raw(SWITCH).echo()]);
    let right = basic("helper", PASSWORD);
    let mut told = Vec::new();
    for n in 0..20 {
        let path = format!("/private/{n}");
        let url = origin.url(&path);
        let answer = gate.request("GET", &url, &right);
        answer.is_origins(200, &format!("page {path}"));
        // Read at once, without waiting.
        let records = gate.records();
        let mut found = records.iter().filter(|record| record["url"] == url);
        let (record, None) = (found.next().unwrap(), found.next()) else {
            panic!("{url}: {records:?}");
        };
        has!(record, {"reason": "client_exempt", "status": 200, "bytes_out": 0});
        assert!(!record["upstream"].is_null(), "{record}");
        told.push(record["id"].as_str().unwrap().to_owned());
    }
    let mut socket = gate.connect();
    let shaking = upgrade(&origin.url("/private/ws"), &origin.authority());
    let shaking = shaking.replacen("\r\n\r\n", &format!("\r\n{right}\r\n"), 1);
    assert_eq!(socket.exchange(shaking).status, 101);
    let url = origin.url("/private/ws");
    let records = gate.records();
    let open = records.iter().find(|record| record["url"] == url).unwrap();
    assert_eq!(open["status"], 101, "{open}");
    told.push(open["id"].as_str().unwrap().to_owned());
    gate.signal(Signal::KILL);
    gate.wait();
    let kept = StoredLog::read(&gate.setup.dir().join("crawlgate.db")).decisions;
    assert!(told.iter().all(|id| kept.contains(id)), "{told:?} {kept:?}");
    assert_eq!(kept.len(), told.len(), "one was recorded twice");
}

#[test]
fn octets_that_follow_an_early_record_are_counted() {
    let gate = strict(|setup| {
        exempt(setup);
        setup.set("admin", "address", "\"127.0.0.1:0\"");
    });
    let page = Reply::ok("x".repeat(1_000)).read_body();
    let origin = Origin::with_rules(RULES).on("/private/up", [page]);
    let right = basic("helper", PASSWORD);
    let head = format!("Host: {}\r\nUser-Agent: TestBot/1.0\r\n{right}", origin.authority());
    let url = origin.url("/private/up");
    let answer = gate
        .connect()
        .exchange(format!("POST {url} HTTP/1.1\r\n{head}Content-Length: 10\r\n\r\n0123456789"));
    assert_eq!((answer.status, answer.text().len()), (200, 1_000));
    for (direction, octets) in [("upstream", 10.0), ("downstream", 1_000.0)] {
        let series = format!("crawlgate_bytes_total{{direction=\"{direction}\"}}");
        metrics::wait(&gate, &series, octets);
    }
}

#[test]
fn a_page_that_an_exemption_lets_out_does_not_leave_without_its_record() {
    for (on_failure, status) in [("\"deny\"", 503), ("\"continue\"", 200)] {
        let gate = strict(|setup| {
            exempt(setup);
            setup.set("log", "file", "\"/dev/full\"");
            setup.set("log", "on_failure", on_failure);
            setup.set("store", "path", "\"\"");
        });
        let page = Reply::with(200, "", "SECRET");
        let origin = Origin::with_rules(RULES).on("/private/x", [page]);
        let answer = gate.request("GET", &origin.url("/private/x"), &basic("helper", PASSWORD));
        assert_eq!(answer.status, status, "{on_failure}: {answer:?}");
        assert_eq!(answer.text().contains("SECRET"), status == 200, "{answer:?}");
        assert_eq!(answer.is_ours(), status == 503, "{answer:?}");
    }
}

#[test]
fn an_exempt_request_that_has_gone_out_stays_on_record_whatever_its_client_was_answered() {
    let mut gate = strict(|setup| {
        exempt(setup);
        setup.set("log", "file", "\"\"");
        setup.set("admin", "address", "\"127.0.0.1:0\"");
    });
    let latch = Latch::new();
    let page = Reply::with(200, "", "SECRET").held(&latch);
    let origin = Origin::with_rules(RULES).on("/private/x", [page]);
    let url = origin.url("/private/x");
    let mut wire = gate.connect();
    let right = basic("helper", PASSWORD);
    let fields = format!("Host: {}\r\nUser-Agent: TestBot/1.0\r\n{right}", origin.authority());
    wire.send(format!("GET {url} HTTP/1.1\r\n{fields}\r\n"));
    latch.arrivals(1);
    let store = gate.setup.dir().join("crawlgate.db");
    let other = rusqlite::Connection::open(&store).unwrap();
    // Another writer for longer than crawlgate waits for one.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    latch.open();
    let answer = wire.response("GET").is(503);
    assert_eq!(answer.problem()["reason"], "log_failed", "{answer:?}");
    assert!(!answer.text().contains("SECRET"), "{answer:?}");
    // An attempt that began after the answer has failed, too.
    metrics::wait_least(&gate, "crawlgate_store_failures_total{place=\"store\"}", 2.0);
    other.execute_batch("ROLLBACK").unwrap();
    drop(other);
    gate.signal(Signal::TERM);
    gate.wait();
    assert_eq!(origin.seen_but_robots(), ["GET /private/x"]);
    let kept = StoredLog::read(&store).decisions;
    assert_eq!(kept.len(), 1, "the request went out: {kept:?}");
}
