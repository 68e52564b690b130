//! An operator's commands: states fetched again, and forgotten.

use std::sync::atomic::Ordering;

use super::world::{World, days, is_disallowed};
use super::*;

#[tokio::test]
async fn a_refresh_fetches_fresh_states_and_those_not_due() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    let life = world.life();
    for (number, result) in [(1, file(201)), (2, down()), (3, file(203))] {
        life.lab.end(result);
        let state = life.lab.refresh(&a).await.expect("a store");
        assert_eq!(life.lab.fetches(), number);
        let status = state.snapshot().map(|snapshot| snapshot.status);
        assert_eq!(status, Some([0, 201, 201, 203][number]));
        assert_eq!(state.outage().is_some(), number == 2);
    }
    // A fetch in progress began before this call.
    world.clock.advance(DAY);
    let mut view = Box::pin(life.lab.stance(&a));
    assert!(poll(&mut view).is_pending());
    let mut refresh = Box::pin(life.lab.refresh(&a));
    assert!(poll(&mut refresh).is_pending());
    life.lab.end(file(204));
    assert_eq!(file_of(&view.await), Some(204));
    life.lab.end(file(205));
    let state = refresh.await.expect("a store");
    let status = state.snapshot().map(|snapshot| snapshot.status);
    assert_eq!(status, Some(205));
}

#[tokio::test]
async fn a_forgotten_origin_is_forgotten_in_memory_and_in_the_store() {
    let world = World::new();
    let [a, b] = ["a", "b"].map(origin);
    world.once(&a, down()).await;
    world.clock.advance(days(1));
    let life = world.life();
    let cache = &life.lab.cache;
    assert!(!cache.forget(&b, None).await.expect("a store"), "never heard of");
    assert!(cache.forget(&a, None).await.expect("a store"), "in the store");
    assert_eq!(world.kept(&a).await, None);
    life.lab.end(down());
    life.lab.stance(&a).await;
    assert!(cache.forget(&a, None).await.expect("a store"), "in both");
    // A fetch in progress ends without a state to change.
    life.lab.end(down());
    life.lab.stance(&a).await;
    world.clock.advance(days(1));
    let mut view = Box::pin(life.lab.stance(&a));
    assert!(poll(&mut view).is_pending());
    life.lab.until(|lab| lab.fetches() == 3).await;
    assert!(cache.forget(&a, None).await.expect("a store"));
    life.lab.end(down());
    assert!(is_disallowed(&view.await));
    life.end();
    assert_eq!(world.outage(&a).await.since, world.clock.now());
}

#[tokio::test]
async fn a_state_that_the_store_cannot_drop_is_not_forgotten() {
    let world = World::new();
    let a = origin("a");
    let life = world.life();
    life.lab.end(file(200));
    life.lab.stance(&a).await;
    life.log.flush().await.expect("it is written");
    world.store.faults.fails_reads.store(true, Ordering::Relaxed);
    assert!(life.lab.cache.forget(&a, None).await.is_err());
    assert_eq!(file_of(&life.lab.stance(&a).await), Some(200));
}
