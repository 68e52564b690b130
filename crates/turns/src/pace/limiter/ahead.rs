//! The turns of robots.txt fetches in a fleet, before all requests that are held here.

use std::sync::Arc;
use std::time::Duration;

use super::OriginLimiter;
use super::reserving::Question;
use crate::fleet::reservation::{ENGINE_RETRY, TurnKind};
use crate::history::since_1970;
use crate::pace::context::{Context, FleetPace};
use crate::pace::grants::{Grant, OpenReservation};
use crate::pace::settings::PaceSettings;
use crate::pace::turn::Turn;

/// A turn ahead of all held requests, or the time to wait before the next question for it.
#[derive(Debug)]
pub(in crate::pace) enum Ahead {
    Turn(Grant, u64),
    Again(Duration),
}

impl OriginLimiter {
    /// Goes without a turn for a robots.txt, if the fleet bounds none.
    pub(in crate::pace) fn grant_unbounded(
        self: &Arc<Self>,
        context: &Context,
        fleet: &FleetPace,
        settings: &PaceSettings,
    ) -> Option<Turn> {
        if settings.honours_crawl_delay() || !self.is_free(settings) {
            return None;
        }
        let (mut state, now) = self.lock(context);
        Some(self.go_by(&mut state, fleet, settings, None, now, None))
    }

    /// Reserves a turn for a robots.txt before all held requests, at most `horizon` from now; with [`TurnKind::Now`]
    /// regardless.
    pub(in crate::pace) async fn reserve_ahead(
        &self,
        context: &Context,
        fleet: &FleetPace,
        settings: &PaceSettings,
        kind: TurnKind,
        horizon: Duration,
    ) -> Ahead {
        let question = {
            let (state, now) = self.lock(context);
            Question {
                group: None,
                wanted: 1,
                rest: state.rest(now),
                gap: state.gap(),
                asked: OpenReservation { epoch: state.grants.epoch(), horizon, is_cut: false },
            }
        };
        let Some((reserved, mut slots)) = self.reserve(fleet, settings, kind, &question).await
        else {
            return Ahead::Again(ENGINE_RETRY);
        };
        let epoch = question.asked.epoch;
        let at = context.clock.uptime();
        let (mut state, now) = self.lock(context);
        if state.grants.epoch() != epoch {
            return Ahead::Again(Duration::ZERO);
        }
        state.is_unsure = false;
        self.adopt(&mut state, reserved.backoff, now);
        match reserved.turns.first() {
            Some(turn) => {
                let grant = Grant { due: at + turn.after, at: turn.at, slot: slots.pop() };
                Ahead::Turn(grant, epoch)
            }
            None => Ahead::Again(reserved.next.saturating_sub(horizon).max(ENGINE_RETRY / 10)),
        }
    }

    /// Goes by a turn that was reserved ahead of all held requests; `None` if it has become void.
    pub(in crate::pace) fn grant_ahead(
        self: &Arc<Self>,
        context: &Context,
        fleet: &FleetPace,
        settings: &PaceSettings,
        (grant, epoch): (Grant, u64),
    ) -> Option<Turn> {
        let (mut state, now) = self.lock(context);
        if state.grants.epoch() != epoch {
            return None;
        }
        let turn = self.go_by(&mut state, fleet, settings, None, now, Some(grant));
        state.history.take_robots(since_1970(now));
        Some(turn)
    }

    /// Counts a robots.txt in the engine, of this use.
    pub(in crate::pace) fn count_in_fleet(
        self: &Arc<Self>,
        context: &Arc<Context>,
        fleet: &FleetPace,
        kind: TurnKind,
    ) {
        let settings = context.settings.load_full();
        if !settings.honours_crawl_delay() && self.is_free(&settings) {
            return;
        }
        let (limiter, fleet) = (Arc::clone(self), fleet.clone());
        tokio::spawn(async move {
            let question = Question {
                group: None,
                wanted: 1,
                rest: Duration::ZERO,
                gap: Duration::ZERO,
                asked: OpenReservation { epoch: 0, horizon: Duration::ZERO, is_cut: false },
            };
            // Without an answer it has perhaps not counted: the fetch has gone anyway.
            let _ = limiter.reserve(&fleet, &settings, kind, &question).await;
        });
    }
}
