//! Properties of any file and any path.

use std::slice;

use crawlgate_robots::{ComparisonPath, ParseOptions, ProductToken, Robots, Selection};
use proptest::prelude::*;

use super::checks::{self, OPTIONS, verdict};
use super::naive::{self, Decision};
use super::strategies::{
    chain, crowded_path, crowded_rule, lines, options, path, rule, syntax, value,
};

fn decided(file: &[u8], chain: &[&str], path: &[u8]) -> Option<Decision> {
    let robots = Robots::parse(file, OPTIONS);
    verdict(&robots.rules(robots.selection(&tokens(chain))), path)
}

fn tokens(chain: &[&str]) -> Vec<ProductToken> {
    let tokens = chain.iter().map(|token| ProductToken::new(token).unwrap());
    tokens.collect()
}

/// Returns a decision without line numbers: the kind, and the rule.
fn placeless(decision: Option<Decision>) -> Option<(bool, String)> {
    decision.map(|decision| (decision.is_allow, decision.text))
}

proptest! {
    // PROPTEST_CASES raises the number of cases.
    #![proptest_config(ProptestConfig {
        cases: 4 * ProptestConfig::default().cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_panics(data in prop::collection::vec(any::<u8>(), 0..200)) {
        checks::parse(&data);
    }

    #[test]
    fn nothing_that_looks_like_a_file_panics(file in syntax()) {
        checks::parse(&file);
    }

    #[test]
    fn files_are_read_like_the_naive_implementation(
        file in syntax(),
        options in options(),
        chain in chain(),
        path in path(),
    ) {
        checks::agree(&file, options, &chain, path.as_bytes());
    }

    #[test]
    fn a_file_means_the_same_in_utf_16_and_utf_8(
        file in syntax(),
        options in options(),
        is_big in any::<bool>(),
        chain in chain(),
        path in path(),
    ) {
        let text = String::from_utf8_lossy(&file).into_owned();
        let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
        let octets = |unit: u16| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        let encoded: Vec<u8> = units.flat_map(octets).collect();
        checks::parse(&encoded);
        checks::agree(&encoded, options, &chain, path.as_bytes());
        let plain = decided(text.as_bytes(), &chain, path.as_bytes());
        prop_assert_eq!(decided(&encoded, &chain, path.as_bytes()), plain);
    }

    #[test]
    fn a_dollar_within_a_rule_is_its_escape(
        start in value(),
        end in value(),
        path in path(),
    ) {
        // At the end of the value, the dollar would be an anchor.
        prop_assume!(start.starts_with('/') && !end.trim().is_empty());
        let rules = |dollar: &str| format!("user-agent: *\ndisallow: {start}{dollar}{end}");
        let [plain, escaped] = ["$", "%24"].map(rules);
        let is_denied = |rules: &str| decided(rules.as_bytes(), &[], path.as_bytes()).is_some();
        prop_assert_eq!(is_denied(&plain), is_denied(&escaped), "{:?}, {:?}", plain, path);
    }

    #[test]
    fn sensible_files_too(
        lines in lines(),
        options in options(),
        chain in chain(),
        paths in prop::collection::vec(path(), 1..4),
    ) {
        for path in &paths {
            checks::agree(lines.join("\n").as_bytes(), options, &chain, path.as_bytes());
        }
    }

    #[test]
    fn the_compiled_matcher_decides_like_the_naive_one_and_by_the_same_line(
        rules in prop::collection::vec((any::<bool>(), value()), 0..24),
        paths in prop::collection::vec(path(), 1..8),
    ) {
        let sign = |is_allow: &bool| if *is_allow { '+' } else { '-' };
        let rules = rules.iter().map(|(is_allow, value)| format!("{}{value}", sign(is_allow)));
        let rules: Vec<String> = rules.collect();
        checks::matching(format!("{}\n\n{}", paths.join("\n"), rules.join("\n")).as_bytes());
    }

    #[test]
    fn rules_that_disallow_nothing_deny_nothing(lines in lines(), chain in chain(), path in path()) {
        let file = lines.join("\n");
        let robots = Robots::parse(file.as_bytes(), OPTIONS);
        let rules = robots.rules(robots.selection(&tokens(&chain)));
        let decision = verdict(&rules, path.as_bytes());
        let is_denied = decision.is_some_and(|decision| !decision.is_allow);
        prop_assert!(!(rules.disallows_nothing() && is_denied));
    }

    #[test]
    fn line_endings_change_nothing(lines in lines(), chain in chain(), path in path()) {
        let [lf, cr, crlf] = ["\n", "\r", "\r\n"]
            .map(|ending| decided(lines.join(ending).as_bytes(), &chain, path.as_bytes()));
        prop_assert_eq!(&lf, &cr);
        prop_assert_eq!(&lf, &crlf);
    }

    #[test]
    fn a_group_of_another_crawler_changes_no_verdict(
        before in lines(),
        rules in prop::collection::vec(rule(), 1..6),
        after in lines(),
        chain in chain(),
        path in path(),
    ) {
        let other = format!("user-agent: other\n{}\n", rules.join("\n"));
        // The rule in front ends a list of names, and the name behind begins a group, so that the other group is
        // separate.
        let file = |other: &str| {
            let [before, after] = [&before, &after].map(|lines| lines.join("\n"));
            format!("{before}\nallow:\n{other}user-agent: *\n{after}")
        };
        let [with, without] = [&*other, ""]
            .map(|other| decided(file(other).as_bytes(), &chain, path.as_bytes()));
        prop_assert_eq!(placeless(with), placeless(without));
    }

    #[test]
    fn merged_groups_are_one_group(
        rules in prop::collection::vec((any::<bool>(), rule()), 1..12),
        path in path(),
    ) {
        // In one of the files, another crawler's group interrupts before some of the rules.
        let file = |interruption: &str| {
            let rules = rules.iter().map(|(is_interrupted, rule)| {
                let before = if *is_interrupted { interruption } else { "" };
                format!("{before}\n{rule}\n")
            });
            format!("user-agent: a\nallow:\n{}", rules.collect::<String>())
        };
        let [one, merged] = ["", "user-agent: b\ndisallow: /\nuser-agent: A/2"]
            .map(|interruption| decided(file(interruption).as_bytes(), &["a"], path.as_bytes()));
        prop_assert_eq!(placeless(one), placeless(merged));
    }

    #[test]
    fn a_rule_that_is_longer_and_matches_decides(
        rules in prop::collection::vec(rule(), 0..12),
        at in any::<prop::sample::Index>(),
        is_allow: bool,
        path in path(),
    ) {
        // Longer than any other rule can be once it is escaped.
        let stars = "*".repeat(rules.iter().map(|rule| 3 * rule.len()).max().unwrap_or(0));
        let field = if is_allow { "allow" } else { "disallow" };
        let at = at.index(rules.len() + 1);
        let mut rules = rules;
        rules.insert(at, format!("{field}: /{stars}"));
        let file = format!("user-agent: *\n{}", rules.join("\n"));

        let decision = decided(file.as_bytes(), &[], path.as_bytes());
        let is_judged = !ComparisonPath::new(path.as_bytes()).is_robots_txt();
        let expected = is_judged.then_some((is_allow, at as u32 + 2));
        prop_assert_eq!(decision.map(|decision| (decision.is_allow, decision.line)), expected);
    }

    #[test]
    fn the_first_named_token_of_a_chain_decides(lines in lines(), chain in chain()) {
        let robots = Robots::parse(lines.join("\n").as_bytes(), OPTIONS);
        let tokens = tokens(&chain);
        let is_named = |token: &&ProductToken| {
            let selection = robots.selection(slice::from_ref(*token));
            matches!(selection, Selection::Token(_))
        };
        let first = tokens.iter().find(is_named).map(slice::from_ref);
        let alone = robots.selection(first.unwrap_or_default());
        prop_assert_eq!(robots.selection(&tokens), alone);
    }

    #[test]
    fn the_comparison_form_is_the_naive_one(
        path in path(),
        octets in prop::collection::vec(any::<u8>(), 0..32),
    ) {
        for path in [path.as_bytes(), &octets, &[path.as_bytes(), &octets].concat()] {
            let form = ComparisonPath::new(path);
            prop_assert_eq!(form.as_bytes(), naive::comparison_form(path));
        }
    }

    #[test]
    fn a_comparison_form_with_well_formed_escapes_is_its_own_comparison_form(
        rest in "(/|[a-z~]|%[0-9A-Fa-f]{2}|[?&=*$;]| |[\u{80}-\u{ffff}]){0,24}",
    ) {
        let path = format!("/{rest}");
        let form = ComparisonPath::new(path.as_bytes());
        let again = ComparisonPath::new(form.as_bytes());
        prop_assert_eq!(again.as_bytes(), form.as_bytes());
    }

    #[test]
    fn every_spelling_of_a_path_is_judged_alike(
        lines in lines(),
        chain in chain(),
        octets in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        // Octets that compare equal, written raw or as their escapes.
        let is_reserved = |octet: &u8| b":/?#[]@!$&'()*+,;=%".contains(octet);
        let octets: Vec<u8> = octets.into_iter().filter(|octet| !is_reserved(octet)).collect();
        let upper: String = octets.iter().map(|octet| format!("%{octet:02X}")).collect();
        let lower = upper.to_ascii_lowercase();
        let file = format!("{}\nuser-agent: *\ndisallow: /{lower}", lines.join("\n"));
        let [raw, upper, lower] = [&octets, upper.as_bytes(), lower.as_bytes()]
            .map(|rest| decided(file.as_bytes(), &chain, &[b"/", rest].concat()));
        prop_assert_eq!(&raw, &upper);
        prop_assert_eq!(&raw, &lower);
    }

    #[test]
    fn a_truncated_file_means_the_same_when_it_is_read_again(
        file in syntax(),
        limit in 0_usize..300,
    ) {
        let options = ParseOptions { limit, ..OPTIONS };
        let robots = Robots::parse(&file, options);
        prop_assert!(robots.text().len() <= limit);
        let again = Robots::parse(robots.text(), options);
        let shown = |robots: &Robots| {
            let rules = robots.groups().flat_map(|group| group.rules());
            rules.map(|(_, text, line)| (text.to_vec(), line)).collect::<Vec<_>>()
        };
        prop_assert!(!again.is_truncated());
        prop_assert_eq!(shown(&robots), shown(&again));
    }

    #[test]
    fn octets_beyond_the_limit_change_nothing(
        file in syntax(),
        beyond in syntax(),
        chain in chain(),
        path in path(),
    ) {
        // A file that begins as UTF-16 has whole units, and its line end is one.
        let (half, end): (_, &[u8]) = match file[..] {
            [0xFF, 0xFE, ..] => (file.len() % 2, b"\n\0"),
            [0xFE, 0xFF, ..] => (file.len() % 2, b"\0\n"),
            _ => (0, b"\n"),
        };
        let file = [&file[..], &b"\0"[..half], end].concat();
        let longer = [&file[..], &beyond].concat();
        let options = ParseOptions { limit: file.len(), ..OPTIONS };
        let [whole, cut] = [&file, &longer].map(|file| Robots::parse(file, options));
        prop_assert_eq!(whole.text(), cut.text());
        prop_assert_eq!((whole.is_truncated(), cut.is_truncated()), (false, !beyond.is_empty()));
        checks::agree(&longer, options, &chain, path.as_bytes());
    }
}

proptest! {
    // Large files take long to generate, so there are fewer cases; each one uses the index over many rules.
    #![proptest_config(ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_thousand_rules_decide_like_the_naive_implementation(
        rules in prop::collection::vec(rule(), 200..1000),
        paths in prop::collection::vec(path(), 4),
    ) {
        let file = format!("user-agent: *\n{}", rules.join("\n"));
        for path in &paths {
            checks::agree(file.as_bytes(), OPTIONS, &[], path.as_bytes());
        }
    }

    #[test]
    fn similar_rules_decide_like_the_naive_implementation(
        rules in prop::collection::vec(crowded_rule(), 100..600),
        paths in prop::collection::vec((any::<prop::sample::Index>(), crowded_path()), 4),
    ) {
        let file = format!("user-agent: *\n{}", rules.join("\n"));
        for (at, path) in paths {
            // Paths that a rule was made from, and paths that no rule was made for.
            let rule = at.get(&rules).split_once(' ').unwrap().1;
            for path in [&path, rule, &rule.replace(['*', '$'], "ab")] {
                checks::agree(file.as_bytes(), OPTIONS, &[], path.as_bytes());
            }
        }
    }
}
