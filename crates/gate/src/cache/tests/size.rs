//! The bounds of the cache.

use super::*;
use crate::cache::size::REST;

#[tokio::test]
async fn beyond_the_count_the_least_recently_used_goes() {
    let lab = Harness::with(|config| config.cache.origins = 3);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(origin);
    for origin in [&a, &b, &c] {
        lab.learn(origin).await;
    }
    lab.clock.advance(Duration::from_millis(1));
    lab.stance(&a).await;
    lab.learn(&d).await;
    let known = [&a, &b, &c, &d].map(|origin| lab.knows(origin));
    assert_eq!(known, [true, false, true, true]);
}

#[tokio::test]
async fn an_origin_in_flight_is_not_evicted() {
    let lab = Harness::with(|config| config.cache.origins = 1);
    let [a, b, c] = ["a", "b", "c"].map(origin);
    // No request waits for it any more: only the flight keeps it.
    assert!(poll(&mut Box::pin(lab.stance(&a))).is_pending());
    lab.until(|lab| lab.fetches() == 1).await;
    for origin in [&b, &c] {
        lab.clock.advance(Duration::from_millis(1));
        assert!(poll(&mut Box::pin(lab.stance(origin))).is_pending());
    }
    assert!([&a, &b, &c].iter().all(|origin| lab.knows(origin)));
    for _ in 0..3 {
        lab.end(file(1));
    }
    lab.until(|lab| lab.cache.len() == 1).await;
    assert!(lab.knows(&c));
}

#[tokio::test]
async fn a_pass_that_makes_no_room_is_not_repeated_at_once() {
    let lab = Harness::with(|config| config.cache.origins = 1);
    let [a, b] = ["a", "b"].map(origin);
    lab.learn(&a).await;
    let shared = &lab.cache.shared;
    let in_use = [&a, &b].map(|origin| shared.entry(origin));
    shared.bound();
    drop(in_use);
    shared.bound();
    assert_eq!(lab.cache.len(), 2, "a pass has just found both in use");
    lab.clock.advance(REST);
    shared.bound();
    assert_eq!(lab.cache.len(), 1);
}

#[tokio::test]
async fn beyond_the_octets_the_least_recently_used_goes() {
    let one = {
        let lab = Harness::new();
        lab.learn(&origin("a")).await;
        lab.cache.bytes()
    };
    let lab = Harness::with(|config| config.cache.bytes = 2 * one + one / 2);
    let [a, b, c] = ["a", "b", "c"].map(origin);
    for origin in [&a, &b, &c] {
        lab.learn(origin).await;
    }
    lab.until(|lab| lab.cache.len() == 2).await;
    assert_eq!([&a, &b, &c].map(|origin| lab.knows(origin)), [false, true, true]);
    assert_eq!(lab.cache.bytes(), 2 * one);
}

#[tokio::test]
async fn rules_compiled_later_are_weighed_and_all_weight_goes_with_its_origin() {
    let lab = Harness::with(|config| config.cache.origins = 0);
    let a = origin("a");
    lab.end(file(1));
    let view = lab.cache.view(&a, Crawler::default()).await;
    let before = lab.cache.bytes();
    let Stance::Rules(snapshot) = view.stance else {
        panic!("no rules");
    };
    snapshot.rules(&[]);
    lab.stance(&a).await;
    assert!(before < lab.cache.bytes());
    lab.until(|lab| {
        lab.clock.advance(REST);
        lab.cache.shared.bound();
        lab.cache.is_empty()
    })
    .await;
    assert_eq!(lab.cache.bytes(), 0);
}
