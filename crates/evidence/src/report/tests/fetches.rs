//! Fetches of robots.txt in a report.

use super::*;
use crawlgate_store::OriginUpdate;
use crawlgate_store::samples::{absent, origin_update, successful};

/// Returns four fetches within an hour: a text, the same, another one, none.
pub(super) fn of_an_hour() -> Vec<OriginUpdate> {
    let of_minute = |(minute, text): (u64, Option<&str>)| {
        let at = Moment::from_millis(NOON + minute * 60_000);
        let state = text.map_or_else(|| absent(at), |text| successful(text, at));
        origin_update("fetched.example", state, at)
    };
    let all = [(0, Some("a")), (1, Some("a")), (2, Some("b")), (3, None)];
    all.into_iter().map(of_minute).collect()
}

#[tokio::test]
async fn fetches_are_counted_in_whole_hours_of_the_span_and_for_all_origins_together() {
    let store = store(1).await;
    let whole = report(&store, question()).await;
    let want = FetchCounts {
        counted_since: "2026-11-20T12:00:00.000Z".to_owned(),
        is_cut_off: true,
        count: 4,
        successful: 3,
        unchanged: 1,
        changed: 1,
        unavailable: 1,
        ..FetchCounts::default()
    };
    assert_eq!(whole.robots.fetches.as_ref(), Some(&want));
    let tells = |report: &Report, what: &str| {
        let mut all = report.not_recorded.iter();
        all.any(|one| one.contains(what))
    };
    let (late, together) = ("began to count them", "for all clients and origins together");
    assert!(tells(&whole, late) && !tells(&whole, together));
    let from_noon = ReportQuery { since: Moment::from_millis(NOON), ..question() };
    let from_noon = report(&store, from_noon).await;
    assert_eq!(from_noon.robots.fetches.as_ref().map(|one| one.count), Some(4));
    assert!(!tells(&from_noon, late));
    let later = ReportQuery { since: Moment::from_millis(NOON + HOUR), ..question() };
    let later = report(&store, later).await.robots.fetches;
    assert_eq!(later.map(|one| one.count), Some(0));
    let earlier = ReportQuery { until: Moment::from_millis(NOON), ..question() };
    let earlier = report(&store, earlier).await;
    assert_eq!(earlier.robots.fetches, None);
    assert!(tells(&earlier, "has counted no fetches of this span") && !tells(&earlier, late));
    let of_one = ReportQuery { origin: Some("https://a.example".to_owned()), ..question() };
    let of_one = report(&store, of_one).await;
    assert_eq!(of_one.robots.fetches, None);
    assert!(tells(&of_one, together));
}
