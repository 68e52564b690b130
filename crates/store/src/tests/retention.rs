//! Every engine drops what is too old or too much, and nothing else.

use super::*;

#[tokio::test]
async fn old_records_go_from_the_front_and_the_log_stays_one() {
    let store = engine();
    let keep = Retention { keep: Some(DAY), ..forever() };
    for batch in rows(600).chunks(8) {
        record(&store, batch).await;
    }
    let before = store.records(0, 1_000).await.unwrap();
    let signed = store.checkpoint(key(), NOON).await.unwrap().unwrap();
    let after = |secs| NOON + DAY + Duration::from_secs(secs);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("kept for ever", forever(), after(9_000), 0),
        ("not old", keep, NOON + DAY / 2, 0),
        ("a whole bundle is old", keep, after(400), 256),
        ("a clock set back", keep, NOON - DAY, 0),
        ("and another one", keep, after(512), 256),
        ("the rest is no bundle", keep, after(9_000), 0),
    ];
    for (name, retention, now, gone) in cases {
        assert_eq!(prune(&store, retention, now).await.decisions, gone, "{name}");
    }
    let left = store.records(0, 1_000).await.unwrap();
    assert_eq!(left[..88], before[512..]);
    let event = "\"event\":\"dropped\"";
    assert_eq!(left.len(), 90);
    for drop in &left[88..] {
        assert!(drop.record.contains(event), "{}", drop.record);
    }
    record(&store, &rows(1)).await;
    // The root that was signed before leads to the one that is signed now.
    let now = store.checkpoint(key(), NOON).await.unwrap().unwrap();
    let proof = store.consistency(signed.size, now.size).await.unwrap();
    let root = |one: &StoredCheckpoint| {
        let note = crawlgate_tlog::Note::parse(one.note.as_bytes()).unwrap();
        crawlgate_tlog::Checkpoint::from_text(note.text()).unwrap().root
    };
    assert_eq!((signed.size, now.size), (600, 603));
    assert_eq!(proof.verify(&root(&signed), &root(&now)), Ok(()));
}

#[tokio::test]
async fn records_beyond_the_bound_go_from_the_front() {
    let store = engine();
    let at_first = store.size().await.unwrap().bytes;
    for _ in 0..40 {
        record(&store, &rows(1_000)).await;
    }
    let full = store.size().await.unwrap();
    let most = at_first + (full.bytes - at_first) / 4;
    let retention = Retention { max_size: Some(most), ..forever() };
    let gone = prune(&store, retention, NOON).await.decisions;
    let left = store.size().await.unwrap();
    assert!(left.bytes <= most, "{left:?} of {most}");
    // Each drop is a record, too.
    assert!(left.decisions >= 40_000 - gone, "{left:?}, {gone}");
    assert!(left.decisions > 4_000, "no more than need be: {left:?} of {full:?}");
}

#[tokio::test]
async fn a_text_goes_once_it_is_old_and_without_references() {
    let store = engine();
    let keep = Retention { keep: Some(DAY), ..forever() };
    let texts = ["first", "second"].map(|text| snapshot(text, NOON).sha256);
    let kept = async || {
        let mut kept = Vec::new();
        for sha256 in texts {
            kept.push(store.snapshot(sha256).await.unwrap().is_some());
        }
        kept
    };
    let site = "site.example";
    update_origin(&store, origin_update(site, successful("first", NOON), NOON)).await;
    let of = |sha256| Row { sha256: Some(sha256), ..ROW };
    record(&store, &vec![of(texts[0]); 256]).await;
    let later = Row { time: NOON + DAY * 40, ..ROW };
    record(&store, &[later]).await;
    for n in 0..FETCHES_KEPT as u64 {
        let time = NOON + Duration::from_secs(n + 1);
        update_origin(&store, origin_update(site, successful("second", time), time)).await;
    }
    prune(&store, keep, NOON + DAY / 2).await;
    assert_eq!(kept().await, [true, true], "a decision refers to it");
    let gone = prune(&store, keep, NOON + DAY * 40).await;
    assert_eq!((gone.decisions, gone.snapshots), (256, 1));
    assert_eq!(kept().await, [false, true]);

    assert!(store.forget(&origin(site), None).await.unwrap());
    prune(&store, keep, NOON + DAY / 2).await;
    assert_eq!(kept().await, [false, true], "without references, but not old");
    prune(&store, forever(), NOON + DAY * 9).await;
    assert_eq!(kept().await, [false, true], "kept for ever");
    prune(&store, keep, NOON + DAY * 9).await;
    assert_eq!(kept().await, [false, false]);
}
