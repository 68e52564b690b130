//! A database that does not agree with the files beside it: its log, its key, its state file.

mod forks;

use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::super::fork::Fork;
use super::*;
use crate::public_keys;
use crate::state_file::{self, State};
use crate::tests::has;

/// A store as its processes left it, to be put in another place.
struct Left {
    folder: TempDir,
}

impl Left {
    /// Copies the database, with its log, its key and its state file as far as they exist.
    fn of(path: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for file in files(path) {
            if file.exists() {
                fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
            }
        }
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("crawlgate.db")
    }

    fn remove(&self, suffix: &str) {
        fs::remove_file(beside(&self.path(), suffix)).unwrap();
    }

    /// Takes one of the files from another place.
    fn take(&self, from: &Path, at: usize) {
        fs::copy(&files(from)[at], &files(&self.path())[at]).unwrap();
    }
}

const LOG: usize = 1;
const KEY: usize = 2;
const STATE: usize = 3;

fn files(path: &Path) -> [PathBuf; 4] {
    [path.to_owned(), beside(path, "-wal"), log_key_file(path), state_file::state_file(path)]
}

fn state(path: &Path) -> State {
    state_file::read(path).unwrap().unwrap().0
}

/// Opens a store with its key, as `serve` does.
fn begin(path: &Path) -> (Store, Arc<LogKey>) {
    let store = open(path).unwrap();
    let key = LogKey::load_or_create(&log_key_file(path), None).unwrap();
    state_file::StateFile::of(path).set_key(*key.vkey().public()).unwrap();
    (store, Arc::new(key))
}

#[test]
fn the_schema_is_in_the_file_before_the_key_is_made() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let left = Left::of(&path);
    drop(store);
    left.remove("-wal");
    let tables = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
    let count: i64 = shell(&left.path()).query_row(tables, [], |row| row.get(0)).unwrap();
    assert!(count > 10, "{count}");
}

#[test]
fn a_file_without_tables_beside_a_key_is_refused() {
    let (_folder, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    shell(&path).pragma_update(None, "journal_mode", "WAL").unwrap();
    LogKey::load_or_create(&log_key_file(&path), None).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt);
    assert!(error.message.contains("it holds no table"), "{error}");
}

#[tokio::test]
async fn a_young_store_without_its_log_is_refused_until_the_loss_is_noted() {
    let (_folder, path) = place();
    let (store, _key) = begin(&path);
    record(&store, &rows(200)).await;
    let left = Left::of(&path);
    drop(store);
    left.remove("-wal");
    let error = open(&left.path()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt);
    for want in ["records 1 to 200 are missing (200)", "audit fork"] {
        assert!(error.message.contains(want), "{error}");
    }
    let faults = repair::check(&left.path()).unwrap();
    has(&faults.damaged[0], "records 1 to 200 are missing");
    let rebuilt = repair::rebuild(&left.path(), NOON).unwrap();
    has(&rebuilt.report[0], "records 1 to 200 are missing");
    let (store, key) = begin(&left.path());
    record(&store, &rows(1)).await;
    let lines = store.records(0, 9).await.unwrap();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].record.contains("\"count\":200"), "{:?}", lines[0]);
    assert!(store.checkpoint(key, NOON).await.unwrap().is_some());
}

#[tokio::test]
async fn a_lost_end_of_the_log_is_told_in_the_log() {
    let (_folder, path) = place();
    let (store, key) = begin(&path);
    record(&store, &rows(100)).await;
    store.checkpoint(Arc::clone(&key), NOON).await.unwrap();
    drop(store);
    let (store, _) = begin(&path);
    record(&store, &rows(50)).await;
    let whole = Left::of(&path);
    drop(store);
    type Damage = fn(&Left);
    let cases: [(&str, Damage); 2] = [
        ("the log is gone", |left| left.remove("-wal")),
        ("the log is damaged", |left| {
            let log = beside(&left.path(), "-wal");
            let mut octets = fs::read(&log).unwrap();
            octets[40] ^= 1;
            fs::write(&log, octets).unwrap();
        }),
    ];
    for (name, damage) in cases {
        let left = Left::of(&whole.path());
        damage(&left);
        let faults = repair::check(&left.path()).unwrap();
        let want = "records 101 to 150 are missing (50)";
        assert!(faults.damaged[0].contains(want), "{name}: {faults:?}");
        let (store, key) = begin(&left.path());
        record(&store, &rows(2)).await;
        let lines = store.records(100, 9).await.unwrap();
        assert_eq!(lines.len(), 3, "{name}");
        let event = "\"event\":\"records_lost\",\"count\":50";
        assert!(lines[0].record.contains(event), "{name}: {:?}", lines[0]);
        assert!(store.checkpoint(key, NOON).await.unwrap().is_some(), "{name}");
        drop(store);
        assert!(open(&left.path()).is_ok(), "{name}: told once");
        assert_eq!(state(&left.path()).signed.0, 103, "{name}");
    }
}

#[tokio::test]
async fn an_older_copy_is_refused_where_a_later_record_was_signed() {
    let (_folder, path) = place();
    let (store, key) = begin(&path);
    record(&store, &rows(100)).await;
    drop(store);
    let old = Left::of(&path);
    let (store, _) = begin(&path);
    record(&store, &rows(20)).await;
    store.checkpoint(Arc::clone(&key), NOON).await.unwrap();
    drop(store);
    old.take(&path, 3);
    let error = open(&old.path()).unwrap_err();
    let want = "records 101 to 120 are missing (20)";
    assert!(error.message.contains(want), "{error}");
    repair::rebuild(&old.path(), NOON).unwrap();
    begin(&old.path());
    let faults = repair::check(&old.path()).unwrap();
    assert!(faults.is_empty(), "{faults:?}");
}

#[tokio::test]
async fn a_store_beside_another_ones_files_is_refused() {
    let (_folder, path) = place();
    let (store, key) = begin(&path);
    record(&store, &rows(30)).await;
    store.checkpoint(key, NOON).await.unwrap();
    drop(store);
    let (_other_folder, other) = place();
    let (store, key) = begin(&other);
    record(&store, &rows(40)).await;
    store.checkpoint(key, NOON).await.unwrap();
    drop(store);
    let refused = |left: &Left, want: &str| {
        let error = open(&left.path()).unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Corrupt);
        assert!(error.message.contains(want), "{error}");
    };

    // With only the other's key.
    let left = Left::of(&path);
    left.take(&other, KEY);
    refused(&left, "this log was signed by another key than");
    // Without a state file, too.
    fs::remove_file(state_file::state_file(&left.path())).unwrap();
    refused(&left, "this log was signed by another key than");
    fs::remove_file(log_key_file(&left.path())).unwrap();
    refused(&left, "the state file of the store is gone");
    go_on_as_another_log(&left.path());

    // With both: the way out leads to a store again.
    for (mine, theirs) in [(&path, &other), (&other, &path)] {
        let left = Left::of(mine);
        left.take(theirs, KEY);
        left.take(theirs, 3);
        let error = open(&left.path()).unwrap_err();
        assert!(error.message.contains("is not the one that"), "{error}");
        for file in &files(&left.path())[KEY..] {
            assert!(error.message.contains(file.to_str().unwrap()), "{error}");
            fs::remove_file(file).unwrap();
        }
        go_on_as_another_log(&left.path());
    }
}

/// Begins a new log behind the records of a store without a state file.
fn go_on_as_another_log(path: &Path) {
    let fork = Fork::of(path, None, None).unwrap();
    fork.carry_out("a test", NOON).unwrap();
    begin(path);
}

#[tokio::test]
async fn a_store_without_its_state_file_is_refused_and_goes_on_as_a_log_that_says_so() {
    let (_folder, path) = place();
    let (store, key) = begin(&path);
    record(&store, &rows(100)).await;
    store.checkpoint(Arc::clone(&key), NOON).await.unwrap();
    drop(store);
    let root = state(&path).signed;
    fs::remove_file(state_file::state_file(&path)).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt);
    for want in ["the state file of the store is gone", "Bring it back", "audit fork"] {
        assert!(error.message.contains(want), "{error}");
    }
    let faults = repair::check(&path).unwrap();
    assert!(faults.damaged.is_empty() && faults.altered.is_empty(), "{faults:?}");
    let [gone] = &faults.beside[..] else { panic!("{faults:?}") };
    has(gone, "the state file of the store is gone");

    // The files that a process has left that was killed after each step.
    let forked = Left::of(&path);
    let fork = Fork::of(&forked.path(), None, None).unwrap();
    let said = fork.describe();
    for want in ["missing   unknown", "of at least 100 records", "at hand   100 records"] {
        assert!(said.contains(want), "{said}");
    }
    fork.carry_out("a test", NOON).unwrap();
    let left = Left::of(&path);
    for (name, is_done, key_is, entries) in [
        ("before all", false, Some(&left), 1),
        ("after the entry", true, Some(&left), 1),
        // It may be a log that was cut back to its first entry: what it says must not hide that.
        ("after the key went aside", true, None, 2),
    ] {
        let cut = Left::of(&if is_done { &forked } else { &left }.path());
        let _ = fs::remove_file(state_file::state_file(&cut.path()));
        fs::remove_file(log_key_file(&cut.path())).unwrap();
        if let Some(from) = key_is {
            cut.take(&from.path(), KEY);
        }
        assert!(open(&cut.path()).is_err(), "{name}");
        let fork = Fork::of(&cut.path(), None, None).expect(name);
        fork.carry_out("a test", NOON).expect(name);
        let (store, new) = begin(&cut.path());
        assert_ne!(new.name(), key.name(), "{name}");
        store.checkpoint(new, NOON).await.expect(name).expect(name);
        let all = store.records(100, 9).await.unwrap();
        assert_eq!(all.len(), entries, "{name}: {all:?}");
        let want = format!(
            "\"size\":100,\"root\":\"{}\",\"reason\":\"a test (the state file was gone, so later records of that log may be \
             missing)\"",
            crawlgate_text::hex(root.1)
        );
        assert!(all[0].record.contains(&want), "{name}: {}", all[0].record);
        drop(store);
        assert!(repair::check(&cut.path()).unwrap().is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_process_at_work_makes_its_state_file_anew_and_finds_a_log_that_is_cut() {
    let (_folder, path) = place();
    let (store, key) = begin(&path);
    record(&store, &rows(10)).await;
    store.checkpoint(key, NOON).await.unwrap();
    let signed = state(&path).signed;
    fs::remove_file(state_file::state_file(&path)).unwrap();
    record(&store, &rows(1)).await;
    assert_eq!((state(&path).signed, state(&path).written.0), (signed, 11));
    let other = shell(&path);
    other.execute_batch("DELETE FROM tail WHERE first >= 5").unwrap();
    let error = store.write(ROW.batch()).await.unwrap_err();
    assert!(error.message.contains("was cut from 11 records"), "{error}");
}

#[tokio::test]
async fn decisions_that_were_counted_and_have_no_record_are_found() {
    let (_folder, path) = place();
    let (store, key) = begin(&path);
    for _ in 0..3 {
        record(&store, &rows(400)).await;
    }
    store.checkpoint(key, NOON).await.unwrap();
    assert_eq!(store.miscounted().await.unwrap(), None);
    drop(store);
    let whole = Left::of(&path);
    let cut = "DELETE FROM checkpoint; DELETE FROM tail WHERE first >= 400";
    shell(&whole.path()).execute_batch(cut).unwrap();
    let end = {
        let head = Head::read(&super::super::open::reader(&whole.path()).unwrap()).unwrap();
        (head.size(), head.root())
    };
    assert_eq!(end.0, 400);
    // Without a key, the state file can be written anew.
    let key = state(&whole.path()).key;
    state_file::StateFile::of(&whole.path()).reset(key, end).unwrap();
    let faults = repair::check(&whole.path()).unwrap();
    let missing = 1_200 - end.0;
    let want = format!("have {missing} decisions more than the log");
    assert!(faults.altered.iter().any(|fault| fault.contains(&want)), "{faults:?}");
    let fork = Fork::of(&whole.path(), None, None).unwrap();
    assert!(fork.describe().contains(&want), "{}", fork.describe());
    fork.carry_out("a test", NOON).unwrap();
    let (store, _) = begin(&whole.path());
    let all = store.records(end.0, 9).await.unwrap();
    assert!(all[0].record.contains(&want), "{}", all[0].record);
    assert_eq!(store.miscounted().await.unwrap(), None);
}

#[tokio::test]
async fn a_log_that_belongs_to_a_later_state_is_refused() {
    let (_folder, path) = place();
    let (store, _) = begin(&path);
    record(&store, &rows(1_000)).await;
    drop(store);
    let backup = Left::of(&path);
    let (store, _) = begin(&path);
    for _ in 0..10 {
        record(&store, &rows(500)).await;
    }
    store.on_writer(|connection, _| bounds::carry_over(connection)).await.unwrap();
    record(&store, &rows(250)).await;
    backup.take(&path, LOG);
    drop(store);
    let before = fs::read(backup.path()).unwrap();
    let error = open(&backup.path()).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt);
    for want in ["do not belong together", "move that log away"] {
        assert!(error.message.contains(want), "{error}");
    }
    assert!(fs::read(backup.path()).unwrap() == before, "it is left as it was");
    backup.remove("-wal");
    let (store, _) = begin(&backup.path());
    assert_eq!(store.records(0, 10_000).await.unwrap().len(), 1_000);
}

#[tokio::test]
async fn a_log_keeps_its_name() {
    let (_folder, path) = place();
    let (store, key) = begin(&path);
    agree::require_name(&path, &key).unwrap();
    record(&store, &rows(3)).await;
    let name = key.name().to_string();
    store.checkpoint(key, NOON).await.unwrap();
    let named = |name: &str| {
        let name = Some(name.parse().unwrap());
        let key = LogKey::load(&log_key_file(&path), name).unwrap();
        agree::require_name(&path, &key)
    };
    assert_eq!(named(&name), Ok(()));
    let refused = named("logs.example.org/fra-1").unwrap_err();
    let want = format!("log_name = \"{name}\"");
    assert!(refused.message.contains(&want), "{refused}");
    // A new key begins under another name.
    fs::remove_file(log_key_file(&path)).unwrap();
    let new = LogKey::load_or_create(&log_key_file(&path), None).unwrap();
    assert_eq!(agree::require_name(&path, &new), Ok(()));
}

#[tokio::test]
async fn the_end_of_the_log_is_read_beside_a_writer_that_makes_blocks() {
    let (_folder, path) = place();
    record(&open(&path).unwrap(), &rows(600)).await;
    let mut writer = Some(super::super::open::writer(&path, Synchronous::Normal).unwrap());
    let is_folded = Arc::new(AtomicBool::default());
    let folded = Arc::clone(&is_folded);
    let mut reader = super::super::open::reader(&path).unwrap();
    // The engine asks before each statement: the tail becomes a block after the blocks were read.
    let fold = move |asked: AuthContext<'_>| {
        if let AuthAction::Read { table_name: "tail", .. } = asked.action
            && let Some(mut writer) = writer.take()
        {
            let transaction = super::super::engine::begin(&mut writer).unwrap();
            let mut head = Head::read(&transaction).unwrap();
            super::super::entries::fold(&transaction, &mut head, u64::MAX).unwrap();
            transaction.commit().unwrap();
            folded.store(true, Ordering::Relaxed);
        }
        Authorization::Allow
    };
    reader.authorizer(Some(fold)).unwrap();
    assert_eq!(Head::read(&reader).unwrap().size(), 600);
    assert!(is_folded.load(Ordering::Relaxed));
    assert_eq!(Head::read(&reader).unwrap().size(), 600);
}
