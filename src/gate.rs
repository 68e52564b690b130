//! The one asynchronous question: may this go out, now?
//!
//! Plain requests, intercepted ones and tunnels all ask here, and nowhere else. In order: can the
//! decision be recorded; what does the origin's robots.txt say; is it this origin's turn.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue};

use crate::agent::{Agent, Agents};
use crate::audit::Log;
use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::egress::Egress;
use crate::pace::{Pace, TooEarly};
use crate::policy::{self, Decision, Reason, Ruling, Target};
use crate::robots::registry::{Registry, View};
use crate::robots::state::Stance;

/// Decides, after fetching and waiting for what a decision needs.
pub struct Gate {
    registry: Registry,
    pace: Pace,
    log: Arc<Log>,
    settings: ArcSwap<Settings>,
}

struct Settings {
    agents: Agents,
    path_guard: bool,
    /// When a request that found no robots.txt yet may come again.
    retry_hint: Duration,
}

impl Settings {
    fn of(config: &Config) -> Settings {
        Settings {
            agents: Agents::new(&config.agent.product_tokens),
            path_guard: config.robots.path_guard,
            retry_hint: config.robots.timing.retry_min,
        }
    }
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
        Gate {
            registry: Registry::new(config.robots.clone(), egress, clock.clone()),
            pace: Pace::new(&config.pace, clock),
            log,
            settings: ArcSwap::from_pointee(Settings::of(config)),
        }
    }

    /// Puts new settings in force for decisions from now on.
    pub fn reconfigure(&self, config: &Config) {
        self.registry.reconfigure(config.robots.clone());
        self.pace.reconfigure(&config.pace);
        self.settings.store(Arc::new(Settings::of(config)));
    }

    /// As whom a request with these fields is judged.
    pub fn identify(&self, headers: &HeaderMap) -> Arc<Agent> {
        self.settings.load().agents.identify(headers)
    }

    /// What is known of origins.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// May `target`, asked for by `agent` just now, at `asked`, go out? robots.txt is fetched as `user_agent`.
    pub async fn clear(
        &self,
        kind: Kind,
        target: Target,
        agent: &Agent,
        user_agent: Option<&HeaderValue>,
        asked: Moment,
    ) -> Cleared {
        let refused = |decision, hold| Cleared {
            ruling: Ruling::Refuse(decision),
            hold,
        };
        if self.log.ready().await.is_err() {
            return refused(Decision::bare(Reason::LogFailed), Duration::ZERO);
        }
        let target = match kind {
            Kind::Tunnel => target,
            Kind::Request => match policy::clear_robots_txt(target) {
                Ok(ruling) => {
                    return Cleared {
                        ruling,
                        hold: Duration::ZERO,
                    };
                }
                Err(target) => target,
            },
        };
        let origin = target.origin.clone();
        let (ruling, judged) = self.judge(kind, target, agent, user_agent).await;
        let hold = judged.since(asked);
        let Ruling::Clear(permit, decision) = ruling else {
            return Cleared { ruling, hold };
        };
        if self.pace.is_unlimited() {
            return Cleared {
                ruling: Ruling::Clear(permit, decision),
                hold,
            };
        }
        // Boxed: a rare wait should not burden every request's future.
        match Box::pin(self.pace.turn(&origin)).await {
            Ok(Duration::ZERO) => Cleared {
                ruling: Ruling::Clear(permit, decision),
                hold,
            },
            // What was known when the wait began may not hold any more.
            Ok(paced) => Cleared {
                ruling: Box::pin(self.judge(kind, permit.surrender(), agent, user_agent))
                    .await
                    .0,
                hold: hold + paced,
            },
            Err(TooEarly(retry_at)) => {
                let decision = Decision::deferred(Reason::Paced, decision.basis, retry_at);
                refused(decision, hold)
            }
        }
    }

    /// Judges by what is known of the origin, once that is known; tells the moment, too.
    async fn judge(
        &self,
        kind: Kind,
        target: Target,
        agent: &Agent,
        user_agent: Option<&HeaderValue>,
    ) -> (Ruling, Moment) {
        let View { state, stance, now } = self.registry.view(&target.origin, user_agent).await;
        let settings = self.settings.load();
        if let Stance::Unknown = stance {
            let retry_at = now + settings.retry_hint;
            let decision = Decision::deferred(Reason::RobotsPending, Some(state), retry_at);
            return (Ruling::Refuse(decision), now);
        }
        let ruling = match kind {
            Kind::Tunnel => policy::decide_tunnel(target, agent, &state, &stance, now),
            Kind::Request => {
                policy::decide(target, agent, &state, &stance, settings.path_guard, now)
            }
        };
        (ruling, now)
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("registry", &self.registry)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}
