//! Attacks with a key of the log that another one has replaced.

use std::os::unix::fs::PermissionsExt;

use crawlgate_store::LogKey;
use crawlgate_tlog::{Tree, leaf_hash};

use super::attacks::{Attack, CLIENT, OTHER, check, forget_the_end};
use super::case::NOON;
use super::forger::Forger;
use super::test_store::{TestStore, some_cases};

/// Returns a store of which the seventh record has replaced the key.
fn rotated() -> TestStore {
    let (db, _) = TestStore::with(&some_cases());
    db.sign(NOON);
    let said = db.run(&["audit", "key", "rotate", "--reason", "it was stolen"]);
    assert_eq!(said.code, 0, "{said:?}");
    db.put(&some_cases()[..2]);
    db
}

/// Writes the end of the log anew, and signs it by the key that was replaced.
fn sign_by_the_stolen_key(db: &TestStore) {
    let file = db.directory().join("crawlgate.log.key");
    let text = std::fs::read_to_string(&file).unwrap();
    let blocks: Vec<_> = text.split_inclusive("-----END PRIVATE KEY-----\n").collect();
    let name = blocks[0].lines().next().unwrap();
    let stolen = db.directory().join("stolen");
    std::fs::write(&stolen, format!("{name}\n{}", blocks[1])).unwrap();
    std::fs::set_permissions(&stolen, PermissionsExt::from_mode(0o600)).unwrap();
    let stolen = LogKey::load(&stolen, None).unwrap();

    let mut forger = Forger::of(db).replace(7, CLIENT, OTHER);
    forger.entries.remove(6);
    let leaves: Vec<_> = forger.entries.iter().map(|one| leaf_hash(one)).collect();
    let note = stolen.checkpoint(8, Tree::root_of(&leaves)).to_string();
    forger.into_tail();
    forget_the_end(db);
    let connection = db.connection();
    let change = "UPDATE checkpoint SET size = 8, note = ?1 WHERE size = 7";
    assert_eq!(connection.execute(change, [note]), Ok(1));
}

#[test]
fn a_replaced_key_signs_nothing_that_is_believed() {
    const KEY: &str = "are signed by no trusted key but by crawlgate/";
    const PROOF: &str = "the proof that record 7 replaced the key of the log is missing or damaged";
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack, &[&str])] = &[
        ("the proof of the new key altered", |s| s.tamper("UPDATE rotation SET proof = 'x'"),
            &[PROOF, "1 checkpoints, the first of 6 records", KEY]),
        ("the proof taken out", |s| s.tamper("DELETE FROM rotation"),
            &[PROOF, "1 checkpoints, the first of 6 records", KEY]),
        ("the end signed by the old key", sign_by_the_stolen_key,
            &["1 checkpoints, the first of 8 records", KEY]),
        ("the same, and the proof taken out", |s| { sign_by_the_stolen_key(s); s.tamper("DELETE FROM rotation"); },
            &["2 checkpoints, the first of 6 records", KEY]),
        ("the same, and the proof altered", |s| { sign_by_the_stolen_key(s); s.tamper("UPDATE rotation SET entry = x'00'"); },
            &[PROOF, "2 checkpoints, the first of 6 records", KEY]),
    ];
    for (name, attack, found) in attacks {
        check(name, rotated, *attack, found);
    }
}

#[test]
fn evidence_from_before_a_new_key_is_proven_beside_the_store_and_by_both_keys() {
    let (db, ids) = TestStore::with(&some_cases());
    db.sign(NOON);
    let old = db.run(&["audit", "key"]).out;
    let file = db.directory().join("evidence.json");
    let file = file.to_str().unwrap();
    let said = db.run(&["audit", "prove", &ids[0], "-o", file]);
    assert_eq!(said.code, 0, "{said:?}");
    let said = db.run(&["audit", "key", "rotate", "--reason", "yearly"]);
    assert_eq!(said.code, 0, "{said:?}");
    let new = db.run(&["audit", "key"]).out;
    let verify = |keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["--key", key.trim()]);
        let words: Vec<_> = ["audit", "verify-evidence", file].into_iter().chain(keys).collect();
        db.run(&words)
    };
    let cases: [(&[&str], i32, bool); 4] = [
        // The store proves up to which record the old key counts.
        (&[], 0, false),
        (&[&old], 0, false),
        (&[&new], 1, false),
        (&[&new, &old], 0, true),
    ];
    for (keys, code, is_told) in cases {
        let said = verify(keys);
        assert_eq!(said.code, code, "{keys:?}: {said:?}");
        let told = said.err.contains("nothing proves here that one has replaced another");
        assert_eq!(told, is_told, "{keys:?}: {said:?}");
    }
    // The file of a later record has the proof.
    let late = &db.put(&some_cases()[..1])[0];
    db.sign(NOON);
    let said = db.run(&["audit", "prove", late, "-o", file]);
    assert_eq!(said.code, 0, "{said:?}");
    for keys in [&[][..], &[&*old], &[&*new], &[&*new, &*old]] {
        let said = verify(keys);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{keys:?}: {said:?}");
    }
}
