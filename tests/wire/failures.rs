//! Origins that fail after their robots.txt was read: a 502 or 504 of crawlgate's own with the reason.
//! Page: `docs/messages.md`.

use std::time::Duration;

use crate::support::{CrawlgateProcess, Latch, Origin, Reply};

#[test]
fn failures_of_an_origin_get_our_error_answers() {
    let patient = CrawlgateProcess::start();
    let impatient =
        CrawlgateProcess::with(|setup| setup.set("upstream", "response_timeout", "\"1s\""));
    let never = Latch::new();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("reset", Reply::silent().reset(), 502, "connection_terminated"),
        ("closed", Reply::silent().close(), 502, "connection_terminated"),
        ("half a head", Reply::raw("HTTP/1.1 200 OK\r\nX: ").close(), 502, "connection_terminated"),
        ("no HTTP", Reply::raw("SSH-2.0-x\r\n\r\n").close(), 502, "http_protocol_error"),
        (
            "more fields than are read",
            Reply::raw("HTTP/1.1 200 OK\r\n")
                .repeat("X: y\r\n", 600)
                .send("\r\n")
                .close(),
            502,
            "http_protocol_error",
        ),
        (
            "two lengths",
            Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")
                .close(),
            502,
            "http_protocol_error",
        ),
        ("silence", Reply::silent().wait(&never), 504, "http_response_timeout"),
        ("half a head, then silence", Reply::raw("HTTP/1.1 200 OK\r\nX: ").wait(&never), 504, "http_response_timeout"),
    ];
    for (case, reply, status, error) in cases {
        let gate = match error {
            "http_response_timeout" => &impatient,
            _ => &patient,
        };
        for origin in [Origin::http(), Origin::https()] {
            let origin = origin.on("/page", [reply.clone()]);
            let answer = gate.request("POST", &origin.url("/page"), "Content-Length: 0\r\n");
            assert_eq!((answer.status, answer.is_ours()), (status, true), "{case}: {answer:?}");
            let said = answer.field("proxy-status").unwrap();
            let other_name =
                error == "connection_terminated" && said.contains("error=http_response_incomplete");
            assert!(said.contains(&format!("error={error}")) || other_name, "{case}: {said}");
            let record = gate.record_of(&origin.url("/page"));
            has!(record, {"verdict": "allow", "status": status}, "{case}");
            let named = record["error"].as_str().unwrap();
            says!(said, &format!("error={named}"); "{case} {record}");
            has!(answer.problem(), {"status": status, "id": record["id"]}, "{case}");
        }
    }
    never.open();
}

#[test]
fn an_origin_that_is_gone_is_a_502() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http()
        .on("/robots.txt", [Reply::with(200, "Connection: close\r\n", "").close()])
        .on("/1", [Reply::with(200, "Connection: close\r\n", "page").close()]);
    gate.get(&origin.url("/1")).is_origins(200, "page");
    origin.stop();
    let answer = gate.get(&origin.url("/2")).is(502);
    assert!(
        answer.field("proxy-status").unwrap().contains("error=connection_refused"),
        "{answer:?}"
    );
    has!(gate.record_of(&origin.url("/2")), {"error": "connection_refused"});
}

#[test]
fn a_connection_that_dies_in_the_pool_is_no_failure_of_a_request_that_may_be_sent_twice() {
    let gate = CrawlgateProcess::start();
    let dies_once = || [Reply::silent().close(), Reply::ok("page")];
    let origin = Origin::http().on("/get", dies_once()).on("/post", dies_once());
    let idle = || {
        gate.passes(&origin.url("/before"));
        // An origin may close only a connection that was idle for a while in good faith.
        std::thread::sleep(Duration::from_secs(1));
    };
    idle();
    gate.get(&origin.url("/get")).is_origins(200, "page");
    idle();
    let answer = gate.request("POST", &origin.url("/post"), "Content-Length: 0\r\n");
    assert!(answer.status == 502 && answer.is_ours(), "a POST was sent twice: {answer:?}");
    gate.get(&origin.url("/post")).is_origins(200, "page");
    let seen = origin.seen_but_robots();
    assert_eq!(seen.iter().filter(|line| *line == "GET /get").count(), 2, "{seen:?}");
    assert_eq!(seen.iter().filter(|line| *line == "POST /post").count(), 1, "{seen:?}");

    // A connection that fails at its first request is evidence against the origin.
    let fresh = Origin::http()
        .on("/robots.txt", [Reply::with(404, "Connection: close\r\n", "").close()])
        .on("/new", dies_once());
    assert_eq!(gate.get(&fresh.url("/new")).status, 502);
    assert_eq!(fresh.seen_but_robots(), ["GET /new"]);
}

#[test]
fn an_origin_that_closes_after_its_robots_txt_without_saying_so_is_asked_for_the_page_again() {
    let gate = CrawlgateProcess::start();
    for n in 0..20 {
        let origin = Origin::http().on("/robots.txt", [Reply::status(404, "").close()]);
        gate.passes(&origin.url("/page"));
        assert_eq!(origin.seen_but_robots(), ["GET /page"], "{n}");
    }
}

#[test]
fn upstream_connections_are_shared_between_crawlers() {
    let gate = CrawlgateProcess::start();
    for origin in [Origin::http(), Origin::https()] {
        for n in 0..10 {
            let path = format!("/{n}");
            gate.get(&origin.url(&path)).is_origins(200, &format!("page {path}"));
        }
        // One for the robots.txt, and one that is used again a moment after each answer.
        assert!(
            origin.connections() <= 4,
            "{} connections for ten requests in a row",
            origin.connections()
        );
    }
}

#[test]
fn a_transfer_coding_that_would_be_lost_is_refused() {
    let gate = CrawlgateProcess::start();
    for (coding, status) in [("chunked", 200), ("gzip, chunked", 502), ("gzip", 502)] {
        let reply = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n"
        );
        let origin = Origin::http().on("/page", [Reply::raw(reply).close()]);
        assert_eq!(gate.get(&origin.url("/page")).status, status, "{coding}");
    }
}
