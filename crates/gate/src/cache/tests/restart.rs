//! States over restarts: several caches after each other, on one store.

use std::sync::atomic::Ordering;

use super::world::{World, days, is_disallowed};
use super::*;
use crawlgate_store::StoreErrorKind;

#[tokio::test]
async fn a_fresh_state_is_not_fetched_again() {
    let world = World::new();
    let a = origin("a");
    assert_eq!(world.once(&a, file(200)).await.1, 1);
    for hours in [0, 1, 10, 20] {
        world.clock.advance_to(START + Duration::from_secs(hours * 3600));
        let (stance, fetches) = world.once(&a, file(203)).await;
        assert_eq!((file_of(&stance), fetches), (Some(200), 0), "{hours} h");
    }
    world.clock.advance_to(START + DAY);
    let (stance, fetches) = world.once(&a, file(203)).await;
    assert_eq!((file_of(&stance), fetches), (Some(203), 1), "stale");
}

#[tokio::test]
async fn an_earlier_copy_is_refreshed_ahead_in_the_background() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    world.clock.advance(DAY.mul_f64(0.95));
    let life = world.life();
    for _ in 0..2 {
        assert_eq!(file_of(&life.lab.stance(&a).await), Some(200));
    }
    life.lab.until(|lab| lab.fetches() == 1).await;
}

#[tokio::test]
async fn a_process_that_reads_the_states_of_another_judges_by_them_and_changes_nothing() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    let onlooker = || {
        let persistent = PersistentStates::of_others(Arc::clone(&world.store) as _);
        let lab = Harness::on(world.clock.clone(), Some(persistent), world.change);
        lab.end(file(203));
        lab
    };
    // The process that the states belong to refreshes them ahead.
    world.clock.advance(DAY.mul_f64(0.95));
    let ahead = onlooker();
    assert_eq!(file_of(&ahead.stance(&a).await), Some(200));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ahead.fetches(), 0);
    // One that is stale would be fetched there first, and is here; the store stays as it is.
    world.clock.advance(DAY);
    for _ in 0..2 {
        let stale = onlooker();
        assert_eq!(file_of(&stale.stance(&a).await), Some(203));
        assert_eq!(stale.fetches(), 1);
    }
    let unknown = onlooker();
    assert_eq!(file_of(&unknown.stance(&origin("b")).await), Some(203));
    assert!(world.kept(&origin("b")).await.is_none());
}

#[tokio::test]
async fn a_stored_copy_that_is_doubted_is_fetched_anew_and_stays_the_last_good_one() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    world.clock.advance(Duration::from_secs(60));
    let began = world.clock.now();
    let life = world.life();
    assert_eq!(file_of(&life.lab.stance(&a).await), Some(200));
    let older = life.lab.cache.judged_by_older(began);
    assert_eq!(older, [(a.clone(), START)], "nothing doubts it");
    life.end();
    let life = world.life();
    life.lab.cache.doubt_before(began);
    life.lab.end(down());
    assert!(is_disallowed(&life.lab.stance(&a).await));
    assert_eq!(life.lab.fetches(), 1);
    assert_eq!(life.lab.cache.judged_by_older(began), []);
    life.end();
    let kept = world.kept(&a).await.expect("it is known");
    assert!(kept.state.copy().is_some(), "the copy stays");
}

#[tokio::test]
async fn a_file_that_was_put_in_the_place_of_another_is_not_believed() {
    for named in ["b.example", "long.example"] {
        let world = World::on_disk();
        let a = origin("a");
        for (host, text) in [
            ("a", "User-agent: *\nDisallow: /a"),
            ("b", "User-agent: *\nDisallow: /b"),
            ("long", "User-agent: *\nDisallow: /long"),
        ] {
            let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
            let result = AccessResult::Successful {
                snapshot: Snapshot::new(robots, START, 200, "").into(),
                freshness: Freshness::Unsaid,
            };
            assert_eq!(world.once(&origin(host), result).await.1, 1);
        }
        let folder = world.disk.as_ref().expect("a disk").path();
        let engine = rusqlite::Connection::open(folder.join("crawlgate.db")).expect("a store");
        let put = "UPDATE origin SET sha256 = (SELECT sha256 FROM origin WHERE origin LIKE '%' || ?1) \
                   WHERE origin LIKE '%//a.example'";
        assert_eq!(engine.execute(put, [named]), Ok(1));
        drop(engine);
        let (stance, fetches) = world.once(&a, file(203)).await;
        assert_eq!((file_of(&stance), fetches), (Some(203), 1), "{named}");
        assert_eq!(world.once(&a, file(200)).await.1, 0, "healed");
    }
}

#[tokio::test]
async fn a_missing_file_is_remembered_as_missing() {
    let world = World::new();
    let a = origin("a");
    let gone = AccessResult::Unavailable {
        why: Absence::Status(404),
        freshness: Freshness::MaxAge(Duration::from_secs(3600)),
    };
    assert_eq!(world.once(&a, gone).await.1, 1);
    world.clock.advance(Duration::from_secs(3599));
    let (stance, fetches) = world.once(&a, file(200)).await;
    assert!(matches!(stance, Stance::AllowAll), "{stance:?}");
    assert_eq!(fetches, 0);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.once(&a, file(200)).await.1, 1);
}

#[tokio::test]
async fn thirty_days_are_counted_from_the_first_failure_however_often_the_process_restarts() {
    for (name, world, first, after) in [
        ("a last good copy rules afterwards", World::new(), Some(file(200)), Some(200)),
        (
            "a last good copy rules afterwards, on disk",
            World::on_disk(),
            Some(file(200)),
            Some(200),
        ),
        ("without one, nothing is restricted", World::new(), None, None),
        ("without one, nothing is restricted, on disk", World::on_disk(), None, None),
    ] {
        let a = origin("a");
        if let Some(first) = first {
            world.once(&a, first).await;
            world.clock.advance(DAY);
        }
        let start = world.clock.now();
        for day in 0..40 {
            world.clock.advance_to(start + days(day));
            let (stance, fetches) = world.once(&a, down()).await;
            assert_eq!(fetches, 1, "{name}: day {day}, each day it is tried again");
            assert_eq!(world.outage(&a).await.since, start, "{name}: day {day}");
            if day < 30 {
                assert!(is_disallowed(&stance), "{name}: day {day}: {stance:?}");
                continue;
            }
            let meant = match after {
                Some(_) => file_of(&stance) == after,
                None => matches!(stance, Stance::AllowAll),
            };
            assert!(meant, "{name}: day {day}: {stance:?}");
        }
        let (stance, _) = world.once(&a, down()).await;
        assert!(!is_disallowed(&stance), "{name}: between two attempts, too");
        world.clock.advance(DAY);
        let (stance, _) = world.once(&a, file(201)).await;
        assert_eq!(file_of(&stance), Some(201), "{name}: it is back");
        world.clock.advance(DAY);
        world.once(&a, down()).await;
        let since = world.outage(&a).await.since;
        assert_eq!(since, world.clock.now(), "{name}: a new outage is new");
    }
}

#[tokio::test]
async fn a_restart_in_an_outage_neither_asks_early_nor_forgets_to_back_off() {
    for world in [World::new(), World::on_disk()] {
        let a = origin("a");
        world.once(&a, down()).await;
        let mut waits = Vec::new();
        for attempts in 1..=8 {
            let outage = world.outage(&a).await;
            assert_eq!(outage.attempts, attempts);
            waits.push(outage.next_attempt.since(world.clock.now()).as_secs());
            world.clock.advance_to(outage.next_attempt - Duration::from_millis(1));
            let (stance, fetches) = world.once(&a, file(200)).await;
            assert!(is_disallowed(&stance), "{stance:?}");
            assert_eq!(fetches, 0, "attempt {attempts} is not due yet");
            world.clock.advance_to(outage.next_attempt);
            assert_eq!(world.once(&a, down()).await.1, 1);
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640]);
    }
}

#[tokio::test]
async fn a_failed_refresh_of_a_fresh_copy_is_remembered_beside_it() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    let due = START + DAY.mul_f64(0.9);
    world.clock.advance_to(due);
    let life = world.life();
    life.lab.end(down());
    for _ in 0..2 {
        assert_eq!(file_of(&life.lab.stance(&a).await), Some(200));
    }
    let failed = |lab: &Harness| lab.known(&a).is_some_and(|s| s.outage().is_some());
    life.lab.until(failed).await;
    life.end();
    world.clock.advance_to(START + DAY);
    world.once(&a, down()).await;
    assert_eq!(world.outage(&a).await.since, due);
}

#[tokio::test]
async fn every_fetch_is_stored_before_a_request_sees_its_state() {
    let world = World::new();
    let a = origin("a");
    let life = world.life();
    life.lab.end(file(200));
    life.lab.stance(&a).await;
    // Later records are written later.
    life.log.flush().await.expect("it is written");
    let kept = world.kept(&a).await.expect("it is known");
    let copy = kept.state.copy().expect("a file");
    let text = world.store.snapshot(copy.sha256).await.expect("a store");
    assert_eq!(text.as_deref(), Some(&b"User-agent: *\nDisallow: /x"[..]));
    assert_eq!(world.store.fetches(&a, 9).await.expect("a store").len(), 1);
    // An unfinished fetch says nothing about the origin, and is not stored.
    let b = origin("b");
    life.lab.ends.send(End::InPanic).expect("it lives");
    assert!(is_disallowed(&life.lab.stance(&b).await));
    life.end();
    assert_eq!(world.kept(&b).await, None);
}

#[tokio::test]
async fn a_thousand_first_requests_after_a_restart_ask_the_store_once() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    let asked = world.store.faults.asked.load(Ordering::Relaxed);
    let life = world.life();
    let views = (0..1000).map(|_| life.lab.stance(&a));
    for view in views.collect::<Vec<_>>() {
        assert_eq!(file_of(&view.await), Some(200));
    }
    assert_eq!(world.store.faults.asked.load(Ordering::Relaxed) - asked, 1);
    assert_eq!(life.lab.fetches(), 0);
}

#[tokio::test]
async fn an_evicted_state_comes_back_unchanged_even_before_it_is_written() {
    let mut world = World::new();
    world.change = |config| config.cache.origins = 1;
    let [a, b] = ["a", "b"].map(origin);
    world.store.faults.holds_writes.store(true, Ordering::Relaxed);
    let life = world.life();
    life.lab.learn(&a).await;
    life.lab.learn(&b).await;
    life.lab.until(|lab| !lab.knows(&a)).await;
    assert_eq!(world.kept(&a).await, None, "the store has not heard of it");
    assert_eq!(file_of(&life.lab.stance(&a).await), Some(1));
    assert_eq!(life.lab.fetches(), 2);
    world.store.faults.holds_writes.store(false, Ordering::Relaxed);
    life.end();
    assert!(world.kept(&a).await.is_some());
}

#[tokio::test]
async fn an_unreadable_store_defers_requests() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, down()).await;
    world.clock.advance(Duration::from_secs(20 * 3600));
    world.store.faults.fails_reads.store(true, Ordering::Relaxed);
    let life = world.life();
    for _ in 0..3 {
        assert!(matches!(life.lab.stance(&a).await, Stance::Unknown));
    }
    let refused = life.lab.refresh(&a).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Busy);
    assert_eq!(life.lab.fetches(), 0, "a fetch could only start from nothing");
    world.store.faults.fails_reads.store(false, Ordering::Relaxed);
    let stance = life.lab.stance(&a).await;
    assert!(matches!(stance, Stance::Unknown), "not asked again at once");
    world.clock.advance(config().timing.retry_min);
    life.lab.end(down());
    assert!(is_disallowed(&life.lab.stance(&a).await));
    life.end();
    assert_eq!(world.outage(&a).await.since, START);
}

#[tokio::test]
async fn a_file_that_the_store_has_lost_is_fetched_anew() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    world.store.faults.loses_texts.store(true, Ordering::Relaxed);
    let (stance, fetches) = world.once(&a, file(203)).await;
    assert_eq!(file_of(&stance), Some(203), "it is no empty file");
    assert_eq!(fetches, 1);
    let (stance, fetches) = world.once(&a, down()).await;
    assert!(is_disallowed(&stance), "and nothing goes out without it");
    assert_eq!(fetches, 1);
}

#[test]
fn a_process_that_ends_while_it_asks_the_store_leaves_it_as_it_was() {
    let world = World::new();
    let a = origin("a");
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime().block_on(world.once(&a, down()));
    let before = runtime().block_on(world.kept(&a));
    world.clock.advance(days(1));
    world.store.faults.hangs_reads.store(true, Ordering::Relaxed);
    let life = world.life();
    let ends = runtime();
    ends.block_on(async {
        assert!(poll(&mut Box::pin(life.lab.stance(&a))).is_pending());
        tokio::task::yield_now().await;
    });
    drop(ends);
    assert!(life.lab.known(&a).is_none());
    world.store.faults.hangs_reads.store(false, Ordering::Relaxed);
    life.end();
    assert_eq!(runtime().block_on(world.kept(&a)), before);
}
