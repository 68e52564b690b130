//! The local CA during a rotation, and the names that it may not sign. Page: `docs/clients.md`.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{CrawlgateProcess, Origin, RULES, origin_ca_pem};

/// Runs `crawlgate ca …` with the gate's configuration; it must succeed.
#[track_caller]
fn ca(gate: &CrawlgateProcess, words: &[&str]) -> String {
    let output = gate.setup.command("ca").args(words).output().unwrap();
    assert!(output.status.success(), "ca {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn file(gate: &CrawlgateProcess, name: &str) -> String {
    fs::read_to_string(gate.setup.dir().join(name)).unwrap()
}

#[test]
fn a_rotation_leaves_no_day_on_which_a_client_trusts_neither() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::https());
    let authority = origin.authority();
    let believes = |gate: &CrawlgateProcess, pem: &str| {
        let wire = gate.tunnels(&authority);
        wire.try_tls("site.test", pem).is_ok()
    };
    let first = gate.ca_pem();
    assert!(believes(&gate, &first));
    ca(&gate, &["export"]);

    let said = ca(&gate, &["rotate"]);
    says!(said, "ca.next.crt");
    let next = file(&gate, "ca.next.crt");
    for exported in ["bundle.pem", "authorities.pem"] {
        let exported = file(&gate, exported);
        assert!(exported.contains(&first) && exported.contains(&next));
    }
    gate.reload_until(|_| (), "the next CA");
    assert!(believes(&gate, &first), "the current one signs");
    assert!(!believes(&gate, &next));
    let setup = ca(&gate, &["setup", "system"]);
    says!(setup, "ca.next.crt");

    let early = gate.setup.command("ca").args(["rotate", "--finish"]).output().unwrap();
    let told = String::from_utf8_lossy(&early.stderr).into_owned();
    assert!(!early.status.success() && told.contains("--force"), "{told}");
    let mut open = gate.intercept(&authority, "site.test");
    ca(&gate, &["rotate", "--finish", "--force"]);
    assert_eq!(file(&gate, "ca.crt"), next);
    assert!(believes(&gate, &first), "until it is told, the process signs as before");
    gate.reload_until(|_| (), "the local CA");
    assert!(believes(&gate, &next), "the next one signs");
    assert!(!believes(&gate, &first));
    open.passes_inside(&authority, "/still-open");
    let bundle = file(&gate, "bundle.pem");
    assert!(bundle.starts_with(&next) && bundle.contains(&first));

    gate.restart(Signal::TERM);
    assert!(believes(&gate, &next));
}

#[test]
fn hosts_outside_the_name_constraints_are_tunnelled_or_refused() {
    let gate =
        CrawlgateProcess::with(|setup| setup.set("tls", "name_constraints", "[\"site.test\"]"));
    let shown = ca(&gate, &["show"]);
    says!(shown, "site.test", "not 0.0.0.0/0");
    let (free, ruled) = (Origin::https(), Origin::https().robots(RULES));
    let authority = |host: &str, origin: &Origin| format!("{host}:{}", origin.port());

    for host in ["site.test", "www.site.test"] {
        let authority = authority(host, &ruled);
        let mut wire = gate.intercept(&authority, host);
        gate.denied(&wire.get_inside(&authority, "/private"));
    }
    // A name outside the constraints, which no certificate can carry, still differs from the tunnel's.
    let wire = gate.tunnels(&ruled.authority());
    let mut wire = wire.tls_as("other.test").unwrap();
    let answer = wire.get_inside("other.test", "/open");
    gate.refused(&answer, 421, "misdirected");
    // The rules disallow nothing: an opaque tunnel, in which the origin shows its own certificate.
    for host in ["other.test", "127.0.0.1"] {
        let authority = authority(host, &free);
        let mut wire = gate.connect();
        assert_eq!(wire.tunnel(&authority).status, 200, "{host}");
        let mut wire = wire.tls(host, origin_ca_pem());
        wire.passes_inside(&authority, "/page");
        drop(wire);
        let record =
            gate.record(host, |record| record["host"] == host && record["verdict"] == "allow");
        assert_eq!(record["opaque"], json!(true), "{record}");
    }
    let answer = gate.connect().tunnel(&authority("other.test", &ruled));
    gate.refused(&answer, 403, "opaque_tunnel");
    let detail = answer.problem()["detail"].to_string();
    says!(detail, "name constraints");
    assert_eq!(ruled.seen_but_robots(), [""; 0]);
}

#[test]
fn a_ca_with_constraints_that_differ_from_the_configuration_causes_a_warning() {
    let mut gate = CrawlgateProcess::start();
    gate.setup.set("tls", "name_constraints", "[\"site.test\"]");
    gate.restart(Signal::TERM);
    gate.wait_said("other name constraints");
}
