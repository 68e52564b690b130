//! Damage of every kind to a store, and the way out in the program's messages, followed to its end.
//!
//! After any damage: no panic, no silent new start, no all-clear from `store check`, and the advice in the messages
//! leads to a gate that serves again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and measures real time"
)]

mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use support::{Gate, Origin, RULES, Setup};

/// Denials in the store before it is damaged.
const DECISIONS: usize = 150;

/// An intact store that a gate has filled: the file, and the key that sealed it.
struct Whole {
    store: Vec<u8>,
    key: Vec<u8>,
    page: usize,
}

impl Whole {
    fn new() -> Self {
        let origin = Origin::with_rules(RULES);
        let mut gate = Gate::start();
        for number in 0..DECISIONS {
            let answer = gate.get(&origin.url(&format!("/private/{number}")));
            assert_eq!(answer.status, 403, "{answer:?}");
        }
        gate.wait_records(DECISIONS);
        gate.signal(Signal::TERM);
        assert!(gate.wait().success());
        let store = fs::read(gate.setup.dir().join("crawlgate.db")).unwrap();
        let key = fs::read(gate.setup.dir().join("crawlgate.seal.key")).unwrap();
        let page = usize::from(u16::from_be_bytes([store[16], store[17]]));
        Self { store, key, page }
    }

    fn pages(&self) -> usize {
        self.store.len() / self.page
    }

    /// Returns a directory with a copy of the store.
    fn copy(&self) -> Place {
        let setup = Setup::new();
        let path = setup.dir().join("crawlgate.db");
        fs::write(&path, &self.store).unwrap();
        let key = setup.dir().join("crawlgate.seal.key");
        fs::write(&key, &self.key).unwrap();
        // The gate refuses a key that other users can read.
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        Place { setup, path }
    }
}

struct Place {
    setup: Setup,
    path: PathBuf,
}

/// The outcome of `serve`.
#[derive(Debug, PartialEq)]
enum Serve {
    Listened,
    Refused(String),
}

impl Place {
    /// Starts the gate, and ends it as soon as it listens.
    fn serve(&self) -> Serve {
        let mut child = self
            .setup
            .command("serve")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        for line in BufReader::new(child.stderr.take().unwrap()).lines() {
            let line = line.unwrap();
            said = said + &line + "\n";
            if line.contains("listening on") {
                let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
                kill_process(id, Signal::TERM).unwrap();
            }
        }
        let status = child.wait().unwrap();
        no_panic(&said);
        if said.contains("listening on") {
            return Serve::Listened;
        }
        assert_eq!(status.code(), Some(2), "{said}");
        Serve::Refused(said)
    }

    /// Runs `crawlgate store WORD`: returns its exit code and all its output.
    fn store(&self, word: &str) -> (i32, String) {
        let output = self.setup.command("store").arg(word).output().unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        no_panic(&said);
        (output.status.code().expect("it ended by itself"), said)
    }

    /// Moves away the files that a message names, and nothing else.
    fn move_away(&self, said: &str) {
        let (_, named) = said
            .split_once("move ")
            .unwrap_or_else(|| panic!("no way out: {said}"));
        let key = self.path.with_extension("seal.key");
        let log = self.path.with_extension("db-wal");
        for (file, shorter) in [(key, "the key away"), (log, "the log away")] {
            if named.contains(file.to_str().unwrap()) || named.starts_with(shorter) {
                fs::rename(&file, file.with_extension("moved")).unwrap();
            }
        }
        if named.starts_with("it ") {
            fs::rename(&self.path, self.path.with_extension("moved-db")).unwrap();
        }
    }
}

fn no_panic(said: &str) {
    assert!(!said.contains("panicked"), "{said}");
}

/// Returns the number of decisions that `store rebuild` reports as saved.
fn saved(said: &str) -> usize {
    let rest = said.split_once("decision: ").unwrap().1;
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// The result of the way out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// A rebuild saves every decision.
    SavesAll,
    /// A rebuild saves some decisions.
    SavesSome,
    /// A rebuild saves something, though no decision.
    SavesNone,
    /// Nothing can be saved: the old files must be moved away.
    Anew,
    /// The gate serves as before: nothing that counts was damaged.
    Unharmed,
}

/// Follows the messages until a gate serves; returns the way that led there.
fn follow(place: &Place, name: &str) -> Way {
    let (code, checked) = place.store("check");
    let serve = place.serve();
    match &serve {
        Serve::Listened if code == 0 => return Way::Unharmed,
        Serve::Listened => assert_eq!(code, 1, "{name}: {checked}"),
        Serve::Refused(said) => {
            assert_ne!(code, 0, "{name}: {checked}\n{said}");
            let way_out = said.contains("store rebuild") || said.contains("move ");
            assert!(way_out, "{name}: {said}");
        }
    }
    let before = fs::read(&place.path).unwrap_or_default();
    let (code, rebuilt) = place.store("rebuild");
    let way = if code == 0 {
        assert!(rebuilt.contains("audit verify --all"), "{name}: {rebuilt}");
        let (code, checked) = place.store("check");
        assert_eq!(code, 0, "{name}: the repaired store is in order: {checked}");
        match saved(&rebuilt) {
            DECISIONS => Way::SavesAll,
            0 => Way::SavesNone,
            _ => Way::SavesSome,
        }
    } else {
        assert!(!rebuilt.contains("store rebuild"), "circular: {rebuilt}");
        assert_eq!(fs::read(&place.path).unwrap_or_default(), before, "{name}");
        place.move_away(&rebuilt);
        Way::Anew
    };
    let mut serve = place.serve();
    if let (Way::Anew, Serve::Refused(said)) = (way, &serve) {
        // The gate may name a second file, such as the key, once the first one is gone.
        place.move_away(said);
        serve = place.serve();
    }
    assert_eq!(serve, Serve::Listened, "{name}: {way:?}, {rebuilt}");
    way
}

type Damage = fn(&Whole, &Path);

fn overwrite(path: &Path, at: usize, octets: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(octets, at as u64).unwrap();
}

fn cut(path: &Path, size: usize) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(size as u64).unwrap();
}

#[test]
fn there_is_a_way_out_of_any_damage() {
    let whole = Whole::new();
    assert!(whole.pages() > 12, "{} pages", whole.pages());
    let cases: [(&str, Damage, Way); 17] = [
        ("none", |_, _| (), Way::Unharmed),
        (
            "cut off by one page",
            |whole, path| cut(path, whole.store.len() - whole.page),
            Way::SavesSome,
        ),
        (
            "cut off in the middle of a page",
            |whole, path| cut(path, whole.store.len() - whole.page / 2),
            Way::SavesSome,
        ),
        (
            "cut off by a quarter",
            |whole, path| cut(path, whole.pages() * 3 / 4 * whole.page),
            Way::SavesSome,
        ),
        (
            "cut off behind its first page",
            |whole, path| cut(path, whole.page),
            Way::Anew,
        ),
        (
            "cut off within its first page",
            |whole, path| cut(path, whole.page / 2),
            Way::Anew,
        ),
        (
            "cut off within its header",
            |_, path| cut(path, 50),
            Way::Anew,
        ),
        ("emptied", |_, path| cut(path, 0), Way::Anew),
        (
            "an empty file and a log of garbage",
            |_, path| {
                cut(path, 0);
                fs::write(path.with_extension("db-wal"), [0x5a; 9_000]).unwrap();
            },
            Way::Anew,
        ),
        (
            "a log of garbage",
            |_, path| fs::write(path.with_extension("db-wal"), [0x5a; 9_000]).unwrap(),
            Way::Unharmed,
        ),
        (
            "a header of garbage",
            |_, path| overwrite(path, 0, &[0x5a; 100]),
            Way::SavesAll,
        ),
        (
            "a first page of zeros",
            |whole, path| overwrite(path, 0, &vec![0; whole.page]),
            Way::SavesAll,
        ),
        (
            "garbage from the first octet to the last",
            |whole, path| overwrite(path, 0, &vec![0x5a; whole.store.len()]),
            Way::Anew,
        ),
        (
            "zeros from the first octet to the last",
            |whole, path| overwrite(path, 0, &vec![0; whole.store.len()]),
            Way::Anew,
        ),
        (
            "garbage in pages 3 to 12",
            |whole, path| overwrite(path, 2 * whole.page, &vec![0x5a; 10 * whole.page]),
            Way::SavesAll,
        ),
        (
            "a directory in its place",
            |_, path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
            Way::Anew,
        ),
        (
            "gone",
            |_, path| fs::rename(path, path.with_extension("lost")).unwrap(),
            Way::Anew,
        ),
    ];
    for (name, damage, want) in cases {
        let place = whole.copy();
        damage(&whole, &place.path);
        assert_eq!(follow(&place, name), want, "{name}");
    }
}

#[test]
fn there_is_a_way_out_of_damage_to_any_page() {
    let whole = Whole::new();
    let mut lost_nothing = 0;
    for page in 0..whole.pages() {
        let place = whole.copy();
        overwrite(&place.path, page * whole.page, &vec![0; whole.page]);
        let name = format!("page {}", page + 1);
        let way = follow(&place, &name);
        assert_ne!(way, Way::Anew, "{name}");
        lost_nothing += usize::from(way == Way::SavesAll);
    }
    assert!(lost_nothing > 10, "{lost_nothing}: all but the decisions'");
}

#[test]
fn there_is_a_way_out_of_damage_to_any_field_of_the_header() {
    let whole = Whole::new();
    for (at, octets) in (0..100)
        .step_by(4)
        .flat_map(|at| [(at, [0; 4]), (at, [0x5a; 4])])
    {
        let place = whole.copy();
        overwrite(&place.path, at, &octets);
        let name = format!("header, from {at}: {octets:?}");
        let way = follow(&place, &name);
        assert!(
            matches!(way, Way::Unharmed | Way::SavesAll),
            "{name}: {way:?}"
        );
    }
}

#[test]
fn a_lost_robots_txt_is_reported_for_every_record_that_needs_it() {
    let whole = Whole::new();
    let cases = [
        (
            "decisions alone",
            "DELETE FROM origin; DELETE FROM fetch; DELETE FROM snapshot",
            "decision: 150 rest on a robots.txt that is not there, the first of them is decision 1\n",
        ),
        (
            "a fetch, too",
            "UPDATE origin SET sha256 = NULL; DELETE FROM snapshot",
            "fetch: 1 have got a robots.txt that is not there\n",
        ),
    ];
    for (name, change, want) in cases {
        let place = whole.copy();
        let shell = rusqlite::Connection::open(&place.path).unwrap();
        shell.pragma_update(None, "foreign_keys", false).unwrap();
        shell.execute_batch(change).unwrap();
        drop(shell);
        let (code, said) = place.store("check");
        assert_eq!(code, 1, "{name}: {said}");
        assert!(said.contains(want), "{name}: {said}");
    }
}

#[test]
fn a_damaged_override_names_its_way_out_and_that_leads_there() {
    let whole = Whole::new();
    let place = whole.copy();
    let run = |words: &[&str]| {
        let (word, words) = words.split_first().unwrap();
        let output = place.setup.command(word).args(words).output().unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        no_panic(&said);
        (output.status.code(), said)
    };
    let add = "override add https://site.example /private deny --until 30d --by Ada --reason asked";
    let add: Vec<&str> = add.split(' ').collect();
    let (code, said) = run(&add);
    assert_eq!(code, Some(0), "{said}");
    let shell = rusqlite::Connection::open(&place.path).unwrap();
    shell
        .execute("UPDATE override SET until = until - 4096", [])
        .unwrap();
    drop(shell);
    let Serve::Refused(said) = place.serve() else {
        panic!("a denial may be lost")
    };
    let way_out = "crawlgate override remove 1 --by NAME";
    assert!(said.contains(way_out), "{said}");
    let (code, said) = place.store("check");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(way_out), "{said}");
    let (code, said) = run(&["override", "remove", "1", "--by", "Ada"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = place.store("check");
    assert_eq!(code, 0, "{said}");
    assert_eq!(place.serve(), Serve::Listened);
}

/// A store in which one fact is damaged, and the expected outcome.
struct Fact {
    name: &'static str,
    damage: fn(&Place),
    /// The words of `store check`, which never reports an intact store.
    check: &'static str,
    /// The words with which `serve` refuses to start before any repair, if it does.
    refused: Option<&'static str>,
    then: Then,
}

/// The result of the way out.
enum Then {
    /// `store rebuild` prints these words and saves this many decisions and overrides; then the store is in order.
    Rebuilt(&'static [&'static str], usize, usize),
    /// A rebuild leaves the store as it is, and `store check` says the same, without advising a rebuild.
    Stays,
    /// A rebuild refuses with these words, and the gate serves once the named file is moved away.
    MoveAway(&'static str, &'static str),
}

fn sql(place: &Place, text: &str) {
    let shell = rusqlite::Connection::open(&place.path).unwrap();
    shell.pragma_update(None, "foreign_keys", false).unwrap();
    shell.execute_batch(text).unwrap();
}

#[test]
fn a_damaged_fact_is_named_and_nothing_else_is_lost() {
    let whole = {
        let whole = Whole::new();
        let place = whole.copy();
        for pattern in ["/one", "/two"] {
            let words = ["add", "https://site.example", pattern, "deny"];
            let by = ["--until", "30d", "--by", "Ada", "--reason", "asked"];
            let mut command = place.setup.command("override");
            let output = command.args(words).args(by).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        Whole {
            store: fs::read(&place.path).unwrap(),
            ..whole
        }
    };
    let (all, last) = (DECISIONS, DECISIONS);
    let is_newer = "its schema is 6, but its tables are those of 5";
    let is_older = "its schema is 3, but its tables are those of 5";
    let begins = "the beginning of the file is damaged";
    let facts = [
        Fact {
            name: "a seal that cannot be read",
            damage: |place| sql(place, "UPDATE seal SET hash = x'00'"),
            check: "seal: the one of decision 150: the column hash",
            refused: None,
            then: Then::Rebuilt(&["seal: 0 saved, 1 lost", "seal of decision 150"], all, 2),
        },
        Fact {
            name: "a seal with another signature",
            damage: |place| sql(place, "UPDATE seal SET signature = zeroblob(64)"),
            check: "seal: the one of decision 150 is not genuine",
            refused: None,
            then: Then::Rebuilt(&["seal of decision 150: it was damaged"], all, 2),
        },
        Fact {
            name: "a link that cannot be read",
            damage: |place| sql(place, "UPDATE decision SET hash = x'00' WHERE seq = 7"),
            check: "decision 7: its link is damaged; the chain proves what it was\n",
            refused: None,
            then: Then::Rebuilt(&["decision 7: its link was damaged"], all, 2),
        },
        Fact {
            name: "another link",
            damage: |place| {
                sql(
                    place,
                    "UPDATE decision SET hash = zeroblob(32) WHERE seq = 7",
                );
            },
            check: "decision 7: its link is damaged; the chain proves what it was\n",
            refused: None,
            then: Then::Rebuilt(&["decision 7: its link was damaged"], all, 2),
        },
        Fact {
            name: "the last link, which a seal proves",
            damage: |place| sql(place, "UPDATE decision SET hash = x'' WHERE seq = 150"),
            check: "decision 150: its link is damaged; the chain proves what it was\n",
            refused: Some("a row holds what was never written there"),
            then: Then::Rebuilt(&["decision 150: its link was damaged"], all, 2),
        },
        Fact {
            name: "the last link, which nothing proves",
            damage: |place| {
                sql(
                    place,
                    "UPDATE decision SET hash = x'' WHERE seq = 150; DELETE FROM seal",
                );
            },
            check: "decision 150: its link cannot be read",
            refused: Some("a row holds what was never written there"),
            then: Then::Rebuilt(
                &[
                    "decision: 149 saved, 1 lost",
                    "decision 150: its link cannot be read",
                ],
                last - 1,
                2,
            ),
        },
        Fact {
            name: "another record",
            damage: |place| {
                let text =
                    "UPDATE decision SET record = replace(record, 'deny', 'allow') WHERE seq = 7";
                sql(place, text);
            },
            check: "decision 7: it is not what the chain says it was\n",
            refused: None,
            then: Then::Stays,
        },
        Fact {
            name: "a version that is higher",
            damage: |place| sql(place, "PRAGMA user_version = 6"),
            check: begins,
            refused: Some(is_newer),
            then: Then::Rebuilt(&[], all, 2),
        },
        Fact {
            name: "a version that is lower",
            damage: |place| sql(place, "PRAGMA user_version = 3"),
            check: begins,
            refused: Some(is_older),
            then: Then::Rebuilt(&[], all, 2),
        },
        Fact {
            name: "a version below zero",
            damage: |place| sql(place, "PRAGMA user_version = -1"),
            check: begins,
            refused: Some("store rebuild"),
            then: Then::Rebuilt(&[], all, 2),
        },
        Fact {
            name: "a newer store",
            damage: |place| sql(place, "CREATE TABLE later (one); PRAGMA user_version = 6"),
            check: "a newer crawlgate has written the store",
            refused: Some("run that version, or name another file"),
            then: Then::MoveAway("run that version, or name another file", "db"),
        },
        Fact {
            name: "junk, and no key",
            damage: |place| {
                fs::remove_file(place.path.with_extension("seal.key")).unwrap();
                fs::write(&place.path, "junk ".repeat(4_000)).unwrap();
            },
            check: "file is not a database",
            refused: Some("this is no store of crawlgate's"),
            then: Then::MoveAway("move it away to begin anew", "db"),
        },
        Fact {
            name: "another program's database",
            damage: |place| {
                fs::remove_file(place.path.with_extension("seal.key")).unwrap();
                fs::remove_file(&place.path).unwrap();
                sql(place, "CREATE TABLE theirs (one)");
            },
            check: "another program's database; name another file",
            refused: Some("another program's database; name another file"),
            then: Then::MoveAway("another program's database; name another file", "db"),
        },
        Fact {
            name: "a lost key and a beginning of garbage",
            damage: |place| {
                fs::remove_file(place.path.with_extension("seal.key")).unwrap();
                overwrite(&place.path, 0, &[0x5a; 100]);
            },
            check: "file is not a database",
            refused: Some("store rebuild"),
            then: Then::Rebuilt(&[], all, 2),
        },
        Fact {
            name: "a directory in place of the log",
            damage: |place| fs::create_dir(place.path.with_extension("db-wal")).unwrap(),
            check: "crawlgate.db-wal: this is a directory",
            refused: Some("crawlgate.db-wal: this is a directory"),
            then: Then::MoveAway("move it away", "db-wal"),
        },
        Fact {
            name: "an override that says something else",
            damage: |place| {
                sql(
                    place,
                    "UPDATE override SET until = until - 9 WHERE number = 2",
                );
            },
            check: "override 2: it is not what was written",
            refused: Some("override 2 is not what was written"),
            then: Then::Rebuilt(
                &[
                    "override: 1 saved, 1 lost",
                    "override 2: it was damaged, and read deny https://site.example /two, by Ada",
                ],
                all,
                1,
            ),
        },
        Fact {
            name: "overrides that cannot be read",
            damage: |place| {
                let shell = rusqlite::Connection::open(&place.path).unwrap();
                let text = "SELECT rootpage FROM sqlite_schema WHERE name = 'override'";
                let root: usize = shell
                    .query_row(text, [], |row| row.get::<_, i64>(0))
                    .unwrap()
                    .try_into()
                    .unwrap();
                drop(shell);
                overwrite(&place.path, (root - 1) * 8_192, &[0; 8_192]);
            },
            check: "malformed",
            refused: Some("malformed"),
            then: Then::Rebuilt(
                &[
                    "override 1: nothing of it can be read",
                    "override 2: nothing of it",
                ],
                all,
                0,
            ),
        },
        Fact {
            name: "other settings",
            damage: |place| sql(place, "UPDATE policy SET text = text || ' '"),
            check: "policy: the settings ",
            refused: None,
            then: Then::Rebuilt(
                &["policy: 0 saved, 1 lost", "not what their digest names"],
                all,
                2,
            ),
        },
    ];
    for fact in facts {
        let place = whole.copy();
        (fact.damage)(&place);
        lead_out(&place, &fact);
    }
}

/// Follows the way out of one damage to its end.
fn lead_out(place: &Place, fact: &Fact) {
    let name = fact.name;
    let (code, checked) = place.store("check");
    assert_ne!(code, 0, "{name}: {checked}");
    assert!(checked.contains(fact.check), "{name}: {checked}");
    let before = fs::read(&place.path).unwrap();
    if let Some(words) = fact.refused {
        let Serve::Refused(said) = place.serve() else {
            panic!("{name}: it serves")
        };
        assert!(said.contains(words), "{name}: {said}");
        assert_eq!(fs::read(&place.path).unwrap(), before, "{name}");
    }
    let (code, rebuilt) = place.store("rebuild");
    match fact.then {
        Then::Rebuilt(told, decisions, overrides) => {
            assert_eq!(code, 0, "{name}: {rebuilt}");
            assert!(checked.contains("store rebuild"), "{name}: {checked}");
            for words in told {
                assert!(rebuilt.contains(words), "{name}: {words}: {rebuilt}");
            }
            assert_eq!(saved(&rebuilt), decisions, "{name}: {rebuilt}");
            let words = format!("override: {overrides} saved");
            assert!(rebuilt.contains(&words), "{name}: {rebuilt}");
            let (code, checked) = place.store("check");
            assert_eq!(code, 0, "{name}: {checked}");
            // A new override does not get the number of a lost one.
            sql(
                place,
                "INSERT INTO override (origin, pattern, action, person, reason, created) VALUES ('', '', '', '', '', 0);
                 DELETE FROM override WHERE number = 3",
            );
            let shell = rusqlite::Connection::open(&place.path).unwrap();
            let text = "SELECT count(*) FROM override";
            let left: i64 = shell.query_row(text, [], |row| row.get(0)).unwrap();
            assert_eq!(left, i64::try_from(overrides).unwrap(), "{name}");
        }
        Then::Stays => {
            assert!(!checked.contains("store rebuild"), "{name}: {checked}");
            assert!(checked.contains("audit verify --all"), "{name}: {checked}");
            assert_eq!(saved(&rebuilt), DECISIONS, "{name}: {rebuilt}");
            assert_eq!(place.store("check"), (1, checked), "{name}");
        }
        Then::MoveAway(words, extension) => {
            assert_eq!(code, 2, "{name}: {rebuilt}");
            assert!(rebuilt.contains(words), "{name}: {rebuilt}");
            assert!(!rebuilt.contains("store rebuild"), "{name}: {rebuilt}");
            assert_eq!(fs::read(&place.path).unwrap(), before, "{name}");
            let moved = place.path.with_extension(extension);
            fs::rename(&moved, moved.with_extension("moved")).unwrap();
            let key = place.path.with_extension("seal.key");
            if extension == "db" && key.exists() {
                let Serve::Refused(said) = place.serve() else {
                    panic!("{name}: the key says that there was a store")
                };
                place.move_away(&said);
            }
        }
    }
    assert_eq!(place.serve(), Serve::Listened, "{name}");
}

#[test]
fn a_lack_of_descriptors_is_reported_as_such() {
    let whole = Whole::new();
    let place = whole.copy();
    let check = |limit: usize| {
        let inner = place.setup.command("store");
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")])
            .arg(inner.get_program())
            .args(inner.get_args())
            .arg("check")
            .current_dir(place.setup.dir());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    // The first limit is enough for the database but not for its log; the second for the log but not for its index.
    for limit in [4, 5] {
        let (code, said) = check(limit);
        assert_eq!(code, Some(2), "{limit}: {said}");
        assert!(said.contains("no descriptor left"), "{limit}: {said}");
        assert!(said.contains("ulimit -n"), "{limit}: {said}");
    }
    let (code, said) = check(64);
    assert_eq!(code, Some(0), "{said}");
}
