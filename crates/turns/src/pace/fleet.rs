//! The pace of an instance in a fleet: what the heartbeat tells it, and the turns of robots.txt fetches.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::context::FleetPace;
use super::limiter::OriginLimiter;
use super::limiter::ahead::Ahead;
use super::limiter::trouble::TROUBLED;
use super::wait::OnTimeout;
use super::{Pace, Shared, Turn};
use crate::fleet::coordinator::Call;
use crate::fleet::reservation::{ENGINE_RETRY, TurnKind};
use crate::fleet::{HeartbeatListener, HeartbeatReply, LinkState};
use crawlgate_robots::Origin;

/// A robots.txt that starts this much later than its turn counts anew.
const LATE_START: Duration = Duration::from_millis(100);

impl Pace {
    /// Returns a listener that takes over what a heartbeat tells of the origins, and then has `then` take over the rest.
    pub fn following(&self, then: Arc<dyn HeartbeatListener>) -> Arc<dyn HeartbeatListener> {
        let pace = self.clone();
        Arc::new(PaceListener { pace, then })
    }

    /// Takes over what a heartbeat tells of the origins.
    pub(super) fn on_heartbeat(&self, reply: &HeartbeatReply) {
        let Some(FleetPace { fleet, slots, seen }) = &self.0.context.fleet else {
            return;
        };
        // The engine may have lost what it knew: turns in hand, slots, and trouble.
        let is_new = seen.swap(reply.generation, Ordering::AcqRel) != reply.generation;
        slots.renew(self.0.context.clock.uptime(), is_new);
        if is_new || reply.news.has_gap {
            for limiter in &self.0.origins.limiters {
                limiter.invalidate_grants();
            }
            return;
        }
        let items = reply.news.items.iter();
        let troubled = items.filter_map(|item| item.strip_prefix(TROUBLED)?.split_once(' '));
        for (origin, _) in troubled.filter(|(_, by)| *by != fleet.name()) {
            // An origin that is unknown here asks anyway.
            if let Ok((origin, _)) = Origin::parse(origin)
                && let Some(limiter) = self.0.origins.limiters.get(&origin)
            {
                limiter.invalidate_grants();
            }
        }
    }
}

/// Passes each heartbeat to the pace, then to another listener.
struct PaceListener {
    pace: Pace,
    then: Arc<dyn HeartbeatListener>,
}

impl HeartbeatListener for PaceListener {
    fn on_heartbeat<'a>(&'a self, reply: &'a HeartbeatReply) -> Call<'a, u64> {
        self.pace.on_heartbeat(reply);
        self.then.on_heartbeat(reply)
    }

    fn cut_off(&self) {
        self.then.cut_off();
    }
}

impl Shared {
    /// Waits for a turn in the fleet before all requests that are held here. `None` if a request that gives up late
    /// waited too long, or nothing is bounded.
    pub(super) async fn turn_ahead_in_fleet(
        self: &Arc<Self>,
        fleet: &FleetPace,
        limiter: &Arc<OriginLimiter>,
        on_timeout: OnTimeout,
    ) -> Option<Turn> {
        let started = Instant::now();
        loop {
            let settings = self.context.settings.load_full();
            if settings.is_off {
                return None;
            }
            if let Some(turn) = limiter.grant_unbounded(&self.context, fleet, &settings) {
                return Some(turn);
            }
            let left = settings.config.max_hold.saturating_sub(started.elapsed());
            if left.is_zero() && on_timeout == OnTimeout::GiveUp {
                return None;
            }
            let ahead = match (fleet.fleet.link(), left.is_zero()) {
                // Nothing goes without the engine, however long that takes.
                (LinkState::Doubtful | LinkState::CutOff, _) => Ahead::Again(ENGINE_RETRY),
                (LinkState::Connected, is_late) => {
                    let kind = if is_late { TurnKind::Now } else { TurnKind::Robots };
                    limiter.reserve_ahead(&self.context, fleet, &settings, kind, left).await
                }
            };
            match ahead {
                Ahead::Turn(grant, epoch) => {
                    sleep(grant.due.since(self.context.clock.uptime())).await;
                    let granted = (grant, epoch);
                    // Settings may have changed meanwhile.
                    let settings = self.context.settings.load_full();
                    if fleet.fleet.link() == LinkState::Connected
                        && let Some(turn) =
                            limiter.grant_ahead(&self.context, fleet, &settings, granted)
                    {
                        return Some(turn);
                    }
                }
                Ahead::Again(wait) if left.is_zero() => sleep(wait).await,
                Ahead::Again(wait) if wait > left && on_timeout == OnTimeout::GiveUp => {
                    return None;
                }
                Ahead::Again(wait) => sleep(wait.min(left)).await,
            }
        }
    }

    /// Counts the turn of a robots.txt anew if the fetch starts much later.
    pub(super) fn restart_in_fleet(self: &Arc<Self>, fleet: &FleetPace, turn: &Turn) {
        let Some(reservation) = &turn.reservation else {
            return;
        };
        if self.context.clock.uptime().since(reservation.due) >= LATE_START {
            // Its turn was perhaps the last one, and is lost: the polite side.
            turn.limiter.count_in_fleet(&self.context, fleet, TurnKind::Now);
        }
    }
}
