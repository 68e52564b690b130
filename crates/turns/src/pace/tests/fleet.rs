//! The turns of several instances on one engine.

use super::*;
use crate::fleet::coordinator::Call;
use crate::fleet::in_memory::InMemoryEngine;
use crate::fleet::{FleetKey, HeartbeatListener, HeartbeatReply};
use crawlgate_config::Config;

/// Instances of a fleet, in one process.
struct Lab {
    clock: Clock,
    world: Arc<InMemoryEngine>,
    paces: Vec<Pace>,
}

/// Takes over nothing.
struct Nothing;

impl HeartbeatListener for Nothing {
    fn on_heartbeat<'a>(&'a self, _: &'a HeartbeatReply) -> Call<'a, u64> {
        Box::pin(async { Ok(0) })
    }

    fn cut_off(&self) {}
}

impl Lab {
    /// Starts this many instances on an engine that began long ago.
    async fn start(config: &PaceConfig, instances: usize) -> Lab {
        let clock = Clock::manual(START);
        let world = InMemoryEngine::new(clock.clone());
        clock.advance(secs(3_600));
        let mut lab = Lab { clock, world, paces: Vec::new() };
        for number in 0..instances {
            lab.join(config, &format!("a{number}"));
        }
        settle().await;
        lab
    }

    fn join(&mut self, config: &PaceConfig, name: &str) {
        let fleet = Fleet::new(
            &Config::default().fleet,
            name,
            FleetKey::of(&[7; 32]),
            self.world.coordinator(),
            self.clock.clone(),
        );
        let fleet = Arc::new(fleet);
        let pace = Pace::in_fleet(config, Some(&fleet), self.clock.clone());
        tokio::spawn(fleet.run(pace.following(Arc::new(Nothing))));
        self.paces.push(pace);
    }

    /// Waits for a turn, for as long as another request may have one before it.
    async fn turn(&self, pace: &Pace) -> Turn {
        let (site, key) = (origin("shared"), client("c"));
        let mut turn = std::pin::pin!(take(pace, ask(&site), &key, None));
        loop {
            for _ in 0..2 {
                if let Poll::Ready(turn) = once(&mut turn.as_mut()).await {
                    return turn.expect("a turn").0;
                }
                settle().await;
            }
            pass(&self.clock, ms(5)).await;
        }
    }

    /// Has `crawlers` at each instance send requests for this time; returns the moments at which they went.
    async fn crawl(
        &self,
        crawlers: usize,
        delay: Option<&Arc<CrawlDelay>>,
        span: Duration,
    ) -> Vec<Moment> {
        let seen = Seen::default();
        for pace in &self.paces {
            for crawler in 0..crawlers {
                let of = format!("c{crawler}");
                crawl(pace, &self.clock, &of, &origin("shared"), delay.cloned(), &seen);
            }
        }
        pass(&self.clock, span).await;
        moments(&seen)
    }
}

#[tokio::test(start_paused = true)]
async fn instances_keep_one_rate_together_and_use_all_of_it() {
    #[rustfmt::skip] // one row, one case
    let cases: &[(f64, u32, usize, usize, u64)] = &[
        // requests per second, burst, instances, crawlers at each, seconds
        (1.0, 1, 3, 1, 60),
        (1.0, 1, 3, 20, 30),
        (1.0, 3, 3, 4, 40),
        (0.5, 1, 5, 2, 60),
        (10.0, 5, 3, 8, 12),
        (10.0, 1, 3, 1, 10),
        (100.0, 1, 3, 60, 4),
    ];
    for (per_second, burst, instances, crawlers, span) in cases {
        let name = format!("{per_second}/s in bursts of {burst}, {instances} × {crawlers}");
        let config = PaceConfig { max_hold: secs(30), ..rate(*per_second, *burst) };
        let lab = Lab::start(&config, *instances).await;
        let seen = lab.crawl(*crawlers, None, secs(*span)).await;
        // Turns are handed out within one step of the test's clock.
        let interval = Duration::from_secs_f64(1.0 / per_second);
        for (first, start) in seen.iter().enumerate() {
            for (count, end) in seen[first..].iter().enumerate() {
                let most = (end.since(*start) + ms(10)).as_micros() / interval.as_micros();
                let most = usize::try_from(most).unwrap() + usize::try_from(*burst).unwrap();
                assert!(count < most, "{name}: {} in {:?}", count + 1, end.since(*start));
            }
        }
        let budget = per_second * *span as f64;
        let used = seen.len() as f64 / budget;
        assert!(used > 0.95, "{name}: {used:.3} of the budget");
    }
}

#[tokio::test(start_paused = true)]
async fn instances_keep_the_interval_of_each_group_together() {
    let config = PaceConfig { max_hold: secs(30), ..config() };
    let lab = Lab::start(&config, 3).await;
    let (slow, fast) = (crawl_delay("slow", secs(5)), crawl_delay("fast", secs(2)));
    let seen_by = |delay: &Arc<CrawlDelay>| {
        let seen = Seen::default();
        for pace in &lab.paces {
            let delay = Some(Arc::clone(delay));
            crawl(pace, &lab.clock, "c", &origin("shared"), delay, &seen);
        }
        seen
    };
    let (slow, fast) = (seen_by(&slow), seen_by(&fast));
    pass(&lab.clock, secs(60)).await;
    is_spaced(&moments(&slow), secs(5) - ms(10), 1, "slow");
    is_spaced(&moments(&fast), secs(2) - ms(10), 1, "fast");
    let counts = (moments(&slow).len(), moments(&fast).len());
    assert!(counts.0 >= 12 && counts.1 >= 29, "{counts:?}");
    // A robots.txt counts for every group, at every instance.
    let robots = lab.paces[0].turn_for_robots(&origin("shared"), None).await;
    let at = lab.clock.now();
    let before = moments(&fast).len();
    pass(&lab.clock, secs(10)).await;
    let next = moments(&fast).get(before).map(|next| next.since(at));
    assert!(next >= Some(secs(2) - ms(10)), "{next:?}");
    drop(robots);
}

#[tokio::test(start_paused = true)]
async fn trouble_at_one_instance_stops_all_and_passes() {
    for config in [config(), rate(20.0, 1)] {
        let lab = Lab::start(&config, 3).await;
        let site = origin("shared");
        for pace in &lab.paces {
            let turn = lab.turn(pace).await;
            pace.answered(&turn, 200, || None, true);
        }
        settle().await;
        if config.requests_per_second.is_none() {
            let free = lab.paces[1].try_turn(ask(&site), lab.clock.now());
            assert!(free.is_some(), "nothing bounds the origin: no question");
        }
        let seen = Seen::default();
        for pace in &lab.paces {
            // Slow enough that the origin answers in between.
            let (pace, clock, seen, site) =
                (pace.clone(), lab.clock.clone(), Arc::clone(&seen), site.clone());
            tokio::spawn(async move {
                loop {
                    let asked = take(&pace, ask(&site), &client("c"), None).await;
                    let at = clock.now();
                    if let Ok((turn, _)) = asked {
                        seen.lock().push((at, "c".to_owned()));
                        sleep(ms(20)).await;
                        pace.answered(&turn, 200, || None, true);
                    } else {
                        sleep(ms(50)).await;
                    }
                }
            });
        }
        pass(&lab.clock, secs(2)).await;
        let before = seen.lock().len();
        assert!(before > 10, "{before}");
        let turn = lab.turn(&lab.paces[0]).await;
        let refused = lab.clock.now();
        lab.paces[0].answered(&turn, 429, || Some(secs(20)), true);
        drop(turn);
        pass(&lab.clock, secs(19)).await;
        let last = moments(&seen).last().copied().unwrap();
        assert!(last.since(refused) <= ms(200), "{:?}", last.since(refused));
        pass(&lab.clock, secs(30)).await;
        let after: Vec<Moment> =
            moments(&seen).into_iter().filter(|at| at.since(refused) > secs(1)).collect();
        assert!(after[0].since(refused) >= secs(20) - ms(10), "{:?}", after[0].since(refused));
        assert!(after.len() > 20, "it passes: {}", after.len());
        if config.requests_per_second.is_none() {
            let free = lab.paces[2].try_turn(ask(&site), lab.clock.now());
            assert!(free.is_some(), "the origin is calm again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn instances_keep_one_concurrency_together() {
    let config = PaceConfig { concurrency: Some(2), max_hold: secs(60), ..config() };
    let lab = Lab::start(&config, 3).await;
    let under_way = Arc::new(AtomicUsize::new(0));
    let (most, sent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for number in 0..12 {
        let pace = lab.paces[number % 3].clone();
        let (under_way, most, sent) =
            (Arc::clone(&under_way), Arc::clone(&most), Arc::clone(&sent));
        tokio::spawn(async move {
            loop {
                let turn = take(&pace, ask(&origin("shared")), &client("c"), None).await;
                let Ok((turn, _)) = turn else { continue };
                most.fetch_max(under_way.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
                // Longer than a slot lives without being renewed.
                sleep(if sent.fetch_add(1, Ordering::AcqRel) == 0 { secs(40) } else { ms(500) })
                    .await;
                under_way.fetch_sub(1, Ordering::AcqRel);
                drop(turn);
            }
        });
    }
    pass(&lab.clock, secs(60)).await;
    assert_eq!(most.load(Ordering::Acquire), 2);
    let sent = sent.load(Ordering::Acquire);
    // One slot for 40 s, and half a second each for the others.
    assert!(sent >= 110, "{sent} of 160");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_forgets_lets_no_request_go_early() {
    let config = PaceConfig { max_hold: secs(60), ..rate(0.1, 1) };
    let lab = Lab::start(&config, 3).await;
    let seen = Seen::default();
    for pace in &lab.paces {
        crawl(pace, &lab.clock, "c", &origin("shared"), None, &seen);
    }
    for _ in 0..6 {
        pass(&lab.clock, secs(47)).await;
        lab.world.forget();
    }
    let seen = moments(&seen);
    is_spaced(&seen, secs(10) - ms(10), 1, "forgetting");
    assert!(seen.len() >= 20, "{}", seen.len());
}

#[tokio::test(start_paused = true)]
async fn a_gap_outlives_the_engine_that_knew_it() {
    let lab = Lab::start(&config(), 2).await;
    let turn = lab.turn(&lab.paces[0]).await;
    lab.paces[0].answered(&turn, 503, || None, true);
    drop(turn);
    // The other hears of the gap with its turn.
    drop(lab.turn(&lab.paces[1]).await);
    let under_way = lab.turn(&lab.paces[1]).await;
    lab.world.forget();
    pass(&lab.clock, ms(150)).await;
    // Sent before the loss: the engine knows no gap that this answer halves.
    lab.paces[1].answered(&under_way, 200, || None, true);
    let mut times = Vec::new();
    for pace in [0, 1, 0, 1].map(|at| &lab.paces[at]) {
        drop(lab.turn(pace).await);
        times.push(lab.clock.now());
    }
    is_spaced(&times, secs(1) - ms(10), 1, "after the loss");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_given_back_goes_to_another_instance() {
    let lab = Lab::start(&rate(0.01, 1), 2).await;
    let (site, key) = (origin("shared"), client("c"));
    let (turn, _) = take(&lab.paces[0], ask(&site), &key, None).await.expect("a turn");
    lab.paces[0].give_back(turn);
    settle().await;
    let (turn, pace) = take(&lab.paces[1], ask(&site), &key, None).await.expect("a turn");
    assert_eq!(pace, None, "it was not held");
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_wait_too_long_hears_when_to_come_again() {
    let config = PaceConfig { max_hold: secs(5), ..rate(0.1, 1) };
    let lab = Lab::start(&config, 2).await;
    let (site, key) = (origin("shared"), client("c"));
    drop(lab.turn(&lab.paces[0]).await);
    let early = take(&lab.paces[1], ask(&site), &key, None).await.map(drop).expect_err("too early");
    assert_eq!(early.at, lab.clock.now() + secs(10));
    assert_eq!(early.pace.source, Source::Own);
    pass(&lab.clock, secs(6)).await;
    let waits = take(&lab.paces[1], ask(&site), &key, None);
    let (waited, ()) = tokio::join!(waits, pass(&lab.clock, secs(5)));
    let (_, pace) = waited.expect("within its hold");
    assert_eq!(pace.map(|pace| pace.source), Some(Source::Own), "it was held");
}
