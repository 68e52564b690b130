//! The names that the acts of users are recorded under.

use std::fs;

use serde_json::{Value, json};

use crate::support::admin_gate::{json as body, problem};
use crate::support::{AdminGate, Origin, RULES, Reply, Response, Wire};
use crate::users::{basic, bearer, gate_with, see, send, users};

/// Sends a form of the console as this user, with the secret of our own pages.
fn submit(gate: &AdminGate, who: &str, target: &str, fields: &[(&str, &str)]) -> Response {
    submit_with(gate, who, target, "", fields)
}

/// Sends a form as a browser does, which takes a page.
fn submit_for_a_page(
    gate: &AdminGate,
    who: &str,
    target: &str,
    fields: &[(&str, &str)],
) -> Response {
    submit_with(gate, who, target, "Accept: text/html\r\n", fields)
}

fn submit_with(
    gate: &AdminGate,
    who: &str,
    target: &str,
    head: &str,
    fields: &[(&str, &str)],
) -> Response {
    let page = gate.ask("GET", "/try", &bearer(who), "").text();
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form");
    let csrf = rest.split('"').next().unwrap();
    let body =
        url::form_urlencoded::Serializer::new(format!("csrf={csrf}")).extend_pairs(fields).finish();
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    gate.ask("POST", target, &format!("{}{head}{form}", bearer(who)), &body)
}

#[test]
fn an_act_is_recorded_under_the_name_of_its_user() {
    let origin = Origin::with_rules(RULES);
    let gate = gate_with(&users());
    let first = gate.deny(&origin, "/private/a");
    let second = gate.deny(&origin, "/private/b");
    let third = gate.deny(&origin, "/private/c");
    let by = |id: &str| see(&gate, &format!("/decisions/{id}"))["acknowledged"]["by"].clone();
    let at = |id: &str| format!("/decisions/{id}/acknowledgement");

    let why = problem(
        &send(&gate, "viewer", "POST", &at(&first), &json!({"by": "Eve", "note": "n"})),
        403,
    );
    says!(why, "viewer cannot act in the name of Eve");
    assert!(by(&first).is_null());
    let done = send(&gate, "viewer", "POST", &at(&first), &json!({"note": "seen"}));
    assert_eq!(body(&done)["acknowledged"]["by"], "viewer", "{done:?}");
    // Another user replaces only an acknowledgement that it has seen.
    let seen = body(&done)["acknowledged"].clone();
    problem(&send(&gate, "worker", "POST", &at(&first), &json!({"note": "mine"})), 409);
    let replacing = json!({"by": "worker", "note": "mine", "replaces": seen});
    let done = send(&gate, "worker", "POST", &at(&first), &replacing);
    assert_eq!(body(&done)["acknowledged"]["by"], "worker", "{done:?}");

    let why = submit(
        &gate,
        "viewer",
        &format!("/decisions/{second}/acknowledge"),
        &[("by", "Eve"), ("note", "n")],
    );
    problem(&why, 403);
    let done =
        submit(&gate, "viewer", &format!("/decisions/{second}/acknowledge"), &[("note", "seen")]);
    assert_eq!(done.status, 303, "{}", done.text());
    assert_eq!(done.field("set-cookie"), None, "there is no name to remember");
    assert_eq!(by(&second), "viewer");
    let done =
        submit(&gate, "viewer", "/denials/acknowledge/ticked", &[("note", "seen"), ("id", &third)]);
    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(by(&third), "viewer");

    let new = |by: Value| json!({"origin": "https://site.test", "pattern": "/p", "action": "deny", "until": "1d", "by": by, "reason": "r"});
    problem(&send(&gate, "worker", "POST", "/overrides", &new(json!("Ada"))), 403);
    let added = send(&gate, "worker", "POST", "/overrides", &new(Value::Null));
    assert_eq!((added.status, &body(&added)["by"]), (201, &json!("worker")));
    let id = body(&added)["id"].as_str().unwrap().to_owned();
    problem(&send(&gate, "worker", "DELETE", &format!("/overrides/{id}?by=Ada"), &json!({})), 403);
    let removed = send(&gate, "worker", "DELETE", &format!("/overrides/{id}"), &json!({}));
    assert_eq!(removed.status, 204, "{removed:?}");
    let form = [
        ("origin", "https://site.test"),
        ("pattern", "/q"),
        ("action", "deny"),
        ("until", "1d"),
        ("reason", "r"),
    ];
    assert_eq!(submit(&gate, "worker", "/overrides", &form).status, 303);
    let all = see(&gate, "/overrides?all=true");
    let names = |key: &str| -> Vec<Value> {
        let items = all["items"].as_array().unwrap();
        items.iter().map(|one| one[key].clone()).collect()
    };
    assert_eq!(names("by"), [json!("worker"), json!("worker")]);
    assert!(names("removed_by").contains(&json!("worker")), "{all}");
    gate.wait_said("an act on the admin side user=\"worker\"");
}

#[test]
fn an_act_is_told_before_it_is_done_with_its_path_and_its_origin() {
    let origin = Origin::http().on("/robots.txt", [Reply::silent()]);
    let gate = gate_with(&users());
    let of = origin.url("");
    let of = of.trim_end_matches('/');
    // The refresh waits for an origin that does not answer, and its client hangs up.
    let mut client = Wire::connect(gate.address);
    let document = json!({"origin": of}).to_string();
    client.send(format!(
        "POST /api/v1/refresh HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{document}",
        gate.address,
        document.len(),
        bearer("worker")
    ));
    gate.wait_said(&format!("an act on an origin user=\"worker\" act=\"refresh\" origin=\"{of}\""));
    drop(client);
    gate.wait_said("route=\"/api/v1/refresh\" path=\"/api/v1/refresh\"");
    let of = "https://site.test";
    let done = submit(&gate, "worker", "/origin/forget", &[("of", of)]);
    assert_eq!(done.status, 303, "{}", done.text());
    gate.wait_said(&format!("an act on an origin user=\"worker\" act=\"forget\" origin=\"{of}\""));
    let id = "01KB7W3Y5E000000000VY7H1Q2";
    let document = json!({"note": "n"});
    send(&gate, "viewer", "POST", &format!("/decisions/{id}/acknowledgement"), &document);
    gate.wait_said(&format!("path=\"/api/v1/decisions/{id}/acknowledgement\""));
}

/// The target of a form, the decision that it acknowledges, its own fields, and the status when it is done.
type Form<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], u16);

#[test]
fn a_fault_in_a_note_of_a_user_is_told_beside_its_field() {
    let origin = Origin::with_rules(RULES);
    let gate = gate_with(&users());
    let [one, ticked, of_filter] =
        ["/private/a", "/private/b", "/private/c"].map(|path| gate.deny(&origin, path));
    let by = |id: &str| see(&gate, &format!("/decisions/{id}"))["acknowledged"]["by"].clone();
    let at = |id: &str| format!("/decisions/{id}/acknowledge");
    // The last record of the conditions stands in the form.
    let conditions = "verdict=deny&path=/private/c";
    let fields = format!("{}Accept: text/html\r\n", bearer("viewer"));
    let target = format!("/denials/acknowledge?{conditions}");
    let shown = gate.ask("GET", &target, &fields, "").text();
    let (_, rest) = shown.split_once("name=\"to\" value=\"").expect("a form");
    let to = rest.split('"').next().unwrap();
    #[rustfmt::skip] // one row, one case
    let forms: [Form<'_>; 3] = [
        (&at(&one), &one, &[], 303),
        ("/denials/acknowledge/ticked", &ticked, &[("id", &ticked)], 200),
        ("/denials/acknowledge", &of_filter, &[("conditions", conditions), ("to", to)], 200),
    ];
    for (target, id, own, done) in forms {
        let with = |note| [&[("note", note)][..], own].concat();
        let answer = submit_for_a_page(&gate, "viewer", target, &with(" "));
        let page = answer.text();
        assert_eq!(answer.status, 400, "{target}: {page}");
        says!(page, "id=\"ack-note-fault\"", "under your name, viewer.");
        for part in ["name=\"by\"", "ack-by"] {
            assert!(!page.contains(part), "{target}: {part}: {page}");
        }
        assert!(by(id).is_null(), "{target}");
        let answer = submit_for_a_page(&gate, "viewer", target, &with("seen"));
        assert_eq!(answer.status, done, "{target}: {}", answer.text());
        assert_eq!(by(id), "viewer", "{target}");
    }
}

#[test]
fn the_shared_token_operates_beside_users_and_names_a_person() {
    let gate = AdminGate::with(|setup| {
        setup.set("admin", "token_file", "\"admin.token\"");
        setup.tables(&users());
    });
    let token = fs::read_to_string(gate.setup.dir().join("admin.token")).unwrap();
    let token = token.trim();
    let new = |by: Value| {
        json!({"origin": "https://site.test", "action": "deny", "until": "1d", "by": by, "reason": "r"}).to_string()
    };
    let json = "Content-Type: application/json\r\n";
    let ask = |fields: String, body: &str| {
        gate.ask("POST", "/api/v1/overrides", &format!("{json}{fields}"), body)
    };
    let why = problem(&ask(format!("Authorization: Bearer {token}\r\n"), &new(Value::Null)), 400);
    assert!(why.starts_with("by is missing"), "{why}");
    let added = ask(format!("Authorization: Bearer {token}\r\n"), &new(json!("Ada Example")));
    assert_eq!(body(&added)["by"], "Ada Example", "{added:?}");
    // As the password to any name, also to a user's: it is no user then.
    let added = ask(basic(&format!("reader:{token}")), &new(json!("Grace")));
    assert_eq!(body(&added)["by"], "Grace", "{added:?}");
    problem(&ask(bearer("reader"), &new(json!("reader"))), 403);
}
