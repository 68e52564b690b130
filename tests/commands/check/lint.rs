//! `crawlgate check` on a file without a URL: its lines that crawlers do not read as meant.

use std::fs;
use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use super::{FILE, check, check_in};
use crate::support::Setup;

#[test]
fn a_family_speaks_for_those_that_are_not_named_and_utf_16_is_decoded() {
    let text = "\u{feff}User-agent: Googlebot\r\nDisallow: /private\r\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let url = "http://site.test/private";
    #[rustfmt::skip] // one row, one case
    let rows = [
        (
            "Googlebot-Image/1.0",
            1,
            "Googlebot-Image (not named), Googlebot (named: the family of Googlebot-Image, which is not)",
        ),
        ("Googlebot/2.1 (+http://www.google.com/bot.html)", 1, "agent:    Googlebot (named)\n"),
        ("Storebot-Google/1.0", 0, "Storebot-Google (not named), so `*`"),
    ];
    for (agent, verdict, told) in rows {
        let (code, said, error) = check(&[url, "--robots", "-", "--agent", agent], &utf16);
        assert_eq!(code, Some(verdict), "{agent}: {error}");
        says!(said, told, "the file is UTF-16 and is decoded first"; "{agent}");
    }
    let (_, said, _) =
        check(&[url, "--robots", "-", "--json", "--agent", "Googlebot-Image/1.0"], &utf16);
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    let tokens = told["agent"].as_array().unwrap();
    assert_eq!(tokens[1]["family_of"], "Googlebot-Image", "{said}");
    assert_eq!(tokens[0].get("family_of"), None, "{said}");
}

#[test]
fn a_group_of_a_family_that_does_not_count_is_told_with_the_way_out() {
    let text = b"User-agent: Googlebot\nDisallow: /private\n\nUser-agent: *\nDisallow: /all\n";
    let url = "http://site.test/private";
    let told = "no group has the name Googlebot-Image, and that of its family, Googlebot, counts only for a crawler that \
                gives Googlebot as its second name: --agent Googlebot-Image --agent Googlebot";
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], i32, bool)] = &[
        ("a token alone", &["Googlebot-Image"], 0, true),
        ("the family behind it", &["Googlebot-Image", "Googlebot"], 1, false),
        ("a User-Agent brings its family", &["Googlebot-Image/1.0"], 1, false),
        ("a name without a family", &["ExampleBot"], 0, false),
        ("a family that is not named", &["YandexBot"], 0, false),
    ];
    for (name, agents, verdict, is_told) in cases {
        let agents = agents.iter().flat_map(|agent| ["--agent", agent]);
        let words: Vec<&str> = [url, "--robots", "-"].into_iter().chain(agents).collect();
        let (code, said, error) = check(&words, text);
        assert_eq!(code, Some(*verdict), "{name}: {said}{error}");
        assert_eq!(said.contains(told), *is_told, "{name}: {said}");
        let (_, said, _) = check(&[&words[..], &["--json"]].concat(), text);
        let families = &serde_json::from_str::<Value>(&said).unwrap()["families"];
        let expected = match is_told {
            true => json!([{"token": "Googlebot-Image", "family": "Googlebot", "message": told}]),
            false => json!([]),
        };
        assert_eq!(*families, expected, "{name}");
    }
}

#[test]
fn a_file_without_a_url_is_linted() {
    let setup = Setup::new();
    fs::write(setup.dir().join("robots.txt"), FILE).unwrap();
    let output = check_in(&setup, &["--robots", "robots.txt"], b"");
    assert_eq!(output.status.code(), Some(0));
    let expected = "\
robots.txt: 263 octets, 3 groups, 5 notes

user-agent: ExampleBot/1.0 (line 1)
user-agent: OtherBot (line 2)
  Disallow: /private/ (line 4)
  Allow: /private/open (line 5)
  Allow: /docs/index.html (line 6)
  crawl-delay: 5 (line 3)

user-agent: * (line 8)
  Dissallow: / (line 9)

user-agent: examplebot (line 12)
  Disallow: /*.pdf$ (line 13)
  Disallow: /*.pdf$ (line 14)

sitemap: https://site.test/map.xml (line 15)

  notes:    line 1: the name ends at the first character that no name can have, the rest is ignored: User-agent: ExampleBot/1.0
            line 9: misspelt, read as `disallow`: Dissallow: /
            line 10: unknown field, ignored: noindex: /x
            line 12: line 1 names it, too: the rules of both groups count together: User-agent: examplebot
            line 14: says no more than line 13: Disallow: /*.pdf$
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let (exit, stdout, _) = check(&["--robots", "-", "--json"], FILE.as_bytes());
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((exit, stdout.lines().count()), (Some(0), 1));
    has!(document, {
        "groups.0.user_agents.1": {"value": "OtherBot", "line": 2},
        "groups.0.fields": [{"field": "crawl-delay", "value": "5", "line": 3}],
        "fields.0.field": "sitemap",
    });
    let kinds: Vec<&Value> =
        document["notes"].as_array().unwrap().iter().map(|note| &note["kind"]).collect();
    assert_eq!(kinds, ["name_cut", "misspelt", "unknown_field", "named_again", "repeats"]);
}

#[test]
fn strict_exits_1_for_notes() {
    let clean = "User-agent: *\nDisallow: /private\n";
    let noted = "User-agent: *\nDisallow: /private\nCrawl-delay: soon\n";
    let url = "http://site.test/open";
    let denied = "http://site.test/private";
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], &str, i32)] = &[
        ("a file without notes", &["--strict"], clean, 0),
        ("a file with notes", &["--strict"], noted, 1),
        ("not strict", &[], noted, 0),
        ("as JSON", &["--strict", "--json"], noted, 1),
        ("without output", &["--strict", "--quiet"], noted, 1),
        ("a URL that is allowed", &["--strict", url], noted, 1),
        ("a URL that is allowed, without notes", &["--strict", url], clean, 0),
        ("a URL that is denied", &["--strict", denied], clean, 1),
    ];
    for (name, words, text, expected) in cases {
        let words = [&["--robots", "-"], *words].concat();
        let (code, said, error) = check(&words, text.as_bytes());
        assert_eq!(code, Some(*expected), "{name}: {said}{error}");
    }
}

#[test]
fn a_file_that_is_something_else_is_told_as_what_it_is() {
    let rules = "User-agent: *\nDisallow: /\n";
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(rules.as_bytes()).unwrap();
    let wide = |text: &str| text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let wider = |text: &str| text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    let page = "<?xml version=\"1.0\"?>\n<!-- a page -->\n<html>\n<p>Not found</p>\n";
    let with_mark = format!("\u{feff}{rules}");
    let cases: [(&str, Vec<u8>, u32, &str); 5] = [
        ("gzip", gzip.finish().unwrap(), 1, "compressed"),
        ("UTF-16 without a mark", wide(rules), 1, "utf_16_unmarked"),
        ("UTF-32 with a mark", wider(&with_mark), 1, "utf_32"),
        ("UTF-32 without a mark", wider(rules), 1, "utf_32"),
        ("a page", page.into(), 3, "html"),
    ];
    for (name, file, line, kind) in cases {
        let (code, said, error) = check(&["--robots", "-", "--json"], &file);
        assert_eq!(code, Some(0), "{name}: {error}");
        let notes = &serde_json::from_str::<Value>(&said).unwrap()["notes"];
        assert_eq!(notes.as_array().map(Vec::len), Some(1), "{name}: {said}");
        let told = (&notes[0]["line"], &notes[0]["kind"]);
        assert_eq!(told, (&json!(line), &json!(kind)), "{name}: {said}");
        // It restricts nothing, as it is.
        let url = ["http://site.test/a", "--robots", "-"];
        assert_eq!(check(&url, &file).0, Some(0), "{name}");
    }
}
