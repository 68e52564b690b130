//! Damage and altered data are found, and a rebuild saves the rest.

use super::*;

/// Overwrites the pages of a table's leaves, from the middle of the file on.
fn damage(path: &Path, pages: u64) {
    use std::os::unix::fs::FileExt as _;
    let file = fs::File::options().write(true).open(path).unwrap();
    let middle = file.metadata().unwrap().len() / 4_096 / 2;
    for page in middle..middle + pages {
        file.write_all_at(&[0x5a; 4_096], page * 4_096).unwrap();
    }
}

#[tokio::test]
async fn damage_is_found_and_readable_data_is_saved() {
    let (_folder, path) = place();
    filled(&path, 2_000).await;
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
    damage(&path, 3);
    let faults = repair::check(&path).unwrap();
    assert!(!faults.is_empty());

    let rebuilt = repair::rebuild(&path, NOON).unwrap();
    let saved = |name: &str| rebuilt.tables.iter().find(|one| one.table == name).unwrap();
    let decisions = saved("decision");
    assert!((1_900..2_000).contains(&decisions.rows), "{rebuilt:?}");
    assert_eq!(decisions.lost, Some(2_000 - decisions.rows), "{rebuilt:?}");
    assert_eq!((saved("origin").rows, saved("snapshot").rows), (1, 1));
    assert!(rebuilt.aside.exists(), "the damaged one is kept");

    // The rebuild names the losses, and a later verification names them again without sending the operator back to a
    // rebuild.
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
    let store = open(&path).unwrap();
    let lost = store.gaps(0, u64::MAX >> 1).await.unwrap();
    let lost: u64 = lost.iter().map(|gap| gap.last - gap.first + 1).sum();
    assert_eq!(lost, 2_000 - decisions.rows);
    record(&store, &rows(1)).await;
    let last = store.links(2_000, 10).await.unwrap();
    assert_eq!(last.len(), 1, "the chain goes on from its head");
}

#[tokio::test]
async fn a_rebuild_of_a_store_that_is_whole_loses_nothing() {
    let (_folder, path) = place();
    filled(&path, 10).await;
    let before = shell(&path)
        .query_row("SELECT group_concat(hex(hash)) FROM decision", [], |row| {
            row.get::<_, String>(0)
        })
        .unwrap();
    let rebuilt = repair::rebuild(&path, NOON).unwrap();
    assert!(
        rebuilt.tables.iter().all(|saved| saved.lost == Some(0)),
        "{rebuilt:?}"
    );
    let after = shell(&path)
        .query_row("SELECT group_concat(hex(hash)) FROM decision", [], |row| {
            row.get::<_, String>(0)
        })
        .unwrap();
    assert_eq!(before, after);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn altered_data_is_found() {
    let cases = [
        (
            "a record",
            "UPDATE decision SET record = replace(record, 'deny', 'allow') WHERE seq = 7",
        ),
        (
            "a record that is gone",
            "DELETE FROM decision WHERE seq = 7",
        ),
        (
            "the head that was sealed",
            "DELETE FROM decision WHERE seq = 10",
        ),
        (
            "a chain made anew",
            "UPDATE decision SET hash = zeroblob(32) WHERE seq = 10",
        ),
        ("a seal", "UPDATE seal SET time = time + 1"),
        ("a robots.txt", "UPDATE snapshot SET body = x'00'"),
        (
            "a robots.txt that is gone",
            "PRAGMA foreign_keys = OFF; DELETE FROM snapshot",
        ),
    ];
    for (name, change) in cases {
        let (_folder, path) = place();
        filled(&path, 10).await;
        let key = Arc::new(chain::SealingKey::generate().unwrap());
        open(&path).unwrap().seal(key, NOON).await.unwrap();
        assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
        shell(&path).execute_batch(change).unwrap();
        assert!(!repair::check(&path).unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_text_that_was_altered_is_put_back_when_it_is_fetched_again() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let text = "User-agent: *\nDisallow: /private\n";
    let lands = || landing("site.example", successful(text, NOON), NOON);
    let sha256 = lands().state.snapshot().unwrap().sha256;
    let body = |text: &str| zstd::bulk::compress(text.as_bytes(), 3).unwrap();
    for (name, bytes, body) in [
        ("another text", 14, body("User-agent: x\n")),
        ("a longer one", 18, body("User-agent: xyzzy\n")),
        ("no text", 14, b"nonsense".to_vec()),
        ("nothing", 0, Vec::new()),
    ] {
        land(&store, lands()).await;
        let altered =
            shell(&path).execute("UPDATE snapshot SET bytes = ?1, body = ?2", (bytes, body));
        assert_eq!(altered, Ok(1));
        land(&store, lands()).await;
        let kept = store.snapshot(sha256).await.unwrap().unwrap();
        assert_eq!(kept, text.as_bytes(), "{name}");
        let count = "SELECT count(*) FROM snapshot";
        let count: i64 = shell(&path).query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1, "{name}");
    }
}
