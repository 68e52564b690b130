//! HTTP/2 to origins: requests that the origin did not process, and which of them are sent once more (RFC 9113 8.7).
//! Page: `docs/messages.md`.

use crate::support::frame_origin::{self, FrameOrigin, kind};
use crate::support::http2_origin::{Holds, Http2Origin};
use crate::support::{CrawlgateProcess, http2};

/// HTTP/2 error codes (RFC 9113 7).
const NO_ERROR: u32 = 0;
const REFUSED_STREAM: u32 = 7;
const HTTP_1_1_REQUIRED: u32 = 13;

#[test]
fn a_request_that_a_closing_connection_did_not_process_is_sent_again() {
    let gate = CrawlgateProcess::start();
    let origin = FrameOrigin::start(|connection, stream| match (connection, stream) {
        // Stream 3 is not processed.
        (1, 3) => vec![frame_origin::go_away(1, NO_ERROR)],
        _ => frame_origin::page(stream, "page"),
    });
    gate.get(&origin.url("/page")).is_origins(200, "page");
    assert_eq!(origin.pages(), [(1, 3), (2, 1)]);
    gate.get(&origin.url("/next")).is_origins(200, "page");
    assert_eq!(origin.pages().last(), Some(&(2, 3)));
    let records = gate.wait_records(2);
    assert!(records.iter().all(|record| record["status"] == 200), "{records:?}");
}

#[test]
fn a_request_that_several_connections_leave_behind_is_sent_a_bounded_number_of_times() {
    // The first connection has served a robots.txt, and does not count.
    for (leaving, status, sent) in [(3, 200, 4), (9, 502, 5)] {
        let gate = CrawlgateProcess::start();
        let origin = FrameOrigin::start(move |connection, stream| match (connection, stream) {
            (1, 3) => vec![frame_origin::go_away(1, NO_ERROR)],
            // Ended before its first stream.
            (1..=3, _) => vec![frame_origin::go_away(0, NO_ERROR)],
            _ if leaving > 3 => vec![frame_origin::go_away(0, NO_ERROR)],
            _ => frame_origin::page(stream, "page"),
        });
        gate.answers(&origin.url("/page"), status);
        assert_eq!(origin.pages().len(), sent);
        has!(gate.record_of(&origin.url("/page")), {"status": status});
    }
}

#[test]
fn requests_that_connections_with_few_streams_leave_behind_are_all_answered() {
    let gate = CrawlgateProcess::start();
    // Each connection serves two requests, and leaves behind what else was sent on it.
    let origin = FrameOrigin::start(|connection, stream| match (connection, stream) {
        (1, 3) | (2.., 1) => frame_origin::page(stream, "page"),
        (1, 5) | (2.., 3) => {
            let mut frames = vec![frame_origin::go_away(stream, NO_ERROR)];
            frames.extend(frame_origin::page(stream, "page"));
            frames
        }
        _ => Vec::new(),
    });
    let mut crawler = gate.intercept_http2(&origin.authority(), "site.test");
    let urls: Vec<_> = (0..16).map(|number| origin.url(&format!("/{number}"))).collect();
    let streams: Vec<_> =
        urls.iter().map(|url| crawler.begin(http2::request("POST", url), true).unwrap()).collect();
    for (url, pending) in urls.iter().zip(streams) {
        let answer = crawler.answer(pending).unwrap();
        assert_eq!((answer.status, &*answer.text()), (200, "page"), "{url}: {answer:?}");
    }
    let records = gate.wait_records(urls.len());
    assert!(records.iter().all(|record| record["status"] == 200), "{records:?}");
}

#[test]
fn a_request_that_a_closing_connection_processes_is_not_sent_again() {
    let gate = CrawlgateProcess::start();
    let origin = FrameOrigin::start(|connection, stream| match (connection, stream) {
        (1, 3) => {
            let mut frames = vec![frame_origin::go_away(3, NO_ERROR)];
            frames.extend(frame_origin::page(stream, "last page"));
            frames
        }
        _ => frame_origin::page(stream, "page"),
    });
    gate.get(&origin.url("/page")).is_origins(200, "last page");
    gate.get(&origin.url("/next")).is_origins(200, "page");
    assert_eq!(origin.pages(), [(1, 3), (2, 1)]);
}

#[test]
fn a_refused_request_is_sent_once_more() {
    let gate = CrawlgateProcess::start();
    let origin = FrameOrigin::start(|connection, stream| match (connection, stream) {
        (1, 3) => vec![frame_origin::reset(stream, REFUSED_STREAM)],
        _ => frame_origin::page(stream, "page"),
    });
    // A refusal says that nothing was done: any method may be sent again (RFC 9113 8.7).
    gate.request("DELETE", &origin.url("/page"), "").is_origins(200, "page");
    assert_eq!(origin.pages(), [(1, 3), (1, 5)]);
    assert_eq!(gate.record_of(&origin.url("/page"))["status"], 200);
}

#[test]
fn a_request_that_is_refused_again_and_again_fails() {
    let gate = CrawlgateProcess::start();
    let origin = FrameOrigin::start(|_, stream| vec![frame_origin::reset(stream, REFUSED_STREAM)]);
    gate.answers(&origin.url("/page"), 502);
    assert_eq!(origin.pages(), [(1, 3), (1, 5), (1, 7), (1, 9)]);
    has!(gate.record_of(&origin.url("/page")), {"error": "connection_terminated"});
}

#[test]
fn a_request_that_was_refused_is_judged_again() {
    let (mut gate, holds) = (CrawlgateProcess::start(), Holds::new());
    let handler = holds.clone();
    let origin = Http2Origin::start().on("/page", move |mut stream| {
        let holds = handler.clone();
        async move {
            holds.pass().await;
            stream.respond.send_reset(REFUSED_STREAM.into());
        }
    });
    let mut wire = gate.sends("GET", &origin.url("/page"), "\r\n");
    origin.wait_pages(1);
    gate.reload(|setup| setup.asserts(&origin.url(""), "deny"));
    holds.let_pass(10);
    wire.response("GET").is(502);
    assert_eq!(origin.pages().len(), 1, "it was not sent again");
    // The origin has seen it: the record is that of the request which has left.
    let record = gate.record_of(&origin.url("/page"));
    has!(record, {"verdict": "allow", "error": "connection_terminated"});
}

#[test]
fn a_request_with_a_body_that_was_begun_is_not_sent_again() {
    let gate = CrawlgateProcess::start();
    let origin = FrameOrigin::start(|_, stream| vec![frame_origin::reset(stream, REFUSED_STREAM)]);
    gate.sends("POST", &origin.url("/form"), "Content-Length: 4\r\n\r\nbody")
        .response("POST")
        .is(502);
    assert_eq!(origin.pages(), [(1, 3)]);
}

#[test]
fn a_request_with_a_body_that_was_not_begun_is_sent_once_more() {
    let gate = CrawlgateProcess::start();
    let origin = FrameOrigin::start(|connection, stream| match (connection, stream) {
        (1, 3) => vec![frame_origin::reset(stream, REFUSED_STREAM)],
        _ => Vec::new(),
    });
    let mut wire = gate.intercept(&origin.authority(), "site.test");
    wire.send(format!(
        "POST /form HTTP/1.1\r\nHost: {}\r\nContent-Length: 4\r\n\r\n",
        origin.authority()
    ));
    origin.frame("the second attempt", |frame| (frame.kind, frame.stream) == (kind::HEADERS, 5));
    wire.send("body");
    let body = origin.frame("the body", |frame| frame.kind == kind::DATA);
    assert_eq!((body.stream, &*body.payload), (5, b"body".as_slice()));
    assert_eq!(origin.pages(), [(1, 3), (1, 5)]);
}

/// Answers the requests for `path` by HTTP/2 with 421.
fn misdirecting(origin: Http2Origin, path: &str) -> Http2Origin {
    origin.on(path, |mut stream| async move {
        stream.send_empty(421, &[]);
    })
}

const BY_HTTP1: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";

fn versions(origin: &Http2Origin, path: &str) -> Vec<&'static str> {
    let seen = origin.seen_of(path);
    seen.iter().map(|seen| seen.version).collect()
}

#[test]
fn a_request_that_was_misdirected_by_http2_is_sent_by_http1() {
    let gate = CrawlgateProcess::start();
    let origin = misdirecting(Http2Origin::start().http1(BY_HTTP1), "/page");
    // The origin did nothing: any method may be sent again (RFC 9110 15.5.20).
    gate.request("DELETE", &origin.url("/page"), "").is_origins(200, "one");
    assert_eq!(versions(&origin, "/page"), ["2", "1.1"]);
    has!(gate.record_of(&origin.url("/page")), {"status": 200, "upstream_version": "1.1"});
    gate.get(&origin.url("/next")).is_origins(200, "one");
    assert_eq!(versions(&origin, "/next"), ["1.1"]);
}

#[test]
fn a_request_that_is_misdirected_by_http1_too_is_answered_so() {
    let gate = CrawlgateProcess::start();
    let misdirected = "HTTP/1.1 421 Misdirected\r\nContent-Length: 0\r\n\r\n";
    let origin = misdirecting(Http2Origin::start().http1(misdirected), "/page");
    gate.get(&origin.url("/page")).is_origins(421, "");
    assert_eq!(versions(&origin, "/page"), ["2", "1.1"]);
}

#[test]
fn a_begun_body_that_was_misdirected_is_not_sent_again() {
    let mut gate = CrawlgateProcess::start();
    let origin = Http2Origin::start()
        .http1(BY_HTTP1)
        .on("/form", |stream| stream.reply(421, "misdirected"))
        .on("/required", |mut stream| async move {
            stream.read().await;
            stream.respond.send_reset(HTTP_1_1_REQUIRED.into());
        });
    for (path, status) in [("/form", 421), ("/required", 502)] {
        let answer =
            gate.sends("POST", &origin.url(path), "Content-Length: 4\r\n\r\nbody").response("POST");
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert_eq!(versions(&origin, path), ["2"]);
        gate.get(&origin.url("/next")).is_origins(200, "one");
        assert_eq!(origin.last("/next").version, "1.1", "{path}");
        // A gate that knows nothing of the origin.
        gate.reload(|_| ());
    }
}

#[test]
fn a_robots_txt_that_was_misdirected_by_http2_is_fetched_by_http1() {
    let gate = CrawlgateProcess::start();
    let origin = misdirecting(Http2Origin::start().http1(BY_HTTP1), "/robots.txt");
    gate.get(&origin.url("/page")).is_origins(200, "one");
    assert_eq!(versions(&origin, "/robots.txt"), ["2", "1.1"]);
    assert_eq!(versions(&origin, "/page"), ["1.1"]);
}

#[test]
fn an_origin_with_http2_alone_that_says_misdirected_stays_reachable() {
    let gate = CrawlgateProcess::start();
    let origin = misdirecting(Http2Origin::with(&["h2"], |_| ()), "/page");
    gate.answers(&origin.url("/page"), 502);
    has!(gate.record_of(&origin.url("/page")), {"error": "tls_alert_received"});
    gate.passes(&origin.url("/next"));
}

#[test]
fn a_request_that_the_origin_resets_is_not_sent_again() {
    // NO_ERROR, INTERNAL_ERROR, CANCEL, ENHANCE_YOUR_CALM
    for code in [NO_ERROR, 2, 8, 11] {
        let gate = CrawlgateProcess::start();
        let origin = FrameOrigin::start(move |connection, stream| match (connection, stream) {
            (1, 3) => vec![frame_origin::reset(stream, code)],
            _ => frame_origin::page(stream, "page"),
        });
        let answer = gate.get(&origin.url("/page"));
        assert_eq!(answer.status, 502, "{code}: {answer:?}");
        has!(gate.record_of(&origin.url("/page")), {"error": "connection_terminated"}, "{code}");
        gate.get(&origin.url("/next")).is_origins(200, "page");
        assert_eq!(origin.pages(), [(1, 3), (1, 5)], "{code}");
    }
}

#[test]
fn an_origin_that_wants_http1_for_a_request_gets_it() {
    let gate = CrawlgateProcess::start();
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
    let origin = Http2Origin::start().http1(answer).on("/page", |mut stream| async move {
        stream.respond.send_reset(HTTP_1_1_REQUIRED.into());
    });
    gate.get(&origin.url("/page")).is_origins(200, "one");
    let versions: Vec<_> = origin.seen_of("/page").iter().map(|seen| seen.version).collect();
    assert_eq!(versions, ["2", "1.1"]);
    gate.get(&origin.url("/next")).is_origins(200, "one");
    assert_eq!(origin.last("/next").version, "1.1");
}
