//! The tree that `crawlgate audit tiles` writes out of a store.

mod lost;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use crawlgate_config::Synchronous;
use crawlgate_evidence::tiles;
use crawlgate_record::{Bounds, Decision, Entry};
use crawlgate_store::log_key::{LogKey, log_key_file};
use crawlgate_store::{Access, Batch, Store};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{Checkpoint, Note, Prover, Resource, Tile, leaf_hash};
use tempfile::TempDir;

/// A directory with a store of many decisions, its key, and a configuration that names them.
pub(crate) struct TestStore {
    directory: TempDir,
    pub(crate) entries: Vec<Vec<u8>>,
}

impl TestStore {
    pub(crate) fn new() -> TestStore {
        let directory = tempfile::tempdir().unwrap();
        let config = "[store]\npath = \"crawlgate.db\"\n";
        fs::write(directory.path().join("config.toml"), config).unwrap();
        TestStore { directory, entries: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the directory of the tree.
    pub(crate) fn folder(&self) -> PathBuf {
        self.path("log/of")
    }

    /// Returns the key of the log.
    pub(crate) fn key(&self) -> LogKey {
        LogKey::load_or_create(&log_key_file(&self.path("crawlgate.db")), None).unwrap()
    }

    /// Adds decisions up to this number, and signs the log.
    pub(crate) fn grow(&mut self, size: usize) {
        self.append(size, true);
    }

    /// Adds decisions up to this number, behind the newest checkpoint.
    pub(crate) fn grow_unsigned(&mut self, size: usize) {
        self.append(size, false);
    }

    fn append(&mut self, size: usize, is_signed: bool) {
        self.append_numbers(self.entries.len() as u64..size as u64, is_signed);
    }

    /// Adds decisions with these numbers in their identifiers.
    fn append_numbers(&mut self, numbers: Range<u64>, is_signed: bool) {
        let batch = decisions(numbers);
        self.entries.extend(batch.entries.iter().map(<[u8]>::to_vec));
        let store = self.path("crawlgate.db");
        let store = Store::open(&store, Access::Write, Synchronous::Normal).unwrap();
        // Only now: a key without a store is that of a store that is lost.
        let key = self.key();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let time = Entry::read(&self.entries[0]).unwrap().time();
        let size = self.entries.len();
        let now = Moment::from_millis(time) + Duration::from_secs(size as u64);
        runtime.block_on(async {
            store.write(batch).await.unwrap();
            if !is_signed {
                return;
            }
            let signed = store.checkpoint(Arc::new(key), now).await.unwrap().unwrap();
            assert_eq!(signed.size, size as u64);
        });
    }

    fn tiles(&self) -> Output {
        self.run(&["audit", "tiles", "log/of"])
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_crawlgate"))
            .env_clear()
            .current_dir(self.directory.path())
            .args(["--config", "config.toml"])
            .args(words)
            .output()
            .unwrap()
    }

    /// Runs a command and compares its exit code. Returns all that it says.
    #[track_caller]
    fn said(&self, words: &[&str], code: i32) -> String {
        let output = self.run(words);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        said
    }

    /// Damages an octet of the block of this number, and returns the numbers of its records.
    fn damage(&self, number: i64) -> (u64, u64) {
        let store = rusqlite::Connection::open(self.path("crawlgate.db")).unwrap();
        let text = "SELECT first, count, body FROM block ORDER BY first LIMIT 1 OFFSET ?1";
        let (first, count, mut body): (i64, i64, Vec<u8>) = store
            .query_row(text, [number], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap();
        let middle = body.len() / 2;
        body[middle] ^= 1;
        let text = "UPDATE block SET body = ?1 WHERE first = ?2";
        store.execute(text, rusqlite::params![body, first]).unwrap();
        (first as u64 + 1, (first + count) as u64)
    }

    /// Writes the tree and checks it, file by file.
    #[track_caller]
    pub(crate) fn written(&self) -> BTreeMap<String, u64> {
        self.written_at(self.entries.len() as u64)
    }

    /// As [`written`](Self::written), with a newest checkpoint of this size.
    #[track_caller]
    pub(crate) fn written_at(&self, size: u64) -> BTreeMap<String, u64> {
        let output = self.tiles();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*said), (Some(0), ""));
        let folder = self.folder();
        let read = |file: Resource| fs::read(folder.join(file.to_string())).unwrap();
        let keys = [self.key().vkey()];
        let note = Note::parse(&read(Resource::Checkpoint)).unwrap();
        let (checkpoint, _) = Checkpoint::open(&note, &keys).unwrap();
        assert_eq!(checkpoint.size, size);
        // Only from the files: each hash follows from the tile below, the lowest from the entries.
        for tile in Tile::all(size) {
            let hashes = tile.hashes(&read(Resource::Hashes(tile))).unwrap();
            if tile.level() == 0 {
                let content = read(Resource::Entries(tile));
                let first = tile.index() as usize * 256;
                let entries = tile.entries(&content).unwrap();
                assert_eq!(entries, self.entries[first..first + entries.len()]);
                let leaves: Vec<_> = entries.iter().map(|entry| leaf_hash(entry)).collect();
                assert_eq!(hashes, leaves, "{tile}");
            }
        }
        let mut prover = Prover::new(size, |tile: Tile| tile.hashes(&read(Resource::Hashes(tile))));
        assert_eq!(prover.root().unwrap(), checkpoint.root);
        for tile in Tile::all(size).filter(|tile| tile.level() > 2) {
            assert_eq!(prover.tile(tile).unwrap().as_flattened(), read(Resource::Hashes(tile)));
        }
        let mut places = BTreeMap::new();
        note_files(&folder, "", &mut places);
        places
    }
}

impl TestStore {
    /// Checks that each file that was written, of this tree or of a smaller one, is made of the store as it was.
    #[track_caller]
    pub(crate) fn made_one_by_one(&self) {
        let size = self.entries.len() as u64;
        let store = self.path("crawlgate.db");
        let store: Arc<Store> =
            Arc::new(Store::open(&store, Access::Read, Synchronous::Normal).unwrap());
        let mut names = BTreeMap::new();
        note_files(&self.folder(), "", &mut names);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let made = |resource, size| {
            let content = runtime.block_on(tiles::content(&store, resource, size));
            content.unwrap()
        };
        for name in names.keys().filter(|name| *name != "/checkpoint") {
            let resource = Resource::parse(&name[1..]).unwrap();
            let written = fs::read(self.folder().join(&name[1..])).unwrap();
            assert_eq!(made(resource, size), Some(written), "{name} of {size}");
            let (Resource::Hashes(tile) | Resource::Entries(tile)) = resource else {
                panic!("{name}");
            };
            let too_small = tile.least_tree().unwrap() - 1;
            assert_eq!(made(resource, too_small), None, "{name} of {too_small}");
        }
    }
}

/// Collects the files with their inodes.
fn note_files(folder: &Path, name: &str, places: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{name}/{}", entry.file_name().to_str().unwrap());
        let found = entry.metadata().unwrap();
        match found.is_dir() {
            true => note_files(&entry.path(), &name, places),
            false => {
                assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
                places.insert(name, found.ino());
            }
        }
    }
}

#[test]
fn the_tree_of_a_store_is_written_and_goes_on() {
    let mut db = TestStore::new();
    let none = db.tiles();
    assert_eq!(none.status.code(), Some(2));
    let mut before = BTreeMap::new();
    // Entries of only the tail, of blocks, more than one segment.
    for size in [1, 255, 256, 600, 5_000, 66_100] {
        db.grow(size);
        let places = db.written();
        db.made_one_by_one();
        if size <= 5_000 {
            assert_eq!(db.written(), places, "{size}: nothing is written twice");
        }
        for (name, place) in before {
            let is_kept = name == "/checkpoint" || places.get(&name) == Some(&place);
            assert!(is_kept, "{size}: {name}");
        }
        before = places;
    }

    // Damaged and half-written files are made anew, all others stay.
    let spoil = |name: &str, change: fn(&mut Vec<u8>)| {
        let path = db.folder().join(name);
        let mut content = fs::read(&path).unwrap();
        change(&mut content);
        fs::write(path, content).unwrap();
    };
    spoil("tile/0/003", |content| content[40] ^= 1);
    spoil("tile/entries/007", |content| content[1_000] ^= 1);
    spoil("tile/entries/009", Vec::clear);
    spoil("tile/1/000", |content| content.truncate(77));
    fs::remove_file(db.folder().join("tile/0/011")).unwrap();
    let after = db.written();
    let renewed: Vec<_> =
        after.iter().filter(|(name, place)| before.get(*name) != Some(place)).collect();
    assert!((5..=8).contains(&renewed.len()), "{renewed:?}");
}

#[test]
fn a_directory_of_a_tree_that_the_log_does_not_continue_is_refused() {
    let mut db = TestStore::new();
    db.grow(300);
    let older = tempfile::tempdir().unwrap();
    let names = ["crawlgate.db", "crawlgate.log.state"];
    for name in names {
        fs::copy(db.path(name), older.path().join(name)).unwrap();
    }
    db.grow(600);
    db.written();
    let content = |db: &TestStore| {
        let mut names = BTreeMap::new();
        note_files(&db.folder(), "", &mut names);
        let read = |name: &String| fs::read(db.folder().join(&name[1..])).unwrap();
        let content = names.keys().map(|name| (name.clone(), read(name)));
        content.collect::<BTreeMap<_, _>>()
    };
    let before = content(&db);
    let refused = |db: &TestStore, case: &str, words: &str| {
        let output = db.tiles();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{case}: {said}");
        let way_out = "name another directory with `crawlgate audit tiles DIR`";
        says!(said, "log/of", words, way_out; "{case}");
        assert!(content(db) == before, "{case}: the directory stays as it is");
    };

    // An older copy of the store is back, and then continues otherwise.
    for name in names {
        fs::copy(older.path().join(name), db.path(name)).unwrap();
    }
    db.entries.truncate(300);
    refused(&db, "older", "it has 600 records, and the newest checkpoint of the store covers 300");
    db.append_numbers(10_000..10_300, true);
    refused(
        &db,
        "another root",
        "the log of the store does not continue the one in it, of 600 records",
    );
    db.append_numbers(10_300..10_400, true);
    refused(
        &db,
        "another history",
        "the log of the store does not continue the one in it, of 600 records",
    );

    let mut other = TestStore::new();
    other.grow(900);
    fs::create_dir(other.path("log")).unwrap();
    fs::rename(db.folder(), other.folder()).unwrap();
    refused(&other, "another log", "this belongs to the log");

    // Without a whole checkpoint, nothing tells which log the tiles are of.
    fs::write(other.folder().join("checkpoint"), "cut off").unwrap();
    let output = other.tiles();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    says!(said, "log/of/checkpoint", "move the file away");
}

#[test]
fn records_behind_the_newest_checkpoint_are_no_fault() {
    let mut db = TestStore::new();
    db.grow(203);
    // The bundle that the checkpoint ends in becomes full, and part of a block.
    db.grow_unsigned(5_103);
    db.written_at(203);
    db.grow(5_203);
    db.written();
}

#[test]
fn a_tree_that_was_not_signed_gets_no_checkpoint() {
    let mut db = TestStore::new();
    db.grow(600);
    let store = rusqlite::Connection::open(db.path("crawlgate.db")).unwrap();
    let (size, entries): (i64, Vec<u8>) = store
        .query_row("SELECT first, entries FROM tail ORDER BY first LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    let mut altered = entries;
    let place = altered.len() - 3;
    altered[place] ^= 1;
    store
        .execute("UPDATE tail SET entries = ?1 WHERE first = ?2", rusqlite::params![altered, size])
        .unwrap();
    drop(store);
    let output = db.tiles();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{said}");
    assert!(!db.folder().join("checkpoint").exists(), "{said}");
}

/// Returns decisions with these numbers in their identifiers, which rest on nothing.
pub(crate) fn decisions(numbers: Range<u64>) -> Batch {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/record/src/tests/golden.txt");
    let golden = fs::read_to_string(golden).unwrap();
    let mut lines = golden.lines();
    let digits = lines.find_map(|line| line.strip_prefix("entry ")).unwrap();
    let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    let usual: Vec<u8> = (0..digits.len()).step_by(2).map(octet).collect();
    let Entry::Decision(usual) = Entry::read(&usual).unwrap() else {
        panic!("the first golden entry is no decision")
    };
    let mut batch = Batch::default();
    for number in numbers {
        let mut id = usual.id;
        id[8..].copy_from_slice(&number.to_be_bytes());
        let decision =
            Decision { id, policy: None, basis: None, overridden: None, exempt: None, ..usual };
        batch.entries.push(|out| decision.encode(Bounds::CLIENTS, out));
    }
    batch
}
