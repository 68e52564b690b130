//! The writer's side of the queue: it takes whole batches, and tells what has become of them.

use std::mem;
use std::time::Duration;

use super::Queue;
use super::content::Life;
use crate::audit::error::LogFailed;
use crate::clock::{Clock, Moment};
use crate::store::{self, Party, RecordSummary};

/// Interval between two checks for counts to report, while no lines come.
const LOOK: Duration = Duration::from_secs(5);

/// Data that the writer takes at once.
#[derive(Debug)]
pub(in crate::audit) struct Batch {
    /// The data to write; not empty.
    pub(in crate::audit) content: store::Batch,
    /// Number of entries that were ever queued up to here.
    upto: u64,
}

impl Queue {
    /// Sleeps until there is an entry, gathers for `gather`, and takes all entries, leaving `spare` for the lines to
    /// come. `None` if the queue was closed and is empty.
    pub(in crate::audit) fn take(
        &self,
        spare: Vec<u8>,
        gather: Duration,
        clock: &Clock,
    ) -> Option<Batch> {
        let mut inner = self.inner.lock();
        loop {
            inner.tell_repeats(clock.now());
            if !inner.is_empty() || inner.life != Life::Running {
                break;
            }
            inner.hurry = false;
            if inner.repeats.is_pending() {
                self.wake.wait_for(&mut inner, LOOK);
            } else {
                self.wake.wait(&mut inner);
            }
        }
        if inner.is_empty() {
            inner.life = Life::Over;
            self.publish(&inner);
            return None;
        }
        let enough = inner.hurry || inner.held() >= self.bounds.wait;
        if inner.life == Life::Running && !enough {
            self.wake.wait_for(&mut inner, gather);
        }
        inner.hurry = false;
        inner.taken = inner.held();
        inner.weight = 0;
        let next = store::Batch {
            lines: spare,
            ..store::Batch::default()
        };
        Some(Batch {
            content: mem::replace(&mut inner.next, next),
            upto: inner.put,
        })
    }

    /// Marks `batch` as written. After a failure, returns the number of records lost meanwhile; a line about them is
    /// then in the queue.
    pub(in crate::audit) fn wrote(&self, batch: &Batch, now: Moment) -> Option<u64> {
        let mut inner = self.inner.lock();
        inner.taken = 0;
        inner.written = batch.upto;
        inner.landings.retain(|_, of_origin| {
            of_origin.retain(|(_, place)| *place > batch.upto);
            !of_origin.is_empty()
        });
        let recovered = inner.failure.take().is_some();
        let lost = inner.lost.take();
        if let Some(lost) = lost {
            lost.write_line(now, &mut inner.next.lines);
            inner.note(RecordSummary {
                time: now,
                party: Party::Own,
                kind: None,
                count: lost.count,
                sha256: None,
            });
            inner.put += 1;
        }
        self.publish(&inner);
        let lost = lost.map_or(0, |lost| lost.count);
        (recovered || lost > 0).then_some(lost)
    }

    /// Marks the batch at hand as failed for now. True the first time.
    pub(in crate::audit) fn failed(&self, failure: LogFailed) -> bool {
        let mut inner = self.inner.lock();
        let is_news = inner.failure.replace(failure).is_none();
        self.publish(&inner);
        is_news
    }

    /// Tells whether the queue was closed, so that a failed attempt was the last one. Earlier entries are in the batch.
    pub(in crate::audit) fn is_closing(&self) -> bool {
        self.inner.lock().life != Life::Running
    }

    /// Waits for the time of the next attempt, which comes sooner if a task flushes or closes the queue.
    pub(in crate::audit) fn pause(&self, retry: Duration) {
        let mut inner = self.inner.lock();
        if inner.life == Life::Running {
            inner.hurry = false;
            self.wake.wait_for(&mut inner, retry);
        }
    }

    /// Marks the writer as ended, for whatever reason.
    pub(in crate::audit) fn end(&self) {
        let mut inner = self.inner.lock();
        inner.life = Life::Over;
        self.publish(&inner);
    }
}
