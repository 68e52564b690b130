//! Logs of two gates, collected in one place: filed, read by name, and refused where they are not what a key has signed.
//! Page: `docs/copies.md`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::export::{gate, vkey};
use crate::support::collector::{Collector, denied, named};
use crate::support::{CrawlgateProcess, Origin, RULES, Setup, wait_until};

#[test]
fn the_logs_of_two_gates_are_collected_and_read_by_name() {
    let origin = Origin::with_rules(RULES);
    let (one, two) = (named("ams"), named("fra-1"));
    let first = denied(&one, &origin, "/private/a");
    let second = denied(&two, &origin, "/private/b");
    let collector = Collector::new();
    let from = [collector.export_of(&one, "one"), collector.export_of(&two, "two")];
    let from = from.each_ref().map(PathBuf::as_path);
    let keys = [vkey(&one), vkey(&two)];

    // A log is new: the operator names its key, or says that any will do.
    let said = collector.collect(&from, &[], 1);
    for word in [&*keys[0], &keys[1], "name it with --key", "--trust-new"] {
        says!(said, word);
    }
    assert_eq!(collector.files(), [], "nothing is filed");
    let said = collector.collect(&from, &["--key", &keys[1]], 1);
    says!(said, "logs.example/fra-1: ", "records filed");
    says!(said, "the log logs.example/ams is new here");
    let said = collector.collect(&from, &["--trust-new"], 0);
    says!(said, "logs.example/ams: ", "records filed");
    says!(said, "logs.example/fra-1: nothing new");
    let before = collector.files();
    let said = collector.collect(&from, &[], 0);
    assert_eq!(said.matches("nothing new").count(), 2, "{said}");
    assert_eq!(collector.files(), before, "and not an octet is written");
    let folder = collector.folder.path().join("collection");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for (name, _) in &before {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }

    // Each command reads the log that is named.
    let said = collector.setup.succeeds("log", &["show", &first, "--log", "ams", "--json"]);
    let (_, own, _) = one.beside("log", &["show", &first, "--json"]);
    assert_eq!(said, own, "the line is the same");
    let (_, error) = collector.setup.ends(2, "log", &["--log", "ams", "show", &second]);
    says!(error, "no such decision");
    let (_, said, _) = collector.setup.run("log", &["--log", "fra", "--reason", "robots_disallow"]);
    assert!(said.contains(&second) && !said.contains(&first), "{said}");
    collector.setup.succeeds("audit", &["verify", "--all", "--log", "ams"]);
    let (code, said, error) = collector.setup.run("audit", &["verify", &first, "--log", "ams"]);
    assert_eq!((code, said.contains("proven")), (Some(0), true), "{said}{error}");
    let evidence = collector.folder.path().join("evidence.json");
    let evidence = evidence.to_str().unwrap();
    let words = ["prove", &second, "--log", "fra-1", "-o", evidence];
    collector.setup.succeeds("audit", &words);
    let words = ["verify-evidence", evidence, "--key", &keys[1]];
    collector.setup.succeeds("audit", &words);
    let (code, said, _) = collector.setup.run("audit", &["key", "--log", "ams"]);
    assert_eq!((code, said.trim()), (Some(0), &*keys[0]));
    let query = "SELECT id FROM denials";
    let (code, said, error) =
        collector.setup.run("sql", &["--log", "ams", "--format", "csv", query]);
    assert_eq!((code, said.contains(&first)), (Some(0), true), "{said}{error}");
    let words = ["--log", "ams", "--since", "1h", "-o", "-"];
    let (code, said, error) = collector.setup.run("report", &words);
    assert_eq!((code, said.contains("logs.example/ams")), (Some(0), true), "{error}");
    let (code, said, _) = collector.setup.run("store", &["check", "--log", "fra-1"]);
    assert_eq!((code, said.contains("in order")), (Some(0), true), "{said}");
    let copy = collector.folder.path().join("copy.db");
    let words = ["backup", "--log", "ams", copy.to_str().unwrap()];
    let (code, said, error) = collector.setup.run("store", &words);
    assert_eq!((code, said.contains(".log.vkey")), (Some(0), true), "{said}{error}");
    let said = collector.setup.succeeds("collect", &["--list"]);
    for word in ["logs.example/ams", "logs.example/fra-1", "CHECKPOINT"] {
        says!(said, word);
    }

    // Nothing else writes to a copy.
    let words = ["--log", "ams", "ack", &first, "--note", "x", "--by", "Ada"];
    let (_, error) = collector.setup.ends(2, "log", &words);
    says!(error, "the collected copy of the log logs.example/ams");
    for words in [["rebuild", "--log", "ams"], ["rebuild", "--log", "fra"]] {
        let (code, _, error) = collector.setup.run("store", &words);
        assert_eq!(code, Some(2));
        says!(error, "the collected copy");
    }
    let mut serve = Setup::new();
    let path = folder.join("logs.example%2Fams.db");
    serve.set("store", "path", &format!("{path:?}"));
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("serve", &[][..]),
        ("run", &["--", "true"]),
        ("override", &["add", "https://a.example", "deny", "--until", "2027-01-01", "--by", "Ada", "--reason", "x"]),
    ];
    for (command, words) in cases {
        let output = serve.command(command).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        says!(said, "`crawlgate collect` alone writes"; "{command}");
    }
    let (_, error) = collector.setup.ends(2, "log", &["--log", "par"]);
    says!(error, "there are logs.example/ams, logs.example/fra-1");
    let (code, _, error) = collector.setup.run("log", &["--log", "logs."]);
    assert_eq!((code, error.contains("more than one")), (Some(2), true), "{error}");

    // The logs go on, and so does the collection.
    denied(&one, &origin, "/private/c");
    denied(&two, &origin, "/private/d");
    collector.export_of(&one, "one");
    collector.export_of(&two, "two");
    let said = collector.collect(&from, &[], 0);
    assert_eq!(said.matches("records filed").count(), 2, "{said}");
    for log in ["ams", "fra-1"] {
        collector.setup.succeeds("audit", &["verify", "--all", "--log", log]);
    }
}

#[test]
fn a_log_with_a_new_key_is_followed_by_its_proof() {
    let origin = Origin::with_rules(RULES);
    let mut gate = gate();
    denied(&gate, &origin, "/private/a");
    let collector = Collector::new();
    let old = vkey(&gate);
    let from = collector.export_of(&gate, "one");
    collector.collect(&[&from], &["--key", &old], 0);
    let words = ["key", "rotate", "--reason", "yearly", "--by", "Ada"];
    gate.succeeds("audit", &words);
    let new = vkey(&gate);
    assert_ne!(old, new);
    // The old key signs no more, as after the time in which both do.
    gate.signal(Signal::TERM);
    gate.wait();
    let file = gate.setup.dir().join("crawlgate.log.key");
    let text = fs::read_to_string(&file).unwrap();
    let end = "-----END PRIVATE KEY-----\n";
    assert_eq!(text.matches(end).count(), 2);
    let first = text.split_inclusive(end).next().unwrap();
    fs::write(&file, first).unwrap();
    gate.start_again();
    denied(&gate, &origin, "/private/b");
    collector.export_of(&gate, "one");
    let said = collector.collect(&[&from], &[], 0);
    says!(said, "records filed");
    collector.setup.succeeds("audit", &["verify", "--all", "--log", "/"]);
    let (code, said, _) = collector.setup.run("audit", &["key", "--log", "/"]);
    assert_eq!((code, said.trim()), (Some(0), &*new));
    collector.setup.succeeds("store", &["check", "--log", "/"]);
    // Each of both keys names the log from now on, and a new collection begins with either.
    for key in [&old, &new] {
        let said = collector.collect(&[&from], &["--key", key], 0);
        says!(said, "nothing new");
        Collector::new().collect(&[&from], &["--key", key], 0);
    }
}

#[test]
fn a_faulty_export_leaves_its_copy_and_harms_no_other() {
    let origin = Origin::with_rules(RULES);
    let (one, two) = (gate(), gate());
    denied(&one, &origin, "/private/a");
    denied(&two, &origin, "/private/b");
    let collector = Collector::new();
    let from = [collector.export_of(&one, "one"), collector.export_of(&two, "two")];
    let from = from.each_ref().map(PathBuf::as_path);
    collector.collect(&from[..1], &["--trust-new"], 0);
    let before = collector.files();

    // An older carriage of the same export.
    let older = collector.export_of(&one, "older");
    denied(&one, &origin, "/private/c");
    collector.export_of(&one, "one");
    collector.collect(&from[..1], &[], 0);
    let said = collector.collect(&[&older], &[], 0);
    says!(said, "the export is older");

    // A part of the newest file, as if it were on its way.
    denied(&one, &origin, "/private/d");
    collector.export_of(&one, "one");
    let mut names: Vec<PathBuf> =
        fs::read_dir(from[0].join("entries")).unwrap().map(|file| file.unwrap().path()).collect();
    names.sort();
    let last = names.last().unwrap();
    let octets = fs::read(last).unwrap();
    fs::write(last, &octets[..octets.len() - 1]).unwrap();
    let copies = collector.files();
    assert_ne!(copies, before);
    let nowhere = collector.folder.path().join("nowhere");
    let said = collector.collect(&[from[0], &nowhere, from[1]], &["--trust-new"], 1);
    says!(said, "damaged block", "nowhere");
    assert!(said.contains("records filed"), "the others are: {said}");
    let now = collector.files();
    for file in &copies {
        assert!(now.contains(file), "{} has changed", file.0);
    }
    fs::write(last, octets).unwrap();
    collector.collect(&from, &[], 0);

    // The same name with another key.
    let strange = collector.folder.path().join("strange");
    fs::create_dir(&strange).unwrap();
    for name in ["entries", "objects", "robots", "checkpoints", "ground"] {
        fs::create_dir(strange.join(name)).unwrap();
    }
    let of = |folder: &Path| fs::read_to_string(folder.join("log.json")).unwrap();
    let head: serde_json::Value = serde_json::from_str(&of(from[0])).unwrap();
    let name = head["log"].as_str().unwrap();
    let other: serde_json::Value = serde_json::from_str(&of(from[1])).unwrap();
    fs::write(strange.join("log.json"), of(from[1]).replace(other["log"].as_str().unwrap(), name))
        .unwrap();
    let said = collector.collect(&[&strange], &["--trust-new"], 1);
    says!(said, "the id of the key must be");
    let another = CrawlgateProcess::with(|setup: &mut Setup| {
        setup.set("audit", "checkpoint_every", "\"1s\"");
        setup.set("audit", "log_name", &format!("{name:?}"));
    });
    denied(&another, &origin, "/private/e");
    let strange = collector.export_of(&another, "another");
    let copies = collector.files();
    let said = collector.collect(&[&strange], &["--trust-new"], 1);
    says!(said, "no known key has signed", &vkey(&one));
    let said = collector.collect(&[&strange], &["--key", &vkey(&another)], 1);
    says!(said, "a log keeps its key");
    assert_eq!(collector.files(), copies);
}

#[test]
fn a_collector_that_is_killed_goes_on() {
    let origin = Origin::with_rules(RULES);
    let gate = gate();
    for path in ["/private/a", "/private/b", "/private/c"] {
        denied(&gate, &origin, path);
    }
    let collector = Collector::new();
    let from = collector.export_of(&gate, "one");
    let said = collector.collect(&[&from], &["--trust-new"], 0);
    says!(said, "records filed");
    let whole = collector.setup.run("log", &["--log", "/", "--all", "--json"]);
    let again = Collector::new();
    let words = ["--from", from.to_str().unwrap(), "--trust-new"];
    let mut child = again.setup.command("collect").args(words).spawn().unwrap();
    let lock = again.folder.path().join("collection/collect.lock");
    wait_until("the collector to begin", || lock.exists() || child.try_wait().unwrap().is_some());
    let id = rustix::process::Pid::from_child(&child);
    // It may have ended by itself: then nothing is left to do.
    let _ = rustix::process::kill_process(id, Signal::KILL);
    child.wait().unwrap();
    again.collect(&[&from], &["--trust-new"], 0);
    assert_eq!(again.setup.run("log", &["--log", "/", "--all", "--json"]), whole);
    again.setup.succeeds("audit", &["verify", "--all", "--log", "/"]);
    again.setup.succeeds("store", &["check", "--log", "/"]);
}
