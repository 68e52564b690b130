//! Searches pass over whole segments without reading them.

use super::*;
use crate::{Acknowledgement, DecisionQuery};
use crawlgate_tlog::SEGMENT;

#[tokio::test]
async fn a_segment_without_a_wanted_decision_is_not_read() {
    let (_folder, path) = place();
    let store = open(&path).unwrap();
    let ids = record(&store, &rows(SEGMENT + 1_000)).await;
    let note = Acknowledgement { time: NOON, by: "Ada Example".to_owned(), note: String::new() };
    let last = ids.last().unwrap();
    assert!(crate::tests::acknowledge(&store, last, note).await);
    drop(store);
    let unreadable = "UPDATE block SET body = x'00' WHERE first < 65536";
    assert!(shell(&path).execute(unreadable, []).unwrap() > 0);

    let store = Store::open(&path, Access::Read, Synchronous::Normal).unwrap();
    let all = DecisionQuery { limit: 10, ..DecisionQuery::default() };
    let late = NOON + Duration::from_secs(SEGMENT + 998);
    let questions = [
        ("any", all.clone(), None),
        ("late", DecisionQuery { since: Some(late), ..all.clone() }, Some(2)),
        ("acknowledged", DecisionQuery { acknowledged: Some(true), ..all }, Some(1)),
    ];
    for (name, query, want) in questions {
        let found = store.decisions(query).await;
        assert_eq!(found.ok().map(|found| found.len()), want, "{name}");
    }
}
