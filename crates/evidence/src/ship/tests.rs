use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::destination::{Folder, FolderError};
use crate::export::Exported;
use crawlgate_config::Places;
use crawlgate_store::samples::{ROW, Row};
use crawlgate_store::{self as store, Access, Batch, LogKey};
use crawlgate_system::clock::Moment;

const NOON: Moment = Moment::from_millis(1_795_176_000_000);

/// A store with a log, and the directory to which it is shipped.
struct ShippedStore {
    folder: TempDir,
    config: Arc<Config>,
    store: Arc<Store>,
    key: Arc<LogKey>,
}

impl ShippedStore {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::builtin(&Places::default());
        config.store.path = Some(folder.path().join("crawlgate.db"));
        config.ship.to = Some(ShipTo::Folder(folder.path().join("there")));
        config.ship.every = Duration::from_millis(10);
        let store = store::open(&config, Access::Write).unwrap();
        let key = store::log_key(&config).unwrap();
        Self { folder, config: Arc::new(config), store, key }
    }

    /// The same, with the directory.
    fn with_place() -> Self {
        let gate = Self::new();
        fs::create_dir(gate.there()).unwrap();
        gate
    }

    fn there(&self) -> std::path::PathBuf {
        self.folder.path().join("there")
    }

    async fn shipper(&self) -> Arc<Shipper> {
        let clock = Clock::manual(NOON);
        let shipper = Shipper::of(&self.config, &self.store, &self.key, clock).await;
        shipper.unwrap().unwrap()
    }

    /// Lets all records expire.
    async fn expire(&self) -> crawlgate_store::Pruned {
        let retention =
            crawlgate_store::Retention { keep: Some(Duration::from_secs(1)), max_size: None };
        let later = NOON + Duration::from_secs(100 * 86_400);
        self.store.prune(retention, later).await.unwrap()
    }

    /// Adds records and signs the log.
    async fn signed(&self, count: u64) -> u64 {
        let mut batch = Batch::default();
        for _ in 0..count {
            Row { time: NOON, ..ROW }.file(&mut batch);
        }
        self.store.write(batch).await.unwrap();
        let signed = self.store.checkpoint(Arc::clone(&self.key), NOON).await;
        signed.unwrap().unwrap().size
    }
}

fn fault_of(outcome: Result<PassResult, Failure>) -> String {
    outcome.unwrap_err().to_string()
}

/// Makes a pass, and returns a failure in words.
async fn passed(shipper: &Arc<Shipper>) -> Result<PassResult, String> {
    let outcome = shipper.pass().await;
    outcome.map_err(|failure| failure.to_string())
}

fn exported(path: &Path) -> (Vec<u64>, Option<u64>) {
    let export = Exported::open(path).unwrap();
    let newest = export.checkpoints.last().copied().unwrap();
    (export.checkpoints.clone(), export.start(newest))
}

#[tokio::test]
async fn each_checkpoint_is_shipped_with_what_it_covers_and_the_place_is_noted() {
    let gate = ShippedStore::new();
    let shipper = gate.shipper().await;
    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(0)), "nothing is signed");
    assert_eq!(gate.signed(600).await, 600);
    assert!(
        fault_of(shipper.pass().await).contains("no such directory"),
        "a directory that is not mounted is not made"
    );
    fs::create_dir(gate.there()).unwrap();
    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(600)));
    assert_eq!(gate.store.shipped().await.unwrap(), Some(600));
    gate.signed(10).await;
    gate.signed(10).await;
    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(620)));
    assert_eq!(exported(&gate.there()), (vec![600, 620], Some(0)));
    // Another process continues where this one has ended.
    let next = gate.shipper().await;
    assert_eq!(next.status().shipped, 620);
    assert_eq!(passed(&next).await, Ok(PassResult::Whole(620)));
    assert_eq!((next.status().behind, next.status().failure), (0, None));
}

#[tokio::test]
async fn a_long_pause_is_made_up_for_in_parts() {
    let gate = ShippedStore::with_place();
    for count in [8_192, 8_192, 100, 1] {
        gate.signed(count).await;
    }
    let shipper = gate.shipper().await;
    assert_eq!(shipper.status().behind, 16_485);
    assert_eq!(passed(&shipper).await, Ok(PassResult::Part));
    assert_eq!(gate.store.shipped().await.unwrap(), Some(16_384));
    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(16_485)));
    assert_eq!(exported(&gate.there()), (vec![16_384, 16_485], Some(0)));
}

#[tokio::test]
async fn a_place_that_is_not_right_is_told_and_left_as_it_is() {
    let gate = ShippedStore::with_place();
    let there = gate.there();
    gate.signed(600).await;
    let shipper = gate.shipper().await;
    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(600)));
    gate.signed(600).await;

    let head = fs::read_to_string(there.join("log.json")).unwrap();
    fs::write(there.join("log.json"), head.replace("crawlgate/", "other/")).unwrap();
    let why = fault_of(shipper.pass().await);
    assert!(why.contains("belongs to the log other/"), "{why}");
    assert!(why.contains("[ship] to"), "{why}");
    fs::write(there.join("log.json"), &head).unwrap();

    let last = there.join(crate::export::entries_file(0, 600));
    let whole = fs::read(&last).unwrap();
    fs::write(&last, &whole[..whole.len() / 2]).unwrap();
    let why = fault_of(shipper.pass().await);
    assert!(why.contains("entries/00000000000000000000-"), "{why}");
    assert_eq!(fs::read(&last).unwrap(), whole[..whole.len() / 2]);
    fs::write(&last, &whole).unwrap();

    // Something else stands where the next file belongs.
    let next = there.join(crate::export::checkpoint_file(1_200));
    fs::create_dir(&next).unwrap();
    fault_of(shipper.pass().await);
    fs::remove_dir(&next).unwrap();

    // The mount is gone.
    let away = gate.folder.path().join("away");
    fs::rename(&there, &away).unwrap();
    fs::create_dir(&there).unwrap();
    let why = fault_of(shipper.pass().await);
    assert!(why.contains("it is empty, and 600 records were shipped"), "{why}");
    assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
    assert_eq!(shipper.status().failure, Some(why));
    assert_eq!(gate.store.shipped().await.unwrap(), Some(600));
    fs::remove_dir(&there).unwrap();
    fs::rename(&away, &there).unwrap();

    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(1_200)));
    assert_eq!(shipper.status().failure, None);
    assert_eq!(exported(&there), (vec![600, 1_200], Some(0)));
}

#[tokio::test]
async fn an_older_copy_at_the_place_holds_retention_until_it_is_whole_again() {
    let gate = ShippedStore::with_place();
    let there = gate.there();
    gate.signed(300).await;
    let shipper = gate.shipper().await;
    shipper.pass().await.unwrap();
    gate.signed(300).await;
    shipper.pass().await.unwrap();
    // A backup from before the second pass was brought back, and the half of a file.
    fs::remove_file(there.join("checkpoints/00000000000000000600")).unwrap();
    let half = there.join("entries/00000000000000000300-00000000000000000600.cgb");
    let whole = fs::read(&half).unwrap();
    fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    fault_of(shipper.pass().await);
    assert_eq!(gate.store.shipped().await.unwrap(), Some(300));
    let dropped = gate.expire().await;
    assert!(dropped.is_held && dropped.decisions <= 300, "{dropped:?}");
    fs::remove_file(&half).unwrap();
    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(600)));
    assert_eq!(exported(&there), (vec![300, 600], Some(0)));
}

/// Damages the block that holds an entry. Returns its indices.
fn damage(gate: &ShippedStore, index: i64) -> (u64, u64) {
    let connection = rusqlite::Connection::open(gate.config.store.path.as_ref().unwrap()).unwrap();
    let text = "UPDATE block SET body = x'00' WHERE first <= ?1 AND first + count > ?1 RETURNING first, first + count";
    let found = connection.query_row(text, [index], |row| Ok((row.get(0)?, row.get(1)?)));
    let (first, end): (i64, i64) = found.unwrap();
    (first.cast_unsigned(), end.cast_unsigned())
}

#[tokio::test]
async fn damage_before_the_shipping_holds_back_neither_what_follows_nor_retention() {
    let gate = ShippedStore::with_place();
    gate.signed(700).await;
    let shipper = gate.shipper().await;
    shipper.pass().await.unwrap();
    gate.signed(1_500).await;
    gate.signed(1_500).await;
    let (first, end) = damage(&gate, 1_000);
    assert!(first < 700 && end > 1_024, "{first}, {end}");
    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(3_700)));
    let status = shipper.status();
    assert_eq!((status.shipped, status.behind, status.missing), (3_700, 0, end - 700));
    assert_eq!(exported(&gate.there()), (vec![700, 3_700], Some(0)));
    let export = Exported::open(&gate.there()).unwrap();
    assert_eq!(export.gaps_with(end - 1), [(700, end)]);
    let dropped = gate.expire().await;
    assert_eq!(dropped.decisions, 3_584, "every whole bundle goes: {dropped:?}");
}

#[tokio::test]
async fn a_checkpoint_that_ends_in_damage_is_passed_over() {
    let gate = ShippedStore::with_place();
    gate.signed(STEP + 100).await;
    gate.signed(2_000).await;
    gate.signed(2_000).await;
    let (first, end) = damage(&gate, STEP as i64 + 99);
    assert!(end > STEP + 100, "{first}, {end}");
    let shipper = gate.shipper().await;
    let passed = shipper.pass().await.unwrap();
    let size = gate.store.shipped().await.unwrap().unwrap();
    assert!(size > end, "{passed:?}");
    let export = Exported::open(&gate.there()).unwrap();
    assert!(!export.checkpoints.contains(&(STEP + 100)));
    assert_eq!(export.start(size), Some(0));
    assert!(export.gaps_with(end - 1).contains(&(first, end)));
}

#[tokio::test]
async fn a_witness_that_keeps_the_log_from_being_signed_is_told() {
    let gate = ShippedStore::with_place();
    gate.signed(10).await;
    let log = gate.key.name();
    gate.store.note_ahead("notary", log, Some(99)).await.unwrap();
    let shipper = gate.shipper().await;
    let why = fault_of(shipper.pass().await);
    assert!(why.contains("the witness notary knows one of 99 records"), "{why}");
    assert_eq!(gate.store.shipped().await.unwrap(), Some(10), "what is signed is shipped");
    assert_eq!(shipper.status().failure, Some(why));
    gate.store.note_ahead("notary", log, None).await.unwrap();
    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(10)));
    assert_eq!(shipper.status().failure, None);
}

#[tokio::test]
async fn a_second_process_waits_for_its_turn() {
    let gate = ShippedStore::with_place();
    gate.signed(10).await;
    let shipper = gate.shipper().await;
    shipper.pass().await.unwrap();
    let trusted = gate.key.vkeys();
    let checkpoints = gate.store.checkpoints().await.unwrap();
    let ours = checkpoints[0].content().unwrap();
    let held = Folder::of_export(&gate.there(), &ours, &trusted, "--to").unwrap();
    let again = Folder::of_export(&gate.there(), &ours, &trusted, "--to");
    assert!(matches!(again, Err(FolderError::Busy(_))), "{again:?}");
    assert_eq!(passed(&shipper).await, Err(Failure::Busy.to_string()));
    assert_eq!(shipper.status().failure, None, "this is no failure");
    shipper.clock.advance(LOCK_TIMEOUT);
    assert_eq!(passed(&shipper).await, Err(Failure::Busy.to_string()));
    let why = shipper.status().failure.unwrap_or_default();
    assert!(why.contains("more than a minute"), "{why}");
    drop(held);
    assert_eq!(passed(&shipper).await, Ok(PassResult::Whole(10)));
    assert_eq!(shipper.status().failure, None);
    let held = Folder::of_export(&gate.there(), &ours, &trusted, "--to").unwrap();
    assert_eq!(passed(&shipper).await, Err(Failure::Busy.to_string()));
    assert_eq!(shipper.status().failure, None, "the minute begins anew");
    drop(held);
}

#[tokio::test]
async fn a_process_without_the_key_leaves_the_hold_as_it_is() {
    let gate = ShippedStore::with_place();
    gate.signed(10).await;
    gate.shipper().await.pass().await.unwrap();
    let mut config = (*gate.config).clone();
    config.ship.to = None;
    let clock = Clock::manual(NOON);
    let none = Shipper::of(&Arc::new(config), &gate.store, &gate.key, clock).await;
    assert!(none.unwrap().is_none());
    assert_eq!(gate.store.shipped().await.unwrap(), Some(10));
    gate.store.ship_to(None).await.unwrap();
    assert_eq!(gate.store.shipped().await.unwrap(), None);
}

#[test]
fn a_place_is_known_by_its_name_and_that_of_the_log() {
    let key = |name: &str| LogKey::generate(Some(name.parse().unwrap())).unwrap();
    let url = |url: &str| ShipTo::Url(url.to_owned());
    let (one, other) = (key("fra-1"), key("fra-2"));
    let first = mark(&url("https://a.example"), &one);
    assert_eq!(first, mark(&url("https://a.example"), &one));
    assert_ne!(first, mark(&url("https://b.example"), &one));
    assert_ne!(first, mark(&url("https://a.example"), &other));
    let log = "logs.example/fra-1".parse().unwrap();
    assert_eq!(
        remote::url_of("https://a.example/ship", &log),
        "https://a.example/ship/logs.example%252Ffra-1"
    );
}
