//! Attacks on the file of a store: which are found, and which are documented as not found.

use std::time::Duration;

use crawlgate_policy::overrides::Action;

use super::case::{Case, NOON, asserted};
use super::forger::Forger;
use super::test_store::{TestStore, many_cases, signed, some_cases};

pub type Attack = fn(&TestStore);

/// The client's address in an entry, and another one.
pub const CLIENT: &[u8] = &[127, 0, 0, 1];
pub const OTHER: &[u8] = &[127, 0, 0, 9];

/// Removes the state file, which names the last record.
pub fn forget_the_end(db: &TestStore) {
    std::fs::remove_file(db.state_file()).unwrap();
}

/// Puts the state file of a log without records in the place of the right one, and takes the counts out.
fn replace_the_end(db: &TestStore) {
    let (early, _) = TestStore::with(&[]);
    std::fs::copy(early.state_file(), db.state_file()).unwrap();
    db.tamper("DELETE FROM hourly; DELETE FROM meta WHERE name = 'signed_size'");
}

/// Runs `attack` on the store of `make`, which was whole before, and checks the faults that are told.
pub fn check(name: &str, make: fn() -> TestStore, attack: Attack, found: &[&str]) {
    const VERIFY: [&str; 3] = ["audit", "verify", "--all"];
    let db = make();
    let said = db.run(&VERIFY);
    assert_eq!(said.code, 0, "{name}: before: {said:?}");
    attack(&db);
    let said = db.run(&VERIFY);
    assert_eq!((said.code, said.err.as_str()), (1, ""), "{name}: {said:?}");
    for part in found {
        assert!(said.out.contains(part), "{name}: {part}\n{}", said.out);
    }
    let json = db.run(&["audit", "verify", "--all", "--json"]);
    assert_eq!((json.code, &json.json()["ok"]), (1, &false.into()), "{name}");
}

#[test]
fn what_was_done_to_the_tail_is_found() {
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack, &[&str])] = &[
        ("an entry altered", |s| Forger::of(s).replace(0, b"/secret/x", b"/sesame/x").into_tail(),
            &["with record 6 the log is not what the checkpoint of 2026-11-20T12:00:00.123Z says", "another decision follows from what was kept: reason"]),
        ("an entry altered in what no replay needs", |s| Forger::of(s).replace(1, CLIENT, OTHER).into_tail(),
            &["with record 6 the log is not what the checkpoint", "something from record 1 on was altered"]),
        ("an entry altered behind the checkpoint", |s| Forger::of(s).replace(7, CLIENT, OTHER).into_tail(),
            &["with record 8 the log is not what the state file beside the store says", "something from record 7 on"]),
        ("an entry taken out", |s| { let mut all = Forger::of(s); all.entries.remove(2); all.into_tail(); },
            &["with record 6 the log is not what the checkpoint", "record 8 is missing: the state file beside the store speaks of 8"]),
        ("an entry put in", |s| { let mut all = Forger::of(s); let one = all.entries[0].clone(); all.entries.insert(3, one); all.into_tail(); },
            &["with record 6 the log is not what the checkpoint"]),
        ("two entries swapped", |s| { let mut all = Forger::of(s); all.entries.swap(1, 2); all.into_tail(); },
            &["with record 6 the log is not what the checkpoint"]),
        ("the first row taken out", |s| s.tamper("DELETE FROM tail WHERE first = 0"),
            &["records before 7 are missing, and no entry says that retention has dropped them"]),
        ("a row in between taken out", |s| { s.put(&some_cases()[..1]); s.tamper("DELETE FROM tail WHERE first = 6"); },
            &["records 7 to 8 are missing"]),
        ("a row moved", |s| s.tamper("UPDATE tail SET first = 9 WHERE first = 6"),
            &["records 7 to 9 are missing"]),
        ("a row of another number of entries", |s| s.tamper("UPDATE tail SET count = 5 WHERE first = 0"),
            &["record 6 is missing"]),
        ("entries cut off within a row", |s| s.tamper("UPDATE tail SET entries = substr(entries, 1, 400) WHERE first = 0"),
            &["are missing or cannot be read"]),
        ("an entry that is none", |s| { let mut all = Forger::of(s); all.entries[0][0] = 0xff; all.into_tail(); },
            &["with record 6 the log is not what the checkpoint", "record 1 (?): the record cannot be read"]),
        ("the end cut off, after the last checkpoint", |s| s.tamper("DELETE FROM tail WHERE first = 6"),
            &["records 7 to 8 are missing: the state file beside the store speaks of 8"]),
        ("the end cut off, back to before the checkpoint", |s| { let mut all = Forger::of(s); all.entries.truncate(4); all.into_tail(); },
            &["records 5 to 8 are missing: the state file beside the store speaks of 8"]),
        ("the same, and the state file taken away", |s| { let mut all = Forger::of(s); all.entries.truncate(4); all.into_tail(); forget_the_end(s); },
            &["records 5 to 6 are missing: the checkpoint of 2026-11-20T12:00:00.123Z speaks of 6"]),
        ("the end cut off with the checkpoint", |s| { let mut all = Forger::of(s); all.entries.truncate(4); all.into_tail(); s.tamper("DELETE FROM checkpoint"); },
            &["records 5 to 8 are missing: the state file"]),
        ("all taken out", |s| s.tamper("DELETE FROM tail; DELETE FROM checkpoint"),
            &["records 1 to 8 are missing: the state file"]),
        ("a record hidden from queries for its time", |s| s.tamper("UPDATE tail SET min_time = 0, max_time = 0 WHERE first = 0"),
            &["record 2", "the store finds it by another time than its own"]),
    ];
    for (name, attack, found) in attacks {
        check(name, signed, *attack, found);
    }
}

#[test]
fn what_was_done_to_checkpoints_and_evidence_is_found() {
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack, &[&str])] = &[
        ("a checkpoint of another size", |s| s.tamper("UPDATE checkpoint SET size = 5"),
            &["the checkpoint of 2026-11-20T12:00:00.123Z, of 5 records, is damaged or out of place"]),
        ("a checkpoint of another text", |s| s.tamper("UPDATE checkpoint SET note = replace(note, char(10) || '6' || char(10), char(10) || '7' || char(10))"),
            &["the signature of the checkpoint of 2026-11-20T12:00:00.123Z, of 6 records, is not valid: the checkpoint was altered"]),
        ("a checkpoint that is none", |s| s.tamper("UPDATE checkpoint SET note = 'x'"),
            &["of 6 records, is damaged or out of place"]),
        ("checkpoints taken out", |s| s.tamper("DELETE FROM checkpoint"),
            &["the checkpoint of 6 records is missing: the state file beside the store names it"]),
        ("a checkpoint of another key", of_another_key,
            &["1 checkpoints, the first of 6 records, are signed by no trusted key but by crawlgate/"]),
        ("another key", other_key,
            &["1 checkpoints, the first of 6 records, are signed by no trusted key but by crawlgate/"]),
        ("a state file that speaks of another log", |s| {
            let other = signed();
            std::fs::copy(other.state_file(), s.state_file()).unwrap();
        }, &["with record 8 the log is not what the state file beside the store says"]),
        ("a robots.txt altered", other_file, &["the robots.txt that it rests on was altered"]),
        ("a robots.txt that cannot be unpacked, nor its length be allocated", |s| s.tamper("UPDATE snapshot SET body = x'00', bytes = 9223372036854775807"),
            &["the robots.txt that it rests on was altered"]),
        ("a robots.txt taken out", |s| s.tamper("PRAGMA foreign_keys = OFF; DELETE FROM snapshot"), &["the robots.txt that it rests on is not in the store"]),
        ("settings altered", |s| s.tamper("UPDATE object SET body = CAST(replace(CAST(body AS TEXT), '\"path_guard\":true', '\"path_guard\":false') AS BLOB) WHERE kind = 0"), &["the settings that it rests on were altered"]),
        ("settings taken out", |s| s.tamper("DELETE FROM object WHERE kind = 0"), &["the settings that it rests on are not in the store"]),
        ("settings hidden", |s| s.tamper("UPDATE object SET kind = 1 WHERE kind = 0"), &["the settings that it rests on are not in the store"]),
        ("a state of a robots.txt altered", |s| s.tamper("UPDATE object SET body = CAST(replace(CAST(body AS TEXT), 'successful', 'unavailabl') AS BLOB) WHERE kind = 1"), &["the state of robots.txt that it rests on is not in the store, or was altered"]),
        ("a state of a robots.txt taken out", |s| s.tamper("DELETE FROM object WHERE kind = 1"), &["the state of robots.txt that it rests on is not in the store, or was altered"]),
    ];
    for (name, attack, found) in attacks {
        check(name, signed, *attack, found);
    }
    let (altered, gone) = (
        "UPDATE object SET body = CAST(replace(CAST(body AS TEXT), 'Ada', 'Eve') AS BLOB) WHERE kind = 2",
        "DELETE FROM object WHERE kind = 2",
    );
    for (name, statement) in [("altered", altered), ("taken out", gone)] {
        let case = Case {
            overrides: vec![asserted("/open", Action::Deny, None)],
            ..some_cases().swap_remove(1)
        };
        let (db, ids) = TestStore::with(&[case]);
        db.sign(NOON);
        for one in [&["audit", "verify", "--all"][..], &["audit", "verify", &ids[0]]] {
            assert_eq!(db.run(one).code, 0, "{name}");
        }
        db.tamper(statement);
        for one in [&["audit", "verify", "--all"][..], &["audit", "verify", &ids[0]]] {
            let said = db.run(one);
            let want = "the override that it rests on is not in the store, or was altered";
            says!(said.ends(1).out, want; "{name}");
        }
        let said = db.run(&["store", "check"]);
        says!(said.ends(1).out, "object "; "{name}");
    }
}

/// Replaces the checkpoint by one that another key has signed.
fn of_another_key(db: &TestStore) {
    let other = signed();
    let note: String =
        other.connection().query_row("SELECT note FROM checkpoint", [], |row| row.get(0)).unwrap();
    db.connection().execute("UPDATE checkpoint SET note = ?1", [note]).unwrap();
}

/// Replaces the key beside the store.
fn other_key(db: &TestStore) {
    let key = |db: &TestStore| db.directory().join("crawlgate.log.key");
    let other = signed();
    std::fs::copy(key(&other), key(db)).unwrap();
}

/// Replaces the text of each file with that of another.
fn other_file(db: &TestStore) {
    let text = b"User-agent: *\nDisallow: /\n# but not really\n";
    let body = zstd::bulk::compress(text, 3).unwrap();
    let change = "UPDATE snapshot SET body = ?1, bytes = ?2";
    db.connection().execute(change, (body, text.len() as i64)).unwrap();
}

/// Returns a signed store with a block of 256 entries, and 44 in the tail.
fn with_a_block() -> TestStore {
    let (db, _) = TestStore::with(&many_cases(300));
    db.sign(NOON);
    let day = Duration::from_secs(86_400);
    assert_eq!(db.prune(day * 365, NOON + day * 3), 0);
    let blocks: i64 =
        db.connection().query_row("SELECT count(*) FROM block", [], |row| row.get(0)).unwrap();
    assert_eq!(blocks, 1);
    db
}

#[test]
fn what_was_done_to_blocks_is_found() {
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack, &[&str])] = &[
        ("an entry altered", |s| Forger::of(s).replace(6, CLIENT, OTHER).into_block(false),
            &["an entry of records 1 to 256 was altered, removed or moved", "250 not proven: the log contradicts them"]),
        ("an entry altered, and the root made anew", |s| Forger::of(s).replace(6, CLIENT, OTHER).into_block(true),
            &["with record 300 the log is not what the checkpoint", "something from record 1 on was altered, and the roots made anew"]),
        ("two entries swapped", |s| { let mut all = Forger::of(s); all.entries.swap(3, 200); all.into_block(false); },
            &["an entry of records 1 to 256 was altered, removed or moved"]),
        ("an entry taken out, and the root made anew", |s| { let mut all = Forger::of(s); all.entries.remove(9); all.into_block(true); },
            &["record 300 is missing"]),
        ("a root altered", |s| s.tamper("UPDATE block SET roots = zeroblob(32)"),
            &["the stored root of records 1 to 256 was altered: the records agree with the next checkpoint"]),
        ("a block taken out", |s| s.tamper("DELETE FROM block"),
            &["records before 257 are missing, and no entry says that retention has dropped them"]),
        ("a block emptied, as retention does", |s| s.tamper("UPDATE block SET body = NULL"),
            &["records before 257 are missing, and no entry says that retention has dropped them"]),
        ("a block damaged", |s| s.tamper("UPDATE block SET body = substr(body, 1, length(body) - 9)"),
            &["records 1 to 256 are missing or cannot be read"]),
        ("a block hidden from queries for its time", |s| s.tamper("UPDATE block SET max_time = min_time"),
            &["record 2", "the store finds it by another time than its own"]),
    ];
    for (name, attack, found) in attacks {
        check(name, with_a_block, *attack, found);
    }
}

/// Damage to what the rows of the log say of their entries is mended; an altered entry stays as it is, for all to see.
#[test]
fn what_a_checkpoint_proves_is_mended_and_nothing_else() {
    #[rustfmt::skip] // one row, one case
    let damages: &[(&str, Attack, &str, &str, i32)] = &[
        ("a root", |s| s.tamper("UPDATE block SET roots = zeroblob(32)"),
            "the roots stored for records 1 to 256 are damaged: a checkpoint names others", "the roots of records 1 to 256 were damaged", 0),
        ("a time", |s| s.tamper("UPDATE block SET max_time = max_time + 1"),
            "the times or the denials stored for records 1 to 256 are not those of the records", "the times of records 1 to 256 were damaged", 0),
        ("a number of denials", |s| s.tamper("UPDATE block SET denials = denials + 1"),
            "the times or the denials stored for records 1 to 256", "the times of records 1 to 256 were damaged", 0),
        ("the kind of an object", |s| s.tamper("UPDATE object SET kind = 0 WHERE kind = 1"),
            "its row is not what its body says", "rebuilt", 0),
        ("the last use of an object", |s| s.tamper("UPDATE object SET used = 0"),
            "records rest on it that are later than its row says", "rebuilt", 0),
        ("a block", |s| s.tamper("UPDATE block SET body = substr(body, 1, length(body) - 9)"),
            "records 1 to 256: ", "; they are lost", 1),
        ("an entry", |s| Forger::of(s).replace(6, CLIENT, OTHER).into_block(false),
            "the roots stored for records 1 to 256 are not those of the records", "rebuilt", 1),
        ("an entry and its root", |s| Forger::of(s).replace(6, CLIENT, OTHER).into_block(true),
            "the records up to 300 are not those that were signed", "rebuilt", 1),
    ];
    for (name, damage, found, mended, left) in damages {
        let db = with_a_block();
        assert_eq!(db.run(&["store", "check"]).code, 0, "{name}");
        damage(&db);
        let said = db.run(&["store", "check"]);
        says!(said.ends(1).out, found; "{name}");
        let said = db.run(&["store", "rebuild"]);
        says!(said.ends(0).out, mended; "{name}");
        // The log is the same one: its checkpoint and its key are there.
        let said = db.run(&["audit", "verify", "--all"]);
        assert_eq!(said.code, *left, "{name}: {said:?}");
        says!(db.run(&["audit", "checkpoint"]).out, "\n300\n"; "{name}");
        let code = db.run(&["store", "check"]).code;
        assert_eq!(code, i32::from(name.starts_with("an entry")), "{name}");
    }
}

#[test]
fn a_fault_in_a_block_stays_there() {
    let db = with_a_block();
    let records = db.ask(async |store| store.records(0, usize::MAX).await);
    let id = |index: usize| -> String {
        let record: serde_json::Value =
            serde_json::from_str(&records.as_ref().unwrap()[index].record).unwrap();
        record["id"].as_str().unwrap().to_owned()
    };
    let code = |index| db.run(&["audit", "verify", &id(index)]).code;
    assert_eq!([0, 6, 299].map(code), [0, 0, 0]);
    // The record and its neighbours are in doubt; the root that was stored for them speaks for the others.
    Forger::of(&db).replace(6, CLIENT, OTHER).into_block(false);
    assert_eq!([0, 6, 299].map(code), [1, 1, 0]);
    let said = db.run(&["store", "check"]);
    let want = "the roots stored for records 1 to 256 are not those of the records";
    says!(said.ends(1).out, want);
}

#[test]
fn verifying_one_decision_reports_its_own_faults() {
    let attack = |attack: Attack| {
        let (db, ids) = TestStore::with(&some_cases());
        db.sign(NOON);
        attack(&db);
        let codes = ids.iter().map(|id| db.run(&["audit", "verify", id]));
        codes.map(|said| said.code).collect::<Vec<_>>()
    };
    // A record is proven by the signed root, to which the records of its bundle lead together.
    let altered: Attack = |s| Forger::of(s).replace(2, CLIENT, OTHER).into_tail();
    assert_eq!(attack(altered), [1; 6]);
    let gone: Attack = |s| {
        let mut all = Forger::of(s);
        all.entries.remove(2);
        all.into_tail();
    };
    assert_eq!(attack(gone), [1; 6]);
    let end: Attack = |s| {
        let mut all = Forger::of(s);
        all.entries.truncate(5);
        all.into_tail();
    };
    assert_eq!(attack(end), [1; 6]);
    assert_eq!(attack(|_| {}), [0; 6]);
    // Before there is a checkpoint, the state file speaks for them.
    let (db, ids) = TestStore::with(&some_cases());
    let code = || db.run(&["audit", "verify", &ids[2]]).code;
    assert_eq!(code(), 0);
    Forger::of(&db).replace(2, CLIENT, OTHER).into_tail();
    assert_eq!(code(), 1);
}

/// Checks that the attacks that the log does not reveal are those in the documentation, and that a checkpoint that was
/// kept elsewhere reveals them.
#[test]
fn undetected_attacks_are_documented() {
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack, &str)] = &[
        ("the end cut off", |s| { let mut all = Forger::of(s); all.entries.truncate(4); all.into_tail(); },
            "records 5 to 8 are missing: the checkpoint that was kept speaks of 8"),
        ("an entry altered", |s| Forger::of(s).replace(1, CLIENT, OTHER).into_tail(),
            "with record 8 the log is not what the checkpoint that was kept says"),
    ];
    for (name, attack, found) in attacks {
        let db = signed();
        db.sign(NOON);
        let kept = db.keep_checkpoint("kept");
        attack(&db);
        db.tamper("DELETE FROM checkpoint");
        replace_the_end(&db);
        let said = db.run(&["audit", "verify", "--all"]);
        assert_eq!(said.code, 0, "{name}: {said:?}");
        // Unless the operator has kept a checkpoint elsewhere.
        let kept = ["--checkpoint", kept.to_str().unwrap()];
        let said = db.run(&[&["audit", "verify", "--all"], &kept[..]].concat());
        says!(said.ends(1).out, found; "{name}");
        // Not even the holder of the key deceives it.
        db.sign(NOON);
        assert_eq!(db.run(&["audit", "verify", "--all"]).code, 0, "{name}");
        let said = db.run(&[&["audit", "verify", "--all"], &kept[..]].concat());
        says!(said.ends(1).out, found; "{name}");
    }
}

/// A search asks the row of a segment before its blocks: a row that says less would hide records.
#[test]
fn what_was_done_to_a_segment_is_found_and_mended() {
    use crawlgate_evidence::DecisionId;
    use crawlgate_record::{Event, EventKind};
    use crawlgate_store::Batch;
    use crawlgate_tlog::SEGMENT;
    let (db, ids) = TestStore::with(&many_cases(300));
    db.ask(async |store| {
        for _ in 0..SEGMENT / 8_192 {
            let mut batch = Batch::default();
            for count in 0..8_192 {
                let kind = EventKind::Lost { count, first: 0, last: 0, size: None };
                let id = DecisionId::mint(NOON).octets();
                batch.entries.push(|out| Event { id, kind }.encode(out));
            }
            store.write(batch).await.unwrap();
        }
    });
    db.sign(NOON);
    let listed = || db.run(&["log", "--agent", "OtherBot", "--all", "--format", "jsonl"]);
    let before = listed();
    assert_eq!(before.out.lines().count(), 100, "{}", before.err);
    assert!(before.out.contains(&ids[2]));
    assert_eq!(db.run(&["store", "check"]).code, 0);
    db.tamper("PRAGMA journal_mode = DELETE; PRAGMA journal_mode = WAL");
    let whole = std::fs::read(db.file()).unwrap();
    let damages = [
        "UPDATE segment SET sums = substr(sums, 1, length(sums) - 1)",
        "UPDATE segment SET root = zeroblob(32)",
        "UPDATE segment SET max_time = 0",
        "UPDATE segment SET keys = zeroblob(4)",
    ];
    for damage in damages {
        std::fs::write(db.file(), &whole).unwrap();
        db.tamper(damage);
        let said = db.run(&["store", "check"]);
        let want = "segment 0: its row does not follow from its blocks";
        says!(said.ends(1).out, want; "{damage}");
    }
    let said = db.run(&["store", "rebuild"]);
    let want = "the row of segment 0 was damaged";
    says!(said.ends(0).out, want);
    assert_eq!(listed().out, before.out);
    assert_eq!(db.run(&["store", "check"]).code, 0);
}
