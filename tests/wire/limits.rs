//! Bounds on what a client may take: heads, time, connections.

use std::net::{SocketAddr, UdpSocket};

use crate::support::{Gate, Origin, Wire, eventually};

#[test]
fn a_head_that_is_too_large_or_too_long_is_refused() {
    let gate = Gate::with(|setup| {
        setup.set("limits", "header_bytes", "8192");
        setup.set("limits", "uri_bytes", "1024");
    });
    let origin = Origin::http();
    let long = "x".repeat(2000);
    let cases = [
        (
            "a long target",
            origin.url(&format!("/{long}")),
            String::new(),
            414,
        ),
        (
            "a field of 10 kB",
            origin.url("/"),
            format!("X-Long: {}\r\n", "y".repeat(10_000)),
            431,
        ),
        (
            "many fields",
            origin.url("/"),
            "X-Many: y\r\n".repeat(1000),
            431,
        ),
    ];
    for (case, url, fields, status) in cases {
        let mut wire = gate.connect();
        let answer = wire.exchange(format!("GET {url} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
        assert_eq!(answer.status, status, "{case}: {answer:?}");
        assert!(answer.is_ours() && wire.is_closed(), "{case}");
    }
    gate.get(&origin.url(&format!("/{}", "x".repeat(900))))
        .is_origins(200, &format!("page /{}", "x".repeat(900)));
    assert_eq!(origin.seen_but_robots().len(), 1);
}

#[test]
fn a_head_has_its_time_and_an_idle_connection_too() {
    let gate = Gate::with(|setup| {
        setup.set("limits", "header_timeout", "\"1s\"");
        setup.set("limits", "idle_timeout", "\"1s\"");
    });
    let origin = Origin::http();
    let mut slow = gate.connect();
    slow.send(format!(
        "GET {} HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        origin.url("/")
    ));
    let answer = slow.response("GET");
    assert!(answer.status == 408 && answer.is_ours(), "{answer:?}");
    assert!(slow.is_closed());

    let mut idle = gate.connect();
    idle.get(&origin.url("/a")).is_origins(200, "page /a");
    assert!(idle.is_closed(), "an idle connection stays open");
    let mut silent = gate.connect();
    silent.drain();
    assert_eq!(origin.seen_but_robots(), ["GET /a"]);
}

#[test]
fn a_client_hello_has_its_time_too() {
    let gate = Gate::with(|setup| {
        setup.set("limits", "header_timeout", "\"1s\"");
        setup.set("limits", "idle_timeout", "\"1s\"");
    });
    let origin = Origin::https();
    for start in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut wire = gate.connect();
        assert_eq!(wire.tunnel(&origin.authority()).status, 200);
        wire.send(start);
        wire.drain();
    }
}

#[test]
fn no_more_connections_are_served_than_allowed() {
    let gate = Gate::with(|setup| {
        setup.set("limits", "connections", "2");
    });
    let origin = Origin::http();
    let mut first = gate.connect();
    first.get(&origin.url("/1")).is_origins(200, "page /1");
    let mut second = gate.connect();
    second.get(&origin.url("/2")).is_origins(200, "page /2");
    // The third waits in the kernel's queue, or is told that we are full; it is not served beside the others.
    let mut third = gate.connect();
    third.send(format!(
        "GET {} HTTP/1.1\r\nHost: x\r\n\r\n",
        origin.url("/3")
    ));
    first.get(&origin.url("/4")).is_origins(200, "page /4");
    assert!(!origin.seen_but_robots().contains(&"GET /3".to_owned()));
    drop(first);
    drop(second);
    let url = origin.url("/5");
    eventually("a place to be free", || {
        (gate.get(&url).status == 200).then_some(())
    });
}

#[test]
fn a_tunnel_keeps_the_place_of_its_connection() {
    let gate = Gate::with(|setup| {
        setup.set("limits", "connections", "1");
    });
    let origin = Origin::https();
    let mut tunnel = gate.intercept(&origin.authority(), "site.test");
    tunnel
        .get_inside(&origin.authority(), "/1")
        .is_origins(200, "page /1");
    let mut second = gate.connect();
    let plain = Origin::http();
    second.send(format!(
        "GET {} HTTP/1.1\r\nHost: x\r\n\r\n",
        plain.url("/2")
    ));
    tunnel
        .get_inside(&origin.authority(), "/3")
        .is_origins(200, "page /3");
    assert_eq!(plain.connections(), 0, "it was served beside the tunnel");
    drop(tunnel);
    second.response("GET").is_origins(200, "page /2");
}

#[test]
fn only_crawlers_of_the_allowed_networks_are_served() {
    // An address of this machine that is not loopback, where there is one. Nothing is sent to find it.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let outward = socket
        .connect("198.51.100.1:9")
        .and_then(|()| socket.local_addr());
    let Some(own) = outward.ok().map(|address| address.ip()) else {
        return;
    };
    let origin = Origin::http();
    for (allow, served) in [
        ("198.51.100.0/24", false),
        (format!("{own}/32").as_str(), true),
    ] {
        let gate = Gate::with(|setup| {
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
fn a_request_that_politeness_would_hold_too_long_is_told_to_come_back() {
    let gate = Gate::with(|setup| {
        setup.set("pace", "requests_per_second", "0.05");
        setup.set("pace", "max_hold", "\"1s\"");
    });
    let (origin, other) = (Origin::http(), Origin::http());
    gate.get(&origin.url("/1")).is_origins(200, "page /1");
    let answer = gate.get(&origin.url("/2"));
    gate.refused(&answer, 429, "paced");
    let seconds: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&seconds), "{seconds}");
    gate.get(&other.url("/3")).is_origins(200, "page /3");
    assert_eq!(origin.seen_but_robots(), ["GET /1"]);
}

#[test]
fn listeners_share_the_places() {
    let gate = Gate::with(|setup| {
        setup.set("listen", "address", "[\"127.0.0.1:0\", \"127.0.0.1:0\"]");
        setup.set("limits", "connections", "1");
    });
    let origin = Origin::http();
    let said = eventually("both listeners", || {
        let said = gate.said();
        (said.matches("listening on ").count() == 2).then_some(said)
    });
    let addresses: Vec<SocketAddr> = said
        .lines()
        .filter_map(|line| line.split("listening on ").nth(1)?.trim().parse().ok())
        .collect();
    for address in addresses {
        let mut wire = Wire::connect(address);
        wire.get(&origin.url("/page")).is_origins(200, "page /page");
    }
}
