//! Damage and altered data are found, and a rebuild saves the rest.

use super::*;
use crate::state_file::state_file;

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
    let store = open(&path).unwrap();
    for _ in 0..20 {
        record(&store, &rows(100)).await;
    }
    drop(store);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
    damage(&path, 3);
    let faults = repair::check(&path).unwrap();
    assert!(!faults.is_empty());

    let rebuilt = repair::rebuild(&path, NOON).unwrap();
    let saved = |name: &str| rebuilt.tables.iter().find(|one| one.table == name).unwrap();
    assert_eq!((saved("origin").rows, saved("snapshot").rows), (1, 1));
    assert!(rebuilt.aside.exists(), "the damaged one is kept");
    assert!(!rebuilt.report.is_empty(), "{rebuilt:?}");
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
    let store = open(&path).unwrap();
    let left = store.records(0, 10_000).await.unwrap();
    assert!((1_000..4_000).contains(&left.len()), "{}", left.len());
    record(&store, &rows(1)).await;
    let size = store.extent().await.unwrap().size;
    let last = store.records(size - 1, 10).await.unwrap();
    assert_eq!(last.len(), 1, "the log goes on");
}

#[tokio::test]
async fn a_rebuild_of_a_store_that_is_whole_loses_nothing() {
    let (_folder, path) = place();
    filled(&path, 2_000).await;
    let all = async || open(&path).unwrap().records(0, 9_999).await.unwrap();
    let before = all().await;
    let key = Arc::new(LogKey::generate(None).unwrap());
    let signed = open(&path).unwrap().checkpoint(key, NOON).await.unwrap();
    let rebuilt = repair::rebuild(&path, NOON).unwrap();
    assert!(rebuilt.tables.iter().all(|saved| saved.lost == Some(0)), "{rebuilt:?}");
    assert_eq!(all().await, before);
    let kept = open(&path).unwrap().checkpoints().await.unwrap();
    assert_eq!(kept, [signed.unwrap()]);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn a_rebuild_leaves_the_key_and_the_state_file_beside_the_store_whatever_its_name() {
    let cases = [
        ("crawlgate.db", false),
        ("store", false),
        ("store", true),
        (".store", false),
        ("store.", false),
    ];
    for (name, is_damaged) in cases {
        let (folder, _) = place();
        let path = folder.path().join(name);
        filled(&path, 1_000).await;
        let key = LogKey::load_or_create(&log_key_file(&path), None).unwrap();
        let store = open(&path).unwrap();
        store.checkpoint(Arc::new(key), NOON).await.unwrap();
        drop(store);
        if is_damaged {
            damage(&path, 1);
        }
        let read = || [log_key_file(&path), state_file(&path)].map(|file| fs::read(file).unwrap());
        let before = read();
        let rebuilt = repair::rebuild(&path, NOON).unwrap();
        if !is_damaged {
            assert_eq!(read(), before, "{name}");
        }
        let faults = repair::check(&path).unwrap();
        assert_eq!(faults, repair::Faults::default(), "{name}");
        assert_ne!(log_key_file(&rebuilt.aside), log_key_file(&path), "{name}");
        assert_ne!(state_file(&rebuilt.aside), state_file(&path), "{name}");
        record(&open(&path).unwrap(), &rows(1)).await;
    }
}

#[tokio::test]
async fn altered_data_is_found() {
    let cases = [
        ("a block", "UPDATE block SET body = x'00'"),
        ("the roots of a block", "UPDATE block SET roots = zeroblob(length(roots))"),
        ("a block that is gone", "DELETE FROM block"),
        ("a row of the tail", "UPDATE tail SET entries = substr(entries, 1, 50)"),
        ("the tail that was signed", "DELETE FROM tail"),
        ("a checkpoint", "UPDATE checkpoint SET size = size - 1"),
        ("a checkpoint without sense", "UPDATE checkpoint SET note = 'x'"),
        ("the newest checkpoint", "DELETE FROM checkpoint"),
        ("an index that is gone", "DROP INDEX block_time"),
        ("a trigger that is gone", "DROP TRIGGER fetch_gone"),
        ("a view", "DROP VIEW origins; CREATE VIEW origins AS SELECT 1"),
        (
            "a trigger of another program",
            "CREATE TRIGGER other AFTER INSERT ON tail BEGIN DELETE FROM snapshot; END",
        ),
        ("an object", "UPDATE object SET body = x'00'"),
        ("an object that is gone", "DELETE FROM object"),
        ("a robots.txt", "UPDATE snapshot SET body = x'00'"),
        ("a robots.txt that is gone", "PRAGMA foreign_keys = OFF; DELETE FROM snapshot"),
    ];
    for (name, change) in cases {
        let (_folder, path) = place();
        filled(&path, 1_500).await;
        let store = open(&path).unwrap();
        let sha256 = successful("User-agent: *\n", NOON).snapshot().map(|one| one.sha256);
        record(&store, &[Row { sha256, ..ROW }]).await;
        let key = Arc::new(LogKey::generate(None).unwrap());
        store.checkpoint(key, NOON).await.unwrap();
        drop(store);
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
    let update_of = || origin_update("site.example", successful(text, NOON), NOON);
    let sha256 = update_of().state.snapshot().unwrap().sha256;
    let body = |text: &str| zstd::bulk::compress(text.as_bytes(), 3).unwrap();
    for (name, bytes, body) in [
        ("another text", 14, body("User-agent: x\n")),
        ("a longer one", 18, body("User-agent: xyzzy\n")),
        ("no text", 14, b"nonsense".to_vec()),
        ("nothing", 0, Vec::new()),
    ] {
        update_origin(&store, update_of()).await;
        let altered =
            shell(&path).execute("UPDATE snapshot SET bytes = ?1, body = ?2", (bytes, body));
        assert_eq!(altered, Ok(1));
        update_origin(&store, update_of()).await;
        let kept = store.snapshot(sha256).await.unwrap().unwrap();
        assert_eq!(kept, text.as_bytes(), "{name}");
        let count = "SELECT count(*) FROM snapshot";
        let count: i64 = shell(&path).query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 1, "{name}");
    }
}

/// Fills a store with batches of decisions, with paths that cannot be compressed.
async fn filled_with_noise(path: &Path, batches: u64, each: u64) {
    filled(path, 0).await;
    let store = open(path).unwrap();
    for batch in 0..batches {
        let path = |n: u64| format!("/private/{:x?}", digest(n * batches + batch));
        let paths: Vec<String> = (0..each).map(path).collect();
        let rows = paths.iter().map(|path| Row { path, ..ROW });
        record(&store, &rows.collect::<Vec<_>>()).await;
    }
}

/// Rebuilds a store and returns the number of decisions that are left.
async fn left_by_a_rebuild(path: &Path) -> u64 {
    repair::rebuild(path, NOON).unwrap();
    // The next process notes what is missing at the end.
    drop(open(path).unwrap());
    assert_eq!(repair::check(path).unwrap(), repair::Faults::default());
    let all = crate::DecisionQuery { limit: usize::MAX, ..crate::DecisionQuery::default() };
    let left = open(path).unwrap().decisions(all).await.unwrap();
    left.len() as u64
}

#[tokio::test]
async fn of_a_file_that_was_cut_off_what_stands_in_its_pages_is_saved() {
    let (_folder, whole) = place();
    filled_with_noise(&whole, 40, 1_500).await;
    for eighths in [1, 4] {
        let (_folder, path) = place();
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::copy(&whole, &path).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        let pages = file.metadata().unwrap().len() / 8_192;
        file.set_len((pages - pages * eighths / 8) * 8_192).unwrap();
        let left = left_by_a_rebuild(&path).await;
        // A block is lost if one of its pages is, and some pages hold no records.
        let least = 60_000 * (8 - eighths) / 8 - 10_000;
        assert!((least..60_000).contains(&left), "{eighths}: {left}");
    }
}

#[tokio::test]
async fn of_a_row_with_a_damaged_page_the_entries_before_it_are_saved() {
    let (_folder, path) = place();
    filled_with_noise(&path, 3, 900).await;
    let pages =
        "SELECT pageno FROM dbstat WHERE name = 'tail' AND pagetype = 'overflow' ORDER BY pageno";
    let pages: Vec<u64> = {
        let shell = shell(&path);
        let mut pages = shell.prepare(pages).unwrap();
        let pages = pages.query_map([], |row| row.get::<_, i64>(0)).unwrap();
        pages.map(|page| page.unwrap().unsigned_abs()).collect()
    };
    // In the middle of the last row, which is a third of them.
    let page = pages[pages.len() * 5 / 6];
    let file = fs::File::options().write(true).open(&path).unwrap();
    let zeros = [0; 8_192];
    std::os::unix::fs::FileExt::write_all_at(&file, &zeros, (page - 1) * 8_192).unwrap();
    let left = left_by_a_rebuild(&path).await;
    assert!((2_000..2_500).contains(&left), "{left}");
}

/// Returns octets that cannot be compressed.
fn digest(number: u64) -> Vec<u8> {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &number.to_be_bytes());
    digest.as_ref().to_vec()
}

#[tokio::test]
async fn a_page_of_origins_is_full_while_undamaged_ones_are_left() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    for host in ["a.example", "b.example", "c.example", "d.example"] {
        update_origin(&store, origin_update(host, successful("", NOON), NOON)).await;
    }
    let change =
        "UPDATE origin SET fresh_until = fresh_until + 1 WHERE origin = 'https://b.example'";
    shell(&path).execute_batch(change).unwrap();
    let page = async |after| {
        let query = OriginQuery { after, limit: 2, ..OriginQuery::default() };
        store.origins(query).await.unwrap()
    };
    let hosts = |page: &[StoredOrigin]| {
        let hosts = page.iter().map(|one| one.origin.host().to_owned());
        hosts.collect::<Vec<_>>()
    };
    let first = page(None).await;
    assert_eq!(hosts(&first), ["a.example", "c.example"]);
    let second = page(first.last().map(StoredOrigin::place)).await;
    assert_eq!(hosts(&second), ["d.example"]);
}
