//! Clients that are known by a password: when it is asked for, checked, and guessed. Page: `docs/clients.md`.

use std::thread;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::clients::{PASSWORD, ask, basic, connect, entry, gate_with};
use crate::listeners;
use crate::overrides::proven;
use crate::support::{CrawlgateProcess, Origin, RULES};

/// Asserts that no output of the gate holds the password, plain or encoded.
#[track_caller]
pub fn kept_secret(gate: &CrawlgateProcess) {
    let encoded = STANDARD.encode(format!("news:{PASSWORD}"));
    let mut written = vec![gate.said().into_bytes()];
    for file in std::fs::read_dir(gate.setup.dir()).unwrap() {
        let path = file.unwrap().path();
        // A file that is written anew may have its last name by now.
        if path.is_file() {
            written.extend(std::fs::read(path).ok());
        }
    }
    for text in written {
        for secret in [PASSWORD, &encoded] {
            let found = memchr::memmem::find(&text, secret.as_bytes());
            assert!(found.is_none(), "{}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn credentials_are_asked_for_checked_and_not_passed_on() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.tables(&entry("news", "product_tokens = 'TestBot'"));
        setup.set("log", "level", "\"trace\"");
    });
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let mut wire = gate.connect();
    let answer = ask(&mut wire, &url, "");
    gate.refused(&answer, 407, "unauthenticated");
    assert_eq!(
        answer.field("proxy-authenticate").as_deref(),
        Some("Basic realm=\"crawlgate\", charset=\"UTF-8\"")
    );
    assert_eq!(origin.seen().len(), 0);
    let said = gate.succeeds("log", &["--reason", "unauthenticated", "--origin", &origin.url("")]);
    says!(said, "/open");
    // The same connection continues.
    for _ in 0..3 {
        ask(&mut wire, &url, &basic("news", PASSWORD)).is_origins(200, "page /open");
    }
    has!(gate.record("the client", |record| record["status"] == 200), {"client.name": "news"});
    // Credentials of an earlier request do not count for a request without any.
    gate.refused(&ask(&mut wire, &url, ""), 407, "unauthenticated");
    for head in origin.seen() {
        assert_eq!(head.head.field("proxy-authorization"), None);
    }
    kept_secret(&gate);
    proven(&gate);
}

#[test]
fn requests_in_a_tunnel_are_of_the_client_that_opened_it() {
    let gate = gate_with(&entry("news", ""));
    let origin = Origin::https().robots(RULES);
    let authority = format!("site.test:{}", origin.port());
    let mut wire = gate.connect();
    let answer = connect(&mut wire, &authority, "");
    gate.refused(&answer, 407, "unauthenticated");
    assert!(wire.is_closed());
    let mut wire = gate.connect();
    let answer = connect(&mut wire, &authority, &basic("news", PASSWORD));
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut wire = wire.tls("site.test", &gate.ca_pem());
    wire.passes_inside(&authority, "/open");
    has!(gate.denied(&wire.get_inside(&authority, "/private")), {"client.name": "news"});
    kept_secret(&gate);
}

#[test]
fn credentials_count_only_on_connections_that_are_secret() {
    let tables = "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\nnames = 'localhost'\n\
         [[listener]]\nname = 'balanced'\naddress = '127.0.0.1:0'\nallow = '192.0.2.0/24'\n\
         proxy_protocol_from = '127.0.0.1'\n";
    let (gate, places) = listeners::gate_with(&(tables.to_owned() + &entry("news", "")), 3);
    let [_, tls, balanced] = places.as_slice() else { panic!("three listeners") };
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let right = basic("news", PASSWORD);
    let mut wire = listeners::at(tls).tls("localhost", &gate.ca_pem());
    gate.refused(&ask(&mut wire, &url, ""), 407, "unauthenticated");
    ask(&mut wire, &url, &right).is_origins(200, "page /open");
    // From a remote address, through a load balancer, without TLS.
    let mut wire = listeners::at(balanced);
    wire.send("PROXY TCP4 192.0.2.7 127.0.0.1 40000 80\r\n");
    let answer = ask(&mut wire, &url, &right);
    gate.refused(&answer, 403, "unknown_client");
    assert_eq!(answer.field("proxy-authenticate"), None, "{answer:?}");
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
    kept_secret(&gate);
}

#[test]
fn wrong_credentials_are_recorded_and_after_a_few_ignored() {
    let gate = gate_with(&entry("news", ""));
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let right = basic("news", PASSWORD);
    let mut known = gate.connect();
    ask(&mut known, &url, &right).is_origins(200, "page /open");
    let mut wire = gate.connect();
    let (mut put_off, began) = (0, Instant::now());
    for n in 0..30 {
        let answer = ask(&mut wire, &url, &basic("news", &format!("wrong {n}")));
        if answer.status == 407 {
            gate.refused(&answer, 407, "unauthenticated");
        } else {
            gate.refused(&answer, 429, "unauthenticated");
            let seconds: u64 = answer.field("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&seconds), "{answer:?}");
            put_off += 1;
        }
    }
    // Another attempt is free every six seconds, which a busy machine may take.
    let more = began.elapsed().as_secs() / 6;
    let least = 18_u64.saturating_sub(more);
    assert!((least..=21).contains(&put_off), "{put_off} were put off, of {least} at least");
    // The right credentials are cached, on this connection and on others.
    ask(&mut known, &url, &right).is_origins(200, "page /open");
    ask(&mut gate.connect(), &url, &right).is_origins(200, "page /open");
    assert_eq!(origin.seen_but_robots().len(), 3);
    for malformed in ["Basic !", "Bearer x", "Basic bmV3cw==", ""] {
        let answer =
            ask(&mut gate.connect(), &url, &format!("Proxy-Authorization: {malformed}\r\n"));
        gate.refused(&answer, 407, "unauthenticated");
    }
    assert_eq!(origin.seen_but_robots().len(), 3);
}

#[test]
fn a_program_with_an_old_password_locks_out_no_other() {
    let gate = gate_with(&entry("news", ""));
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let mut wire = gate.connect();
    for _ in 0..50 {
        let answer = ask(&mut wire, &url, &basic("news", "of last year"));
        gate.refused(&answer, 407, "unauthenticated");
    }
    // From the same address, and not seen before.
    let right = basic("news", PASSWORD);
    ask(&mut gate.connect(), &url, &right).is_origins(200, "page /open");
    assert_eq!(origin.seen_but_robots().len(), 1);
}

#[test]
fn a_flood_of_wrong_passwords_stops_no_right_one() {
    let (one, other) = (entry("news", ""), entry("side", ""));
    let gate = gate_with(&(one + &other));
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    thread::scope(|scope| {
        for flood in 0..8 {
            let (gate, url) = (&gate, &url);
            scope.spawn(move || {
                let mut wire = gate.connect();
                for n in 0..50 {
                    let user = if n % 2 == 0 { "side" } else { "nobody" };
                    let answer = ask(&mut wire, url, &basic(user, &format!("{flood}-{n}")));
                    assert!(matches!(answer.status, 407 | 429), "{answer:?}");
                }
            });
        }
        // All at once, before any is cached.
        for _ in 0..200 {
            let (gate, url) = (&gate, &url);
            scope.spawn(move || {
                let answer = ask(&mut gate.connect(), url, &basic("news", PASSWORD));
                answer.is_origins(200, "page /open");
            });
        }
    });
    assert_eq!(origin.seen_but_robots().len(), 200);
}
