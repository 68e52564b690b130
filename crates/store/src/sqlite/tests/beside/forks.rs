//! A store that continues as another log, after a loss that was signed.

use super::*;

/// Leaves a store of 100 records beside the files of one of 120, all of them signed.
async fn rolled_back() -> Left {
    let (_folder, path) = place();
    let (store, key) = begin(&path);
    record(&store, &rows(100)).await;
    store.checkpoint(Arc::clone(&key), NOON).await.unwrap();
    drop(store);
    let old = Left::of(&path);
    let (store, _) = begin(&path);
    record(&store, &rows(20)).await;
    store.checkpoint(key, NOON).await.unwrap();
    drop(store);
    old.take(&path, STATE);
    old
}

#[tokio::test]
async fn a_fork_that_was_cut_short_anywhere_is_refused_and_goes_on() {
    let left = rolled_back().await;
    let lost = state(&left.path()).signed;
    let forked = Left::of(&left.path());
    let fork = Fork::of(&forked.path(), None, None).unwrap();
    let done = fork.carry_out("a test", NOON).unwrap();
    assert_eq!((done.seq, done.aside.len()), (101, 2));
    // The files that a process has left that was killed after each step.
    for (name, done, key_is) in [
        ("before all", false, Some(&left)),
        ("after the entry", true, Some(&left)),
        ("after the key went aside", true, None),
        ("after the new key", true, Some(&forked)),
    ] {
        let cut = Left::of(&if done { &forked } else { &left }.path());
        cut.take(&left.path(), STATE);
        fs::remove_file(log_key_file(&cut.path())).unwrap();
        if let Some(from) = key_is {
            cut.take(&from.path(), KEY);
        }
        assert!(open(&cut.path()).is_err(), "{name}");
        let fork = Fork::of(&cut.path(), None, None).expect(name);
        assert!(fork.describe().contains("records 101 to 120 (20)"), "{name}: {}", fork.describe());
        let again = fork.carry_out("a test", NOON).expect(name);
        assert_eq!(again.seq, 101, "{name}: one entry");
        let (store, key) = begin(&cut.path());
        assert_eq!(key.vkey(), again.new, "{name}");
        store.checkpoint(key, NOON).await.expect(name).expect(name);
        let last = store.records(100, 9).await.unwrap();
        let [entry] = &last[..] else {
            panic!("{name}: {last:?}");
        };
        let want = format!(
            "\"size\":120,\"root\":\"{}\",\"reason\":\"a test\"",
            crawlgate_text::hex(lost.1)
        );
        assert!(entry.record.contains(&want), "{name}: {}", entry.record);
        let keys = public_keys::earlier_keys(&cut.path()).unwrap();
        let old = LogKey::load(&log_key_file(&left.path()), None).unwrap().vkey();
        assert_eq!(keys, [old], "{name}");
        drop(store);
        assert!(repair::check(&cut.path()).unwrap().is_empty(), "{name}");
        let error = Fork::of(&cut.path(), None, None).unwrap_err();
        assert!(error.message.contains("no record that its state file names"), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_fork_needs_a_loss_that_was_signed_and_another_name() {
    let left = rolled_back().await;
    let name = LogKey::load(&log_key_file(&left.path()), None).unwrap().name().clone();
    let error = Fork::of(&left.path(), Some(name.clone()), None).unwrap_err();
    let want = format!("such as \"{name}-2\"");
    assert!(error.message.contains(&want), "{error}");

    let (_folder, path) = place();
    let (store, _) = begin(&path);
    record(&store, &rows(10)).await;
    drop(store);
    let (store, _) = begin(&path);
    record(&store, &rows(5)).await;
    let unsigned = Left::of(&path);
    drop(store);
    unsigned.remove("-wal");
    fs::remove_file(log_key_file(&unsigned.path())).unwrap();
    let foreign = rolled_back().await;
    foreign.take(&path, KEY);
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("whole", Fork::of(&path, None, None), "no record that its state file names is missing"),
        ("without a signed loss", Fork::of(&unsigned.path(), None, None), "`crawlgate serve` notes the loss"),
        ("with another key", Fork::of(&foreign.path(), None, None), "this log was signed by another key"),
    ];
    for (name, fork, want) in rows {
        let error = fork.expect_err(name);
        assert!(error.message.contains(want), "{name}: {error}");
    }
}
