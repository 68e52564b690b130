//! Requests and frames that break the protocol reach no origin.

use super::limited;
use crate::support::http2_frames::{End, block, flag, get_fields, kind};
use crate::support::{CrawlgateProcess, Origin, RULES, Reply};

/// A name, the fields of a request, and the end of its stream.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], End);

#[test]
fn a_malformed_request_ends_its_stream_and_no_other() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https().robots(RULES));
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let protocol_error = End::Reset(1);
    let (method, scheme) = ((":method", "GET"), (":scheme", "https"));
    let (at, path) = ((":authority", &*authority), (":path", "/open"));
    #[rustfmt::skip] // one row, one case
    let rows: &[Row<'_>] = &[
        ("a connection field", &[method, scheme, at, path, ("connection", "close")], protocol_error),
        ("a transfer coding", &[method, scheme, at, path, ("transfer-encoding", "chunked")], protocol_error),
        ("an upgrade", &[method, scheme, at, path, ("upgrade", "websocket")], protocol_error),
        ("a keep-alive", &[method, scheme, at, path, ("keep-alive", "1")], protocol_error),
        ("another te", &[method, scheme, at, path, ("te", "gzip")], protocol_error),
        ("no method", &[scheme, at, path], protocol_error),
        ("no path", &[method, scheme, at], protocol_error),
        ("an empty path", &[method, scheme, at, (":path", "")], protocol_error),
        ("no scheme", &[method, at, path], protocol_error),
        ("two paths", &[method, scheme, at, path, (":path", "/private")], protocol_error),
        ("two methods", &[method, (":method", "HEAD"), scheme, at, path], protocol_error),
        ("two schemes", &[method, scheme, (":scheme", "http"), at, path], protocol_error),
        ("two authorities", &[method, scheme, at, (":authority", "other.test"), path], protocol_error),
        ("an empty scheme", &[method, (":scheme", ""), at, path], End::Answered),
        ("an empty authority", &[method, scheme, (":authority", ""), path], protocol_error),
        ("a pseudo-field at the end", &[method, scheme, at, ("x", "y"), path], protocol_error),
        ("a status", &[method, scheme, at, path, (":status", "200")], protocol_error),
        ("a path with a space", &[method, scheme, at, (":path", "/a b")], protocol_error),
        ("no authority", &[method, scheme, path], End::Answered),
        ("a host for the authority", &[method, scheme, path, ("host", &authority)], End::Answered),
        (
            "another scheme, and a host for the authority",
            &[method, (":scheme", "http"), path, ("host", &authority)],
            End::Answered,
        ),
        ("a host that is not the authority", &[method, scheme, at, path, ("host", "other.test")], End::Answered),
        ("an absolute path", &[method, scheme, at, (":path", "https://site.test/open")], protocol_error),
        ("a path without a slash", &[method, scheme, at, (":path", "open")], protocol_error),
        ("a space before a value", &[method, scheme, at, path, ("x", " y")], End::Answered),
        ("a tab after a value", &[method, scheme, at, path, ("x", "y\t")], End::Answered),
        ("a space around a Host", &[method, scheme, at, path, ("host", " site.test ")], End::Answered),
        ("two hosts", &[method, scheme, at, path, ("host", "a"), ("host", "b")], End::Answered),
        ("a tunnel in a tunnel", &[(":method", "CONNECT"), at], End::Answered),
        ("two lengths", &[method, scheme, at, path, ("content-length", "0"), ("content-length", "0")], End::Answered),
    ];
    let mut stream = 1;
    let mut answered = 0;
    for (name, fields, expected) in rows {
        let found = frames.request(stream, fields).end(stream);
        assert_eq!(found, *expected, "{name}");
        answered += usize::from(found == End::Answered);
        stream += 2;
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    let records = gate.wait_records(answered);
    assert_eq!(records.len(), answered, "none of a stream that is reset");
    for record in records {
        has!(record, {"reason": "bad_request", "status": 400});
    }
    let fine = [method, scheme, at, path];
    assert_eq!(frames.request(stream, &fine).end(stream), End::Answered);
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

#[test]
fn data_that_disagrees_with_its_length_breaks_the_request_off() {
    let gate = CrawlgateProcess::start();
    let up = || [Reply::ok("up").read_body()];
    let origin = Origin::https().on("/less", up()).on("/more", up());
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    for (stream, path, data) in [(1, "/less", "bod"), (3, "/more", "body!")] {
        let head = block(&[
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", &authority),
            (":path", path),
            ("content-length", "4"),
        ]);
        frames.send(kind::HEADERS, flag::END_HEADERS, stream, &head);
        frames.send(kind::DATA, flag::END_STREAM, stream, data.as_bytes());
        assert_eq!(frames.end(stream), End::Reset(1), "{path}: PROTOCOL_ERROR");
        let record = gate.record_of(&origin.url(path));
        assert!(!record["error"].is_null(), "{record}");
    }
    let fields = get_fields(&authority, "/page");
    assert_eq!(frames.request(5, &fields).end(5), End::Answered);
    let uploads = origin.seen().into_iter().filter(|seen| seen.whole);
    let whole = uploads.filter(|seen| seen.line().starts_with("POST"));
    assert_eq!(whole.count(), 0, "no upload is whole");
}

#[test]
fn trailers_with_white_space_around_a_value_break_the_request_off() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::https().on("/up", [Reply::ok("up").read_body()]);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let head = block(&[
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", &authority),
        (":path", "/up"),
        ("trailer", "x-sum"),
    ]);
    frames.send(kind::HEADERS, 4, 1, &head);
    frames.send(kind::DATA, 0, 1, b"body");
    frames.send(kind::HEADERS, 5, 1, &block(&[("x-sum", "1 ")]));
    let record = gate.record_of(&origin.url("/up"));
    assert!(!record["error"].is_null(), "{record}");
    let uploads = origin.seen().into_iter().filter(|seen| seen.whole);
    assert_eq!(uploads.filter(|seen| seen.line() == "POST /up").count(), 0, "no upload is whole");
}

#[test]
fn trailers_that_would_lose_a_field_break_the_request_off() {
    // `h2` keeps the short field, and drops the one that is longer than all fields together may be.
    let long = "x".repeat(60_000);
    // A field with a place in the table, and a reference to it (RFC 7541 6.1 and 6.2.1): the first entry is the 62nd.
    let mut known = block(&[("x-long", &"x".repeat(4_000))]);
    known[0] = 0x40;
    let mut known_again = block(&[&[("x-sum", "1")][..], &[("x-many", "1"); 60]].concat());
    known_again.push(0x80 | 62);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a long field", "16KiB", None, block(&[("x-sum", "1"), ("x-long", &long)]), true),
        ("many fields", "16KiB", None, block(&[("x-many", "1"); 101]), false),
        ("a long field by a reference", "1KiB", Some(known), known_again, false),
    ];
    for (name, head, known, trailers, end) in cases {
        let head = format!("\"{head}\"");
        let gate = limited(&[("header_bytes", &head), ("uri_bytes", "\"1KiB\"")]);
        let origin = Origin::https().on("/up", [Reply::ok("up").read_body()]);
        let authority = origin.authority();
        let mut frames = gate.intercept_frames(&authority, "site.test");
        let head = |path| {
            block(&[
                (":method", "POST"),
                (":scheme", "https"),
                (":authority", &authority),
                (":path", path),
                ("trailer", "x-sum"),
            ])
        };
        if let Some(known) = known {
            // A request that is refused for its size.
            let too_large = [head("/too-large"), known].concat();
            frames.head(1, flag::END_STREAM, &too_large);
            assert_eq!(frames.answer(1).unwrap().0, 431, "{name}");
        }
        frames.send(kind::HEADERS, flag::END_HEADERS, 3, &head("/up"));
        frames.send(kind::DATA, 0, 3, b"body");
        frames.head(3, flag::END_STREAM, &trailers);
        if end {
            assert_eq!(frames.end(5), End::GoAway(11), "{name}");
        }
        let record = gate.record_of(&origin.url("/up"));
        assert!(!record["error"].is_null(), "{name}: {record}");
        let uploads = origin.seen().into_iter().filter(|seen| seen.whole);
        let whole = uploads.filter(|seen| seen.line() == "POST /up").count();
        assert_eq!(whole, 0, "{name}: no upload is whole");
    }
}

#[test]
fn frames_that_break_the_protocol_end_the_connection() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https().robots(RULES));
    let authority = origin.authority();
    let head = block(&get_fields(&authority, "/open"));
    let upper = block(&[("X-UPPER", "1")]);
    let unknown = block(&[(":unknown", "1")]);
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("DATA on an idle stream", &[(kind::DATA, 0, 1, &b"x"[..])][..]),
        ("an even stream", &[(kind::HEADERS, 5, 2, &head)]),
        ("an unknown pseudo-field", &[(kind::HEADERS, 5, 1, &unknown)]),
        ("an upper-case name", &[(kind::HEADERS, 5, 1, &upper)]),
        ("HPACK that cannot be read", &[(kind::HEADERS, 5, 1, &[0xff; 16])]),
        ("a frame that is too long", &[(kind::DATA, 0, 1, &[0; 20_000])]),
        ("a head that is interrupted", &[(kind::HEADERS, 1, 1, &head), (kind::PING, 0, 0, &[0; 8])]),
        ("a PING of seven octets", &[(kind::PING, 0, 0, &[0; 7])]),
    ];
    for (name, sends) in rows {
        let mut frames = gate.intercept_frames(&authority, "site.test");
        for (kind, flags, stream, payload) in sends {
            frames.send(*kind, *flags, *stream, payload);
        }
        let end = frames.end(1);
        assert!(matches!(end, End::GoAway(1..) | End::Reset(1) | End::Closed), "{name}: {end:?}");
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}
