//! Copies of a store in use, and what a restore of one means.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;

use crate::support::{CrawlgateProcess, Origin, RULES, wait_until};

/// Ends the crawler, after a failure, too: the test would wait for it.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the number of decisions in the store of a file.
fn count(gate: &CrawlgateProcess, file: &str) -> u64 {
    let words = ["--store", file, "--format", "csv", "SELECT count(*) FROM decisions"];
    let said = gate.succeeds("sql", &words);
    said.lines().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_store_is_copied_whole_while_it_is_written() {
    let gate =
        CrawlgateProcess::with(|setup| setup.set("audit", "refusals_per_minute", "10000000"));
    let origin = Origin::with_rules(RULES);
    assert_eq!(gate.get(&origin.url("/private/first")).status, 403);
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = gate.connect();
            while !ends.load(Ordering::Relaxed) {
                assert_eq!(wire.get(&origin.url("/private/more")).status, 403);
            }
        });
        let _ends = AtTheEnd(&ends);
        let mut before = 0;
        for name in ["one.db", "two.db", "three.db"] {
            wait_until("more records", || count(&gate, "crawlgate.db") > before + 20);
            let said = gate.succeeds("store", &["backup", name]);
            says!(said, "crawlgate.log.key");
            let copied = count(&gate, name);
            assert!(copied > before, "{copied}");
            assert!(count(&gate, "crawlgate.db") >= copied);
            before = copied;
        }
    });
    let folder = gate.setup.dir();
    let (_, failed) = gate.ends(2, "store", &["backup", "one.db"]);
    says!(failed, "a file already");
    let names = fs::read_dir(folder).unwrap();
    let names: Vec<String> = names
        .map(|one| one.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("partial") || name.contains("three.db-"))
        .collect();
    assert_eq!(names, [""; 0]);

    // Each copy is a store in order, with its state file and the key beside it.
    for name in ["one.db", "two.db", "three.db"] {
        let place = folder.join(name).with_extension("d");
        fs::create_dir(&place).unwrap();
        let state = Path::new(name).with_extension("log.state");
        for (from, to) in [
            (Path::new(name), "crawlgate.db"),
            (&state, "crawlgate.log.state"),
            (Path::new("crawlgate.log.key"), "crawlgate.log.key"),
        ] {
            fs::copy(folder.join(from), place.join(to)).unwrap();
        }
        for (command, words) in [("store", ["check"].as_slice()), ("audit", &["verify", "--all"])] {
            let (code, said) = at(&gate, &place, command, words);
            assert_eq!(code, Some(0), "{name}: {said}");
        }
    }
}

/// Runs a command of crawlgate on the store in another directory.
fn at(
    gate: &CrawlgateProcess,
    place: &Path,
    command: &str,
    words: &[&str],
) -> (Option<i32>, String) {
    let mut command = gate.setup.command(command);
    let output = command.args(words).current_dir(place).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_restored_copy_goes_on_unless_it_lacks_signed_records() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    assert_eq!(gate.get(&origin.url("/private/first")).status, 403);
    wait_until("a record", || count(&gate, "crawlgate.db") == 1);
    gate.signal(Signal::TERM);
    gate.wait();
    let (code, _, failed) = gate.beside("store", &["backup", "copy.db"]);
    assert_eq!(code, Some(0), "{failed}");
    let store = gate.setup.dir().join("crawlgate.db");
    let copy = gate.setup.dir().join("copy.db");

    // Nothing came after the copy.
    fs::copy(&copy, &store).unwrap();
    gate.start_again();
    assert_eq!(count(&gate, "crawlgate.db"), 1);

    assert_eq!(gate.get(&origin.url("/private/second")).status, 403);
    wait_until("a record", || count(&gate, "crawlgate.db") == 2);
    gate.signal(Signal::TERM);
    gate.wait();
    fs::copy(&copy, &store).unwrap();
    let output = gate.setup.command("serve").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    says!(said, "missing", "bring back");
}
