//! Stored states of origins outlive the process; other commands read them and reach the running process.
//! Page: `docs/robots.md`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply, Setup};

/// Returns `crawlgate origins show --json`, once the store has this many fetches of the origin.
#[track_caller]
fn known_after(gate: &CrawlgateProcess, origin: &Origin, fetches: usize) -> Value {
    let read = |said: &str| serde_json::from_str::<Value>(said).unwrap_or_default();
    let words = ["show", &origin.url(""), "--json"];
    let said = gate.beside_until("origins", &words, |said| {
        let history = &read(said)["history"];
        history.as_array().is_some_and(|all| all.len() == fetches)
    });
    read(&said)
}

#[test]
fn a_restart_fetches_nothing_again() {
    for (name, signal) in [("told to end", Signal::TERM), ("killed", Signal::KILL)] {
        let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
        let private = gate.get(&origin.url("/private"));
        let before = gate.denied(&private);
        gate.restart(signal);
        let private = gate.get(&origin.url("/private/2"));
        let after = gate.denied(&private);
        let copy = |record: &Value| {
            let mut robots = record["robots"].clone();
            // It grows with the time that the restart takes.
            robots["age_s"].take();
            robots
        };
        assert_eq!(copy(&before), copy(&after), "{name}");
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
        assert_eq!(origin.robots_fetches(), 1, "{name}");
    }
}

#[test]
fn without_a_store_each_process_learns_by_itself() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("store", "path", "\"\""));
    gate.wait_said("ends with this process");
    let origin = Origin::with_rules(RULES);
    gate.get(&origin.url("/page"));
    gate.restart(Signal::TERM);
    gate.get(&origin.url("/page"));
    assert_eq!(origin.robots_fetches(), 2);
    let (_, error) = gate.ends(2, "origins", &[]);
    says!(error, "[store] path");
    assert!(!gate.setup.dir().join("crawlgate.db").exists());
}

#[test]
fn an_outage_goes_on_where_it_was_after_a_kill() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("robots", "retry_min", "\"4m\""));
    let origin = Origin::http().on("/robots.txt", [Reply::status(500, "")]);
    let denied = gate.get(&origin.url("/page"));
    gate.unreachable(&denied);
    let before = known_after(&gate, &origin, 1);
    assert_eq!(before["outage"]["cause"], "status_500", "{before}");
    gate.restart(Signal::KILL);
    origin.script("/robots.txt", [Reply::ok(RULES)]);
    let denied = gate.get(&origin.url("/page"));
    gate.unreachable(&denied);
    assert_eq!(known_after(&gate, &origin, 1)["outage"], before["outage"]);
    assert_eq!(origin.robots_fetches(), 1, "the next attempt is not due");
}

#[test]
fn a_fetch_that_the_shutdown_interrupts_is_no_failure_of_the_origin() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("limits", "drain", "\"50ms\""));
    let latch = Latch::new();
    let robots = [Reply::silent().wait(&latch), Reply::ok(RULES)];
    let origin = Origin::http().on("/robots.txt", robots);
    let mut wire = gate.connect();
    let url = origin.url("/private");
    wire.send(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n"));
    latch.arrivals(1);
    gate.restart(Signal::TERM);
    let denied = gate.get(&url);
    gate.denied(&denied);
    assert_eq!(origin.robots_fetches(), 2);
    latch.open();
}

#[test]
fn a_refresh_reaches_the_process() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    assert_eq!(gate.get(&origin.url("/page")).status, 200);
    let everything = "User-agent: *\nDisallow: /\n";
    origin.script("/robots.txt", [Reply::ok(everything)]);
    let url = origin.url("");
    let said = gate.succeeds("origins", &["refresh", &url]);
    says!(said, ": successful");
    let denied = gate.get(&origin.url("/page"));
    gate.denied(&denied);
    known_after(&gate, &origin, 2);
    let said = gate.succeeds("origins", &["show", &url, "--diff"]);
    for line in ["-Disallow: /private", "+Disallow: /"] {
        assert!(said.lines().any(|found| found == line), "{line}: {said}");
    }
    origin.script("/robots.txt", [Reply::status(503, "")]);
    let (said, _) = gate.ends(1, "origins", &["refresh", &url]);
    says!(said, "it answered 503");
    has!(known_after(&gate, &origin, 3), {"state": "successful"}, "the copy is fresh");
}

#[test]
fn a_forgotten_origin_is_fetched_anew() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let url = origin.url("");
    let forget = |gate: &CrawlgateProcess| gate.beside("origins", &["forget", &url]);
    gate.get(&origin.url("/page"));
    let (code, said, error) = forget(&gate);
    assert_eq!(code, Some(0), "{said}{error}");
    assert_eq!(gate.beside("origins", &["show", &url]).0, Some(1));
    gate.get(&origin.url("/page"));
    assert_eq!(origin.robots_fetches(), 2);
    // Without a running process, the command changes only the store, and cannot refresh.
    gate.signal(Signal::TERM);
    gate.wait();
    let (_, error) = gate.ends(2, "origins", &["refresh", &url]);
    says!(error, "no crawlgate listens");
    let (code, said, error) = forget(&gate);
    assert_eq!(code, Some(0), "{said}{error}");
    says!(said, "no running process");
    assert_eq!(forget(&gate).0, Some(1), "nothing is known now");
}

#[test]
fn a_run_shares_what_the_daemon_knows() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    gate.get(&origin.url("/page"));
    // After the record, the store has the robots.txt.
    gate.record_of(&origin.url("/page"));
    let url = origin.url("/private");
    let said = gate.succeeds("run", &["--", "curl", "-s", "-A", "TestBot/1.0", &url]);
    says!(said, "robots_disallow");
    assert_eq!(origin.robots_fetches(), 1);
    // Both processes wrote to the one store.
    let words = ["--all", "--format", "jsonl"];
    gate.beside_until("log", &words, |said| said.lines().count() == 2);
}

#[test]
fn a_second_process_runs_without_the_taken_socket() {
    let gate = CrawlgateProcess::start();
    gate.wait_said("reach this process here");
    let mut setup = Setup::new();
    let socket = gate.setup.dir().join("crawlgate.sock");
    setup.set("admin", "socket", &format!("{socket:?}"));
    let command = setup.command("serve");
    let second = CrawlgateProcess::spawn(setup, command);
    second.wait_said("another crawlgate listens there");
    let origin = Origin::with_rules(RULES);
    assert_eq!(second.get(&origin.url("/page")).status, 200);
    drop(second);
    assert!(socket.exists(), "the first one's file is left alone");
}

#[test]
fn the_process_reports_its_status() {
    let gate = CrawlgateProcess::start();
    gate.wait_said("reach this process here");
    let origin = Origin::with_rules(RULES);
    gate.get(&origin.url("/page"));
    let mut socket = UnixStream::connect(gate.setup.dir().join("crawlgate.sock")).unwrap();
    let request = b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    socket.write_all(request).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(body).unwrap_or_else(|why| panic!("{why}: {answer}"));
    for (key, expected) in
        [("pid", Value::from(gate.id())), ("mode", "enforce".into()), ("origins", 1.into())]
    {
        assert_eq!(answer[key], expected, "{key}: {answer}");
    }
}

#[test]
fn a_socket_that_a_crash_has_left_is_replaced() {
    let mut gate = CrawlgateProcess::start();
    let socket = gate.setup.dir().join("crawlgate.sock");
    gate.restart(Signal::KILL);
    gate.wait_said("reach this process here");
    gate.signal(Signal::TERM);
    gate.wait();
    assert!(!socket.exists(), "the socket goes with its process");
}

#[test]
fn a_store_that_cannot_be_opened_stops_the_start_and_says_what_to_do() {
    let mut setup = Setup::new();
    fs::write(setup.dir().join("file"), "no folder").unwrap();
    setup.set("store", "path", "\"file/crawlgate.db\"");
    for command in [&["serve"][..], &["run", "--", "true"]] {
        let [subcommand, words @ ..] = command else { unreachable!() };
        let output = setup.command(subcommand).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        says!(said, "file/crawlgate.db", "[store] path");
    }
}
