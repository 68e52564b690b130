//! CONNECT: intercepted, opaque and plain tunnels, and requests that contradict themselves. Page: `docs/clients.md`.

use std::sync::Arc;

use crate::support::{
    Certificate, CrawlgateProcess, Origin, RULES, Reply, client_config, origin_ca_pem,
};

#[test]
fn the_certificate_is_for_the_host_that_was_asked_and_chains_to_our_ca() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https().robots(RULES));
    for host in ["site.test", "www.site.test", "127.0.0.1"] {
        let authority = format!("{host}:{}", origin.port());
        let mut wire = gate.intercept(&authority, host);
        wire.passes_inside(&authority, "/open");
        gate.denied(&wire.get_inside(&authority, "/private"));
    }
    assert_eq!(
        origin.last("/open").head.field("host"),
        Some(format!("127.0.0.1:{}", origin.port()))
    );
}

#[test]
fn a_connect_answer_has_no_body_and_no_length() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https());
    let answer = gate.connect().tunnel(&origin.authority()).is(200);
    for name in ["content-length", "transfer-encoding"] {
        assert_eq!(answer.field(name), None, "RFC 9110 9.3.6: {name}");
    }
}

#[test]
fn a_connect_that_cannot_be_read_is_refused_and_closed() {
    let gate = CrawlgateProcess::start();
    let cases = [
        "site.test",
        "site.test:",
        "site.test:0",
        "site.test:99999",
        "site.test:x",
        ":443",
        "http://site.test:443/",
        "user@site.test:443",
        "/",
    ];
    for authority in cases {
        let mut wire = gate.connect();
        let answer = wire.exchange(format!("CONNECT {authority} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(answer.status, 400, "{authority}: {answer:?}");
        assert!(wire.is_closed(), "{authority}: optimistic octets would become a request");
    }
}

#[test]
fn a_crawler_that_does_not_trust_our_ca_causes_a_warning_on_stderr() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https());
    let wire = gate.tunnels(&origin.authority());
    assert!(wire.try_tls("site.test", origin_ca_pem()).is_err());
    gate.wait_said("does not trust the local CA");
    assert_eq!(
        origin.connections(),
        0,
        "nothing is sent for a crawler that has asked for nothing yet"
    );
}

#[test]
fn a_crawler_that_offers_http_2_only_causes_one_warning_if_that_is_off() {
    let gate = CrawlgateProcess::with(|setup| setup.set("listen", "http2", "false"));
    let origin = Origin::https();
    for offered in [&["h2"][..], &["h2"], &["h2", "http/1.1"]] {
        let mut config = Arc::unwrap_or_clone(client_config(&gate.ca_pem()));
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let wire = gate.tunnels(&origin.authority());
        let shaken = wire.handshake("site.test", Arc::new(config));
        assert_eq!(shaken.is_ok(), offered.len() == 2, "{offered:?}");
    }
    gate.wait_said("offers HTTP/2 only");
    assert_eq!(gate.said().matches("offers HTTP/2 only").count(), 1);
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_connect_with_a_body_is_refused() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    for field in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
        let authority = origin.authority();
        let mut wire = gate.connect();
        let answer = wire.exchange(format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{field}\r\n\r\n"
        ));
        gate.refused(&answer, 400, "bad_request");
        assert!(wire.is_closed(), "{field}");
    }
}

#[test]
fn octets_before_the_tunnel_is_open_are_judged_like_the_rest() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let authority = origin.authority();
    let fields = format!("Host: {authority}\r\nUser-Agent: TestBot/1.0\r\n\r\n");
    let mut wire = gate.connect();
    wire.send(format!("CONNECT {authority} HTTP/1.1\r\n{fields}GET /open HTTP/1.1\r\n{fields}GET /private HTTP/1.1\r\n{fields}"));
    assert_eq!(wire.response("CONNECT").status, 200);
    wire.response("GET").is_origins(200, "page /open");
    gate.denied(&wire.response("GET"));
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

#[test]
fn connect_authority_server_name_and_inner_host_must_agree() {
    let gate = CrawlgateProcess::start();
    let (a, b) = (Origin::https().robots(RULES), Origin::https().robots(RULES));
    let connect = |sni: &str| {
        let wire = gate.tunnels(&a.authority());
        wire.tls_as(sni)
    };
    // Another server name: refused in the handshake, or by a 421 to the next request.
    if let Ok(mut wire) = connect("other.test") {
        gate.refused(&wire.get_inside("other.test", "/open"), 421, "misdirected");
    } else {
        gate.record("a handshake for another name", |record| record["reason"] == "misdirected");
    }
    let other_port = b.authority();
    for host in ["other.test", &other_port, "other.test:443", "", "site.test:1"] {
        let mut wire = connect("site.test").unwrap();
        let answer = wire.get_inside(host, "/open");
        if host.is_empty() {
            assert!(matches!(answer.status, 400 | 421), "{answer:?}");
        } else {
            assert_eq!(answer.status, 421, "{host}: {answer:?}");
            gate.refused(&answer, 421, "misdirected");
        }
    }
    for target in
        [b.url("/open"), a.url("/open").replace("https", "http"), a.url_as("other.test", "/open")]
    {
        let mut wire = connect("site.test").unwrap();
        let fields = format!("Host: {}\r\nUser-Agent: TestBot/1.0\r\n", a.authority());
        let answer = wire.exchange(format!("GET {target} HTTP/1.1\r\n{fields}\r\n"));
        assert_eq!(answer.status, 421, "{target}: {answer:?}");
        gate.refused(&answer, 421, "misdirected");
    }
    assert_eq!((a.seen_but_robots(), b.seen().len()), (Vec::new(), 0));
}

#[test]
fn spellings_of_the_same_host_agree() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https());
    let mut wire = gate.connect();
    assert_eq!(wire.tunnel(&format!("SITE.test.:{}", origin.port())).status, 200);
    let mut wire = wire.tls_as("Site.Test").unwrap();
    wire.get_inside(&origin.authority().to_uppercase(), "/a").is_origins(200, "page /a");
    let url = origin.url("/b");
    wire.exchange(format!("GET {url} HTTP/1.1\r\nHost: {}\r\n\r\n", origin.authority()))
        .is_origins(200, "page /b");
    assert_eq!(origin.last("/b").head.field("host"), Some(origin.authority()));
    // Without its port, the field is that of a client of the default port; here it names another origin.
    assert_eq!(wire.get_inside("site.test", "/c").status, 421);
}

#[test]
fn plain_http_inside_a_connect_is_judged_as_http() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let mut wire = gate.tunnels(&origin.authority());
    wire.get_inside(&origin.authority(), "/open").is_origins(200, "page /open");
    let record = gate.denied(&wire.get_inside(&origin.authority(), "/private"));
    has!(record, {"scheme": "http", "url": origin.url("/private")});
    gate.refused(&wire.get_inside("other.test", "/open"), 421, "misdirected");
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

#[test]
fn anything_else_inside_a_connect_is_refused() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    let cases: [(&[u8], &str); 6] = [
        (&[0; 64], "opaque_tunnel"),
        (&[0xff; 64], "opaque_tunnel"),
        (b"EHLO x\r\n\r\n", "bad_request"),
        (b"EHLO x\r\n", "bad_request"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "bad_request"),
        // No whole ClientHello: nothing was requested yet.
        (b"\x16\x03\x01\xff\xff\x02junk", ""),
    ];
    for (bytes, reason) in cases {
        let before = gate.records().len();
        let mut wire = gate.tunnels(&origin.authority());
        wire.send(bytes).half_close();
        wire.drain();
        if !reason.is_empty() {
            let record = gate.wait_records(before + 1).remove(before);
            has!(record, {"reason": reason, "verdict": "deny"});
        }
    }
    let mut nested = gate.connect();
    nested.tunnel(&origin.authority());
    let answer = nested.tunnel(&origin.authority());
    assert!(answer.status >= 400, "a CONNECT inside a CONNECT: {answer:?}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_protocol_of_lines_is_refused_after_its_first_line() {
    // No time-out ends within the test.
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "header_timeout", "\"10m\"");
        setup.set("egress", "connect_ports", "[\"26-65535\"]");
    });
    let origin = Origin::http();
    // A port that CONNECT may reach, and one that it may not.
    for authority in [origin.authority(), "site.test:25".to_owned()] {
        for line in ["SSH-2.0-OpenSSH_9.6\r\n", "EHLO x\r\n", "USER x\r\n", "a1 CAPABILITY\r\n"] {
            let mut wire = gate.tunnels(&authority);
            // The client waits for the server to speak first.
            let answer = wire.exchange(line);
            gate.refused(&answer, 400, "bad_request");
            assert!(wire.is_closed(), "{authority}, {line}");
        }
    }
    // On such a port, a client that waits for the server to speak first does not wait for long.
    let mut silent = gate.tunnels("site.test:25");
    silent.drain();
    let record = gate.record("the silent one", |record| record["reason"] == "address_prohibited");
    has!(record, {"port": 25, "verdict": "deny"});
    assert_eq!(origin.connections(), 0);
}

#[test]
fn an_upstream_that_cannot_prove_its_name_is_a_502_in_the_tunnel() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https());
    gate.passes(&origin.url("/before"));
    let last = || Reply::with(200, "Connection: close\r\n", "").close();
    let pages = Origin::https().on("/robots.txt", [last()]).on("/before", [last()]);
    gate.get(&pages.url("/before"));
    for certificate in [Certificate::Untrusted, Certificate::Expired, Certificate::OtherName] {
        pages.change_certificate(certificate);
        let answer = gate.get(&pages.url("/after"));
        assert_eq!(answer.status, 502, "{certificate:?}: {answer:?}");
        let status = answer.field("proxy-status").unwrap();
        says!(status, "error=tls_certificate_error");
        let record = gate.record_of(&pages.url("/after"));
        has!(record, {"status": 502, "error": "tls_certificate_error"});
    }
    assert!(!pages.seen_but_robots().contains(&"GET /after".to_owned()));
}
