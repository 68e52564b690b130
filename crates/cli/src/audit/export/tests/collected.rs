//! Exports in the hands of a collector.

mod parts;

use super::*;
use crawlgate_evidence::export::{
    Exported, ImportError, Imported, file_of, import, import_in_parts,
};
use crawlgate_record::samples::Dice;
use crawlgate_store::sqlite::collected::Collected;
use crawlgate_store::sqlite::repair;
use crawlgate_store::{StoredCheckpoint, StoredDecision, public_keys};

/// The copy of a log, in a separate directory.
pub(super) struct Copy {
    folder: TempDir,
}

impl Copy {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("log.db")
    }

    /// Files the export of a log; the store is closed afterwards.
    pub(super) fn import(&self, gate: &ExportedLog) -> Result<Imported, String> {
        self.import_from(&gate.to(), PastGaps::Stop, gate)
    }

    pub(super) fn import_from(
        &self,
        from: &Path,
        gaps: PastGaps,
        gate: &ExportedLog,
    ) -> Result<Imported, String> {
        let text_of = |error: &dyn std::fmt::Display| error.to_string();
        let export = Exported::open(from).map_err(|error| text_of(&error))?;
        let mut copy = Collected::open(&self.path()).map_err(|error| text_of(&error))?;
        let log = [gate.key.vkey()];
        import(&export, &mut copy, &log, &[], gaps, |_, _| ())
            .map_err(|error: ImportError| text_of(&error))
    }

    /// Asserts that the export of a log has a fault, which is told by these words.
    pub(super) fn refuses(&self, gate: &ExportedLog, words: &str) {
        let error = self.import(gate).unwrap_err();
        assert!(error.contains(words), "{error}");
    }

    /// Returns all that the copy has.
    async fn content(&self, of: &ExportedLog) -> Content {
        if !self.path().exists() {
            return Content::default();
        }
        let store = Store::open(&self.path(), Access::Read, Synchronous::Normal).unwrap();
        content(&store, of.text).await
    }

    pub(super) fn faults(&self) -> repair::Faults {
        repair::check(&self.path()).unwrap()
    }
}

/// The content of a log.
#[derive(Debug, Default, PartialEq)]
struct Content {
    records: Vec<StoredDecision>,
    checkpoints: Vec<String>,
    text: Option<Vec<u8>>,
    hours: u64,
}

async fn content(store: &Store, text: Sha256) -> Content {
    let checkpoints = store.checkpoints().await.unwrap();
    let hours = store.hours(Moment::default(), ROW.time + DAY * 400).await;
    Content {
        records: store.records(0, 100_000).await.unwrap(),
        checkpoints: checkpoints.into_iter().map(|one| one.note).collect(),
        text: store.snapshot(text).await.unwrap(),
        hours: hours.unwrap().iter().map(|hour| hour.count).sum(),
    }
}

#[tokio::test]
async fn a_copy_grows_with_the_exports_and_is_whole() {
    let mut gate = ExportedLog::new().await;
    let copy = Copy::new();
    gate.exported(700, ROW.time).await;
    let imported = copy.import(&gate).unwrap();
    assert_eq!((imported.records, imported.size, imported.missing.len()), (700, 700, 0));
    let again = copy.import(&gate).unwrap();
    assert_eq!((again.records, again.size), (0, 700));

    let id = gate.store.records(3, 1).await.unwrap().pop().unwrap();
    let note = crawlgate_store::Acknowledgement {
        time: ROW.time + DAY,
        by: "Ada".to_owned(),
        note: "known".to_owned(),
    };
    let id = crawlgate_text::DecisionId::from_octets(*crawlgate_record::id_of(&id.entry).unwrap());
    assert!(crawlgate_store::samples::acknowledge(&gate.store, &id.to_string(), note).await);
    gate.exported(2_000, ROW.time + DAY).await;
    gate.exported(5, ROW.time + DAY * 2).await;
    let imported = copy.import(&gate).unwrap();
    assert_eq!((imported.records, imported.size), (2_006, 2_706));
    assert_eq!(copy.content(&gate).await, content(&gate.store, gate.text).await);
    assert_eq!(copy.faults(), repair::Faults::default());
    let keys = public_keys::collected_keys(&copy.path()).unwrap();
    assert_eq!(keys, [gate.key.vkey()]);
}

#[tokio::test]
async fn a_copy_begins_behind_records_that_retention_had_dropped() {
    let mut gate = ExportedLog::new().await;
    gate.signed(1_000, ROW.time).await;
    let later = gate.expire().await;
    gate.exported(1_500, later).await;
    let copy = Copy::new();
    let imported = copy.import(&gate).unwrap();
    assert_eq!(imported.size, 2_501);
    let (ours, theirs) = (copy.content(&gate).await, content(&gate.store, gate.text).await);
    assert_eq!(ours.records, theirs.records);
    assert_eq!(ours.records.first().map(|first| first.seq), Some(769));
    assert_eq!(copy.faults(), repair::Faults::default());
    // Record 769 is proven in the newest checkpoint.
    let store = Store::open(&copy.path(), Access::Read, Synchronous::Normal).unwrap();
    let signed: StoredCheckpoint = store.checkpoints().await.unwrap().pop().unwrap();
    let proof = store.inclusion(768, signed.size).await.unwrap();
    let root = signed.content().unwrap().root;
    let leaf = leaf_hash(&ours.records[0].entry);
    assert_eq!(proof.verify(&leaf, &root), Ok(()));

    gate.exported(10, later + DAY).await;
    assert_eq!(copy.import(&gate).unwrap().records, 10);

    // Without the roots, or with others, nothing is filed.
    let ground = gate.to().join(ground_file(768));
    let octets = fs::read(&ground).unwrap();
    let mut other = octets.clone();
    other[40] ^= 1;
    for octets in [&octets[..64], &other, &[]] {
        fs::write(&ground, octets).unwrap();
        let copy = Copy::new();
        copy.import(&gate).unwrap_err();
        let copy = Collected::open(&copy.path()).unwrap();
        assert_eq!(copy.end().0, 0);
    }
}

#[tokio::test]
async fn records_dropped_between_two_exports_leave_a_gap_and_a_new_copy_begins_behind_it() {
    let mut gate = ExportedLog::new().await;
    gate.exported(300, ROW.time).await;
    let copy = Copy::new();
    copy.import(&gate).unwrap();
    let before = copy.content(&gate).await;
    gate.signed(700, ROW.time).await;
    let later = gate.expire().await;
    gate.signed(200, later).await;
    assert_eq!(gate.export().await, Ok(CheckResult::Faults));
    copy.refuses(&gate, "records 301 to 768 are not in it");
    assert_eq!(copy.content(&gate).await, before);
    let copy = Copy::new();
    assert_eq!(copy.import(&gate).unwrap().size, 1_201);
    let records = copy.content(&gate).await.records;
    assert_eq!(records.first().map(|first| first.seq), Some(769));
    assert_eq!(copy.faults(), repair::Faults::default());
}

#[tokio::test]
async fn files_that_come_in_part_are_told_and_continued() {
    let mut gate = ExportedLog::new().await;
    gate.exported(300, ROW.time).await;
    gate.exported(20, ROW.time + DAY).await;
    let whole = content(&gate.store, gate.text).await;
    let copy = Copy::new();
    let to = gate.to();
    let aside = |name: &str| fs::rename(to.join(name), to.join("aside")).unwrap();
    let back = |name: &str| fs::rename(to.join("aside"), to.join(name)).unwrap();

    // The entries behind the first checkpoint are not there yet.
    let last = entries_file(300, 320);
    aside(&last);
    copy.refuses(&gate, "records 301 to 320 are not in it");
    assert_eq!(copy.content(&gate).await.records.len(), 300);
    back(&last);

    // Half a file.
    let octets = fs::read(to.join(&last)).unwrap();
    fs::write(to.join(&last), &octets[..octets.len() / 2]).unwrap();
    copy.refuses(&gate, "damaged block");
    fs::write(to.join(&last), &octets).unwrap();
    copy.import(&gate).unwrap();
    assert_eq!(copy.content(&gate).await, whole);

    // Bodies that come later.
    let copy = Copy::new();
    let robots = body_file(ExportDir::Robots, &gate.text);
    aside(&robots);
    let imported = copy.import(&gate).unwrap();
    assert_eq!((imported.records, imported.missing.len()), (320, 1));
    assert_eq!(copy.content(&gate).await.text, None);
    assert_eq!(copy.faults(), repair::Faults::default());
    let again = copy.import(&gate).unwrap();
    let missing: Vec<_> = again.missing.iter().map(file_of).collect();
    assert_eq!(missing, [&*robots], "each run tells of it");
    back(&robots);
    let imported = copy.import(&gate).unwrap();
    assert_eq!((imported.records, imported.filled), (0, 1));
    assert_eq!(imported.missing, []);
    assert_eq!(copy.content(&gate).await, whole);

    let copy = Copy::new();
    let names: Vec<String> = files(&to).into_keys().collect();
    let object = names.iter().find(|name| name.starts_with("objects/"));
    aside(object.unwrap());
    let imported = copy.import(&gate).unwrap();
    assert_eq!((imported.records, imported.missing.len()), (320, 1));
    back(object.unwrap());
    let imported = copy.import(&gate).unwrap();
    assert_eq!((imported.records, imported.filled), (0, 2));
    assert_eq!(copy.content(&gate).await, whole);
    assert_eq!(copy.faults(), repair::Faults::default());
}

#[tokio::test]
async fn another_history_under_the_same_key_is_told() {
    let mut gate = ExportedLog::new().await;
    gate.exported(300, ROW.time).await;
    let copy = Copy::new();
    copy.import(&gate).unwrap();
    let before = copy.content(&gate).await;
    let mut other = ExportedLog::with_key(Arc::clone(&gate.key)).await;
    for (count, message) in [
        (200, "another history of its first 200 records"),
        (100, "another history of its first 300 records"),
        (50, "another history of its first 300 records"),
    ] {
        other.exported(count, ROW.time + DAY).await;
        copy.refuses(&other, message);
    }
    // Without a checkpoint of the size that is collected, the root tells.
    fs::remove_file(other.to().join(checkpoint_file(300))).unwrap();
    copy.refuses(&other, "do not lead to the root");
    assert_eq!(copy.content(&gate).await, before);

    let strange =
        ExportedLog::with_key(Arc::new(LogKey::generate(Some(gate.key.name().clone())).unwrap()));
    let mut strange = strange.await;
    strange.exported(400, ROW.time).await;
    let error = copy.import_from(&strange.to(), PastGaps::Stop, &gate);
    let error = error.unwrap_err();
    assert!(error.contains("no known key has signed"), "{error}");
    copy.refuses(&strange, "signed by no trusted key");
    assert_eq!(copy.content(&gate).await, before);
}

#[tokio::test]
async fn a_copy_is_no_store_of_a_gate_nor_the_other_way_round() {
    let mut gate = ExportedLog::new().await;
    gate.exported(300, ROW.time).await;
    let copy = Copy::new();
    copy.import(&gate).unwrap();
    let refused = |error: crawlgate_store::StoreError| {
        assert!(error.message.contains("`crawlgate collect` alone writes"), "{error}");
    };
    refused(Store::open(&copy.path(), Access::Write, Synchronous::Normal).unwrap_err());
    refused(repair::rebuild(&copy.path(), ROW.time).unwrap_err());
    let fork = crawlgate_store::sqlite::fork::Fork::of(&copy.path(), None, None);
    refused(fork.unwrap_err());
    let error = Collected::open(&gate.path()).unwrap_err();
    assert!(error.message.contains("the store of a gate"), "{error}");
}

#[tokio::test]
async fn what_is_no_file_of_an_export_is_not_opened() {
    let mut gate = ExportedLog::new().await;
    gate.exported(10, ROW.time).await;
    let file = gate.to().join(entries_file(0, 10));
    fs::remove_file(&file).unwrap();
    let elsewhere = gate.folder.path().join("secret");
    fs::write(&elsewhere, "secret").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    let copy = Copy::new();
    copy.refuses(&gate, "symbolic link");
    fs::remove_file(&file).unwrap();
    let pipe = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &file, pipe, mode, 0).unwrap();
    copy.refuses(&gate, "no regular file");
    fs::remove_file(&file).unwrap();

    // A frame that says it is longer than any, and a body of zeros that is.
    let names: Vec<String> = files(&gate.to()).into_keys().collect();
    let object = names.iter().find(|name| name.starts_with("objects/")).unwrap();
    let bomb = zstd::bulk::compress(&vec![0; 65 * 1024 * 1024], 19).unwrap();
    assert!(bomb.len() < 10_000);
    fs::write(gate.to().join(object), bomb).unwrap();
    let export = Exported::open(&gate.to()).unwrap();
    let digits = object.strip_prefix("objects/").unwrap().strip_suffix(".zst").unwrap();
    let sha256 = crawlgate_text::from_hex(digits).unwrap();
    let error = export.body(ExportDir::Objects, &sha256).unwrap_err();
    assert!(error.to_string().contains("cannot be unpacked"), "{error}");
}

/// The variable that gives another seed than the usual one.
const SEED: &str = "CRAWLGATE_FLIP_SEED";

fn seed() -> u64 {
    match std::env::var(SEED) {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => 9_309,
    }
}

#[tokio::test]
async fn a_flipped_octet_is_found_or_harms_nothing() {
    let mut gate = ExportedLog::new().await;
    gate.exported(300, ROW.time).await;
    let first = Copy::new();
    first.import(&gate).unwrap();
    let half = first.content(&gate).await;
    gate.exported(20, ROW.time + DAY).await;
    let whole = content(&gate.store, gate.text).await;
    let files: Vec<(String, Vec<u8>)> = files(&gate.to()).into_iter().collect();
    let (mut found, mut harmless) = (0, 0);
    let seed = seed();
    let mut dice = Dice(seed);
    for round in 0..240 {
        // Each file in its turn, at a place by chance.
        let (name, octets) = &files[round % files.len()];
        let at = dice.below(octets.len() as u64) as usize;
        let mut flipped = octets.clone();
        flipped[at] ^= 1 << dice.below(8);
        fs::write(gate.to().join(name), &flipped).unwrap();
        let copy = Copy::new();
        let outcome = copy.import(&gate);
        let content = copy.content(&gate).await;
        match outcome {
            Ok(_) => {
                harmless += 1;
                assert_eq!(content, whole, "{name} at {at}, {SEED}={seed}");
            }
            Err(error) => {
                found += 1;
                let is_signed = content.records.is_empty() || content == half;
                assert!(is_signed, "{name} at {at}, {SEED}={seed}: {error}");
            }
        }
        // The copy continues from what was filed, once the file is right again.
        fs::write(gate.to().join(name), octets).unwrap();
        if round % 12 == 0 {
            copy.import(&gate).unwrap();
            assert_eq!(copy.content(&gate).await, whole, "{name} at {at}, {SEED}={seed}");
        }
    }
    assert!(found > 150, "{found} found, {harmless} harmless, {SEED}={seed}");
}
