//! The API, operation by operation, each answer checked against its description.

use serde_json::{Value, json};

use crate::schema::Description;
use crate::support::admin_gate::{json as body, problem};
use crate::support::{AdminGate, Origin, RULES, StoredLog, eventually, wait_until};

pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(|octet| match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                char::from(octet).to_string()
            }
            _ => format!("%{octet:02X}"),
        })
        .collect()
}

/// Waits until the store has this many decisions, and returns them.
#[track_caller]
pub fn decisions(gate: &AdminGate, query: &str, count: usize) -> Vec<Value> {
    eventually("the decisions to be kept", || {
        let page = gate.api(&format!("/decisions{query}"));
        let items = page["items"].as_array().unwrap().clone();
        (items.len() == count).then_some(items)
    })
}

#[test]
fn every_operation_answers_as_it_is_described() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::with(|setup| setup.set("audit", "checkpoint_every", "\"1s\""));
    let described = Description::of(&gate);
    let held = |method: &str, path: &str, target: &str, document: Option<Value>| {
        let method_word = method.to_uppercase();
        let answer = match &document {
            Some(document) => gate.post(target, document),
            None => gate.ask(&method_word, &format!("/api/v1{target}"), "", ""),
        };
        described.holds(method, path, &answer);
        answer
    };
    let id = gate.deny(&origin, "/private/a");
    decisions(&gate, "", 1);
    let name = encoded(origin.url("").trim_end_matches('/'));

    held("get", "/status", "/status", None);
    assert_eq!(held("get", "/fleet", "/fleet", None).status, 404, "it is alone");
    held("get", "/decisions", "/decisions?limit=1", None);
    held("get", "/tallies", "/tallies?by=rule", None);
    held("get", "/report", "/report?since=1h", None);
    let one = body(&held("get", "/decisions/{id}", &format!("/decisions/{id}"), None));
    assert_eq!(one["record"]["id"], id);
    let evidence =
        held("get", "/decisions/{id}/evidence", &format!("/decisions/{id}/evidence"), None);
    let evidence = body(&evidence);
    has!(evidence, {"ok": true, "held": "proven", "robots_txt": RULES});
    let proof = held("get", "/decisions/{id}/proof", &format!("/decisions/{id}/proof"), None);
    proof.field_is("content-type", Some("application/json"));
    let proof = body(&proof);
    has!(proof, {"record.id": id, "robots.body": RULES});
    let target = format!("/decisions/{id}/evidence");
    let evidence = eventually("a checkpoint over the decision", || {
        let evidence = gate.api(&target);
        evidence["signed"].is_u64().then_some(evidence)
    });
    let (_, key, _) = gate.beside("audit", &["key"]);
    assert_eq!(evidence["keys"], json!([key.trim()]));
    let (place, size) = (&evidence["seq"], &evidence["signed"]);
    let told = format!("record {place}, in the log of {size} records signed by ");
    let log = evidence["in_log"].as_str().unwrap();
    assert!(log.starts_with(&told) && log.contains(key.trim()), "{log}");
    let stored = StoredLog::read(&gate.setup.dir().join("crawlgate.db"));
    let leaf = stored.leaves[place.as_u64().unwrap() as usize - 1];
    let leaf: String = leaf.iter().map(|octet| format!("{octet:02x}")).collect();
    assert_eq!(evidence["hash"], leaf);
    let note = json!({"by": "Ada", "note": "seen"});
    let target = format!("/decisions/{id}/acknowledgement");
    held("post", "/decisions/{id}/acknowledgement", &target, Some(note.clone()));
    held("post", "/acknowledgements", "/acknowledgements?verdict=deny", Some(note));

    held("get", "/origins", "/origins", None);
    let mapped = Origin::with_rules("User-agent: *\nSitemap: /x\nSitemap: https://new.test/\n");
    gate.process.passes(&mapped.url("/a"));
    wait_until("the sitemaps to be kept", || {
        body(&held("get", "/sitemaps", "/sitemaps?limit=1", None))["next"].is_string()
    });
    let found = body(&held("get", "/origins/{origin}", &format!("/origins/{name}"), None));
    assert_eq!(found["state"], "successful");
    let sha256 = found["robots"]["sha256"].as_str().unwrap().to_owned();
    held("get", "/origins/{origin}/fetches", &format!("/origins/{name}/fetches"), None);
    let text = held("get", "/snapshots/{sha256}", &format!("/snapshots/{sha256}"), None);
    assert_eq!(text.text(), RULES);
    let diff = format!("/snapshots/{sha256}/diff/{sha256}");
    held("get", "/snapshots/{sha256}/diff/{to}", &diff, None);
    held("post", "/refresh", "/refresh", Some(json!({"origin": origin.url("/")})));
    held(
        "post",
        "/check",
        "/check",
        Some(json!({"url": origin.url("/private/a"), "agents": ["TestBot"]})),
    );

    let new = json!({"origin": "https://site.test", "pattern": "/p", "action": "deny", "until": "1d", "by": "Ada", "reason": "r"});
    let added = body(&held("post", "/overrides", "/overrides", Some(new)));
    held("get", "/overrides", "/overrides?all=true", None);
    let target = format!("/overrides/{}?by=Ada", added["id"].as_str().unwrap());
    assert_eq!(held("delete", "/overrides/{id}", &target, None).status, 204);
    assert_eq!(held("delete", "/origins/{origin}", &format!("/origins/{name}"), None).status, 204);

    // The same for requests with a mistake.
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("get", "/status", "/status?x=1", None, 400),
        ("get", "/decisions", "/decisions?reason=none", None, 400),
        ("get", "/tallies", "/tallies?by=colour", None, 400),
        ("get", "/report", "/report?since=soon", None, 400),
        ("get", "/decisions/{id}", "/decisions/01KB7W3Y5E000000000VY7H1Q2", None, 404),
        ("get", "/decisions/{id}/evidence", "/decisions/nonsense/evidence", None, 404),
        ("get", "/decisions/{id}/proof", "/decisions/nonsense/proof", None, 404),
        ("post", "/decisions/{id}/acknowledgement", "/decisions/nonsense/acknowledgement", Some(json!({})), 422),
        ("post", "/acknowledgements", "/acknowledgements", Some(json!({"by": "Ada", "note": "seen"})), 400),
        ("get", "/origins", "/origins?state=gone", None, 400),
        ("get", "/sitemaps", "/sitemaps?agent=%0A", None, 400),
        ("get", "/origins/{origin}", "/origins/site.test", None, 400),
        ("get", "/origins/{origin}", "/origins/https%3A%2F%2Fnobody.test", None, 404),
        ("delete", "/origins/{origin}", "/origins/https%3A%2F%2Fnobody.test", None, 404),
        ("get", "/origins/{origin}/fetches", "/origins/x/fetches", None, 400),
        ("get", "/snapshots/{sha256}", "/snapshots/abc", None, 400),
        ("get", "/snapshots/{sha256}/diff/{to}", "/snapshots/abc/diff/abc", None, 400),
        ("post", "/refresh", "/refresh", Some(json!({"origin": "nowhere"})), 400),
        ("post", "/check", "/check", Some(json!({"url": "/a"})), 400),
        ("post", "/overrides", "/overrides", Some(json!({"origin": "https://a.test"})), 422),
        ("delete", "/overrides/{id}", "/overrides/4711?by=Ada", None, 404),
        ("delete", "/overrides/{id}", "/overrides/4711", None, 400),
        ("get", "/decisions/live", "/decisions/live?since=1d", None, 400),
    ];
    for (method, path, target, document, status) in cases {
        let answer = held(method, path, target, document);
        problem(&answer, status);
    }
    assert_eq!(described.unmet(), [""; 0]);
}

#[test]
fn an_unknown_path_and_a_wrong_method_are_problems_too() {
    let gate = AdminGate::open();
    problem(&gate.get("/api/v1/nothing"), 404);
    problem(&gate.get("/api/v2/status"), 404);
    let answer = gate.ask("DELETE", "/api/v1/status", "", "");
    problem(&answer, 405);
    assert!(answer.field("allow").is_some_and(|allow| allow.contains("GET")), "{answer:?}");
    problem(&gate.ask("PUT", "/api/v1/overrides", "", "{}"), 405);
    let json = "Content-Type: application/json\r\n";
    problem(&gate.ask("POST", "/api/v1/overrides", json, "{"), 400);
    problem(&gate.ask("POST", "/api/v1/overrides", json, "{\"colour\":1}"), 422);
    let answer = gate.get("/api/v1/origins/%FF");
    problem(&answer, 400);
}

#[test]
fn a_check_says_what_the_command_says_and_records_nothing() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let url = origin.url("/private/a");
    let question = json!({"url": url, "agents": ["TestBot"]});
    let judged = body(&gate.post("/check", &question));
    let (told, _) = gate.ends(1, "check", &["--json", "--agent", "TestBot", &url]);
    assert_eq!(judged, serde_json::from_str::<Value>(&told).unwrap());
    has!(judged, {"verdict": "deny", "line": 3});
    let fetched = origin.robots_fetches();
    assert_eq!(body(&gate.post("/check", &question))["verdict"], "deny");
    assert_eq!(origin.robots_fetches(), fetched, "a cached robots.txt is not fetched again");
    assert_eq!(origin.seen_but_robots(), [""; 0]);

    let pasted = json!({"url": url, "robots": "User-agent: *\nAllow: /\n"});
    assert_eq!(body(&gate.post("/check", &pasted))["verdict"], "allow");
    let prohibited = body(&gate.post("/check", &json!({"url": "http://10.0.0.1/a"})));
    assert_eq!(prohibited["reason"], "address_prohibited", "{prohibited}");
    gate.process.passes(&origin.url("/open"));
    assert_eq!(gate.wait_records(1).len(), 1, "only the request is recorded");
}

#[test]
fn without_a_store_the_api_says_so() {
    let gate = AdminGate::with(|setup| setup.set("store", "path", "\"\""));
    let words =
        "/decisions /tallies /report /origins /sitemaps /decisions/01KB7W3Y5E000000000VY7H1Q2";
    for path in words.split(' ') {
        let why = problem(&gate.get(&format!("/api/v1{path}")), 404);
        assert!(why.contains("[store] path"), "{path}: {why}");
    }
    assert_eq!(gate.api("/overrides")["items"], json!([]));
    assert!(gate.api("/status")["store"].is_null());
    assert_eq!(gate.get("/ready").status, 200);
}
