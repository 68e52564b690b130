//! Bodies that break off or fall silent, on either side. Page: `docs/messages.md`.

use std::thread;

use crate::streaming::CHUNK;
use crate::support::{CrawlgateProcess, Latch, Origin, Reply, Response, eventually};

/// Requests in HTTP/1.0, in which a body may end with the connection.
fn get_in_http_10(gate: &CrawlgateProcess, origin: &Origin, path: &str) -> Response {
    let (authority, (mut wire, target)) = (origin.authority(), gate.open(&origin.url(path)));
    wire.exchange(format!("GET {target} HTTP/1.0\r\nHost: {authority}\r\n\r\n"))
}

#[test]
fn a_body_that_breaks_off_breaks_off_for_the_crawler_too() {
    let gate = CrawlgateProcess::start();
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let begun = || Reply::raw(format!("{chunked}4\r\nhalf\r\n"));
    let never = Latch::new();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("/short", Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf").close(), "http_response_incomplete"),
        ("/reset", Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf").reset(), "http_response_incomplete"),
        ("/chunks", begun().close(), "http_response_incomplete"),
        ("/junk", begun().send("zz\r\n").close(), "http_response_transfer_coding"),
        ("/junk-on-an-open-connection", begun().send("zz\r\n").wait(&never), "http_response_transfer_coding"),
        ("/junk-at-once", Reply::raw(format!("{chunked}zz\r\nhalf\r\n0\r\n\r\n")), "http_response_transfer_coding"),
        (
            "/more-than-a-number",
            Reply::raw(format!("{chunked}fffffffffffffffff\r\nhalf")).wait(&never),
            "http_response_transfer_coding",
        ),
    ];
    for (path, reply, error) in cases {
        for origin in [Origin::http(), Origin::https()] {
            let origin = origin.on(path, [reply.clone()]);
            let old = get_in_http_10(&gate, &origin, path);
            let new = gate.get(&origin.url(path));
            for answer in [old, new] {
                // A reset may overtake the head.
                assert!(answer.status == 502 || !answer.whole, "{path}: {answer:?}");
            }
            let url = origin.url(path);
            let records = eventually("both records", || {
                let records = gate.records().into_iter();
                let records: Vec<_> = records.filter(|record| record["url"] == *url).collect();
                (records.len() == 2).then_some(records)
            });
            for record in records {
                let is_reset = path == "/reset" && record["error"] == "connection_terminated";
                assert!(record["error"] == error || is_reset, "{path}: {record}");
            }
        }
    }
    never.open();
}

#[test]
fn an_origin_that_falls_silent_in_the_middle_of_a_body_is_given_up() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("upstream", "response_timeout", "\"1h\"");
        setup.set("upstream", "body_timeout", "\"1s\"");
    });
    let never = Latch::new();
    let given_up = |head: &str, origin: Origin| {
        let half = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n4\r\nhalf\r\n");
        let origin = origin.on("/page", [Reply::raw(&half).wait(&never)]);
        let url = origin.url("/page");
        for answer in [gate.get(&url), get_in_http_10(&gate, &origin, "/page")] {
            let end = (answer.status, answer.whole);
            assert_eq!(end, (200, false), "{head}: {answer:?}");
        }
        let records = eventually("both records", || {
            let records = gate.records().into_iter();
            let records: Vec<_> = records.filter(|record| record["url"] == *url).collect();
            (records.len() == 2).then_some(records)
        });
        for record in records {
            has!(record, {"error": "http_response_timeout", "status": 200}, "{head}");
        }
    };
    // Each waits for the time limit.
    thread::scope(|scope| {
        let given_up = &given_up;
        for head in ["Content-Length: 99", "Transfer-Encoding: chunked", "X-Open: ended"] {
            for origin in [Origin::http(), Origin::https()] {
                scope.spawn(move || given_up(head, origin));
            }
        }
    });
    never.open();
}

#[test]
fn a_crawler_that_leaves_in_the_middle_is_recorded_once_and_frees_the_origin() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http()
        .on("/big", [Reply::raw("HTTP/1.1 200 OK\r\n\r\n").repeat([b'x'; CHUNK], u64::MAX)]);
    let url = origin.url("/big");
    let mut wire = gate.sends("GET", &url, "\r\n");
    assert_eq!(wire.response_head().status, 200);
    wire.read(1000);
    drop(wire);
    let record = gate.record_of(&url);
    has!(record, {"verdict": "allow", "status": 200});
    let mut last = u64::MAX;
    eventually("the origin to be let go", || {
        let sent = origin.sent();
        (std::mem::replace(&mut last, sent) == sent).then_some(())
    });
    gate.get(&origin.url("/next"));
    gate.record_of(&origin.url("/next"));
    assert_eq!(gate.records().iter().filter(|record| record["url"] == *url).count(), 1);
}

#[test]
fn an_upload_that_breaks_off_breaks_off_for_the_origin_too() {
    let gate = CrawlgateProcess::start();
    for origin in [Origin::http(), Origin::https()] {
        for framing in
            ["Content-Length: 100\r\n\r\npart", "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"]
        {
            let before = origin.seen().len();
            let (mut wire, target) = gate.open(&origin.url("/upload"));
            wire.send(format!(
                "POST {target} HTTP/1.1\r\nHost: {}\r\n{framing}",
                origin.authority()
            ));
            // The request is being sent once robots.txt has been requested; then the crawler leaves.
            origin.wait_seen(1);
            drop(wire);
            gate.record(framing, |record| {
                record["bytes_in"] == 4 && record["url"] == *origin.url("/upload")
            });
            let seen = origin.seen().split_off(before);
            assert!(
                !seen.iter().any(|seen| seen.line().contains("/upload") && seen.whole),
                "{framing:?}: {seen:?}"
            );
        }
    }
}
