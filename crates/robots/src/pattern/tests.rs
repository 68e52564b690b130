//! Patterns and the paths that they match.

// A failed unwrap is a failed test.
use super::*;

/// Name, value, paths that match, paths that do not.
type Case = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// Tells whether `value` matches a path in comparison form.
fn matches(value: &str, path: &str) -> bool {
    let Some((pattern, _)) = Pattern::new(value.as_bytes()) else {
        return false;
    };
    path.as_bytes().starts_with(pattern.head()) && pattern.matches(&Subject::new(path.as_bytes()))
}

fn check(cases: &[Case]) {
    for (name, value, matched, missed) in cases {
        for path in *matched {
            assert!(matches(value, path), "{name}: {value} matches {path}");
        }
        for path in *missed {
            assert!(!matches(value, path), "{name}: {value} does not match {path}");
        }
    }
}

#[test]
fn rfc9309_special_characters() {
    #[rustfmt::skip] // one row, one case
    let cases: &[Case] = &[
        ("open at the end", "/a", &["/a", "/ab", "/a/b"], &["/", "/A", "/b/a"]),
        ("a star is any run", "/a*c", &["/ac", "/abc", "/a/b?c", "/acd"], &["/ab", "/"]),
        ("several stars", "/*a*b*c", &["/abc", "/xaybzc", "/a*b*c"], &["/acb", "/ab"]),
        ("pieces do not overlap", "/*aa*aa", &["/aaaa", "/aaxaa"], &["/aaa"]),
        ("the first place found is good enough", "/*ab*ab$", &["/abab", "/ababab"], &["/ab", "/aba"]),
        ("a final dollar is the end", "/a$", &["/a"], &["/a/", "/a?", "/a$", "/"]),
        ("a dollar elsewhere is itself", "/a$b", &["/a$b", "/a$bc", "/a%24b"], &["/a", "/ab"]),
        ("two dollars: one of each", "/a$$", &["/a$", "/a%24"], &["/a", "/a$$", "/a%24$"]),
        ("a dollar before a star is itself", "/a$*b", &["/a$b", "/a%24_b"], &["/ab", "/a$"]),
        ("a dollar behind a star is itself", "/*$b$", &["/$b", "/a%24b"], &["/b", "/a%24b/"]),
        ("a star before the end", "/a*$", &["/a", "/abc"], &["/b"]),
        ("an end after a piece", "/*.gif$", &["/a.gif", "/.gif", "/a.gif.gif"], &["/a.gif?", "/a.gifs"]),
        ("a trailing star is redundant", "/a*", &["/a", "/ab"], &["/b"]),
        ("runs of stars are one", "/a***b", &["/ab", "/axb"], &["/a"]),
        ("a pattern longer than the path", "/aaaa*", &[], &["/aaa"]),
    ];
    check(cases);
}

#[test]
fn google_a_pattern_begins_with_a_slash_or_a_star() {
    #[rustfmt::skip] // one row, one case
    let cases: &[Case] = &[
        ("a star first", "*.gif$", &["/a.gif"], &["/a.png"]),
        ("a star may stand for nothing", "*/x", &["/x", "/a/x"], &["/a"]),
        ("a star alone", "*", &["/", "/a"], &[]),
        ("a star and the end", "*$", &["/", "/a"], &[]),
        ("a name", "a", &[], &["/a", "a"]),
        ("a URL", "https://example.com/", &[], &["/", "https://example.com/"]),
        ("an escaped slash", "%2Fa", &[], &["/a", "%2Fa"]),
        ("the end alone", "$", &[], &["/", ""]),
        ("nothing", "", &[], &["/", ""]),
    ];
    check(cases);
}

#[test]
fn rfc9309_an_escaped_special_character_is_itself_in_either_spelling() {
    #[rustfmt::skip] // one row, one case
    let cases: &[Case] = &[
        ("an escaped star", "/a%2Ab", &["/a*b", "/a%2Ab", "/a*bc"], &["/aXb", "/ab"]),
        ("lower case", "/a%2ab", &["/a*b", "/a%2Ab"], &["/aXb"]),
        ("an escaped dollar", "/a%24", &["/a$", "/a%24", "/a$b"], &["/a"]),
        ("an escaped dollar and the end", "/a%24$", &["/a$", "/a%24"], &["/a", "/a$b"]),
        ("behind a star", "/*%2Ab*c", &["/x*bc", "/x%2Ab_c", "/**bc"], &["/xbc", "/*c"]),
        ("behind a star, at the end", "/*%2A$", &["/x*", "/x%2A", "/%2A*"], &["/x*y", "/x"]),
        ("nothing but escaped stars", "/*%2A%2A*b", &["/**b", "/%2A*b", "/*%2Ab"], &["/*b", "/*_*b"]),
        ("a plain dollar beside an escaped one is a character too", "/a$b%24", &["/a$b$", "/a%24b$"], &["/ab$", "/a$b"]),
        ("a match does not begin inside an escape", "/*2A%2A", &["/2A*"], &["/%2A*", "/%2A%2A"]),
        ("a match may begin inside a failed one", "/*a%2A%2Ab", &["/a*a**b", "/a%2Aa%2A*b"], &["/a*a*b"]),
    ];
    check(cases);
}

#[test]
fn ours_long_paths_match_like_short_ones() {
    let long = format!("/{}needle{}", "hay".repeat(50), "hay".repeat(50));
    assert!(matches("/*needle*y$", &long) && matches("/*needlehay", &long));
    assert!(!matches("/*needle*needle", &long) && !matches("/*needle$", &long));
}

#[test]
fn ours_length_counts_octets_in_comparison_form() {
    let cases = [
        ("plain", "/abc", 4),
        ("stars and dollars count", "/a*$b*$", 7),
        ("a trailing star too", "/a**", 4),
        ("an unreserved escape counts as its character", "/%61", 2),
        ("a raw octet counts as its escape", "/ツ", 10),
        ("an escaped star counts as it is written", "/%2A", 4),
        ("an escaped dollar at the end too", "/%24", 4),
    ];
    for (name, value, expected) in cases {
        assert_eq!(Pattern::new(value.as_bytes()).unwrap().1, expected, "{name}");
    }
}

#[test]
fn an_indexed_path_matches_like_a_searched_one() {
    let path = format!("/{}{}b*a%2A{}", "ab".repeat(90), "aab".repeat(60), "abb".repeat(80));
    let subject = Subject::of_many(path.as_bytes(), usize::MAX);
    let pieces = ["ab", "aab", "abb", "bba", "%2A", "b%2Aa", "x", "aaa", "ba", &"ab".repeat(70)];
    let mut matched = 0;
    for one in pieces {
        for other in pieces {
            for value in [
                format!("/*{one}*{other}"),
                format!("/*{one}*{other}$"),
                format!("/ab*{one}*{other}*b"),
            ] {
                let (pattern, _) = Pattern::new(value.as_bytes()).unwrap();
                let found =
                    subject.matches(pattern.text(), pattern.is_anchored(), pattern.is_literal());
                assert_eq!(found, matches(&value, &path), "{value}");
                matched += usize::from(found);
            }
        }
    }
    assert!((20..280).contains(&matched), "{matched} match");
}
