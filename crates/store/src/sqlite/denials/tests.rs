use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::Value;
use tempfile::TempDir;

use super::super::entries::{Blocks, extent};
use super::super::sql::{Cell, Rows, Session};
use super::super::{Store, repair};
use super::*;
use crate::tests::{NOON, ROW, Row, origin_update, record, successful, update_origin};
use crate::{Access, DecisionQuery, Retention};
use crawlgate_config::Synchronous;
use crawlgate_system::clock::Moment;
use crawlgate_tlog::SEGMENT;

const DAY: Duration = Duration::from_secs(86_400);

fn open(path: &Path) -> Store {
    Store::open(path, Access::Write, Synchronous::Normal).unwrap()
}

fn new() -> (TempDir, PathBuf, Store) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crawlgate.db");
    let store = open(&path);
    (folder, path, store)
}

/// Returns what a program without crawlgate reads.
fn read(path: &Path, text: &str) -> Vec<Vec<Value>> {
    let shell = Connection::open(path).unwrap();
    let mut statement = shell.prepare(text).unwrap();
    let width = statement.column_count();
    let rows = statement.query_map([], |row| (0..width).map(|at| row.get(at)).collect());
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

fn number_of(path: &Path, text: &str) -> i64 {
    match read(path, text)[0][0] {
        Value::Integer(number) => number,
        ref other => panic!("{other:?}"),
    }
}

/// Rows of `crawlgate sql`.
#[derive(Default)]
struct Taken(Vec<Vec<Value>>);

impl Rows for Taken {
    type Error = Infallible;

    fn names(&mut self, _: &[&str]) -> Result<bool, Infallible> {
        Ok(true)
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<bool, Infallible> {
        let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).unwrap();
        let cells = cells.iter().map(|cell| match cell {
            Cell::Null => Value::Null,
            Cell::Integer(number) => Value::Integer(*number),
            Cell::Real(number) => Value::Real(*number),
            Cell::Text(octets) => Value::Text(text(octets)),
            Cell::Blob(octets) => Value::Blob(octets.to_vec()),
        });
        self.0.push(cells.collect());
        Ok(true)
    }

    fn end(&mut self) -> Result<bool, Infallible> {
        Ok(true)
    }
}

fn asked(path: &Path, text: &str) -> Vec<Vec<Value>> {
    let mut taken = Taken::default();
    let session = Session::open(path, &DecisionQuery::default()).unwrap();
    session.run(text, &mut taken).unwrap();
    taken.0
}

/// Writes records of a time: each third allows, each second names another rule.
async fn write(store: &Store, count: usize, time: Moment) {
    let mut rows = vec![Row { time, ..ROW }; count];
    for row in rows.iter_mut().step_by(3) {
        (row.verdict, row.reason) = ("allow", "robots_allow");
    }
    for row in rows.iter_mut().step_by(2) {
        row.rule = "Disallow: /caf\u{e9}";
    }
    record(store, &rows).await;
}

#[tokio::test]
async fn the_view_has_the_words_of_the_sql_command() {
    let (_folder, path, store) = new();
    let known = successful("User-agent: *\nDisallow: /private\n", NOON);
    let sha256 = known.snapshot().map(|one| one.sha256);
    update_origin(&store, origin_update("site.example", known, NOON)).await;
    write(&store, 1_100, NOON).await;
    let long = format!("/{}", "x".repeat(10_000));
    let strange = Row {
        agent: "Other\u{202e}Bot",
        path: &long,
        sha256,
        ..ROW
    };
    let ids = record(&store, &[strange, ROW]).await;
    let note = crate::Acknowledgement {
        time: NOON,
        by: "Ada".to_owned(),
        note: "known".to_owned(),
    };
    assert!(crate::tests::acknowledge(&store, &ids[0], note).await);
    store.list_denials(None).await.unwrap();
    let columns = format!(
        "SELECT seq, {}, acknowledged_at, acknowledged_by, acknowledged_note FROM denials ORDER BY seq",
        recent::NAMES.join(", ")
    );
    let found = read(&path, &columns);
    assert_eq!(found.len(), 735);
    assert_eq!(found, asked(&path, &columns));
    // There, the view of that name is over all decisions, and the other one is the store's.
    let both = "SELECT (SELECT count(*) FROM denials), (SELECT count(*) FROM store.denials), \
                (SELECT count(*) FROM rules)";
    assert_eq!(asked(&path, both), [[735, 735, 0].map(Value::Integer)]);
    let schema = "SELECT name, type FROM pragma_table_info('recent_denial') WHERE name <> 'seq'";
    let kinds = recent::NAMES.map(|name| {
        let mut all = super::super::sql::columns::COLUMNS.iter();
        let column = all.find(|column| column.name == name).unwrap();
        [name, column.kind].map(|text| Value::Text(text.to_owned()))
    });
    assert_eq!(read(&path, schema), kinds);
}

#[tokio::test]
async fn the_newest_denials_come_first_and_gaps_are_filled_later() {
    let (_folder, path, store) = new();
    let ring = || {
        let text = "SELECT count(*), coalesce(min(seq), 0), coalesce(max(seq), 0) FROM denials";
        read(&path, text).remove(0)
    };
    // Of 300 records, 200 deny.
    let cases: [(&str, usize, u32, [i64; 3]); 9] = [
        ("nothing", 0, 1, [0, 0, 0]),
        ("a few", 300, 1, [200, 2, 300]),
        ("no new one", 0, 2, [200, 2, 300]),
        ("more than one refresh adds", 3_000, 1, [1_200, 2, 3_300]),
        ("another refresh fills the gap", 0, 1, [2_200, 2, 3_300]),
        ("and the last one", 0, 1, [2_200, 2, 3_300]),
        ("many", 15_000, 1, [3_200, 2, 18_300]),
        ("until there is no room", 0, 9, [10_000, 3_302, 18_300]),
        ("the oldest go", 3, 1, [10_000, 3_305, 18_303]),
    ];
    for (name, records, refreshes, want) in cases {
        if records > 0 {
            write(&store, records, NOON).await;
        }
        for _ in 0..refreshes {
            store.list_denials(None).await.unwrap();
        }
        assert_eq!(ring(), want.map(Value::Integer), "{name}");
    }
    let connection = Connection::open(&path).unwrap();
    let next = recent::look(&connection, &Blocks::default(), Room::of(None)).unwrap();
    assert!(next.is_none(), "an idle process does nothing: {next:?}");
    // A setting leaves less room.
    record(&store, &[ROW]).await;
    store.list_denials(Some(1024 * 1024)).await.unwrap();
    let want = Room::of(Some(1024 * 1024)).denials;
    assert!((5..50).contains(&want), "{want}");
    assert_eq!(ring()[0], Value::Integer(integer(want)));
}

const RULES: &str = "SELECT day, origin, rule, reason, count, first, last FROM rules ORDER BY day, count DESC, origin, rule";

fn rule(day: &str, host: &str, rule: &str, count: i64, times: [&str; 2]) -> Vec<Value> {
    let text = |text: &str| Value::Text(text.to_owned());
    let [first, last] = times.map(|time| text(&format!("{day}T{time}.000Z")));
    vec![
        text(day),
        text(&format!("https://{host}")),
        text(rule),
        text("robots_disallow"),
        Value::Integer(count),
        first,
        last,
    ]
}

#[tokio::test]
async fn rules_are_counted_by_day_whatever_holds_their_records() {
    let (_folder, path, store) = new();
    let noon = ["12:00:00"; 2];
    let (one, other) = ("Disallow: /private", "Disallow: /caf\u{e9}");
    // A segment with sums, blocks, and a tail.
    let whole = usize::try_from(SEGMENT).unwrap() + 2_000;
    write(&store, whole, NOON).await;
    write(&store, 6, NOON).await;
    store.count_denied_rules(None).await.unwrap();
    let third = i64::try_from(whole).unwrap() / 3;
    let first_day =
        [other, one].map(|text| rule("2026-11-20", "site.example", text, third + 2, noon));
    assert_eq!(read(&path, RULES), first_day);
    let later = Row {
        time: NOON + DAY + Duration::from_secs(1),
        host: "other.example",
        ..ROW
    };
    let unknown = Row {
        reason: "robots_unreachable",
        ..later.clone()
    };
    record(
        &store,
        &[
            Row {
                time: NOON + DAY,
                ..later.clone()
            },
            later,
            unknown,
        ],
    )
    .await;
    store.count_denied_rules(None).await.unwrap();
    let found = read(&path, RULES);
    assert_eq!(found[..2], first_day);
    let times = ["12:00:00", "12:00:01"];
    assert_eq!(found[2], rule("2026-11-21", "other.example", one, 2, times));
    assert_eq!(found[3][3], Value::Text("robots_unreachable".to_owned()));
    assert_eq!(found.len(), 4);
    let connection = Connection::open(&path).unwrap();
    let next = daily::look(&connection, &Blocks::default()).unwrap();
    assert!(next.is_none(), "an idle process does nothing: {next:?}");
}

#[tokio::test]
async fn the_most_frequent_rules_of_a_day_stay() {
    let (_folder, path, store) = new();
    let rules: Vec<String> = (0..1_200).map(|n| format!("Disallow: /{n}")).collect();
    let rows: Vec<Row<'_>> = rules.iter().map(|rule| Row { rule, ..ROW }).collect();
    record(&store, &rows).await;
    record(&store, &rows[600..]).await;
    store.count_denied_rules(None).await.unwrap();
    let counts = "SELECT count, count(*) FROM rules GROUP BY 1 ORDER BY 1 DESC";
    let want = |pairs: [[i64; 2]; 2]| pairs.map(|pair| pair.map(Value::Integer).to_vec());
    assert_eq!(read(&path, counts), want([[2, 600], [1, 400]]));
    let room = Room::of(Some(1024 * 1024));
    record(
        &store,
        &[Row {
            time: NOON + DAY,
            ..ROW
        }],
    )
    .await;
    store.count_denied_rules(Some(1024 * 1024)).await.unwrap();
    assert_eq!(
        number_of(&path, "SELECT count(*) FROM rules"),
        1,
        "the oldest days make room: {room:?}"
    );
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn dropped_denials_leave_the_tables() {
    let (_folder, path, store) = new();
    for day in 0..4 {
        write(&store, 3_072, NOON + DAY * day).await;
    }
    for _ in 0..10 {
        store.list_denials(None).await.unwrap();
    }
    store.count_denied_rules(None).await.unwrap();
    assert_eq!(number_of(&path, "SELECT count(*) FROM denials"), 8_192);
    assert_eq!(number_of(&path, "SELECT sum(count) FROM rules"), 8_192);
    let retention = Retention {
        keep: Some(DAY * 2),
        max_size: None,
    };
    let now = NOON + DAY * 4;
    while store.prune(retention, now).await.unwrap().more {}
    let first = integer(store.extent().await.unwrap().first);
    assert!(first > 0, "{first}");
    let oldest = "SELECT min(seq) FROM denials";
    assert!(number_of(&path, oldest) > first);
    let left = number_of(&path, "SELECT count(*) FROM denials");
    assert!(left < 8_192, "{left}");
    assert_eq!(
        read(&path, "SELECT min(day) FROM rules"),
        [[Value::Text("2026-11-22".to_owned())]]
    );
    // A block goes as a whole: of a day that has lost a part, the rest is counted again.
    store.count_denied_rules(None).await.unwrap();
    let counted = number_of(&path, "SELECT sum(count) FROM rules");
    let kept = asked(&path, "SELECT count(*) FROM denials");
    assert_eq!(kept, [[Value::Integer(counted)]]);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn several_processes_refresh_one_store() {
    let (_folder, path, one) = new();
    let other = open(&path);
    write(&one, 900, NOON).await;
    let connection = Connection::open(&path).unwrap();
    let blocks = Blocks::default();
    let slow = daily::look(&connection, &blocks).unwrap().unwrap();
    let mut count = daily::Count::of(slow.days[0]);
    while count.step(&connection, &blocks).unwrap() {}
    let listed = recent::look(&connection, &blocks, Room::of(None));
    let (parts, done) = listed.unwrap().unwrap().into_parts();
    write(&other, 900, NOON).await;
    let refresh = async |store: &Store| {
        store.list_denials(None).await.unwrap();
        store.count_denied_rules(None).await.unwrap();
    };
    refresh(&other).await;
    let tables = || {
        let denials = read(&path, "SELECT * FROM denials ORDER BY seq");
        (denials, read(&path, RULES))
    };
    let newest = tables();
    assert_eq!(newest.0.len(), 1_000);
    // The slow one has read less of the log: what it writes takes nothing away.
    let mut connection = Connection::open(&path).unwrap();
    slow.put(&mut connection, count, Room::of(None)).unwrap();
    slow.note(&mut connection, Room::of(None)).unwrap();
    for rows in parts {
        recent::put(&mut connection, &rows).unwrap();
    }
    done.note(&mut connection).unwrap();
    assert_eq!(tables().1, newest.1);
    for store in [&one, &other, &one] {
        refresh(store).await;
    }
    assert_eq!(tables().0.len(), 1_200);
    assert_eq!(tables().1, newest.1);
    assert_eq!(extent(&connection).unwrap(), (0, 1_800));
}

#[tokio::test]
async fn other_rows_than_those_of_the_log_are_told_and_a_rebuild_makes_them_anew() {
    let alterations = [
        (
            "recent_denial: 1 ",
            "UPDATE recent_denial SET url = 'https://x.example/' WHERE seq = 2",
        ),
        (
            "recent_denial: 1 ",
            "INSERT INTO recent_denial (seq) VALUES (10000)",
        ),
        (
            "recent_denial: 1 ",
            "INSERT INTO recent_denial (seq) VALUES (1)",
        ),
        (
            "denied_daily: the rules of 1 ",
            "UPDATE denied_daily SET count = count + 1",
        ),
        (
            "denied_daily: the rules of 1 ",
            "DELETE FROM denied_daily WHERE rule = 'Disallow: /private'",
        ),
        ("denied_daily: the rules of 1 ", "DELETE FROM denied_day"),
    ];
    for (told, alteration) in alterations {
        let (_folder, path, store) = new();
        write(&store, 1_200, NOON).await;
        let refresh = async |store: &Store| {
            store.list_denials(None).await.unwrap();
            store.count_denied_rules(None).await.unwrap();
        };
        refresh(&store).await;
        drop(store);
        let tables = || {
            let denials = read(&path, "SELECT * FROM denials ORDER BY seq");
            (denials, read(&path, RULES))
        };
        let before = tables();
        assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
        Connection::open(&path)
            .unwrap()
            .execute_batch(alteration)
            .unwrap();
        let faults = repair::check(&path).unwrap();
        assert_eq!(faults.damaged.len(), 1, "{alteration}: {faults:?}");
        assert!(
            faults.damaged[0].starts_with(told),
            "{alteration}: {faults:?}"
        );
        repair::rebuild(&path, NOON).unwrap();
        assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
        let store = open(&path);
        refresh(&store).await;
        assert_eq!(tables(), before, "{alteration}");
    }
}
