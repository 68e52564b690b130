//! Instances of a fleet, beside a real engine.

mod coordinator;
mod overrides;
mod pace;
mod robots;

use crate::support::{Engine, Gate, Origin, RULES, Setup, Wall, eventually};

/// The key of the fleets of these tests.
const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";

/// Makes an instance of the fleet behind `wall`.
fn member(setup: &mut Setup, wall: &Wall, name: &str) {
    std::fs::write(setup.dir().join("fleet.key"), KEY).unwrap();
    setup.set("fleet", "engine", &wall.engine());
    setup.set("fleet", "key_file", "\"fleet.key\"");
    setup.set("fleet", "name", &format!("{name:?}"));
}

#[test]
fn an_instance_without_its_engine_forwards_nothing() {
    let Some(mut engine) = Engine::start() else {
        return;
    };
    let wall = engine.wall();
    let origin = Origin::with_rules(RULES);
    let gate = Gate::with(|setup| {
        member(setup, &wall, "a1");
        setup.set("fleet", "patience", "\"2s\"");
    });
    assert_eq!(gate.get(&origin.url("/page")).status, 200);
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

#[test]
fn an_instance_that_never_heard_from_its_engine_serves_and_forwards_nothing() {
    let Some(engine) = Engine::start() else {
        return;
    };
    let wall = engine.wall();
    wall.close();
    let origin = Origin::with_rules(RULES);
    let gate = Gate::with(|setup| member(setup, &wall, "a1"));
    let answer = gate.get(&origin.url("/page"));
    gate.refused(&answer, 503, "fleet_cut");
    assert_eq!(origin.seen().len(), 0);
    wall.open();
    eventually("the instance to join", || {
        (gate.get(&origin.url("/page")).status == 200).then_some(())
    });
}
