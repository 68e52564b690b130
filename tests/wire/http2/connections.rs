//! Connections: where HTTP/2 is spoken, and how a connection ends.

use std::net::TcpStream;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use http::Request;
use rustix::process::Signal;

use super::{TLS, inside, limited, listening};
use crate::support::http2::get;
use crate::support::http2_frames::{End, Frames, flag, get_fields, kind};
use crate::support::{
    CrawlgateProcess, Http2, Latch, Origin, RULES, Reply, Wire, client_config, wait_until,
};

#[test]
fn a_silent_connection_ends_in_order() {
    let gate = limited(&[("idle_timeout", "\"3s\"")]);
    let origin = Origin::https();
    let mut http2 = inside(&gate, &origin);
    http2.passes(&origin.url("/page"));
    http2.closed().unwrap();
}

#[test]
fn a_connection_that_leaves_ends_with_its_last_stream_and_no_sooner() {
    let (gate, latch) = (limited(&[("idle_timeout", "\"3s\"")]), Latch::new());
    let held = Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
    let origin = Origin::https().robots(RULES).on("/held", [held]);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let page = |frames: &mut Frames, stream| {
        let fields = get_fields(&authority, "/page");
        frames.request(stream, &fields).end(stream)
    };
    assert_eq!(page(&mut frames, 1), End::Answered);
    let goaway = loop {
        let (kind, _, payload) = frames.frame().expect("a GOAWAY first");
        if kind == kind::GOAWAY {
            break payload;
        }
    };
    assert_eq!(goaway[..4], 0x7fff_ffff_u32.to_be_bytes(), "a first notice");
    // Streams that the crawler sent before it read the GOAWAY; the ping that asks for its end is never answered.
    frames.request(3, &get_fields(&authority, "/held"));
    frames.request(5, &get_fields(&authority, "/held"));
    latch.arrivals(2);
    let mut stream = 7;
    let refused = loop {
        assert!(stream < 200, "the connection never refuses a stream");
        match page(&mut frames, stream) {
            End::Answered => {}
            end => break end,
        }
        stream += 2;
        sleep(Duration::from_millis(50));
    };
    assert_eq!(refused, End::Reset(7), "REFUSED_STREAM");
    latch.open();
    let mut answered = Vec::new();
    while let Some((kind, stream, _)) = frames.frame() {
        if kind == kind::HEADERS {
            answered.push(stream);
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, [3, 5], "each is answered before the connection ends");
}

#[test]
fn a_connection_in_use_is_not_idle() {
    let gate = limited(&[("idle_timeout", "\"4s\"")]);
    let origin = Origin::https();
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let begun = Instant::now();
    let mut stream = 1;
    while begun.elapsed() < Duration::from_secs(9) {
        let end = frames.request(stream, &get_fields(&authority, "/page")).end(stream);
        assert_eq!(end, End::Answered, "after {:?}", begun.elapsed());
        stream += 2;
        sleep(Duration::from_millis(150));
    }
}

#[test]
fn a_stop_lets_streams_end() {
    let (mut gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let held = Reply::silent().wait(&latch).send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let origin = Origin::https().on("/held", [held]);
    let mut http2 = inside(&gate, &origin);
    let pending = http2.begin(get(&origin.url("/held")), true).unwrap();
    latch.arrivals(1);
    gate.signal(Signal::TERM);
    wait_until("the listener to close", || TcpStream::connect(gate.address()).is_err());
    latch.open();
    http2.answer(pending).unwrap().is_origins(200, "ok");
    http2.closed().unwrap();
    assert!(gate.wait().success());
}

#[test]
fn a_stop_is_announced_and_cuts_a_stream_that_outlasts_its_grace() {
    let (mut gate, latch) = (limited(&[("drain", "\"1s\"")]), Latch::new());
    let origin = Origin::https().holds("/held", &latch);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    frames.request(1, &get_fields(&authority, "/held"));
    latch.arrivals(1);
    gate.signal(Signal::TERM);
    assert_eq!(frames.end(1), End::GoAway(0), "NO_ERROR");
    gate.wait();
    has!(gate.record_of(&origin.url("/held")), {"error": "proxy_stopped"});
    while let Some((kind, stream, _)) = frames.frame() {
        assert_ne!((kind, stream), (kind::HEADERS, 1), "an answer");
    }
    latch.open();
}

#[test]
fn the_end_of_a_connection_takes_nothing_from_a_slow_reader() {
    let mut gate = CrawlgateProcess::start();
    let length = 400_000;
    let origin = Origin::https().on("/page", [Reply::ok("x".repeat(length))]);
    let authority = origin.authority();
    let mut wire = gate.connect();
    wire.receive_little();
    assert_eq!(wire.tunnel(&authority).status, 200);
    let mut frames = gate.frames(wire, "site.test");
    let window = 1_u32 << 20;
    let setting = [&[0, 4][..], &window.to_be_bytes()].concat(); // SETTINGS_INITIAL_WINDOW_SIZE
    frames
        .send(kind::SETTINGS, 0, 0, &setting)
        .send(kind::WINDOW_UPDATE, 0, 0, &window.to_be_bytes())
        .request(1, &get_fields(&authority, "/page"));
    gate.record("all octets to be sent", |record| record["bytes_out"] == length);
    gate.signal(Signal::TERM);
    let mut octets = 0;
    while let Some((kind, stream, payload)) = frames.frame() {
        match (kind, stream) {
            (kind::DATA, 1) => {
                octets += payload.len();
                let update = 1_u32.to_be_bytes();
                frames.send(kind::WINDOW_UPDATE, 0, 0, &update);
            }
            (kind::PING, 0) => drop(frames.send(kind::PING, flag::ACK, 0, &payload)),
            _ => {}
        }
    }
    assert_eq!(octets, length);
    drop(frames);
    assert!(gate.wait().success());
}

#[test]
fn a_listener_with_tls_is_a_proxy_on_http_2() {
    let (gate, place) = listening(TLS, |_| ());
    let (plain, tls) = (Origin::http().robots(RULES), Origin::https().robots(RULES));
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    http2.passes(&plain.url("/open"));
    has!(gate.denied(&http2.get(&plain.url("/private"))), {"version": "2", "via": "plain"});
    assert_eq!(plain.seen_but_robots(), ["GET /open"]);

    let connect = Request::builder().method("CONNECT").uri(tls.authority()).body(()).unwrap();
    let mut inner = http2.tunnel(connect, "site.test", &gate.ca_pem());
    inner.passes(&tls.url("/open"));
    has!(gate.denied(&inner.get(&tls.url("/private"))), {"version": "2", "via": "intercepted"});
    assert_eq!(tls.seen_but_robots(), ["GET /open"]);
}

#[test]
fn http_2_can_be_switched_off() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("listen", "http2", "false"));
    let origin = Origin::https().robots(RULES);
    let offered = |gate: &CrawlgateProcess, offered: &[&str]| {
        let mut config = Arc::unwrap_or_clone(client_config(&gate.ca_pem()));
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let wire = gate.tunnels(&origin.authority());
        wire.handshake("site.test", Arc::new(config))
    };
    let answer =
        offered(&gate, &["h2", "http/1.1"]).unwrap().get_inside(&origin.authority(), "/open");
    answer.is_origins(200, "page /open");
    assert!(offered(&gate, &["h2"]).is_err());
    gate.wait_said("offers HTTP/2 only");
    gate.reload(|setup| setup.set("listen", "http2", "true"));
    inside(&gate, &origin).get(&origin.url("/open")).is_origins(200, "page /open");
}

#[test]
fn http_2_without_tls_is_refused_by_its_name() {
    let gate = CrawlgateProcess::start();
    let mut wire: Wire = gate.connect();
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let answer = wire.response("PRI");
    gate.refused(&answer, 505, "bad_request");
    says!(answer.problem()["detail"].as_str().unwrap(), "HTTP/2");
    assert!(wire.is_closed());
    gate.wait_said("HTTP/2 without TLS");
}
