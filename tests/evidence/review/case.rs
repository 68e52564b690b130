//! Decisions, made and recorded as by the proxy.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crawlgate_config::Mode;
use crawlgate_evidence::{DecisionId, Grounds};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Stance, State};
use crawlgate_policy::agent::{Agent, Source};
use crawlgate_policy::generation::Generation;
use crawlgate_policy::overrides::{Action, Override, OverrideId, Overrides};
use crawlgate_policy::settings::{PolicyDigest, PolicySettings};
use crawlgate_policy::{self as policy, Decision, DecisionInputs, Ruling, Target};
use crawlgate_record::{self as entry, Bounds, Digest, Told, Url, Via};
use crawlgate_robots::{Origin, ProductToken, Robots};
use crawlgate_store::Batch;
use crawlgate_system::clock::Moment;
use crawlgate_usage::Purposes;
use http::uri::PathAndQuery;

/// 2026-11-20T12:00:00.123Z
pub const NOON: Moment = Moment::from_millis(1_795_176_000_123);

/// One request and all facts that decide about it.
#[derive(Clone, Debug)]
pub struct Case {
    pub origin: String,
    pub path: String,
    pub agent: String,
    pub state: State,
    pub terms: PolicySettings,
    pub mode: Mode,
    pub opaque: bool,
    pub overrides: Vec<Override>,
    pub asked: Moment,
    pub now: Moment,
    pub redact: bool,
    /// The client, and the operator's reason for exempting it.
    pub client: Option<(&'static str, Option<&'static str>)>,
}

/// An entry with its objects.
#[derive(Debug)]
pub struct Record {
    pub entry: Vec<u8>,
    pub objects: HashMap<Digest, Vec<u8>>,
}

impl Record {
    pub fn told(&self) -> Told<'_> {
        Told::read(&self.entry, &self.objects).expect("a decision")
    }
}

impl Case {
    /// Returns a request for `path` by `agent`, to an origin with the robots.txt `text`.
    pub fn of(text: &str, agent: &str, path: &str) -> Case {
        let terms = terms();
        Case {
            origin: "https://site.example".to_owned(),
            path: path.to_owned(),
            agent: agent.to_owned(),
            state: successful(text, &terms),
            terms,
            mode: Mode::Enforce,
            opaque: false,
            overrides: Vec::new(),
            asked: NOON - Duration::from_millis(5),
            now: NOON,
            redact: false,
            client: None,
        }
    }

    fn target(&self) -> Target {
        let (origin, _) = Origin::parse(&self.origin).expect("an origin");
        let path = if self.opaque { "/" } else { &self.path };
        let path = PathAndQuery::try_from(path).expect("a path");
        Target { origin, path }
    }

    fn chain(&self) -> Vec<ProductToken> {
        let names = self.agent.split_whitespace();
        names.map(|name| ProductToken::new(name).expect("a token")).collect()
    }

    /// Decides in the order of the gate.
    pub fn decide(&self) -> Decision {
        let settings = DecisionInputs {
            mode: self.mode,
            generation: Generation::default(),
            path_guard: self.terms.path_guard,
            policy: self.terms.digest(),
            exempt: self.client.and_then(|(_, exempt)| exempt).map(Into::into),
            signals: crawlgate_policy::usage::Signals::of(
                Purposes::NONE,
                &std::sync::Arc::default(),
            ),
        };
        let agent = Agent { tokens: self.chain(), source: Source::UserAgent, mismatch: false };
        let state = Arc::new(self.state.clone());
        let overrides = Overrides::new(self.overrides.clone());
        let ruling = self.by_path_or_override(&overrides).unwrap_or_else(|target| {
            let stance = state.stance(self.now, &self.terms.profile());
            match (&stance, self.opaque) {
                (Stance::Unknown, _) => {
                    policy::await_robots(target, Arc::clone(&state), self.now, settings, self.now)
                }
                (_, true) => {
                    policy::decide_tunnel(target, &agent, &state, &stance, settings, self.now)
                }
                (_, false) => policy::decide(target, &agent, &state, &stance, settings, self.now),
            }
        });
        ruling.into_decision()
    }

    fn by_path_or_override(&self, overrides: &Overrides) -> Result<Ruling, Target> {
        let target = self.target();
        if self.opaque {
            return policy::decide_tunnel_by_override(target, overrides, self.mode, self.now);
        }
        policy::clear_robots_txt(target, self.mode, self.now)
            .or_else(|target| policy::decide_by_override(target, overrides, self.mode, self.now))
    }

    /// Returns the decision's entry with its objects.
    pub fn record(&self, decision: &Decision) -> Record {
        let mut batch = Batch::default();
        self.file(decision, &mut batch);
        let objects = batch.objects.iter();
        Record {
            objects: objects.map(|one| (one.sha256, one.body.to_vec())).collect(),
            entry: batch.entries.iter().next().unwrap().to_vec(),
        }
    }

    /// Adds the decision's record to a batch, and returns its identifier.
    pub fn file(&self, decision: &Decision, batch: &mut Batch) -> String {
        let target = self.target();
        let chain = self.chain();
        let url = match self.opaque {
            true => format!("{}:{}", target.origin.host(), target.origin.port()),
            false => format!("{}{}", self.origin, self.path),
        };
        let origin = Some(target.origin.as_str());
        let id = DecisionId::mint(self.asked);
        let record = entry::Decision {
            id: id.octets(),
            decided_after: decision
                .at
                .as_millis()
                .wrapping_sub(self.asked.as_millis())
                .cast_signed(),
            mode: decision.mode,
            verdict: decision.verdict(),
            reason: decision.reason.as_str(),
            policy: decision.policy.as_ref().map(|PolicyDigest(digest)| digest),
            client_name: self.client.map(|(name, _)| name.into()),
            chain: (&*chain).into(),
            user_agent: Some(self.agent.as_bytes().into()),
            method: if self.opaque { "CONNECT" } else { "GET" }.into(),
            url: Url::public(url.as_bytes(), origin, self.redact, Bounds::CLIENTS),
            origin,
            via: if self.opaque { Via::Tunnel } else { Via::Intercepted },
            opaque: self.opaque,
            rule: decision.rule.as_ref().map(|rule| entry::Rule {
                group: (&*rule.group).into(),
                text: rule.text.as_bytes().into(),
                line: rule.line,
            }),
            reading: decision.reading.as_deref().map(|path| path.as_bytes().into()),
            exempt: decision
                .exempt
                .as_ref()
                .map(|exempt| entry::Exempt { from: exempt.from.as_str(), reason: &exempt.reason }),
            hold: 0,
            pace: None,
            ..entry::Decision::sample()
        };
        let grounds = Grounds {
            overridden: decision.asserted.as_deref().map(|asserted| &**asserted),
            robots: decision.basis.as_deref().map(|state| (state, None)),
            tdmrep: None,
        };
        let digests = grounds.digests(origin);
        grounds.file(&digests.named_by(record), batch);
        id.to_string()
    }
}

/// Returns the policy settings of a fresh installation.
pub fn terms() -> PolicySettings {
    crawlgate_config::Config::default().robots.policy_settings()
}

/// Returns the state of a robots.txt that was fetched an hour before noon and is fresh until an hour after it.
pub fn successful(text: &str, terms: &PolicySettings) -> State {
    use crawlgate_origins::state::Fresh;
    let hour = Duration::from_secs(3_600);
    State::Successful {
        snapshot: snapshot(text, terms, NOON - hour),
        fresh: Fresh { refresh_from: NOON, until: NOON + hour },
        outage: None,
    }
}

pub fn snapshot(text: &str, terms: &PolicySettings, fetched: Moment) -> Arc<Snapshot> {
    let robots = Robots::parse(text.as_bytes(), terms.parse_options());
    let from = "https://www.site.example/robots.txt";
    Arc::new(Snapshot::new(robots, fetched, 200, from))
}

pub const MINUTE: Duration = Duration::from_secs(60);

/// Returns an override for the origin of the cases.
pub fn asserted(pattern: &str, action: Action, until: Option<Moment>) -> Override {
    Override {
        id: OverrideId::Stored(7),
        origin: Origin::parse("https://site.example").unwrap().0,
        pattern: pattern.to_owned(),
        action,
        until,
        by: "Ada".to_owned(),
        reason: "a letter".to_owned(),
        created: NOON,
        instance: None,
    }
}
