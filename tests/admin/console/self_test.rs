//! The self-test host, at which the proxy itself answers.

use std::fs;

use crate::support::{AdminGate, Wire};

const HOST: &str = "self-test.crawlgate.invalid";

#[test]
fn a_client_that_uses_the_proxy_gets_an_answer_without_a_record() {
    let gate = AdminGate::open();
    let plain = gate.process.get(&format!("http://{HOST}/whatever?x"));
    assert_eq!(plain.status, 200, "{}", plain.text());
    let text = plain.text();
    assert!(text.starts_with("You come through crawlgate, as "), "{text}");
    assert!(!text.contains("You trust"), "{text}");

    let ca = gate.get("/ca.crt");
    assert_eq!(ca.status, 200);
    let ca = ca.text();
    assert!(!ca.contains("PRIVATE"), "{ca}");
    let file = fs::read_to_string(gate.process.setup.dir().join("ca.crt")).unwrap();
    assert_eq!(ca, file);
    let mut tunnel = Wire::connect(gate.process.address);
    assert_eq!(tunnel.tunnel(&format!("{HOST}:443")).status, 200);
    let inside = tunnel.tls(HOST, &ca).get_inside(HOST, "/").is(200);
    says!(inside.text(), "You trust its CA");

    // The next request is recorded, so records of earlier ones would be there.
    let origin = crate::support::Origin::with_rules("User-agent: *\nDisallow: /\n");
    gate.deny(&origin, "/x");
    let records = fs::read_to_string(gate.process.setup.dir().join("decisions.jsonl")).unwrap();
    assert!(!records.contains(HOST), "{records}");
    let decisions = records.lines().filter(|line| !line.contains("\"event\":"));
    assert_eq!(decisions.count(), 1, "{records}");
}
