//! Properties of the path guard.

use crawlgate_robots::{
    ComparisonPath, GuardVerdict, PathVariants, Robots, RuleKind, Rules, Selection,
};
use proptest::prelude::*;

use super::checks::OPTIONS;

fn rules(lines: &[String]) -> Rules {
    let text = format!("user-agent: *\n{}\n", lines.join("\n"));
    Robots::parse(text.as_bytes(), OPTIONS).rules(Selection::Global)
}

fn is_disallowed(rules: &Rules, path: &[u8]) -> bool {
    let found = rules.verdict(&ComparisonPath::new(path));
    found.is_some_and(|rule| rule.kind == RuleKind::Disallow)
}

fn is_clear(rules: &Rules, path: &str) -> bool {
    let path = ComparisonPath::new(path.as_bytes());
    matches!(rules.guard(&path), GuardVerdict::Allowed)
}

/// Rules without escapes.
fn plain_rule() -> impl Strategy<Value = String> {
    let value = "/?(\\*|/|[a-c]|\\.|=|\\?|&){0,6}\\$?";
    (any::<bool>(), value).prop_map(|(is_allow, value)| {
        let field = if is_allow { "allow" } else { "disallow" };
        format!("{field}: {value}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_plain_path_has_the_verdict_of_its_rules_alone(
        rules in prop::collection::vec(plain_rule(), 0..8),
        path in "/([a-c]{1,2}/){0,3}([a-c]{1,2}(\\?[a-c=&/.]{1,8})?)?",
    ) {
        prop_assert!(is_clear(&self::rules(&rules), &path));
    }

    #[test]
    fn a_path_that_the_guard_lets_pass_has_no_disallowed_reading(
        values in prop::collection::vec("/([a-c]|/|é){0,5}", 1..6),
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "/", "a", "b", "c", "..", ".", "//", "%2F", "%252F", "%09", "%00", "%80", "%E9", "%C3%A9", "%u0061", "%u002F", ";",
                "\\", "%20", "%EF%BB%BF", "%01",
            ]),
            0..8,
        ),
    ) {
        let lines: Vec<String> = values.iter().map(|value| format!("disallow: {value}")).collect();
        let rules = self::rules(&lines);
        let path = format!("/{}", pieces.concat());
        if !is_disallowed(&rules, path.as_bytes()) && is_clear(&rules, &path) {
            let form = ComparisonPath::new(path.as_bytes());
            for reading in PathVariants::of(&form).paths() {
                prop_assert!(!is_disallowed(&rules, &reading), "{path} as {}", String::from_utf8_lossy(&reading));
            }
        }
    }

    #[test]
    fn a_path_in_a_parameter_is_none_of_this_site(
        values in prop::collection::vec("/?(\\*|/|[a-c]){1,6}\\$?", 1..8),
        parameter in "(/|[a-c]|/a/b){0,6}",
    ) {
        let lines: Vec<String> = values.iter().map(|value| format!("disallow: {value}")).collect();
        let rules = self::rules(&lines);
        let url = format!("/c?u=%3A{}", parameter.replace('/', "%2F"));
        prop_assert!(is_disallowed(&rules, url.as_bytes()) || is_clear(&rules, &url), "{url}");
    }

    #[test]
    fn a_rule_that_speaks_of_the_query_meets_escaped_slashes_as_raw_ones(
        // A piece of mere punctuation is about a spelling.
        value in "/\\*?\\?(\\*?[a-c/&=]?[a-c]/?){0,4}\\$?",
        path in "/[a-c]?\\?u=(/|[a-c]|&|=){1,8}",
    ) {
        let rules = self::rules(&[format!("disallow: {value}")]);
        let (before, query) = path.split_once('?').unwrap();
        let escaped = format!("{before}?{}", query.replace('/', "%2F"));
        if is_disallowed(&rules, path.as_bytes()) {
            prop_assert!(is_disallowed(&rules, escaped.as_bytes()) || !is_clear(&rules, &escaped), "{escaped} against {value}");
        }
    }
}
