//! A client's usage that the instances of a fleet keep together, in the engine.
//!
//! The rate has turns there, as an origin has them: each request that waits reserves a turn. A quota is taken in
//! chunks. While the engine does not answer, the rest of the chunk is used up, and then requests are held.

mod waits;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{sleep, timeout};

use self::waits::WaiterGuard;
use super::alone::in_micros;
use super::chunk::{Chunk, QuotaQuestion, Take, Taken};
use super::{ChargedUsage, NotEntered, QuotaExceeded, Reservation};
use crate::client::Client;
use crate::fleet::coordinator::CoordinatorError;
use crate::fleet::quota::{ChargeQuota, Charged, REPORTED};
use crate::fleet::reservation::{GiveBack, Reserve, Reserved, TurnKind};
use crate::fleet::{EngineTime, Fleet, LinkState};
use crawlgate_config::{Quota, Rate};
use crawlgate_system::clock::{Clock, Uptime};

/// The time before a question without an answer is asked again, and for which "too far ahead" stands.
const ENGINE_RETRY: Duration = Duration::from_millis(100);

/// The time after which a turn that is due is lost: the next turns do not wait for it.
const LATE: Duration = Duration::from_millis(50);

/// A client's usage in a fleet.
#[derive(Debug)]
pub(super) struct FleetAccount {
    fleet: Arc<Fleet>,
    clock: Clock,
    /// Names the client in the engine.
    id: String,
    chunk: Mutex<Chunk>,
    turns: Mutex<Turns>,
    /// One question for each at a time: those that wait for it find its answer.
    asking: Arc<AsyncMutex<()>>,
    reserving: AsyncMutex<()>,
    /// Requests that wait for a chunk, and for a turn.
    for_chunk: AtomicU32,
    for_turn: AtomicU32,
    /// Refused requests that have not taken a turn yet.
    refused: AtomicU32,
    /// True while a task takes turns for them.
    is_counting: AtomicBool,
    /// The generation of the engine that was heard of last.
    generation: AtomicU64,
}

/// Turns that are reserved and not taken.
#[derive(Debug, Default)]
struct Turns {
    granted: VecDeque<Turn>,
    /// The time of the next turn beyond them, and the time until which that is known.
    next: Option<(Uptime, Uptime)>,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    due: Uptime,
    at: EngineTime,
}

/// One request's entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    taken: Option<Taken>,
    turn: Option<EngineTime>,
    /// The generation of the engine before the turn was taken.
    generation: u64,
}

impl FleetAccount {
    pub(super) fn new(name: &str, fleet: Arc<Fleet>, clock: Clock) -> FleetAccount {
        FleetAccount {
            id: format!("client:{}", fleet.key().alias(name)),
            fleet,
            clock,
            chunk: Mutex::default(),
            turns: Mutex::default(),
            asking: Arc::default(),
            reserving: AsyncMutex::default(),
            for_chunk: AtomicU32::new(0),
            for_turn: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            is_counting: AtomicBool::new(false),
            generation: AtomicU64::new(0),
        }
    }

    /// Enters a request that would go out now.
    ///
    /// # Errors
    /// [`NotEntered`] when a bound is used up, or the engine does not answer for `max_hold`.
    pub(super) async fn enter(
        self: &Arc<Self>,
        client: &Client,
        max_hold: Duration,
    ) -> Result<Reservation<'_>, NotEntered> {
        let until = self.clock.uptime() + max_hold;
        // Dropped with its request, it gives back what it has taken so far.
        let mut entered = Reservation {
            entry: None,
            hold: Duration::ZERO,
            has_waited: false,
        };
        let mut entry = Entry {
            taken: None,
            turn: None,
            generation: self.generation.load(Ordering::Acquire),
        };
        if let Some(quota) = &client.quota {
            let (taken, has_waited) = self.take(quota, until).await?;
            entry.taken = Some(taken);
            entered.has_waited = has_waited;
        }
        entered.entry = Some(ChargedUsage::InFleet(self, entry));
        if let Some(rate) = &client.rate {
            entry.generation = self.generation.load(Ordering::Acquire);
            let (turn, has_waited) = self.turn(rate, max_hold, until).await?;
            entered.entry = Some(ChargedUsage::InFleet(
                self,
                Entry {
                    turn: Some(turn.at),
                    ..entry
                },
            ));
            entered.hold = turn.due.since(self.clock.uptime());
            entered.has_waited |= has_waited;
        }
        Ok(entered)
    }

    /// Tells whether the engine may have lost the turn of an entry, and give its time to another instance.
    pub(super) fn is_void(&self, entry: Entry) -> bool {
        let is_of_now = entry.generation == self.generation.load(Ordering::Acquire);
        entry.turn.is_some() && (!is_of_now || self.fleet.link() == LinkState::Doubtful)
    }

    /// Takes an entry back: the request was not sent.
    pub(super) fn take_back(&self, entry: Entry) {
        if let Some(taken) = entry.taken {
            self.chunk.lock().give_back(taken);
        }
        if entry.turn.is_some() {
            self.turns.lock().next = None;
        }
        // Without a runtime the process ends.
        if let (Some(at), Ok(runtime)) = (entry.turn, Handle::try_current()) {
            let (fleet, id) = (Arc::clone(&self.fleet), self.id.clone());
            runtime.spawn(async move {
                let turn = GiveBack {
                    origin: &id,
                    at,
                    group: None,
                };
                // A turn that is not given back is lost.
                let _ = fleet.coordinator().give_back(turn).await;
            });
        }
    }

    /// Counts a request that is refused.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when a bound is used up, as far as is known here.
    pub(super) fn count(
        self: &Arc<Self>,
        client: &Client,
        max_hold: Duration,
    ) -> Result<(), QuotaExceeded> {
        let now = self.clock.uptime();
        if let Some(at) = self.turns.lock().too_far(now, now + max_hold) {
            return Err(self.exceeded(at));
        }
        if let Some(quota) = &client.quota {
            self.has_left(quota)?;
            self.chunk.lock().count(now);
        }
        if let Some(rate) = &client.rate {
            self.count_turn(*rate, max_hold);
        }
        Ok(())
    }

    /// Takes a turn that no request goes by. Those that come while a question is under way share the next one.
    fn count_turn(self: &Arc<Self>, rate: Rate, max_hold: Duration) {
        self.refused.fetch_add(1, Ordering::AcqRel);
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if self.is_counting.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = Arc::clone(self);
        runtime.spawn(async move {
            loop {
                let wanted = this.refused.swap(0, Ordering::AcqRel);
                if wanted > 0 {
                    let reserved = this.reserve(&rate, wanted.into(), max_hold, max_hold).await;
                    // Without an answer the turns have perhaps not counted: nothing was sent.
                    if let Ok(reserved) = reserved {
                        let now = this.clock.uptime();
                        this.turns.lock().learn_next(now, &reserved);
                    }
                    continue;
                }
                this.is_counting.store(false, Ordering::Release);
                // One that came in between has found a question under way.
                if this.refused.load(Ordering::Acquire) == 0
                    || this.is_counting.swap(true, Ordering::AcqRel)
                {
                    return;
                }
            }
        });
    }

    /// Checks that the quota leaves room for a request, as far as is known here.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when it does not.
    pub(super) fn has_left(&self, quota: &Quota) -> Result<(), QuotaExceeded> {
        let now = self.clock.uptime();
        match self.chunk.lock().has_exceeded(quota, now) {
            Some(at) => Err(self.exceeded(at)),
            None => Ok(()),
        }
    }

    /// Adds octets.
    pub(super) fn add_bytes(&self, bytes: u64) {
        let now = self.clock.uptime();
        self.chunk.lock().add_bytes(bytes, now);
    }

    /// Tells the engine what it has to know by now.
    pub(super) fn on_heartbeat(self: &Arc<Self>, client: &Client, generation: u64) {
        if self.generation.swap(generation, Ordering::AcqRel) != generation {
            // The engine gives the same turns again, and knows no totals.
            *self.turns.lock() = Turns::default();
            self.chunk.lock().is_forgotten();
        }
        let Some(quota) = client.quota else {
            return;
        };
        let now = self.clock.uptime();
        if !self.chunk.lock().has_report(&quota, now) {
            return;
        }
        // A question that is under way tells the totals, too.
        let Ok(one) = Arc::clone(&self.asking).try_lock_owned() else {
            return;
        };
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let question = this.chunk.lock().tell(&quota, this.clock.uptime());
            // A later heartbeat tells what the engine has not heard.
            let _ = this.charge(&quota, question).await;
            drop(one);
        });
    }

    /// Gives back what is not used.
    pub(super) async fn leave(&self, quota: &Quota) {
        let _one = self.asking.lock().await;
        let now = self.clock.uptime();
        let question = self.chunk.lock().give_all_back(quota, now);
        if let Some(question) = question {
            // If the engine does not answer, these requests are lost until the span ends.
            let _ = self.charge(quota, question).await;
        }
    }

    /// Takes a request out of the quota. True if that took a question.
    async fn take(
        self: &Arc<Self>,
        quota: &Quota,
        until: Uptime,
    ) -> Result<(Taken, bool), NotEntered> {
        let guard = WaiterGuard::new(&self.for_chunk);
        let mut has_waited = false;
        loop {
            if let Some(taken) = self.try_take(quota)? {
                return Ok((taken, has_waited));
            }
            has_waited = true;
            let asking = Arc::clone(&self.asking).lock_owned();
            let one = timeout(until.since(self.clock.uptime()), asking).await;
            let Ok(one) = one else {
                return Err(NotEntered::Unanswered);
            };
            if let Some(taken) = self.try_take(quota)? {
                return Ok((taken, has_waited));
            }
            let now = self.clock.uptime();
            let question = self.chunk.lock().ask(quota, guard.count(), now);
            let (this, quota_then) = (Arc::clone(self), *quota);
            // A separate task, so that what the engine gives is kept if the client disconnects meanwhile.
            let charged = tokio::spawn(async move {
                let charged = this.charge(&quota_then, question).await;
                drop(one);
                charged
            });
            let wait = match charged.await {
                Ok(Ok(charged)) if charged.wait.is_zero() => continue,
                Ok(Ok(charged)) => charged.wait,
                Ok(Err(_)) | Err(_) => ENGINE_RETRY,
            };
            let left = until.since(self.clock.uptime());
            if left.is_zero() || self.is_cut_off() {
                return Err(NotEntered::Unanswered);
            }
            sleep(wait.min(left)).await;
        }
    }

    fn try_take(&self, quota: &Quota) -> Result<Option<Taken>, NotEntered> {
        let now = self.clock.uptime();
        match self.chunk.lock().take(quota, now) {
            Take::Taken(taken) => Ok(Some(taken)),
            Take::Ask => Ok(None),
            Take::Exceeded(at) => Err(self.exceeded(at).into()),
        }
    }

    async fn charge(
        &self,
        quota: &Quota,
        question: QuotaQuestion,
    ) -> Result<Charged, CoordinatorError> {
        let ask = ChargeQuota {
            account: &self.id,
            instance: self.fleet.name(),
            per: quota.per,
            span: question.span,
            requests: question.mine.requests,
            bytes: question.mine.bytes,
            returned: question.returned,
            wanted: question.wanted,
            most_requests: quota.requests,
            most_bytes: quota.bytes,
            members: self.fleet.status().members().max(1),
            after: REPORTED,
        };
        let charged = self.fleet.coordinator().charge_quota(ask).await?;
        let now = self.clock.uptime();
        self.chunk.lock().answered(question, &charged, now);
        Ok(charged)
    }

    /// Takes a turn at the rate. True if that took a question.
    async fn turn(
        &self,
        rate: &Rate,
        max_hold: Duration,
        until: Uptime,
    ) -> Result<(Turn, bool), NotEntered> {
        let guard = WaiterGuard::new(&self.for_turn);
        let mut has_waited = false;
        loop {
            if let Some(turn) = self.try_turn(until)? {
                return Ok((turn, has_waited));
            }
            has_waited = true;
            let reserving = self.reserving.lock();
            let Ok(one) = timeout(until.since(self.clock.uptime()), reserving).await else {
                return Err(NotEntered::Unanswered);
            };
            if let Some(turn) = self.try_turn(until)? {
                return Ok((turn, has_waited));
            }
            let left = until.since(self.clock.uptime());
            let reserved = self.reserve(rate, guard.count(), left, max_hold).await;
            let now = self.clock.uptime();
            drop(one);
            match reserved {
                Ok(reserved) => {
                    let is_none = reserved.turns.is_empty();
                    self.turns.lock().learn(now, &reserved);
                    if is_none {
                        return Err(self.exceeded(now + reserved.next).into());
                    }
                }
                Err(_) if left.is_zero() || self.is_cut_off() => {
                    return Err(NotEntered::Unanswered);
                }
                Err(_) => sleep(ENGINE_RETRY.min(left)).await,
            }
        }
    }

    fn try_turn(&self, until: Uptime) -> Result<Option<Turn>, NotEntered> {
        let now = self.clock.uptime();
        let mut turns = self.turns.lock();
        let taken = match self.fleet.link() {
            // The engine may have lost the turns in hand.
            LinkState::Doubtful => None,
            LinkState::Connected | LinkState::CutOff => turns.take(now),
        };
        match (taken, turns.too_far(now, until)) {
            (Some(turn), _) => Ok(Some(turn)),
            (None, Some(at)) => Err(self.exceeded(at).into()),
            (None, None) => Ok(None),
        }
    }

    async fn reserve(
        &self,
        rate: &Rate,
        wanted: u64,
        horizon: Duration,
        max_hold: Duration,
    ) -> Result<Reserved, CoordinatorError> {
        let ask = Reserve {
            origin: &self.id,
            kind: TurnKind::Page,
            wanted: u32::try_from(wanted).unwrap_or(u32::MAX),
            horizon,
            interval: Duration::from_micros(in_micros(rate).interval),
            burst: rate.burst,
            group: None,
            rest: Duration::ZERO,
            gap: Duration::ZERO,
            slots: None,
            memory: max_hold,
        };
        self.fleet.coordinator().reserve(ask).await
    }

    fn is_cut_off(&self) -> bool {
        self.fleet.link() == LinkState::CutOff
    }

    fn exceeded(&self, until: Uptime) -> QuotaExceeded {
        QuotaExceeded(self.clock.now() + until.since(self.clock.uptime()))
    }
}

impl Turns {
    /// Takes the first turn that is not lost.
    fn take(&mut self, now: Uptime) -> Option<Turn> {
        while let Some(turn) = self.granted.pop_front() {
            if turn.due + LATE >= now {
                return Some(turn);
            }
        }
        None
    }

    /// Returns the time of the next turn if it is known to come after `until`.
    fn too_far(&self, now: Uptime, until: Uptime) -> Option<Uptime> {
        let (at, is_known_until) = self.next?;
        (now < is_known_until && at > until).then_some(at)
    }

    /// Takes in an answer that arrived now.
    fn learn(&mut self, now: Uptime, reserved: &Reserved) {
        self.granted.extend(reserved.turns.iter().map(|turn| Turn {
            due: now + turn.after,
            at: turn.at,
        }));
        self.learn_next(now, reserved);
    }

    /// Takes in only the time of the next turn.
    fn learn_next(&mut self, now: Uptime, reserved: &Reserved) {
        self.next = Some((now + reserved.next, now + ENGINE_RETRY));
    }
}

#[cfg(test)]
mod tests;
