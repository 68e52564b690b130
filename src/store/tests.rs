//! Tests of the behaviour that any engine must have.

mod counts;
mod overrides;
mod queries;
mod records;
mod retention;
mod reviews;
mod states;

use super::sqlite::Sqlite;
use super::*;
use crate::entry::{
    Basis, Bounds, Decision, Event, EventKind, Mode, Rule, Source, Url, Verdict, Via,
};
use crate::policy::overrides::{Action, OverrideId};
use crate::rep::{ParseOptions, Robots};
use crate::robots::access::{Absence, Cause};
use crate::robots::snapshot::Snapshot;
use crate::robots::state::{Fresh, Outage, State};
use crate::text::DecisionId;

/// 2026-11-20T12:00:00Z
pub(crate) const NOON: Moment = Moment::from_millis(1_795_176_000_000);
const DAY: Duration = Duration::from_secs(86_400);

/// Returns an empty store.
fn engine() -> Sqlite {
    Sqlite::temporary()
}

pub(crate) fn origin(host: &str) -> Origin {
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

pub(crate) fn successful(text: &str, fetched: Moment) -> State {
    State::Successful {
        snapshot: snapshot(text, fetched),
        fresh: fresh(fetched),
        outage: None,
    }
}

pub(crate) fn origin_update(host: &str, state: State, time: Moment) -> OriginUpdate {
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
pub(crate) struct Row<'a> {
    pub(crate) time: Moment,
    pub(crate) verdict: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    pub(crate) path: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) client: &'a str,
    pub(crate) name: Option<&'a str>,
    pub(crate) rule: &'a str,
    pub(crate) sha256: Option<Sha256>,
}

pub(crate) const ROW: Row<'_> = Row {
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
    /// Adds the record to a batch, and returns its identifier.
    pub(crate) fn file(&self, batch: &mut Batch) -> String {
        let id = DecisionId::mint(self.time);
        let entry = self.entry_of(id);
        batch.entries.push(|out| out.extend_from_slice(&entry));
        batch.objects.extend(self.basis());
        id.to_string()
    }

    /// Returns a batch of this record alone.
    pub(crate) fn batch(&self) -> Batch {
        let mut batch = Batch::default();
        self.file(&mut batch);
        batch
    }

    /// Returns the state of the robots.txt behind the decision.
    fn basis(&self) -> Option<Object> {
        let sha256 = self.sha256.as_ref()?;
        let basis = Basis {
            origin: "https://site.example",
            state: "successful",
            sha256: Some(sha256),
            ..Basis::default()
        };
        let mut body = Vec::new();
        basis.encode(&mut body);
        Some(Object::new(ObjectKind::Basis, &body))
    }

    /// Returns the entry with this identifier.
    pub(crate) fn entry_of(&self, id: DecisionId) -> Vec<u8> {
        let origin = match self.port {
            443 => format!("https://{}", self.host),
            port => format!("https://{}:{port}", self.host),
        };
        let image = format!("{}-Image", self.agent);
        let chain = [&*image, self.agent];
        let basis = self.basis();
        let decision = Decision {
            id: id.octets(),
            decided_after: 0,
            mode: Mode::Enforce,
            verdict: Verdict::from_name(self.verdict).unwrap(),
            reason: self.reason,
            policy: None,
            client: self.client.parse().unwrap(),
            client_name: self.name.map(Into::into),
            chain: (&chain[..]).into(),
            source: Source::UserAgent,
            mismatch: false,
            user_agent: None,
            method: "GET".into(),
            version: None,
            origin: Some(&origin),
            url: Url::of(
                [origin.as_bytes(), self.path.as_bytes(), b""],
                Some(&origin),
            ),
            via: Via::Plain,
            opaque: false,
            rule: Some(Rule {
                group: "*".into(),
                text: self.rule.as_bytes().into(),
                line: 3,
            }),
            reading: None,
            overridden: None,
            exempt: None,
            basis: basis.as_ref().map(|basis| &basis.sha256),
            hold: 0,
            pace: None,
            upstream: None,
            upstream_version: None,
            signed: None,
            status: None,
            bytes_in: 0,
            bytes_out: 0,
            duration: 0,
            error: None,
            detail: None,
            usage: None,
            tdmrep: None,
        };
        let mut entry = Vec::new();
        decision.encode(Bounds::CLIENTS, &mut entry);
        entry
    }
}

/// Returns a batch with one event.
pub(crate) fn event(time: Moment, kind: EventKind<'_>) -> Batch {
    let id = DecisionId::mint(time).octets();
    let mut batch = Batch::default();
    batch.entries.push(|out| Event { id, kind }.encode(out));
    batch
}

/// Returns a batch with the event that three records were lost at noon.
pub(crate) fn lost() -> Batch {
    let noon = NOON.as_millis();
    let kind = EventKind::Lost {
        count: 3,
        first: noon,
        last: noon,
        size: None,
    };
    event(NOON, kind)
}

/// Writes records, a second apart, and returns their identifiers.
/// Acknowledges a decision that is not acknowledged yet. False if there is no such decision.
pub(crate) async fn acknowledge(store: &dyn Store, id: &str, note: Acknowledgement) -> bool {
    let Some(decision) = store.decision(id).await.unwrap() else {
        return false;
    };
    let review = Review::first(decision.seq);
    store.acknowledge(vec![review], note).await.unwrap() == [Reviewed::Done]
}

pub(super) async fn record(store: &dyn Store, rows: &[Row<'_>]) -> Vec<String> {
    let mut batch = Batch::default();
    let ids = rows.iter().map(|row| row.file(&mut batch)).collect();
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

pub(super) async fn update_origin(store: &dyn Store, origin_update: OriginUpdate) {
    let batch = Batch {
        updates: vec![origin_update],
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

fn key() -> Arc<LogKey> {
    Arc::new(LogKey::generate(None).unwrap())
}

pub(crate) fn absent(fetched: Moment) -> State {
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
    let mut all = Pruned::default();
    loop {
        let step = store.prune(retention, now).await.unwrap();
        all.decisions += step.decisions;
        all.snapshots += step.snapshots;
        if !step.more {
            return all;
        }
    }
}
