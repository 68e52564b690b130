//! Searches that pass a limited number of records.

use super::*;

/// Records that a page may pass.
const REACH: u64 = 20_000;

/// Returns a store with a little more than two pages pass. Only the first and the last are denials.
async fn long() -> Arc<Store> {
    let store = Store::temporary();
    let mut batch = Batch::default();
    for n in 1..=COUNT {
        let verdict = if n == 1 || n == COUNT { "deny" } else { "allow" };
        let time = time(n);
        let row = Row { time, verdict, ..ROW };
        row.file(&mut batch);
    }
    store.write(batch).await.unwrap();
    Arc::new(store)
}

const COUNT: u64 = 2 * REACH + 10;

#[tokio::test]
async fn a_page_passes_a_limited_number_of_records() {
    let logs = Logs::one(Log::running(name("a"), long().await));
    let query = |verdict: &str, newest_first| DecisionQuery {
        verdict: Some(verdict.to_owned()),
        newest_first,
        ..DecisionQuery::default()
    };
    let since = |n| DecisionQuery { since: Some(time(n)), ..query("deny", true) };
    let until = |n| DecisionQuery { until: Some(time(n)), ..query("deny", true) };
    // The seconds that each page has found, and the second that it came to.
    type Pages = &'static [(&'static [u64], Option<u64>)];
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, DecisionQuery, usize, Pages); 9] = [
        ("none, newest first", query("defer", true), 5, &[(&[], Some(20_011)), (&[], Some(11)), (&[], None)]),
        ("none, oldest first", query("defer", false), 5, &[(&[], Some(20_000)), (&[], Some(40_000)), (&[], None)]),
        ("few, newest first", query("deny", true), 5, &[(&[COUNT], Some(20_011)), (&[], Some(11)), (&[1], None)]),
        ("few, oldest first", query("deny", false), 5, &[(&[1], Some(20_000)), (&[], Some(40_000)), (&[COUNT], None)]),
        ("a full page says nothing", query("deny", true), 1, &[(&[COUNT], None), (&[], Some(20_010)), (&[], Some(10)), (&[1], None), (&[], None)]),
        ("no further back than is asked for", since(30_000), 5, &[(&[COUNT], None)]),
        ("nothing is so new", since(COUNT + 1), 5, &[(&[], None)]),
        ("it begins where decisions are old enough", until(50), 5, &[(&[1], None)]),
        ("nothing is so old", until(1), 5, &[(&[], None)]),
    ];
    for (case, query, limit, pages) in cases {
        let mut places: Option<Places> = None;
        for (at, (found, reached)) in pages.iter().enumerate() {
            let list = MergedList::new(&logs, EntryKind::Decisions, query.clone()).passing(REACH);
            let mut list = match &places {
                Some(places) => list.after(places),
                None => list,
            };
            let page = list.page(limit).await.unwrap();
            let seconds: Vec<u64> = shown(&page).into_iter().map(|(_, second)| second).collect();
            let came_to = list.reached().map(|reached| reached.time);
            assert_eq!((&*seconds, came_to), (*found, reached.map(time)), "{case}, page {at}");
            places = list.next_places();
            assert_eq!(places.is_none(), at + 1 == pages.len(), "{case}, page {at}");
        }
    }
}

#[tokio::test]
async fn a_list_ends_before_what_a_log_may_still_have() {
    let few = log("b", &[2, 21_000, COUNT + 1]).await;
    let logs = logs(vec![Log::running(name("a"), long().await), few]);
    let query = DecisionQuery {
        verdict: Some("deny".to_owned()),
        newest_first: true,
        ..DecisionQuery::default()
    };
    let mut places: Option<Places> = None;
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        // Each log may pass half of that.
        let list = MergedList::new(&logs, EntryKind::Decisions, query.clone()).passing(REACH);
        let mut list = match &places {
            Some(places) => list.after(places),
            None => list,
        };
        let page = list.page(100).await.unwrap();
        if pages == 0 {
            let seen = [("b", COUNT + 1), ("a", COUNT)];
            assert_eq!(shown(&page), seen, "the next of b may not be the next of all");
            let reached = list.reached().unwrap();
            assert_eq!(reached.time, time(COUNT + 1 - REACH / 2));
            assert_eq!(reached.passed, REACH / 2 + 3);
        }
        found.extend(page);
        pages += 1;
        places = list.next_places();
        if places.is_none() {
            break;
        }
    }
    let all = [("b", COUNT + 1), ("a", COUNT), ("b", 21_000), ("b", 2), ("a", 1)];
    assert_eq!((shown(&found), pages), (all.to_vec(), 5));
    let mut list = MergedList::new(&logs, EntryKind::Decisions, query).passing(REACH);
    let counts = list.count_by(GroupBy::Reason, 5).await.unwrap();
    assert_eq!(counts[0].count, 4, "the first of a is not looked at");
    assert!(list.reached().is_some() && list.next_places().is_some());
}
