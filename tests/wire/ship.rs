//! The log in another place, continuously: a directory, and a service behind nginx. Page: `docs/copies.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crawlgate_evidence::export::{Exported, Faulty};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::admin_gate::AdminGate;
use crate::support::collector::{Collector, deny};
use crate::support::peer::{Peer, program};
use crate::support::{CrawlgateProcess, Origin, RULES, Setup, eventually, wait_until};

/// The message of a process that ends before all is shipped.
const LATE: &str = "the last records are not shipped yet";

pub(crate) fn shipping(setup: &mut Setup, name: &str, to: &str) {
    setup.set("audit", "checkpoint_every", "\"1s\"");
    setup.set("audit", "log_name", &format!("\"logs.example/{name}\""));
    setup.set("ship", "to", &format!("{to:?}"));
    setup.set("ship", "every", "\"10ms\"");
}

/// Returns the size of the newest checkpoint in a directory, 0 without one.
fn shipped(there: &Path) -> u64 {
    let export = Exported::open(there).ok();
    let newest = export.and_then(|export| export.checkpoints.last().copied());
    newest.unwrap_or(0)
}

/// Returns the names of all files.
fn names(there: &Path) -> BTreeSet<PathBuf> {
    let places = ["", "entries", "objects", "robots", "checkpoints"];
    let files = places
        .into_iter()
        .filter_map(|place| fs::read_dir(there.join(place)).ok())
        .flatten()
        .filter_map(|file| Some(file.ok()?.path()));
    files.filter(|path| path.is_file()).collect()
}

/// Returns the entries up to a size, and the digests of the bodies.
fn content(there: &Path, size: u64) -> (Vec<Vec<u8>>, BTreeSet<String>) {
    let export = Exported::open(there).unwrap();
    let (mut at, mut entries) = (0, Vec::new());
    while at < size {
        let file = export.block_with(at).unwrap_or_else(|| panic!("no {at}"));
        let read = export.entries::<Faulty>(file, |index, entry| {
            if (at..size).contains(&index) {
                entries.push(entry.to_vec());
            }
            Ok(())
        });
        read.unwrap();
        at = file.1;
    }
    let bodies = names(there).into_iter();
    let bodies = bodies.filter(|path| path.extension().is_some_and(|end| end == "zst"));
    let bodies = bodies.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
    (entries, bodies.collect())
}

/// Ends a gate in order, and compares the shipped files with an export by hand.
#[track_caller]
pub(crate) fn equals_an_export_by_hand(gate: &mut CrawlgateProcess, there: &Path) {
    // The time for the last pass is bounded, and a busy machine may use it up: the next process ships the rest.
    let is_whole = (0..20).any(|_| {
        gate.signal(Signal::TERM);
        gate.wait();
        let is_late = gate.said().contains(LATE);
        if is_late {
            gate.start_again();
        }
        !is_late
    });
    assert!(is_whole, "{}", gate.said());
    let by_hand = gate.setup.dir().join("by-hand");
    let words = ["export", "--to", by_hand.to_str().unwrap()];
    gate.setup.succeeds("audit", &words);
    let size = shipped(&by_hand);
    assert_eq!(shipped(there), size, "up to the last checkpoint");
    let (ours, theirs) = (content(there, size), content(&by_hand, size));
    assert_eq!(ours.0.len() as u64, size);
    assert!(ours == theirs, "the same entries and bodies");
}

#[test]
fn kills_in_the_middle_leave_a_log_that_is_continued() {
    const ROUNDS: usize = 10;
    let origins: Vec<Origin> =
        (0..ROUNDS).map(|n| Origin::with_rules(&format!("{RULES}\nDisallow: /{n}\n"))).collect();
    let mut gate = CrawlgateProcess::with(|setup| {
        let there = setup.dir().join("there");
        fs::create_dir(&there).unwrap();
        shipping(setup, "killed", there.to_str().unwrap());
    });
    let there = gate.setup.dir().join("there");
    for (round, origin) in origins.iter().enumerate() {
        let before = names(&there).len();
        for n in 0..20 {
            gate.denies(&origin.url(&format!("/private/{round}/{n}")));
        }
        // Each round has a text, its state, entries and a checkpoint to ship, at least.
        wait_until("more files", || names(&there).len() >= before + round % 5);
        gate.restart(Signal::KILL);
    }
    for leftover in names(&there) {
        let name = leftover.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.starts_with(".crawlgate-") || name.ends_with(".partial"), "{name}");
    }
    equals_an_export_by_hand(&mut gate, &there);
}

#[test]
fn a_place_that_is_away_holds_no_request_up_and_loses_nothing() {
    let origin = Origin::with_rules(RULES);
    let mut gate = AdminGate::with(|setup| {
        let there = setup.dir().join("there");
        shipping(setup, "away", there.to_str().unwrap());
    });
    let there = gate.setup.dir().join("there");
    deny(&gate, &origin, &["/private/a", "/private/b"]);
    let told = "the decision log is not shipped";
    wait_until("the failure to be told", || gate.said().contains(told));
    let status = gate.api("/status")["ship"].clone();
    assert!(status["pending"].as_u64().unwrap() > 0, "{status}");
    let failure = status["failure"].as_str().unwrap();
    assert!(failure.contains("there is no such directory"), "{status}");
    assert_eq!(status["shipped_at"], Value::Null);
    says!(gate.get("/metrics").text(), "\ncrawlgate_ship_failing 1\n");
    let said = gate.succeeds("store", &["size"]);
    assert!(said.ends_with("shipped    up to record 0\n"), "{said}");
    assert!(!there.exists(), "a directory that may be a mount is not made");
    fs::create_dir(&there).unwrap();
    wait_until("the log to be shipped", || shipped(&there) > 0);
    wait_until("the end of the failure to be told", || {
        gate.said().contains("the decision log is shipped again")
    });
    assert_eq!(gate.said().matches(told).count(), 1, "once");
    let status = gate.api("/status")["ship"].clone();
    assert_eq!(status["failure"], Value::Null);
    assert!(status["shipped_size"].as_u64().unwrap() > 0, "{status}");
    assert!(status["shipped_at"].is_string(), "{status}");
    assert!(status["passed_at"].is_string(), "{status}");
    let last = status["last_failure"].as_str().unwrap();
    assert!(last.contains("there is no such directory"), "{status}");
    assert!(status["last_failure_at"].is_string(), "{status}");
    let overview = gate.get("/").text();
    says!(
        overview,
        "Shipping of the decision log",
        there.to_str().unwrap(),
        "is shipped",
        "there is no such directory"
    );
    // The place goes in the middle, and comes back.
    let away = gate.setup.dir().join("away");
    fs::rename(&there, &away).unwrap();
    deny(&gate, &origin, &["/private/c"]);
    wait_until("the second failure to be told", || gate.said().matches(told).count() == 2);
    fs::rename(&away, &there).unwrap();
    equals_an_export_by_hand(&mut gate.process, &there);
}

#[test]
fn a_command_ships_its_records_before_it_ends() {
    let origin = Origin::with_rules(RULES);
    let mut setup = Setup::new();
    let there = setup.dir().join("there");
    fs::create_dir(&there).unwrap();
    shipping(&mut setup, "run", there.to_str().unwrap());
    let url = origin.url("/private/a");
    let words = ["--", "curl", "-sS", "-o", "/dev/null", &url];
    eventually("a whole last pass", || {
        let (_, error) = setup.ends(0, "run", &words);
        (!error.contains(LATE)).then_some(())
    });
    let size = shipped(&there);
    let (entries, bodies) = content(&there, size);
    assert!(entries.iter().any(|entry| {
        let path = b"/private/a";
        entry.windows(path.len()).any(|part| part == path)
    }));
    assert!(!bodies.is_empty());
}

#[test]
fn a_command_without_the_key_lifts_no_hold_and_the_operator_can() {
    let mut setup = Setup::new();
    let there = setup.dir().join("there");
    fs::create_dir(&there).unwrap();
    shipping(&mut setup, "held", there.to_str().unwrap());
    let words = ["--", "true"];
    setup.succeeds("run", &words);
    setup.set("ship", "to", "\"\"");
    let size = |setup: &Setup| setup.run("store", &["size"]).1;
    assert!(size(&setup).contains("shipped    up to record"));
    let (_, error) = setup.ends(0, "run", &words);
    says!(error, "`crawlgate store release` lets go of it");
    assert!(size(&setup).contains("shipped    up to record"));
    let said = setup.succeeds("store", &["release"]);
    assert!(said.starts_with("released: "), "{said}");
    assert!(!size(&setup).contains("shipped"));
    let (_, said, _) = setup.run("store", &["release"]);
    assert!(said.starts_with("nothing to release"), "{said}");
}

/// The set-up of the documentation, with what a test needs to run nginx anywhere.
fn nginx_for(port: u16, dir: &Path, tokens: &BTreeMap<&str, &str>) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/copies.md");
    let docs = fs::read_to_string(docs).unwrap();
    let (_, recipe) = docs.split_once("```nginx\n").unwrap();
    let (recipe, _) = recipe.split_once("```").unwrap();
    let dir = dir.display();
    let mut lines = String::new();
    for line in recipe.lines() {
        let word = line.trim_start();
        if word.starts_with("ssl_") {
            continue;
        }
        if word.starts_with("\"~^Bearer") {
            for (name, token) in tokens {
                lines += &format!("    \"~^Bearer {token} /ship/logs\\.example%2F{name}/\" 1;\n");
            }
            continue;
        }
        let line = line.replace("listen 443 ssl;", &format!("listen 127.0.0.1:{port};"));
        lines += &line.replace("/srv", &dir.to_string());
        lines.push('\n');
    }
    format!(
        "daemon off;\nmaster_process off;\npid {dir}/nginx.pid;\nerror_log stderr warn;\nevents {{}}\nhttp {{\n\
         access_log off;\nproxy_temp_path {dir}/proxy;\nfastcgi_temp_path {dir}/fastcgi;\n\
         uwsgi_temp_path {dir}/uwsgi;\nscgi_temp_path {dir}/scgi;\n{lines}}}\n"
    )
}

#[test]
fn three_gates_ship_to_one_service_and_the_collection_has_the_sum_of_their_stores() {
    let nginx = or_skip!(program("nginx"));
    let tokens = BTreeMap::from([("a", "t0ken-a"), ("b", "t0ken-b"), ("c", "t0ken-c")]);
    let peer = Peer::start(&nginx, &["-c"], |port, dir| {
        fs::create_dir(dir.join("ship")).unwrap();
        nginx_for(port, dir, &tokens)
    });
    let to = format!("http://127.0.0.1:{}/ship", peer.port());
    let start = |name: &str, token: &str| {
        CrawlgateProcess::with(|setup| {
            shipping(setup, name, &to);
            fs::write(setup.dir().join("ship.token"), format!("{token}\n")).unwrap();
            setup.set("ship", "token_file", "\"ship.token\"");
        })
    };
    let origin = Origin::with_rules(RULES);
    let mut gates: Vec<CrawlgateProcess> =
        tokens.iter().map(|(name, token)| start(name, token)).collect();
    let there = |name: &str| peer.dir().join("ship").join(format!("logs.example%2F{name}"));
    for (number, gate) in gates.iter().enumerate() {
        for n in 0..=number {
            gate.denies(&origin.url(&format!("/private/{number}/{n}")));
        }
    }
    // A token is for only one log.
    let mut stranger = start("a-not", "t0ken-a");
    stranger.denies(&origin.url("/private/stranger"));
    eventually("the refusal to be told", || {
        let said = stranger.said();
        (said.contains("it refuses the token (403") && said.contains("[ship] token_file"))
            .then_some(())
    });
    stranger.signal(Signal::TERM);
    stranger.wait();
    assert!(!there("a-not").exists());

    wait_until("each log to be shipped", || {
        ["a", "b", "c"].iter().all(|name| shipped(&there(name)) > 0)
    });
    // One of them is killed, and starts again.
    gates[1].restart(Signal::KILL);
    gates[1].denies(&origin.url("/private/again"));
    for (gate, name) in gates.iter_mut().zip(["a", "b", "c"]) {
        equals_an_export_by_hand(gate, &there(name));
    }
    let collector = Collector::new();
    let from = ["a", "b", "c"].map(there);
    let from: Vec<&Path> = from.iter().map(PathBuf::as_path).collect();
    collector.collect(&from, &["--trust-new"], 0);
    let all = |setup: &Setup, words: &[&str]| {
        let words = [words, &["--all", "--format", "jsonl"]].concat();
        let said = setup.succeeds("log", &words);
        let ids = said.lines().map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["id"].as_str().unwrap().to_owned()
        });
        ids.collect::<BTreeSet<_>>()
    };
    // The collector's configuration names a store that is not there.
    let collected =
        all(&collector.setup, &["--log", "logs.example/a,logs.example/b,logs.example/c"]);
    let stored: BTreeSet<String> = gates.iter().flat_map(|gate| all(&gate.setup, &[])).collect();
    assert_eq!(collected, stored);
    assert_eq!(stored.len(), 1 + 2 + 3 + 1);
    let words = ["verify", "--all", "--log", "logs.example/a,logs.example/b,logs.example/c"];
    collector.setup.succeeds("audit", &words);

    // A checkpoint that is lost there: what the store still has is shipped again, and no file is put over another one.
    let lost = there("a");
    fs::remove_dir_all(lost.join("checkpoints")).unwrap();
    let entries = names(&lost);
    let file = entries.iter().find(|path| path.extension().is_some_and(|end| end == "cgb"));
    let file = file.unwrap().clone();
    fs::remove_file(&file).unwrap();
    gates[0].start_again();
    wait_until("the log to be shipped again", || shipped(&lost) > 0);
    fs::remove_dir_all(gates[0].setup.dir().join("by-hand")).unwrap();
    equals_an_export_by_hand(&mut gates[0], &lost);
}
