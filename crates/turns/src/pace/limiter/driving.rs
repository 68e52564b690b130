//! The task that hands out turns to the requests that wait at one origin or one address.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::reserving::Question;
use super::{Admission, Claim, GRACE, Granted, OriginLimiter, Waiter};
use crate::client::ClientKey;
use crate::fleet::LinkState;
use crate::fleet::reservation::ENGINE_RETRY;
use crate::history::{History, moment, since_1970};
use crate::pace::context::Context;
use crate::pace::grants::{self, Grants};
use crate::pace::settings::PaceSettings;
use crate::pace::turn::Turn;
use crawlgate_system::clock::{Moment, Uptime};

/// Time-out of a task that waits for a request to end: any end wakes it earlier.
const UNTIL_CHANGE: Duration = Duration::from_secs(3_600);

/// A question to the engine that is under way.
type Asking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The next step of the task.
enum Step {
    /// The queue is empty.
    Done,
    /// A request has its turn, or is refused.
    Granted,
    /// Nothing is to be done before this time has passed, unless something changes.
    Sleep(Duration),
    /// The next request needs the turn of its address first.
    AskAddress(Arc<OriginLimiter>, ClientKey),
    /// Turns are to be reserved in the engine of a fleet.
    AskEngine(Question),
}

/// The event that the next request of a group waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Nothing: it may go.
    Go,
    /// This time.
    Wait(Duration),
    /// Another request's end, or an answer.
    Change,
    /// A question to the engine, for turns until this time.
    Ask(Uptime, u64),
}

/// The state of a limiter, for the choice of the next request.
struct View<'a> {
    limiter: &'a OriginLimiter,
    settings: &'a PaceSettings,
    history: &'a History,
    grants: &'a Grants,
    /// True if the engine of the fleet answers; `None` without a fleet.
    is_connected: Option<bool>,
    now: Moment,
    at: Uptime,
}

impl View<'_> {
    /// Tells what this request waits for if it is the next one.
    fn next(&self, waiter: &Waiter) -> Next {
        match self.is_connected {
            None => self.next_alone(waiter),
            Some(is_connected) => self.next_in_fleet(waiter, is_connected),
        }
    }

    fn next_alone(&self, waiter: &Waiter) -> Next {
        let terms = self.settings.terms(waiter.crawl_delay.as_deref());
        let due = moment(self.history.next(&terms, since_1970(self.now)));
        match due > self.now {
            true => Next::Wait(due.since(self.now)),
            false if self.limiter.has_room(self.settings) => Next::Go,
            false => Next::Change,
        }
    }

    fn next_in_fleet(&self, waiter: &Waiter, is_connected: bool) -> Next {
        if self.is_free(waiter) {
            return Next::Go;
        }
        match self.grants.next(waiter.group(), self.at) {
            grants::Next::Go if is_connected => Next::Go,
            grants::Next::Ask(latest, epoch) if is_connected => Next::Ask(latest, epoch),
            grants::Next::Ask(..) | grants::Next::Go => Next::Wait(ENGINE_RETRY),
            grants::Next::Wait(until) => Next::Wait(until.since(self.at)),
            grants::Next::AwaitReply => Next::Change,
        }
    }

    /// Tells whether a request needs no turn of the engine.
    fn is_free(&self, waiter: &Waiter) -> bool {
        waiter.crawl_delay.is_none() && self.limiter.is_free(self.settings)
    }
}

impl OriginLimiter {
    /// Grants the next turn, if a request is due. `at_address` is the turn at its address, if one was taken.
    fn step(
        self: &Arc<OriginLimiter>,
        context: &Context,
        settings: &PaceSettings,
        at_address: &mut Option<Turn>,
    ) -> Step {
        let (mut guard, now) = self.lock(context);
        let state = &mut *guard;
        if state.queue.is_empty() {
            self.is_driven.store(false, Ordering::Release);
            return Step::Done;
        }
        let has_room = self.fleet_origin.as_ref().map(|origin| origin.take_room());
        if has_room == Some(true) {
            state.grants.has_room();
        }
        let at = self.settle_grants(state, context);
        let fleet = context.fleet.as_ref();
        let view = View {
            limiter: self,
            settings,
            history: &state.history,
            grants: &state.grants,
            is_connected: fleet.map(|pace| pace.fleet.link_at(at) == LinkState::Connected),
            now,
            at,
        };
        let may_go = |waiter: &Waiter| view.next(waiter) == Next::Go;
        if at_address.is_none()
            && settings.is_per_address()
            && let Some((client, waiter)) = state.queue.next(may_go)
            && let Some(address) = &waiter.address
        {
            return Step::AskAddress(Arc::clone(address), client.clone());
        }
        if let Some(waiter) = state.queue.pop(may_go) {
            let is_free = view.is_free(&waiter);
            let crawl_delay = waiter.crawl_delay.as_deref();
            let mut turn = match fleet {
                None => self.go(state, settings, crawl_delay, now),
                Some(fleet) => {
                    let grants = &mut state.grants;
                    let grant = (!is_free).then(|| grants.take(waiter.group(), at)).flatten();
                    self.go_by(state, fleet, settings, crawl_delay, now, grant)
                }
            };
            turn.at_address = at_address.take().map(Box::new);
            drop(guard);
            let is_held = |(since, _)| at.since(since) >= GRACE;
            // If the waiter has gone, dropping the undelivered turn returns it.
            drop(waiter.grant.send(Granted {
                turn: Some(turn),
                was_held: waiter.waits.is_none_or(is_held),
                again: None,
            }));
            return Step::Granted;
        }
        let earliest = |waiter: &Waiter| view.grants.earliest(waiter.group());
        let is_hopeless = |waiter: &Waiter| {
            let waits = waiter.waits;
            waits.is_some_and(|(_, until)| earliest(waiter) > until)
        };
        if let Some(waiter) = state.queue.pop(is_hopeless) {
            let refused = Granted {
                turn: None,
                was_held: true,
                again: Some(now + earliest(&waiter).since(at)),
            };
            drop(guard);
            drop(waiter.grant.send(refused));
            return Step::Granted;
        }
        let mut wake = UNTIL_CHANGE;
        let mut question = None;
        for waiter in state.queue.fronts() {
            match view.next(waiter) {
                Next::Ask(latest, epoch) => {
                    let asked = state.question(settings, waiter, (latest, epoch), (now, at));
                    question = Some((asked, waiter.group().cloned()));
                    break;
                }
                Next::Wait(span) => wake = wake.min(span),
                Next::Go | Next::Change => {}
            }
        }
        let Some((question, group)) = question else {
            return Step::Sleep(wake);
        };
        state.grants.asked(group.as_ref());
        Step::AskEngine(question)
    }

    /// Waits for the turn of this address, without a time limit. `None` if nothing bounds addresses any more.
    async fn turn_of_address(
        self: Arc<Self>,
        context: &Arc<Context>,
        client: &ClientKey,
    ) -> Option<Turn> {
        let settings = context.settings.load_full();
        if !settings.is_per_address() {
            return None;
        }
        let claim = Claim { client, crawl_delay: None, address: None, patience: None };
        match self.enter(context, &settings, claim) {
            Admission::Granted(turn) => Some(turn),
            Admission::Queued(_, granted, _) => granted.await.ok()?.take(),
            Admission::Rejected(_) => None,
        }
    }

    /// Waits until a slot of the fleet is free that was not before.
    async fn room(&self) {
        match &self.fleet_origin {
            Some(fleet_origin) => fleet_origin.room().await,
            None => std::future::pending().await,
        }
    }
}

/// Hands out turns to the requests that wait in `limiter`, until the queue is empty.
pub(super) fn drive(
    context: Arc<Context>,
    limiter: Arc<OriginLimiter>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    // Boxed: waiting for the turn of an address may start another task like this.
    Box::pin(async move {
        let mut at_address = None;
        // Asked by this task, so that the answer wakes no other one first.
        let mut asking: Option<Asking> = None;
        loop {
            let settings = context.settings.load_full();
            let step = limiter.step(&context, &settings, &mut at_address);
            // Unused: its request has gone, or is no longer due.
            if let Some(turn) = at_address.take() {
                turn.give_back();
            }
            match step {
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
                        () = limiter.room() => {}
                        () = answered(&mut asking), if asking.is_some() => asking = None,
                    }
                }
                Step::AskAddress(address, client) => {
                    at_address = address.turn_of_address(&context, &client).await;
                    if at_address.is_none() {
                        // No address turn: the limit was switched off, or the runtime is stopping. Yield so that this
                        // loop cannot spin.
                        tokio::task::yield_now().await;
                    }
                }
                Step::AskEngine(question) => {
                    let ask = Arc::clone(&limiter).ask(Arc::clone(&context), settings, question);
                    let ask = Box::pin(ask);
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
    })
}

/// Rounds up to whole milliseconds: each wake of this process is for more turns.
fn whole_millis(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// Waits for the answer to a question.
async fn answered(asking: &mut Option<Asking>) {
    if let Some(asking) = asking {
        asking.await;
    }
}
