//! The trouble of one origin in a fleet: noticed by one instance, told to the engine, and heard of by all.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::{OriginLimiter, State};
use crate::fleet::reservation::{ENGINE_RETRY, OriginBackoff, ReportBackoff, Sign};
use crate::history::{Report, since_1970};
use crate::pace::backoff::Outcome;
use crate::pace::context::{Context, FleetPace};
use crate::pace::settings::PaceSettings;
use crawlgate_system::clock::Moment;

/// The beginning of the news that an origin is in trouble.
pub(in crate::pace) const TROUBLED: &str = "troubled ";

/// Reports of one sign, if the engine does not answer.
const REPORTS: u32 = 10;

/// A rest that ends this much later than the one announced is announced, too.
const LATER: Duration = Duration::from_millis(20);

impl OriginLimiter {
    /// Records the outcome of a request, and reports it to the fleet where it says something new.
    pub(in crate::pace) fn record_outcome_in_fleet(
        self: &Arc<Self>,
        context: &Arc<Context>,
        fleet: &FleetPace,
        outcome: Outcome,
        (sent, now): (Moment, Moment),
        most: Duration,
    ) {
        let noticed = {
            let mut state = self.state.lock();
            let noticed = state.record_outcome(outcome, sent, now, most);
            let Some(noticed) = noticed else { return };
            if noticed.sign != Sign::Fine {
                // The engine has reserved the turns in hand before the trouble.
                state.grants.void();
                self.is_troubled.store(true, Ordering::Release);
            } else if !self.is_troubled.load(Ordering::Acquire) {
                return;
            }
            state.reports += 1;
            noticed
        };
        if self.is_driven.load(Ordering::Acquire) {
            self.changed.notify_one();
        }
        let settings = context.settings.load_full();
        let limiter = Arc::clone(self);
        tokio::spawn(limiter.report(Arc::clone(context), fleet.clone(), settings, noticed, sent));
    }

    /// Makes turns in hand void and asks the engine from now on, because another instance has met with trouble, or the
    /// engine may have lost what it knew.
    pub(in crate::pace) fn invalidate_grants(&self) {
        {
            let mut state = self.state.lock();
            state.grants.void();
            state.is_unsure = true;
        }
        self.is_troubled.store(true, Ordering::Release);
        if self.is_driven.load(Ordering::Acquire) {
            self.changed.notify_one();
        }
    }

    async fn report(
        self: Arc<Self>,
        context: Arc<Context>,
        fleet: FleetPace,
        settings: Arc<PaceSettings>,
        noticed: Report,
        sent: Moment,
    ) {
        let Some(fleet_origin) = &self.fleet_origin else {
            return;
        };
        let coordinator = fleet.fleet.coordinator();
        let mut backoff = None;
        for _ in 0..REPORTS {
            let report = ReportBackoff {
                origin: &fleet_origin.origin,
                sign: noticed.sign,
                age: context.clock.now().since(sent),
                first: noticed.first,
                widest: noticed.widest,
                longest: settings.config.backoff_max,
                memory: settings.longest_interval(),
            };
            // Entered twice, a sign counts once.
            match coordinator.report_backoff(report).await {
                Ok(answer) => {
                    backoff = Some(answer);
                    break;
                }
                Err(_) => sleep(ENGINE_RETRY).await,
            }
        }
        let is_worse = {
            let (mut state, now) = self.lock(&context);
            state.reports = state.reports.saturating_sub(1);
            let Some(backoff) = backoff else { return };
            // An engine that has lost the gap hears of it with the next question for a turn.
            if !state.is_unsure {
                self.adopt(&mut state, backoff, now);
            }
            let (gap, rest) = state.announced;
            let until = now + backoff.rest;
            let is_worse =
                noticed.sign != Sign::Fine && (backoff.gap > gap || until > rest + LATER);
            if is_worse || backoff.is_none() {
                state.announced = (backoff.gap, until);
            }
            is_worse
        };
        self.changed.notify_one();
        if is_worse {
            // After the report: an instance that hears of it finds the trouble in the engine.
            let item = format!("{}{} {}", TROUBLED, fleet_origin.origin, fleet.fleet.name());
            let _ = coordinator.announce(&item).await;
        }
    }

    /// Takes over the trouble that the engine has told, unless this instance is about to tell of more.
    pub(super) fn adopt(&self, state: &mut State, backoff: OriginBackoff, now: Moment) {
        if state.reports > 0 {
            return;
        }
        let trouble = &mut state.history.trouble;
        trouble.adopt((backoff.gap, backoff.rest), since_1970(now));
        let is_troubled = !trouble.is_calm();
        self.is_troubled.store(is_troubled, Ordering::Release);
    }
}
