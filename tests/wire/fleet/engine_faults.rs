//! Accidents of the engine: killed, restored, slow, stopped, emptied, full.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::overrides::{denied_at_all, deny, listed};
use super::pace::is_within;
use super::{Ends, engine_and_link, instance, instances, joined, logs_are_whole, member};
use crate::support::{
    Engine, EngineLink, Latch, Origin, RULES, Reply, Setup, Transfer, eventually, wait_until,
};

/// The pace of these tests, as a value of `requests_per_second`, and as an interval.
const RATE: &str = "4";
const INTERVAL: Duration = Duration::from_millis(250);

/// The time that an accident lasts.
const ACCIDENT: Duration = Duration::from_millis(1_500);

/// Sets what the instances of these tests have in common.
fn paced(setup: &mut Setup, link: &EngineLink, name: &str) {
    member(setup, link, name);
    setup.set("fleet", "patience", "\"3s\"");
    setup.set("pace", "requests_per_second", RATE);
    setup.set("pace", "max_hold", "\"4s\"");
    setup.set("audit", "refusals_per_minute", "1000000");
}

/// Has crawlers at two instances ask for pages, open and disallowed ones, while `accident` happens to the engine, and
/// until they are served again. Asserts the budget, the answers, and the logs.
#[track_caller]
fn crawl_through(engine: &mut Engine, link: &EngineLink, accident: impl FnOnce(&mut Engine)) {
    crawl_within("\"1s\"", engine, link, accident);
}

/// Does so with this time for an answer of the engine.
#[track_caller]
fn crawl_within(
    timeout: &str,
    engine: &mut Engine,
    link: &EngineLink,
    accident: impl FnOnce(&mut Engine),
) {
    let origin = Origin::with_rules(RULES);
    let gates = ["a1", "a2"].map(|name| {
        joined(|setup| {
            paced(setup, link, name);
            setup.set("fleet", "timeout", timeout);
        })
    });
    for gate in &gates {
        gate.until(200, &origin.url("/first"));
    }
    let (id, _) = deny(&gates[0], &origin.url(""), "/denied");
    for gate in &gates {
        wait_until("the override at both", || listed(gate).iter().any(|one| one["id"] == id));
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(&is_over);
        for gate in &gates {
            for path in ["/open", "/private", "/denied"] {
                let (origin, is_over) = (&origin, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Acquire) {
                        let answer = gate.get(&origin.url(path));
                        match answer.status {
                            200 => assert_eq!(path, "/open"),
                            403 => assert_ne!(path, "/open", "{}", answer.text()),
                            429 | 503 => {
                                let reason = answer.problem()["reason"].clone();
                                let known = ["fleet_cut", "paced"];
                                assert!(known.iter().any(|one| reason == *one), "{reason}");
                            }
                            other => panic!("{path}: {other} {}", answer.text()),
                        }
                    }
                });
            }
        }
        let pages = || origin.seen_but_robots().len();
        wait_until("the crawl", || pages() > 4);
        accident(engine);
        let before = pages();
        wait_until("the crawl to go on", || pages() > before + 4);
        drop(ends);
    });
    let seen = origin.seen();
    let times: Vec<Instant> = seen.iter().map(|seen| seen.at).collect();
    is_within(&times, INTERVAL, 1, "the origin");
    let leaks = seen.iter().map(|seen| seen.line());
    let leaks: Vec<String> =
        leaks.filter(|line| line.contains("/private") || line.contains("/denied")).collect();
    assert_eq!(leaks, [""; 0]);
    denied_at_all(&gates, &origin, "/denied", &id);
    logs_are_whole(&gates);
}

#[test]
fn an_engine_that_is_killed_and_reads_its_file_again_costs_time_alone() {
    let mut engine = or_skip!(Engine::with(&["--appendonly", "yes"]));
    let link = engine.link();
    crawl_through(&mut engine, &link, |engine| {
        for _ in 0..3 {
            engine.kill();
            engine.start_again();
            thread::sleep(INTERVAL);
        }
    });
}

#[test]
fn an_engine_that_is_emptied_again_and_again_costs_time_alone() {
    let (mut engine, link) = or_skip!(engine_and_link());
    crawl_through(&mut engine, &link, |engine| {
        for _ in 0..20 {
            assert_eq!(engine.ask(&["FLUSHALL"]), "+OK\r\n");
            thread::sleep(INTERVAL / 3);
        }
    });
}

#[test]
fn an_engine_that_pauses_costs_time_alone() {
    let (mut engine, link) = or_skip!(engine_and_link());
    crawl_within("\"250ms\"", &mut engine, &link, |engine| {
        for millis in ["300", "600", "1500"] {
            assert_eq!(engine.ask(&["CLIENT", "PAUSE", millis, "ALL"]), "+OK\r\n");
            // It answers when the pause is over.
            assert_eq!(engine.ask(&["PING"]), "+PONG\r\n");
        }
    });
}

#[test]
fn late_answers_of_an_engine_cost_time_alone() {
    let (mut engine, link) = or_skip!(engine_and_link());
    crawl_within("\"250ms\"", &mut engine, &link, |_| {
        for millis in [150, 0, 400, 0] {
            link.set(Transfer::Open(Duration::from_millis(millis)));
            thread::sleep(ACCIDENT / 2);
        }
    });
}

#[test]
fn an_engine_that_is_stopped_costs_time_alone() {
    let (mut engine, link) = or_skip!(engine_and_link());
    crawl_through(&mut engine, &link, |engine| {
        // For longer than the patience, so nothing goes in between.
        engine.signal(Signal::STOP);
        thread::sleep(ACCIDENT * 3);
        engine.signal(Signal::CONT);
    });
}

#[test]
fn an_engine_that_forgets_its_scripts_is_told_them_again() {
    for mut engine in Engine::each() {
        let link = engine.link();
        crawl_through(&mut engine, &link, |engine| {
            let until = Instant::now() + ACCIDENT;
            while Instant::now() < until {
                assert_eq!(engine.ask(&["SCRIPT", "FLUSH"]), "+OK\r\n");
            }
        });
    }
}

#[test]
fn an_engine_without_memory_ends_in_nothing_at_all_and_comes_back() {
    for engine in Engine::each() {
        let link = engine.link();
        let origin = Origin::with_rules(RULES);
        let gate = instance(&link, "a1", |setup| {
            setup.set("fleet", "patience", "\"2s\"");
        });
        gate.until(200, &origin.url("/page"));
        engine.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        assert_eq!(engine.ask(&["CONFIG", "SET", "maxmemory", "1"]), "+OK\r\n");
        gate.wait_said("cut off from its fleet");
        gate.wait_said("OOM");
        let before = origin.seen().len();
        gate.refuses(&origin.url("/page"), 503, "fleet_cut");
        assert_eq!(origin.seen().len(), before, "nothing reaches the origin");
        assert_eq!(engine.ask(&["CONFIG", "SET", "maxmemory", "0"]), "+OK\r\n");
        gate.until(200, &origin.url("/page"));
        logs_are_whole(&[gate]);
    }
}

#[test]
fn an_engine_that_is_restored_from_an_old_dump_takes_nothing_back() {
    let (mut engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let mut gates = instances(&link, ["a1", "a2"], |_| ());
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
    }
    let (removed, _) = deny(&gates[0], &origin.url(""), "/removed");
    assert_eq!(engine.ask(&["SAVE"]), "+OK\r\n");
    gates[1].succeeds("override", &["remove", &removed, "--by", "Grace"]);
    let (denied, _) = deny(&gates[1], &origin.url(""), "/denied");
    origin.script("/robots.txt", [crate::support::Reply::ok("User-agent: *\nDisallow: /\n")]);
    gates[0].succeeds("origins", &["refresh", &origin.url("")]);
    gates[1].until(403, &origin.url("/page"));
    let (before, fetches) = (origin.seen_but_robots(), origin.robots_fetches());
    engine.kill();
    engine.start_again();
    // The dump holds the removed override, the old rules, and no later one.
    eventually("the engine to hold what it has lost", || {
        let removed = engine.ask(&["HLEN", "crawlgate:{fleet}:overrides_removed"]);
        let added = engine.ask(&["HLEN", "crawlgate:{fleet}:overrides"]);
        (removed == ":1\r\n" && added == ":2\r\n").then_some(())
    });
    denied_at_all(&gates, &origin, "/denied", &denied);
    for gate in &gates {
        let listed = listed(gate);
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0]["id"], denied);
        gate.refuses(&origin.url("/page"), 403, "robots_disallow");
    }
    assert_eq!(origin.seen_but_robots(), before);
    // An instance has asked the origin again, so one that joins judges by its rules.
    let late = instance(&link, "a3", |_| ());
    eventually("the engine to have the newer rules", || {
        let script = "local least = 0 for _, key in ipairs(redis.call('KEYS', '*:state:*')) do \
            local token = tonumber(string.match(redis.call('GET', key), '^%d+')) \
            if least == 0 or token < least then least = token end end \
            local began = string.match(redis.call('GET', 'crawlgate:{fleet}:generation'), '^%S+ (%d+)') \
            return least > began - 1000000 and 1 or 0";
        (engine.ask(&["EVAL", script, "0"]) == ":1\r\n").then_some(())
    });
    late.refuses(&origin.url("/page"), 403, "robots_disallow");
    assert_eq!(origin.robots_fetches(), fetches + 1, "one for all");
    assert_eq!(origin.seen_but_robots(), before);
    drop(late);
    // An instance that knows its state only from its store does not go back to the old one, either.
    gates[0].signal(Signal::TERM);
    gates[0].wait();
    gates[0].start_again();
    eventually("the instance to have confirmed its rules", || {
        let answer = gates[0].get(&origin.url("/page"));
        assert_ne!(answer.status, 200, "it judges by the old rules");
        (answer.status == 403).then_some(())
    });
    assert_eq!(origin.seen_but_robots(), before);
    logs_are_whole(&gates);
}

#[test]
fn an_engine_that_is_far_away_is_reached() {
    let (_engine, link) = or_skip!(engine_and_link());
    // Each answer comes in time, but many one after the other would not.
    link.set(Transfer::Open(Duration::from_millis(90)));
    let origin = Origin::with_rules(RULES);
    let gate = instance(&link, "a1", |_| ());
    gate.until(200, &origin.url("/page"));
    assert_eq!(gate.get(&origin.url("/private")).status, 403);
}

#[test]
fn a_fetch_that_outlives_its_engine_is_the_only_one_and_permits_nothing_before_the_engine_is_back()
{
    let (mut engine, link) = or_skip!(engine_and_link());
    let latch = Latch::new();
    let origin = Origin::http().on("/robots.txt", [Reply::ok(RULES).held(&latch)]);
    let unknown = Origin::with_rules(RULES);
    let gates = instances(&link, ["a1", "a2"], |setup| {
        setup.set("fleet", "patience", "\"60s\"");
        setup.set("robots", "hold", "\"2s\"");
    });
    let asked = ["/private", "/page"].map(|path| gates[0].asks(&origin.url(path)));
    latch.arrivals(1);
    engine.kill();
    for gate in &gates {
        gate.wait_said("the fleet's engine does not answer");
        gate.answers(&unknown.url("/page"), 503);
    }
    assert_eq!(unknown.seen().len(), 0, "an unknown origin gets nothing");
    latch.open();
    for mut wire in asked {
        assert_eq!(wire.response("GET").status, 503);
    }
    // The result waits for the engine.
    for path in ["/private", "/page"] {
        assert_eq!(gates[0].get(&origin.url(path)).status, 503, "{path}");
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    engine.start_again();
    for gate in &gates {
        gate.until(403, &origin.url("/private"));
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
    }
    assert_eq!(origin.robots_fetches(), 1);
    assert_eq!(origin.seen_but_robots(), ["GET /page"; 2]);
    logs_are_whole(&gates);
}
