//! Tests of the behaviour common to all engines.

mod counts;
mod overrides;
mod queries;
mod records;
mod retention;
mod states;

use tempfile::TempDir;

use super::in_memory::InMemoryStore;
use super::sqlite::Sqlite;
use super::*;
use crate::config::Synchronous;
use crate::policy::overrides::{Action, OverrideId};
use crate::rep::{ParseOptions, Robots};
use crate::robots::access::{Absence, Cause};
use crate::robots::snapshot::Snapshot;
use crate::robots::state::{Fresh, Outage, State};
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
