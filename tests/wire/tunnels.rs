//! CONNECT: intercepted, opaque, plain inside, and everything that does not agree with itself.

use serde_json::json;

use crate::support::{Certificate, Gate, Origin, RULES, Reply, origin_ca_pem};

#[test]
fn the_certificate_is_for_the_host_that_was_asked_and_chains_to_our_ca() {
    let gate = Gate::start();
    let origin = Origin::https().robots(RULES);
    for host in ["site.test", "www.site.test", "127.0.0.1"] {
        let authority = format!("{host}:{}", origin.port());
        let mut wire = gate.intercept(&authority, host);
        wire.get_inside(&authority, "/open")
            .is_origins(200, "page /open");
        gate.denied(&wire.get_inside(&authority, "/private"));
    }
    assert_eq!(
        origin.last("/open").head.field("host"),
        Some(format!("127.0.0.1:{}", origin.port()))
    );
}

#[test]
fn a_connect_answer_has_no_body_and_no_length() {
    let (gate, origin) = (Gate::start(), Origin::https());
    let answer = gate.connect().tunnel(&origin.authority());
    assert_eq!(answer.status, 200);
    for name in ["content-length", "transfer-encoding"] {
        assert_eq!(answer.field(name), None, "RFC 9110 9.3.6: {name}");
    }
}

#[test]
fn a_connect_that_cannot_be_read_is_refused_and_closed() {
    let gate = Gate::start();
    let cases = [
        "site.test",
        "site.test:",
        "site.test:0",
        "site.test:99999",
        "site.test:x",
        ":443",
        "http://site.test:443/",
        "/",
        "a b:1",
    ];
    for authority in cases {
        let mut wire = gate.connect();
        let answer = wire.exchange(format!("CONNECT {authority} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(answer.status, 400, "{authority}: {answer:?}");
        assert!(
            wire.is_closed(),
            "{authority}: optimistic octets would become a request"
        );
    }
}

#[test]
fn connect_authority_server_name_and_inner_host_must_agree() {
    let gate = Gate::start();
    let (a, b) = (Origin::https().robots(RULES), Origin::https().robots(RULES));
    let connect = |sni: &str| {
        let mut wire = gate.connect();
        assert_eq!(wire.tunnel(&a.authority()).status, 200);
        wire.tls_as(sni)
    };
    // Another server name: refused in the handshake, or by 421 to what follows.
    if let Ok(mut wire) = connect("other.test") {
        gate.refused(&wire.get_inside("other.test", "/open"), 421, "misdirected");
    } else {
        gate.record("a handshake for another name", |record| {
            record["reason"] == "misdirected"
        });
    }
    let other_port = b.authority();
    for host in [
        "other.test",
        &other_port,
        "other.test:443",
        "",
        "site.test:1",
    ] {
        let mut wire = connect("site.test").unwrap();
        let answer = wire.get_inside(host, "/open");
        if host.is_empty() {
            assert!(matches!(answer.status, 400 | 421), "{answer:?}");
        } else {
            assert_eq!(answer.status, 421, "{host}: {answer:?}");
            gate.refused(&answer, 421, "misdirected");
        }
    }
    let mut wire = connect("site.test").unwrap();
    let target = format!("https://{}/open", b.authority());
    let answer = wire.exchange(format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: TestBot/1.0\r\n\r\n",
        a.authority()
    ));
    gate.refused(&answer, 421, "misdirected");
    assert_eq!((a.seen_but_robots(), b.seen().len()), (Vec::new(), 0));
}

#[test]
fn spellings_of_the_same_host_agree() {
    let (gate, origin) = (Gate::start(), Origin::https());
    let mut wire = gate.connect();
    assert_eq!(
        wire.tunnel(&format!("SITE.test.:{}", origin.port())).status,
        200
    );
    let mut wire = wire.tls_as("Site.Test").unwrap();
    wire.get_inside(&origin.authority().to_uppercase(), "/a")
        .is_origins(200, "page /a");
    let url = origin.url("/b");
    wire.exchange(format!(
        "GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n",
        origin.authority()
    ))
    .is_origins(200, "page /b");
    assert_eq!(
        origin.last("/b").head.field("host"),
        Some(origin.authority())
    );
    // Without its port the field is what clients of a default port send; here it names another origin.
    assert_eq!(wire.get_inside("site.test", "/c").status, 421);
}

#[test]
fn plain_http_inside_a_connect_is_judged_as_http() {
    let (gate, origin) = (Gate::start(), Origin::with_rules(RULES));
    let mut wire = gate.connect();
    assert_eq!(wire.tunnel(&origin.authority()).status, 200);
    wire.get_inside(&origin.authority(), "/open")
        .is_origins(200, "page /open");
    let record = gate.denied(&wire.get_inside(&origin.authority(), "/private"));
    assert_eq!(
        (&record["scheme"], &record["url"]),
        (&json!("http"), &json!(origin.url("/private"))),
        "{record}"
    );
    gate.refused(&wire.get_inside("other.test", "/open"), 421, "misdirected");
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

#[test]
fn anything_else_inside_a_connect_is_refused() {
    let (gate, origin) = (Gate::start(), Origin::http());
    let junk: [&[u8]; 5] = [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        &[0; 64],
        &[0xff; 64],
        b"\x16\x03\x01\xff\xff\x02junk",
        b"EHLO x\r\n\r\n",
    ];
    for bytes in junk {
        let mut wire = gate.connect();
        assert_eq!(wire.tunnel(&origin.authority()).status, 200);
        wire.send(bytes).half_close();
        wire.drain();
    }
    let mut nested = gate.connect();
    nested.tunnel(&origin.authority());
    let answer = nested.tunnel(&origin.authority());
    assert!(
        answer.status >= 400,
        "a CONNECT inside a CONNECT: {answer:?}"
    );
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn an_upstream_that_cannot_prove_its_name_is_a_502_in_the_tunnel() {
    let (gate, origin) = (Gate::start(), Origin::https());
    gate.get(&origin.url("/before"))
        .is_origins(200, "page /before");
    let pages = Origin::https()
        .on("/robots.txt", [Reply::ok("").close()])
        .on("/before", [Reply::ok("").close()]);
    gate.get(&pages.url("/before"));
    for certificate in [
        Certificate::Untrusted,
        Certificate::Expired,
        Certificate::OtherName,
    ] {
        pages.change_certificate(certificate);
        let answer = gate.get(&pages.url("/after"));
        assert_eq!(answer.status, 502, "{certificate:?}: {answer:?}");
        let status = answer.field("proxy-status").unwrap();
        assert!(status.contains("error=tls_certificate_error"), "{status}");
        let record = gate.record_of(&pages.url("/after"));
        assert_eq!(
            (&record["status"], &record["error"]),
            (&json!(502), &json!("tls_certificate_error")),
            "{record}"
        );
    }
    assert!(!pages.seen_but_robots().contains(&"GET /after".to_owned()));
}

/// A gate that does not intercept `bank.test`.
fn tunnelling() -> Gate {
    Gate::with(|setup| {
        setup.set("tls", "tunnel", "[\"bank.test\"]");
    })
}

#[test]
fn an_opaque_tunnel_is_for_origins_that_disallow_nothing() {
    let gate = tunnelling();
    for origin in [
        Origin::https(),
        Origin::https().robots("User-agent: *\nAllow: /\nDisallow:\n"),
    ] {
        let authority = format!("bank.test:{}", origin.port());
        let mut wire = gate.connect();
        let answer = wire.tunnel(&authority);
        assert_eq!(answer.status, 200, "{answer:?}");
        let mut wire = wire.tls("bank.test", origin_ca_pem());
        wire.get_inside(&authority, "/inside")
            .is_origins(200, "page /inside");
        drop(wire);
        let port = origin.port();
        let record = gate.record("the tunnel", |record| {
            record["via"] == "tunnel" && record["port"] == port
        });
        assert_eq!(
            (&record["verdict"], &record["method"]),
            (&json!("allow"), &json!("CONNECT")),
            "{record}"
        );
        assert!(
            record["bytes_out"].as_u64().unwrap() > 0 && record["bytes_in"].as_u64().unwrap() > 0,
            "{record}"
        );
    }
}

#[test]
fn an_opaque_tunnel_is_refused_where_one_rule_disallows_anything_or_nothing_is_known() {
    let gate = tunnelling();
    let cases = [
        (
            "one disallowed page",
            Origin::https().robots(RULES),
            "opaque_tunnel",
        ),
        (
            "a disallow inside an allow",
            Origin::https().robots("User-agent: *\nAllow: /\nDisallow: /x$\n"),
            "opaque_tunnel",
        ),
        (
            "unreachable",
            Origin::https().on("/robots.txt", [Reply::status(500, "")]),
            "robots_unreachable",
        ),
    ];
    for (case, origin, reason) in cases {
        let mut wire = gate.connect();
        let answer = wire.tunnel(&format!("bank.test:{}", origin.port()));
        assert_eq!(answer.status, 403, "{case}: {answer:?}");
        let found = answer.problem()["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(
            found == reason || found == "opaque_tunnel",
            "{case}: {found}"
        );
        let record = gate.refused(&answer, 403, &found);
        assert_eq!(record["via"], "tunnel", "{record}");
        wire.send("GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            wire.is_closed(),
            "{case}: a refused CONNECT closes the connection"
        );
        assert_eq!(origin.seen_but_robots(), [""; 0], "{case}");
    }
    let named = Origin::https().robots("User-agent: OtherBot\nDisallow: /\n");
    let answer = gate
        .connect()
        .tunnel(&format!("bank.test:{}", named.port()));
    assert_eq!(
        answer.status, 200,
        "the rules of others do not matter: {answer:?}"
    );
}

#[test]
fn a_websocket_is_judged_then_relayed() {
    let gate = Gate::start();
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
    for origin in [Origin::http(), Origin::https()] {
        let origin = origin
            .robots(RULES)
            .on("/socket", [Reply::raw(switch).echo()]);
        let ask = |path: &str| {
            let (mut wire, target) = if origin.url("").starts_with("https") {
                (
                    gate.intercept(&origin.authority(), "site.test"),
                    path.to_owned(),
                )
            } else {
                (gate.connect(), origin.url(path))
            };
            let fields = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n";
            let host = origin.authority();
            let answer = wire.exchange(format!(
                "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n"
            ));
            (wire, answer)
        };
        let (_, answer) = ask("/private/socket");
        gate.denied(&answer);
        let (mut wire, answer) = ask("/socket");
        assert_eq!(answer.status, 101, "{answer:?}");
        assert_eq!(answer.field("upgrade").as_deref(), Some("websocket"));
        let seen = origin.last("/socket").head;
        assert_eq!(seen.field("upgrade").as_deref(), Some("websocket"));
        assert!(
            seen.field("connection")
                .unwrap()
                .to_ascii_lowercase()
                .contains("upgrade")
        );
        for message in [
            &b"\x81\x05hello"[..],
            b"GET /private HTTP/1.1\r\n\r\n",
            &[0; 100_000],
        ] {
            wire.send(message);
            assert_eq!(wire.read(message.len()), message);
        }
        drop(wire);
        let record = gate.record_of(&origin.url("/socket"));
        assert_eq!(
            (&record["status"], &record["verdict"]),
            (&json!(101), &json!("allow")),
            "{record}"
        );
        let (_, refused) = ask("/no-socket");
        refused.is_origins(200, "page /no-socket");
        assert_eq!(origin.seen_but_robots(), ["GET /socket", "GET /no-socket"]);
    }
}
