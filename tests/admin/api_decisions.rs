//! Decisions and overrides over the API.

use serde_json::json;

use crate::api::decisions;
use crate::support::admin_gate::{json as body, problem};
use crate::support::{AdminGate, Origin, RULES, Reply};

#[test]
fn decisions_come_by_page_and_by_condition() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    gate.process.passes(&origin.url("/open"));
    let mut ids: Vec<String> =
        (0..5).map(|n| gate.deny(&origin, &format!("/private/{n}"))).collect();
    decisions(&gate, "", 6);

    let walk = |order: &str| {
        let mut found = Vec::new();
        let mut cursor = String::new();
        for page in 0.. {
            assert!(page < 4, "it does not end");
            let page = gate.api(&format!("/decisions?verdict=deny&limit=2&order={order}{cursor}"));
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
    let next = gate.api("/decisions?limit=2")["next"].as_str().unwrap().to_owned();
    let other = gate.get(&format!("/api/v1/decisions?limit=2&order=oldest&cursor={next}"));
    let why = problem(&other, 400);
    says!(why, "cursor is not from this list");

    #[rustfmt::skip] // one row, one case
    let conditions = [
        ("reason=robots_disallow", 5), ("reason=robots_allow", 1), ("path=/private/3", 1), ("rule=Disallow:%20/private", 5),
        ("client=127.0.0.1", 6), ("client=10.0.0.1", 0), ("agent=testbot", 6), ("mode=report", 0), ("since=1h", 6),
        ("until=2020-01-01", 0), ("acknowledged=false", 6), ("acknowledged=true", 0), ("origin=site.test", 6), ("origin=other.test", 0),
    ];
    for (condition, count) in conditions {
        let page = gate.api(&format!("/decisions?{condition}"));
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{condition}");
    }
    let (code, listed, _) = gate.beside("log", &["--json", "--verdict", "deny"]);
    assert_eq!((code, listed.lines().count()), (Some(0), 5), "the command says the same");

    let tallies = gate.api("/tallies?by=rule&verdict=deny");
    let [tally] = &tallies["items"].as_array().unwrap()[..] else { panic!("one rule: {tallies}") };
    has!(tally, {"count": 5, "key.1": "Disallow: /private"});
}

#[test]
fn failed_requests_are_found_apart_from_denials() {
    let broken = Reply::raw("SSH-2.0-x\r\n\r\n").close();
    let origin = Origin::with_rules(RULES).on("/broken", [broken]);
    let gate = AdminGate::open();
    let denied = gate.deny(&origin, "/private/a");
    let answer = gate.process.get(&origin.url("/broken")).is(502);
    let failed = answer.problem()["id"].as_str().unwrap().to_owned();
    decisions(&gate, "", 2);
    for (query, id) in [("?failed=true", &failed), ("?failed=false", &denied)] {
        has!(decisions(&gate, query, 1), {"0.record.id": **id}, "{query}");
    }
    let (code, listed, _) = gate.beside("log", &["--json", "--failed"]);
    assert_eq!((code, listed.lines().count()), (Some(0), 1), "{listed}");
    says!(listed, &failed);
    let overview = gate.get("/").text();
    // The tile leads to what it counts: since the start of the process.
    let mut links = overview.split("href=\"").filter_map(|rest| rest.split('"').next());
    let link = links.find(|link| link.contains("failed=true"));
    let link = link.expect("a link to failed exchanges");
    let page = gate.get(&link.replace("&#38;", "&")).text();
    assert!(page.contains(&failed) && !page.contains(&denied), "{page}");
    let page = gate.get("/denials?failed=true&verdict=deny").text();
    says!(page, "was let through first");
}

#[test]
fn an_acknowledgement_stays_until_it_is_replaced_on_purpose() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let id = gate.deny(&origin, "/private/a");
    decisions(&gate, "", 1);
    let target = format!("/decisions/{id}/acknowledgement");
    let noted = gate.post(&target, &json!({"by": "Ada", "note": "a letter is sent"}));
    assert_eq!(body(&noted)["acknowledged"]["by"], "Ada", "{noted:?}");
    let again = gate.post(&target, &json!({"by": "Grace", "note": "mine"}));
    let why = problem(&again, 409);
    says!(why, "by Ada");
    let seen = body(&noted)["acknowledged"].clone();
    let by = |by: &str, seen: &serde_json::Value| {
        gate.post(&target, &json!({"by": by, "note": "mine", "replaces": seen}))
    };
    assert_eq!(body(&by("Grace", &seen))["acknowledged"]["by"], "Grace");
    // Another reviewer still sees the note of Ada.
    let why = problem(&by("Eve", &seen), 409);
    says!(why, "by Grace at ", ": mine");
    problem(&by(" ", &seen), 400);
    let kept = gate.api(&format!("/decisions/{id}"))["acknowledged"].clone();
    has!(kept, {"by": "Grace", "note": "mine"});
    let wrong = json!({"time": "then", "by": "Grace", "note": "mine"});
    assert!(problem(&by("Eve", &wrong), 400).starts_with("replaces "));
    assert_eq!(gate.api("/decisions?acknowledged=true")["items"].as_array().unwrap().len(), 1);
}

#[test]
fn all_decisions_of_a_condition_are_acknowledged_at_once() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let ids: Vec<String> =
        ["a", "b", "c"].map(|name| gate.deny(&origin, &format!("/private/{name}"))).into();
    decisions(&gate, "", 3);
    let note = |by: &str| json!({"by": by, "note": "a letter is sent"});
    let one = gate.post(&format!("/decisions/{}/acknowledgement", ids[0]), &note("Ada"));
    assert_eq!(one.status, 200, "{one:?}");

    for (target, says) in [
        ("/acknowledgements", "without a condition"),
        ("/acknowledgements?rule=x&orgin=y", "orgin is no parameter"),
        ("/acknowledgements?acknowledged=true", "\"replace\": true"),
        ("/acknowledgements?log=*&rule=x", "log is no parameter"),
    ] {
        let why = problem(&gate.post(target, &note("Eve")), 400);
        assert!(why.contains(says), "{target}: {why}");
    }
    let target = "/acknowledgements?verdict=deny&rule=Disallow:+/private";
    let done = body(&gate.post(target, &note("Grace")));
    let expected =
        |count| json!({"acknowledged": count, "refused": 0, "conflicts": [], "complete": true});
    assert_eq!(done, expected(2));
    let by = |id: &str| gate.api(&format!("/decisions/{id}"))["acknowledged"]["by"].clone();
    assert_eq!([by(&ids[0]), by(&ids[1]), by(&ids[2])], ["Ada", "Grace", "Grace"]);
    assert_eq!(body(&gate.post(target, &note("Grace"))), expected(0));
    let replacing = json!({"by": "Grace", "note": "a letter is sent", "replace": true});
    // Those of Grace say the same already.
    assert_eq!(body(&gate.post(target, &replacing)), expected(1));
    assert_eq!(by(&ids[0]), "Grace");
}

#[test]
fn an_override_decides_the_next_request() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let url = origin.url("/private/a");
    gate.denied(&gate.process.get(&url));
    let asserted = origin.url("").trim_end_matches('/').to_owned();
    let new = json!({"origin": asserted, "pattern": "/private/", "action": "allow", "until": "30d", "by": "Ada", "reason": "a letter"});
    let added = gate.post("/overrides", &new);
    assert_eq!(added.status, 201, "{added:?}");
    let id = body(&added)["id"].as_str().unwrap().to_owned();
    let place = added.field("location").unwrap();
    assert_eq!(place, format!("/api/v1/overrides/{id}"));
    gate.process.get(&url).is_origins(200, "page /private/a");
    gate.record("the override", |record| record["reason"] == "operator_allow");

    has!(gate.api("/overrides"), {"items.0.reason": "a letter"});
    let (_, told, _) = gate.beside("override", &["list"]);
    says!(told, "a letter"; "the command says the same");
    problem(&gate.ask("DELETE", &place, "", ""), 400);
    let removed = gate.ask("DELETE", &format!("{place}?by=Grace"), "", "");
    assert_eq!(removed.status, 204, "{removed:?}");
    gate.denied(&gate.process.get(&url));
    assert_eq!(gate.api("/overrides")["items"], json!([]));
    assert_eq!(gate.api("/overrides?all=true")["items"][0]["removed_by"], "Grace");
    problem(&gate.ask("DELETE", &format!("{place}?by=Grace"), "", ""), 404);

    #[rustfmt::skip] // one row, one case
    let mistakes = [
        ("origin", json!("https://a.test/path"), "more than an origin"), ("pattern", json!("p"), "a path pattern begins with"),
        ("until", json!("2020-01-01"), "has passed already"), ("until", json!("400d"), "more than a year"),
        ("by", json!(""), "by "), ("reason", json!(" "), "reason "),
    ];
    for (name, value, says) in mistakes {
        let mut wrong = new.clone();
        wrong[name] = value;
        let why = problem(&gate.post("/overrides", &wrong), 400);
        assert!(why.contains(says), "{name}: {why}");
    }
}

#[test]
fn an_override_of_the_configuration_cannot_be_removed_here() {
    let gate = AdminGate::with(|setup| setup.set("policy", "mode", "\"enforce\""));
    let why = problem(&gate.ask("DELETE", "/api/v1/overrides/config-1?by=Ada", "", ""), 409);
    says!(why, "config.toml");
}
