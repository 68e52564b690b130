//! Examples from RFC 9309 and Google's published interpretation of robots.txt, as data.

use crawlgate::rep::{ComparisonPath, Origin, ParseOptions, ProductToken, Robots, RuleKind};
use serde_json::Value;

#[test]
fn rule_examples() {
    let failures: Vec<String> = cases(include_str!("vectors/rules.json"))
        .iter()
        .filter_map(rule_failure)
        .collect();
    assert!(
        failures.is_empty(),
        "{} rows fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn rule_failure(case: &Value) -> Option<String> {
    let robots = Robots::parse(text(case, "robots").as_bytes(), ParseOptions::default());
    let chain: Vec<ProductToken> = texts(case, "agents")
        .map(|agent| ProductToken::new(agent).unwrap())
        .collect();
    let (_, path) = Origin::parse(text(case, "url")).unwrap();
    let rules = robots.rules(robots.selection(&chain));
    let rule = rules.verdict(&ComparisonPath::new(path.as_bytes()));
    let is_allowed = rule.is_none_or(|rule| rule.kind == RuleKind::Allow);
    // A row that names a rule is decided by it; most rows that are allowed name none, and some are
    // decided by one.
    let expected = case["rule"].as_str();
    let is_right_rule =
        expected.is_none_or(|line| rule.is_some_and(|rule| rule.text.eq_ignore_ascii_case(line)));
    let passes = is_allowed == case["allowed"].as_bool().unwrap() && is_right_rule;
    (!passes).then(|| format!("{} (decided by {rule:?})\n  {case}", text(case, "why")))
}

#[test]
fn origin_examples() {
    let origin = |url: &str| {
        Origin::parse(url)
            .unwrap_or_else(|error| panic!("{url}: {error}"))
            .0
    };
    let mut failures = Vec::new();
    for case in cases(include_str!("vectors/origins.json")) {
        let robots_of = origin(text(&case, "robots_of"));
        failures.extend(
            texts(&case, "same")
                .filter(|url| origin(url) != robots_of)
                .map(|url| format!("{url} is not {robots_of}")),
        );
        failures.extend(
            texts(&case, "other")
                .filter(|url| origin(url) == robots_of)
                .map(|url| format!("{url} is {robots_of}")),
        );
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn cases(json: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(json).unwrap();
    let cases = file["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key]
        .as_str()
        .unwrap_or_else(|| panic!("no {key} in {case}"))
}

fn texts<'a>(case: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    case[key]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
}
