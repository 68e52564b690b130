//! The framing of bodies: lengths, chunks, trailers, and answers without a body. Page: `docs/messages.md`.

use crate::support::{CrawlgateProcess, Origin, Reply};

#[test]
fn an_upload_keeps_the_spelling_of_its_framing() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    for (framing, body) in [
        ("Content-LENGTH: 4\r\nX-After: 1\r\n", "body"),
        ("Transfer-ENCODING: chunked\r\nX-After: 1\r\n", "4\r\nbody\r\n0\r\n\r\n"),
    ] {
        let (url, host) = (origin.url("/upload"), origin.authority());
        let answer = gate
            .connect()
            .exchange(format!("POST {url} HTTP/1.1\r\nHost: {host}\r\n{framing}\r\n{body}"));
        answer.is_origins(200, "page /upload");
        let seen = origin.last("/upload");
        assert_eq!(seen.body, b"body");
        let start =
            format!("POST /upload HTTP/1.1\r\nHost: {host}\r\n{framing}Via: 1.1 crawlgate-");
        assert!(seen.head.text().starts_with(&start), "{}", seen.head.text());
    }
}

#[test]
fn a_length_is_written_anew_or_refused() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    let body = "x".repeat(100);
    let answer = gate.connect().exchange(format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 0100\r\n\r\n{body}",
        origin.url("/upload")
    ));
    answer.is_origins(200, "page /upload");
    let seen = origin.last("/upload");
    assert_eq!(seen.head.all("content-length"), ["100"]);
    assert_eq!(seen.body, body.as_bytes());
    let origin = Origin::http();
    for (number, (method, lengths, expected)) in [
        ("GET", "Content-Length: 004\r\n", Some("4")),
        ("GET", "Content-Length: 4, 4\r\n", Some("4")),
        ("GET", "Content-Length: 4\r\nContent-Length: 04\r\n", Some("4")),
        ("HEAD", "Content-Length: 04\r\n", Some("4")),
        ("HEAD", "Content-Length: 4, 4\r\n", Some("4")),
        ("GET", "Content-Length: +4\r\n", None),
        ("GET", "Content-Length: 4, 5\r\n", None),
        ("HEAD", "Content-Length: +4\r\n", None),
        ("HEAD", "Content-Length: 4, 5\r\n", None),
        ("HEAD", "Content-Length: 4\r\nContent-Length: 5\r\n", None),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{number}");
        let sent = if method == "GET" { "page" } else { "" };
        origin
            .script(&path, [Reply::raw(format!("HTTP/1.1 200 OK\r\n{lengths}\r\n{sent}")).close()]);
        let answer = gate.sends(method, &origin.url(&path), "\r\n").response(method);
        match expected {
            Some(expected) => {
                answer.is_origins(200, sent);
                assert_eq!(answer.head.all("content-length"), [expected], "{method} {lengths}");
            }
            None => {
                assert!(answer.status == 502 && answer.is_ours(), "{method} {lengths}: {answer:?}");
            }
        }
    }
}

#[test]
fn a_body_passes_with_any_method() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    for method in ["GET", "DELETE", "PROPFIND"] {
        let url = origin.url("/body");
        let fields = "Host: x\r\nContent-Length: 4\r\n";
        gate.connect()
            .exchange(format!("{method} {url} HTTP/1.1\r\n{fields}\r\nbody"))
            .is_origins(200, "page /body");
        assert_eq!(origin.last("/body").body, b"body", "{method}");
    }
}

#[test]
fn head_has_the_length_of_the_body_that_it_omits() {
    let gate = CrawlgateProcess::start();
    let origin =
        Origin::http().on("/page", [Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")]);
    let mut wire = gate.sends("HEAD", &origin.url("/page"), "\r\n");
    let head = wire.response("HEAD");
    assert_eq!(
        (head.status, head.field("content-length").as_deref()),
        (200, Some("1234")),
        "{head:?}"
    );
    wire.passes(&origin.url("/other"));
}

#[test]
fn trailers_pass_both_ways() {
    let gate = CrawlgateProcess::start();
    let reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n4\r\npage\r\n0\r\nX-Sum: 42\r\n\r\n";
    for origin in [Origin::http(), Origin::https()] {
        let origin = origin.on("/page", [Reply::raw(reply)]);
        let sent = "TE: trailers\r\nConnection: TE\r\nTrailer: X-Sent\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Sent: 7\r\n\r\n";
        let answer = gate.sends("POST", &origin.url("/page"), sent).response("POST");
        answer.is_origins(200, "page");
        answer.trailers.field_is("x-sum", Some("42"));
        let seen = origin.last("/page");
        assert_eq!(
            (seen.body.as_slice(), seen.trailers.field("x-sent").as_deref()),
            (&b"ab"[..], Some("7")),
            "{seen:?}"
        );
    }
}

#[test]
fn a_trailer_section_carries_what_it_may() {
    let gate = CrawlgateProcess::start();
    let names = "Trailer: X-Sum, Content-Length, Authorization, Set-Cookie, Host\r\n";
    let trailers = "X-Sum: 42\r\nContent-Length: 9\r\nAuthorization: x\r\nSet-Cookie: a=1\r\nHost: b\r\nX-Unannounced: 1\r\n";
    let reply = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{names}\r\n4\r\npage\r\n0\r\n{trailers}\r\n"
    );
    let origin = Origin::http().on("/page", [Reply::raw(reply)]);
    let url = origin.url("/page");
    for (takes, expected) in [("TE: trailers\r\nConnection: TE\r\n", &["42"][..]), ("", &[])] {
        let answer = gate.connect().exchange(format!(
            "POST {url} HTTP/1.1\r\nHost: x\r\n{takes}{names}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n{trailers}\r\n"
        ));
        answer.is_origins(200, "page");
        assert_eq!(answer.trailers.all("x-sum"), expected, "{takes}");
        let seen = origin.last("/page");
        assert_eq!(seen.trailers.all("x-sum"), ["42"]);
        for name in "content-length authorization set-cookie host x-unannounced".split(' ') {
            assert_eq!(answer.trailers.all(name), [""; 0], "{name}");
            assert_eq!(seen.trailers.all(name), [""; 0], "{name}");
        }
        // Each request has its record, and the crawler got its whole answer.
        let whole = |record: &serde_json::Value| record["method"] == "POST";
        assert_eq!(gate.record("a POST", whole)["error"], serde_json::Value::Null);
    }
}

#[test]
fn an_http_1_0_client_gets_no_chunks() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http().on("/page", [Reply::chunked("a page in chunks")]);
    let mut wire = gate.connect();
    let answer = wire.exchange(format!("GET {} HTTP/1.0\r\nHost: x\r\n\r\n", origin.url("/page")));
    answer.is_origins(200, "a page in chunks");
    assert_eq!(answer.field("transfer-encoding"), None, "{answer:?}");
}

#[test]
fn answers_without_a_body_pass_and_leave_the_connection_in_step() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http()
        .on(
            "/unchanged",
            [Reply::raw("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 9\r\n\r\n")],
        )
        .on("/nothing", [Reply::raw("HTTP/1.1 204 No Content\r\n\r\n")])
        .on("/empty", [Reply::ok("")]);
    let mut wire = gate.connect();
    for (path, status) in [("/unchanged", 304), ("/nothing", 204), ("/empty", 200)] {
        let answer = wire.get(&origin.url(path));
        assert_eq!((answer.status, answer.body.len()), (status, 0), "{path}: {answer:?}");
        wire.passes(&origin.url("/next"));
    }
}

#[test]
fn an_answer_with_two_framings_has_one_when_it_leaves() {
    let gate = CrawlgateProcess::start();
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n";
    let origin = Origin::http().on("/both", [Reply::raw(both)]);
    let mut wire = gate.connect();
    let answer = wire.get(&origin.url("/both"));
    // RFC 9112 6.3: the transfer coding overrides, or the answer is an error.
    if answer.status == 502 {
        assert!(answer.is_ours(), "{answer:?}");
    } else {
        answer.is_origins(200, "page");
        let framings =
            answer.head.all("content-length").len() + answer.head.all("transfer-encoding").len();
        assert_eq!(framings, 1, "{answer:?}");
    }
    wire.passes(&origin.url("/next"));
}

#[test]
fn an_http_1_0_origin_is_served() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http()
        .on("/page", [Reply::raw("HTTP/1.0 200 OK\r\nX-Old: 1\r\n\r\nan old page").close()]);
    let mut wire = gate.connect();
    let answer = wire.get(&origin.url("/page"));
    answer.is_origins(200, "an old page");
    assert!(answer.field("via").unwrap().starts_with("1.0 "), "RFC 9110 7.6.3: {answer:?}");
    answer.field_is("x-old", Some("1"));
}
