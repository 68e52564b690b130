//! The store tells the events that it appends by itself in the order of the log, each once.

use super::*;
use crate::tests::origin;
use crawlgate_policy::overrides::{Action, Override, OverrideId};

/// Returns the names of the events that a store tells from now on, and where batches stand among them.
async fn listen(store: &Store) -> Arc<Mutex<Vec<String>>> {
    let appended = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&appended);
    let telling = store.tell_appended(Arc::new(move |one| {
        list.lock().push(match one {
            Appended::Batch => "a batch".to_owned(),
            Appended::Event(line) => {
                let line: serde_json::Value = serde_json::from_str(&line).unwrap();
                line["event"].as_str().unwrap().to_owned()
            }
        });
    }));
    telling.await.unwrap();
    appended
}

fn denial() -> Override {
    Override {
        id: OverrideId::Stored(0),
        origin: origin("site.example"),
        pattern: "/press/".to_owned(),
        action: Action::Deny,
        until: None,
        by: "Ada".to_owned(),
        reason: "a letter".to_owned(),
        created: NOON,
        instance: None,
    }
}

fn seen() -> Acknowledgement {
    Acknowledgement { time: NOON, by: "Ada".to_owned(), note: "known".to_owned() }
}

#[tokio::test]
async fn events_of_the_store_and_of_other_processes_are_told_in_the_order_of_the_log() {
    let (_folder, path) = place();
    let (ours, theirs) = (open(&path).unwrap(), open(&path).unwrap());
    ours.add_override(denial()).await.unwrap();
    let (by_us, by_them) = (listen(&ours).await, listen(&theirs).await);
    let ids = record(&ours, &rows(2)).await;
    let number = ours.add_override(denial()).await.unwrap();
    assert!(crate::tests::acknowledge(&ours, &ids[1], seen()).await);
    record(&theirs, &rows(3)).await;
    let removed = theirs.remove_override(number, "Ada".to_owned(), NOON).await;
    assert!(removed.unwrap());
    let by = "Ada".to_owned();
    assert!(!theirs.remove_override(number, by, NOON).await.unwrap());
    assert!(crate::tests::acknowledge(&ours, &ids[0], seen()).await);
    record(&ours, &rows(1)).await;
    // Without a write of an entry: maintenance looks, too.
    let forever = Retention { keep: None, max_size: None };
    theirs.prune(forever, NOON).await.unwrap();
    let mine = [
        "a batch",
        "override_added",
        "acknowledged",
        "override_removed",
        "acknowledged",
        "a batch",
    ];
    assert_eq!(*by_us.lock(), mine);
    let others = ["override_added", "acknowledged", "a batch", "override_removed", "acknowledged"];
    assert_eq!(*by_them.lock(), others);
}

#[tokio::test]
async fn what_retention_drops_is_told() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let appended = listen(&store).await;
    record(&store, &rows(2_000)).await;
    let retention = Retention { keep: Some(Duration::from_secs(3_600)), max_size: None };
    let later = NOON + Duration::from_secs(10 * 86_400);
    while store.prune(retention, later).await.unwrap().more {}
    record(&store, &rows(1)).await;
    let appended = appended.lock().clone();
    let (first, rest) = appended.split_first().unwrap();
    let (last, dropped) = rest.split_last().unwrap();
    assert_eq!((&**first, &**last), ("a batch", "a batch"), "{appended:?}");
    assert!(!dropped.is_empty() && dropped.iter().all(|one| one == "dropped"), "{appended:?}");
    let events = store.events(DecisionQuery { limit: 10, ..DecisionQuery::default() });
    assert_eq!(events.await.unwrap().len(), dropped.len());
}
