//! The log as exchanges use it, with sinks that fail on demand.

use std::{future::Future, sync::mpsc};

use super::*;
use crate::robots::state::State;
use crate::{
    audit::{record::tests::denial, sink::Stopped},
    clock::Moment,
    config::LogConfig,
};

/// A sink under the test's control: its content, and the octets that it takes before it fails.
#[derive(Clone, Default)]
struct Tank(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    lines: String,
    room: usize,
}

impl Tank {
    fn with_room(room: usize) -> Self {
        let tank = Self::default();
        tank.make_room(room);
        tank
    }

    fn make_room(&self, room: usize) {
        self.0.lock().room = room;
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

impl Sink for Tank {
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
        "tank".to_owned()
    }
}

/// A sink that takes a batch only once the test lets it.
struct Valve(mpsc::Receiver<()>);

impl Sink for Valve {
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
    let mut config = Config::builtin(&crate::config::Places::default());
    config.log = LogConfig {
        decisions: Recorded::Denied,
        file: None,
        stdout: false,
        rotate_bytes: u64::MAX,
        rotate_daily: false,
        keep: 1,
        on_failure,
        redact_query: false,
        level: String::new(),
        format: crate::config::LogFormat::Text,
    };
    config
}

fn start(on_failure: OnFailure, bounds: Bounds, sinks: Vec<Box<dyn Sink>>) -> Log {
    let pace = Pace {
        gather: Duration::from_millis(1),
        retry: Duration::from_millis(1),
    };
    let clock = Clock::manual(Moment::from_millis(1_795_176_000_000));
    Log::start(&config(on_failure), None, sinks, &clock, bounds, pace).unwrap()
}

fn record(log: &Log, reason: &'static str) {
    log.record(&Record { reason, ..denial() });
}

/// Flushes until that works.
async fn recovered(log: &Log) {
    let attempts = async {
        while log.flush().await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), attempts)
        .await
        .unwrap();
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
    let tank = Tank::with_room(100);
    let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(tank.clone())]);
    for reason in ["a", "b", "c"] {
        log.ready().await.unwrap();
        record(&log, reason);
    }
    log.flush().await.unwrap();
    assert_eq!(tank.reasons(), ["a", "b", "c"]);
    record(&log, "d");
    drop(log);
    assert_eq!(
        tank.reasons(),
        ["a", "b", "c", "d"],
        "dropping it writes the rest"
    );
}

#[tokio::test]
async fn on_a_full_disk_requests_are_refused_and_no_record_is_lost_or_doubled() {
    let tank = Tank::with_room(2);
    let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(tank.clone())]);
    for reason in ["a", "b", "c", "d"] {
        record(&log, reason);
    }
    let failure = log.flush().await.unwrap_err().to_string();
    assert!(
        failure.starts_with("decisions cannot be recorded in tank: "),
        "{failure}"
    );
    assert!(log.ready().await.is_err());
    record(&log, "e"); // of a request that was judged already
    assert!(log.ready().await.is_err(), "it stays so");

    tank.make_room(100);
    recovered(&log).await;
    log.ready().await.unwrap();
    assert_eq!(tank.reasons(), ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn records_lost_while_requests_go_on_are_counted() {
    let bounds = Bounds {
        wait: 1, // room for one record
        lose: usize::MAX,
    };
    let tank = Tank::default();
    let log = start(OnFailure::Continue, bounds, vec![Box::new(tank.clone())]);
    record(&log, "a");
    log.flush().await.unwrap_err();
    for reason in ["b", "c", "d"] {
        log.ready().await.unwrap();
        record(&log, reason);
    }
    tank.make_room(100);
    recovered(&log).await;
    log.flush().await.unwrap();
    let lost = r#"{"time":"2026-11-20T12:00:00.000Z","event":"records_lost","count":3,"first":"2026-11-20T12:00:00.123Z","last":"2026-11-20T12:00:00.123Z"}"#;
    assert_eq!(tank.reasons(), ["a", lost]);
    record(&log, "e");
    log.flush().await.unwrap();
    assert_eq!(tank.reasons(), ["a", lost, "e"], "said once");
}

#[tokio::test]
async fn requests_wait_while_the_writer_is_behind() {
    let bounds = Bounds {
        wait: 1,
        lose: usize::MAX,
    };
    let (open, valve) = mpsc::channel();
    let log = start(OnFailure::Continue, bounds, vec![Box::new(Valve(valve))]);
    log.ready().await.unwrap();
    record(&log, "a");
    assert!(is_pending(log.ready()).await);
    open.send(()).unwrap();
    log.ready().await.unwrap();
}

#[tokio::test]
async fn memory_is_bounded_even_if_no_record_may_be_lost() {
    let bounds = Bounds { wait: 1, lose: 2 };
    let tank = Tank::default();
    let log = start(OnFailure::Deny, bounds, vec![Box::new(tank.clone())]);
    for reason in ["a", "b", "c"] {
        record(&log, reason);
    }
    tank.make_room(100);
    recovered(&log).await;
    drop(log);
    let reasons = tank.reasons();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(
        reasons
            .concat()
            .contains(r#""event":"records_lost","count":2"#),
        "{reasons:?}"
    );
}

#[tokio::test]
async fn a_sink_that_works_gets_each_line_once_while_another_fails() {
    let (good, bad) = (Tank::with_room(100), Tank::default());
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(good.clone()), Box::new(bad.clone())];
    let log = start(OnFailure::Deny, BOUNDS, sinks);
    record(&log, "a");
    log.flush().await.unwrap_err();
    record(&log, "b");
    bad.make_room(100);
    recovered(&log).await;
    assert_eq!(good.reasons(), ["a", "b"]);
    assert_eq!(bad.reasons(), ["a", "b"]);
}

#[tokio::test]
async fn closing_tries_once_more_and_returns_the_outcome() {
    for (room, is_written) in [(100, true), (0, false)] {
        let tank = Tank::default();
        let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(tank.clone())]);
        record(&log, "a");
        log.flush().await.unwrap_err();
        tank.make_room(room);
        let left = log.close().err().map(|failure| failure.to_string());
        let told = "decisions left unrecorded: 1; decisions cannot be recorded in ";
        assert_eq!(left.is_none(), is_written, "{left:?}");
        assert!(left.is_none_or(|left| left.starts_with(told)));
        assert_eq!(tank.reasons().len(), usize::from(is_written));
        assert!(log.ready().await.is_err(), "the record has no writer");
        record(&log, "b");
        assert!(log.flush().await.is_err() || is_written);
        assert!(log.close().is_err(), "what came after the end is missing");
    }
}

#[tokio::test]
async fn unrecorded_decisions_are_reported_once_by_the_caller_or_the_log() {
    for (name, closes, complaints) in [
        ("the caller gets it to report", true, 0),
        ("the log reports it itself", false, 1),
    ] {
        let said = Arc::new(Mutex::new(Vec::new()));
        let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(Tank::default())]);
        record(&log, "a");
        log.flush().await.unwrap_err();
        // For this thread alone, so without the writer's messages.
        let _subscriber = tracing::subscriber::set_default(
            tracing_subscriber::fmt()
                .with_writer(Said(Arc::clone(&said)))
                .finish(),
        );
        if closes {
            log.close().unwrap_err();
        }
        drop(log);
        let said = String::from_utf8(said.lock().clone()).unwrap();
        assert_eq!(said.lines().count(), complaints, "{name}: {said}");
        assert_eq!(
            said.matches("unrecorded: 1").count(),
            complaints,
            "{name}: {said}"
        );
    }
}

/// The program's messages, for a test to read.
#[derive(Clone)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl io::Write for Said {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Said {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn only_the_wanted_decisions_are_recorded_also_after_a_reload() {
    let tank = Tank::with_room(100);
    let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(tank.clone())]);
    let allowed = Record {
        verdict: "allow",
        reason: "robots_allow",
        ..denial()
    };
    assert!(log.wants("deny") && log.wants("defer") && !log.wants("allow"));
    log.record(&allowed);
    let mut other = config(OnFailure::Deny);
    other.log.decisions = Recorded::All;
    other.log.redact_query = true;
    log.adopt(&other);
    assert!(log.wants("allow"));
    log.record(&allowed);
    log.flush().await.unwrap();
    assert_eq!(tank.reasons(), ["robots_allow"]);
    assert!(tank.0.lock().lines.contains("?…redacted"));
}

#[tokio::test]
async fn the_behaviour_on_failure_can_change_during_a_failure() {
    let tank = Tank::default();
    let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(tank)]);
    record(&log, "a");
    log.flush().await.unwrap_err();
    for (on_failure, is_ready) in [(OnFailure::Continue, true), (OnFailure::Deny, false)] {
        log.adopt(&config(on_failure));
        assert_eq!(log.ready().await.is_ok(), is_ready);
    }
}

#[tokio::test]
async fn a_dead_writer_blocks_no_request_and_lets_none_out_unrecorded() {
    struct Broken;

    impl Sink for Broken {
        fn write(&mut self, _lines: &[u8], _now: Moment) -> Result<(), Stopped> {
            panic!("as asked")
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn name(&self) -> String {
            "broken".to_owned()
        }
    }

    let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(Broken)]);
    record(&log, "a");
    assert!(log.flush().await.is_err());
    assert!(log.ready().await.is_err());
    assert!(log.close().is_err());
}

#[tokio::test]
async fn a_log_without_destinations_takes_no_record_and_stops_no_request() {
    let log = Log::open(&config(OnFailure::Deny), None, &Clock::system()).unwrap();
    assert!(!log.wants("deny"));
    record(&log, "a");
    log.ready().await.unwrap();
    log.flush().await.unwrap();
    log.close().unwrap();
}

#[tokio::test]
async fn a_full_device_is_a_failure_that_names_it() {
    let mut config = config(OnFailure::Deny);
    config.log.file = Some("/dev/full".into());
    let log = Log::open(&config, None, &Clock::system()).unwrap();
    record(&log, "a");
    log.flush().await.unwrap_err();
    let failure = log.ready().await.unwrap_err().to_string();
    assert!(failure.contains("/dev/full"), "{failure}");
}

#[test]
fn a_log_that_cannot_be_opened_names_the_file_and_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.jsonl");
    let open = |path: PathBuf| {
        let mut config = config(OnFailure::Deny);
        config.log.file = Some(path);
        Log::open(&config, None, &Clock::system())
    };
    let _first = open(path.clone()).unwrap();
    let cases = [
        (path, "another process writes to it; end that process"),
        (folder.path().to_owned(), "name another file"),
    ];
    for (path, want) in cases {
        let name = path.display().to_string();
        let error = open(path).unwrap_err().to_string();
        for part in [name.as_str(), want, "[log] file"] {
            assert!(error.contains(part), "{error}");
        }
    }
}

/// Returns the update of an origin without a robots.txt.
fn landing() -> OriginUpdate {
    let now = Moment::from_millis(1_795_176_000_000);
    let state = State::Unavailable {
        why: crate::robots::access::Absence::Status(404),
        fetched: now,
        fresh: crate::robots::state::Fresh {
            refresh_from: now,
            until: now,
        },
        outage: None,
    };
    OriginUpdate {
        origin: Origin::parse("https://site.example").unwrap().0,
        user_agent: "crawlgate/0.1".into(),
        fetch: crate::store::Fetch {
            identity: crate::robots::identity::Identity::default(),
            user_agent: "crawlgate/0.1".to_owned(),
            other: None,
            time: now,
            duration: Duration::ZERO,
            result: state.name().to_owned(),
            cause: None,
            status: Some(404),
            hops: Vec::new(),
            sha256: None,
            fields: Vec::new(),
        },
        state: Arc::new(state),
    }
}

#[tokio::test]
async fn the_grounds_of_records_are_kept_and_readable_before_they_are_written() {
    let store = Arc::new(crate::store::in_memory::InMemoryStore::new());
    let shared: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
    // A failing sink beside it does not make the store keep anything twice.
    let tank = Tank::default();
    let pace = Pace {
        // All records below in one batch, even if this thread has to wait for its turn.
        gather: Duration::from_millis(250),
        retry: Duration::from_millis(1),
    };
    let clock = Clock::system();
    let config = config(OnFailure::Deny);
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(tank.clone())];
    let log = Log::start(&config, Some(shared), sinks, &clock, BOUNDS, pace).unwrap();
    log.policy("digest".into(), "settings".into());
    log.landed(landing());
    record(&log, "a");
    log.flush().await.unwrap_err();
    let origin = landing().origin;
    assert!(
        !log.unwritten(&origin).is_empty(),
        "not everything is written"
    );
    tank.make_room(100);
    recovered(&log).await;
    assert!(log.unwritten(&origin).is_empty());
    assert_eq!(store.links(0, 10).await.unwrap().len(), 1, "each once");
    assert!(!store.origin(&origin).await.unwrap().is_empty());
    let policy = store.policy("digest").await.unwrap();
    assert_eq!(policy.as_deref(), Some("settings"));
    log.landed(landing());
    log.flush().await.unwrap();
    assert_eq!(
        store.fetches(&origin, 10).await.unwrap().len(),
        2,
        "a landing alone, too"
    );
    assert_eq!(tank.reasons(), ["a"]);
}

#[tokio::test]
async fn without_a_store_no_origin_updates_gather() {
    let tank = Tank::with_room(100);
    let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(tank)]);
    log.landed(landing());
    log.policy("digest".into(), "settings".into());
    assert!(log.unwritten(&landing().origin).is_empty());
    log.flush().await.unwrap();
}

#[test]
fn durability_is_strict_if_configured_and_records_are_kept() {
    let mut strict = config(OnFailure::Deny);
    strict.audit.durability = Durability::Strict;
    let nowhere = Log::open(&strict, None, &Clock::system()).unwrap();
    assert!(!nowhere.is_strict());
    let log = start(OnFailure::Deny, BOUNDS, vec![Box::new(Tank::with_room(1))]);
    assert!(!log.is_strict());
    log.adopt(&strict);
    assert!(log.is_strict());
}
