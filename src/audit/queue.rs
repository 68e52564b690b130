//! The queue between the exchanges, which must not wait, and the writer, which may have to.
//!
//! Lines gather in one buffer, with their grounds beside it: origin updates and settings. The writer takes the buffer
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

pub use self::content::Landed;
pub(super) use self::content::add_withdrawal;
use self::content::{Inner, Life};
pub(super) use self::writer_side::Batch;
use super::{
    counts::Counts,
    error::LogFailed,
    repeats::{Admission, Allowance},
};
use crate::clock::{Clock, Moment};
use crate::rep::Origin;
use crate::store::{OriginUpdate, RecordSummary};
use crate::text::DecisionId;

/// Bounds of the queue, in octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Above this bound, requests wait before they are judged.
    pub(super) wait: usize,
    /// Above this bound, records are lost. Those between the two bounds belong to requests that were judged already.
    pub(super) lose: usize,
}

/// Lines on their way to the writer.
#[derive(Debug)]
pub(super) struct Queue {
    /// A [`State`], for readers without the lock. Changed under the lock of `inner` alone.
    state: AtomicU8,
    /// True if requests are denied while records cannot be written.
    deny: AtomicBool,
    bounds: Bounds,
    clock: Clock,
    inner: Mutex<Inner>,
    /// Wakes the writer.
    wake: Condvar,
    /// Wakes tasks that wait for the writer: it has written, or failed, or ended.
    moved: Notify,
    pub(super) counts: Counts,
}

/// The size of a queue's content.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    /// Approximate octets.
    pub(super) octets: usize,
    /// Lines, origin updates and settings.
    pub(super) entries: u64,
    /// True if the writer cannot write at present.
    pub(super) is_failing: bool,
    /// True if records reach the store late.
    pub(super) is_behind: bool,
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
            bounds,
            clock,
            inner: Mutex::new(Inner::new()),
            wake: Condvar::new(),
            moved: Notify::new(),
            counts: Counts::default(),
        }
    }

    /// See [`Log::ready`](super::Log::ready).
    pub(super) async fn ready(&self) -> Result<(), LogFailed> {
        if self.state.load(Ordering::Acquire) == State::Open as u8 {
            return Ok(());
        }
        // Boxed: a rare wait should not burden every request's future.
        Box::pin(self.wait(|inner, state| match state {
            State::Open => Some(Ok(())),
            State::Full => None,
            State::Refusing => Some(Err(inner.failure())),
        }))
        .await
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
            let stopped = inner.failure.is_some() || inner.life == Life::Over;
            stopped.then(|| Err(inner.failure()))
        })
        .await
    }

    /// Queues the one line that `write` appends, with its `note`, or counts it as lost.
    pub(super) fn put(&self, note: RecordSummary, write: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.inner.lock();
        let enduring = inner.failure.is_some() && !self.deny.load(Ordering::Relaxed);
        let bound = if enduring {
            self.bounds.wait
        } else {
            self.bounds.lose
        };
        if inner.held() >= bound || inner.life == Life::Over {
            inner.lose(note.time);
            self.counts.lost();
            return;
        }
        self.add(&mut inner, |inner| {
            write(&mut inner.next.lines);
            inner.note(note);
        });
    }

    /// Queues the line of a refusal while its client has single records left in this minute; counts it otherwise.
    pub(super) fn put_refusal(
        &self,
        note: RecordSummary,
        allowance: Allowance,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        {
            let mut inner = self.inner.lock();
            let mut over = None;
            let admission = inner
                .repeats
                .admits(&note, allowance, |line| over = Some(line));
            if let Some(line) = over {
                self.add(&mut inner, |inner| inner.put_line(line));
            }
            match admission {
                Admission::Recorded => {}
                Admission::CountedFirst => {
                    // A writer that sleeps on an empty queue must learn that there is a count to report.
                    self.wake.notify_one();
                    return;
                }
                Admission::Counted => return,
            }
        }
        self.put(note, write);
    }

    /// Takes back the record of a request that was answered `log_failed` instead. A record that the writer has taken is
    /// left to the writer.
    pub(super) fn withdraw(&self, id: DecisionId, now: Moment) {
        let mut inner = self.inner.lock();
        if inner.next.withdraw(id) {
            return;
        }
        match inner.taken {
            // The writer was faster.
            0 => self.add(&mut inner, |inner| inner.tell_withdrawal(id, now)),
            _ => inner.withdrawn.push(id),
        }
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
    pub(super) fn land(&self, landing: OriginUpdate) {
        let mut inner = self.inner.lock();
        if inner.held() >= self.bounds.lose || inner.life == Life::Over {
            return;
        }
        self.add(&mut inner, |inner| {
            let text = landing.state.snapshot().map(|one| one.robots.text().len());
            inner.weight += 512 + text.unwrap_or_default();
            let landed = Landed {
                identity: landing.fetch.identity.clone(),
                user_agent: Arc::clone(&landing.user_agent),
                state: Arc::clone(&landing.state),
            };
            let place = inner.put + 1;
            let of_origin = inner.landings.entry(landing.origin.clone()).or_default();
            of_origin.retain(|(earlier, _)| earlier.identity != landed.identity);
            of_origin.push((landed, place));
            inner.next.landings.push(landing);
        });
    }

    /// Queues settings that later records will name.
    pub(super) fn policy(&self, digest: Arc<str>, text: Arc<str>) {
        let mut inner = self.inner.lock();
        if inner.life == Life::Over {
            return;
        }
        self.add(&mut inner, |inner| {
            inner.weight += digest.len() + text.len();
            inner.next.policies.push((digest, text));
        });
    }

    /// Returns the failure that stops the writer at present.
    pub(super) fn failure(&self) -> Option<LogFailed> {
        let inner = self.inner.lock();
        let is_over = inner.life == Life::Over;
        (is_over || inner.failure.is_some()).then(|| inner.failure())
    }

    /// Returns the unwritten states of an origin, the latest for each identity.
    pub(super) fn landed(&self, origin: &Origin) -> Vec<Landed> {
        let inner = self.inner.lock();
        let landed = inner.landings.get(origin).into_iter().flatten();
        landed.map(|(landed, _)| landed.clone()).collect()
    }

    /// Adds one entry to the writer's next batch, and wakes the writer if need be.
    fn add(&self, inner: &mut Inner, put: impl FnOnce(&mut Inner)) {
        let was_empty = inner.is_empty();
        let was_full = inner.held() >= self.bounds.wait;
        if was_empty {
            inner.since = Some(self.clock.uptime());
        }
        put(inner);
        inner.put += 1;
        let is_full_now = !was_full && inner.held() >= self.bounds.wait;
        if is_full_now {
            self.publish(inner);
        }
        // A sleeping writer waits on an empty queue; a gathering one is woken when there is enough.
        if was_empty || is_full_now {
            self.wake.notify_one();
        }
    }

    /// Sets whether requests are denied while the log fails.
    pub(super) fn set_deny(&self, deny: bool) {
        let inner = self.inner.lock();
        self.deny.store(deny, Ordering::Relaxed);
        self.publish(&inner);
    }

    /// Asks the writer to write the rest and end.
    pub(super) fn close(&self) {
        let mut inner = self.inner.lock();
        if inner.life == Life::Running {
            inner.life = Life::Closing;
        }
        self.wake.notify_one();
    }

    /// Returns whether all records are written: the result of [`close`](Self::close) after the writer's end.
    pub(super) fn outcome(&self) -> Result<(), LogFailed> {
        let inner = self.inner.lock();
        let lost = inner.lost.map_or(0, |lost| lost.count);
        match inner.put - inner.written + lost {
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
            Life::Over if deny => State::Refusing,
            Life::Over => State::Open,
            _ if inner.failure.is_some() && deny => State::Refusing,
            // Records without room are counted.
            _ if inner.failure.is_some() => State::Open,
            _ if inner.held() >= self.bounds.wait || inner.delay.is_late => State::Full,
            _ => State::Open,
        }
    }

    fn publish(&self, inner: &Inner) {
        self.state
            .store(self.state_of(inner) as u8, Ordering::Release);
        self.moved.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;
    use crate::store::Party;

    const NOTE: RecordSummary = RecordSummary {
        time: Moment::from_millis(0),
        party: Party::Own,
        kind: None,
        count: 1,
        sha256: None,
    };

    fn take(queue: &Queue) -> Batch {
        let clock = Clock::manual(Moment::default());
        queue.take(Vec::new(), Duration::ZERO, &clock).unwrap()
    }

    #[test]
    fn a_failure_and_its_end_are_reported_once() {
        let bounds = Bounds {
            wait: 100,
            lose: 100,
        };
        let queue = Queue::new(bounds, true, Clock::manual(Moment::default()));
        let failure = || LogFailed::new("log", &io::Error::from(io::ErrorKind::StorageFull));
        for _ in 0..2 {
            queue.put(NOTE, |out| out.extend_from_slice(b"{}\n"));
            let batch = take(&queue);
            let news = [(); 3].map(|()| queue.failed(failure()));
            assert_eq!(news, [true, false, false]);
            let ends = [(); 2].map(|()| queue.wrote(&batch, Moment::default()));
            assert_eq!(ends, [Some(0), None]);
        }
    }

    #[test]
    fn unwritten_lines_still_fill_the_queue() {
        let bounds = Bounds { wait: 3, lose: 6 };
        let queue = Queue::new(bounds, true, Clock::manual(Moment::default()));
        let put = || queue.put(NOTE, |out| out.extend_from_slice(b"{}\n"));
        let state = || queue.state.load(Ordering::Relaxed);
        put();
        assert_eq!(state(), State::Full as u8);
        let batch = take(&queue);
        assert_eq!(state(), State::Full as u8, "taken is not written");
        put();
        put();
        assert_eq!(
            queue.wrote(&batch, Moment::default()),
            Some(1),
            "one found no room"
        );
        assert_eq!(state(), State::Full as u8, "the second is there still");
        let batch = take(&queue);
        assert_eq!(
            batch.content.lines.split(|&octet| octet == b'\n').count(),
            3
        );
        assert_eq!(queue.wrote(&batch, Moment::default()), None);
        assert_eq!(state(), State::Open as u8);
    }

    #[test]
    fn late_records_make_requests_wait_and_a_stuck_write_refuses_them() {
        let millis = Duration::from_millis;
        let bounds = Bounds {
            wait: 100,
            lose: 100,
        };
        let clock = Clock::manual(Moment::default());
        let queue = Queue::new(bounds, true, clock.clone());
        let put = || queue.put(NOTE, |out| out.extend_from_slice(b"{}\n"));
        let take = || queue.take(Vec::new(), Duration::ZERO, &clock).unwrap();
        put();
        clock.advance(millis(10));
        let batch = take();
        let cases = [
            (0, Some(90), State::Open, false),
            (90, Some(900), State::Full, false),
            (900, Some(4_010), State::Full, true),
            (4_010, None, State::Refusing, true),
        ];
        for (passes, next, state, is_behind) in cases {
            clock.advance(millis(passes));
            assert_eq!(queue.look(&batch, &clock), next.map(millis), "{passes}");
            assert_eq!(queue.state.load(Ordering::Relaxed), state as u8, "{passes}");
            assert_eq!(queue.backlog().is_behind, is_behind, "{passes}");
        }
        put();
        assert_eq!(queue.wrote(&batch, Moment::default()), Some(0));
        assert_eq!(queue.state.load(Ordering::Relaxed), State::Open as u8);
        assert!(queue.backlog().is_behind, "until a batch is in time");
        let batch = take();
        assert_eq!(queue.look(&batch, &clock), Some(millis(100)));
        assert_eq!(queue.wrote(&batch, Moment::default()), None);
        assert!(!queue.backlog().is_behind);
    }

    #[test]
    fn a_withdrawn_record_is_not_written_or_told_where_it_was() {
        let bounds = Bounds {
            wait: 1_000,
            lose: 1_000,
        };
        let clock = Clock::manual(Moment::default());
        let queue = Queue::new(bounds, true, clock.clone());
        let put = |id| {
            queue.put(NOTE, |out| {
                out.extend_from_slice(format!("{{\"id\":\"{id}\"}}\n").as_bytes());
            });
        };
        let ids = [1, 2, 3].map(|n| DecisionId::mint(Moment::from_millis(n)));
        put(ids[0]);
        let batch = take(&queue);
        put(ids[1]);
        put(ids[2]);
        queue.withdraw(ids[0], Moment::default());
        queue.withdraw(ids[1], Moment::default());
        assert_eq!(queue.wrote(&batch, Moment::default()), None);
        let batch = take(&queue);
        let text = String::from_utf8(batch.content.lines.clone()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains(&ids[2].to_string()), "{text}");
        let told = format!(
            "\"event\":\"answered_log_failed\",\"decision\":\"{}\"",
            ids[0]
        );
        assert!(lines[1].contains(&told), "{text}");
        assert_eq!(batch.content.notes.len(), 2);
        queue.wrote(&batch, Moment::default());
        // Alone in the queue: a flush does not wait for it.
        put(ids[1]);
        queue.withdraw(ids[1], Moment::default());
        queue.close();
        assert!(queue.take(Vec::new(), Duration::ZERO, &clock).is_none());
        assert!(queue.outcome().is_ok());
    }
}
