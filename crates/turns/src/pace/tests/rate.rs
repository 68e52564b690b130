//! No origin is asked more often than its rate and its crawl delays allow.
//!
//! An origin in trouble is left alone, too.

use std::pin::pin;

use proptest::prelude::*;

use super::*;
use crate::pace::limiters::{KEPT, SHARE};

#[tokio::test]
async fn turns_keep_the_gap_and_one_that_is_too_early_uses_none() {
    let (pace, clock) = impatient(rate(2.0, 1));
    let a = origin("a");
    for (at, expected) in [
        (0, None),
        (0, Some(500)),
        (1, Some(500)),
        (499, Some(500)),
        (500, None),
        (500, Some(1000)),
        (10_000, None),
        (10_000, Some(10_500)),
    ] {
        clock.set(START + ms(at));
        assert_eq!(early(&pace, &a).await, expected.map(ms), "at {at} ms");
    }
    assert_eq!((pace.held(), pace.counts().refused), (0, 5));
}

#[tokio::test]
async fn a_burst_has_its_turns_at_once_and_is_saved_up_again() {
    let (pace, clock) = impatient(rate(1.0, 3));
    let a = origin("a");
    for (at, turns) in [(0, 3), (1_000, 1), (3_000, 2), (60_000, 3)] {
        clock.set(START + ms(at));
        for turn in 0..turns {
            assert_eq!(early(&pace, &a).await, None, "turn {turn} at {at} ms");
        }
        assert_eq!(early(&pace, &a).await, Some(ms(at + 1_000)), "at {at} ms");
    }
}

#[tokio::test]
async fn each_origin_has_a_pace_of_its_own() {
    let (pace, _clock) = impatient(rate(1.0, 1));
    let (a, b) = (origin("a"), origin("b"));
    assert_eq!(early(&pace, &a).await, None);
    assert_eq!(early(&pace, &b).await, None);
    assert_eq!(early(&pace, &a).await, Some(ms(1_000)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_just_within_the_longest_hold_is_granted() {
    for (max_hold, is_early) in [(ms(9), true), (ms(10), false)] {
        let clock = Clock::manual(START);
        let config = PaceConfig { max_hold, ..rate(100.0, 1) };
        let pace = Pace::new(&config, clock.clone());
        let a = origin("a");
        assert_eq!(early(&pace, &a).await, None);
        let key = client("a");
        let mut second = pin!(turn(&pace, ask(&a), &key));
        let found = once(&mut second).await;
        assert_eq!(found.is_ready(), is_early, "{max_hold:?}");
        if !is_early {
            assert_eq!(pace.held(), 1);
            pass(&clock, ms(10)).await;
            let own = EffectivePace::plain(ms(10), Source::Own);
            assert_eq!(second.await, Ok(Some(own)));
            assert_eq!((pace.held(), pace.counts().waited), (0, 1));
        }
    }
}

#[tokio::test]
async fn without_a_pace_every_turn_is_now() {
    let off = PaceConfig { backoff: false, crawl_delay: CrawlDelayMode::Record, ..config() };
    let (pace, _clock) = impatient(off);
    assert!(pace.is_unlimited());
    assert!(pace.turn_for_robots(&origin("a"), None).await.is_none());
    let (pace, clock) = impatient(config());
    assert!(!pace.is_unlimited());
    let a = origin("a");
    for _ in 0..100 {
        drop(pace.try_turn(ask(&a), clock.now()).expect("a turn"));
    }
    assert_eq!(pace.of(&a), None);
}

#[tokio::test]
async fn past_requests_count_by_the_pace_in_force() {
    let own = |rate: f64, burst| {
        let config = rate_of(rate, burst);
        PaceConfig { max_hold: Duration::ZERO, ..config }
    };
    fn rate_of(requests_per_second: f64, burst: u32) -> PaceConfig {
        rate(requests_per_second, burst)
    }
    let unbounded = PaceConfig { max_hold: Duration::ZERO, ..config() };
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("the same pace", own(1.0, 1), own(1.0, 1), Some(1_000)),
        ("a slower one", own(1.0, 1), own(0.1, 1), Some(10_000)),
        ("a faster one", own(1.0, 1), own(2.0, 1), Some(500)),
        ("another burst", own(1.0, 1), own(1.0, 2), None),
        ("a burst less", own(1.0, 2), own(1.0, 1), Some(1_000)),
        ("none before", unbounded.clone(), own(1.0, 1), Some(1_000)),
        ("none after", own(1.0, 1), unbounded, None),
    ];
    for (name, before, after, expected) in cases {
        let (pace, clock) = impatient(before);
        let a = origin("a");
        let at_once = pace.try_turn(ask(&a), clock.now());
        assert!(at_once.is_some(), "{name}");
        drop(at_once);
        pace.reconfigure(&after);
        assert_eq!(early(&pace, &a).await, expected.map(ms), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_delays_no_request_for_long() {
    let clock = Clock::manual(START);
    let pace = Pace::new(&rate(1.0, 1), clock.clone());
    let a = origin("a");
    assert_eq!(early(&pace, &a).await, None);
    let key = client("a");
    let mut held = pin!(turn(&pace, ask(&a), &key));
    assert!(once(&mut held).await.is_pending());
    clock.set(START - secs(3_600));
    pass(&clock, ms(2_000)).await;
    assert!(once(&mut held).await.is_ready(), "one interval is enough");
}

#[tokio::test(start_paused = true)]
async fn the_gaps_are_kept_for_any_number_of_crawlers_and_across_reloads() {
    for (crawlers, burst) in [(1, 1), (2, 1), (200, 1), (1, 4), (200, 4)] {
        let name = format!("{crawlers} crawlers, bursts of {burst}");
        let clock = Clock::manual(START);
        let pace = Pace::new(&rate(10.0, burst), clock.clone());
        let (a, seen) = (origin("a"), Seen::default());
        for number in 0..crawlers {
            crawl(&pace, &clock, &number.to_string(), &a, None, &seen);
        }
        pass(&clock, secs(3)).await;
        // The same settings again; then slower, then faster again.
        pace.reconfigure(&rate(10.0, burst));
        pass(&clock, secs(2)).await;
        let at_first = moments(&seen);
        is_spaced(&at_first, ms(100), burst as usize, &name);
        assert!(at_first.len() >= 50, "{name}: {}", at_first.len());
        pace.reconfigure(&rate(1.0, burst));
        pass(&clock, secs(10)).await;
        // The last request under the other pace counts.
        let later = moments(&seen).split_off(at_first.len() - 1);
        is_spaced(&later, secs(1), burst as usize, &name);
        assert!((10..=10 + burst as usize).contains(&later.len()), "{name}: {}", later.len());
        pace.reconfigure(&rate(10.0, burst));
        pass(&clock, secs(1)).await;
        is_spaced(&moments(&seen), ms(100), burst as usize, &name);
    }
}

#[tokio::test(start_paused = true)]
async fn each_group_keeps_the_interval_that_it_is_asked_to() {
    let clock = Clock::manual(START);
    let pace = Pace::new(&config(), clock.clone());
    let (a, seen) = (origin("a"), Seen::default());
    let (slow, fast) = (crawl_delay("slow", secs(4)), crawl_delay("*", secs(1)));
    // The two belong to one client, and neither holds up the other.
    crawl(&pace, &clock, "one", &a, Some(slow.clone()), &seen);
    crawl(&pace, &clock, "one", &a, Some(fast.clone()), &seen);
    crawl(&pace, &clock, "two", &a, Some(fast.clone()), &seen);
    pass(&clock, secs(20)).await;
    let all = moments(&seen);
    // The two clients share the group `*`.
    let of_two = seen.lock().iter().filter(|(_, of)| of == "two").count();
    assert!((9..=11).contains(&of_two), "{of_two}");
    assert!((5 + 20..=6 + 21).contains(&all.len()), "{}", all.len());
}

#[tokio::test]
async fn a_crawl_delay_is_kept_up_to_the_bound_and_beyond_the_own_interval() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("longer than the own", 2_000, (2_000, Source::CrawlDelay, false)),
        ("shorter than the own", 500, (1_000, Source::Own, false)),
        ("longer than may be", 60_000, (30_000, Source::CrawlDelay, true)),
    ];
    for (name, asked, (interval, source, clamped)) in cases {
        let (pace, _clock) = impatient(rate(1.0, 1));
        let (a, crawl_delay) = (origin("a"), crawl_delay("*", ms(asked)));
        let asking = Ask { origin: &a, crawl_delay: Some(&crawl_delay) };
        assert_eq!(turn(&pace, asking, &client("a")).await, Ok(None), "{name}");
        let refused = turn(&pace, asking, &client("b")).await.expect_err(name);
        let expected = EffectivePace { interval: ms(interval), source, clamped };
        assert_eq!(refused.pace, expected, "{name}");
        assert_eq!(refused.at, START + ms(interval), "{name}");
        assert_eq!(pace.kept_of(&crawl_delay).expect(name).clamped, clamped, "{name}");
    }
}

#[tokio::test]
async fn kept_origins_are_bounded_and_idle_ones_go_first() {
    let (pace, clock) = impatient(rate(1.0, 1));
    let name = |n: usize| origin(&format!("site-{n}"));
    for n in 0..KEPT {
        drop(pace.try_turn(ask(&name(n)), clock.now()));
    }
    let kept = || pace.0.origins.limiters.len();
    assert_eq!(kept(), KEPT);
    // Every origin has relevant history: the oldest go.
    clock.advance(ms(10));
    drop(pace.try_turn(ask(&name(KEPT)), clock.now()));
    assert_eq!(kept(), KEPT - KEPT / SHARE + 1);
    assert!(early(&pace, &name(KEPT)).await.is_some(), "the last is remembered");
    // After a while none has.
    clock.advance(secs(60));
    let under_way = pace.try_turn(ask(&name(KEPT)), clock.now());
    for n in 0..KEPT {
        drop(pace.0.origin(&name(n)));
    }
    assert!(kept() <= KEPT);
    assert!(under_way.is_some() && pace.0.origins.limiters.contains_key(&name(KEPT)));
}

proptest! {
    #[test]
    fn no_origin_is_asked_more_often_than_promised(
        steps in prop::collection::vec((0..700_u64, 0..3_usize, 0..20_u8), 1..200),
        burst in 1..5_u32,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (pace, clock) = impatient(rate(4.0, burst));
        let a = origin("a");
        let wishes = [None, Some(crawl_delay("x", ms(600))), Some(crawl_delay("y", ms(1_500)))];
        let mut all = Vec::new();
        let mut of_wish: [Vec<Moment>; 3] = Default::default();
        let mut until = None;
        for (gap, which, event) in steps {
            clock.advance(ms(gap));
            let asking = Ask { origin: &a, crawl_delay: wishes[which].as_ref() };
            let taken = runtime.block_on(take(&pace, asking, &client("a"), None));
            let Ok((turn, _)) = taken else { continue };
            let now = clock.now();
            prop_assert!(until.is_none_or(|until| now >= until), "before its Retry-After");
            match event {
                // Unused: as if the turn had never been taken.
                0 => { pace.give_back(turn); continue }
                1 => {
                    pace.answered(&turn, 429, || Some(secs(3)), true);
                    until = Some(now + secs(3));
                }
                2 => pace.reconfigure(&PaceConfig { max_hold: Duration::ZERO, ..rate(4.0, burst) }),
                _ => pace.answered(&turn, 200, || None, true),
            }
            all.push(now);
            of_wish[which].push(now);
        }
        is_spaced(&all, ms(250), burst as usize, "all");
        is_spaced(&of_wish[1], ms(600), 1, "x");
        is_spaced(&of_wish[2], ms(1_500), 1, "y");
    }
}

#[tokio::test]
async fn an_origin_that_says_so_is_left_alone_and_then_asked_more_slowly() {
    let (pace, clock) = impatient(config());
    let a = origin("a");
    let go = || pace.try_turn(ask(&a), clock.now());
    let answer = |turn: Turn, status, retry_after: Option<u64>| {
        pace.answered(&turn, status, || retry_after.map(secs), true);
    };
    answer(go().expect("a turn"), 429, Some(120));
    assert!(go().is_none());
    let rest = EffectivePace::plain(secs(120), Source::Backoff);
    assert_eq!(pace.of(&a), Some(rest));
    assert_eq!(early(&pace, &a).await, Some(secs(120)));
    clock.advance(secs(120));
    // One request goes, and the gap is kept until answers are fine again.
    let probe = go().expect("a turn");
    assert!(go().is_none());
    assert_eq!(pace.of(&a), Some(EffectivePace::plain(secs(1), Source::Backoff)));
    answer(probe, 200, None);
    for wait in [500, 250] {
        assert!(go().is_none());
        clock.advance(ms(wait));
        answer(go().expect("a turn"), 200, None);
    }
    assert!(go().is_some() && go().is_some(), "all is well");
    assert_eq!(pace.of(&a), None);
    // An origin that refuses for ever is still asked now and then.
    let mut asked = 0;
    for _ in 0..3_600 {
        clock.advance(secs(1));
        if let Some(turn) = go() {
            asked += 1;
            answer(turn, 503, Some(86_400));
        }
    }
    assert!((11..=13).contains(&asked), "{asked}");
}

#[tokio::test]
async fn without_backoff_an_origins_answers_do_not_count() {
    let without = PaceConfig { backoff: false, ..config() };
    let (pace, clock) = impatient(without.clone());
    let a = origin("a");
    let turn = pace.try_turn(ask(&a), clock.now()).expect("a turn");
    pace.answered(&turn, 429, || Some(secs(120)), true);
    assert!(pace.try_turn(ask(&a), clock.now()).is_some());
    // Switching backoff off ends the gap.
    pace.reconfigure(&config());
    pace.answered(&turn, 429, || Some(secs(120)), true);
    assert!(pace.try_turn(ask(&a), clock.now()).is_none());
    pace.reconfigure(&without);
    assert!(pace.try_turn(ask(&a), clock.now()).is_some());
}
