//! Checkpoints that were kept elsewhere, and the keys that they are believed of.

use super::test_store::{ProgramOutput, signed};

#[test]
fn a_checkpoint_that_was_kept_is_checked_itself() {
    let db = signed();
    let kept = db.keep_checkpoint("kept");
    let verify = || -> ProgramOutput {
        db.run(&["audit", "verify", "--all", "--checkpoint", kept.to_str().unwrap()])
    };
    let said = verify();
    says!(said.ends(0).out, "2 checkpoints agree");
    let text = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, text.replacen("\n6\n", "\n5\n", 1)).unwrap();
    let said = verify();
    let want = "the signature of the checkpoint that was kept, of 5 records, is not valid";
    says!(said.ends(1).out, want);
    std::fs::write(&kept, signed().run(&["audit", "checkpoint"]).out).unwrap();
    let said = verify();
    let want = "are signed by no trusted key but by crawlgate/";
    says!(said.ends(1).out, want);
    std::fs::write(&kept, "nonsense").unwrap();
    let said = verify();
    says!(said.ends(2).err, "--checkpoint ");
}

#[test]
fn checkpoints_are_believed_of_one_key() {
    let db = signed();
    let key = db.run(&["audit", "key"]).out;
    let verify = |key: &str| db.run(&["audit", "verify", "--all", "--key", key]);
    assert_eq!(verify(key.trim()).code, 0);
    let file = db.directory().join("auditor.pub");
    std::fs::write(&file, &key).unwrap();
    assert_eq!(verify(file.to_str().unwrap()).code, 0);
    let other = signed().run(&["audit", "key"]).out;
    let said = verify(other.trim());
    assert_eq!(said.code, 1);
    let (name, _) = key.split_once('+').unwrap();
    let want = format!(
        "1 checkpoints, the first of 6 records, are signed by no trusted key but by {name}"
    );
    assert!(said.out.contains(&want), "{said:?}");
    let said = verify("nowhere.pub");
    assert_eq!((said.code, said.err.contains("--key nowhere.pub: ")), (2, true), "{said:?}");
    // Both keys of a log with an exchanged key.
    let said = db.run(&["audit", "verify", "--all", "--key", other.trim(), "--key", key.trim()]);
    assert_eq!(said.code, 0, "{said:?}");

    // Without the key file no checkpoint is believed: a forger could name a key of their own.
    std::fs::remove_file(db.directory().join("crawlgate.log.key")).unwrap();
    let said = db.run(&["audit", "verify", "--all"]);
    says!(said.ends(1).out, &want);
    let ids = db.run(&["log", "--all", "--format", "jsonl"]).out;
    let first: serde_json::Value = serde_json::from_str(ids.lines().next().unwrap()).unwrap();
    let said = db.run(&["audit", "verify", first["id"].as_str().unwrap()]);
    says!(said.ends(1).out, "there is no key to check it with");
}
