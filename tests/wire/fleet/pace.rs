//! One pace per origin over three instances.
//!
//! The origin's own times count. A bound on a busy machine is only as sharp as its threads: requests that were due one
//! after the other may arrive together. So the promised bounds are asserted as they are only where `CRAWLGATE_QUIET` says that
//! the machine is quiet. With a clock in hand, `pace::tests::fleet` holds them at any time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::chaos::request;
use super::{Ends, engine_and_link, instance};
use crate::support::{
    CrawlgateProcess, Engine, EngineLink, Origin, RULES, Reply, eventually, wait_until,
};

/// The most by which the arrivals of two requests may come nearer than they were sent: as promised, and on a machine that
/// runs other tests.
const PROMISED: Duration = Duration::from_millis(50);
const SPREAD: Duration = Duration::from_millis(500);

/// The time within which a rest holds at all instances, likewise.
const STOPPED: Duration = Duration::from_millis(200);
const STOPPED_BUSY: Duration = Duration::from_millis(1_500);

/// The part of a budget that is used, likewise.
const USED: f64 = 0.95;
const USED_BUSY: f64 = 0.2;

/// Returns a bound as promised where the machine is said to be quiet, and the other one elsewhere.
pub(super) fn bound<T>(promised: T, busy: T) -> T {
    match std::env::var_os("CRAWLGATE_QUIET").is_some() {
        true => promised,
        false => busy,
    }
}

/// Starts three instances of one fleet with these values of `[pace]`.
pub(super) fn fleet(link: &EngineLink, pace: &[(&str, &str)]) -> Vec<CrawlgateProcess> {
    let start = |name: &str| {
        instance(link, name, |setup| {
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
    is_within_by(times, interval, burst, SPREAD, name);
}

/// Asserts so with this spread of arrivals.
#[track_caller]
fn is_within_by(times: &[Instant], interval: Duration, burst: usize, spread: Duration, name: &str) {
    for (first, start) in times.iter().enumerate() {
        for (count, end) in times[first..].iter().enumerate() {
            let window = end.duration_since(*start);
            let most = (window + spread).as_nanos() / interval.as_nanos();
            let most = usize::try_from(most).unwrap() + burst;
            assert!(count < most, "{name}: {} in {window:?}, by {spread:?}", count + 1);
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
    let (_engine, link) = or_skip!(engine_and_link());
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("1", "1", 4, 8),
        ("10", "5", 8, 4),
        ("100", "1", 24, 3),
    ];
    for (per_second, burst, crawlers, seconds) in cases {
        let name = format!("{per_second}/s in bursts of {burst}");
        let pace = [("requests_per_second", per_second), ("burst", burst)];
        let gates = fleet(&link, &pace);
        let origin = Origin::with_rules(RULES);
        let times = crawl(&gates, &origin, crawlers, Duration::from_secs(seconds));
        let rate: f64 = per_second.parse().unwrap();
        let burst: usize = burst.parse().unwrap();
        // One turn of the budget is due at the end of the span, and may come behind it.
        let used = (times.len() + 1) as f64 / (rate * seconds as f64);
        println!("{name}: {} requests, {:.0} % of the budget", times.len(), used * 100.0);
        let spread = bound(PROMISED, SPREAD);
        let interval = Duration::from_secs_f64(1.0 / rate);
        is_within_by(&times, interval, burst, spread, &name);
        // A busy machine lets turns pass.
        assert!(used >= bound(USED, USED_BUSY), "{name}: {used}");
    }
}

#[test]
fn three_instances_keep_one_crawl_delay_for_each_group() {
    let (_engine, link) = or_skip!(engine_and_link());
    let gates = fleet(&link, &[("crawl_delay", "\"honour\"")]);
    // A Crawl-delay by itself does not end a group (RFC 9309, section 2.1): the next User-agent line would belong to
    // it.
    let rules = "User-agent: slow\nCrawl-delay: 2\nDisallow: /private\n\n\
        User-agent: *\nCrawl-delay: 0.5\nDisallow: /private\n";
    let origin = Origin::with_rules(rules);
    let began = Instant::now();
    let span = Duration::from_secs(12);
    thread::scope(|scope| {
        for gate in &gates {
            for agent in ["slow/1", "fast/1"] {
                let url = origin.url(&format!("/{agent}"));
                scope.spawn(move || {
                    while began.elapsed() < span {
                        let mut wire = gate.connect();
                        wire.send(format!(
                            "GET {url} HTTP/1.1\r\nHost: x\r\nUser-Agent: {agent}\r\n\r\n"
                        ));
                        assert_eq!(wire.response("GET").status, 200);
                    }
                });
            }
        }
    });
    let seen = origin.seen();
    let end = began + span;
    for (agent, interval) in [("slow", 2.0), ("fast", 0.5)] {
        let of = seen.iter().filter(|seen| seen.line().contains(agent));
        let times: Vec<Instant> = of.map(|seen| seen.at).filter(|at| *at < end).collect();
        let spread = bound(PROMISED, SPREAD);
        is_within_by(&times, Duration::from_secs_f64(interval), 1, spread, agent);
        // Both identities fetch the robots.txt first, one after the other, and each fetch counts for every group.
        let first = times.first().map(|first| first.duration_since(began));
        let first = first.unwrap_or(span).as_secs_f64();
        let rest = span.as_secs_f64() - first;
        let used = times.len() as f64 * interval / rest;
        println!("{agent}: the first after {first:.1} s, then {:.0} % of the budget", used * 100.0);
        assert!(first <= bound(7.0, 11.0), "{agent}: {first} s");
        assert!(used >= bound(USED, USED_BUSY), "{agent}: {used}");
    }
}

#[test]
fn three_instances_keep_one_concurrency() {
    let (_engine, link) = or_skip!(engine_and_link());
    let gates = fleet(&link, &[("concurrency", "2")]);
    // Longer than any spread of arrivals.
    let took = Duration::from_millis(800);
    let origin = Origin::with_rules(RULES).on("/0", [slow_page(took)]).on("/1", [slow_page(took)]);
    let span = Duration::from_secs(5);
    let times = crawl(&gates, &origin, 2, span);
    // Of any three requests in a row, the first has been answered before the third comes.
    for three in times.windows(3) {
        let apart = three[2].duration_since(three[0]);
        let spread = bound(PROMISED, SPREAD);
        assert!(apart + spread >= took, "{apart:?} by {spread:?}");
    }
    let used = times.len() as f64 * took.as_secs_f64() / (2.0 * span.as_secs_f64());
    println!("concurrency 2: {} requests, {:.0} % of the budget", times.len(), used * 100.0);
    assert!(used >= bound(0.5, USED_BUSY), "{used}");
}

/// Has crawlers at each instance ask for pages while the engine is killed with all that it knows, and then once more
/// together with the third instance. Returns the times of arrival at the origin.
fn crawl_through_kills(
    engine: &mut Engine,
    gates: &[CrawlgateProcess],
    origin: &Origin,
    crawlers: usize,
) -> Vec<Instant> {
    for gate in gates {
        assert_eq!(gate.get(&origin.url("/first")).status, 200);
    }
    let before = origin.seen().len();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        for gate in gates {
            let address = gate.address();
            for crawler in 0..crawlers {
                let (origin, is_over) = (&origin, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Acquire) {
                        if request(address, &origin.url(&format!("/{crawler}"))).is_none() {
                            // The instance is gone.
                            thread::sleep(Duration::from_millis(20));
                        }
                    }
                });
            }
        }
        let goes_on = |what: &str| {
            let before = origin.seen().len();
            wait_until(what, || origin.seen().len() > before + 12);
        };
        goes_on("the crawl");
        engine.kill();
        engine.start_again();
        goes_on("the crawl after the engine was killed");
        gates[2].signal(Signal::KILL);
        engine.kill();
        engine.start_again();
        goes_on("the crawl after both were killed");
        drop(ends);
    });
    origin.seen()[before..].iter().map(|seen| seen.at).collect()
}

#[test]
fn two_rates_hold_while_the_engine_and_an_instance_are_killed() {
    let (mut engine, link) = or_skip!(engine_and_link());
    for (per_second, burst, crawlers) in [("10", 5, 8), ("100", 1, 24)] {
        let name = format!("{per_second}/s in bursts of {burst}");
        let pace = [("requests_per_second", per_second), ("burst", &burst.to_string())];
        let gates = fleet(&link, &pace);
        let origin = Origin::with_rules(RULES);
        let times = crawl_through_kills(&mut engine, &gates, &origin, crawlers);
        println!("{name}: {} requests", times.len());
        let interval = Duration::from_secs_f64(1.0 / per_second.parse::<f64>().unwrap());
        is_within_by(&times, interval, burst, bound(PROMISED, SPREAD), &name);
    }
}

#[test]
fn one_concurrency_holds_while_the_engine_and_an_instance_are_killed() {
    let (mut engine, link) = or_skip!(engine_and_link());
    let gates = fleet(&link, &[("concurrency", "2")]);
    let took = Duration::from_millis(800);
    let origin = Origin::with_rules(RULES).on("/0", [slow_page(took)]).on("/1", [slow_page(took)]);
    let times = crawl_through_kills(&mut engine, &gates, &origin, 2);
    println!("concurrency 2: {} requests", times.len());
    for three in times.windows(3) {
        let apart = three[2].duration_since(three[0]);
        let spread = bound(PROMISED, SPREAD);
        assert!(apart + spread >= took, "{apart:?} by {spread:?}");
    }
}

#[test]
fn a_retry_after_at_one_instance_stops_all() {
    let (_engine, link) = or_skip!(engine_and_link());
    for pace in [&[][..], &[("requests_per_second", "50")][..]] {
        let gates = fleet(&link, pace);
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
            wait_until("all to crawl", || origin.seen().len() > 60);
            assert_eq!(gates[0].get(&origin.url("/refused")).status, 429);
            // The rest begins after that.
            let refused = origin.last("/refused").at;
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
        let later = seen.iter().filter_map(|seen| seen.at.checked_duration_since(refused));
        let later: Vec<Duration> = later.collect();
        let last = later.iter().filter(|at| **at < Duration::from_secs(4)).max();
        let stopped = bound(STOPPED, STOPPED_BUSY);
        println!("the last request came {last:?} after the refused one, by {stopped:?}");
        assert!(last.is_none_or(|last| *last <= stopped), "{last:?}");
        let next = later.iter().find(|at| **at > stopped).unwrap();
        assert!(*next >= Duration::from_millis(4_900), "{next:?}");
    }
}
