//! One pace per origin over three instances.
//!
//! The origin's own times count. A bound on a busy machine is only as sharp as its clock and its threads: requests that
//! were due one after the other may arrive together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{joined, member};
use crate::support::{CrawlgateProcess, Engine, Origin, RULES, Reply, Wall, eventually};

/// The most by which the arrivals of two requests may come nearer than they were sent: on a quiet machine 50 ms, on one
/// that runs other tests as long as a thread may wait.
const SPREAD: Duration = Duration::from_millis(250);

/// The time within which a rest holds at all instances: some 100 ms on a quiet machine.
const STOPPED: Duration = Duration::from_millis(600);

/// Starts three instances of one fleet with these values of `[pace]`.
pub(super) fn fleet(wall: &Wall, pace: &[(&str, &str)]) -> Vec<CrawlgateProcess> {
    let start = |name: &str| {
        joined(|setup| {
            member(setup, wall, name);
            for (key, value) in pace {
                setup.set("pace", key, value);
            }
        })
    };
    ["a1", "a2", "a3"].map(start).into()
}

/// Has crawlers at each instance ask for pages for as long as the span lasts. Returns the times of arrival at the origin.
pub(super) fn crawl(
    gates: &[CrawlgateProcess],
    origin: &Origin,
    crawlers: usize,
    span: Duration,
) -> Vec<Instant> {
    // Each instance has the robots.txt before the measurement.
    for gate in gates {
        let status = gate.get(&origin.url("/first")).status;
        assert!(status == 200 || status == 429, "{status}");
    }
    let before = origin.seen().len();
    let began = Instant::now();
    thread::scope(|scope| {
        for gate in gates {
            for crawler in 0..crawlers {
                scope.spawn(move || {
                    while began.elapsed() < span {
                        gate.get(&origin.url(&format!("/{crawler}")));
                    }
                });
            }
        }
    });
    let seen = origin.seen();
    let times = seen[before..].iter().map(|seen| seen.at);
    times.filter(|at| at.duration_since(began) < span).collect()
}

/// Asserts that no window holds more than the interval and the burst allow.
#[track_caller]
pub(super) fn is_within(times: &[Instant], interval: Duration, burst: usize, name: &str) {
    for (first, start) in times.iter().enumerate() {
        for (count, end) in times[first..].iter().enumerate() {
            let window = end.duration_since(*start);
            let most = (window + SPREAD).as_nanos() / interval.as_nanos();
            let most = usize::try_from(most).unwrap() + burst;
            assert!(count < most, "{name}: {} in {window:?}", count + 1);
        }
    }
}

/// Returns a page that takes this time.
fn slow_page(span: Duration) -> Reply {
    let page = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage";
    Reply::silent().pause(span).send(page)
}

#[test]
fn three_instances_keep_one_rate_and_use_it() {
    let Some(engine) = Engine::start() else {
        return;
    };
    let wall = engine.wall();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("1", "1", 4, 8),
        ("10", "5", 8, 4),
        ("100", "1", 24, 3),
    ];
    for (per_second, burst, crawlers, seconds) in cases {
        let name = format!("{per_second}/s in bursts of {burst}");
        let pace = [("requests_per_second", per_second), ("burst", burst)];
        let gates = fleet(&wall, &pace);
        let origin = Origin::with_rules(RULES);
        let times = crawl(&gates, &origin, crawlers, Duration::from_secs(seconds));
        let rate: f64 = per_second.parse().unwrap();
        let burst: usize = burst.parse().unwrap();
        let used = times.len() as f64 / (rate * seconds as f64);
        println!(
            "{name}: {} requests, {:.0} % of the budget",
            times.len(),
            used * 100.0
        );
        is_within(&times, Duration::from_secs_f64(1.0 / rate), burst, &name);
        // A busy machine lets turns pass.
        assert!(used >= 0.5, "{name}: {used}");
    }
}

#[test]
fn three_instances_keep_one_crawl_delay_for_each_group() {
    let Some(engine) = Engine::start() else {
        return;
    };
    let wall = engine.wall();
    let gates = fleet(&wall, &[("crawl_delay", "\"honour\"")]);
    let rules = "User-agent: slow\nCrawl-delay: 2\n\nUser-agent: *\nCrawl-delay: 0.5\n";
    let origin = Origin::with_rules(rules);
    let began = Instant::now();
    let span = Duration::from_secs(9);
    thread::scope(|scope| {
        for gate in &gates {
            for agent in ["slow/1", "fast/1"] {
                let url = origin.url(&format!("/{agent}"));
                scope.spawn(move || {
                    while began.elapsed() < span {
                        gate.request("GET", &url, &format!("User-Agent: {agent}\r\n"));
                    }
                });
            }
        }
    });
    let seen = origin.seen();
    for (agent, interval) in [("slow", 2.0), ("fast", 0.5)] {
        let of = seen.iter().filter(|seen| seen.line().contains(agent));
        let times: Vec<Instant> = of.map(|seen| seen.at).collect();
        is_within(&times, Duration::from_secs_f64(interval), 1, agent);
        let within = times.iter().filter(|at| at.duration_since(began) < span);
        let used = within.count() as f64 * interval / span.as_secs_f64();
        println!("{agent}: {:.0} % of the budget", used * 100.0);
        // Both identities fetch the robots.txt first, one after the other, and each fetch counts for every group.
        assert!(used >= 0.1, "{agent}: {used}");
    }
}

#[test]
fn three_instances_keep_one_concurrency() {
    let Some(engine) = Engine::start() else {
        return;
    };
    let wall = engine.wall();
    let gates = fleet(&wall, &[("concurrency", "2")]);
    let took = Duration::from_millis(200);
    let origin = Origin::with_rules(RULES)
        .on("/0", [slow_page(took)])
        .on("/1", [slow_page(took)]);
    let span = Duration::from_secs(5);
    let times = crawl(&gates, &origin, 2, span);
    // Of any three requests in a row, the first has been answered before the third comes.
    for three in times.windows(3) {
        let apart = three[2].duration_since(three[0]);
        assert!(apart + SPREAD >= took, "{apart:?}");
    }
    let used = times.len() as f64 * took.as_secs_f64() / (2.0 * span.as_secs_f64());
    println!(
        "concurrency 2: {} requests, {:.0} % of the budget",
        times.len(),
        used * 100.0
    );
    assert!(used >= 0.5, "{used}");
}

#[test]
fn a_retry_after_at_one_instance_stops_all() {
    let Some(engine) = Engine::start() else {
        return;
    };
    let wall = engine.wall();
    for pace in [&[][..], &[("requests_per_second", "50")][..]] {
        let gates = fleet(&wall, pace);
        let refusal = Reply::with(429, "Retry-After: 5\r\n", "");
        let origin = Origin::with_rules(RULES).on("/refused", [refusal]);
        let is_over = AtomicBool::new(false);
        let refused = thread::scope(|scope| {
            for gate in &gates {
                let (origin, is_over) = (&origin, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Acquire) {
                        gate.get(&origin.url("/page"));
                    }
                });
            }
            eventually("all to crawl", || (origin.seen().len() > 60).then_some(()));
            assert_eq!(gates[0].get(&origin.url("/refused")).status, 429);
            let refused = Instant::now();
            // The rest has to be over before requests come again.
            eventually("the crawl to go on", || {
                let seen = origin.seen();
                let last = seen.last().map(|seen| seen.at);
                let has_gone_on = last.is_some_and(|last| last > refused + Duration::from_secs(2));
                has_gone_on.then_some(())
            });
            is_over.store(true, Ordering::Release);
            refused
        });
        let seen = origin.seen();
        let later = seen
            .iter()
            .filter_map(|seen| seen.at.checked_duration_since(refused));
        let later: Vec<Duration> = later.collect();
        let last = later
            .iter()
            .filter(|at| **at < Duration::from_secs(4))
            .max();
        println!("the last request came {last:?} after the answer");
        assert!(last.is_none_or(|last| *last <= STOPPED), "{last:?}");
        let next = later.iter().find(|at| **at > STOPPED).unwrap();
        assert!(*next >= Duration::from_millis(4_900), "{next:?}");
    }
}
