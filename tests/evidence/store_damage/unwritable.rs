//! A store where nothing can be written: it is read, or the message says how, and a rebuild leaves it as it is.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::DECISIONS;
use super::place::no_panic;
use crate::support::{CrawlgateProcess, Origin, RULES};

/// Makes the file system `disk` read-only.
const READ_ONLY: &str = "mount -o remount,ro disk";

/// Fills the file system `disk` to its last octet.
const FULL: &str = "dd if=/dev/zero of=disk/filler bs=64k 2>/dev/null; dd if=/dev/zero of=disk/last bs=1 2>/dev/null";

/// Returns a gate that has filled a store in the directory `disk`, and has ended by `signal`. `None` if this machine allows
/// no mount.
fn ended(signal: Signal) -> Option<CrawlgateProcess> {
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    probe.stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        return None;
    }
    let mut gate =
        CrawlgateProcess::with(|setup| setup.set("store", "path", "\"disk/crawlgate.db\""));
    let origin = Origin::with_rules(RULES);
    for number in 0..DECISIONS {
        gate.answers(&origin.url(&format!("/private/{number}")), 403);
    }
    let count = ["--format", "csv", "SELECT count(*) FROM denials"];
    gate.beside_until("sql", &count, |said| said.contains(&DECISIONS.to_string()));
    gate.signal(signal);
    gate.wait();
    Some(gate)
}

/// Runs a command of crawlgate on a copy of the store in a separate file system, after `first`. Returns its exit code
/// and all its output, and that of `last` after it.
fn on_disk(gate: &CrawlgateProcess, first: &str, words: &[&str], last: &str) -> (i32, String) {
    let script = format!(
        "set -e; rm -rf plain; cp -a disk plain; mount -t tmpfs -o size=4m tmpfs disk; cp -a plain/. disk/; set +e
         {first}
         \"$0\" \"$@\"; code=$?
         {last}
         exit $code"
    );
    let inner = gate.setup.command(words[0]);
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .arg(inner.get_program())
        .args(inner.get_args())
        .args(&words[1..])
        .current_dir(gate.setup.dir())
        .output()
        .unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    no_panic(&said);
    (output.status.code().expect("it ended by itself"), said)
}

#[test]
fn an_intact_store_is_read_where_nothing_can_be_written() {
    let gate = or_skip!(ended(Signal::TERM));
    #[rustfmt::skip] // one row, one case
    let cases: [(&[&str], &str); 6] = [
        (&["log", "--limit", "1"], "/private/149"),
        (&["log", "--summary"], "150  "),
        (&["audit", "verify", "--all"], ""),
        (&["store", "check"], "in order"),
        (&["store", "size"], "decisions  "),
        (&["sql", "--format", "csv", "SELECT count(*) FROM denials"], "150"),
    ];
    for place in [READ_ONLY, FULL] {
        for (words, want) in cases {
            let (code, said) = on_disk(&gate, place, words, "");
            assert_eq!(code, 0, "{place}: {words:?}: {said}");
            assert!(said.contains(want), "{place}: {words:?}: {said}");
        }
    }
    // A copy goes elsewhere.
    let (code, said) = on_disk(&gate, READ_ONLY, &["store", "backup", "copy.db"], "");
    assert_eq!(code, 0, "{said}");
    assert!(gate.setup.dir().join("copy.db").exists());
}

#[test]
fn records_in_the_log_of_a_killed_process_are_read_or_missed_aloud() {
    let gate = or_skip!(ended(Signal::KILL));
    let log = gate.setup.dir().join("disk/crawlgate.db-wal");
    assert!(fs::metadata(&log).unwrap().len() > 0);
    for (first, place) in [
        ("", READ_ONLY),
        ("rm disk/crawlgate.db-shm", READ_ONLY),
        ("rm disk/crawlgate.db-shm", FULL),
    ] {
        let (code, said) =
            on_disk(&gate, &format!("{first}\n{place}"), &["log", "--limit", "1"], "");
        match code {
            0 => assert!(said.contains("/private/149"), "{first}, {place}: {said}"),
            2 => {
                says!(said, "crawlgate.db-wal", "copy both files"; "{first}, {place}");
            }
            code => panic!("{first}, {place}: {code}: {said}"),
        }
    }
}

#[test]
fn a_rebuild_without_room_says_so_and_leaves_the_store_as_it_is() {
    let gate = or_skip!(ended(Signal::TERM));
    let sum = "sha256sum < disk/crawlgate.db";
    for (room, filler) in
        [("none", FULL.to_owned()), ("some", room(200)), ("for the tables", room(380))]
    {
        let (code, said) = on_disk(
            &gate,
            &format!("{sum}\n{filler}"),
            &["store", "rebuild"],
            &format!("{sum}\nls disk"),
        );
        assert_eq!(code, 2, "{room}: {said}");
        says!(said, "no room is left on the disk"; "{room}");
        lacks!(said, "saved"; "{room}");
        let sums: Vec<&str> = said.lines().filter(|line| line.ends_with("  -")).collect();
        assert_eq!(sums.len(), 2, "{room}: {said}");
        assert_eq!(sums[0], sums[1], "{room}");
        assert!(said.contains("the store is as it was"), "{room}: {said}");
        let left = said.lines().filter(|line| line.starts_with("crawlgate.db."));
        assert_eq!(left.count(), 0, "{room}: {said}");
    }
    let (code, said) = on_disk(&gate, "", &["store", "rebuild"], "");
    assert_eq!(code, 0, "{said}");
}

/// Fills the file system `disk`, and leaves so many KiB free.
fn room(kib: u32) -> String {
    format!("dd if=/dev/zero of=disk/keep bs=1k count={kib} 2>/dev/null\n{FULL}\nrm disk/keep")
}
