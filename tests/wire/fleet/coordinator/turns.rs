//! Turns at an origin, as both implementations reserve them.
//!
//! The generation of each engine has just begun, so every origin counts as used now: a first turn comes one interval
//! later. The intervals are long, so that the time of the test itself does not matter.

use std::sync::Arc;
use std::time::Duration;

use crawlgate_turns::fleet::CoordinatorError;
use crawlgate_turns::fleet::coordinator::Coordinator;
use crawlgate_turns::fleet::reservation::{
    GiveBack, GroupInterval, OriginBackoff, ReportBackoff, Reserve, Reserved, SLOT_LIFE, Sign,
    Slots, TurnKind,
};

use super::{TestEngine, each, heartbeat, two};

const ORIGIN: &str = "https://a.example";

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Asks for one turn of an origin that nothing bounds, however far ahead.
fn unbounded() -> Reserve<'static> {
    Reserve {
        origin: ORIGIN,
        kind: TurnKind::Page,
        wanted: 1,
        horizon: secs(3_600),
        interval: Duration::ZERO,
        burst: 1,
        group: None,
        rest: Duration::ZERO,
        gap: Duration::ZERO,
        slots: None,
        memory: secs(60),
    }
}

pub(super) fn every(seconds: u64) -> Reserve<'static> {
    Reserve { interval: secs(seconds), ..unbounded() }
}

fn of_group(name: &str, seconds: u64) -> Reserve<'_> {
    let interval = secs(seconds);
    Reserve { group: Some(GroupInterval { name, interval }), ..unbounded() }
}

fn robots() -> Reserve<'static> {
    Reserve { kind: TurnKind::Robots, ..unbounded() }
}

/// All times of these tests are multiples of it. A real engine's clock moves on between two questions, by less.
const STEP: u64 = 5;

/// Returns the times of the turns, in seconds.
fn times(reserved: &Reserved) -> Vec<u64> {
    let times = reserved.turns.iter();
    times.map(|turn| (turn.after.as_secs_f64() / STEP as f64).ceil() as u64 * STEP).collect()
}

async fn reserve(coordinator: &Arc<dyn Coordinator>, ask: Reserve<'_>) -> Reserved {
    coordinator.reserve(ask).await.unwrap()
}

/// Asserts the turns that one instance after the other is given.
async fn gives(test_engine: &TestEngine, name: &str, rows: &[(Reserve<'_>, &[u64])]) {
    let instances = [test_engine.join(), test_engine.join()];
    for (instance, who) in instances.iter().zip(["a", "b"]) {
        heartbeat(instance, who, 0).await;
    }
    test_engine.is_quiet_no_more();
    for (number, (ask, want)) in rows.iter().enumerate() {
        let reserved = reserve(&instances[number % 2], *ask).await;
        assert_eq!(times(&reserved), *want, "{name}, question {number}: {reserved:?}");
    }
}

#[test]
fn instances_are_given_one_turn_after_the_other() {
    let burst = Reserve { burst: 3, wanted: 5, ..every(10) };
    let soon = Reserve { horizon: secs(5), ..every(10) };
    #[rustfmt::skip] // one row, one case
    /// The name of a case, and its questions with the times of their turns.
    type Case<'a> = (&'a str, &'a [(Reserve<'a>, &'a [u64])]);
    #[rustfmt::skip] // one row, one case
    let cases: &[Case<'_>] = &[
        ("one at a time", &[(every(10), &[10]), (every(10), &[20]), (every(10), &[30])]),
        ("too far ahead", &[(soon, &[]), (every(10), &[10]), (soon, &[])]),
        ("only the first of a batch may be far ahead", &[(burst, &[10]), (burst, &[20])]),
        ("nothing bounds it", &[(unbounded(), &[0]), (unbounded(), &[0])]),
        ("groups", &[(of_group("x", 10), &[10]), (of_group("y", 20), &[20]), (of_group("x", 10), &[20])]),
        ("a robots.txt waits for every group", &[(of_group("x", 10), &[10]), (robots(), &[20])]),
        (
            "the time before a robots.txt that is reserved is free for other groups",
            &[
                (of_group("x", 40), &[40]),
                (robots(), &[80]),
                (of_group("y", 10), &[10]),
                (of_group("y", 30), &[40]),
                (of_group("y", 30), &[110]),
                (of_group("x", 40), &[120]),
                (robots(), &[160]),
            ],
        ),
        ("a robots.txt counts for every group", &[(robots(), &[0]), (of_group("x", 10), &[10])]),
        (
            "a robots.txt that has waited too long goes",
            &[
                (every(10), &[10]),
                (
                    Reserve {
                        kind: TurnKind::Now,
                        ..every(10)
                    },
                    &[0],
                ),
                (every(10), &[30]),
            ],
        ),
        (
            "a redirect hop that is not due delays none",
            &[
                (every(10), &[10]),
                (
                    Reserve {
                        kind: TurnKind::RedirectHop,
                        ..every(10)
                    },
                    &[],
                ),
                (every(10), &[20]),
            ],
        ),
        ("a faster rate", &[(every(100), &[100]), (every(10), &[110])]),
        (
            "a rest that one instance knows of binds all",
            &[
                (
                    Reserve {
                        rest: secs(40),
                        ..unbounded()
                    },
                    &[40],
                ),
                (unbounded(), &[40]),
            ],
        ),
        ("origins apart", &[(every(10), &[10]), (Reserve { origin: "https://b.example",..every(10) }, &[10])]),
    ];
    for (name, rows) in cases {
        each(|test_engine| async move { gives(&test_engine, name, rows).await });
    }
}

#[test]
fn an_unused_turn_is_given_back_once() {
    each(|test_engine| async move {
        let a: Arc<dyn Coordinator> = test_engine.join();
        heartbeat(&a, "a", 0).await;
        test_engine.is_quiet_no_more();
        let group = Reserve { origin: "https://b.example", ..of_group("x", 10) };
        for ask in [every(10), group] {
            let first = reserve(&a, ask).await;
            assert_eq!(times(&first), [10]);
            let turn = GiveBack { origin: ask.origin, at: first.turns[0].at, group: ask.group };
            a.give_back(turn).await.unwrap();
            a.give_back(turn).await.unwrap();
            assert_eq!(times(&reserve(&a, ask).await), [10], "{ask:?}");
            let third = reserve(&a, ask).await;
            a.give_back(turn).await.unwrap();
            assert_eq!(times(&third), [20], "{ask:?}");
            assert_eq!(times(&reserve(&a, ask).await), [30], "another was reserved since: {ask:?}");
        }
    });
}

#[test]
fn trouble_binds_all_instances_until_it_has_passed() {
    each(|test_engine| async move {
        let [a, b] = two(&test_engine).await;
        let report = |sign, age| ReportBackoff {
            origin: ORIGIN,
            sign,
            age,
            first: secs(1),
            widest: secs(300),
            longest: secs(100),
            memory: secs(60),
        };
        let now = Duration::ZERO;
        let fine = a.report_backoff(report(Sign::Fine, now)).await.unwrap();
        assert!(fine.is_none(), "a good answer of a calm origin: {fine:?}");
        let retry_after = secs(30);
        let backoff = a.report_backoff(report(Sign::Refused { retry_after }, now)).await.unwrap();
        assert_eq!(backoff.gap, secs(1));
        let reserved = reserve(&b, unbounded()).await;
        assert_eq!(times(&reserved), [30]);
        assert_eq!(reserved.backoff.gap, secs(1));
        let old = b.report_backoff(report(Sign::Troubled, secs(10))).await.unwrap();
        assert_eq!(old.gap, secs(1), "it was sent before: one sign");
        let OriginBackoff { gap, rest } = b
            .report_backoff(report(Sign::Refused { retry_after: secs(900) }, secs(10)))
            .await
            .unwrap();
        assert_eq!(
            (gap, rest.as_secs_f64().round()),
            (secs(1), 100.0),
            "no longer than the longest rest"
        );
        // The engine's clock moves between two reports that are both new.
        let mut gap = gap;
        for want in [500, 250, 0] {
            while gap != Duration::from_millis(want) {
                gap = b.report_backoff(report(Sign::Fine, now)).await.unwrap().gap;
                assert!(gap >= Duration::from_millis(want), "{gap:?}");
            }
        }
    });
}

#[test]
fn a_wide_gap_is_kept_for_as_long_as_it_holds() {
    each(async |test_engine| {
        let TestEngine::Real(engine, _) = &*test_engine else {
            return;
        };
        let [a, _] = two(&test_engine).await;
        let gap = secs(36_000);
        let report = ReportBackoff {
            origin: ORIGIN,
            sign: Sign::Troubled,
            age: Duration::ZERO,
            first: gap,
            widest: gap,
            longest: gap,
            memory: secs(60),
        };
        let is_kept = || {
            let left = engine.ask(&["TTL", "crawlgate:{https://a.example}:turns"]);
            let left: u64 = left.trim_start_matches(':').trim().parse().unwrap();
            assert!(secs(left) > gap, "{left} s");
        };
        assert_eq!(a.report_backoff(report).await.unwrap().gap, gap);
        is_kept();
        assert_eq!(times(&reserve(&a, unbounded()).await), [0; 0]);
        is_kept();
    });
}

#[test]
fn slots_bound_the_requests_in_flight_at_all_instances() {
    each(|test_engine| async move {
        let [a, b] = two(&test_engine).await;
        let names = |of: &str| -> Vec<String> { (0..3).map(|n| format!("{of}/{n}")).collect() };
        let (of_a, of_b) = (names("a"), names("b"));
        let ask = |names| Reserve {
            wanted: 3,
            horizon: secs(60),
            slots: Some(Slots { most: 2, names }),
            ..unbounded()
        };
        // The engine may have lost slots that are in use: their holders renew them first.
        let first = reserve(&a, ask(&of_a)).await;
        assert_eq!(times(&first), [5], "the others are too far ahead");
        let second = reserve(&b, ask(&of_b)).await;
        assert_eq!((times(&second).len(), second.is_full), (1, true));
        let third = reserve(&b, ask(&of_b)).await;
        assert_eq!((times(&third).len(), third.is_full), (0, true));
        let robots = Reserve { kind: TurnKind::Robots, wanted: 1, ..ask(&of_b[2..]) };
        assert_eq!(times(&reserve(&b, robots).await).len(), 1, "a robots.txt needs none");
        a.release_slot(ORIGIN, "a/0").await.unwrap();
        assert_eq!(times(&reserve(&a, ask(&of_a)).await).len(), 0, "the robots.txt has one, too");
        b.release_slot(ORIGIN, "b/2").await.unwrap();
        assert_eq!(times(&reserve(&a, ask(&of_a)).await).len(), 1);
        a.release_slot(ORIGIN, "a/0").await.unwrap();
        b.renew_slots(ORIGIN, &of_b[..2]).await.unwrap();
        assert!(reserve(&a, ask(&of_a)).await.is_full, "renewed although it was lost");
    });
}

#[test]
fn slots_that_ran_out_while_no_instance_was_heard_of_are_renewed_before_others_are_given() {
    each(|test_engine| async move {
        let [a, b] = two(&test_engine).await;
        let names = ["1", "2", "3"].map(str::to_owned);
        let ask = |wanted| Reserve {
            wanted,
            horizon: secs(60),
            slots: Some(Slots { most: 2, names: &names }),
            ..unbounded()
        };
        assert_eq!(times(&reserve(&a, ask(1)).await), [5], "a new generation");
        test_engine.hangs(SLOT_LIFE / 2);
        heartbeat(&b, "b", 0).await;
        assert_eq!(times(&reserve(&b, ask(1)).await), [0], "no slot is lost");
        // Longer than the members are remembered.
        test_engine.hangs(SLOT_LIFE * 2);
        heartbeat(&b, "b", 0).await;
        assert_eq!(times(&reserve(&b, ask(1)).await), [5]);
        heartbeat(&a, "a", 0).await;
        test_engine.hangs(secs(5));
        assert_eq!(times(&reserve(&b, ask(1)).await), [0]);
    });
}

#[test]
fn an_engine_that_has_lost_everything_counts_every_origin_as_used() {
    each(|test_engine| async move {
        let a = test_engine.join();
        heartbeat(&a, "a", 0).await;
        test_engine.forget();
        assert_eq!(a.reserve(every(10)).await, Err(CoordinatorError::Lost));
        heartbeat(&a, "a", 0).await;
        test_engine.is_quiet_no_more();
        let burst = Reserve { burst: 3, ..every(10) };
        assert_eq!(times(&reserve(&a, burst).await), [10], "the burst is empty");
        let other = Reserve { origin: "https://b.example", ..of_group("x", 20) };
        assert_eq!(times(&reserve(&a, other).await), [20]);
    });
}

#[test]
fn a_gap_that_an_instance_knows_outlives_the_engine() {
    each(|test_engine| async move {
        let [a, b] = two(&test_engine).await;
        test_engine.forget();
        heartbeat(&a, "a", 0).await;
        heartbeat(&b, "b", 0).await;
        test_engine.is_quiet_no_more();
        let knowing = Reserve { gap: secs(20), ..unbounded() };
        let first = reserve(&a, knowing).await;
        assert_eq!((times(&first), first.backoff.gap), (vec![20], secs(20)));
        let second = reserve(&b, unbounded()).await;
        assert_eq!((times(&second), second.backoff.gap), (vec![40], secs(20)));
        // The gap that the engine knows counts, as soon as it knows one.
        let wider = Reserve { gap: secs(300), ..unbounded() };
        assert_eq!(times(&reserve(&b, wider).await), [60]);
        // One that knows no gap may ask first.
        let origin = "https://other.example";
        let first = reserve(&b, Reserve { origin, ..every(5) }).await;
        assert_eq!(first.backoff.gap, Duration::ZERO);
        let [at] = times(&first)[..] else {
            panic!("{first:?}");
        };
        let knowing = Reserve { origin, gap: secs(20), ..every(5) };
        let second = reserve(&a, knowing).await;
        assert_eq!((times(&second), second.backoff.gap), (vec![at + 20], secs(20)));
    });
}

#[test]
fn a_clock_that_is_set_back_begins_a_new_generation() {
    each(async |test_engine| {
        let [a, b] = two(&test_engine).await;
        match &*test_engine {
            TestEngine::Memory(world) => {
                let clock = world.clock();
                clock.set(clock.now() - secs(3_600));
            }
            TestEngine::Real(engine, _) => {
                // The engine's clock cannot be set here, so what it has written is an hour later.
                let script = "local key = 'crawlgate:{fleet}:generation' \
                    local id, began, run = string.match(redis.call('GET', key), '^(%S+) (%d+) (%S+)$') \
                    redis.call('SET', key, id .. ' ' .. string.format('%.0f', began + 3.6e9) .. ' ' .. run) \
                    for _, name in ipairs({'a', 'b'}) do redis.call('ZINCRBY', 'crawlgate:{fleet}:members', 3600000, name) end return 1";
                assert_eq!(engine.ask(&["EVAL", script, "0"]), ":1\r\n");
            }
        }
        let soon = Reserve { horizon: secs(5), ..unbounded() };
        let late = reserve(&a, soon).await;
        assert!(late.turns.is_empty(), "an hour later: {late:?}");
        let heard = heartbeat(&a, "a", 0).await;
        assert_eq!(heard.generation, 2);
        assert_eq!(heard.members, 1, "b has not been heard of by this clock");
        test_engine.is_quiet_no_more();
        assert_eq!(heartbeat(&b, "b", 0).await.members, 2);
        let reserved = reserve(&b, soon).await;
        assert_eq!(reserved.turns.len(), 1, "{reserved:?}");
    });
}
