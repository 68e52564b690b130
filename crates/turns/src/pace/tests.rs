//! The promises of the pace, each in a file: rate, queue, robots.txt, back-off, address, fleet.

mod address;
mod differential;
mod fleet;
mod queue;
mod rate;
mod robots;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::*;
use crate::client::ClientKey;
use crawlgate_robots::Field;
use crawlgate_system::clock::Moment;

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
        crawl_delay: CrawlDelayMode::Honour,
        max_hold: secs(3_600),
        ..crawlgate_config::Config::default().pace
    }
}

fn rate(requests_per_second: f64, burst: u32) -> PaceConfig {
    PaceConfig { requests_per_second: Some(requests_per_second), burst, ..config() }
}

/// Without holds: each request has its turn now or is too early.
fn impatient(config: PaceConfig) -> (Pace, Clock) {
    let clock = Clock::manual(START);
    let config = PaceConfig { max_hold: Duration::ZERO, ..config };
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
    Arc::new(CrawlDelay { interval, field: Field::CrawlDelay, line: 2, group: group.into() })
}

fn ask(origin: &Origin) -> Ask<'_> {
    Ask { origin, crawl_delay: None }
}

/// Waits for the turn of a request, and ends the request.
async fn turn(
    pace: &Pace,
    ask: Ask<'_>,
    of: &ClientKey,
) -> Result<Option<EffectivePace>, TooEarly> {
    take(pace, ask, of, None).await.map(|(_, pace)| pace)
}

/// Waits for a turn.
async fn take(
    pace: &Pace,
    ask: Ask<'_>,
    of: &ClientKey,
    address: Option<IpAddr>,
) -> Result<(Turn, Option<EffectivePace>), TooEarly> {
    pace.turn(ask, of, address, &mut None).await
}

/// Asserts the promises of any implementation, at a second from one request to the next and no hold.
async fn keeps_its_promises<P: SharedPace>(pace: &P, clock: &Clock) {
    let (a, key) = (origin("shared"), client("a"));
    let reserve = async || pace.turn(ask(&a), &key, None, &mut None).await;
    let first = pace.try_turn(ask(&a), clock.now()).expect("the first turn");
    assert!(pace.try_turn(ask(&a), clock.now()).is_none());
    let early = reserve().await.map(drop).expect_err("it is too early");
    assert_eq!(early.at, clock.now() + secs(1));
    pace.give_back(first);
    let (used, _) = reserve().await.expect("the first was given back");
    drop(used);
    assert!(reserve().await.is_err(), "a used turn counts");
    clock.advance(secs(1));
    let (probe, _) = reserve().await.expect("the next turn");
    pace.answered(&probe, 429, || Some(secs(60)), true);
    drop(probe);
    clock.advance(secs(59));
    assert!(reserve().await.is_err(), "the origin wants to rest");
    clock.advance(secs(1));
    let (fine, _) = reserve().await.expect("it has rested");
    pace.failed(&fine);
    drop(fine);
    // A robots.txt counts, whether it waits for its turn or not.
    let b = origin("robots");
    drop(pace.turn_for_robots(&b, None).await.expect("a turn"));
    assert!(pace.try_turn(ask(&b), clock.now()).is_none());
    let c = origin("redirected");
    pace.count_robots(&c);
    assert!(pace.try_turn(ask(&c), clock.now()).is_none());
}

#[tokio::test(start_paused = true)]
async fn one_process_keeps_what_a_fleet_would_share() {
    let (pace, clock) = impatient(rate(1.0, 1));
    keeps_its_promises(&pace, &clock).await;
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
            let ask = Ask { origin: &to, crawl_delay: crawl_delay.as_ref() };
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
            assert!(count < earned, "{name}: {} in {:?}", count + 1, end.since(*start));
        }
    }
}

fn moments(seen: &Seen) -> Vec<Moment> {
    seen.lock().iter().map(|(at, _)| *at).collect()
}
