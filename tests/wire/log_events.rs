//! Records of starts, settings and ends of processes, in the order of the decisions. Page: `docs/decisions.md`.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{CrawlgateProcess, Origin, RULES, Setup, eventually};

const READ_AGAIN: &str = "the configuration was read again";

/// Returns the name of each line: that of its event, or the reason of its decision.
fn names(lines: &[Value]) -> Vec<&str> {
    let mut names = Vec::new();
    for line in lines {
        let name = line["event"].as_str().or_else(|| line["reason"].as_str());
        names.push(name.expect("a name"));
    }
    names
}

/// Returns the events of the store.
#[track_caller]
fn events(gate: &CrawlgateProcess) -> Vec<Value> {
    let said = gate.succeeds("log", &["--events", "--json", "--all"]);
    let lines = said.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// Ends a gate, and asserts that nothing was left unwritten.
#[track_caller]
fn end(gate: &mut CrawlgateProcess) {
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(0), "{}", gate.said());
}

/// Asserts that the whole log is proven.
#[track_caller]
fn proven(gate: &CrawlgateProcess) {
    gate.succeeds("audit", &["verify", "--all"]);
}

#[test]
fn a_process_records_its_start_its_settings_and_its_end() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let url = origin.url("/private");
    gate.denies(&url);
    gate.reload_until(
        |setup| {
            setup.set("policy", "mode", "\"report\"");
            setup.set("policy", "report_origins", "[\"https://site.test\"]");
        },
        READ_AGAIN,
    );
    gate.get(&url).is_origins(200, "page /private");
    gate.wait_records(2);
    // Other keys than those of the settings.
    gate.reload_until(|setup| setup.set("limits", "drain", "\"5s\""), READ_AGAIN);
    gate.reload_until(|setup| setup.set("robots", "lenient", "false"), READ_AGAIN);
    end(&mut gate);
    let lines = gate.log_lines();
    let want = [
        "started",
        "settings",
        "robots_disallow",
        "settings",
        "robots_disallow",
        "settings",
        "stopped",
    ];
    assert_eq!(names(&lines), want);
    let [start, first, denial, second, report, third, end] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(start["release"], env!("CARGO_PKG_VERSION"));
    for part in ["process", "release", "configuration"] {
        assert_eq!(start[part], end[part], "{start} {end}");
    }
    for (settings, decision, mode) in [(first, denial, "enforce"), (second, report, "report")] {
        has!(settings, {"policy": decision["policy"], "mode": mode});
        assert_eq!(decision["mode"], mode, "{decision}");
    }
    let none = serde_json::json!([]);
    assert_eq!(first["report_origins"], none);
    has!(second, {"report_origins": ["https://site.test"]});
    assert_ne!(second["policy"], third["policy"], "{third}");

    // The store has the same entries, and proves them as all others.
    let told: Vec<Value> = lines.into_iter().filter(|line| !line["event"].is_null()).collect();
    assert_eq!(events(&gate), told);
    proven(&gate);
    let (_, said, _) = gate.beside("audit", &["verify", "--all", "--json"]);
    let verified: Value = serde_json::from_str(&said).unwrap();
    let counted = serde_json::json!({"settings": 3, "started": 1, "stopped": 1});
    assert_eq!(verified["events"], counted, "{verified}");
}

#[test]
fn a_strict_answer_leaves_after_the_start_and_the_settings_are_stored() {
    let gate = CrawlgateProcess::with(|setup| setup.set("audit", "durability", "\"strict\""));
    let origin = Origin::with_rules(RULES);
    gate.denies(&origin.url("/private"));
    // Read at once, without waiting.
    let want = ["started", "settings", "robots_disallow"];
    assert_eq!(names(&gate.log_lines()), want);
    assert_eq!(names(&events(&gate)), want[..2]);
}

#[test]
fn a_killed_process_has_no_end_in_the_log_and_the_next_start_shows_it() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("audit", "durability", "\"strict\""));
    let origin = Origin::with_rules(RULES);
    gate.denies(&origin.url("/private/1"));
    gate.restart(Signal::KILL);
    gate.denies(&origin.url("/private/2"));
    end(&mut gate);
    let events = events(&gate);
    let want = ["started", "settings", "started", "settings", "stopped"];
    assert_eq!(names(&events), want);
    assert_ne!(events[0]["process"], events[2]["process"]);
    assert_eq!(events[2]["process"], events[4]["process"]);
    proven(&gate);
}

#[test]
fn each_of_several_processes_on_one_store_records_its_own_life() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let url = origin.url("/private");
    gate.denies(&url);
    let mut run = gate.setup.command("run");
    run.args(["--", "sh", "-c", "echo; exec cat"]);
    let mut run = run.stdin(Stdio::piped()).spawn().unwrap();
    // Each further command writes the configuration file anew: not before this process has read it.
    let mut said = BufReader::new(run.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let both = eventually("the second start", || {
        let events = events(&gate);
        (events.len() == 4).then_some(events)
    });
    assert_eq!(names(&both), ["started", "settings", "started", "settings"]);
    // The command ends with its input.
    drop(run.stdin.take());
    assert!(run.wait().unwrap().success());
    end(&mut gate);
    let all = events(&gate);
    assert_eq!(all[..4], both);
    assert_eq!(names(&all[4..]), ["stopped", "stopped"]);
    let process = |place: usize| &all[place]["process"];
    assert_ne!(process(0), process(2));
    assert_eq!([process(4), process(5)], [process(2), process(0)]);
    proven(&gate);
}

#[test]
fn a_command_that_only_reads_or_notes_records_no_start() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let url = origin.url("/private");
    let id = gate.denies(&url)["id"].as_str().unwrap().to_owned();
    end(&mut gate);
    let before = events(&gate);
    for (command, words) in [
        ("log", &["--all"][..]),
        ("log", &["show", &id]),
        ("audit", &["verify", &id]),
        ("audit", &["verify", "--all"]),
        ("audit", &["checkpoint"]),
        ("store", &["check"]),
        ("store", &["size"]),
        ("origins", &[]),
        ("check", &[&url, "--allow", "127.0.0.1"]),
    ] {
        let (code, said, error) = gate.beside(command, words);
        assert!(code == Some(0) || command == "check", "{command}: {said}{error}");
        assert_eq!(events(&gate), before, "{command} {words:?}");
    }
    gate.succeeds("log", &["ack", &id, "--note", "seen", "--by", "Ada"]);
    let after = events(&gate);
    assert_eq!(names(&after[before.len()..]), ["acknowledged"]);
    proven(&gate);
}

#[test]
fn a_process_without_the_port_of_a_site_records_no_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("\"{}\"", taken.local_addr().unwrap());
    for key in ["address", "public_try"] {
        let mut setup = Setup::new();
        setup.set("admin", key, &address);
        let (_, said) = setup.ends(2, "serve", &[]);
        says!(said, &format!("[admin] {key}"));
        let (code, events, said) = setup.run("log", &["--events", "--json", "--all"]);
        assert_eq!((code, &*events), (Some(0), ""), "{key}: {said}");
    }
}

#[test]
fn a_log_that_takes_no_start_refuses_requests_and_tells_what_is_missing() {
    let mut gate = CrawlgateProcess::with(|setup| {
        setup.set("log", "file", "\"/dev/full\"");
        setup.set("store", "path", "\"\"");
    });
    let origin = Origin::with_rules(RULES);
    gate.wait_said("decisions cannot be recorded; it is tried again until it works");
    let answer = gate.get(&origin.url("/open")).is(503);
    assert_eq!(answer.problem()["reason"], "log_failed", "{answer:?}");
    assert_eq!(origin.seen_but_robots().len(), 0, "it was forwarded");
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(2), "{}", gate.said());
    gate.wait_said("records left unwritten: ");
}

#[test]
fn the_list_of_events_has_its_own_form() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    gate.denies(&origin.url("/private"));
    end(&mut gate);
    let table = gate.succeeds("log", &["--events", "--limit", "2"]);
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 3, "{table}");
    for (row, name) in rows.iter().zip(["EVENT", "settings", "stopped"]) {
        assert_eq!(
            row.split_whitespace().nth(if name == "EVENT" { 1 } else { 2 }),
            Some(name),
            "{table}"
        );
    }
    let (_, none, told) = gate.beside("log", &["--events", "--until", "2020-01-01", "--json"]);
    assert_eq!(none, "");
    says!(told, "no event that is kept is of this time");
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("--verdict", "deny", "only --since and --until are for events"),
        ("--format", "csv", "use --format jsonl"),
    ];
    for (word, value, mistake) in cases {
        let (_, said) = gate.ends(2, "log", &["--events", word, value]);
        says!(said, mistake);
    }
}

#[test]
fn the_file_has_the_events_of_the_store_in_the_order_of_the_log() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("audit", "durability", "\"strict\""));
    let origin = Origin::with_rules(RULES);
    let deny = |gate: &CrawlgateProcess, path: &str| {
        let record = gate.denies(&origin.url(path));
        record["id"].as_str().unwrap().to_owned()
    };
    // By another process, while this one runs.
    let beside = |gate: &CrawlgateProcess, command: &str, words: &[&str]| {
        gate.succeeds(command, words);
    };
    let id = deny(&gate, "/private/1");
    let named = origin.url("");
    let until = ["--until", "1d", "--by", "Ada", "--reason", "a letter"];
    let add = [&["add", &named, "/page", "deny"], &until[..]].concat();
    beside(&gate, "override", &add);
    beside(&gate, "log", &["ack", &id, "--note", "seen", "--by", "Ada"]);
    deny(&gate, "/private/2");
    beside(&gate, "override", &["remove", "1", "--by", "Ada"]);
    end(&mut gate);
    let lines = gate.log_lines();
    let want = [
        "started",
        "settings",
        "robots_disallow",
        "override_added",
        "acknowledged",
        "robots_disallow",
        "override_removed",
        "stopped",
    ];
    assert_eq!(names(&lines), want);
    let told: Vec<&Value> = lines.iter().filter(|line| line["event"].is_string()).collect();
    assert_eq!(events(&gate).iter().collect::<Vec<_>>(), told);
}
