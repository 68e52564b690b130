//! Every engine finds the decisions that a query describes, page by page.

use super::*;

/// Returns a query for up to a hundred decisions, oldest first.
fn all() -> DecisionQuery {
    DecisionQuery { limit: 100, ..DecisionQuery::default() }
}

/// Returns six records, each of which differs from the others in some trait.
fn differing() -> [Row<'static>; 6] {
    [
        ROW,
        Row { host: "other.example", path: "/a", ..ROW },
        Row { host: "site.example", port: 8443, path: "/b", ..ROW },
        Row { verdict: "allow", reason: "robots_allow", path: "/public/c.html", ..ROW },
        // This exchange began first and ended last.
        Row { time: NOON - HOUR, agent: "Slow", client: "[2001:db8::1]:5", ..ROW },
        Row { time: NOON + HOUR, reason: "robots_unreachable", ..ROW },
    ]
}

/// Returns queries by one condition or a few, with the decisions of [`differing`] that they find.
#[rustfmt::skip] // one row, one case
fn by_condition() -> Vec<(&'static str, DecisionQuery, &'static [u64])> {
    let text = |text: &str| Some(text.to_owned());
    vec![
        ("all", all(), &[1, 2, 3, 4, 5, 6]),
        ("newest first", DecisionQuery { newest_first: true, ..all() }, &[6, 5, 4, 3, 2, 1]),
        ("a page", DecisionQuery { limit: 2, ..all() }, &[1, 2]),
        ("the next", DecisionQuery { limit: 2, after: Some(2), ..all() }, &[3, 4]),
        ("the page before", DecisionQuery { limit: 2, after: Some(5), newest_first: true, ..all() }, &[4, 3]),
        ("none", DecisionQuery { limit: 0, ..all() }, &[]),
        ("since", DecisionQuery { since: Some(NOON + HOUR / 2), ..all() }, &[6]),
        ("since later than all", DecisionQuery { since: Some(NOON + DAY), ..all() }, &[]),
        ("until", DecisionQuery { until: Some(NOON), ..all() }, &[5]),
        ("a span with records that do not stand together", DecisionQuery { since: Some(NOON - HOUR), until: Some(NOON + HOUR), ..all() }, &[1, 2, 3, 4, 5]),
        ("an origin", DecisionQuery { origin: text("https://site.example"), ..all() }, &[1, 4, 5, 6]),
        ("another port", DecisionQuery { origin: text("https://site.example:8443"), ..all() }, &[3]),
        ("a host", DecisionQuery { origin: text("Site.Example"), ..all() }, &[1, 3, 4, 5, 6]),
        ("another scheme", DecisionQuery { origin: text("http://site.example"), ..all() }, &[]),
        ("a host, newest first, by page", DecisionQuery { origin: text("site.example"), newest_first: true, after: Some(6), limit: 2, ..all() }, &[5, 4]),
        ("a path", DecisionQuery { path: text("/p*.html$"), ..all() }, &[4]),
        ("a path's query counts", DecisionQuery { path: text("/private/x?q="), ..all() }, &[1, 5, 6]),
        ("a client", DecisionQuery { client: text("2001:db8::1"), ..all() }, &[5]),
        ("a client's name", DecisionQuery { client: text("crawler-7"), limit: 2, ..all() }, &[1, 2]),
        ("an agent", DecisionQuery { agent: text("slow"), ..all() }, &[5]),
        ("any of its names", DecisionQuery { agent: text("slow-image"), ..all() }, &[5]),
        ("a reason", DecisionQuery { reason: text("robots_unreachable"), ..all() }, &[6]),
        ("a verdict", DecisionQuery { verdict: text("allow"), ..all() }, &[4]),
        ("a mode", DecisionQuery { mode: text("report"), ..all() }, &[]),
        ("seen", DecisionQuery { acknowledged: Some(true), ..all() }, &[2]),
        ("not seen", DecisionQuery { acknowledged: Some(false), ..all() }, &[1, 3, 4, 5, 6]),
    ]
}

#[tokio::test]
async fn decisions_are_found_by_each_condition() {
    let table = differing();
    let store = engine();
    let ids = record(&store, &table).await;
    store.write(lost()).await.unwrap();
    let note =
        Acknowledgement { time: NOON + DAY, by: "Ada".to_owned(), note: "as agreed".to_owned() };
    assert!(acknowledge(&store, &ids[1], note.clone()).await);
    for unknown in ["", "nonsense", "01KAGJ0000000000000000000Z"] {
        assert!(!acknowledge(&store, unknown, note.clone()).await);
        assert_eq!(store.decision(unknown).await.unwrap(), None);
    }
    for (name, query, want) in by_condition() {
        let page = store.decisions(query).await.unwrap();
        let seqs: Vec<u64> = page.iter().map(|one| one.seq).collect();
        assert_eq!(seqs, want, "{name}");
    }
    let seen = store.decision(&ids[1]).await.unwrap().unwrap();
    assert_eq!((seen.seq, seen.acknowledged), (2, Some(note)));
    assert!(seen.record.contains(&ids[1]));
    let odd = DecisionQuery { path: Some("no/slash".to_owned()), ..all() };
    assert!(store.decisions(odd).await.is_err(), "a pattern that can match nothing");
}

#[tokio::test]
async fn a_long_search_goes_in_steps_and_leaves_none_out() {
    let store = engine();
    record(&store, &rows(5_000)).await;
    let last = Row { host: "rare.example", ..ROW };
    record(&store, &[last]).await;
    for newest_first in [false, true] {
        let query = DecisionQuery { limit: 700, newest_first, ..DecisionQuery::default() };
        let mut seen = paged(&store, query).await;
        if newest_first {
            seen.reverse();
        }
        assert!(seen.into_iter().eq(1..=5_001), "newest first: {newest_first}");
    }
    let rare = DecisionQuery {
        path: Some("/private".to_owned()),
        origin: Some("rare.example".to_owned()),
        limit: 10,
        ..DecisionQuery::default()
    };
    assert_eq!(store.decisions(rare).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_search_goes_no_further_than_it_may() {
    /// From, to, true if newest first, after, and the expected records.
    type Case<'a> = (&'a str, Option<u64>, Option<u64>, bool, Option<u64>, &'a [u64]);
    let store = engine();
    for number in 0..6 {
        let reason = if number % 2 == 0 { "path_guard" } else { "robots_disallow" };
        record(&store, &[Row { reason, ..ROW }]).await;
    }
    #[rustfmt::skip] // one row, one case
    let cases: [Case<'_>; 7] = [
        ("everything", None, None, true, None, &[5, 3, 1]),
        ("the last four", Some(3), None, true, None, &[5, 3]),
        ("forwards", Some(2), None, false, None, &[3, 5]),
        ("behind a page", Some(3), None, true, Some(5), &[3]),
        ("forwards, before the cursor", Some(1), None, false, Some(3), &[5]),
        ("a part", Some(2), Some(4), true, None, &[3]),
        ("forwards, up to the cursor and no further", None, Some(3), false, Some(1), &[3]),
    ];
    for (case, from, to, newest_first, after, want) in cases {
        let query = DecisionQuery {
            reason: Some("path_guard".to_owned()),
            from,
            to,
            newest_first,
            after,
            limit: 10,
            ..DecisionQuery::default()
        };
        let found = store.decisions(query.clone()).await.unwrap();
        let found: Vec<u64> = found.iter().map(|one| one.seq).collect();
        assert_eq!(found, want, "{case}");
        if after.is_none() {
            let counts = store.count_by(query, GroupBy::Reason, 5).await.unwrap();
            let count: u64 = counts.iter().map(|group| group.count).sum();
            assert_eq!(count, want.len() as u64, "{case}");
        }
    }
}

#[tokio::test]
async fn blocks_and_the_tail_are_searched_alike() {
    let store = engine();
    let hosts = ["a.example", "b.example", "c.example"];
    let reasons = ["robots_disallow", "path_guard"];
    let row = |n: usize| Row {
        time: NOON + Duration::from_secs(n as u64),
        host: hosts[n % 3],
        reason: reasons[n % 2],
        ..ROW
    };
    // Blocks, then rows of the tail.
    for range in [0..1_500, 1_500..3_000, 3_000..3_100, 3_100..3_101] {
        let rows: Vec<_> = range.map(row).collect();
        record(&store, &rows).await;
    }
    let seq = |n: &usize| *n as u64 + 1;
    let matching = |n: &usize| n % 3 == 1 && n.is_multiple_of(2) && (100..3_050).contains(n);
    let want: Vec<u64> = (0..3_101).filter(matching).map(|n| seq(&n)).collect();
    for newest_first in [false, true] {
        let query = DecisionQuery {
            origin: Some("b.example".to_owned()),
            reason: Some("robots_disallow".to_owned()),
            since: Some(NOON + Duration::from_secs(100)),
            until: Some(NOON + Duration::from_secs(3_050)),
            limit: 70,
            newest_first,
            ..DecisionQuery::default()
        };
        let mut found = paged(&store, query.clone()).await;
        if newest_first {
            found.reverse();
        }
        assert_eq!(found, want, "{newest_first}");
        let group = store.count_by(query, GroupBy::Origin, 9).await.unwrap();
        let found: Vec<_> = group.iter().map(|one| (&*one.key[0], one.count)).collect();
        assert_eq!(found, [("https://b.example", want.len() as u64)]);
    }
    // An identifier by its beginning: the first ten characters are the time.
    let one = store.records(2_000, 1).await.unwrap().remove(0);
    let id = one.record.split('"').nth(7).unwrap().to_owned();
    for prefix in [&id[..], &id[..13], &id.to_lowercase()] {
        let found = store.decision(prefix).await.unwrap().unwrap();
        assert_eq!(found, one, "{prefix}");
    }
    let ambiguous = store.decision(&id[..4]).await.unwrap_err();
    has(&ambiguous.message, "write more of it");
    assert_eq!(store.decision("7ZZZZZZZZZZZ").await.unwrap(), None);
}

#[tokio::test]
async fn events_are_found_in_blocks_and_in_the_tail_in_both_orders() {
    let store = engine();
    // Enough for blocks, with an event behind each hundred.
    let mut batch = Batch::default();
    for (n, row) in rows(2_500).iter().enumerate() {
        row.file(&mut batch);
        if n % 100 == 0 {
            let time = NOON + Duration::from_secs(n as u64);
            let one = event(time, EventKind::AnsweredLogFailed { decision: [7; 16] });
            one.entries
                .iter()
                .for_each(|entry| batch.entries.push(|out| out.extend_from_slice(entry)));
        }
    }
    store.write(batch).await.unwrap();
    store.write(lost()).await.unwrap();
    let records = store.records(0, 10_000).await.unwrap();
    let mut want: Vec<u64> =
        records.iter().filter(|one| one.record.contains("\"event\":")).map(|one| one.seq).collect();
    assert_eq!(want.len(), 26);
    for newest_first in [false, true] {
        let mut query = DecisionQuery { limit: 7, newest_first, ..DecisionQuery::default() };
        let mut found = Vec::new();
        loop {
            let page = store.events(query.clone()).await.unwrap();
            let Some(last) = page.last() else { break };
            query.after = Some(last.seq);
            found.extend(page.iter().map(|one| one.seq));
        }
        assert_eq!(found, want, "newest first: {newest_first}");
        want.reverse();
    }
    let some = DecisionQuery {
        since: Some(NOON + Duration::from_secs(100)),
        until: Some(NOON + Duration::from_secs(300)),
        ..all()
    };
    let page = store.events(some).await.unwrap();
    assert_eq!(page.len(), 2, "{page:?}");
}
