//! Instances of a fleet, beside a real engine.
//!
//! `accidents` names the tests that cause each accident of docs/fleet.md.

mod accidents;
mod chaos;
mod check;
mod clocks;
mod coordinator;
mod engine_faults;
mod failover;
mod foreign;
mod instance_faults;
mod overrides;
mod pace;
mod quotas;
mod robots;
mod tdmrep;
mod tls;
mod view;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{
    CrawlgateProcess, Engine, EngineLink, Origin, RULES, Setup, eventually, origin_ca_pem,
};

/// The key of the fleets of these tests.
const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";

/// Makes an instance of the fleet behind `link`.
pub(crate) fn member(setup: &mut Setup, link: &EngineLink, name: &str) {
    let key = setup.dir().join("fleet.key");
    std::fs::write(&key, KEY).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    setup.set("fleet", "engine", &link.engine());
    setup.set("fleet", "key_file", "\"fleet.key\"");
    setup.set("fleet", "name", &format!("{name:?}"));
    // On a busy machine, every answer may be late.
    setup.set("fleet", "timeout", "\"1s\"");
}

/// Starts an instance, and waits until it has heard from its engine.
#[track_caller]
fn joined(configure: impl FnOnce(&mut Setup)) -> CrawlgateProcess {
    let gate = CrawlgateProcess::with(configure);
    gate.wait_said("the fleet's engine answers");
    gate
}

/// Waits until an instance forwards a page. On a busy machine, it may be cut off for a moment.
#[track_caller]
fn forwards(gate: &CrawlgateProcess, url: &str) {
    eventually("a page", || (gate.get(url).status == 200).then_some(()));
}

/// Ends the crawlers that look at a flag, also when their test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Asserts that the log of each instance is whole, and that it holds the decisions that its crawlers were told.
#[track_caller]
fn logs_are_whole(gates: &[CrawlgateProcess]) {
    for gate in gates {
        let (code, said, errors) = gate.beside("audit", &["verify", "--all"]);
        assert_eq!(code, Some(0), "{said}{errors}");
    }
}

#[test]
fn an_instance_without_its_engine_forwards_nothing() {
    for mut engine in Engine::each() {
        let link = engine.link();
        let origin = Origin::with_rules(RULES);
        let gate = joined(|setup| {
            member(setup, &link, "a1");
            setup.set("fleet", "patience", "\"2s\"");
        });
        forwards(&gate, &origin.url("/page"));
        engine.kill();
        gate.wait_said("cut off from its fleet");
        let before = origin.seen().len();
        let answer = gate.get(&origin.url("/page"));
        gate.refused(&answer, 503, "fleet_cut");
        assert_eq!(origin.seen().len(), before, "nothing reaches the origin");
        engine.start_again();
        eventually("the instance to be back", || {
            (gate.get(&origin.url("/page")).status == 200).then_some(())
        });
    }
}

#[test]
fn an_instance_that_never_heard_from_its_engine_serves_and_forwards_nothing() {
    let Some(engine) = Engine::start() else {
        return;
    };
    let link = engine.link();
    link.close();
    let origin = Origin::with_rules(RULES);
    let gate = CrawlgateProcess::with(|setup| member(setup, &link, "a1"));
    let answer = gate.get(&origin.url("/page"));
    gate.refused(&answer, 503, "fleet_cut");
    assert_eq!(origin.seen().len(), 0);
    link.open();
    eventually("the instance to join", || {
        (gate.get(&origin.url("/page")).status == 200).then_some(())
    });
}

#[test]
fn a_request_that_is_held_is_refused_when_its_instance_is_cut_off() {
    let Some(mut engine) = Engine::start() else {
        return;
    };
    let link = engine.link();
    let origin = Origin::with_rules(RULES);
    let gate = joined(|setup| {
        member(setup, &link, "a1");
        setup.set("fleet", "patience", "\"2s\"");
        setup.set("pace", "requests_per_second", "0.1");
        setup.set("pace", "max_hold", "\"5m\"");
    });
    forwards(&gate, &origin.url("/first"));
    let key = format!("crawlgate:{{{}}}:turns", origin.url(""));
    let turns = || engine.ask(&["HGET", &key, "last"]);
    let before = turns();
    assert!(
        before.starts_with('$') && !before.starts_with("$-1"),
        "{before}"
    );
    let held = ["/held/1", "/held/2", "/held/3"].map(|path| {
        let mut wire = gate.connect();
        wire.send(format!(
            "GET {} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot/1.0\r\n\r\n",
            origin.url(path)
        ));
        wire
    });
    // A turn is in hand.
    eventually("the turn", || (turns() != before).then_some(()));
    engine.kill();
    for mut wire in held {
        let answer = wire.response("GET");
        gate.refused(&answer, 503, "fleet_cut");
        // The turn of the last one would have come after half a minute.
        let id = answer.problem()["id"].clone();
        let record = gate.record("the refusal", |record| record["id"] == id);
        assert!(record["hold_ms"].as_f64().unwrap() < 20_000.0, "{record}");
    }
    assert_eq!(origin.seen_but_robots(), ["GET /first"]);
}

#[test]
fn an_open_tunnel_ends_when_its_instance_is_cut_off() {
    let Some(mut engine) = Engine::start() else {
        return;
    };
    let link = engine.link();
    let gate = joined(|setup| {
        member(setup, &link, "a1");
        setup.set("fleet", "patience", "\"2s\"");
        setup.set("tls", "tunnel", "[\"bank.test\"]");
    });
    let origin = Origin::https();
    let authority = format!("bank.test:{}", origin.port());
    let mut wire = gate.connect();
    assert_eq!(wire.tunnel(&authority).status, 200);
    let mut wire = wire.tls("bank.test", origin_ca_pem());
    wire.get_inside(&authority, "/inside")
        .is_origins(200, "page /inside");
    engine.kill();
    let record = gate.record("the tunnel's end", |record| record["via"] == "tunnel");
    assert_eq!(record["error"], "http_request_denied", "{record}");
    drop(wire);
}
