//! Attacks on acknowledgements, which the log tells of and searches read from a table.

use super::forger::Forger;
use super::test_store::signed;

#[test]
fn what_was_done_to_an_acknowledgement_is_found() {
    let db = signed();
    let ids = db.run(&["log", "--all", "--format", "jsonl"]).out;
    let first: serde_json::Value = serde_json::from_str(ids.lines().next().unwrap()).unwrap();
    let id = first["id"].as_str().unwrap();
    for note in ["read", "seen"] {
        let said = db.run(&["log", "ack", id, "--note", note, "--replace"]);
        assert_eq!(said.code, 0, "{said:?}");
    }
    let verified = || db.run(&["audit", "verify", "--all"]);
    assert_eq!(verified().code, 0);
    let seen = "UPDATE acknowledgement SET note = 'seen'";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("another note", "UPDATE acknowledgement SET note = 'not seen'", seen, 1),
        ("the note before", "UPDATE acknowledgement SET note = 'read'", seen, 1),
        ("another time", "UPDATE acknowledgement SET time = time + 1", "UPDATE acknowledgement SET time = time - 1", 1),
        ("one that is added", "INSERT INTO acknowledgement VALUES (2, 9, 'm', 'n')", "DELETE FROM acknowledgement WHERE seq = 2", 2),
        ("one that is removed", "DELETE FROM acknowledgement", "", 1),
    ];
    for (name, change, back, seq) in cases {
        db.tamper(change);
        let said = verified();
        let found = format!("the acknowledgement of record {seq} was altered, added or removed");
        says!(said.ends(1).out, &found; "{name}");
        db.tamper(back);
    }
    // A changed entry is found, too.
    let forger = Forger::of(&db);
    assert!(forger.entries[9].windows(4).any(|part| part == b"seen"));
    forger.replace(9, b"seen", b"lost").into_tail();
    assert_eq!(verified().code, 1);
}
