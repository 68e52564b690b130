//! Overrides of a fleet: added or removed at one instance, in force at all.

mod pages;

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::pace::bound;
use super::{engine_and_link, instance, instances, joined, member};
use crate::support::{
    CrawlgateProcess, Engine, EngineLink, Origin, RULES, Setup, Transfer, eventually, wait_until,
};

/// The longest time after which an override that was added is in force everywhere.
const SOON: Duration = Duration::from_secs(1);

/// Starts the instances a1, a2, … of a fleet, with this patience.
pub(super) fn fleet(link: &EngineLink, count: usize, patience: &str) -> Vec<CrawlgateProcess> {
    fleet_from(link, 1, count, patience)
}

/// Starts instances with numbers from `first` on.
fn fleet_from(
    link: &EngineLink,
    first: usize,
    count: usize,
    patience: &str,
) -> Vec<CrawlgateProcess> {
    let start = |number| {
        joined(|setup| {
            member(setup, link, &format!("a{number}"));
            setup.set("fleet", "patience", patience);
        })
    };
    (first..first + count).map(start).collect()
}

/// Adds a denial at an instance; returns its identifier and what was said.
#[track_caller]
pub(super) fn deny(gate: &CrawlgateProcess, origin: &str, pattern: &str) -> (String, String) {
    let said = gate.setup.overrides(origin, pattern, "deny");
    let id = said.strip_prefix("override ").and_then(|rest| rest.split(':').next());
    let id = id.unwrap_or_else(|| panic!("{said}")).to_owned();
    assert_eq!(id.len(), 26, "{said}");
    (id, said)
}

/// Waits until a denial is in force at these instances, if the operator was told that one is late: on a busy machine, one may
/// be. Tells whether it was so.
#[track_caller]
pub(super) fn wait_late(
    said: &str,
    gates: &[CrawlgateProcess],
    origin: &Origin,
    path: &str,
) -> bool {
    let is_late = said.contains("forwards nothing from ") || said.contains("in force only on ");
    assert!(is_late || said.contains("in force on a1, a2"), "{said}");
    for gate in gates.iter().filter(|_| is_late) {
        gate.until(403, &origin.url(path));
    }
    is_late
}

/// Returns the overrides in force, as an instance lists them.
#[track_caller]
pub(super) fn listed(gate: &CrawlgateProcess) -> Vec<Value> {
    let said = gate.succeeds("override", &["list", "--json"]);
    let lines = said.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Asserts that no instance forwards a page, and that each names this override. On a busy machine, one may be cut off for a
/// moment.
#[track_caller]
pub(super) fn denied_at_all(gates: &[CrawlgateProcess], origin: &Origin, path: &str, id: &str) {
    let before = origin.seen().len();
    for gate in gates {
        let answer = eventually("the denial", || {
            let answer = gate.get(&origin.url(path));
            assert_ne!(answer.status, 200, "{}", answer.text());
            (answer.problem()["reason"] != "fleet_cut").then_some(answer)
        });
        assert_eq!(answer.status, 403, "{}", answer.text());
        assert_eq!(answer.problem()["override"], id, "{}", answer.text());
    }
    assert_eq!(origin.seen().len(), before, "the origin sees nothing of {path}");
}

#[test]
fn a_denial_added_at_one_instance_holds_at_all_whatever_the_engine_forgets() {
    for engine in Engine::each() {
        let link = engine.link();
        let origin = Origin::with_rules(RULES);
        let gates = fleet(&link, 3, "\"15s\"");
        let (mut ids, mut slowest, mut late) = (Vec::new(), Duration::ZERO, 0);
        for round in 0..20 {
            let path = format!("/{round}/page");
            for gate in &gates {
                assert_eq!(gate.get(&origin.url(&path)).status, 200, "round {round}");
            }
            let start = Instant::now();
            let at = round % gates.len();
            let (id, said) = deny(&gates[at], &origin.url(""), &path);
            slowest = slowest.max(start.elapsed());
            late += i32::from(wait_late(&said, &gates, &origin, &path));
            denied_at_all(&gates, &origin, &path, &id);
            ids.push((path, id));
            if round % 5 == 2 {
                assert_eq!(engine.ask(&["FLUSHALL"]), "+OK\r\n");
                for (path, id) in &ids {
                    denied_at_all(&gates, &origin, path, id);
                }
            }
        }
        assert!(slowest < SOON * bound(3, 15), "{slowest:?}");
        assert!(late <= bound(0, 5), "late in {late} of 20 rounds");
        // The instances have filled the engine again, and one that joins now learns of all.
        wait_until("the engine to hold all overrides again", || {
            engine.ask(&["HLEN", "crawlgate:{fleet}:overrides"]) == ":20\r\n"
        });
        let late = instance(&link, "a4", |_| ());
        for (path, id) in &ids {
            denied_at_all(std::slice::from_ref(&late), &origin, path, id);
        }
        let listed = listed(&late);
        assert_eq!(listed.len(), 20);
        for (number, one) in listed.iter().enumerate() {
            let from = one["instance"].as_str().unwrap();
            assert!(["a1", "a2", "a3"].contains(&from), "{number}: {one}");
        }
    }
}

#[test]
fn an_override_removed_at_another_instance_holds_nowhere() {
    for engine in Engine::each() {
        let link = engine.link();
        let origin = Origin::with_rules(RULES);
        let gates = fleet(&link, 2, "\"15s\"");
        let (id, said) = deny(&gates[0], &origin.url(""), "/");
        wait_late(&said, &gates, &origin, "/page");
        denied_at_all(&gates, &origin, "/page", &id);
        let said = gates[1].succeeds("override", &["remove", &id, "--by", "Grace"]);
        let told = format!("override {id} removed\nin force on");
        assert!(said.starts_with(&told), "{said}");
        for gate in &gates {
            gate.until(200, &origin.url("/page"));
        }
        // Nothing brings it back: not the loss of the engine, not a restart.
        assert_eq!(engine.ask(&["FLUSHALL"]), "+OK\r\n");
        wait_until("the removal to be in the engine again", || {
            engine.ask(&["HLEN", "crawlgate:{fleet}:overrides_removed"]) == ":1\r\n"
        });
        for gate in &gates {
            assert_eq!(listed(gate), Vec::<Value>::new());
            assert_eq!(gate.get(&origin.url("/page")).status, 200);
        }
        let (_, errors) = gates[0].ends(2, "override", &["remove", &id, "--by", "Ada"]);
        says!(errors, "by Grace already");
        let (_, all, _) = gates[0].beside("override", &["list", "--all"]);
        says!(all, &id, "Ada Example at a1");
    }
}

#[test]
fn an_instance_that_is_stopped_is_named_and_forwards_nothing_later() {
    let (engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gates = fleet(&link, 3, "\"2s\"");
    gates[2].signal(Signal::STOP);
    let (id, said) = deny(&gates[0], &origin.url(""), "/");
    let late = said.lines().last().unwrap();
    assert!(late.contains("; a3 has not been heard of for "), "{said}");
    if !late.starts_with("in force on a1, a2; ") {
        wait_late(&said, &gates[..2], &origin, "/page");
    }
    assert!(late.ends_with(" s and forwards nothing from 2 s on"), "{said}");
    denied_at_all(&gates[..2], &origin, "/page", &id);
    // It was silent for longer than its patience, so it begins with nothing at all.
    eventually("a3 to be silent for long enough", || {
        gates[0].ends(2, "override", &["remove", "1", "--by", "Ada"]);
        let rows = engine.ask(&["ZCARD", "crawlgate:{fleet}:members"]);
        (rows == ":2\r\n").then_some(())
    });
    let before = origin.seen().len();
    gates[2].signal(Signal::CONT);
    eventually("a3 to have the denial", || {
        let answer = gates[2].get(&origin.url("/page"));
        assert_ne!(answer.status, 200, "{}", answer.text());
        (answer.status == 403).then_some(())
    });
    assert_eq!(origin.seen().len(), before, "the origin sees nothing");
}

#[test]
fn an_override_that_is_planted_in_the_engine_is_not_taken() {
    let (engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gates = fleet(&link, 2, "\"15s\"");
    let (id, said) = deny(&gates[0], &origin.url(""), "/page");
    wait_late(&said, &gates, &origin, "/page");
    let added = "crawlgate:{fleet}:overrides";
    let removed = "crawlgate:{fleet}:overrides_removed";
    // Without a seal; under another identifier; a removal of the same content.
    engine.ask(&["HSET", added, "01M7WD7TKV00000000R3ZYW007", "{}"]);
    for (to, name) in [(added, "01M7WD7TKV00000000R3ZYW008"), (removed, &id)] {
        let copy = format!(
            "redis.call('HSET', '{to}', '{name}', redis.call('HGET', '{added}', '{id}')) return 1"
        );
        assert_eq!(engine.ask(&["EVAL", &copy, "0"]), ":1\r\n");
    }
    let (second, said) = deny(&gates[1], &origin.url(""), "/other");
    wait_late(&said, &gates, &origin, "/other");
    denied_at_all(&gates, &origin, "/page", &id);
    denied_at_all(&gates, &origin, "/other", &second);
    for gate in &gates {
        gate.wait_said("was not sealed by the fleet's key");
        assert_eq!(listed(gate).len(), 2);
    }
}

#[test]
fn an_override_added_without_the_engine_holds_here_and_reaches_the_others_later() {
    let engine = or_skip!(Engine::start());
    let (link, other) = (engine.link(), engine.link());
    let origin = Origin::with_rules(RULES);
    let near = fleet(&link, 1, "\"60s\"").remove(0);
    let far = instance(&other, "a2", |_| ());
    assert_eq!(far.get(&origin.url("/page")).status, 200);
    link.close();
    let (id, said) = deny(&near, &origin.url(""), "/page");
    says!(said, "in force only on a1: the engine does not answer");
    denied_at_all(std::slice::from_ref(&near), &origin, "/page", &id);
    link.open();
    far.until(403, &origin.url("/page"));
    assert_eq!(listed(&far)[0]["id"], id);
}

#[test]
fn overrides_from_before_the_fleet_reach_all_instances() {
    let (_engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let mut setup = Setup::new();
    let url = origin.url("");
    let said = setup.overrides(&url, "/page", "deny");
    assert!(said.starts_with("override 1:"), "{said}");
    member(&mut setup, &link, "a1");
    let command = setup.command("serve");
    let first = CrawlgateProcess::spawn(setup, command);
    let second = instance(&link, "a2", |_| ());
    let id = eventually("the override to have an identifier", || {
        let id = listed(&second).first()?["id"].as_str()?.to_owned();
        (id.len() == 26).then_some(id)
    });
    denied_at_all(&[first, second], &origin, "/page", &id);
}

#[test]
fn an_origin_that_one_instance_forgets_is_forgotten_by_all() {
    let (_engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gates = fleet(&link, 2, "\"15s\"");
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
        gate.beside_until("origins", &[], |said| said.contains(&origin.authority()));
    }
    gates[0].succeeds("origins", &["forget", &origin.url("")]);
    for gate in &gates {
        gate.beside_until("origins", &[], |said| !said.contains(&origin.authority()));
    }
}

#[test]
fn an_instance_that_the_engine_has_forgotten_is_named_as_late() {
    let engine = or_skip!(Engine::start());
    let (link, other) = (engine.link(), engine.link());
    let origin = Origin::with_rules(RULES);
    let mut gates = fleet(&link, 1, "\"15s\"");
    gates.push(instance(&other, "a2", |_| ()));
    let (near, far) = (&gates[0], &gates[1]);
    let (_, said) = deny(near, &origin.url(""), "/first");
    wait_late(&said, &gates, &origin, "/first");
    other.set(Transfer::Hole);
    assert_eq!(engine.ask(&["FLUSHALL"]), "+OK\r\n");
    let (id, said) = deny(near, &origin.url(""), "/page");
    says!(said, "in force on a1; a2 has not been heard of for ");
    other.set(Transfer::Open(Duration::ZERO));
    far.until(403, &origin.url("/page"));
    let (_, said) = deny(near, &origin.url(""), "/third");
    wait_late(&said, &gates, &origin, "/third");
    denied_at_all(&gates, &origin, "/page", &id);
}

#[test]
fn a_change_beside_a_process_without_a_socket_reaches_the_fleet() {
    let (_engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gates = instances(&link, ["a1", "a2"], |setup| {
        setup.set("admin", "socket", "\"\"");
    });
    for gate in &gates {
        assert_eq!(gate.get(&origin.url("/page")).status, 200);
    }
    let (id, said) = deny(&gates[0], &origin.url(""), "/page");
    says!(
        said,
        "a process that uses this store takes it over within a second and brings it to the fleet"
    );
    for gate in &gates {
        gate.until(403, &origin.url("/page"));
    }
    denied_at_all(&gates, &origin, "/page", &id);
    let said = gates[0].succeeds("override", &["remove", &id, "--by", "Ada"]);
    assert!(!said.contains("no process of this store runs"), "{said}");
}
