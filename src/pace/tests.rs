use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use proptest::prelude::*;

use super::*;
use crate::rep::Field;

const START: Moment = Moment::from_millis(1_790_000_000_000);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// No bound at all, and a longest hold of an hour.
fn config() -> PaceConfig {
    PaceConfig {
        requests_per_second: None,
        burst: 1,
        concurrency: None,
        per_address: false,
        crawl_delay: CrawlDelayMode::Honour,
        max_crawl_delay: secs(30),
        backoff: true,
        backoff_max: secs(300),
        max_hold: secs(3_600),
        max_held: 10_000,
    }
}

fn rate(requests_per_second: f64, burst: u32) -> PaceConfig {
    PaceConfig {
        requests_per_second: Some(requests_per_second),
        burst,
        ..config()
    }
}

/// Without holds: each request has its turn now or is too early.
fn impatient(config: PaceConfig) -> (Pace, Clock) {
    let clock = Clock::manual(START);
    let config = PaceConfig {
        max_hold: Duration::ZERO,
        ..config
    };
    (Pace::new(&config, clock.clone()), clock)
}

fn origin(name: &str) -> Origin {
    let (origin, _) = Origin::parse(&format!("http://{name}.example/")).expect("a URL");
    origin
}

fn client(name: &str) -> ClientKey {
    ClientKey::Named(name.into())
}

fn crawl_delay(group: &str, interval: Duration) -> Arc<CrawlDelay> {
    Arc::new(CrawlDelay {
        interval,
        field: Field::CrawlDelay,
        line: 2,
        group: group.into(),
    })
}

fn ask(origin: &Origin) -> Ask<'_> {
    Ask {
        origin,
        crawl_delay: None,
    }
}

/// Waits for the turn of a request, and ends the request.
async fn turn(
    pace: &Pace,
    ask: Ask<'_>,
    of: &ClientKey,
) -> Result<Option<EffectivePace>, TooEarly> {
    pace.turn(ask, of, None).await.map(|(_, pace)| pace)
}

/// Returns the time from the start to the turn; `None` if the turn is now.
async fn early(pace: &Pace, origin: &Origin) -> Option<Duration> {
    match turn(pace, ask(origin), &client("a")).await {
        Ok(held) => {
            assert_eq!(held, None);
            None
        }
        Err(early) => Some(early.at.since(START)),
    }
}

/// Lets time go by, on the clock and for timers, and runs each task that wakes.
async fn pass(clock: &Clock, span: Duration) {
    settle().await;
    let mut left = span;
    while !left.is_zero() {
        let step = left.min(ms(5));
        clock.advance(step);
        tokio::time::advance(step).await;
        settle().await;
        left -= step;
    }
}

/// Runs each task that is ready.
async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

/// Polls once.
async fn once<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// The requests that an origin has seen: when, and of which client.
type Seen = Arc<Mutex<Vec<(Moment, String)>>>;

/// A crawler that sends one request after the other.
fn crawl(
    pace: &Pace,
    clock: &Clock,
    of: &str,
    to: &Origin,
    crawl_delay: Option<Arc<CrawlDelay>>,
    seen: &Seen,
) {
    let (pace, clock, seen) = (pace.clone(), clock.clone(), Arc::clone(seen));
    let (of, to) = (of.to_owned(), to.clone());
    tokio::spawn(async move {
        loop {
            let ask = Ask {
                origin: &to,
                crawl_delay: crawl_delay.as_ref(),
            };
            match turn(&pace, ask, &client(&of)).await {
                Ok(_) => seen.lock().push((clock.now(), of.clone())),
                Err(_) => sleep(ms(50)).await,
            }
            tokio::task::yield_now().await;
        }
    });
}

/// Asserts that every span of time holds at most a burst plus the requests that the interval adds.
#[track_caller]
fn is_spaced(seen: &[Moment], interval: Duration, burst: usize, name: &str) {
    for (first, start) in seen.iter().enumerate() {
        for (count, end) in seen[first..].iter().enumerate() {
            let earned = end.since(*start).as_millis() / interval.as_millis();
            let earned = usize::try_from(earned).unwrap() + burst;
            assert!(
                count < earned,
                "{name}: {} in {:?}",
                count + 1,
                end.since(*start)
            );
        }
    }
}

fn moments(seen: &Seen) -> Vec<Moment> {
    seen.lock().iter().map(|(at, _)| *at).collect()
}

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
        let config = PaceConfig {
            max_hold,
            ..rate(100.0, 1)
        };
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
    let off = PaceConfig {
        backoff: false,
        crawl_delay: CrawlDelayMode::Record,
        ..config()
    };
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
        PaceConfig {
            max_hold: Duration::ZERO,
            ..config
        }
    };
    fn rate_of(requests_per_second: f64, burst: u32) -> PaceConfig {
        rate(requests_per_second, burst)
    }
    let unbounded = PaceConfig {
        max_hold: Duration::ZERO,
        ..config()
    };
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
        assert!(
            (10..=10 + burst as usize).contains(&later.len()),
            "{name}: {}",
            later.len()
        );
        pace.reconfigure(&rate(10.0, burst));
        pass(&clock, secs(1)).await;
        is_spaced(&moments(&seen), ms(100), burst as usize, &name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_delays_its_own_requests_and_those_of_nobody_else() {
    let clock = Clock::manual(START);
    let config = PaceConfig {
        max_held: 500,
        ..rate(1.0, 1)
    };
    let pace = Pace::new(&config, clock.clone());
    let (a, b) = (origin("a"), origin("b"));
    let (at_a, at_b) = (Seen::default(), Seen::default());
    for _ in 0..300 {
        crawl(&pace, &clock, "flood", &a, None, &at_a);
    }
    settle().await;
    assert_eq!(
        pace.held(),
        250,
        "half of what may be held is one client's share"
    );
    crawl(&pace, &clock, "other", &a, None, &at_a);
    crawl(&pace, &clock, "other", &b, None, &at_b);
    pass(&clock, secs(20)).await;
    let others = at_a.lock().iter().filter(|(_, of)| of == "other").count();
    assert!((9..=10).contains(&others), "every second turn: {others}");
    assert!(at_a.lock().len() >= 20);
    assert!(
        (20..=21).contains(&at_b.lock().len()),
        "{}",
        at_b.lock().len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_wait_too_long_learns_at_once_when_to_retry() {
    let clock = Clock::manual(START);
    let config = PaceConfig {
        max_hold: ms(2_500),
        ..rate(1.0, 1)
    };
    let pace = Pace::new(&config, clock.clone());
    let (a, seen) = (origin("a"), Seen::default());
    assert_eq!(early(&pace, &a).await, None);
    let key = client("a");
    let mut first = Box::pin(turn(&pace, ask(&a), &key));
    let mut second = Box::pin(turn(&pace, ask(&a), &key));
    assert!(once(&mut first.as_mut()).await.is_pending());
    assert!(once(&mut second.as_mut()).await.is_pending());
    let own = EffectivePace::plain(secs(1), Source::Own);
    let too_early = |at| TooEarly {
        at: START + ms(at),
        pace: own,
    };
    assert_eq!(turn(&pace, ask(&a), &key).await, Err(too_early(3_000)));
    // Another client's next turn comes between them, not after them.
    crawl(&pace, &clock, "b", &a, None, &seen);
    pass(&clock, ms(2_600)).await;
    assert!(once(&mut first.as_mut()).await.is_ready());
    // The other client took the second's turn: the second was held for the longest hold.
    assert!(matches!(
        once(&mut second.as_mut()).await,
        Poll::Ready(Err(_))
    ));
    assert_eq!(seen.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_frees_its_place_and_its_turn() {
    let clock = Clock::manual(START);
    let pace = Pace::new(&rate(1.0, 1), clock.clone());
    let a = origin("a");
    assert_eq!(early(&pace, &a).await, None);
    let key = client("a");
    {
        let mut gone: Vec<_> = (0..5)
            .map(|_| Box::pin(turn(&pace, ask(&a), &key)))
            .collect();
        for waiting in &mut gone {
            assert!(once(&mut waiting.as_mut()).await.is_pending());
        }
        assert_eq!(pace.held(), 5);
    }
    assert_eq!(pace.held(), 0);
    let mut stays = pin!(turn(&pace, ask(&a), &key));
    assert!(once(&mut stays).await.is_pending());
    pass(&clock, secs(1)).await;
    assert!(
        once(&mut stays).await.is_ready(),
        "no request is before it any more"
    );
    // A request that has its turn already, and does not take it.
    {
        let mut granted = Box::pin(turn(&pace, ask(&a), &key));
        assert!(once(&mut granted.as_mut()).await.is_pending());
        pass(&clock, secs(1)).await;
    }
    assert_eq!(early(&pace, &a).await, None, "the turn was given back");
}

#[tokio::test]
async fn a_turn_that_is_not_used_is_given_back_unless_others_came_after_it() {
    let (pace, _clock) = impatient(rate(1.0, 2));
    let a = origin("a");
    let take = || pace.turn(ask(&a), &KEY, None);
    static KEY: ClientKey = ClientKey::At(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    let (first, _) = take().await.expect("a turn");
    let (second, _) = take().await.expect("a turn");
    first.give_back();
    assert!(take().await.is_err(), "the second has come after it");
    second.give_back();
    assert!(take().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_stay_within_the_concurrency() {
    let clock = Clock::manual(START);
    let config = PaceConfig {
        concurrency: Some(2),
        max_hold: secs(10),
        ..config()
    };
    let pace = Pace::new(&config, clock.clone());
    let (a, key) = (origin("a"), client("a"));
    let (first, _) = pace.turn(ask(&a), &key, None).await.expect("a turn");
    let second = pace.try_turn(ask(&a), clock.now()).expect("a turn");
    assert!(pace.try_turn(ask(&a), clock.now()).is_none());
    let mut third = pin!(turn(&pace, ask(&a), &key));
    assert!(once(&mut third).await.is_pending());
    pass(&clock, secs(5)).await;
    assert!(once(&mut third).await.is_pending());
    drop(first);
    settle().await;
    let held = once(&mut third).await;
    let by = EffectivePace::plain(Duration::ZERO, Source::Concurrency);
    assert_eq!(held, Poll::Ready(Ok(Some(by))));
    // No request ends: it is held for the longest hold, then told to come again soon.
    let third = pace.try_turn(ask(&a), clock.now()).expect("a turn");
    let mut fourth = pin!(turn(&pace, ask(&a), &key));
    assert!(once(&mut fourth).await.is_pending());
    pass(&clock, secs(10) + GRACE).await;
    let again = clock.now() + SOON;
    assert_eq!(
        once(&mut fourth).await,
        Poll::Ready(Err(TooEarly {
            at: again,
            pace: by
        }))
    );
    drop((second, third));
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
        let asking = Ask {
            origin: &a,
            crawl_delay: Some(&crawl_delay),
        };
        assert_eq!(turn(&pace, asking, &client("a")).await, Ok(None), "{name}");
        let refused = turn(&pace, asking, &client("b")).await.expect_err(name);
        let expected = EffectivePace {
            interval: ms(interval),
            source,
            clamped,
        };
        assert_eq!(refused.pace, expected, "{name}");
        assert_eq!(refused.at, START + ms(interval), "{name}");
        assert_eq!(
            pace.kept_of(&crawl_delay).expect(name).clamped,
            clamped,
            "{name}"
        );
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
    assert_eq!(
        pace.of(&a),
        Some(EffectivePace::plain(secs(1), Source::Backoff))
    );
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
    let without = PaceConfig {
        backoff: false,
        ..config()
    };
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

#[tokio::test(start_paused = true)]
async fn a_robots_txt_goes_first_and_counts() {
    let clock = Clock::manual(START);
    let pace = Pace::new(&rate(1.0, 1), clock.clone());
    let (a, seen) = (origin("a"), Seen::default());
    drop(pace.turn_for_robots(&a, None).await.expect("a turn"));
    crawl(&pace, &clock, "a", &a, None, &seen);
    pass(&clock, ms(990)).await;
    assert_eq!(seen.lock().len(), 0, "it has counted");
    let mut robots = pin!(pace.turn_for_robots(&a, None));
    pass(&clock, ms(500)).await;
    assert_eq!(seen.lock().len(), 1);
    assert!(once(&mut robots).await.is_pending(), "it waits as all do");
    pass(&clock, ms(515)).await;
    // One of the two has gone by now, the other goes a second later.
    let before = seen.lock().len();
    let robots_gone = once(&mut robots).await.is_ready();
    assert!(robots_gone || before == 2);
    pass(&clock, secs(5)).await;
    is_spaced(&moments(&seen), secs(1), 1, "pages");
    // A fetch that starts after its turn counts from its start, and once.
    let c = origin("c");
    let turn = pace.turn_for_robots(&c, None).await.expect("a turn");
    pass(&clock, ms(900)).await;
    pace.restart(&turn);
    pass(&clock, ms(900)).await;
    assert!(pace.try_turn(ask(&c), clock.now()).is_none());
    pass(&clock, ms(100)).await;
    assert!(pace.try_turn(ask(&c), clock.now()).is_some());
    // A fetch that waits for no turn counts, too.
    pace.count_robots(&origin("b"));
    assert!(pace.try_turn(ask(&origin("b")), clock.now()).is_none());
}

#[tokio::test(start_paused = true)]
async fn redirects_that_lead_to_an_origin_cannot_shut_it() {
    let clock = Clock::manual(START);
    let pace = Pace::new(&rate(1.0, 1), clock.clone());
    let (a, seen) = (origin("a"), Seen::default());
    for _ in 0..300 {
        pace.count_robots(&a);
    }
    crawl(&pace, &clock, "a", &a, None, &seen);
    pass(&clock, ms(1_010)).await;
    assert_eq!(seen.lock().len(), 1, "one interval for all of them");
    // Nor by coming again and again while a request waits.
    let before = seen.lock().len();
    for _ in 0..50 {
        pace.count_robots(&a);
        pass(&clock, ms(100)).await;
    }
    assert!(seen.lock().len() >= before + 4);
}

#[tokio::test(start_paused = true)]
async fn a_robots_txt_waits_no_longer_than_a_request_may() {
    let clock = Clock::manual(START);
    let config = PaceConfig {
        max_hold: secs(5),
        ..config()
    };
    let pace = Pace::new(&config, clock.clone());
    let a = origin("a");
    let turn = pace.try_turn(ask(&a), clock.now()).expect("a turn");
    pace.answered(&turn, 503, || Some(secs(240)), true);
    let mut robots = pin!(pace.turn_for_robots(&a, None));
    assert!(once(&mut robots).await.is_pending());
    pass(&clock, ms(4_900)).await;
    assert!(once(&mut robots).await.is_pending());
    pass(&clock, ms(200)).await;
    assert!(once(&mut robots).await.is_ready());
}

#[tokio::test(start_paused = true)]
async fn origins_at_one_address_share_its_bounds_where_that_is_asked_for() {
    let address: IpAddr = [192, 0, 2, 1].into();
    for (per_address, least, most) in [(true, 9, 11), (false, 28, 33)] {
        let clock = Clock::manual(START);
        let config = PaceConfig {
            per_address,
            ..rate(1.0, 1)
        };
        let pace = Pace::new(&config, clock.clone());
        let seen = Seen::default();
        for name in ["a", "b", "c"] {
            let (pace, clock, seen) = (pace.clone(), clock.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                let (to, of) = (origin(name), client(name));
                loop {
                    let turn = pace.turn(ask(&to), &of, Some(address)).await;
                    assert!(turn.is_ok());
                    seen.lock().push((clock.now(), name.to_owned()));
                }
            });
        }
        pass(&clock, secs(10)).await;
        let all = moments(&seen);
        assert!(
            (least..=most).contains(&all.len()),
            "{per_address}: {}",
            all.len()
        );
        let mut each: HashMap<String, Vec<Moment>> = HashMap::new();
        for (at, of) in seen.lock().iter() {
            each.entry(of.clone()).or_default().push(*at);
        }
        for (of, seen) in &each {
            is_spaced(seen, secs(1), 1, of);
            assert!(seen.len() >= least / 3, "{of}: {}", seen.len());
        }
        if per_address {
            is_spaced(&all, secs(1), 1, "the address");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_held_for_an_address_goes_on_when_addresses_are_not_limited() {
    let address: IpAddr = [192, 0, 2, 1].into();
    let before = PaceConfig {
        per_address: true,
        ..rate(0.2, 1)
    };
    let quiet = PaceConfig {
        per_address: true,
        ..config()
    };
    for (name, after) in [("not per address", rate(0.2, 1)), ("no bound", quiet)] {
        let clock = Clock::manual(START);
        let pace = Pace::new(&before, clock.clone());
        let (a, of) = (origin("a"), client("a"));
        let turn = || pace.turn(ask(&a), &of, Some(address));
        drop(turn().await.expect("a turn"));
        let mut held = pin!(turn());
        assert!(once(&mut held).await.is_pending(), "{name}");
        pace.reconfigure(&after);
        pass(&clock, ms(5_010)).await;
        assert!(
            matches!(once(&mut held).await, Poll::Ready(Ok(_))),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn fetches_of_robots_txt_keep_the_pace_of_their_address() {
    let address: IpAddr = [192, 0, 2, 1].into();
    for (name, per_address, fetched) in [("per address", true, 3), ("per origin", false, 8)] {
        let clock = Clock::manual(START);
        let config = PaceConfig {
            per_address,
            concurrency: Some(1),
            max_hold: secs(2),
            ..rate(1.0, 1)
        };
        let pace = Pace::new(&config, clock.clone());
        let (page, of) = (origin("page"), client("a"));
        let page = pace.turn(ask(&page), &of, Some(address));
        // In flight all the time: a request that has a turn may be waiting for a robots.txt.
        let (_page, _) = page.await.expect("a turn");
        let seen = Seen::default();
        for n in 0..8 {
            let (pace, clock, seen) = (pace.clone(), clock.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                let to = origin(&format!("o{n}"));
                let _turn = pace.turn_for_robots(&to, Some(address)).await;
                seen.lock().push((clock.now(), String::new()));
            });
        }
        pass(&clock, ms(3_020)).await;
        assert_eq!(seen.lock().len(), fetched, "{name}");
        if per_address {
            is_spaced(&moments(&seen), secs(1), 1, name);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_takes_another_turn_or_is_not_sent() {
    let (a, key) = (origin("a"), client("a"));
    let impatient = |config| PaceConfig {
        max_hold: ms(500),
        ..config
    };
    let delay = crawl_delay("*", secs(2));
    for (name, config, crawl_delay, wait) in [
        ("no bound", config(), None, Some(0)),
        ("the operator's", rate(1.0, 1), None, Some(1)),
        ("a robots.txt's", config(), Some(&delay), Some(2)),
        ("too far away", impatient(rate(1.0, 1)), None, None),
    ] {
        let clock = Clock::manual(START);
        let pace = Pace::new(&config, clock.clone());
        let asking = Ask {
            origin: &a,
            crawl_delay,
        };
        let (turn, _) = pace.turn(asking, &key, None).await.expect("a turn");
        let mut again = pin!(pace.again(&turn));
        let Some(wait) = wait else {
            assert_eq!(once(&mut again).await, Poll::Ready(false), "{name}");
            continue;
        };
        if wait > 0 {
            assert!(once(&mut again).await.is_pending(), "{name}");
            pass(&clock, secs(wait) - ms(5)).await;
            assert!(once(&mut again).await.is_pending(), "{name}");
            pass(&clock, ms(10)).await;
        }
        assert_eq!(once(&mut again).await, Poll::Ready(true), "{name}");
        assert_eq!(
            pace.try_turn(asking, clock.now()).is_none(),
            wait > 0,
            "{name}: it counts"
        );
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
    assert!(
        early(&pace, &name(KEPT)).await.is_some(),
        "the last is remembered"
    );
    // After a while none has.
    clock.advance(secs(60));
    let under_way = pace.try_turn(ask(&name(KEPT)), clock.now());
    for n in 0..KEPT {
        drop(pace.0.origin(&name(n)));
    }
    assert!(kept() <= KEPT);
    assert!(under_way.is_some() && pace.0.origins.limiters.contains_key(&name(KEPT)));
}

#[tokio::test(start_paused = true)]
async fn fetches_are_bounded_in_number_and_rate() {
    let clock = Clock::manual(START);
    let mut config = crate::config::Config::default().robots;
    config.max_fetches = 2;
    let fetches = Fetches::new(&config, clock.clone());
    let first = fetches.begin(None).await;
    let _second = fetches.begin(None).await;
    let mut third = pin!(fetches.begin(None));
    assert!(once(&mut third).await.is_pending());
    drop(first);
    let mut third = match once(&mut third).await {
        Poll::Ready(place) => place,
        Poll::Pending => panic!("a place is free"),
    };
    // A fetch that waits for another one frees its slot meanwhile.
    third
        .outside(async { drop(fetches.begin(None).await) })
        .await;

    config.max_fetches = 100;
    config.fetches_per_second = Some(10.0);
    let fetches = Arc::new(Fetches::new(&config, clock.clone()));
    let begun = Seen::default();
    for _ in 0..30 {
        let (fetches, begun, clock) = (Arc::clone(&fetches), Arc::clone(&begun), clock.clone());
        tokio::spawn(async move {
            let _slot = fetches.begin(None).await;
            begun.lock().push((clock.now(), String::new()));
        });
    }
    pass(&clock, secs(1)).await;
    is_spaced(&moments(&begun), ms(100), 1, "fetches");
    assert!(
        (10..=11).contains(&begun.lock().len()),
        "{}",
        begun.lock().len()
    );
    clock.set(START - secs(3_600));
    pass(&clock, secs(3)).await;
    assert_eq!(
        begun.lock().len(),
        30,
        "a clock set back stops none of them"
    );
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
            let taken = runtime.block_on(pace.turn(asking, &client("a"), None));
            let Ok((turn, _)) = taken else { continue };
            let now = clock.now();
            prop_assert!(until.is_none_or(|until| now >= until), "before its Retry-After");
            match event {
                // Unused: as if the turn had never been taken.
                0 => { turn.give_back(); continue }
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
