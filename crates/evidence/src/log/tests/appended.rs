//! Events that the store appends by itself, among the lines of sinks and before watchers.

use super::*;
use crate::live::LiveEvent;
use crawlgate_policy::overrides::{Action, Override, OverrideId};
use crawlgate_store::{Acknowledgement, Store};

const NOON: Moment = Moment::from_millis(1_795_176_000_000);

/// Returns the lines of a tank.
fn lines(sink: &LimitedSink) -> Vec<String> {
    let lines = sink.0.lock().lines.clone();
    lines.lines().map(str::to_owned).collect()
}

/// Returns the lines of all records of a store.
async fn records(store: &Store) -> Vec<String> {
    let records = store.records(0, 100).await.unwrap();
    records.into_iter().map(|one| one.record).collect()
}

fn denial_of(path: &str) -> Override {
    Override {
        id: OverrideId::Stored(0),
        origin: Origin::parse("https://site.example").unwrap().0,
        pattern: path.to_owned(),
        action: Action::Deny,
        until: None,
        by: "Ada".to_owned(),
        reason: "a letter".to_owned(),
        created: NOON,
        instance: None,
    }
}

fn note() -> Acknowledgement {
    Acknowledgement { time: NOON, by: "Ada".to_owned(), note: "known".to_owned() }
}

fn start_on(store: &Arc<Store>, sink: &LimitedSink) -> Log {
    let pace = WriterDelays { gather: Duration::from_millis(1), retry: Duration::from_millis(1) };
    let store: Arc<Store> = Arc::clone(store);
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(sink.clone())];
    let config = config(OnFailure::Deny);
    let log = Log::start(&config, Some(store), sinks, &Clock::manual(NOON), BOUNDS, pace);
    log.unwrap()
}

#[tokio::test]
async fn a_sink_has_the_events_of_the_store_in_the_order_of_the_log_each_once() {
    let (store, sink) = (Arc::new(Store::temporary()), LimitedSink::with_room(100));
    let log = start_on(&store, &sink);
    log.begin(&config(OnFailure::Deny));
    for n in 0..5 {
        record(&log, "a");
        if n % 2 == 0 {
            // Not behind the record for sure: the store decides about the order.
            log.flush().await.unwrap();
        }
        let number = store.add_override(denial_of("/x")).await.unwrap();
        record(&log, "b");
        let by = "Ada".to_owned();
        assert!(store.remove_override(number, by, NOON).await.unwrap());
    }
    log.flush().await.unwrap();
    let first = store.decisions(crawlgate_store::DecisionQuery {
        limit: 1,
        ..crawlgate_store::DecisionQuery::default()
    });
    let id = first.await.unwrap()[0].record.clone();
    let id: serde_json::Value = serde_json::from_str(&id).unwrap();
    let id = id["id"].as_str().unwrap();
    assert!(crawlgate_store::samples::acknowledge(&store, id, note()).await);
    // No record follows before the end.
    log.close().unwrap();
    let all = records(&store).await;
    assert_eq!(all.len(), 2 + 5 * 4 + 2, "{all:#?}");
    assert_eq!(lines(&sink), all);
}

#[tokio::test]
async fn a_sink_that_failed_gets_the_events_of_the_store_once_it_works() {
    let (store, sink) = (Arc::new(Store::temporary()), LimitedSink::default());
    let log = start_on(&store, &sink);
    record(&log, "a");
    log.flush().await.unwrap_err();
    store.add_override(denial_of("/x")).await.unwrap();
    record(&log, "b");
    // Only the first line at first.
    sink.make_room(1);
    log.flush().await.unwrap_err();
    store.add_override(denial_of("/y")).await.unwrap();
    sink.make_room(100);
    recovered(&log).await;
    log.close().unwrap();
    let all = records(&store).await;
    assert_eq!(all.len(), 4);
    assert_eq!(lines(&sink), all);
}

#[tokio::test]
async fn events_alone_reach_the_sinks_and_the_watchers_without_another_record() {
    let (store, sink) = (Arc::new(Store::temporary()), LimitedSink::with_room(100));
    let log = start_on(&store, &sink);
    let mut watch = log.watch().unwrap();
    store.add_override(denial_of("/x")).await.unwrap();
    let LiveEvent::Event(seen) = watch.next().await else {
        panic!("no event");
    };
    assert_eq!(lines(&sink), [&*seen]);
    log.begin(&config(OnFailure::Deny));
    for name in ["started", "settings"] {
        let LiveEvent::Event(seen) = watch.next().await else {
            panic!("no event");
        };
        assert!(seen.contains(name), "{seen}");
    }
    assert_eq!(lines(&sink), records(&store).await);
}
