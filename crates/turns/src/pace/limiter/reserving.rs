//! The turns of one origin in a fleet: reserved in the engine, for the requests that wait.
//!
//! While requests wait, the task that drives their queue reserves turns for them, a batch at a time, and hands them out
//! as they fall due. An instance that only asks about an origin it does not know, or that was in trouble, learns so
//! whether anything bounds it. A question without an answer gives no turn: the requests go on waiting.
//!
//! The history of this instance alone delays nothing here. It tells new requests how long they wait at least.
//!
//! Longer than 400 lines of code because the queue, a question and its answer change one state under one lock.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{Admission, Claim, Granted, OriginLimiter, State, UNTIL_CHANGE, Waiter};
use crate::fleet::LinkState;
use crate::fleet::reservation::{GroupInterval, NEAR, Reserve, Reserved, Slots, TurnKind};
use crate::pace::grants::{Grant, Next, OpenReservation};
use crate::pace::history::Due;
use crate::pace::settings::PaceSettings;
use crate::pace::slots::{FleetOrigin, Slot};
use crate::pace::turn::Reservation;
use crate::pace::wait::GRACE;
use crate::pace::{EffectivePace, FleetPace, Group, Pace, Shared, Source, Turn};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_system::clock::{Moment, Uptime};

/// The time before a question or a report is repeated.
pub(super) const ENGINE_RETRY: Duration = Duration::from_millis(100);

/// The most turns that are reserved at once.
const BATCH: u32 = 256;

/// The horizon where slots are bounded: a reserved turn takes its slot at once.
const SLOT_HORIZON: Duration = Duration::from_secs(1);

/// A question under way.
type Asking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The next step of the task.
enum Step {
    /// The queue is empty.
    Done,
    /// A request has its turn, or is refused.
    Granted,
    /// Nothing is to be done before this time has passed, unless something changes.
    Sleep(Duration),
    /// Turns are to be reserved.
    Ask(Question),
}

/// A question for turns.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) group: Option<(Group, Duration)>,
    pub(super) wanted: u32,
    pub(super) rest: Duration,
    pub(super) gap: Duration,
    pub(super) asked: OpenReservation,
}

impl Waiter {
    fn group(&self) -> Option<&Group> {
        self.crawl_delay
            .as_deref()
            .map(|crawl_delay| &crawl_delay.group)
    }
}

impl OriginLimiter {
    /// Builds the limiter of an origin in a fleet. Its first request asks whether anything bounds it.
    pub(in crate::pace) fn in_fleet(origin: &str) -> OriginLimiter {
        OriginLimiter {
            is_troubled: true.into(),
            fleet_origin: Some(Arc::new(FleetOrigin::new(origin.into()))),
            ..OriginLimiter::default()
        }
    }

    /// Tells whether requests without a crawl delay need no turns.
    pub(super) fn is_free(&self, settings: &PaceSettings) -> bool {
        settings.is_off || (settings.is_quiet && !self.is_troubled.load(Ordering::Acquire))
    }

    /// Takes a turn in hand that is due, if the queue is empty.
    pub(in crate::pace) fn take_granted(
        self: &Arc<Self>,
        shared: &Shared,
        fleet: &FleetPace,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
    ) -> Option<Turn> {
        let (mut state, now) = self.lock(shared);
        if !state.queue.is_empty() {
            return None;
        }
        let at = shared.clock.uptime();
        state.grants.settle(at);
        let group = crawl_delay.map(|crawl_delay| &crawl_delay.group);
        let grant = fleet.take(&mut state.grants, group, at)?;
        Some(self.grant_by(&mut state, fleet, settings, crawl_delay, now, Some(grant)))
    }

    /// Takes a turn in hand, or joins the queue.
    pub(in crate::pace) fn enter_in_fleet(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        fleet: &FleetPace,
        settings: &PaceSettings,
        claim: Claim<'_>,
    ) -> Admission {
        let client = claim.client;
        let crawl_delay = claim.crawl_delay.map(|crawl_delay| &**crawl_delay);
        let group = crawl_delay.map(|crawl_delay| &crawl_delay.group);
        let (mut state, now) = self.lock(shared);
        let at = shared.clock.uptime();
        state.grants.settle(at);
        if state.queue.is_empty() {
            if crawl_delay.is_none() && self.is_free(settings) {
                return Admission::Granted(
                    self.grant_by(&mut state, fleet, settings, None, now, None),
                );
            }
            if let Some(grant) = fleet.take(&mut state.grants, group, at) {
                let grant = Some(grant);
                let turn = self.grant_by(&mut state, fleet, settings, crawl_delay, now, grant);
                return Admission::Granted(turn);
            }
        }
        let before = (
            state.queue.ahead_of(client),
            state.queue.len_in(client, group),
        );
        let earliest = now + state.grants.earliest(group).since(at);
        let expected = Due {
            at: state
                .history
                .expected(settings, crawl_delay, before, now)
                .max(earliest),
            pace: state.bound(settings, crawl_delay, now),
        };
        let patience = claim.patience.unwrap_or_default();
        if expected.at.since(now) > patience {
            return Admission::Rejected(expected);
        }
        if shared.is_full(settings, state.queue.len_of(client)) {
            let pace = EffectivePace::plain(expected.pace.interval, Source::MaxHeld);
            return Admission::Rejected(Due { pace, ..expected });
        }
        let (grant, granted) = oneshot::channel();
        let until = at + patience;
        let waiter = Waiter {
            crawl_delay: claim.crawl_delay.cloned(),
            address: None,
            waits: (at, until),
            grant,
        };
        let is_first = state.queue.len_of_group(group) == 0;
        state.grants.waits(group, until);
        let number = state.queue.push(client, group, waiter);
        if self.is_driven.swap(true, Ordering::AcqRel) {
            // The task waits for the turn or the answer of this group already, unless there is more to do.
            let next = state.grants.next(group, at);
            if is_first || matches!(next, Next::Go | Next::Ask(..)) {
                self.changed.notify_one();
            }
        } else {
            tokio::spawn(drive(Arc::clone(shared), fleet.clone(), Arc::clone(self)));
        }
        Admission::Queued(number, granted, expected)
    }

    /// Counts a request that goes now by this turn of the engine, or by none.
    pub(super) fn grant_by(
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
        let group = question
            .group
            .as_ref()
            .map(|(name, interval)| GroupInterval {
                name,
                interval: *interval,
            });
        let ask = Reserve {
            origin: &fleet_origin.origin,
            kind,
            wanted: question.wanted,
            horizon: question.asked.horizon,
            interval: settings.own_interval(),
            burst: settings.burst(),
            group,
            rest: question.rest,
            gap: question.gap,
            slots: most.map(|most| Slots {
                most,
                names: &names,
            }),
            memory: settings.longest_interval(),
        };
        let reserved = fleet.fleet.coordinator().reserve(ask).await.ok()?;
        // A slot for each turn; in a call without an answer, slots that were taken expire.
        let names = names.into_iter().take(reserved.turns.len());
        let slots = names
            .map(|name| fleet.slots.slot(fleet_origin, name))
            .collect();
        Some((reserved, slots))
    }

    /// Reserves turns for the requests that wait.
    async fn ask(
        self: Arc<Self>,
        shared: Arc<Shared>,
        fleet: FleetPace,
        settings: Arc<PaceSettings>,
        question: Question,
    ) {
        let answer = self
            .reserve(&fleet, &settings, TurnKind::Page, &question)
            .await;
        let at = shared.clock.uptime();
        let group = question.group.as_ref().map(|(name, _)| name);
        let (mut state, now) = self.lock(&shared);
        match answer {
            Some((reserved, slots)) => {
                if state.grants.epoch() == question.asked.epoch {
                    state.is_unsure = false;
                    self.adopt(&mut state, reserved.backoff, now);
                }
                state
                    .grants
                    .answered(group, question.asked, &reserved, slots, at);
            }
            None => state.grants.unanswered(group, at),
        }
    }

    /// Hands out the next turn, if one is due.
    fn step_in_fleet(
        self: &Arc<Self>,
        shared: &Shared,
        fleet: &FleetPace,
        settings: &PaceSettings,
    ) -> Step {
        let (mut guard, now) = self.lock(shared);
        let state = &mut *guard;
        let at = shared.clock.uptime();
        if state.queue.is_empty() {
            self.is_driven.store(false, Ordering::Release);
            return Step::Done;
        }
        if self
            .fleet_origin
            .as_ref()
            .is_some_and(|fleet_origin| fleet_origin.take_room())
        {
            state.grants.has_room();
        }
        state.grants.settle(at);
        let is_connected = fleet.fleet.link_at(at) == LinkState::Connected;
        let is_free = |waiter: &Waiter| waiter.crawl_delay.is_none() && self.is_free(settings);
        let grants = &state.grants;
        let may_go = |waiter: &Waiter| {
            is_free(waiter) || (is_connected && grants.next(waiter.group(), at) == Next::Go)
        };
        if let Some(waiter) = state.queue.pop(may_go) {
            let grant = match is_free(&waiter) {
                true => None,
                false => state.grants.take(waiter.group(), at),
            };
            let crawl_delay = waiter.crawl_delay.as_deref();
            let turn = self.grant_by(state, fleet, settings, crawl_delay, now, grant);
            drop(guard);
            let (since, _) = waiter.waits;
            let mut granted = Granted::turn(turn);
            granted.was_held = at.since(since) >= GRACE;
            // If the waiter has gone, dropping the undelivered turn returns it.
            drop(waiter.grant.send(granted));
            return Step::Granted;
        }
        let grants = &state.grants;
        let is_hopeless = |waiter: &Waiter| grants.earliest(waiter.group()) > waiter.waits.1;
        if let Some(waiter) = state.queue.pop(is_hopeless) {
            let earliest = state.grants.earliest(waiter.group());
            let refused = Granted {
                turn: None,
                was_held: true,
                again: Some(now + earliest.since(at)),
            };
            drop(guard);
            drop(waiter.grant.send(refused));
            return Step::Granted;
        }
        let mut wake = at + UNTIL_CHANGE;
        let mut question = None;
        for waiter in state.queue.fronts() {
            match state.grants.next(waiter.group(), at) {
                Next::Ask(latest, epoch) if is_connected => {
                    question = Some((waiter, latest, epoch));
                    break;
                }
                Next::Ask(..) | Next::Go => wake = wake.min(at + ENGINE_RETRY),
                Next::Wait(until) => wake = wake.min(until),
                Next::AwaitReply => {}
            }
        }
        let Some((waiter, latest, epoch)) = question else {
            return Step::Sleep(wake.since(at));
        };
        let question = state.question(settings, waiter, (latest, epoch), (now, at));
        let group = waiter.group().cloned();
        state.grants.asked(group.as_ref());
        Step::Ask(question)
    }
}

impl State {
    /// Returns the rest that the origin still needs, as far as this instance knows.
    pub(super) fn rest(&self, now: Moment) -> Duration {
        let rest = self.history.backoff.rest(now);
        rest.map_or(Duration::ZERO, |rest| rest.until.since(now))
    }

    /// Returns the bound that a request waits for.
    fn bound(
        &self,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
        now: Moment,
    ) -> EffectivePace {
        let due = self.history.due(settings, crawl_delay, now);
        let planned = || Pace::planned(&settings.config, crawl_delay);
        match (due.at > now, settings.config.concurrency) {
            (true, _) => due.pace,
            (false, Some(_)) if planned().is_none() => {
                EffectivePace::plain(Duration::ZERO, Source::Concurrency)
            }
            (false, _) => planned().unwrap_or(due.pace),
        }
    }

    /// Returns the question for the turns of the requests that wait in the group of this one.
    fn question(
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
        let asked = group
            .as_ref()
            .map_or(Duration::ZERO, |(_, interval)| *interval);
        let interval = settings
            .own_interval()
            .max(asked)
            .max(self.history.backoff.gap());
        let most = match interval.is_zero() {
            true => BATCH,
            false => {
                let fits = NEAR.as_micros() / interval.as_micros().max(1);
                u32::try_from(fits)
                    .unwrap_or(u32::MAX)
                    .saturating_add(settings.burst())
            }
        };
        let most = most
            .min(BATCH)
            .min(settings.config.concurrency.unwrap_or(BATCH));
        let horizon = latest.since(at);
        let is_cut = settings.config.concurrency.is_some() && horizon > SLOT_HORIZON;
        Question {
            group,
            wanted: waiting.clamp(1, most.max(1)),
            rest: self.rest(now),
            gap: self.history.backoff.gap(),
            asked: OpenReservation {
                epoch,
                horizon: if is_cut { SLOT_HORIZON } else { horizon },
                is_cut,
            },
        }
    }
}

impl Shared {
    /// Tells whether too many requests are held, `of_client` of them at this origin by the client that asks.
    fn is_full(&self, settings: &PaceSettings, of_client: usize) -> bool {
        let most = settings.config.max_held;
        self.held.load(Ordering::Relaxed) >= most || of_client >= most / 2
    }
}

/// Hands turns out to the requests that wait in `limiter`, until the queue is empty.
async fn drive(shared: Arc<Shared>, fleet: FleetPace, limiter: Arc<OriginLimiter>) {
    let Some(fleet_origin) = limiter.fleet_origin.clone() else {
        return;
    };
    // Asked by this task, so that the answer wakes no other one first.
    let mut asking: Option<Asking> = None;
    loop {
        let settings = shared.settings.load_full();
        match limiter.step_in_fleet(&shared, &fleet, &settings) {
            Step::Done => {
                if let Some(asking) = asking {
                    asking.await;
                    // Another task may drive a new queue by now.
                    limiter.changed.notify_one();
                }
                return;
            }
            Step::Granted => {}
            Step::Sleep(span) => {
                tokio::select! {
                    () = sleep(whole_millis(span)) => {}
                    () = limiter.changed.notified() => {}
                    () = fleet_origin.room() => {}
                    () = answered(&mut asking), if asking.is_some() => asking = None,
                }
            }
            Step::Ask(question) => {
                let (shared, fleet) = (Arc::clone(&shared), fleet.clone());
                let ask = Box::pin(Arc::clone(&limiter).ask(shared, fleet, settings, question));
                match asking {
                    None => asking = Some(ask),
                    // That of another group is under way.
                    Some(_) => {
                        let limiter = Arc::clone(&limiter);
                        tokio::spawn(async move {
                            ask.await;
                            limiter.changed.notify_one();
                        });
                    }
                }
            }
        }
    }
}

/// Rounds up to whole milliseconds, as a wait is without a fleet: each wake of this process is for more turns.
fn whole_millis(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// Waits for the answer to a question.
async fn answered(asking: &mut Option<Asking>) {
    if let Some(asking) = asking {
        asking.await;
    }
}
