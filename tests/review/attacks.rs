//! Attacks on the file of a store: which are found, and which are documented as not found.

use crate::case::NOON;
use crate::shelf::{Shelf, sealed, some_cases};

/// Computes all links again, as an attacker without the key would.
fn forge(shelf: &Shelf) {
    use crawlgate::store::chain::{GENESIS, link};
    let connection = shelf.connection();
    let mut statement = connection
        .prepare("SELECT seq, record FROM decision ORDER BY seq")
        .unwrap();
    let rows = statement.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    });
    let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    let mut hash = GENESIS;
    for (place, (seq, record)) in rows.into_iter().enumerate() {
        hash = link(&hash, record.as_bytes());
        let change = "UPDATE decision SET seq = ?1, hash = ?2 WHERE seq = ?3";
        connection
            .execute(change, (place as i64 + 1, hash, seq))
            .unwrap();
    }
}

/// Removes the state file, which names the last record.
fn forget_the_end(shelf: &Shelf) {
    std::fs::remove_file(shelf.directory().join("crawlgate.seal.state")).unwrap();
}

#[test]
fn what_was_done_to_the_file_is_found() {
    type Attack = fn(&Shelf);
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack, &[&str])] = &[
        ("a record altered", |s| s.tamper("UPDATE decision SET record = replace(record, '/secret', '/sesame') WHERE seq = 1"),
            &["record 1 does not follow from the one before", "another decision follows from what was kept: reason"]),
        ("a record altered, and all links made anew", |s| { s.tamper("UPDATE decision SET record = replace(record, '127.0.0.1', '127.0.0.9') WHERE seq = 2"); forge(s); },
            &["at record 6 the chain is not what the seal of 2026-11-20T12:00:05.123Z says"]),
        ("a link altered", |s| s.tamper("UPDATE decision SET hash = zeroblob(32) WHERE seq = 3"),
            &["record 3 does not follow", "record 4 does not follow"]),
        ("a record taken out", |s| s.tamper("DELETE FROM decision WHERE seq = 3"), &["record 3 is missing"]),
        ("a record taken out, and all made anew", |s| { s.tamper("DELETE FROM decision WHERE seq = 3"); forge(s); },
            &["at record 6 the chain is not what the seal"]),
        ("the first record taken out", |s| s.tamper("DELETE FROM decision WHERE seq = 1"), &["records before 2 are missing, and no seal says"]),
        ("the end cut off, after the last seal", |s| s.tamper("DELETE FROM decision WHERE seq > 6"),
            &["records 7 to 8 are missing: the state file beside the store speaks of record 8"]),
        ("the end cut off, back to before the seal", |s| s.tamper("DELETE FROM decision WHERE seq > 4"),
            &["records 5 to 8 are missing: the state file beside the store speaks of record 8"]),
        ("the same, and the state file taken away", |s| { s.tamper("DELETE FROM decision WHERE seq > 4"); forget_the_end(s); },
            &["records 5 to 6 are missing: the seal of 2026-11-20T12:00:05.123Z speaks of record 6"]),
        ("two records swapped", |s| s.tamper("UPDATE decision SET seq = 99 WHERE seq = 2; UPDATE decision SET seq = 2 WHERE seq = 3; UPDATE decision SET seq = 3 WHERE seq = 99"),
            &["record 2 does not follow", "record 3 does not follow", "record 4 does not follow"]),
        ("a seal altered", |s| s.tamper("UPDATE seal SET time = time + 1"), &["the signature of the seal of record 6 is not valid"]),
        ("a robots.txt altered", other_file, &["the robots.txt that it rests on was altered"]),
        ("a robots.txt taken out", |s| s.tamper("PRAGMA foreign_keys = OFF; DELETE FROM snapshot"), &["the robots.txt that it rests on is not in the store"]),
        ("settings altered", |s| s.tamper("UPDATE object SET body = CAST(replace(CAST(body AS TEXT), '\"path_guard\":true', '\"path_guard\":false') AS BLOB) WHERE kind = 0"), &["the settings that it rests on were altered"]),
        ("settings taken out", |s| s.tamper("DELETE FROM object WHERE kind = 0"), &["the settings that it rests on are not in the store"]),
        ("a record hidden from queries for its time", |s| s.tamper("UPDATE decision SET time = 0 WHERE seq = 2"), &["record 2", "the store finds it by another time than its own"]),
    ];
    for (name, attack, found) in attacks {
        let shelf = sealed();
        assert_eq!(
            shelf.run(&["audit", "verify", "--all"]).code,
            0,
            "{name}: before"
        );
        attack(&shelf);
        let said = shelf.run(&["audit", "verify", "--all"]);
        assert_eq!((said.code, said.err.as_str()), (1, ""), "{name}: {said:?}");
        for part in *found {
            assert!(said.out.contains(part), "{name}: {part}\n{}", said.out);
        }
        let json = shelf.run(&["audit", "verify", "--all", "--json"]);
        assert_eq!(
            (json.code, &json.json()["ok"]),
            (1, &false.into()),
            "{name}"
        );
    }
}

/// Replaces the text of each file with that of another.
fn other_file(shelf: &Shelf) {
    let text = b"User-agent: *\nDisallow: /\n# but not really\n";
    let body = zstd::bulk::compress(text, 3).unwrap();
    let change = "UPDATE snapshot SET body = ?1, bytes = ?2";
    shelf
        .connection()
        .execute(change, (body, text.len() as i64))
        .unwrap();
}

#[test]
fn verifying_one_decision_reports_its_own_faults() {
    let attack = |statement| {
        let (shelf, ids) = Shelf::with(&some_cases());
        shelf.seal(NOON);
        shelf.tamper(statement);
        ids.iter()
            .map(|id| shelf.run(&["audit", "verify", id]).code)
            .collect::<Vec<_>>()
    };
    // A record is proven by its own link, the one before it and the seal after it.
    let altered =
        "UPDATE decision SET record = replace(record, '127.0.0.1', '127.0.0.9') WHERE seq = 3";
    assert_eq!(attack(altered), [1, 1, 1, 0, 0, 0]);
    let gone = "DELETE FROM decision WHERE seq = 3";
    assert_eq!(attack(gone), [1, 1, 1, 1, 0, 0]);
    let tail = "DELETE FROM decision WHERE seq = 6";
    assert_eq!(attack(tail), [1; 6]);
}

/// Checks that the attacks that the chain does not detect are those in the documentation.
#[test]
fn undetected_attacks_are_documented() {
    type Attack = fn(&Shelf);
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack)] = &[
        ("the end cut off, after the last seal", |s| s.tamper("DELETE FROM decision WHERE seq > 6")),
        ("the end cut off, with its seal", |s| s.tamper("DELETE FROM decision WHERE seq > 4; DELETE FROM seal")),
    ];
    for (name, attack) in attacks {
        let shelf = sealed();
        let head = shelf.run(&["audit", "head"]).out;
        attack(&shelf);
        forget_the_end(&shelf);
        assert_eq!(shelf.run(&["audit", "verify", "--all"]).code, 0, "{name}");
        // Unless the operator has kept the head elsewhere.
        let said = shelf.run(&["audit", "verify", "--all", "--head", head.trim()]);
        assert_eq!(said.code, 1, "{name}");
        assert!(
            said.out
                .contains("are missing: the head that was kept speaks of record 8"),
            "{name}: {said:?}"
        );
    }
    let shelf = sealed();
    let ids = shelf.run(&["log", "--all", "--format", "jsonl"]).out;
    let first: serde_json::Value = serde_json::from_str(ids.lines().next().unwrap()).unwrap();
    shelf.run(&[
        "log",
        "ack",
        first["id"].as_str().unwrap(),
        "--note",
        "seen",
    ]);
    shelf.tamper("UPDATE acknowledgement SET note = 'not seen'");
    assert_eq!(
        shelf.run(&["audit", "verify", "--all"]).code,
        0,
        "a note is no evidence"
    );
}

#[test]
fn seals_are_believed_of_one_key() {
    let shelf = sealed();
    let key = shelf.run(&["audit", "key"]).out;
    assert_eq!(
        shelf
            .run(&["audit", "verify", "--all", "--key", key.trim()])
            .code,
        0
    );
    let file = shelf.directory().join("auditor.pub");
    std::fs::write(&file, &key).unwrap();
    assert_eq!(
        shelf
            .run(&["audit", "verify", "--all", "--key", file.to_str().unwrap()])
            .code,
        0
    );
    let other = "0".repeat(64);
    let said = shelf.run(&["audit", "verify", "--all", "--key", &other]);
    assert_eq!(said.code, 1);
    assert!(
        said.out.contains(&format!(
            "the seal of record 6 is of another key, {}",
            key.trim()
        )),
        "{said:?}"
    );
    let said = shelf.run(&["audit", "verify", "--all", "--key", "nowhere.pub"]);
    assert_eq!(
        (said.code, said.err.contains("--key nowhere.pub: ")),
        (2, true),
        "{said:?}"
    );

    // Without the key file, each seal is checked with the key that it names. A forger could name another: a fault.
    std::fs::remove_file(shelf.directory().join("crawlgate.seal.key")).unwrap();
    let said = shelf.run(&["audit", "verify", "--all"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.out
            .contains("believed of whatever key each seal names"),
        "{said:?}"
    );
}
