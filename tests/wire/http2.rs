//! HTTP/2 from crawlers: every stream is judged as a request is, and what the protocol adds is bounded.

use std::io::{self, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::Reason;
use h2::ext::Protocol;
use http::{HeaderMap, Request};
use rustix::process::Signal;
use serde_json::json;

use crate::listeners::gate_with;
use crate::opaque::SWITCH;
use crate::support::http2::{get, request};
use crate::support::http2_frames::{End, block, kind};
use crate::support::{
    Gate, Head, Http2, Latch, Origin, RULES, Reply, Wire, client_config, eventually,
};

fn limited(keys: &[(&str, &str)]) -> Gate {
    Gate::with(|setup| {
        for (key, value) in keys {
            setup.set("limits", key, value);
        }
    })
}

fn inside(gate: &Gate, origin: &Origin) -> Http2 {
    gate.intercept_http2(&origin.authority(), "site.test")
}

#[test]
fn each_stream_of_a_connection_is_judged() {
    let (gate, origin) = (Gate::start(), Origin::https().robots(RULES));
    let mut http2 = inside(&gate, &origin);
    http2
        .get(&origin.url("/open"))
        .is_origins(200, "page /open");
    let record = gate.denied(&http2.get(&origin.url("/private")));
    assert_eq!(
        (&record["version"], &record["via"], &record["url"]),
        (
            &json!("2"),
            &json!("intercepted"),
            &json!(origin.url("/private"))
        ),
    );
    http2
        .get(&origin.url("/private/open"))
        .is_origins(200, "page /private/open");
    assert_eq!(gate.record_of(&origin.url("/open"))["version"], "2");
    assert_eq!(origin.seen_but_robots(), ["GET /open", "GET /private/open"]);
    let via = origin.last("/open").head.all("via").join(", ");
    assert!(via.starts_with("2.0 crawlgate-"), "{via}");
}

#[test]
fn streams_are_under_way_at_the_same_time() {
    let (gate, latch) = (Gate::start(), Latch::new());
    let origin = Origin::https().robots(RULES);
    for number in 0..20 {
        let held = Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
        origin.script(&format!("/{number}"), [held]);
    }
    let mut http2 = inside(&gate, &origin);
    let pending: Vec<_> = (0..20)
        .map(|number| {
            http2
                .begin(get(&origin.url(&format!("/{number}"))), true)
                .unwrap()
        })
        .collect();
    latch.arrivals(20);
    gate.denied(&http2.get(&origin.url("/private")));
    latch.open();
    for pending in pending {
        assert_eq!(http2.answer(pending).unwrap().status, 204);
    }
}

#[test]
fn a_stream_for_another_authority_is_misdirected() {
    let (gate, origin) = (Gate::start(), Origin::https().robots(RULES));
    let other = Origin::https().robots(RULES);
    let mut http2 = inside(&gate, &origin);
    let plain = origin.url("/open").replacen("https", "http", 1);
    for url in [
        origin.url_as("other.test", "/open"),
        other.url("/open"),
        plain,
    ] {
        let record = gate.refused(&http2.get(&url), 421, "misdirected");
        assert_eq!(record["url"], url);
    }
    let mut host = get(&origin.url("/open"));
    host.headers_mut()
        .insert("host", "other.test".parse().unwrap());
    gate.refused(&http2.exchange(host), 400, "bad_request");
    http2
        .get(&origin.url("/open"))
        .is_origins(200, "page /open");
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
    assert_eq!(other.connections(), 0);
}

/// A name, the fields of a request, and the end of its stream.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], End);

#[test]
fn a_malformed_request_ends_its_stream_and_no_other() {
    let (gate, origin) = (Gate::start(), Origin::https().robots(RULES));
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let protocol_error = End::Reset(1);
    let (method, scheme) = ((":method", "GET"), (":scheme", "https"));
    let (at, path) = ((":authority", &*authority), (":path", "/open"));
    let rows: &[Row<'_>] = &[
        (
            "a connection field",
            &[method, scheme, at, path, ("connection", "close")],
            protocol_error,
        ),
        (
            "a transfer coding",
            &[method, scheme, at, path, ("transfer-encoding", "chunked")],
            protocol_error,
        ),
        (
            "an upgrade",
            &[method, scheme, at, path, ("upgrade", "websocket")],
            protocol_error,
        ),
        (
            "a keep-alive",
            &[method, scheme, at, path, ("keep-alive", "1")],
            protocol_error,
        ),
        (
            "another te",
            &[method, scheme, at, path, ("te", "gzip")],
            protocol_error,
        ),
        ("no method", &[scheme, at, path], protocol_error),
        ("no path", &[method, scheme, at], protocol_error),
        (
            "an empty path",
            &[method, scheme, at, (":path", "")],
            protocol_error,
        ),
        ("no scheme", &[method, at, path], protocol_error),
        (
            "two paths",
            &[method, scheme, at, path, (":path", "/private")],
            protocol_error,
        ),
        (
            "a pseudo-field at the end",
            &[method, scheme, at, ("x", "y"), path],
            protocol_error,
        ),
        (
            "a status",
            &[method, scheme, at, path, (":status", "200")],
            protocol_error,
        ),
        (
            "a path with a space",
            &[method, scheme, at, (":path", "/a b")],
            protocol_error,
        ),
        ("no authority", &[method, scheme, path], End::Answered),
        (
            "an absolute path",
            &[method, scheme, at, (":path", "https://site.test/open")],
            End::Answered,
        ),
        (
            "a path without a slash",
            &[method, scheme, at, (":path", "open")],
            End::Answered,
        ),
        (
            "two hosts",
            &[method, scheme, at, path, ("host", "a"), ("host", "b")],
            End::Answered,
        ),
        (
            "a tunnel in a tunnel",
            &[(":method", "CONNECT"), at],
            End::Answered,
        ),
        (
            "two lengths",
            &[
                method,
                scheme,
                at,
                path,
                ("content-length", "0"),
                ("content-length", "0"),
            ],
            End::Answered,
        ),
    ];
    let mut stream = 1;
    let mut answered = 0;
    for (name, fields, expected) in rows {
        let found = frames.request(stream, fields).end(stream);
        // An own answer where one can be given; the frame layer's reset elsewhere.
        assert!(
            found == *expected || found == protocol_error,
            "{name}: {found:?}"
        );
        answered += usize::from(found == End::Answered);
        stream += 2;
    }
    assert!(answered >= 3, "{answered}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    for record in gate.wait_records(answered) {
        assert_eq!(
            (&record["reason"], &record["status"]),
            (&json!("bad_request"), &json!(400))
        );
    }
    let fine = [method, scheme, at, path];
    assert_eq!(frames.request(stream, &fine).end(stream), End::Answered);
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

#[test]
fn frames_that_break_the_protocol_end_the_connection() {
    let (gate, origin) = (Gate::start(), Origin::https().robots(RULES));
    let authority = origin.authority();
    let head = block(&[
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", &authority),
        (":path", "/open"),
    ]);
    let upper = block(&[("X-UPPER", "1")]);
    let unknown = block(&[(":unknown", "1")]);
    for (name, sends) in [
        (
            "DATA on an idle stream",
            &[(kind::DATA, 0, 1, &b"x"[..])][..],
        ),
        ("an even stream", &[(kind::HEADERS, 5, 2, &head)]),
        (
            "an unknown pseudo-field",
            &[(kind::HEADERS, 5, 1, &unknown)],
        ),
        ("an upper-case name", &[(kind::HEADERS, 5, 1, &upper)]),
        (
            "HPACK that cannot be read",
            &[(kind::HEADERS, 5, 1, &[0xff; 16])],
        ),
        (
            "a frame that is too long",
            &[(kind::DATA, 0, 1, &[0; 20_000])],
        ),
        (
            "a head that is interrupted",
            &[(kind::HEADERS, 1, 1, &head), (kind::PING, 0, 0, &[0; 8])],
        ),
        ("a PING of seven octets", &[(kind::PING, 0, 0, &[0; 7])]),
    ] {
        let mut frames = gate.intercept_frames(&authority, "site.test");
        for (kind, flags, stream, payload) in sends {
            frames.send(*kind, *flags, *stream, payload);
        }
        let end = frames.end(1);
        assert!(
            matches!(end, End::GoAway(1..) | End::Reset(1) | End::Closed),
            "{name}: {end:?}"
        );
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn bodies_trailers_and_cookies_arrive_whole() {
    let gate = Gate::start();
    let origin = Origin::https()
        .on("/sized", [Reply::ok("sized").read_body()])
        .on("/trailers", [Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n")])
        .on("/empty", [Reply::raw("HTTP/1.1 204 No Content\r\nConnection: keep-alive\r\n\r\n")])
        .on("/hints", [Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n").send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")]);
    let mut http2 = inside(&gate, &origin);
    let mut post = request("POST", &origin.url("/sized"));
    // hyper's HTTP/1.1 sends the trailers that are announced.
    post.headers_mut()
        .insert("trailer", "x-sum".parse().unwrap());
    for crumb in ["a=1", "b=2"] {
        post.headers_mut().append("cookie", crumb.parse().unwrap());
    }
    let mut pending = http2.begin(post, false).unwrap();
    pending
        .body
        .send_data(Bytes::from_static(b"hello "), false)
        .unwrap();
    pending
        .body
        .send_data(Bytes::from_static(b"world"), false)
        .unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    pending.body.send_trailers(trailers).unwrap();
    http2.answer(pending).unwrap().is_origins(200, "sized");
    let seen = origin.last("/sized");
    assert_eq!(
        (seen.body.as_slice(), seen.whole),
        (&b"hello world"[..], true)
    );
    assert_eq!(seen.trailers.field("x-sum").as_deref(), Some("7"));
    assert_eq!(seen.head.all("cookie"), ["a=1; b=2"]);

    let answer = http2.get(&origin.url("/trailers"));
    answer.is_origins(200, "a");
    assert_eq!(answer.trailers.field("x-sum").as_deref(), Some("1"));
    for name in ["transfer-encoding", "connection"] {
        assert_eq!(answer.field(name), None, "{name}");
    }
    let answer = http2.get(&origin.url("/empty"));
    assert_eq!(
        (answer.status, answer.whole, answer.body.len()),
        (204, true, 0)
    );
    let answer = http2.exchange(request("HEAD", &origin.url("/page")));
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    assert!(answer.field("content-length").is_some(), "{answer:?}");
    let via = answer.field("via").unwrap();
    assert!(via.starts_with("1.1 crawlgate-"), "{via}");
    http2.get(&origin.url("/hints")).is_origins(200, "ok");
}

#[test]
fn interim_responses_are_passed_on() {
    let latch = Latch::new();
    let early = Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n");
    let gate = Gate::start();
    let origin = Origin::https().on(
        "/hints",
        [early.wait(&latch).send("HTTP/1.1 204 No\r\n\r\n")],
    );
    let mut frames = gate.intercept_frames(&origin.authority(), "site.test");
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", &*origin.authority()),
        (":path", "/hints"),
    ];
    // The final answer waits for the latch, so this head is the interim one.
    assert_eq!(frames.request(1, &fields).end(1), End::Answered);
    latch.open();
    assert_eq!(frames.end(1), End::Answered);
}

#[test]
fn a_body_that_is_not_whole_is_never_passed_on_as_whole() {
    let gate = Gate::start();
    let origin = Origin::https().on("/up", [Reply::ok("up").read_body()]).on(
        "/short",
        [Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").cut()],
    );
    let mut http2 = inside(&gate, &origin);
    http2
        .get(&origin.url("/page"))
        .is_origins(200, "page /page");
    let answer = http2.get(&origin.url("/short"));
    assert_eq!(
        (answer.status, answer.text().as_str(), answer.whole),
        (200, "half", false)
    );
    let record = gate.record_of(&origin.url("/short"));
    assert_eq!(record["error"], "http_response_incomplete", "{record}");

    for (name, reset) in [
        ("fewer octets than announced", None),
        ("a reset", Some(Reason::CANCEL)),
        ("a reset without an error", Some(Reason::NO_ERROR)),
    ] {
        let before = origin.ended();
        let mut post = request("POST", &origin.url("/up"));
        if reset.is_none() {
            post.headers_mut()
                .insert("content-length", "9".parse().unwrap());
        }
        let mut pending = http2.begin(post, false).unwrap();
        pending
            .body
            .send_data(Bytes::from_static(b"half"), reset.is_none())
            .unwrap();
        if let Some(reason) = reset {
            eventually("the upload", || (origin.connections() > 2).then_some(()));
            pending.body.send_reset(reason);
        }
        drop(http2.answer(pending));
        eventually("the origin's connection to end", || {
            (origin.ended() > before).then_some(())
        });
        for seen in origin
            .seen()
            .iter()
            .filter(|seen| seen.line() == "POST /up")
        {
            assert!(!seen.whole, "{name}: {seen:?}");
        }
    }
}

#[test]
fn a_reset_by_the_crawler_ends_the_request_to_the_origin() {
    let (gate, latch) = (Gate::start(), Latch::new());
    let origin = Origin::https().on(
        "/slow",
        [Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n")],
    );
    let mut http2 = inside(&gate, &origin);
    let mut pending = http2.begin(get(&origin.url("/slow")), true).unwrap();
    latch.arrivals(1);
    pending.body.send_reset(Reason::CANCEL);
    let record = gate.record_of(&origin.url("/slow"));
    assert_eq!(
        (&record["error"], &record["status"]),
        (&json!("client_closed"), &json!(null))
    );
    latch.open();
    http2
        .get(&origin.url("/page"))
        .is_origins(200, "page /page");
}

#[test]
fn a_slow_reader_holds_the_origin_back_and_is_cut() {
    let gate = limited(&[("body_timeout", "\"1s\"")]);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n";
    let origin = Origin::https().on("/big", [Reply::raw(head).repeat(vec![b'x'; 65_536], 1024)]);
    let mut http2 = inside(&gate, &origin);
    let pending = http2.begin(get(&origin.url("/big")), true).unwrap();
    let (_, mut body) = http2.head(pending).unwrap().into_parts();
    // The window is never enlarged.
    let error = http2.run(async {
        loop {
            match body.data().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return error,
                None => panic!("a whole body"),
            }
        }
    });
    assert_eq!(error.reason(), Some(Reason::CANCEL), "{error}");
    drop(body);
    let record = gate.record_of(&origin.url("/big"));
    assert_eq!(record["error"], "client_stalled", "{record}");
    assert!(origin.sent() < 32 << 20, "{}", origin.sent());
    http2
        .get(&origin.url("/page"))
        .is_origins(200, "page /page");
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let (gate, latch) = (limited(&[("http2_streams", "2")]), Latch::new());
    let held = Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
    let origin = Origin::https().on("/held", [held]);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", &*authority),
        (":path", "/held"),
    ];
    frames.request(1, &fields).request(3, &fields);
    latch.arrivals(2);
    assert_eq!(
        frames.request(5, &fields).end(5),
        End::Reset(7),
        "REFUSED_STREAM"
    );
    latch.open();
    assert_eq!(frames.end(3), End::Answered);
}

#[test]
fn resets_beyond_the_limit_end_the_connection() {
    let (gate, latch) = (limited(&[("http2_resets", "10")]), Latch::new());
    let held = Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
    let origin = Origin::https().on("/held", [held]);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", &*authority),
        (":path", "/held"),
    ];
    for number in 0..60 {
        let stream = 2 * number + 1;
        frames
            .request(stream, &fields)
            .send(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    let end = frames.end(10_001);
    assert!(
        matches!(end, End::GoAway(11) | End::Closed),
        "ENHANCE_YOUR_CALM: {end:?}"
    );
    latch.open();
    gate.get(&origin.url("/page")).is_origins(200, "page /page");
}

#[test]
fn a_head_without_end_is_bounded() {
    let (gate, origin) = (Gate::start(), Origin::https());
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let many: Vec<_> = (0..100)
        .map(|_| ("x-filler", "0123456789abcdef0123456789abcdef"))
        .collect();
    let filler = block(&many);
    frames.send(kind::HEADERS, 1, 1, &filler);
    for _ in 0..400 {
        frames.send(kind::CONTINUATION, 0, 1, &filler);
    }
    let end = frames.end(1);
    assert!(matches!(end, End::GoAway(_) | End::Closed), "{end:?}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_silent_connection_ends_in_order() {
    let gate = limited(&[("idle_timeout", "\"1s\"")]);
    let origin = Origin::https();
    let mut http2 = inside(&gate, &origin);
    http2
        .get(&origin.url("/page"))
        .is_origins(200, "page /page");
    http2.closed().unwrap();
}

#[test]
fn a_stop_lets_streams_end() {
    let (mut gate, latch) = (Gate::start(), Latch::new());
    let held = Reply::silent()
        .wait(&latch)
        .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let origin = Origin::https().on("/held", [held]);
    let mut http2 = inside(&gate, &origin);
    let pending = http2.begin(get(&origin.url("/held")), true).unwrap();
    latch.arrivals(1);
    gate.signal(Signal::TERM);
    eventually("the listener to close", || {
        TcpStream::connect(gate.address()).is_err().then_some(())
    });
    latch.open();
    http2.answer(pending).unwrap().is_origins(200, "ok");
    http2.closed().unwrap();
    assert!(gate.wait().success());
}

#[test]
fn a_listener_with_tls_is_a_proxy_on_http_2() {
    let tables =
        "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\nnames = ['127.0.0.1']\n";
    let (gate, places) = gate_with(tables, 2);
    let (plain, tls) = (Origin::http().robots(RULES), Origin::https().robots(RULES));
    let place = places
        .iter()
        .find(|place| **place != gate.address().to_string())
        .unwrap();
    let mut http2 = Http2::to(place.parse().unwrap(), "127.0.0.1", &gate.ca_pem());
    http2.get(&plain.url("/open")).is_origins(200, "page /open");
    let record = gate.denied(&http2.get(&plain.url("/private")));
    assert_eq!(
        (&record["version"], &record["via"]),
        (&json!("2"), &json!("plain"))
    );
    assert_eq!(plain.seen_but_robots(), ["GET /open"]);

    let connect = Request::builder()
        .method("CONNECT")
        .uri(tls.authority())
        .body(())
        .unwrap();
    let mut inner = http2.tunnel(connect, "site.test", &gate.ca_pem());
    inner.get(&tls.url("/open")).is_origins(200, "page /open");
    let record = gate.denied(&inner.get(&tls.url("/private")));
    assert_eq!(
        (&record["version"], &record["via"]),
        (&json!("2"), &json!("intercepted"))
    );
    assert_eq!(tls.seen_but_robots(), ["GET /open"]);
}

#[test]
fn http_2_can_be_switched_off() {
    let mut gate = Gate::with(|setup| {
        setup.set("listen", "http2", "false");
    });
    let origin = Origin::https().robots(RULES);
    let offered = |gate: &Gate, offered: &[&str]| {
        let mut config = Arc::unwrap_or_clone(client_config(&gate.ca_pem()));
        config.alpn_protocols = offered
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let mut wire = gate.connect();
        assert_eq!(wire.tunnel(&origin.authority()).status, 200);
        wire.handshake("site.test", Arc::new(config))
    };
    let answer = offered(&gate, &["h2", "http/1.1"])
        .unwrap()
        .get_inside(&origin.authority(), "/open");
    answer.is_origins(200, "page /open");
    assert!(offered(&gate, &["h2"]).is_err());
    gate.wait_said("offers HTTP/2 only");
    gate.reload(
        |setup| {
            setup.set("listen", "http2", "true");
        },
        "the configuration was read again",
    );
    inside(&gate, &origin)
        .get(&origin.url("/open"))
        .is_origins(200, "page /open");
}

#[test]
fn http_2_without_tls_is_refused_by_its_name() {
    let gate = Gate::start();
    let mut wire: Wire = gate.connect();
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let answer = wire.response("PRI");
    gate.refused(&answer, 505, "bad_request");
    assert!(
        answer.problem()["detail"]
            .as_str()
            .unwrap()
            .contains("HTTP/2"),
        "{answer:?}"
    );
    assert!(wire.is_closed());
    gate.wait_said("HTTP/2 without TLS");
}

/// Starts a plain origin without a robots.txt that answers a WebSocket's handshake as RFC 6455 asks for, and echoes.
fn websocket_origin() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || -> io::Result<()> {
                let mut reader = BufReader::new(stream.try_clone()?);
                let Some(head) = Head::read(&mut reader)? else {
                    return Ok(());
                };
                let Some(key) = head.field("sec-websocket-key") else {
                    return stream.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
                };
                let guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
                let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{guid}").as_bytes());
                let accept = STANDARD.encode(hash);
                write!(
                    stream,
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                     Sec-WebSocket-Accept: {accept}\r\n\r\n"
                )?;
                io::copy(&mut reader, &mut stream).map(drop)
            });
        }
    });
    port
}

fn websocket(url: &str, protocol: &'static str) -> Request<()> {
    let mut connect = request("CONNECT", url);
    let protocol = Protocol::from_static(protocol);
    connect.extensions_mut().insert(protocol);
    connect
}

#[test]
fn a_websocket_on_a_stream_is_judged_and_relayed() {
    let tables =
        "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\nnames = ['127.0.0.1']\n";
    let (gate, places) = gate_with(tables, 2);
    let ours = gate.address().to_string();
    let place = places.iter().find(|place| **place != ours).unwrap();
    let mut http2 = Http2::to(place.parse().unwrap(), "127.0.0.1", &gate.ca_pem());
    let strict = Origin::http()
        .robots(RULES)
        .on("/open", [Reply::raw(SWITCH).echo()]);
    // The first answer comes with the settings that allow an extended CONNECT.
    gate.denied(&http2.get(&strict.url("/private")));

    let url = format!("http://site.test:{}/socket", websocket_origin());
    let mut pending = http2.begin(websocket(&url, "websocket"), false).unwrap();
    pending
        .body
        .send_data(Bytes::from_static(b"hello"), false)
        .unwrap();
    let (head, mut body) = http2.run(&mut pending.response).unwrap().into_parts();
    assert_eq!(head.status, 200);
    for name in ["sec-websocket-accept", "upgrade", "connection"] {
        assert!(!head.headers.contains_key(name), "{name}");
    }
    assert_eq!(http2.run(body.data()).unwrap().unwrap(), "hello");
    pending.body.send_data(Bytes::new(), true).unwrap();
    let record = gate.record_of(&url);
    assert_eq!(
        (
            &record["method"],
            &record["status"],
            &record["version"],
            &record["bytes_out"]
        ),
        (&json!("GET"), &json!(101), &json!("2"), &json!(5)),
    );

    let denied = http2.exchange(websocket(&strict.url("/private"), "websocket"));
    assert_eq!(gate.denied(&denied)["method"], "GET");
    // An origin that does not know the key has not read the handshake.
    let confused = http2.exchange(websocket(&strict.url("/open"), "websocket"));
    assert_eq!((confused.status, confused.body.len()), (502, 0));
    let other = http2.exchange(websocket(&strict.url("/other"), "connect-udp"));
    gate.refused(&other, 501, "bad_request");
    assert_eq!(strict.seen_but_robots(), ["GET /open"]);
}
