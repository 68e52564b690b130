use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crawlgate_robots::ProductToken;

fn answers(lines: &[&str]) -> Vec<Value> {
    let mut judge = LineJudge::new(&[], UsageQuery::default(), &Config::default())
        .expect("a configuration that can be read");
    lines
        .iter()
        .map(|line| {
            let mut out = Vec::new();
            let line = Line::Whole(line.as_bytes().to_vec());
            assert!(matches!(judge.take(&line, &mut out), LineOutcome::Answered));
            assert!(out.ends_with(b"\n"));
            serde_json::from_slice(&out).expect("JSON")
        })
        .collect()
}

#[test]
fn a_question_has_its_answer() {
    const FILE: &str = "User-agent: *\nDisallow: /p\nAllow: /p/open\n";
    let ask = |path: &str, more: Value| {
        let mut input = json!({"url": format!("https://a.example{path}"), "robots": FILE});
        if let (Value::Object(input), Value::Object(more)) = (&mut input, more) {
            input.extend(more);
        }
        answers(&[&input.to_string()]).remove(0)
    };
    let rule = |verdict: &str, reason: &str, rule: &str, line: u32| json!({"verdict": verdict, "reason": reason, "rule": rule, "line": line, "group": "*"});
    let none = |reason: &str, group: Value| json!({"verdict": "allow", "reason": reason, "rule": null, "line": null, "group": group});
    let denied = || rule("deny", "robots_disallow", "Disallow: /p", 2);
    let mut guarded = none("robots_allow", json!("*"));
    guarded["guard"] = json!({"reading": "/p", "rule": "Disallow: /p", "line": 2, "group": "*"});
    let cases = [
        ("disallowed", "/p", json!({}), denied()),
        ("allowed", "/p/open", json!({}), rule("allow", "robots_allow", "Allow: /p/open", 3)),
        ("no rule matches", "/x", json!({}), none("robots_allow", json!("*"))),
        ("robots.txt itself", "/robots.txt", json!({}), none("robots_txt", json!("*"))),
        ("the path guard stands aside", "/a/../p", json!({}), guarded),
        ("what no request can carry", "/p /x", json!({}), denied()),
        ("an agent that is not named", "/p", json!({"agents": ["ExampleBot"]}), denied()),
        ("a whole User-Agent", "/p", json!({"agents": ["ExampleBot/1.0 (+http://x/)"]}), denied()),
        ("an empty file", "/p", json!({"robots": ""}), none("no_rules", json!(null))),
        (
            "a file without a group for the agent",
            "/p",
            json!({"robots": "User-agent: a\nDisallow: /"}),
            none("no_rules", json!(null)),
        ),
        ("other names", "/p", json!({"id": 7, "expect": "deny"}), denied()),
    ];
    for (name, path, more, expected) in cases {
        assert_eq!(ask(path, more), expected, "{name}");
    }
    let noted =
        ask("/x", json!({"notes": true, "robots": "User-agent: *\nNoindex: /\nDisallow: /"}));
    assert_eq!(
        noted["notes"],
        json!([{"line": 2, "kind": "unknown_field", "message": "unknown field, ignored", "text": "Noindex: /"}])
    );
}

#[test]
fn base64_brings_octets_that_are_not_utf8() {
    // User-agent: *\nDisallow: /\xE9\n
    let with = |base64: &str| json!({"url": "http://a/%E9", "robots_base64": base64}).to_string();
    let answered = answers(&[
        &with("VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL+kK"),
        &with("VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL+k="),
        &with("VXNlci1hZ2VudDogKgpEaXNhbGxvdzogL+k"),
    ]);
    for answer in answered {
        assert_eq!(answer["verdict"], "deny", "{answer}");
    }
}

#[test]
fn a_bad_line_gets_its_error() {
    let deep = "[".repeat(100_000);
    let cases = [
        ("nothing", "", "not a JSON object: EOF"),
        ("no JSON", "http://a/", "not a JSON object: expected value (column 1)"),
        ("not an object", "3", "expected a JSON object with at least `url`"),
        ("no URL", "{}", "missing field `url`"),
        ("cut short", "{\"url\": \"http://a/\"", "not a JSON object: EOF while parsing an object"),
        ("deep", &deep, " (column "),
        (
            "deep in what is not read",
            &format!("{{\"url\": \"http://a/\", \"x\": {deep}"),
            "EOF while parsing a list",
        ),
        ("a NUL", "{\"url\": \"\0\"}", "control character"),
        ("half a surrogate", "{\"url\": \"\\ud800\"}", "not a JSON object: "),
        ("no absolute URL", "{\"url\": \"a.example/\", \"robots\": \"\"}", "as https://a.example/"),
        (
            "two files",
            "{\"url\": \"http://a/\", \"robots\": \"\", \"robots_base64\": \"\"}",
            "bring one",
        ),
        ("no Base64", "{\"url\": \"http://a/\", \"robots_base64\": \"*\"}", "not Base64"),
        (
            "an agent of its own spelling",
            "{\"url\": \"http://a/\", \"robots\": \"\", \"agent\": \"x\"}",
            "`agents`",
        ),
        (
            "agents that are no list",
            "{\"url\": \"http://a/\", \"robots\": \"\", \"agents\": \"x\"}",
            "expected a sequence",
        ),
        (
            "an agent that is none",
            "{\"url\": \"http://a/\", \"robots\": \"\", \"agents\": [\"a\\n\"]}",
            "neither a product token nor a User-Agent",
        ),
        (
            "a scheme that is never fetched",
            "{\"url\": \"gopher://a/\"}",
            "the scheme must be http, https or ftp",
        ),
    ];
    let lines: Vec<&str> = cases.iter().map(|(_, line, _)| *line).collect();
    for ((name, _, expected), (number, answer)) in cases.iter().zip((1..).zip(answers(&lines))) {
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(error.contains(expected), "{name}: {answer}");
        assert_eq!(answer["line"], number, "{name}");
    }
}

#[test]
fn octets_that_are_no_text_are_a_bad_line() {
    let mut judge = LineJudge::new(&[], UsageQuery::default(), &Config::default())
        .expect("a configuration that can be read");
    for line in [
        Line::Whole(b"{\"url\": \"http://a/\xFF\"}".to_vec()),
        Line::Whole(b"\xFF\xFE\0".to_vec()),
        Line::TooLong,
    ] {
        let mut out = Vec::new();
        assert!(matches!(judge.take(&line, &mut out), LineOutcome::Answered));
        let answer: Value = serde_json::from_slice(&out).expect("JSON");
        assert!(answer["error"].is_string(), "{line:?}: {answer}");
    }
}

proptest! {
    /// The protocol's answer is that of `rep`, also if the file is the last one again.
    #[test]
    fn answers_are_those_of_the_protocol(
        files in prop::collection::vec("((user-agent: [ab*]|(dis)?allow: /[ab*$/]{0,4})\n){0,8}", 1..3),
        asked in prop::collection::vec(("/[ab/.]{0,5}", prop::collection::vec("[abc]", 0..3), 0..3_usize), 1..12),
    ) {
        let questions: Vec<String> = asked
            .iter()
            .map(|(path, agents, file)| {
                let robots = &files[file % files.len()];
                json!({"url": format!("http://x.example{path}"), "agents": agents, "robots": robots}).to_string()
            })
            .collect();
        let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
        for ((path, agents, file), answer) in asked.iter().zip(answers(&questions)) {
            let robots = Robots::parse(files[file % files.len()].as_bytes(), ParseOptions::default());
            let chain: Vec<ProductToken> =
                agents.iter().map(|name| ProductToken::new(name).expect("a token")).collect();
            let rules = robots.rules(robots.selection(&chain));
            let found = rules.verdict(&ComparisonPath::new(path.as_bytes()));
            let rule = found.as_deref();
            let is_denied = rule.is_some_and(|rule| rule.kind == RuleKind::Disallow);
            prop_assert_eq!(&answer["verdict"], if is_denied { "deny" } else { "allow" });
            prop_assert_eq!(answer["line"].as_u64(), rule.map(|rule| u64::from(rule.line)));
            prop_assert_eq!(answer["rule"].as_str(), rule.map(|rule| &*rule.text));
        }
    }
}
