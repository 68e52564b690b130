//! States, overrides and members of other versions, and planted numbers of changes.

use crawlgate_turns::fleet::FleetKey;

use super::overrides::{denied_at_all, deny, fleet};
use super::{engine_and_link, instance, logs_are_whole};
use crate::support::{CrawlgateProcess, Engine, Origin, RULES, eventually, wait_until};

/// Returns octets as a text of Lua.
fn lua(octets: &[u8]) -> String {
    let escaped: String = octets.iter().map(|octet| format!("\\{octet:03}")).collect();
    format!("\"{escaped}\"")
}

/// Returns the number of calls of a command, by scripts, too.
#[track_caller]
fn calls(engine: &Engine, command: &str) -> u64 {
    let told = engine.ask(&["INFO", "commandstats"]);
    let line = told
        .split_once(&format!("cmdstat_{command}:calls="))
        .and_then(|(_, rest)| rest.split(',').next());
    line.and_then(|calls| calls.parse().ok()).unwrap_or_else(|| panic!("{told}"))
}

#[test]
fn an_override_of_another_version_stops_the_instances_that_cannot_read_it() {
    let (engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gates = fleet(&link, 2, "\"2s\"");
    let id = "01M7WD7TKV00000000R3ZYW007";
    let changed = "redis.call('HINCRBY', 'crawlgate:{fleet}:counters', 'overrides', 1) return 1";
    let ask = |command: &str, set: &str, octets: &str| {
        let place = format!("'crawlgate:{{fleet}}:{set}', '{id}'");
        let script = format!("redis.call('{command}', {place}{octets}) {changed}");
        assert_eq!(engine.ask(&["EVAL", &script, "0"]), ":1\r\n");
    };
    let put = |set: &str, word: &str, text: &str| {
        let place = [word.as_bytes(), id.as_bytes()];
        let sealed = FleetKey::of(&[7; 32]).seal(&place, text.as_bytes());
        ask("HSET", set, &format!(", {}", lua(&sealed)));
    };
    let newer = "{\"version\":2,\"denies\":\"/page\"}";
    let ways_out: [&dyn Fn(); 3] = [
        &|| ask("HDEL", "overrides", ""),
        &|| put("overrides", "override", "{\"version\":2,\"until\":1}"),
        &|| put("overrides_removed", "override removed", newer),
    ];
    for way_out in ways_out {
        for gate in &gates {
            gate.until(200, &origin.url("/page"));
        }
        put("overrides", "override", newer);
        for gate in &gates {
            gate.until(503, &origin.url("/page"));
            says!(
                gate.said(),
                &format!("another version wrote the override {id}, which this one cannot read")
            );
        }
        let before = origin.seen().len();
        let answer = gates[0].get(&origin.url("/page"));
        gates[0].refused(&answer, 503, "fleet_cut");
        assert_eq!(origin.seen().len(), before, "nothing reaches the origin");
        // While nothing changes, it is not read again. An instance that has lost an answer may read once more.
        eventually("ten heartbeats without another reading", || {
            let (reads, heartbeats) = (calls(&engine, "hgetall"), calls(&engine, "zadd") + 10);
            wait_until("ten heartbeats", || calls(&engine, "zadd") >= heartbeats);
            (calls(&engine, "hgetall") == reads).then_some(())
        });
        way_out();
    }
    for gate in &gates {
        gate.until(200, &origin.url("/page"));
    }
}

#[test]
fn a_removal_of_another_version_takes_an_override_out_of_force() {
    let (engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gates = fleet(&link, 2, "\"15s\"");
    let (id, _) = deny(&gates[0], &origin.url(""), "/page");
    denied_at_all(&gates, &origin, "/page", &id);
    let place = [&b"override removed"[..], id.as_bytes()];
    let sealed = FleetKey::of(&[7; 32]).seal(&place, b"{\"version\":2}");
    let removed = lua(&sealed);
    let script = format!(
        "redis.call('HSET', 'crawlgate:{{fleet}}:overrides_removed', '{id}', {removed}) \
         redis.call('HINCRBY', 'crawlgate:{{fleet}}:counters', 'overrides', 1) return 1"
    );
    assert_eq!(engine.ask(&["EVAL", &script, "0"]), ":1\r\n");
    for gate in &gates {
        gate.until(200, &origin.url("/page"));
    }
    // An instance that joins meets both, and takes over neither.
    let late = instance(&link, "a3", |_| ());
    eventually("the instance to serve", || {
        let status = late.get(&origin.url("/page")).status;
        assert_ne!(status, 403);
        (status == 200).then_some(())
    });
    let script = format!(
        "return redis.call('HGET', 'crawlgate:{{fleet}}:overrides_removed', '{id}') == {removed} and 1 or 0"
    );
    let same = engine.ask(&["EVAL", &script, "0"]);
    assert_eq!(same, ":1\r\n", "the removal stays as it was written");
    let mut gates = gates;
    gates.push(late);
    logs_are_whole(&gates);
}

#[test]
fn a_member_of_another_version_counts_as_one_without_the_override() {
    let (engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gates = fleet(&link, 1, "\"15s\"");
    let join = "local t = redis.call('TIME') \
        redis.call('ZADD', 'crawlgate:{fleet}:members', t[1] * 1000, 'a9') \
        redis.call('HSET', 'crawlgate:{fleet}:reports', 'a9', ARGV[1]) return 1";
    for report in [
        "{\"version\":\"9.0.0\",\"overrides\":\"all\"}",
        "{\"version\":\"9.0.0\",\"more\":1}",
        "9",
        // More than the engine's clock has counted.
        "{\"version\":\"0.1.0\",\"overrides\":9007199254740991}",
    ] {
        assert_eq!(engine.ask(&["EVAL", join, "0", report]), ":1\r\n");
        let (id, said) = deny(&gates[0], &origin.url(""), "/page");
        let last = said.lines().last().unwrap();
        assert!(
            last.starts_with("in force on a1; a9 has not been heard of for "),
            "{report}: {said}"
        );
        denied_at_all(&gates, &origin, "/page", &id);
        gates[0].succeeds("override", &["remove", &id, "--by", "Ada"]);
    }
}

#[test]
fn a_planted_number_of_changes_hides_no_override() {
    let (engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gates = fleet(&link, 2, "\"2s\"");
    let counters = "crawlgate:{fleet}:counters";
    let planted = [
        "9007199254740990",
        "9007199254740991",
        "9007199254740993",
        "18446744073709551615",
        "18446744073709551616",
        "1e300",
        "-1",
        "none",
    ];
    for (round, number) in planted.into_iter().enumerate() {
        let path = format!("/{round}/page");
        for gate in &gates {
            gate.until(200, &origin.url(&path));
        }
        engine.ask(&["HSET", counters, "overrides", number]);
        let (id, said) = deny(&gates[round % 2], &origin.url(""), &path);
        if said.ends_with("in force on a1, a2\n") {
            denied_at_all(&gates, &origin, &path, &id);
        }
        // Denied or cut off, at both.
        for gate in &gates {
            eventually("the instance to forward nothing", || {
                let status = gate.get(&origin.url(&path)).status;
                assert!([200, 403, 503].contains(&status), "{number}: {status}");
                (status != 200).then_some(())
            });
        }
        // Without a number, the engine takes no override in: the other instance hears of it when the engine is mended.
        let is_taken = number != "none";
        let before = origin.seen().len();
        engine.ask(&["HDEL", counters, "overrides"]);
        for gate in &gates {
            eventually("the denial", || {
                let answer = gate.get(&origin.url(&path));
                let is_let = answer.status == 200;
                assert!(!is_taken || !is_let, "{number}: {}", answer.text());
                (answer.status == 403).then_some(())
            });
        }
        assert!(!is_taken || origin.seen().len() == before, "{number}");
    }
}

/// The dictionary of packed states, which is part of their form.
const DICTIONARY: &[u8] = include_bytes!("../../../crates/gate/src/cache/shared/dictionary.txt");

#[test]
fn a_state_of_another_version_is_fetched_anew() {
    let (engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let start = |name: &str| instance(&link, name, |_| ());
    let private = |gate: &CrawlgateProcess| {
        gate.refuses(&origin.url("/private"), 403, "robots_disallow");
    };
    private(&start("a1"));
    let key = engine.ask(&["EVAL", "return redis.call('KEYS', '*:state:*')[1]", "0"]);
    let key = key.lines().nth(1).unwrap();
    let (_, variant) = key.split_once(":state:").unwrap();
    let to_hex = format!(
        "return (string.gsub(redis.call('GET', '{key}'), '.', function(c) \
         return string.format('%02x', string.byte(c)) end))"
    );
    let told = engine.ask(&["EVAL", &to_hex, "0"]);
    let digits = told.lines().nth(1).unwrap().as_bytes().chunks(2);
    let octets: Vec<u8> =
        digits.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect();
    let end = octets.iter().position(|octet| *octet == b' ').unwrap();
    let token: u64 = str::from_utf8(&octets[..end]).unwrap().parse().unwrap();
    let fleet = FleetKey::of(&[7; 32]);
    let url = origin.url("");
    let place = |token: &u64| {
        let parts = [&b"state"[..], url.as_bytes(), variant.as_bytes()].map(<[u8]>::to_vec);
        [&parts[..], &[token.to_be_bytes().to_vec()]].concat()
    };
    let parts = place(&token);
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let packed = fleet.open(&parts, &octets[end + 1..]).unwrap();
    let mut unpacking = zstd::bulk::Decompressor::with_dictionary(DICTIONARY).unwrap();
    let head = String::from_utf8(unpacking.decompress(packed, 1 << 20).unwrap()).unwrap();
    let version = head.split_once("\"version\":").unwrap().1;
    let version: u32 = version.split(',').next().unwrap().parse().unwrap();
    // The same state under a higher token: as it is, and as another version writes it.
    for (name, written, fetches) in [("a2", version, 1), ("a3", version + 1, 2)] {
        let token = token + u64::from(written);
        let old = format!("\"version\":{version},");
        let head = head.replacen(&old, &format!("\"version\":{written},"), 1);
        let mut packing = zstd::bulk::Compressor::with_dictionary(3, DICTIONARY).unwrap();
        let packed = packing.compress(head.as_bytes()).unwrap();
        let parts = place(&token);
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let sealed = lua(&fleet.seal(&parts, &packed));
        let plant = format!("redis.call('SET', '{key}', '{token} ' .. {sealed}) return 1");
        assert_eq!(engine.ask(&["EVAL", &plant, "0"]), ":1\r\n");
        let gate = start(name);
        private(&gate);
        assert_eq!(origin.robots_fetches(), fetches, "{name}: {head}");
        if fetches > 1 {
            gate.wait_said("this fleet has not made");
        }
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}
