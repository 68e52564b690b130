//! The one fetch that all requests to an origin wait for.

use tokio::sync::Barrier;

use super::*;
use crawlgate_origins::identity::OWN;

#[tokio::test]
async fn a_thousand_first_requests_wait_for_one_fetch() {
    let lab = Harness::new();
    let a = origin("a");
    let mut views: Vec<_> = (0..1000).map(|_| Box::pin(lab.stance(&a))).collect();
    for view in &mut views {
        assert!(poll(view).is_pending());
    }
    lab.end(file(1));
    for view in views {
        assert_eq!(file_of(&view.await), Some(1));
    }
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_first_requests_on_four_threads_cause_one_fetch() {
    let lab = Arc::new(Harness::new());
    lab.end(file(1));
    let start = Arc::new(Barrier::new(1000));
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let (lab, start) = (Arc::clone(&lab), Arc::clone(&start));
        requests.spawn(async move {
            start.wait().await;
            file_of(&lab.stance(&origin("a")).await)
        });
    }
    let seen = requests.join_all().await;
    assert!(seen.iter().all(|file| *file == Some(1)));
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test]
async fn each_origin_is_fetched_by_itself() {
    let lab = Harness::new();
    let (a, b) = (origin("a"), origin("b"));
    let tokens = [token("ExampleBot")];
    lab.end(file(1));
    lab.end(down());
    assert_eq!(file_of(&lab.stance(&a).await), Some(1));
    let view = lab.cache.view(&b, Crawler::named(&tokens)).await;
    assert!(matches!(view.stance, Stance::DisallowAll { .. }));
    let fetches = lab.fetches.lock();
    let asked: Vec<_> = fetches.iter().map(|(o, agent, _)| (o, &**agent)).collect();
    let named = format!("ExampleBot {OWN}");
    assert_eq!(asked, [(&a, OWN), (&b, &*named)]);
}

#[tokio::test]
async fn a_crawler_that_hangs_up_cancels_nothing() {
    let lab = Harness::new();
    let a = origin("a");
    let mut first = Box::pin(lab.stance(&a));
    assert!(poll(&mut first).is_pending());
    drop(first);
    let mut second = Box::pin(lab.stance(&a));
    assert!(poll(&mut second).is_pending());
    lab.end(file(1));
    assert_eq!(file_of(&second.await), Some(1));
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test]
async fn a_fetch_that_panics_wakes_all_and_is_tried_again() {
    let lab = Harness::new();
    let a = origin("a");
    let mut views: Vec<_> = (0..3).map(|_| Box::pin(lab.stance(&a))).collect();
    for view in &mut views {
        assert!(poll(view).is_pending());
    }
    lab.ends.send(End::InPanic).expect("the cache lives");
    for view in views {
        let stance = view.await;
        let is_internal = matches!(stance, Stance::DisallowAll { cause: Cause::Internal, .. });
        assert!(is_internal, "{stance:?}");
    }
    lab.clock.advance(Duration::from_secs(5));
    lab.end(file(1));
    assert_eq!(file_of(&lab.stance(&a).await), Some(1));
    assert_eq!(lab.fetches(), 2);
}

#[test]
fn a_fetch_that_is_dropped_with_its_runtime_lands() {
    let lab = Harness::new();
    let a = origin("a");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        assert!(poll(&mut Box::pin(lab.stance(&a))).is_pending());
        lab.until(|lab| lab.fetches() == 1).await;
    });
    drop(runtime);
    let state = lab.known(&a).expect("the origin is known");
    let cause = state.outage().map(|outage| outage.cause.clone());
    assert_eq!(cause, Some(Cause::Internal));
}

#[tokio::test]
async fn a_fetch_that_outlasts_the_hold_leaves_nothing_known_and_goes_on() {
    let lab = Harness::with(|config| config.hold = Duration::ZERO);
    let a = origin("a");
    let view = lab.cache.view(&a, Crawler::default()).await;
    assert!(matches!(view.stance, Stance::Unknown));
    assert!(matches!(*view.state, State::NeverFetched));
    lab.end(file(1));
    let is_known = |lab: &Harness| {
        lab.cache.known(&a, Crawler::default()).is_some_and(|s| s.snapshot().is_some())
    };
    lab.until(is_known).await;
    assert_eq!(file_of(&lab.stance(&a).await), Some(1));
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test]
async fn a_refresh_ahead_runs_once_and_in_the_background() {
    let lab = Harness::new();
    let a = origin("a");
    lab.learn(&a).await;
    lab.clock.advance(DAY.mul_f64(0.9));
    for _ in 0..3 {
        let Poll::Ready(stance) = poll(&mut Box::pin(lab.stance(&a))) else {
            panic!("a request waits for a refresh");
        };
        assert_eq!(file_of(&stance), Some(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(lab.fetches(), 2);
    lab.end(file(2));
    let is_new = |lab: &Harness| {
        let state = lab.known(&a).expect("the origin is known");
        state.snapshot().is_some_and(|snapshot| snapshot.status == 2)
    };
    lab.until(is_new).await;
    assert_eq!(lab.fetches(), 2);
}

#[tokio::test]
async fn a_refresh_that_outlives_the_copy_is_waited_for() {
    let lab = Harness::new();
    let a = origin("a");
    lab.learn(&a).await;
    lab.clock.advance(DAY.mul_f64(0.9));
    lab.stance(&a).await;
    lab.clock.advance(DAY.mul_f64(0.1));
    let mut view = Box::pin(lab.stance(&a));
    assert!(poll(&mut view).is_pending());
    lab.end(file(2));
    assert_eq!(file_of(&view.await), Some(2));
    assert_eq!(lab.fetches(), 2);
}

#[tokio::test]
async fn an_outage_is_answered_at_once_until_its_next_attempt() {
    let lab = Harness::new();
    let a = origin("a");
    lab.end(down());
    lab.stance(&a).await;
    for _ in 0..2 {
        let found = poll(&mut Box::pin(lab.stance(&a)));
        assert!(matches!(found, Poll::Ready(Stance::DisallowAll { .. })));
    }
    assert_eq!(lab.fetches(), 1);
    lab.clock.advance(Duration::from_secs(5));
    let mut view = Box::pin(lab.stance(&a));
    assert!(poll(&mut view).is_pending());
    lab.end(AccessResult::Unavailable { why: Absence::Status(404), freshness: Freshness::Unsaid });
    assert!(matches!(view.await, Stance::AllowAll));
    assert_eq!(lab.fetches(), 2);
}

#[tokio::test]
async fn a_thousand_requests_that_doubt_one_state_wait_for_one_fetch() {
    let lab = Harness::new();
    let a = origin("a");
    lab.end(down());
    let seen = lab.cache.view(&a, Crawler::default()).await.state;
    let mut views: Vec<_> = (0..1000)
        .map(|_| Box::pin(lab.cache.revalidate(&a, &seen, Crawler::default(), None)))
        .collect();
    for view in &mut views {
        assert!(poll(view).is_pending());
    }
    lab.end(file(1));
    for view in views {
        assert_eq!(file_of(&view.await.stance), Some(1));
    }
    // A request that comes later has seen an outdated state.
    let late = lab.cache.revalidate(&a, &seen, Crawler::default(), None).await;
    assert_eq!(file_of(&late.stance), Some(1));
    assert_eq!(lab.fetches(), 2);
}
