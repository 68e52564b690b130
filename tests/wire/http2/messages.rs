//! Bodies, trailers, fields and interim responses between HTTP/2 and HTTP/1.1.

use bytes::Bytes;
use h2::Reason;
use http::HeaderMap;

use super::inside;
use crate::support::http2::{get, request};
use crate::support::http2_frames::{End, block, get_fields, kind};
use crate::support::{CrawlgateProcess, Latch, Origin, Reply, wait_until};

#[test]
fn bodies_trailers_and_cookies_arrive_whole() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::https()
        .on("/sized", [Reply::ok("sized")])
        .on("/trailers", [Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n")])
        .on("/empty", [Reply::raw("HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n")])
        .on("/hints", [Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n").send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]);
    let mut http2 = inside(&gate, &origin);
    let mut post = request("POST", &origin.url("/sized"));
    // hyper's HTTP/1.1 sends the trailers that are announced.
    post.headers_mut().insert("trailer", "x-sum".parse().unwrap());
    post.headers_mut().insert("te", "trailers".parse().unwrap());
    post.headers_mut().insert("priority", "u=1".parse().unwrap());
    for crumb in ["a=1", "b=2"] {
        post.headers_mut().append("cookie", crumb.parse().unwrap());
    }
    let mut pending = http2.begin(post, false).unwrap();
    pending.body.send_data(Bytes::from_static(b"hello "), false).unwrap();
    pending.body.send_data(Bytes::from_static(b"world"), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    pending.body.send_trailers(trailers).unwrap();
    http2.answer(pending).unwrap().is_origins(200, "sized");
    let seen = origin.last("/sized");
    assert_eq!((seen.body.as_slice(), seen.whole), (&b"hello world"[..], true));
    seen.trailers.field_is("x-sum", Some("7"));
    assert_eq!(seen.head.all("cookie"), ["a=1; b=2"]);
    assert_eq!(seen.head.all("te"), ["trailers"]);
    assert!(seen.head.all("connection").contains(&"te".to_owned()));
    assert_eq!(seen.head.all("priority"), ["u=1"]);

    let answer = http2.get(&origin.url("/trailers"));
    answer.is_origins(200, "a");
    answer.trailers.field_is("x-sum", Some("1"));
    // The origin sends none (RFC 9110 6.6.1).
    let date = answer.field("date").unwrap();
    assert!(httpdate::parse_http_date(&date).is_ok(), "{date}");
    for name in ["transfer-encoding", "connection"] {
        assert_eq!(answer.field(name), None, "{name}");
    }
    let answer = http2.get(&origin.url("/empty"));
    assert_eq!((answer.status, answer.whole, answer.body.len()), (204, true, 0));
    let answer = http2.exchange(request("HEAD", &origin.url("/page")));
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert!(answer.field("content-length").is_some(), "{answer:?}");
    let via = answer.field("via").unwrap();
    assert!(via.starts_with("1.1 crawlgate-"), "{via}");
    http2.get(&origin.url("/hints")).is_origins(200, "ok");
}

#[test]
fn a_body_arrives_whatever_the_method() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::https().on("/up", [Reply::ok("up")]);
    let mut http2 = inside(&gate, &origin);
    for (method, length) in [("GET", None), ("GET", Some("5")), ("DELETE", None)] {
        let mut up = request(method, &origin.url("/up"));
        if let Some(length) = length {
            up.headers_mut().insert("content-length", length.parse().unwrap());
        }
        let mut pending = http2.begin(up, false).unwrap();
        pending.body.send_data(Bytes::from_static(b"hello"), true).unwrap();
        http2.answer(pending).unwrap().is_origins(200, "up");
        let seen = origin.last("/up");
        assert_eq!(
            (seen.body.as_slice(), seen.whole),
            (&b"hello"[..], true),
            "{method} {length:?}"
        );
    }
}

#[test]
fn interim_responses_are_passed_on() {
    let latch = Latch::new();
    let early = Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n");
    let gate = CrawlgateProcess::start();
    let origin = Origin::https().on("/hints", [early.wait(&latch).send("HTTP/1.1 204 No\r\n\r\n")]);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let fields = get_fields(&authority, "/hints");
    // The final answer waits for the latch, so this head is the interim one.
    assert_eq!(frames.request(1, &fields).end(1), End::Answered);
    latch.open();
    assert_eq!(frames.end(1), End::Answered);
}

#[test]
fn a_body_that_is_not_whole_is_never_passed_on_as_whole() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::https()
        .on("/up", [Reply::ok("up").read_body()])
        .on("/short", [Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").cut()]);
    let mut http2 = inside(&gate, &origin);
    http2.passes(&origin.url("/page"));
    let answer = http2.get(&origin.url("/short"));
    assert_eq!((answer.status, answer.text().as_str(), answer.whole), (200, "half", false));
    has!(gate.record_of(&origin.url("/short")), {"error": "http_response_incomplete"});

    for (name, reset) in [
        ("fewer octets than announced", None),
        ("a reset", Some(Reason::CANCEL)),
        ("a reset without an error", Some(Reason::NO_ERROR)),
    ] {
        let (begun, ended) = (origin.connections(), origin.ended());
        let mut post = request("POST", &origin.url("/up"));
        if reset.is_none() {
            post.headers_mut().insert("content-length", "9".parse().unwrap());
        }
        let mut pending = http2.begin(post, false).unwrap();
        // A request with a body has a connection to itself.
        wait_until("the upload", || origin.connections() > begun);
        pending.body.send_data(Bytes::from_static(b"half"), reset.is_none()).unwrap();
        if let Some(reason) = reset {
            pending.body.send_reset(reason);
        }
        drop(http2.answer(pending));
        wait_until("the origin's connection to end", || origin.ended() > ended);
        for seen in origin.seen().iter().filter(|seen| seen.line() == "POST /up") {
            assert!(!seen.whole, "{name}: {seen:?}");
        }
    }
}

#[test]
fn a_reset_by_the_crawler_ends_the_request_to_the_origin() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let origin = Origin::https().holds("/slow", &latch);
    let mut http2 = inside(&gate, &origin);
    let mut pending = http2.begin(get(&origin.url("/slow")), true).unwrap();
    latch.arrivals(1);
    pending.body.send_reset(Reason::CANCEL);
    has!(gate.record_of(&origin.url("/slow")), {"error": "client_closed", "status": null});
    latch.open();
    http2.passes(&origin.url("/page"));
}

#[test]
fn a_crawler_that_waits_is_told_to_send_its_body() {
    let gate = CrawlgateProcess::start();
    let asks = Reply::raw("HTTP/1.1 100 Continue\r\n\r\n").read_body();
    let origin =
        Origin::https().on("/up", [asks.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let head = block(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", &authority),
        (":path", "/up"),
        ("expect", "100-continue"),
        ("content-length", "4"),
    ]);
    frames.send(kind::HEADERS, 4, 1, &head);
    // The final answer waits for the body, so this head is the interim one.
    assert_eq!(frames.end(1), End::Answered);
    frames.send(kind::DATA, 1, 1, b"body");
    assert_eq!(frames.end(1), End::Answered);
    assert_eq!(origin.last("/up").body, b"body");
}
