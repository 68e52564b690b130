//! The views that an operator has of a fleet: `crawlgate fleet status`, the API, the console, the metrics.

use serde_json::Value;

use super::{engine_and_link, instance, joined, member};
use crate::support::{AdminGate, CrawlgateProcess, Origin, RULES, Setup, eventually, wait_until};

/// Returns the fleet as the process of this gate sees it.
#[track_caller]
fn status(gate: &CrawlgateProcess) -> Value {
    let out = gate.succeeds("fleet", &["status", "--json"]);
    serde_json::from_str(&out).unwrap()
}

fn names(view: &Value) -> Vec<&str> {
    let members = view["members"].as_array().unwrap().iter();
    members.map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn the_command_shows_link_engine_members_and_counts() {
    let (mut engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let gate = instance(&link, "a1", |setup| {
        setup.set("pace", "requests_per_second", "1000");
    });
    let mut other = instance(&link, "a2", |_| ());
    assert_eq!(gate.get(&origin.url("/page")).status, 200);
    let view = eventually("both members", || {
        let view = status(&gate);
        let is_whole = names(&view) == ["a1", "a2"] && view["link"]["state"] == "connected";
        is_whole.then_some(view)
    });
    assert_eq!(view["instance"], "a1");
    assert!(view["link"]["heard_ms"].as_u64().unwrap() < 30_000, "{view:#}");
    assert!(view["link"]["round_trip_us"].as_u64().unwrap() > 0, "{view:#}");
    assert_eq!(view["link"]["generations"], 1, "{view:#}");
    let told = &view["engine"];
    assert_eq!(told["address"], format!("127.0.0.1:{}", link.port()));
    assert!(told["version"].as_str().unwrap().contains(' '), "{view:#}");
    assert!(told["memory_used"].as_u64().unwrap() > 100_000, "{view:#}");
    assert_eq!(told["memory_limit"], Value::Null);
    assert!(told["generation_age_ms"].is_u64(), "{view:#}");
    // The pace of one of them is another one.
    assert_eq!(view["members"][0]["differs"], serde_json::json!([]));
    has!(view, {"members.1.differs": ["pace"], "members.1.version": env!("CARGO_PKG_VERSION")});
    assert!(view["members"][1]["since"].is_string(), "{view:#}");
    gate.wait_said("have other settings than this instance");
    let counts = &view["counts"];
    assert_eq!(counts["leases_acquired"], 1, "{view:#}");
    has!(counts, {"leases_held": 0, "leases_lost": 0});
    let turns = |name: &str| counts[name].as_u64().unwrap();
    assert!(turns("turns_granted") >= 1, "{view:#}");
    assert!(turns("turns_asked") >= turns("turns_granted"), "{view:#}");
    let table = gate.beside_until("fleet", &["status"], |table| {
        table.contains("link        connected since 2")
    });
    says!(table, "instance    a1\n", "MEMBER", "pace\n");
    // Another command asks the engine itself, and becomes no member.
    other.signal(rustix::process::Signal::TERM);
    other.wait();
    let view = eventually("a2 to have left", || {
        let view = status(&other);
        (names(&view) == ["a1"]).then_some(view)
    });
    has!(view, {"instance": null, "members.0.differs": ["pace"]});
    wait_until("a1 to see it", || names(&status(&gate)) == ["a1"]);
    engine.kill();
    let view = eventually("the silence of the engine", || {
        let view = status(&gate);
        (view["link"]["state"] == "doubtful").then_some(view)
    });
    assert_eq!(names(&view), ["a1"], "the last ones stay: {view:#}");
    assert!(view["engine"]["observed_ms"].as_u64().unwrap() > 0, "{view:#}");
    let (code, out, said) = other.beside("fleet", &["status"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    says!(said, "`crawlgate fleet check` says more");
}

#[test]
fn the_api_the_console_and_the_metrics_show_the_same_fleet() {
    let (engine, link) = or_skip!(engine_and_link());
    assert_eq!(engine.ask(&["CONFIG", "SET", "maxmemory", "64mb"]), "+OK\r\n");
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::with(|setup| member(setup, &link, "a1"));
    gate.process.wait_said("the fleet's engine answers");
    assert_eq!(gate.process.get(&origin.url("/page")).status, 200);
    let view = gate.api("/fleet");
    has!(view, {"instance": "a1", "engine.memory_limit": 64 << 20, "counts.leases_acquired": 1});
    let page = gate.get("/fleet").text();
    says!(
        page,
        "aria-current=\"page\">Fleet</a>",
        "<b>a1</b>",
        "<th scope=\"row\">a1</th>",
        "data-renew=\"2000\"",
        "<span class=\"count\">1</span> <span class=\"name\">Leases acquired</span>"
    );
    assert!(gate.get("/").text().contains("href=\"/fleet\""));
    let metrics = eventually("a link", || {
        let metrics = gate.get("/metrics").text();
        metrics.contains("crawlgate_fleet_link 0\n").then_some(metrics)
    });
    says!(
        metrics,
        "crawlgate_fleet_members 1\n",
        "crawlgate_fleet_leases_acquired_total 1\n",
        "crawlgate_fleet_leases_held 0\n",
        "crawlgate_fleet_settings_differ 0\n",
        "crawlgate_fleet_engine_memory_limit_bytes 67108864\n",
        "crawlgate_fleet_script_calls_total{script=\"publish_state\",outcome=\"done\"} 1\n",
        "crawlgate_fleet_script_calls_total{script=\"acquire_fetch\",outcome=\"lost\"} 0\n",
        "crawlgate_fleet_refused_total 0\n"
    );
    lacks!(
        metrics,
        "crawlgate_fleet_engine_memory_bytes 0\n",
        "crawlgate_fleet_round_trip_seconds_count 0\n"
    );
}

#[test]
fn an_instance_that_is_cut_off_is_not_ready() {
    let (mut engine, link) = or_skip!(engine_and_link());
    let gate = AdminGate::with(|setup| {
        member(setup, &link, "a1");
        setup.set("fleet", "patience", "\"2s\"");
    });
    // The link may be doubtful in between.
    let wait = |status: u16, check: &Value| {
        eventually(&format!("{status} with {check}"), || {
            let answer = gate.get("/ready");
            let is_it = answer.status == status && answer.problem()["checks"][5] == *check;
            is_it.then_some(())
        });
    };
    let connected = serde_json::json!({"name": "fleet", "ok": true, "detail": "connected"});
    wait(200, &connected);
    engine.kill();
    let cut = serde_json::json!({"name": "fleet", "ok": false, "detail": "cut off: nothing is forwarded"});
    wait(503, &cut);
    let (code, told, error) = gate.process.beside("ready", &[]);
    let why = "not ready: fleet: cut off: nothing is forwarded\n";
    assert_eq!((code, told + &error), (Some(1), why.to_owned()));
    engine.start_again();
    wait(200, &connected);
}

#[test]
fn an_instance_without_a_fleet_shows_none() {
    let gate = AdminGate::open();
    assert!(!gate.get("/").text().contains("href=\"/fleet\""));
    assert_eq!(gate.get("/fleet").status, 404);
    assert!(!gate.get("/metrics").text().contains("crawlgate_fleet_"));
    let (code, out, said) = gate.process.beside("fleet", &["status"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    says!(said, "there is no fleet");
}

#[test]
fn a_record_names_the_instance_that_added_the_override() {
    let (_engine, link) = or_skip!(engine_and_link());
    let origin = Origin::with_rules(RULES);
    let start = |name: &str| joined(|setup: &mut Setup| member(setup, &link, name));
    let (one, other) = (start("a1"), start("a2"));
    one.setup.overrides(&origin.url(""), "/closed", "deny");
    // The command has succeeded, also where the other instance is late.
    let answer = eventually("the denial", || {
        let answer = other.get(&origin.url("/closed"));
        (answer.status == 403).then_some(answer)
    });
    let record = other.refused(&answer, 403, "operator_deny");
    assert_eq!(record["override"]["instance"], "a1", "{record:#}");
    let id = record["id"].as_str().unwrap();
    let shown = eventually("the record in the store", || {
        let (code, shown, _) = other.beside("log", &["show", id]);
        (code == Some(0)).then_some(shown)
    });
    says!(shown, "asserted by Ada Example at a1: a letter");
}
