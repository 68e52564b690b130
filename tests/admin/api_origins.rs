//! Origins over the API.

use serde_json::{Value, json};

use crate::api::encoded;
use crate::support::admin_gate::{json as body, problem};
use crate::support::{AdminGate, Origin, Reply, wait_until};

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
    let gate = AdminGate::open();
    gate.denied(&gate.process.get(&origin.url("/a")));
    let name = origin.url("").trim_end_matches('/').to_owned();
    has!(body(&gate.post("/refresh", &json!({"origin": name}))), {"state": "successful"});
    gate.denied(&gate.process.get(&origin.url("/b")));
    let fetches = gate.api(&format!("/origins/{}/fetches", encoded(&name)));
    let digest = |n: usize| fetches["items"][n]["sha256"].as_str().unwrap().to_owned();
    let diff = gate.get(&format!("/api/v1/snapshots/{}/diff/{}", digest(1), digest(0)));
    says!(diff.text(), "-Disallow: /a\n+Disallow: /b\n");
    let failed = body(&gate.post("/refresh", &json!({"origin": name})));
    assert!(failed["failure"].as_str().is_some_and(|why| why.contains("503")), "{failed}");

    let place = format!("/api/v1/origins/{}", encoded(&name));
    assert_eq!(gate.ask("DELETE", &place, "", "").status, 204);
    problem(&gate.get(&place), 404);
    problem(&gate.ask("DELETE", &place, "", ""), 404);
    let page = gate.api("/decisions");
    assert_eq!(page["items"].as_array().unwrap().len(), 2, "decisions stay");
}

#[test]
fn origins_come_by_page() {
    let gate = AdminGate::open();
    let origins: Vec<Origin> = (0..3).map(|_| Origin::with_rules("")).collect();
    for origin in &origins {
        gate.process.passes(&origin.url("/a"));
    }
    let mut names: Vec<String> =
        origins.iter().map(|origin| origin.url("").trim_end_matches('/').to_owned()).collect();
    names.sort_unstable();
    wait_until("the origins to be kept", || {
        gate.api("/origins")["items"].as_array().unwrap().len() == 3
    });
    let first = gate.api("/origins?limit=2&state=successful&containing=site");
    let next = first["next"].as_str().unwrap();
    let second =
        gate.api(&format!("/origins?limit=2&state=successful&containing=site&cursor={next}"));
    let found: Vec<&str> = [&first, &second]
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap())
        .map(|item| item["origin"].as_str().unwrap())
        .collect();
    assert_eq!(found, names);
    assert!(second["next"].is_null());
    assert_eq!(gate.api("/origins?state=unreachable")["items"], json!([]));
}

#[test]
fn sitemaps_come_by_page_as_the_command_lists_them() {
    let rules = "User-agent: *\nDisallow: /shut\n\nUser-agent: ExampleBot\nDisallow: /open\n";
    let judging = Origin::with_rules(rules);
    let lines: String =
        ["/open", "/shut"].iter().map(|path| format!("Sitemap: {}\n", judging.url(path))).collect();
    let mapped = Origin::with_rules(&format!("{lines}Sitemap: https://new.test/\nSitemap: /x\n"));
    let gate = AdminGate::open();
    for origin in [&judging, &mapped] {
        gate.process.passes(&origin.url("/a"));
    }
    let access = |query: &str| -> Vec<String> {
        let page = gate.api(&format!("/sitemaps{query}"));
        let items = page["items"].as_array().unwrap();
        let word = |item: &Value| item["access"].as_str().unwrap().to_owned();
        items.iter().map(word).collect()
    };
    let all = ["allowed", "disallowed", "unknown", "invalid"];
    wait_until("the origins to be kept", || access("") == all);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("?agent=ExampleBot", ["disallowed", "allowed", "unknown", "invalid"]),
        ("?agent=Other&agent=ExampleBot", ["disallowed", "allowed", "unknown", "invalid"]),
        ("?agent=Other%2F1.0+(%2Bhttps%3A%2F%2Fother.test)", all),
    ];
    for (query, expected) in cases {
        assert_eq!(access(query), expected, "{query}");
    }
    let authority = |origin: &Origin| origin.url("").replace("http://", "").replace('/', "");
    let of = |origin: &Origin| access(&format!("?containing={}", encoded(&authority(origin))));
    assert_eq!((of(&mapped).len(), of(&judging).len()), (4, 0));
    for (state, count) in [("successful", 4), ("unreachable", 0)] {
        assert_eq!(access(&format!("?state={state}")).len(), count, "{state}");
    }
    problem(&gate.get("/api/v1/sitemaps?state=gone"), 400);

    // Page by page, it is what the command prints.
    let told = gate.succeeds("origins", &["sitemaps", "--json"]);
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut found = Vec::new();
    let mut query = "?limit=1".to_owned();
    let next = loop {
        let page = gate.api(&format!("/sitemaps{query}"));
        found.extend(page["items"].as_array().unwrap().clone());
        match page["next"].as_str() {
            Some(next) => query = format!("?limit=1&cursor={next}"),
            None => break page["next"].clone(),
        }
        assert!(found.len() <= told.len(), "{found:?}");
    };
    assert_eq!((found, next), (told, Value::Null));
    let other = gate.api("/origins?limit=1")["next"].as_str().unwrap().to_owned();
    problem(&gate.get(&format!("/api/v1/sitemaps?cursor={other}")), 400);
}
