//! The turns of one origin or one address: its history, its queue, and the task that grants turns.
//!
//! One lock protects the state; it is held for a few instructions and never across an await. While requests wait, and
//! only then, one task drives the queue: it sleeps until the next one is due and hands it its turn. An undelivered turn
//! is given back.

pub(super) mod ahead;
mod reserving;
pub(super) mod trouble;

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use super::backoff::Outcome;
use super::grants::Grants;
use super::history::{Due, History, Undo};
use super::queue::Queue;
use super::settings::PaceSettings;
use super::slots::FleetOrigin;
use super::{EffectivePace, Shared, Source, Turn};
use crate::client::ClientKey;
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_system::clock::{Moment, Uptime};

/// Time-out of a task that waits for a request to end: any end wakes it earlier.
const UNTIL_CHANGE: Duration = Duration::from_secs(3_600);

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
    /// A queue for prioritised requests: the first of them alone checks whether it is due.
    pub(super) ahead: tokio::sync::Mutex<()>,
    /// The origin for a fleet that reserves its turns.
    fleet_origin: Option<Arc<FleetOrigin>>,
}

#[derive(Debug, Default)]
struct State {
    history: History,
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
    /// The address with a limiter that must grant a turn, too.
    address: Option<IpAddr>,
    /// The time since which, and until which it waits, in a fleet.
    waits: (Uptime, Uptime),
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
    fn turn(turn: Turn) -> Granted {
        Granted {
            turn: Some(turn),
            was_held: true,
            again: None,
        }
    }

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
    /// The address with a limiter that must grant a turn, too.
    pub(super) address: Option<IpAddr>,
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

/// The next step of the task.
enum Step {
    /// The queue is empty.
    Done,
    /// A request has its turn.
    Granted,
    /// No request is due before this time has passed, unless something changes.
    Sleep(Duration),
    /// The next request needs the turn of an address first.
    Ask(IpAddr, ClientKey),
}

impl OriginLimiter {
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
        shared: &Shared,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
    ) -> Option<Turn> {
        let (mut state, now) = self.lock(shared);
        let due = state.history.due(settings, crawl_delay, now);
        let may_go = state.queue.is_empty() && due.at <= now && self.has_room(settings);
        may_go.then(|| self.go(&mut state, settings, crawl_delay, now))
    }

    /// Takes a turn, or joins the queue.
    pub(super) fn enter(
        self: &Arc<OriginLimiter>,
        shared: &Arc<Shared>,
        settings: &PaceSettings,
        claim: Claim<'_>,
    ) -> Admission {
        let Claim {
            client, address, ..
        } = claim;
        let crawl_delay = claim.crawl_delay.map(|crawl_delay| &**crawl_delay);
        let (mut state, now) = self.lock(shared);
        let due = state.history.due(settings, crawl_delay, now);
        let has_room = self.has_room(settings);
        if state.queue.is_empty() && due.at <= now && has_room && address.is_none() {
            return Admission::Granted(self.go(&mut state, settings, crawl_delay, now));
        }
        let group = crawl_delay.map(|crawl_delay| &crawl_delay.group);
        let before = (
            state.queue.ahead_of(client),
            state.queue.len_in(client, group),
        );
        let expected = Due {
            at: state.history.expected(settings, crawl_delay, before, now),
            pace: match (due.at > now, has_room, address) {
                (false, false, _) => EffectivePace::plain(Duration::ZERO, Source::Concurrency),
                (false, true, Some(_)) => {
                    EffectivePace::plain(settings.own_interval(), Source::Address)
                }
                _ => due.pace,
            },
        };
        if let Some(patience) = claim.patience {
            if expected.at.since(now) > patience {
                return Admission::Rejected(expected);
            }
            let most = settings.config.max_held;
            let is_full = shared.held.load(Ordering::Relaxed) >= most
                || state.queue.len_of(client) >= most / 2;
            if is_full {
                let pace = EffectivePace::plain(expected.pace.interval, Source::MaxHeld);
                return Admission::Rejected(Due { pace, ..expected });
            }
        }
        let (grant, granted) = oneshot::channel();
        let waiter = Waiter {
            crawl_delay: claim.crawl_delay.cloned(),
            address,
            waits: <(Uptime, Uptime)>::default(),
            grant,
        };
        let number = state.queue.push(client, group, waiter);
        if self.is_driven.swap(true, Ordering::AcqRel) {
            self.changed.notify_one();
        } else {
            tokio::spawn(drive(Arc::clone(shared), Arc::clone(self)));
        }
        Admission::Queued(number, granted, expected)
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
        shared: &Shared,
        settings: &PaceSettings,
    ) -> Option<Duration> {
        let (state, now) = self.lock(shared);
        let due = state.history.due_for_robots(settings, now);
        (due > now).then(|| due.since(now))
    }

    /// Takes a turn for a robots.txt fetch, before all held requests: when it is due or, with `at_once`, regardless.
    ///
    /// # Errors
    /// The time until it is due.
    pub(super) fn take_for_robots(
        self: &Arc<OriginLimiter>,
        shared: &Shared,
        settings: &PaceSettings,
        at_once: bool,
    ) -> Result<Turn, Duration> {
        let (mut state, now) = self.lock(shared);
        let due = state.history.due_for_robots(settings, now);
        if due > now && !at_once {
            return Err(due.since(now));
        }
        let turn = self.go(&mut state, settings, None, now);
        state.history.robots = now;
        Ok(turn)
    }

    /// Counts a robots.txt fetch that starts now, due or not. `before` names its earlier turn; that turn no longer
    /// counts, unless others have come after it.
    pub(super) fn count_robots(
        &self,
        shared: &Shared,
        settings: &PaceSettings,
        before: Option<u64>,
    ) {
        let (mut guard, now) = self.lock(shared);
        let state = &mut *guard;
        if before == Some(state.taken)
            && let Some(undo) = state.undo.take()
        {
            state.history.undo(undo);
        }
        if before.is_some() {
            state.history.count(settings, None, now);
            state.history.robots = now;
        } else {
            state.history.count_redirect_hop(settings, now);
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
        let _ = state
            .history
            .backoff
            .record_outcome(outcome, sent, now, most);
        let is_troubled = !state.history.backoff.is_calm();
        self.is_troubled.store(is_troubled, Ordering::Release);
        if self.is_driven.load(Ordering::Acquire) {
            self.changed.notify_one();
        }
    }

    /// Makes the queue check again, under other settings.
    pub(super) fn reconsider(&self, settings: &PaceSettings) {
        if !settings.config.backoff {
            self.state.lock().history.backoff.end();
            self.is_troubled
                .store(self.fleet_origin.is_some(), Ordering::Release);
        }
        if self.is_driven.load(Ordering::Acquire) {
            self.changed.notify_one();
        }
    }

    /// Returns when a request without a crawl delay is due, and the bound that decides it.
    pub(super) fn due(&self, shared: &Shared, settings: &PaceSettings) -> Due {
        let (state, now) = self.lock(shared);
        state.history.due(settings, None, now)
    }

    /// Returns the moment of the last request; `None` if the limiter has no relevant history.
    pub(super) fn last(&self, shared: &Shared, settings: &PaceSettings) -> Option<Moment> {
        let (state, now) = self.lock(shared);
        let is_idle = state.queue.is_empty()
            && self.in_flight.load(Ordering::Acquire) == 0
            && state.history.is_over(settings, now);
        (!is_idle).then_some(state.history.last)
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
        // In a fleet, requests wait for the engine's word alone.
        if self.fleet_origin.is_none() && self.is_driven.load(Ordering::Acquire) {
            self.changed.notify_one();
        }
    }

    /// Locks the state and brings it up to date. The clock is read under the lock, so no counted request is later than
    /// `now`.
    fn lock(&self, shared: &Shared) -> (MutexGuard<'_, State>, Moment) {
        let mut state = self.state.lock();
        let now = shared.clock.now();
        let passed = Moment::from_millis(self.passed.swap(0, Ordering::Relaxed));
        state.history.last = state.history.last.max(passed);
        state.history.settle(now);
        // In a fleet, the engine tells when the trouble is over.
        let is_alone = self.fleet_origin.is_none();
        if is_alone && self.is_troubled.load(Ordering::Relaxed) && state.history.backoff.is_calm() {
            self.is_troubled.store(false, Ordering::Release);
        }
        (state, now)
    }

    fn has_room(&self, settings: &PaceSettings) -> bool {
        let most = settings.config.concurrency;
        most.is_none_or(|most| self.in_flight.load(Ordering::Acquire) < most)
    }

    /// Counts a request that goes now and returns its turn.
    fn go(
        self: &Arc<OriginLimiter>,
        state: &mut State,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
        now: Moment,
    ) -> Turn {
        state.undo = Some(state.history.count(settings, crawl_delay, now));
        state.taken += 1;
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        Turn::new(self, now, state.taken)
    }

    /// Grants the next turn, if a request is due. `at_address` is the turn at its address, if one was taken.
    fn step(
        self: &Arc<OriginLimiter>,
        shared: &Shared,
        settings: &PaceSettings,
        at_address: &mut Option<Turn>,
    ) -> Step {
        let (mut guard, now) = self.lock(shared);
        let state = &mut *guard;
        if state.queue.is_empty() {
            self.is_driven.store(false, Ordering::Release);
            return Step::Done;
        }
        let history = &state.history;
        let due = |waiter: &Waiter| history.due(settings, waiter.crawl_delay.as_deref(), now).at;
        let first = state.queue.fronts().map(due).min().unwrap_or_default();
        if first > now {
            return Step::Sleep(first.since(now));
        }
        if !self.has_room(settings) {
            return Step::Sleep(UNTIL_CHANGE);
        }
        let is_due = |waiter: &Waiter| due(waiter) <= now;
        if at_address.is_none()
            && settings.is_per_address()
            && let Some((client, waiter)) = state.queue.next(is_due)
            && let Some(address) = waiter.address
        {
            return Step::Ask(address, client.clone());
        }
        if let Some(waiter) = state.queue.pop(is_due) {
            let crawl_delay = waiter.crawl_delay.as_deref();
            let mut turn = self.go(state, settings, crawl_delay, now);
            turn.at_address = at_address.take().map(Box::new);
            drop(guard);
            // If the waiter has gone, dropping the undelivered turn returns it.
            drop(waiter.grant.send(Granted::turn(turn)));
        }
        Step::Granted
    }
}

/// Grants turns to the requests that wait in `limiter`, until the queue is empty.
fn drive(
    shared: Arc<Shared>,
    limiter: Arc<OriginLimiter>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    // Boxed: waiting for the turn of an address may start another task like this.
    Box::pin(async move {
        let mut at_address = None;
        loop {
            let settings = shared.settings.load_full();
            let step = limiter.step(&shared, &settings, &mut at_address);
            // Unused: its request has gone, or is no longer due.
            if let Some(turn) = at_address.take() {
                turn.give_back();
            }
            match step {
                Step::Done => return,
                Step::Granted => {}
                Step::Sleep(span) => {
                    tokio::select! {
                        () = sleep(span) => {}
                        () = limiter.changed.notified() => {}
                    }
                }
                Step::Ask(address, client) => {
                    at_address = shared.turn_at(address, &client).await;
                    if at_address.is_none() {
                        // No address turn: the limit was switched off, or the runtime is stopping. Yield so that this
                        // loop cannot spin.
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    })
}
