//! One damaged fact is named, and nothing else is lost.

use std::fs;

use super::DECISIONS;
use super::place::{Place, Serve, Whole, overwrite};

const IS_NEWER: &str = "its schema is 16, but its tables are those of 15, the last that is known here: a newer crawlgate has \
    written the store, or the number is damaged";
const IS_OLDER: &str = "its schema is 3, but its tables are those of 15";
const BEGINS: &str = "the beginning of the file is damaged";

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
    /// `store rebuild` prints these words and saves all decisions and this many overrides; then the store is in order.
    Rebuilt(&'static [&'static str], usize, usize),
    /// The same, but some decisions are lost: those left begin a new log.
    BegunAnew(&'static [&'static str]),
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

/// Changes the octets of the entries, each where it is found.
fn in_tail(place: &Place, from: &[u8], to: &[u8]) {
    let shell = rusqlite::Connection::open(&place.path).unwrap();
    let mut rows = shell.prepare("SELECT first, entries FROM tail").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let rows: Vec<(i64, Vec<u8>)> = rows.unwrap().map(Result::unwrap).collect();
    let mut changed = 0;
    for (first, mut entries) in rows {
        let found = entries.windows(from.len()).position(|part| part == from);
        let Some(at) = found else { continue };
        entries[at..at + to.len()].copy_from_slice(to);
        let text = "UPDATE tail SET entries = ?2 WHERE first = ?1";
        changed += shell.execute(text, rusqlite::params![first, entries]).unwrap();
    }
    assert_eq!(changed, 1);
}

/// Returns damages of checkpoints, entries and their rows.
fn of_the_log() -> Vec<Fact> {
    vec![
        Fact {
            name: "a checkpoint that cannot be read",
            damage: |place| sql(place, "UPDATE checkpoint SET note = 'x'"),
            check: " records cannot be read\n",
            refused: None,
            then: Then::Rebuilt(&[" records: it was damaged; the next one"], DECISIONS, 2),
        },
        Fact {
            name: "a checkpoint with another signature",
            damage: |place| {
                let text = "UPDATE checkpoint SET note = substr(note, 1, length(note) - 24) || 'AAAA' || substr(note, -20)";
                sql(place, text);
            },
            check: " records is damaged: its signature does not hold\n",
            refused: None,
            then: Then::Rebuilt(&[" records: it was damaged; the next one"], DECISIONS, 2),
        },
        Fact {
            name: "a checkpoint of another size",
            damage: |place| sql(place, "UPDATE checkpoint SET size = size - 1"),
            check: " records cannot be read\n",
            refused: None,
            then: Then::Rebuilt(&[" records: it was damaged; the next one"], DECISIONS, 2),
        },
        Fact {
            name: "other times",
            damage: |place| {
                sql(place, "UPDATE tail SET max_time = max_time - 9 WHERE first = 0");
            },
            check: "record 1: the times of its row are not those of the records\n",
            refused: None,
            then: Then::Rebuilt(&[], DECISIONS, 2),
        },
        Fact {
            name: "a row that breaks off",
            damage: |place| {
                sql(
                    place,
                    // Its row holds only this record. The first one may have come together with the start.
                    "UPDATE tail SET entries = substr(entries, 1, length(entries) - 1) \
                     WHERE instr(entries, CAST('/private/77' AS BLOB)) > 0",
                );
            },
            check: "an entry of the log is cut off",
            refused: Some("an entry of the log is cut off"),
            then: Then::BegunAnew(&["1 records between others are lost", "begin a new one"]),
        },
        Fact {
            name: "another record",
            damage: |place| in_tail(place, b"/private/77", b"/private/zz"),
            check: " are not those that were signed\n",
            refused: None,
            then: Then::Stays,
        },
    ]
}

/// Returns damages of the beginning of the file, and other files in its place.
fn of_the_file() -> Vec<Fact> {
    vec![
        Fact {
            name: "a version that is higher",
            damage: |place| sql(place, "PRAGMA user_version = 16"),
            check: "that one can check it",
            refused: Some(IS_NEWER),
            then: Then::Rebuilt(&[], DECISIONS, 2),
        },
        Fact {
            name: "a version that is lower",
            damage: |place| sql(place, "PRAGMA user_version = 3"),
            check: BEGINS,
            refused: Some(IS_OLDER),
            then: Then::Rebuilt(&[], DECISIONS, 2),
        },
        Fact {
            name: "a version below zero",
            damage: |place| sql(place, "PRAGMA user_version = -1"),
            check: BEGINS,
            refused: Some("store rebuild"),
            then: Then::Rebuilt(&[], DECISIONS, 2),
        },
        Fact {
            name: "a newer store",
            damage: |place| sql(place, "CREATE TABLE later (one); PRAGMA user_version = 16"),
            check: "a newer crawlgate has written the store",
            refused: Some("run that version, or name another file"),
            then: Then::MoveAway("run that version, or name another file", "db"),
        },
        Fact {
            name: "junk, and no key",
            damage: |place| {
                fs::remove_file(place.path.with_extension("log.key")).unwrap();
                fs::write(&place.path, "junk ".repeat(4_000)).unwrap();
            },
            check: "file is not a database",
            refused: Some("this is no store of crawlgate's"),
            then: Then::MoveAway("away to begin anew", "db"),
        },
        Fact {
            name: "another program's database",
            damage: |place| {
                fs::remove_file(place.path.with_extension("log.key")).unwrap();
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
                fs::remove_file(place.path.with_extension("log.key")).unwrap();
                overwrite(&place.path, 0, &[0x5a; 100]);
            },
            check: "file is not a database",
            refused: Some("store rebuild"),
            then: Then::Rebuilt(&[], DECISIONS, 2),
        },
        Fact {
            name: "a directory in place of the log",
            damage: |place| fs::create_dir(place.path.with_extension("db-wal")).unwrap(),
            check: "crawlgate.db-wal: this is a directory",
            refused: Some("crawlgate.db-wal: this is a directory"),
            then: Then::MoveAway("move it away", "db-wal"),
        },
    ]
}

/// Returns damages of overrides and settings.
fn of_the_rest() -> Vec<Fact> {
    vec![
        Fact {
            name: "an override that says something else",
            damage: |place| {
                sql(place, "UPDATE override SET until = until - 9 WHERE number = 2");
            },
            check: "override 2: it is not what was written",
            refused: Some("override 2 is not what was written"),
            then: Then::Rebuilt(
                &[
                    "override: 1 saved, 1 lost",
                    "override 2: it was damaged, and read deny https://site.example /two, by Ada",
                ],
                DECISIONS,
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
                &["override 1: nothing of it can be read", "override 2: nothing of it"],
                DECISIONS,
                0,
            ),
        },
        Fact {
            name: "other settings",
            damage: |place| {
                sql(place, "UPDATE object SET body = CAST(body || ' ' AS BLOB) WHERE kind = 0");
            },
            check: "object ",
            refused: None,
            then: Then::Rebuilt(
                &["not what its digest names", "it is lost, and records rest on it"],
                DECISIONS,
                2,
            ),
        },
    ]
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
            state: fs::read(place.setup.dir().join("crawlgate.log.state")).unwrap(),
            ..whole
        }
    };
    for fact in of_the_log().into_iter().chain(of_the_file()).chain(of_the_rest()) {
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
        let Serve::Refused(said) = place.serve() else { panic!("{name}: it serves") };
        assert!(said.contains(words), "{name}: {said}");
        assert_eq!(fs::read(&place.path).unwrap(), before, "{name}");
    }
    let (code, rebuilt) = place.store("rebuild");
    match fact.then {
        Then::BegunAnew(told) => {
            assert_eq!(code, 0, "{name}: {rebuilt}");
            for words in told {
                assert!(rebuilt.contains(words), "{name}: {words}: {rebuilt}");
            }
            let left = place.decisions();
            assert!((1..DECISIONS).contains(&left), "{name}: {left}: {rebuilt}");
            let (code, checked) = place.store("check");
            assert_eq!(code, 0, "{name}: {checked}");
            // A key signs one log: the new log has a new one.
            let key = place.path.with_extension("log.key");
            assert!(!key.exists(), "{name}");
        }
        Then::Rebuilt(told, decisions, overrides) => {
            assert_eq!(code, 0, "{name}: {rebuilt}");
            assert!(checked.contains("store rebuild"), "{name}: {checked}");
            for words in told {
                assert!(rebuilt.contains(words), "{name}: {words}: {rebuilt}");
            }
            assert_eq!(place.decisions(), decisions, "{name}: {rebuilt}");
            let words = format!("override: {overrides} saved");
            assert!(rebuilt.contains(&words), "{name}: {rebuilt}");
            place.is_in_order(name);
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
            assert_eq!(code, 0, "{name}: {rebuilt}");
            assert_eq!(place.decisions(), DECISIONS, "{name}: {rebuilt}");
            assert_eq!(place.store("check"), (1, checked), "{name}");
        }
        Then::MoveAway(words, extension) => {
            assert_eq!(code, 2, "{name}: {rebuilt}");
            assert!(rebuilt.contains(words), "{name}: {rebuilt}");
            assert!(!rebuilt.contains("store rebuild"), "{name}: {rebuilt}");
            assert_eq!(fs::read(&place.path).unwrap(), before, "{name}");
            let moved = place.path.with_extension(extension);
            fs::rename(&moved, moved.with_extension("moved")).unwrap();
            let [key, state] =
                ["log.key", "log.state"].map(|extension| place.path.with_extension(extension));
            if rebuilt.contains(state.to_str().unwrap()) {
                fs::rename(&state, state.with_extension("moved-state")).unwrap();
            }
            if extension == "db" && key.exists() {
                let Serve::Refused(said) = place.serve() else {
                    panic!("{name}: the key says that there was a store")
                };
                place.move_away(&said);
            }
        }
    }
    match place.serve() {
        Serve::Listened => {}
        // The state file names what was written: no process continues behind another record.
        Serve::Refused(said) => {
            let is_told = said.contains("or the store was altered");
            assert!(name == "another record" && is_told, "{name}: {said}");
        }
    }
}
