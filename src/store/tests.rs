//! Tests of the behaviour common to all engines.

use tempfile::TempDir;

use super::in_memory::InMemoryStore;
use super::sqlite::Sqlite;
use super::*;
use crate::config::Synchronous;
use crate::policy::overrides::{Action, OverrideId};
use crate::rep::{ParseOptions, Robots};
use crate::robots::access::{Absence, Cause};
use crate::robots::snapshot::Snapshot;
use crate::text::{DecisionId, hex};

/// 2026-11-20T12:00:00Z
const NOON: Moment = Moment::from_millis(1_795_176_000_000);
const DAY: Duration = Duration::from_secs(86_400);

/// Returns an empty store of each engine, and a guard to keep until the end.
fn engines() -> Vec<(&'static str, Arc<dyn Store>, Option<TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crawlgate.db");
    let sqlite = Sqlite::open(&path, Access::Write, Synchronous::Normal).unwrap();
    vec![
        ("memory", Arc::new(InMemoryStore::new()), None),
        ("sqlite", Arc::new(sqlite), Some(folder)),
    ]
}

fn origin(host: &str) -> Origin {
    Origin::parse(&format!("https://{host}")).unwrap().0
}

fn snapshot(text: &str, fetched: Moment) -> Arc<Snapshot> {
    let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
    let url = "https://www.site.example/robots.txt";
    Arc::new(Snapshot::new(robots, fetched, 200, url))
}

fn fresh(from: Moment) -> Fresh {
    Fresh {
        refresh_from: from + DAY / 2,
        until: from + DAY,
    }
}

fn outage(since: Moment) -> Outage {
    Outage {
        cause: Cause::Status(503),
        since,
        last_failure: Some(since + Duration::from_secs(7)),
        last_attempt: since + Duration::from_secs(9),
        attempts: 3,
        next_attempt: since + Duration::from_secs(20),
    }
}

pub(super) fn successful(text: &str, fetched: Moment) -> State {
    State::Successful {
        snapshot: snapshot(text, fetched),
        fresh: fresh(fetched),
        outage: None,
    }
}

pub(super) fn landing(host: &str, state: State, time: Moment) -> OriginUpdate {
    let sha256 = state.snapshot().map(|snapshot| snapshot.sha256);
    OriginUpdate {
        origin: origin(host),
        user_agent: "crawlgate/0.1".into(),
        fetch: Fetch {
            identity: crate::robots::identity::Identity::default(),
            user_agent: "crawlgate/0.1".to_owned(),
            other: None,
            time,
            duration: Duration::from_millis(120),
            result: state.name().to_owned(),
            cause: None,
            status: Some(200),
            hops: vec![
                format!("https://{host}/robots.txt"),
                "https://x/".to_owned(),
            ],
            sha256,
            fields: vec![("etag".to_owned(), "\"a\"".to_owned())],
        },
        state: Arc::new(state),
    }
}

/// A record, as far as a store reads it.
#[derive(Clone)]
pub(super) struct Row<'a> {
    pub(super) time: Moment,
    pub(super) verdict: &'a str,
    pub(super) reason: &'a str,
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) path: &'a str,
    pub(super) agent: &'a str,
    pub(super) client: &'a str,
    pub(super) name: Option<&'a str>,
    pub(super) rule: &'a str,
    pub(super) sha256: Option<Sha256>,
}

pub(super) const ROW: Row<'_> = Row {
    time: NOON,
    verdict: "deny",
    reason: "robots_disallow",
    host: "site.example",
    port: 443,
    path: "/private/x?q=1",
    agent: "ExampleBot",
    client: "127.0.0.1:40000",
    name: Some("crawler-7"),
    rule: "Disallow: /private",
    sha256: None,
};

impl Row<'_> {
    /// Returns the identifier and the line.
    pub(super) fn line(&self) -> (String, Vec<u8>) {
        let id = DecisionId::mint(self.time).to_string();
        let time = crate::text::time_text(self.time);
        let record = serde_json::json!({
            "time": time, "id": id, "mode": "enforce", "verdict": self.verdict, "reason": self.reason,
            "client": {"address": self.client, "name": self.name},
            "agent": {"chain": [format!("{}-Image", self.agent), self.agent]},
            "url": format!("https://{}:{}{}", self.host, self.port, self.path),
            "scheme": "https", "host": self.host, "port": self.port,
            "rule": {"group": "*", "text": self.rule, "line": 3},
            "robots": {"sha256": self.sha256.map(hex)},
        });
        (id, format!("{record}\n").into_bytes())
    }
}

/// Writes records, a second apart, and returns their identifiers.
pub(super) async fn record(store: &dyn Store, rows: &[Row<'_>]) -> Vec<String> {
    let (mut ids, mut lines) = (Vec::new(), Vec::new());
    for row in rows {
        let (id, line) = row.line();
        ids.push(id);
        lines.extend(line);
    }
    let batch = Batch {
        lines,
        ..Batch::default()
    };
    store.write(batch).await.unwrap();
    ids
}

pub(super) fn rows(count: u64) -> Vec<Row<'static>> {
    let time = |n| NOON + Duration::from_secs(n);
    (0..count)
        .map(|n| Row {
            time: time(n),
            ..ROW
        })
        .collect()
}

pub(super) async fn land(store: &dyn Store, landing: OriginUpdate) {
    let batch = Batch {
        landings: vec![landing],
        ..Batch::default()
    };
    store.write(batch).await.unwrap();
}

fn forever() -> Retention {
    Retention {
        keep: None,
        max_size: None,
    }
}

fn key() -> Arc<chain::SealingKey> {
    Arc::new(chain::SealingKey::generate().unwrap())
}

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
                    cause: Cause::Certificate,
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
    for (engine, store, _folder) in engines() {
        assert_eq!(store.origin(&origin("none.example")).await.unwrap(), []);
        for (name, state) in &states {
            let before = landing("site.example", state.clone(), NOON + DAY);
            land(&*store, before.clone()).await;
            let after = store.origin(&before.origin).await.unwrap().remove(0);
            assert_eq!(
                Some(after.state),
                crate::store::persist::to_stored(state),
                "{engine}: {name}"
            );
            assert_eq!(after.updated, NOON + DAY);
            if let Some(snapshot) = state.snapshot() {
                let text = store.snapshot(snapshot.sha256).await.unwrap();
                assert_eq!(
                    text.as_deref(),
                    Some(snapshot.robots.text()),
                    "{engine}: {name}"
                );
            }
            let last = store.fetches(&before.origin, 1).await.unwrap();
            assert_eq!(last, [before.fetch], "{engine}: {name}");
        }
        let all = store.fetches(&origin("site.example"), 100).await.unwrap();
        assert_eq!(all.len(), states.len());
    }
}

pub(super) fn absent(fetched: Moment) -> State {
    unavailable(fetched)
}

pub(super) fn unreachable(since: Moment) -> State {
    State::Unreachable {
        outage: outage(since),
        last_good: None,
    }
}

fn unavailable(fetched: Moment) -> State {
    State::Unavailable {
        why: Absence::Status(404),
        fetched,
        fresh: fresh(fetched),
        outage: None,
    }
}

#[tokio::test]
async fn texts_that_lose_several_references_hold_up_no_record() {
    let lands = |host: &str, text: Option<&str>, after: u64| {
        let time = NOON + Duration::from_secs(after);
        let state = text.map_or_else(|| unavailable(time), |text| successful(text, time));
        landing(host, state, time)
    };
    let cases = [
        (
            "two lose the file that they had in common",
            vec![lands("a.example", None, 2), lands("b.example", None, 2)],
        ),
        (
            "one goes back and forth",
            vec![
                lands("a.example", Some("second"), 2),
                lands("a.example", Some("first"), 3),
                lands("a.example", Some("second"), 4),
            ],
        ),
    ];
    for (name, landings) in cases {
        for (engine, store, _folder) in engines() {
            for host in ["a.example", "b.example"] {
                land(&*store, lands(host, Some("first"), 1)).await;
            }
            for round in 1..=2 {
                let batch = Batch {
                    landings: landings.clone(),
                    lines: ROW.line().1,
                    ..Batch::default()
                };
                store.write(batch).await.unwrap();
                let head = store.links(0, 10).await.unwrap().len();
                assert_eq!(head, round, "{engine}, {name}");
                for landing in &landings {
                    let kept = store.origin(&landing.origin).await.unwrap().remove(0);
                    let last = landings.iter().rfind(|one| one.origin == landing.origin);
                    assert_eq!(kept.updated, last.unwrap().fetch.time, "{engine}, {name}");
                }
                // Pruning leaves the note, and the text is noted once more.
                prune(&*store, forever(), NOON).await;
                land(&*store, lands("a.example", Some("first"), 1)).await;
            }
        }
    }
}

#[tokio::test]
async fn the_history_of_an_origin_is_bounded_and_ends_with_it() {
    for (engine, store, _folder) in engines() {
        for n in 0..FETCHES_KEPT as u64 + 5 {
            let time = NOON + Duration::from_secs(n);
            land(&*store, landing("site.example", successful("", time), time)).await;
        }
        let site = origin("site.example");
        let kept = store.fetches(&site, 1_000).await.unwrap();
        assert_eq!(kept.len(), FETCHES_KEPT, "{engine}");
        assert!(kept.is_sorted_by(|a, b| a.time > b.time), "newest first");
        assert!(store.forget(&site, None).await.unwrap());
        assert!(!store.forget(&site, None).await.unwrap());
        assert_eq!(store.fetches(&site, 1_000).await.unwrap(), []);
        assert_eq!(store.origin(&site).await.unwrap(), []);
    }
}

#[tokio::test]
async fn origins_come_by_page_and_by_query() {
    for (engine, store, _folder) in engines() {
        for host in ["c.example", "a.example", "b.test"] {
            land(&*store, landing(host, successful("", NOON), NOON)).await;
        }
        let down = State::Unreachable {
            outage: outage(NOON),
            last_good: None,
        };
        land(&*store, landing("d.example", down, NOON)).await;
        let names = async |query: OriginQuery| {
            let page = store.origins(query).await.unwrap();
            page.iter()
                .map(|one| one.origin.host().to_owned())
                .collect::<Vec<_>>()
        };
        let all = OriginQuery {
            limit: 100,
            ..OriginQuery::default()
        };
        let cases: [(&str, OriginQuery, &[&str]); 5] = [
            (
                "all",
                all.clone(),
                &["a.example", "b.test", "c.example", "d.example"],
            ),
            (
                "a page",
                OriginQuery {
                    limit: 2,
                    ..all.clone()
                },
                &["a.example", "b.test"],
            ),
            (
                "the next page",
                OriginQuery {
                    after: Some("https://b.test".to_owned()),
                    ..all.clone()
                },
                &["c.example", "d.example"],
            ),
            (
                "by part of the name",
                OriginQuery {
                    containing: Some(".test".to_owned()),
                    ..all.clone()
                },
                &["b.test"],
            ),
            (
                "by state",
                OriginQuery {
                    state: Some("unreachable".to_owned()),
                    ..all
                },
                &["d.example"],
            ),
        ];
        for (name, query, want) in cases {
            assert_eq!(names(query).await, want, "{engine}: {name}");
        }
    }
}

#[tokio::test]
async fn records_are_kept_octet_for_octet_and_chained() {
    for (engine, store, _folder) in engines() {
        record(&*store, &rows(3)).await;
        record(&*store, &rows(2)).await;
        let links = store.links(0, 100).await.unwrap();
        assert_eq!(links.len(), 5);
        let mut hash = chain::GENESIS;
        for (at, link) in links.iter().enumerate() {
            assert_eq!(link.seq, at as u64 + 1, "{engine}");
            hash = chain::link(&hash, link.record.as_bytes());
            assert_eq!(link.hash, hash, "{engine}");
        }
        assert_eq!(store.links(2, 2).await.unwrap(), links[2..4]);
        let size = store.size().await.unwrap();
        assert_eq!(size.decisions, 5, "{engine}");
        assert!(size.bytes > 1_000, "{engine}: {size:?}");
    }
}

#[tokio::test]
async fn a_batch_with_a_line_that_is_no_record_is_refused_as_a_whole() {
    for (engine, store, _folder) in engines() {
        let (_, mut lines) = ROW.line();
        lines.extend(b"nonsense\n");
        let batch = Batch {
            landings: vec![landing("site.example", successful("", NOON), NOON)],
            lines,
            ..Batch::default()
        };
        store.write(batch).await.unwrap_err();
        assert_eq!(store.links(0, 100).await.unwrap(), [], "{engine}");
        assert_eq!(
            store.origin(&origin("site.example")).await.unwrap(),
            [],
            "{engine}"
        );
        // A later record still links.
        record(&*store, &[ROW]).await;
        assert_eq!(store.links(0, 100).await.unwrap().len(), 1, "{engine}");
    }
}

#[tokio::test]
async fn decisions_are_found_by_each_condition() {
    let hour = Duration::from_secs(3_600);
    let table = [
        ROW,
        Row {
            host: "other.example",
            path: "/a",
            ..ROW
        },
        Row {
            host: "site.example",
            port: 8443,
            path: "/b",
            ..ROW
        },
        Row {
            verdict: "allow",
            reason: "robots_allow",
            path: "/public/c.html",
            ..ROW
        },
        // This exchange began first and ended last.
        Row {
            time: NOON - hour,
            agent: "Slow",
            client: "[2001:db8::1]:5",
            ..ROW
        },
        Row {
            time: NOON + hour,
            reason: "robots_unreachable",
            ..ROW
        },
    ];
    let all = DecisionQuery {
        limit: 100,
        ..DecisionQuery::default()
    };
    let text = |text: &str| Some(text.to_owned());
    let cases: Vec<(&str, DecisionQuery, &[u64])> = vec![
        ("all", all.clone(), &[1, 2, 3, 4, 5, 6]),
        (
            "newest first",
            DecisionQuery {
                newest_first: true,
                ..all.clone()
            },
            &[6, 5, 4, 3, 2, 1],
        ),
        (
            "a page",
            DecisionQuery {
                limit: 2,
                ..all.clone()
            },
            &[1, 2],
        ),
        (
            "the next",
            DecisionQuery {
                limit: 2,
                after: Some(2),
                ..all.clone()
            },
            &[3, 4],
        ),
        (
            "the page before",
            DecisionQuery {
                limit: 2,
                after: Some(5),
                newest_first: true,
                ..all.clone()
            },
            &[4, 3],
        ),
        (
            "none",
            DecisionQuery {
                limit: 0,
                ..all.clone()
            },
            &[],
        ),
        (
            "since",
            DecisionQuery {
                since: Some(NOON + hour / 2),
                ..all.clone()
            },
            &[6],
        ),
        (
            "since later than all",
            DecisionQuery {
                since: Some(NOON + DAY),
                ..all.clone()
            },
            &[],
        ),
        (
            "until",
            DecisionQuery {
                until: Some(NOON),
                ..all.clone()
            },
            &[5],
        ),
        (
            "a span with records that do not stand together",
            DecisionQuery {
                since: Some(NOON - hour),
                until: Some(NOON + hour),
                ..all.clone()
            },
            &[1, 2, 3, 4, 5],
        ),
        (
            "an origin",
            DecisionQuery {
                origin: text("https://site.example"),
                ..all.clone()
            },
            &[1, 4, 5, 6],
        ),
        (
            "another port",
            DecisionQuery {
                origin: text("https://site.example:8443"),
                ..all.clone()
            },
            &[3],
        ),
        (
            "a host",
            DecisionQuery {
                origin: text("Site.Example"),
                ..all.clone()
            },
            &[1, 3, 4, 5, 6],
        ),
        (
            "another scheme",
            DecisionQuery {
                origin: text("http://site.example"),
                ..all.clone()
            },
            &[],
        ),
        (
            "a host, newest first, by page",
            DecisionQuery {
                origin: text("site.example"),
                newest_first: true,
                after: Some(6),
                limit: 2,
                ..all.clone()
            },
            &[5, 4],
        ),
        (
            "a path",
            DecisionQuery {
                path: text("/p*.html$"),
                ..all.clone()
            },
            &[4],
        ),
        (
            "a path's query counts",
            DecisionQuery {
                path: text("/private/x?q="),
                ..all.clone()
            },
            &[1, 5, 6],
        ),
        (
            "a client",
            DecisionQuery {
                client: text("2001:db8::1"),
                ..all.clone()
            },
            &[5],
        ),
        (
            "a client's name",
            DecisionQuery {
                client: text("crawler-7"),
                limit: 2,
                ..all.clone()
            },
            &[1, 2],
        ),
        (
            "an agent",
            DecisionQuery {
                agent: text("slow"),
                ..all.clone()
            },
            &[5],
        ),
        (
            "any of its names",
            DecisionQuery {
                agent: text("slow-image"),
                ..all.clone()
            },
            &[5],
        ),
        (
            "a reason",
            DecisionQuery {
                reason: text("robots_unreachable"),
                ..all.clone()
            },
            &[6],
        ),
        (
            "a verdict",
            DecisionQuery {
                verdict: text("allow"),
                ..all.clone()
            },
            &[4],
        ),
        (
            "a mode",
            DecisionQuery {
                mode: text("report"),
                ..all.clone()
            },
            &[],
        ),
        (
            "seen",
            DecisionQuery {
                acknowledged: Some(true),
                ..all.clone()
            },
            &[2],
        ),
        (
            "not seen",
            DecisionQuery {
                acknowledged: Some(false),
                ..all.clone()
            },
            &[1, 3, 4, 5, 6],
        ),
    ];
    for (engine, store, _folder) in engines() {
        let ids = record(&*store, &table).await;
        let lost = br#"{"time":"2026-11-20T12:00:00.000Z","event":"records_lost","count":3}"#;
        let batch = Batch {
            lines: [&lost[..], b"\n"].concat(),
            ..Batch::default()
        };
        store.write(batch).await.unwrap();
        let note = Acknowledgement {
            time: NOON + DAY,
            by: "Ada".to_owned(),
            note: "as agreed".to_owned(),
        };
        assert!(
            store.acknowledge(&ids[1], note.clone()).await.unwrap(),
            "{engine}"
        );
        for unknown in ["", "nonsense", "01KAGJ0000000000000000000Z"] {
            assert!(!store.acknowledge(unknown, note.clone()).await.unwrap());
            assert_eq!(store.decision(unknown).await.unwrap(), None);
        }
        for (name, query, want) in &cases {
            let page = store.decisions(query.clone()).await.unwrap();
            let seqs: Vec<u64> = page.iter().map(|one| one.seq).collect();
            assert_eq!(seqs, *want, "{engine}: {name}");
        }
        let seen = store.decision(&ids[1]).await.unwrap().unwrap();
        assert_eq!((seen.seq, seen.acknowledged), (2, Some(note)), "{engine}");
        assert!(seen.record.contains(&ids[1]));
        let odd = DecisionQuery {
            path: text("no/slash"),
            ..all.clone()
        };
        assert!(
            store.decisions(odd).await.is_err(),
            "a pattern that can match nothing"
        );
    }
}

#[tokio::test]
async fn a_long_search_goes_in_steps_and_leaves_none_out() {
    let (_, store, _folder) = engines().remove(1);
    record(&*store, &rows(5_000)).await;
    let last = Row {
        host: "rare.example",
        ..ROW
    };
    record(&*store, &[last]).await;
    for newest_first in [false, true] {
        let mut query = DecisionQuery {
            limit: 700,
            newest_first,
            ..DecisionQuery::default()
        };
        let mut seen = Vec::new();
        loop {
            let page = store.decisions(query.clone()).await.unwrap();
            let Some(last) = page.last() else { break };
            query.after = Some(last.seq);
            seen.extend(page.iter().map(|one| one.seq));
        }
        if newest_first {
            seen.reverse();
        }
        assert!(
            seen.into_iter().eq(1..=5_001),
            "newest first: {newest_first}"
        );
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
async fn decisions_are_counted_by_each_key() {
    let table = [
        ROW,
        Row {
            time: NOON + DAY,
            ..ROW
        },
        Row {
            rule: "Disallow: /b",
            ..ROW
        },
        Row {
            host: "a.example",
            reason: "path_guard",
            ..ROW
        },
    ];
    for (engine, store, _folder) in engines() {
        record(&*store, &table).await;
        let tally = async |key, limit| {
            let tallies = store
                .tally(DecisionQuery::default(), key, limit)
                .await
                .unwrap();
            tallies
                .into_iter()
                .map(|one| (one.key.join(" "), one.count, one.last.since(one.first)))
                .collect::<Vec<_>>()
        };
        let no_time = Duration::ZERO;
        let text = |text: &str| text.to_owned();
        assert_eq!(
            tally(TallyKey::Origin, 10).await,
            [
                (text("https://site.example"), 3, DAY),
                (text("https://a.example:443"), 1, no_time)
            ]
            .map(|(key, count, span)| (key.replace(":443", ""), count, span)),
            "{engine}"
        );
        assert_eq!(
            tally(TallyKey::Reason, 1).await,
            [(text("robots_disallow"), 3, DAY)],
            "{engine}"
        );
        assert_eq!(
            tally(TallyKey::Rule, 2).await,
            [
                (text("https://site.example Disallow: /private"), 2, DAY),
                (text("https://a.example Disallow: /private"), 1, no_time),
            ],
            "{engine}: of equals, by name"
        );
    }
}

#[tokio::test]
async fn settings_are_kept_by_their_digest() {
    for (engine, store, _folder) in engines() {
        let batch = Batch {
            policies: vec![("d1".into(), "{}".into()), ("d1".into(), "{}".into())],
            ..Batch::default()
        };
        store.write(batch).await.unwrap();
        assert_eq!(
            store.policy("d1").await.unwrap().as_deref(),
            Some("{}"),
            "{engine}"
        );
        assert_eq!(store.policy("d2").await.unwrap(), None, "{engine}");
    }
}

#[tokio::test]
async fn a_grown_chain_is_sealed() {
    for (engine, store, _folder) in engines() {
        let key = key();
        assert_eq!(
            store.seal(Arc::clone(&key), NOON).await.unwrap(),
            None,
            "nothing to seal"
        );
        record(&*store, &rows(3)).await;
        let seal = store.seal(Arc::clone(&key), NOON).await.unwrap().unwrap();
        let head = store.links(2, 1).await.unwrap().remove(0);
        assert_eq!((seal.seq, seal.hash), (3, head.hash), "{engine}");
        assert_eq!(seal.start, (1, chain::GENESIS), "{engine}");
        assert!(seal.is_genuine());
        assert_eq!(
            store.seal(Arc::clone(&key), NOON + DAY).await.unwrap(),
            None,
            "{engine}: sealed"
        );
        record(&*store, &rows(1)).await;
        assert!(store.seal(key, NOON + DAY).await.unwrap().is_some());
        assert_eq!(store.seals().await.unwrap().len(), 2, "{engine}");
    }
}

#[tokio::test]
async fn overrides_are_added_numbered_and_removed() {
    let one = Override {
        id: OverrideId::Stored(0),
        origin: origin("site.example"),
        pattern: "/press/".to_owned(),
        action: Action::Allow,
        until: Some(NOON + DAY),
        by: "Ada".to_owned(),
        reason: "written permission".to_owned(),
        created: NOON,
    };
    for (engine, store, _folder) in engines() {
        let before = store.version().await.unwrap();
        let first = store.add_override(one.clone()).await.unwrap();
        let endless = Override {
            until: None,
            action: Action::Deny,
            ..one.clone()
        };
        let second = store.add_override(endless.clone()).await.unwrap();
        assert_ne!(store.version().await.unwrap(), before, "{engine}");
        let numbered = |number, one: &Override| Override {
            id: OverrideId::Stored(number),
            ..one.clone()
        };
        let all = [numbered(first, &one), numbered(second, &endless)];
        assert_eq!(store.overrides().await.unwrap(), all, "{engine}");

        let before = store.version().await.unwrap();
        let by = || "Grace".to_owned();
        assert!(store.remove_override(first, by(), NOON).await.unwrap());
        assert!(!store.remove_override(first, by(), NOON).await.unwrap());
        assert_ne!(store.version().await.unwrap(), before, "{engine}");
        assert_eq!(store.overrides().await.unwrap(), all[1..], "{engine}");
        let removed = Removed {
            asserted: all[0].clone(),
            time: NOON,
            by: by(),
        };
        let kept = store.removed_overrides().await.unwrap();
        assert_eq!(kept, [removed], "{engine}");
        let third = store.add_override(one.clone()).await.unwrap();
        assert!(third > second, "{engine}: no number is given twice");
    }
}

/// Prunes until there is nothing more to drop, and returns the amounts.
async fn prune(store: &dyn Store, retention: Retention, now: Moment) -> Pruned {
    let key = key();
    let mut all = Pruned::default();
    loop {
        let step = store.prune(retention, Arc::clone(&key), now).await.unwrap();
        all.decisions += step.decisions;
        all.snapshots += step.snapshots;
        if !step.more {
            return all;
        }
    }
}

#[tokio::test]
async fn old_records_go_from_the_front_and_the_chain_stays_one() {
    for (engine, store, _folder) in engines() {
        let keep = Retention {
            keep: Some(DAY),
            ..forever()
        };
        record(&*store, &rows(600)).await;
        let before = store.links(0, 1_000).await.unwrap();
        assert_eq!(
            prune(&*store, forever(), NOON + DAY * 100).await.decisions,
            0,
            "{engine}"
        );
        assert_eq!(
            prune(&*store, keep, NOON + DAY / 2).await.decisions,
            0,
            "{engine}"
        );
        let now = NOON + DAY + Duration::from_secs(400);
        assert_eq!(prune(&*store, keep, now).await.decisions, 400, "{engine}");
        let left = store.links(0, 1_000).await.unwrap();
        assert_eq!(left, before[400..], "{engine}");
        let seal = store.seals().await.unwrap().pop().unwrap();
        assert_eq!(
            seal.start,
            (401, before[399].hash),
            "{engine}: where it begins is sealed"
        );
        assert_eq!(seal.seq, 600);
        assert!(seal.is_genuine());

        // All of it is old: the head stays, because the next link follows from it.
        assert_eq!(
            prune(&*store, keep, NOON + DAY * 9).await.decisions,
            199,
            "{engine}"
        );
        record(&*store, &rows(1)).await;
        let left = store.links(0, 1_000).await.unwrap();
        assert_eq!(left[0], before[599], "{engine}");
        let next = chain::link(&before[599].hash, left[1].record.as_bytes());
        assert_eq!((left[1].seq, left[1].hash), (601, next), "{engine}");
        let seal = store.seal(key(), NOON).await.unwrap().unwrap();
        assert_eq!(seal.start, (600, before[598].hash), "{engine}");
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_drops_nothing_and_seals_nothing_before_its_time() {
    for (engine, store, _folder) in engines() {
        record(&*store, &rows(50)).await;
        let keep = Retention {
            keep: Some(DAY),
            ..forever()
        };
        for (name, now) in [
            ("two seconds back", NOON + Duration::from_secs(47)),
            ("two days back", NOON - DAY * 2),
        ] {
            let gone = prune(&*store, keep, now).await;
            assert_eq!(gone.decisions, 0, "{engine}, {name}");
        }
        let last = NOON + Duration::from_secs(49);
        let seal = store.seal(key(), NOON).await.unwrap().unwrap();
        assert_eq!(seal.time, last, "{engine}");
        assert!(seal.is_genuine(), "{engine}");
        // Only the first goes; the others are from the clock's future.
        let short = Retention {
            keep: Some(Duration::from_millis(1)),
            ..forever()
        };
        let now = NOON + Duration::from_millis(500);
        assert_eq!(prune(&*store, short, now).await.decisions, 1, "{engine}");
        let seal = store.seals().await.unwrap().pop().unwrap();
        assert_eq!(seal.time, last, "{engine}: made while dropping");
    }
}

#[tokio::test]
async fn records_beyond_the_bound_go_from_the_front() {
    for (engine, store, _folder) in engines() {
        let at_first = store.size().await.unwrap().bytes;
        for _ in 0..40 {
            record(&*store, &rows(100)).await;
        }
        let full = store.size().await.unwrap();
        let most = at_first + (full.bytes - at_first) / 4;
        let retention = Retention {
            max_size: Some(most),
            ..forever()
        };
        let gone = prune(&*store, retention, NOON).await.decisions;
        let left = store.size().await.unwrap();
        assert!(left.bytes <= most, "{engine}: {left:?} of {most}");
        assert_eq!(left.decisions, 4_000 - gone, "{engine}");
        assert!(
            left.decisions > 300,
            "{engine}: no more than need be: {left:?} of {full:?}"
        );
    }
}

#[tokio::test]
async fn a_text_goes_once_it_is_old_and_without_references() {
    for (engine, store, _folder) in engines() {
        let keep = Retention {
            keep: Some(DAY),
            ..forever()
        };
        let texts = ["first", "second"].map(|text| snapshot(text, NOON).sha256);
        let kept = async || {
            let mut kept = Vec::new();
            for sha256 in texts {
                kept.push(store.snapshot(sha256).await.unwrap().is_some());
            }
            kept
        };
        let site = "site.example";
        land(&*store, landing(site, successful("first", NOON), NOON)).await;
        let of = |sha256| Row {
            sha256: Some(sha256),
            ..ROW
        };
        record(
            &*store,
            &[
                of(texts[0]),
                Row {
                    time: NOON + DAY * 2,
                    ..ROW
                },
            ],
        )
        .await;
        for n in 0..FETCHES_KEPT as u64 {
            let time = NOON + Duration::from_secs(n + 1);
            land(&*store, landing(site, successful("second", time), time)).await;
        }
        prune(&*store, keep, NOON + DAY / 2).await;
        assert_eq!(
            kept().await,
            [true, true],
            "{engine}: a decision refers to it"
        );
        let gone = prune(&*store, keep, NOON + DAY * 2).await;
        assert_eq!((gone.decisions, gone.snapshots), (1, 1), "{engine}");
        assert_eq!(kept().await, [false, true], "{engine}");

        assert!(store.forget(&origin(site), None).await.unwrap());
        prune(&*store, keep, NOON + DAY / 2).await;
        assert_eq!(
            kept().await,
            [false, true],
            "{engine}: without references, but not old"
        );
        prune(&*store, forever(), NOON + DAY * 9).await;
        assert_eq!(kept().await, [false, true], "{engine}: kept for ever");
        prune(&*store, keep, NOON + DAY * 9).await;
        assert_eq!(kept().await, [false, false], "{engine}");
    }
}

#[tokio::test]
async fn decisions_are_counted_by_the_hour() {
    for (name, store, _folder) in engines() {
        let minutes = |minutes: u64| NOON + Duration::from_secs(60 * minutes);
        let at = |time, reason| {
            Row {
                time,
                reason,
                ..ROW
            }
            .line()
            .1
        };
        let event =
            b"{\"time\":\"2026-11-20T12:00:00.000Z\",\"event\":\"records_lost\"}\n".to_vec();
        for lines in [
            [
                at(minutes(0), "robots_disallow"),
                at(minutes(59), "robots_disallow"),
            ]
            .concat(),
            [
                at(minutes(1), "path_guard"),
                event,
                at(minutes(60), "robots_disallow"),
            ]
            .concat(),
        ] {
            let lines = Batch {
                lines,
                ..Batch::default()
            };
            store.write(lines).await.unwrap();
        }
        let counted = async |since, until| {
            let hours = store.hours(since, until).await.unwrap();
            let told = |one: Hourly| (one.hour.since(NOON).as_secs() / 60, one.reason, one.count);
            hours.into_iter().map(told).collect::<Vec<_>>()
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
            assert_eq!(counted(since, until).await, want, "{name}: {case}");
        }
        let key = Arc::new(
            chain::SealingKey::load_or_create(&tempfile::tempdir().unwrap().path().join("k"))
                .unwrap(),
        );
        let retention = Retention {
            keep: Some(Duration::from_secs(60)),
            max_size: None,
        };
        store.prune(retention, key, minutes(62)).await.unwrap();
        // The head stays whatever its age, and its hour with it.
        assert_eq!(
            counted(minutes(0), minutes(120)).await,
            [(60, rule, 1)],
            "{name}: pruned"
        );
    }
}

#[tokio::test]
async fn a_search_goes_no_further_than_it_may() {
    /// From, to, true if newest first, after, and the expected records.
    type Case<'a> = (
        &'a str,
        Option<u64>,
        Option<u64>,
        bool,
        Option<u64>,
        &'a [u64],
    );
    for (name, store, _folder) in engines() {
        for number in 0..6 {
            let reason = if number % 2 == 0 {
                "path_guard"
            } else {
                "robots_disallow"
            };
            let (_, lines) = Row { reason, ..ROW }.line();
            let lines = Batch {
                lines,
                ..Batch::default()
            };
            store.write(lines).await.unwrap();
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
            assert_eq!(found, want, "{name}: {case}");
            if after.is_none() {
                let tallies = store.tally(query, TallyKey::Reason, 5).await.unwrap();
                let count: u64 = tallies.iter().map(|tally| tally.count).sum();
                assert_eq!(count, want.len() as u64, "{name}: {case}");
            }
        }
    }
}
