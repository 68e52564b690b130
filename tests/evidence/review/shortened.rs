//! Someone without the key of a log removes its last records.

use super::attacks::{Attack, check, forget_the_end};
use super::forger::Forger;
use super::test_store::{TestStore, signed, some_cases};

/// Takes the end of the log out, with all that names it.
fn shorten(db: &TestStore) {
    let mut all = Forger::of(db);
    all.entries.truncate(4);
    all.into_tail();
    db.tamper("DELETE FROM checkpoint");
}

/// Puts the state file of a log without records in the place of the right one.
fn put_a_shorter_state(db: &TestStore) {
    let text = std::fs::read_to_string(db.state_file()).unwrap();
    let short = TestStore::with(&some_cases()[..0]).0;
    assert_ne!(std::fs::read_to_string(short.state_file()).unwrap(), text);
    std::fs::copy(short.state_file(), db.state_file()).unwrap();
}

#[test]
fn a_log_that_was_shortened_without_its_key_is_found() {
    let counted = "have 4 decisions more than the log";
    #[rustfmt::skip] // one row, one case
    let attacks: &[(&str, Attack, &[&str])] = &[
        ("the state file taken away", |s| { shorten(s); forget_the_end(s); },
            &["the state file of the store is gone", "audit fork", counted]),
        ("the counts taken away, too", |s| { shorten(s); forget_the_end(s); s.tamper("DELETE FROM hourly"); },
            &["the state file of the store is gone"]),
        ("the state file of a shorter log in its place", |s| { shorten(s); put_a_shorter_state(s); }, &[counted]),
        ("the counts taken away, and the state file of a shorter log in its place", |s| {
            shorten(s);
            put_a_shorter_state(s);
            s.tamper("DELETE FROM hourly");
        }, &["the store notes that 6 records were signed, and the log has 4"]),
    ];
    for (name, attack, found) in attacks {
        check(name, signed, *attack, found);
    }
    // No command that writes continues behind the gap: only a log that states it does.
    let db = signed();
    let said = db.run(&["store", "check"]);
    assert_eq!(said.code, 0, "{said:?}");
    shorten(&db);
    forget_the_end(&db);
    let said = db.run(&["store", "check"]);
    assert_eq!(said.code, 1, "{said:?}");
    says!(said.out, "the state file of the store is gone");
    for words in [&["run", "--", "true"][..], &["audit", "key", "rotate", "--reason", "x"]] {
        let said = db.run(words);
        assert_eq!(said.code, 2, "{words:?}: {said:?}");
        says!(said.err, "the state file of the store is gone");
    }
    let said = db.run(&["audit", "fork", "--reason", "an attack", "--yes"]);
    assert_eq!(said.code, 0, "{said:?}");
    let said = db.run(&["audit", "verify", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    says!(said.out, counted, "an attack (the state file was gone");
    let said = db.run(&["store", "check"]);
    assert_eq!(said.code, 0, "{said:?}");
}
