mod columns;
mod several;

use std::convert::Infallible;
use std::fs;
use std::sync::mpsc;

use serde_json::json;

use super::super::Store;
use super::*;
use crate::Acknowledgement;
use crate::tests::has;
use crate::tests::{ROW, Row, origin_update, record, rows, successful, update_origin};
use crawlgate_config::Synchronous;
use crawlgate_system::clock::Moment;

const NOON: Moment = Moment::from_millis(1_795_176_000_000);

/// Rows as JSON, up to a number.
#[derive(Default)]
struct Taken {
    names: Vec<String>,
    rows: Vec<Vec<serde_json::Value>>,
    most: Option<usize>,
}

impl Rows for Taken {
    type Error = Infallible;

    fn names(&mut self, names: &[&str]) -> Result<bool, Infallible> {
        self.names = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(true)
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<bool, Infallible> {
        let cells = cells.iter().map(|cell| match cell {
            Cell::Null => json!(null),
            Cell::Integer(number) => json!(number),
            Cell::Real(number) => json!(number),
            Cell::Text(text) | Cell::Blob(text) => json!(String::from_utf8_lossy(text)),
        });
        self.rows.push(cells.collect());
        Ok(self.most.is_none_or(|most| self.rows.len() < most))
    }

    fn end(&mut self) -> Result<bool, Infallible> {
        Ok(true)
    }
}

fn ask(path: &Path, query: &DecisionQuery, text: &str) -> Result<Taken, String> {
    let session = Session::open(path, query).map_err(|error| error.to_string())?;
    let mut taken = Taken::default();
    let ran = session.run(text, &mut taken);
    ran.map(|()| taken).map_err(|error| error.to_string())
}

fn asked(path: &Path, text: &str) -> Vec<Vec<serde_json::Value>> {
    ask(path, &DecisionQuery::default(), text).unwrap().rows
}

/// Fills a store with blocks and a tail, of which every third decision allows.
async fn filled() -> (tempfile::TempDir, std::path::PathBuf, Store) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crawlgate.db");
    let store = Store::open(&path, Access::Write, Synchronous::Normal).unwrap();
    let known = successful("User-agent: *\nDisallow: /private\n", NOON);
    let sha256 = known.snapshot().map(|one| one.sha256);
    update_origin(&store, origin_update("site.example", known, NOON)).await;
    for _ in 0..3 {
        let mut rows = rows(1_500);
        for row in rows.iter_mut().step_by(3) {
            (row.verdict, row.reason, row.port) = ("allow", "robots_allow", 8443);
            (row.agent, row.path) = ("Other\u{202e}Bot", "/caf\u{e9}?\u{1}");
        }
        record(&store, &rows).await;
    }
    let ids = record(&store, &[Row { sha256, ..ROW }, ROW, ROW]).await;
    let note = Acknowledgement { time: NOON, by: "Ada".to_owned(), note: "known".to_owned() };
    assert!(crate::tests::acknowledge(&store, &ids[0], note).await);
    (folder, path, store)
}

#[tokio::test]
async fn the_views_have_each_decision_once_and_the_fields_of_its_line() {
    let (_folder, path, store) = filled().await;
    let all = store.records(0, 10_000).await.unwrap();
    let all: Vec<_> = all.iter().filter(|one| one.record.contains("\"verdict\"")).collect();
    let found = asked(&path, "SELECT seq, line, time, id FROM decisions");
    assert_eq!(found.len(), all.len());
    assert_eq!(found.len(), 4_503);
    for (row, stored) in found.iter().zip(&all) {
        let line: serde_json::Value = serde_json::from_str(&stored.record).unwrap();
        let want = [json!(stored.seq), json!(stored.record), line["time"].clone()];
        assert_eq!(row[..3], want);
        assert_eq!(row[3], line["id"]);
    }
    let denied = all.iter().filter(|one| one.record.contains("\"verdict\":\"deny\"")).count();
    assert!(denied > 0);
    assert_eq!(asked(&path, "SELECT count(*) FROM denials"), [[json!(denied)]]);
    assert_eq!(
        asked(
            &path,
            "SELECT acknowledged_by, acknowledged_note, acknowledged_at, robots_state FROM decisions \
             WHERE acknowledged_by IS NOT NULL"
        ),
        [[json!("Ada"), json!("known"), json!("2026-11-20T12:00:00.000Z"), json!("successful")]]
    );
    // With a table of the store, and with itself.
    assert_eq!(
        asked(&path, "SELECT count(*) FROM denials JOIN origins USING (origin)"),
        asked(&path, "SELECT count(*) FROM denials WHERE origin IN (SELECT origin FROM origins)")
    );
    let twice = "SELECT count(*) FROM (SELECT id FROM decisions WHERE seq > 4400) JOIN \
                 (SELECT id FROM decisions WHERE seq > 4400) USING (id)";
    assert_eq!(asked(&path, twice), [[json!(103)]]);
}

#[tokio::test]
async fn the_conditions_hold_for_the_views() {
    let (_folder, path, store) = filled().await;
    let conditions = [
        DecisionQuery { verdict: Some("allow".to_owned()), ..DecisionQuery::default() },
        DecisionQuery { acknowledged: Some(true), ..DecisionQuery::default() },
        DecisionQuery { origin: Some("nowhere.example".to_owned()), ..DecisionQuery::default() },
        DecisionQuery { since: Some(NOON), ..DecisionQuery::default() },
    ];
    for query in conditions {
        let listed = DecisionQuery { limit: 100_000, ..query.clone() };
        let listed = store.decisions(listed).await.unwrap();
        let count = |text| ask(&path, &query, text).unwrap().rows;
        let counted = count("SELECT count(*) FROM decisions");
        assert_eq!(counted, [[json!(listed.len())]], "{query:?}");
        let denied = listed.iter().filter(|one| one.record.contains("\"deny\""));
        let counted = count("SELECT count(*) FROM denials");
        assert_eq!(counted, [[json!(denied.count())]], "{query:?}");
    }
}

#[tokio::test]
async fn nothing_can_be_changed() {
    let (folder, path, _store) = filled().await;
    let before = fs::read(&path).unwrap();
    let other = folder.path().join("other.db");
    let other = other.display();
    for text in [
        "INSERT INTO hourly VALUES (0, 'enforce', 'deny', 'x', 1)",
        "UPDATE block SET count = 0",
        "DELETE FROM checkpoint",
        "DROP TABLE tail",
        "CREATE TABLE mine (a)",
        "CREATE TEMP TABLE mine (a)",
        "DROP VIEW decisions",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA user_version = 1",
        "PRAGMA temp_store_directory = '/'",
        "BEGIN IMMEDIATE",
        "SAVEPOINT mine",
        "VACUUM",
        "REINDEX",
        "ANALYZE",
        &format!("ATTACH '{other}' AS other"),
        &format!("VACUUM INTO '{other}'"),
    ] {
        let error = ask(&path, &DecisionQuery::default(), text)
            .err()
            .unwrap_or_else(|| panic!("{text} was done"));
        assert!(error.contains("only reading"), "{text}: {error}");
    }
    let error = ask(&path, &DecisionQuery::default(), "SELECT load_extension('x')");
    assert!(error.err().unwrap().contains("not authorized"));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert!(!folder.path().join("other.db").exists());
    for text in [
        "PRAGMA table_info(origin)",
        "PRAGMA page_count",
        "SELECT name FROM pragma_table_list",
        "EXPLAIN QUERY PLAN SELECT count(*) FROM decisions",
        "SELECT * FROM snapshots",
        "SELECT * FROM store.sqlite_schema",
    ] {
        let taken = ask(&path, &DecisionQuery::default(), text);
        assert!(!taken.unwrap().rows.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn a_fault_is_named_with_its_place_and_the_statements_before_it_have_run() {
    let (_folder, path, _store) = filled().await;
    let session = Session::open(&path, &DecisionQuery::default()).unwrap();
    let mut taken = Taken::default();
    let text = "SELECT 1; -- one\nSELECT 2;\n  SELECT missing FROM decisions";
    let error = session.run(text, &mut taken).unwrap_err().to_string();
    assert_eq!(error, "no such column: missing, in line 3 at column 10");
    assert_eq!(taken.rows, [[json!(1)], [json!(2)]]);
    let error = session.run("SELEC 1", &mut taken).unwrap_err().to_string();
    has(&error, "syntax error, in line 1 at column 1");
}

#[tokio::test]
async fn rows_are_made_while_they_are_read() {
    let (_folder, path, _store) = filled().await;
    let connection = open::reader(&path).unwrap();
    let (sender, passed) = mpsc::channel();
    let progress = move |passed, _| sender.send(passed).unwrap();
    let source = Source::new(
        open::reader(&path).unwrap(),
        &DecisionQuery::default(),
        Some(Box::new(progress)),
    );
    let sources = Sources::one(&path, &DecisionQuery::default(), source.unwrap());
    views(&connection, sources, Names::None).unwrap();
    let count = |text: &str| {
        let count = connection.query_row(text, [], |row| row.get::<_, i64>(0));
        (count.unwrap(), passed.try_iter().last().unwrap_or_default())
    };
    let (_, of_all) = count("SELECT count(*) FROM decisions");
    let (_, of_one) = count("SELECT seq FROM decisions LIMIT 1");
    assert!(of_one < of_all, "{of_one} of {of_all}");
}

#[tokio::test]
async fn an_export_is_a_plain_table_and_never_replaces_a_file() {
    let (folder, path, store) = filled().await;
    let target = folder.path().join("week.db");
    let query = DecisionQuery { verdict: Some("deny".to_owned()), ..DecisionQuery::default() };
    let (sender, passed) = mpsc::channel();
    let progress = move |passed, all| sender.send((passed, all)).unwrap();
    let one = [Exported { name: None, path: &path }];
    let count = export(&one, &query, &target, progress).unwrap();
    assert!(count > 0);
    let (last, all) = passed.try_iter().last().unwrap();
    assert_eq!(last, all);
    let plain = Connection::open(&target).unwrap();
    let counted = plain.query_row(
        "SELECT count(*), min(typeof(seq)), min(verdict), max(verdict) FROM decisions",
        [],
        |row| {
            Ok((
                row.get::<_, i64>(0)?.unsigned_abs(),
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, String>(3)?,
            ))
        },
    );
    let deny = "deny".to_owned();
    assert_eq!(counted.unwrap(), (count, "integer".to_owned(), deny.clone(), deny));
    let lines = "SELECT line FROM decisions ORDER BY seq";
    let mut lines = plain.prepare(lines).unwrap();
    let lines = lines.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    let listed = DecisionQuery { limit: 100_000, ..query.clone() };
    let listed = store.decisions(listed).await.unwrap();
    let listed: Vec<String> = listed.into_iter().map(|one| one.record).collect();
    assert_eq!(lines, listed);

    let error = export(&one, &query, &target, |_, _| {}).unwrap_err();
    assert!(error.message.contains("a file already"), "{error}");
    let left = fs::read_dir(folder.path()).unwrap();
    let partial = left.filter(|one| {
        let name = one.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("partial")
    });
    assert_eq!(partial.count(), 0);
}

/// Writes to the database at the first row, and carries its log over.
struct Meanwhile {
    writer: Connection,
    was_kept: Vec<bool>,
}

impl Rows for Meanwhile {
    type Error = Infallible;

    fn names(&mut self, _: &[&str]) -> Result<bool, Infallible> {
        Ok(true)
    }

    fn row(&mut self, _: &[Cell<'_>]) -> Result<bool, Infallible> {
        let change = "UPDATE meta SET value = value + 1 WHERE name = 'version'";
        assert_eq!(self.writer.execute(change, []), Ok(1));
        let over = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_kept = self.writer.query_row(over, [], |row| row.get(0));
        self.was_kept.push(is_kept.unwrap());
        Ok(false)
    }

    fn end(&mut self) -> Result<bool, Infallible> {
        Ok(true)
    }
}

#[tokio::test]
async fn a_statement_over_decisions_does_not_keep_the_log_from_being_carried_over() {
    let (_folder, path, _store) = filled().await;
    let mut rows = Meanwhile { writer: Connection::open(&path).unwrap(), was_kept: Vec::new() };
    for text in ["SELECT id FROM decisions", "SELECT number FROM snapshot"] {
        let session = Session::open(&path, &DecisionQuery::default()).unwrap();
        session.run(text, &mut rows).unwrap();
    }
    assert_eq!(rows.was_kept, [false, true], "one over a table does");
}
