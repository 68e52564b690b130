//! Access to the admin side: accepted clients, refused clients, and resistance to attacks.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::support::admin_gate::problem;
use crate::support::{AdminGate, CrawlgateProcess, Latch, Origin, Reply, Setup, Wire};

#[test]
fn every_answer_forbids_what_its_page_does_not_need() {
    let gate = AdminGate::open();
    let answers = [
        gate.get("/live"),
        gate.get("/api/v1/status"),
        gate.get("/nowhere"),
        gate.ask("GET", "/api/v1/status", "Host: rebound.example\r\n", ""),
        gate.ask("POST", "/api/v1/status", "", ""),
    ];
    for answer in answers {
        let policy = answer.field("content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        says!(policy, "frame-ancestors 'none'");
        assert!(!policy.contains("unsafe"), "{policy}");
        for (field, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.field(field).as_deref(), Some(value), "{field}: {answer:?}");
        }
        assert!(answer.field("access-control-allow-origin").is_none());
    }
}

#[test]
fn a_name_that_is_not_ours_is_misdirected() {
    let gate = AdminGate::with(|setup| setup.set("admin", "hosts", "[\"gate.example\"]"));
    let port = gate.address.port();
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        ("[::1]".to_owned(), 200),
        (format!("0.0.0.0:{port}"), 421),
        (format!("[::]:{port}"), 421),
        ("Gate.Example".to_owned(), 200),
        (format!("rebound.example:{port}"), 421),
        ("127.0.0.1.example".to_owned(), 421),
        ("localhost@evil.example".to_owned(), 400),
        (String::new(), 400),
    ] {
        let answer = gate.ask("GET", "/api/v1/status", &format!("Host: {host}\r\n"), "");
        assert_eq!(answer.status, status, "{host}: {answer:?}");
    }
    let twice = "Host: localhost\r\nHost: localhost\r\n";
    problem(&gate.ask("GET", "/api/v1/status", twice, ""), 400);
    let mut wire = Wire::connect(gate.address);
    problem(&wire.exchange("GET /api/v1/status HTTP/1.0\r\n\r\n"), 400);
    // A client that takes the admin side for a proxy.
    let mut wire = Wire::connect(gate.address);
    let answer = wire.exchange("GET http://site.test/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    problem(&answer, 421);
}

#[test]
fn a_token_opens_and_nothing_else_does() {
    let gate = AdminGate::with(|setup| setup.set("admin", "token_file", "\"admin.token\""));
    let file = gate.setup.dir().join("admin.token");
    let token = fs::read_to_string(&file).expect("it was made");
    let token = token.trim();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |fields: &str| gate.ask("GET", "/api/v1/status", fields, "");

    let answer = ask("");
    problem(&answer, 401);
    let challenges = answer.head.all("www-authenticate");
    assert!(challenges[0].starts_with("Basic "), "{challenges:?}");
    assert!(challenges[1].starts_with("Bearer "), "{challenges:?}");
    assert_eq!(ask(&format!("Authorization: Bearer {token}\r\n")).status, 200);
    let wrong = token.replace(&token[..1], "g");
    for fields in [
        format!("Authorization: Bearer {wrong}\r\n"),
        "Authorization: Bearer\r\n".to_owned(),
        "Authorization: Basic OmE=\r\n".to_owned(),
        format!("Cookie: token={token}\r\n"),
    ] {
        assert_eq!(ask(&fields).status, 401, "{fields}");
    }
    let target = format!("/api/v1/status?token={token}");
    assert_eq!(gate.get(&target).status, 401, "a URL is written into logs");
    assert!(!gate.said().contains(token), "the token is not printed");
}

#[test]
fn beyond_loopback_a_token_is_required() {
    let token = "0123456789abcdef0123456789abcdef";
    let gate = AdminGate::with(|setup| {
        setup.set("admin", "address", "\"0.0.0.0:0\"");
        setup.set("admin", "token_file", "\"admin.token\"");
        let file = setup.dir().join("admin.token");
        fs::write(&file, format!("{token}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    });
    let port = gate.address.port();
    let ask = |fields: &str| {
        let fields = format!("Host: 127.0.0.1:{port}\r\n{fields}");
        gate.ask("GET", "/api/v1/status", &fields, "").status
    };
    assert_eq!(ask(""), 401);
    assert_eq!(ask(&format!("Authorization: Bearer {token}\r\n")), 200);
    // A browser sends the token as a password, with any user name: ada:0123456789abcdef0123456789abcdef
    let basic = "YWRhOjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm";
    assert_eq!(ask(&format!("Authorization: Basic {basic}\r\n")), 200);
}

#[test]
fn what_comes_from_another_sites_page_changes_nothing() {
    let gate = AdminGate::open();
    let body = json!({
        "origin": "https://site.test", "action": "allow", "until": "1d", "by": "Eve", "reason": "none",
    });
    let body = body.to_string();
    let json = "Content-Type: application/json\r\n";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a script of another site", format!("{json}Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n"), 403),
        ("one of another port", format!("{json}Origin: http://localhost:3000\r\nSec-Fetch-Site: same-site\r\n"), 403),
        ("an old browser", format!("{json}Origin: http://evil.example\r\n"), 403),
        ("a page that hides where it is from", format!("{json}Origin: null\r\n"), 403),
        ("a form that looks like JSON", "Content-Type: text/plain\r\n".to_owned(), 415),
        ("a form", "Content-Type: application/x-www-form-urlencoded\r\n".to_owned(), 415),
        ("no type at all", String::new(), 415),
    ];
    for (name, fields, status) in cases {
        let answer = gate.ask("POST", "/api/v1/overrides", &fields, &body);
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        problem(&answer, status);
    }
    assert_eq!(gate.api("/overrides")["items"], json!([]));
    let own = format!("{json}Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", gate.address);
    assert_eq!(gate.ask("POST", "/api/v1/overrides", &own, &body).status, 201);
}

#[test]
fn a_question_is_bounded() {
    let gate = AdminGate::open();
    let json = "Content-Type: application/json\r\n";
    let long = format!("{{\"origin\":\"{}\"}}", "a".repeat(70_000));
    problem(&gate.ask("POST", "/api/v1/refresh", json, &long), 413);
    // A pasted robots.txt may have 600 KiB, in any JSON spelling.
    let robots = "\u{1}".repeat(300 * 1024);
    let question = json!({"url": "https://site.test/", "robots": robots}).to_string();
    assert!(question.len() > 1024 * 1024);
    assert_eq!(gate.ask("POST", "/api/v1/check", json, &question).status, 200);
    let question = "x".repeat(3 * 1024 * 1024);
    problem(&gate.ask("POST", "/api/v1/check", json, &question), 413);
    let path = "a".repeat(100_000);
    let answer = gate.get(&format!("/{path}"));
    assert!(matches!(answer.status, 414 | 431), "{answer:?}");
}

#[test]
fn a_client_that_holds_connections_delays_no_other() {
    let origin = Origin::with_rules("");
    let gate = AdminGate::with(|setup| setup.set("admin", "connections", "3"));
    let mut held: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = TcpStream::connect(gate.address).unwrap();
            stream.write_all(b"GET /live HTTP/1.1\r\n").unwrap();
            stream
        })
        .collect();
    // The proxy has separate connections.
    gate.process.passes(&origin.url("/a"));
    // The connection that has held an unfinished request longest makes room.
    assert_eq!(gate.get("/live").status, 200);
    let mut text = String::new();
    assert_eq!(held[0].read_to_string(&mut text).unwrap_or(0), 0, "{text}");
    // The other connections still get answers.
    let last = held.last_mut().unwrap();
    last.write_all(b"Host: x\r\nConnection: close\r\n\r\n").unwrap();
    last.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
}

/// Sends requests about origins without an answer to robots.txt; the requests are in progress when this returns.
fn undecided(gate: &AdminGate, origin: &Origin, latch: &Latch, hosts: &[&str]) -> Vec<Wire> {
    let ask = |host: &&str| {
        let url = origin.url_as(host, "/page");
        let mut wire = Wire::connect(gate.address);
        let own = gate.address;
        wire.send(format!("GET /decide?url={url} HTTP/1.1\r\nHost: {own}\r\n\r\n"));
        wire
    };
    let wires = hosts.iter().map(ask).collect();
    latch.arrivals(hosts.len());
    wires
}

#[test]
fn decisions_that_wait_leave_room_for_others() {
    let latch = Latch::new();
    let rules = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
    let slow = || Origin::http().on("/robots.txt", [Reply::silent().wait(&latch).send(rules)]);

    let (origin, gate) = (slow(), AdminGate::with(|setup| setup.set("admin", "connections", "4")));
    let mut waiting = undecided(&gate, &origin, &latch, &["site.test", "other.test", "third.test"]);
    let url = origin.url("/page");
    let one_more = gate.get(&format!("/decide?url={url}"));
    let why = problem(&one_more, 503);
    says!(why, "too many decisions are in progress");
    assert!(one_more.field("retry-after").is_some(), "{one_more:?}");
    // nginx treats every status but 401 and 403 as an error, so this endpoint answers 403.
    problem(&gate.get("/auth"), 403);
    for target in ["/live", "/ready", "/metrics", "/api/v1/status"] {
        assert_eq!(gate.get(target).status, 200, "{target}");
    }
    latch.open();
    for wire in &mut waiting {
        assert_eq!(wire.response("GET").status, 200);
    }
    assert_eq!(gate.get(&format!("/decide?url={url}")).status, 200);
}

#[test]
fn health_is_told_when_every_connection_is_busy() {
    let latch = Latch::new();
    let rules = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
    let origin = Origin::http().on("/robots.txt", [Reply::silent().wait(&latch).send(rules)]);
    let gate = AdminGate::with(|setup| setup.set("admin", "connections", "2"));
    let mut waiting = undecided(&gate, &origin, &latch, &["site.test", "other.test"]);
    for target in ["/live", "/ready", "/metrics"] {
        let answer = gate.get(target);
        assert_eq!(answer.status, 200, "{target}");
        answer.field_is("connection", Some("close"));
    }
    let why = problem(&gate.get("/api/v1/status"), 503);
    says!(why, "[admin] connections");
    latch.open();
    for wire in &mut waiting {
        assert_eq!(wire.response("GET").status, 200);
    }
    assert_eq!(gate.get("/api/v1/status").status, 200);
}

#[test]
fn it_is_not_reached_through_the_proxy() {
    let gate = AdminGate::open();
    let url = format!("http://{}/api/v1/status", gate.address);
    let answer = gate.process.get(&url);
    gate.refused(&answer, 403, "address_prohibited");
    let url = format!("http://localhost:{}/live", gate.address.port());
    let answer = gate.process.get(&url);
    gate.refused(&answer, 403, "address_prohibited");
}

#[test]
fn an_unusable_configuration_is_refused_at_the_start() {
    let gate = AdminGate::open();
    let ended = |configure: &dyn Fn(&mut Setup)| {
        let mut setup = Setup::new();
        configure(&mut setup);
        let output = setup.command("serve").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let taken = ended(&|setup| setup.set("admin", "address", &format!("\"{}\"", gate.address)));
    says!(taken, &format!("cannot serve the console at {}", gate.address));
    says!(taken, "[admin] address");
    lacks!(taken, "listening on"; "no crawler is let in");

    let exposed = ended(&|setup| setup.set("admin", "address", "\"0.0.0.0:0\""));
    says!(exposed, "[admin] address", "token_file");

    let readable = ended(&|setup| {
        setup.set("admin", "address", "\"127.0.0.1:0\"");
        setup.set("admin", "token_file", "\"admin.token\"");
        let file = setup.dir().join("admin.token");
        fs::write(&file, "0123456789abcdef0123456789abcdef\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    });
    says!(readable, "chmod 600");
}

#[test]
fn run_and_an_empty_address_have_none() {
    let gate = CrawlgateProcess::start();
    assert!(!gate.said().contains("console:"), "{}", gate.said());
    let setup = Setup::new();
    let mut command = setup.command("run");
    let output = command.args(["--", "true"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("console:"), "{said}");
}
