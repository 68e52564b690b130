//! The questions that people ask of a store with many decisions, and how long each takes.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawlgate_config::Config;
use crawlgate_evidence::DecisionId;
use crawlgate_evidence::report::{Gathering, Report, ReportQuery};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_store::logs::{Log, Logs};
use crawlgate_store::sqlite::sql::{Cell, Rows, Session};
use crawlgate_store::{Acknowledgement, DecisionQuery, GroupBy, Review, Store};
use crawlgate_system::clock::{Clock, Moment};

use super::DAY;

/// Asks each question three times, and prints the slowest answer.
pub(super) async fn ask(store: &Arc<Store>) {
    let (now, all) = (Clock::system().now(), newest(100));
    let one = store.decisions(newest(1)).await.unwrap().remove(0);
    let id = crawlgate_record::id_of(&one.entry).unwrap();
    let id = DecisionId::from_octets(*id).to_string();
    let note = Acknowledgement { time: now, by: "Ada Example".to_owned(), note: "seen".to_owned() };
    let review = Review::of(&one);
    store.acknowledge(vec![review], note).await.unwrap();
    let slowest = |name: &str, took: [Duration; 3], count: usize| {
        println!("  {name}: {count} in {:.1?}", took.iter().max().unwrap());
    };
    let mut took = [Duration::ZERO; 3];
    for took in &mut took {
        let began = Instant::now();
        assert!(store.decision(&id).await.unwrap().is_some());
        *took = began.elapsed();
    }
    slowest("one by its identifier", took, 1);
    let text = |text: &str| Some(text.to_owned());
    #[rustfmt::skip] // one row, one question
    let questions = [
        ("the last 100", all.clone()),
        ("of one host", DecisionQuery { origin: text("www.site-7.example"), ..all.clone() }),
        ("of a host that is not there", DecisionQuery { origin: text("nothing.example"), ..all.clone() }),
        ("of one client", DecisionQuery { client: text("crawler-7"), ..all.clone() }),
        ("of a client that is not there", DecisionQuery { client: text("none"), ..all.clone() }),
        ("of an agent that is not there", DecisionQuery { agent: text("NoBot"), ..all.clone() }),
        ("that were denied", DecisionQuery { verdict: text("deny"), ..all.clone() }),
        ("for a reason that there is not", DecisionQuery { reason: text("path_guard"), ..all.clone() }),
        ("by a rule that there is not", DecisionQuery { rule: text("Disallow: /nothing"), ..all.clone() }),
        ("of one hour, two weeks ago", DecisionQuery { since: Some(now - DAY * 14), until: Some(now - DAY * 14 + DAY / 24), ..all.clone() }),
        ("that were acknowledged", DecisionQuery { acknowledged: Some(true), ..all.clone() }),
        ("denied and not acknowledged", DecisionQuery { verdict: text("deny"), acknowledged: Some(false), ..all.clone() }),
        ("with a path that there is not", DecisionQuery { path: text("/nothing/like/this"), ..all.clone() }),
    ];
    for (name, query) in questions {
        let mut count = 0;
        for took in &mut took {
            let began = Instant::now();
            count = store.decisions(query.clone()).await.unwrap().len();
            *took = began.elapsed();
        }
        slowest(name, took, count);
    }
    for (name, since) in [("all", None), ("a week", Some(now - DAY * 7))] {
        for key in [GroupBy::Origin, GroupBy::Reason, GroupBy::Rule] {
            let query = DecisionQuery { since, ..all.clone() };
            for took in &mut took {
                let began = Instant::now();
                store.count_by(query.clone(), key, 10).await.unwrap();
                *took = began.elapsed();
            }
            slowest(&format!("{name} counted by {key:?}"), took, 10);
        }
    }
    for took in &mut took {
        let began = Instant::now();
        store.hours(now - DAY * 30, now).await.unwrap();
        *took = began.elapsed();
    }
    slowest("the hours of a month", took, 720);
    let began = Instant::now();
    let question = ReportQuery {
        since: Moment::default(),
        until: Clock::system().now() + Duration::from_secs(86_400),
        client: None,
        origin: None,
        by: None,
    };
    let log = Log::running("bench".parse().unwrap(), Arc::clone(store));
    let logs = Logs::one(log);
    let mut gathering = Gathering::begin(&logs, question).await.unwrap();
    while gathering.step(&logs).await.unwrap().is_some() {}
    let (config, now) = (Config::default(), Clock::system().now());
    let trusted = Trusted { keys: Vec::new().into(), from: String::new() };
    let report = Report::of(&gathering, &logs, &config, &[trusted], now).await;
    let report = report.unwrap();
    let page = report.html().unwrap().len();
    println!(
        "  a report on {} requests, {page} octets: {:.1?}",
        report.summary.outcomes.requests.unwrap_or_default(),
        began.elapsed()
    );
}

/// Returns the query for the newest decisions.
fn newest(limit: usize) -> DecisionQuery {
    DecisionQuery { limit, newest_first: true, ..DecisionQuery::default() }
}

/// Asks what `crawlgate sql` asks, over everything and over a part.
pub(super) fn ask_by_sql(path: &Path) {
    struct Count(usize);

    impl Rows for Count {
        type Error = Infallible;

        fn names(&mut self, _: &[&str]) -> Result<bool, Infallible> {
            Ok(true)
        }

        fn row(&mut self, _: &[Cell<'_>]) -> Result<bool, Infallible> {
            self.0 += 1;
            Ok(true)
        }

        fn end(&mut self) -> Result<bool, Infallible> {
            Ok(true)
        }
    }

    let now = Clock::system().now();
    let text = "SELECT host, count(*) AS n FROM denials GROUP BY host ORDER BY n DESC LIMIT 10";
    for (name, since) in [("a day", Some(now - DAY)), ("everything", None)] {
        let query = DecisionQuery { since, ..DecisionQuery::default() };
        let (began, mut count) = (Instant::now(), Count(0));
        let session = Session::open(path, &query).unwrap();
        session.run(text, &mut count).unwrap();
        println!(
            "  crawlgate sql, denials by host, {name}: {} rows in {:.1?}",
            count.0,
            began.elapsed()
        );
    }
}
