//! A witness that knows a checkpoint which the store does not have.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::{NAME, configure, cosigned_denial, metric, status, vkey, witnessed};
use crate::support::witness::Witness;
use crate::support::{AdminGate, Origin, RULES};

/// The files of a store.
const FILES: [&str; 3] = ["crawlgate.db", "crawlgate.log.key", "crawlgate.log.state"];

/// Makes cosigned records, ends the gate, and puts the whole store back to the first of them, with its key and its state file.
fn set_back(mut gate: AdminGate, origin: &Origin) -> AdminGate {
    cosigned_denial(&gate, origin, "/private/a");
    gate.process.signal(Signal::TERM);
    gate.process.wait();
    let backup = tempfile::tempdir().unwrap();
    let copy = |from: &Path, to: &Path| {
        for file in FILES {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
    };
    copy(gate.setup.dir(), backup.path());
    gate.process.start_again();
    let mut gate = AdminGate::of(gate.process);
    for path in ["/private/b", "/private/c", "/private/d"] {
        cosigned_denial(&gate, origin, path);
    }
    gate.process.signal(Signal::TERM);
    gate.process.wait();
    for file in ["crawlgate.db-wal", "crawlgate.db-shm"] {
        drop(fs::remove_file(gate.setup.dir().join(file)));
    }
    copy(backup.path(), gate.setup.dir());
    gate
}

#[test]
fn a_witness_that_knows_more_than_the_store_stops_the_signing() {
    let witness = Witness::start("witness.test/w1");
    let origin = Origin::with_rules(RULES);
    let mut gate = set_back(witnessed(&witness), &origin);
    let (known, _) = witness.latest().unwrap();
    let (_, before, _) = gate.beside("audit", &["checkpoint"]);
    gate.process.start_again();
    let mut gate = AdminGate::of(gate.process);
    gate.wait_said("NO CHECKPOINT IS SIGNED ANY MORE");
    gate.wait_said(&format!("knows a checkpoint of {known} records"));
    // Recording continues; no process signs, so nothing new is proven.
    let id = gate.deny(&origin, "/private/e");
    gate.beside_until("log", &["show", &id], |told| !told.is_empty());
    let (_, error) = gate.ends(2, "audit", &["prove", &id]);
    says!(error, "no checkpoint is signed");
    assert_eq!(gate.beside("audit", &["checkpoint"]).1, before);
    has!(status(&gate), {"ahead": known});
    let series = format!("crawlgate_witness_ahead{{witness=\"{NAME}\"}}");
    assert_eq!(metric(&gate, &series), 1);
    let evidence = gate.get(&format!("/decisions/{id}/evidence.json"));
    assert_ne!(evidence.status, 200, "{}", evidence.text());

    // The witness cannot be reached at the next start: the store remembers.
    witness.stop();
    gate.process.restart(Signal::TERM);
    let mut gate = AdminGate::of(gate.process);
    gate.wait_said("no checkpoint of the log can be signed");
    assert_eq!(gate.beside("audit", &["checkpoint"]).1, before);

    // The operator takes the witness out of the configuration.
    gate.process.setup.tables("");
    gate.process.restart(Signal::TERM);
    gate.wait_said("is no longer configured");
    gate.beside_until("audit", &["checkpoint"], |note| note != before);
}

#[test]
fn a_fork_asks_the_witness_and_begins_a_log_that_it_does_not_contradict() {
    let witness = Witness::start("witness.test/w1");
    let gate = AdminGate::with(|setup| {
        configure(setup, &witness);
        setup.set("audit", "log_name", "\"logs.example/first\"");
    });
    let old = vkey(&gate);
    witness.trust(&old);
    let origin = Origin::with_rules(RULES);
    let mut gate = set_back(gate, &origin);
    gate.process.start_again();
    let mut gate = AdminGate::of(gate.process);
    gate.wait_said("NO CHECKPOINT IS SIGNED ANY MORE");
    gate.deny(&origin, "/private/e");
    gate.process.signal(Signal::TERM);
    assert!(gate.process.wait().success(), "{}", gate.said());

    let words = ["fork", "--reason", "a test"];
    let (_, error) = gate.ends(2, "audit", &words);
    says!(error, "set one, such as \"logs.example/first-2\"");
    let setup = &mut gate.process.setup;
    setup.set("audit", "log_name", "\"logs.example/first-2\"");
    let (told, _) = gate.ends(1, "audit", &words);
    let (known, _) = witness.latest().unwrap();
    for want in [
        &*format!("witness   {NAME} knows a checkpoint of {known} records"),
        "missing   the end of the log",
    ] {
        says!(told, want);
    }
    let words = ["fork", "--reason", "a test", "--yes"];
    gate.succeeds("audit", &words);
    let new = vkey(&gate);
    assert_ne!(new.split('+').next(), old.split('+').next());

    // The witness has seen nothing of the new log.
    witness.trust(&new);
    witness.remember(None);
    gate.process.start_again();
    let gate = AdminGate::of(gate.process);
    cosigned_denial(&gate, &origin, "/private/f");
    gate.succeeds("audit", &["verify", "--all"]);
}

#[test]
fn a_log_that_went_on_from_an_older_copy_is_found_by_its_witness() {
    let witness = Witness::start("witness.test/w1");
    let gate = witnessed(&witness);
    let origin = Origin::with_rules(RULES);
    cosigned_denial(&gate, &origin, "/private/a");
    // The witness has seen another log of as many records, and one more, under the same key.
    let (size, _) = witness.latest().unwrap();
    witness.remember(Some((size + 1, [7; 32])));
    for path in ["/private/b", "/private/c", "/private/d"] {
        gate.deny(&origin, path);
    }
    gate.wait_said("NO CHECKPOINT IS SIGNED ANY MORE");
}
