//! A new key for the log of a running gate: witnesses, proofs and auditors go on.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::witnesses::{configure, cosigned_denial, vkey};
use crate::support::witness::Witness;
use crate::support::{AdminGate, CrawlgateProcess, Origin, RULES};

fn audit(gate: &CrawlgateProcess, words: &[&str], want: i32) -> String {
    let (code, told, error) = gate.beside("audit", words);
    assert_eq!(code, Some(want), "{words:?}: {told}{error}");
    told
}

fn rotate(gate: &CrawlgateProcess) -> String {
    let words = ["key", "rotate", "--reason", "yearly", "--by", "Grace"];
    let told = audit(gate, &words, 0);
    for want in [
        "new key   ",
        "signs beside the new one until 20",
        "signed by both",
    ] {
        assert!(told.contains(want), "{told}");
    }
    vkey(gate)
}

/// Writes the evidence of a decision, and proves it by a key, with both verifiers.
fn proves(gate: &CrawlgateProcess, id: &str, key: &str, is_proven: bool) {
    let file = gate.setup.dir().join("evidence.json");
    fs::write(&file, audit(gate, &["prove", id], 0)).unwrap();
    let file = file.to_str().unwrap();
    audit(
        gate,
        &["verify-evidence", file, "--key", key],
        i32::from(!is_proven),
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify-evidence.py");
    let python = Command::new("python3")
        .args([script.to_str().unwrap(), file, key])
        .output();
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
    // The witness knows the old key alone.
    let (late, size) = cosigned_denial(&gate, &origin, "/private/b");
    let note = audit(&gate, &["checkpoint", "--cosigned"], 0);
    let lines = note.lines().filter(|line| line.starts_with("— "));
    let signers: Vec<&str> = lines.filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(signers, [&*name(&new), &*name(&old), "witness.test/w1"]);
    let before = witness.asked();
    assert!(
        before.iter().any(|one| one.1 >= size && one.2 == 200),
        "{before:?}"
    );
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
    assert!(events.contains("key_rotated"), "{events}");

    // So it is after a restart, and after the gate takes over a key that was replaced while it ran.
    gate.process.signal(Signal::TERM);
    assert!(gate.process.wait().success(), "{}", gate.said());
    assert!(
        !gate.said().contains("no checkpoint of the log"),
        "{}",
        gate.said()
    );
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

#[test]
fn a_rotation_needs_words() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("audit", "checkpoint_every", "\"1s\"");
    });
    let before = vkey(&gate);
    for (words, want) in [
        (
            &["--reason", " ", "--by", "x"][..],
            "--reason: expected some text",
        ),
        (
            &["--reason", "a\nb", "--by", "x"],
            "--reason: expected one line",
        ),
        (&["--by", "x"], "--reason"),
        (&["--reason", "x", "--by", " "], "--by: expected some text"),
    ] {
        let words = [&["key", "rotate"], words].concat();
        let (code, _, error) = gate.beside("audit", &words);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(want), "{error}");
    }
    assert_eq!(vkey(&gate), before);
}
