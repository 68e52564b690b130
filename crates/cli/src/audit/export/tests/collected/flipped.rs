//! Flipped octets of an export, at places that a seed gives.

use super::*;
use crawlgate_record::samples::Dice;

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
    first.import(&gate, &gate.to()).unwrap();
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
        let outcome = copy.import(&gate, &gate.to());
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
            copy.import(&gate, &gate.to()).unwrap();
            assert_eq!(
                copy.content(&gate).await,
                whole,
                "{name} at {at}, {SEED}={seed}"
            );
        }
    }
    assert!(
        found > 150,
        "{found} found, {harmless} harmless, {SEED}={seed}"
    );
}
