//! Many URLs in one run: their order, their fetches, and the lines of input and output.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{check, check_in};
use crate::support::{Latch, Origin, RULES, Reply, Setup};

#[test]
fn many_urls_are_judged_in_their_order() {
    let setup = Setup::new();
    let urls = "# a list\n\n  http://a.test/p/1  \nhttp://a.test/2\r\nno url\nhttp://a.test/p/3";
    fs::write(setup.dir().join("urls"), urls).unwrap();
    fs::write(setup.dir().join("robots"), "User-agent: *\nDisallow: /p\nx\n").unwrap();
    let arguments = ["http://a.test/0", "--urls", "urls", "--robots", "robots"];
    let output = check_in(&setup, &arguments, b"");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let verdicts: Vec<&str> =
        stdout.lines().filter(|line| line.contains(": http://a.test")).collect();
    assert_eq!(
        verdicts,
        [
            "allow: http://a.test/0",
            "deny: http://a.test/p/1",
            "allow: http://a.test/2",
            "deny: http://a.test/p/3"
        ]
    );
    assert_eq!(stdout.matches("notes:").count(), 1, "notes are about the file: {stdout}");
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
        [&json!("allow"), &json!("deny"), &json!("allow"), &Value::Null, &json!("deny")]
    );
    assert_eq!(lines[3]["url"], "no url");
    assert!(lines[3]["error"].is_string());
    has!(lines[1], {
        "rule": "Disallow: /p", "line": 2, "group": "*", "reason": "robots_disallow",
        "path.matches": [{"octets": 2, "kind": "disallow", "pattern": "/p", "by": "path", "rule": "Disallow: /p", "line": 2, "group": "*", "group_line": 1}],
        "notes.0.kind": "no_field",
    });
    let (exit, stdout, _) = check(&["--urls", "-", "http://a.test/0", "--quiet"], b"no url\n");
    assert_eq!((exit, &*stdout), (Some(2), ""), "a list on standard input");
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
        has!(told, {"url": url, "verdict": verdict, "reason": reason});
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
    let answers: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<Option<&str>> = answers.iter().map(|answer| answer["reason"].as_str()).collect();
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
    let mut child = setup.command("check").arg("--jsonl").stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for (path, verdict) in [("/private", "deny"), ("/open", "allow"), ("/private/open", "allow")] {
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
    let mut child = setup.command("check").arg("--jsonl").stdin(Stdio::piped()).spawn().unwrap();
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
    assert_eq!(reasons, ["robots_disallow", "robots_allow", "no_rules", "robots_allow"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let setup = Setup::new();
    let mut child = setup.command("check").arg("--jsonl").stdin(Stdio::piped()).spawn().unwrap();
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
    says!(stdout, "robots_base64", "guard", "--quiet", "Exit codes:");
}
