//! `--store FILE`: the store in a file is checked, and not the configured one.

use std::fs;

use super::test_store::{TestStore, signed};

/// Makes a copy of the store with its key, as docs/store.md tells to, and removes the robots.txt files from the copy.
fn damaged_backup(db: &TestStore) {
    let folder = db.directory().join("backup");
    fs::create_dir(&folder).unwrap();
    let key = "crawlgate.log.key";
    fs::copy(db.directory().join(key), folder.join(key)).unwrap();
    let said = db.run(&["store", "backup", "backup/crawlgate.db"]);
    assert_eq!(said.code, 0, "{said:?}");
    let copy = rusqlite::Connection::open(folder.join("crawlgate.db")).unwrap();
    copy.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM snapshot").unwrap();
}

#[test]
fn a_named_store_is_checked_and_not_the_configured_one() {
    let db = signed();
    damaged_backup(&db);
    let live = db.file().display().to_string();
    let backup = ["--store", "backup/crawlgate.db"];
    let verify = ["audit", "verify", "--all"];
    let id = db.run(&["log", "--format", "jsonl"]).out;
    let id: serde_json::Value = serde_json::from_str(id.lines().next().unwrap()).unwrap();
    let one = ["audit", "verify", id["id"].as_str().unwrap()];
    #[rustfmt::skip] // one row, one case
    let cases = [
        (&verify[..], &[][..], 0, format!("store     {live}\n")),
        (&verify[..], &backup[..], 1, "store     backup/crawlgate.db\n".to_owned()),
        (&one[..], &[][..], 0, format!("  store     {live}\n")),
        (&one[..], &backup[..], 1, "  store     backup/crawlgate.db\n".to_owned()),
        (&["store", "check"][..], &[][..], 0, format!("{live}: in order\n")),
        (&["store", "check"][..], &backup[..], 1, "backup/crawlgate.db: damaged".to_owned()),
    ];
    for (command, store, code, want) in cases {
        let said = db.run(&[command, store].concat());
        assert_eq!(said.code, code, "{command:?} {store:?}: {said:?}");
        assert!(said.out.contains(&want), "{want}: {said:?}");
    }
    let json = db.run(&[&verify[..], &backup[..], &["--json"]].concat());
    assert_eq!(json.json()["store"], "backup/crawlgate.db", "{json:?}");

    for words in [
        &["audit", "--log", "x", "verify", "--all"][..],
        &["audit", "verify", "--all", "--log", "x"],
        &["store", "--log", "x", "check"],
    ] {
        let said = db.run(&[words, &["--collection", "."], &backup].concat());
        assert_eq!(said.code, 2, "{words:?}: {said:?}");
        assert!(said.err.contains("--store"), "{words:?}: {said:?}");
    }
    let said = db.run(&["audit", "verify", "--all", "--store", "nowhere.db"]);
    says!(said.ends(2).err, "nowhere.db");
}

#[test]
fn checkpoints_under_another_name_of_the_log_tell_the_key_of_the_configuration() {
    let db = signed();
    let name = db.run(&["audit", "key"]).out;
    let name = name.split('+').next().unwrap();
    let config = db.directory().join("config.toml");
    let text = fs::read_to_string(&config).unwrap() + "[audit]\nlog_name = \"logs.example/g2\"\n";
    fs::write(&config, text).unwrap();
    let said = db.run(&["audit", "verify", "--all"]);
    let want = format!(
        "signed by the trusted key, but under the name {name}; the configuration gives the log another one, or none: set \
         [audit] log_name = \"{name}\" there"
    );
    says!(said.ends(1).out, &want);
}
