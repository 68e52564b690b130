//! The turns of one origin or one address: its history, its queue, and the task that grants turns.
//!
//! One lock protects the state; it is held for a few instructions and never across an await. While requests wait, and
//! only then, one task drives the queue (`driving`): it sleeps until the next one is due and hands it its turn. An undelivered turn
//! is given back.
//!
//! The limiter of a gate without a fleet grants turns by its own history. In a fleet it hands out those that the engine
//! has reserved (`reserving`), and its own history delays nothing: it tells new requests how long they wait at least.

pub(super) mod ahead;
mod driving;
mod reserving;
pub(super) mod trouble;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use super::backoff::{Outcome, Signs};
use super::bound::{Due, EffectivePace, Group, Source};
use super::context::Context;
use super::grants::{Grants, Next};
use super::queue::Queue;
use super::settings::PaceSettings;
use super::slots::FleetOrigin;
use super::turn::Turn;
use crate::client::ClientKey;
use crate::history::{History, Report, Undo, micros, moment, since_1970};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_system::clock::{Moment, Uptime};

/// Timers may be late: a turn that comes just at the end of the longest hold still counts.
pub(super) const GRACE: Duration = Duration::from_millis(20);

/// The limiter of one origin, or of one address.
#[derive(Debug, Default)]
pub(super) struct OriginLimiter {
    state: Mutex<State>,
    /// The last request without the lock, in milliseconds since 1970; 0: none since the lock was held last.
    passed: AtomicU64,
    /// True if requests need the lock, because the origin is in trouble. In a fleet also true if this instance does not
    /// know better.
    is_troubled: AtomicBool,
    /// Requests under way.
    in_flight: AtomicU32,
    /// True while requests wait and a task drives the queue.
    is_driven: AtomicBool,
    /// Wakes the task when the state has changed.
    changed: Notify,
    /// A queue for prioritised requests: only the first of them checks whether it is due.
    pub(super) ahead: tokio::sync::Mutex<()>,
    /// The origin for a fleet that reserves its turns.
    fleet_origin: Option<Arc<FleetOrigin>>,
}

#[derive(Debug, Default)]
struct State {
    history: History,
    signs: Signs,
    queue: Queue<Waiter>,
    /// Turns taken.
    taken: u64,
    /// Restores the state before the last turn.
    undo: Option<Undo>,
    /// The turns that a fleet has reserved.
    grants: Grants,
    /// True until the fleet's engine tells the origin's trouble, after it may have lost it.
    is_unsure: bool,
    /// Reports of trouble that are on their way to the fleet.
    reports: u32,
    /// The trouble that the fleet was last told of: the gap, and the end of the rest.
    announced: (Duration, Moment),
}

/// A request that waits.
#[derive(Debug)]
struct Waiter {
    crawl_delay: Option<Arc<CrawlDelay>>,
    /// The limiter of its address, which must grant a turn, too.
    address: Option<Arc<OriginLimiter>>,
    /// The time since which, and until which it waits, in a fleet.
    waits: Option<(Uptime, Uptime)>,
    grant: oneshot::Sender<Granted>,
}

/// A turn on its way to its waiter; given back if it is not delivered.
#[derive(Debug)]
pub(super) struct Granted {
    turn: Option<Turn>,
    /// True if the request was held, and not only asked for.
    pub(super) was_held: bool,
    /// The moment at which it may come again, if it has no turn.
    pub(super) again: Option<Moment>,
}

impl Granted {
    pub(super) fn take(mut self) -> Option<Turn> {
        self.turn.take()
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            turn.give_back();
        }
    }
}

/// The facts about a request that asks for a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) client: &'a ClientKey,
    pub(super) crawl_delay: Option<&'a Arc<CrawlDelay>>,
    /// The limiter of its address, which must grant a turn, too.
    pub(super) address: Option<&'a Arc<OriginLimiter>>,
    /// The longest wait, for a request that counts as held; none: it waits without limit and does not count.
    pub(super) patience: Option<Duration>,
}

/// The answer to a request that asks for a turn.
#[derive(Debug)]
pub(super) enum Admission {
    /// It has its turn.
    Granted(Turn),
    /// It waits: its number, its receiver, and the probable time and reason.
    Queued(u64, oneshot::Receiver<Granted>, Due),
    /// It would wait for too long, or too many wait.
    Rejected(Due),
}

impl Waiter {
    fn group(&self) -> Option<&Group> {
        self.crawl_delay.as_deref().map(|crawl_delay| &crawl_delay.group)
    }
}

impl OriginLimiter {
    /// Builds the limiter of an origin in a fleet. Its first request asks whether anything bounds it.
    pub(super) fn in_fleet(origin: &str) -> OriginLimiter {
        OriginLimiter {
            is_troubled: true.into(),
            fleet_origin: Some(Arc::new(FleetOrigin::new(origin.into()))),
            ..OriginLimiter::default()
        }
    }

    /// Takes a turn without the lock: for settings under which only trouble bounds the requests to an origin.
    pub(super) fn try_fast(self: &Arc<OriginLimiter>, now: Moment) -> Option<Turn> {
        let is_bound =
            self.is_troubled.load(Ordering::Acquire) || self.is_driven.load(Ordering::Acquire);
        if is_bound {
            return None;
        }
        self.passed.store(now.as_millis(), Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        Some(Turn::new(self, now, 0))
    }

    /// Takes a turn, if one is due and the queue is empty.
    pub(super) fn take(
        self: &Arc<OriginLimiter>,
        context: &Context,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
    ) -> Option<Turn> {
        let (mut state, now) = self.lock(context);
        let at = self.settle_grants(&mut state, context);
        let is_first = state.queue.is_empty();
        is_first
            .then(|| self.go_if_due(&mut state, context, settings, crawl_delay, (now, at)))
            .flatten()
    }

    /// Takes a turn, or joins the queue.
    pub(super) fn enter(
        self: &Arc<OriginLimiter>,
        context: &Arc<Context>,
        settings: &PaceSettings,
        claim: Claim<'_>,
    ) -> Admission {
        let client = claim.client;
        let crawl_delay = claim.crawl_delay.map(|crawl_delay| &**crawl_delay);
        let group = crawl_delay.map(|crawl_delay| &crawl_delay.group);
        let (mut state, now) = self.lock(context);
        let at = self.settle_grants(&mut state, context);
        if state.queue.is_empty()
            && claim.address.is_none()
            && let Some(turn) =
                self.go_if_due(&mut state, context, settings, crawl_delay, (now, at))
        {
            return Admission::Granted(turn);
        }
        let expected = self.expected(&state, settings, claim, (now, at));
        if let Some(patience) = claim.patience {
            if expected.at.since(now) > patience {
                return Admission::Rejected(expected);
            }
            if context.is_full(settings, state.queue.len_of(client)) {
                let pace = EffectivePace::plain(expected.pace.interval, Source::MaxHeld);
                return Admission::Rejected(Due { pace, ..expected });
            }
        }
        let (grant, granted) = oneshot::channel();
        let mut has_more_to_do = true;
        let waits = self.fleet_origin.as_ref().map(|_| {
            let until = at + claim.patience.unwrap_or_default();
            let is_first = state.queue.len_of_group(group) == 0;
            state.grants.waits(group, until);
            // The task waits for the turn or the answer of this group already, unless there is more to do.
            let next = state.grants.next(group, at);
            has_more_to_do = is_first || matches!(next, Next::Go | Next::Ask(..));
            (at, until)
        });
        let waiter = Waiter {
            crawl_delay: claim.crawl_delay.cloned(),
            address: claim.address.cloned(),
            waits,
            grant,
        };
        let number = state.queue.push(client, group, waiter);
        if !self.is_driven.swap(true, Ordering::AcqRel) {
            tokio::spawn(driving::drive(Arc::clone(context), Arc::clone(self)));
        } else if has_more_to_do {
            self.changed.notify_one();
        }
        Admission::Queued(number, granted, expected)
    }

    /// Returns the probable time of a request's turn, and the bound that it waits for.
    fn expected(
        &self,
        state: &State,
        settings: &PaceSettings,
        claim: Claim<'_>,
        (now, at): (Moment, Uptime),
    ) -> Due {
        let crawl_delay = claim.crawl_delay.map(|crawl_delay| &**crawl_delay);
        let group = crawl_delay.map(|crawl_delay| &crawl_delay.group);
        let before = (state.queue.ahead_of(claim.client), state.queue.len_in(claim.client, group));
        let terms = settings.terms(crawl_delay);
        let expected = state.history.expected(&terms, before, since_1970(now));
        let due = settings.due(&state.history, crawl_delay, now);
        let concurrency = EffectivePace::plain(Duration::ZERO, Source::Concurrency);
        let is_in_fleet = self.fleet_origin.is_some();
        let pace = match (due.at > now, claim.address) {
            (true, _) => due.pace,
            (false, _) if is_in_fleet => {
                let unknown = settings.config.concurrency.map_or(due.pace, |_| concurrency);
                settings.planned(crawl_delay).unwrap_or(unknown)
            }
            (false, _) if !self.has_room(settings) => concurrency,
            (false, Some(_)) => EffectivePace::plain(settings.own_interval, Source::Address),
            (false, None) => due.pace,
        };
        let earliest = now + state.grants.earliest(group).since(at);
        Due { at: moment(expected).max(earliest), pace }
    }

    /// Removes a request from the queue.
    pub(super) fn leave(&self, client: &ClientKey, number: u64) {
        if self.state.lock().queue.remove(client, number) {
            self.changed.notify_one();
        }
    }

    /// Returns the time until a robots.txt fetch is due; `None` if it is due now.
    pub(super) fn wait_for_robots(
        &self,
        context: &Context,
        settings: &PaceSettings,
    ) -> Option<Duration> {
        let (state, now) = self.lock(context);
        state.wait_for_robots(settings, now)
    }

    /// Takes a turn for a robots.txt fetch, before all held requests: when it is due or, with `at_once`, regardless.
    ///
    /// # Errors
    /// The time until it is due.
    pub(super) fn take_for_robots(
        self: &Arc<OriginLimiter>,
        context: &Context,
        settings: &PaceSettings,
        at_once: bool,
    ) -> Result<Turn, Duration> {
        let (mut state, now) = self.lock(context);
        match state.wait_for_robots(settings, now) {
            Some(wait) if !at_once => Err(wait),
            _ => Ok(self.go_for_robots(&mut state, settings, now)),
        }
    }

    /// Counts a robots.txt fetch that starts now, due or not. `before` names its earlier turn; that turn no longer
    /// counts, unless others have come after it.
    pub(super) fn count_robots(
        &self,
        context: &Context,
        settings: &PaceSettings,
        before: Option<u64>,
    ) {
        let (mut guard, now) = self.lock(context);
        let state = &mut *guard;
        if before == Some(state.taken)
            && let Some(undo) = state.undo.take()
        {
            state.history.undo(undo);
        }
        let (history, terms, now) =
            (&mut state.history, settings.terms_for_robots(), since_1970(now));
        if before.is_some() {
            history.take(&terms, now);
            history.take_robots(now);
        } else {
            let memory = micros(settings.config.max_crawl_delay);
            history.take_redirect_hop(&terms, (now, now), memory);
        }
        // A fetch that has started is never given back.
        state.taken += 1;
        state.undo = None;
    }

    /// Records the outcome of a request.
    pub(super) fn record_outcome(
        &self,
        outcome: Outcome,
        sent: Moment,
        now: Moment,
        most: Duration,
    ) {
        let mut state = self.state.lock();
        let _ = state.record_outcome(outcome, sent, now, most);
        let is_troubled = !state.history.trouble.is_calm();
        self.is_troubled.store(is_troubled, Ordering::Release);
        if self.is_driven.load(Ordering::Acquire) {
            self.changed.notify_one();
        }
    }

    /// Makes the queue check again, under other settings.
    pub(super) fn reconsider(&self, settings: &PaceSettings) {
        if !settings.config.backoff {
            self.state.lock().history.trouble.end();
            self.is_troubled.store(self.fleet_origin.is_some(), Ordering::Release);
        }
        if self.is_driven.load(Ordering::Acquire) {
            self.changed.notify_one();
        }
    }

    /// Returns when a request without a crawl delay is due, and the bound that decides it.
    pub(super) fn due(&self, context: &Context, settings: &PaceSettings) -> Due {
        let (state, now) = self.lock(context);
        settings.due(&state.history, None, now)
    }

    /// Returns the moment of the last request; `None` if the limiter has no relevant history.
    pub(super) fn last(&self, context: &Context, settings: &PaceSettings) -> Option<Moment> {
        let (state, now) = self.lock(context);
        let longest = micros(settings.longest_interval());
        let is_idle = state.queue.is_empty()
            && self.in_flight.load(Ordering::Acquire) == 0
            && state.history.is_over(longest, since_1970(now));
        (!is_idle).then(|| moment(state.history.last))
    }

    /// Undoes a turn that was not used, unless others have come after it.
    pub(super) fn undo(&self, number: u64) {
        let mut state = self.state.lock();
        if state.taken == number
            && let Some(undo) = state.undo.take()
        {
            state.history.undo(undo);
            self.changed.notify_one();
        }
    }

    /// Records that a request has ended.
    pub(super) fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        // In a fleet, requests wait only for the engine's word.
        if self.fleet_origin.is_none() && self.is_driven.load(Ordering::Acquire) {
            self.changed.notify_one();
        }
    }

    /// Locks the state and brings it up to date. The clock is read under the lock, so no counted request is later than
    /// `now`.
    fn lock(&self, context: &Context) -> (MutexGuard<'_, State>, Moment) {
        let mut state = self.state.lock();
        let now = context.clock.now();
        let passed = Moment::from_millis(self.passed.swap(0, Ordering::Relaxed));
        state.history.last = state.history.last.max(since_1970(passed));
        state.history.settle(since_1970(now));
        // In a fleet, the engine tells when the trouble is over.
        let is_alone = self.fleet_origin.is_none();
        if is_alone && self.is_troubled.load(Ordering::Relaxed) && state.history.trouble.is_calm() {
            self.is_troubled.store(false, Ordering::Release);
        }
        (state, now)
    }

    fn has_room(&self, settings: &PaceSettings) -> bool {
        let most = settings.config.concurrency;
        most.is_none_or(|most| self.in_flight.load(Ordering::Acquire) < most)
    }

    /// Takes a turn for the next request, if one is due.
    fn go_if_due(
        self: &Arc<OriginLimiter>,
        state: &mut State,
        context: &Context,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
        (now, at): (Moment, Uptime),
    ) -> Option<Turn> {
        let Some(fleet) = &context.fleet else {
            let terms = settings.terms(crawl_delay);
            let now_at = since_1970(now);
            let is_due = state.history.next(&terms, now_at) <= now_at;
            let may_go = is_due && self.has_room(settings);
            return may_go.then(|| self.go(state, settings, crawl_delay, now));
        };
        let mut grant = None;
        if crawl_delay.is_some() || !self.is_free(settings) {
            let group = crawl_delay.map(|crawl_delay| &crawl_delay.group);
            grant = Some(fleet.take(&mut state.grants, group, at)?);
        }
        Some(self.go_by(state, fleet, settings, crawl_delay, now, grant))
    }

    /// Counts a request that goes now and returns its turn.
    fn go(
        self: &Arc<OriginLimiter>,
        state: &mut State,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
        now: Moment,
    ) -> Turn {
        let terms = settings.terms(crawl_delay);
        state.undo = Some(state.history.take(&terms, since_1970(now)));
        state.taken += 1;
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        Turn::new(self, now, state.taken)
    }

    /// Counts a robots.txt that goes now and returns its turn.
    fn go_for_robots(
        self: &Arc<OriginLimiter>,
        state: &mut State,
        settings: &PaceSettings,
        now: Moment,
    ) -> Turn {
        let turn = self.go(state, settings, None, now);
        state.history.take_robots(since_1970(now));
        turn
    }
}

impl State {
    /// Returns the time until a robots.txt fetch is due; `None` if it is due now.
    fn wait_for_robots(&self, settings: &PaceSettings, now: Moment) -> Option<Duration> {
        let terms = settings.terms_for_robots();
        let due = moment(self.history.next(&terms, since_1970(now)));
        (due > now).then(|| due.since(now))
    }

    /// Records the outcome of a request sent at `sent`. No delay lasts longer than `most`. Returns the sign that it is.
    fn record_outcome(
        &mut self,
        outcome: Outcome,
        sent: Moment,
        now: Moment,
        most: Duration,
    ) -> Option<Report> {
        let (sent, now) = (since_1970(sent), since_1970(now));
        self.history.trouble.settle(now);
        let sign = self.signs.notice(outcome, most)?;
        self.history.trouble.enter(sign, sent, now, most);
        Some(sign)
    }
}
