//! Fetches of robots.txt are counted by hour and result, beyond the history of an origin.

use super::*;
use crate::tests::{absent, unreachable};
use crate::{FETCHES_KEPT, FetchSum, FetchSums, HOUR};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::State;
use crawlgate_robots::ParseOptions;

/// A robots.txt that was longer than the limit.
fn cut(text: &str, fetched: Moment) -> State {
    let State::Successful { fresh, outage, .. } = successful(text, fetched) else {
        panic!("{text}");
    };
    let robots = Snapshot::reread(text.as_bytes(), ParseOptions::default().lenient, true);
    let snapshot = Snapshot::new(robots, fetched, 200, "https://site.example/robots.txt");
    State::Successful { snapshot: Arc::new(snapshot), fresh, outage }
}

fn sum(result: &str, [fetches, unchanged, changed, truncated]: [u64; 4]) -> FetchSum {
    FetchSum { result: result.to_owned(), fetches, unchanged, changed, truncated }
}

async fn sums(store: &Store, since: Moment, until: Moment) -> Vec<FetchSum> {
    store.fetch_sums(since, until).await.unwrap().by_result
}

#[tokio::test]
async fn fetches_are_counted_by_hour_and_result() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let nothing = FetchSums::default();
    assert_eq!(store.fetch_sums(NOON, NOON + HOUR).await.unwrap(), nothing);
    let minute = Duration::from_secs(60);
    let (one, other) = ("User-agent: *\nDisallow: /a\n", "User-agent: *\nDisallow: /b\n");
    let later = NOON + HOUR + minute;
    for (state, at) in [
        (successful(one, NOON), NOON),
        (successful(one, NOON), NOON + minute),
        (successful(other, NOON), NOON + minute * 2),
        (cut(other, NOON), NOON + minute * 3),
        (absent(NOON), NOON + minute * 4),
        (unreachable(later), later),
        (successful(one, later), later),
    ] {
        update_origin(&store, origin_update("site.example", state, at)).await;
    }
    // A first text is neither the known one nor another; behind a time without one, it is a first one again.
    let noon = [sum("successful", [4, 2, 1, 1]), sum("unavailable", [1, 0, 0, 0])];
    let behind = [sum("successful", [1, 0, 0, 0]), sum("unreachable", [1, 0, 0, 0])];
    assert_eq!(sums(&store, NOON, NOON + HOUR).await, noon);
    assert_eq!(sums(&store, NOON + minute, NOON + HOUR).await, noon);
    assert_eq!(sums(&store, NOON + HOUR, NOON + HOUR * 2).await, behind);
    assert_eq!(
        sums(&store, NOON, NOON + HOUR * 2).await,
        [
            sum("successful", [5, 2, 1, 1]),
            sum("unavailable", [1, 0, 0, 0]),
            sum("unreachable", [1, 0, 0, 0]),
        ]
    );
    let first = store.fetch_sums(NOON + HOUR, later).await.unwrap().first;
    assert_eq!(first, Some(NOON));
}

#[tokio::test]
async fn counts_outlive_the_history_of_an_origin_and_a_rebuild() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let many = FETCHES_KEPT as u64 * 2;
    for _ in 0..many {
        update_origin(&store, origin_update("site.example", absent(NOON), NOON)).await;
    }
    let want = [sum("unavailable", [many, 0, 0, 0])];
    assert_eq!(sums(&store, NOON, NOON + HOUR).await, want);
    drop(store);
    repair::rebuild(&path, NOON).unwrap();
    let store = open(&path).unwrap();
    assert_eq!(sums(&store, NOON, NOON + HOUR).await, want);
}

#[tokio::test]
async fn an_altered_count_is_told_and_never_blessed() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    update_origin(&store, origin_update("site.example", absent(NOON), NOON)).await;
    drop(store);
    let alter = "UPDATE fetch_hourly SET fetches = fetches + 4";
    assert_eq!(shell(&path).execute(alter, []).unwrap(), 1);
    let store = open(&path).unwrap();
    update_origin(&store, origin_update("site.example", absent(NOON), NOON)).await;
    let error = store.fetch_sums(NOON, NOON + HOUR).await.unwrap_err();
    assert!(error.message.contains("fetch_hourly"), "{error}");
    drop(store);
    let faults = repair::check(&path).unwrap();
    assert!(!faults.is_empty(), "{faults:?}");
    repair::rebuild(&path, NOON).unwrap();
    let store = open(&path).unwrap();
    assert_eq!(sums(&store, NOON, NOON + HOUR).await, []);
    assert_eq!(repair::check(&path).unwrap(), repair::Faults::default());
}

#[tokio::test]
async fn counts_go_with_the_decisions_of_their_hour() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let later = NOON + HOUR * 48;
    for at in [NOON, later] {
        update_origin(&store, origin_update("site.example", absent(at), at)).await;
        record(&store, &vec![Row { time: at, ..ROW }; 5_120]).await;
    }
    let retention = Retention { keep: Some(HOUR * 24), max_size: None };
    while store.prune(retention, later + HOUR).await.unwrap().more {}
    assert_eq!(sums(&store, NOON, NOON + HOUR).await, []);
    let kept = [sum("unavailable", [1, 0, 0, 0])];
    assert_eq!(sums(&store, NOON, later + HOUR).await, kept);
}
