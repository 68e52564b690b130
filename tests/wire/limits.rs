//! Limits on a client: heads, time, connections. Page: `docs/operating.md`.

use std::net::{SocketAddr, UdpSocket};

use crate::support::{CrawlgateProcess, Latch, Origin, Response, Wire, eventually, wait_until};

/// Returns an origin that answers `/slow` when the latch opens.
fn slow_origin(latch: &Latch) -> Origin {
    Origin::http().holds("/slow", latch)
}

/// Returns a connection with a request in progress.
fn busy(gate: &CrawlgateProcess, origin: &Origin) -> Wire {
    gate.sends("GET", &origin.url("/slow"), "\r\n")
}

/// Asserts that an answer has `Retry-After`, and that the connection then continues or ends as promised.
#[track_caller]
fn told_to_come_back(
    gate: &CrawlgateProcess,
    wire: &mut Wire,
    answer: &Response,
    status: u16,
    reason: &str,
) {
    gate.refused(answer, status, reason);
    answer.field_is("retry-after", Some("1"));
    let closes = answer.field("connection").as_deref() == Some("close");
    assert!(!closes || wire.is_closed());
}

/// GETs a page as soon as there is room: a request keeps its slot for a moment after its answer.
#[track_caller]
fn get_once_there_is_room(gate: &CrawlgateProcess, origin: &Origin, path: &str) {
    let url = origin.url(path);
    let answer = eventually("room for a request", || {
        let answer = gate.get(&url);
        (answer.status != 503 && answer.status != 429).then_some(answer)
    });
    answer.is_origins(200, &format!("page {path}"));
}

/// Opens a tunnel as soon as there is room for it.
#[track_caller]
fn tunnel_once_there_is_room(gate: &CrawlgateProcess, authority: &str) -> Wire {
    eventually("room for a tunnel", || {
        let mut wire = gate.connect();
        (wire.tunnel(authority).status == 200).then_some(wire)
    })
}

#[test]
fn the_longest_idle_connection_makes_room() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("limits", "connections", "2"));
    let origin = Origin::http();
    let (mut first, mut second) = (gate.connect(), gate.connect());
    first.passes(&origin.url("/1"));
    second.passes(&origin.url("/2"));
    first.passes(&origin.url("/3"));
    let mut third = gate.connect();
    third.passes(&origin.url("/4"));
    assert!(second.is_closed(), "the second connection was idle longest");
    first.passes(&origin.url("/5"));
    // A reload at the limit takes the new number, and ends no connection.
    gate.reload(|setup| setup.set("limits", "connections", "3"));
    gate.connect().get(&origin.url("/6")).is_origins(200, "page /6");
    first.passes(&origin.url("/7"));
    third.passes(&origin.url("/8"));
}

#[test]
fn a_new_connection_is_refused_if_none_is_idle() {
    let gate = CrawlgateProcess::with(|setup| setup.set("limits", "connections", "2"));
    let latch = Latch::new();
    let (origin, other) = (slow_origin(&latch), Origin::http());
    let mut all = [busy(&gate, &origin), busy(&gate, &origin)];
    latch.arrivals(2);
    let mut third = gate.connect();
    let answer = third.get(&other.url("/3"));
    answer.field_is("connection", Some("close"));
    told_to_come_back(&gate, &mut third, &answer, 503, "overloaded");
    let mut tunnel = gate.connect();
    let answer = tunnel.tunnel(&other.authority());
    told_to_come_back(&gate, &mut tunnel, &answer, 503, "overloaded");
    // A request for another protocol gets the same answer and does not wait.
    let mut switching = gate.connect();
    let answer = switching.exchange(format!(
        "GET {} HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        other.url("/4")
    ));
    told_to_come_back(&gate, &mut switching, &answer, 503, "overloaded");
    // A connection without a request is not waited for.
    gate.connect().drain();
    assert_eq!(other.connections(), 0);
    latch.open();
    for wire in &mut all {
        assert_eq!(wire.response("GET").status, 204);
    }
    get_once_there_is_room(&gate, &other, "/5");
}

#[test]
fn a_tunnel_keeps_its_connection_slot() {
    let gate = CrawlgateProcess::with(|setup| setup.set("limits", "connections", "1"));
    let latch = Latch::new();
    let origin = Origin::https().holds("/slow", &latch);
    let plain = Origin::http();
    let authority = origin.authority();
    let mut tunnel = gate.intercept(&authority, "site.test");
    tunnel.passes_inside(&authority, "/1");
    tunnel.send(format!("GET /slow HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
    latch.arrivals(1);
    gate.refuses(&plain.url("/2"), 503, "overloaded");
    assert_eq!(plain.connections(), 0, "a request was served beside the tunnel");
    latch.open();
    assert_eq!(tunnel.response("GET").status, 204);
    // Now no request is in progress in the tunnel.
    get_once_there_is_room(&gate, &plain, "/3");
    assert!(tunnel.is_closed());
}

#[test]
fn an_idle_tunnel_makes_room() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "connections", "1");
        setup.set("limits", "requests", "1");
    });
    let origin = Origin::http();
    let authority = origin.authority();
    let mut tunnel = tunnel_once_there_is_room(&gate, &authority);
    get_once_there_is_room(&gate, &origin, "/1");
    assert!(tunnel.is_closed());
    let mut half = tunnel_once_there_is_room(&gate, &authority);
    half.send(b"\x16\x03\x01\x02\x00\x01");
    get_once_there_is_room(&gate, &origin, "/2");
    assert!(half.is_closed());
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"]);
}

#[test]
fn an_opaque_tunnel_counts_as_a_request_while_it_is_open() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "requests", "1");
        setup.set("tls", "tunnel", "[\"*\"]");
    });
    let (origin, plain) = (Origin::https(), Origin::http());
    let tunnel = gate.tunnels(&origin.authority());
    gate.refuses(&plain.url("/1"), 503, "overloaded");
    drop(tunnel);
    let url = plain.url("/2");
    gate.until(200, &url);
}

#[test]
fn a_client_has_no_more_connections_than_it_may_have() {
    let gate = CrawlgateProcess::with(|setup| setup.set("limits", "connections_per_client", "2"));
    let latch = Latch::new();
    let (origin, other) = (slow_origin(&latch), Origin::http());
    let mut idle = gate.connect();
    idle.passes(&other.url("/1"));
    let mut all = vec![busy(&gate, &origin)];
    latch.arrivals(1);
    // The client's own idle connection makes room first.
    all.push(busy(&gate, &origin));
    latch.arrivals(2);
    assert!(idle.is_closed());
    let mut third = gate.connect();
    let answer = third.get(&other.url("/3"));
    answer.field_is("connection", Some("close"));
    told_to_come_back(&gate, &mut third, &answer, 429, "client_limit");
    assert_eq!(other.seen_but_robots(), ["GET /1"]);
    latch.open();
    for wire in &mut all {
        assert_eq!(wire.response("GET").status, 204);
    }
    get_once_there_is_room(&gate, &other, "/4");
}

#[test]
fn no_more_requests_are_in_progress_than_allowed() {
    for (key, status, reason) in
        [("requests", 503, "overloaded"), ("requests_per_client", 429, "client_limit")]
    {
        let gate = CrawlgateProcess::with(|setup| setup.set("limits", key, "1"));
        let latch = Latch::new();
        let (origin, other) = (slow_origin(&latch), Origin::http());
        let mut first = busy(&gate, &origin);
        latch.arrivals(1);
        let mut second = gate.connect();
        let answer = second.get(&other.url("/2"));
        told_to_come_back(&gate, &mut second, &answer, status, reason);
        assert_eq!(other.connections(), 0, "{key}");
        latch.open();
        assert_eq!(first.response("GET").status, 204);
        // The connection continues, and refused requests are not counted.
        let url = other.url("/3");
        wait_until("a place to be free", || second.get(&url).status == 200);
    }
}

#[test]
fn a_client_may_have_limits_of_its_own() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "requests_per_client", "1");
        setup.tables(
            "[[client]]\nname = 'news'\nnetworks = '127.0.0.1'\nrequests = 2\nconnections = 2\n",
        );
    });
    let latch = Latch::new();
    let (origin, other) = (slow_origin(&latch), Origin::http());
    let mut all = [busy(&gate, &origin), busy(&gate, &origin)];
    latch.arrivals(2);
    let mut third = gate.connect();
    let answer = third.get(&other.url("/3"));
    told_to_come_back(&gate, &mut third, &answer, 429, "client_limit");
    has!(gate.record_of(&other.url("/3")), {"client.name": "news"});
    latch.open();
    for wire in &mut all {
        assert_eq!(wire.response("GET").status, 204);
    }
    assert_eq!(other.connections(), 0);
}

#[test]
fn the_connections_of_a_client_that_is_known_without_a_request_are_counted_at_once() {
    let network = |connections: u32| {
        format!("[[client]]\nname = 'news'\nnetworks = '127.0.0.1'\nconnections = {connections}\n")
    };
    let origin = Origin::http();
    let fewer = CrawlgateProcess::with(|setup| {
        setup.set("limits", "connections_per_client", "10");
        setup.tables(&network(2));
    });
    let mut all = [fewer.connect(), fewer.connect()];
    for wire in &mut all {
        wire.passes(&origin.url("/page"));
    }
    // A connection without a request still counts.
    let _third = fewer.connect();
    all[0].drain();
    all[1].passes(&origin.url("/page"));

    let more = CrawlgateProcess::with(|setup| {
        setup.set("limits", "connections_per_client", "1");
        setup.tables(&network(3));
    });
    let mut all = [more.connect(), more.connect(), more.connect()];
    for wire in all.iter_mut().rev() {
        wire.passes(&origin.url("/page"));
    }
}

#[test]
fn listeners_share_the_connection_slots() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("listen", "address", "[\"127.0.0.1:0\", \"127.0.0.1:0\"]");
        setup.set("limits", "connections", "1");
    });
    let latch = Latch::new();
    let (origin, other) = (slow_origin(&latch), Origin::http());
    let said = eventually("both listeners", || {
        let said = gate.said();
        (said.matches("listening on ").count() == 2).then_some(said)
    });
    let addresses: Vec<SocketAddr> = said
        .lines()
        .filter_map(|line| line.split("listening on ").nth(1)?.trim().parse().ok())
        .collect();
    let mut first = Wire::connect(addresses[0]);
    first.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/slow")));
    latch.arrivals(1);
    let answer = Wire::connect(addresses[1]).get(&other.url("/page"));
    gate.refused(&answer, 503, "overloaded");
    latch.open();
    assert_eq!(first.response("GET").status, 204);
    // A request keeps its slot for a moment after its answer.
    let url = other.url("/page");
    wait_until("room at the second listener", || {
        Wire::connect(addresses[1]).get(&url).status == 200
    });
}

#[test]
fn only_crawlers_of_the_allowed_networks_are_served() {
    // An address of this machine that is not loopback, if there is one. The look-up sends nothing.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let outward = socket.connect("198.51.100.1:9").and_then(|()| socket.local_addr());
    let own = or_skip!(outward.ok().map(|address| address.ip()));
    let origin = Origin::http();
    for (allow, served) in [("198.51.100.0/24", false), (format!("{own}/32").as_str(), true)] {
        let gate = CrawlgateProcess::with(|setup| {
            setup.set("listen", "address", "\"0.0.0.0:0\"");
            setup.set("listen", "allow", &format!("[\"{allow}\"]"));
        });
        let mut wire = Wire::connect(SocketAddr::new(own, gate.address.port()));
        let url = origin.url("/page");
        wire.send(format!("GET {url} HTTP/1.0\r\nHost: x\r\n\r\n"));
        assert_eq!(wire.drain() > 0, served, "{own} where {allow} is allowed");
        gate.get(&url).is_origins(200, "page /page");
    }
}

#[test]
fn a_request_with_too_long_a_hold_gets_a_retry_after() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "requests_per_second", "0.05");
        // The fetch of robots.txt counts as one.
        setup.set("pace", "burst", "2");
        setup.set("pace", "max_hold", "\"1s\"");
    });
    let (origin, other) = (Origin::http(), Origin::http());
    gate.passes(&origin.url("/1"));
    let answer = gate.get(&origin.url("/2"));
    gate.refused(&answer, 429, "paced");
    let seconds: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&seconds), "{seconds}");
    gate.passes(&other.url("/3"));
    assert_eq!(origin.seen_but_robots(), ["GET /1"]);
}
