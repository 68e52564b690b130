//! A log that cannot write: requests wait or are refused, and no record is lost in silence.

use std::path::PathBuf;

use super::*;

#[tokio::test]
async fn on_a_full_disk_requests_are_refused_and_no_record_is_lost_or_doubled() {
    let (log, sink) = start_with_room(2);
    for reason in ["a", "b", "c", "d"] {
        record(&log, reason);
    }
    let failure = log.flush().await.unwrap_err().to_string();
    assert!(failure.starts_with("decisions cannot be recorded in sink: "), "{failure}");
    assert!(log.ready().await.is_err());
    record(&log, "e"); // of a request that was judged already
    assert!(log.ready().await.is_err(), "it stays so");

    sink.make_room(100);
    recovered(&log).await;
    log.ready().await.unwrap();
    log.flush().await.unwrap();
    // The last line counts the requests that were refused.
    assert_eq!(sink.reasons(), ["a", "b", "c", "d", "e", "log_failed"]);
    assert_eq!(sink.named().last().unwrap().1["count"], 2);
}

#[tokio::test]
async fn the_record_of_a_request_that_had_gone_out_stays_whatever_was_answered() {
    let (log, sink) = start_with_room(0);
    let one = Decision::sample();
    record_of(&log, &one);
    log.flush().await.unwrap_err();
    log.answered_log_failed(DecisionId::from_octets(one.id));
    sink.make_room(100);
    recovered(&log).await;
    let [(first, record), (second, event)] = &sink.named()[..] else {
        panic!("{:?}", sink.reasons());
    };
    assert_eq!([first, second], ["a decision", "answered_log_failed"]);
    assert_eq!(event["decision"], record["id"]);
}

#[tokio::test]
async fn records_lost_while_requests_go_on_are_counted() {
    let bounds = Bounds {
        write: 1,
        wait: 1, // room for one record
        lose: usize::MAX,
    };
    let sink = LimitedSink::default();
    let log = start(OnFailure::Continue, bounds, vec![Box::new(sink.clone())]);
    record(&log, "a");
    log.flush().await.unwrap_err();
    for reason in ["b", "c", "d"] {
        log.ready().await.unwrap();
        record(&log, reason);
    }
    sink.make_room(100);
    recovered(&log).await;
    log.flush().await.unwrap();
    let lost = r#"{"time":"2026-11-20T12:00:00.000Z","event":"records_lost","count":3,"first":"2026-11-20T12:00:00.123Z","last":"2026-11-20T12:00:00.123Z"}"#;
    assert_eq!(sink.reasons(), ["a", lost]);
    record(&log, "e");
    log.flush().await.unwrap();
    assert_eq!(sink.reasons(), ["a", lost, "e"], "said once");
}

#[tokio::test]
async fn a_sink_that_works_gets_each_line_once_while_another_fails() {
    let (good, bad) = (LimitedSink::with_room(100), LimitedSink::default());
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
async fn unrecorded_decisions_are_reported_once_by_the_caller_or_the_log() {
    for (name, closes, complaints) in
        [("the caller gets it to report", true, 0), ("the log reports it itself", false, 1)]
    {
        let said = Arc::new(Mutex::new(Vec::new()));
        let (log, _) = start_with_room(0);
        record(&log, "a");
        log.flush().await.unwrap_err();
        // Only for this thread, so without the writer's messages.
        let _subscriber = tracing::subscriber::set_default(
            tracing_subscriber::fmt().with_writer(CapturedLogs(Arc::clone(&said))).finish(),
        );
        if closes {
            log.close().unwrap_err();
        }
        drop(log);
        let said = String::from_utf8(said.lock().clone()).unwrap();
        assert_eq!(said.lines().count(), complaints, "{name}: {said}");
        assert_eq!(said.matches("unwritten: 1").count(), complaints, "{name}: {said}");
    }
}

/// The program's messages, for a test to read.
#[derive(Clone)]
struct CapturedLogs(Arc<Mutex<Vec<u8>>>);

impl io::Write for CapturedLogs {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for CapturedLogs {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn the_behaviour_on_failure_can_change_during_a_failure() {
    let (log, _) = start_with_room(0);
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

#[tokio::test]
async fn a_start_that_finds_no_room_is_written_once_there_is_some() {
    let (log, sink) = start_with_room(0);
    log.begin(&config(OnFailure::Deny));
    log.flush().await.unwrap_err();
    log.ready().await.unwrap_err();
    record(&log, "a");
    assert_eq!(sink.0.lock().lines, "");
    sink.make_room(100);
    recovered(&log).await;
    log.close().unwrap();
    let (names, _): (Vec<_>, Vec<_>) = sink.named().into_iter().unzip();
    assert_eq!(names, ["started", "settings", "a decision", "refusals_repeated", "stopped"]);
}
