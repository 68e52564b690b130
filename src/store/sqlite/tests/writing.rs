//! Written records stay, are readable in a shell, and wait for room.

use super::*;

#[tokio::test]
async fn records_are_present_after_a_restart() {
    let (_folder, path) = place();
    filled(&path, 3).await;
    let store = Sqlite::open(&path, Access::Read, Synchronous::Normal).unwrap();
    assert_eq!(store.links(0, 10).await.unwrap().len(), 3);
    let page = store
        .origins(OriginQuery {
            limit: 9,
            ..OriginQuery::default()
        })
        .await;
    assert_eq!(page.unwrap().len(), 1);
    let refused = Store::write(&store, Batch::default()).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Denied, "{refused}");
}

#[tokio::test]
async fn two_writers_make_one_chain() {
    let (_folder, path) = place();
    let stores = [
        Arc::new(open(&path).unwrap()),
        Arc::new(open(&path).unwrap()),
    ];
    let tasks = stores.clone().map(|store| {
        tokio::spawn(async move {
            for _ in 0..50 {
                record(&*store, &rows(4)).await;
            }
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    let links = stores[0].links(0, 1_000).await.unwrap();
    assert_eq!(links.len(), 400);
    let mut hash = chain::GENESIS;
    for (link, seq) in links.iter().zip(1..) {
        hash = chain::link(&hash, link.record.as_bytes());
        assert_eq!((link.seq, link.hash), (seq, hash));
    }
    drop(stores);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn the_views_are_readable_in_a_shell() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let state = successful("User-agent: *\nDisallow: /private\n", NOON);
    let sha256 = state.snapshot().unwrap().sha256;
    land(&store, landing("site.example", state, NOON)).await;
    let allowed = Row {
        verdict: "allow",
        ..ROW
    };
    let denied = Row {
        port: 8443,
        sha256: Some(sha256),
        ..ROW
    };
    let ids = record(&store, &[allowed, denied]).await;
    let note = Acknowledgement {
        time: NOON,
        by: "Ada".to_owned(),
        note: "seen".to_owned(),
    };
    store.acknowledge(&ids[1], note).await.unwrap();
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
    let hex = crate::text::hex(sha256);
    let denial = row(
        "SELECT seq, time, reason, origin, url, rule, line, sha256, acknowledged_by FROM denials",
    );
    let want = [
        "2",
        "2026-11-20T12:00:00.000Z",
        "robots_disallow",
        "https://site.example:8443",
        "https://site.example:8443/private/x?q=1",
        "Disallow: /private",
        "3",
        &hex,
        "Ada",
    ];
    assert_eq!(denial, want);
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
async fn a_landing_that_cannot_be_kept_holds_up_no_record() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    // As a mistake of ours would.
    let refusal = "CREATE TRIGGER refusal AFTER INSERT ON fetch WHEN new.origin LIKE '%bad%' \
                   BEGIN SELECT RAISE(ABORT, 'no'); END";
    shell(&path).execute_batch(refusal).unwrap();
    let lands = |host| landing(host, successful("User-agent: *\n", NOON), NOON);
    let batch = Batch {
        landings: vec![
            lands("one.example"),
            lands("bad.example"),
            lands("two.example"),
        ],
        ..ROW.batch()
    };
    Store::write(&store, batch).await.unwrap();
    assert_eq!(store.links(0, 10).await.unwrap().len(), 1);
    for (host, want) in [
        ("one.example", true),
        ("bad.example", false),
        ("two.example", true),
    ] {
        let kept = store.origin(&lands(host).origin).await.unwrap();
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
        store.write(move |connection| {
            connection.pragma_update(None, "max_page_count", pages)?;
            Ok(())
        })
    };
    bound(60).await.unwrap();
    let mut batch = Batch::default();
    for _ in 0..1_000 {
        ROW.file(&mut batch);
    }
    let full = Store::write(&store, batch.clone()).await.unwrap_err();
    assert_eq!(full.kind, StoreErrorKind::Full, "{full}");
    assert!(full.message.contains("no room is left"), "{full}");
    assert_eq!(
        store.links(0, 10).await.unwrap().len(),
        1,
        "nothing of it was kept"
    );
    bound(1_000_000).await.unwrap();
    Store::write(&store, batch).await.unwrap();
    assert_eq!(store.size().await.unwrap().decisions, 1_001);
}

#[tokio::test]
async fn records_are_filed_by_what_their_lines_say() {
    use crate::store::filter::Head;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let robots = landing("site.example", successful("User-agent: *\n", NOON), NOON);
    let sha256 = robots.state.snapshot().map(|snapshot| snapshot.sha256);
    land(&store, robots).await;
    let row = Row { sha256, ..ROW };
    let strange = Row {
        reason: "unknown_client",
        ..ROW
    };
    let unnamed = Row { name: None, ..ROW };
    record(&store, &[row, strange, unnamed]).await;
    Store::write(&store, lost()).await.unwrap();
    let repeated = |client_name| EventKind::Repeated {
        mode: Mode::Enforce,
        verdict: Verdict::Deny,
        reason: "robots_disallow",
        client: [0, 0, 0, 0].into(),
        client_name,
        count: 5,
        first: NOON.as_millis(),
        last: NOON.as_millis(),
    };
    for kind in [repeated(None), repeated(Some("crawler-7".into()))] {
        Store::write(&store, event(NOON, kind)).await.unwrap();
    }
    drop(store);
    let shell = shell(&path);
    let mut rows = shell
        .prepare("SELECT time, record, name FROM decision JOIN party ON party = number")
        .unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let mut hours: Vec<Hourly> = Vec::new();
    let mut count = 0;
    for row in rows.unwrap() {
        let (time, line, party): (i64, String, String) = row.unwrap();
        let head = Head::of(&line).unwrap();
        assert_eq!(head.time().as_millis(), time as u64, "{line}");
        assert_eq!(head.party().to_string(), party, "{line}");
        if let Some(new) = head.hourly() {
            match hours.iter_mut().find(|known| known.is_kind(&new)) {
                Some(known) => known.count += new.count,
                None => hours.push(Hourly {
                    hour: new.hour,
                    mode: new.mode.to_owned(),
                    verdict: new.verdict.to_owned(),
                    reason: new.reason.to_owned(),
                    count: new.count,
                }),
            }
        }
        count += 1;
    }
    assert_eq!(count, 6);
    hours.sort_by(|one, other| one.reason.cmp(&other.reason));
    let counted = super::hours::read(&shell, Moment::default(), NOON + Duration::from_secs(1));
    assert_eq!(counted.unwrap(), hours);
    let used: Vec<u8> = shell
        .query_row(
            "SELECT sha256 FROM snapshot WHERE last_decision = 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(
        Some(used.as_slice()),
        sha256.as_ref().map(|digest| &digest[..])
    );
}
