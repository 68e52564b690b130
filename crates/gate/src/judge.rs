//! One judgement: finds the inputs of the decision, fetching robots.txt if need be, and lets [`policy`] decide.

use std::sync::Arc;
use std::time::Duration;

use super::hold::quota_exceeded;
use super::{Gate, Kind, Requester};
use crate::cache::View;
use crawlgate_config::Mode;
use crawlgate_egress::Prohibited;
use crawlgate_origins::state::{Stance, State};
use crawlgate_policy::tdmrep::Reservations;
use crawlgate_policy::usage::Signals;
use crawlgate_policy::{
    self as policy, Decision, DecisionContext, Reason, Ruling, Target, Verdict,
};
use crawlgate_robots::{Origin, Scheme};
use crawlgate_system::clock::Moment;
use crawlgate_turns::client::account::QuotaExceeded;
use crawlgate_usage::Modes;

/// Delay before a request that was refused for lack of descriptors may be repeated.
const SHORTLY: Duration = Duration::from_secs(1);

impl Gate {
    /// Judges a tunnel that carries neither TLS nor HTTP.
    pub(super) fn judge_opaque(
        &self,
        target: Target,
        requester: &Requester<'_>,
        now: Moment,
    ) -> Ruling {
        let operator = self.operator.load();
        let mode = operator.mode(&target.origin, requester);
        let generation = requester.generation;
        policy::decide_opaque(target, DecisionContext { mode, generation }, now)
    }

    /// Waits for the origin's state if the decision needs it, and judges.
    pub(super) async fn judge(
        &self,
        kind: Kind,
        target: Target,
        requester: &Requester<'_>,
        now: Moment,
    ) -> Ruling {
        self.judge_within(kind, target, requester, now, None).await
    }

    /// Judges like `judge`; `quota` is set if the client has spent its quota.
    pub(super) async fn judge_within(
        &self,
        kind: Kind,
        target: Target,
        requester: &Requester<'_>,
        now: Moment,
        quota: Option<QuotaExceeded>,
    ) -> Ruling {
        if let Err(prohibited) = self.egress.check(&target.origin) {
            return Ruling::refuse(Decision::prohibited(prohibited, now));
        }
        let (target, mode) = match self.judge_without_robots(kind, target, requester, now) {
            Ok(ruling) => {
                let modes = &self.operator.load().signals;
                return ruling.with_signals(modes, requester.client.purposes);
            }
            Err(open) => open,
        };
        // A request refused by its client's quota must not cause a fetch. If no fetch is needed, robots.txt decides
        // first.
        if let Some(QuotaExceeded(retry_at)) = quota
            && self.robots_cache.would_fetch(
                &target.origin,
                requester.crawler(),
                requester.client.profile,
                now,
            )
        {
            return Ruling::refuse(quota_exceeded(retry_at, now));
        }
        let mut view = self.look_up(&target.origin, requester).await;
        if view.stance.is_prohibited() {
            // Boxed: it should not burden every request's future.
            let checked = Box::pin(self.resolve_and_check(&target.origin, &view.state, requester));
            view = match checked.await {
                Ok(open) => open,
                Err(prohibited) => {
                    return Ruling::refuse(Decision::prohibited(prohibited, view.now));
                }
            };
        }
        // TDMRep is about HTTP.
        let asks = view.by.config.signals.tdmrep.is_read() && target.origin.scheme() != Scheme::Ftp;
        let robots = asks.then(|| view.clone());
        let ruling = self.judge_by(kind, target, requester, mode, view, None);
        let is_allowed = ruling.decision().verdict() == Verdict::Allow;
        match (robots, ruling) {
            (Some(robots), Ruling::Allow(permit, _)) if is_allowed => {
                let target = permit.into_target();
                // Boxed: it should not burden every request's future.
                Box::pin(self.judge_with_tdmrep(kind, target, requester, mode, robots, quota)).await
            }
            (_, ruling) => ruling,
        }
    }

    /// Returns the state of an origin's robots.txt for a requester.
    pub(super) async fn look_up(&self, origin: &Origin, requester: &Requester<'_>) -> View {
        let (crawler, profile) = (requester.crawler(), requester.client.profile);
        self.robots_cache.lookup_for(origin, crawler, profile).await
    }

    /// Judges by the state of robots.txt, and by what is known of tdmrep.json.
    pub(super) fn judge_by(
        &self,
        kind: Kind,
        target: Target,
        requester: &Requester<'_>,
        mode: Mode,
        view: View,
        tdmrep: Option<Arc<Reservations>>,
    ) -> Ruling {
        let View { state, fetched_as, stance, now, is_exhausted, by, updates } = view;
        // Use the settings that produced this stance; a reload may have replaced them.
        let signals = self.signals(kind, &target, requester, &by.config.signals, now);
        let settings = policy::DecisionInputs {
            mode,
            exempt: requester.client.exempt.clone(),
            signals: Signals { tdmrep, ..signals },
            generation: requester.generation.with(updates),
            path_guard: by.config.path_guard,
            policy: by.policy,
        };
        if let Stance::Unknown = stance {
            let retry_at = now + by.config.timing.retry_min;
            return match is_exhausted {
                true => Ruling::refuse(overloaded(now)),
                false => policy::await_robots(target, state, retry_at, settings, now),
            };
        }
        let ruling = match kind {
            Kind::Tunnel => {
                policy::decide_tunnel(target, requester.agent, &state, &stance, settings, now)
            }
            Kind::Request => {
                policy::decide(target, requester.agent, &state, &stance, settings, now)
            }
        };
        match ruling.with_fetched_as(fetched_as) {
            Ruling::Refuse(mut decision) if decision.reason == Reason::UsagePending => {
                decision.retry_at = Some(now + by.config.timing.retry_min);
                Ruling::Refuse(decision)
            }
            ruling => ruling,
        }
    }

    /// Returns the grounds of the decision about use.
    pub(super) fn signals(
        &self,
        kind: Kind,
        target: &Target,
        requester: &Requester<'_>,
        modes: &Arc<Modes>,
        now: Moment,
    ) -> Signals {
        let operator = self.operator.load();
        let lifted = match kind {
            Kind::Request => {
                let path = target.path.as_str().as_bytes();
                operator.overrides.about_usage(&target.origin, path, now)
            }
            Kind::Tunnel => operator.overrides.about_all_usage(&target.origin, now),
        };
        Signals {
            purposes: requester.client.purposes,
            modes: Arc::clone(modes),
            lifted: lifted.cloned(),
            tdmrep: None,
        }
    }

    /// Checks the address policy again for an origin that it kept from being asked for robots.txt. If the origin is
    /// allowed now, fetches its robots.txt.
    async fn resolve_and_check(
        &self,
        origin: &Origin,
        seen: &Arc<State>,
        requester: &Requester<'_>,
    ) -> Result<View, Prohibited> {
        self.egress.resolve_and_check(origin).await?;
        let profile = requester.client.profile;
        Ok(self.robots_cache.revalidate(origin, seen, requester.crawler(), profile).await)
    }

    /// Decides without robots.txt: requests for the file itself, identity requirements, overrides. Otherwise returns
    /// the target and the mode to judge it in.
    fn judge_without_robots(
        &self,
        kind: Kind,
        target: Target,
        requester: &Requester<'_>,
        now: Moment,
    ) -> Result<Ruling, (Target, Mode)> {
        let operator = self.operator.load();
        let mode = operator.mode(&target.origin, requester);
        let overrides = &*operator.overrides;
        let context = DecisionContext { mode, generation: requester.generation };
        let identify = |target| {
            let (agent, required) = (requester.agent, operator.required);
            policy::identity::decide_by_identity(target, agent, required, context, now)
        };
        let decided = match kind {
            Kind::Tunnel => identify(target).or_else(|target| {
                policy::decide_tunnel_by_override(target, overrides, context, now)
            }),
            Kind::Request => policy::clear_robots_txt(target, context, now)
                .or_else(identify)
                .or_else(|target| policy::decide_by_override(target, overrides, context, now)),
        };
        decided.map_err(|target| (target, mode))
    }
}

/// Returns the decision on a request while this machine has no room to fetch a robots.txt.
fn overloaded(now: Moment) -> Decision {
    Decision { retry_at: Some(now + SHORTLY), ..Decision::bare(Reason::Overloaded, now) }
}
