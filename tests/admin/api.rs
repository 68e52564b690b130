//! The API, operation by operation, each answer checked against its description.

use serde_json::{Value, json};

use crate::desk::{Desk, json as body, problem};
use crate::schema::Description;
use crate::support::{Origin, RULES, Reply, eventually};

fn encoded(text: &str) -> String {
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
fn decisions(desk: &Desk, query: &str, count: usize) -> Vec<Value> {
    eventually("the decisions to be kept", || {
        let page = desk.api(&format!("/decisions{query}"));
        let items = page["items"].as_array().unwrap().clone();
        (items.len() == count).then_some(items)
    })
}

#[test]
fn every_operation_answers_as_it_is_described() {
    let origin = Origin::with_rules(RULES);
    let desk = Desk::open();
    let described = Description::of(&desk);
    let held = |method: &str, path: &str, target: &str, document: Option<Value>| {
        let method_word = method.to_uppercase();
        let answer = match &document {
            Some(document) => desk.post(target, document),
            None => desk.ask(&method_word, &format!("/api/v1{target}"), "", ""),
        };
        described.holds(method, path, &answer);
        answer
    };
    let id = desk.deny(&origin, "/private/a");
    decisions(&desk, "", 1);
    let name = encoded(origin.url("").trim_end_matches('/'));

    held("get", "/status", "/status", None);
    held("get", "/decisions", "/decisions?limit=1", None);
    held("get", "/tallies", "/tallies?by=rule", None);
    let one = body(&held(
        "get",
        "/decisions/{id}",
        &format!("/decisions/{id}"),
        None,
    ));
    assert_eq!(one["record"]["id"], id);
    let evidence = held(
        "get",
        "/decisions/{id}/evidence",
        &format!("/decisions/{id}/evidence"),
        None,
    );
    let evidence = body(&evidence);
    assert_eq!(
        (&evidence["ok"], &evidence["held"]),
        (&json!(true), &json!("proven")),
        "{evidence}"
    );
    assert_eq!(evidence["robots_txt"], RULES);
    let note = json!({"by": "Ada", "note": "seen"});
    let target = format!("/decisions/{id}/acknowledgement");
    held(
        "post",
        "/decisions/{id}/acknowledgement",
        &target,
        Some(note),
    );

    held("get", "/origins", "/origins", None);
    let found = body(&held(
        "get",
        "/origins/{origin}",
        &format!("/origins/{name}"),
        None,
    ));
    assert_eq!(found["state"], "successful");
    let sha256 = found["robots"]["sha256"].as_str().unwrap().to_owned();
    held(
        "get",
        "/origins/{origin}/fetches",
        &format!("/origins/{name}/fetches"),
        None,
    );
    let text = held(
        "get",
        "/snapshots/{sha256}",
        &format!("/snapshots/{sha256}"),
        None,
    );
    assert_eq!(text.text(), RULES);
    let diff = format!("/snapshots/{sha256}/diff/{sha256}");
    held("get", "/snapshots/{sha256}/diff/{to}", &diff, None);
    held(
        "post",
        "/refresh",
        "/refresh",
        Some(json!({"origin": origin.url("/")})),
    );
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
    assert_eq!(
        held(
            "delete",
            "/origins/{origin}",
            &format!("/origins/{name}"),
            None
        )
        .status,
        204
    );

    // The same for requests with a mistake.
    for (method, path, target, document, status) in [
        ("get", "/status", "/status?x=1", None, 400),
        ("get", "/decisions", "/decisions?reason=none", None, 400),
        ("get", "/tallies", "/tallies?by=colour", None, 400),
        (
            "get",
            "/decisions/{id}",
            "/decisions/01KB7W3Y5E000000000VY7H1Q2",
            None,
            404,
        ),
        (
            "get",
            "/decisions/{id}/evidence",
            "/decisions/nonsense/evidence",
            None,
            404,
        ),
        (
            "post",
            "/decisions/{id}/acknowledgement",
            "/decisions/nonsense/acknowledgement",
            Some(json!({})),
            422,
        ),
        ("get", "/origins", "/origins?state=gone", None, 400),
        ("get", "/origins/{origin}", "/origins/site.test", None, 400),
        (
            "get",
            "/origins/{origin}",
            "/origins/https%3A%2F%2Fnobody.test",
            None,
            404,
        ),
        (
            "delete",
            "/origins/{origin}",
            "/origins/https%3A%2F%2Fnobody.test",
            None,
            404,
        ),
        (
            "get",
            "/origins/{origin}/fetches",
            "/origins/x/fetches",
            None,
            400,
        ),
        ("get", "/snapshots/{sha256}", "/snapshots/abc", None, 400),
        (
            "get",
            "/snapshots/{sha256}/diff/{to}",
            "/snapshots/abc/diff/abc",
            None,
            400,
        ),
        (
            "post",
            "/refresh",
            "/refresh",
            Some(json!({"origin": "nowhere"})),
            400,
        ),
        ("post", "/check", "/check", Some(json!({"url": "/a"})), 400),
        (
            "post",
            "/overrides",
            "/overrides",
            Some(json!({"origin": "https://a.test"})),
            422,
        ),
        (
            "delete",
            "/overrides/{id}",
            "/overrides/4711?by=Ada",
            None,
            404,
        ),
        ("delete", "/overrides/{id}", "/overrides/4711", None, 400),
        (
            "get",
            "/decisions/live",
            "/decisions/live?since=1d",
            None,
            400,
        ),
    ] {
        let answer = held(method, path, target, document);
        problem(&answer, status);
    }
    assert_eq!(described.unmet(), [""; 0]);
}

#[test]
fn an_unknown_path_and_a_wrong_method_are_problems_too() {
    let desk = Desk::open();
    problem(&desk.get("/api/v1/nothing"), 404);
    problem(&desk.get("/api/v2/status"), 404);
    let answer = desk.ask("DELETE", "/api/v1/status", "", "");
    problem(&answer, 405);
    assert!(
        answer
            .field("allow")
            .is_some_and(|allow| allow.contains("GET")),
        "{answer:?}"
    );
    problem(&desk.ask("PUT", "/api/v1/overrides", "", "{}"), 405);
    let json = "Content-Type: application/json\r\n";
    problem(&desk.ask("POST", "/api/v1/overrides", json, "{"), 400);
    problem(
        &desk.ask("POST", "/api/v1/overrides", json, "{\"colour\":1}"),
        422,
    );
    let answer = desk.get("/api/v1/origins/%FF");
    problem(&answer, 400);
}

#[test]
fn decisions_come_by_page_and_by_condition() {
    let origin = Origin::with_rules(RULES);
    let desk = Desk::open();
    desk.gate
        .get(&origin.url("/open"))
        .is_origins(200, "page /open");
    let mut ids: Vec<String> = (0..5)
        .map(|n| desk.deny(&origin, &format!("/private/{n}")))
        .collect();
    decisions(&desk, "?verdict=deny", 5);

    let walk = |order: &str| {
        let mut found = Vec::new();
        let mut cursor = String::new();
        for page in 0.. {
            assert!(page < 4, "it does not end");
            let page = desk.api(&format!(
                "/decisions?verdict=deny&limit=2&order={order}{cursor}"
            ));
            for item in page["items"].as_array().unwrap() {
                found.push(item["record"]["id"].as_str().unwrap().to_owned());
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        found
    };
    assert_eq!(walk("oldest"), ids);
    ids.reverse();
    assert_eq!(walk("newest"), ids);
    let next = desk.api("/decisions?limit=2")["next"]
        .as_str()
        .unwrap()
        .to_owned();
    let other = desk.get(&format!(
        "/api/v1/decisions?limit=2&order=oldest&cursor={next}"
    ));
    let why = problem(&other, 400);
    assert!(why.contains("cursor is not from this list"), "{why}");

    #[rustfmt::skip] // one row, one case
    let conditions = [
        ("reason=robots_disallow", 5), ("reason=robots_allow", 1), ("path=/private/3", 1), ("rule=Disallow:%20/private", 5),
        ("client=127.0.0.1", 6), ("client=10.0.0.1", 0), ("agent=testbot", 6), ("mode=report", 0), ("since=1h", 6),
        ("until=2020-01-01", 0), ("acknowledged=false", 6), ("acknowledged=true", 0), ("origin=site.test", 6), ("origin=other.test", 0),
    ];
    for (condition, count) in conditions {
        let page = desk.api(&format!("/decisions?{condition}"));
        assert_eq!(
            page["items"].as_array().unwrap().len(),
            count,
            "{condition}"
        );
    }
    let (code, listed, _) = desk.beside("log", &["--json", "--verdict", "deny"]);
    assert_eq!(
        (code, listed.lines().count()),
        (Some(0), 5),
        "the command says the same"
    );

    let tallies = desk.api("/tallies?by=rule&verdict=deny");
    let [tally] = &tallies["items"].as_array().unwrap()[..] else {
        panic!("one rule: {tallies}")
    };
    assert_eq!(tally["count"], 5);
    assert_eq!(tally["key"][1], "Disallow: /private");
}

#[test]
fn an_acknowledgement_stays_until_it_is_replaced_on_purpose() {
    let origin = Origin::with_rules(RULES);
    let desk = Desk::open();
    let id = desk.deny(&origin, "/private/a");
    decisions(&desk, "", 1);
    let target = format!("/decisions/{id}/acknowledgement");
    let noted = desk.post(&target, &json!({"by": "Ada", "note": "a letter is sent"}));
    assert_eq!(body(&noted)["acknowledged"]["by"], "Ada", "{noted:?}");
    let again = desk.post(&target, &json!({"by": "Grace", "note": "mine"}));
    let why = problem(&again, 409);
    assert!(why.contains("by Ada"), "{why}");
    let replaced = desk.post(
        &target,
        &json!({"by": "Grace", "note": "mine", "replace": true}),
    );
    assert_eq!(body(&replaced)["acknowledged"]["note"], "mine");
    problem(
        &desk.post(&target, &json!({"by": " ", "note": "x", "replace": true})),
        400,
    );
    assert_eq!(
        desk.api("/decisions?acknowledged=true")["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn an_override_decides_the_next_request() {
    let origin = Origin::with_rules(RULES);
    let desk = Desk::open();
    let url = origin.url("/private/a");
    desk.denied(&desk.gate.get(&url));
    let asserted = origin.url("").trim_end_matches('/').to_owned();
    let new = json!({"origin": asserted, "pattern": "/private/", "action": "allow", "until": "30d", "by": "Ada", "reason": "a letter"});
    let added = desk.post("/overrides", &new);
    assert_eq!(added.status, 201, "{added:?}");
    let id = body(&added)["id"].as_str().unwrap().to_owned();
    let place = added.field("location").unwrap();
    assert_eq!(place, format!("/api/v1/overrides/{id}"));
    desk.gate.get(&url).is_origins(200, "page /private/a");
    let record = desk.record_of(&url);
    assert_eq!(
        record["reason"], "robots_disallow",
        "the first one: {record}"
    );
    desk.record("the override", |record| {
        record["reason"] == "operator_allow"
    });

    let listed = desk.api("/overrides");
    assert_eq!(listed["items"][0]["reason"], "a letter", "{listed}");
    let (_, told, _) = desk.beside("override", &["list"]);
    assert!(
        told.contains("a letter"),
        "the command says the same: {told}"
    );
    problem(&desk.ask("DELETE", &place, "", ""), 400);
    let removed = desk.ask("DELETE", &format!("{place}?by=Grace"), "", "");
    assert_eq!(removed.status, 204, "{removed:?}");
    desk.denied(&desk.gate.get(&url));
    assert_eq!(desk.api("/overrides")["items"], json!([]));
    assert_eq!(
        desk.api("/overrides?all=true")["items"][0]["removed_by"],
        "Grace"
    );
    problem(
        &desk.ask("DELETE", &format!("{place}?by=Grace"), "", ""),
        404,
    );

    #[rustfmt::skip] // one row, one case
    let mistakes = [
        ("origin", json!("https://a.test/path"), "more than an origin"), ("pattern", json!("p"), "a path pattern begins with"),
        ("until", json!("2020-01-01"), "has passed already"), ("until", json!("400d"), "more than a year"),
        ("by", json!(""), "by "), ("reason", json!(" "), "reason "),
    ];
    for (name, value, says) in mistakes {
        let mut wrong = new.clone();
        wrong[name] = value;
        let why = problem(&desk.post("/overrides", &wrong), 400);
        assert!(why.contains(says), "{name}: {why}");
    }
}

#[test]
fn an_override_of_the_configuration_cannot_be_removed_here() {
    let desk = Desk::with(|setup| {
        setup.set("policy", "mode", "\"enforce\"");
    });
    let why = problem(
        &desk.ask("DELETE", "/api/v1/overrides/config-1?by=Ada", "", ""),
        409,
    );
    assert!(why.contains("config.toml"), "{why}");
}

#[test]
fn a_check_says_what_the_command_says_and_records_nothing() {
    let origin = Origin::with_rules(RULES);
    let desk = Desk::open();
    let url = origin.url("/private/a");
    let question = json!({"url": url, "agents": ["TestBot"]});
    let judged = body(&desk.post("/check", &question));
    let (code, told, _) = desk.beside("check", &["--json", "--agent", "TestBot", &url]);
    assert_eq!(code, Some(1));
    assert_eq!(judged, serde_json::from_str::<Value>(&told).unwrap());
    assert_eq!(
        (&judged["verdict"], &judged["line"]),
        (&json!("deny"), &json!(3)),
        "{judged}"
    );
    let fetched = origin.robots_fetches();
    assert_eq!(body(&desk.post("/check", &question))["verdict"], "deny");
    assert_eq!(
        origin.robots_fetches(),
        fetched,
        "a cached robots.txt is not fetched again"
    );
    assert_eq!(origin.seen_but_robots(), [""; 0]);

    let pasted = json!({"url": url, "robots": "User-agent: *\nAllow: /\n"});
    assert_eq!(body(&desk.post("/check", &pasted))["verdict"], "allow");
    let walled = body(&desk.post("/check", &json!({"url": "http://10.0.0.1/a"})));
    assert_eq!(walled["reason"], "address_prohibited", "{walled}");
    desk.gate
        .get(&origin.url("/open"))
        .is_origins(200, "page /open");
    assert_eq!(
        desk.wait_records(1).len(),
        1,
        "only the request is recorded"
    );
}

#[test]
fn an_origin_is_fetched_anew_compared_and_forgotten() {
    let origin = Origin::http().on(
        "/robots.txt",
        [
            Reply::ok("User-agent: *\nDisallow: /a\n"),
            Reply::ok("User-agent: *\nDisallow: /b\n"),
            Reply::status(503, ""),
        ],
    );
    let desk = Desk::open();
    desk.denied(&desk.gate.get(&origin.url("/a")));
    let name = origin.url("").trim_end_matches('/').to_owned();
    let refreshed = body(&desk.post("/refresh", &json!({"origin": name})));
    assert_eq!(refreshed["state"], "successful", "{refreshed}");
    desk.denied(&desk.gate.get(&origin.url("/b")));
    let fetches = desk.api(&format!("/origins/{}/fetches", encoded(&name)));
    let digest = |n: usize| fetches["items"][n]["sha256"].as_str().unwrap().to_owned();
    let diff = desk.get(&format!(
        "/api/v1/snapshots/{}/diff/{}",
        digest(1),
        digest(0)
    ));
    assert!(
        diff.text().contains("-Disallow: /a\n+Disallow: /b\n"),
        "{}",
        diff.text()
    );
    let failed = body(&desk.post("/refresh", &json!({"origin": name})));
    assert!(
        failed["failure"]
            .as_str()
            .is_some_and(|why| why.contains("503")),
        "{failed}"
    );

    let place = format!("/api/v1/origins/{}", encoded(&name));
    assert_eq!(desk.ask("DELETE", &place, "", "").status, 204);
    problem(&desk.get(&place), 404);
    problem(&desk.ask("DELETE", &place, "", ""), 404);
    let page = desk.api("/decisions");
    assert_eq!(page["items"].as_array().unwrap().len(), 2, "decisions stay");
}

#[test]
fn origins_come_by_page() {
    let desk = Desk::open();
    let origins: Vec<Origin> = (0..3).map(|_| Origin::with_rules("")).collect();
    for origin in &origins {
        desk.gate.get(&origin.url("/a")).is_origins(200, "page /a");
    }
    let mut names: Vec<String> = origins
        .iter()
        .map(|origin| origin.url("").trim_end_matches('/').to_owned())
        .collect();
    names.sort_unstable();
    eventually("the origins to be kept", || {
        (desk.api("/origins")["items"].as_array().unwrap().len() == 3).then_some(())
    });
    let first = desk.api("/origins?limit=2&state=successful&containing=site");
    let next = first["next"].as_str().unwrap();
    let second = desk.api(&format!(
        "/origins?limit=2&state=successful&containing=site&cursor={next}"
    ));
    let found: Vec<&str> = [&first, &second]
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap())
        .map(|item| item["origin"].as_str().unwrap())
        .collect();
    assert_eq!(found, names);
    assert!(second["next"].is_null());
    assert_eq!(desk.api("/origins?state=unreachable")["items"], json!([]));
}

#[test]
fn without_a_store_the_api_says_so() {
    let desk = Desk::with(|setup| {
        setup.set("store", "path", "\"\"");
    });
    for path in [
        "/decisions",
        "/tallies",
        "/origins",
        "/decisions/01KB7W3Y5E000000000VY7H1Q2",
    ] {
        let why = problem(&desk.get(&format!("/api/v1{path}")), 404);
        assert!(why.contains("[store] path"), "{path}: {why}");
    }
    assert_eq!(desk.api("/overrides")["items"], json!([]));
    assert!(desk.api("/status")["store"].is_null());
    assert_eq!(desk.get("/ready").status, 200);
}
