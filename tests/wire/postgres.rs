//! Decisions of collected logs in PostgreSQL, by the commands of the documentation. Page: `docs/sql.md`.

#![allow(clippy::print_stderr, reason = "a test names what it skips")]

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::collector::{Collector, denied, named};
use crate::support::{CrawlgateProcess, Origin, RULES, eventually, program};

/// A server on a new socket.
struct Postgres {
    child: Child,
    folder: tempfile::TempDir,
}

impl Postgres {
    /// Starts a server. `None` if none is installed, which fails the test if `CRAWLGATE_REQUIRE_CLIENTS` is set.
    #[track_caller]
    fn start() -> Option<Self> {
        let server = Self::installed();
        if server.is_none() {
            let required =
                std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
            assert!(!required, "PostgreSQL or its user is missing");
            eprintln!("skipped: PostgreSQL or its user is missing");
        }
        server
    }

    fn installed() -> Option<Self> {
        let places = ["/usr/lib/postgresql/15/bin", "/usr/bin", "/usr/local/bin"];
        let mut places = places.into_iter().map(Path::new);
        let bin = places.find(|bin| bin.join("initdb").exists())?;
        let folder = tempfile::tempdir().unwrap();
        // The server refuses root.
        let is_root = rustix::process::getuid().is_root();
        let other = |name: &str| {
            let output = Command::new("id").args([name, "postgres"]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().ok()
        };
        let owner = match is_root {
            true => Some((other("-u")?, other("-g")?)),
            false => None,
        };
        if let Some((user, group)) = owner {
            chown(folder.path(), Some(user), Some(group)).unwrap();
        }
        let command = |name: &str| {
            let mut command = match owner {
                Some((user, group)) => {
                    let mut command = Command::new("setpriv");
                    command.arg(format!("--reuid={user}"));
                    command.arg(format!("--regid={group}"));
                    command.arg("--clear-groups").arg(bin.join(name));
                    command
                }
                None => Command::new(bin.join(name)),
            };
            command.current_dir(folder.path()).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let mut made = command("initdb");
        made.args(["-A", "trust", "-U", "looker", "-N", "-D", "data"]);
        assert!(made.status().unwrap().success());
        let mut server = command("postgres");
        server.args(["-F", "-D", "data", "-c", "listen_addresses=", "-k"]);
        let child = server.arg(folder.path()).spawn().unwrap();
        let server = Self { child, folder };
        eventually("PostgreSQL to answer", || {
            server.psql("SELECT 1").map(|said| assert_eq!(said, "1\n"))
        });
        Some(server)
    }

    /// Sets the variables that lead psql to the server.
    fn leads(&self, command: &mut Command) {
        command.env("PGHOST", self.folder.path());
        command.env("PGUSER", "looker").env("PGDATABASE", "postgres");
    }

    fn psql(&self, text: &str) -> Option<String> {
        let mut command = Command::new("psql");
        self.leads(&mut command);
        let output = command.args(["-qAt", "-c", text]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        output.status.success().then_some(said)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            let _ = kill_process(id, Signal::INT);
        }
        let _ = self.child.wait();
    }
}

/// Returns the commands of the documentation.
fn commands() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/sql.md");
    let docs = fs::read_to_string(docs).unwrap();
    let (_, section) = docs.split_once("## PostgreSQL\n").unwrap();
    let (_, commands) = section.split_once("```sh\n").unwrap();
    commands.split_once("```").unwrap().0.to_owned()
}

#[test]
fn postgresql_has_each_decision_of_collected_logs_once() {
    let server = or_skip!(Postgres::start());
    let origin = Origin::with_rules(RULES);
    let gates = [named("ams"), named("fra-1")];
    let first = denied(&gates[0], &origin, "/private/a?q=%22,%0A'x");
    let second = denied(&gates[1], &origin, "/private/b");
    let collector = Collector::new();
    collector.collect_of(&gates);
    let place = tempfile::tempdir().unwrap();
    symlink(program(), place.path().join("crawlgate")).unwrap();
    let config = collector.setup.write();
    let run = || {
        let mut shell = Command::new("sh");
        server.leads(&mut shell);
        let path = std::env::var("PATH").unwrap();
        shell.env("PATH", format!("{}:{path}", place.path().display()));
        shell.env("CRAWLGATE_CONFIG", &config);
        shell.current_dir(place.path()).args(["-euc", &commands()]);
        let output = shell.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
    };
    let rows = || {
        let text =
            "SELECT log, record->>'id', record->>'reason' FROM decision ORDER BY log, number";
        server.psql(text).unwrap()
    };
    run();
    let want = format!(
        "logs.example/ams|{first}|robots_disallow\nlogs.example/fra-1|{second}|robots_disallow\n"
    );
    assert_eq!(rows(), want);
    run();
    assert_eq!(rows(), want, "nothing is filed twice");
    // What is new is added.
    let third = denied(&gates[0], &origin, "/private/c");
    collect_again(&collector, &gates);
    run();
    let want = want.replacen('\n', &format!("\nlogs.example/ams|{third}|robots_disallow\n"), 1);
    assert_eq!(rows(), want);
}

fn collect_again(collector: &Collector, gates: &[CrawlgateProcess]) {
    let from: Vec<PathBuf> = gates
        .iter()
        .zip(0..)
        .map(|(gate, number)| collector.export_of(gate, &format!("export-{number}")))
        .collect();
    let from: Vec<&Path> = from.iter().map(PathBuf::as_path).collect();
    collector.collect(&from, &[], 0);
}
