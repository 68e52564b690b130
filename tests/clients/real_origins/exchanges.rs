//! Exchanges of every kind with each server.

use http::Version;

use super::servers::{ETAG, LARGE, Server};
use crate::support::{CrawlgateProcess, http2};

/// The part of a large body that is sent at once.
const CHUNK: usize = 64 << 10;

/// Runs all exchanges with a server that chooses this version of HTTP.
fn passes(server: &Server, version: &str) {
    let gate = CrawlgateProcess::start();
    for by in [Version::HTTP_11, Version::HTTP_2] {
        let page = gate.get_by(by, &server.url("/page"));
        page.is_origins(200, "page /page");
        let large = gate.get_by(by, &server.url("/large"));
        assert_eq!((large.status, large.body.len(), large.whole), (200, LARGE, true), "{by:?}");
        assert!(large.body.iter().all(|octet| *octet == b'x'), "{by:?}");
        let url = server.url("/trailers");
        let trailers = match by {
            // A crawler says that it takes them (RFC 9110 10.1.4).
            Version::HTTP_11 => gate.request("GET", &url, "Connection: te\r\nTE: trailers\r\n"),
            _ => gate.get_by(by, &url),
        };
        assert_eq!((trailers.status, trailers.whole), (200, true), "{by:?}");
        trailers.trailers.field_is("x-sum", Some("7"));
    }
    let head = gate.request("HEAD", &server.url("/large"), "");
    head.is_origins(200, "");
    assert_eq!(head.field("content-length"), Some(LARGE.to_string()));
    let known = format!("If-None-Match: {ETAG}\r\n");
    let known = gate.request("GET", &server.url("/known"), &known);
    known.is_origins(304, "");
    known.field_is("etag", Some(ETAG));
    upload(&gate, server);
    gate.denies(&server.url("/private"));
    for path in ["/page", "/large", "/trailers", "/known", "/upload"] {
        has!(gate.record_of(&server.url(path)), {"upstream_version": version, "error": null});
    }
    let seen = server.backend.seen_but_robots();
    assert!(seen.iter().all(|line| !line.contains("/private")), "{seen:?}");
}

fn upload(gate: &CrawlgateProcess, server: &Server) {
    let authority = server.authority();
    let mut wire = gate.intercept(&authority, "site.test");
    wire.send(format!(
        "POST /upload HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\nContent-Length: {LARGE}\r\n\r\n"
    ));
    for _ in 0..LARGE / CHUNK {
        wire.send([b'y'; CHUNK]);
    }
    wire.response("POST").is_origins(200, "page /upload");
    let seen = server.backend.last("/upload");
    assert!(seen.whole && seen.body.len() == LARGE, "{}", seen.body.len());
    assert!(seen.body.iter().all(|octet| *octet == b'y'));
}

#[test]
fn nginx() {
    if let Some(server) = Server::nginx() {
        passes(&server, "2");
    }
}

#[test]
fn nghttpx_with_http2_alone() {
    if let Some(server) = Server::nghttpx("h2") {
        passes(&server, "2");
    }
}

#[test]
fn nghttpx_with_http1_alone() {
    if let Some(server) = Server::nghttpx("http/1.1") {
        passes(&server, "1.1");
    }
}

#[test]
fn nginx_answers_all_of_many_streams_though_it_ends_each_connection_after_twenty() {
    /// Streams at once, and requests in all.
    const STREAMS: usize = 60;
    const REQUESTS: usize = 400;
    let server = or_skip!(Server::nginx());
    let gate = CrawlgateProcess::start();
    let mut crawler = gate.intercept_http2(&server.authority(), "site.test");
    let mut under_way = std::collections::VecDeque::new();
    let mut lost = Vec::new();
    for number in 0..REQUESTS + STREAMS {
        if number < REQUESTS {
            let url = server.url(&format!("/{number}"));
            let pending = crawler.begin(http2::get(&url), true).unwrap();
            under_way.push_back((number, pending));
        }
        if under_way.len() >= STREAMS || number >= REQUESTS {
            let Some((number, pending)) = under_way.pop_front() else {
                break;
            };
            let answer = crawler.answer(pending).unwrap();
            if (answer.status, answer.text()) != (200, format!("page /{number}")) {
                lost.push(format!("{number}: {answer:?}"));
            }
        }
    }
    assert!(lost.is_empty(), "{} of {REQUESTS}: {lost:#?}", lost.len());
}
