//! The log as exchanges use it, with sinks that fail on demand.

mod appended;
mod failures;
mod grounds;

use std::{future::Future, io, sync::mpsc};

use super::*;
use crate::sink::Stopped;
use crawlgate_origins::state::State;
use crawlgate_record::samples::NOON;
use crawlgate_record::{Url, Verdict};
use crawlgate_system::clock::Moment;
use crawlgate_usage::{Purpose, Purposes};

/// A sink under the test's control: its content, and the octets that it takes before it fails.
#[derive(Clone, Default)]
struct LimitedSink(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    lines: String,
    room: usize,
}

impl LimitedSink {
    fn with_room(room: usize) -> Self {
        let sink = Self::default();
        sink.make_room(room);
        sink
    }

    fn make_room(&self, room: usize) {
        self.0.lock().room = room;
    }

    /// Returns its lines, each with its event or `a decision`.
    fn named(&self) -> Vec<(String, serde_json::Value)> {
        let lines = self.0.lock().lines.clone();
        let named = lines.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let name = line["event"].as_str().unwrap_or("a decision").to_owned();
            (name, line)
        });
        named.collect()
    }

    /// Returns the reasons in its lines, or the whole line if it has none.
    fn reasons(&self) -> Vec<String> {
        let lines = self.0.lock().lines.clone();
        lines
            .lines()
            .map(|line| {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                let reason = value.get("reason").and_then(|reason| reason.as_str());
                reason.map_or(line.to_owned(), str::to_owned)
            })
            .collect()
    }
}

impl Sink for LimitedSink {
    fn write(&mut self, lines: &[u8], _now: Moment) -> Result<(), Stopped> {
        let mut content = self.0.lock();
        let mut written = 0;
        for line in lines.split_inclusive(|&octet| octet == b'\n') {
            if content.room == 0 {
                let error = io::ErrorKind::StorageFull.into();
                return Err(Stopped { written, error });
            }
            content.room -= 1;
            content.lines.push_str(std::str::from_utf8(line).unwrap());
            written += line.len();
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn name(&self) -> String {
        "sink".to_owned()
    }
}

/// A sink that takes a batch only once the test lets it.
struct GatedSink(mpsc::Receiver<()>);

impl Sink for GatedSink {
    fn write(&mut self, _lines: &[u8], _now: Moment) -> Result<(), Stopped> {
        let _ = self.0.recv();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn name(&self) -> String {
        "valve".to_owned()
    }
}

fn config(on_failure: OnFailure) -> Config {
    let mut config = Config::builtin(&crawlgate_config::Places::default());
    config.log.on_failure = on_failure;
    config
}

fn start(on_failure: OnFailure, bounds: Bounds, sinks: Vec<Box<dyn Sink>>) -> Log {
    let pace = WriterDelays { gather: Duration::from_millis(1), retry: Duration::from_millis(1) };
    let clock = Clock::manual(Moment::from_millis(1_795_176_000_000));
    Log::start(&config(on_failure), None, sinks, &clock, bounds, pace).unwrap()
}

/// Starts a log with one sink that takes so many lines.
fn start_with_room(room: usize) -> (Log, LimitedSink) {
    let sink = LimitedSink::with_room(room);
    let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(sink.clone())]);
    (log, sink)
}

fn record(log: &Log, reason: &'static str) {
    record_of(
        log,
        &Decision {
            id: DecisionId::mint(Moment::from_millis(NOON)).octets(),
            reason,
            ..Decision::sample()
        },
    );
}

/// Records a denial.
fn record_of(log: &Log, decision: &Decision<'_>) {
    let least = Recorded::least(decision.reason, decision.verdict.as_str(), false, Purposes::NONE);
    log.record(decision, &Grounds::default(), least, Exceeds::Nothing);
}

/// Flushes until that works.
async fn recovered(log: &Log) {
    let attempts = async {
        while log.flush().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), attempts).await.unwrap();
}

async fn is_pending<T>(future: impl Future<Output = T>) -> bool {
    tokio::select! {
        biased;
        _ = future => false,
        () = std::future::ready(()) => true,
    }
}

#[tokio::test]
async fn records_are_written_in_order() {
    let (log, sink) = start_with_room(100);
    for reason in ["a", "b", "c"] {
        log.ready().await.unwrap();
        record(&log, reason);
    }
    log.flush().await.unwrap();
    assert_eq!(sink.reasons(), ["a", "b", "c"]);
    record(&log, "d");
    drop(log);
    assert_eq!(sink.reasons(), ["a", "b", "c", "d"], "dropping it writes the rest");
}

#[tokio::test]
async fn a_process_tells_its_start_its_settings_what_it_forwarded_and_its_end() {
    let (log, sink) = start_with_room(100);
    let mut settings = config(OnFailure::Deny);
    log.settings(&settings);
    log.begin(&settings);
    record(&log, "a");
    settings.policy.mode = crawlgate_config::Mode::Report;
    log.settings(&settings);
    // The writer may tell of it at once: its hour is over.
    let name: Arc<str> = "news".into();
    log.forwarded(Some(&name), [127, 0, 0, 1].into(), Moment::from_millis(1));
    log.close().unwrap();
    let (events, lines): (Vec<_>, Vec<_>) = sink.named().into_iter().unzip();
    assert_eq!(events, ["started", "settings", "a decision", "settings", "forwarded", "stopped"]);
    for part in ["process", "release", "configuration"] {
        assert!(!lines[0][part].is_null(), "{}", lines[0]);
        assert_eq!(lines[0][part], lines[5][part]);
    }
    assert_eq!((&lines[1]["mode"], &lines[3]["mode"]), (&"enforce".into(), &"report".into()));
    assert_eq!(lines[1]["policy"].as_str().unwrap().len(), 64);
    assert_eq!(lines[4]["clients"], serde_json::json!([{"name": "news", "count": 1}]));
}

#[tokio::test]
async fn requests_wait_while_the_writer_is_behind() {
    let bounds = Bounds { write: 1, wait: 1, lose: usize::MAX };
    let (open, valve) = mpsc::channel();
    let log = start(OnFailure::Continue, bounds, vec![Box::new(GatedSink(valve))]);
    log.ready().await.unwrap();
    record(&log, "a");
    assert!(is_pending(log.ready()).await);
    open.send(()).unwrap();
    log.ready().await.unwrap();
}

#[tokio::test]
async fn memory_is_bounded_even_if_no_record_may_be_lost() {
    let bounds = Bounds { write: 1, wait: 1, lose: 2 };
    let sink = LimitedSink::default();
    let log = start(OnFailure::Deny, bounds, vec![Box::new(sink.clone())]);
    for reason in ["a", "b", "c"] {
        record(&log, reason);
    }
    sink.make_room(100);
    recovered(&log).await;
    drop(log);
    let reasons = sink.reasons();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons.concat().contains(r#""event":"records_lost","count":2"#), "{reasons:?}");
}

#[tokio::test]
async fn closing_tries_once_more_and_returns_the_outcome() {
    for (room, is_written) in [(100, true), (0, false)] {
        let (log, sink) = start_with_room(0);
        record(&log, "a");
        log.flush().await.unwrap_err();
        sink.make_room(room);
        let left = log.close().err().map(|failure| failure.to_string());
        let beginning = "records left unwritten: 1; decisions cannot be recorded in ";
        assert_eq!(left.is_none(), is_written, "{left:?}");
        assert!(left.is_none_or(|left| left.starts_with(beginning)));
        assert_eq!(sink.reasons().len(), usize::from(is_written));
        assert!(log.ready().await.is_err(), "the record has no writer");
        record(&log, "b");
        assert!(log.flush().await.is_err() || is_written);
        assert!(log.close().is_err(), "what came after the end is missing");
    }
}

#[tokio::test]
async fn only_the_wanted_decisions_are_recorded_also_after_a_reload() {
    let (log, sink) = start_with_room(100);
    let allowed = || {
        let decision = Decision::sample();
        let redacts = log.redacts_query();
        let url = b"https://site.example/private/x?q=1";
        Decision {
            verdict: Verdict::Allow,
            reason: "robots_allow",
            url: Url::public(url, decision.origin, redacts, entry::Bounds::CLIENTS),
            ..decision
        }
    };
    let declared = Purposes::NONE.with(Purpose::TrainAi);
    let wants = |verdict, has_failed, purposes| {
        log.wants(Recorded::least("", verdict, has_failed, purposes))
    };
    let none = Purposes::NONE;
    let exempt = Recorded::least("client_exempt", "allow", false, none);
    assert!(log.wants(exempt), "the operator's exemption let it out");
    assert!(wants("deny", false, none) && wants("defer", false, none));
    assert!(!wants("allow", false, none) && !wants("allow", false, declared));
    assert!(wants("allow", true, none), "it failed");
    record_of(&log, &allowed());
    let mut other = config(OnFailure::Deny);
    other.log.decisions = Recorded::Purposes;
    log.adopt(&other);
    assert!(wants("allow", false, declared) && !wants("allow", false, none));
    other.log.decisions = Recorded::All;
    other.log.redact_query = true;
    log.adopt(&other);
    assert!(wants("allow", false, none));
    record_of(&log, &allowed());
    log.flush().await.unwrap();
    assert_eq!(sink.reasons(), ["robots_allow"]);
    assert!(sink.0.lock().lines.contains("?…redacted"));
}

#[tokio::test]
async fn a_log_without_destinations_takes_no_record_and_stops_no_request() {
    let log = Log::open(&config(OnFailure::Deny), None, &Clock::system()).unwrap();
    assert!(!log.wants(Recorded::Denied));
    record(&log, "a");
    log.ready().await.unwrap();
    log.flush().await.unwrap();
    log.close().unwrap();
}

#[test]
fn durability_is_strict_if_configured_and_records_are_kept() {
    let mut strict = config(OnFailure::Deny);
    strict.audit.durability = Durability::Strict;
    let nowhere = Log::open(&strict, None, &Clock::system()).unwrap();
    assert!(!nowhere.is_strict());
    let (log, _) = start_with_room(1);
    assert!(!log.is_strict());
    log.adopt(&strict);
    assert!(log.is_strict());
}
