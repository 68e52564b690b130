//! Every engine drops what is too old or too much, and nothing else.

use super::*;

#[tokio::test]
async fn old_records_go_from_the_front_and_the_chain_stays_one() {
    for (engine, store, _folder) in engines() {
        let keep = Retention {
            keep: Some(DAY),
            ..forever()
        };
        record(&*store, &rows(600)).await;
        let before = store.links(0, 1_000).await.unwrap();
        assert_eq!(
            prune(&*store, forever(), NOON + DAY * 100).await.decisions,
            0,
            "{engine}"
        );
        assert_eq!(
            prune(&*store, keep, NOON + DAY / 2).await.decisions,
            0,
            "{engine}"
        );
        let now = NOON + DAY + Duration::from_secs(400);
        assert_eq!(prune(&*store, keep, now).await.decisions, 400, "{engine}");
        let left = store.links(0, 1_000).await.unwrap();
        assert_eq!(left, before[400..], "{engine}");
        let seal = store.seals().await.unwrap().pop().unwrap();
        assert_eq!(
            seal.start,
            (401, before[399].hash),
            "{engine}: where it begins is sealed"
        );
        assert_eq!(seal.seq, 600);
        assert!(seal.is_genuine());

        // All of it is old: the head stays, because the next link follows from it.
        assert_eq!(
            prune(&*store, keep, NOON + DAY * 9).await.decisions,
            199,
            "{engine}"
        );
        record(&*store, &rows(1)).await;
        let left = store.links(0, 1_000).await.unwrap();
        assert_eq!(left[0], before[599], "{engine}");
        let next = chain::link(&before[599].hash, left[1].record.as_bytes());
        assert_eq!((left[1].seq, left[1].hash), (601, next), "{engine}");
        let seal = store.seal(key(), NOON).await.unwrap().unwrap();
        assert_eq!(seal.start, (600, before[598].hash), "{engine}");
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_drops_nothing_and_seals_nothing_before_its_time() {
    for (engine, store, _folder) in engines() {
        record(&*store, &rows(50)).await;
        let keep = Retention {
            keep: Some(DAY),
            ..forever()
        };
        for (name, now) in [
            ("two seconds back", NOON + Duration::from_secs(47)),
            ("two days back", NOON - DAY * 2),
        ] {
            let gone = prune(&*store, keep, now).await;
            assert_eq!(gone.decisions, 0, "{engine}, {name}");
        }
        let last = NOON + Duration::from_secs(49);
        let seal = store.seal(key(), NOON).await.unwrap().unwrap();
        assert_eq!(seal.time, last, "{engine}");
        assert!(seal.is_genuine(), "{engine}");
        // Only the first goes; the others are from the clock's future.
        let short = Retention {
            keep: Some(Duration::from_millis(1)),
            ..forever()
        };
        let now = NOON + Duration::from_millis(500);
        assert_eq!(prune(&*store, short, now).await.decisions, 1, "{engine}");
        let seal = store.seals().await.unwrap().pop().unwrap();
        assert_eq!(seal.time, last, "{engine}: made while dropping");
    }
}

#[tokio::test]
async fn records_beyond_the_bound_go_from_the_front() {
    for (engine, store, _folder) in engines() {
        let at_first = store.size().await.unwrap().bytes;
        for _ in 0..40 {
            record(&*store, &rows(100)).await;
        }
        let full = store.size().await.unwrap();
        let most = at_first + (full.bytes - at_first) / 4;
        let retention = Retention {
            max_size: Some(most),
            ..forever()
        };
        let gone = prune(&*store, retention, NOON).await.decisions;
        let left = store.size().await.unwrap();
        assert!(left.bytes <= most, "{engine}: {left:?} of {most}");
        assert_eq!(left.decisions, 4_000 - gone, "{engine}");
        assert!(
            left.decisions > 300,
            "{engine}: no more than need be: {left:?} of {full:?}"
        );
    }
}

#[tokio::test]
async fn a_text_goes_once_it_is_old_and_without_references() {
    for (engine, store, _folder) in engines() {
        let keep = Retention {
            keep: Some(DAY),
            ..forever()
        };
        let texts = ["first", "second"].map(|text| snapshot(text, NOON).sha256);
        let kept = async || {
            let mut kept = Vec::new();
            for sha256 in texts {
                kept.push(store.snapshot(sha256).await.unwrap().is_some());
            }
            kept
        };
        let site = "site.example";
        land(&*store, landing(site, successful("first", NOON), NOON)).await;
        let of = |sha256| Row {
            sha256: Some(sha256),
            ..ROW
        };
        record(
            &*store,
            &[
                of(texts[0]),
                Row {
                    time: NOON + DAY * 2,
                    ..ROW
                },
            ],
        )
        .await;
        for n in 0..FETCHES_KEPT as u64 {
            let time = NOON + Duration::from_secs(n + 1);
            land(&*store, landing(site, successful("second", time), time)).await;
        }
        prune(&*store, keep, NOON + DAY / 2).await;
        assert_eq!(
            kept().await,
            [true, true],
            "{engine}: a decision refers to it"
        );
        let gone = prune(&*store, keep, NOON + DAY * 2).await;
        assert_eq!((gone.decisions, gone.snapshots), (1, 1), "{engine}");
        assert_eq!(kept().await, [false, true], "{engine}");

        assert!(store.forget(&origin(site), None).await.unwrap());
        prune(&*store, keep, NOON + DAY / 2).await;
        assert_eq!(
            kept().await,
            [false, true],
            "{engine}: without references, but not old"
        );
        prune(&*store, forever(), NOON + DAY * 9).await;
        assert_eq!(kept().await, [false, true], "{engine}: kept for ever");
        prune(&*store, keep, NOON + DAY * 9).await;
        assert_eq!(kept().await, [false, false], "{engine}");
    }
}
