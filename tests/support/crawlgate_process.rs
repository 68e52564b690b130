//! The program under test, as a process in a temporary directory.

mod refusals;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Response, Wire, eventually, origin_ca_pem};

/// The names that a gate under test resolves, all of them to 127.0.0.1.
const HOSTS: [&str; 8] = [
    "site.test",
    "other.test",
    "third.test",
    "bank.test",
    "www.site.test",
    "xn--bcher-kva.test",
    "chunked.test",
    "site.test.example",
];

/// The executable: the one that cargo built for this test, or `CRAWLGATE_BIN`.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("CRAWLGATE_BIN")
        .map_or_else(|| env!("CARGO_BIN_EXE_crawlgate").into(), PathBuf::from)
}

/// A configuration under construction, and the directory for it.
pub(crate) struct Setup {
    sections: BTreeMap<String, BTreeMap<String, String>>,
    tables: String,
    dir: tempfile::TempDir,
}

impl Setup {
    /// Returns the defaults of a test: a free loopback port, every decision recorded, test names and test CA known.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("origin-ca.pem"), origin_ca_pem()).unwrap();
        let mut setup = Self { sections: BTreeMap::new(), tables: String::new(), dir };
        setup.set("listen", "address", "\"127.0.0.1:0\"");
        setup.set("admin", "address", "\"\"");
        setup.set("log", "file", "\"decisions.jsonl\"");
        setup.set("log", "decisions", "\"all\"");
        setup.set("store", "path", "\"crawlgate.db\"");
        setup.set("tls", "ca_cert", "\"ca.crt\"");
        setup.set("tls", "ca_key", "\"ca.key\"");
        setup.set("tls", "extra_roots", "[\"origin-ca.pem\"]");
        // Origins under test are on loopback, at ports that the kernel picks.
        setup.set("egress", "allow", "[\"127.0.0.0/8\", \"::1\"]");
        setup.set("egress", "connect_ports", "[\"1-65535\"]");
        for host in HOSTS {
            setup.set("upstream.hosts", &format!("\"{host}\""), "\"127.0.0.1\"");
        }
        setup
    }

    /// Sets one key to a TOML value, text in its quotes.
    pub(crate) fn set(&mut self, section: &str, key: &str, value: &str) {
        let keys = self.sections.entry(section.to_owned()).or_default();
        keys.insert(key.to_owned(), value.to_owned());
    }

    /// Sets the end of the file: arrays of tables, `[[client]]`. Replaces what was there.
    pub(crate) fn tables(&mut self, toml: &str) {
        toml.clone_into(&mut self.tables);
    }

    /// Adds an override for a whole origin to the file.
    pub(crate) fn asserts(&mut self, origin: &str, action: &str) {
        self.set("[override]", "origin", &format!("{origin:?}"));
        self.set("[override]", "action", &format!("{action:?}"));
        self.set("[override]", "by", "\"Ada Example\"");
        self.set("[override]", "reason", "\"a letter\"");
    }

    /// Returns the directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes the configuration file and returns its path.
    pub(crate) fn write(&self) -> PathBuf {
        let mut text = String::new();
        for (section, keys) in &self.sections {
            writeln!(text, "[{section}]").unwrap();
            for (key, value) in keys {
                writeln!(text, "{key} = {value}").unwrap();
            }
        }
        text.push_str(&self.tables);
        let path = self.dir.path().join("config.toml");
        fs::write(&path, text).unwrap();
        path
    }

    /// Runs `crawlgate SUBCOMMAND --config FILE WORDS…` to its end: returns its exit code, standard output and error.
    #[track_caller]
    pub(crate) fn run(&self, subcommand: &str, words: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(subcommand).args(words).output().unwrap();
        let said = [output.stdout, output.stderr];
        let [stdout, stderr] = said.map(|octets| String::from_utf8_lossy(&octets).into_owned());
        (output.status.code(), stdout, stderr)
    }

    /// Runs a command likewise, and asserts its exit code; returns its standard output and error.
    #[track_caller]
    pub(crate) fn ends(&self, code: i32, subcommand: &str, words: &[&str]) -> (String, String) {
        let (found, said, errors) = self.run(subcommand, words);
        assert_eq!(found, Some(code), "{subcommand} {words:?}: {said}{errors}");
        (said, errors)
    }

    /// Runs a command that succeeds; returns its standard output.
    #[track_caller]
    pub(crate) fn succeeds(&self, subcommand: &str, words: &[&str]) -> String {
        self.ends(0, subcommand, words).0
    }

    /// Adds an override by the command, for a day; returns what it says.
    #[track_caller]
    pub(crate) fn overrides(&self, origin: &str, pattern: &str, action: &str) -> String {
        let what = ["add", origin, pattern, action, "--until", "1d"];
        let why = ["--by", "Ada Example", "--reason", "a letter"];
        self.succeeds("override", &[&what[..], &why].concat())
    }

    /// Returns `crawlgate SUBCOMMAND --config FILE` in this directory, without proxy variables and with its output
    /// captured.
    pub(crate) fn command(&self, subcommand: &str) -> Command {
        self.command_in(&[], subcommand)
    }

    /// Returns the same as the last arguments of another program.
    pub(crate) fn command_in(&self, other: &[&str], subcommand: &str) -> Command {
        let mut words = other.iter().map(PathBuf::from).chain([program()]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args([subcommand, "--config"])
            .arg(self.write())
            .current_dir(self.dir.path());
        let words = "http_proxy https_proxy all_proxy no_proxy RUST_LOG CRAWLGATE_CONFIG";
        for name in words.split(' ') {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A running gate; killed when it is dropped.
pub(crate) struct CrawlgateProcess {
    /// The gate's configuration, which a test may change before a reload.
    pub(crate) setup: Setup,
    /// The address of the listener.
    pub(crate) address: SocketAddr,
    child: Child,
    stderr: Arc<Mutex<String>>,
    /// Reads stderr to its end.
    reader: thread::JoinHandle<()>,
}

impl CrawlgateProcess {
    /// Starts a gate with the defaults of a test.
    #[track_caller]
    pub(crate) fn start() -> Self {
        Self::with(|_| ())
    }

    /// Starts a gate with some keys set.
    #[track_caller]
    pub(crate) fn with(configure: impl FnOnce(&mut Setup)) -> Self {
        let mut setup = Setup::new();
        configure(&mut setup);
        let command = setup.command("serve");
        Self::spawn(setup, command)
    }

    /// Starts a gate with a command of the test's own.
    #[track_caller]
    pub(crate) fn spawn(setup: Setup, mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let (said, pipe) = (Arc::clone(&stderr), child.stderr.take().unwrap());
        let reader = thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let mut said = said.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
        });
        let stdout = child.stdout.take();
        thread::spawn(move || {
            stdout.map(|mut pipe| std::io::copy(&mut pipe, &mut std::io::sink()))
        });
        let mut gate =
            Self { setup, address: SocketAddr::from(([127, 0, 0, 1], 0)), child, stderr, reader };
        gate.address = eventually("the gate to listen", || {
            if gate.child.try_wait().unwrap().is_some() {
                panic!("the gate ended at once, {}: {}", gate.wait(), gate.said());
            }
            let said = gate.said();
            let address = said.split("listening on ").nth(1)?.split_whitespace().next()?;
            // The last line may be half read: an address counts only if its line is whole.
            address
                .trim_matches(|c: char| !c.is_ascii_hexdigit() && c != '[' && c != ']')
                .parse()
                .ok()
        });
        gate
    }

    /// Returns all of the gate's standard error so far.
    pub(crate) fn said(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until stderr contains `text`.
    #[track_caller]
    pub(crate) fn wait_said(&self, text: &str) {
        eventually(&format!("the gate to say {text:?}"), || {
            self.said().contains(text).then_some(())
        });
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the gate a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Ends the gate with a signal and starts it again in the same directory.
    #[track_caller]
    pub(crate) fn restart(&mut self, signal: Signal) {
        self.signal(signal);
        self.wait();
        self.start_again();
    }

    /// Starts a gate that has ended again, in the same directory.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        let setup = std::mem::replace(&mut self.setup, Setup::new());
        let command = setup.command("serve");
        *self = Self::spawn(setup, command);
    }

    /// Runs `crawlgate SUBCOMMAND --config FILE WORDS…` next to the gate: returns its exit code, standard output and
    /// error.
    #[track_caller]
    pub(crate) fn beside(&self, subcommand: &str, words: &[&str]) -> (Option<i32>, String, String) {
        self.setup.run(subcommand, words)
    }

    /// Runs a command likewise, and asserts its exit code; returns its standard output and error.
    #[track_caller]
    pub(crate) fn ends(&self, code: i32, subcommand: &str, words: &[&str]) -> (String, String) {
        self.setup.ends(code, subcommand, words)
    }

    /// Runs a command likewise that succeeds; returns its standard output.
    #[track_caller]
    pub(crate) fn succeeds(&self, subcommand: &str, words: &[&str]) -> String {
        self.setup.succeeds(subcommand, words)
    }

    /// Repeats [`CrawlgateProcess::beside`] until the output is as expected: the gate writes the store a moment after an answer.
    #[track_caller]
    pub(crate) fn beside_until(
        &self,
        subcommand: &str,
        words: &[&str],
        is_it: impl Fn(&str) -> bool,
    ) -> String {
        eventually(&format!("{subcommand} {words:?} to tell it"), || {
            let (_, said, _) = self.beside(subcommand, words);
            is_it(&said).then_some(said)
        })
    }

    /// Waits for the gate's end, and until its last words are read.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = eventually("the gate to end", || self.child.try_wait().unwrap());
        let is_read = || self.reader.is_finished().then_some(());
        eventually("the gate's last words", is_read);
        status
    }

    /// Tells whether the gate still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Returns the gate's resident memory, in octets.
    pub(crate) fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kib = line.split_whitespace().next().unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }

    /// Returns the certificate of the gate's CA.
    pub(crate) fn ca_pem(&self) -> String {
        fs::read_to_string(self.setup.dir().join("ca.crt")).unwrap()
    }

    /// Opens a connection to the gate.
    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(self.address())
    }

    /// GETs a URL on a new connection: absolute-form for `http`, inside an intercepted CONNECT for `https`.
    #[track_caller]
    pub(crate) fn get(&self, url: &str) -> Response {
        self.request("GET", url, "")
    }

    /// GETs a URL and asserts that the origin answers, with the page that it has for each path.
    #[track_caller]
    pub(crate) fn passes(&self, url: &str) {
        self.get(url).is_page(url);
    }

    /// GETs a URL and asserts the status of the answer.
    #[track_caller]
    pub(crate) fn answers(&self, url: &str, status: u16) {
        let answer = self.get(url);
        assert_eq!(answer.status, status, "{url}: {answer:?}");
    }

    /// GETs a URL until the answer has this status.
    #[track_caller]
    pub(crate) fn until(&self, status: u16, url: &str) {
        eventually(&format!("{status} for {url}"), || {
            (self.get(url).status == status).then_some(())
        });
    }

    /// Asks for a URL in absolute-form on a new connection; the response is still to be read.
    pub(crate) fn asks(&self, url: &str) -> Wire {
        let mut wire = self.connect();
        wire.ask(url);
        wire
    }

    /// Sends a request without a body and with further field lines (each ended by CRLF).
    #[track_caller]
    pub(crate) fn request(&self, method: &str, url: &str, fields: &str) -> Response {
        self.sends(method, url, &format!("{fields}\r\n")).response(method)
    }

    /// Sends a request on a new connection: `rest` has further field lines, the empty line, and the body. The response is
    /// still to be read.
    #[track_caller]
    pub(crate) fn sends(&self, method: &str, url: &str, rest: &str) -> Wire {
        let authority = url.split('/').nth(2).unwrap().split('?').next().unwrap();
        let (mut wire, target) = self.open(url);
        wire.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{rest}"
        ));
        wire
    }

    /// Opens a connection for a URL, and returns it with the request-target: absolute-form for `http`, and origin-form inside
    /// an intercepted CONNECT for `https`.
    #[track_caller]
    pub(crate) fn open(&self, url: &str) -> (Wire, String) {
        let (scheme, rest) = url.split_once("://").unwrap();
        if scheme != "https" {
            return (self.connect(), url.to_owned());
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let host = authority.rsplit_once(':');
        let host = host.map_or(authority, |(host, _)| host);
        (self.intercept(authority, host), path.to_owned())
    }

    /// Opens a tunnel with CONNECT.
    #[track_caller]
    pub(crate) fn tunnels(&self, authority: &str) -> Wire {
        let mut wire = self.connect();
        let answer = wire.tunnel(authority);
        assert_eq!(answer.status, 200, "CONNECT {authority}: {answer:?}");
        wire
    }

    /// Opens a tunnel with CONNECT and makes a TLS handshake for `host` that trusts the gate's CA.
    #[track_caller]
    pub(crate) fn intercept(&self, authority: &str, host: &str) -> Wire {
        self.tunnels(authority).tls(host, &self.ca_pem())
    }

    /// Returns the address of the proxy.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new([127, 0, 0, 1].into(), self.address.port())
    }

    /// Returns the path of the decision log.
    pub(crate) fn log_path(&self) -> PathBuf {
        self.setup.dir().join("decisions.jsonl")
    }

    /// Returns the records of decisions in the decision log.
    #[track_caller]
    pub(crate) fn records(&self) -> Vec<Value> {
        let mut lines = self.log_lines();
        lines.retain(|line| line["event"].is_null());
        lines
    }

    /// Returns the whole lines of the decision log, those of other events included; each must be a JSON object.
    #[track_caller]
    pub(crate) fn log_lines(&self) -> Vec<Value> {
        // A line that is being written may end within a character.
        let octets = fs::read(self.log_path()).unwrap_or_default();
        let end = octets.iter().rposition(|&octet| octet == b'\n');
        let whole = end.map_or("", |end| std::str::from_utf8(&octets[..end]).unwrap());
        let read = |line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        whole.lines().map(read).collect()
    }

    /// Waits for a record that satisfies `predicate`.
    #[track_caller]
    pub(crate) fn record(&self, what: &str, predicate: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("the record of {what}"), || {
            self.records().into_iter().rev().find(&predicate)
        })
    }

    /// Waits for the record of a URL.
    #[track_caller]
    pub(crate) fn record_of(&self, url: &str) -> Value {
        self.record(url, |record| record["url"] == url)
    }

    /// Waits until there are `count` records.
    #[track_caller]
    pub(crate) fn wait_records(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} records"), || {
            let records = self.records();
            (records.len() >= count).then_some(records)
        })
    }

    /// Rewrites the configuration and asks for a reload; returns when it is in force.
    #[track_caller]
    pub(crate) fn reload(&mut self, configure: impl FnOnce(&mut Setup)) {
        self.reload_until(configure, "the configuration was read again");
    }

    /// Rewrites the configuration and asks for a reload; returns when stderr has `confirmation` once more.
    #[track_caller]
    pub(crate) fn reload_until(&mut self, configure: impl FnOnce(&mut Setup), confirmation: &str) {
        let before = self.said().matches(confirmation).count();
        configure(&mut self.setup);
        self.setup.write();
        self.signal(Signal::HUP);
        eventually("the reload", || {
            (self.said().matches(confirmation).count() > before).then_some(())
        });
    }
}

impl Drop for CrawlgateProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if thread::panicking() {
            // The only output of the tests: the program's messages explain a failure.
            drop(write!(std::io::stderr(), "--- stderr of the gate ---\n{}", self.said()));
        }
    }
}
