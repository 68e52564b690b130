//! Tunnels on streams: each has a separate connection slot.

use bytes::Bytes;
use http::Request;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::websocket::websocket;
use super::{TLS, inside, listening};
use crate::support::http2::get;
use crate::support::http2_frames::{End, block, flag, kind};
use crate::support::http2_origin::Http2Origin;
use crate::support::{
    CrawlgateProcess, Http2, Latch, Origin, RULES, Reply, client_config, eventually, origin_ca_pem,
};

fn connect(origin: &Origin) -> Request<()> {
    let connect = Request::builder().method("CONNECT");
    connect.uri(origin.authority()).body(()).unwrap()
}

/// Returns an https origin that holds its answers at `/held`.
fn holding(latch: &Latch) -> Origin {
    let held = || Reply::silent().wait(latch).send("HTTP/1.1 204 No\r\n\r\n");
    Origin::https().robots(RULES).on("/held", [held(), held(), held()])
}

/// Opens a tunnel as soon as another one makes room for it, which is idle a moment after its answer.
#[track_caller]
fn tunnel_once_there_is_room(http2: &mut Http2, origin: &Origin, ca_pem: &str) -> Http2 {
    eventually("room for a tunnel", || http2.try_tunnel(connect(origin), "site.test", ca_pem))
}

#[test]
fn each_tunnel_on_a_stream_counts_and_makes_room_on_its_own() {
    let (gate, place) = listening(TLS, |setup| setup.set("limits", "connections", "3"));
    let latch = Latch::new();
    let origin = holding(&latch);
    let (ca_pem, held) = (gate.ca_pem(), origin.url("/held"));
    let mut http2 = Http2::to(place, "127.0.0.1", &ca_pem);
    let mut idle = http2.tunnel(connect(&origin), "site.test", &ca_pem);
    idle.passes(&origin.url("/1"));
    let mut busy = http2.tunnel(connect(&origin), "site.test", &ca_pem);
    let first = busy.begin(get(&held), true).unwrap();
    latch.arrivals(1);

    // The connection and two tunnels have the three slots. The idle tunnel makes room, and its connection does not.
    let mut third = tunnel_once_there_is_room(&mut http2, &origin, &ca_pem);
    idle.closed().unwrap();
    third.passes(&origin.url("/2"));
    let second = third.begin(get(&held), true).unwrap();
    latch.arrivals(2);

    let refused = http2.exchange(connect(&origin));
    has!(gate.refused(&refused, 503, "overloaded"), {"method": "CONNECT"});
    assert!(refused.field("retry-after").is_some(), "{refused:?}");
    // The connection and its other tunnels go on.
    latch.open();
    assert_eq!(busy.answer(first).unwrap().status, 204);
    assert_eq!(third.answer(second).unwrap().status, 204);
    let mut fourth = tunnel_once_there_is_room(&mut http2, &origin, &ca_pem);
    gate.denied(&fourth.get(&origin.url("/private")));
    let seen = ["GET /1", "GET /held", "GET /2", "GET /held"];
    assert_eq!(origin.seen_but_robots(), seen);
}

#[test]
fn a_tunnel_beyond_its_clients_connections_is_refused_and_its_connection_goes_on() {
    let (gate, place) = listening(TLS, |setup| {
        setup.set("limits", "connections_per_client", "2");
    });
    let latch = Latch::new();
    let (origin, plain) = (holding(&latch), Origin::http().robots(RULES));
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    let mut busy = http2.tunnel(connect(&origin), "site.test", &gate.ca_pem());
    let pending = busy.begin(get(&origin.url("/held")), true).unwrap();
    latch.arrivals(1);
    let refused = http2.exchange(connect(&origin));
    assert_eq!(gate.refused(&refused, 429, "client_limit")["method"], "CONNECT");
    http2.passes(&plain.url("/open"));
    latch.open();
    assert_eq!(busy.answer(pending).unwrap().status, 204);
    // An idle tunnel of the client makes room.
    let mut next = tunnel_once_there_is_room(&mut http2, &origin, &gate.ca_pem());
    busy.closed().unwrap();
    next.passes(&origin.url("/1"));
}

#[test]
fn a_silent_websocket_on_a_busy_connection_makes_room() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "connections", "2");
        setup.set("limits", "tunnel_idle_timeout", "\"1m\"");
    });
    let latch = Latch::new();
    let origin = holding(&latch).on("/socket", [Reply::websocket().echo()]);
    let mut http2 = inside(&gate, &origin);
    gate.denied(&http2.get(&origin.url("/private")));
    let held = http2.begin(get(&origin.url("/held")), true).unwrap();
    latch.arrivals(1);
    let url = origin.url("/socket");
    let mut socket = http2.begin(websocket(&url, "websocket"), false).unwrap();
    let hello = Bytes::from_static(b"hello");
    socket.body.send_data(hello, false).unwrap();
    let (head, mut body) = http2.run(&mut socket.response).unwrap().into_parts();
    assert_eq!(head.status, 200);
    assert_eq!(http2.run(body.data()).unwrap().unwrap(), "hello");

    // Both slots are taken until the WebSocket has been silent for some time.
    let plain = Origin::http();
    gate.refuses(&plain.url("/page"), 503, "overloaded");
    gate.until(200, &plain.url("/page"));
    has!(gate.record_of(&url), {"status": 101, "error": "connection_limit_reached"});
    latch.open();
    assert_eq!(http2.answer(held).unwrap().status, 204);
}

#[test]
fn an_answer_that_breaks_off_in_a_tunnel_resets_its_stream_and_no_other() {
    let (gate, place) = listening(TLS, |_| ());
    let half = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    let half = Reply::raw(half).cut();
    let origin = Origin::http().on("/short", [half]);
    let authority = origin.authority();
    let mut frames = gate.frames_to(place, "127.0.0.1");
    let head = block(&[(":method", "CONNECT"), (":authority", &authority)]);
    frames.head(1, flag::END_HEADERS, &head);
    assert_eq!(frames.end(1), End::Answered);
    // To HTTP/1.0 only the end of the connection tells the end of the body.
    let inside = format!("GET /short HTTP/1.0\r\nHost: {authority}\r\n\r\n");
    frames.send(kind::DATA, 0, 1, inside.as_bytes());
    assert_eq!(frames.end(1), End::Reset(10), "CONNECT_ERROR");
    has!(gate.record_of(&origin.url("/short")), {"error": "http_response_incomplete"});
    let page =
        [(":method", "GET"), (":scheme", "http"), (":authority", &*authority), (":path", "/page")];
    let (status, body) = frames.request(3, &page).answer(3).unwrap();
    assert_eq!((status, body.as_slice()), (200, &b"page /page"[..]));
}

#[test]
fn an_opaque_tunnel_on_a_stream_carries_octets_as_they_are() {
    let (gate, place) = listening(TLS, |setup| setup.set("tls", "tunnel", "[\"bank.test\"]"));
    let (origin, plain) = (Http2Origin::start(), Origin::http());
    let authority = origin.authority().replacen("site.test", "bank.test", 1);
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    let connect = Request::builder().method("CONNECT").uri(&authority);
    let connect = connect.body(()).unwrap();
    // The certificate is the origin's own.
    let mut bank = http2.tunnel(connect, "bank.test", origin_ca_pem());
    let url = format!("https://{authority}/inside");
    bank.get(&url).is_origins(200, "page /inside");
    http2.passes(&plain.url("/page"));
    drop(bank);
    let record = gate.record("the tunnel", |record| record["via"] == "tunnel");
    has!(record, {"method": "CONNECT", "version": "2", "host": "bank.test"});
    assert_eq!(origin.last("/inside").version, "2");
}

#[test]
fn an_opaque_tunnel_on_a_stream_without_a_window_ends() {
    let (gate, place) = listening(TLS, |setup| {
        setup.set("tls", "tunnel", "[\"bank.test\"]");
        setup.set("limits", "header_timeout", "\"3s\"");
    });
    let origin = Origin::https();
    let authority = format!("bank.test:{}", origin.port());
    let mut frames = gate.frames_to(place, "127.0.0.1");
    let window = [&[0, 4][..], &[0; 4]].concat(); // SETTINGS_INITIAL_WINDOW_SIZE
    frames.send(kind::SETTINGS, 0, 0, &window);
    let connect = block(&[(":method", "CONNECT"), (":authority", &authority)]);
    frames.send(kind::HEADERS, flag::END_HEADERS, 1, &connect);
    assert_eq!(frames.end(1), End::Answered);
    let other = ServerName::try_from("other.test").unwrap();
    let mut session = ClientConnection::new(client_config(&gate.ca_pem()), other).unwrap();
    let mut hello = Vec::new();
    session.write_tls(&mut hello).unwrap();
    frames.send(kind::DATA, 0, 1, &hello);
    let port = origin.port();
    let record = gate.record("the tunnel", |record| record["port"] == port);
    has!(record, {"error": "tls_protocol_error", "reason": "misdirected"});
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}
