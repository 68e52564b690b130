//! Dropped ground, and the proof of one entry.

use std::time::Duration;

use super::*;
use crate::verify::keys::CoveringCheckpoint;
use crawlgate_config::Synchronous;
use crawlgate_record::samples::Dice;
use crawlgate_store::samples::{NOON, ROW, Row};
use crawlgate_store::{Access, Batch, Retention, Store};
use crawlgate_tlog::{ProofError, Prover, Tile};

#[test]
fn entries_dropped_during_the_walk_are_no_gap() {
    let key = key();
    let (whole, pruned) = (log(&key, 1_000, &[300, 900], 0), pruned(&key));
    let keys = [key.vkey()];
    let known =
        Known { keys: keys.to_vec().into(), checkpoints: &whole.checkpoints, ..Known::default() };
    for (name, learned, says, want) in [
        ("told by store and log", 512, true, vec![]),
        ("told by the store alone", 512, false, vec![LogFault::Front { first: 512 }]),
        ("not told", 0, true, vec![LogFault::Gap { from: 100, to: 511 }]),
    ] {
        let mut faults = Vec::new();
        let mut verifier = LogVerifier::new(&known, [], &mut faults);
        let roots = |stored: &StoredLog| {
            let roots = stored.roots.clone().into_iter();
            roots.map(|(first, count, root)| Subtree::of(first, count, root).unwrap())
        };
        for (index, entry) in &whole.entries[..100] {
            verifier.step(*index, entry, &mut faults);
        }
        verifier.expect(roots(&pruned));
        verifier.learn(learned, []);
        let entries = if says { &pruned } else { &whole };
        for (index, entry) in entries.entries.iter().filter(|one| one.0 >= 512) {
            verifier.step(*index, entry, &mut faults);
        }
        let verification = verifier.end(&mut faults);
        assert_eq!(faults, want, "{name}");
        assert_eq!((verification.size, verification.unreached), (1_000, vec![300]));
    }
}

#[test]
fn entries_at_the_front_that_the_store_has_and_cannot_read_are_told_apart_from_dropped_ones() {
    let key = key();
    let gap = |from, to| LogFault::Gap { from, to };
    for (name, stored, learned, read, want) in [
        ("the first", stored(&key), 0, 256, vec![gap(0, 255)]),
        ("behind dropped", pruned(&key), 512, 768, vec![gap(512, 767)]),
        (
            "behind lost",
            stored(&key),
            256,
            512,
            vec![LogFault::Front { first: 256 }, gap(256, 511)],
        ),
    ] {
        let keys = [key.vkey()];
        let known = Known {
            keys: keys.to_vec().into(),
            checkpoints: &stored.checkpoints,
            ..Known::default()
        };
        let mut faults = Vec::new();
        let roots = stored.roots.iter();
        let roots = roots.map(|(first, count, root)| Subtree::of(*first, *count, *root).unwrap());
        let mut verifier = LogVerifier::new(&known, roots, &mut faults);
        verifier.learn(learned, []);
        for (index, entry) in stored.entries.iter().filter(|one| one.0 >= read) {
            verifier.step(*index, entry, &mut faults);
        }
        verifier.end(&mut faults);
        assert_eq!(faults, want, "{name}");
    }
}

/// Returns a prover over all entries of the log.
fn prover(size: u64, dropped: u64) -> Prover<impl FnMut(Tile) -> Result<Vec<Hash>, String>> {
    let leaves: Vec<_> = (0..size).map(|n| leaf_hash(&entry(n, size, dropped))).collect();
    Prover::new(size, move |tile: Tile| {
        let below = 256_usize.pow(tile.level().into());
        let roots = leaves.chunks_exact(below).map(Tree::root_of);
        let skipped = tile.index() as usize * 256;
        Ok(roots.skip(skipped).take(tile.width().into()).collect())
    })
}

#[test]
fn dropped_segments_count_by_their_roots_and_old_checkpoints_by_proofs() {
    let key = key();
    let size = SEGMENT + 700;
    let whole = log(&key, size, &[70, 1_000, SEGMENT, size - 3], SEGMENT);
    let mut faults = Vec::new();

    // The bundles are there, too: nothing but the checkpoint within one is left open.
    let (verification, found) = whole.walk(&[&key]);
    assert_eq!((found, verification.unreached), (vec![], vec![70, 1_000]));

    // The roots of the bundles are gone.
    let mut stored = whole.clone();
    stored.roots.retain(|one| one.1 == SEGMENT || one.0 >= SEGMENT);
    let (verification, found) = stored.walk(&[&key]);
    assert_eq!((found, &verification.unreached[..]), (vec![], &[70, 1_000][..]));
    assert_eq!((verification.signed, verification.agreeing), (Some(size - 3), 2));

    // Proofs of consistency compare the old checkpoints.
    let keys = [key.vkey()];
    stored.checkpoints[1].note = key.checkpoint(1_000, [7; 32]).to_string();
    let known =
        Known { keys: keys.to_vec().into(), checkpoints: &stored.checkpoints, ..Known::default() };
    let roots = stored.roots.iter();
    let roots = roots.map(|(first, count, root)| Subtree::of(*first, *count, *root).unwrap());
    let mut verifier = LogVerifier::new(&known, roots, &mut faults);
    for (index, entry) in &stored.entries {
        verifier.step(*index, entry, &mut faults);
    }
    let mut prover = prover(size, SEGMENT);
    for old in [70, 1_000] {
        let proof = prover.consistency(old).unwrap();
        verifier.bridge(&proof, &mut faults);
    }
    let verification = verifier.end(&mut faults);
    assert_eq!((verification.agreeing, verification.differing), (3, 1));
    assert_eq!(verification.unreached, [0; 0]);
    let told_of: Vec<_> = faults.iter().map(LogFault::to_string).collect();
    assert_eq!(told_of.len(), 1, "{told_of:?}");
    assert!(told_of[0].starts_with("with record 1000 the log is not"));

    // A root of the segment that its bundles do not have.
    let mut stored = whole.clone();
    let segment = stored.roots.iter_mut().find(|one| one.1 == SEGMENT).unwrap();
    segment.2[0] ^= 1;
    let want = LogFault::Segment { from: 0, to: SEGMENT - 1 };
    assert_eq!(stored.walk(&[&key]).1, [want]);
}

#[test]
fn skipped_entries_count_by_their_stored_roots() {
    let key = key();
    let stored = stored(&key);
    let keys = [key.vkey()];
    let known =
        Known { keys: keys.to_vec().into(), checkpoints: &stored.checkpoints, ..Known::default() };
    for (name, altered, want) in [("unchanged", None, 0), ("altered", Some(600), 1)] {
        let mut faults = Vec::new();
        let roots = stored.roots.iter();
        let roots = roots.map(|(first, count, root)| Subtree::of(*first, *count, *root).unwrap());
        let mut verifier = LogVerifier::new(&known, roots, &mut faults);
        verifier.skip_to(512, &mut faults);
        for (index, entry) in &stored.entries[512..] {
            match altered {
                Some(altered) if altered == *index => verifier.step(*index, b"!", &mut faults),
                _ => verifier.step(*index, entry, &mut faults),
            }
        }
        let verification = verifier.end(&mut faults);
        assert_eq!(faults.len(), want, "{name}: {faults:?}");
        assert_eq!((verification.signed, verification.agreeing), (Some(900), 2), "{name}");
    }
}

#[test]
fn an_entry_is_proven_by_the_newest_checkpoint_that_covers_it() {
    let key = key();
    let mut stored = stored(&key);
    let keys = vec![key.vkey()].into();
    let entry = |n: usize| stored.entries[n].1.clone();
    let (early, late) = (entry(400), entry(950));
    let prove = |stored: &StoredLog, index: u64, entry: &[u8], of: u64| {
        let covering = CoveringCheckpoint::of(index, &stored.checkpoints, &keys);
        covering.map(|covering| {
            let size = covering.checkpoint.size;
            let leaves: Vec<_> = stored.entries.iter().map(|one| leaf_hash(&one.1)).collect();
            let mut prover = Prover::new(size, |tile: Tile| {
                let below = 256_usize.pow(tile.level().into());
                let roots = leaves.chunks_exact(below).map(Tree::root_of);
                let skipped = tile.index() as usize * 256;
                Ok::<_, String>(roots.skip(skipped).take(tile.width().into()).collect())
            });
            let proof = prover.inclusion(of).unwrap();
            (size, covering.verify(entry, &proof))
        })
    };
    assert_eq!(prove(&stored, 400, &early, 400), Some((900, Ok(()))));
    assert_eq!(prove(&stored, 400, &late, 400), Some((900, Err(ProofError::Root))));
    assert_eq!(prove(&stored, 400, &early, 401), Some((900, Err(ProofError::Root))));
    assert_eq!(prove(&stored, 950, &late, 800), None, "not signed yet");
    stored.checkpoints[2].note = self::key().checkpoint(900, [0; 32]).to_string();
    assert_eq!(prove(&stored, 400, &early, 400), Some((512, Ok(()))));
    stored.checkpoints[1].note.push('!');
    assert_eq!(prove(&stored, 400, &early, 400), None, "300 is too small");
    assert_eq!(
        prove(&stored, 299, &entry(299), 299),
        Some((300, Ok(()))),
        "the last one that it covers"
    );
}

#[tokio::test]
async fn a_log_that_drops_records_for_room_stays_whole() {
    for (most, batches, size) in [(2 * 1024 * 1024, 150, 200), (6 * 1024 * 1024, 24, 4_000)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crawlgate.db");
        let store = Store::open(&path, Access::Write, Synchronous::Normal).unwrap();
        let retention = Retention { keep: Some(Duration::from_secs(86_400)), max_size: Some(most) };
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
                let path: String =
                    (0..60).map(|_| char::from(b'!' + dice.below(90) as u8)).collect();
                let path = format!("/{path}");
                Row { path: &path, ..ROW }.file(&mut batch);
            }
            store.write(batch).await.unwrap();
        }
        bound().await;
        assert!(dropped > 0);

        let mut faults = Vec::new();
        let roots = store.roots().await.unwrap();
        let roots = roots.iter().filter_map(|one| Subtree::of(one.first, one.count, one.root));
        let mut verifier = LogVerifier::new(&Known::default(), roots, &mut faults);
        for one in store.records(0, usize::MAX >> 1).await.unwrap() {
            verifier.step(one.seq - 1, &one.entry, &mut faults);
        }
        verifier.end(&mut faults);
        assert_eq!(faults, []);
    }
}
