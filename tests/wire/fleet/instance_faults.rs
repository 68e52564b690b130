//! Accidents of an instance: cut off, killed, stopped, configured otherwise; and of what it finds in the engine.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::overrides::{denied_at_all, deny};
use super::{engine_and_link, instance, instances, logs_are_whole, member};
use crate::support::{
    CrawlgateProcess, Engine, Latch, Origin, RULES, Reply, Transfer, eventually, wait_until,
};

/// The time after which an instance without its engine forwards nothing, in these tests.
const PATIENCE: Duration = Duration::from_secs(3);

#[test]
fn an_instance_without_its_link_forwards_for_no_longer_than_its_patience() {
    let engine = or_skip!(Engine::start());
    for transfer in [Transfer::Hole, Transfer::NoAnswers] {
        let (link, other) = (engine.link(), engine.link());
        let origin = Origin::with_rules(RULES);
        let gates = [("a1", &link), ("a2", &other)].map(|(name, link)| {
            instance(link, name, |setup| {
                if name == "a2" {
                    setup.set("fleet", "timeout", "\"250ms\"");
                }
                setup.set("fleet", "patience", "\"3s\"");
                setup.set("audit", "refusals_per_minute", "1000000");
            })
        });
        for gate in &gates {
            gate.until(200, &origin.url("/page"));
        }
        other.set(transfer);
        let (id, said) = deny(&gates[0], &origin.url(""), "/page");
        let added = Instant::now();
        let late = said.lines().last().unwrap();
        assert!(
            late.starts_with("in force on a1; a2 has not been heard of for "),
            "{transfer:?}: {said}"
        );
        denied_at_all(&gates[..1], &origin, "/page", &id);
        eventually("a2 to be cut off", || {
            let answer = gates[1].get(&origin.url("/page"));
            assert_ne!(answer.status, 403, "{transfer:?}: it knows what it cannot have heard");
            (answer.status == 503).then_some(())
        });
        let last = origin.seen().last().unwrap().at;
        let later = last.checked_duration_since(added).unwrap_or_default();
        assert!(later < PATIENCE, "{transfer:?}: {later:?}");
        let before = origin.seen().len();
        gates[1].refuses(&origin.url("/other"), 503, "fleet_cut");
        // What was sent before arrives now, and nothing of it permits anything.
        other.set(Transfer::Open(Duration::ZERO));
        eventually("a2 to have the denial", || {
            let answer = gates[1].get(&origin.url("/page"));
            assert_ne!(answer.status, 200, "{transfer:?}: {}", answer.text());
            (answer.status == 403).then_some(())
        });
        assert_eq!(origin.seen().len(), before, "{transfer:?}");
        logs_are_whole(&gates);
    }
}

#[test]
fn a_turn_in_hand_is_not_used_while_the_engine_may_have_forgotten_it() {
    let engine = or_skip!(Engine::start());
    let (link, other) = (engine.link(), engine.link());
    let origin = Origin::with_rules(RULES);
    let gates = [("a1", &link), ("a2", &other)].map(|(name, link)| {
        instance(link, name, |setup| {
            setup.set("pace", "requests_per_second", "0.5");
        })
    });
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/first")).status, 200);
    }
    let key = format!("crawlgate:{{{}}}:turns", origin.url(""));
    let last = || engine.ask(&["HGET", &key, "last"]);
    let before = last();
    let seen = origin.seen().len();
    thread::scope(|scope| {
        let held = scope.spawn(|| gates[1].get(&origin.url("/held")));
        wait_until("a2 to have a turn", || last() != before);
        other.set(Transfer::Hole);
        assert_eq!(engine.ask(&["FLUSHALL"]), "+OK\r\n");
        // The engine knows nothing of the turn of a2.
        assert_eq!(gates[0].get(&origin.url("/near")).status, 200);
        other.set(Transfer::Open(Duration::ZERO));
        assert_eq!(held.join().unwrap().status, 200);
    });
    let times: Vec<Instant> = origin.seen()[seen..].iter().map(|seen| seen.at).collect();
    super::pace::is_within(&times, Duration::from_secs(2), 1, "both instances");
}

#[test]
fn another_instance_fetches_when_the_one_with_the_lease_dies() {
    let (_engine, link) = or_skip!(engine_and_link());
    let latch = Latch::new();
    let origin = Origin::http()
        .on("/robots.txt", [Reply::ok("User-agent: *\n").held(&latch), Reply::ok(RULES)]);
    let mut gates = instances(&link, ["a1", "a2"], |_| ());
    let _wire = gates[0].asks(&origin.url("/private"));
    latch.arrivals(1);
    gates[0].signal(Signal::KILL);
    gates[0].wait();
    gates[1].refuses(&origin.url("/private"), 403, "robots_disallow");
    latch.open();
    gates[0].start_again();
    gates[0].until(403, &origin.url("/private"));
    assert_eq!(origin.robots_fetches(), 2, "once by each lease");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    logs_are_whole(&gates);
}

#[test]
fn the_slots_and_turns_of_a_killed_instance_are_waited_for() {
    let (_engine, link) = or_skip!(engine_and_link());
    let latch = Latch::new();
    let origin = Origin::with_rules(RULES).on("/slow", [Reply::ok("slow").held(&latch)]);
    let mut gates = instances(&link, ["a1", "a2"], |setup| {
        setup.set("pace", "concurrency", "1");
    });
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/first")).status, 200);
    }
    let _wire = gates[0].asks(&origin.url("/slow"));
    latch.arrivals(1);
    gates[0].signal(Signal::KILL);
    gates[0].wait();
    let killed = Instant::now();
    assert_eq!(gates[1].get(&origin.url("/next")).status, 200);
    let waited = origin.last("/next").at.duration_since(killed);
    // A slot lives for 15 s from its last renewal, which is at most 3 s ago.
    assert!(waited > Duration::from_millis(11_500), "{waited:?}");
    latch.open();
    logs_are_whole(&gates);
}

#[test]
fn an_engine_and_an_instance_that_are_killed_in_one_moment_let_no_turn_go_early() {
    let (mut engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let mut gates = instances(&link, ["a1", "a2"], |setup| {
        setup.set("pace", "requests_per_second", "1");
    });
    for round in 0..4 {
        // Only the first knows of its turn.
        gates[0].until(200, &origin.url(&format!("/first/{round}")));
        gates[0].signal(Signal::KILL);
        engine.kill();
        gates[0].wait();
        engine.start_again();
        eventually("a page of the other", || {
            let answer = gates[1].get(&origin.url(&format!("/other/{round}")));
            (answer.status == 200).then_some(())
        });
        gates[0].start_again();
        gates[0].wait_said("the fleet's engine answers");
    }
    let times: Vec<Instant> = origin.seen().iter().map(|seen| seen.at).collect();
    super::pace::is_within(&times, Duration::from_secs(1), 1, "both instances");
    logs_are_whole(&gates);
}

#[test]
fn instances_that_read_files_differently_share_no_state() {
    let (_engine, link) = or_skip!(engine_and_link());
    // The first instance reads the rule behind its bound of size no more.
    let filler = format!("# {}\n", "x".repeat(600 * 1_024));
    let rules = format!("User-agent: *\n{filler}Disallow: /late\n");
    let origin = Origin::with_rules(&rules);
    let gates = [("a1", "\"512KiB\""), ("a2", "\"1MiB\"")].map(|(name, limit)| {
        instance(&link, name, |setup| {
            setup.set("robots", "size_limit", limit);
        })
    });
    assert_eq!(gates[0].get(&origin.url("/late")).status, 200);
    gates[1].refuses(&origin.url("/late"), 403, "robots_disallow");
    assert_eq!(gates[0].get(&origin.url("/late")).status, 200);
    assert_eq!(origin.robots_fetches(), 2, "one by each");
}

#[test]
fn what_is_altered_in_the_engine_permits_nothing() {
    let (engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gates = instances(&link, ["a1", "a2"], |setup| {
        setup.set("fleet", "patience", "\"5s\"");
        setup.set("robots", "hold", "\"2s\"");
    });
    let (id, _) = deny(&gates[0], &origin.url(""), "/denied");
    let flip = "string.char(255 - string.byte(v, n)) .. string.sub(v, n + 1)";
    // One octet of a state, in the middle and at the end; a state under no token, as a list, without its end, with more, and gone.
    let alterations = [
        format!(
            "local n = math.floor(#v / 2) redis.call('SET', key, string.sub(v, 1, n - 1) .. {flip})"
        ),
        format!("local n = #v redis.call('SET', key, string.sub(v, 1, n - 1) .. {flip})"),
        "redis.call('SET', key, 'no token')".to_owned(),
        "redis.call('DEL', key) redis.call('LPUSH', key, v)".to_owned(),
        "redis.call('SET', key, string.sub(v, 1, #v - 9))".to_owned(),
        "redis.call('SET', key, v .. 'User-agent: *')".to_owned(),
        "redis.call('DEL', key)".to_owned(),
    ];
    for alteration in alterations {
        let origin = Origin::with_rules(RULES);
        assert_eq!(gates[0].get(&origin.url("/private")).status, 403);
        let script = format!(
            "local keys = redis.call('KEYS', '*:{}}}:state:*') for _, key in ipairs(keys) do \
             local v = redis.call('GET', key) {alteration} end return #keys",
            origin.port()
        );
        assert_eq!(engine.ask(&["EVAL", &script, "0"]), ":1\r\n", "{alteration}");
        let answer = gates[1].get(&origin.url("/private"));
        assert!([403, 503].contains(&answer.status), "{alteration}: {answer:?}");
        assert_eq!(origin.seen_but_robots(), [""; 0], "{alteration}");
    }
    // One octet of each override, and a removal that is invalid.
    let script = "local set = 'crawlgate:{fleet}:overrides' local all = redis.call('HGETALL', set) \
        for k = 1, #all, 2 do redis.call('HSET', set, all[k], 'x' .. string.sub(all[k + 1], 2)) \
        redis.call('HSET', set .. '_removed', all[k], all[k + 1]) end \
        redis.call('HINCRBY', 'crawlgate:{fleet}:counters', 'overrides', 1) return 1";
    assert_eq!(engine.ask(&["EVAL", script, "0"]), ":1\r\n");
    denied_at_all(&gates, &origin, "/denied", &id);
    assert_eq!(gates[0].get(&origin.url("/private")).status, 403);
    // What is no number, a list or gone among the fleet's own names ends in nothing at all, or in a new generation.
    for (key, command) in [
        ("generation", &["SET", "none at all"][..]),
        ("generation", &["LPUSH", "x"]),
        ("counters", &["HSET", "overrides", "9e99"]),
        ("counters", &["HSET", "news", "x"]),
        ("members", &["SET", "x"]),
        ("reports", &["SET", "x"]),
    ] {
        let key = format!("crawlgate:{{fleet}}:{key}");
        engine.ask(&["DEL", &key]);
        let words: Vec<&str> =
            [command[0], &key].into_iter().chain(command[1..].iter().copied()).collect();
        engine.ask(&words);
        for gate in &gates {
            for path in ["/private", "/denied"] {
                let answer = gate.get(&origin.url(path));
                assert!([403, 503].contains(&answer.status), "{words:?}: {answer:?}");
            }
        }
        engine.ask(&["DEL", &key]);
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    eventually("the instances to be back", || {
        let are_back = gates.iter().all(|gate| gate.get(&origin.url("/page")).status == 200);
        are_back.then_some(())
    });
    denied_at_all(&gates, &origin, "/denied", &id);
    logs_are_whole(&gates);
}

#[test]
fn a_second_instance_of_one_name_is_cut_off_until_the_first_one_is_gone() {
    let (_engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let mut first = instance(&link, "a1", |_| ());
    let second = CrawlgateProcess::with(|setup| member(setup, &link, "a1"));
    second.wait_said(
        "another process of this fleet has the name \"a1\"; set [fleet] name to another one",
    );
    assert_eq!(first.get(&origin.url("/page")).status, 200);
    let before = origin.seen().len();
    second.refuses(&origin.url("/page"), 503, "fleet_cut");
    assert_eq!(origin.seen().len(), before);
    // As a process does that follows a killed one under its name.
    first.signal(Signal::KILL);
    first.wait();
    second.until(200, &origin.url("/page"));
}

#[test]
fn an_instance_with_another_key_is_cut_off_and_no_member() {
    let (_engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let mut first = instance(&link, "a1", |_| ());
    let second = CrawlgateProcess::with(|setup| {
        member(setup, &link, "a2");
        std::fs::write(setup.dir().join("fleet.key"), "08".repeat(32)).unwrap();
    });
    second.wait_said(
        "\"a1\" of this fleet has another key: give all instances the same [fleet] key_file",
    );
    // The second one does not have the override of the members, so it forwards nothing.
    let url = origin.url("/page");
    let words =
        ["add", &origin.url(""), "/page", "deny", "--until", "1h", "--by", "Ada", "--reason", "t"];
    let (out, said) = first.ends(0, "override", &words);
    assert!(!format!("{out}{said}").contains("a2"), "{out}{said}");
    first.refuses(&url, 403, "operator_deny");
    second.refuses(&url, 503, "fleet_cut");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    // Once no member has the old key, the new one is that of the fleet.
    first.signal(Signal::TERM);
    first.wait();
    second.until(200, &url);
}
