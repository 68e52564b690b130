//! Rules and paths: the deciding rule.

// A failed unwrap is a failed test.
use std::cmp::Reverse;

use super::*;
use crate::pattern::Subject;
use crate::{ParseOptions, Robots};

/// Returns rules of `a`llow and `d`isallow lines, numbered from 1.
fn rules(lines: &[&str]) -> Rules {
    let line = |line: &&str| {
        let (kind, value) = line.split_once(' ').unwrap();
        let field = if kind == "a" { "allow" } else { "disallow" };
        format!("{field}: {value}\n")
    };
    let text: String = lines.iter().map(line).collect();
    let robots =
        Robots::parse(format!("user-agent: *\n{text}").as_bytes(), ParseOptions::default());
    robots.rules(Selection::Global)
}

/// Returns the number of the deciding rule, from 1.
fn decided(rules: &Rules, path: &str) -> Option<u32> {
    let verdict = rules.verdict(&ComparisonPath::new(path.as_bytes()))?;
    Some(verdict.line - 1)
}

#[test]
fn the_most_specific_rule_decides() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], &str, Option<u32>)] = &[
        ("rfc9309: the longest", &["d /", "a /a", "d /a/b"], "/a/b", Some(3)),
        ("rfc9309: whatever its place", &["d /a/b", "a /a", "d /"], "/a/b", Some(1)),
        ("rfc9309: allow on a tie", &["d /a", "a /a"], "/a", Some(2)),
        ("google: allow on a tie of different patterns", &["d /*b", "a /ab"], "/ab", Some(2)),
        ("ours: the first of equals", &["d /a*", "d /*a"], "/aa", Some(1)),
        ("google: stars count", &["a /ab", "d /a*b"], "/ab", Some(2)),
        ("google: the end counts", &["a /a", "d /a$"], "/a", Some(2)),
        ("ours: length is that of the comparison form", &["a /aaaaa", "d /*\u{30c4}"], "/aaaaa%E3%83%84", Some(2)),
        ("rfc9309: none matches", &["d /a"], "/b", None),
        ("rfc9309: robots.txt is always allowed", &["d /", "d /robots.txt"], "/robots.txt", None),
        ("rfc9309: but not with a query", &["d /"], "/robots.txt?a", Some(1)),
        ("google: an empty rule does not decide", &["d /", "a "], "/", Some(1)),
        ("google: nor does one that begins with a name", &["d /", "a a*aaaa"], "/aaaa", Some(1)),
        ("google: an allowed index allows its folder", &["d /", "a /a/index.html"], "/a/", Some(2)),
        ("google: .htm too", &["d /", "a /a/index.htm"], "/a/", Some(2)),
        ("google: only the folder itself", &["d /", "a /a/index.html"], "/a/b", Some(1)),
        ("google: with the folder's length", &["d /a/*", "a /a/index.html", "d /*/*/"], "/a/", Some(2)),
        ("google: the index itself by its own length", &["d /a/index", "a /a/index.html"], "/a/index.html", Some(2)),
        ("google: not for disallow", &["a /", "d /a/index.html"], "/a/", Some(1)),
        ("google: the last slash counts", &["d /", "a /a/index.html/b"], "/a/", Some(1)),
    ];
    for (name, lines, path, expected) in cases {
        let rules = rules(lines);
        assert_eq!(decided(&rules, path), *expected, "{name}");
    }
}

#[test]
fn ours_ten_thousand_rules_find_theirs() {
    let lines: Vec<String> = (0..10_000)
        .map(|n| format!("{} /dir{}/*page{n}$", if n % 2 == 0 { "a" } else { "d" }, n % 97))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let rules = rules(&lines);
    for n in (0..10_000).step_by(61) {
        let path = format!("/dir{}/x/page{n}", n % 97);
        assert_eq!(decided(&rules, &path), Some(n + 1));
        assert_eq!(decided(&rules, &format!("{path}x")), None);
    }
}

#[test]
fn heads_within_heads_are_all_found() {
    let rules =
        rules(&["d /a/b/c*x", "d /a/b", "d /a*yyyyyyyy", "d *zzzzzzzzzzzz", "d /a/b/d", "d /a/bb"]);
    let cases = [
        ("/a/b/cx", 1),
        ("/a/b/c", 2),
        ("/a/b/cyyyyyyyy", 3),
        ("/a/b/czzzzzzzzzzzz", 4),
        ("/zzzzzzzzzzzz", 4),
        ("/a/bzz", 2),
    ];
    for (path, expected) in cases {
        assert_eq!(decided(&rules, path), Some(expected), "{path}");
    }
}

/// Decides as `Rules` must: tries every pattern and keeps the best.
fn decided_slowly(lines: &[String], path: &str) -> Option<u32> {
    let form = ComparisonPath::new(path.as_bytes());
    let subject = Subject::new(form.as_bytes());
    let matching = (1..).zip(lines).filter_map(|(number, line)| {
        let (kind, value) = line.split_once(' ').unwrap();
        let (pattern, octets) = Pattern::new(value.as_bytes())?;
        let starts = form.as_bytes().starts_with(pattern.head());
        (starts && pattern.matches(&subject)).then_some((octets, kind == "a", Reverse(number)))
    });
    matching.max().map(|(_, _, Reverse(number))| number)
}

#[test]
fn ours_crowded_rules_decide_like_a_linear_search() {
    let word = |number: usize| ["ab", "abc", "b", "/", "ab/", "c*a", "*", "$b"][number % 8];
    // Alike in their beginnings, in their ends, in their trigrams.
    let shapes: [fn(usize) -> String; 5] = [
        |n| format!("/common/beginning/{n}"),
        |n| format!("/{}", "a".repeat(n % 300)),
        |n| format!("/{}{}", "ab".repeat(n % 9), n % 70),
        |n| format!("/*abc{}*abc$", n % 200),
        |n| format!("/common/*{}/x{}", n % 11, n % 13),
    ];
    for (at, shape) in shapes.iter().enumerate() {
        let lines: Vec<String> = (0..2_000)
            .map(|n| {
                let kind = if n % 3 == 0 { "a" } else { "d" };
                let tail = if n % 5 == 0 { word(n / 5) } else { "" };
                format!("{kind} {}{tail}", shape(n * 7))
            })
            .collect();
        let borrowed: Vec<&str> = lines.iter().map(String::as_str).collect();
        let rules = rules(&borrowed);
        for n in (0..2_000).step_by(41) {
            let path = shape(n).replace('*', "abc").replace('$', "");
            for path in [path.clone(), format!("{path}abc"), format!("{path}/xab")] {
                let expected = decided_slowly(&lines, &path);
                assert_eq!(decided(&rules, &path), expected, "{at}: {path}");
            }
        }
    }
}

#[test]
fn empty_rules_and_rules_without_disallows_are_recognised() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], bool, bool)] = &[
        // name, rules, is_empty, disallows_nothing
        ("none", &[], true, true),
        ("empty ones", &["d ", "a "], true, true),
        ("one that never matches", &["d a"], true, true),
        ("allow only", &["a /"], false, true),
        ("disallow", &["d /a", "a /"], false, false),
        ("the same both ways: allow wins", &["d /a", "a /a"], false, true),
    ];
    for (name, lines, is_empty, disallows_nothing) in cases {
        let rules = rules(lines);
        assert_eq!(
            (rules.is_empty(), rules.disallows_nothing()),
            (*is_empty, *disallows_nothing),
            "{name}"
        );
    }
    assert!(rules(&["d /a"; 1000]).bytes() < 1000, "repetitions cost nothing");
}
