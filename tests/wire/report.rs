//! Report mode: the gate decides and records everything, and denies nothing. Page: `docs/overrides.md`.

use serde_json::Value;

use crate::overrides::proven;
use crate::support::{CrawlgateProcess, Origin, RULES, Reply, Setup};

/// Asserts the outcome under enforcement, and the actual outcome.
#[track_caller]
fn reported(record: &Value, verdict: &str, reason: &str, status: u16) {
    has!(record, {"mode": "report", "verdict": verdict, "reason": reason, "status": status});
    assert!(record["upstream"].is_string(), "{record}");
    assert!(record["error"].is_null(), "{record}");
}

fn reporting() -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| setup.set("policy", "mode", "\"report\""))
}

#[test]
fn a_request_that_would_be_denied_goes_out_and_its_record_has_the_denial() {
    let gate = reporting();
    gate.wait_said("NOTHING IS DENIED");
    let down = || Reply::status(500, "");
    #[rustfmt::skip] // one row, one case
    let cases = [
        (Origin::with_rules(RULES), "/private/x", "deny", "robots_disallow"),
        (Origin::https().robots(RULES), "/private/x", "deny", "robots_disallow"),
        (Origin::with_rules(RULES), "/a/../private/x", "deny", "path_guard"),
        (Origin::http().on("/robots.txt", [down()]), "/x", "deny", "robots_unreachable"),
        (Origin::with_rules(RULES), "/open", "allow", "robots_allow"),
    ];
    for (origin, path, verdict, reason) in cases {
        let url = origin.url(path);
        let enforced = origin.seen_but_robots();
        assert_eq!(enforced, [""; 0]);
        let answer = gate.get(&url);
        answer.is_origins(200, &format!("page {path}"));
        assert!(!answer.is_ours(), "{answer:?}");
        assert_eq!(origin.seen_but_robots(), [format!("GET {path}")]);
        let record = gate.record_of(&url);
        reported(&record, verdict, reason, 200);
        assert_eq!(
            record["rule"].is_object(),
            reason == "robots_disallow" || reason == "path_guard"
        );
        let policy = record["policy"].as_str().unwrap();
        assert!(policy.len() == 64 && policy.bytes().all(|b| b.is_ascii_hexdigit()), "{record}");
        assert!(record["decided_at"].as_str() >= record["time"].as_str(), "{record}");
    }
    proven(&gate);
}

#[test]
fn prohibited_addresses_stay_prohibited_in_report_mode() {
    let gate = reporting();
    let origin = Origin::with_rules(RULES);
    let mut wire = gate.connect();
    let answer = wire.exchange("GET /origin-form HTTP/1.1\r\nHost: x\r\n\r\n");
    has!(gate.refused(&answer, 400, "bad_request"), {"mode": "enforce"}, "no report");
    let mut wire = gate.intercept("site.test:443", "site.test");
    let answer = wire.exchange("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n");
    gate.refused(&answer, 421, "misdirected");
    assert_eq!(origin.seen().len(), 0);
}

#[test]
fn an_origin_or_a_client_may_be_in_report_mode_alone() {
    let observed = Origin::with_rules(RULES);
    let enforced = Origin::with_rules(RULES);
    let gate = CrawlgateProcess::with(|setup| {
        let origins = format!("[{:?}]", observed.url(""));
        setup.set("policy", "report_origins", &origins);
    });
    gate.wait_said("report mode for some");
    gate.passes(&observed.url("/private"));
    reported(&gate.record_of(&observed.url("/private")), "deny", "robots_disallow", 200);
    has!(gate.denies(&enforced.url("/private")), {"mode": "enforce"});
    assert_eq!(enforced.seen_but_robots(), [""; 0]);

    for (networks, goes_out) in [("[\"127.0.0.0/8\"]", true), ("[\"10.0.0.0/8\"]", false)] {
        let gate = CrawlgateProcess::with(|setup| setup.set("policy", "report_clients", networks));
        let answer = gate.get(&enforced.url("/private"));
        assert_eq!(answer.status == 200, goes_out, "{networks}: {answer:?}");
    }
}

#[test]
fn a_pending_or_paced_request_goes_out_all_the_same() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("policy", "mode", "\"report\"");
        setup.set("robots", "hold", "\"50ms\"");
    });
    let silent = Origin::http().on("/robots.txt", [Reply::silent()]);
    let url = silent.url("/x");
    gate.get(&url).is_origins(200, "page /x");
    reported(&gate.record_of(&url), "defer", "robots_pending", 200);

    let gate = CrawlgateProcess::with(|setup| {
        setup.set("policy", "mode", "\"report\"");
        setup.set("pace", "requests_per_second", "0.001");
        // The fetch of robots.txt counts as one.
        setup.set("pace", "burst", "2");
        setup.set("pace", "max_hold", "\"0s\"");
    });
    let origin = Origin::with_rules(RULES);
    let url = |n| origin.url(&format!("/open/{n}"));
    gate.get(&url(1)).is_origins(200, "page /open/1");
    // Enforcement would not have sent the request, so it takes no turn.
    gate.passes(&origin.url("/private"));
    gate.get(&url(2)).is_origins(200, "page /open/2");
    reported(&gate.record_of(&url(1)), "allow", "robots_allow", 200);
    reported(&gate.record_of(&origin.url("/private")), "deny", "robots_disallow", 200);
    reported(&gate.record_of(&url(2)), "defer", "paced", 200);
}

#[test]
fn a_tunnel_that_cannot_be_judged_opens_all_the_same() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("policy", "mode", "\"report\"");
        setup.set("tls", "tunnel", "[\"bank.test\"]");
    });
    let origin = Origin::https().robots(RULES);
    let authority = format!("bank.test:{}", origin.port());
    let mut wire = gate.tunnels(&authority).tls("bank.test", crate::support::origin_ca_pem());
    wire.passes_inside(&authority, "/private");
    drop(wire);
    let record = gate.record("the tunnel", |record| record["via"] == "tunnel");
    reported(&record, "deny", "opaque_tunnel", 200);

    // Neither TLS nor HTTP: the requested path is unknown.
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let mut wire = gate.tunnels(&format!("site.test:{port}"));
    wire.send(b"\x00hello");
    let (mut theirs, _) = other.accept().unwrap();
    let mut heard = [0; 6];
    std::io::Read::read_exact(&mut theirs, &mut heard).unwrap();
    assert_eq!(&heard, b"\x00hello");
    std::io::Write::write_all(&mut theirs, b"\x01world").unwrap();
    assert_eq!(wire.read(6), b"\x01world");
    drop((wire, theirs));
    let record = gate.record("what was spoken", |record| record["port"] == port);
    reported(&record, "deny", "opaque_tunnel", 200);
    has!(record, {"bytes_in": 6, "bytes_out": 6});
}

#[test]
fn a_reload_ends_report_mode() {
    let mut gate = reporting();
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/private");
    gate.get(&url).is_origins(200, "page /private");
    gate.reload(|setup| setup.set("policy", "mode", "\"enforce\""));
    gate.denies(&url);
    assert_eq!(origin.seen_but_robots(), ["GET /private"]);
}

#[test]
fn a_run_in_report_mode_denies_nothing_and_summarises_the_denials() {
    let setup = Setup::new();
    let origin = Origin::with_rules(RULES);
    let output = setup
        .command("run")
        .args(["--report", "--", "curl", "-s", &origin.url("/private")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "page /private", "{said}");
    says!(said, "reported           1  robots_disallow 1 (sent all the same: report mode)");
    says!(said, "Disallow: /private");
    assert_eq!(origin.seen_but_robots(), ["GET /private"]);
}
