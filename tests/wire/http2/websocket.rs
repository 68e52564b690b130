//! WebSockets on a stream (RFC 8441).

use bytes::Bytes;
use h2::RecvStream;
use h2::ext::Protocol;
use http::Request;

use super::{TLS, listening};
use crate::opaque::SWITCH;
use crate::support::http2::{Pending, request};
use crate::support::{Http2, Origin, RULES, Reply};

/// An open WebSocket: the request that began it, and the octets that come.
struct Open {
    ours: Pending,
    theirs: RecvStream,
}

/// Opens a WebSocket on a stream of a connection that knows the settings of its peer.
fn open(http2: &mut Http2, url: &str) -> Open {
    let mut ours = http2.begin(websocket(url, "websocket"), false).unwrap();
    let (head, theirs) = http2.run(&mut ours.response).unwrap().into_parts();
    assert_eq!(head.status, 200);
    Open { ours, theirs }
}

pub(super) fn websocket(url: &str, protocol: &'static str) -> Request<()> {
    let mut connect = request("CONNECT", url);
    let protocol = Protocol::from_static(protocol);
    connect.extensions_mut().insert(protocol);
    connect
}

#[test]
fn a_websocket_on_a_stream_is_judged_and_relayed() {
    let (gate, place) = listening(TLS, |_| ());
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    let strict = Origin::http().robots(RULES).on("/open", [Reply::raw(SWITCH).echo()]);
    // The first answer comes with the settings that allow an extended CONNECT.
    gate.denied(&http2.get(&strict.url("/private")));

    let echoing = Origin::http().on("/socket", [Reply::websocket().echo()]);
    let url = echoing.url("/socket");
    let mut pending = http2.begin(websocket(&url, "websocket"), false).unwrap();
    pending.body.send_data(Bytes::from_static(b"hello"), false).unwrap();
    let (head, mut body) = http2.run(&mut pending.response).unwrap().into_parts();
    assert_eq!(head.status, 200);
    for name in ["sec-websocket-accept", "upgrade", "connection"] {
        assert!(!head.headers.contains_key(name), "{name}");
    }
    assert_eq!(http2.run(body.data()).unwrap().unwrap(), "hello");
    pending.body.send_data(Bytes::new(), true).unwrap();
    has!(gate.record_of(&url), {"method": "GET", "status": 101, "version": "2", "bytes_out": 5});

    let denied = http2.exchange(websocket(&strict.url("/private"), "websocket"));
    assert_eq!(gate.denied(&denied)["method"], "GET");
    // An origin that does not know the key has not read the handshake.
    let confused = http2.exchange(websocket(&strict.url("/open"), "websocket"));
    assert_eq!((confused.status, confused.is_ours()), (502, true));
    let plain = http2.exchange(websocket(&strict.url("/page"), "websocket"));
    assert_eq!((plain.status, plain.is_ours()), (502, true), "answered as a GET");
    for url in [strict.url("/open"), strict.url("/page")] {
        has!(gate.record_of(&url), {"status": 502, "error": "http_upgrade_failed"});
    }
    let other = http2.exchange(websocket(&strict.url("/other"), "connect-udp"));
    gate.refused(&other, 501, "bad_request");
    assert_eq!(strict.seen_but_robots(), ["GET /open", "GET /page"]);
}

#[test]
fn an_open_websocket_on_a_stream_ends_when_its_request_would_be_denied() {
    let (gate, place) = listening(TLS, |_| ());
    let socket = || [Reply::websocket().echo()];
    let origin = Origin::with_rules(RULES).on("/socket", socket()).on("/other", socket());
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    http2.passes(&origin.url("/1"));
    let mut ended = open(&mut http2, &origin.url("/socket"));
    let mut bystander = open(&mut http2, &origin.url("/other"));
    let origin_url = origin.url("");
    let words = ["add", &origin_url, "/socket", "deny"];
    let why = ["--until", "1d", "--by", "Ada", "--reason", "a letter"];
    gate.succeeds("override", &[&words[..], &why].concat());
    let record = gate.record_of(&origin.url("/socket"));
    has!(record, {"status": 101, "version": "2", "error": "http_request_denied"});
    let end = http2.run(async {
        let mut octets = Vec::new();
        while let Some(Ok(data)) = ended.theirs.data().await {
            octets.extend_from_slice(&data);
        }
        octets
    });
    assert_eq!(end, b"");
    // Its path is not denied, and the connection continues.
    let still = Bytes::from_static(b"still");
    bystander.ours.body.send_data(still, false).unwrap();
    assert_eq!(http2.run(bystander.theirs.data()).unwrap().unwrap(), "still");
    http2.passes(&origin.url("/2"));
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /socket", "GET /other", "GET /2"]);
}
