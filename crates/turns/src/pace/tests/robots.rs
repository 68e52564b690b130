//! A fetch of robots.txt goes first, counts, and waits no longer than a request may.

use std::pin::pin;

use super::*;

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
    let config = PaceConfig { max_hold: secs(5), ..config() };
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
async fn fetches_are_bounded_in_number_and_rate() {
    let clock = Clock::manual(START);
    let mut config = crawlgate_config::Config::default().robots;
    config.max_fetches = 2;
    let fetches = Fetches::new(&config, clock.clone());
    let begin = || fetches.enter(None).expect("few wait").begin(None);
    let first = begin().await;
    let _second = begin().await;
    let mut third = pin!(begin());
    assert!(once(&mut third).await.is_pending());
    drop(first);
    let mut third = match once(&mut third).await {
        Poll::Ready(place) => place,
        Poll::Pending => panic!("a place is free"),
    };
    // A fetch that waits for another one frees its slot meanwhile.
    third.outside(async { drop(begin().await) }).await;

    config.max_fetches = 100;
    config.fetches_per_second = Some(10.0);
    let fetches = Arc::new(Fetches::new(&config, clock.clone()));
    let begun = Seen::default();
    for _ in 0..30 {
        let (fetches, begun, clock) = (Arc::clone(&fetches), Arc::clone(&begun), clock.clone());
        tokio::spawn(async move {
            let waiting = fetches.enter(None).expect("few wait");
            let _slot = waiting.begin(None).await;
            begun.lock().push((clock.now(), String::new()));
        });
    }
    pass(&clock, secs(1)).await;
    is_spaced(&moments(&begun), ms(100), 1, "fetches");
    assert!((10..=11).contains(&begun.lock().len()), "{}", begun.lock().len());
    clock.set(START - secs(3_600));
    pass(&clock, secs(3)).await;
    assert_eq!(begun.lock().len(), 30, "a clock set back stops none of them");
}

#[tokio::test]
async fn fetches_that_wait_are_bounded_in_all_and_for_each_client() {
    let mut config = crawlgate_config::Config::default().robots;
    config.max_fetches = 2;
    let fetches = Fetches::new(&config, Clock::manual(START));
    let [a, b, c] = ["a", "b", "c"].map(client);
    let mut waiting = Vec::new();
    // One client has half of the eight places.
    for (of, places) in [(&a, 4), (&b, 4), (&c, 0)] {
        let before = waiting.len();
        waiting.extend(std::iter::from_fn(|| fetches.enter(Some(of))).take(9));
        assert_eq!(waiting.len() - before, places, "{of:?}");
    }
    assert!(fetches.enter(None).is_none());
    waiting.pop();
    // A fetch that has begun waits no longer, even if its request has gone.
    let place = fetches.enter(Some(&c)).expect("one has left").begin(None);
    let _begun = place.await;
    let again = fetches.enter(Some(&c));
    assert!(again.is_some() && fetches.enter(Some(&c)).is_none());
    drop((waiting, again));
    let free = std::iter::from_fn(|| fetches.enter(Some(&a))).take(9);
    assert_eq!(free.collect::<Vec<_>>().len(), 4, "all places are free again");
}

#[tokio::test]
async fn slots_for_fetches_go_to_the_clients_that_wait_in_rounds() {
    let mut config = crawlgate_config::Config::default().robots;
    config.max_fetches = 4;
    let fetches = Fetches::new(&config, Clock::manual(START));
    let [flood, other] = ["flood", "other"].map(client);
    let begin = |of: &ClientKey| {
        let waiting = fetches.enter(Some(of)).expect("few wait");
        Box::pin(waiting.begin(None))
    };
    let mut begun = Vec::new();
    for _ in 0..4 {
        begun.push(begin(&flood).await);
    }
    let mut floods: Vec<_> = (0..6).map(|_| begin(&flood)).collect();
    for waiting in &mut floods {
        assert!(once(&mut waiting.as_mut()).await.is_pending());
    }
    let mut others = begin(&other);
    assert!(once(&mut others.as_mut()).await.is_pending());
    // A fetch that is dropped while it waits takes no slot.
    drop(floods.remove(1));
    let mut next = Vec::new();
    for (waiting, case) in [
        (&mut floods[0], "the flood's first"),
        (&mut others, "the other client's, behind one of the flood"),
    ] {
        begun.pop();
        match once(&mut waiting.as_mut()).await {
            Poll::Ready(place) => next.push(place),
            Poll::Pending => panic!("{case}"),
        }
    }
    begun.pop();
    assert!(once(&mut floods[1].as_mut()).await.is_ready());
}
