//! Every engine counts decisions by key and by hour.

use super::*;

#[tokio::test]
async fn decisions_are_counted_by_each_key() {
    let table = [
        ROW,
        Row { time: NOON + DAY, ..ROW },
        Row { rule: "Disallow: /b", ..ROW },
        Row { host: "a.example", reason: "path_guard", ..ROW },
    ];
    let store = engine();
    record(&store, &table).await;
    let count_by = async |key, limit| {
        let counts = store.count_by(DecisionQuery::default(), key, limit).await.unwrap();
        counts
            .into_iter()
            .map(|one| (one.key.join(" "), one.count, one.last.since(one.first)))
            .collect::<Vec<_>>()
    };
    let no_time = Duration::ZERO;
    let text = |text: &str| text.to_owned();
    assert_eq!(
        count_by(GroupBy::Origin, 10).await,
        [(text("https://site.example"), 3, DAY), (text("https://a.example:443"), 1, no_time)]
            .map(|(key, count, span)| (key.replace(":443", ""), count, span))
    );
    assert_eq!(count_by(GroupBy::Reason, 1).await, [(text("robots_disallow"), 3, DAY)]);
    assert_eq!(
        count_by(GroupBy::Rule, 2).await,
        [
            (text("https://site.example Disallow: /private"), 2, DAY),
            (text("https://a.example Disallow: /private"), 1, no_time),
        ],
        "of equals, by name"
    );
}

#[tokio::test]
async fn decisions_are_counted_by_the_hour() {
    let store = engine();
    let minutes = |minutes: u64| NOON + Duration::from_secs(60 * minutes);
    let at = |time, reason| Row { time, reason, ..ROW };
    for rows in [
        vec![at(minutes(0), "robots_disallow"), at(minutes(59), "robots_disallow")],
        vec![at(minutes(1), "path_guard"), at(minutes(60), "robots_disallow")],
    ] {
        record(&store, &rows).await;
    }
    store.write(lost()).await.unwrap();
    let counted = async |since, until| {
        let hours = store.hours(since, until).await.unwrap();
        let row = |one: Hourly| (one.hour.since(NOON).as_secs() / 60, one.reason, one.count);
        hours.into_iter().map(row).collect::<Vec<_>>()
    };
    let (rule, guard) = ("robots_disallow".to_owned(), "path_guard".to_owned());
    let first = [(0, guard.clone(), 1), (0, rule.clone(), 2)];
    let both = [&first[..], &[(60, rule.clone(), 1)]].concat();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("all", minutes(0), minutes(120), &both[..]),
        ("an hour that has begun counts whole", minutes(59), minutes(61), &both),
        ("the hour that begins then does not count", minutes(0), minutes(60), &first),
        ("nothing before", Moment::default(), minutes(0), &[]),
    ];
    for (case, since, until, want) in cases {
        assert_eq!(counted(since, until).await, want, "{case}");
    }
    // Three more make a bundle with the others, which goes as a whole.
    let old = vec![at(minutes(1), "robots_disallow"); 256 - 5];
    record(&store, &old).await;
    record(&store, &[at(minutes(61), "robots_disallow")]).await;
    let retention = Retention { keep: Some(Duration::from_secs(60)), max_size: None };
    assert_eq!(prune(&store, retention, minutes(62)).await.decisions, 256);
    assert_eq!(counted(minutes(0), minutes(120)).await, [(60, rule, 2)], "pruned");
}
