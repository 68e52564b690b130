//! Changes while a request waits: the gate judges it again before it is sent, and before it is sent a second time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use crate::overrides::proven;
use crate::support::ftp::{Act, FtpServer};
use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply, Response, Setup};

/// Rules under which a change of the crawler's identity to OtherBot forbids the page.
const OTHERS: &str = "User-agent: *\nDisallow: /private\n\nUser-agent: OtherBot\nDisallow: /\n";

/// A change of the configuration for this origin.
type Change = fn(&mut Setup, &str);

/// Changes that forbid a page that was allowed before, each with the answer to expect.
#[rustfmt::skip] // one row, one case
const FORBIDS: [(&str, Change, u16, &str); 4] = [
    ("a deny by hand", |setup, origin| setup.asserts(origin, "deny"), 403, "operator_deny"),
    ("another identity", |setup, _| setup.set("agent", "product_tokens", "[\"OtherBot\"]"), 403, "robots_disallow"),
    ("a prohibited address", |setup, _| setup.set("egress", "deny", "[\"127.0.0.0/8\"]"), 403, "address_prohibited"),
    ("its client is removed", |setup, _| setup.tables("[[client]]\nname = 'far'\nnetworks = '10.0.0.0/8'\n"), 403, "unknown_client"),
];

const NEAR: &str = "[[client]]\nname = 'near'\nnetworks = '127.0.0.0/8'\n";

#[test]
fn what_is_forbidden_while_robots_txt_is_fetched_does_not_go_out() {
    for (case, change, status, reason) in FORBIDS {
        let mut gate = CrawlgateProcess::with(|setup| setup.tables(NEAR));
        let latch = Latch::new();
        let origin = Origin::http().on(
            "/robots.txt",
            [Reply::silent().wait(&latch).send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{OTHERS}",
                OTHERS.len()
            ))],
        );
        let mut wire = gate.asks(&origin.url("/open"));
        latch.arrivals(1);
        gate.reload(|setup| change(setup, &origin.url("")));
        latch.open();
        let answer = wire.response("GET");
        assert_eq!(answer.status, status, "{case}: {answer:?}");
        gate.refused(&answer, status, reason);
        assert_eq!(origin.seen_but_robots(), [""; 0], "{case}");
        assert_eq!(gate.records().len(), 1, "{case}");
    }
}

#[test]
fn an_override_that_allows_during_the_fetch_of_robots_txt_lets_the_request_out() {
    let (mut gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", RULES.len());
    let origin =
        Origin::http().on("/robots.txt", [Reply::silent().wait(&latch).send(head).send(RULES)]);
    let url = origin.url("/private/x");
    let mut wire = gate.asks(&url);
    latch.arrivals(1);
    let began = Instant::now();
    gate.reload(|setup| setup.asserts(&origin.url(""), "allow"));
    let held = began.elapsed().as_secs_f64() * 1_000.0;
    latch.open();
    wire.response("GET").is_origins(200, "page /private/x");
    let record = gate.record_of(&url);
    assert_eq!(record["reason"], "operator_allow", "{record}");
    // The request is judged twice, and was held all the time.
    assert!(record["hold_ms"].as_f64().unwrap() >= held, "{record}");
    proven(&gate);
}

#[test]
fn a_request_that_is_judged_again_is_answered_under_the_new_settings() {
    let mut gate = CrawlgateProcess::start();
    let latch = Latch::new();
    let failure = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
    let origin = Origin::http().on("/robots.txt", [Reply::silent().wait(&latch).send(failure)]);
    let mut wire = gate.asks(&origin.url("/open"));
    latch.arrivals(1);
    gate.reload(|setup| setup.set("robots", "unreachable_status", "403"));
    latch.open();
    gate.refused(&wire.response("GET"), 403, "robots_unreachable");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_request_that_has_left_keeps_its_settings() {
    let mut gate = CrawlgateProcess::start();
    let latch = Latch::new();
    let origin = Origin::http().on("/open", [Reply::with(200, "", "page").held(&latch)]);
    let mut wire = gate.asks(&origin.url("/open"));
    latch.arrivals(1);
    gate.reload(|setup| setup.set("signals", "stamp", "true"));
    latch.open();
    let answer = wire.response("GET");
    answer.is_origins(200, "page");
    assert_eq!(answer.field("crawlgate-usage"), None);
    let next = gate.get(&origin.url("/next"));
    assert!(next.field("crawlgate-usage").is_some(), "{next:?}");
}

/// Asserts that a change forbids a request that waits for its turn by the rate of its client, or by that of its origin.
fn does_not_go_out(by_client: bool, (case, change, status, reason): (&str, Change, u16, &str)) {
    let mut gate = CrawlgateProcess::with(|setup| {
        if by_client {
            setup.tables(&format!("{NEAR}requests_per_second = 0.3\nburst = 1\n"));
        } else {
            setup.tables(NEAR);
            setup.set("pace", "requests_per_second", "0.3");
            setup.set("pace", "burst", "2");
        }
    });
    let origin = Origin::http().robots(OTHERS);
    gate.passes(&origin.url("/1"));
    let mut wire = gate.asks(&origin.url("/2"));
    gate.reload(|setup| change(setup, &origin.url("")));
    let answer = wire.response("GET");
    assert_eq!(answer.status, status, "{case}, {by_client}: {answer:?}");
    gate.refused(&answer, status, reason);
    assert_eq!(origin.seen_but_robots(), ["GET /1"], "{case}, {by_client}");
}

#[test]
fn what_is_forbidden_while_it_waits_for_its_turn_does_not_go_out() {
    // Each waits for some seconds.
    thread::scope(|scope| {
        for by_client in [false, true] {
            for row in FORBIDS {
                scope.spawn(move || does_not_go_out(by_client, row));
            }
        }
    });
}

/// Waits for longer than a connection may be idle before the gate doubts it: until a command in another process finds
/// the origin in the store.
fn rest(gate: &CrawlgateProcess, origin: &Origin) {
    gate.beside_until("origins", &["list"], |said| said.contains(&origin.url("")));
}

/// Asserts that a request is answered as lost, and that its record is that of the attempt which has left.
#[track_caller]
fn ends_as_lost(gate: &CrawlgateProcess, answer: &Response, url: &str, case: &str) {
    assert_eq!(answer.status, 502, "{case}: {answer:?}");
    let status = answer.field("proxy-status").unwrap_or_default();
    assert!(status.contains("connection_terminated"), "{case}: {status}");
    let record = gate.record_of(url);
    has!(record, {"verdict": "allow", "error": "connection_terminated", "status": 502}, "{case}");
}

#[test]
fn what_is_forbidden_after_its_connection_was_lost_is_not_sent_again() {
    for (case, change, ..) in FORBIDS {
        let mut gate = CrawlgateProcess::with(|setup| setup.tables(NEAR));
        let latch = Latch::new();
        let cut = Reply::silent().wait(&latch).cut();
        let origin = Origin::http().robots(OTHERS).on("/2", [cut, Reply::ok("page /2")]);
        gate.passes(&origin.url("/1"));
        rest(&gate, &origin);
        let mut wire = gate.asks(&origin.url("/2"));
        latch.arrivals(1);
        gate.reload(|setup| change(setup, &origin.url("")));
        latch.open();
        // The origin has seen it once: a refusal would say that it has not.
        ends_as_lost(&gate, &wire.response("GET"), &origin.url("/2"), case);
        assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"], "{case}");
    }
}

#[test]
fn a_robots_txt_that_lands_before_a_request_is_sent_again_counts() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let lost = Reply::silent().wait(&latch).cut();
    let origin = Origin::http().robots(RULES).on("/2", [lost, Reply::ok("page /2")]);
    gate.passes(&origin.url("/1"));
    rest(&gate, &origin);
    let mut wire = gate.asks(&origin.url("/2"));
    latch.arrivals(1);
    origin.script("/robots.txt", [Reply::ok("User-agent: *\nDisallow: /\n")]);
    gate.succeeds("origins", &["refresh", &origin.url("")]);
    latch.open();
    let answer = wire.response("GET");
    ends_as_lost(&gate, &answer, &origin.url("/2"), "a new robots.txt");
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"]);
}

/// Passes connections on to `port`, each once the latch is open.
fn relay(port: u16, latch: &Latch) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let latch = latch.clone();
    thread::spawn(move || {
        for here in listener.incoming().flatten() {
            let latch = latch.clone();
            thread::spawn(move || {
                latch.pass();
                let there = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let (mut from, mut to) = (here.try_clone().unwrap(), there.try_clone().unwrap());
                thread::spawn(move || copy(&mut from, &mut to));
                copy(&mut { there }, &mut { here });
            });
        }
    });
    own
}

fn copy(from: &mut TcpStream, to: &mut TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
    drop(to.shutdown(std::net::Shutdown::Write));
}

#[test]
fn what_is_forbidden_while_its_origin_is_dialled_does_not_go_out() {
    let deny: Change = |setup, origin| setup.asserts(origin, "deny");
    let prohibit: Change = |setup, _| setup.set("egress", "deny", "[\"127.0.0.0/8\"]");
    for (change, reason) in [(deny, "operator_deny"), (prohibit, "address_prohibited")] {
        let (latch, origin) = (Latch::new(), Origin::https());
        let port = relay(origin.port(), &latch);
        let authority = format!("bank.test:{port}");
        let named = format!("https://{authority}");
        // An override allows everything, so robots.txt is not fetched on the same route.
        let mut gate = CrawlgateProcess::with(|setup| setup.asserts(&named, "allow"));
        let mut wire = gate.sends("GET", &format!("{named}/x"), "\r\n");
        latch.arrivals(1);
        gate.reload(|setup| change(setup, &named));
        latch.open();
        gate.refused(&wire.response("GET"), 403, reason);
        assert_eq!(origin.seen().len(), 0, "{reason}");
    }
}

#[test]
fn robots_txt_is_not_fetched_for_a_request_over_quota() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.tables(&format!("{NEAR}quota = {{ requests = 1, per = '1d' }}\n"));
    });
    let known = Origin::with_rules(RULES);
    let other = Origin::with_rules(RULES);
    gate.passes(&known.url("/1"));
    gate.refuses(&other.url("/open"), 429, "quota_spent");
    assert_eq!(other.seen().len(), 0, "not even robots.txt");
    // Denials count, too.
    gate.refuses(&known.url("/private/x"), 429, "quota_spent");
    gate.refuses(&known.url("/2"), 429, "quota_spent");
    assert_eq!(known.seen_but_robots(), ["GET /1"]);
}

#[test]
fn what_is_forbidden_before_its_transfer_is_not_transferred() {
    let cases = [
        // Only the login has happened, as far as the server can tell.
        ("/", 403, "operator_deny"),
        // The server knows the name.
        ("/later", 502, "robots_allow"),
        ("/pub/", 502, "robots_allow"),
    ];
    for (path, status, reason) in cases {
        let mut gate = CrawlgateProcess::start();
        let server =
            FtpServer::with_rules(RULES).file("open", "x").file("later", "y").file("pub/z", "z");
        gate.get(&server.url("/open")).is_origins(200, "x");
        let latch = Latch::new();
        let server = server.on("EPSV", Act::Wait(latch.clone()));
        let url = server.url(path);
        let mut wire = gate.asks(&url);
        latch.arrivals(1);
        let origin = server.url("");
        let deny = format!(
            "[[override]]\norigin = \"{origin}\"\naction = \"deny\"\nby = \"us\"\nreason = \"no\"\n"
        );
        gate.reload(|setup| setup.tables(&deny));
        latch.open();
        let answer = wire.response("GET");
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        has!(gate.record_of(&url), {"reason": reason, "status": status}, "{path}");
        let transfers = ["RETR later", "MLSD", "LIST"];
        let seen = server.seen();
        assert!(!seen.iter().any(|line| transfers.contains(&line.as_str())), "{path}: {seen:?}");
    }
}
