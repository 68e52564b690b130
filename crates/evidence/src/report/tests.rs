//! Reports on a table of records, counted by hand.

mod fetches;
mod files;
mod several;
mod table;

use self::table::{HOUR, NOON, file, id, override_of_c};
use super::*;
use crawlgate_store::logs::{Log, Logs};
use crawlgate_store::{Acknowledgement, Batch, LogKey, Store};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;
use crawlgate_tlog::VerifierKey;
use std::sync::Arc;

async fn store(copies: u64) -> Arc<Store> {
    let store = Store::temporary();
    store.add_override(override_of_c()).await.unwrap();
    let mut batch = Batch::default();
    (0..copies).for_each(|copy| file(&mut batch, copy));
    batch.updates = fetches::of_an_hour();
    store.write(batch).await.unwrap();
    let second = DecisionId::from_octets(id(NOON + 1, 2)).to_string();
    let note = Acknowledgement {
        time: Moment::from_millis(NOON + 2 * HOUR),
        by: "Grace".to_owned(),
        note: "known".to_owned(),
    };
    assert!(crawlgate_store::samples::acknowledge(&store, &second, note).await);
    Arc::new(store)
}

fn question() -> ReportQuery {
    ReportQuery {
        since: Moment::from_millis(NOON - 12 * HOUR),
        until: Moment::from_millis(NOON + 48 * HOUR),
        client: None,
        origin: None,
        by: Some("Ada Lovelace".to_owned()),
    }
}

async fn report(store: &Arc<Store>, question: ReportQuery) -> Report {
    report_by(store, question, Vec::new()).await
}

async fn report_by(store: &Arc<Store>, question: ReportQuery, keys: Vec<VerifierKey>) -> Report {
    let log = Log::running("log".parse().unwrap(), Arc::clone(store));
    report_of(&Logs::one(log), question, keys).await
}

async fn report_of(logs: &Logs, question: ReportQuery, keys: Vec<VerifierKey>) -> Report {
    let mut gathering = Gathering::begin(logs, question).await.unwrap();
    while gathering.step(logs).await.unwrap().is_some() {}
    let clients = "[[client]]\nname = \"fleet\"\nnetworks = [\"192.0.2.1/32\"]\npurpose = 'news \"search\"'\n";
    let config = Config::parse(clients, std::path::Path::new("crawlgate.toml")).unwrap();
    let trusted = Trusted { keys: keys.into(), from: String::new() };
    let trusted = vec![trusted; logs.len()];
    let now = Moment::from_millis(NOON + 72 * HOUR);
    let report = Report::of(&gathering, logs, &config, &trusted, now);
    report.await.unwrap()
}

#[tokio::test]
async fn the_log_has_the_name_that_its_newest_checkpoint_has() {
    let store = store(1).await;
    let [earlier, present] =
        [(), ()].map(|()| std::sync::Arc::new(LogKey::generate(None).unwrap()));
    for keys in [[&earlier, &present], [&present, &earlier]] {
        let keys = keys.map(|key| key.vkey()).to_vec();
        let unsigned = report_by(&store, question(), keys.clone()).await;
        assert_eq!(unsigned.logs[0].log, Some(keys[0].name().to_string()));
    }
    let now = Moment::from_millis(NOON + 72 * HOUR);
    store.checkpoint(std::sync::Arc::clone(&present), now).await.unwrap();
    for keys in [[&earlier, &present], [&present, &earlier]] {
        let keys = keys.map(|key| key.vkey()).to_vec();
        let signed = report_by(&store, question(), keys).await;
        assert_eq!(signed.logs[0].log, Some(present.name().to_string()));
    }
}

/// Denied requests by outcome: disallowed, unreachable, refused here.
type Denied = [u64; 3];

fn outcomes(numbers: [u64; 5], denied: Denied) -> Outcomes {
    let [requests, forwarded, failed, deferred, reported] = numbers;
    let [disallowed, unreachable, refused_here] = denied;
    Outcomes {
        requests: Some(requests),
        forwarded: Some(forwarded),
        failed,
        denied: denied.iter().sum(),
        disallowed,
        unreachable,
        refused_here,
        deferred,
        reported,
    }
}

/// The same where the log does not tell which of the forwarded requests belong there.
fn unknown(outcomes: Outcomes) -> Outcomes {
    Outcomes { requests: None, forwarded: None, ..outcomes }
}

fn of_rows(rows: &[Row]) -> Vec<(&str, Outcomes)> {
    rows.iter().map(|row| (&*row.name, row.outcomes)).collect()
}

/// Compares a report with the figures of the table, counted by hand, `times` as many.
fn compare(report: &Report, times: u64) {
    let o = |numbers: [u64; 5], denied: Denied| {
        let times = |number| number * times;
        outcomes(numbers.map(times), denied.map(times))
    };
    let u = |numbers, denied| unknown(o(numbers, denied));
    let named = |name: &str, count: u64| NamedCount { name: name.to_owned(), count: count * times };
    let summary = &report.summary;
    // 12 records of the span, 10 requests without a record, 5 refusals without one.
    assert_eq!(summary.outcomes, o([27, 15, 1, 1, 1], [3, 1, 6]));
    assert_eq!(summary.forwarded_without_record, 10 * times);
    assert_eq!(summary.refused_without_record, 5 * times);
    // Not fresh: an outage with a copy of thirty hours, and a fetch of twenty-five. An outage without any judges nothing.
    assert_eq!((summary.judged, summary.judged_within_24h), (8 * times, 6 * times));
    assert_eq!(summary.errors, [named("connection_refused", 1)]);
    let days: Vec<_> = report.days.iter().map(|day| (&*day.period, day.outcomes)).collect();
    assert_eq!(
        days,
        [
            ("2026-11-20", o([19, 14, 0, 1, 1], [3, 1, 0])),
            ("2026-11-21", o([8, 1, 1, 0, 0], [0, 0, 6]))
        ]
    );
    let months: Vec<_> = report.months.iter().map(|one| (&*one.period, one.outcomes)).collect();
    assert_eq!(months, [("2026-11", o([27, 15, 1, 1, 1], [3, 1, 6]))]);
    assert_eq!(
        of_rows(&report.clients.rows),
        [
            ("fleet", o([13, 11, 0, 0, 1], [1, 1, 0])),
            ("192.0.2.7", o([9, 4, 1, 1, 0], [2, 0, 1])),
            ("198.51.100.1", o([5, 0, 0, 0, 0], [0, 0, 5])),
        ]
    );
    let purposes = report.clients.rows.iter().map(|row| row.purpose.as_deref());
    assert_eq!(purposes.collect::<Vec<_>>(), [Some("news \"search\""), None, None]);
    assert_eq!(of_rows(&report.product_tokens.rows), [("NewsBot", u([12, 5, 1, 1, 1], [3, 1, 1]))]);
    let agent = "NewsBot/1 <script>alert(1)</script>";
    assert_eq!(of_rows(&report.user_agents.rows), [(agent, u([12, 5, 1, 1, 1], [3, 1, 1]))]);
    assert_eq!(report.origins.count, 3, "an unreadable target is none");
    assert_eq!(
        of_rows(&report.origins.most_asked),
        [
            ("https://a.example", u([4, 1, 0, 0, 0], [3, 0, 0])),
            ("https://c.example", u([4, 2, 1, 1, 1], [0, 0, 0])),
            ("https://b.example", u([3, 2, 0, 0, 0], [0, 1, 0])),
            ("", u([1, 0, 0, 0, 0], [0, 0, 1])),
        ]
    );
    let refused = of_rows(&report.origins.most_refused).into_iter();
    assert_eq!(
        refused.map(|(name, _)| name).collect::<Vec<_>>(),
        ["https://a.example", "https://c.example", "", "https://b.example"]
    );
    let rules = report.rules.iter();
    let rules = rules.map(|row| (&*row.origin, &*row.rule, row.count, row.reported));
    assert_eq!(
        rules.collect::<Vec<_>>(),
        [
            ("https://a.example", "Disallow: /private", 2 * times, 0),
            ("https://a.example", "Disallow: /x<b>\u{202e}", times, 0),
            ("https://c.example", "Disallow: /", times, times),
        ]
    );
    let reasons = report.reasons.iter();
    let reasons = reasons.map(|row| (&*row.reason, row.mode, row.verdict, row.count));
    assert_eq!(
        reasons.collect::<Vec<_>>(),
        [
            ("unauthenticated", "enforce", "deny", 5 * times),
            ("robots_allow", "enforce", "allow", 3 * times),
            ("robots_disallow", "enforce", "deny", 3 * times),
            ("bad_request", "enforce", "deny", times),
            ("no_rules", "enforce", "allow", times),
            ("operator_allow", "enforce", "allow", times),
            ("paced", "enforce", "defer", times),
            ("robots_disallow", "report", "deny", times),
            ("robots_unreachable", "enforce", "deny", times),
        ]
    );
    assert_eq!(report.usage.decisions, 3 * times);
    assert_eq!(report.usage.refused, [named("train-ai", 2), named("tdm", 1)]);
    let first = DecisionId::from_octets(id(NOON + 1, 2)).to_string();
    let example = report.reasons.iter().find(|row| row.reason == "robots_disallow");
    assert_eq!(example.unwrap().example.as_deref(), Some(&*first));
    let robots = &report.robots;
    assert_eq!(robots.states, [named("successful", 7), named("unreachable", 2)]);
    assert_eq!((robots.different, robots.origins, robots.changed, robots.lost), (5, 3, 1, 0));
    let [outage] = &robots.outages[..] else {
        panic!("{:?}", robots.outages);
    };
    assert_eq!(
        (&*outage.origin, &*outage.since, &*outage.cause, outage.attempts),
        ("https://b.example", "2026-11-20T10:00:00.000Z", "connection_refused", 4)
    );
    assert_eq!(
        (outage.disallowed, outage.by_last_good_copy, outage.without_rules),
        (times, times, 0)
    );
    let [settings] = &report.settings[..] else {
        panic!("{:?}", report.settings);
    };
    assert_eq!(settings.count, 2 * times);
    let [asserted] = &report.overrides[..] else {
        panic!("{:?}", report.overrides);
    };
    assert_eq!((&*asserted.id, &*asserted.by, asserted.decisions), ("1", "Ada", times));
    let exceptions = &report.exceptions;
    assert_eq!(exceptions.reported, [named("robots_disallow", 1)]);
    assert_eq!(
        of_rows(&exceptions.reported_origins),
        [("https://c.example", o([1, 1, 0, 0, 1], [0, 0, 0]))]
    );
    assert_eq!(
        of_rows(&exceptions.opaque_tunnels),
        [("https://b.example", u([1, 1, 0, 0, 0], [0, 0, 0]))]
    );
    assert_eq!(exceptions.lost.len() as u64, times);
    assert_eq!(exceptions.lost[0].count, 3);
    assert_eq!(
        exceptions.dropped,
        [DropRow {
            log: None,
            cause: "keep",
            times,
            last: "2026-11-21T12:00:00.000Z".to_owned(),
            first_kept: 41,
        }]
    );
    let seen = report.acknowledgements;
    assert_eq!((seen.refusals, seen.acknowledged), (7 * times, 1));
    assert_eq!(seen.unacknowledged, 7 * times - 1);
}

#[tokio::test]
async fn the_figures_are_those_counted_by_hand() {
    let report = report(&store(1).await, question()).await;
    compare(&report, 1);
    assert_eq!(
        report.exceptions.gaps,
        [GapRow {
            log: None,
            from: "2026-11-20T20:00:00.000Z".to_owned(),
            until: "2026-11-21T06:00:00.000Z".to_owned(),
        }]
    );
    assert_eq!(report.exceptions.started.len(), 2);
    assert_eq!(report.exceptions.without_end, 1);
    let [change] = &report.exceptions.settings[..] else {
        panic!("{:?}", report.exceptions.settings);
    };
    assert_eq!(change.report_origins, ["https://c.example"]);
}

#[tokio::test]
async fn blocks_are_counted_as_the_tail_is() {
    const COPIES: u64 = 300;
    let store = store(COPIES).await;
    assert!(!store.roots().await.unwrap().is_empty(), "there are blocks");
    compare(&report(&store, question()).await, COPIES);
}

#[tokio::test]
async fn a_report_on_one_client_or_origin_holds_its_requests_alone() {
    for copies in [1, 300] {
        let store = store(copies).await;
        let of = async |client: Option<&str>, origin: Option<&str>| {
            let question = ReportQuery {
                client: client.map(str::to_owned),
                origin: origin.map(str::to_owned),
                ..question()
            };
            let report = report(&store, question).await;
            let found = report.not_recorded.iter().any(|one| one.contains("this origin"));
            let of = &report.summary.outcomes;
            let requests = of.requests.map(|requests| (requests / copies, requests % copies));
            assert_eq!(of.forwarded.is_some(), requests.is_some());
            (requests, report.overrides.len(), found)
        };
        assert_eq!(of(Some("192.0.2.7"), None).await, (Some((9, 0)), 1, false));
        assert_eq!(of(Some("fleet"), None).await, (Some((13, 0)), 1, false));
        assert_eq!(of(Some("stranger"), None).await, (Some((0, 0)), 1, false));
        let a = of(None, Some("https://a.example")).await;
        assert_eq!(a, (None, 0, true), "what was counted has no origin");
        assert_eq!(of(None, Some("c.example")).await, (None, 1, true));
        let both = of(Some("fleet"), Some("https://a.example")).await;
        assert_eq!(both, (None, 0, true));
    }
}

#[tokio::test]
async fn the_span_is_half_open() {
    let store = store(1).await;
    let of = async |since: u64, until: u64| {
        let question = ReportQuery {
            since: Moment::from_millis(since),
            until: Moment::from_millis(until),
            ..question()
        };
        report(&store, question).await.summary.outcomes.requests
    };
    assert_eq!(of(NOON, NOON + 1).await, Some(1));
    assert_eq!(of(NOON + 1, NOON + 9).await, Some(8));
    assert_eq!(of(NOON + 9, NOON + 10).await, Some(0));
}

#[tokio::test]
async fn what_retention_has_dropped_is_told() {
    let store = Arc::new(Store::temporary());
    let mut batch = Batch::default();
    (0..1_200).for_each(|copy| file(&mut batch, copy));
    store.write(batch).await.unwrap();
    let first = store.extent().await.unwrap().first;
    assert_eq!(first, 0);
    assert!(!report(&store, question()).await.logs[0].is_cut_off);
    let retention = crawlgate_store::Retention { keep: None, max_size: Some(1) };
    let now = Moment::from_millis(NOON + 240 * HOUR);
    while store.prune(retention, now).await.unwrap().more {}
    let first = store.extent().await.unwrap().first;
    assert!(first > 0, "a part is dropped");
    let report = report(&store, question()).await;
    assert!(report.logs[0].is_cut_off);
    assert_eq!(report.logs[0].first_kept, first + 1);
    let page = report.html().unwrap();
    assert!(page.contains("Retention has dropped the records before"), "{page}");
}
