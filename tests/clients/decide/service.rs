//! `GET /decide`: each verdict, with a record like that of a request, and no request to an origin except for
//! robots.txt.

use std::thread;

use rustix::process::Signal;

use crate::support::{AdminGate, Latch, Origin, RULES, Reply, Wire, eventually};

pub const AGENT: &str = "&agent=TestBot/1.0";

#[test]
fn each_verdict_is_answered_recorded_and_provable() {
    let gate = AdminGate::open();
    let site = Origin::with_rules(RULES);
    let tls = Origin::https().robots(RULES);
    let none = Origin::http().on("/robots.txt", [Reply::status(404, "")]);
    let down = Origin::http().on("/robots.txt", [Reply::status(500, "")]);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("an allowed page", site.url("/open"), 200, "robots_allow"),
        ("a page that a rule allows", site.url("/private/open"), 200, "robots_allow"),
        ("a disallowed page", site.url("/private/x?y=1"), 403, "robots_disallow"),
        ("one in another spelling", site.url("/%70rivate"), 403, "robots_disallow"),
        ("a page behind a dot segment", site.url("/a/../private"), 403, "path_guard"),
        ("robots.txt itself", site.url("/robots.txt"), 200, "robots_txt"),
        ("a disallowed page over TLS", tls.url("/private"), 403, "robots_disallow"),
        ("an allowed page over TLS", tls.url("/"), 200, "robots_allow"),
        ("an origin without robots.txt", none.url("/private"), 200, "robots_unavailable"),
        ("an origin that is down", down.url("/"), 503, "robots_unreachable"),
        ("a prohibited address", "http://169.254.169.254/x".to_owned(), 403, "address_prohibited"),
        ("an invalid URL", "nonsense".to_owned(), 400, "bad_request"),
        ("no absolute URL", "/private".to_owned(), 400, "bad_request"),
        ("a URL with a fragment", site.url("/open#/private"), 400, "bad_request"),
        ("a URL with a space", site.url("/a b"), 400, "bad_request"),
        ("another scheme", "ftp://site.test/".to_owned(), 501, "bad_request"),
    ];
    for (name, url, status, reason) in cases {
        let answer = gate.decide(&url, AGENT);
        let record = gate.decided(&answer, status, reason);
        has!(record, {"url": url, "agent.chain": ["TestBot"]}, "{name}");
        if reason == "robots_disallow" {
            let document = answer.problem();
            assert!(document["age_s"].is_u64() && document["robots_url"].is_string(), "{document}");
            answer.field_is("content-type", Some("application/problem+json"));
        }
    }
    for origin in [&site, &tls] {
        assert_eq!(origin.seen_but_robots(), [""; 0]);
        assert_eq!(origin.robots_fetches(), 1);
    }
    gate.process.succeeds("audit", &["verify", "--all"]);
}

#[test]
fn concurrent_questions_wait_for_one_fetch() {
    let latch = Latch::new();
    let gate = AdminGate::open();
    let rules = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{RULES}", RULES.len());
    let origin = Origin::http().on("/robots.txt", [Reply::silent().wait(&latch).send(rules)]);
    let url = origin.url("/private");
    let asked: Vec<_> = (0..8)
        .map(|_| {
            let (address, url) = (gate.address, url.clone());
            thread::spawn(move || {
                let request = format!("GET /decide?url={url} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                Wire::connect(address).exchange(request).status
            })
        })
        .collect();
    latch.arrivals(1);
    latch.open();
    for answer in asked {
        assert_eq!(answer.join().unwrap(), 403);
    }
    assert_eq!(origin.robots_fetches(), 1);
    gate.process.wait_records(8);
}

#[test]
fn a_robots_txt_that_does_not_come_in_time_defers() {
    let latch = Latch::new();
    let gate = AdminGate::with(|setup| setup.set("robots", "hold", "\"50ms\""));
    let origin = Origin::http().on("/robots.txt", [Reply::silent().wait(&latch)]);
    let answer = gate.decide(&origin.url("/"), AGENT);
    gate.decided(&answer, 503, "robots_pending");
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    latch.open();
}

#[test]
fn a_turn_is_taken_only_on_request() {
    let gate = AdminGate::with(|setup| {
        setup.set("pace", "requests_per_second", "0.001");
        setup.set("pace", "max_hold", "\"0s\"");
    });
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    for _ in 0..3 {
        gate.decided(&gate.decide(&url, AGENT), 200, "robots_allow");
    }
    let mut refused = None;
    for _ in 0..3 {
        let answer = gate.decide(&url, &format!("{AGENT}&pace=true"));
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("turns without end");
    gate.decided(&refused, 429, "paced");
    assert!(refused.field("retry-after").is_some(), "{refused:?}");
    gate.decided(&gate.decide(&url, AGENT), 200, "robots_allow");
}

#[test]
fn a_tunnel_is_advised_where_nothing_is_disallowed() {
    let gate = AdminGate::open();
    let free = Origin::https().robots("User-agent: *\nDisallow:\n");
    let bound = Origin::https().robots(RULES);
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("nothing is disallowed", free.authority(), 200, "no_rules"),
        ("something is", bound.authority(), 403, "opaque_tunnel"),
        ("as a URL", bound.url("/open"), 403, "opaque_tunnel"),
        ("no port", "site.test".to_owned(), 400, "bad_request"),
        ("a prohibited address", "169.254.169.254:443".to_owned(), 403, "address_prohibited"),
    ];
    for (name, url, status, reason) in rows {
        let answer = gate.decide(&url, &format!("{AGENT}&tunnel=true&method=CONNECT"));
        let record = gate.decided(&answer, status, reason);
        has!(record, {"opaque": reason != "bad_request"}, "{name}");
        assert_eq!(record["method"], "CONNECT");
    }
    gate.process.succeeds("audit", &["verify", "--all"]);
}

#[test]
fn report_mode_allows_and_records_the_denial() {
    let gate = AdminGate::with(|setup| setup.set("policy", "mode", "\"report\""));
    let origin = Origin::with_rules(RULES);
    let answer = gate.decide(&origin.url("/private"), AGENT);
    has!(gate.decided(&answer, 200, "robots_disallow"), {"mode": "report", "verdict": "deny"});
    assert_eq!(answer.problem()["rule"], "Disallow: /private");
}

#[test]
fn an_override_decides_but_lifts_no_prohibited_address() {
    let gate = AdminGate::with(|setup| {
        // A name with a prohibited address: without a fetch of robots.txt, the decision itself resolves it.
        setup.set("upstream.hosts", "\"bank.test\"", "\"169.254.169.254\"");
    });
    let origin = Origin::with_rules(RULES);
    for (site, pattern, action) in [
        (origin.url(""), "/private", "allow"),
        (origin.url(""), "/open", "deny"),
        ("http://bank.test".to_owned(), "/", "allow"),
    ] {
        gate.process.setup.overrides(&site, pattern, action);
    }
    #[rustfmt::skip] // one row, one case
    let rows = [
        (origin.url("/private"), 200, "operator_allow"),
        (origin.url("/open"), 403, "operator_deny"),
        ("http://bank.test/x".to_owned(), 403, "address_prohibited"),
        ("http://bank.test/robots.txt".to_owned(), 403, "address_prohibited"),
    ];
    for (url, status, reason) in rows {
        gate.decided(&gate.decide(&url, AGENT), status, reason);
    }
    assert_eq!(origin.seen().len(), 0);
}

#[test]
fn a_decision_that_cannot_be_recorded_is_not_answered() {
    let gate = AdminGate::with(|setup| {
        setup.set("log", "file", "\"/dev/full\"");
        setup.set("log", "decisions", "\"denied\"");
        setup.set("audit", "durability", "\"strict\"");
        setup.set("store", "path", "\"\"");
    });
    let origin = Origin::with_rules(RULES);
    for path in ["/private", "/open"] {
        let answer = gate.decide(&origin.url(path), AGENT);
        assert_eq!(answer.status, 503, "{path}: {answer:?}");
        assert_eq!(answer.problem()["reason"], "log_failed", "{answer:?}");
        answer.field_is("x-crawlgate-verdict", Some("defer"));
    }
}

#[test]
fn answers_during_the_shutdown_are_recorded() {
    let mut gate = AdminGate::open();
    let (latch, known) = (Latch::new(), Origin::with_rules(RULES));
    let rules = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{RULES}", RULES.len());
    let slow = Origin::http().on("/robots.txt", [Reply::silent().wait(&latch).send(rules)]);
    let (address, url) = (gate.address, slow.url("/private"));
    let waits = thread::spawn(move || {
        let request = format!("GET /decide?url={url} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        Wire::connect(address).exchange(request)
    });
    latch.arrivals(1);
    let mut told = Vec::new();
    gate.process.signal(Signal::TERM);
    let refused = eventually("the gate to take no more questions", || {
        let answer = gate.decide(&known.url("/private"), AGENT);
        match answer.field("x-crawlgate-decision") {
            Some(id) => {
                told.push(id);
                None
            }
            None => Some(answer),
        }
    });
    assert_eq!(refused.status, 503, "{refused:?}");
    let forbidden = gate.say(&format!(
        "GET /auth HTTP/1.1\r\nHost: localhost\r\nX-Original-URL: {}\r\n\r\n",
        known.url("/open")
    ));
    assert_eq!(forbidden.status, 403, "{forbidden:?}");
    assert!(gate.process.is_running(), "it did not wait for the question");
    latch.open();
    let answer = waits.join().unwrap();
    assert_eq!(answer.status, 403, "{answer:?}");
    told.push(answer.field("x-crawlgate-decision").unwrap());
    assert_eq!(gate.process.wait().code(), Some(0), "{}", gate.process.said());
    let records = gate.process.records();
    for id in told {
        let is_it = |record: &serde_json::Value| record["id"] == id.as_str();
        assert!(records.iter().any(is_it), "{id} is told and not recorded");
    }
}
