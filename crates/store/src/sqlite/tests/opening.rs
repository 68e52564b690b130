//! A file is checked before it is used as a store.

use super::*;
use crate::tests::has;

#[test]
fn what_is_made_is_its_owners_alone() {
    let (_folder, path) = place();
    drop(open(&path).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}

#[tokio::test]
async fn a_store_of_another_schema_is_left_alone() {
    let newer = format!("schema {}, known here: up to {}", schema::VERSION + 1, schema::VERSION);
    for (version, kind, want) in [
        (schema::VERSION + 1, StoreErrorKind::Newer, newer.as_str()),
        (schema::VERSION - 1, StoreErrorKind::Corrupt, "move it and the files beside it away"),
    ] {
        let (_folder, path) = place();
        filled(&path, 2).await;
        let connection = shell(&path);
        let other = "ALTER TABLE object ADD COLUMN other TEXT";
        connection.execute_batch(other).unwrap();
        connection.pragma_update(None, "user_version", version).unwrap();
        drop(connection);
        let before = fs::read(&path).unwrap();
        for access in [Access::Read, Access::Write] {
            let error = Store::open(&path, access, Synchronous::Normal).unwrap_err();
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(want), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), before, "it is left as it was");
    }
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_with_the_way_out() {
    use StoreErrorKind::{Corrupt, Denied, Missing};
    type Make = fn(&Path);
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, Make, Access, StoreErrorKind, &str); 9] = [
        ("nothing to read", |_| {}, Access::Read, Missing, "there is no store yet"),
        ("a text", |path| fs::write(path, "hello ".repeat(2_000)).unwrap(), Access::Write, Corrupt, "no store of crawlgate's"),
        ("another program's", |path| { shell(path).execute_batch("CREATE TABLE theirs (a)").unwrap(); }, Access::Write, Corrupt, "another program's database"),
        ("a folder", |path| fs::create_dir(path).unwrap(), Access::Write, Denied, "[store] path"),
        ("cut short", |path| { drop(open(path).unwrap()); let file = fs::File::options().write(true).open(path).unwrap(); file.set_len(file.metadata().unwrap().len() / 2).unwrap(); }, Access::Write, Corrupt, "crawlgate store rebuild"),
        ("emptied", |path| { drop(open(path).unwrap()); LogKey::load_or_create(&log_key_file(path), None).unwrap(); fs::write(path, "").unwrap(); }, Access::Write, Corrupt, "was emptied"),
        ("gone, but for its key", |path| { LogKey::load_or_create(&log_key_file(path), None).unwrap(); }, Access::Write, Corrupt, "move the key away"),
        ("gone, and only asked", |path| { LogKey::load_or_create(&log_key_file(path), None).unwrap(); }, Access::Read, Corrupt, "the store is gone"),
        ("emptied, but for its log", |path| { fs::write(path, "").unwrap(); fs::write(beside(path, "-wal"), "log").unwrap(); }, Access::Write, Corrupt, "was emptied"),
    ];
    for (name, make, access, kind, want) in cases {
        let (_folder, path) = place();
        fs::create_dir(path.parent().unwrap()).unwrap();
        make(&path);
        let error = Store::open(&path, access, Synchronous::Normal).unwrap_err();
        assert_eq!(error.kind, kind, "{name}: {error}");
        assert!(error.message.contains(want), "{name}: {error}");
        assert!(error.message.contains("crawlgate.db"), "{name} is named: {error}");
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
    shell(&path).pragma_update(None, "journal_mode", "WAL").unwrap();
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

#[tokio::test]
async fn a_store_moved_away_while_open_takes_no_more_records() {
    let (_folder, path) = place();
    let elsewhere = path.with_extension("elsewhere");
    let log = beside(&path, "-wal");
    type Take = fn(&Path, &Path);
    let cases: [(&str, &Path, Take, bool); 4] = [
        ("moved", &path, |_, _| {}, true),
        ("its log moved", &log, |_, _| {}, true),
        ("replaced", &path, |from, to| assert!(fs::copy(to, from).unwrap() > 0), true),
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
        let before = store.records(0, 9).await.unwrap().len();
        fs::rename(file, &elsewhere).unwrap();
        replace(file, &elsewhere);
        let batch = || ROW.batch();
        let refused = store.write(batch()).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Missing, "{name}: {refused}");
        has(&refused.message, "put those very files back");
        fs::rename(&elsewhere, file).unwrap();
        let written = store.write(batch()).await;
        assert_eq!(written.is_ok(), comes_back, "{name}: {written:?}");
        let after = store.records(0, 9).await.unwrap().len();
        assert_eq!(after == before + 1, comes_back, "{name}");
    }
}

#[tokio::test]
async fn a_reader_alone_can_read_the_remains_of_a_kill() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    record(&store, &rows(3)).await;
    // The files after a sudden end of the process: the records are only in the log.
    let (_other, left) = place();
    fs::create_dir(left.parent().unwrap()).unwrap();
    fs::copy(&path, &left).unwrap();
    fs::copy(beside(&path, "-wal"), beside(&left, "-wal")).unwrap();
    let reader = Store::open(&left, Access::Read, Synchronous::Normal).unwrap();
    assert_eq!(reader.records(0, 10).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_store_overwritten_while_open_takes_no_more_records() {
    let (_folder, path) = place();
    let old = path.with_extension("old");
    filled(&path, 2_000).await;
    fs::copy(&path, &old).unwrap();
    filled(&path, 2_000).await;
    let (_other_folder, other) = place();
    filled(&other, 3_000).await;
    let whole = fs::read(&path).unwrap();
    let size = whole.len();
    let other = fs::read(other).unwrap();
    let old = fs::read(old).unwrap();
    let state_file = crate::state_file::state_file(&path);
    let state = fs::read(&state_file).unwrap();
    let cases: [(&str, &[u8]); 6] = [
        ("emptied", b""),
        ("cut off in its first page", &whole[..50]),
        ("cut off behind its first page", &whole[..8_192]),
        ("cut off by half", &whole[..size / 2]),
        ("another store", &other),
        ("an older copy", &old),
    ];
    for (name, octets) in cases {
        fs::write(&path, &whole).unwrap();
        fs::write(&state_file, &state).unwrap();
        let store = open(&path).unwrap();
        record(&store, &rows(10)).await;
        // The same file with other content.
        fs::write(&path, octets).unwrap();
        let noticed = store.version().await.unwrap_err();
        assert!(noticed.message.contains("while it was open"), "{name}: {noticed}");
        let batch = || ROW.batch();
        let refused = store.write(batch()).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Missing, "{name}: {refused}");
        fs::write(&path, &whole).unwrap();
        store.version().await.unwrap();
        store.write(batch()).await.unwrap();
        assert_eq!(store.records(4_010, 9).await.unwrap().len(), 1, "{name}");
        drop(store);
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(beside(&path, suffix));
        }
    }
}

#[tokio::test]
async fn a_log_carried_over_by_another_process_is_no_fault() {
    let (_folder, path) = place();
    let (one, two) = (open(&path).unwrap(), open(&path).unwrap());
    for _ in 0..3 {
        record(&one, &rows(50)).await;
        two.on_writer(|connection, _| bounds::carry_over(connection)).await.unwrap();
        one.version().await.unwrap();
        record(&one, &rows(1)).await;
        record(&two, &rows(1)).await;
    }
    assert_eq!(one.records(0, 999).await.unwrap().len(), 156);
}
