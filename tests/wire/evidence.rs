//! The decision log: its content, and the gate's behaviour if it cannot be written. Page: `docs/decisions.md`.

use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{CrawlgateProcess, Origin, RULES, Reply, eventually, program, wait_until};

#[test]
fn by_default_the_log_holds_denials_only() {
    let gate = CrawlgateProcess::with(|setup| setup.set("log", "decisions", "\"denied\""));
    let origin = Origin::with_rules(RULES);
    gate.passes(&origin.url("/open"));
    gate.denies(&origin.url("/private"));
    assert_eq!(gate.records().len(), 1);
}

#[test]
fn a_failed_exchange_is_recorded_beside_denials() {
    let gate = CrawlgateProcess::with(|setup| setup.set("log", "decisions", "\"denied\""));
    let origin = Origin::with_rules(RULES).on("/open", [Reply::silent().reset()]);
    let answer = gate.request("POST", &origin.url("/open"), "Content-Length: 0\r\n");
    assert_eq!((answer.status, answer.is_ours()), (502, true), "{answer:?}");
    let problem = answer.problem();
    has!(problem, {"reason": null, "error": "connection_terminated"});
    answer.field_is("proxy-status", Some("crawlgate; error=connection_terminated"));
    has!(gate.record("the failure", |record| record["id"] == problem["id"]), {
        "verdict": "allow", "reason": "robots_allow", "error": problem["error"],
        "detail": problem["detail"],
    });
    assert_eq!(origin.seen_but_robots(), ["POST /open"]);
}

#[test]
fn requests_that_are_forwarded_without_a_record_are_counted() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("log", "decisions", "\"denied\""));
    let origin = Origin::with_rules(RULES);
    for _ in 0..3 {
        gate.passes(&origin.url("/open"));
    }
    gate.denies(&origin.url("/private"));
    gate.signal(Signal::TERM);
    assert!(gate.wait().success(), "{}", gate.said());
    let lines = gate.log_lines();
    let [_, _, denial, forwarded, _] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!(denial["reason"], "robots_disallow", "{denial}");
    has!(forwarded, {
        "event": "forwarded", "count": 3, "clients": [{"address": "127.0.0.1", "count": 3}],
    });
    // The store has the same, and it is part of the proof.
    let (_, said, _) = gate.beside("audit", &["verify", "--all"]);
    says!(said, "1 forwarded");
}

#[test]
fn the_id_in_each_answer_of_ours_is_found_with_what_the_crawler_was_told() {
    let gate = CrawlgateProcess::with(|setup| setup.set("log", "decisions", "\"denied\""));
    let origin = Origin::with_rules(RULES).on("/reset", [Reply::silent().reset()]);
    let down = Origin::http().on("/robots.txt", [Reply::status(500, "")]);
    let get = |url: &str| format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n");
    let post = |url: &str| format!("POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    let denied = origin.url("/private");
    #[rustfmt::skip] // one row, one case
    let cases: Vec<(&str, String, u16, bool)> = vec![
        ("a rule", get(&denied), 403, false),
        ("a reading of the path", get(&origin.url("/a/../private")), 403, false),
        ("an unreachable robots.txt", get(&down.url("/")), 503, false),
        ("a prohibited address", get("http://10.0.0.1/"), 403, true),
        ("a request that is not for a proxy", get("/x"), 400, true),
        ("a malformed head", "GET http://x/ HTTP/1.1\r\nHost x\r\n\r\n".to_owned(), 400, true),
        ("a scheme that is not forwarded", get("gopher://x/"), 501, true),
        ("TRACE", format!("TRACE {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/open")), 405, true),
        ("an origin that hangs up", post(&origin.url("/reset")), 502, true),
    ];
    for (name, request, status, has_detail) in cases {
        for accept in ["application/json", "text/plain"] {
            let request = request.replacen("\r\n\r\n", &format!("\r\nAccept: {accept}\r\n\r\n"), 1);
            let answer = gate.connect().exchange(request);
            assert_eq!((answer.status, answer.is_ours()), (status, true), "{name}: {answer:?}");
            let text = answer.text();
            // A head that cannot be read asks for nothing.
            let is_text = answer.field("content-type").unwrap().starts_with("text/plain");
            let (id, detail) = if is_text {
                let id = text.lines().last().unwrap().strip_prefix("decision: ").unwrap();
                (id.to_owned(), text.lines().nth(2).unwrap().to_owned())
            } else {
                let problem = answer.problem();
                let of = |key: &str| problem[key].as_str().unwrap().to_owned();
                (of("id"), of("detail"))
            };
            let shown = gate.beside_until("log", &["show", &id], |said| said.starts_with(&id));
            assert!(shown.contains(&format!("{status}, ")), "{name}: {shown}");
            assert_eq!(shown.contains(&detail), has_detail, "{name}: {detail}: {shown}");
        }
    }
}

#[test]
fn a_query_is_redacted_where_so_configured() {
    let gate = CrawlgateProcess::with(|setup| setup.set("log", "redact_query", "true"));
    let origin = Origin::with_rules(RULES);
    gate.denies(&origin.url("/private?token=secret"));
    gate.get(&origin.url("/open?token=secret"));
    gate.wait_records(2);
    let log = std::fs::read_to_string(gate.log_path()).unwrap();
    assert!(!log.contains("secret") && log.contains("/open?"), "{log}");
    assert_eq!(origin.seen_but_robots(), ["GET /open?token=secret"]);
}

#[test]
fn foreign_octets_make_no_bad_line() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let mut request =
        format!("GET {} HTTP/1.1\r\nHost: x\r\nUser-Agent: ", origin.url("/private?'{}|"))
            .into_bytes();
    request.extend(b"\"\\ \xff\xfe\xc3\xa9 </script>\r\n\r\n");
    gate.connect().exchange(request).is(403);
    says!(gate.wait_records(1)[0]["user_agent"].as_str().unwrap(), "</script>");
}

/// Returns the output of a command on a terminal, which `script` provides.
fn on_a_terminal(gate: &CrawlgateProcess, command: &str, words: &[&str]) -> String {
    let config = gate.setup.write();
    let start = [program().display().to_string(), command.to_owned()];
    let place = ["--config".to_owned(), config.display().to_string()];
    let words = words.iter().map(|word| format!("'{word}'"));
    let line: Vec<_> = start.into_iter().chain(place).chain(words).collect();
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &line.join(" "), "/dev/null"]);
    script.stdin(Stdio::null()).current_dir(gate.setup.dir());
    let output = script.output().unwrap();
    assert!(!output.stdout.is_empty(), "{line:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_cannot_be_seen_is_spelt_out_by_every_command() {
    const UNSEEN: &str =
        "\u{200b}\u{feff}\u{202e}\u{2066}\u{ad}\u{2060}\u{61c}\u{a0}\u{2028}\u{9b}\u{e0041}";
    let gate = CrawlgateProcess::start();
    let rules = format!(
        "User-agent: *{UNSEEN}\nUser-agent: *\nDisallow: /private{UNSEEN}\nDisallow: /private # {UNSEEN}\n\
         Crawl-delay: {UNSEEN}\nSitemap: http://site.test/{UNSEEN}\n{UNSEEN}: x\nContent-Signal: {UNSEEN}\n"
    );
    let origin = Origin::with_rules(&rules);
    let url = origin.url(&format!("/private?{UNSEEN}"));
    let ask = || {
        let answer = gate.connect().exchange(format!(
            "GET {url} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot/1.0 ({UNSEEN})\r\n\r\n"
        ));
        answer.problem()["id"].as_str().unwrap().to_owned()
    };
    let id = ask();
    gate.wait_records(1);
    origin.script("/robots.txt", [Reply::ok(rules.replace("/private", "/private2"))]);
    let place = origin.url("");
    gate.beside("origins", &["refresh", &place]);
    let words = ["show", &place, "--json"];
    gate.beside_until("origins", &words, |said| {
        let shown: serde_json::Value = serde_json::from_str(said).unwrap_or_default();
        shown["history"].as_array().is_some_and(|all| all.len() == 2)
    });
    let unseen = UNSEEN.replace(char::is_control, "");
    let asserted = format!("It is{unseen} ours");
    let pattern = format!("/private?{unseen}");
    let words = [
        "add",
        "--by",
        "A. Person",
        "--until",
        "1d",
        "--reason",
        &asserted,
        &place,
        &pattern,
        "deny",
    ];
    gate.succeeds("override", &words);
    for (command, words) in [
        ("log", &[][..]),
        ("log", &["--json"]),
        ("log", &["--all", "--format", "csv"]),
        ("log", &["--summary"]),
        ("origins", &[]),
        ("origins", &["show", &place]),
        ("origins", &["show", &place, "--json"]),
        ("origins", &["show", &place, "--diff"]),
        ("log", &["show", &id]),
        ("log", &["show", &id, "--json"]),
        ("audit", &["verify", &id]),
        ("audit", &["verify", &id, "--json"]),
        ("audit", &["verify", "--all"]),
        ("override", &["list"]),
        ("check", &[&url, "--agent", UNSEEN]),
        ("check", &["--json", &url]),
        ("check", &["--agent", "TestBot", &url]),
        ("override", &["list", "--json"]),
    ] {
        let (_, out, err) = gate.beside(command, words);
        assert!(!(out.is_empty() && err.is_empty()), "{command} {words:?}");
        // A difference written to a file is for programs, octet for octet.
        let out = if words.contains(&"--diff") { String::new() } else { out };
        for text in [out, err, gate.said(), on_a_terminal(&gate, command, words)] {
            let shown = text.chars().find(|c| UNSEEN.contains(*c));
            assert_eq!(shown, None, "{command} {words:?}: {text:?}");
        }
    }
}

#[test]
fn after_a_kill_every_line_is_whole_and_earlier_answers_are_recorded() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    gate.denies(&origin.url("/private/first"));
    let mut wire = gate.connect();
    for n in 0..500 {
        wire.send(format!(
            "GET {} HTTP/1.1\r\nHost: x\r\n\r\n",
            origin.url(&format!("/private/{n}"))
        ));
    }
    for _ in 0..250 {
        assert_eq!(wire.response("GET").status, 403);
    }
    gate.restart(Signal::KILL);
    // The end may have come in the middle of a write. The next process moves half a line aside.
    gate.denies(&origin.url("/private/last"));
    let text = std::fs::read_to_string(gate.log_path()).unwrap();
    assert!(text.ends_with('\n'), "half a line: {:?}", text.lines().last());
    has!(gate.records(), {"0.url": origin.url("/private/first")});
}

#[test]
fn a_second_gate_on_the_same_log_is_refused() {
    let gate = CrawlgateProcess::start();
    let mut child = gate.setup.command("serve").spawn().unwrap();
    let status = eventually("the refusal", || child.try_wait().unwrap());
    assert!(!status.success());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    says!(said, "decisions.jsonl");
}

#[test]
fn a_full_disk_denies_rather_than_loses_and_says_so_once() {
    for (on_failure, denies) in [("\"deny\"", true), ("\"continue\"", false)] {
        let gate = CrawlgateProcess::with(|setup| {
            setup.set("log", "file", "\"/dev/full\"");
            setup.set("log", "on_failure", on_failure);
        });
        let origin = Origin::with_rules(RULES);
        if denies {
            let url = origin.url("/open");
            wait_until("the first refusal", || gate.get(&url).problem()["reason"] == "log_failed");
            let before = origin.seen_but_robots().len();
            let answer = gate.get(&url);
            assert!(answer.status == 503 && answer.is_ours(), "{answer:?}");
            assert_eq!(origin.seen_but_robots().len(), before, "sent without a record");
        } else {
            for n in 0..20 {
                assert_eq!(gate.get(&origin.url(&format!("/{n}"))).status, 200);
            }
            assert_eq!(gate.get(&origin.url("/private")).status, 403);
        }
        wait_until("the complaint", || gate.said().contains("/dev/full"));
        let complaints = gate
            .said()
            .lines()
            .filter(|line| line.contains("/dev/full") && line.contains("ERROR"))
            .count();
        assert!(complaints <= 1, "{}", gate.said());
    }
}
