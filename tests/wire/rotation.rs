//! A new key for the log of a running gate: witnesses, proofs and auditors go on. Page: `docs/proof.md`.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::witnesses::{configure, cosigned_denial, vkey};
use crate::support::witness::Witness;
use crate::support::{AdminGate, CrawlgateProcess, Origin, RULES, Setup};

fn audit(gate: &CrawlgateProcess, words: &[&str], want: i32) -> String {
    let (code, told, error) = gate.beside("audit", words);
    assert_eq!(code, Some(want), "{words:?}: {told}{error}");
    told
}

fn rotate(gate: &CrawlgateProcess) -> String {
    let words = ["key", "rotate", "--reason", "yearly", "--by", "Grace"];
    let told = audit(gate, &words, 0);
    for want in ["new key   ", "signs beside the new one until 20", "signed by both"] {
        says!(told, want);
    }
    vkey(gate)
}

/// Writes the evidence of a decision, and proves it by a key, with both verifiers.
fn proves(gate: &CrawlgateProcess, id: &str, key: &str, is_proven: bool) {
    let file = gate.setup.dir().join("evidence.json");
    fs::write(&file, audit(gate, &["prove", id], 0)).unwrap();
    let file = file.to_str().unwrap();
    audit(gate, &["verify-evidence", file, "--key", key], i32::from(!is_proven));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify-evidence.py");
    let python = Command::new("python3").args([script.to_str().unwrap(), file, key]).output();
    if let Ok(output) = python {
        assert_eq!(output.status.success(), is_proven, "{output:?}");
    }
}

#[test]
fn a_running_gate_takes_a_new_key_over() {
    let witness = Witness::start("witness.test/w1");
    let mut gate = AdminGate::with(|setup| configure(setup, &witness));
    let old = vkey(&gate);
    witness.trust(&old);
    let origin = Origin::with_rules(RULES);
    let (early, _) = cosigned_denial(&gate, &origin, "/private/a");
    let dir = gate.setup.dir().to_owned();
    let kept = dir.join("kept");
    fs::write(&kept, audit(&gate, &["checkpoint"], 0)).unwrap();
    let export = dir.join("export");
    audit(&gate, &["export", "--to", export.to_str().unwrap()], 0);

    let new = rotate(&gate);
    assert_ne!(new, old);
    let name = |key: &str| key.split('+').next().unwrap().to_owned();
    assert_eq!(name(&new), name(&old));
    // The witness knows only the old key.
    let (late, size) = cosigned_denial(&gate, &origin, "/private/b");
    let note = audit(&gate, &["checkpoint", "--cosigned"], 0);
    let lines = note.lines().filter(|line| line.starts_with("— "));
    let signers: Vec<&str> = lines.filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(signers, [&*name(&new), &*name(&old), "witness.test/w1"]);
    let before = witness.asked();
    assert!(before.iter().any(|one| one.1 >= size && one.2 == 200), "{before:?}");
    assert!(before.iter().all(|one| one.2 != 403), "{before:?}");

    // An auditor who knows one of the keys needs no other.
    let kept = kept.to_str().unwrap();
    for words in [
        &["verify", "--all", "--checkpoint", kept][..],
        &["verify", "--all", "--checkpoint", kept, "--key", &old],
        &["verify", "--all", "--checkpoint", kept, "--key", &new],
        &["verify", &late, "--key", &old],
        &["verify", &late, "--key", &new],
        &["export", "--to", export.to_str().unwrap()],
        &["tiles", dir.join("tiles").to_str().unwrap()],
    ] {
        audit(&gate, words, 0);
    }
    let told = audit(&gate, &["verify", "--all", "--json"], 0);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["events"]["key_rotated"], 1, "{told}");
    for key in [&old, &new] {
        proves(&gate, &late, key, true);
        proves(&gate, &early, key, true);
    }
    let wrong = old.replacen('+', "x+", 1);
    let (code, ..) = gate.beside("audit", &["verify", &late, "--key", &wrong]);
    assert_ne!(code, Some(0));
    let (_, events, _) = gate.beside("log", &["--events"]);
    says!(events, "key_rotated");

    // So it is after a restart, and after the gate takes over a key that was replaced while it ran.
    gate.process.signal(Signal::TERM);
    assert!(gate.process.wait().success(), "{}", gate.said());
    lacks!(gate.said(), "no checkpoint of the log");
    gate.process.start_again();
    let gate = AdminGate::of(gate.process);
    cosigned_denial(&gate, &origin, "/private/c");
    assert_eq!(vkey(&gate), new);
    let third = rotate(&gate);
    witness.trust(&third);
    cosigned_denial(&gate, &origin, "/private/d");
    for key in [&old, &new, &third] {
        audit(&gate, &["verify", "--all", "--key", key], 0);
    }
}

/// The system calls that change what is on the disk.
const STEPS: [&str; 4] = ["pwrite64", "fsync", "rename", "unlink"];

/// Tells whether `strace` is there, which kills a process at a system call.
fn has_strace() -> bool {
    let found = Command::new("strace").arg("-V").output();
    let is_there = found.is_ok_and(|output| output.status.success());
    let is_required = std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
    assert!(is_there || !is_required, "strace is missing");
    is_there
}

/// Rotates the key of a copy of a gate's files, killed at the nth such call of a thread. `None` if there are fewer.
fn cut_short(from: &Setup, step: &str, nth: usize) -> Option<Setup> {
    let mut setup = Setup::new();
    setup.set("admin", "address", "\"127.0.0.1:0\"");
    for file in ["crawlgate.db", "crawlgate.log.key", "crawlgate.log.state"] {
        fs::copy(from.dir().join(file), setup.dir().join(file)).unwrap();
    }
    let (trace, kill) =
        (format!("trace={step}"), format!("inject={step}:signal=SIGKILL:when={nth}"));
    let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &kill];
    let mut rotate = setup.command_in(&strace, "audit");
    rotate.args(["key", "rotate", "--reason", "yearly", "--by", "Grace"]);
    let output = rotate.output().unwrap();
    if output.status.success() {
        return None;
    }
    // An strace that may not trace fails in another way.
    let is_killed = output.status.signal() == Some(9) || output.status.code() == Some(137);
    assert!(is_killed, "{step} {nth}: {output:?}");
    Some(setup)
}

#[test]
fn a_kill_at_any_step_of_a_rotation_leaves_one_key() {
    if !has_strace() {
        return;
    }
    let mut gate = CrawlgateProcess::with(|setup| setup.set("admin", "address", "\"127.0.0.1:0\""));
    let origin = Origin::with_rules(RULES);
    gate.denies(&origin.url("/private/a"));
    let old = vkey(&gate);
    gate.signal(Signal::TERM);
    assert!(gate.wait().success(), "{}", gate.said());
    let mut rotated = [0, 0];
    for step in STEPS {
        for nth in 1.. {
            assert!(nth <= 500, "{step}: every call of a rotation is a kill");
            let Some(setup) = cut_short(&gate.setup, step, nth) else {
                break;
            };
            let at = format!("{step} {nth}");
            let serve = setup.command("serve");
            let mut next = CrawlgateProcess::spawn(setup, serve);
            let new = vkey(&next);
            next.signal(Signal::TERM);
            assert!(next.wait().success(), "{at}: {}", next.said());
            let told = next.succeeds("audit", &["verify", "--all", "--key", &new]);
            let is_rotated = told.contains("1 key_rotated");
            assert_eq!(new != old, is_rotated, "{at}: {told}");
            let left = next.setup.dir().join("crawlgate.log.key.next");
            assert!(!left.exists() || !is_rotated, "{at}");
            rotated[usize::from(is_rotated)] += 1;
        }
    }
    assert!(rotated.iter().all(|cases| *cases >= 3), "{rotated:?}");
}

#[test]
fn a_rotation_needs_words() {
    let gate = CrawlgateProcess::with(|setup| setup.set("audit", "checkpoint_every", "\"1s\""));
    let before = vkey(&gate);
    #[rustfmt::skip] // one row, one case
    let rows = [
        (&["--reason", " ", "--by", "x"][..], "--reason: expected some text"),
        (&["--reason", "a\nb", "--by", "x"], "--reason: expected one line"),
        (&["--by", "x"], "--reason"),
        (&["--reason", "x", "--by", " "], "--by: expected some text"),
    ];
    for (words, want) in rows {
        let words = [&["key", "rotate"], words].concat();
        let (_, error) = gate.ends(2, "audit", &words);
        says!(error, want);
    }
    assert_eq!(vkey(&gate), before);
}
