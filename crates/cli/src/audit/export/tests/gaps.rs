//! Records that are damaged before they are exported: the export continues behind them, and states the gap.

use super::collected::Copy;
use super::*;
use crawlgate_evidence::export::gap_file;
use crawlgate_evidence::lost::end_of_dropped;
use crawlgate_store::sqlite::collected::Collected;
use crawlgate_store::sqlite::repair;
use crawlgate_tlog::SEGMENT;

/// Damages the block that holds an entry.
fn damage(gate: &ExportedLog, index: u64) -> (u64, u64) {
    let connection = Connection::open(gate.path()).unwrap();
    let index = i64::try_from(index).unwrap();
    let text = "UPDATE block SET body = x'00' WHERE first <= ?1 AND first + count > ?1 RETURNING first, first + count";
    connection
        .query_row(text, [index], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, i64>(1)? as u64))
        })
        .unwrap()
}

/// Returns the numbers of the records of a copy.
async fn numbers(copy: &Copy) -> Vec<u64> {
    let store = Store::open(&copy.path(), Access::Read, Synchronous::Normal).unwrap();
    let records = store.records(0, 100_000).await.unwrap();
    records.iter().map(|record| record.seq).collect()
}

/// Returns the size of the newest checkpoint of a copy. Asserts that the copy leads to the checkpoint's root.
async fn signed(copy: &Copy) -> u64 {
    assert_eq!(copy.faults(), repair::Faults::default());
    let store = Store::open(&copy.path(), Access::Read, Synchronous::Normal).unwrap();
    let newest = store.checkpoints().await.unwrap().pop().unwrap();
    let root = Collected::open(&copy.path()).unwrap().root(newest.size);
    assert_eq!(root.unwrap(), Some(newest.content().unwrap().root));
    newest.size
}

#[tokio::test]
async fn a_damaged_block_becomes_a_gap_that_the_signed_root_proves() {
    let mut gate = ExportedLog::new().await;
    gate.signed(1_200, ROW.time).await;
    gate.signed(1_300, ROW.time + DAY).await;
    gate.signed(1_300, ROW.time + DAY * 2).await;
    let (first, end) = damage(&gate, 1_500);
    assert!(first > 0 && end < 3_000, "{first}, {end}");
    assert_eq!(gate.export().await, Ok(CheckResult::Faults));
    let there = files(&gate.to());
    let stated = there.keys().filter(|name| name.starts_with("gaps/"));
    assert_eq!(stated.collect::<Vec<_>>(), [&gap_file(first, end)]);
    assert_eq!(gate.export().await, Ok(CheckResult::Clean), "and nothing new");

    let copy = Copy::new();
    let imported = copy.import(&gate).unwrap();
    let records = 3_800 - (end - first);
    assert_eq!((imported.records, imported.lost), (records, end - first));
    assert_eq!((imported.size, imported.given_up), (3_800, 0));
    let there = (1..=first).chain(end + 1..=3_800);
    assert_eq!(numbers(&copy).await, there.collect::<Vec<_>>());
    assert_eq!(signed(&copy).await, 3_800);
    gate.signed(400, ROW.time + DAY * 3).await;
    gate.export().await.unwrap();
    assert_eq!(copy.import(&gate).unwrap().size, 4_200, "it goes on");
    assert_eq!(signed(&copy).await, 4_200);
}

#[tokio::test]
async fn dropped_records_are_not_called_lost_where_a_later_block_is_damaged() {
    let mut gate = ExportedLog::new().await;
    gate.signed(1_000, ROW.time).await;
    let later = gate.expire().await;
    for day in 0..3 {
        gate.signed(1_300, later + DAY * day).await;
    }
    let (first, _) = damage(&gate, 3_000);
    assert!(first > 1_001, "the entry on dropped records can be read");
    assert_eq!(end_of_dropped(&gate.store, 768).await, Ok(768));
}

#[tokio::test]
async fn a_bundle_other_than_signed_becomes_a_gap() {
    let mut gate = ExportedLog::new().await;
    gate.signed(1_200, ROW.time).await;
    forge(&gate.path(), 300, false);
    assert_eq!(gate.export().await, Ok(CheckResult::Faults));
    let names: Vec<String> = files(&gate.to()).into_keys().collect();
    let is_there = |name: String| assert!(names.contains(&name), "{name}: {names:?}");
    is_there(entries_file(0, 256));
    is_there(gap_file(256, 512));
    is_there(entries_file(512, 1_200));
    let copy = Copy::new();
    assert_eq!(copy.import(&gate).unwrap().lost, 256);
    assert_eq!(signed(&copy).await, 1_200);
}

#[tokio::test]
async fn a_gap_behind_exported_records_of_the_same_bundle_is_proven_from_their_checkpoint() {
    let mut gate = ExportedLog::new().await;
    gate.exported(700, ROW.time).await;
    let copy = Copy::new();
    copy.import(&gate).unwrap();
    let before = files(&gate.to());
    gate.signed(1_100, ROW.time + DAY).await;
    let (first, end) = damage(&gate, 900);
    assert!(first < 700 && end > 1_200, "{first}, {end}");
    assert_eq!(gate.export().await, Ok(CheckResult::Faults));
    let after = files(&gate.to());
    assert!(before.iter().all(|(name, content)| after[name] == *content));
    assert!(after.contains_key(&gap_file(700, end)), "{:?}", after.keys());

    let error = copy.import(&gate).unwrap_err();
    let given_up = 700 - 512;
    for word in ["--past-gaps", "records 701 to", &format!("{given_up} collected before")] {
        assert!(error.contains(word), "{error}");
    }
    assert_eq!(numbers(&copy).await.len(), 700, "nothing is given up unasked");
    let imported = copy.import_from(&gate.to(), PastGaps::Go, &gate).unwrap();
    assert_eq!((imported.size, imported.given_up), (1_800, given_up));
    let there = (1..=512).chain(end + 1..=1_800);
    assert_eq!(numbers(&copy).await, there.collect::<Vec<_>>());
    assert_eq!(signed(&copy).await, 1_800);
}

#[tokio::test]
async fn a_gap_that_does_not_lead_to_the_signed_root_is_refused() {
    let mut gate = ExportedLog::new().await;
    gate.signed(1_200, ROW.time).await;
    gate.signed(1_300, ROW.time + DAY).await;
    let (first, end) = damage(&gate, 1_500);
    gate.export().await.unwrap();
    let file = gate.to().join(gap_file(first, end));
    let right = fs::read(&file).unwrap();
    let mut wrong = right.clone();
    wrong[40] ^= 1;
    for (content, message) in [
        (wrong, "do not lead to the root"),
        (right[..right.len() - 32].to_vec(), "another number of hashes"),
        (right[1..].to_vec(), "another number of hashes"),
    ] {
        fs::write(&file, content).unwrap();
        let copy = Copy::new();
        copy.refuses(&gate, message);
        assert_eq!(numbers(&copy).await, [0; 0]);
    }
    fs::remove_file(&file).unwrap();
    Copy::new().refuses(&gate, "/ground/");
}

#[test]
fn a_gap_over_a_segment_leaves_its_root() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let roots: Vec<_> = (0..300_u64).map(|n| leaf_hash(&n.to_be_bytes())).collect();
    let mut tree = Tree::new();
    for root in &roots {
        tree.push_bundle(*root).unwrap();
    }
    let mut copy = Collected::open(&path).unwrap();
    for part in roots.chunks(170) {
        let mut filing = copy.begin().unwrap();
        filing.missing(part, ROW.time).unwrap();
        filing.commit().unwrap();
    }
    assert_eq!(copy.end(), (SEGMENT + 44 * BUNDLE, tree.root()));
    drop(copy);
    let again = Collected::open(&path).unwrap();
    assert_eq!(again.end(), (SEGMENT + 44 * BUNDLE, tree.root()));
}
