//! Every published rule about use, through the proxy and again from the store.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::overrides::proven;
use crate::support::{CrawlgateProcess, Latch, Origin, Reply, Response, Setup, eventually};

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
    let file = "/.well-known/tdmrep.json";
    let origin = match (vector["tdmrep"].as_str(), vector["tdmrep_state"].as_str()) {
        (Some(text), Some("status_503")) => {
            let short = Reply::with(200, "Cache-Control: max-age=1\r\n", text);
            origin.on(file, [short, Reply::status(503, "")])
        }
        (Some(text), _) => origin.on(file, [Reply::ok(text)]),
        (None, Some("pending")) => origin.on(file, [Reply::silent().wait(&Latch::new())]),
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
    if vector["tdmrep_state"] == "status_503" {
        setup.set("robots", "fresh_min", "\"1s\"");
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
    let covers = said.get("covers").map(|covers| format!("covers = {covers}\n"));
    format!(
        "[[override]]\norigin = \"{}\"\naction = {}\n{}by = \"Ada\"\nreason = \"a letter\"\n",
        origin.url(""),
        said["action"],
        covers.unwrap_or_default(),
    )
}

/// Returns the vectors that are about a proxy.
fn askable() -> Vec<Value> {
    let all = vectors().into_iter();
    all.filter(|vector| vector["via"] != "decide").collect()
}

/// Tells whether a vector is about a tdmrep.json that its own request would not wait for.
fn must_know_the_file(vector: &Value) -> bool {
    let mode = vector["signals"]["tdmrep"].as_str().unwrap_or("off");
    let waits = mode == "enforce" && vector["purposes"] != json!(["search"]);
    mode != "off"
        && vector["tdmrep"].is_string()
        && (!waits || vector["tdmrep_state"] == "status_503")
}

/// Makes a gate know the tdmrep.json of an origin; one that is to fail has failed since.
fn learn(gate: &CrawlgateProcess, vector: &Value, origin: &Origin) {
    let fetches = 1 + usize::from(vector["tdmrep_state"] == "status_503");
    let file = "GET /.well-known/tdmrep.json";
    let what = format!("the tdmrep.json of {}", vector["id"]);
    eventually(&what, || {
        gate.get(&origin.url("/warm"));
        let lines = origin.seen_but_robots();
        let asked = lines.iter().filter(|line| *line == file).count();
        (asked >= fetches).then_some(())
    });
}

fn ask(gate: &CrawlgateProcess, vector: &Value, origin: &Origin, target: &str) -> Response {
    let method = vector["method"].as_str().unwrap_or("GET");
    match vector["via"].as_str() {
        Some("tunnel") => gate.connect().tunnel(&format!("bank.test:{}", origin.port())),
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
    assert_eq!(list(&usage["preferences"]), list(&expect["preferences"]), "{id}: {record}");
    assert_eq!(object(&usage["combined"]), object(&expect["combined"]), "{id}: {record}");
    for member in ["refused", "licenses"] {
        assert_eq!(list(&usage[member]), list(&expect[member]), "{id}, {member}: {record}");
    }
    if !expect["invalid"].is_null() {
        assert_eq!(list(&usage["invalid"]), list(&expect["invalid"]), "{id}: {record}");
    }
    assert_eq!(usage["stage"], expect["stage"], "{id}: {record}");
}

/// Returns the number of decisions that the store yields again; there is no other one.
#[track_caller]
fn replays(gate: &CrawlgateProcess) -> u64 {
    let said = gate.succeeds("audit", &["verify", "--all", "--json"]);
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(found["attested"], json!({}), "{found}");
    found["proven"].as_u64().unwrap()
}

#[test]
fn every_vector_holds_through_the_proxy_and_again_from_the_store() {
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for vector in askable() {
        let of = ["signals", "mode", "purposes", "agent", "tdmrep_state"];
        let of = of.map(|member| &vector[member]);
        let key = json!([of, vector["override"]]).to_string();
        groups.entry(key).or_default().push(vector);
    }
    let (mut asked, mut replayed) = (0, 0);
    for vectors in groups.values() {
        let origins: Vec<_> = vectors.iter().map(origin_of).collect();
        let mut gate = CrawlgateProcess::with(|setup| {
            configure(setup, &vectors[0]);
            if vectors.iter().any(must_know_the_file) {
                // This client waits for it.
                setup.set("policy", "purposes", "[\"tdm\"]");
                setup.set("signals", "tdmrep", "\"enforce\"");
            }
            let overrides = vectors.iter().zip(&origins);
            let overrides = overrides.map(|(vector, (origin, _))| override_of(vector, origin));
            setup.tables(&overrides.collect::<String>());
        });
        if vectors.iter().any(must_know_the_file) {
            for (vector, (origin, _)) in vectors.iter().zip(&origins) {
                learn(&gate, vector, origin);
            }
            let as_it_says = |setup: &mut Setup| configure(setup, &vectors[0]);
            gate.reload(as_it_says);
        }
        for (vector, (origin, target)) in vectors.iter().zip(&origins) {
            let (expect, id) = (&vector["expect"], &vector["id"]);
            let answer = ask(&gate, vector, origin, target);
            assert_eq!(answer.status, expect["status"], "{id}: {answer:?}");
            let port = u64::from(origin.port());
            let is_its = |record: &Value| {
                let url = record["url"].as_str().unwrap_or_default();
                record["port"] == port && !url.ends_with("/warm")
            };
            let record = gate.record("the vector", is_its);
            compare(vector, &record);
            let is_ours = expect["verdict"] == "deny" && vector["mode"] != "report";
            assert_eq!(answer.is_ours(), is_ours, "{id}: {answer:?}");
            let mut pages = origin.seen_but_robots();
            pages.retain(|line| !line.ends_with("/tdmrep.json") && !line.ends_with("/warm"));
            match expect["stage"].as_str() {
                Some("before") if is_ours => assert_eq!(pages, [""; 0], "{id}"),
                Some("after") => {
                    assert_eq!(pages.len(), 1, "{id}");
                    has!(record, {
                        "usage.received_status": vector["status"].as_u64().unwrap_or(200),
                    });
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
        replayed += replays(&gate);
    }
    // The last one is about another proxy that asks: `tests/clients/decide` has it.
    assert_eq!((asked, vectors().len()), (179, 180));
    assert!(replayed >= asked, "{replayed}");
}
