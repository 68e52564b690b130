//! `crawlgate check` on what sites say of use: the published vectors through `--jsonl`, and what a person sees.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::check_in;
use crate::support::{Latch, Origin, Reply, Setup, wait_until};

#[path = "../../support/signals.rs"]
mod signals;

use self::signals::{Vector, vectors};

/// Tells whether a question by itself says all that decides: `check` asks no gate and applies no override here.
fn is_a_question(vector: &Vector) -> bool {
    let is_plain =
        ["via", "override", "mode", "robots_state"].iter().all(|name| vector.json[name].is_null());
    is_plain && vector.text("robots").is_some() && vector.text("tdmrep_state") != Some("pending")
}

fn question(vector: &Vector) -> Value {
    let status = vector.json["status"].as_u64().unwrap_or(200);
    let mut head = format!("HTTP/1.1 {status} X\r\n");
    for (name, value) in vector.headers() {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    json!({
        "url": vector.json["url"],
        "agents": vector.json["agent"],
        "robots": vector.json["robots"],
        "purposes": vector.json["purposes"],
        "tdmrep": vector.json["tdmrep"],
        "response": head,
    })
}

/// Returns an object without members that say nothing.
fn bare(mut object: Value, without: &[&str]) -> Value {
    let members = object.as_object_mut().unwrap();
    members.retain(|name, value| !value.is_null() && !without.contains(&&**name));
    object
}

fn all_bare(list: &Value, without: &[&str]) -> Vec<Value> {
    let list = list.as_array().into_iter().flatten();
    list.map(|one| bare(one.clone(), without)).collect()
}

/// Returns what is wrong with an answer.
fn faults(vector: &Vector, answer: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut compare = |name: &str, found: &Value, expected: &Value| {
        if found != expected {
            faults.push(format!("{}: {name}: {found}, not {expected}", vector.id));
        }
    };
    let usage = &answer["usage"];
    if vector.expect("reason") == "path_guard" {
        compare("guarded", &json!(answer["guard"].is_object()), &json!(true));
        compare("usage", usage, &Value::Null);
        return faults;
    }
    compare("verdict", &answer["verdict"], vector.expect("verdict"));
    compare("reason", &answer["reason"], vector.expect("reason"));
    let preferences = all_bare(&usage["preferences"], &[]);
    let expected = all_bare(vector.expect("preferences"), &[]);
    compare("preferences", &json!(preferences), &json!(expected));
    let invalid = all_bare(&usage["invalid"], &["group", "entry"]);
    let expected = all_bare(vector.expect("invalid"), &[]);
    compare("invalid", &json!(invalid), &json!(expected));
    for name in ["refused", "licenses"] {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (found, expected) = (list(&usage[name]), list(vector.expect(name)));
        compare(name, &json!(found), &json!(expected));
    }
    if usage.is_object() {
        compare("combined", &usage["combined"], vector.expect("combined"));
        compare("purposes", &usage["purposes"], &vector.json["purposes"]);
    }
    faults
}

#[test]
fn the_published_vectors_hold_in_bulk() {
    // One run for all vectors of the same settings.
    let mut by_settings: BTreeMap<String, Vec<Vector>> = BTreeMap::new();
    for vector in vectors().into_iter().filter(is_a_question) {
        let settings = vector.json["signals"].to_string();
        by_settings.entry(settings).or_default().push(vector);
    }
    let mut asked = 0;
    let mut wrong = Vec::new();
    for vectors in by_settings.values() {
        let mut setup = Setup::new();
        let settings = vectors[0].json["signals"].as_object();
        for (key, value) in settings.into_iter().flatten() {
            let section = if key == "path_guard" { "robots" } else { "signals" };
            setup.set(section, key, &value.to_string());
        }
        let input = vectors.iter().map(|vector| format!("{}\n", question(vector)));
        let output = check_in(&setup, &["--jsonl"], input.collect::<String>().as_bytes());
        let answers = String::from_utf8(output.stdout).unwrap();
        let answers: Vec<Value> =
            answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(answers.len(), vectors.len(), "{answers:?}");
        for (vector, answer) in vectors.iter().zip(&answers) {
            wrong.extend(faults(vector, answer));
            asked += 1;
        }
    }
    assert!(wrong.is_empty(), "of {asked}:\n{}", wrong.join("\n"));
    // The others have no robots.txt, or depend on the gate: its state, mode, overrides or tunnels.
    assert_eq!(asked, 164);
}

#[test]
fn a_line_that_asks_about_no_use_is_answered_as_ever() {
    let robots = "User-agent: *\nAllow: /\nContent-Usage: train-ai=n\n";
    let line = json!({"url": "http://a.test/", "robots": robots});
    let other = json!({"url": "http://a.test/", "robots": robots, "purposes": ["train"]});
    let input = format!("{line}\n{other}\n");
    let output = check_in(&Setup::new(), &["--jsonl"], input.as_bytes());
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> =
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0].get("usage"), None);
    assert_eq!(answers[0]["verdict"], "allow");
    let error = "`purposes`: `train` is no purpose: write search, train-ai, ai-input, tdm, other";
    assert_eq!(answers[1]["error"], error);
    let output =
        check_in(&Setup::new(), &["--jsonl", "--purpose", "search,train-ai"], input.as_bytes());
    let answer = String::from_utf8(output.stdout).unwrap();
    let answer: Value = serde_json::from_str(answer.lines().next().unwrap()).unwrap();
    has!(answer, {"reason": "usage_disallow", "usage.refused": ["train-ai"]});
}

const TDMREP: &str = "/.well-known/tdmrep.json";

/// A file that reserves a folder.
const RESERVED: &str = r#"[{"location":"/art/","tdm-reservation":1}]"#;

/// Asks in bulk, where tdmrep.json is enforced, and returns the answers.
fn enforced(hold: &str, lines: &[Value]) -> Vec<Value> {
    let mut setup = Setup::new();
    setup.set("signals", "tdmrep", "\"enforce\"");
    setup.set("robots", "hold", &format!("{hold:?}"));
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let output = check_in(&setup, &["--jsonl"], input.as_bytes());
    let answers = String::from_utf8(output.stdout).unwrap();
    let read = |line: &str| serde_json::from_str(line).unwrap();
    answers.lines().map(read).collect()
}

fn asks(origin: &Origin, path: &str, purpose: &str) -> Value {
    json!({"url": origin.url(path), "purposes": [purpose]})
}

#[test]
fn a_line_without_files_is_judged_by_the_tdmrep_json_of_the_origin() {
    let on_file = |reply: Reply| Origin::http().on(TDMREP, [reply]);
    let reserved = on_file(Reply::ok(RESERVED));
    let down = on_file(Reply::status(503, ""));
    let closed = on_file(Reply::ok(RESERVED)).robots("User-agent: *\nDisallow: /.well-known/\n");
    let mut brought = asks(&reserved, "/art/1", "tdm");
    brought["tdmrep"] = Value::Null;
    // None of these asks the file.
    let unasked = [
        asks(&reserved, "/art/1", "search"),
        brought,
        json!({"url": reserved.url("/art/1")}),
        asks(&reserved, "/robots.txt", "tdm"),
        asks(&closed, "/art/1", "tdm"),
    ];
    for answer in enforced("30s", &unasked) {
        assert_eq!(answer["verdict"], "allow", "{answer}");
    }
    for origin in [&reserved, &closed] {
        assert_eq!(origin.seen_but_robots(), [""; 0]);
    }
    let found = enforced(
        "30s",
        &[
            asks(&reserved, "/art/1", "tdm"),
            asks(&reserved, "/art/2", "train-ai"),
            asks(&reserved, "/text", "tdm"),
            asks(&down, "/art/1", "tdm"),
        ],
    );
    let verdicts: Vec<_> = found.iter().map(|answer| &answer["verdict"]).collect();
    assert_eq!(verdicts, ["deny", "deny", "allow", "allow"], "{found:?}");
    has!(found, {"1.reason": "usage_disallow", "0.usage.preferences.0.entry": 1});
    for origin in [&reserved, &down] {
        assert_eq!(origin.seen_but_robots(), [format!("GET {TDMREP}")]);
    }
}

#[test]
fn a_line_is_not_judged_if_its_tdmrep_json_is_late() {
    let latch = Latch::new();
    let late = Origin::http().on(TDMREP, [Reply::ok(RESERVED).held(&latch)]);
    let lines = [asks(&late, "/art/1", "tdm")];
    wait_until("robots.txt to come in time", || {
        enforced("300ms", &lines).remove(0)["error"].take() == "tdmrep.json did not arrive in time"
    });
    latch.open();
}

#[test]
fn each_statement_is_shown_with_its_place_and_what_follows() {
    let mut setup = Setup::new();
    setup.set("signals", "tdmrep", "\"enforce\"");
    let robots = "License: https://a.test/l.xml\nUser-agent: *\nDisallow: /x\nContent-Usage: train-ai=n, bots=y\nContent-Signal: search=yes\nContent-Usage: no\n";
    fs::write(setup.dir().join("robots.txt"), robots).unwrap();
    fs::write(setup.dir().join("head"), "HTTP/1.1 200 OK\r\nContent-Usage: search=n\r\n\r\n")
        .unwrap();
    fs::write(setup.dir().join("tdmrep.json"), r#"[{"location":"/","tdm-reservation":1}]"#)
        .unwrap();
    let base = ["http://a.test/a", "--robots", "robots.txt"];
    let run = |more: &[&str]| {
        let output = check_in(&setup, &[&base[..], more].concat(), b"");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, told) =
        run(&["--purpose", "search", "--purpose", "tdm,train-ai", "--tdmrep", "tdmrep.json"]);
    let from = told.find("  usage:").expect(&told);
    let to = told.find("  notes:").unwrap_or(told.len());
    let expected =
        "  usage:    train-ai: disallow (line 4, group *: Content-Usage: train-ai=n, bots=y)
            search: allow (line 5, group *: Content-Signal: search=yes)
            tdm: disallow (entry 1 of tdmrep.json: {\"location\":\"/\",\"tdm-reservation\":1})
            bots: unknown key, ignored
            no: unknown key, ignored
  license:  https://a.test/l.xml (line 1, above all groups)
  purpose:  search: not refused
            train-ai: refused by train-ai, tdm
            tdm: refused by tdm
";
    assert_eq!(&told[from..to], expected);
    says!(told, "reason:   usage_disallow");
    assert_eq!(code, Some(1));

    let (code, told) = run(&["--purpose", "search", "--response", "head", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &told["reason"]), (Some(1), &json!("usage_withheld")), "{told}");
    assert_eq!(told["usage"]["refused"], json!(["search"]));
    has!(told, {"usage.preferences.2.field": "content-usage", "rule": null});

    let (code, told) = run(&["--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &told["reason"]), (Some(0), &json!("robots_allow")), "{told}");
    assert_eq!(told["usage"]["purposes"], json!([]));

    let output = check_in(&setup, &[&base[..], &["--purpose", "train"]].concat(), b"");
    let error = String::from_utf8(output.stderr).unwrap();
    says!(error, "--purpose: `train` is no purpose");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_line_that_does_not_count_is_named_with_the_one_that_does() {
    let setup = Setup::new();
    let robots = "User-agent: *\nAllow: /\nContent-Usage: train-ai=n\nContent-Usage: /a tdm=y\nContent-Usage: /b train-ai=y\nContent-Signal: ai-train=no\nContent-Usage: /private/ search=n\n";
    fs::write(setup.dir().join("robots.txt"), robots).unwrap();
    let check = |more: &[&str]| {
        let output = check_in(&setup, &[&["--robots", "robots.txt"], more].concat(), b"");
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("http://a.test/a", &["line 3 does not count: line 4 has a longer path"][..]),
        ("http://a.test/c", &[]),
        // With the path guard, another reading brings its line back.
        ("http://a.test/a/..;/c", &[]),
        ("http://a.test/private/x", &["line 3 does not count: line 7 has a longer path"]),
    ];
    for (url, shadowed) in cases {
        let [told, _] = check(&[url]);
        let found = told.lines().filter(|line| line.contains("does not count"));
        let found: Vec<&str> =
            found.map(|line| line.trim_start_matches("  usage:").trim()).collect();
        assert_eq!(found, shadowed, "{url}: {told}");
    }
    for (agent, is_noted) in [
        ("ExampleBot", false),
        ("ExampleBot/1.0", true),
        ("ExampleBot/1.0 (+https://bot.example/)", false),
    ] {
        let [_, noted] = check(&["http://a.test/a", "--agent", agent]);
        assert_eq!(noted.contains("has no URL"), is_noted, "{agent}: {noted}");
        let [_, quiet] = check(&["http://a.test/a", "--agent", agent, "--quiet"]);
        assert_eq!(quiet, "");
    }
}
