//! Traffic that the gate cannot read: opaque tunnels, and protocols that a connection switches to.
//! Page: `docs/networks.md`.

use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply, Wire, origin_ca_pem};

/// Starts a gate that does not intercept `bank.test`.
fn tunnelling() -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| setup.set("tls", "tunnel", "[\"bank.test\"]"))
}

#[test]
fn an_opaque_tunnel_is_for_origins_that_disallow_nothing() {
    let gate = tunnelling();
    for origin in [Origin::https(), Origin::https().robots("User-agent: *\nAllow: /\nDisallow:\n")]
    {
        let authority = format!("bank.test:{}", origin.port());
        let mut wire = gate.tunnels(&authority).tls("bank.test", origin_ca_pem());
        wire.passes_inside(&authority, "/inside");
        drop(wire);
        let port = origin.port();
        let record =
            gate.record("the tunnel", |record| record["via"] == "tunnel" && record["port"] == port);
        has!(record, {"verdict": "allow", "method": "CONNECT"});
        assert!(
            record["bytes_out"].as_u64().unwrap() > 0 && record["bytes_in"].as_u64().unwrap() > 0,
            "{record}"
        );
    }
}

#[test]
fn an_opaque_tunnel_is_refused_where_one_rule_disallows_anything_or_nothing_is_known() {
    let gate = tunnelling();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("one disallowed page", Origin::https().robots(RULES), (403, "opaque_tunnel")),
        (
            "a disallow inside an allow",
            Origin::https().robots("User-agent: *\nAllow: /\nDisallow: /x$\n"),
            (403, "opaque_tunnel"),
        ),
        ("unreachable", Origin::https().on("/robots.txt", [Reply::status(500, "")]), (503, "robots_unreachable")),
    ];
    for (case, origin, (status, reason)) in cases {
        let mut wire = gate.connect();
        let answer = wire.tunnel(&format!("bank.test:{}", origin.port()));
        assert_eq!(answer.problem()["reason"], reason, "{case}: {answer:?}");
        has!(gate.refused(&answer, status, reason), {"via": "tunnel"});
        wire.send("GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(wire.is_closed(), "{case}: a refused CONNECT closes the connection");
        assert_eq!(origin.seen_but_robots(), [""; 0], "{case}");
    }
    let named = Origin::https().robots("User-agent: OtherBot\nDisallow: /\n");
    let answer = gate.connect().tunnel(&format!("bank.test:{}", named.port()));
    assert_eq!(answer.status, 200, "the rules of others do not matter: {answer:?}");
}

#[test]
fn an_open_tunnel_ends_when_it_would_be_denied() {
    let gate = tunnelling();
    let origin = Origin::https();
    let authority = format!("bank.test:{}", origin.port());
    let other = Origin::https();
    let mut wire = gate.tunnels(&authority).tls("bank.test", origin_ca_pem());
    wire.passes_inside(&authority, "/inside");
    let mut bystander = gate.connect();
    let elsewhere = format!("bank.test:{}", other.port());
    assert_eq!(bystander.tunnel(&elsewhere).status, 200);
    let mut bystander = bystander.tls("bank.test", origin_ca_pem());
    gate.setup.overrides(&format!("https://{authority}"), "/x", "deny");
    let port = origin.port();
    let record = gate
        .record("the tunnel's end", |record| record["via"] == "tunnel" && record["port"] == port);
    assert_eq!(record["error"], "http_request_denied", "{record}");
    bystander.passes_inside(&elsewhere, "/inside");
    drop(wire);
}

#[test]
fn an_opaque_tunnel_carries_tls_for_its_host_and_nothing_else() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("tls", "tunnel", "[\"bank.test\", \"127.0.0.1\"]");
        setup.set("limits", "header_timeout", "\"3s\"");
    });
    let plain = b"GET /inside HTTP/1.1\r\nHost: bank.test\r\n\r\n";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("another host", "bank.test", Some("other.test"), "misdirected", "tls_protocol_error"),
        ("no server name", "bank.test", Some("127.0.0.1"), "misdirected", "tls_protocol_error"),
        ("a host where an address is", "127.0.0.1", Some("other.test"), "misdirected", "tls_protocol_error"),
        ("plain HTTP", "bank.test", None, "opaque_tunnel", "tls_protocol_error"),
    ];
    for (case, host, name, reason, error) in cases {
        let origin = Origin::https();
        let authority = format!("{host}:{}", origin.port());
        let mut wire = gate.tunnels(&authority);
        match name {
            Some(name) => assert!(wire.tls_as(name).is_err(), "{case}"),
            None => assert!(wire.send(plain).is_closed(), "{case}"),
        }
        let port = origin.port();
        let record =
            gate.record(case, |record| record["via"] == "tunnel" && record["port"] == port);
        has!(record, {
            "verdict": "deny", "reason": reason, "error": error, "opaque": true,
        }, "{case}");
        assert_eq!(origin.seen_but_robots(), [""; 0], "{case}");
        let of_it = gate.records();
        let of_it = of_it.iter().filter(|record| record["port"] == port).count();
        assert_eq!(of_it, 1, "{case}");
    }
    // An address is not a server name (RFC 6066 3).
    let origin = Origin::https();
    let authority = format!("127.0.0.1:{}", origin.port());
    let wire = gate.tunnels(&authority);
    let mut wire = wire.tls_as("127.0.0.1").unwrap();
    wire.passes_inside(&authority, "/inside");
    // A silent tunnel ends, and so does one with half a ClientHello.
    for sent in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let origin = Origin::https();
        let mut wire = gate.connect();
        let authority = format!("bank.test:{}", origin.port());
        assert_eq!(wire.tunnel(&authority).status, 200);
        assert!(wire.send(sent).is_closed());
        let port = origin.port();
        let record = gate.record("the silence", |record| record["port"] == port);
        assert_eq!(record["error"], "connection_read_timeout", "{record}");
    }
}

#[test]
fn report_mode_lets_other_protocols_pass_and_records_it() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("tls", "tunnel", "[\"bank.test\"]");
        setup.set("policy", "mode", "\"report\"");
    });
    let origin = Origin::http();
    let authority = format!("bank.test:{}", origin.port());
    let mut wire = gate.tunnels(&authority);
    wire.passes_inside(&authority, "/inside");
    drop(wire);
    let record = gate.record("the tunnel", |record| record["reason"] == "opaque_tunnel");
    assert_eq!(record["mode"], "report", "{record}");
}

pub(crate) const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";

/// Returns a request to switch to the WebSocket protocol.
pub(crate) fn upgrade(target: &str, host: &str) -> String {
    let fields = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n";
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n")
}

/// Opens a WebSocket at the `/socket` of a plain origin.
#[track_caller]
pub(crate) fn websocket(gate: &CrawlgateProcess, origin: &Origin) -> Wire {
    let mut wire = gate.connect();
    wire.exchange(upgrade(&origin.url("/socket"), &origin.authority())).is(101);
    wire
}

#[test]
fn a_websocket_is_judged_then_relayed() {
    let gate = CrawlgateProcess::start();
    for origin in [Origin::http(), Origin::https()] {
        let origin = origin.robots(RULES).on("/socket", [Reply::raw(SWITCH).echo()]);
        let host = origin.authority();
        let ask = |path: &str| -> (Wire, _) {
            let (mut wire, target) = gate.open(&origin.url(path));
            let answer = wire.exchange(upgrade(&target, &host));
            (wire, answer)
        };
        let (_, answer) = ask("/private/socket");
        gate.denied(&answer);
        let (mut wire, answer) = ask("/socket");
        assert_eq!(answer.status, 101, "{answer:?}");
        answer.field_is("upgrade", Some("websocket"));
        answer.field_is("sec-websocket-accept", Some("x"));
        let seen = origin.last("/socket").head;
        seen.field_is("upgrade", Some("websocket"));
        assert!(seen.field("connection").unwrap().to_ascii_lowercase().contains("upgrade"));
        // Text in the form of a request is not a request inside.
        for message in [&b"\x81\x05hello"[..], b"GET /private HTTP/1.1\r\n\r\n", &[0; 100_000]] {
            wire.send(message);
            assert_eq!(wire.read(message.len()), message);
        }
        drop(wire);
        let record = gate.record_of(&origin.url("/socket"));
        has!(record, {"status": 101, "verdict": "allow"});
        assert!(record["bytes_out"].as_u64().unwrap() >= 100_000, "{record}");
        assert_eq!(origin.seen_but_robots(), ["GET /socket"]);
    }
}

#[test]
fn an_open_websocket_ends_when_its_request_would_be_denied() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules(RULES)
        .on("/socket", [Reply::raw(SWITCH).echo()])
        .on("/other", [Reply::raw(SWITCH).echo()]);
    let host = origin.authority();
    let open = |path: &str| {
        let mut wire = gate.connect();
        wire.exchange(upgrade(&origin.url(path), &host)).is(101);
        wire
    };
    let (mut wire, mut bystander) = (open("/socket"), open("/other"));
    let origin_url = format!("http://{host}");
    let words = ["add", &origin_url, "/socket", "deny"];
    let why = ["--until", "1d", "--by", "Ada", "--reason", "a letter"];
    gate.succeeds("override", &[&words[..], &why].concat());
    has!(gate.record_of(&origin.url("/socket")), {"status": 101, "error": "http_request_denied"});
    wire.drain();
    // Its path is not denied.
    bystander.send(b"still");
    assert_eq!(bystander.read(5), b"still");
}

#[test]
fn a_websocket_that_one_side_has_left_gives_back_its_slot_and_its_turn() {
    let gate = CrawlgateProcess::with(|setup| setup.set("pace", "concurrency", "1"));
    let latch = Latch::new();
    let origin = Origin::http().on("/socket", [Reply::raw(SWITCH).wait(&latch)]);
    let wire = websocket(&gate, &origin);
    // The origin does not even notice.
    drop(wire);
    gate.passes(&origin.url("/page"));
    has!(gate.record_of(&origin.url("/socket")), {"error": "client_closed"});
    latch.open();

    // The other way: the crawler does not close, although the origin has.
    let origin = Origin::http().on("/socket", [Reply::raw(SWITCH).close()]);
    let mut wire = websocket(&gate, &origin);
    gate.passes(&origin.url("/page"));
    wire.drain();
}

#[test]
fn until_the_origin_switches_what_follows_is_a_request() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules(RULES).on("/socket", [Reply::raw(SWITCH).echo()]);
    let host = origin.authority();
    let private = format!(
        "GET {} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot/1.0\r\n\r\n",
        origin.url("/private")
    );
    // The origin does not switch: the second request is judged.
    let mut wire = gate.connect();
    wire.send(upgrade(&origin.url("/page"), &host) + &private);
    wire.response("GET").is_origins(200, "page /page");
    gate.denied(&wire.response("GET"));
    // The origin switches: early octets belong to the new protocol.
    let mut wire = gate.connect();
    wire.send(upgrade(&origin.url("/socket"), &host) + "early");
    assert_eq!(wire.response("GET").status, 101);
    assert_eq!(wire.read(5), b"early");
    // A switch without a request for one is not passed on.
    let mut wire = gate.connect();
    let answer = wire.get(&origin.url("/socket"));
    assert!(answer.status == 502 && answer.is_ours(), "{answer:?}");
    assert_eq!(origin.seen_but_robots(), ["GET /page", "GET /socket", "GET /socket"]);
}

#[test]
fn a_websocket_opens_on_a_connection_that_has_carried_requests() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules(RULES).on("/socket", [Reply::raw(SWITCH).echo()]);
    let mut wire = gate.connect();
    wire.passes(&origin.url("/page"));
    gate.denied(&wire.get(&origin.url("/private")));
    wire.exchange(upgrade(&origin.url("/socket"), &origin.authority())).is(101);
    let message = b"\x81\x05he\nlo";
    wire.send(message);
    assert_eq!(wire.read(message.len()), message);
    drop(wire);
    has!(gate.record_of(&origin.url("/socket")), {"bytes_in": message.len()});
}

#[test]
fn only_a_get_without_a_body_may_switch_and_only_to_websocket() {
    let gate = CrawlgateProcess::start();
    let body = "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n";
    let other = SWITCH.replace("Upgrade: websocket", "Upgrade: h2c");
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("POST", body, "abc", SWITCH),
        ("POST", "Connection: upgrade\r\nUpgrade: websocket\r\n", "", SWITCH),
        ("GET", body, "abc", SWITCH),
        ("GET", "Connection: upgrade\r\nUpgrade: websocket\r\n", "", &*other),
    ];
    for (method, fields, sent, reply) in rows {
        let origin = Origin::http().on("/socket", [Reply::raw(reply).echo()]);
        let url = origin.url("/socket");
        let mut wire = gate.sends(method, &url, &format!("{fields}\r\n{sent}"));
        let answer = wire.response(method);
        assert!(answer.status == 502 && answer.is_ours(), "{method} {fields}: {answer:?}");
        let head = origin.last("/socket").head;
        assert_eq!(
            head.field("upgrade").is_some(),
            sent.is_empty() && method == "GET",
            "{method} {fields}"
        );
    }
}
