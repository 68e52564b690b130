//! crawlgate's own witness: its answers, its memory across kills, and the logs of gates.

mod key;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use aws_lc_rs::signature::Ed25519KeyPair;
use crawlgate_tlog::{
    Checkpoint, Hash, Note, Signer, Tree, VerifierKey, hash_text, leaf_hash, node_hash,
};
use rustix::process::Signal;
use tempfile::TempDir;

use super::witnesses::{NAME, cosigned_denial, vkey};
use crate::support::{AdminGate, CrawlgateProcess, Origin, RULES, Setup};

/// The files of a gate's store.
const FILES: [&str; 4] = [
    "crawlgate.db",
    "crawlgate.db-wal",
    "crawlgate.log.key",
    "crawlgate.log.state",
];

/// A witness, with the directory of its files.
struct Own {
    files: TempDir,
    vkey: String,
    logs: Vec<String>,
    process: CrawlgateProcess,
}

impl Own {
    fn start(logs: &[String]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let setup = Setup::new();
        let key = files.path().join("w.key");
        let mut make = setup.command("witness");
        make.args(["key", "--name", "witness.test/own", "--key"])
            .arg(key);
        let made = make.output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let vkey = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        let process = Self::run(files.path(), logs);
        let logs = logs.to_vec();
        Self {
            files,
            vkey,
            logs,
            process,
        }
    }

    fn run(files: &Path, logs: &[String]) -> CrawlgateProcess {
        let setup = Setup::new();
        let mut command = setup.command("witness");
        command
            .args(["--listen", "127.0.0.1:0", "--key"])
            .arg(files.join("w.key"));
        for log in logs {
            command.args(["--log", log]);
        }
        CrawlgateProcess::spawn(setup, command)
    }

    /// Ends the witness by a signal, and starts it again at another port.
    fn restart(&mut self, signal: Signal) {
        self.process.signal(signal);
        let status = self.process.wait();
        assert_eq!(
            status.success(),
            signal == Signal::TERM,
            "{}",
            self.process.said()
        );
        self.process = Self::run(self.files.path(), &self.logs);
    }

    /// Returns what a witness says that must not begin.
    fn refused(&self) -> String {
        let setup = Setup::new();
        let mut command = setup.command("witness");
        let key = self.files.path().join("w.key");
        command
            .args(["--listen", "127.0.0.1:0", "--log", &self.logs[0], "--key"])
            .arg(key);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn section(&self, name: &str) -> String {
        let (address, vkey) = (self.process.address, &self.vkey);
        format!(
            "[[audit.witness]]\nname = \"{name}\"\nurl = \"http://{address}\"\nvkey = \"{vkey}\"\n"
        )
    }

    fn ask(&self, body: &str) -> (u16, String) {
        ask(self.process.address, "POST /add-checkpoint", body)
    }
}

/// Sends a request, and returns status and body of the answer; of a size also its type.
fn ask(address: SocketAddr, line: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nHost: witness\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    // A witness that refuses a long body may close before its end.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()));
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).unwrap_or("0").parse().unwrap();
    let is_size = head
        .to_ascii_lowercase()
        .contains("content-type: text/x.tlog.size");
    assert_eq!(is_size, status == 409, "{answer}");
    (status, body.to_owned())
}

/// A log of leaves, to ask a witness about.
struct Log {
    pair: Ed25519KeyPair,
}

impl Log {
    fn signer(&self) -> Signer<'_> {
        Signer::new("log.test".parse().unwrap(), &self.pair)
    }

    fn vkey(&self) -> String {
        self.signer().key().to_string()
    }

    fn note(&self, size: u64, root: Hash) -> String {
        self.signer().checkpoint(size, root).to_string()
    }
}

fn leaf(n: u64) -> Hash {
    leaf_hash(&n.to_be_bytes())
}

fn root(size: u64) -> Hash {
    Tree::root_of(&(0..size).map(leaf).collect::<Vec<_>>())
}

fn question(old: u64, path: &[Hash], note: &str) -> String {
    let path: String = path.iter().map(|hash| hash_text(hash) + "\n").collect();
    format!("old {old}\n{path}\n{note}")
}

/// Tells whether an answer is the cosignature of a checkpoint.
fn is_cosigned(witness: &str, note: &str, answer: &str) -> bool {
    let mut note = Note::parse(note.as_bytes()).unwrap();
    note.push(answer.trim_end().parse().unwrap()).unwrap();
    let witness: VerifierKey = witness.parse().unwrap();
    let held = note.holding(std::slice::from_ref(&witness));
    held.len() == 1 && held[0].time.is_some() && Checkpoint::from_text(note.text()).is_some()
}

#[test]
fn each_request_has_the_answer_of_the_specification_and_a_kill_changes_none() {
    let pair = || Ed25519KeyPair::generate().unwrap();
    let log = Log { pair: pair() };
    let stranger = Log { pair: pair() };
    let mut own = Own::start(&[log.vkey()]);
    let two = log.note(2, root(2));
    let (status, line) = own.ask(&question(0, &[], &two));
    assert!(
        status == 200 && is_cosigned(&own.vkey, &two, &line),
        "{status} {line}"
    );
    let three = log.note(3, root(3));
    let other = stranger.signer().checkpoint(3, root(3)).to_string();
    let foreign = Signer::new("other.test".parse().unwrap(), &stranger.pair);
    let foreign = foreign.checkpoint(3, root(3)).to_string();
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("no request", "hello".to_owned(), 400, ""),
        ("an older size", question(3, &[], &two), 400, ""),
        ("an unknown log", question(2, &[leaf(2)], &foreign), 404, ""),
        ("an unknown key", question(2, &[leaf(2)], &other), 403, ""),
        ("from another size", question(0, &[], &three), 409, "2\n"),
        ("another tree", question(2, &[], &log.note(2, root(3))), 409, "2\n"),
        ("no proof", question(2, &[], &three), 422, ""),
        ("a false proof", question(2, &[leaf(7)], &three), 422, ""),
        ("too long", format!("old 0\n\n{}", "x".repeat(300_000)), 413, ""),
    ];
    // A witness forgets nothing: neither in order, nor by a kill.
    for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
        if let Some(signal) = signal {
            own.restart(signal);
        }
        for (name, body, status, text) in &rows {
            let (found, said) = own.ask(body);
            assert_eq!(found, *status, "{name}: {said}");
            assert!(text.is_empty() || said == *text, "{name}: {said}");
        }
        let (status, line) = own.ask(&question(2, &[], &two));
        assert!(
            status == 200 && is_cosigned(&own.vkey, &two, &line),
            "again: {line}"
        );
    }
    for (line, status) in [
        ("GET /add-checkpoint", 405),
        ("POST /", 404),
        ("POST /add-checkpoint/more", 404),
    ] {
        assert_eq!(ask(own.process.address, line, "").0, status, "{line}");
    }
    let (status, line) = own.ask(&question(2, &[leaf(2)], &three));
    assert!(
        status == 200 && is_cosigned(&own.vkey, &three, &line),
        "{line}"
    );

    // Two histories at once: one of them is cosigned, never both.
    for size in [3_u64, 4] {
        let old = if size == 3 { root(3) } else { fs_root(&own) };
        let claims: Vec<(Hash, String)> = (0..8)
            .map(|n| {
                // A leaf beside the old tree, or beside its last leaf: both continue it.
                let next = leaf(100 * size + n);
                let (root, path) = match size {
                    3 => {
                        let right = node_hash(&leaf(2), &next);
                        (node_hash(&root(2), &right), vec![leaf(2), next, root(2)])
                    }
                    _ => (node_hash(&old, &next), vec![next]),
                };
                (root, question(size, &path, &log.note(size + 1, root)))
            })
            .collect();
        let own = &own;
        let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
            let all = claims.iter().map(|(_, body)| scope.spawn(|| own.ask(body)));
            let all: Vec<_> = all.collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let cosigned = answers.iter().filter(|one| one.0 == 200).count();
        let conflicts = answers
            .iter()
            .filter(|one| **one == (409, format!("{}\n", size + 1)));
        assert_eq!((cosigned, conflicts.count()), (1, 7), "{answers:?}");
        let winner = answers.iter().position(|one| one.0 == 200).unwrap();
        assert_eq!(
            fs_root(own),
            claims[winner].0,
            "the file has what was cosigned"
        );
    }
    begins_anew_never(own);
}

/// Returns the root in the state of the witness.
fn fs_root(own: &Own) -> Hash {
    let text = fs::read_to_string(own.files.path().join("w.key.state")).unwrap();
    let line = text.lines().find(|line| line.starts_with("log ")).unwrap();
    crawlgate_tlog::hash_from_text(line.split(' ').nth(3).unwrap()).unwrap()
}

/// A witness begins neither beside another process nor without its state.
fn begins_anew_never(mut own: Own) {
    let said = own.refused();
    assert!(said.contains("another process has the state"), "{said}");
    own.process.signal(Signal::KILL);
    own.process.wait();
    let state = own.files.path().join("w.key.state");
    let kept = fs::read(&state).unwrap();
    fs::remove_file(&state).unwrap();
    let said = own.refused();
    assert!(said.contains("could cosign a second history"), "{said}");
    fs::write(&state, &kept[..kept.len() - 1]).unwrap();
    let said = own.refused();
    assert!(
        said.contains("the state of the witness is damaged"),
        "{said}"
    );
}

/// Starts a gate once, and returns its setup and its vkey.
fn begun(set: impl FnOnce(&mut Setup)) -> (AdminGate, String) {
    let mut gate = AdminGate::with(|setup| {
        setup.set("audit", "checkpoint_every", "\"1s\"");
        set(setup);
    });
    let key = vkey(&gate);
    gate.process.signal(Signal::TERM);
    assert!(gate.process.wait().success(), "{}", gate.said());
    (gate, key)
}

fn with_witness(mut gate: AdminGate, own: &Own) -> AdminGate {
    gate.process.setup.tables(&own.section(NAME));
    gate.process.start_again();
    AdminGate::of(gate.process)
}

#[test]
fn our_witness_cosigns_the_logs_of_gates_and_finds_one_that_went_back() {
    let (first, key) = begun(|setup| {
        setup.set("audit", "log_name", "\"logs.example/first\"");
    });
    let (second, other) = begun(|_| {});
    let mut own = Own::start(&[key.clone(), other]);
    let origin = Origin::with_rules(RULES);
    let (mut first, second) = (with_witness(first, &own), with_witness(second, &own));
    let (id, _) = cosigned_denial(&first, &origin, "/private/a");
    cosigned_denial(&second, &origin, "/private/a");

    // Strangers check the cosignature, with crawlgate and without.
    let (code, file, error) = first.beside("audit", &["prove", &id]);
    assert_eq!(code, Some(0), "{error}");
    let path = first.setup.dir().join("evidence.json");
    fs::write(&path, &file).unwrap();
    let path = path.to_str().unwrap();
    let words = [
        "verify-evidence",
        path,
        "--key",
        &key,
        "--witness",
        &own.vkey,
    ];
    let (code, told, error) = first.beside("audit", &words);
    assert_eq!(code, Some(0), "{told}{error}");
    assert!(told.contains("seen by   witness.test/own, at 20"), "{told}");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify-evidence.py");
    let python = std::process::Command::new("python3")
        .args([script.to_str().unwrap(), path, &key, "--witness", &own.vkey])
        .output();
    if let Ok(output) = python {
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(told.contains("The witness witness.test/own saw"), "{told}");
    }

    // An older copy of the store, with its key and its state: the witness knows more.
    let stop = |gate: &mut AdminGate| {
        gate.process.signal(Signal::TERM);
        assert!(gate.process.wait().success(), "{}", gate.said());
    };
    stop(&mut first);
    let state = first.setup.dir().to_owned();
    let kept = tempfile::tempdir().unwrap();
    for file in FILES {
        if state.join(file).exists() {
            fs::copy(state.join(file), kept.path().join(file)).unwrap();
        }
    }
    first.process.start_again();
    let mut first = AdminGate::of(first.process);
    cosigned_denial(&first, &origin, "/private/b");
    stop(&mut first);
    for file in FILES {
        let _ = fs::remove_file(state.join(file));
        if kept.path().join(file).exists() {
            fs::copy(kept.path().join(file), state.join(file)).unwrap();
        }
    }
    own.restart(Signal::KILL);
    let mut first = with_witness(first, &own);
    first.wait_said("NO CHECKPOINT IS SIGNED ANY MORE");
    let (_, before, _) = first.beside("audit", &["checkpoint"]);
    let id = first.deny(&origin, "/private/c");
    first.beside_until("log", &["show", &id], |told| told.contains(&id));
    let (_, after, _) = first.beside("audit", &["checkpoint"]);
    assert_eq!(before, after);

    // `audit fork` asks the witness, and begins a log that it does not contradict.
    stop(&mut first);
    let words = ["fork", "--reason", "a test"];
    let (code, told, error) = first.beside("audit", &words);
    assert_eq!(code, Some(2), "{told}{error}");
    assert!(
        error.contains("set one, such as \"logs.example/first-2\""),
        "{error}"
    );
    let setup = &mut first.process.setup;
    setup.set("audit", "log_name", "\"logs.example/first-2\"");
    let (code, told, error) = first.beside("audit", &words);
    assert_eq!(code, Some(1), "{told}{error}");
    for want in [
        "witness   notary knows a checkpoint of",
        "missing   the end of the log",
    ] {
        assert!(told.contains(want), "{told}");
    }
    let words = ["fork", "--reason", "a test", "--yes"];
    let (code, told, error) = first.beside("audit", &words);
    assert_eq!(code, Some(0), "{told}{error}");
    let new = vkey(&first);
    assert_ne!(new.split('+').next(), key.split('+').next());
    own.logs.push(new);
    own.restart(Signal::TERM);
    let first = with_witness(first, &own);
    cosigned_denial(&first, &origin, "/private/d");
    let (code, told, error) = first.beside("audit", &["verify", "--all"]);
    assert_eq!(code, Some(0), "{told}{error}");
}

#[test]
fn a_body_that_does_not_come_is_given_up_and_one_under_way_is_answered_at_the_end() {
    let pair = Ed25519KeyPair::generate().unwrap();
    let log = Log { pair };
    let mut own = Own::start(&[log.vkey()]);
    let note = log.note(2, root(2));
    let body = question(0, &[], &note);
    // The witness asks for the body once the request is under way.
    let begin = |address| {
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        let head =
            "POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nExpect: 100-continue\r\nConnection: close";
        write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n").unwrap();
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream
    };
    let end = |mut stream: TcpStream| {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer); // the connection may be reset behind the answer
        answer
    };
    let mut slow = begin(own.process.address);
    slow.write_all(b"old").unwrap();
    let slow = end(slow);
    assert!(slow.starts_with("HTTP/1.1 408 "), "{slow}");

    let mut under_way = begin(own.process.address);
    own.process.signal(Signal::TERM);
    under_way.write_all(body.as_bytes()).unwrap();
    let answer = end(under_way);
    let (head, line) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 ") && is_cosigned(&own.vkey, &note, line),
        "{answer}"
    );
    assert!(own.process.wait().success(), "{}", own.process.said());
}
