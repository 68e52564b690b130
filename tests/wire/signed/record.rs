//! The facts in a request's record about its signature.

use super::verify::{by_http1, signing_gate_with};
use crate::support::{AdminGate, Origin, Reply};

#[test]
fn a_record_says_how_its_request_was_signed() {
    let (gate, key) =
        signing_gate_with("", |setup| setup.set("admin", "address", "\"127.0.0.1:0\""));
    let origin = Origin::https().on("/gone", [Reply::silent().reset()]);
    let http = Origin::http();
    for path in ["/page", "/é", "/gone"] {
        gate.get(&origin.url(path));
    }
    gate.request("GET", &origin.url("/own"), "Signature: a=:AA==:\r\n");
    gate.get(&http.url("/plain"));
    let record = |path: &str| gate.record("a request", |one| one["url"].to_string().contains(path));
    for path in ["/page", "/gone"] {
        let signed = record(path)["signed"].clone();
        has!(signed, {"as": "news", "keyid": **key.thumbprint()}, "{path}");
        let all = by_http1(&origin);
        let sent = all.iter().rfind(|sent| sent.url.ends_with(path)).unwrap();
        assert_eq!(signed["created"].to_string(), sent.parameter("created"));
    }
    assert_eq!(record("/own")["signed"], serde_json::json!({ "left": true }));
    let unsignable = serde_json::json!({ "unsignable": true });
    assert_eq!(record("/\u{e9}")["signed"], unsignable);
    assert_eq!(record("/plain").get("signed"), None);
    let id = record("/page")["id"].as_str().unwrap().to_owned();
    let (shown, error) = gate.ends(0, "audit", &["verify", &id]);
    let line = format!("as news, with the key {}", key.thumbprint());
    assert!(shown.contains(&line), "{shown}{error}");
    let metrics = AdminGate::of(gate).get("/metrics").text();
    // The robots.txt too, and the page that was sent again; by http, nothing is signed.
    let sent = by_http1(&origin);
    let signed = sent.iter().filter(|sent| sent.field("signature-input").is_some());
    for (result, count) in [("signed", signed.count()), ("left", 1), ("unsignable", 1)] {
        let labels = format!("identity=\"news\",result=\"{result}\"");
        let line = format!("crawlgate_signed_requests_total{{{labels}}} {count}\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}
