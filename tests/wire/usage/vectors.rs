//! Every published rule about use, through the proxy and again from the store.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::overrides::proven;
use crate::support::{Gate, Origin, Reply, Response, Setup};

/// The rules as data, with the expectation of each.
fn vectors() -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../../vectors/signals.json")).unwrap();
    all["vectors"].as_array().unwrap().clone()
}

/// Returns an origin that answers as the vector says, and the target to request.
fn origin_of(vector: &Value) -> (Origin, String) {
    let origin = match vector["via"].as_str() {
        Some("tunnel") => Origin::https(),
        _ => Origin::http(),
    };
    let origin = match (vector["robots"].as_str(), vector["robots_state"].as_str()) {
        (Some(text), _) => origin.robots(text),
        (None, Some("unreachable")) => origin.on("/robots.txt", [Reply::status(503, "")]),
        (None, _) => origin,
    };
    let rest = vector["url"].as_str().unwrap();
    let target = rest.strip_prefix("https://example.com").unwrap().to_owned();
    let status = vector["status"].as_u64().unwrap_or(200) as u16;
    let mut fields = String::new();
    for field in vector["headers"].as_array().into_iter().flatten() {
        let [name, value] = [&field[0], &field[1]].map(|part| part.as_str().unwrap());
        fields.push_str(&format!("{name}: {value}\r\n"));
    }
    if target != "/robots.txt" {
        let body = if status == 304 { "" } else { "content" };
        origin.script(&target, [Reply::with(status, &fields, body)]);
    }
    (origin, target)
}

/// Configures a gate as a vector says.
fn configure(setup: &mut Setup, vector: &Value) {
    setup.set("policy", "purposes", &vector["purposes"].to_string());
    setup.set("agent", "product_tokens", &vector["agent"].to_string());
    setup.set("tls", "tunnel", "[\"bank.test\"]");
    if vector["mode"] == "report" {
        setup.set("policy", "mode", "\"report\"");
    }
    for (key, value) in vector["signals"].as_object().into_iter().flatten() {
        let section = match key.as_str() {
            "path_guard" => "robots",
            _ => "signals",
        };
        setup.set(section, key, &value.to_string());
    }
}

/// Returns the `[[override]]` of a vector for its origin.
fn override_of(vector: &Value, origin: &Origin) -> String {
    let Some(said) = vector["override"].as_object() else {
        return String::new();
    };
    let covers = said
        .get("covers")
        .map(|covers| format!("covers = {covers}\n"));
    format!(
        "[[override]]\norigin = \"{}\"\naction = {}\n{}by = \"Ada\"\nreason = \"a letter\"\n",
        origin.url(""),
        said["action"],
        covers.unwrap_or_default(),
    )
}

/// Returns the vectors that this program can be asked about over the wire: the file of TDMRep is not fetched.
fn askable() -> Vec<Value> {
    let asks_file = |vector: &Value| vector["signals"]["tdmrep"].as_str().unwrap_or("off") != "off";
    let all = vectors().into_iter();
    all.filter(|vector| !asks_file(vector) && vector["via"] != "decide")
        .collect()
}

fn ask(gate: &Gate, vector: &Value, origin: &Origin, target: &str) -> Response {
    let method = vector["method"].as_str().unwrap_or("GET");
    match vector["via"].as_str() {
        Some("tunnel") => gate
            .connect()
            .tunnel(&format!("bank.test:{}", origin.port())),
        _ => gate.request(method, &origin.url(target), ""),
    }
}

/// Compares the record of a vector with its expectation.
fn compare(vector: &Value, record: &Value) {
    let (expect, id) = (&vector["expect"], &vector["id"]);
    for member in ["verdict", "reason"] {
        assert_eq!(record[member], expect[member], "{id}: {record}");
    }
    let usage = &record["usage"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
    assert_eq!(
        list(&usage["preferences"]),
        list(&expect["preferences"]),
        "{id}: {record}"
    );
    assert_eq!(
        object(&usage["combined"]),
        object(&expect["combined"]),
        "{id}: {record}"
    );
    for member in ["refused", "licenses"] {
        assert_eq!(
            list(&usage[member]),
            list(&expect[member]),
            "{id}, {member}: {record}"
        );
    }
    if !expect["invalid"].is_null() {
        assert_eq!(
            list(&usage["invalid"]),
            list(&expect["invalid"]),
            "{id}: {record}"
        );
    }
    assert_eq!(usage["stage"], expect["stage"], "{id}: {record}");
}

#[test]
fn every_vector_holds_through_the_proxy_and_again_from_the_store() {
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for vector in askable() {
        let of = ["signals", "mode", "purposes", "agent"].map(|member| &vector[member]);
        let key = json!([of, vector["override"]]).to_string();
        groups.entry(key).or_default().push(vector);
    }
    let mut asked = 0;
    for vectors in groups.values() {
        let origins: Vec<_> = vectors.iter().map(origin_of).collect();
        let gate = Gate::with(|setup| {
            configure(setup, &vectors[0]);
            let overrides = vectors.iter().zip(&origins);
            let overrides = overrides.map(|(vector, (origin, _))| override_of(vector, origin));
            setup.tables(&overrides.collect::<String>());
        });
        for (vector, (origin, target)) in vectors.iter().zip(&origins) {
            let (expect, id) = (&vector["expect"], &vector["id"]);
            let answer = ask(&gate, vector, origin, target);
            assert_eq!(answer.status, expect["status"], "{id}: {answer:?}");
            let port = u64::from(origin.port());
            let record = gate.record("the vector", |record| record["port"] == port);
            compare(vector, &record);
            let is_ours = expect["verdict"] == "deny" && vector["mode"] != "report";
            assert_eq!(answer.is_ours(), is_ours, "{id}: {answer:?}");
            let pages = origin.seen_but_robots();
            match expect["stage"].as_str() {
                Some("before") if is_ours => assert_eq!(pages, [""; 0], "{id}"),
                Some("after") => {
                    assert_eq!(pages.len(), 1, "{id}");
                    assert_eq!(
                        record["usage"]["received_status"],
                        vector["status"].as_u64().unwrap_or(200)
                    );
                }
                _ => {}
            }
            if is_ours {
                assert!(
                    !answer.text().contains("content\n") && !answer.text().ends_with("content"),
                    "{id}"
                );
            }
            asked += 1;
        }
        proven(&gate);
    }
    assert_eq!(asked, 159);
}
