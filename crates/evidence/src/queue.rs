//! The queue between the exchanges, which must not wait, and the writer, which may have to.
//!
//! Entries gather in one buffer, with their grounds beside it: origin updates and objects. The writer takes the buffer
//! as a whole and leaves an empty one. Grounds queued before a record are taken no later than the record. The queue
//! publishes its state as one small number, so that the check before every request costs one load.

mod content;
mod writer_side;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

pub use self::content::QueuedState;
use self::content::{Inner, WriterState};
pub(super) use self::content::{Unrecorded, add_withdrawal};
pub(super) use self::writer_side::Batch;
use super::{
    counts::Counts,
    error::LogFailed,
    forwarded::Forwarded,
    grounds::Grounds,
    repeats::{Admission, Allowance, Refusal},
};
use crawlgate_record::{Decision, Digest, EventKind};
use crawlgate_robots::Origin;
use crawlgate_store::{Appended, Object, OriginUpdate};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_text::DecisionId;

/// Bounds of the queue, in octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// From this bound on, the writer gathers no longer. At most `wait`.
    pub(super) write: usize,
    /// Above this bound, requests wait before they are judged.
    pub(super) wait: usize,
    /// Above this bound, records are lost. Those between the two bounds belong to requests that were judged already.
    pub(super) lose: usize,
}

/// Entries on their way to the writer.
#[derive(Debug)]
pub(super) struct Queue {
    /// A [`State`], for readers without the lock. Changed only under the lock of `inner`.
    state: AtomicU8,
    /// True if requests are denied while records cannot be written.
    deny: AtomicBool,
    /// True if the answers of denials wait until their records outlive a power cut.
    is_strict: AtomicBool,
    bounds: Bounds,
    clock: Clock,
    inner: Mutex<Inner>,
    /// Wakes the writer.
    wake: Condvar,
    /// Wakes tasks that wait for the writer: it has written, or failed, or ended.
    moved: Notify,
    pub(super) counts: Counts,
    pub(super) forwarded: Forwarded,
}

/// The size of a queue's content.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    /// Approximate octets.
    pub(super) octets: usize,
    /// Entries, origin updates and settings.
    pub(super) entries: u64,
    /// True if the writer cannot write at present.
    pub(super) is_failing: bool,
    /// True if records reach the store late, until a batch is in time.
    pub(super) is_behind: bool,
}

impl Backlog {
    /// Tells whether records reach the store late, and some wait now. Without traffic no batch is in time any more, and a
    /// process that gets requests only while it is ready would never be.
    pub(super) fn holds_up_requests(&self) -> bool {
        self.is_behind && self.entries > 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Open,
    /// Requests wait: the queue is full, or its records are late.
    Full,
    Refusing,
}

impl Queue {
    pub(super) fn new(bounds: Bounds, deny: bool, clock: Clock) -> Self {
        Self {
            state: AtomicU8::new(State::Open as u8),
            deny: AtomicBool::new(deny),
            is_strict: AtomicBool::default(),
            bounds,
            clock,
            inner: Mutex::new(Inner::new()),
            wake: Condvar::new(),
            moved: Notify::new(),
            counts: Counts::default(),
            forwarded: Forwarded::default(),
        }
    }

    /// See [`Log::ready`](super::Log::ready).
    pub(super) async fn ready(&self) -> Result<(), LogFailed> {
        if self.state.load(Ordering::Acquire) == State::Open as u8 {
            return Ok(());
        }
        // Boxed: a rare wait should not burden every request's future.
        let answer = Box::pin(self.wait(|inner, state| match state {
            State::Open => Some(Ok(())),
            State::Full => None,
            State::Refusing => Some(Err(inner.failure())),
        }))
        .await;
        if answer.is_err() {
            self.refused(self.clock.now());
        }
        answer
    }

    /// Queues the counts so far of requests without a record of their own.
    pub(super) fn tell_counts(&self, now: Moment) {
        let mut inner = self.inner.lock();
        let mut repeats = Vec::new();
        inner.repeats.tell_so_far(|entry| repeats.push(entry));
        for entry in repeats {
            self.add(&mut inner, |inner| inner.put_repeats(&entry));
        }
        if let Some(sum) = self.forwarded.take(now, true) {
            sum.tell(|kind| self.add(&mut inner, |inner| inner.tell(kind, now)));
        }
    }

    /// See [`Log::flush`](super::Log::flush).
    pub(super) async fn flush(&self) -> Result<(), LogFailed> {
        let wanted = {
            let mut inner = self.inner.lock();
            inner.hurry = true;
            self.wake.notify_one();
            inner.put
        };
        self.wait(|inner, _| {
            if inner.written >= wanted {
                return Some(Ok(()));
            }
            let stopped = inner.failure.is_some() || inner.life == WriterState::Over;
            stopped.then(|| Err(inner.failure()))
        })
        .await
    }

    /// Queues the entry of a record with the objects that it is the first to name. Otherwise counts it as lost, and returns
    /// false.
    pub(super) fn put(&self, decision: &Decision<'_>, grounds: &Grounds<'_>, entry: &[u8]) -> bool {
        self.put_entry(Moment::from_millis(decision.time()), |inner| {
            inner.name_objects(decision, grounds);
            inner.next.entries.push(|out| out.extend_from_slice(entry));
        })
    }

    /// Lets `put` queue an entry of this time. Otherwise counts it as lost, and returns false.
    fn put_entry(&self, time: Moment, put: impl FnOnce(&mut Inner)) -> bool {
        let mut inner = self.inner.lock();
        let enduring = inner.failure.is_some() && !self.deny.load(Ordering::Relaxed);
        let bound = if enduring { self.bounds.wait } else { self.bounds.lose };
        if inner.held() >= bound || inner.life == WriterState::Over {
            inner.lost.add(time);
            self.counts.lost();
            return false;
        }
        self.add(&mut inner, put);
        true
    }

    /// Queues the start of this process, which then tells its end, too.
    pub(super) fn begin(&self, configuration: Digest, now: Moment) {
        let mut inner = self.inner.lock();
        inner.configuration = Some(configuration);
        self.add(&mut inner, |inner| {
            inner.tell_process(false, now);
        });
    }

    /// Tells whether the start of this process was told, and its end was not.
    pub(super) fn has_begun(&self) -> bool {
        self.inner.lock().configuration.is_some()
    }

    /// Queues an event, if the start of this process was told.
    pub(super) fn tell(&self, kind: EventKind<'_>, now: Moment) {
        let mut inner = self.inner.lock();
        if inner.configuration.is_some() && inner.life == WriterState::Running {
            self.add(&mut inner, |inner| inner.tell(kind, now));
        }
    }

    /// Notes what the store has appended.
    pub(super) fn appended(&self, appended: Appended) {
        let mut inner = self.inner.lock();
        inner.appended.push_back(appended);
        self.wake.notify_one();
    }

    /// Tells whether a refusal gets its own record: while its client has single records left in this minute.
    /// Counts it otherwise.
    pub(super) fn admits(&self, refusal: &Refusal<'_>, allowance: Allowance) -> bool {
        let mut inner = self.inner.lock();
        let mut over = None;
        let admission = inner.repeats.admits(refusal, allowance, |entry| over = Some(entry));
        if let Some(entry) = over {
            self.add(&mut inner, |inner| inner.put_repeats(&entry));
        }
        match admission {
            Admission::Recorded => true,
            Admission::CountedFirst => {
                // A writer that sleeps on an empty queue must learn that there is a count to report.
                self.wake.notify_one();
                self.counts.repeat();
                false
            }
            Admission::Counted => {
                self.counts.repeat();
                false
            }
        }
    }

    /// Takes back the record of a request that was answered `log_failed` instead. A record that the writer has taken is
    /// left to the writer.
    pub(super) fn withdraw(&self, id: DecisionId, now: Moment) {
        let mut inner = self.inner.lock();
        if inner.next.entries.withdraw(id) {
            // Objects without an entry would be dropped as unused, and later records name them.
            if inner.next.entries.is_empty() && !inner.next.objects.is_empty() {
                self.add(&mut inner, |inner| inner.tell_withdrawal(id, now));
            } else {
                inner.refused.add(now);
            }
            return;
        }
        match inner.taken {
            // The writer was faster.
            0 => self.add(&mut inner, |inner| inner.tell_withdrawal(id, now)),
            _ => inner.withdrawn.push(id),
        }
    }

    /// Queues the event that a request was answered `log_failed`. The record stays: the request had gone out.
    pub(super) fn answered_log_failed(&self, id: DecisionId, now: Moment) {
        let mut inner = self.inner.lock();
        self.add(&mut inner, |inner| inner.tell_withdrawal(id, now));
    }

    /// Returns the size of the queue's content.
    pub(super) fn backlog(&self) -> Backlog {
        let inner = self.inner.lock();
        Backlog {
            octets: inner.held(),
            entries: inner.put - inner.written,
            is_failing: inner.failure.is_some(),
            is_behind: inner.delay.is_behind,
        }
    }

    /// Queues the update of an origin. Beyond the last bound the update is dropped, as records are.
    pub(super) fn put_update(&self, update: OriginUpdate) {
        let mut inner = self.inner.lock();
        if inner.held() >= self.bounds.lose || inner.life == WriterState::Over {
            return;
        }
        self.add(&mut inner, |inner| {
            let text = update.state.snapshot().map(|one| one.robots.text().len());
            inner.weight += 512 + text.unwrap_or_default();
            let queued = QueuedState {
                identity: update.fetch.identity.clone(),
                user_agent: Arc::clone(&update.user_agent),
                state: Arc::clone(&update.state),
            };
            let place = inner.put + 1;
            let of_origin = inner.updates.entry(update.origin.clone()).or_default();
            of_origin.retain(|(earlier, _)| earlier.identity != queued.identity);
            of_origin.push((queued, place));
            inner.next.updates.push(update);
        });
    }

    /// Queues an object that later records will name.
    pub(super) fn object(&self, object: Object) {
        let mut inner = self.inner.lock();
        if inner.life == WriterState::Over {
            return;
        }
        self.add(&mut inner, |inner| inner.put_object(object));
    }

    /// Returns the failure that stops the writer at present.
    pub(super) fn failure(&self) -> Option<LogFailed> {
        let inner = self.inner.lock();
        let is_over = inner.life == WriterState::Over;
        (is_over || inner.failure.is_some()).then(|| inner.failure())
    }

    /// Returns the unwritten states of an origin, the latest for each identity.
    pub(super) fn queued_states(&self, origin: &Origin) -> Vec<QueuedState> {
        let inner = self.inner.lock();
        let pending = inner.updates.get(origin).into_iter().flatten();
        pending.map(|(pending, _)| pending.clone()).collect()
    }

    /// Adds one entry to the writer's next batch, and wakes the writer if need be.
    fn add(&self, inner: &mut Inner, put: impl FnOnce(&mut Inner)) {
        let was_empty = inner.is_empty();
        let held = inner.held();
        if was_empty {
            inner.since = Some(self.clock.uptime());
        }
        put(inner);
        inner.put += 1;
        let reaches = |bound| held < bound && inner.held() >= bound;
        let is_enough_now = reaches(self.bounds.write);
        if reaches(self.bounds.wait) {
            self.publish(inner);
        }
        // A sleeping writer waits on an empty queue; a gathering one is woken when there is enough.
        if was_empty || is_enough_now {
            self.wake.notify_one();
        }
    }

    /// Sets whether requests are denied while the log fails.
    pub(super) fn set_deny(&self, deny: bool) {
        let inner = self.inner.lock();
        self.deny.store(deny, Ordering::Relaxed);
        self.publish(&inner);
    }

    /// Sets whether batches that the writer takes from now on must outlive a power cut.
    pub(super) fn set_strict(&self, is_strict: bool) {
        self.is_strict.store(is_strict, Ordering::Release);
    }

    /// Asks the writer to write the rest and end.
    pub(super) fn close(&self) {
        let mut inner = self.inner.lock();
        if inner.life == WriterState::Running {
            inner.life = WriterState::Closing;
        }
        self.wake.notify_one();
    }

    /// Returns whether all records are written: the result of [`close`](Self::close) after the writer's end.
    pub(super) fn outcome(&self) -> Result<(), LogFailed> {
        let inner = self.inner.lock();
        match inner.put - inner.written + inner.lost.count {
            0 => Ok(()),
            count => Err(inner.failure().at_the_end(count)),
        }
    }

    /// Waits until `answer` returns one.
    async fn wait<T>(&self, answer: impl Fn(&Inner, State) -> Option<T>) -> T {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Enable before the check, or a change in between would go unnoticed.
            moved.as_mut().enable();
            let answer = {
                let inner = self.inner.lock();
                answer(&inner, self.state_of(&inner))
            };
            match answer {
                Some(answer) => return answer,
                None => moved.await,
            }
        }
    }

    fn state_of(&self, inner: &Inner) -> State {
        let deny = self.deny.load(Ordering::Relaxed);
        match inner.life {
            WriterState::Over if deny => State::Refusing,
            WriterState::Over => State::Open,
            _ if inner.failure.is_some() && deny => State::Refusing,
            // Records without room are counted.
            _ if inner.failure.is_some() => State::Open,
            _ if inner.held() >= self.bounds.wait || inner.delay.is_late => State::Full,
            _ => State::Open,
        }
    }

    fn publish(&self, inner: &Inner) {
        self.state.store(self.state_of(inner) as u8, Ordering::Release);
        self.moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
