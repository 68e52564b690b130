//! The live feed of decisions.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::admin_gate::problem;
use crate::support::{AdminGate, Origin, PATIENCE, RULES};

/// A reader of the feed.
struct Feed(BufReader<TcpStream>);

impl Feed {
    #[track_caller]
    fn open(gate: &AdminGate, query: &str) -> Feed {
        let mut stream = TcpStream::connect(gate.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request =
            format!("GET /api/v1/decisions/live{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut feed = Feed(BufReader::new(stream));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            feed.0.read_line(&mut head).unwrap();
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        says!(head.to_lowercase(), "content-type: text/event-stream");
        // From then on the feed has every decision.
        assert_eq!(feed.next().0, "open");
        feed
    }

    /// Returns the next event and its data, and leaves out the records that are no decisions.
    #[track_caller]
    fn next(&mut self) -> (String, Value) {
        loop {
            let next = self.next_of_all();
            if next.0 != "event" {
                return next;
            }
        }
    }

    /// Returns the next event and its data.
    #[track_caller]
    fn next_of_all(&mut self) -> (String, Value) {
        let (mut event, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the feed has ended");
            if let Some(name) = line.strip_prefix("event: ") {
                event = name.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (event, serde_json::from_str(data).unwrap());
            }
        }
    }
}

#[test]
fn a_watcher_sees_each_decision_kept_or_not() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::with(|setup| setup.set("log", "decisions", "\"denied\""));
    let mut feed = Feed::open(&gate, "");
    gate.process.passes(&origin.url("/open"));
    let (event, seen) = feed.next();
    assert_eq!((&*event, &seen["recorded"]), ("decision", &Value::Bool(false)), "{seen}");
    assert_eq!(seen["record"]["url"], origin.url("/open"));
    let id = gate.deny(&origin, "/private/a");
    let (_, seen) = feed.next();
    has!(seen, {"record.id": id, "recorded": true});
    assert_eq!(gate.records().len(), 1, "watching records nothing");
}

#[test]
fn a_watcher_of_everything_sees_other_records_too() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let mut feed = Feed::open(&gate, "");
    let mut of_denials = Feed::open(&gate, "?verdict=deny");
    let new = json!({"origin": "https://site.test", "pattern": "/p", "action": "deny", "until": "1d", "by": "Ada", "reason": "r"});
    assert_eq!(gate.post("/overrides", &new).status, 201);
    let seen = loop {
        // The start of the process may be written only now.
        let (event, seen) = feed.next_of_all();
        assert_eq!(event, "event", "{seen}");
        if seen["event"] == "override_added" {
            break seen;
        }
    };
    assert_eq!(seen["override"]["by"], "Ada", "{seen}");
    let id = gate.deny(&origin, "/private/a");
    let (event, seen) = of_denials.next_of_all();
    assert_eq!((&*event, &seen["record"]["id"]), ("decision", &id.into()));
}

#[test]
fn a_watcher_sees_only_matching_decisions() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let mut feed = Feed::open(&gate, "?verdict=deny&path=/private/b");
    gate.process.passes(&origin.url("/open"));
    gate.deny(&origin, "/private/a");
    let id = gate.deny(&origin, "/private/b");
    assert_eq!(feed.next().1["record"]["id"], id);
}

#[test]
fn the_number_of_watchers_is_limited_and_one_that_leaves_makes_room() {
    let gate = AdminGate::open();
    let mut feeds: Vec<Feed> = (0..16).map(|_| Feed::open(&gate, "")).collect();
    let answer = gate.get("/api/v1/decisions/live");
    problem(&answer, 503);
    assert!(answer.field("retry-after").is_some());
    feeds.pop();
    crate::support::eventually("a place", || {
        let mut stream = TcpStream::connect(gate.address).unwrap();
        stream
            .write_all(b"GET /api/v1/decisions/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.starts_with("HTTP/1.1 200").then_some(())
    });
}

#[test]
fn a_feed_keeps_no_process_from_ending() {
    let mut gate = AdminGate::open();
    let mut feed = Feed::open(&gate, "");
    gate.signal(rustix::process::Signal::TERM);
    assert!(gate.process.wait().success());
    let mut rest = String::new();
    // A clean or an abrupt end are both fine.
    let _ = feed.0.read_line(&mut rest);
}
