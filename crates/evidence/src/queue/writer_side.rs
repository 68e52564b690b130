//! The writer's side of the queue: it takes whole batches, and tells what has become of them.

use std::mem;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::{error, info, warn};

use super::Queue;
use super::content::{Inner, Unrecorded, WriterState};
use crate::error::LogFailed;
use crawlgate_store::{self as store, Appended, Entries};
use crawlgate_system::clock::{Clock, Moment, Uptime};
use crawlgate_text::DecisionId;

/// Interval between two checks for counts to report, while no entries come.
const LOOK: Duration = Duration::from_secs(5);

/// Interval between two looks whether an hour is over, while no lines come.
const LOOK_FORWARDED: Duration = Duration::from_secs(60);

/// A record reaches the store within this time, or requests wait.
const LATE: Duration = Duration::from_millis(100);

/// A delay of this length is told. So is a number of late batches in a row.
const BEHIND: Duration = Duration::from_secs(1);
const LATE_IN_A_ROW: u32 = 5;

/// A write that takes this long is a failure, until it ends.
const STUCK: Duration = Duration::from_secs(5);

/// Data that the writer takes at once.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Reading of the clock when the first entry was queued.
    since: Uptime,
    /// Reading of the clock when the writer took the batch.
    taken: Uptime,
    /// The data to write.
    pub(crate) content: store::Batch,
    /// Number of objects in it that were queued before the queue forgot them.
    pub(crate) forgotten: Option<usize>,
    /// Number of entries that were ever queued up to here.
    upto: u64,
}

impl Batch {
    /// Returns the time since the batch had gathered for `gather`, and was to be taken.
    pub(crate) fn delay(&self, gather: Duration, clock: &Clock) -> Duration {
        let waited = self.taken.since(self.since).saturating_sub(gather);
        waited + clock.uptime().since(self.taken)
    }

    /// Tells whether there is nothing to write: the store has appended events meanwhile, which sinks have not.
    pub(crate) fn is_empty(&self) -> bool {
        let store::Batch { updates, objects, entries, is_durable: _ } = &self.content;
        updates.is_empty() && objects.is_empty() && entries.is_empty()
    }
}

impl Queue {
    /// Sleeps until there is an entry, gathers for `gather`, and takes all entries, leaving `spare` for those to
    /// come. `None` if the queue was closed and is empty.
    pub(crate) fn take(&self, spare: Entries, gather: Duration, clock: &Clock) -> Option<Batch> {
        let mut inner = self.inner.lock();
        loop {
            if inner.is_empty() && inner.written < inner.put {
                // The rest was withdrawn.
                inner.written = inner.put;
                self.publish(&inner);
            }
            let now = clock.now();
            inner.tell_repeats(now);
            inner.tell_forwarded(&self.forwarded, now);
            inner.tell_end(now);
            if !inner.is_empty() || inner.has_appended() || inner.life != WriterState::Running {
                break;
            }
            inner.hurry = false;
            if inner.repeats.is_pending() {
                self.wake.wait_for(&mut inner, LOOK);
            } else {
                self.wake.wait_for(&mut inner, LOOK_FORWARDED);
            }
        }
        if inner.is_empty() && !inner.has_appended() {
            inner.life = WriterState::Over;
            self.publish(&inner);
            return None;
        }
        let enough = inner.hurry || inner.held() >= self.bounds.write;
        // The first entry may have waited for the last write already.
        let waited = inner.since.map_or(Duration::ZERO, |since| clock.uptime().since(since));
        let gather = gather.saturating_sub(waited);
        if inner.life == WriterState::Running && !enough && !gather.is_zero() {
            self.wake.wait_for(&mut inner, gather);
        }
        inner.hurry = false;
        inner.taken = inner.held();
        let taken = clock.uptime();
        let since = inner.since.take().unwrap_or(taken);
        inner.weight = 0;
        let next = store::Batch { entries: spare, ..store::Batch::default() };
        Some(Batch {
            forgotten: inner.forgotten.take(),
            content: store::Batch {
                is_durable: self.is_strict.load(Ordering::Acquire),
                ..mem::replace(&mut inner.next, next)
            },
            upto: inner.put,
            since,
            taken,
        })
    }

    /// Looks how long the current batch has waited: when it is late, requests wait with it; when its write is stuck,
    /// requests are refused. Returns the time until the next look.
    pub(crate) fn look(&self, batch: &Batch, clock: &Clock) -> Option<Duration> {
        let now = clock.uptime();
        let age = now.since(batch.since);
        if age < LATE {
            return Some(LATE - age);
        }
        let writing = now.since(batch.taken);
        if writing >= STUCK {
            let error = format!("the disk has not taken the last write for {} s", STUCK.as_secs());
            if self.failed(LogFailed::new("the store", &error)) {
                error!(%error, "decisions cannot be recorded; requests wait no longer for it");
            }
            return None;
        }
        let mut inner = self.inner.lock();
        if inner.failure.is_some() {
            return None; // told
        }
        if !inner.delay.is_late {
            inner.delay.is_late = true;
            inner.delay.late_in_a_row += 1;
            self.counts.late();
            self.publish(&inner);
        }
        let is_long = age >= BEHIND || inner.delay.late_in_a_row >= LATE_IN_A_ROW;
        if is_long && !inner.delay.is_behind {
            inner.delay.is_behind = true;
            warn!(
                ms = age.as_millis(),
                "decisions reach the store late, and requests wait for them: the disk is slow"
            );
        }
        Some(if age < BEHIND { BEHIND - age } else { STUCK - writing })
    }

    /// Takes the lines of events that the store has appended before the current batch, or of all if it has not written
    /// that.
    pub(crate) fn take_appended(&self) -> Vec<Box<str>> {
        let mut inner = self.inner.lock();
        let mut lines = Vec::new();
        while let Some(Appended::Event(line)) = inner.appended.pop_front() {
            lines.push(line);
        }
        lines
    }

    /// Counts a request that was answered `log_failed` and has no record.
    pub(crate) fn refused(&self, now: Moment) {
        self.inner.lock().refused.add(now);
    }

    /// Takes the records of the current batch that were withdrawn.
    pub(crate) fn take_withdrawn(&self) -> Vec<DecisionId> {
        mem::take(&mut self.inner.lock().withdrawn)
    }

    /// Marks `batch` as written. After a failure, returns the numbers of records lost and of requests refused meanwhile;
    /// entries about them are then in the queue.
    pub(crate) fn wrote(&self, batch: &Batch, now: Moment) -> Option<Unrecorded> {
        let mut inner = self.inner.lock();
        inner.taken = 0;
        inner.end_delay();
        // If no sink needed a line of the batch, its mark is still among the events.
        let is_event = |one: &Appended| matches!(one, Appended::Event(_));
        inner.appended.retain(is_event);
        // Too late to take them back: another entry says which answer left.
        for id in mem::take(&mut inner.withdrawn) {
            inner.tell_withdrawal(id, now);
            inner.put += 1;
        }
        inner.written = batch.upto;
        inner.updates.retain(|_, of_origin| {
            of_origin.retain(|(_, place)| *place > batch.upto);
            !of_origin.is_empty()
        });
        let recovered = inner.failure.take().is_some();
        let unrecorded = inner.tell_unrecorded(now);
        self.publish(&inner);
        (recovered || unrecorded.lost > 0).then_some(unrecorded)
    }

    /// Marks the current batch as failed for now. True the first time.
    pub(crate) fn failed(&self, failure: LogFailed) -> bool {
        let mut inner = self.inner.lock();
        let is_news = inner.failure.replace(failure).is_none();
        self.publish(&inner);
        is_news
    }

    /// Tells whether the queue was closed, so that a failed attempt was the last one. Earlier entries are in the batch.
    pub(crate) fn is_closing(&self) -> bool {
        self.inner.lock().life != WriterState::Running
    }

    /// Waits for the time of the next attempt, which comes sooner if a task flushes or closes the queue.
    pub(crate) fn pause(&self, retry: Duration) {
        let mut inner = self.inner.lock();
        if inner.life == WriterState::Running {
            inner.hurry = false;
            self.wake.wait_for(&mut inner, retry);
        }
    }

    /// Marks the writer as ended, for whatever reason.
    pub(crate) fn end(&self) {
        let mut inner = self.inner.lock();
        inner.life = WriterState::Over;
        self.publish(&inner);
    }
}

impl Inner {
    /// Notes that the current batch is written.
    fn end_delay(&mut self) {
        let delay = &mut self.delay;
        if mem::take(&mut delay.is_late) {
            return;
        }
        delay.late_in_a_row = 0;
        if mem::take(&mut delay.is_behind) {
            info!("decisions reach the store in time again");
        }
    }
}
