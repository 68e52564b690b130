//! Clocks that are apart: those of two instances, and the engine's, which is set.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::overrides::{denied_at_all, deny, wait_late};
use super::pace::{crawl, is_within};
use super::{Ends, engine_and_link, instances, logs_are_whole, member};
use crate::support::{CrawlgateProcess, Engine, Origin, RULES, Setup, wait_until, with_clock};

/// The pause of a crawler after a refusal, which leaves this machine to the others.
const BREATH: Duration = Duration::from_millis(5);

/// The pace of these tests, as a value of `requests_per_second`, and as an interval.
const RATE: &str = "4";
const INTERVAL: Duration = Duration::from_millis(250);

#[test]
fn instances_with_clocks_that_are_apart_share_states_turns_and_overrides() {
    let (_engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let mut gates = Vec::new();
    for (name, apart) in [("a1", "+300s"), ("a2", "-300s")] {
        let mut setup = Setup::new();
        member(&mut setup, &link, name);
        setup.set("pace", "requests_per_second", RATE);
        let mut command = setup.command("serve");
        if with_clock(&mut command, apart).is_none() {
            return;
        }
        let gate = CrawlgateProcess::spawn(setup, command);
        gate.wait_said("the fleet's engine answers");
        let side = if apart.starts_with('+') { "ahead of" } else { "behind" };
        gate.wait_said(&format!("{side} the engine's: overrides end by it"));
        let said = gate.succeeds("fleet", &["status"]);
        says!(said, &format!("{side} the engine's\n"));
        gates.push(gate);
    }
    let times = crawl(&gates, &origin, 4, Duration::from_secs(4));
    assert!(times.len() > 4, "{times:?}");
    is_within(&times, INTERVAL, 1, "both instances");
    assert_eq!(origin.robots_fetches(), 1, "one for both");
    let (id, said) = deny(&gates[0], &origin.url(""), "/page");
    wait_late(&said, &gates, &origin, "/page");
    denied_at_all(&gates, &origin, "/page", &id);
    gates[1].succeeds("override", &["remove", &id, "--by", "Grace"]);
    for gate in &gates {
        // The command has succeeded, also where one is late.
        gate.until(200, &origin.url("/page"));
        assert_eq!(gate.get(&origin.url("/private")).status, 403);
    }
    assert_eq!(origin.robots_fetches(), 1, "still");
    logs_are_whole(&gates);
}

#[test]
fn a_clock_of_the_engine_that_is_set_lets_few_turns_go_early_and_stops_no_crawl() {
    let engine = or_skip!(Engine::with_clock());
    let link = engine.link();
    let origin = Origin::with_rules(RULES);
    let gates = instances(&link, ["a1", "a2"], |setup| {
        setup.set("pace", "requests_per_second", RATE);
        setup.set("pace", "max_hold", "\"4s\"");
    });
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/first")).status, 200);
    }
    let (id, said) = deny(&gates[0], &origin.url(""), "/denied");
    wait_late(&said, &gates, &origin, "/denied");
    denied_at_all(&gates, &origin, "/denied", &id);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        for gate in &gates {
            for path in ["/open", "/private", "/denied"] {
                let (origin, is_over) = (&origin, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Acquire) {
                        let answer = gate.get(&origin.url(path));
                        assert!(path == "/open" || answer.status != 200, "{path}");
                        if answer.status != 200 {
                            thread::sleep(BREATH);
                        }
                    }
                });
            }
        }
        let pages = || origin.seen_but_robots().len();
        // An hour forwards and back again, and an hour back and forwards again.
        for apart in ["+3600", "+0", "-3600", "+0"] {
            let before = pages();
            engine.set_clock(apart);
            wait_until(&format!("the crawl to go on at {apart}"), || pages() > before + 4);
        }
        drop(ends);
    });
    let seen = origin.seen();
    let leaks: Vec<String> = seen
        .iter()
        .map(|seen| seen.line())
        .filter(|line| line.contains("/private") || line.contains("/denied"))
        .collect();
    assert_eq!(leaks, [""; 0]);
    // When the clock is set each instance may have a turn in hand besides the one of the burst.
    let times: Vec<Instant> = seen.iter().map(|seen| seen.at).collect();
    is_within(&times, INTERVAL, 1 + gates.len(), "the origin");
    denied_at_all(&gates, &origin, "/denied", &id);
    logs_are_whole(&gates);
}
