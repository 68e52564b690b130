//! `crawlgate check` from its users' view: the real program, its output and its exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and measures real time"
)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Output, Stdio};
use std::thread;

use serde_json::{Value, json};
use support::{Latch, Origin, RULES, Reply, Setup};

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
    let mut child = setup
        .command("check")
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
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
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
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
        assert!(
            !stdout.contains('\u{1b}'),
            "{name}: no terminal, no colours"
        );
        assert_eq!(stderr, "", "{name}");
    }
}

#[test]
fn a_family_speaks_for_those_that_are_not_named_and_utf_16_is_decoded() {
    let text = "\u{feff}User-agent: Googlebot\r\nDisallow: /private\r\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let url = "http://site.test/private";
    for (agent, verdict, told) in [
        (
            "Googlebot-Image/1.0",
            1,
            "Googlebot-Image (not named), Googlebot (named: the family of Googlebot-Image, which is not)",
        ),
        (
            "Googlebot/2.1 (+http://www.google.com/bot.html)",
            1,
            "agent:    Googlebot (named)\n",
        ),
        (
            "Storebot-Google/1.0",
            0,
            "Storebot-Google (not named), so `*`",
        ),
    ] {
        let (code, said, error) = check(&[url, "--robots", "-", "--agent", agent], &utf16);
        assert_eq!(code, Some(verdict), "{agent}: {error}");
        assert!(said.contains(told), "{agent}: {said}");
        assert!(
            said.contains("the file is UTF-16 and is decoded first"),
            "{agent}: {said}"
        );
    }
    let (_, said, _) = check(
        &[
            url,
            "--robots",
            "-",
            "--json",
            "--agent",
            "Googlebot-Image/1.0",
        ],
        &utf16,
    );
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    let tokens = told["agent"].as_array().unwrap();
    assert_eq!(tokens[1]["family_of"], "Googlebot-Image", "{said}");
    assert_eq!(tokens[0].get("family_of"), None, "{said}");
}

#[test]
fn a_file_without_a_url_is_linted() {
    let setup = Setup::new();
    fs::write(setup.dir().join("robots.txt"), FILE).unwrap();
    let output = check_in(&setup, &["--robots", "robots.txt"], b"");
    assert_eq!(output.status.code(), Some(0));
    let expected = "\
robots.txt: 263 octets, 3 groups, 4 notes

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
            line 14: says no more than line 13: Disallow: /*.pdf$
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    let (exit, stdout, _) = check(&["--robots", "-", "--json"], FILE.as_bytes());
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((exit, stdout.lines().count()), (Some(0), 1));
    assert_eq!(
        document["groups"][0]["user_agents"][1],
        json!({"value": "OtherBot", "line": 2})
    );
    assert_eq!(
        document["groups"][0]["fields"],
        json!([{"field": "crawl-delay", "value": "5", "line": 3}])
    );
    assert_eq!(document["fields"][0]["field"], "sitemap");
    let kinds: Vec<&Value> = document["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| &note["kind"])
        .collect();
    assert_eq!(kinds, ["name_cut", "misspelt", "unknown_field", "repeats"]);
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
        ("a path", &["/x"], 2, "/x: a path, not a URL: write it with scheme and host, as https://example.com/x"),
        ("a space", &["http://a.test/a b"], 2, "write http://a.test/a%20b"),
        ("another scheme", &["ftp://a.test/"], 2, "only http and https are forwarded"),
        ("standard input twice", &["--urls", "-"], 2, "standard input is read once"),
        ("a list that is not there", &["--urls", "no-such-file"], 2, "no-such-file: "),
        ("an invalid agent", &["http://a.test/", "--agent", "a\nb"], 2, "neither a product token nor a User-Agent"),
    ];
    for (name, arguments, code, told) in cases {
        let arguments = [arguments, robots].concat();
        let (exit, _, stderr) = check(&arguments, file.as_bytes());
        assert_eq!(exit, Some(*code), "{name}: {stderr}");
        assert!(
            stderr.contains(told) && stderr.is_empty() == told.is_empty(),
            "{name}: {stderr}"
        );
        let quiet = [&arguments[..], &["--quiet"]].concat();
        let said = check(&quiet, file.as_bytes());
        assert_eq!(
            said,
            (Some(*code), String::new(), String::new()),
            "{name}, quiet"
        );
    }
    let (exit, _, stderr) = check(&[], b"");
    assert_eq!(exit, Some(2), "nothing to judge");
    assert!(stderr.contains("<URL"), "{stderr}");
}

#[test]
fn many_urls_are_judged_in_their_order() {
    let setup = Setup::new();
    let urls = "# a list\n\n  http://a.test/p/1  \nhttp://a.test/2\r\nno url\nhttp://a.test/p/3";
    fs::write(setup.dir().join("urls"), urls).unwrap();
    fs::write(
        setup.dir().join("robots"),
        "User-agent: *\nDisallow: /p\nx\n",
    )
    .unwrap();
    let arguments = ["http://a.test/0", "--urls", "urls", "--robots", "robots"];
    let output = check_in(&setup, &arguments, b"");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let verdicts: Vec<&str> = stdout
        .lines()
        .filter(|line| line.contains(": http://a.test"))
        .collect();
    assert_eq!(
        verdicts,
        [
            "allow: http://a.test/0",
            "deny: http://a.test/p/1",
            "allow: http://a.test/2",
            "deny: http://a.test/p/3"
        ]
    );
    assert_eq!(
        stdout.matches("notes:").count(),
        1,
        "notes are about the file: {stdout}"
    );
    assert_eq!(output.status.code(), Some(2));
    let output = check_in(&setup, &[&arguments[..], &["--json"]].concat(), b"");
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<&Value> = lines.iter().map(|line| &line["verdict"]).collect();
    assert_eq!(
        told,
        [
            &json!("allow"),
            &json!("deny"),
            &json!("allow"),
            &Value::Null,
            &json!("deny")
        ]
    );
    assert_eq!(lines[3]["url"], "no url");
    assert!(lines[3]["error"].is_string());
    let denied = &lines[1];
    assert_eq!(
        (
            &denied["rule"],
            &denied["line"],
            &denied["group"],
            &denied["reason"]
        ),
        (
            &json!("Disallow: /p"),
            &json!(2),
            &json!("*"),
            &json!("robots_disallow")
        )
    );
    assert_eq!(
        denied["path"]["matches"],
        json!([{"octets": 2, "kind": "disallow", "pattern": "/p", "by": "path", "rule": "Disallow: /p", "line": 2, "group": "*", "group_line": 1}])
    );
    assert_eq!(denied["notes"][0]["kind"], "no_field");
    let (exit, stdout, _) = check(&["--urls", "-", "http://a.test/0", "--quiet"], b"no url\n");
    assert_eq!((exit, &*stdout), (Some(2), ""), "a list on standard input");
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
    assert_eq!(told["without_override"]["reason"], "robots_disallow");
    assert_eq!(told["without_override"]["verdict"], "deny");
    let output = check_in(&setup, &[&url], b"");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("without:  deny, robots_disallow (a rule disallows it)"),
        "{text}"
    );
}

#[test]
fn only_robots_txt_is_fetched_and_once_for_each_origin() {
    let origin = Origin::with_rules(RULES);
    let none = Origin::http();
    let broken = Origin::http().on("/robots.txt", [Reply::status(503, "")]);
    let urls = [
        (origin.url("/open"), "allow", "robots_allow"),
        (none.url("/private"), "allow", "robots_unavailable"),
        (origin.url("/private"), "deny", "robots_disallow"),
        (broken.url("/"), "deny", "robots_unreachable"),
    ];
    let mut arguments: Vec<&str> = urls.iter().map(|(url, ..)| &**url).collect();
    arguments.push("--json");
    let (exit, stdout, stderr) = check(&arguments, b"");
    assert_eq!(exit, Some(1), "{stderr}");
    for (line, (url, verdict, reason)) in stdout.lines().zip(&urls) {
        let told: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&told["url"], &told["verdict"], &told["reason"]),
            (&json!(url), &json!(verdict), &json!(reason))
        );
    }
    assert_eq!(stdout.lines().count(), urls.len());
    for origin in [&origin, &none, &broken] {
        assert_eq!(origin.seen_but_robots(), [""; 0]);
        assert_eq!(origin.seen().len(), 1);
    }
}

#[test]
fn every_input_line_has_its_output_line() {
    let question = |robots: &str| json!({"url": "http://a.test/p", "robots": robots}).to_string();
    let mut input = Vec::new();
    for line in [
        question("User-agent: *\nDisallow: /p").as_bytes(),
        b"",
        b"{",
        b"\xFF\xFE",
        b"{\"url\": \"http://a.test/\0\"}",
        &b"[".repeat(1_000_000),
        &vec![b' '; 9 << 20],
        question("User-agent: *\nAllow: /p").as_bytes(),
        question("").as_bytes(),
    ] {
        input.extend_from_slice(line);
        input.push(b'\n');
    }
    input.pop();
    let (exit, stdout, stderr) = check(&["--jsonl"], &input);
    assert_eq!((exit, &*stderr), (Some(0), ""));
    let answers: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<Option<&str>> = answers
        .iter()
        .map(|answer| answer["reason"].as_str())
        .collect();
    let nothing = None;
    assert_eq!(
        told,
        [
            Some("robots_disallow"),
            nothing,
            nothing,
            nothing,
            nothing,
            nothing,
            nothing,
            Some("robots_allow"),
            Some("no_rules"),
        ]
    );
    for (number, answer) in (1..).zip(&answers) {
        let is_error = answer["error"].is_string();
        assert!(!is_error || answer["line"] == number, "{number}: {answer}");
        assert_eq!(is_error, answer["verdict"].is_null(), "{answer}");
    }
}

#[test]
fn a_program_can_ask_and_wait_for_the_answer() {
    let origin = Origin::with_rules(RULES);
    let setup = Setup::new();
    let mut child = setup
        .command("check")
        .arg("--jsonl")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for (path, verdict) in [
        ("/private", "deny"),
        ("/open", "allow"),
        ("/private/open", "allow"),
    ] {
        let fetched = json!({"url": origin.url(path), "agents": ["ExampleBot"]});
        let brought = json!({"url": origin.url(path), "agents": ["ExampleBot"], "robots": RULES});
        for question in [fetched, brought] {
            writeln!(stdin, "{question}").unwrap();
            let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
            assert_eq!(answer["verdict"], verdict, "{question}");
        }
    }
    drop(stdin);
    assert!(answers.next().is_none());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(origin.seen().len(), 1, "one fetch for all");
}

#[test]
fn answers_keep_their_order_while_files_are_fetched() {
    let latch = Latch::new();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", RULES.len());
    let held = Reply::raw(head).wait(&latch).send(RULES);
    let slow = Origin::http().on("/robots.txt", [held]);
    let fast = Origin::with_rules(RULES);
    let setup = Setup::new();
    let mut child = setup
        .command("check")
        .arg("--jsonl")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let ask = |url: String| json!({"url": url, "agents": ["ExampleBot"]});
    for question in [
        ask(slow.url("/private")),
        ask(fast.url("/open")),
        json!({"url": "http://a.test/", "robots": ""}),
        ask(slow.url("/open")),
    ] {
        writeln!(stdin, "{question}").unwrap();
    }
    drop(stdin);
    // The second file is being fetched while the first is held.
    fast.wait_seen(1);
    latch.open();
    let output = child.wait_with_output().unwrap();
    let reasons: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["reason"].take())
        .collect();
    assert_eq!(
        reasons,
        [
            "robots_disallow",
            "robots_allow",
            "no_rules",
            "robots_allow"
        ]
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let setup = Setup::new();
    let mut child = setup
        .command("check")
        .arg("--jsonl")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let question = json!({"url": "http://a.test/", "robots": ""});
    // Until the pipe breaks.
    while writeln!(stdin, "{question}").is_ok() {}
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

#[test]
fn the_help_describes_the_lines() {
    let (exit, stdout, _) = check(&["--help"], b"");
    assert_eq!(exit, Some(0));
    for word in ["robots_base64", "guard", "--quiet", "Exit codes:"] {
        assert!(stdout.contains(word), "{word}: {stdout}");
    }
}

#[test]
fn a_crawler_without_a_required_identity_is_denied_as_by_the_proxy() {
    let mut setup = Setup::new();
    setup.set("agent", "require_identity", "true");
    let robots = setup.dir().join("robots.txt");
    fs::write(&robots, RULES).unwrap();
    let robots = robots.to_str().unwrap();
    for (name, arguments, code, reason) in [
        (
            "no identity",
            &["http://site.test/open"][..],
            1,
            "agent_required",
        ),
        (
            "no identity, robots.txt itself",
            &["http://site.test/robots.txt"],
            0,
            "robots_txt",
        ),
        (
            "an identity",
            &["http://site.test/open", "-a", "TestBot"],
            0,
            "robots_allow",
        ),
    ] {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--json", "--robots", robots]);
        let output = check_in(&setup, &arguments, b"");
        assert_eq!(output.status.code(), Some(code), "{name}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["reason"], reason, "{name}: {document}");
    }
}
