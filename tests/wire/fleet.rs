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
    CrawlgateProcess, Engine, EngineLink, Origin, RULES, Setup, origin_ca_pem, wait_until,
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

/// Starts an engine and a link to it. `None` where none is installed.
#[track_caller]
fn engine_and_link() -> Option<(Engine, EngineLink)> {
    let engine = Engine::start()?;
    let link = engine.link();
    Some((engine, link))
}

/// Starts instances of the fleet behind `link`, and waits until each has heard from its engine.
#[track_caller]
fn instances<const N: usize>(
    link: &EngineLink,
    names: [&str; N],
    configure: impl Fn(&mut Setup),
) -> [CrawlgateProcess; N] {
    names.map(|name| instance(link, name, &configure))
}

/// Starts an instance of the fleet behind `link`, and waits until it has heard from its engine.
#[track_caller]
fn instance(link: &EngineLink, name: &str, configure: impl FnOnce(&mut Setup)) -> CrawlgateProcess {
    joined(|setup| {
        member(setup, link, name);
        configure(setup);
    })
}

/// Starts an instance, and waits until it has heard from its engine.
#[track_caller]
fn joined(configure: impl FnOnce(&mut Setup)) -> CrawlgateProcess {
    let gate = CrawlgateProcess::with(configure);
    gate.wait_said("the fleet's engine answers");
    gate
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
        gate.succeeds("audit", &["verify", "--all"]);
    }
}

#[test]
fn an_instance_without_its_engine_forwards_nothing() {
    for mut engine in Engine::each() {
        let link = engine.link();
        let origin = Origin::with_rules(RULES);
        let gate = instance(&link, "a1", |setup| {
            setup.set("fleet", "patience", "\"2s\"");
        });
        gate.until(200, &origin.url("/page"));
        engine.kill();
        gate.wait_said("cut off from its fleet");
        let before = origin.seen().len();
        gate.refuses(&origin.url("/page"), 503, "fleet_cut");
        assert_eq!(origin.seen().len(), before, "nothing reaches the origin");
        engine.start_again();
        gate.until(200, &origin.url("/page"));
    }
}

#[test]
fn an_instance_that_never_heard_from_its_engine_serves_and_forwards_nothing() {
    let (_engine, link) = or_skip!(engine_and_link());
    link.close();
    let origin = Origin::with_rules(RULES);
    let gate = CrawlgateProcess::with(|setup| member(setup, &link, "a1"));
    gate.refuses(&origin.url("/page"), 503, "fleet_cut");
    assert_eq!(origin.seen().len(), 0);
    link.open();
    gate.until(200, &origin.url("/page"));
}

#[test]
fn a_request_that_is_held_is_refused_when_its_instance_is_cut_off() {
    let (mut engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gate = instance(&link, "a1", |setup| {
        setup.set("fleet", "patience", "\"2s\"");
        setup.set("pace", "requests_per_second", "0.1");
        setup.set("pace", "max_hold", "\"5m\"");
    });
    gate.until(200, &origin.url("/first"));
    let key = format!("crawlgate:{{{}}}:turns", origin.url(""));
    let turns = || engine.ask(&["HGET", &key, "last"]);
    let before = turns();
    assert!(before.starts_with('$') && !before.starts_with("$-1"), "{before}");
    let held = ["/held/1", "/held/2", "/held/3"].map(|path| gate.asks(&origin.url(path)));
    // A turn is in hand.
    wait_until("the turn", || turns() != before);
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
    let (mut engine, link) = or_skip!(engine_and_link());
    let gate = instance(&link, "a1", |setup| {
        setup.set("fleet", "patience", "\"2s\"");
        setup.set("tls", "tunnel", "[\"bank.test\"]");
    });
    let origin = Origin::https();
    let authority = format!("bank.test:{}", origin.port());
    let mut wire = gate.tunnels(&authority).tls("bank.test", origin_ca_pem());
    wire.passes_inside(&authority, "/inside");
    engine.kill();
    let record = gate.record("the tunnel's end", |record| record["via"] == "tunnel");
    assert_eq!(record["error"], "http_request_denied", "{record}");
    drop(wire);
}
