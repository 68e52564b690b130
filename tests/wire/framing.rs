//! Requests with framing that two readers could read differently: 400, the connection closed, nothing sent on.
//! Page: `docs/messages.md`.

use crate::support::{CrawlgateProcess, Origin, RULES};

/// Sends `rest` after the request line, plain and intercepted, and asserts the refusal.
#[track_caller]
fn refused(gate: &CrawlgateProcess, case: &str, start: &str, rest: &str) {
    let (plain, tls) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    for origin in [plain, tls] {
        let (mut wire, target) = gate.open(&origin.url("/open"));
        let start = start.replace("{target}", &target).replace("{host}", &origin.authority());
        let rest = rest.replace("{host}", &origin.authority());
        wire.send(format!("{start}{rest}"));
        let answer = wire.response("POST");
        // The word in place of the version is an unsupported version, or unreadable.
        let expected: &[u16] = if start.starts_with("POST") { &[400] } else { &[400, 505] };
        assert!(expected.contains(&answer.status), "{case}: {answer:?}");
        gate.refused(&answer, answer.status, "bad_request");
        assert!(wire.is_closed(), "{case}: the connection stayed open");
        assert_eq!(origin.seen_but_robots(), [""; 0], "{case}");
    }
}

const POST: &str = "POST {target} HTTP/1.1\r\nHost: {host}\r\n";
const CHUNKS: &str = "\r\n3\r\nabc\r\n0\r\n\r\n";

#[test]
fn lengths_that_disagree_or_are_no_numbers_are_refused() {
    let gate = CrawlgateProcess::start();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("transfer coding and length", format!("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n{CHUNKS}")),
        ("length and transfer coding", format!("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n{CHUNKS}")),
        ("two lengths", "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd".to_owned()),
        ("two lengths in one field", "Content-Length: 3, 4\r\n\r\nabcd".to_owned()),
        ("a sign", "Content-Length: +3\r\n\r\nabc".to_owned()),
        ("a negative length", "Content-Length: -3\r\n\r\nabc".to_owned()),
        ("hexadecimal", "Content-Length: 0x3\r\n\r\nabc".to_owned()),
        ("white space inside", "Content-Length: 1 2\r\n\r\nabcdefghijkl".to_owned()),
        ("an empty length", "Content-Length:\r\n\r\nabc".to_owned()),
        ("more than 64 bits", "Content-Length: 99999999999999999999\r\n\r\nabc".to_owned()),
        ("chunked is not last", format!("Transfer-Encoding: chunked, gzip\r\n{CHUNKS}")),
        ("chunked twice", format!("Transfer-Encoding: chunked, chunked\r\n{CHUNKS}")),
        ("chunked in two fields", format!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n{CHUNKS}")),
        ("an invalid coding", format!("Transfer-Encoding: xchunked\r\n{CHUNKS}")),
        ("a vertical tab before chunked", format!("Transfer-Encoding: \x0bchunked\r\n{CHUNKS}")),
        ("identity", "Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc".to_owned()),
    ];
    for (case, rest) in cases {
        refused(&gate, case, POST, &rest);
    }
}

#[test]
fn invalid_field_lines_are_refused() {
    let gate = CrawlgateProcess::start();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("white space before the colon", "Content-Length : 3\r\n\r\nabc"),
        ("a tab before the colon", "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
        ("a folded line", "X-Folded: a\r\n b\r\n\r\n"),
        ("a folded transfer coding", "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
        ("no colon", "Nonsense\r\n\r\n"),
        ("an empty name", ": value\r\n\r\n"),
        ("a name with a space", "Content Length: 3\r\n\r\nabc"),
        ("a bare CR", "X-Bare: a\rContent-Length: 3\r\n\r\nabc"),
        ("a NUL", "X-Nul: a\0b\r\n\r\n"),
        ("bare LF as line end", "X-Bare: a\nContent-Length: 3\n\nabc"),
        ("two hosts", "Host: other.test\r\n\r\n"),
    ];
    for (case, rest) in cases {
        refused(&gate, case, POST, rest);
    }
    refused(
        &gate,
        "a field line before the first",
        "POST {target} HTTP/1.1\r\n Host: {host}\r\n",
        "\r\n",
    );
}

#[test]
fn invalid_start_lines_are_refused() {
    let gate = CrawlgateProcess::start();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("two spaces", "GET  {target} HTTP/1.1\r\nHost: {host}\r\n"),
        ("a version in lower case", "GET {target} http/1.1\r\nHost: {host}\r\n"),
        ("no version", "GET {target}\r\nHost: {host}\r\n"),
        ("another protocol", "GET {target} HTTPS/1.1\r\nHost: {host}\r\n"),
        ("version 2 in text", "GET {target} HTTP/2.0\r\nHost: {host}\r\n"),
        ("a space in the target", "GET {target} x HTTP/1.1\r\nHost: {host}\r\n"),
        ("a control in the target", "GET {target}\x01 HTTP/1.1\r\nHost: {host}\r\n"),
        ("a method that is no token", "G(ET {target} HTTP/1.1\r\nHost: {host}\r\n"),
        ("a transfer coding in HTTP/1.0", "POST {target} HTTP/1.0\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n"),
        ("no host in HTTP/1.1", "GET {target} HTTP/1.1\r\n"),
    ];
    for (case, start) in cases {
        refused(&gate, case, start, "\r\n");
    }
}

#[test]
fn the_record_of_a_malformed_method_names_none() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    for (method, recorded) in [("=CMD", ""), ("<B>", ""), ("P@ST", ""), ("", ""), ("PUT", "PUT")] {
        let mut wire = gate.connect();
        let target = origin.url("/open");
        wire.send(format!("{method} {target} HTTP/1.1\r\nHost :\r\n\r\n"));
        let answer = wire.response("GET");
        has!(gate.refused(&answer, 400, "bad_request"), {"method": recorded}, "{method:?}");
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_bad_chunk_ends_the_exchange_on_both_sides() {
    let gate = CrawlgateProcess::start();
    for chunks in [
        "zz\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "ffffffffffffffffff\r\nabc",
        "-1\r\na\r\n",
        "3;x\nabc\r\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
    ] {
        let origin = Origin::http();
        let url = origin.url("/upload");
        let mut wire = gate.connect();
        wire.send(format!(
            "POST {url} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
        ));
        wire.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/smuggled")))
            .half_close();
        wire.drain();
        let whole = origin.seen().iter().any(|seen| seen.line() == "POST /upload" && seen.whole);
        assert!(!whole, "{chunks:?} arrived as if it were a whole body");
        assert!(!origin.seen_but_robots().contains(&"GET /smuggled".to_owned()), "{chunks:?}");
    }
}

#[test]
fn two_equal_lengths_are_one() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    let url = origin.url("/upload");
    let answer = gate.connect().exchange(format!(
        "POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"
    ));
    // RFC 9110 8.6 lets a recipient refuse the request, or send on a single length.
    if answer.status == 200 {
        assert_eq!(origin.last("/upload").head.all("content-length"), ["3"]);
    } else {
        assert_eq!(answer.status, 400, "{answer:?}");
    }
}
