//! A report of several logs.

use super::*;

#[tokio::test]
async fn a_report_of_several_logs_sums_their_numbers_and_tells_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, store: Arc<Store>| Log::running(name.parse().unwrap(), store);
    let (first, second) = (store(1).await, store(1).await);
    let collection = crawlgate_store::collection::Collection::at(folder.path());
    let damaged = collection.place(&"c".parse().unwrap()).unwrap();
    std::fs::write(damaged, "no store").unwrap();
    let (a, b) = (log("a", first), log("b", second));
    let copies = crawlgate_store::logs::OpenCopies::default();
    let logs = Logs::of_all(vec![a.clone(), b], Some(&collection), copies).unwrap();
    let report = report_of(&logs, question(), Vec::new()).await;

    let one = report_of(&Logs::one(a), question(), Vec::new()).await;
    let twice = |one: Outcomes| Outcomes {
        requests: one.requests.map(|number| number * 2),
        forwarded: one.forwarded.map(|number| number * 2),
        failed: one.failed * 2,
        denied: one.denied * 2,
        disallowed: one.disallowed * 2,
        unreachable: one.unreachable * 2,
        refused_here: one.refused_here * 2,
        deferred: one.deferred * 2,
        reported: one.reported * 2,
    };
    assert_eq!(report.summary.outcomes, twice(one.summary.outcomes), "each number summed");
    assert_eq!(report.days.len(), one.days.len());
    for (sum, one) in report.days.iter().zip(&one.days) {
        assert_eq!(sum.outcomes, twice(one.outcomes), "{}", one.period);
    }
    assert_eq!(report.clients.count, one.clients.count);
    assert_eq!(report.robots.different, one.robots.different, "the same objects");
    assert_eq!(report.robots.lost, 2 * one.robots.lost);
    assert_eq!(report.overrides[0].decisions, 2 * one.overrides[0].decisions);
    assert_eq!(report.acknowledgements.acknowledged, 2);
    let fetches = [&report, &one].map(|of| of.robots.fetches.clone().unwrap().count);
    assert_eq!(fetches, [2 * fetches[1], fetches[1]]);
    // A process of one log does not end the gap of another.
    let gaps: Vec<_> = report.exceptions.gaps.iter().map(|gap| gap.log.as_deref()).collect();
    assert_eq!(gaps, [Some("a"), Some("b")]);
    assert_eq!(report.exceptions.without_end, 2);
    assert_eq!(report.exceptions.dropped.len(), 2);

    let unread: Vec<_> = report.logs.iter().map(|log| log.unread.is_some()).collect();
    assert_eq!(unread, [false, false, true]);
    assert_eq!(report.logs[2].log.as_deref(), Some("c"));
    let page = report.html().unwrap();
    let (before, _) = page.split_once("2. Requests").unwrap();
    assert!(
        before.contains("The log c could not be read, and nothing of it is in this report"),
        "{before}"
    );
    assert!(page.contains("a: no process ran from"), "{page}");
    assert!(page.contains("<td data-head=\"Result\">not read</td>"), "{page}");
}
