//! The log of a store that drops records for room while others come.

use std::time::Duration;

use super::*;
use crawlgate_config::Synchronous;
use crawlgate_record::samples::Dice;
use crawlgate_store::samples::{NOON, ROW, Row};
use crawlgate_store::{Access, Batch, Retention, Store};

#[tokio::test]
async fn a_log_that_drops_records_for_room_stays_whole() {
    for (most, batches, size) in [(2 * 1024 * 1024, 150, 200), (6 * 1024 * 1024, 24, 4_000)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crawlgate.db");
        let store = Store::open(&path, Access::Write, Synchronous::Normal).unwrap();
        let retention = Retention {
            keep: Some(Duration::from_secs(86_400)),
            max_size: Some(most),
        };
        let mut dropped = 0;
        let mut bound = async || {
            loop {
                let step = store.prune(retention, NOON).await.unwrap();
                dropped += step.decisions;
                if !step.more {
                    break;
                }
            }
        };
        bound().await;
        let mut dice = Dice(7);
        for _ in 0..batches {
            let mut batch = Batch::default();
            for _ in 0..size {
                let path: String = (0..60)
                    .map(|_| char::from(b'!' + dice.below(90) as u8))
                    .collect();
                let path = format!("/{path}");
                Row { path: &path, ..ROW }.file(&mut batch);
            }
            store.write(batch).await.unwrap();
        }
        bound().await;
        assert!(dropped > 0);

        let mut faults = Vec::new();
        let roots = store.roots().await.unwrap();
        let roots = roots
            .iter()
            .filter_map(|one| Subtree::of(one.first, one.count, one.root));
        let mut verifier = LogVerifier::new(&Known::default(), roots, &mut faults);
        for one in store.records(0, usize::MAX >> 1).await.unwrap() {
            verifier.step(one.seq - 1, &one.entry, &mut faults);
        }
        verifier.end(&mut faults);
        assert_eq!(faults, []);
    }
}
