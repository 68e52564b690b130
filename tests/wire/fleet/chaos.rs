//! Random accidents under load: nothing disallowed at an origin, no decision lost, each shipped, the budget kept.
//!
//! Four crawlers ask three instances for pages, a third of them disallowed, while overrides come and go. The sequence of
//! accidents follows from a seed, which a failure names. `CRAWLGATE_CHAOS` is the number of seconds, and
//! `CRAWLGATE_CHAOS_SEED` the seed.
#![allow(clippy::print_stdout, reason = "a long run is read by its figures")]

mod accidents;
mod crawl;

use std::collections::HashSet;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use self::accidents::{AccidentCounts, Ground};
pub(super) use self::crawl::request;
use self::crawl::{Crawl, Order};
use super::{Ends, failover, joined, member};
use crate::ship::{equals_an_export_by_hand, shipping};
use crate::support::{CrawlgateProcess, Engine, Origin, Seen, Sentinels, Setup, StoredLog};

/// The directory to which an instance ships its log.
const SHIPPED: &str = "shipped";

/// The length of a run, unless `CRAWLGATE_CHAOS` names another one.
const SECONDS: u64 = 20;

/// The instances of the fleet, and the crawlers.
const INSTANCES: usize = 3;
const CRAWLERS: u64 = 4;

/// The time after which an instance without its engine forwards nothing.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time in which an override reaches all instances that were said to have it.
const GRACE: Duration = Duration::from_secs(2);

/// The interval of the paced origin.
const INTERVAL: Duration = Duration::from_millis(500);

/// The most by which the arrivals of two requests may come nearer on a busy machine than they were sent.
const SPREAD: Duration = Duration::from_millis(500);

/// Numbers that follow from a seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    pub(super) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn chaos_with_one_engine_lets_nothing_out_and_loses_nothing() {
    let engine = or_skip!(Engine::with(&["--appendonly", "yes"]));
    let links: Vec<_> = (0..INSTANCES).map(|_| engine.link()).collect();
    let gates = links.iter().enumerate().map(|(place, link)| {
        joined(|setup| {
            let name = format!("a{}", place + 1);
            member(setup, link, &name);
            configure(setup, &name);
        })
    });
    let gates = gates.collect();
    chaos(Ground::One { engine, links, old: None }, gates);
}

#[test]
fn chaos_with_sentinels_lets_nothing_out_and_loses_nothing() {
    let lab = or_skip!(Sentinels::start());
    let gates = (1..=INSTANCES).map(|number| {
        let name = format!("a{number}");
        failover::instance_with(&lab, &name, |setup| configure(setup, &name))
    });
    let gates = gates.collect();
    chaos(Ground::Sentinels(lab), gates);
}

fn configure(setup: &mut Setup, name: &str) {
    let there = setup.dir().join(SHIPPED);
    fs::create_dir(&there).unwrap();
    shipping(setup, name, there.to_str().unwrap());
    setup.set("ship", "every", "\"1s\"");
    setup.set("fleet", "patience", "\"3s\"");
    setup.set("pace", "crawl_delay", "\"honour\"");
    setup.set("pace", "max_hold", "\"2s\"");
    setup.set("robots", "hold", "\"5s\"");
    setup.set("log", "file", "\"\"");
    setup.set("audit", "durability", "\"strict\"");
    setup.set("audit", "refusals_per_minute", "10000000");
}

fn chaos(mut ground: Ground, mut gates: Vec<CrawlgateProcess>) {
    let seed = number("CRAWLGATE_CHAOS_SEED").unwrap_or(20_261_123).max(1);
    let length = Duration::from_secs(number("CRAWLGATE_CHAOS").unwrap_or(SECONDS));
    let rules = "User-agent: *\nDisallow: /private\n";
    let free = Origin::with_rules(rules);
    let paced = Origin::with_rules(&format!("User-agent: *\nCrawl-delay: 0.5\n{}", &rules[14..]));
    let folders = gates.iter().map(|gate| gate.setup.dir().to_owned()).collect();
    let crawl = Crawl {
        origins: [free.clone(), paced.clone()],
        gates: gates.iter().map(|gate| Mutex::new(gate.address())).collect(),
        folders,
        told: Mutex::default(),
        answers: Mutex::default(),
        orders: Mutex::default(),
        is_over: AtomicBool::new(false),
    };
    let mut counts = AccidentCounts::default();
    thread::scope(|scope| {
        let ends = Ends(&crawl.is_over);
        for crawler in 0..CRAWLERS {
            let crawl = &crawl;
            scope.spawn(move || crawl.ask(Random(seed.wrapping_mul(31 + crawler))));
        }
        let operator = &crawl;
        scope.spawn(move || operator.order(Random(seed.wrapping_mul(7_919))));
        let mut random = Random(seed);
        let began = Instant::now();
        while began.elapsed() < length {
            thread::sleep(random.millis(100, 1_500));
            ground.accident(&mut gates, &crawl, &mut random, &mut counts);
        }
        ground.heal();
        // Whole again: every instance serves, and every override holds everywhere, or nowhere.
        for gate in &gates {
            gate.until(200, &free.url("/open"));
        }
        drop(ends);
    });
    let orders = crawl.orders.into_inner().unwrap();
    let answers = crawl.answers.into_inner().unwrap();
    let strong = orders.iter().filter(|order| order.is_everywhere).count();
    println!(
        "seed {seed}: {counts:?}; answers {answers:?}; {} overrides, {strong} everywhere at once",
        orders.len()
    );

    for order in orders.iter().filter(|order| order.is_certain) {
        let want = if order.removed.is_some() { 200 } else { 403 };
        for gate in &gates {
            gate.until(want, &free.url(&order.path));
        }
    }
    // The overrides are about the free origin.
    for (name, origin, orders) in [("free", &free, &*orders), ("paced", &paced, &[])] {
        let seen = origin.seen();
        let leaks: Vec<String> =
            seen.iter().filter(|seen| is_leak(seen, orders)).map(Seen::line).collect();
        assert_eq!(leaks, [""; 0], "{name}, seed {seed}");
        println!(
            "{name}: {} requests, {} of them for robots.txt",
            seen.len(),
            origin.robots_fetches()
        );
    }
    let slowest = slowest(&free, &orders);
    println!("the last page came {slowest:?} after `override add` had returned");
    let times: Vec<Instant> = paced.seen().iter().map(|seen| seen.at).collect();
    println!(
        "beyond the budget: {} by 50 ms, {} by 500 ms",
        excess(&times, SPREAD / 10),
        excess(&times, SPREAD)
    );
    // One turn for each request that was stopped on its way, or lost its instance together with the engine.
    let most = counts.stops_and_kills().max(1);
    assert!(excess(&times, SPREAD) <= most, "seed {seed}");

    for gate in &mut gates {
        let there = gate.setup.dir().join(SHIPPED);
        equals_an_export_by_hand(gate, &there);
    }
    let mut kept = HashSet::new();
    for gate in &gates {
        kept.extend(StoredLog::read(&gate.setup.dir().join("crawlgate.db")).decisions);
    }
    let told = crawl.told.into_inner().unwrap();
    let lost: Vec<&String> = told.iter().filter(|id| !kept.contains(*id)).collect();
    assert!(lost.is_empty(), "seed {seed}: {lost:?}");
    println!("{} denials told, {} decisions kept", told.len(), kept.len());
    super::logs_are_whole(&gates);
}

/// Tells whether a request should not have reached its origin.
fn is_leak(seen: &Seen, orders: &[Order]) -> bool {
    let path = seen.head.word(1);
    if path.starts_with("/private") {
        return true;
    }
    let order = orders.iter().find(|order| order.path == path);
    order.is_some_and(|order| {
        let is_removed = order.removed.is_some_and(|removed| seen.at > removed);
        let from = order.added + if order.is_everywhere { GRACE } else { PATIENCE + GRACE };
        order.is_certain && !is_removed && seen.at > from
    })
}

/// Returns the longest time after which a page came that was denied at all instances.
fn slowest(origin: &Origin, orders: &[Order]) -> Option<Duration> {
    let seen = origin.seen();
    let late = seen.iter().filter_map(|seen| {
        let path = seen.head.word(1);
        let order = orders.iter().find(|order| order.is_everywhere && order.path == path)?;
        let is_removed = order.removed.is_some_and(|removed| seen.at > removed);
        seen.at.checked_duration_since(order.added).filter(|_| !is_removed)
    });
    late.max()
}

/// Returns the most requests in a window beyond those that the interval allows.
fn excess(times: &[Instant], spread: Duration) -> usize {
    let windows = times.iter().enumerate().flat_map(|(first, start)| {
        times[first..].iter().enumerate().map(move |(count, end)| {
            let window = end.duration_since(*start) + spread;
            let most = window.as_nanos() / INTERVAL.as_nanos() + 1;
            (count + 1).saturating_sub(usize::try_from(most).unwrap())
        })
    });
    windows.max().unwrap_or_default()
}
