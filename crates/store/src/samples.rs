//! Samples of what a store holds, for the tests of all crates.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]
#![allow(missing_docs, reason = "the fields of a row are those of a record")]

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Acknowledgement, Batch, Fetch, Object, ObjectKind, OriginUpdate, Review, Reviewed, Sha256,
    Store,
};
use crawlgate_origins::access::Absence;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Fresh, State};
use crawlgate_record::{Basis, Bounds, Decision, Rule, Source, Url, Verdict};
use crawlgate_robots::{Origin, ParseOptions, Robots};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

/// 2026-11-20T12:00:00Z
pub const NOON: Moment = Moment::from_millis(1_795_176_000_000);

/// A day.
pub const DAY: Duration = Duration::from_secs(86_400);

/// Returns the origin of HTTPS at a host.
pub fn origin(host: &str) -> Origin {
    Origin::parse(&format!("https://{host}")).unwrap().0
}

/// Returns a robots.txt as it was fetched.
pub(super) fn snapshot(text: &str, fetched: Moment) -> Arc<Snapshot> {
    let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
    let url = "https://www.site.example/robots.txt";
    Arc::new(Snapshot::new(robots, fetched, 200, url))
}

/// Returns the times of a copy that counts for a day.
pub(super) fn fresh(from: Moment) -> Fresh {
    Fresh { refresh_from: from + DAY / 2, until: from + DAY }
}

/// Returns the state of an origin with this robots.txt.
pub fn successful(text: &str, fetched: Moment) -> State {
    State::Successful { snapshot: snapshot(text, fetched), fresh: fresh(fetched), outage: None }
}

/// Returns the state of an origin that has no robots.txt.
pub fn absent(fetched: Moment) -> State {
    State::Unavailable { why: Absence::Status(404), fetched, fresh: fresh(fetched), outage: None }
}

/// Returns an update that a fetch of this time brings.
pub fn origin_update(host: &str, state: State, time: Moment) -> OriginUpdate {
    let sha256 = state.snapshot().map(|snapshot| snapshot.sha256);
    OriginUpdate {
        origin: origin(host),
        user_agent: "crawlgate/0.1".into(),
        fetch: Fetch {
            identity: crawlgate_origins::identity::Identity::default(),
            user_agent: "crawlgate/0.1".to_owned(),
            other: None,
            time,
            duration: Duration::from_millis(120),
            result: state.name().to_owned(),
            cause: None,
            status: Some(200),
            hops: vec![format!("https://{host}/robots.txt"), "https://x/".to_owned()],
            sha256,
            fields: vec![("etag".to_owned(), "\"a\"".to_owned())],
        },
        state: Arc::new(state),
    }
}

/// A record, as far as a store reads it.
#[derive(Clone)]
pub struct Row<'a> {
    pub time: Moment,
    pub verdict: &'a str,
    pub reason: &'a str,
    pub host: &'a str,
    pub port: u16,
    pub path: &'a str,
    pub agent: &'a str,
    pub client: &'a str,
    pub name: Option<&'a str>,
    pub rule: &'a str,
    pub sha256: Option<Sha256>,
}

/// A denial at noon.
pub const ROW: Row<'_> = Row {
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
    pub fn file(&self, batch: &mut Batch) -> String {
        let id = DecisionId::mint(self.time);
        let entry = self.entry_of(id);
        batch.entries.push(|out| out.extend_from_slice(&entry));
        batch.objects.extend(self.basis());
        id.to_string()
    }

    /// Returns a batch of only this record.
    pub fn batch(&self) -> Batch {
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
    pub fn entry_of(&self, id: DecisionId) -> Vec<u8> {
        let origin = match self.port {
            443 => format!("https://{}", self.host),
            port => format!("https://{}:{port}", self.host),
        };
        let image = format!("{}-Image", self.agent);
        let chain = [&*image, self.agent];
        let basis = self.basis();
        let decision = Decision {
            id: id.octets(),
            verdict: Verdict::from_name(self.verdict).unwrap(),
            reason: self.reason,
            client: self.client.parse().unwrap(),
            client_name: self.name.map(Into::into),
            chain: (&chain[..]).into(),
            source: Source::UserAgent,
            method: "GET".into(),
            origin: Some(&origin),
            url: Url::of([origin.as_bytes(), self.path.as_bytes(), b""], Some(&origin)),
            rule: Some(Rule { group: "*".into(), text: self.rule.as_bytes().into(), line: 3 }),
            basis: basis.as_ref().map(|basis| &basis.sha256),
            ..Decision::default()
        };
        let mut entry = Vec::new();
        decision.encode(Bounds::CLIENTS, &mut entry);
        entry
    }
}

/// Acknowledges a decision that is not acknowledged yet. False if there is no such decision.
pub async fn acknowledge(store: &Store, id: &str, note: Acknowledgement) -> bool {
    let Some(decision) = store.decision(id).await.unwrap() else {
        return false;
    };
    let review = Review::first(decision.seq);
    store.acknowledge(vec![review], note).await.unwrap() == [Reviewed::Done]
}
