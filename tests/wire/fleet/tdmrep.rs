//! One fetch of a tdmrep.json for all instances, and its state in force at each.

use super::{instances, logs_are_whole};
use crate::support::{CrawlgateProcess, Engine, Latch, Origin, Reply, Setup, eventually};
use crate::usage::tdmrep::{PATH, RESERVED, fetches};

/// Starts two instances that enforce tdmrep.json. Their clients mine text and data.
fn enforcing(engine: &Engine, more: impl Fn(&mut Setup)) -> [CrawlgateProcess; 2] {
    let link = engine.link();
    instances(&link, ["a1", "a2"], |setup| {
        setup.set("signals", "tdmrep", "\"enforce\"");
        setup.set("policy", "purposes", "[\"tdm\"]");
        more(setup);
    })
}

#[test]
fn all_instances_share_the_fetch_of_a_tdmrep_json_and_its_state() {
    let engine = or_skip!(Engine::start());
    let gates = enforcing(&engine, |setup| setup.set("robots", "hold", "\"500ms\""));
    let latch = Latch::new();
    let origin = Origin::http().on(PATH, [Reply::ok(RESERVED).held(&latch)]);
    let page = origin.url("/art/1");
    for gate in &gates {
        // robots.txt may be late, too, on a busy machine. The file does not come: both wait for the same fetch.
        let answer = eventually("robots.txt to be known", || {
            let answer = gate.get(&page);
            (answer.problem()["reason"] != "robots_pending").then_some(answer)
        });
        gate.refused(&answer, 503, "usage_pending");
    }
    latch.open();
    for gate in &gates {
        let in_force = |path: &str| {
            eventually("the file to be in force", || {
                let answer = gate.get(&origin.url(path));
                (answer.status != 503).then_some(answer)
            })
        };
        let record = gate.refused(&in_force("/art/1"), 403, "usage_disallow");
        assert_eq!(record["usage"]["preferences"][0]["entry"], 1, "{record}");
        in_force("/text").is_origins(200, "page /text");
    }
    assert_eq!((fetches(&origin), origin.robots_fetches()), (1, 1));
    logs_are_whole(&gates);
}

#[test]
fn a_tdmrep_json_that_cannot_be_had_reserves_nothing_at_any_instance() {
    let engine = or_skip!(Engine::start());
    let gates = enforcing(&engine, |_| ());
    let origin = Origin::http().on(PATH, [Reply::status(503, "")]);
    for gate in &gates {
        let url = origin.url("/art/1");
        gate.get(&url).is_origins(200, "page /art/1");
        let record = gate.record("the page", |record| record["url"] == url);
        has!(record["usage"]["tdmrep"], {"state": "unreachable"}, "{record}");
    }
    assert_eq!((fetches(&origin), origin.robots_fetches()), (1, 1));
    logs_are_whole(&gates);
}
