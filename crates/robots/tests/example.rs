//! The program of `examples/rep.rs`, called as its `main` does.

// Test code: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use std::fs;

#[allow(dead_code, reason = "its main reads the arguments of the process")]
#[path = "../examples/rep.rs"]
mod rep;

const ROBOTS: &str = "\
User-agent: *
Disallow: /private/
Allow: /private/open

User-agent: OtherBot
Disallow: /
";

/// Returns what the program prints, and whether it found all URLs allowed.
fn judged(agent: &str, urls: &[&str]) -> Result<(String, bool), String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("robots.txt");
    fs::write(&file, ROBOTS).unwrap();
    let mut words = vec![file.to_str().unwrap().to_owned(), agent.to_owned()];
    words.extend(urls.iter().map(|url| (*url).to_owned()));
    let mut out = Vec::new();
    let all_allowed = rep::judge(&words, &mut out)?;
    Ok((String::from_utf8(out).unwrap(), all_allowed))
}

#[test]
fn the_example_names_the_rule_and_its_line() {
    let urls = [
        "https://site.example/",
        "https://site.example/private/diary",
        "https://site.example/private/open/1",
    ];
    let want = "\
allowed    https://site.example/  (no rule matches)
disallowed https://site.example/private/diary  \"Disallow: /private/\", line 2, group *
allowed    https://site.example/private/open/1  \"Allow: /private/open\", line 3, group *
";
    let agent = "Mozilla/5.0 (compatible; ExampleBot/2.1)";
    assert_eq!(judged(agent, &urls), Ok((want.to_owned(), false)));
    assert!(judged(agent, &urls[..1]).unwrap().1);
    let (text, _) = judged("OtherBot/1.0", &urls[..1]).unwrap();
    assert_eq!(text, "disallowed https://site.example/  \"Disallow: /\", line 6, group OtherBot\n");
}

#[test]
fn the_example_says_what_it_cannot_read() {
    let usage = rep::judge(&["robots.txt".to_owned()], &mut Vec::new()).unwrap_err();
    assert!(usage.starts_with("usage: "), "{usage}");
    let words = ["/none/robots.txt", "Bot"].map(str::to_owned);
    let missing = rep::judge(&words, &mut Vec::new()).unwrap_err();
    assert!(missing.starts_with("/none/robots.txt: "), "{missing}");
    let url = judged("Bot", &["no url"]).unwrap_err();
    assert!(url.starts_with("no url: "), "{url}");
}
