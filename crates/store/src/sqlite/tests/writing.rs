//! Written records stay, are readable in a shell, and wait for room.

use super::*;

#[tokio::test]
async fn records_are_present_after_a_restart() {
    let (_folder, path) = place();
    filled(&path, 3).await;
    let store = Store::open(&path, Access::Read, Synchronous::Normal).unwrap();
    assert_eq!(store.records(0, 10).await.unwrap().len(), 3);
    let page = store.origins(OriginQuery { limit: 9, ..OriginQuery::default() }).await;
    assert_eq!(page.unwrap().len(), 1);
    let refused = store.write(Batch::default()).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Denied, "{refused}");
}

#[tokio::test]
async fn two_writers_make_one_log() {
    let (_folder, path) = place();
    let stores = [Arc::new(open(&path).unwrap()), Arc::new(open(&path).unwrap())];
    let tasks = stores.clone().map(|store| {
        tokio::spawn(async move {
            for _ in 0..50 {
                record(&store, &rows(4)).await;
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    let records = stores[0].records(0, 1_000).await.unwrap();
    assert!(records.iter().map(|one| one.seq).eq(1..=400));
    drop(stores);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn the_views_are_readable_in_a_shell() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let state = successful("User-agent: *\nDisallow: /private\n", NOON);
    let sha256 = state.snapshot().unwrap().sha256;
    update_origin(&store, origin_update("site.example", state, NOON)).await;
    let shell = shell(&path);
    let row = |query: &str| -> Vec<String> {
        shell
            .query_row(query, [], |row| {
                let columns = row.as_ref().column_count();
                (0..columns)
                    .map(|at| row.get::<_, rusqlite::types::Value>(at))
                    .map(|value| Ok(text(value?)))
                    .collect()
            })
            .unwrap()
    };
    let hex = crawlgate_text::hex(sha256);
    let origin = row("SELECT origin, state, fetched, fresh_until, sha256 FROM origins");
    let want = [
        "https://site.example",
        "successful",
        "2026-11-20T12:00:00.000Z",
        "2026-11-21T12:00:00.000Z",
        &hex,
    ];
    assert_eq!(origin, want);
    let snapshot = row("SELECT sha256, bytes, last_fetched, origins FROM snapshots");
    assert_eq!(snapshot, [&*hex, "33", "2026-11-20T12:00:00.000Z", "1"]);
}

fn text(value: rusqlite::types::Value) -> String {
    use rusqlite::types::Value;
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text,
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn an_update_that_cannot_be_kept_holds_up_no_record() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    // As a mistake of ours would.
    let refusal = "CREATE TRIGGER refusal AFTER INSERT ON fetch WHEN new.origin LIKE '%bad%' \
                   BEGIN SELECT RAISE(ABORT, 'no'); END";
    shell(&path).execute_batch(refusal).unwrap();
    let update_of = |host| origin_update(host, successful("User-agent: *\n", NOON), NOON);
    let batch = Batch {
        updates: vec![update_of("one.example"), update_of("bad.example"), update_of("two.example")],
        ..ROW.batch()
    };
    store.write(batch).await.unwrap();
    assert_eq!(store.records(0, 10).await.unwrap().len(), 1);
    for (host, want) in [("one.example", true), ("bad.example", false), ("two.example", true)] {
        let kept = store.origin(&update_of(host).origin).await.unwrap();
        assert_eq!(!kept.is_empty(), want, "{host}");
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_as_such_and_passes() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    record(&store, &rows(1)).await;
    // The engine's own bound stands in for a full disk: it causes the same error.
    let bound = |pages: i64| {
        store.on_writer(move |connection, _| {
            connection.pragma_update(None, "max_page_count", pages)?;
            Ok(())
        })
    };
    bound(60).await.unwrap();
    let mut batch = Batch::default();
    let page = format!("/{}", "x".repeat(4_000));
    for _ in 0..1_000 {
        Row { path: &page, ..ROW }.file(&mut batch);
    }
    let full = store.write(batch.clone()).await.unwrap_err();
    assert_eq!(full.kind, StoreErrorKind::Full, "{full}");
    assert!(full.message.contains("no room is left"), "{full}");
    assert_eq!(store.records(0, 10).await.unwrap().len(), 1, "nothing of it was kept");
    bound(1_000_000).await.unwrap();
    store.write(batch).await.unwrap();
    assert_eq!(store.size().await.unwrap().decisions, 1_001);
}
