//! The bypass table on streams: rows of `bypass.rs` and `requests.rs` that those do not run by version. For each denial the
//! origin has seen only `/robots.txt`.
//!
//! | row of HTTP/1.1 | on a stream |
//! |---|---|
//! | an empty path, a query without a path | malformed, because `:path` begins with a slash (RFC 9113 8.3.1): `a_malformed_request_ends_its_stream_and_no_other` |
//! | a target in origin-form, with a Host field | the same as `:authority` left out: the same test |
//! | pipelined requests | streams have no order: `streams_are_under_way_at_the_same_time` |
//! | a body in chunks | no such coding: it is a connection field (RFC 9113 8.2.2) |
//! | HTTP/1.0 | another version |

use std::net::SocketAddr;

use serde_json::Value;

use super::{TLS, listening};
use crate::support::http2_frames::{End, block, flag, kind};
use crate::support::{CrawlgateProcess, Http2, Origin, RULES};

/// Sends a request on a new connection, with exactly these fields behind the method.
pub(crate) fn exactly(
    gate: &CrawlgateProcess,
    place: SocketAddr,
    method: &str,
    (scheme, authority, path): (&str, &str, &str),
    more: &[(&str, &str)],
) -> Result<(u16, Value), End> {
    let mut frames = gate.frames_to(place, "127.0.0.1");
    let target = [
        (":method", method),
        (":scheme", scheme),
        (":authority", authority),
        (":path", path),
        ("user-agent", "TestBot/1.0"),
    ];
    let answer = frames.request(1, &[&target[..], more].concat()).answer(1);
    answer.map(|(status, body)| (status, serde_json::from_slice(&body).unwrap_or_default()))
}

#[test]
fn the_port_and_the_scheme_of_a_stream_name_its_origin() {
    let (gate, place) = listening(TLS, |_| ());
    for authority in ["site.test:80", "site.test"] {
        let target = ("http", authority, "/private");
        let (_, problem) = exactly(&gate, place, "GET", target, &[]).unwrap();
        let record = gate.refusal(&problem, 502, "robots_unreachable");
        has!(record, {"robots.url": "http://site.test/robots.txt", "port": 80});
    }
    let (plain, tls) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    let other = Origin::with_rules("User-agent: *\nDisallow: /2\n");
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    for origin in [&plain, &tls] {
        http2.passes(&origin.url("/1"));
        gate.denied(&http2.get(&origin.url("/private")));
        http2.passes(&origin.url("/2"));
        gate.denied(&http2.get(&other.url("/2")));
    }
    for origin in [plain, tls] {
        assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"]);
    }
    assert_eq!(other.seen_but_robots(), [""; 0]);
}

#[test]
fn every_method_on_a_stream_is_judged() {
    let (gate, place) = listening(TLS, |_| ());
    let origin = Origin::with_rules(RULES);
    let authority = origin.authority();
    let asked = |method: &str, path: &str| {
        exactly(&gate, place, method, ("http", &authority, path), &[]).unwrap()
    };
    let mut arrived = Vec::new();
    for method in [
        "GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "BREW", "get", "Post",
        "M-SEARCH",
    ] {
        let (_, problem) = asked(method, "/private");
        has!(gate.refusal(&problem, 403, "robots_disallow"), {"method": method});
        assert_eq!(asked(method, "/open").0, 200, "{method}");
        arrived.push(format!("{method} /open"));
        assert_eq!(origin.seen_but_robots(), arrived);
    }
    let (status, problem) = asked("TRACE", "/open");
    assert!(matches!(status, 405 | 501), "{status}");
    gate.refusal(&problem, status, "bad_request");
    assert_eq!(origin.seen_but_robots(), arrived);
}

#[test]
fn the_authority_of_a_stream_and_no_host_field_names_the_origin() {
    let (gate, place) = listening(TLS, |_| ());
    let (strict, free) = (Origin::with_rules(RULES), Origin::http());
    let authority = strict.authority();
    for host in [&*free.authority(), "other.test", ""] {
        for path in ["/private", "/open"] {
            let more = [("host", host)];
            let target = ("http", &*authority, path);
            let (status, problem) = exactly(&gate, place, "GET", target, &more).unwrap();
            assert_eq!(status, 400, "{host} {path}");
            gate.refusal(&problem, 400, "bad_request");
        }
    }
    assert_eq!((strict.connections(), free.connections()), (0, 0));
}

#[test]
fn the_body_of_a_denied_stream_never_becomes_a_request() {
    let (gate, place) = listening(TLS, |_| ());
    let origin = Origin::with_rules(RULES);
    let authority = origin.authority();
    let fields = |method, path| {
        [
            (":method", method),
            (":scheme", "http"),
            (":authority", &*authority),
            (":path", path),
            ("user-agent", "TestBot/1.0"),
        ]
    };
    let inner = block(&fields("GET", "/smuggled"));
    // A request as HTTP/1.1 writes it, and one in the frame of HTTP/2.
    let text = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/smuggled"));
    let framed = [&[0, 0, inner.len() as u8, 1, 5, 0, 0, 0, 7][..], &inner].concat();
    for body in [text.as_bytes(), &framed] {
        let mut frames = gate.frames_to(place, "127.0.0.1");
        let head = block(&fields("POST", "/private"));
        frames.send(kind::HEADERS, flag::END_HEADERS, 1, &head);
        frames.send(kind::DATA, flag::END_STREAM, 1, body);
        let (status, problem) = frames.answer(1).unwrap();
        assert_eq!(status, 403);
        gate.refusal(&serde_json::from_slice(&problem).unwrap(), 403, "robots_disallow");
        let (status, _) = frames.request(3, &fields("GET", "/marker")).answer(3).unwrap();
        assert_eq!(status, 200);
    }
    assert_eq!(origin.seen_but_robots(), ["GET /marker", "GET /marker"]);
}
