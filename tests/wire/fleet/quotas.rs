//! The quota and the rate of one client at several instances.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::pace::is_within;
use super::{Ends, engine_and_link, instance};
use crate::support::{CrawlgateProcess, EngineLink, Origin, RULES, eventually};

fn fleet(link: &EngineLink, client: &str) -> Vec<CrawlgateProcess> {
    let start = |name: &str| {
        instance(link, name, |setup| {
            setup.set("fleet", "patience", "\"2s\"");
            setup.tables(&format!("[[client]]\nname = 'rest'\n{client}\n"));
        })
    };
    ["a1", "a2", "a3"].map(start).into()
}

#[test]
fn a_quota_is_used_once_by_all_instances_together() {
    let (engine, link) = or_skip!(engine_and_link());
    let mut gates = fleet(&link, "quota = { requests = 12, per = '365d' }");
    let origin = Origin::with_rules(RULES);
    // The first requests wait until the new engine has heard from all.
    let statuses: Vec<u16> = thread::scope(|scope| {
        let threads: Vec<_> = gates
            .iter()
            .enumerate()
            .flat_map(|(at, gate)| (0..5).map(move |n| (at, n, gate)))
            .map(|(at, n, gate)| {
                let url = origin.url(&format!("/{at}-{n}"));
                scope.spawn(move || gate.get(&url).status)
            })
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let went = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(origin.seen_but_robots().len(), went);
    assert!(went <= 12, "{statuses:?}");
    // What one holds and does not use comes back to the others.
    eventually("the rest of the quota to be used", || {
        gates[0].get(&origin.url("/more"));
        (origin.seen_but_robots().len() == 12).then_some(())
    });
    for gate in &gates {
        let answer = gate.get(&origin.url("/too-much"));
        gate.refused(&answer, 429, "quota_spent");
        assert!(answer.field("retry-after").is_some(), "{answer:?}");
    }
    // An instance that starts again has used nothing, and the fleet remembers.
    gates[1].restart(Signal::TERM);
    let answer = eventually("the instance to join", || {
        let answer = gates[1].get(&origin.url("/again"));
        (answer.status != 503).then_some(answer)
    });
    gates[1].refused(&answer, 429, "quota_spent");
    // Nor does an engine that forgets.
    assert_eq!(engine.ask(&["FLUSHALL"]), "+OK\r\n");
    let began = Instant::now();
    for gate in &gates {
        eventually("the new engine to have heard from all", || {
            let answer = gate.get(&origin.url("/lost"));
            assert!(matches!(answer.status, 429 | 503), "{answer:?}");
            (answer.status == 429 && began.elapsed() > Duration::from_secs(6)).then_some(())
        });
    }
    assert_eq!(origin.seen_but_robots().len(), 12);
}

#[test]
fn a_rate_holds_over_all_instances_and_nothing_goes_without_the_engine() {
    let (mut engine, link) = or_skip!(engine_and_link());
    let gates = fleet(&link, "requests_per_second = 4\nburst = 2");
    let origin = Origin::with_rules(RULES);
    for gate in &gates {
        gate.until(200, &origin.url("/first"));
    }
    let before = origin.seen_but_robots().len();
    let began = Instant::now();
    thread::scope(|scope| {
        for gate in &gates {
            for n in 0..4 {
                let url = origin.url(&format!("/{n}"));
                scope.spawn(move || assert_eq!(gate.get(&url).status, 200));
            }
        }
    });
    // Twelve requests at four in a second, two of which may be early.
    assert!(began.elapsed() >= Duration::from_millis(2_400));
    let seen = origin.seen();
    let times: Vec<Instant> = seen
        .iter()
        .filter(|seen| !seen.line().contains("robots.txt"))
        .skip(before)
        .map(|seen| seen.at)
        .collect();
    is_within(&times, Duration::from_millis(250), 2, "the client");
    engine.kill();
    // Held until the instance is cut off.
    gates[0].refuses(&origin.url("/cut"), 503, "fleet_cut");
    assert_eq!(origin.seen_but_robots().len(), before + 12);
}

#[test]
fn an_instance_that_is_killed_takes_no_more_than_its_part_of_a_quota_with_it() {
    let (_engine, link) = or_skip!(engine_and_link());
    const QUOTA: usize = 300;
    // A part is at most a fiftieth of an even share, and each crawler may have one request under way.
    const LOST: usize = QUOTA / 150 + 1;
    let mut gates = fleet(&link, "quota = { requests = 300, per = '365d' }");
    let origin = Origin::with_rules(RULES);
    let pages = || origin.seen_but_robots().len();
    for gate in &gates {
        gate.until(200, &origin.url("/first"));
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        for gate in [&gates[0], &gates[2]] {
            let (origin, is_over) = (&origin, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    gate.get(&origin.url("/beside"));
                }
            });
        }
        while pages() < QUOTA / 3 {
            gates[1].until(200, &origin.url("/killed"));
        }
        gates[1].signal(Signal::KILL);
        drop(ends);
    });
    gates[1].wait();
    gates[1].start_again();
    for gate in &gates {
        eventually("the quota to be used up", || {
            let answer = gate.get(&origin.url("/rest"));
            assert!(matches!(answer.status, 200 | 429 | 503), "{answer:?}");
            (answer.status == 429).then_some(())
        });
    }
    // What one instance holds and does not use comes back to the others.
    eventually("the last of the quota", || {
        let is_spent = gates.iter().all(|gate| gate.get(&origin.url("/rest")).status == 429);
        (is_spent && pages() >= QUOTA - LOST).then_some(())
    });
    assert!(pages() <= QUOTA, "{}", pages());
    gates[1].refuses(&origin.url("/rest"), 429, "quota_spent");
}
