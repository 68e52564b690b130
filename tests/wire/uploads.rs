//! Answers to a request with its body still on the way: a client that sends all of it gets the answer, and a client
//! that does not end it is cut off. Page: `docs/messages.md`.

use crate::listeners::{at, gate_with};
use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply, Response, Setup, Wire};

/// More than the buffers of a connection hold.
const UPLOAD: usize = 8 << 20;

/// Sends a POST whole before it reads the answer, as most HTTP clients do.
#[track_caller]
fn post(case: &str, wire: &mut Wire, target: &str, fields: &str) -> Response {
    wire.send(format!("POST {target} HTTP/1.1\r\n{fields}Content-Length: {UPLOAD}\r\n\r\n"));
    for _ in 0..UPLOAD >> 16 {
        let sent = wire.try_send(vec![b'x'; 1 << 16]);
        sent.unwrap_or_else(|why| panic!("{case}: the upload broke off: {why}"));
    }
    let answer = wire.response("POST");
    answer.field_is("connection", Some("close"));
    assert!(wire.is_closed(), "{case}");
    answer
}

#[test]
fn a_denied_upload_gets_its_403_in_every_way() {
    let (gate, places) = gate_with(
        "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\nnames = 'localhost'\n",
        2,
    );
    let (plain, tls) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    let host = |origin: &Origin| format!("Host: {}\r\n", origin.authority());
    for _ in 0..5 {
        let url = plain.url("/private");
        let answer = post("plain", &mut gate.connect(), &url, &host(&plain));
        gate.denied(&answer);
        let mut wire = at(&places[1]).tls("localhost", &gate.ca_pem());
        gate.denied(&post("a TLS listener", &mut wire, &url, &host(&plain)));
        let mut wire = gate.intercept(&tls.authority(), "site.test");
        let answer = post("intercepted", &mut wire, "/private", &host(&tls));
        gate.denied(&answer);
        let mut wire = gate.tunnels(&plain.authority());
        let answer = post("plain in a tunnel", &mut wire, "/private", &host(&plain));
        gate.denied(&answer);
    }
    for origin in [&plain, &tls] {
        assert_eq!(origin.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn every_refusal_of_an_upload_arrives() {
    let user = "[[client]]\nname = 'news'\nnetworks = '192.0.2.1'\n";
    let host = "Host: site.test\r\n";
    type Setting = fn(&mut Setup);
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, Setting, &str, &str, u16, &str); 6] = [
        ("an unknown client", |_| (), user, host, 403, "unknown_client"),
        ("no Host", |_| (), "", "", 400, "bad_request"),
        ("a request to us", |_| (), "", "Host: x\r\nVia: {via}\r\n", 502, "bad_request"),
        ("a prohibited address", |setup| { setup.set("egress", "allow", "[]"); }, "", host, 403, "address_prohibited"),
        ("robots.txt on its way", |setup| { setup.set("robots", "hold", "\"50ms\""); }, "", host, 503, "robots_pending"),
        ("a rate that is spent", |setup| { setup.set("pace", "max_hold", "\"10ms\""); setup.set("pace", "requests_per_second", "0.01"); }, "", host, 429, "paced"),
    ];
    for (case, configure, tables, fields, status, reason) in cases {
        let gate = CrawlgateProcess::with(|setup| {
            setup.tables(tables);
            configure(setup);
        });
        let latch = Latch::new();
        let mut fields = fields.to_owned();
        let mut origin = Origin::http();
        match reason {
            "robots_pending" => {
                let late = Reply::silent().wait(&latch).send("");
                origin = origin.on("/robots.txt", [late]);
            }
            "paced" => drop(gate.get(&origin.url("/first"))),
            "bad_request" => {
                let other = Origin::http();
                let via = gate.get(&other.url("/")).field("via").unwrap();
                fields = fields.replace("{via}", &via);
            }
            _ => {}
        }
        let before = origin.seen_but_robots().len();
        let answer = post(case, &mut gate.connect(), &origin.url("/open"), &fields);
        assert_eq!(answer.status, status, "{case}: {answer:?}");
        let record = gate.refused(&answer, status, reason);
        if status == 502 {
            let error = "proxy_loop_detected";
            let named = answer.field("proxy-status").unwrap();
            assert!(named.contains(&format!("error={error}")), "{case}: {named}");
            assert_eq!(record["error"], error, "{case}: {record}");
        }
        assert_eq!(origin.seen_but_robots().len(), before, "{case}");
        latch.open();
    }
}

#[test]
fn an_upload_that_its_origin_breaks_off_gets_a_502() {
    let gate = CrawlgateProcess::start();
    for origin in [Origin::http(), Origin::https()] {
        let origin = origin.on("/upload", [Reply::silent().ignoring_body().close()]);
        let host = format!("Host: {}\r\n", origin.authority());
        let (mut wire, target) = gate.open(&origin.url("/upload"));
        let answer = post("broken off", &mut wire, &target, &host);
        assert!(answer.status == 502 && answer.is_ours(), "{answer:?}");
    }
}

#[test]
fn a_small_body_that_is_denied_leaves_its_connection_open() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let mut wire = gate.connect();
    for _ in 0..3 {
        let answer = wire.exchange(format!(
            "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody",
            origin.url("/private")
        ));
        gate.denied(&answer);
        assert_eq!(answer.field("connection"), None, "{answer:?}");
    }
    wire.passes(&origin.url("/open"));
    // A chunked body has no known length: the answer closes the connection.
    let answer = wire.exchange(format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n",
        origin.url("/private")
    ));
    gate.denied(&answer);
    answer.field_is("connection", Some("close"));
    assert!(wire.is_closed());
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

#[test]
fn an_upload_that_is_never_ended_counts_and_makes_room() {
    let gate = CrawlgateProcess::with(|setup| setup.set("limits", "connections", "1"));
    let origin = Origin::with_rules(RULES);
    let mut stuck =
        gate.sends("POST", &origin.url("/private"), "Content-Length: 1000000\r\n\r\nabc");
    let answer = stuck.response("POST");
    gate.denied(&answer);
    // The upload holds the only slot, and loses it to a client with a request.
    gate.connect().get(&origin.url("/open")).is_origins(200, "page /open");
    assert!(stuck.is_closed());
}

#[test]
fn an_upload_that_is_never_ended_is_cut() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let mut wire = gate.connect();
    let answer = wire.exchange(format!(
        "POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc",
        origin.url("/private")
    ));
    gate.denied(&answer);
    assert!(wire.is_closed(), "it keeps the connection");
}
