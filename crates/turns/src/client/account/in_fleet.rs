//! A client's usage that the instances of a fleet keep together, in the engine.
//!
//! The rate has turns there, as an origin has them: each request that waits reserves a turn. A quota is taken in
//! chunks. While the engine does not answer, what is at hand is used up, and then requests are held.

mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{sleep, timeout};

use self::waits::{Row, Turn, Turns, WaiterGuard};
use super::alone::in_micros;
use super::chunk::{Chunk, QuotaQuestion, Take, Taken};
use super::{ChargedUsage, NotEntered, QuotaExceeded, Reservation};
use crate::client::Client;
use crate::fleet::coordinator::CoordinatorError;
use crate::fleet::quota::{ChargeQuota, Charged, REPORTED};
use crate::fleet::reservation::{ENGINE_RETRY, Reserve, Reserved, TurnKind};
use crate::fleet::{EngineTime, Fleet, LinkState};
use crawlgate_config::{Quota, Rate};
use crawlgate_system::clock::{Clock, Uptime};

/// A client's usage in a fleet.
#[derive(Debug)]
pub(super) struct FleetAccount {
    fleet: Arc<Fleet>,
    clock: Clock,
    /// Names the client in the engine.
    id: Arc<str>,
    chunk: Mutex<Chunk>,
    turns: Mutex<Turns>,
    /// The questions for a chunk, and for turns.
    for_chunk: Row,
    for_turn: Row,
    /// Refused requests that have not taken a turn yet.
    refused: AtomicU32,
    /// True while a task takes turns for them.
    is_counting: AtomicBool,
    /// The generation of the engine that was heard of last.
    generation: AtomicU64,
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
            id: format!("client:{}", fleet.key().alias(name)).into(),
            fleet,
            clock,
            chunk: Mutex::default(),
            turns: Mutex::default(),
            for_chunk: Row::default(),
            for_turn: Row::default(),
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
        // Dropped with its request, it gives back what was taken by then.
        let mut entered = Reservation { entry: None, hold: Duration::ZERO, has_waited: false };
        let mut entry =
            Entry { taken: None, turn: None, generation: self.generation.load(Ordering::Acquire) };
        if let Some(quota) = &client.quota {
            let (taken, has_waited) = self.take(quota, until).await?;
            entry.taken = Some(taken);
            entered.has_waited = has_waited;
        }
        entered.entry = Some(ChargedUsage::InFleet(self, entry));
        if let Some(rate) = &client.rate {
            entry.generation = self.generation.load(Ordering::Acquire);
            let (turn, has_waited) = self.turn(rate, max_hold, until).await?;
            entry.turn = Some(turn.at);
            entered.entry = Some(ChargedUsage::InFleet(self, entry));
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
        if let Some(at) = entry.turn {
            self.turns.lock().next = None;
            self.fleet.give_back(Arc::clone(&self.id), at, None);
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
        let Ok(one) = Arc::clone(&self.for_chunk.asking).try_lock_owned() else {
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
        let _one = self.for_chunk.asking.lock().await;
        let now = self.clock.uptime();
        let question = self.chunk.lock().give_all_back(quota, now);
        if let Some(question) = question {
            // If the engine does not answer, these requests are lost until the span ends.
            let _ = self.charge(quota, question).await;
        }
    }

    /// Takes what is here, at once or after another's question, which sets `has_waited`; or else returns the right to ask.
    async fn take_or_ask<T>(
        &self,
        row: &Row,
        until: Uptime,
        has_waited: &mut bool,
        take: impl Fn() -> Result<Option<T>, NotEntered>,
    ) -> Result<Result<T, OwnedMutexGuard<()>>, NotEntered> {
        if let Some(taken) = take()? {
            return Ok(Ok(taken));
        }
        *has_waited = true;
        let asking = Arc::clone(&row.asking).lock_owned();
        match timeout(until.since(self.clock.uptime()), asking).await {
            Ok(one) => Ok(take()?.ok_or(one)),
            Err(_) => Err(NotEntered::Unanswered),
        }
    }

    /// Waits before the next question, for no longer than the request waits.
    async fn pause(&self, wait: Duration, left: Duration) -> Result<(), NotEntered> {
        if left.is_zero() || self.fleet.link() == LinkState::CutOff {
            return Err(NotEntered::Unanswered);
        }
        sleep(wait.min(left)).await;
        Ok(())
    }

    /// Takes a request out of the quota. True if that took a question.
    async fn take(
        self: &Arc<Self>,
        quota: &Quota,
        until: Uptime,
    ) -> Result<(Taken, bool), NotEntered> {
        let (row, mut has_waited) = (&self.for_chunk, false);
        let guard = WaiterGuard::new(&row.waiting);
        loop {
            let take = || self.try_take(quota);
            let one = match self.take_or_ask(row, until, &mut has_waited, take).await? {
                Ok(taken) => return Ok((taken, has_waited)),
                Err(one) => one,
            };
            let now = self.clock.uptime();
            let question = self.chunk.lock().ask(quota, guard.count(), now);
            let (this, quota_then) = (Arc::clone(self), *quota);
            // Of its own, so that what the engine gives stays at hand when the client disconnects meanwhile.
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
            self.pause(wait, until.since(self.clock.uptime())).await?;
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
        let (row, mut has_waited) = (&self.for_turn, false);
        let guard = WaiterGuard::new(&row.waiting);
        loop {
            let take = || self.try_turn(until);
            let one = match self.take_or_ask(row, until, &mut has_waited, take).await? {
                Ok(turn) => return Ok((turn, has_waited)),
                Err(one) => one,
            };
            let left = until.since(self.clock.uptime());
            let reserved = self.reserve(rate, guard.count(), left, max_hold).await;
            let now = self.clock.uptime();
            drop(one);
            let Ok(reserved) = reserved else {
                self.pause(ENGINE_RETRY, left).await?;
                continue;
            };
            self.turns.lock().learn(now, &reserved);
            if reserved.turns.is_empty() {
                return Err(self.exceeded(now + reserved.next).into());
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

    fn exceeded(&self, until: Uptime) -> QuotaExceeded {
        QuotaExceeded(self.clock.now() + until.since(self.clock.uptime()))
    }
}

#[cfg(test)]
mod tests;
