//! WebSockets to origins that speak HTTP/2: on streams where the origin takes them (RFC 8441), and else by HTTP/1.1.
//! Page: `docs/messages.md`.

use bytes::Bytes;

use crate::support::http2::request;
use crate::support::http2_origin::{Holds, Http2Origin};
use crate::support::{CrawlgateProcess, RULES, WEBSOCKET, Wire};

#[test]
fn a_websocket_gets_a_connection_by_http1() {
    let gate = CrawlgateProcess::start();
    let switched =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    let origin = Http2Origin::start().http1(switched);
    gate.passes(&origin.url("/page"));
    let mut wire = gate.sends("GET", &origin.url("/socket"), WEBSOCKET);
    wire.response("GET").is(101);
    wire.send("hello");
    assert_eq!(wire.read(5), b"hello");
    drop(wire);
    assert_eq!(origin.last("/socket").version, "1.1");
    has!(gate.record_of(&origin.url("/socket")), {"status": 101, "upstream_version": "1.1"});
    gate.passes(&origin.url("/after"));
    assert_eq!(origin.last("/after").version, "2");
}

/// An origin that takes WebSockets on streams, and echoes. At `/reset` it waits for leave to break one off.
fn echoing(holds: &Holds) -> Http2Origin {
    let holds = holds.clone();
    let origin = Http2Origin::with(&["h2"], |server| {
        server.enable_connect_protocol();
    });
    origin
        .on("/socket", |mut stream| async move {
            let mut sending = stream.send(200, &[("sec-websocket-protocol", "chat")]);
            while let Some(Ok(octets)) = stream.body.data().await {
                drop(stream.body.flow_control().release_capacity(octets.len()));
                sending.send(octets).await;
            }
            drop(sending.0.send_data(Bytes::new(), true));
        })
        .on("/gone", |mut stream| async move {
            let body = Bytes::from("no socket here");
            drop(stream.send(404, &[]).send_all(body).await);
        })
        .on("/reset", move |mut stream| {
            let holds = holds.clone();
            async move {
                let mut sending = stream.send(200, &[]);
                sending.send(Bytes::from("half")).await;
                holds.pass().await;
                sending.0.send_reset(h2::Reason::CANCEL);
            }
        })
        .robots(RULES)
}

/// Sends the handshake of a WebSocket.
fn handshake(gate: &CrawlgateProcess, origin: &Http2Origin, path: &str) -> Wire {
    gate.sends("GET", &origin.url(path), WEBSOCKET)
}

#[test]
fn a_websocket_goes_on_a_stream_where_the_origin_takes_them() {
    let (gate, holds) = (CrawlgateProcess::start(), Holds::new());
    let origin = echoing(&holds);
    gate.passes(&origin.url("/page"));
    let mut wire = handshake(&gate, &origin, "/socket");
    let answer = wire.response("GET").is(101);
    for (name, value) in [
        ("upgrade", "websocket"),
        ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ("sec-websocket-protocol", "chat"),
    ] {
        assert_eq!(answer.field(name).as_deref(), Some(value), "{answer:?}");
    }
    for text in ["hello", "again"] {
        wire.send(text);
        assert_eq!(wire.read(5), text.as_bytes());
    }
    // Others share the connection meanwhile.
    gate.passes(&origin.url("/other"));
    drop(wire);
    let seen = origin.last("/socket");
    assert_eq!((&*seen.method, seen.version, seen.connection), ("CONNECT", "2", 1));
    for name in ["sec-websocket-key", "connection", "upgrade"] {
        assert!(!seen.fields.contains_key(name), "{name}");
    }
    assert_eq!(seen.fields["sec-websocket-version"], "13");
    let record = gate.record_of(&origin.url("/socket"));
    has!(record, {"method": "GET", "status": 101, "upstream_version": "2", "bytes_out": 10});
    gate.denied(&handshake(&gate, &origin, "/private").response("GET"));
    handshake(&gate, &origin, "/gone").response("GET").is_origins(404, "no socket here");
    let mut reset = handshake(&gate, &origin, "/reset");
    assert_eq!(reset.response("GET").status, 101);
    assert_eq!(reset.read(4), b"half");
    holds.let_pass(1);
    assert!(reset.is_closed());
    has!(gate.record_of(&origin.url("/reset")), {"error": "connection_terminated"});
    assert!(origin.seen_of("/private").is_empty());
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_websocket_passes_by_http2_on_both_sides() {
    let gate = CrawlgateProcess::start();
    let origin = echoing(&Holds::new());
    let mut crawler = gate.intercept_http2(&origin.authority(), "site.test");
    // The first answer comes with the settings that allow an extended CONNECT.
    crawler.passes(&origin.url("/page"));
    let mut connect = request("CONNECT", &origin.url("/socket"));
    connect.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
    let mut pending = crawler.begin(connect, false).unwrap();
    pending.body.send_data(Bytes::from_static(b"hello"), false).unwrap();
    let (head, mut body) = crawler.run(&mut pending.response).unwrap().into_parts();
    assert_eq!(head.status, 200);
    assert_eq!(crawler.run(body.data()).unwrap().unwrap(), "hello");
    pending.body.send_data(Bytes::new(), true).unwrap();
    // The end passes, too.
    while let Some(octets) = crawler.run(body.data()) {
        assert_eq!(octets.unwrap(), "");
    }
    let record = gate.record_of(&origin.url("/socket"));
    has!(record, {"version": "2", "upstream_version": "2", "status": 101, "error": null});
    assert_eq!(origin.last("/socket").method, "CONNECT");
}

#[test]
fn a_websocket_to_an_origin_with_http2_alone_is_refused_in_words() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::with(&["h2"], |_| ());
    gate.passes(&origin.url("/page"));
    let answer = gate.sends("GET", &origin.url("/socket"), WEBSOCKET).response("GET").is(502);
    says!(answer.text(), "does not speak HTTP/1.1");
    has!(gate.record_of(&origin.url("/socket")), {"error": "tls_alert_received"});
    assert!(origin.seen_of("/socket").is_empty());
    gate.passes(&origin.url("/after"));
    assert_eq!((origin.last("/after").version, origin.last("/after").connection), ("2", 1));
}
