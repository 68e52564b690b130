//! The rights of each role of a user: every route that acts, every spelling, every page.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::admin_gate::{json as body, problem};
use crate::support::{Origin, RULES, eventually};
use crate::users::{bearer, gate_with, see, users};

/// Every route that takes another method than GET, and the role that it takes. `any` is a route that takes all methods.
#[rustfmt::skip] // one row, one route
const ACTS: &[(&str, &str, &str)] = &[
    ("any", "/auth", "read"),
    ("any", "/ext-authz/", "read"),
    ("any", "/ext-authz/{*path}", "read"),
    ("post", "/try", "read"),
    ("post", "/api/v1/check", "read"),
    ("post", "/decisions/{id}/acknowledge", "review"),
    ("post", "/denials/acknowledge", "review"),
    ("post", "/denials/acknowledge/ticked", "review"),
    ("post", "/api/v1/decisions/{id}/acknowledgement", "review"),
    ("post", "/api/v1/acknowledgements", "review"),
    ("post", "/origin/refresh", "operate"),
    ("post", "/origin/forget", "operate"),
    ("post", "/overrides", "operate"),
    ("post", "/overrides/remove", "operate"),
    ("post", "/api/v1/overrides", "operate"),
    ("delete", "/api/v1/overrides/{id}", "operate"),
    ("post", "/api/v1/refresh", "operate"),
    ("delete", "/api/v1/origins/{origin}", "operate"),
];

const METHODS: [&str; 5] = ["post", "put", "patch", "delete", "any"];

/// Returns the routes of the source that take another method than GET, as `(method, path)`.
fn routes_of_the_source() -> BTreeSet<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/admin/src/http");
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // The public page has a separate router, without acts.
            if path.extension().is_none_or(|end| end != "rs") || path.ends_with("public.rs") {
                continue;
            }
            let is_api = path.components().any(|part| part.as_os_str() == "api");
            let base = if is_api { "/api/v1" } else { "" };
            let text = fs::read_to_string(&path).unwrap();
            for route in text.split(".route(").skip(1) {
                let route = route.trim_start();
                let Some((target, rest)) = route.strip_prefix('"').and_then(|r| r.split_once('"'))
                else {
                    // A constant for the path: a page to be read.
                    assert!(route.contains("get("), "{}: {route}", path.display());
                    continue;
                };
                let end = rest.find(".route(").unwrap_or(rest.len());
                let handlers = rest[..end].split(")\n").next().unwrap();
                says!(handlers, '('; "a handler in the place: {target}");
                for method in METHODS {
                    let is_there = handlers.match_indices(&format!("{method}(")).any(|(at, _)| {
                        !handlers[..at]
                            .ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':')
                    });
                    if is_there {
                        found.insert((method.to_owned(), format!("{base}{target}")));
                    }
                }
            }
        }
    }
    found
}

#[test]
fn every_act_takes_the_role_that_the_table_says() {
    let gate = gate_with(&users());
    let told: BTreeSet<(String, String)> =
        ACTS.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(routes_of_the_source(), told, "each act has a role");
    let described = see(&gate, "/openapi.json");
    for (path, operations) in described["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let is_told = told.contains(&(method.clone(), format!("/api/v1{path}")));
            assert!(is_told || method == "get", "{method} {path} has no role");
        }
    }
    let roles = ["read", "review", "operate"];
    for (method, path, role) in ACTS {
        let target = path
            .replace("{id}", "01KB7W3Y5E000000000VY7H1Q2")
            .replace("{origin}", "https%3A%2F%2Fnobody.test")
            .replace("{*path}", "x");
        let method = if *method == "any" { "PATCH" } else { &*method.to_uppercase() };
        let needed = roles.iter().position(|one| one == role).unwrap();
        for (place, who) in ["reader", "viewer", "worker"].iter().enumerate() {
            let answer = gate.ask(method, &target, &bearer(who), "");
            if place >= needed {
                let why = answer.text();
                let is_let_in = answer.status != 401 && !why.contains("this takes the role");
                assert!(is_let_in, "{method} {path} by {who}: {why}");
            } else {
                let why = problem(&answer, 403);
                says!(why, &format!("the role {role}"));
                says!(why, &format!("{who} has the role {}", roles[place]));
            }
        }
        problem(&gate.ask(method, &target, "", ""), 401);
        problem(&gate.ask(method, &target, &bearer("unknown"), ""), 401);
    }
}

#[test]
fn a_path_that_leads_nowhere_is_not_found_whatever_the_role() {
    let gate = gate_with(&users());
    let as_page = "Accept: text/html\r\n";
    for target in ["/api/v1/nowhere", "/api/v1/overrides/", "/nowhere"] {
        for method in ["GET", "POST", "PUT", "DELETE"] {
            for who in ["reader", "viewer", "worker"] {
                let why = problem(&gate.ask(method, target, &bearer(who), ""), 404);
                assert_eq!(why, format!("{target}: there is nothing here"));
                let fields = format!("{}{as_page}", bearer(who));
                let shown = gate.ask(method, target, &fields, "");
                assert_eq!(shown.status, 404, "{method} {target} by {who}");
            }
            problem(&gate.ask(method, target, "", ""), 401);
        }
    }
    let metrics = gate.ask("GET", "/metrics", &bearer("reader"), "").text();
    let refused = "crawlgate_admin_refusals_total{reason=\"role\"} 0";
    says!(metrics, refused);
}

#[test]
fn no_spelling_of_a_request_leads_to_an_act_beyond_the_role() {
    let origin = Origin::with_rules(RULES);
    let gate = gate_with(&users());
    let id = gate.deny(&origin, "/private/a");
    let of = origin.url("");
    let of = of.trim_end_matches('/');
    let encoded: String = url::form_urlencoded::byte_serialize(of.as_bytes()).collect();
    let override_ =
        json!({"origin": of, "action": "allow", "until": "1d", "reason": "r"}).to_string();
    let note = json!({"note": "seen"}).to_string();
    let page = gate.ask("GET", "/try", &bearer("reader"), "").text();
    let csrf =
        page.split_once("name=\"csrf\" value=\"").unwrap().1.split('"').next().unwrap().to_owned();
    let form = format!(
        "csrf={csrf}&of={encoded}&origin={encoded}&pattern=/&action=allow&until=1d&reason=r&note=seen"
    );
    let (as_json, as_form) = (
        "Content-Type: application/json\r\n",
        "Content-Type: application/x-www-form-urlencoded\r\n",
    );
    let ack = format!("/api/v1/decisions/{id}/acknowledgement");
    let forget = format!("/api/v1/origins/{encoded}");
    let here = format!("http://{}", gate.address);
    let method_of = |name: &str| {
        format!(
            "X-HTTP-Method-Override: {name}\r\nX-HTTP-Method: {name}\r\nX-Method-Override: {name}\r\n"
        )
    };
    let other_paths =
        "X-Original-URL: /try\r\nX-Rewrite-URL: /try\r\nX-Forwarded-Prefix: /try\r\n".to_owned();
    #[rustfmt::skip] // one row, one request
    let requests: Vec<(&str, String, String, &str)> = vec![
        ("POST", "/api/v1/overrides".into(), as_json.into(), &override_),
        ("POST", "/api/v1/overrides/".into(), as_json.into(), &override_),
        ("POST", "/api/v1//overrides".into(), as_json.into(), &override_),
        ("POST", "//api/v1/overrides".into(), as_json.into(), &override_),
        ("POST", "/api/v1/%6fverrides".into(), as_json.into(), &override_),
        ("POST", "/api%2fv1%2foverrides".into(), as_json.into(), &override_),
        ("POST", "/API/v1/overrides".into(), as_json.into(), &override_),
        ("POST", "/try/../api/v1/overrides".into(), as_json.into(), &override_),
        ("POST", "/api/v1/check/../overrides".into(), as_json.into(), &override_),
        ("POST", "/ext-authz/../api/v1/overrides".into(), format!("{as_json}X-Forwarded-Proto: http\r\n"), &override_),
        ("POST", "/api/v1/overrides?x=/try".into(), as_json.into(), &override_),
        ("POST", "/api/v1/overrides;/try".into(), as_json.into(), &override_),
        ("POST", format!("{here}/api/v1/overrides"), as_json.into(), &override_),
        ("GET", "/api/v1/overrides".into(), format!("{as_json}{}", method_of("POST")), &override_),
        ("HEAD", "/api/v1/overrides".into(), format!("{as_json}{}", method_of("POST")), &override_),
        ("PUT", "/api/v1/overrides".into(), as_json.into(), &override_),
        ("post", "/api/v1/overrides".into(), as_json.into(), &override_),
        ("POST", "/api/v1/overrides".into(), format!("{as_json}{other_paths}"), &override_),
        ("GET", forget.clone(), method_of("DELETE"), ""),
        ("POST", forget.clone(), method_of("DELETE"), ""),
        ("DELETE", forget.clone(), String::new(), ""),
        ("DELETE", format!("{forget}/"), String::new(), ""),
        ("GET", format!("{forget}?_method=DELETE"), String::new(), ""),
        ("HEAD", "/origin/forget".into(), as_form.into(), &form),
        ("GET", format!("/origin/forget?of={encoded}"), as_form.into(), &form),
        ("POST", "/origin/forget".into(), as_form.into(), &form),
        ("POST", "/origin/forget/".into(), as_form.into(), &form),
        ("POST", "/origin/%66orget".into(), as_form.into(), &form),
        ("POST", "/overrides".into(), as_form.into(), &form),
        ("GET", format!("/overrides?{form}"), as_form.into(), &form),
        ("POST", ack.clone(), as_json.into(), &note),
        ("POST", format!("{ack}/"), as_json.into(), &note),
        ("GET", ack.clone(), format!("{as_json}{}", method_of("POST")), &note),
        ("HEAD", ack, as_json.into(), &note),
        ("POST", format!("/decisions/{id}/acknowledge"), as_form.into(), &form),
        ("POST", "/denials/acknowledge?verdict=deny".into(), as_form.into(), &form),
    ];
    let known = eventually("the state to be kept", || {
        let answer = gate.ask("GET", &format!("/api/v1/origins/{encoded}"), &bearer("reader"), "");
        (answer.status == 200).then(|| body(&answer))
    });
    for (method, target, fields, body) in requests {
        let fields = format!("{}{fields}", bearer("reader"));
        let answer = gate.ask(method, &target, &fields, body);
        let is_act = answer.status == 201 || answer.status == 204 || answer.status == 303;
        assert!(!is_act, "{method} {target}: {answer:?}");
    }
    assert_eq!(see(&gate, "/overrides?all=true")["items"], json!([]));
    let now = see(&gate, &format!("/origins/{encoded}"));
    has!(now, {"state": known["state"], "fetched": known["fetched"], "robots": known["robots"]});
    assert!(see(&gate, &format!("/decisions/{id}"))["acknowledged"].is_null());
}

#[test]
fn a_page_shows_the_user_and_hides_what_the_role_may_not_do() {
    let origin = Origin::with_rules(RULES);
    let gate = gate_with(&users());
    let id = gate.deny(&origin, "/private/a");
    let of: String =
        url::form_urlencoded::byte_serialize(origin.url("").trim_end_matches('/').as_bytes())
            .collect();
    let page = |who: &str, target: &str| {
        let fields = format!("{}Accept: text/html\r\n", bearer(who));
        let answer = gate.ask("GET", target, &fields, "");
        assert_eq!(answer.status, 200, "{who} {target}: {}", answer.text());
        answer.text()
    };
    let decision = format!("/decisions/{id}");
    let origin_page = format!("/origin?of={of}");
    let forget = format!("/origin/forget?of={of}");
    #[rustfmt::skip] // one row, one form
    let forms = [
        (&*decision, "/acknowledge\">", "review"),
        (&decision, "action=\"/overrides\"", "operate"),
        ("/denials", "action=\"/denials/acknowledge/ticked\"", "review"),
        ("/denials", "Acknowledge all of this filter", "review"),
        ("/denials/acknowledge?verdict=deny", "action=\"/denials/acknowledge\"", "review"),
        (&origin_page, "action=\"/origin/refresh\"", "operate"),
        (&origin_page, "href=\"/origin/forget", "operate"),
        (&forget, "action=\"/origin/forget\"", "operate"),
        ("/overrides", "action=\"/overrides\"", "operate"),
        ("/try", "action=\"/try\"", "read"),
    ];
    let roles = [("reader", "read"), ("viewer", "review"), ("worker", "operate")];
    for (target, form, role) in forms {
        let needed = roles.iter().position(|(_, one)| *one == role).unwrap();
        for (place, (who, own)) in roles.iter().enumerate() {
            let shown = page(who, target);
            assert_eq!(shown.contains(form), place >= needed, "{who} {target} {form}: {shown}");
            says!(shown, &format!("{who}, {own} <a href=\"/sign-out?user={who}\""));
            lacks!(shown, "name=\"by\""; "{target}: the name is known");
        }
    }
    // The form secret of a reader opens no form of an operator.
    let csrf = |page: String| {
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form");
        rest.split('"').next().unwrap().to_owned()
    };
    let of_reader = csrf(page("reader", "/try"));
    assert_ne!(of_reader, csrf(page("worker", "/try")));
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let fields = format!("{}{form}", bearer("worker"));
    let forged = gate.ask("POST", "/origin/refresh", &fields, &format!("csrf={of_reader}&of={of}"));
    assert!(problem(&forged, 403).contains("this form is not of this console"));
    // A form that was loaded before the role changed: a page that tells why.
    let fields = format!("{}Accept: text/html\r\n", bearer("reader"));
    let answer = gate.ask("POST", "/overrides", &fields, "").is(403);
    says!(answer.text(), "<h1", "this takes the role operate");
}

#[test]
fn the_decision_service_takes_a_reader_and_leaves_the_crawlers_credentials_alone() {
    let origin = Origin::with_rules(RULES);
    let gate = gate_with(&users());
    let url = origin.url("/private/a");
    let target = format!("/decide?url={url}&agent=TestBot");
    problem(&gate.get(&target), 401);
    let answer = gate.ask("GET", &target, &bearer("reader"), "");
    answer.field_is("x-crawlgate-reason", Some("robots_disallow"));
    let fields = format!("{}X-Original-URL: {url}\r\nUser-Agent: TestBot\r\n", bearer("reader"));
    let answer = gate.ask("GET", "/auth", &fields, "");
    answer.field_is("x-crawlgate-reason", Some("robots_disallow"));
    let own = format!(
        "Host: {}\r\nX-Forwarded-Proto: http\r\nUser-Agent: TestBot\r\n",
        url.split('/').nth(2).unwrap()
    );
    let answer =
        gate.ask("DELETE", "/ext-authz/private/a", &format!("{own}{}", bearer("reader")), "");
    answer.field_is("x-crawlgate-reason", Some("robots_disallow"));
    problem(&gate.ask("DELETE", "/ext-authz/private/a", &own, ""), 401);
    // Crawlers need no user of the admin side.
    assert_eq!(gate.process.get(&origin.url("/open")).status, 200);
}
