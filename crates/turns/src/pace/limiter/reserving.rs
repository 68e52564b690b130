//! The turns of one origin in a fleet: reserved in the engine, for the requests that wait.
//!
//! While requests wait, the task that drives their queue reserves turns for them, a batch at a time, and hands them out
//! as they fall due. An instance that only asks about an origin it does not know, or that was in trouble, learns so
//! whether anything bounds it. A question without an answer gives no turn: the requests go on waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{OriginLimiter, State, Waiter};
use crate::fleet::reservation::{GroupInterval, NEAR, Reserve, Reserved, Slots, TurnKind};
use crate::history::moment;
use crate::pace::bound::Group;
use crate::pace::context::{Context, FleetPace};
use crate::pace::grants::{Grant, OpenReservation};
use crate::pace::settings::PaceSettings;
use crate::pace::slots::Slot;
use crate::pace::turn::{Reservation, Turn};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_system::clock::{Moment, Uptime};

/// The most turns that are reserved at once.
const BATCH: u32 = 256;

/// The horizon where slots are bounded: a reserved turn takes its slot at once.
const SLOT_HORIZON: Duration = Duration::from_secs(1);

/// A question for turns.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) group: Option<(Group, Duration)>,
    pub(super) wanted: u32,
    pub(super) rest: Duration,
    pub(super) gap: Duration,
    pub(super) asked: OpenReservation,
}

impl OriginLimiter {
    /// Tells whether requests without a crawl delay need no turns.
    pub(super) fn is_free(&self, settings: &PaceSettings) -> bool {
        settings.is_off || (settings.is_quiet && !self.is_troubled.load(Ordering::Acquire))
    }

    /// Drops turns in hand that are too late. Returns the time that the turns of a fleet are counted by.
    pub(super) fn settle_grants(&self, state: &mut State, context: &Context) -> Uptime {
        if self.fleet_origin.is_none() {
            return Uptime::default();
        }
        let at = context.clock.uptime();
        state.grants.settle(at);
        at
    }

    /// Counts a request that goes now by this turn of the engine, or by none.
    pub(super) fn go_by(
        self: &Arc<Self>,
        state: &mut State,
        fleet: &FleetPace,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
        now: Moment,
        grant: Option<Grant>,
    ) -> Turn {
        let mut turn = self.go(state, settings, crawl_delay, now);
        if let (Some(grant), Some(fleet_origin)) = (grant, &self.fleet_origin) {
            let group = crawl_delay.map(|crawl_delay| {
                let interval = settings.effective_pace(crawl_delay).interval;
                (Arc::clone(&crawl_delay.group), interval)
            });
            turn.reservation = Some(Box::new(Reservation {
                fleet: Arc::clone(&fleet.fleet),
                origin: Arc::clone(&fleet_origin.origin),
                at: grant.at,
                due: grant.due,
                group,
                _slot: grant.slot,
            }));
        }
        turn
    }

    /// Asks the engine for turns. `None` if it does not answer.
    pub(super) async fn reserve(
        &self,
        fleet: &FleetPace,
        settings: &PaceSettings,
        kind: TurnKind,
        question: &Question,
    ) -> Option<(Reserved, Vec<Slot>)> {
        let fleet_origin = self.fleet_origin.as_ref()?;
        let most = settings.config.concurrency;
        let names = most.map_or_else(Vec::new, |_| fleet.slots.names(question.wanted));
        let ask = Reserve {
            origin: &fleet_origin.origin,
            kind,
            wanted: question.wanted,
            horizon: question.asked.horizon,
            interval: settings.own_interval,
            burst: settings.burst(),
            group: question.group.as_ref().map(GroupInterval::of),
            rest: question.rest,
            gap: question.gap,
            slots: most.map(|most| Slots { most, names: &names }),
            memory: settings.longest_interval(),
        };
        let reserved = fleet.fleet.coordinator().reserve(ask).await.ok()?;
        // A slot for each turn; in a call without an answer, slots that were taken expire.
        let names = names.into_iter().take(reserved.turns.len());
        let slots = names.map(|name| fleet.slots.slot(fleet_origin, name)).collect();
        Some((reserved, slots))
    }

    /// Reserves turns for the requests that wait.
    pub(super) async fn ask(
        self: Arc<Self>,
        context: Arc<Context>,
        settings: Arc<PaceSettings>,
        question: Question,
    ) {
        let Some(fleet) = &context.fleet else { return };
        let answer = self.reserve(fleet, &settings, TurnKind::Page, &question).await;
        let at = context.clock.uptime();
        let group = question.group.as_ref().map(|(name, _)| name);
        let (mut state, now) = self.lock(&context);
        match answer {
            Some((reserved, slots)) => {
                if state.grants.epoch() == question.asked.epoch {
                    state.is_unsure = false;
                    self.adopt(&mut state, reserved.backoff, now);
                }
                state.grants.answered(group, question.asked, &reserved, slots, at);
            }
            None => state.grants.unanswered(group, at),
        }
    }
}

impl State {
    /// Returns the rest that the origin still needs, as far as this instance knows.
    pub(super) fn rest(&self, now: Moment) -> Duration {
        moment(self.history.trouble.rest).since(now)
    }

    /// Returns the gap that the origin needs, as far as this instance knows.
    pub(super) fn gap(&self) -> Duration {
        Duration::from_micros(self.history.trouble.gap)
    }

    /// Returns the question for the turns of the requests that wait in the group of this one.
    pub(super) fn question(
        &self,
        settings: &PaceSettings,
        waiter: &Waiter,
        (latest, epoch): (Uptime, u64),
        (now, at): (Moment, Uptime),
    ) -> Question {
        let group = waiter.crawl_delay.as_ref().map(|crawl_delay| {
            let interval = settings.effective_pace(crawl_delay).interval;
            (Arc::clone(&crawl_delay.group), interval)
        });
        let waiting = self.queue.len_of_group(waiter.group());
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        let asked = group.as_ref().map_or(Duration::ZERO, |(_, interval)| *interval);
        let interval = settings.own_interval.max(asked).max(self.gap());
        let mut most = settings.config.concurrency.unwrap_or(BATCH).min(BATCH);
        if let Some(fits) = NEAR.as_micros().checked_div(interval.as_micros()) {
            let fits = u32::try_from(fits).unwrap_or(u32::MAX);
            most = most.min(fits.saturating_add(settings.burst()));
        }
        let horizon = latest.since(at);
        let is_cut = settings.config.concurrency.is_some() && horizon > SLOT_HORIZON;
        Question {
            group,
            wanted: waiting.clamp(1, most.max(1)),
            rest: self.rest(now),
            gap: self.gap(),
            asked: OpenReservation {
                epoch,
                horizon: if is_cut { SLOT_HORIZON } else { horizon },
                is_cut,
            },
        }
    }
}
