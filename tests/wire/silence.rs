//! Silent tunnels and WebSockets: they end, and make room before that. Page: `docs/networks.md`.

use std::time::Instant;

use crate::opaque::{SWITCH, upgrade};
use crate::support::{CrawlgateProcess, Origin, Reply, Wire, eventually, wait_until};

/// Opens a WebSocket to an echo, and sends a message.
#[track_caller]
fn socket(gate: &CrawlgateProcess, origin: &Origin, path: &str) -> Wire {
    let host = origin.authority();
    let (mut wire, target) = gate.open(&origin.url(path));
    assert_eq!(wire.exchange(upgrade(&target, &host)).status, 101);
    says(&mut wire);
    wire
}

#[track_caller]
fn says(wire: &mut Wire) {
    wire.send("hello");
    assert_eq!(wire.read(5), b"hello");
}

/// Opens an opaque tunnel to an origin that echoes, and sends a message.
#[track_caller]
fn tunnel(gate: &CrawlgateProcess, origin: &Origin) -> Wire {
    let mut wire = gate.connect();
    assert_eq!(wire.tunnel(&format!("bank.test:{}", origin.port())).status, 200);
    let mut wire = wire.tls("bank.test", crate::support::origin_ca_pem());
    wire.exchange(upgrade("/socket", "bank.test")).is(101);
    says(&mut wire);
    wire
}

fn echo(origin: Origin) -> Origin {
    origin.on("/socket", [Reply::raw(SWITCH).echo()])
}

fn gate(more: &[(&str, &str)]) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
        setup.set("tls", "tunnel", "[\"bank.test\"]");
        for (key, value) in more {
            setup.set("limits", key, value);
        }
    })
}

#[test]
fn what_says_nothing_ends() {
    let gate = gate(&[("tunnel_idle_timeout", "\"4s\"")]);
    let (plain, tls) = (echo(Origin::http()), echo(Origin::https()));
    let began = Instant::now();
    let mut all =
        [socket(&gate, &plain, "/socket"), socket(&gate, &tls, "/socket"), tunnel(&gate, &tls)];
    for wire in &mut all {
        assert!(wire.is_closed());
    }
    assert!(began.elapsed().as_secs() >= 4);
    let port = tls.port();
    for record in [
        gate.record_of(&plain.url("/socket")),
        gate.record_of(&tls.url("/socket")),
        gate.record("the tunnel", |record| record["via"] == "tunnel" && record["port"] == port),
    ] {
        has!(record, {"error": "connection_read_timeout", "verdict": "allow"});
    }
    // The origins' connections end, too: those of each robots.txt, and the silent ones.
    wait_until("the connections to end", || plain.ended() == 2 && tls.ended() >= 3);
}

#[test]
fn what_is_silent_makes_room_at_each_limit() {
    // Each limit takes seconds of silence.
    std::thread::scope(|scope| {
        for limit in "connections requests requests_per_client connections_per_client".split(' ') {
            scope.spawn(move || makes_room_at(limit));
        }
    });
}

fn makes_room_at(limit: &str) {
    // A quarter of the time-out makes a connection silent.
    let gate = gate(&[("tunnel_idle_timeout", "\"20s\""), (limit, "2")]);
    let (one, two) = (echo(Origin::http()), echo(Origin::https()));
    let mut first = socket(&gate, &one, "/socket");
    let mut second = tunnel(&gate, &two);
    let page = Origin::http();
    let refused = gate.get(&page.url("/page"));
    assert!(matches!(refused.status, 429 | 503), "{limit}: {refused:?}");
    eventually("one connection to be silent", || {
        says(&mut second);
        (gate.get(&page.url("/page")).status == 200).then_some(())
    });
    assert!(first.is_closed(), "{limit}");
    has!(gate.record_of(&one.url("/socket")), {"error": "connection_limit_reached"}, "{limit}");
    // The connection that was active last is still there.
    says(&mut second);
}
