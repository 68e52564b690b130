use super::*;

const BOUNDS: Bounds = Bounds { head: 1024, target: 256, fields: 30 };

fn scan(bytes: &str) -> Scan {
    Framer::new(BOUNDS).scan(bytes.as_bytes())
}

#[test]
fn a_violation_is_named() {
    use Violation::*;
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(300));
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(1100));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: \r\n".repeat(101));
    for (bytes, violation, why) in [
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            ContentLength,
            "CL then TE",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            ContentLength,
            "TE then CL",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            ContentLength,
            "CL twice",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            ContentLength,
            "CL with a sign",
        ),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", ContentLength, "CL list"),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n", ContentLength, "CL empty"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
            TransferEncoding,
            "unknown TE",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            TransferEncoding,
            "TE list",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            TransferEncoding,
            "TE twice",
        ),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", TransferEncoding, "TE in 1.0"),
        ("GET / HTTP/1.1\r\nHost: a\r\n Continued: x\r\n\r\n", Syntax, "obs-fold"),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", Syntax, "space before the colon"),
        ("GET / HTTP/1.1\nHost: a\n\n", BareLineFeed, "LF alone"),
        ("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", BareLineFeed, "LF alone inside"),
        ("GET / HTTP/1.1\r\n\r\n", Host, "no Host"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Host, "two Hosts"),
        (
            "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
            ConnectBody,
            "CONNECT with a body",
        ),
        ("PRI * HTTP/2.0\r\n\r\n", Version, "HTTP/2"),
        ("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", ProxyHeader, "a header of a load balancer"),
        ("\0\r\nQUIT\n!", ProxyHeader, "its second version"),
        ("GET http://[a/ HTTP/1.1\r\nHost: a\r\n\r\n", Target, "no host"),
        (&long, TargetTooLong, "long target"),
        (&large, HeadTooLarge, "large head"),
        (&many, TooManyFields, "many fields"),
    ] {
        assert_eq!(scan(bytes), Scan::Refuse(0, violation), "{why}");
    }
}

#[test]
fn a_first_line_that_is_no_request_line_is_refused_at_once() {
    use Violation::{Syntax, Tls, Version};
    for (start, expected) in [
        ("GET / HTTP/1.1\r\n", None),
        ("GET / HTTP/1.1\r\nX: y\r\n", None),
        ("\r\nGET / HTTP/1.1\r\n", None),
        ("SSH-2.0-OpenSSH_9.6\r\n", Some(Syntax)),
        ("EHLO x\r\n", Some(Syntax)),
        ("GET /\r\n", Some(Syntax)),
        ("GET / HTTP/2.0\r\n", Some(Version)),
        ("\x16\x03", Some(Tls)),
        ("\r\n\x16\x03", Some(Tls)),
    ] {
        let mut framer = Framer::new(BOUNDS);
        let blank = start.len() - start.trim_start().len();
        // Octet by octet, as a client may send it: only the last one decides.
        for end in 1..start.len() {
            let passed = framer.scan(&start.as_bytes()[blank.min(end)..end]);
            assert!(matches!(passed, Scan::Pass(_)), "{start:?}, {end}");
        }
        let found = framer.scan(&start.as_bytes()[blank..]);
        let expected = expected.map_or(Scan::Pass(0), |why| Scan::Refuse(0, why));
        assert_eq!(found, expected, "{start:?}");
    }
}

#[test]
fn the_next_request_is_found_however_the_octets_are_cut() {
    let requests = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\nPOST http://a/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
    ];
    let wire = requests.concat().repeat(3);
    for step in 1..wire.len() {
        let mut framer = Framer::new(BOUNDS);
        let (mut passed, mut end) = (0, 0);
        while end < wire.len() {
            end = (end + step).min(wire.len());
            match framer.scan(&wire.as_bytes()[passed..end]) {
                Scan::Pass(n) => passed += n,
                other => panic!("step {step} at {passed}: {other:?}"),
            }
        }
        assert_eq!(passed, wire.len(), "step {step}");
        assert!(framer.is_between_requests(), "step {step}");
    }
}

#[test]
fn a_second_request_is_refused_behind_the_first() {
    let first = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let bytes = format!("{first}GET / HTTP/1.1\r\n\r\n");
    assert_eq!(scan(&bytes), Scan::Refuse(first.len(), Violation::Host));
}

#[test]
fn broken_chunks_break_the_connection() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (body, at) in [
        ("x\r\n", 0),
        ("\r\n", 0),
        ("5\nhello", 1),
        ("5\r\nhelloX", 8),
        ("0\r\n\n", 3),
        ("1111111111111111\r\n", 15),
        ("0x5\r\n", 1),
    ] {
        let scan = scan(&format!("{head}{body}"));
        assert_eq!(scan, Scan::Broken(head.len() + at), "{body:?}");
    }
}

#[test]
fn other_protocols_begin_after_connect_and_upgrade() {
    let connect = "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n";
    let mut framer = Framer::new(BOUNDS);
    assert_eq!(framer.scan(format!("{connect}\x16\x03").as_bytes()), Scan::Pass(connect.len() + 2));
    assert!(framer.is_opaque());

    let upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let mut framer = Framer::new(BOUNDS);
    let early = format!("{upgrade}GET");
    assert_eq!(framer.scan(early.as_bytes()), Scan::Pass(upgrade.len()));
    assert!(framer.is_undecided());
    framer.decide(Switch::Stayed);
    assert_eq!(framer.scan(b"GET"), Scan::Pass(0));
}
