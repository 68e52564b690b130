//! Retention drops no more than it must, and no reader holds it up for good.

use super::*;

async fn prune(store: &Sqlite, most: u64) -> Pruned {
    let retention = Retention {
        keep: None,
        max_size: Some(most),
    };
    let mut all = Pruned::default();
    loop {
        let step = store.prune(retention, NOON).await.unwrap();
        all.decisions += step.decisions;
        if !step.more {
            return all;
        }
    }
}

#[tokio::test]
async fn a_long_read_makes_retention_drop_no_more_than_the_excess() {
    const MOST: u64 = 7 * 512 * 1024;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let reader = shell(&path);
    let look = "BEGIN; SELECT count(*) FROM tail";
    reader.execute_batch(look).unwrap();
    reader
        .query_row("SELECT count(*) FROM tail", [], |_| Ok(()))
        .unwrap();
    for _ in 0..30 {
        record(&store, &rows(400)).await;
    }
    let full = store.size().await.unwrap();
    assert!(
        full.bytes > MOST,
        "database and log are more than that: {full:?}"
    );
    let gone = prune(&store, MOST).await.decisions;
    let left = store.size().await.unwrap();
    assert!(
        gone <= full.decisions / 2,
        "{gone} of {full:?}, left {left:?}"
    );
    drop(reader);
    assert_eq!(prune(&store, MOST).await.decisions, 0);
    let left = store.size().await.unwrap();
    assert!(left.bytes <= MOST, "{left:?}");
}

#[tokio::test]
async fn retention_waits_for_a_reader_once_the_log_is_long() {
    const MOST: u64 = 8 * 1024 * 1024;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let reader = shell(&path);
    reader.execute_batch("BEGIN").unwrap();
    let look = "SELECT count(*) FROM tail";
    let count = || reader.query_row(look, [], |row| row.get::<_, i64>(0));
    assert_eq!(count(), Ok(0));
    let page = format!("/{}", "x".repeat(16_000));
    let large = Row { path: &page, ..ROW };
    let mut written = 0;
    let log = || fs::metadata(beside(&path, "-wal")).unwrap().len();
    while log() <= 33 * 1024 * 1024 {
        record(&store, &vec![large.clone(); 100]).await;
        written += 100;
    }
    assert_eq!(prune(&store, MOST).await.decisions, 0, "of {written}");
    assert_eq!(count(), Ok(0), "it reads on");
    drop(reader);
    let gone = prune(&store, MOST).await.decisions;
    let left = store.size().await.unwrap();
    assert!(left.bytes <= MOST, "{left:?}");
    assert_eq!(left.decisions, written - gone);
    assert!(left.decisions > 100, "{left:?}");
}

#[tokio::test]
async fn no_more_large_records_are_dropped_than_necessary() {
    const MOST: u64 = 3 * 1024 * 1024;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let page = format!("/{}", "x".repeat(4_200));
    let large = Row { path: &page, ..ROW };
    for _ in 0..20 {
        record(&store, &vec![large.clone(); 100]).await;
    }
    let full = store.size().await.unwrap();
    assert!(full.bytes > 2 * MOST, "{full:?}");
    prune(&store, MOST).await;
    let left = store.size().await.unwrap();
    assert!(left.bytes <= MOST, "room is given back: {left:?}");
    // A step drops 250, and pages are filled by one large record each at worst.
    let fit = MOST / 8_192 / 2;
    assert!(left.decisions + 250 >= fit, "{left:?} of {full:?}");
}
