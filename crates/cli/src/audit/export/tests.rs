mod collected;
mod cut;
mod gaps;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, params};
use tempfile::TempDir;

use super::*;
use crawlgate_block::{Block, BlockWriter};
use crawlgate_config::Synchronous;
use crawlgate_evidence::export::{
    ExportDir, PastGaps, body_file, checkpoint_file, entries_file, ground_file,
};
use crawlgate_store::samples::{ROW, Row, origin_update, successful};
use crawlgate_store::{Access, Batch, LogKey, Retention, Sha256, Store};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{BUNDLE, Tree, leaf_hash};

const DAY: Duration = Duration::from_secs(86_400);

/// A log with its key, and the directory of its export.
struct ExportedLog {
    folder: TempDir,
    store: Arc<Store>,
    key: Arc<LogKey>,
    /// The robots.txt that records rest on.
    text: Sha256,
    records: u64,
}

impl ExportedLog {
    async fn new() -> Self {
        Self::with_key(Arc::new(LogKey::generate(None).unwrap())).await
    }

    async fn with_key(key: Arc<LogKey>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crawlgate.db");
        let store = Store::open(&path, Access::Write, Synchronous::Normal).unwrap();
        let state = successful("User-agent: *\nDisallow: /private\n", ROW.time);
        let text = state.snapshot().unwrap().sha256;
        let batch = Batch {
            updates: vec![origin_update("site.example", state, ROW.time)],
            ..Batch::default()
        };
        store.write(batch).await.unwrap();
        Self { folder, store: Arc::new(store), key, text, records: 0 }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("crawlgate.db")
    }

    fn to(&self) -> PathBuf {
        self.folder.path().join("export")
    }

    /// Adds records, a second apart from `from` on, and signs the log.
    async fn signed(&mut self, count: u64, from: Moment) -> &mut Self {
        let mut batch = Batch::default();
        for n in 0..count {
            let path = format!("/private/{}", self.records + n);
            let row = Row {
                time: from + Duration::from_secs(n),
                path: &path,
                sha256: Some(self.text),
                ..ROW
            };
            row.file(&mut batch);
        }
        self.records += count;
        self.store.write(batch).await.unwrap();
        let now = from + Duration::from_secs(count);
        let signed = self.store.checkpoint(Arc::clone(&self.key), now).await;
        assert!(signed.unwrap().is_some());
        self
    }

    /// Adds records, signs the log and exports it.
    async fn exported(&mut self, count: u64, from: Moment) {
        let found = self.signed(count, from).await.export().await;
        assert_eq!(found, Ok(CheckResult::Clean));
    }

    /// Drops the records that have expired, and returns the time of that.
    async fn expire(&self) -> Moment {
        let later = ROW.time + DAY * 40;
        let retention = Retention { keep: Some(DAY), max_size: None };
        let dropped = self.store.prune(retention, later).await.unwrap();
        assert_eq!(dropped.decisions, 768);
        later
    }

    async fn export(&self) -> Result<CheckResult, String> {
        let args = ExportArgs {
            to: self.to(),
            trusted: TrustArgs { key: vec![self.key.vkey().to_string()] },
        };
        let written = export(&args, &self.store, &Config::default()).await;
        written.map_err(|error| error.to_string())
    }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for place in ExportDir::ALL.map(ExportDir::name).into_iter().chain([""]) {
        for file in fs::read_dir(folder.join(place)).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                files.insert(name.to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Replaces an entry of the first block by another one, as a person with access to the file does.
fn forge(path: &Path, at: usize, with_roots: bool) {
    let connection = Connection::open(path).unwrap();
    let body: Vec<u8> = connection
        .query_row("SELECT body FROM block WHERE first = 0", [], |row| row.get(0))
        .unwrap();
    let block = Block::read(body).unwrap();
    let mut writer = BlockWriter::new().unwrap();
    let (mut leaves, mut roots) = (Vec::new(), Vec::new());
    for place in 0..block.len() {
        let mut entry = Vec::new();
        let other = if place == at { at + 1 } else { place };
        block.entry(other, &mut entry).unwrap();
        writer.push(&entry).unwrap();
        leaves.push(leaf_hash(&entry));
        if leaves.len() as u64 == BUNDLE {
            roots.extend(Tree::root_of(&leaves));
            leaves.clear();
        }
    }
    let mut body = Vec::new();
    writer.finish(&mut body).unwrap();
    let text = "UPDATE block SET body = ?1 WHERE first = 0";
    connection.execute(text, [&body]).unwrap();
    if with_roots {
        let text = "UPDATE block SET roots = ?1 WHERE first = 0";
        connection.execute(text, [&roots]).unwrap();
    }
}

#[tokio::test]
async fn a_store_that_contradicts_the_signed_root_is_not_exported() {
    let mut gate = ExportedLog::new().await;
    gate.signed(1_200, ROW.time).await;
    forge(&gate.path(), 300, true);
    assert_eq!(gate.export().await, Ok(CheckResult::Faults));
    let names: Vec<String> = files(&gate.to()).into_keys().collect();
    assert_eq!(names, ["log.json"], "not a file is written");
}

#[tokio::test]
async fn an_export_behind_dropped_records_has_the_roots_below_it() {
    let mut gate = ExportedLog::new().await;
    gate.signed(1_000, ROW.time).await;
    let later = gate.expire().await;
    gate.signed(200, later).await;
    assert_eq!(gate.export().await, Ok(CheckResult::Clean));
    let files = files(&gate.to());
    let ground = &files[&ground_file(768)];
    assert_eq!(ground.len(), 3 * 32);
    let first = files.keys().find(|name| name.starts_with("entries/"));
    assert!(first.unwrap().starts_with("entries/00000000000000000768-"));
}

#[tokio::test]
async fn a_robots_txt_that_was_altered_is_not_exported() {
    let mut gate = ExportedLog::new().await;
    gate.signed(10, ROW.time).await;
    let other = zstd::bulk::compress(b"User-agent: *\nAllow: /\n", 3).unwrap();
    Connection::open(gate.path())
        .unwrap()
        .execute("UPDATE snapshot SET body = ?1, bytes = 23", params![other])
        .unwrap();
    assert_eq!(gate.export().await, Ok(CheckResult::Faults));
    let names: Vec<String> = files(&gate.to()).into_keys().collect();
    assert!(!names.iter().any(|name| name.starts_with("robots/")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("checkpoints/")), "{names:?}");
}
