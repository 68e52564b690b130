//! Commands that read the store right behind a decision: the process writes what it holds first.
//! Page: `docs/decisions.md`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::{fs, thread};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::collector::{Collector, denied, named};
use crate::support::{CrawlgateProcess, Origin, RULES, Setup, program};

const NOTE: &str = "the newest decisions may be missing";

/// Returns the URLs of a list in the format jsonl.
fn urls(lines: &str) -> Vec<String> {
    let lines = lines.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["url"].as_str().unwrap().to_owned()
    });
    lines.collect()
}

/// Returns the URLs that `crawlgate log` lists, and the rest of what it says.
#[track_caller]
fn listed(gate: &CrawlgateProcess) -> (Vec<String>, String) {
    let (said, error) = gate.ends(0, "log", &["--format", "jsonl"]);
    (urls(&said), error)
}

#[test]
fn a_decision_is_read_right_behind_its_answer() {
    let origin = Origin::with_rules(RULES);
    let gate = CrawlgateProcess::start();
    let mut denied = Vec::new();
    for count in 0..10 {
        let url = origin.url(&format!("/private/{count}"));
        assert_eq!(gate.get(&url).status, 403);
        denied.push(url);
        assert_eq!(listed(&gate), (denied.clone(), String::new()));
    }
    // Other commands read as much, a copy of the store included.
    let deny_and = |command: &str, words: &[&str]| {
        assert_eq!(gate.get(&origin.url("/private/last")).status, 403);
        let (code, said, error) = gate.beside(command, words);
        assert_eq!((code, &*error), (Some(0), ""), "{command}: {said}");
        said
    };
    let count = "SELECT count(*) AS n FROM denials";
    let said = deny_and("sql", &["--format", "jsonl", count]);
    assert_eq!(said, "{\"n\":11}\n");
    let copy = gate.setup.dir().join("copy.db").display().to_string();
    deny_and("store", &["backup", &copy]);
    let (_, said, error) = gate.beside("sql", &["--store", &copy, "--format", "jsonl", count]);
    assert_eq!((&*said, &*error), ("{\"n\":12}\n", ""));
    let conditions = ["prove", "--verdict", "deny", "--since", "1h"];
    let said = deny_and("audit", &conditions);
    assert_eq!(said.matches("/private/last").count(), 3, "{said}");
    let report = ["--since", "1h", "--json", "-"];
    let report: Value = serde_json::from_str(&deny_and("report", &report)).unwrap();
    assert_eq!(report["summary"]["denied"], 14);
}

#[test]
fn an_origin_is_listed_right_behind_its_first_request() {
    let gate = CrawlgateProcess::start();
    for _ in 0..3 {
        let origin = Origin::with_rules(RULES);
        let url = origin.url("/private");
        assert_eq!(gate.get(&url).status, 403);
        let (code, said, error) = gate.beside("origins", &["show", &url]);
        assert_eq!((code, &*error), (Some(0), ""), "{said}");
    }
}

#[test]
fn acknowledging_right_behind_a_denial_finds_it() {
    let origin = Origin::with_rules(RULES);
    let gate = CrawlgateProcess::start();
    for _ in 0..5 {
        let answer = gate.get(&origin.url("/private"));
        let problem: Value = serde_json::from_slice(&answer.body).unwrap();
        let id = problem["id"].as_str().unwrap();
        let words = ["ack", id, "--note", "seen", "--by", "ada"];
        let (code, _, error) = gate.beside("log", &words);
        assert_eq!((code, &*error), (Some(0), ""));
    }
}

#[test]
fn a_run_writes_its_decisions_for_a_command_beside_it() {
    let origin = Origin::with_rules(RULES);
    // `serve` runs, too: both write the store.
    let gate = CrawlgateProcess::start();
    let script = "for n in 1 2 3 4 5; do curl -s -o /dev/null \"$1/$n\" || exit 9; \"$2\" log --config \"$3\" --format jsonl; done";
    let config = gate.setup.write();
    let output = gate
        .setup
        .command("run")
        .args(["--quiet", "--", "sh", "-c", script, "sh"])
        .args([origin.url("/private"), program().display().to_string()])
        .arg(config)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(!error.contains(NOTE), "{error}");
    let listed = urls(&String::from_utf8(output.stdout).unwrap());
    // The list grows by one each time: 1, then 1 and 2, and so on.
    let wanted = (1..=5).flat_map(|last| 1..=last);
    let wanted: Vec<String> = wanted.map(|n| origin.url(&format!("/private/{n}"))).collect();
    assert_eq!(listed, wanted);
    assert_eq!(run_sockets(&gate.setup), 0, "the socket of the run is gone");
}

/// Returns the number of sockets of runs beside the store.
fn run_sockets(setup: &Setup) -> usize {
    let files = fs::read_dir(setup.dir()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains(".run-") && name.ends_with(".sock")).count()
}

#[test]
fn a_stopped_process_leaves_commands_working_with_a_note() {
    let origin = Origin::with_rules(RULES);
    let mut gate = CrawlgateProcess::start();
    let url = origin.url("/private");
    assert_eq!(gate.get(&url).status, 403);
    assert_eq!(listed(&gate).0, [&*url]);
    gate.signal(Signal::STOP);
    let (urls, error) = listed(&gate);
    assert_eq!(urls, [&*url]);
    assert_eq!(error.lines().count(), 1, "{error}");
    says!(error, NOTE, "crawlgate.sock does not answer within 1s");
    // Other commands do not ask.
    for (command, words) in [("audit", ["key"]), ("override", ["list"])] {
        let (code, _, error) = gate.beside(command, &words);
        assert_eq!((code, &*error), (Some(0), ""), "{command}");
    }
    gate.signal(Signal::CONT);
    assert_eq!(listed(&gate), (vec![url.clone()], String::new()));
    gate.signal(Signal::KILL);
    gate.wait();
    assert!(gate.setup.dir().join("crawlgate.sock").exists());
    assert_eq!(listed(&gate), (vec![url], String::new()), "a killed process");
}

#[test]
fn a_command_over_collected_logs_asks_no_process() {
    let origin = Origin::with_rules(RULES);
    let gate = named("ams");
    denied(&gate, &origin, "/private");
    let collector = Collector::new();
    collector.collect_of(&[gate]);
    // It accepts connections and never answers.
    let _silent = UnixListener::bind(collector.setup.dir().join("crawlgate.sock")).unwrap();
    for log in ["ams", "*"] {
        let words = ["--format", "jsonl", "--log", log];
        let (code, said, error) = collector.setup.run("log", &words);
        assert_eq!((code, &*error), (Some(0), ""), "{log}");
        assert_eq!(urls(&said), [origin.url("/private")], "{log}");
    }
    let (_, _, error) = collector.setup.run("log", &[]);
    assert!(error.contains(NOTE), "a command over its own log: {error}");
}

#[test]
fn a_process_that_does_not_know_the_request_leaves_commands_working_with_a_note() {
    let origin = Origin::with_rules(RULES);
    let mut gate = CrawlgateProcess::start();
    let url = origin.url("/private");
    assert_eq!(gate.get(&url).status, 403);
    gate.signal(Signal::TERM);
    gate.wait();
    let listener = UnixListener::bind(gate.setup.dir().join("crawlgate.sock")).unwrap();
    let older = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = String::new();
        BufReader::new(&stream).read_line(&mut asked).unwrap();
        let body = r#"{"status":404,"detail":"not a question: \u001b[1munknown"}"#;
        let fields = "Content-Type: application/problem+json\r\nConnection: close";
        let length = body.len();
        let answer =
            format!("HTTP/1.1 404 Not Found\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).unwrap();
        asked
    });
    let (urls, error) = listed(&gate);
    assert_eq!(urls, [url]);
    says!(error, NOTE);
    assert_eq!(older.join().unwrap(), "POST /process/flush HTTP/1.1\r\n");
    says!(error, "answers: not a question: ");
    assert!(!error.contains('\u{1b}'), "{error:?}");
}
