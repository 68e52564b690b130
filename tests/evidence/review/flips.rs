//! One flipped bit in the rows of the log is found, or harmless: every answer of the store is as before.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crawlgate_config::Synchronous;
use crawlgate_evidence::DecisionId;
use crawlgate_record::{Event, EventKind};
use crawlgate_store::log_key::log_key_file;
use crawlgate_store::sqlite::repair;
use crawlgate_store::{Access, Batch, Store};
use crawlgate_tlog::SEGMENT;

use super::case::{Case, NOON};
use super::test_store::{TestStore, many_cases};

/// The tables of the log.
const TABLES: [&str; 5] = ["tail", "block", "segment", "object", "checkpoint"];

/// Flipped bits in each table, at most.
const FLIPS: usize = 250;

/// Returns a store with rows of every kind: the root of a dropped segment, dropped blocks and others, a tail, objects, and
/// checkpoints in dropped ground and behind it.
fn store() -> TestStore {
    const DAY: Duration = Duration::from_secs(86_400);
    let db = TestStore::new();
    let events = |count: u64| {
        let mut batch = Batch::default();
        for n in 0..count {
            let kind = EventKind::Lost { count: n, first: 0, last: 0, size: None };
            let id = DecisionId::mint(NOON).octets();
            batch.entries.push(|out| Event { id, kind }.encode(out));
        }
        batch
    };
    // One connection: the log's end stays in memory.
    db.ask(async |store| {
        for _ in 0..SEGMENT / 8_192 {
            store.write(events(8_192)).await.unwrap();
        }
    });
    db.sign(NOON);
    let at = |days: u32, count| -> Vec<Case> {
        let asked = NOON + DAY * days;
        let cases = many_cases(count).into_iter();
        cases.map(|case| Case { asked, ..case }).collect()
    };
    db.put(&at(20, 100));
    db.sign(NOON + DAY * 20);
    db.put(&at(20, 200));
    db.sign(NOON + DAY * 20);
    // The old segment goes.
    assert_eq!(db.prune(DAY * 15, NOON + DAY * 22), SEGMENT);
    db.put(&at(40, 300));
    db.sign(NOON + DAY * 40);
    // So does the first block behind it.
    assert_eq!(db.prune(DAY * 15, NOON + DAY * 42), 256);
    db.put(&at(42, 5));
    let count = |text: &str| -> i64 {
        let connection = db.connection();
        connection.query_row(text, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count("SELECT count(*) FROM segment"), 1);
    assert_eq!(count("SELECT count(*) FROM block WHERE body IS NULL"), 1);
    assert_eq!(count("SELECT count(*) FROM block WHERE body IS NOT NULL"), 1);
    assert_eq!(count("SELECT count(*) FROM checkpoint WHERE edge IS NOT NULL"), 3);
    db.tamper("VACUUM");
    let shell = db.connection();
    let carried = shell.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    carried.unwrap();
    db
}

/// Returns the places of the octets of a table's rows.
fn octets(path: &Path, file: &[u8], table: &str) -> Vec<usize> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut pages = connection
        .prepare("SELECT pageno, pagetype, pgsize, unused FROM dbstat WHERE name = ?1")
        .unwrap();
    let pages = pages.query_map([table], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, String>(1)?,
            row.get::<_, i64>(2)?,
            row.get::<_, i64>(3)?,
        ))
    });
    let mut all = Vec::new();
    for page in pages.unwrap() {
        let (number, kind, size, unused) = page.unwrap();
        let size = usize::try_from(size).unwrap();
        let start = (usize::try_from(number).unwrap() - 1) * size;
        match kind.as_str() {
            // Behind the number of the next page; the rest of the last one is empty.
            "overflow" => all.extend(start + 4..start + size - usize::try_from(unused).unwrap()),
            _ => {
                let content = u16::from_be_bytes([file[start + 5], file[start + 6]]);
                all.extend(start + usize::from(content)..start + size);
            }
        }
    }
    all
}

/// All that a store answers about its log. The time of a checkpoint is its own clock's, and no signature covers it.
async fn answers(store: &Store) -> Result<Vec<String>, crawlgate_store::StoreError> {
    let mut all = Vec::new();
    let extent = store.extent().await?;
    all.push(format!("{extent:?}"));
    all.push(format!("{:?}", store.roots().await?));
    for record in store.records(0, usize::MAX).await? {
        // By a few identifiers, too.
        if record.seq % 16 == 0
            && let Ok(line) = serde_json::from_str::<serde_json::Value>(&record.record)
            && let Some(id) = line["id"].as_str().filter(|_| line["verdict"].is_string())
        {
            let found = store.decision(id).await?;
            all.push(format!("{:?}", found.map(|found| found.seq)));
        }
        if let Ok(entry) = crawlgate_record::Entry::read(&record.entry) {
            for sha256 in entry.named().into_iter().flatten() {
                all.push(format!("{:?}", store.policy(*sha256).await?));
            }
        }
        all.push(format!("{record:?}"));
    }
    for checkpoint in store.checkpoints().await? {
        let proof = store.consistency(checkpoint.size, extent.size).await?;
        all.push(format!("{} {} {proof:?}", checkpoint.size, checkpoint.note));
    }
    Ok(all)
}

#[test]
fn no_flipped_bit_of_the_log_is_silent() {
    let db = store();
    let path = db.file();
    assert_eq!(repair::check(&path), Ok(repair::Faults::default()));
    let said = db.run(&["audit", "verify", "--all"]);
    assert_eq!(said.code, 0, "{said:?}");
    let file = fs::read(&path).unwrap();
    let answered = |path: &Path| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let store = Store::open(path, Access::Read, Synchronous::Normal)?;
        runtime.unwrap().block_on(answers(&store))
    };
    let before = answered(&path).unwrap();

    let mut flips = Vec::new();
    for table in TABLES {
        let octets = octets(&path, &file, table);
        assert!(octets.len() > 30, "{table}: {}", octets.len());
        // Evenly over all bits; the steps are odd, so that each bit of an octet has its turn.
        let bits = octets.len() * 8;
        let step = (bits / FLIPS).max(1) | 1;
        let chosen = (0..bits).step_by(step);
        flips.extend(chosen.map(|bit| (table, octets[bit / 8], bit % 8)));
    }
    assert!(flips.len() >= 1_200, "{}", flips.len());
    let (left, right) = flips.split_at(flips.len() / 2);
    let harmless: usize = std::thread::scope(|scope| {
        let run = |flips: &[(&str, usize, usize)]| -> usize {
            let mut harmless = 0;
            let place = TestStore::new();
            let other = place.file();
            std::fs::copy(db.state_file(), place.state_file()).unwrap();
            std::fs::copy(log_key_file(&path), log_key_file(&other)).unwrap();
            let mut flipped = file.clone();
            for (table, at, bit) in flips {
                flipped[*at] ^= 1 << bit;
                fs::write(&other, &flipped).unwrap();
                flipped[*at] ^= 1 << bit;
                let is_found = !repair::check(&other).is_ok_and(|faults| faults.is_empty());
                if !is_found {
                    // The command takes the longest: only what changes an answer needs it.
                    if answered(&other).is_ok_and(|answered| answered == before) {
                        harmless += 1;
                    } else {
                        let said = place.run(&["audit", "verify", "--all"]);
                        assert_ne!(said.code, 0, "{table}: octet {at}, bit {bit} is silent");
                    }
                }
                for suffix in ["-wal", "-shm"] {
                    let _ = fs::remove_file(other.with_extension(format!("db{suffix}")));
                }
            }
            harmless
        };
        let other = scope.spawn(move || run(right));
        run(left) + other.join().unwrap()
    });
    // Times that are not signed, and times of what is gone.
    println!("{harmless} of {} flips were harmless", flips.len());
    assert!(harmless < flips.len() / 5, "{harmless} of {}", flips.len());
}
