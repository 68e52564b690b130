//! Requests that are too early wait in a fair order, and one that leaves takes no turn.

use std::pin::pin;

use super::*;
use crate::pace::limiter::GRACE;
use crate::pace::wait::SOON;

#[tokio::test(start_paused = true)]
async fn a_flood_delays_no_other_clients_requests() {
    let clock = Clock::manual(START);
    let config = PaceConfig { max_held: 500, ..rate(1.0, 1) };
    let pace = Pace::new(&config, clock.clone());
    let (a, b) = (origin("a"), origin("b"));
    let (at_a, at_b) = (Seen::default(), Seen::default());
    for _ in 0..300 {
        crawl(&pace, &clock, "flood", &a, None, &at_a);
    }
    settle().await;
    assert_eq!(pace.held(), 250, "half of what may be held is one client's share");
    crawl(&pace, &clock, "other", &a, None, &at_a);
    crawl(&pace, &clock, "other", &b, None, &at_b);
    pass(&clock, secs(20)).await;
    let others = at_a.lock().iter().filter(|(_, of)| of == "other").count();
    assert!((9..=10).contains(&others), "every second turn: {others}");
    assert!(at_a.lock().len() >= 20);
    assert!((20..=21).contains(&at_b.lock().len()), "{}", at_b.lock().len());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_wait_too_long_learns_at_once_when_to_retry() {
    let clock = Clock::manual(START);
    let config = PaceConfig { max_hold: ms(2_500), ..rate(1.0, 1) };
    let pace = Pace::new(&config, clock.clone());
    let (a, seen) = (origin("a"), Seen::default());
    assert_eq!(early(&pace, &a).await, None);
    let key = client("a");
    let mut first = Box::pin(turn(&pace, ask(&a), &key));
    let mut second = Box::pin(turn(&pace, ask(&a), &key));
    assert!(once(&mut first.as_mut()).await.is_pending());
    assert!(once(&mut second.as_mut()).await.is_pending());
    let own = EffectivePace::plain(secs(1), Source::Own);
    let too_early = |at| TooEarly { at: START + ms(at), pace: own };
    assert_eq!(turn(&pace, ask(&a), &key).await, Err(too_early(3_000)));
    // Another client's next turn comes between them, not after them.
    crawl(&pace, &clock, "b", &a, None, &seen);
    pass(&clock, ms(2_600)).await;
    assert!(once(&mut first.as_mut()).await.is_ready());
    // The other client took the second's turn: the second was held for the longest hold.
    assert!(matches!(once(&mut second.as_mut()).await, Poll::Ready(Err(_))));
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
        let mut gone: Vec<_> = (0..5).map(|_| Box::pin(turn(&pace, ask(&a), &key))).collect();
        for waiting in &mut gone {
            assert!(once(&mut waiting.as_mut()).await.is_pending());
        }
        assert_eq!(pace.held(), 5);
    }
    assert_eq!(pace.held(), 0);
    let mut stays = pin!(turn(&pace, ask(&a), &key));
    assert!(once(&mut stays).await.is_pending());
    pass(&clock, secs(1)).await;
    assert!(once(&mut stays).await.is_ready(), "no request is before it any more");
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
    let take = || take(&pace, ask(&a), &KEY, None);
    static KEY: ClientKey = ClientKey::At(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));
    let (first, _) = take().await.expect("a turn");
    let (second, _) = take().await.expect("a turn");
    pace.give_back(first);
    assert!(take().await.is_err(), "the second has come after it");
    pace.give_back(second);
    assert!(take().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_stay_within_the_concurrency() {
    let clock = Clock::manual(START);
    let config = PaceConfig { concurrency: Some(2), max_hold: secs(10), ..config() };
    let pace = Pace::new(&config, clock.clone());
    let (a, key) = (origin("a"), client("a"));
    let (first, _) = take(&pace, ask(&a), &key, None).await.expect("a turn");
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
    assert_eq!(once(&mut fourth).await, Poll::Ready(Err(TooEarly { at: again, pace: by })));
    drop((second, third));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_takes_another_turn_or_is_not_sent() {
    let (a, key) = (origin("a"), client("a"));
    let impatient = |config| PaceConfig { max_hold: ms(500), ..config };
    let delay = crawl_delay("*", secs(2));
    for (name, config, crawl_delay, wait) in [
        ("no bound", config(), None, Some(0)),
        ("the operator's", rate(1.0, 1), None, Some(1)),
        ("a robots.txt's", config(), Some(&delay), Some(2)),
        ("too far away", impatient(rate(1.0, 1)), None, None),
    ] {
        let clock = Clock::manual(START);
        let pace = Pace::new(&config, clock.clone());
        let asking = Ask { origin: &a, crawl_delay };
        let (turn, _) = take(&pace, asking, &key, None).await.expect("a turn");
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
        assert_eq!(pace.try_turn(asking, clock.now()).is_none(), wait > 0, "{name}: it counts");
    }
}
