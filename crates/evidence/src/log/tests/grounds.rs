//! The grounds of records: queued before them, and readable before they are written.

use super::*;

/// Returns the update of an origin without a robots.txt.
fn update() -> OriginUpdate {
    let now = Moment::from_millis(1_795_176_000_000);
    let state = State::Unavailable {
        why: crawlgate_origins::access::Absence::Status(404),
        fetched: now,
        fresh: crawlgate_origins::state::Fresh { refresh_from: now, until: now },
        outage: None,
    };
    OriginUpdate {
        origin: Origin::parse("https://site.example").unwrap().0,
        user_agent: "crawlgate/0.1".into(),
        fetch: crawlgate_store::Fetch {
            identity: crawlgate_origins::identity::Identity::default(),
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
    let store = Arc::new(crawlgate_store::Store::temporary());
    let shared: Arc<Store> = Arc::clone(&store);
    // A failing sink beside it does not make the store keep anything twice.
    let sink = LimitedSink::default();
    let pace = WriterDelays {
        // All records below in one batch, however long this thread waits for its turn: a flush ends the gathering.
        gather: Duration::from_secs(3_600),
        retry: Duration::from_millis(1),
    };
    let clock = Clock::system();
    let config = config(OnFailure::Deny);
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(sink.clone())];
    let log = Log::start(&config, Some(shared), sinks, &clock, BOUNDS, pace).unwrap();
    log.policy("settings");
    log.origin_updated(update());
    record(&log, "a");
    log.flush().await.unwrap_err();
    let origin = update().origin;
    assert!(!log.unwritten(&origin).is_empty(), "not everything is written");
    sink.make_room(100);
    recovered(&log).await;
    assert!(log.unwritten(&origin).is_empty());
    assert_eq!(store.records(0, 10).await.unwrap().len(), 1, "each once");
    assert!(!store.origin(&origin).await.unwrap().is_empty());
    let sha256 = Object::new(ObjectKind::PolicySettings, b"settings").sha256;
    let policy = store.policy(sha256).await.unwrap();
    assert_eq!(policy.as_deref(), Some("settings"));
    log.origin_updated(update());
    log.flush().await.unwrap();
    assert_eq!(store.fetches(&origin, 10).await.unwrap().len(), 2, "an update alone, too");
    assert_eq!(sink.reasons(), ["a"]);
}

#[tokio::test]
async fn without_a_store_no_origin_updates_gather() {
    let (log, _) = start_with_room(100);
    log.origin_updated(update());
    log.policy("settings");
    assert!(log.unwritten(&update().origin).is_empty());
    log.flush().await.unwrap();
}
