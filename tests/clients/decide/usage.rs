//! The published rules about use where another proxy asks: only what is known before the request counts.

use serde_json::{Value, json};

use crate::support::{AdminGate, Origin};

#[path = "../../support/signals.rs"]
mod signals;

use self::signals::{Vector, vectors};

/// Tells whether a vector is about the decision service, or says nothing that depends on the way of a request.
fn is_asked(vector: &Vector) -> bool {
    let json = &vector.json;
    let is_plain = [
        "signals",
        "override",
        "mode",
        "headers",
        "status",
        "tdmrep",
        "tdmrep_state",
        "robots_state",
        "method",
    ]
    .iter()
    .all(|name| json[name].is_null());
    is_plain
        && (json["via"].is_null() || json["via"] == "decide")
        && json["purposes"] == json!(["train-ai"])
        && json["robots"].is_string()
        && vector.words("agent").len() == 1
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

#[test]
fn the_published_vectors_hold_for_another_proxy() {
    let gate = AdminGate::with(|setup| setup.set("policy", "purposes", "[\"train-ai\"]"));
    let vectors: Vec<Vector> = vectors().into_iter().filter(is_asked).collect();
    for vector in &vectors {
        let id = &vector.id;
        let origin = Origin::http().robots(vector.text("robots").unwrap());
        let agent = format!("&agent={}", vector.words("agent")[0]);
        let answer = gate.decide(&origin.url(vector.path()), &agent);
        let status = vector.expect("status").as_u64().unwrap() as u16;
        let reason = vector.expect("reason").as_str().unwrap();
        assert_eq!(answer.problem()["reason"], reason, "{id}");
        let record = gate.decided(&answer, status, reason);
        let usage = &record["usage"];
        for name in ["preferences", "refused", "licenses"] {
            assert_eq!(list(&usage[name]), list(vector.expect(name)), "{id}");
        }
        assert_eq!(origin.seen_but_robots(), [""; 0], "{id}");
    }
    let has = |via: &str| vectors.iter().any(|vector| vector.json["via"] == via);
    assert!(has("decide"));
    assert_eq!(vectors.len(), 85);
    gate.process.succeeds("audit", &["verify", "--all"]);
}
