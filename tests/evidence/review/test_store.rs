//! A store on disk, with functions to fill it and the program that reviews it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use crawlgate_config::Synchronous;
use crawlgate_policy::Decision;
use crawlgate_robots::Origin;
use crawlgate_store::log_key::log_key_file;
use crawlgate_store::{
    Access, Batch, Fetch, LogKey, Object, ObjectKind, OriginUpdate, Retention, Store,
    StoredCheckpoint,
};
use crawlgate_system::clock::Moment;
use tempfile::TempDir;

use super::case::{Case, NOON};

/// A directory with a store, its key, and a configuration that names them.
pub struct TestStore {
    directory: TempDir,
    runtime: tokio::runtime::Runtime,
}

/// The program's output.
#[derive(Debug)]
pub struct ProgramOutput {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl ProgramOutput {
    /// Asserts the exit code.
    #[track_caller]
    pub fn ends(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

impl TestStore {
    pub fn new() -> TestStore {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("crawlgate.db");
        let config = format!("[store]\npath = \"{}\"\n", store.display());
        std::fs::write(directory.path().join("config.toml"), config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        TestStore { directory, runtime }
    }

    /// Returns a store with these cases in this order, and their ids.
    pub fn with(cases: &[Case]) -> (TestStore, Vec<String>) {
        let db = TestStore::new();
        let ids = db.put(cases);
        (db, ids)
    }

    pub fn file(&self) -> PathBuf {
        self.directory.path().join("crawlgate.db")
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn key(&self) -> Arc<LogKey> {
        Arc::new(LogKey::load_or_create(&log_key_file(&self.file()), None).unwrap())
    }

    pub fn state_file(&self) -> PathBuf {
        crawlgate_store::state_file::state_file(&self.file())
    }

    fn store(&self) -> Store {
        Store::open(&self.file(), Access::Write, Synchronous::Normal).unwrap()
    }

    /// Runs an operation on the store.
    pub fn ask<T>(&self, work: impl AsyncFnOnce(&Store) -> T) -> T {
        let store = self.store();
        self.runtime.block_on(work(&store))
    }

    /// Decides the cases and writes what the proxy would write.
    pub fn put(&self, cases: &[Case]) -> Vec<String> {
        let mut batch = Batch::default();
        let mut ids = Vec::new();
        for case in cases {
            let decision: Decision = case.decide();
            ids.push(case.file(&decision, &mut batch));
            let terms = case.terms.text();
            let terms = Object::new(ObjectKind::PolicySettings, terms.as_bytes());
            batch.objects.push(terms);
            if let Some(snapshot) = case.state.snapshot() {
                batch.updates.push(OriginUpdate {
                    origin: Origin::parse(&case.origin).unwrap().0,
                    state: Arc::new(case.state.clone()),
                    user_agent: "crawlgate/0.1".into(),
                    fetch: Fetch {
                        identity: crawlgate_origins::identity::Identity::default(),
                        user_agent: "crawlgate/0.1".to_owned(),
                        other: None,
                        time: snapshot.fetched,
                        duration: std::time::Duration::from_millis(80),
                        result: "successful".to_owned(),
                        cause: None,
                        status: Some(200),
                        hops: vec![
                            format!("{}/robots.txt", case.origin),
                            snapshot.final_url.to_string(),
                        ],
                        sha256: Some(snapshot.sha256),
                        fields: Vec::new(),
                    },
                });
            }
        }
        self.ask(async |store| store.write(batch).await).unwrap();
        ids
    }

    /// Signs the log as it is now.
    pub fn sign(&self, now: Moment) -> StoredCheckpoint {
        let key = self.key();
        self.ask(async |store| store.checkpoint(key, now).await).unwrap().unwrap()
    }

    /// Turns whole bundles of old entries into blocks, and drops blocks if all their entries are older than `keep`.
    /// Returns the number of dropped entries.
    pub fn prune(&self, keep: Duration, now: Moment) -> u64 {
        let retention = Retention { keep: Some(keep), max_size: None };
        let pruned = self.ask(async |store| store.prune(retention, now).await);
        pruned.unwrap().decisions
    }

    /// Prints the newest checkpoint into a file, as an operator keeps it elsewhere.
    pub fn keep_checkpoint(&self, name: &str) -> PathBuf {
        let said = self.run(&["audit", "checkpoint"]);
        assert_eq!(said.code, 0, "{said:?}");
        let file = self.directory().join(name);
        std::fs::write(&file, said.out).unwrap();
        file
    }

    /// Changes the file, as a user with the rights to it could.
    pub fn tamper(&self, statements: &str) {
        let connection = rusqlite::Connection::open(self.file()).unwrap();
        connection.execute_batch(statements).unwrap();
    }

    pub fn connection(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.file()).unwrap()
    }

    /// Returns `crawlgate …` on this store.
    pub fn command(&self, arguments: &[&str]) -> Command {
        // Another build, for measurements.
        let program = std::env::var_os("CRAWLGATE_BIN");
        let mut command =
            Command::new(program.unwrap_or_else(|| env!("CARGO_BIN_EXE_crawlgate").into()));
        command
            .env_clear()
            .env("HOME", self.directory())
            .env("USER", "ada")
            .current_dir(self.directory())
            .arg("--config")
            .arg(self.directory().join("config.toml"))
            .args(arguments);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> ProgramOutput {
        ProgramOutput::of(self.command(arguments).output().unwrap())
    }
}

impl ProgramOutput {
    pub fn of(output: Output) -> ProgramOutput {
        ProgramOutput {
            code: output.status.code().expect("it ended by itself"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Returns the cases of most tests: a denial, an allowance, another site, another crawler, and an attested decision.
pub fn some_cases() -> Vec<Case> {
    const FILE: &str = "# of the site\nUser-agent: *\nDisallow: /private\n\nUser-agent: ExampleBot\nDisallow: /secret\nAllow: /\n";
    let second = |count| std::time::Duration::from_secs(count);
    let at = |case: Case, seconds| Case {
        asked: NOON + second(seconds),
        now: NOON + second(seconds),
        ..case
    };
    let other = Case {
        origin: "http://other.example:8080".to_owned(),
        ..Case::of("User-agent: *\nDisallow: /\n", "OtherBot", "/x")
    };
    vec![
        at(Case::of(FILE, "ExampleBot", "/secret/x?a=b"), 0),
        at(Case::of(FILE, "ExampleBot", "/open"), 1),
        at(other, 2),
        at(Case::of(FILE, "OtherBot", "/private"), 3),
        at(Case::of(FILE, "ExampleBot", "/x/../secret"), 4),
        at(Case { redact: true, ..Case::of(FILE, "ExampleBot", "/open?token=1") }, 5),
    ]
}

/// Returns a store of some cases, of which the first six are signed.
pub fn signed() -> TestStore {
    let (db, _) = TestStore::with(&some_cases());
    db.sign(NOON);
    db.put(&some_cases()[..2]);
    db
}

/// Returns `count` cases, in the order of [`some_cases`], over and over.
pub fn many_cases(count: usize) -> Vec<Case> {
    some_cases().into_iter().cycle().take(count).collect()
}
