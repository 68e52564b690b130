//! Power cuts under load: the store keeps what was told, and opens or says what is lost.
//!
//! A shim (`shim.c`, loaded into the real program with LD_PRELOAD) writes a journal of every change to the folder of a
//! store, and of every sync. A cut is a place in that journal. What was synced before the cut is on the disk. Of the
//! rest, each image of the disk has another part: whole writes, pages or sectors of them, and names that have changed or
//! not. The store of each image is then opened as by the next start.
//!
//! `CRAWLGATE_POWER_CUTS` sets the number of images for each kind of durability; the figures of 120 are in
//! `benches/README.md`: `CRAWLGATE_POWER_CUTS=120 cargo test --release --test evidence power_cut:: -- --nocapture`.

mod disk;
mod journal;
mod outcome;
mod trial;

use std::time::Duration;

use self::outcome::Outcome;
use self::trial::{Kind, LONG, Trial};

/// Images of each kind in an ordinary run.
const IMAGES: usize = 24;

/// Cuts the power of gates of this kind, prints what became of the images, and returns it.
fn cut(kind: Kind) -> (Trial, Outcome) {
    let images = std::env::var("CRAWLGATE_POWER_CUTS").ok();
    let images = images.map_or(IMAGES, |count| count.parse().unwrap());
    let trial = Trial::run(kind, LONG);
    let outcome = Outcome::of(&trial, images);
    println!("{kind}: {outcome}");
    assert_eq!(outcome.unopened, Vec::<String>::new(), "{kind}");
    (trial, outcome)
}

#[test]
fn a_strict_store_loses_no_denial_that_was_told() {
    for synchronous in ["full", "normal"] {
        let kind = Kind { durability: "strict", synchronous };
        let (_, outcome) = cut(kind);
        assert_eq!(outcome.most_lost, 0, "{kind}: {outcome}");
    }
}

#[test]
fn a_relaxed_store_loses_the_last_moment_alone() {
    let kind = Kind { durability: "relaxed", synchronous: "full" };
    let (trial, outcome) = cut(kind);
    // From 100 ms on, requests wait for the disk; answers that left before may be lost.
    let most = Duration::from_millis(100) + SLACK + trial.longest_stall();
    assert!(outcome.longest_span <= most, "{outcome}");
    let most = most + trial.slowest_sync();
    assert!(outcome.oldest_lost <= most, "{outcome}, {most:?}");
}

/// Time that a busy machine may take from the thread that writes, or from a crawler that has its answer, beside what it takes
/// from any.
const SLACK: Duration = Duration::from_secs(1);

#[test]
fn a_store_that_does_not_wait_for_the_disk_opens_all_the_same() {
    let kind = Kind { durability: "relaxed", synchronous: "normal" };
    cut(kind);
}

#[test]
fn a_first_start_that_is_cut_short_begins_anew() {
    let kind = Kind { durability: "strict", synchronous: "full" };
    let outcome = Outcome::of_the_start(&Trial::run(kind, 0));
    println!("first start: {outcome}");
    assert_eq!((&outcome.unopened, &outcome.advised), (&vec![], &vec![]));
    assert_eq!(outcome.most_lost, 0, "{outcome}");
}
