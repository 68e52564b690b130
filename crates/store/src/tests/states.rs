//! Every engine gives back the states, fetches and texts of origins as they were.

use super::*;
use crawlgate_origins::access::tls_fault::{Holder, TlsFault};

#[tokio::test]
async fn states_come_back_as_they_were() {
    let absences = [
        Absence::Status(404),
        Absence::NotFoundBehind(500),
        Absence::TooManyRedirects,
        Absence::RedirectLoop,
    ];
    let mut states = vec![
        ("fresh", successful("User-agent: *\nDisallow: /a\n", NOON)),
        (
            "an outage beside a fresh copy",
            State::Successful {
                snapshot: snapshot("", NOON),
                fresh: fresh(NOON),
                outage: Some(outage(NOON + DAY)),
            },
        ),
        (
            "unreachable, with a last good copy",
            State::Unreachable {
                outage: outage(NOON),
                last_good: Some(snapshot("Disallow: /", NOON - DAY)),
            },
        ),
        (
            "never seen",
            State::Unreachable {
                outage: Outage {
                    cause: TlsFault::Expired(
                        Holder::Origin,
                        Moment::from_millis(1_705_312_800_000),
                    )
                    .into(),
                    last_failure: None,
                    ..outage(NOON)
                },
                last_good: None,
            },
        ),
    ];
    for why in absences {
        states.push((
            "no file",
            State::Unavailable {
                why,
                fetched: NOON,
                fresh: fresh(NOON),
                outage: Some(outage(NOON)),
            },
        ));
    }
    let store = engine();
    assert_eq!(store.origin(&origin("none.example")).await.unwrap(), []);
    for (name, state) in &states {
        let before = origin_update("site.example", state.clone(), NOON + DAY);
        update_origin(&store, before.clone()).await;
        let after = store.origin(&before.origin).await.unwrap().remove(0);
        assert_eq!(Some(after.state), crate::persist::to_stored(state), "{name}");
        assert_eq!(after.updated, NOON + DAY);
        if let Some(snapshot) = state.snapshot() {
            let text = store.snapshot(snapshot.sha256).await.unwrap();
            assert_eq!(text.as_deref(), Some(snapshot.robots.text()), "{name}");
        }
        let last = store.fetches(&before.origin, 1).await.unwrap();
        assert_eq!(last, [before.fetch], "{name}");
    }
    let all = store.fetches(&origin("site.example"), 100).await.unwrap();
    assert_eq!(all.len(), states.len());
}

#[tokio::test]
async fn texts_that_lose_several_references_hold_up_no_record() {
    let update_of = |host: &str, text: Option<&str>, after: u64| {
        let time = NOON + Duration::from_secs(after);
        let state = text.map_or_else(|| absent(time), |text| successful(text, time));
        origin_update(host, state, time)
    };
    let cases = [
        (
            "two lose the file that they had in common",
            vec![update_of("a.example", None, 2), update_of("b.example", None, 2)],
        ),
        (
            "one goes back and forth",
            vec![
                update_of("a.example", Some("second"), 2),
                update_of("a.example", Some("first"), 3),
                update_of("a.example", Some("second"), 4),
            ],
        ),
    ];
    for (name, updates) in cases {
        let store = engine();
        for host in ["a.example", "b.example"] {
            update_origin(&store, update_of(host, Some("first"), 1)).await;
        }
        for round in 1..=2 {
            let batch = Batch { updates: updates.clone(), ..ROW.batch() };
            store.write(batch).await.unwrap();
            let head = store.records(0, 10).await.unwrap().len();
            assert_eq!(head, round, "{name}");
            for origin_update in &updates {
                let kept = store.origin(&origin_update.origin).await.unwrap().remove(0);
                let last = updates.iter().rfind(|one| one.origin == origin_update.origin);
                assert_eq!(kept.updated, last.unwrap().fetch.time, "{name}");
            }
            // Pruning leaves the note, and the text is noted once more.
            prune(&store, forever(), NOON).await;
            update_origin(&store, update_of("a.example", Some("first"), 1)).await;
        }
    }
}

#[tokio::test]
async fn the_history_of_an_origin_is_bounded_and_ends_with_it() {
    let store = engine();
    for n in 0..FETCHES_KEPT as u64 + 5 {
        let time = NOON + Duration::from_secs(n);
        update_origin(&store, origin_update("site.example", successful("", time), time)).await;
    }
    let site = origin("site.example");
    let kept = store.fetches(&site, 1_000).await.unwrap();
    assert_eq!(kept.len(), FETCHES_KEPT);
    assert!(kept.is_sorted_by(|a, b| a.time > b.time), "newest first");
    assert!(store.forget(&site, None).await.unwrap());
    assert!(!store.forget(&site, None).await.unwrap());
    assert_eq!(store.fetches(&site, 1_000).await.unwrap(), []);
    assert_eq!(store.origin(&site).await.unwrap(), []);
}

#[tokio::test]
async fn origins_come_by_page_and_by_query() {
    let store = engine();
    for host in ["c.example", "a.example", "b.test"] {
        update_origin(&store, origin_update(host, successful("", NOON), NOON)).await;
    }
    let down = State::Unreachable { outage: outage(NOON), last_good: None };
    update_origin(&store, origin_update("d.example", down, NOON)).await;
    let names = async |query: OriginQuery| {
        let page = store.origins(query).await.unwrap();
        page.iter().map(|one| one.origin.host().to_owned()).collect::<Vec<_>>()
    };
    let all = OriginQuery { limit: 100, ..OriginQuery::default() };
    let cases: [(&str, OriginQuery, &[&str]); 5] = [
        ("all", all.clone(), &["a.example", "b.test", "c.example", "d.example"]),
        ("a page", OriginQuery { limit: 2, ..all.clone() }, &["a.example", "b.test"]),
        (
            "the next page",
            OriginQuery { after: Some("https://b.test".to_owned()), ..all.clone() },
            &["c.example", "d.example"],
        ),
        (
            "by part of the name",
            OriginQuery { containing: Some(".test".to_owned()), ..all.clone() },
            &["b.test"],
        ),
        ("by state", OriginQuery { state: Some("unreachable".to_owned()), ..all }, &["d.example"]),
    ];
    for (name, query, want) in cases {
        assert_eq!(names(query).await, want, "{name}");
    }
}

#[tokio::test]
async fn settings_are_kept_by_their_digest() {
    let store = engine();
    let settings = Object::new(ObjectKind::PolicySettings, b"{}");
    let batch = Batch { objects: vec![settings.clone(), settings.clone()], ..Batch::default() };
    store.write(batch).await.unwrap();
    let kept = store.policy(settings.sha256).await.unwrap();
    assert_eq!(kept.as_deref(), Some("{}"));
    assert_eq!(store.policy([0; 32]).await.unwrap(), None);
}
