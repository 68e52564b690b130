//! What holds for any file and any path.

use crawlgate::rep::{
    ComparisonPath, Origin, ParseOptions, ProductToken, Robots, RuleKind, product_tokens, readings,
    resolved,
};
use proptest::prelude::*;

use super::naive;

/// Pieces of paths and patterns, chosen to collide: wildcards, escapes of each kind, and what looks
/// like one.
const PIECES: &[&str] = &[
    "/",
    "/",
    "a",
    "a",
    "b",
    "ab",
    "*",
    "*",
    "$",
    "%2A",
    "%2a",
    "%24",
    "%61",
    "%2f",
    "%",
    "%2",
    "2A",
    "24",
    "A",
    "?",
    ".",
    "ツ",
    " ",
    "%E3",
    "index.html",
    "/index.htm",
    "~",
    "%7E",
    "|",
];

fn written() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..9).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = String> {
    let start = prop::sample::select(&["/", "/", "/", "/", "*", ""][..]);
    (start, written()).prop_map(|(start, rest)| format!("{start}{rest}"))
}

fn path() -> impl Strategy<Value = String> {
    prop_oneof![9 => written().prop_map(|rest| format!("/{rest}")), 1 => written(), 1 => Just("/robots.txt".to_owned())]
}

/// Lines of robots.txt, sensible and not.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let name = prop::sample::select(
        &[
            "user-agent: *",
            "user-agent: a",
            "user-agent: b9",
            "Useragent a",
            "sitemap: https://x/",
            "crawl-delay: 1",
            "",
            "x",
        ][..],
    );
    let rule = (
        prop::sample::select(&["allow", "disallow", "Dissallow"][..]),
        value(),
    )
        .prop_map(|(field, value)| format!("{field}: {value}"));
    prop::collection::vec(prop_oneof![name.prop_map(str::to_owned), rule], 0..16)
}

fn decided(robots: &[u8], chain: &[&str], path: &[u8]) -> Option<(RuleKind, u32, String, u32)> {
    let robots = Robots::parse(robots, ParseOptions::default());
    let chain: Vec<ProductToken> = chain
        .iter()
        .map(|token| ProductToken::new(token).unwrap())
        .collect();
    let rules = robots.rules(robots.selection(&chain));
    let rule = rules.verdict(&ComparisonPath::new(path))?;
    Some((
        rule.kind,
        rule.line,
        rule.group.to_string(),
        rule.group_line,
    ))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_compiled_matcher_decides_as_the_naive_one_and_by_the_same_line(
        rules in prop::collection::vec((any::<bool>(), value()), 0..24),
        paths in prop::collection::vec(path(), 1..8),
    ) {
        let lines = rules.iter().map(|(is_allow, value)| format!("{}: {value}\n", if *is_allow { "allow" } else { "disallow" }));
        let text = format!("user-agent: *\n{}", lines.collect::<String>());
        let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
        let compiled = robots.rules(robots.selection(&[]));
        for path in &paths {
            let line = compiled.verdict(&ComparisonPath::new(path.as_bytes())).map(|rule| rule.line as usize);
            prop_assert_eq!(line, naive::verdict(&rules, path).map(|at| at + 2), "{:?}", path);
        }
        if compiled.disallows_nothing() {
            let denied = paths.iter().find(|path| naive::verdict(&rules, path).is_some_and(|at| !rules[at].0));
            prop_assert_eq!(denied, None);
        }
    }

    #[test]
    fn the_comparison_form_is_the_naive_one(path in path()) {
        let form = ComparisonPath::new(path.as_bytes());
        prop_assert_eq!(form.as_bytes(), naive::comparison_form(&path));
    }

    #[test]
    fn line_endings_change_nothing(lines in lines(), path in path()) {
        let [lf, cr, crlf] = ["\n", "\r", "\r\n"].map(|ending| decided(lines.join(ending).as_bytes(), &["b9", "a"], path.as_bytes()));
        prop_assert_eq!(&lf, &cr);
        prop_assert_eq!(&lf, &crlf);
    }

    #[test]
    fn a_truncated_file_means_the_same_when_it_is_read_again(lines in lines(), limit in 0_usize..200) {
        let text = lines.join("\n");
        let robots = Robots::parse(text.as_bytes(), ParseOptions { limit, ..ParseOptions::default() });
        prop_assert!(robots.text().len() <= limit);
        let again = Robots::parse(robots.text(), ParseOptions { limit, ..ParseOptions::default() });
        let shown = |robots: &Robots| robots.groups().map(|group| group.rules().map(|(_, text, line)| (text.to_vec(), line)).collect::<Vec<_>>()).collect::<Vec<_>>();
        prop_assert_eq!(shown(&robots), shown(&again));
    }

    #[test]
    fn nothing_panics(file in prop::collection::vec(any::<u8>(), 0..200), path in prop::collection::vec(any::<u8>(), 0..60), lenient: bool) {
        let robots = Robots::parse(&file, ParseOptions { lenient, limit: 150 });
        let chain = product_tokens(&file);
        let rules = robots.rules(robots.selection(&chain));
        let form = ComparisonPath::new(&path);
        prop_assert!(form.as_bytes().is_ascii() && form.as_bytes().starts_with(b"/"));
        let _ = (rules.verdict(&form), robots.notes(), robots.others().count(), robots.groups().count());
        let _ = Origin::parse(&String::from_utf8_lossy(&path));
    }

    #[test]
    fn a_resolved_path_is_not_resolved_further(path in "/[./a;%2eE?]{0,16}") {
        if let Some(other) = resolved(path.as_bytes()) {
            prop_assert_eq!(resolved(&other), None, "{}", String::from_utf8_lossy(&other));
        }
        for reading in readings(path.as_bytes()) {
            prop_assert!(reading.starts_with(b"/") && reading != path.as_bytes());
        }
    }
}
