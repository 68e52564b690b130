//! Bodies are streamed: never held whole, never faster than the reader, and never shown as whole if they are not.
//! Page: `docs/messages.md`.

use std::thread;

use crate::support::{CrawlgateProcess, Latch, Origin, Reply, Wire, eventually};

pub const CHUNK: usize = 64 * 1024;

const HUNDRED_MEGABYTES: u64 = 1600 * CHUNK as u64;

/// The memory that a gate may use for one body: socket buffers, TLS records, and room for a slow allocator.
pub const ROOM: u64 = 48 << 20;

fn big() -> Reply {
    Reply::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: {HUNDRED_MEGABYTES}\r\n\r\n"))
        .repeat([b'x'; CHUNK], 1600)
}

/// Waits until the other side sends no more octets. Returns the number that it has sent.
#[track_caller]
pub fn at_rest(sent: impl Fn() -> u64) -> u64 {
    let (mut last, mut still) = (0, 0);
    eventually("the other side to come to rest", || {
        let now = sent();
        still = if now == last { still + 1 } else { 0 };
        last = now;
        (still == 40).then_some(now)
    })
}

#[test]
fn a_big_download_streams_in_bounded_memory() {
    let gate = CrawlgateProcess::start();
    for origin in [Origin::http().on("/big", [big()]), Origin::https().on("/big", [big()])] {
        let before = gate.resident();
        let (mut wire, target) = gate.open(&origin.url("/big"));
        wire.send(format!(
            "GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            origin.authority()
        ));
        assert_eq!(wire.response_head().status, 200);
        assert_eq!(wire.drain(), HUNDRED_MEGABYTES);
        let grown = gate.resident().saturating_sub(before);
        assert!(grown < ROOM, "memory grew by {grown} octets");
        has!(gate.record_of(&origin.url("/big")), {"bytes_out": HUNDRED_MEGABYTES});
    }
}

#[test]
fn a_big_upload_streams_in_bounded_memory() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let origin = Origin::http()
        .on("/big", [Reply::silent().wait(&latch).read_body().send("HTTP/1.1 204 No\r\n\r\n")]);
    let before = gate.resident();
    let url = origin.url("/big");
    let mut wire =
        gate.sends("POST", &url, &format!("Content-Length: {HUNDRED_MEGABYTES}\r\n\r\n"));
    let upload = thread::spawn(move || {
        for _ in 0..1600 {
            wire.send([b'y'; CHUNK]);
        }
        wire.response("POST").status
    });
    // The origin reads nothing yet: the upload must stop, or the gate would hold all of it.
    latch.arrivals(1);
    latch.open();
    assert_eq!(upload.join().unwrap(), 204);
    assert_eq!(origin.last("/big").body.len() as u64, HUNDRED_MEGABYTES);
    let grown = gate.resident().saturating_sub(before);
    assert!(grown < ROOM, "memory grew by {grown} octets");
    assert_eq!(gate.record_of(&url)["bytes_in"], HUNDRED_MEGABYTES);
}

#[test]
fn a_crawler_that_does_not_read_holds_the_origin_back() {
    let gate = CrawlgateProcess::start();
    let endless = Reply::raw("HTTP/1.1 200 OK\r\n\r\n").repeat([b'x'; CHUNK], u64::MAX);
    let origin = Origin::http().on("/endless", [endless]);
    let mut wire = gate.sends("GET", &origin.url("/endless"), "\r\n");
    assert_eq!(wire.response_head().status, 200);
    let sent = at_rest(|| origin.sent());
    assert!(sent < ROOM, "{sent} octets were taken for a crawler that read none");
    drop(wire);
    gate.record_of(&origin.url("/endless"));
}

/// Returns the memory that a gate takes for each of many crawlers that read nothing of an endless response.
fn held_for_each(origin: Origin, crawlers: u64) -> u64 {
    let gate = CrawlgateProcess::start();
    // What the first exchange takes stays.
    let (mut wire, target) = gate.open(&origin.url("/page"));
    wire.send(format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.authority()));
    assert_eq!(wire.response("GET").status, 200);
    let before = gate.resident();
    let stopped: Vec<Wire> = (0..crawlers)
        .map(|_| {
            let (mut wire, target) = gate.open(&origin.url("/endless"));
            wire.send(format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.authority()));
            assert_eq!(wire.response_head().status, 200);
            wire
        })
        .collect();
    at_rest(|| origin.sent());
    let grown = gate.resident().saturating_sub(before);
    drop(stopped);
    grown / crawlers
}

#[test]
fn a_crawler_that_does_not_read_takes_little_memory() {
    let endless = Reply::raw("HTTP/1.1 200 OK\r\n\r\n").repeat([b'x'; CHUNK], u64::MAX);
    let origin = Origin::http().on("/endless", [endless]);
    let each = held_for_each(origin, 24);
    assert!(each < 384 * 1024, "{each} octets for each crawler");
}

#[test]
fn the_first_octets_do_not_wait_for_the_last() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let reply =
        Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npart").wait(&latch).send("rest");
    let origin = Origin::http().on("/page", [reply]);
    let mut wire = gate.sends("GET", &origin.url("/page"), "\r\n");
    assert_eq!(wire.response_head().status, 200);
    assert_eq!(wire.read(4), b"part");
    latch.open();
    assert_eq!(wire.read(4), b"rest");
}

#[test]
fn an_answer_that_comes_before_the_end_of_the_upload_is_passed_on() {
    let gate = CrawlgateProcess::start();
    let early = || Reply::status(413, "too much").ignoring_body().close();
    for origin in
        [Origin::http().on("/upload", [early()]), Origin::https().on("/upload", [early()])]
    {
        let (mut wire, target) = gate.open(&origin.url("/upload"));
        wire.send(format!(
            "POST {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: 1000000\r\n\r\n",
            origin.authority()
        ));
        wire.response("POST").is_origins(413, "too much");
    }
}

#[test]
fn interim_responses_without_end_are_a_502_and_cost_no_memory() {
    let gate = CrawlgateProcess::start();
    let short = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
    let long = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(16_000));
    let last = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage";
    let before = gate.resident();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("64 of them", Reply::silent().repeat(short, 64).send(last), 200),
        ("65 of them", Reply::silent().repeat(short, 65).send(last), 502),
        ("60,000 octets", Reply::silent().repeat(&long, 4).send(last), 200),
        ("80,000 octets", Reply::silent().repeat(&long, 5).send(last), 502),
        ("no end", Reply::silent().repeat(short.repeat(500), u64::MAX), 502),
        ("100 without end", Reply::silent().repeat("HTTP/1.1 100 Continue\r\n\r\n".repeat(500), u64::MAX), 502),
    ];
    for (case, reply, status) in cases {
        for origin in [Origin::http(), Origin::https()] {
            let origin = origin.on("/page", [reply.clone()]);
            let url = origin.url("/page");
            let mut most = before;
            let answer = gate.get(&url);
            most = most.max(gate.resident());
            assert_eq!(answer.status, status, "{case}: {answer:?}");
            let record = gate.record_of(&url);
            assert_eq!(record["status"], status, "{case}: {record}");
            if status == 502 {
                assert!(answer.is_ours(), "{case}: {answer:?}");
                assert_eq!(record["error"], "http_protocol_error", "{case}: {record}");
                assert!(answer.interim.len() <= 64, "{case}: {}", answer.interim.len());
            }
            assert!(most - before < ROOM, "memory grew by {} octets", most - before);
        }
        // A robots.txt behind such responses is not read either, and a crawler of HTTP/1.0 is not held.
        let origin = Origin::http().on("/robots.txt", [reply]);
        let url = origin.url("/page");
        let mut wire = gate.connect();
        let old = wire.exchange(format!("GET {url} HTTP/1.0\r\nHost: x\r\n\r\n"));
        match status {
            200 => old.is_origins(200, "page /page"),
            _ => drop(gate.unreachable(&old)),
        }
    }
}

#[test]
fn an_early_answer_to_an_expectation_arrives_whole() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let reply = Reply::raw("HTTP/1.1 401 Unauthorized\r\nContent-Length: 8\r\n\r\nhalf")
        .wait(&latch)
        .send("half");
    let origin = Origin::http().on("/upload", [reply.ignoring_body().close()]);
    let mut wire = gate.sends(
        "POST",
        &origin.url("/upload"),
        "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    );
    assert_eq!(wire.response_head().status, 401);
    assert_eq!(wire.read(4), b"half");
    latch.open();
    assert_eq!(wire.read(4), b"half");
}
