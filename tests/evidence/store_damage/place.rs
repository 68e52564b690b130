//! An intact store, copies of it to damage, and the program on them.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::DECISIONS;
use crate::support::{CrawlgateProcess, Origin, RULES, Setup};

/// An intact store that a gate has filled: the file, the key that signed its log, and the file that names its last record.
pub struct Whole {
    pub store: Vec<u8>,
    pub key: Vec<u8>,
    pub state: Vec<u8>,
    pub page: usize,
}

impl Whole {
    pub fn new() -> Self {
        let origin = Origin::with_rules(RULES);
        // Each record is written by itself: the place of each in the file is the same in every run.
        let mut gate =
            CrawlgateProcess::with(|setup| setup.set("audit", "durability", "\"strict\""));
        for number in 0..DECISIONS {
            gate.answers(&origin.url(&format!("/private/{number}")), 403);
        }
        gate.wait_records(DECISIONS);
        gate.signal(Signal::TERM);
        assert!(gate.wait().success());
        let path = gate.setup.dir().join("crawlgate.db");
        let store = fs::read(path).unwrap();
        let key = fs::read(gate.setup.dir().join("crawlgate.log.key")).unwrap();
        let state = fs::read(gate.setup.dir().join("crawlgate.log.state")).unwrap();
        let page = usize::from(u16::from_be_bytes([store[16], store[17]]));
        Self { store, key, state, page }
    }

    pub fn pages(&self) -> usize {
        self.store.len() / self.page
    }

    /// Returns a directory with a copy of the store.
    pub fn copy(&self) -> Place {
        let setup = Setup::new();
        let path = setup.dir().join("crawlgate.db");
        fs::write(&path, &self.store).unwrap();
        let key = setup.dir().join("crawlgate.log.key");
        fs::write(&key, &self.key).unwrap();
        // The gate refuses a key that other users can read.
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(setup.dir().join("crawlgate.log.state"), &self.state).unwrap();
        Place { setup, path }
    }
}

/// A directory with a copy of the store.
pub struct Place {
    pub setup: Setup,
    pub path: PathBuf,
}

/// The outcome of `serve`.
#[derive(Debug, PartialEq)]
pub enum Serve {
    Listened,
    Refused(String),
}

impl Place {
    /// Starts the gate, and ends it as soon as it listens.
    pub fn serve(&self) -> Serve {
        let mut child = self.setup.command("serve").stdout(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        for line in BufReader::new(child.stderr.take().unwrap()).lines() {
            let line = line.unwrap();
            said = said + &line + "\n";
            if line.contains("listening on") {
                let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
                kill_process(id, Signal::TERM).unwrap();
            }
        }
        let status = child.wait().unwrap();
        no_panic(&said);
        if said.contains("listening on") {
            return Serve::Listened;
        }
        assert_eq!(status.code(), Some(2), "{said}");
        Serve::Refused(said)
    }

    /// Runs `crawlgate store WORD`: returns its exit code and all its output.
    pub fn store(&self, word: &str) -> (i32, String) {
        let output = self.setup.command("store").arg(word).output().unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        no_panic(&said);
        (output.status.code().expect("it ended by itself"), said)
    }

    /// Asserts that a repaired store is in order, if need be behind the checkpoint that a start signs.
    #[track_caller]
    pub fn is_in_order(&self, name: &str) {
        let (mut code, mut checked) = self.store("check");
        if checked.contains("`crawlgate serve` signs another one when it starts") {
            assert_eq!(self.serve(), Serve::Listened, "{name}: {checked}");
            (code, checked) = self.store("check");
        }
        assert_eq!(code, 0, "{name}: the repaired store is in order: {checked}");
    }

    /// Counts the decisions that the program lists.
    pub fn decisions(&self) -> usize {
        let mut command = self.setup.command("log");
        let output = command.args(["--all", "--format", "jsonl"]).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        no_panic(&said);
        String::from_utf8(output.stdout).unwrap().lines().count()
    }

    /// Moves away the files that a message names, and nothing else.
    pub fn move_away(&self, said: &str) {
        let (_, named) = said.split_once("move ").unwrap_or_else(|| panic!("no way out: {said}"));
        let key = self.path.with_extension("log.key");
        let log = self.path.with_extension("db-wal");
        let state = self.path.with_extension("log.state");
        for (file, shorter) in
            [(key, "the key away"), (log, "the log away"), (state, "the state away")]
        {
            if named.contains(file.to_str().unwrap()) || named.starts_with(shorter) {
                fs::rename(&file, file.with_extension("moved")).unwrap();
            }
        }
        if named.starts_with("it ") {
            fs::rename(&self.path, self.path.with_extension("moved-db")).unwrap();
        }
    }
}

pub fn no_panic(said: &str) {
    assert!(!said.contains("panicked"), "{said}");
}

pub fn overwrite(path: &Path, at: usize, octets: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(octets, at as u64).unwrap();
}

pub fn cut(path: &Path, size: usize) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(size as u64).unwrap();
}
