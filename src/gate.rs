//! The one asynchronous question: may this go out, now?
//!
//! Plain requests, intercepted ones and tunnels all ask here, and nowhere else. In order: can the
//! decision be recorded; has a person asserted anything; what does the origin's robots.txt say; is it this origin's
//! turn.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::agent::{Agent, Agents};
use crate::audit::Log;
use crate::client::Client;
use crate::clock::{Clock, Moment};
use crate::config::{Config, Mode, PolicyConfig};
use crate::egress::{Egress, Prohibited};
use crate::pace::{Pace, TooEarly};
use crate::policy::overrides::{Override, Overrides};
use crate::policy::reporting::Reporting;
use crate::policy::terms::Terms;
use crate::policy::{self, Decision, Reason, Ruling, Target, Verdict};
use crate::rep::Origin;
use crate::robots::registry::{Memory, Registry, View};
use crate::robots::state::{Stance, State};

/// Decides, after fetching and waiting for what a decision needs.
pub struct Gate {
    egress: Egress,
    registry: Registry,
    pace: Pace,
    log: Arc<Log>,
    clock: Clock,
    agents: ArcSwap<Agents>,
    operator: ArcSwap<Operator>,
    /// Overrides by where they come from, to be put together when one of them changes.
    asserted: Mutex<Asserted>,
    /// Tells that settings or overrides are others now.
    changes: watch::Sender<()>,
}

/// What the operator says over robots.txt.
struct Operator {
    overrides: Overrides,
    reporting: Reporting,
}

impl Operator {
    /// The mode that what a client asks of an origin is judged in: report, if it or anything else of it says so.
    fn mode(&self, origin: &Origin, client: &Client, address: IpAddr) -> Mode {
        match client.mode {
            Some(Mode::Report) => Mode::Report,
            _ => self.reporting.mode(origin, address),
        }
    }
}

struct Asserted {
    config: PolicyConfig,
    stored: Vec<Override>,
}

impl Asserted {
    fn operator(&self) -> Operator {
        let all = self.config.overrides.iter().chain(&self.stored);
        Operator {
            overrides: Overrides::new(all.cloned()),
            reporting: Reporting::of(&self.config),
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// From where.
    pub address: IpAddr,
    /// For whom.
    pub client: &'a Client,
    /// As whom the crawler is judged.
    pub agent: &'a Agent,
    /// As what robots.txt is fetched.
    pub user_agent: Option<&'a HeaderValue>,
}

/// A ruling, and what it took.
#[derive(Debug)]
pub struct Cleared {
    /// Whether it may go out.
    pub ruling: Ruling,
    /// How long the request was held for robots.txt and for politeness.
    pub hold: Duration,
}

/// What wants to go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request whose path is known.
    Request,
    /// A tunnel that will not be looked into.
    Tunnel,
}

impl Gate {
    /// A gate that knows nothing yet.
    pub fn new(config: &Config, egress: Egress, log: Arc<Log>, clock: Clock) -> Gate {
        let asserted = Asserted {
            config: config.policy.clone(),
            stored: Vec::new(),
        };
        let gate = Gate {
            egress: egress.clone(),
            registry: Registry::with_memory(
                config.robots.clone(),
                egress,
                Memory::of(&log),
                clock.clone(),
            ),
            pace: Pace::new(&config.pace, clock.clone()),
            log,
            clock,
            agents: ArcSwap::from_pointee(Agents::new(&config.agent.product_tokens)),
            operator: ArcSwap::from_pointee(asserted.operator()),
            asserted: Mutex::new(asserted),
            changes: watch::Sender::new(()),
        };
        gate.register_terms(config);
        gate
    }

    /// Puts new settings in force for decisions from now on.
    pub fn reconfigure(&self, config: &Config) {
        // Kept before a record can name them.
        self.register_terms(config);
        self.registry.reconfigure(config.robots.clone());
        self.pace.reconfigure(&config.pace);
        let agents = Agents::new(&config.agent.product_tokens);
        self.agents.store(Arc::new(agents));
        let mut asserted = self.asserted.lock();
        asserted.config = config.policy.clone();
        self.operator.store(Arc::new(asserted.operator()));
        self.changes.send_replace(());
    }

    /// Puts the overrides of the store in force beside those of the configuration, from the next request on. Replaces
    /// those that it was given before.
    pub fn set_overrides(&self, stored: Vec<Override>) {
        let mut asserted = self.asserted.lock();
        if asserted.stored != stored {
            asserted.stored = stored;
            self.operator.store(Arc::new(asserted.operator()));
            self.changes.send_replace(());
        }
    }

    /// Tells of each change of settings and overrides from now on: what was let out once and still goes on is to be
    /// judged again.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Whether a tunnel that was let through would be denied now.
    pub async fn denies(&self, target: Target, asker: &Asker<'_>) -> bool {
        let now = self.clock.now();
        is_denied(&self.judge(Kind::Tunnel, target, asker, now).await)
    }

    /// The same for a tunnel in which neither TLS nor HTTP is spoken.
    pub fn denies_opaque(&self, target: Target, asker: &Asker<'_>) -> bool {
        is_denied(&self.judge_opaque(target, asker, self.clock.now()))
    }

    /// Sees to it that the settings that records name are kept with them.
    fn register_terms(&self, config: &Config) {
        let terms = Terms::of(&config.robots);
        let digest = terms.digest().to_string();
        self.log.policy(digest.into(), terms.text().into());
    }

    /// As whom a request with these fields is judged.
    pub fn identify(&self, headers: &HeaderMap) -> Arc<Agent> {
        self.agents.load().identify(headers)
    }

    /// What is known of origins.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// May `target`, asked for just now, at `asked`, go out?
    pub async fn clear(
        &self,
        kind: Kind,
        target: Target,
        asker: &Asker<'_>,
        asked: Moment,
    ) -> Cleared {
        if self.log.ready().await.is_err() {
            return Cleared {
                ruling: Ruling::Refuse(Decision::bare(Reason::LogFailed, asked)),
                hold: Duration::ZERO,
            };
        }
        let ruling = self.judge(kind, target, asker, asked).await;
        let hold = ruling.decision().at.since(asked);
        let (permit, decision) = match ruling {
            Ruling::Clear(permit, decision) if self.has_to_wait(&decision) => (permit, decision),
            ruling => return Cleared { ruling, hold },
        };
        // Boxed: a rare wait should not burden every request's future.
        let origin = permit.target().origin.clone();
        match Box::pin(self.pace.turn(&origin)).await {
            Ok(Duration::ZERO) => Cleared {
                ruling: Ruling::Clear(permit, decision),
                hold,
            },
            // What was known when the wait began may not hold any more.
            Ok(paced) => {
                let now = self.clock.now();
                let again = self.judge(kind, permit.surrender(), asker, now);
                Cleared {
                    ruling: Box::pin(again).await,
                    hold: hold + paced,
                }
            }
            Err(TooEarly(retry_at)) => Cleared {
                ruling: policy::await_turn(permit, decision, retry_at),
                hold,
            },
        }
    }

    /// Whether it goes out only when it is its origin's turn. What enforcement would have denied takes no turn, and
    /// robots.txt needs none.
    fn has_to_wait(&self, decision: &Decision) -> bool {
        !self.pace.is_unlimited()
            && decision.reason != Reason::RobotsTxt
            && decision.verdict() == Verdict::Allow
    }

    /// Whether something may open a tunnel in which neither TLS nor HTTP is spoken. As for all others, nothing goes out
    /// that cannot be recorded.
    pub async fn clear_opaque(&self, target: Target, asker: &Asker<'_>, now: Moment) -> Ruling {
        if self.log.ready().await.is_err() {
            return Ruling::Refuse(Decision::bare(Reason::LogFailed, now));
        }
        self.judge_opaque(target, asker, now)
    }

    fn judge_opaque(&self, target: Target, asker: &Asker<'_>, now: Moment) -> Ruling {
        let operator = self.operator.load();
        let mode = operator.mode(&target.origin, asker.client, asker.address);
        policy::decide_opaque(target, mode, now)
    }

    /// Judges by what is known of the origin, once that is known, or by what needs no robots.txt.
    async fn judge(&self, kind: Kind, target: Target, asker: &Asker<'_>, now: Moment) -> Ruling {
        if let Err(wall) = self.egress.judge(&target.origin) {
            return Ruling::Refuse(Decision::walled(wall, now));
        }
        let (target, mode) = match self.judge_without_robots(kind, target, asker, now) {
            Ok(ruling) => return ruling,
            Err(open) => open,
        };
        let View {
            mut state,
            mut stance,
            mut now,
            mut by,
        } = self.registry.view(&target.origin, asker.user_agent).await;
        if stance.is_walled() {
            // Boxed: it should not burden every request's future.
            let walled = Box::pin(self.examine(&target.origin, &state, asker.user_agent));
            match walled.await {
                Ok(open) => {
                    View {
                        state,
                        stance,
                        now,
                        by,
                    } = open;
                }
                Err(wall) => return Ruling::Refuse(Decision::walled(wall, now)),
            }
        }
        // Those that the stance was taken under, even if others are in force by now.
        let settings = policy::Settings {
            mode,
            path_guard: by.config.path_guard,
            terms: by.terms,
        };
        if let Stance::Unknown = stance {
            let retry_at = now + by.config.timing.retry_min;
            return policy::await_robots(target, state, retry_at, settings, now);
        }
        match kind {
            Kind::Tunnel => {
                policy::decide_tunnel(target, asker.agent, &state, &stance, settings, now)
            }
            Kind::Request => policy::decide(target, asker.agent, &state, &stance, settings, now),
        }
    }

    /// Asks the walls about an origin whose robots.txt they kept from being fetched: not what they said then, but what
    /// they say now. Where they let it through, the fetch is made up for.
    async fn examine(
        &self,
        origin: &Origin,
        seen: &Arc<State>,
        user_agent: Option<&HeaderValue>,
    ) -> Result<View, Prohibited> {
        self.egress.examine(origin).await?;
        Ok(self.registry.doubt(origin, seen, user_agent).await)
    }

    /// What rests on no robots.txt: the file itself, and what a person has asserted. Else the target, and the mode that
    /// it is judged in.
    fn judge_without_robots(
        &self,
        kind: Kind,
        target: Target,
        asker: &Asker<'_>,
        now: Moment,
    ) -> Result<Ruling, (Target, Mode)> {
        let operator = self.operator.load();
        let mode = operator.mode(&target.origin, asker.client, asker.address);
        let overrides = &operator.overrides;
        let decided = match kind {
            Kind::Tunnel => policy::decide_tunnel_by_override(target, overrides, mode, now),
            Kind::Request => policy::clear_robots_txt(target, mode, now)
                .or_else(|target| policy::decide_by_override(target, overrides, mode, now)),
        };
        decided.map_err(|target| (target, mode))
    }
}

fn is_denied(ruling: &Ruling) -> bool {
    matches!(ruling, Ruling::Refuse(decision) if decision.verdict() == Verdict::Deny)
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("registry", &self.registry)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}
