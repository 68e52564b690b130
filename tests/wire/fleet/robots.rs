//! One fetch of a robots.txt for all instances.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{engine_and_link, instance, instances, logs_are_whole, member};
use crate::support::{
    CrawlgateProcess, Engine, Latch, Origin, RULES, Reply, Setup, Transfer, Wire, eventually,
    with_clock,
};

/// First requests at each instance.
const FIRST: usize = 1_000;

#[test]
fn many_first_requests_at_all_instances_cause_one_fetch() {
    for engine in Engine::each() {
        let latch = Latch::new();
        let origin = Origin::http().on("/robots.txt", [Reply::ok(RULES).held(&latch)]);
        let link = engine.link();
        let gates = instances(&link, ["a1", "a2", "a3"], |setup| {
            // Longer than all requests together take to come on a busy machine.
            for key in ["first_byte_timeout", "fetch_timeout", "hold"] {
                setup.set("robots", key, "\"60s\"");
            }
        });
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot/1.0\r\n\r\n",
            origin.url("/private")
        );
        let asked = |gate: &CrawlgateProcess| -> Vec<Wire> {
            let wires = (0..FIRST).map(|_| {
                let mut wire = gate.connect();
                wire.send(&request);
                wire
            });
            wires.collect()
        };
        thread::scope(|scope| {
            let asking = gates.each_ref().map(|gate| scope.spawn(|| asked(gate)));
            latch.arrivals(1);
            let wires = asking.map(|asking| asking.join().unwrap());
            latch.open();
            for mut wire in wires.into_iter().flatten() {
                assert_eq!(wire.response("GET").status, 403);
            }
        });
        assert_eq!(origin.robots_fetches(), 1, "one for all instances");
        assert_eq!(origin.seen_but_robots(), [""; 0]);
        for gate in &gates {
            let record = gate.refuses(&origin.url("/private"), 403, "robots_disallow");
            assert!(record["robots"]["sha256"].is_string(), "{record}");
            gate.succeeds("audit", &["verify", "--all"]);
        }
    }
}

#[test]
fn many_origins_are_fetched_once_each() {
    for engine in Engine::each() {
        let origins: Vec<Origin> = (0..100).map(|_| Origin::with_rules(RULES)).collect();
        let gates = instances(&engine.link(), ["a1", "a2", "a3"], |_| ());
        // Each instance begins with another origin, and meets the others in the middle.
        let ask = |gate: &CrawlgateProcess, first: usize| {
            let (before, behind) = origins.split_at(first);
            for origin in behind.iter().chain(before) {
                assert_eq!(gate.get(&origin.url("/private")).status, 403);
            }
        };
        let ask = &ask;
        thread::scope(|scope| {
            for (number, gate) in gates.iter().enumerate() {
                scope.spawn(move || ask(gate, number * 33));
                scope.spawn(move || ask(gate, 50));
            }
        });
        for origin in &origins {
            assert_eq!(origin.robots_fetches(), 1, "{}", origin.url(""));
            assert_eq!(origin.seen_but_robots(), [""; 0]);
        }
    }
}

/// Returns what an instance tells of its fleet.
#[track_caller]
fn status(gate: &CrawlgateProcess) -> serde_json::Value {
    let said = gate.succeeds("fleet", &["status", "--json"]);
    serde_json::from_str(&said).unwrap()
}

#[test]
fn the_late_result_of_an_instance_that_was_stopped_is_refused() {
    let engine = or_skip!(Engine::start());
    let latch = Latch::new();
    let origin = Origin::http()
        .on("/robots.txt", [Reply::ok("User-agent: *\n").held(&latch), Reply::ok(RULES)]);
    let gates = instances(&engine.link(), ["a1", "a2"], |_| ());
    let mut wire = gates[0].asks(&origin.url("/private"));
    latch.arrivals(1);
    gates[0].signal(Signal::STOP);
    gates[1].refuses(&origin.url("/private"), 403, "robots_disallow");
    assert_eq!(origin.robots_fetches(), 2, "the lease has run out");
    eventually("a silence of ten seconds", || {
        let members = status(&gates[1])["members"].clone();
        let silent = members[0]["silent_ms"].as_u64().unwrap();
        assert_eq!(members[0]["name"], "a1");
        (silent >= 10_000).then_some(())
    });
    // The first one continues: its state is late, and that of the other is in force there, too.
    gates[0].signal(Signal::CONT);
    latch.open();
    gates[0].refused(&wire.response("GET"), 403, "robots_disallow");
    gates[0].refuses(&origin.url("/private"), 403, "robots_disallow");
    let counts = eventually("the late result to be refused", || {
        let counts = status(&gates[0])["counts"].clone();
        let refused = ["leases_lost", "results_refused"].map(|name| counts[name].as_u64().unwrap());
        (refused.iter().sum::<u64>() >= 1).then_some(counts)
    });
    assert_eq!(origin.robots_fetches(), 2, "{counts}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_planted_state_permits_nothing() {
    let engine = or_skip!(Engine::start());
    let origin = Origin::with_rules(RULES);
    let gates = instances(&engine.link(), ["a1", "a2"], |_| ());
    assert_eq!(gates[0].get(&origin.url("/private")).status, 403);
    // Every state is replaced by one of a higher token, with the same octets otherwise.
    let script = "local n = 0 for _, key in ipairs(redis.call('KEYS', '*:state:*')) do \
        local head = redis.call('GET', key) \
        redis.call('SET', key, '9000000000000000' .. string.sub(head, string.find(head, ' '), -1)) n = n + 1 end return n";
    let planted = engine.ask(&["EVAL", script, "0"]);
    assert!(planted.starts_with(':') && planted != ":0\r\n", "{planted}");
    gates[1].refuses(&origin.url("/private"), 403, "robots_disallow");
    assert_eq!(origin.robots_fetches(), 2, "fetched anew");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    gates[1].wait_said("this fleet has not made");
}

#[test]
fn two_instances_do_not_wait_for_each_others_redirects() {
    let (_engine, link) = or_skip!(engine_and_link());
    let gates = instances(&link, ["a1", "a2"], |_| ());
    let (latch, other) = (Latch::new(), Latch::new());
    let (one, two) = (Origin::http(), Origin::http());
    for (from, to, latch) in [(&one, &two, &latch), (&two, &one, &other)] {
        let moved = format!("Location: {}\r\n", to.url("/rules"));
        from.script("/robots.txt", [Reply::with(302, &moved, "").held(latch)]);
        from.script("/rules", [Reply::ok(RULES)]);
    }
    let began = thread::scope(|scope| {
        let asking = [(&gates[0], &one), (&gates[1], &two)]
            .map(|(gate, origin)| scope.spawn(|| gate.get(&origin.url("/page")).status));
        // Both hold a lease before either follows its redirect.
        latch.arrivals(1);
        other.arrivals(1);
        let began = Instant::now();
        latch.open();
        other.open();
        for one in asking {
            // Neither hop can be judged, as in one instance.
            assert!([403, 503].contains(&one.join().unwrap()));
        }
        began
    });
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    for origin in [&one, &two] {
        assert!(!origin.seen_but_robots().contains(&"GET /page".to_owned()));
    }
}

#[test]
fn a_refresh_at_any_instance_fetches_and_reaches_all() {
    let engine = or_skip!(Engine::start());
    let (link, other) = (engine.link(), engine.link());
    let origin = Origin::with_rules(RULES);
    let gates = [("a1", &link), ("a2", &other)].map(|(name, link)| instance(link, name, |_| ()));
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
    }
    assert_eq!(origin.robots_fetches(), 1);
    let refresh = |gate: &CrawlgateProcess| {
        gate.succeeds("origins", &["refresh", &origin.url("")]);
    };
    origin.script("/robots.txt", [Reply::ok("User-agent: *\nDisallow: /page\n")]);
    refresh(&gates[0]);
    for gate in &gates {
        gate.until(403, &origin.url("/page"));
    }
    // An instance that has missed a refresh fetches when it is told to, and does not only catch up.
    other.close();
    gates[1].wait_said("does not answer");
    refresh(&gates[0]);
    let before = origin.robots_fetches();
    origin.script("/robots.txt", [Reply::ok("User-agent: *\nDisallow: /other\n")]);
    other.open();
    refresh(&gates[1]);
    assert!(origin.robots_fetches() > before, "it was told to fetch");
    for gate in &gates {
        gate.until(200, &origin.url("/page"));
        assert_eq!(gate.get(&origin.url("/other")).status, 403);
    }
    logs_are_whole(&gates);
}

#[test]
fn an_instance_that_was_down_hears_what_was_forgotten_meanwhile() {
    let (_engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let mut gates = instances(&link, ["a1", "a2"], |_| ());
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
        gate.beside_until("origins", &[], |said| said.contains(&origin.authority()));
    }
    gates[1].signal(Signal::TERM);
    gates[1].wait();
    origin.script("/robots.txt", [Reply::ok("User-agent: *\nDisallow: /page\n")]);
    gates[0].succeeds("origins", &["forget", &origin.url("")]);
    gates[1].start_again();
    let before = origin.seen_but_robots().len();
    eventually("the instance to have the new rules", || {
        let answer = gates[1].get(&origin.url("/page"));
        assert_ne!(answer.status, 200, "it judges by what was forgotten");
        (answer.status == 403).then_some(())
    });
    assert_eq!(origin.seen_but_robots().len(), before);
}

#[test]
fn a_planted_token_without_end_stops_no_fetch() {
    let engine = or_skip!(Engine::start());
    let origin = Origin::with_rules(RULES);
    let gates = instances(&engine.link(), ["a1", "a2"], |_| ());
    assert_eq!(gates[0].get(&origin.url("/private")).status, 403);
    let script = "local n = 0 for _, key in ipairs(redis.call('KEYS', '*:state:*')) do \
        redis.call('SET', key, ARGV[1] .. ' planted') n = n + 1 end return n";
    for token in ["9007199254740992", "18446744073709551615"] {
        let planted = engine.ask(&["EVAL", script, "0", token]);
        assert!(planted.starts_with(':') && planted != ":0\r\n", "{planted}");
        let before = origin.robots_fetches();
        gates[1].succeeds("origins", &["refresh", &origin.url("")]);
        assert!(origin.robots_fetches() > before, "{token}");
        assert_eq!(gates[1].get(&origin.url("/private")).status, 403);
    }
}

#[test]
fn a_forgotten_origin_is_forgotten_for_identities_in_the_store_alone() {
    let engine = or_skip!(Engine::start());
    let origin = Origin::with_rules(RULES);
    let mut gates = instances(&engine.link(), ["a1", "a2"], |_| ());
    assert_eq!(gates[0].get(&origin.url("/page")).status, 200);
    gates[0].beside_until("origins", &[], |said| said.contains(&origin.authority()));
    gates[0].signal(Signal::TERM);
    gates[0].wait();
    gates[0].start_again();
    // Its memory is empty now.
    gates[0].succeeds("origins", &["forget", &origin.url("")]);
    let before = origin.robots_fetches();
    assert_eq!(gates[1].get(&origin.url("/page")).status, 200);
    assert!(origin.robots_fetches() > before, "it was forgotten");
}

#[test]
fn an_instance_that_misses_a_message_takes_over_what_was_forgotten() {
    let engine = or_skip!(Engine::start());
    let (link, other) = (engine.link(), engine.link());
    let origin = Origin::with_rules(RULES);
    let gates = [("a1", &link), ("a2", &other)].map(|(name, link)| instance(link, name, |_| ()));
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
    }
    other.set(Transfer::Hole);
    origin.script("/robots.txt", [Reply::ok("User-agent: *\nDisallow: /page\n")]);
    gates[0].succeeds("origins", &["forget", &origin.url("")]);
    assert_eq!(gates[0].get(&origin.url("/page")).status, 403);
    let fetches = origin.robots_fetches();
    // The message is gone before the other instance can read it.
    let trimmed = engine.ask(&["XTRIM", "crawlgate:{fleet}:news", "MAXLEN", "0"]);
    assert!(trimmed.starts_with(':') && trimmed != ":0\r\n", "{trimmed}");
    other.set(Transfer::Open(Duration::ZERO));
    gates[1].until(403, &origin.url("/page"));
    assert_eq!(origin.robots_fetches(), fetches, "taken from the fleet");
    logs_are_whole(&gates);
}

#[test]
fn what_was_forgotten_is_known_for_longer_than_any_instance_finds_its_state_fresh() {
    let (engine, link) = or_skip!(engine_and_link());
    let remaining = "local least = redis.call('PTTL', KEYS[1]) \
        for _, key in ipairs(redis.call('KEYS', '*:state:*')) do least = math.min(least, redis.call('PTTL', key)) end return least";
    let hour = 3_600_000;
    for (fresh_max, kept) in [("1d", 25 * hour), ("2h", 25 * hour), ("7d", 169 * hour)] {
        assert_eq!(engine.ask(&["FLUSHALL"]), "+OK\r\n");
        let origin = Origin::with_rules(RULES);
        let gate = instance(&link, "a1", |setup| {
            setup.set("robots", "fresh", "\"1h\"");
            setup.set("robots", "fresh_max", &format!("{fresh_max:?}"));
        });
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
        gate.succeeds("origins", &["forget", &origin.url("")]);
        let key = engine.ask(&["EVAL", "return redis.call('KEYS', '*:state:*')[1]", "0"]);
        let key = key.lines().nth(1).unwrap();
        let least = engine.ask(&["EVAL", remaining, "1", key]);
        let least: u64 = least.trim_start_matches(':').trim().parse().unwrap();
        assert!((kept - 120_000..=kept).contains(&least), "{fresh_max}: {least} ms");
    }
}

#[test]
fn a_stored_state_of_a_clock_that_was_ahead_is_imposed_on_no_instance() {
    for fails in [false, true] {
        ahead_of_the_others(fails);
    }
}

/// Starts an instance with a state from its own store that seems to be the latest; the origin may have failed since.
fn ahead_of_the_others(fails: bool) {
    let (_engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let mut setup = Setup::new();
    member(&mut setup, &link, "a1");
    let mut command = setup.command("serve");
    if with_clock(&mut command, "+3600s").is_none() {
        return;
    }
    let mut ahead = CrawlgateProcess::spawn(setup, command);
    ahead.wait_said("the fleet's engine answers");
    assert_eq!(ahead.get(&origin.url("/page")).status, 200);
    ahead.beside_until("origins", &[], |said| said.contains(&origin.authority()));
    ahead.signal(Signal::TERM);
    ahead.wait();
    origin.script("/robots.txt", [Reply::ok("User-agent: *\nDisallow: /page\n")]);
    let other = instance(&link, "a2", |_| ());
    other.succeeds("origins", &["refresh", &origin.url("")]);
    let before = (origin.seen_but_robots(), origin.robots_fetches());
    if fails {
        origin.script("/robots.txt", [Reply::with(500, "", "")]);
    }
    // By a clock that is right, its own state is the later one.
    ahead.start_again();
    eventually("the instance to ask the origin", || {
        let status = ahead.get(&origin.url("/page")).status;
        assert_ne!(status, 200, "it judges by the old rules");
        ((fails || status == 403) && origin.robots_fetches() > before.1).then_some(())
    });
    assert_ne!(ahead.get(&origin.url("/page")).status, 200);
    assert_ne!(other.get(&origin.url("/page")).status, 200);
    let after = (origin.seen_but_robots(), origin.robots_fetches());
    assert_eq!(after.0, before.0);
    assert!(fails || after.1 == before.1 + 1, "once");
    logs_are_whole(&[ahead, other]);
}

#[test]
fn a_comparison_that_the_engine_leaves_open_is_made_again() {
    let engine = or_skip!(Engine::start());
    let (link, other) = (engine.link(), engine.link());
    let origin = Origin::with_rules(RULES);
    let gates = [("a1", &link), ("a2", &other)]
        .map(|(name, link)| instance(link, name, |setup| setup.set("fleet", "patience", "\"2s\"")));
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
    }
    other.close();
    gates[1].wait_said("cut off from its fleet");
    origin.script("/robots.txt", [Reply::ok("User-agent: *\nDisallow: /page\n")]);
    gates[0].succeeds("origins", &["forget", &origin.url("")]);
    assert_eq!(gates[0].get(&origin.url("/page")).status, 403);
    // The message is lost, and a fetch seems to be in progress, so the comparison waits.
    let trimmed = engine.ask(&["XTRIM", "crawlgate:{fleet}:news", "MAXLEN", "0"]);
    assert!(trimmed.starts_with(':') && trimmed != ":0\r\n", "{trimmed}");
    let hidden = "local n = 0 for _, key in ipairs(redis.call('KEYS', '*:state:*')) do \
        redis.call('RENAME', key, 'hidden:' .. key) \
        redis.call('SET', (string.gsub(key, ':state:', ':lease:')), 'other 1') n = n + 1 end return n";
    let count = engine.ask(&["EVAL", hidden, "0"]);
    assert!(count.starts_with(':') && count != ":0\r\n", "{count}");
    other.open();
    gates[1].until(200, &origin.url("/page"));
    other.close();
    gates[1].until(503, &origin.url("/page"));
    let fetches = origin.robots_fetches();
    let shown = "for _, key in ipairs(redis.call('KEYS', 'hidden:*')) do \
        local state = string.sub(key, 8) redis.call('RENAME', key, state) \
        redis.call('DEL', (string.gsub(state, ':state:', ':lease:'))) end return 1";
    assert_eq!(engine.ask(&["EVAL", shown, "0"]), ":1\r\n");
    other.open();
    gates[1].until(403, &origin.url("/page"));
    assert_eq!(origin.robots_fetches(), fetches, "taken from the fleet");
    logs_are_whole(&gates);
}
