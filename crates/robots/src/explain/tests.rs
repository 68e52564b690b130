// A failed unwrap is a failed test; a table's type is spelt where the table is.
#![allow(clippy::type_complexity, reason = "a case is one row, its columns a tuple")]
use proptest::prelude::*;

use super::*;
use crate::GuardVerdict;
use crate::ParseOptions;

fn robots(text: &str) -> Robots {
    Robots::parse(text.as_bytes(), ParseOptions::default())
}

fn chain(tokens: &[&str]) -> Vec<ProductToken> {
    tokens.iter().map(|token| ProductToken::new(token).unwrap()).collect()
}

#[test]
fn each_token_has_a_standing() {
    use TokenRole::{Named, NotAsked, NotNamed};
    let file = robots("user-agent: b\nuser-agent: MJ12bot/1\nallow: /\nuser-agent: *\nallow: /\n");
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], &[TokenRole])] = &[
        ("the first named decides", &["a", "b", "mj12bot"], &[NotNamed, Named, NotAsked]),
        ("whatever the case", &["B"], &[Named]),
        ("none is named", &["x", "y"], &[NotNamed, NotNamed]),
        ("a token with digits", &["mj12BOT"], &[Named]),
        ("an empty chain", &[], &[]),
    ];
    for (name, tokens, expected) in cases {
        let explained = file.explain(&chain(tokens), b"/");
        let found: Vec<_> = explained.chain.iter().map(|(_, standing)| *standing).collect();
        assert_eq!(found, *expected, "{name}");
    }
}

#[test]
fn the_groups_that_are_merged() {
    let text = "user-agent: a/1\nuser-agent: *\ndisallow: /1\n\nuser-agent: b\nallow: /2\n\n\
                user-agent: * x\nuser-agent: A2\nallow: /\ndisallow: /3\nuser-agent: a";
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], &[(&str, u32, usize)])] = &[
        ("all that name the token", &["a"], &[("a", 1, 1), ("A", 9, 2), ("a", 12, 0)]),
        ("a token with digits", &["a2"], &[("A2", 9, 2)]),
        ("the global ones", &["c"], &[("*", 2, 1), ("*", 8, 2)]),
        ("one", &["b"], &[("b", 5, 1)]),
    ];
    for (name, tokens, expected) in cases {
        let explained = robots(text).explain(&chain(tokens), b"/");
        let found: Vec<_> =
            explained.groups.iter().map(|group| (&*group.name, group.line, group.rules)).collect();
        assert_eq!(found, *expected, "{name}");
    }
    let first = &robots(text).explain(&chain(&["a"]), b"/").groups[0];
    assert_eq!(first.user_agents, [(Box::from("a/1"), 1), (Box::from("*"), 2)]);
}

#[test]
fn the_winning_rule_has_a_reason() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &str, &str, &[(u32, usize)], VerdictReason)] = &[
        ("the only one", "disallow: /a\nallow: /b", "/a", &[(2, 2)], VerdictReason::Only),
        ("the longest", "disallow: /\nallow: /a", "/a", &[(3, 2), (2, 1)], VerdictReason::Longest),
        ("allow on a tie", "disallow: /*b\nallow: /ab", "/ab", &[(3, 3), (2, 3)], VerdictReason::AllowOnTie),
        ("allow on a tie of three", "disallow: /*b\nallow: /ab\nallow: /a*", "/ab", &[(3, 3), (4, 3), (2, 3)], VerdictReason::AllowOnTie),
        ("the first of equals", "disallow: /a*\ndisallow: /*a", "/aa", &[(2, 3), (3, 3)], VerdictReason::First),
        (
            "a tie below the winner does not matter",
            "disallow: /\nallow: /\ndisallow: /a",
            "/a",
            &[(4, 2), (3, 1), (2, 1)],
            VerdictReason::Longest,
        ),
        ("none matches", "disallow: /a", "/b", &[], VerdictReason::NoMatch),
        ("no rule", "disallow:", "/b", &[], VerdictReason::NoRules),
        ("no rule that could match", "disallow: x", "/x", &[], VerdictReason::NoRules),
        ("robots.txt", "disallow: /", "/robots.txt", &[(2, 1)], VerdictReason::RobotsTxt),
        ("an index allows its folder", "disallow: /\nallow: /a/index.html", "/a/", &[(3, 4), (2, 1)], VerdictReason::Longest),
    ];
    for (name, rules, path, expected, why) in cases {
        let file = robots(&format!("user-agent: *\n{rules}\n"));
        let judged = file.explain(&[], path.as_bytes()).written;
        let found: Vec<_> =
            judged.matches.iter().map(|found| (found.rule.line, found.octets)).collect();
        assert_eq!((&*found, judged.why), (*expected, *why), "{name}");
    }
    let without_group = robots("user-agent: a\ndisallow: /").explain(&chain(&["b"]), b"/");
    assert_eq!(without_group.written.why, VerdictReason::NoGroup);
}

#[test]
fn an_index_that_allows_its_folder_says_so() {
    let file = robots("user-agent: *\nallow: /*/index.html\n");
    let found = |path: &[u8]| {
        let matches = file.explain(&[], path).written.matches;
        let found: Vec<_> = matches.iter().map(|it| (it.by, it.pattern.to_string())).collect();
        found
    };
    assert_eq!(found(b"/a/"), [(MatchedBy::Folder, "/*/$".to_owned())]);
    assert_eq!(
        found(b"/a/index.html/"),
        [(MatchedBy::Path, "/*/index.html".to_owned())],
        "a rule is told of once"
    );
}

#[test]
fn a_path_is_shown_in_comparison_form_and_in_its_other_readings() {
    let file = robots("user-agent: *\ndisallow: /private\n");
    let explained = file.explain(&[], b"/%61/../private/\xC3\xA9#x");
    assert_eq!(&*explained.written.form, b"/a/../private/%C3%A9");
    assert_eq!(explained.written.why, VerdictReason::NoMatch);
    let [reading] = &*explained.readings else {
        panic!("{explained:?}");
    };
    assert_eq!(&*reading.path, b"/private/%C3%A9");
    assert!(reading.is_disallowed());
}

fn a_line() -> impl Strategy<Value = String> {
    let path = "[/*$ab]{0,2}([/*$ab%2A4,?\\\\]|%2F|%3B){0,6}(/index\\.html?)?";
    prop_oneof![
        2 => "(a|b|a1|\\*|\\* b|c d|)".prop_map(|name| format!("user-agent: {name}")),
        3 => path.prop_map(|path| format!("allow: {path}")),
        4 => path.prop_map(|path| format!("disallow: {path}")),
        1 => Just("crawl-delay: 1".to_owned()),
    ]
}

proptest! {
    #[test]
    fn explanations_agree_with_verdicts(
        lines in prop::collection::vec(a_line(), 0..16),
        tokens in prop::collection::vec("(a|b|a1|c|x)", 0..3),
        paths in prop::collection::vec("/([/*$ab.%24;,?]|%2F|%5C|%25|%2C|%3F|%23|%20){0,8}(/|/index\\.html|\\?)?", 1..8),
    ) {
        let file = robots(&lines.join("\n"));
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let chain = chain(&tokens);
        let rules = file.rules(file.selection(&chain));
        for path in paths {
            let explained = file.explain(&chain, path.as_bytes());
            let written = ComparisonPath::new(path.as_bytes());
            let verdict = rules.verdict(&written);
            prop_assert_eq!(explained.written.rule(), verdict.as_deref(), "{} {:?}", path, &lines);
            let disallowed = explained.readings.iter().filter(|reading| reading.is_disallowed());
            let disallowed: Vec<_> = disallowed.filter_map(|reading| Some((&*reading.path, reading.rule()?))).collect();
            match rules.guard(&written) {
                GuardVerdict::Allowed => prop_assert!(disallowed.is_empty(), "{} {:?}", path, &lines),
                GuardVerdict::Disallowed { reading, rule } => {
                    let found = disallowed.iter().find(|(path, _)| **path == *reading);
                    prop_assert_eq!(found.map(|(_, rule)| *rule), Some(&*rule), "{} {:?}", path, &lines);
                }
                GuardVerdict::TooMany => prop_assert!(!explained.are_all_readings),
            }
        }
    }
}
