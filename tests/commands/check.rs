//! `crawlgate check` from its users' view: the real program, its output and its exit codes.

mod bulk;
mod lint;
mod recorded;
mod usage;

use std::io::Write;
use std::process::{Output, Stdio};
use std::{fs, thread};

use crawlgate_signing::SigningKey;
use serde_json::Value;

use crate::support::{Origin, RULES, Setup};

/// A robots.txt with a bit of everything.
const FILE: &str = "\
User-agent: ExampleBot/1.0
User-agent: OtherBot
Crawl-delay: 5
Disallow: /private/
Allow: /private/open
Allow: /docs/index.html

User-agent: *
Dissallow: /
noindex: /x

User-agent: examplebot
Disallow: /*.pdf$
Disallow: /*.pdf$
Sitemap: https://site.test/map.xml
";

/// Runs `crawlgate check` with these arguments and `input` as its standard input.
#[track_caller]
fn check_in(setup: &Setup, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = setup.command("check").args(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

#[track_caller]
fn check(arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let output = check_in(&Setup::new(), arguments, input);
    let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_explanation_of_a_verdict_is_complete() {
    let cases = [
        (
            "the longest rule of merged groups decides",
            &["http://site.test/private/open/a.pdf", "-a", "ExampleBot-News", "-a", "ExampleBot"][..],
            0,
            "\
allow: http://site.test/private/open/a.pdf
  reason:   robots_allow (a rule allows it)
  agent:    ExampleBot-News (not named), ExampleBot (named)
  robots:   - (263 octets)
  group:    ExampleBot (line 1, with 1 more user-agent line; 3 rules)
            examplebot (line 12; 2 rules; merged)
  rules:    13 octets  Allow: /private/open (line 5) decides
             9 octets  Disallow: /private/ (line 4)
             7 octets  Disallow: /*.pdf$ (line 13)
             7 octets  Disallow: /*.pdf$ (line 14)
  why:      the longest pattern that matches
  fields:   crawl-delay: 5 (line 3)
            sitemap: https://site.test/map.xml (line 15)
  notes:    line 1: the name ends at the first character that no name can have, the rest is ignored: User-agent: ExampleBot/1.0
            line 9: misspelt, read as `disallow`: Dissallow: /
            line 10: unknown field, ignored: noindex: /x
            line 12: line 1 names it, too: the rules of both groups count together: User-agent: examplebot
            line 14: says no more than line 13: Disallow: /*.pdf$
",
        ),
        (
            "an unnamed crawler is judged by the star",
            &["http://site.test/a", "--agent", "Nobody"],
            1,
            "\
deny: http://site.test/a
  reason:   robots_disallow (a rule disallows it)
  agent:    Nobody (not named), so `*`
  robots:   - (263 octets)
  group:    * (line 8; 1 rule)
  rules:    1 octet  Dissallow: / (line 9) decides
  why:      the only rule that matches
  fields:   sitemap: https://site.test/map.xml (line 15)
",
        ),
        (
            "the path guard reads the path as the origin may",
            &["http://site.test/x/../private/%61", "--agent", "ExampleBot"],
            1,
            "\
deny: http://site.test/x/../private/%61
  reason:   path_guard (a rule disallows what the origin may read the path as)
  agent:    ExampleBot (named)
  robots:   - (263 octets)
  group:    ExampleBot (line 1, with 1 more user-agent line; 3 rules)
            examplebot (line 12; 2 rules; merged)
  path:     /x/../private/a (as it is compared)
  why:      no rule matches
  read as:  /private/a (disallowed)
            9 octets  Disallow: /private/ (line 4) decides
",
        ),
        (
            "an index allows its folder",
            &["http://site.test/docs/", "--agent", "ExampleBot"],
            0,
            "\
  rules:    7 octets  Allow: /docs/index.html (line 6), as /docs/$ decides
  why:      the only rule that matches
",
        ),
        (
            "robots.txt itself",
            &["http://site.test/robots.txt"],
            0,
            "\
allow: http://site.test/robots.txt
  reason:   robots_txt (robots.txt itself is always allowed)
  agent:    *
  robots:   http://site.test/robots.txt
",
        ),
    ];
    for (name, arguments, code, expected) in cases {
        let arguments = [arguments, &["--robots", "-"]].concat();
        let (exit, stdout, stderr) = check(&arguments, FILE.as_bytes());
        assert_eq!(exit, Some(code), "{name}: {stderr}");
        assert!(stdout.contains(expected), "{name}:\n{stdout}\n{expected}");
        lacks!(stdout, '\u{1b}'; "{name}: no terminal, no colours");
        assert_eq!(stderr, "", "{name}");
    }
}

#[test]
fn exit_codes_and_corrections() {
    let file = "User-agent: *\nDisallow: /p\n";
    let robots = &["--robots", "-"][..];
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &[&str], i32, &str)] = &[
        ("allowed", &["http://a.test/"], 0, ""),
        ("denied", &["http://a.test/p"], 1, ""),
        ("all allowed", &["http://a.test/", "http://a.test/x"], 0, ""),
        ("one denied", &["http://a.test/", "http://a.test/p", "http://a.test/x"], 1, ""),
        ("one that is no URL", &["http://a.test/p", "a.test/x"], 2, "a.test/x: not a URL: write it with its scheme, as https://a.test/x"),
        ("one slash", &["http:/x"], 2, "http:/x: not a URL: write two slashes behind its scheme, as http://x"),
        ("a path", &["/x"], 2, "/x: a path, not a URL: write it with scheme and host, as https://example.com/x"),
        ("a space", &["http://a.test/a b"], 2, "write http://a.test/a%20b"),
        ("a file over FTP", &["ftp://a.test/p;type=i"], 1, ""),
        ("a path that FTP cannot have", &["ftp://a.test/x/../p"], 2, "without dot segments"),
        ("a user over FTP", &["ftp://u:p@a.test/p"], 2, "without user and password: crawlgate logs in as anonymous only"),
        ("another spelling over FTP", &["ftp://a.test/%70%3dx y"], 2, "write ftp://a.test/p=x%20y"),
        ("another spelling in a type", &["ftp://a.test/%70;type=i"], 2, "write ftp://a.test/p;type=i"),
        ("another scheme", &["gopher://a.test/"], 2, "the scheme must be http, https or ftp"),
        ("standard input twice", &["--urls", "-"], 2, "standard input is read once"),
        ("a list that is not there", &["--urls", "no-such-file"], 2, "no-such-file: "),
        ("an invalid agent", &["http://a.test/", "--agent", "a\nb"], 2, "neither a product token nor a User-Agent"),
    ];
    for (name, arguments, code, told) in cases {
        let arguments = [arguments, robots].concat();
        let (exit, _, stderr) = check(&arguments, file.as_bytes());
        assert_eq!(exit, Some(*code), "{name}: {stderr}");
        assert!(stderr.contains(told) && stderr.is_empty() == told.is_empty(), "{name}: {stderr}");
        let quiet = [&arguments[..], &["--quiet"]].concat();
        let said = check(&quiet, file.as_bytes());
        assert_eq!(said, (Some(*code), String::new(), String::new()), "{name}, quiet");
    }
    let (exit, _, stderr) = check(&[], b"");
    assert_eq!(exit, Some(2), "nothing to judge");
    says!(stderr, "<URL");
}

#[test]
fn foreign_text_drives_no_terminal() {
    let file = "User-agent: *\nDisallow: /\u{1b}]0;x\u{7}\u{9b}31m\n\u{202e}x\n";
    for form in [&[][..], &["--json"]] {
        let arguments = [&["http://a.test/\u{9b}2J\u{202e}", "--robots", "-"], form].concat();
        let (exit, stdout, _) = check(&arguments, file.as_bytes());
        assert_eq!(exit, Some(0));
        let is_bad = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!stdout.contains(is_bad), "{stdout:?}");
    }
}

#[test]
fn the_verdict_of_robots_txt_is_shown_beside_that_of_an_override() {
    let origin = Origin::with_rules(RULES);
    let setup = Setup::new();
    let add = setup
        .command("override")
        .args(["add", &origin.url(""), "/private", "allow", "--until", "1d"])
        .args(["--by", "Ada", "--reason", "a letter"])
        .output()
        .unwrap();
    assert!(add.status.success(), "{add:?}");
    let url = origin.url("/private");
    let output = check_in(&setup, &[&url, "--json"], b"");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["reason"], "operator_allow");
    has!(told, {"without_override.reason": "robots_disallow", "without_override.verdict": "deny"});
    let output = check_in(&setup, &[&url], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    says!(text, "without:  deny, robots_disallow (a rule disallows it)");
}

#[test]
fn a_crawler_without_a_required_identity_is_denied_as_by_the_proxy() {
    let mut setup = Setup::new();
    setup.set("agent", "require_identity", "true");
    let robots = setup.dir().join("robots.txt");
    fs::write(&robots, RULES).unwrap();
    let robots = robots.to_str().unwrap();
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("no identity", &["http://site.test/open"][..], 1, "agent_required"),
        ("no identity, robots.txt itself", &["http://site.test/robots.txt"], 0, "robots_txt"),
        ("an identity", &["http://site.test/open", "-a", "TestBot"], 0, "robots_allow"),
    ];
    for (name, arguments, code, reason) in rows {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--json", "--robots", robots]);
        let output = check_in(&setup, &arguments, b"");
        assert_eq!(output.status.code(), Some(code), "{name}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["reason"], reason, "{name}: {document}");
    }
}

#[test]
fn a_key_that_this_user_cannot_read_is_told_and_stops_no_check() {
    let mut setup = Setup::new();
    setup.set("agent", "signing", "\"news\"");
    setup.tables(
        "[[signing]]\nname = 'shop'\nagent = 'https://shop.example'\nkey = 'shop.key'\n\
         [[signing]]\nname = 'news'\nagent = 'https://bot.example'\nkey = 'news.key'\n",
    );
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    // A directory is unreadable for root, too.
    let key = setup.dir().join("news.key");
    fs::create_dir(&key).unwrap();
    let run = |arguments: &[&str]| {
        let output = check_in(&setup, arguments, b"");
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    let (code, said) = run(&[&url]);
    assert_eq!(code, Some(0), "{said}");
    for part in ["name = \"news\", key = ", "without a signature", "may differ"] {
        says!(said, part);
    }
    assert!(!said.contains("shop"), "no other key is needed: {said}");
    assert_eq!(run(&["--quiet", &url]), (Some(0), String::new()));
    fs::remove_dir(&key).unwrap();
    SigningKey::create(&key).unwrap();
    assert_eq!(run(&[&url]), (Some(0), String::new()));
}
