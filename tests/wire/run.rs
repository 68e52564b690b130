//! `crawlgate run`: the command's environment, arguments and exit code, and the summary at the end.
//! Page: `docs/clients.md`.

mod counted;

use std::process::Output;

use crate::support::{CrawlgateProcess, Origin, RULES, Setup, program};

/// Runs `crawlgate run -- COMMAND…`.
fn run(setup: &Setup, command: &[&str]) -> Output {
    setup.command("run").arg("--").args(command).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_exit_code_is_that_of_the_command() {
    let setup = Setup::new();
    let cases = [
        (vec!["true"], 0),
        (vec!["sh", "-c", "exit 7"], 7),
        (vec!["sh", "-c", "kill -TERM $$"], 128 + 15),
        (vec!["no-such-command-anywhere"], 127),
        (vec!["/etc/hostname"], 126),
    ];
    for (command, code) in cases {
        let output = run(&setup, &command);
        assert_eq!(output.status.code(), Some(code), "{command:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_command_finds_proxy_and_certificates_in_its_environment() {
    let setup = Setup::new();
    let script = "for n in http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY; do eval echo \\$$n; done | sort -u; \
        for n in SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS DENO_CERT CARGO_HTTP_CAINFO GIT_SSL_CAINFO AWS_CA_BUNDLE; \
        do eval test -s \\\"\\$$n\\\" || echo \"$n is no file\"; done; env | grep -ci no_proxy; echo \"$NODE_USE_ENV_PROXY\"; echo \"$JAVA_TOOL_OPTIONS\"";
    let output = setup
        .command("run")
        .env("NO_PROXY", "site.test")
        .env("no_proxy", "*")
        .env("No_Proxy", "*")
        .args(["--", "sh", "-c", script])
        .output()
        .unwrap();
    let said = text(&output.stdout);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert!(lines[0].starts_with("http://127.0.0.1:"), "{said}");
    assert_eq!((lines[1], lines[2]), ("0", "1"), "{said}");
    assert!(lines[3].contains("-Djavax.net.ssl.trustStore="), "{said}");
}

#[test]
fn placeholders_are_filled_in() {
    let setup = Setup::new();
    let output = run(&setup, &["echo", "--proxy={proxy}", "--ca={ca}", "--spki={spki}", "{other}"]);
    let said = text(&output.stdout);
    let words: Vec<_> = said.split_whitespace().collect();
    assert!(words[0].starts_with("--proxy=http://127.0.0.1:"), "{said}");
    assert!(words[1].starts_with("--ca=/"), "{said}");
    assert_eq!(words[2].len(), "--spki=".len() + 44, "{said}");
    assert_eq!(words[3], "{other}");
}

#[test]
fn a_run_ends_with_a_summary_on_stderr() {
    let setup = Setup::new();
    let origin = Origin::with_rules(RULES);
    let mut wires = String::new();
    for path in ["/open", "/private", "/private/x"] {
        // A client in three lines of shell works on every test machine: printf into bash's /dev/tcp.
        wires += &format!(
            "exec 3<>/dev/tcp/${{address%:*}}/${{address#*:}}; printf 'GET {} HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n' >&3; cat <&3; ",
            origin.url(path)
        );
    }
    let script = format!("address=${{http_proxy#http://}}; address=${{address%/}}; {wires}");
    let output = run(&setup, &["bash", "-c", &script]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(stdout.matches(" 403 ").count(), 2, "{stdout}{stderr}");
    assert!(stdout.contains("page /open"), "{stdout}{stderr}");
    says!(stderr, "robots_disallow", "Disallow: /private");
    assert!(
        stderr.contains(&origin.url("").to_owned()) || stderr.contains(&origin.authority()),
        "{stderr}"
    );
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

#[test]
fn check_decides_without_sending() {
    let setup = Setup::new();
    let robots = setup.dir().join("robots.txt");
    std::fs::write(&robots, RULES).unwrap();
    let cases = [
        ("http://site.test/private", 1),
        ("http://site.test/open", 0),
        ("http://site.test/a/../private", 1),
        ("no url", 2),
    ];
    for (url, code) in cases {
        let output = std::process::Command::new(program())
            .args(["check", url, "--agent", "TestBot", "--robots"])
            .arg(&robots)
            // Not the store of the user who runs the tests.
            .env("XDG_STATE_HOME", setup.dir())
            .env_remove("STATE_DIRECTORY")
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{url}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        if code == 1 {
            says!(text(&output.stdout), "Disallow: /private"; "{url}");
        }
    }
    let origin = Origin::with_rules(RULES);
    let check = |path: &str| {
        setup
            .command("check")
            .args([&origin.url(path), "--agent", "TestBot"])
            .output()
            .unwrap()
            .status
            .code()
    };
    assert_eq!((check("/private"), check("/open")), (Some(1), Some(0)));
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_run_beside_a_proxy_keeps_a_log_of_its_own() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let output = run(&gate.setup, &["curl", "-s", &origin.url("/private")]);
    let said = text(&output.stderr);
    let name = said
        .lines()
        .find_map(|line| line.strip_prefix("the denials stand in "))
        .unwrap_or_else(|| panic!("{said}"));
    let log = std::fs::read_to_string(name).unwrap();
    let decisions: Vec<&str> = log.lines().filter(|line| !line.contains("\"event\":")).collect();
    assert!(matches!(decisions[..], [one] if one.contains("robots_disallow")), "{log}");
    assert!(gate.records().is_empty(), "the proxy's log is its own");
}

/// A name, options of `run`, the command, the exit code, and whether the run reports that it saw no request.
type Unseen<'a> = (&'a str, &'a [&'a str], &'a [&'a str], i32, bool);

#[test]
fn a_run_that_saw_no_request_says_so_and_may_be_made_to_fail() {
    let setup = Setup::new();
    let origin = Origin::with_rules(RULES);
    let open = origin.url("/open");
    let denied = origin.url("/private");
    #[rustfmt::skip] // one row, one case
    let cases: [Unseen<'_>; 6] = [
        ("said", &[], &["true"], 0, true),
        ("also without a summary", &["--quiet"], &["true"], 0, true),
        ("demanded", &["--require-traffic"], &["true"], 3, true),
        ("the command's own failure counts", &["--require-traffic"], &["sh", "-c", "exit 7"], 7, true),
        ("a request", &["--require-traffic"], &["curl", "-s", &open], 0, false),
        ("a denied one", &["--require-traffic"], &["curl", "-s", &denied], 0, false),
    ];
    for (name, options, command, code, is_told) in cases {
        let mut run = setup.command("run");
        let output = run.args(options).arg("--").args(command).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{name}: {said}");
        assert_eq!(said.contains("NO REQUEST CAME THROUGH THE PROXY"), is_told, "{name}: {said}");
    }
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}

/// A name, options of `run`, the command, and the exit code.
type Ending<'a> = (&'a str, &'a [&'a str], &'a [&'a str], i32);

#[test]
fn a_denied_request_may_be_made_to_fail_the_run() {
    let setup = Setup::new();
    let origin = Origin::with_rules(RULES);
    let (open, denied) = (origin.url("/open"), origin.url("/private"));
    let fails = format!("curl -s {denied}; exit 7");
    #[rustfmt::skip] // one row, one case
    let cases: [Ending<'_>; 6] = [
        ("not asked for", &[], &["curl", "-s", &denied], 0),
        ("denied", &["--fail-on-denied"], &["curl", "-s", &denied], 4),
        ("allowed", &["--fail-on-denied"], &["curl", "-s", &open], 0),
        ("no request", &["--fail-on-denied"], &["true"], 0),
        ("the command's own failure counts", &["--fail-on-denied"], &["sh", "-c", &fails], 7),
        ("nothing is denied in report mode", &["--fail-on-denied", "--report"], &["curl", "-s", &denied], 0),
    ];
    for (name, options, command, code) in cases {
        let mut run = setup.command("run");
        let output = run.args(options).arg("--").args(command).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{name}: {said}");
    }
    assert_eq!(origin.seen_but_robots(), ["GET /open", "GET /private"]);
}

/// Runs a command with one allowed and one denied request. Returns the exit code, and what it printed as errors.
fn two_requests(setup: &Setup, origin: &Origin, options: &[&str]) -> (Option<i32>, String) {
    let mut run = setup.command("run");
    let urls = [origin.url("/open"), origin.url("/private?q=1")];
    let run = run.args(options).args(["--", "curl", "-sS"]).args(urls);
    let output = run.output().unwrap();
    (output.status.code(), text(&output.stderr))
}

#[test]
fn a_run_writes_its_summary_for_programs() {
    let setup = Setup::new();
    let origin = Origin::with_rules(RULES);
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect(text);
    let (code, said) = two_requests(&setup, &origin, &["--summary", "json", "--fail-on-denied"]);
    let line = said.lines().last().expect(&said);
    let facts = json(line);
    assert_eq!((code, &facts["exit_code"]), (Some(4), &4.into()), "{said}");
    assert!(!said.contains("most disallowed origins"), "{said}");
    has!(facts, {"format": "crawlgate-run@1", "requests": 2, "forwarded": 1});
    let denied = serde_json::json!({"count": 1, "codes": {"robots_disallow": 1}});
    assert_eq!(facts["denied"], denied);
    for none in ["deferred", "failed", "reported"] {
        assert_eq!(facts[none], serde_json::json!({"count": 0, "codes": {}}));
    }
    assert_eq!(facts["origins"][0]["denied"], 1);
    assert_eq!(facts["origins"][0]["grounds"]["Disallow: /private"], 1);
    let first = &facts["first_denials"][0];
    has!(first, {
        "url": origin.url("/private?q=1"), "rule": "Disallow: /private", "line": 3,
        "reason": "robots_disallow", "enforced": true,
    });
    // The id leads to the record.
    let id = first["id"].as_str().unwrap();
    let shown = setup.command("log").args(["show", id, "--json"]).output().unwrap();
    has!(json(&text(&shown.stdout)), {"id": first["id"], "url": first["url"]});

    let file = setup.dir().join("summary.json");
    std::fs::write(&file, "an older one").unwrap();
    let options = ["--report", "--summary", file.to_str().unwrap()];
    let (code, said) = two_requests(&setup, &origin, &options);
    assert_eq!(code, Some(0), "{said}");
    says!(said, "most disallowed origins, had it been enforced");
    let facts = json(&std::fs::read_to_string(&file).unwrap());
    has!(facts, {"forwarded": 2, "reported": denied, "first_denials.0.enforced": false});
}

#[test]
fn a_summary_comes_for_a_command_that_does_not_start_and_not_where_it_cannot_be_written() {
    let setup = Setup::new();
    let file = setup.dir().join("summary.json");
    let summed = |place: &str, command: &str| {
        let mut run = setup.command("run");
        let output = run.args(["--quiet", "--summary", place, "--", command]).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = summed(file.to_str().unwrap(), "no-such-command-anywhere");
    assert_eq!(code, Some(127), "{said}");
    let facts = std::fs::read_to_string(&file).unwrap();
    says!(facts, "\"exit_code\":127,\"refused_without_record\":0,\"requests\":0,");
    let touched = setup.dir().join("touched");
    for place in ["/none/summary.json", "/tmp"] {
        let mut run = setup.command("run");
        let run = run.args(["--summary", place, "--", "touch"]).arg(&touched);
        let output = run.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        says!(said, &format!("--summary {place}: "));
    }
    assert!(!touched.exists(), "the command was not started");
}

#[test]
fn a_run_is_judged_as_the_agent_that_it_names() {
    let rules = "User-agent: OtherBot\nDisallow: /other\n\nUser-agent: *\nDisallow: /all\n";
    let mut setup = Setup::new();
    setup.tables(
        "[[client]]\nname = \"news\"\nproduct_tokens = [\"NewsBot\"]\nnetworks = [\"127.0.0.1\"]\n",
    );
    let origin = Origin::with_rules(rules);
    let statuses = |options: &[&str]| {
        let mut run = setup.command("run");
        let urls = [origin.url("/other"), origin.url("/all")];
        let curl =
            ["--", "curl", "-s", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{http_code} "];
        let output = run.arg("-q").args(options).args(curl).args(urls).output().unwrap();
        text(&output.stdout)
    };
    assert_eq!(statuses(&[]), "200 403 ");
    assert_eq!(statuses(&["--agent", "OtherBot"]), "403 200 ");
    assert_eq!(statuses(&["--client", "news", "--agent", "OtherBot"]), "403 200 ");
    assert_eq!(statuses(&["--agent", "OtherBot-News", "--agent", "OtherBot"]), "403 200 ");
    let mut run = setup.command("run");
    let output = run.args(["--agent", "Other Bot/1", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    says!(text(&output.stderr), "--agent");
}
