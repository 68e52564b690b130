//! WebSockets on a stream (RFC 8441).

use std::io::{self, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::ext::Protocol;
use http::Request;
use serde_json::json;

use crate::listeners::gate_with;
use crate::opaque::SWITCH;
use crate::support::http2::request;
use crate::support::{Head, Http2, Origin, RULES, Reply};

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
