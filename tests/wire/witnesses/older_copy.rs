//! A witness that knows a checkpoint which the store does not have.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::{NAME, cosigned_denial, metric, status, witnessed};
use crate::support::witness::Witness;
use crate::support::{AdminGate, Origin, RULES};

/// The files of a store.
const FILES: [&str; 3] = ["crawlgate.db", "crawlgate.log.key", "crawlgate.log.state"];

#[test]
fn a_witness_that_knows_more_than_the_store_stops_the_signing() {
    let witness = Witness::start("witness.test/w1");
    let mut gate = witnessed(&witness);
    let origin = Origin::with_rules(RULES);
    cosigned_denial(&gate, &origin, "/private/a");
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
        cosigned_denial(&gate, &origin, path);
    }
    gate.process.signal(Signal::TERM);
    gate.process.wait();
    let (known, _) = witness.latest().unwrap();

    // The whole store is an older one, with its key and its state file.
    for file in ["crawlgate.db-wal", "crawlgate.db-shm"] {
        drop(fs::remove_file(gate.setup.dir().join(file)));
    }
    copy(backup.path(), gate.setup.dir());
    let (_, before, _) = gate.beside("audit", &["checkpoint"]);
    gate.process.start_again();
    let mut gate = AdminGate::of(gate.process);
    gate.wait_said("NO CHECKPOINT IS SIGNED ANY MORE");
    gate.wait_said(&format!("knows a checkpoint of {known} records"));
    // Recording goes on; no process signs, so nothing new is proven.
    let id = gate.deny(&origin, "/private/e");
    gate.beside_until("log", &["show", &id], |told| !told.is_empty());
    let (code, _, error) = gate.beside("audit", &["prove", &id]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("no checkpoint is signed"), "{error}");
    assert_eq!(gate.beside("audit", &["checkpoint"]).1, before);
    let state = status(&gate);
    assert_eq!(state["ahead"], known, "{state}");
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
