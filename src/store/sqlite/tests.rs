//! Tests of the embedded engine alone: its file, damage, other processes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::open::beside;
use super::*;
use crate::store::tests::{ROW, Row, land, landing, record, rows, successful};
use crate::store::{DecisionKind, Party, RecordSummary};
use crate::text::hex;

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/crawlgate.db");
    (folder, path)
}

fn open(path: &Path) -> Result<Sqlite, StoreError> {
    Sqlite::open(path, Access::Write, Synchronous::Normal)
}

/// Opens the database as an operator's shell does.
fn shell(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

async fn filled(path: &Path, decisions: u64) {
    let store = open(path).unwrap();
    land(
        &store,
        landing("site.example", successful("User-agent: *\n", NOON), NOON),
    )
    .await;
    record(&store, &rows(decisions)).await;
}

mod flips;
mod room;

const NOON: Moment = Moment::from_millis(1_795_176_000_000);

#[test]
fn what_is_made_is_its_owners_alone() {
    let (_folder, path) = place();
    drop(open(&path).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

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
    let hex = hex(sha256);
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
async fn an_older_store_is_brought_up_to_date_and_a_newer_one_is_left_alone() {
    let (_folder, path) = place();
    filled(&path, 2).await;
    let next = [schema::STEPS, &["ALTER TABLE policy ADD COLUMN later TEXT"]].concat();
    let mut connection = shell(&path);
    schema::migrate(&mut connection, &next).unwrap();
    schema::migrate(&mut connection, &next).unwrap();
    let count = |table: &str| -> i64 {
        let text = format!("SELECT count(*) FROM {table}");
        connection.query_row(&text, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(
        (count("decision"), count("origin")),
        (2, 1),
        "nothing is lost"
    );
    connection
        .execute("INSERT INTO policy VALUES ('d', 't', 'new')", [])
        .unwrap();
    drop(connection);

    let before = fs::read(&path).unwrap();
    for access in [Access::Read, Access::Write] {
        let error = Sqlite::open(&path, access, Synchronous::Normal).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Newer);
        assert!(
            error.message.contains("schema 6, known here: up to 5"),
            "{error}"
        );
    }
    assert_eq!(fs::read(&path).unwrap(), before, "it is left as it was");
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_with_the_way_out() {
    use StoreErrorKind::{Corrupt, Denied, Missing};
    type Make = fn(&Path);
    let cases: [(&str, Make, Access, StoreErrorKind, &str); 9] = [
        (
            "nothing to read",
            |_| {},
            Access::Read,
            Missing,
            "there is no store yet",
        ),
        (
            "a text",
            |path| fs::write(path, "hello ".repeat(2_000)).unwrap(),
            Access::Write,
            Corrupt,
            "no store of crawlgate's",
        ),
        (
            "another program's",
            |path| {
                shell(path)
                    .execute_batch("CREATE TABLE theirs (a)")
                    .unwrap();
            },
            Access::Write,
            Corrupt,
            "another program's database",
        ),
        (
            "a folder",
            |path| fs::create_dir(path).unwrap(),
            Access::Write,
            Denied,
            "[store] path",
        ),
        (
            "cut short",
            |path| {
                drop(open(path).unwrap());
                let file = fs::File::options().write(true).open(path).unwrap();
                file.set_len(file.metadata().unwrap().len() / 2).unwrap();
            },
            Access::Write,
            Corrupt,
            "crawlgate store rebuild",
        ),
        (
            "emptied",
            |path| {
                drop(open(path).unwrap());
                chain::SealingKey::load_or_create(&chain::key_file(path)).unwrap();
                fs::write(path, "").unwrap();
            },
            Access::Write,
            Corrupt,
            "was emptied",
        ),
        (
            "gone, but for its key",
            |path| {
                chain::SealingKey::load_or_create(&chain::key_file(path)).unwrap();
            },
            Access::Write,
            Corrupt,
            "move the key away",
        ),
        (
            "gone, and only asked",
            |path| {
                chain::SealingKey::load_or_create(&chain::key_file(path)).unwrap();
            },
            Access::Read,
            Corrupt,
            "the store is gone",
        ),
        (
            "emptied, but for its log",
            |path| {
                fs::write(path, "").unwrap();
                fs::write(beside(path, "-wal"), "log").unwrap();
            },
            Access::Write,
            Corrupt,
            "was emptied",
        ),
    ];
    for (name, make, access, kind, want) in cases {
        let (_folder, path) = place();
        fs::create_dir(path.parent().unwrap()).unwrap();
        make(&path);
        let error = Sqlite::open(&path, access, Synchronous::Normal).unwrap_err();
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert!(error.message.contains(want), "{name}: {error}");
        assert!(
            error.message.contains("crawlgate.db"),
            "{name} is named: {error}"
        );
    }
}

#[test]
fn an_unfinished_store_is_finished() {
    let (_folder, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, "").unwrap();
    drop(open(&path).unwrap());
    let (_folder, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    shell(&path)
        .pragma_update(None, "journal_mode", "WAL")
        .unwrap();
    drop(open(&path).unwrap());
}

#[tokio::test]
async fn an_unwritable_place_is_reported() {
    let (_folder, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    let folder = path.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(folder.join("probe"), "").is_ok() {
        return; // root may write anywhere
    }
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Denied);
    assert!(error.message.contains("[store] path"), "{error}");
}

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
        lines: ROW.line().1,
        ..Batch::default()
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

async fn prune(store: &Sqlite, most: u64) -> Pruned {
    let key = Arc::new(chain::SealingKey::generate().unwrap());
    let retention = Retention {
        keep: None,
        max_size: Some(most),
    };
    let mut all = Pruned::default();
    loop {
        let step = store
            .prune(retention, Arc::clone(&key), NOON)
            .await
            .unwrap();
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
    let look = "BEGIN; SELECT count(*) FROM decision";
    reader.execute_batch(look).unwrap();
    reader
        .query_row("SELECT count(*) FROM decision", [], |_| Ok(()))
        .unwrap();
    for _ in 0..30 {
        record(&store, &rows(100)).await;
    }
    let full = store.size().await.unwrap();
    assert!(
        full.bytes > MOST,
        "database and log are more than that: {full:?}"
    );
    let gone = prune(&store, MOST).await.decisions;
    let left = store.size().await.unwrap();
    assert!(gone <= 250, "{gone} of {full:?}, left {left:?}");
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
    let look = "SELECT count(*) FROM decision";
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

#[tokio::test]
async fn a_store_moved_away_while_open_takes_no_more_records() {
    let (_folder, path) = place();
    let elsewhere = path.with_extension("elsewhere");
    let log = beside(&path, "-wal");
    type Take = fn(&Path, &Path);
    let cases: [(&str, &Path, Take, bool); 4] = [
        ("moved", &path, |_, _| {}, true),
        ("its log moved", &log, |_, _| {}, true),
        (
            "replaced",
            &path,
            |from, to| assert!(fs::copy(to, from).unwrap() > 0),
            true,
        ),
        (
            "replaced by one that has a log of its own",
            &path,
            |from, _| drop(open(from).unwrap()),
            false,
        ),
    ];
    for (name, file, replace, comes_back) in cases {
        let store = open(&path).unwrap();
        record(&store, &rows(1)).await;
        let before = store.links(0, 9).await.unwrap().len();
        fs::rename(file, &elsewhere).unwrap();
        replace(file, &elsewhere);
        let batch = || Batch {
            lines: ROW.line().1,
            ..Batch::default()
        };
        let refused = Store::write(&store, batch()).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Missing, "{name}: {refused}");
        assert!(
            refused.message.contains("put those very files back"),
            "{name}"
        );
        fs::rename(&elsewhere, file).unwrap();
        let written = Store::write(&store, batch()).await;
        assert_eq!(written.is_ok(), comes_back, "{name}: {written:?}");
        let after = store.links(0, 9).await.unwrap().len();
        assert_eq!(after == before + 1, comes_back, "{name}");
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
    let (_, line) = ROW.line();
    let batch = Batch {
        lines: line.repeat(1_000),
        ..Batch::default()
    };
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
async fn a_reader_alone_can_read_the_remains_of_a_kill() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    record(&store, &rows(3)).await;
    // The files after a sudden end of the process: the records are in the log alone.
    let (_other, left) = place();
    fs::create_dir(left.parent().unwrap()).unwrap();
    fs::copy(&path, &left).unwrap();
    fs::copy(beside(&path, "-wal"), beside(&left, "-wal")).unwrap();
    let reader = Sqlite::open(&left, Access::Read, Synchronous::Normal).unwrap();
    assert_eq!(reader.links(0, 10).await.unwrap().len(), 3);
}

#[tokio::test]
async fn summaries_of_records_are_kept_like_parsed_records() {
    let kept = async |notes: Vec<RecordSummary>| {
        let (_folder, path) = place();
        let store = open(&path).unwrap();
        let robots = landing("site.example", successful("User-agent: *\n", NOON), NOON);
        land(&store, robots).await;
        let digest: Sha256 = shell(&path)
            .query_row("SELECT sha256 FROM snapshot", [], |row| row.get(0))
            .unwrap();
        let hex = hex(digest);
        let lines = format!(
            "{{\"time\":\"2026-11-20T12:00:00.001Z\",\"id\":\"1\",\"mode\":\"report\",\"verdict\":\"deny\",\
             \"reason\":\"robots_disallow\",\"robots\":{{\"sha256\":\"{hex}\"}}}}\n\
             {{\"time\":\"2026-11-20T12:00:00.002Z\",\"event\":\"records_lost\"}}\n"
        );
        let notes = notes.into_iter().map(|note| RecordSummary {
            sha256: note.sha256.map(|_| digest),
            ..note
        });
        let batch = Batch {
            lines: lines.into_bytes(),
            notes: notes.collect(),
            ..Batch::default()
        };
        Store::write(&store, batch).await.unwrap();
        drop(store);
        let shell = shell(&path);
        let all = |sql: &str| {
            let mut statement = shell.prepare(sql).unwrap();
            let width = statement.column_count();
            let rows = statement.query_map([], |row| {
                (0..width)
                    .map(|at| row.get::<_, rusqlite::types::Value>(at))
                    .collect::<Result<Vec<_>, _>>()
            });
            rows.unwrap().map(Result::unwrap).collect::<Vec<_>>()
        };
        [
            all("SELECT * FROM decision ORDER BY seq"),
            all("SELECT * FROM hourly"),
            all("SELECT sha256, last_decision FROM snapshot"),
        ]
    };
    let first = RecordSummary {
        time: NOON + Duration::from_millis(1),
        party: Party::Own,
        count: 1,
        kind: Some(DecisionKind {
            mode: "report",
            verdict: "deny",
            reason: "robots_disallow",
        }),
        sha256: Some([0; 32]),
    };
    let second = RecordSummary {
        time: NOON + Duration::from_millis(2),
        party: Party::Own,
        count: 1,
        kind: None,
        sha256: None,
    };
    let read = kept(Vec::new()).await;
    assert_eq!(read.each_ref().map(Vec::len), [2, 1, 1]);
    assert_eq!(kept(vec![first, second.clone()]).await, read, "noted");
    // One note too few, which could belong to either line: none counts.
    assert_eq!(kept(vec![second]).await, read, "not all noted");
}
