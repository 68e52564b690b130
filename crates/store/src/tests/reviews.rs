//! Acknowledgements replace what their author has seen, and nothing else.

use super::*;
use crate::review::{BulkReview, Earlier, Step};

fn note(by: &str) -> Acknowledgement {
    Acknowledgement { time: NOON + DAY, by: by.to_owned(), note: "known".to_owned() }
}

/// Returns who has acknowledged each decision.
async fn reviewers(store: &Store) -> Vec<Option<String>> {
    let all = DecisionQuery { limit: 10_000, ..DecisionQuery::default() };
    let all = store.decisions(all).await.unwrap().into_iter();
    all.map(|one| one.acknowledged.map(|seen| seen.by)).collect()
}

async fn count(store: &Store) -> u64 {
    store.extent().await.unwrap().size
}

#[tokio::test]
async fn an_acknowledgement_replaces_only_the_one_that_it_names() {
    let store = engine();
    record(&store, &rows(3)).await;
    let one = |seq, replaces| vec![Review { seq, replaces }];
    let first = store.acknowledge(one(1, None), note("Ada")).await;
    assert_eq!(first.unwrap(), [Reviewed::Done]);
    let size = count(&store).await;
    #[rustfmt::skip] // one row, one case
    let refused = [
        ("none, and one is there", one(1, None), Reviewed::Differs(Some(note("Ada")))),
        ("another one", one(1, Some(note("Eve"))), Reviewed::Differs(Some(note("Ada")))),
        ("one of another time", one(1, Some(Acknowledgement { time: NOON, ..note("Ada") })), Reviewed::Differs(Some(note("Ada")))),
        ("one of other words", one(1, Some(Acknowledgement { note: "new".to_owned(), ..note("Ada") })), Reviewed::Differs(Some(note("Ada")))),
        ("one, and none is there", one(2, Some(note("Ada"))), Reviewed::Differs(None)),
        ("no record", one(0, None), Reviewed::Unknown),
        ("a record to come", one(size + 1, None), Reviewed::Unknown),
    ];
    for (name, review, expected) in refused {
        let result = store.acknowledge(review, note("Grace")).await;
        assert_eq!(result.unwrap(), [expected], "{name}");
    }
    assert_eq!(count(&store).await, size, "nothing is in the log");
    let ada = || Some("Ada".to_owned());
    assert_eq!(reviewers(&store).await, [ada(), None, None]);

    // Each of a batch by itself: a refused one stops none.
    let batch =
        vec![Review::first(1), Review::first(2), Review { seq: 1, replaces: Some(note("Ada")) }];
    let results = store.acknowledge(batch, note("Grace")).await.unwrap();
    let differs = Reviewed::Differs(Some(note("Ada")));
    assert_eq!(results, [differs, Reviewed::Done, Reviewed::Done]);
    let grace = || Some("Grace".to_owned());
    assert_eq!(reviewers(&store).await, [grace(), grace(), None]);
    assert_eq!(count(&store).await, size + 2);
}

#[tokio::test]
async fn of_two_reviewers_at_once_one_is_told_of_the_other() {
    let store = engine();
    record(&store, &rows(1)).await;
    let (ada, grace) = tokio::join!(
        store.acknowledge(vec![Review::first(1)], note("Ada")),
        store.acknowledge(vec![Review::first(1)], note("Grace")),
    );
    let results = [ada.unwrap().remove(0), grace.unwrap().remove(0)];
    let kept = reviewers(&store).await.remove(0).unwrap();
    let differs = Reviewed::Differs(Some(note(&kept)));
    let expected = match &*kept {
        "Ada" => [Reviewed::Done, differs],
        _ => [differs, Reviewed::Done],
    };
    assert_eq!(results, expected);
}

/// Carries out a whole review.
async fn finish(bulk: &mut BulkReview<'_>, by: &str) -> Step {
    let mut all = Step::default();
    while let Some(step) = bulk.step(&note(by)).await.unwrap() {
        assert!(step.acknowledged <= 500, "a batch is bounded");
        all.acknowledged += step.acknowledged;
        all.refused.extend(step.refused);
    }
    all
}

#[tokio::test]
async fn a_review_of_many_takes_what_was_there_at_its_beginning_and_keeps_what_others_say() {
    let store = engine();
    record(&store, &rows(1_234)).await;
    let others = rows(10).into_iter().map(|row| Row { host: "other.example", ..row });
    record(&store, &others.collect::<Vec<_>>()).await;
    let first = store.acknowledge(vec![Review::first(7)], note("Ada")).await;
    assert_eq!(first.unwrap(), [Reviewed::Done]);
    let query =
        DecisionQuery { origin: Some("site.example".to_owned()), ..DecisionQuery::default() };
    let begin = |earlier| BulkReview::begin(&store, query.clone(), earlier);
    let mut bulk = begin(Earlier::Kept).await.unwrap();
    assert_eq!(bulk.count().await.unwrap(), 1_233);
    record(&store, &rows(1)).await;

    let done = bulk.step(&note("Grace")).await.unwrap().unwrap();
    assert_eq!(done.acknowledged, 500);
    // A second reviewer comes between two steps.
    let between = store.acknowledge(vec![Review::first(600)], note("Eve"));
    assert_eq!(between.await.unwrap(), [Reviewed::Done]);
    let rest = finish(&mut bulk, "Grace").await;
    assert_eq!((rest.acknowledged, rest.refused.len()), (732, 0));
    let seen = reviewers(&store).await;
    let of = |by: &str| seen.iter().flatten().filter(|one| *one == by).count();
    assert_eq!((of("Ada"), of("Eve"), of("Grace")), (1, 1, 1_232));
    assert_eq!(seen.iter().filter(|one| one.is_none()).count(), 11);

    let mut again = begin(Earlier::Replaced).await.unwrap();
    let again = finish(&mut again, "Grace").await;
    assert_eq!(again.acknowledged, 3, "those of others, and the new one");
    let seen = reviewers(&store).await;
    assert_eq!(seen.iter().flatten().filter(|by| *by == "Grace").count(), 1_235);
}
