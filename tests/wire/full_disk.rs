//! A full disk that holds only the database: its log is bounded, and its failure is told.
//! Page: `docs/operating.md`.

use std::fs;

use crate::support::{AdminGate, CrawlgateProcess, Origin, RULES, Setup, eventually};

/// The longest file that the program may write, in octets. The bound of the log is 2 MiB, and one more batch, which turns
/// records of up to 1.2 MiB into blocks.
const FILE: u64 = 4 * 1024 * 1024;

/// Returns a gate that can write no file beyond [`FILE`]. The database reaches that; its log has another bound.
fn confined() -> AdminGate {
    let mut setup = Setup::new();
    setup.set("admin", "address", "\"127.0.0.1:0\"");
    setup.set("log", "file", "\"\"");
    setup.set("audit", "durability", "\"strict\"");
    setup.set("audit", "refusals_per_minute", "10000000");
    setup.set("audit", "max_size", "\"16MiB\"");
    // In units of 512 octets. Without its signal, a write beyond the limit is an error.
    let limited = format!("trap '' XFSZ; ulimit -S -f {}; exec \"$0\" \"$@\"", FILE / 512);
    let command = setup.command_in(&["sh", "-c", &limited], "serve");
    AdminGate::of(CrawlgateProcess::spawn(setup, command))
}

#[test]
fn a_log_that_cannot_be_carried_over_is_told_and_bounded() {
    let gate = confined();
    let origin = Origin::with_rules(RULES);
    let mut wire = gate.process.connect();
    let mut denied = 0;
    let refused = loop {
        let answer = wire.get(&origin.url(&format!("/private/{denied}?{}", noise(denied))));
        if answer.status != 403 {
            break answer;
        }
        denied += 1;
        assert!(denied < 20_000, "the log has no bound");
    };
    assert_eq!(refused.problem()["reason"], "log_failed", "{refused:?}");
    gate.process.wait_said("(-wal) cannot be carried over into the database");
    let log = gate.process.setup.dir().join("crawlgate.db-wal");
    let length = fs::metadata(&log).unwrap().len();
    assert!(length < FILE - 512 * 1024, "bounded by itself: {length}");
    let ready = gate.get("/ready");
    assert_eq!(ready.status, 503);
    let text = ready.text();
    says!(text, "its write-ahead log cannot be carried over");
    let metrics = gate.get("/metrics").text();
    says!(metrics, "crawlgate_store_log_failing 1");

    // The limit goes, as space returns.
    let id = rustix::process::Pid::from_raw(i32::try_from(gate.process.id()).unwrap());
    let limit = rustix::process::Rlimit { current: None, maximum: None };
    if rustix::process::prlimit(id, rustix::process::Resource::Fsize, limit).is_err() {
        return;
    }
    let mut unrecorded = 1;
    eventually("the log to be carried over", || {
        let status = wire_get(&gate, &origin);
        unrecorded += u64::from(status == 503);
        (status == 403).then_some(())
    });
    gate.process.wait_said("is carried over again");
    gate.until(200, "/ready");
    gate.process.succeeds("store", &["check"]);
    let told = gate.process.beside("log", &["--events", "--json", "--all"]);
    let numbers = told.1.lines().map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        match event["event"].as_str() {
            Some("answered_log_failed") => 1,
            _ if event["reason"] == "log_failed" => event["count"].as_u64().unwrap(),
            _ => 0,
        }
    });
    assert_eq!(numbers.sum::<u64>(), unrecorded, "{told:?}");
}

/// Returns a long text that blocks of records cannot compress.
fn noise(seed: u64) -> String {
    let mut state = seed;
    let digit = |_| {
        // Numerical Recipes' generator: the upper bits are the random ones.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b"0123456789abcdefghijklmnopqrstuv"[(state >> 59) as usize])
    };
    (0..1_900).map(digit).collect()
}

fn wire_get(gate: &AdminGate, origin: &Origin) -> u16 {
    gate.process.get(&origin.url("/private")).status
}
