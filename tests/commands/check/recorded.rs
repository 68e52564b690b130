//! `crawlgate check --since` beside a running service, and on the store of a killed one.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{CrawlgateProcess, Origin, RULES};

#[test]
fn a_what_if_reads_the_store_of_a_running_and_of_a_killed_service() {
    let site = Origin::with_rules(RULES);
    let mut gate = CrawlgateProcess::with(|setup| setup.set("log", "decisions", "\"all\""));
    let url = |path: &str| format!("{}{path}", site.url(""));
    for path in ["/a", "/b", "/private/c"] {
        gate.get(&url(path));
    }
    fs::write(gate.setup.dir().join("new.txt"), "User-agent: *\nDisallow: /b\n").unwrap();
    let origin = url("");
    let words = ["--robots", "new.txt", "--since", "1h", "--json", "--origin", &origin];
    let is_whole = |said: &str| {
        let told: Result<Value, _> = serde_json::from_str(said);
        told.is_ok_and(|told| told["judged"] == 3)
    };
    let running = gate.beside_until("check", &words, is_whole);
    let told: Value = serde_json::from_str(&running).unwrap();
    has!(told, {
        "denied": 1, "allowed": 1, "unknown.said": Value::Array(Vec::new()),
        "groups.0.examples.0": url("/b"),
    });
    gate.signal(Signal::KILL);
    gate.wait();
    let (code, killed, error) = gate.beside("check", &words);
    assert_eq!((code, error.as_str()), (Some(1), ""));
    let mut killed: Value = serde_json::from_str(&killed).unwrap();
    killed["since"] = told["since"].clone();
    assert_eq!(killed, told);
}
