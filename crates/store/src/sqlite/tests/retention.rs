//! Retention drops no more than it must, and no reader holds it up for good.

use super::*;
use crate::{Object, ObjectKind};

async fn prune(store: &Store, most: u64) -> Pruned {
    let retention = Retention { keep: None, max_size: Some(most) };
    let mut all = Pruned::default();
    loop {
        let step = store.prune(retention, NOON).await.unwrap();
        all.decisions += step.decisions;
        if !step.more {
            return all;
        }
    }
}

#[tokio::test]
async fn a_long_read_makes_retention_drop_no_more_than_the_excess() {
    const MAX: u64 = 7 * 512 * 1024;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let reader = shell(&path);
    let look = "BEGIN; SELECT count(*) FROM tail";
    reader.execute_batch(look).unwrap();
    reader.query_row("SELECT count(*) FROM tail", [], |_| Ok(())).unwrap();
    for _ in 0..30 {
        record(&store, &rows(400)).await;
    }
    let full = store.size().await.unwrap();
    assert!(full.bytes > MAX, "database and log are more than that: {full:?}");
    let gone = prune(&store, MAX).await.decisions;
    let left = store.size().await.unwrap();
    assert!(gone <= full.decisions / 2, "{gone} of {full:?}, left {left:?}");
    drop(reader);
    assert_eq!(prune(&store, MAX).await.decisions, 0);
    let left = store.size().await.unwrap();
    assert!(left.bytes <= MAX, "{left:?}");
}

#[tokio::test]
async fn retention_waits_for_a_reader_once_the_log_is_long() {
    const MAX: u64 = 8 * 1024 * 1024;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let reader = shell(&path);
    reader.execute_batch("BEGIN").unwrap();
    let look = "SELECT count(*) FROM tail";
    let count = || reader.query_row(look, [], |row| row.get::<_, i64>(0));
    assert_eq!(count(), Ok(0));
    let page = format!("/{}", "x".repeat(16_000));
    let large = Row { path: &page, ..ROW };
    let mut written = 0;
    let log = || fs::metadata(beside(&path, "-wal")).unwrap().len();
    while log() <= 33 * 1024 * 1024 {
        record(&store, &vec![large.clone(); 100]).await;
        written += 100;
    }
    assert_eq!(prune(&store, MAX).await.decisions, 0, "of {written}");
    assert_eq!(count(), Ok(0), "it reads on");
    drop(reader);
    let gone = prune(&store, MAX).await.decisions;
    let left = store.size().await.unwrap();
    assert!(left.bytes <= MAX, "{left:?}");
    assert_eq!(left.decisions, written - gone);
    assert!(left.decisions > 100, "{left:?}");
}

#[tokio::test]
async fn no_more_large_records_are_dropped_than_necessary() {
    const MAX: u64 = 3 * 1024 * 1024;
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let page = format!("/{}", "x".repeat(4_200));
    let large = Row { path: &page, ..ROW };
    for _ in 0..20 {
        record(&store, &vec![large.clone(); 100]).await;
    }
    let full = store.size().await.unwrap();
    assert!(full.bytes > 2 * MAX, "{full:?}");
    prune(&store, MAX).await;
    let left = store.size().await.unwrap();
    assert!(left.bytes <= MAX, "room is given back: {left:?}");
    // A step drops 250, and pages are filled by one large record each at worst.
    let fit = MAX / 8_192 / 2;
    assert!(left.decisions + 250 >= fit, "{left:?} of {full:?}");
}

const MARK: ShipMark = ShipMark(*b"a place.");

#[tokio::test]
async fn nothing_goes_that_is_not_shipped() {
    let store = Store::temporary();
    let key = Arc::new(LogKey::generate(None).unwrap());
    store.write(batch_of(1_000)).await.unwrap();
    store.checkpoint(Arc::clone(&key), NOON).await.unwrap();
    let retention = Retention { keep: Some(Duration::from_secs(86_400)), max_size: None };
    let later = NOON + Duration::from_secs(30 * 86_400);
    let first = async || {
        let step = store.prune(retention, later).await.unwrap();
        (store.extent().await.unwrap().first, step.is_held)
    };
    assert_eq!(store.ship_to(Some(MARK)).await.unwrap(), 0);
    assert_eq!(first().await, (0, true), "nothing is shipped");
    for (shipped, kept, is_held) in [
        (255, 0, true),
        // Blocks go whole: the first one has 768 entries.
        (767, 0, true),
        (768, 768, false),
    ] {
        store.note_shipped(shipped).await.unwrap();
        assert_eq!(first().await, (kept, is_held), "{shipped}");
    }
    assert_eq!(store.ship_to(Some(MARK)).await.unwrap(), 768, "as noted");
}

#[tokio::test]
async fn another_place_has_nothing_yet_and_without_one_retention_goes_on() {
    let store = Store::temporary();
    store.write(batch_of(600)).await.unwrap();
    let retention = Retention { keep: Some(Duration::from_secs(86_400)), max_size: None };
    let later = NOON + Duration::from_secs(30 * 86_400);
    store.ship_to(Some(MARK)).await.unwrap();
    store.note_shipped(600).await.unwrap();
    let other = ShipMark(*b"another.");
    assert_eq!(store.ship_to(Some(other)).await.unwrap(), 0);
    let step = store.prune(retention, later).await.unwrap();
    assert_eq!((step.decisions, step.is_held), (0, true));
    assert_eq!(store.ship_to(None).await.unwrap(), 0);
    assert_eq!(store.shipped().await.unwrap(), None);
    let step = store.prune(retention, later).await.unwrap();
    assert_eq!((step.decisions, step.is_held), (512, false));
}

#[tokio::test]
async fn a_store_full_of_what_is_not_shipped_takes_no_more_until_it_is() {
    let store = Store::temporary();
    let key = Arc::new(LogKey::generate(None).unwrap());
    let retention = Retention { keep: None, max_size: Some(1024 * 1024) };
    store.ship_to(Some(MARK)).await.unwrap();
    store.prune(retention, NOON).await.unwrap();
    let refused = async || {
        for _ in 0..2_000 {
            if let Err(error) = store.write(batch_of(256)).await {
                return Some(error);
            }
        }
        None
    };
    let error = refused().await.unwrap();
    assert_eq!(error.kind, StoreErrorKind::Full, "{error}");
    assert!(error.message.contains("[ship] to"), "{error}");
    let extent = store.extent().await.unwrap();
    assert_eq!(extent.first, 0, "nothing has gone");
    // The refusal tells maintenance that a checkpoint is wanted: until then nothing can be shipped.
    let step = store.prune(retention, NOON).await.unwrap();
    assert!(step.is_full && step.waits_for_checkpoint, "{step:?}");
    let signed = store.checkpoint(key, NOON).await.unwrap().unwrap();
    assert_eq!(signed.size, extent.size, "a full store is signed");
    store.write(batch_of(256)).await.unwrap_err();
    let step = store.prune(retention, NOON).await.unwrap();
    assert!(step.is_full && !step.waits_for_checkpoint, "{step:?}");
    store.note_shipped(signed.size).await.unwrap();
    store.write(batch_of(256)).await.unwrap();
    let extent = store.extent().await.unwrap();
    assert!(extent.first > 0, "room was made of what is shipped");
    assert!(extent.first <= signed.size);
}

#[tokio::test]
async fn what_a_process_adds_once_stays_and_states_of_a_robots_txt_go() {
    let store = Store::temporary();
    let objects = ObjectKind::ALL.map(|kind| Object::new(kind, kind.name().as_bytes()));
    let mut batch = batch_of(256);
    batch.objects.extend(objects.clone());
    store.write(batch).await.unwrap();
    let later = NOON + DAY * 60;
    record(&store, &[Row { time: later, ..ROW }]).await;
    let step = store.prune(KEEP, later).await.unwrap();
    assert_eq!(step.decisions, 256);
    for object in &objects {
        let is_there = store.object(object.sha256).await.unwrap().is_some();
        assert_eq!(is_there, object.kind != ObjectKind::Basis, "{object:?}");
    }
}

#[tokio::test]
async fn records_of_a_wrong_clock_take_no_grounds_of_later_ones() {
    let store = Store::temporary();
    let future = Row { time: NOON + DAY * 400, ..ROW };
    record(&store, &vec![future; 256]).await;
    let of = Row { sha256: Some([7; 32]), ..ROW };
    let mut batch = Batch::default();
    of.file(&mut batch);
    let basis = batch.objects[0].sha256;
    store.write(batch).await.unwrap();
    record(&store, &rows(300)).await;
    let step = store.prune(KEEP, NOON + DAY * 40).await.unwrap();
    assert_eq!(step.decisions, 0, "the first ones are not old");
    assert!(store.object(basis).await.unwrap().is_some());
}

#[tokio::test]
async fn grounds_stay_that_were_named_late_in_the_week_of_their_note() {
    const WEEK: u64 = 7 * 86_400_000;
    let store = Store::temporary();
    let begin = Moment::from_millis(NOON.as_millis() / WEEK * WEEK);
    let of = Row { sha256: Some([7; 32]), time: begin, ..ROW };
    let mut batch = Batch::default();
    for _ in 0..256 {
        of.file(&mut batch);
    }
    let basis = batch.objects[0].sha256;
    store.write(batch).await.unwrap();
    let late = begin + DAY * 6;
    record(&store, &[Row { time: late, ..of }]).await;
    let keep = Retention { keep: Some(DAY * 32), max_size: None };
    let step = store.prune(keep, late + DAY * 31).await.unwrap();
    assert_eq!(step.decisions, 256, "the late entry is the oldest one kept");
    assert!(store.object(basis).await.unwrap().is_some());
}

#[tokio::test]
async fn a_text_that_an_object_names_is_no_damage_once_it_is_dropped() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let text = successful("User-agent: *\n", NOON);
    let sha256 = text.snapshot().map(|text| text.sha256);
    let update = origin_update("site.example", text, NOON);
    update_origin(&store, update.clone()).await;
    record(&store, &vec![Row { sha256, ..ROW }; 256]).await;
    // The object is kept for thirty days after the entries that name it.
    let later = NOON + DAY * 10;
    record(&store, &[Row { time: later, ..ROW }]).await;
    assert_eq!(store.prune(KEEP, later).await.unwrap().decisions, 256);
    assert!(store.forget(&update.origin, None).await.unwrap());
    let connection = super::super::open::writer(&path, Synchronous::Normal).unwrap();
    assert_eq!(robots::make_room(&connection, 0, 0, later).unwrap(), 1);
    drop(connection);
    assert!(store.is_dropped(sha256.unwrap()).await.unwrap());
    drop(store);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

const DAY: Duration = Duration::from_secs(86_400);

const KEEP: Retention = Retention { keep: Some(DAY), max_size: None };

fn batch_of(count: u64) -> Batch {
    let mut batch = Batch::default();
    for row in rows(count) {
        row.file(&mut batch);
    }
    batch
}
