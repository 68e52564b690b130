//! One visit of a client to two origins, and its outcome.

use std::env;
use std::fs;
use std::process::{Command, Output};
use std::sync::{Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Origin, RULES, Reply, Setup};

/// The time limit of a client; a browser and a compiler are slow on a busy machine.
pub(crate) const CLIENT_PATIENCE: Duration = Duration::from_secs(600);

/// The two origins every client visits, and a configuration that knows them.
pub(crate) struct Visit {
    pub(crate) http: Origin,
    pub(crate) https: Origin,
    pub(crate) setup: Setup,
    _turn: Turn,
}

/// Clients that run at once: with more, those that bring a runtime or a browser run into time limits of their own.
static TURNS: Mutex<u8> = Mutex::new(4);
static GIVEN_BACK: Condvar = Condvar::new();

/// A turn to run a client, given back when it is dropped.
struct Turn;

impl Turn {
    fn wait() -> Self {
        let turns = TURNS.lock().unwrap();
        *GIVEN_BACK.wait_while(turns, |turns| *turns == 0).unwrap() -= 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TURNS.lock().unwrap() += 1;
        GIVEN_BACK.notify_one();
    }
}

/// The client's output, and the gate's records.
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
    pub(crate) records: Vec<Value>,
}

impl Visit {
    pub(crate) fn new() -> Self {
        let pages = |origin: Origin| {
            origin
                .robots(RULES)
                .on("/page", [Reply::with(200, "Cache-Control: no-store\r\n", "an allowed page")])
        };
        Self {
            http: pages(Origin::http()),
            https: pages(Origin::https()),
            setup: Setup::new(),
            _turn: Turn::wait(),
        }
    }

    /// Returns the URLs of the allowed and disallowed pages, over HTTP and over TLS.
    pub(crate) fn urls(&self) -> [String; 4] {
        [
            self.http.url("/page"),
            self.http.url("/private"),
            self.https.url("/page"),
            self.https.url("/private"),
        ]
    }

    /// Runs `crawlgate run -- ARGUMENTS`.
    pub(crate) fn run<S: AsRef<str>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        self.run_as(&[], arguments)
    }

    /// Runs `crawlgate run OPTIONS -- ARGUMENTS`.
    pub(crate) fn run_as<S: AsRef<str>>(
        &self,
        options: &[&str],
        arguments: impl IntoIterator<Item = S>,
    ) -> Outcome {
        let mut command = self.setup.command("run");
        command
            .args(options)
            .arg("--")
            .args(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        let Output { status, stdout, stderr } = finish(&mut command);
        let log = fs::read_to_string(self.setup.dir().join("decisions.jsonl")).unwrap_or_default();
        Outcome {
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            code: status.code(),
            records: log.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        }
    }

    /// Asserts that the gate denied every disallowed page with its rule, that every allowed page arrived, and that the
    /// origins saw nothing else.
    #[track_caller]
    pub(crate) fn held(&self, outcome: &Outcome) {
        for (origin, scheme) in [(&self.http, "http"), (&self.https, "https")] {
            let seen = origin.seen_but_robots();
            assert!(
                seen.contains(&"GET /page".to_owned()),
                "{scheme}: {seen:?}\n{}",
                outcome.stderr
            );
            assert!(!seen.contains(&"GET /private".to_owned()), "{scheme}: {seen:?}");
            let denied =
                outcome.records.iter().find(|record| record["url"] == *origin.url("/private"));
            let denied =
                denied.unwrap_or_else(|| panic!("no denial over {scheme}\n{}", outcome.stderr));
            has!(denied, {"reason": "robots_disallow", "rule.line": 3});
        }
    }
}

/// Runs a command to its end, or kills it.
pub(crate) fn finish(command: &mut Command) -> Output {
    let child = command.spawn().unwrap();
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    receiver.recv_timeout(CLIENT_PATIENCE).map_or_else(
        |_| {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
            panic!("{command:?} did not end")
        },
        Result::unwrap,
    )
}

/// Returns the first of the candidates with which `probe` succeeds.
pub(crate) fn client(
    name: &str,
    variable: &str,
    candidates: &[&str],
    probe: &[&str],
) -> Option<String> {
    let chosen = env::var(variable).ok();
    let candidates: Vec<&str> =
        chosen.as_deref().map_or_else(|| candidates.to_vec(), |chosen| vec![chosen]);
    let works = |program: &&&str| {
        let output = Command::new(program).args(probe).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = candidates.iter().find(works).map(|program| (*program).to_owned());
    if found.is_none() {
        missing(&format!("{name} ({candidates:?})"));
    }
    found
}

/// Names a client that is not installed; fails if all clients are required.
pub(crate) fn missing(name: &str) {
    let required = env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
    assert!(!required, "{name} is missing");
    eprintln!("skipped: {name} is missing");
}

/// Returns Chromium.
pub(crate) fn chromium() -> Option<String> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    client("Chromium", "CRAWLGATE_CHROMIUM", &names, &["--version"])
}

/// Returns Chromium, Node.js and the folder of Playwright, which drives it.
pub(crate) fn driven_chromium() -> Option<(String, String, String)> {
    let chromium = chromium()?;
    let [node, modules] = ["CRAWLGATE_NODE", "CRAWLGATE_BROWSER"].map(|name| env::var(name).ok());
    let found = node.zip(modules);
    if found.is_none() {
        missing("Playwright (CRAWLGATE_NODE, CRAWLGATE_BROWSER)");
    }
    found.map(|(node, modules)| (chromium, node, modules))
}

pub(crate) fn python(module: &str) -> Option<String> {
    client(
        &format!("Python with {module}"),
        "CRAWLGATE_PYTHON",
        &["python3"],
        &["-c", &format!("import {module}")],
    )
}

/// Asserts that a client printed the statuses of the four pages, one on each line.
#[track_caller]
pub(crate) fn printed_statuses(outcome: &Outcome) {
    let statuses: Vec<_> = outcome.stdout.split_whitespace().collect();
    assert_eq!(statuses, ["200", "403", "200", "403"], "{}", outcome.stderr);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}

/// Runs a Python program that gets the four URLs as arguments and prints their statuses.
pub(crate) fn python_client(module: &str, program: &str) {
    let Some(python) = python(module) else { return };
    let visit = Visit::new();
    let start = [python, "-c".to_owned(), program.to_owned()];
    let outcome = visit.run(start.into_iter().chain(visit.urls()));
    printed_statuses(&outcome);
    visit.held(&outcome);
}
