//! Attacks with a key of the log that another one has replaced.

use std::os::unix::fs::PermissionsExt;

use crawlgate::store::LogKey;
use crawlgate::tlog::{Tree, leaf_hash};

use crate::attacks::{Attack, CLIENT, OTHER, check, forget_the_end};
use crate::case::NOON;
use crate::forger::Forger;
use crate::shelf::{Shelf, some_cases};

/// Returns a store of which the seventh record has replaced the key.
fn rotated() -> Shelf {
    let (shelf, _) = Shelf::with(&some_cases());
    shelf.sign(NOON);
    let said = shelf.run(&["audit", "key", "rotate", "--reason", "it was stolen"]);
    assert_eq!(said.code, 0, "{said:?}");
    shelf.put(&some_cases()[..2]);
    shelf
}

/// Writes the end of the log anew, and signs it by the key that was replaced.
fn sign_by_the_stolen_key(shelf: &Shelf) {
    let file = shelf.directory().join("crawlgate.log.key");
    let text = std::fs::read_to_string(&file).unwrap();
    let blocks: Vec<_> = text
        .split_inclusive("-----END PRIVATE KEY-----\n")
        .collect();
    let name = blocks[0].lines().next().unwrap();
    let stolen = shelf.directory().join("stolen");
    std::fs::write(&stolen, format!("{name}\n{}", blocks[1])).unwrap();
    std::fs::set_permissions(&stolen, PermissionsExt::from_mode(0o600)).unwrap();
    let stolen = LogKey::load(&stolen, None).unwrap();

    let mut forger = Forger::of(shelf).replace(7, CLIENT, OTHER);
    forger.entries.remove(6);
    let leaves: Vec<_> = forger.entries.iter().map(|one| leaf_hash(one)).collect();
    let note = stolen.checkpoint(8, Tree::root_of(&leaves)).to_string();
    forger.into_tail();
    forget_the_end(shelf);
    let connection = shelf.connection();
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
