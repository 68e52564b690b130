//! Rotations of a key: the keys that sign, and the files that a killed process leaves.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::public_keys::earlier_keys;
use crate::sqlite::fork::Fork;
use crate::sqlite::repair;
use crate::state_file::{self, StateFile};
use crate::tests::has;
use crate::tests::{record, rows};
use crate::{Access, Store, StoredCheckpoint, log_key, open, rotate_key};
use crawlgate_config::Config;
use crawlgate_tlog::Checkpoint;

const NOON: Moment = Moment::from_millis(1_795_176_000_000);
const DAY: Duration = Duration::from_secs(86_400);

/// A place for a store.
struct Place {
    folder: TempDir,
    config: Config,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[store]\npath = '{}/crawlgate.db'\n", folder.path().display());
        let config = Config::parse(&text, &folder.path().join("config.toml")).unwrap();
        Self { folder, config }
    }

    /// Copies files of this place to a new one.
    fn copy(&self) -> Self {
        let copy = Self::new();
        for file in fs::read_dir(self.folder.path()).unwrap() {
            copy.take(self, file.unwrap().file_name().to_str().unwrap());
        }
        copy
    }

    fn take(&self, from: &Self, file: &str) {
        fs::copy(from.file(file), self.file(file)).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn db(&self) -> PathBuf {
        self.file("crawlgate.db")
    }

    fn open(&self) -> Result<Arc<Store>, StoreError> {
        open(&self.config, Access::Write)
    }

    fn key(&self) -> Arc<LogKey> {
        log_key(&self.config).unwrap()
    }

    /// Makes a store of three records, all of them signed, and returns its key.
    async fn begin(&self) -> Arc<LogKey> {
        let store = self.open().unwrap();
        record(&store, &rows(3)).await;
        let key = self.key();
        store.checkpoint(Arc::clone(&key), NOON).await.unwrap();
        key
    }

    async fn rotate(&self, now: Moment) -> Rotation {
        rotate_key(&self.config, words(), now).await.unwrap()
    }
}

fn words() -> RotationReason {
    RotationReason { by: "Grace".to_owned(), reason: "yearly".to_owned() }
}

fn is_signed(checkpoint: &StoredCheckpoint, by: &VerifierKey) -> bool {
    let note = Note::parse(checkpoint.note.as_bytes()).unwrap();
    Checkpoint::open(&note, std::slice::from_ref(by)).is_ok()
}

/// Appends a record and signs it as a process does that holds this key.
async fn sign(
    store: &Store,
    key: &Arc<LogKey>,
    now: Moment,
) -> Result<StoredCheckpoint, StoreError> {
    record(store, &rows(1)).await;
    Ok(store.checkpoint(Arc::clone(key), now).await?.unwrap())
}

#[tokio::test]
async fn both_keys_sign_for_thirty_days_and_then_the_new_one_alone() {
    let place = Place::new();
    let old = place.begin().await;
    // A process that has the store open meanwhile, and holds the old key.
    let beside = place.open().unwrap();
    let done = place.rotate(NOON).await;
    assert_eq!((done.seq, &done.old), (4, &old.vkey()));
    assert_eq!(done.new.name(), old.name());
    assert_eq!(place.key().vkeys(), [done.new.clone(), done.old.clone()]);
    assert_eq!(place.key().name(), old.name(), "the log keeps its name");
    assert_eq!(earlier_keys(&place.db()).unwrap(), std::slice::from_ref(&done.old));
    let (state, _) = state_file::read(&place.db()).unwrap().unwrap();
    assert_eq!((state.key, state.signed.0), (*done.new.public(), 4));
    assert_eq!(fs::metadata(place.file("crawlgate.log.key")).unwrap().mode() & 0o777, 0o600);
    assert!(!next_key_file(&place.db()).exists());
    let entry = beside.records(3, 9).await.unwrap().remove(0);
    let text = format!(
        "\"event\":\"key_rotated\",\"old\":\"{}\",\"new\":\"{}\",\"by\":\"Grace\",\"reason\":\"yearly\"",
        done.old, done.new
    );
    assert!(entry.record.contains(&text), "{}", entry.record);
    assert_eq!(beside.rotations().await.unwrap(), std::slice::from_ref(&done));
    let at_once = beside.checkpoints().await.unwrap().pop().unwrap();
    assert!(!at_once.is_cosigned(), "a second key of the log is no witness");
    for key in [&done.old, &done.new] {
        assert!(is_signed(&at_once, key));
    }
    assert_eq!(at_once.size, 4, "the entry is the last one below it");

    let next = place.rotate(NOON + DAY).await;
    let third = place.key();
    assert_eq!(third.name(), old.name());
    let all = [&done.old, &done.new, &next.new];
    let second = Duration::from_secs(1);
    let cases = [
        ("all three", DAY * 2, [true, true, true]),
        ("the last second of the first", BOTH - second, [true, true, true]),
        ("two", BOTH, [false, true, true]),
        ("the last second of the second", BOTH + DAY - second, [false, true, true]),
        ("the present one", BOTH + DAY, [false, false, true]),
    ];
    for (name, after, want) in cases {
        // Whatever key the process has begun with.
        for held in [&old, &third] {
            let signed = sign(&beside, held, NOON + after).await.unwrap();
            assert_eq!(all.map(|key| is_signed(&signed, key)), want, "{name}");
        }
    }
    let all = [done, next];
    assert_eq!(beside.rotations().await.unwrap(), all);
    assert!(repair::check(&place.db()).unwrap().is_empty());
    drop(beside);
    repair::rebuild(&place.db(), NOON).unwrap();
    let rebuilt = place.open().unwrap();
    assert_eq!(rebuilt.rotations().await.unwrap(), all);
}

#[tokio::test]
async fn a_rotation_that_was_cut_short_anywhere_goes_on() {
    let before = Place::new();
    let old = before.begin().await;
    let after = before.copy();
    let done = after.rotate(NOON).await;
    let rename = |place: &Place| {
        fs::rename(place.file("crawlgate.log.key"), next_key_file(&place.db())).unwrap();
        place.take(&before, "crawlgate.log.key");
    };
    type Cut<'a> = Box<dyn Fn() -> Place + 'a>;
    // The files that a process has left that was killed after each step.
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, bool, Cut<'_>); 7] = [
        ("before all", false, Box::new(|| before.copy())),
        ("while the new key was written", false, Box::new(|| {
            let place = before.copy();
            fs::write(next_key_file(&place.db()), "-----BEGIN PRIV").unwrap();
            place
        })),
        ("after a new key", false, Box::new(|| {
            let place = before.copy();
            old.successor().unwrap().write(&next_key_file(&place.db())).unwrap();
            place
        })),
        ("after the entry", true, Box::new(|| {
            let place = after.copy();
            rename(&place);
            place.take(&before, "crawlgate.log.state");
            place
        })),
        ("after the checkpoint in the state file", true, Box::new(|| {
            let place = after.copy();
            rename(&place);
            StateFile::of(&place.db()).set_key(*old.vkey().public()).unwrap();
            place
        })),
        ("after the key", true, Box::new(|| {
            let place = after.copy();
            StateFile::of(&place.db()).set_key(*old.vkey().public()).unwrap();
            place
        })),
        ("after all", true, Box::new(|| after.copy())),
    ];
    for (name, is_rotated, cut) in cases {
        // The next process is one that serves, or another call.
        let place = cut();
        let store = place.open().expect(name);
        let present = place.key();
        let want = if is_rotated { &done.new } else { &done.old };
        assert_eq!(present.vkey(), *want, "{name}");
        let signed = sign(&store, &present, NOON + DAY).await.expect(name);
        assert!(is_signed(&signed, &done.old), "{name}");
        assert_eq!(is_signed(&signed, &done.new), is_rotated, "{name}");
        let (state, _) = state_file::read(&place.db()).unwrap().unwrap();
        assert_eq!(state.key, *want.public(), "{name}");
        drop(store);
        assert!(repair::check(&place.db()).unwrap().is_empty(), "{name}");

        let place = cut();
        let again = place.rotate(NOON + DAY).await;
        assert_eq!(again.old, *want, "{name}");
        let store = place.open().expect(name);
        let rotations = store.rotations().await.unwrap();
        assert_eq!(rotations.len(), 1 + usize::from(is_rotated), "{name}");
        let signed = sign(&store, &place.key(), NOON + DAY).await.expect(name);
        assert!(is_signed(&signed, &again.new) && is_signed(&signed, &done.old), "{name}");
    }
}

#[tokio::test]
async fn nothing_is_signed_without_the_new_key() {
    let before = Place::new();
    let old = before.begin().await;
    let place = before.copy();
    let store = place.open().unwrap();
    let done = place.rotate(NOON).await;
    fs::remove_file(place.file("crawlgate.log.key")).unwrap();
    place.take(&before, "crawlgate.log.key");
    let refused = sign(&store, &old, NOON).await.unwrap_err();
    for want in ["signs the log no more", &done.new.to_string(), "bring back the file"] {
        assert!(refused.message.contains(want), "{refused}");
    }
    assert_eq!(store.checkpoints().await.unwrap().last().unwrap().size, 4);
    drop(store);
    let refused = place.open().unwrap_err();
    has(&refused.message, "signs the log no more");
    // The way out that the message names: a new key, under another name.
    fs::remove_file(place.file("crawlgate.log.key")).unwrap();
    let store = place.open().unwrap();
    let other = place.key();
    assert_ne!(other.name(), old.name());
    let signed = sign(&store, &other, NOON).await.unwrap();
    assert!(is_signed(&signed, &other.vkey()));
}

#[tokio::test]
async fn an_old_key_that_was_taken_out_of_the_file_signs_no_more() {
    let place = Place::new();
    place.begin().await;
    let done = place.rotate(NOON).await;
    let file = place.file("crawlgate.log.key");
    let text = fs::read_to_string(&file).unwrap();
    let end = text.find("-----END PRIVATE KEY-----\n").unwrap() + 26;
    fs::write(&file, &text[..end]).unwrap();
    let store = place.open().unwrap();
    assert_eq!(place.key().name(), done.new.name());
    let signed = sign(&store, &place.key(), NOON).await.unwrap();
    assert!(is_signed(&signed, &done.new) && !is_signed(&signed, &done.old));
}

#[tokio::test]
async fn any_flipped_bit_of_a_rotation_is_found() {
    let place = Place::new();
    place.begin().await;
    let done = place.rotate(NOON).await;
    let read = |entry: &[u8], proof: &[u8]| {
        let proof = String::from_utf8(proof.to_vec()).ok()?;
        Rotation::read(entry.to_vec(), proof)
    };
    let (entry, proof) = (done.entry.clone(), done.proof.clone().into_bytes());
    assert_eq!(read(&entry, &proof), Some(done.clone()));
    let flipped = |octets: &[u8], at: usize| {
        let mut octets = octets.to_vec();
        octets[at / 8] ^= 1 << (at % 8);
        octets
    };
    for at in 0..entry.len() * 8 {
        assert_eq!(read(&flipped(&entry, at), &proof), None, "bit {at} of the entry");
    }
    for at in 0..proof.len() * 8 {
        assert_eq!(read(&entry, &flipped(&proof, at)), None, "bit {at} of the proof");
    }

    // In the database: told, nothing is signed, and a rebuild makes it anew.
    let key = place.key();
    let shell = rusqlite::Connection::open(place.db()).unwrap();
    shell.execute("UPDATE rotation SET entry = ?1", [flipped(&entry, 100)]).unwrap();
    drop(shell);
    let want = "the proof that record 4 replaced the key of the log is damaged";
    let faults = repair::check(&place.db()).unwrap();
    assert!(faults.damaged.iter().any(|one| one.contains(want)), "{faults:?}");
    let store = place.open().unwrap();
    let refused = sign(&store, &key, NOON).await.unwrap_err();
    assert!(refused.message.contains(want), "{refused}");
    drop(store);
    let rebuilt = repair::rebuild(&place.db(), NOON).unwrap();
    assert!(rebuilt.report.iter().any(|one| one.contains(want)), "{rebuilt:?}");
    let store = place.open().unwrap();
    assert_eq!(store.rotations().await.unwrap(), std::slice::from_ref(&done));
    let signed = sign(&store, &key, NOON).await.unwrap();
    assert!(is_signed(&signed, &done.new));
    drop(store);

    // Without the checkpoint over the entry it is dropped.
    let shell = rusqlite::Connection::open(place.db()).unwrap();
    shell
        .execute_batch("UPDATE rotation SET proof = ''; DELETE FROM checkpoint WHERE size = 4")
        .unwrap();
    drop(shell);
    let rebuilt = repair::rebuild(&place.db(), NOON).unwrap();
    assert!(rebuilt.report.iter().any(|one| one.contains("it is dropped")), "{rebuilt:?}");
    assert_eq!(place.open().unwrap().rotations().await.unwrap(), []);
}

#[tokio::test]
async fn an_older_copy_from_before_a_rotation_is_refused_and_forks() {
    let before = Place::new();
    let old = before.begin().await;
    let after = before.copy();
    let done = after.rotate(NOON).await;
    let place = after.copy();
    for file in ["crawlgate.db", "crawlgate.db-wal", "crawlgate.db-shm"] {
        let _ = fs::remove_file(place.file(file));
    }
    place.take(&before, "crawlgate.db");
    let refused = place.open().unwrap_err();
    for want in ["record 4 is missing", "audit fork"] {
        assert!(refused.message.contains(want), "{refused}");
    }
    let fork = Fork::of(&place.db(), None, None).unwrap();
    let text = format!("lost log  {} of 4 records", old.name());
    assert!(fork.describe().contains(&text), "{}", fork.describe());
    fork.carry_out("a test", NOON).unwrap();
    let store = place.open().unwrap();
    let new = place.key();
    assert!(new.name() != old.name() && new.vkeys().len() == 1, "{new:?}");
    let mut earlier = earlier_keys(&place.db()).unwrap();
    earlier.sort_by_key(VerifierKey::id);
    let mut want = vec![done.old, done.new];
    want.sort_by_key(VerifierKey::id);
    assert_eq!(earlier, want);
    sign(&store, &new, NOON).await.unwrap();
}

#[tokio::test]
async fn only_one_of_two_rotations_at_once_begins_from_a_key() {
    let place = Place::new();
    place.begin().await;
    let store = Store::open(&place.db(), Access::Write, place.config.store.synchronous).unwrap();
    let (held, done) = (place.key(), place.rotate(NOON).await);
    let late = store.rotate(held.successor().unwrap(), words(), NOON).await;
    let late = late.unwrap_err();
    assert!(late.message.contains("another process has replaced the key"), "{late}");
    assert_eq!(store.rotations().await.unwrap(), [done]);
    assert_eq!(store.extent().await.unwrap().size, 4, "nothing is written");
}
