//! The writing thread.
//!
//! Each output gets every batch: the store as a whole or not at all, a sink as far as it takes the lines of the entries.
//! One output may fail while another succeeds, so each remembers its progress in the current batch.

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use tracing::{error, info, warn};

use super::{
    counts::OutputKind,
    derived::DerivedLines,
    error::LogFailed,
    live::Live,
    queue::{Batch, Queue, Unrecorded, add_withdrawal},
    sink::Sink,
};
use crawlgate_store::{Entries, Store};
use crawlgate_system::clock::Clock;

/// The writer's two delays.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriterDelays {
    /// Time for which entries gather after the first one, to be written together. A slow disk shortens it.
    pub(super) gather: Duration,
    /// Time before a failed write is tried again.
    pub(super) retry: Duration,
}

/// A destination of batches, with its progress in the current batch.
pub(super) enum Output {
    /// The store.
    Store {
        /// The store.
        store: Arc<Store>,
        /// True if the store has the current batch.
        written: bool,
    },
    /// A sink, only for the lines.
    Sink {
        /// The sink.
        sink: Box<dyn Sink>,
        /// Octets of the current batch that the sink has.
        written: usize,
    },
}

/// Writes all batches of `queue` to all of `outputs` until the queue is closed and empty, or closed and failing.
/// Shows events to the watchers of `live`.
pub(super) fn run(
    queue: &Queue,
    mut outputs: Vec<Output>,
    live: &Live,
    clock: &Clock,
    pace: WriterDelays,
) {
    /// Room of a buffer that stays in any case, and room that does not. Between the two, a buffer stays as large as its
    /// batches: it would grow again under the lock of the queue.
    const LEAST: usize = 256 * 1024;
    const MAX: usize = 8 * 1024 * 1024;

    let _end = End(queue);
    let mut spare = Entries::default();
    let mut lines = DerivedLines::default();
    let mut delays = Delays::default();
    while let Some(mut batch) = queue.take(spare, delays.leave(pace.gather), clock) {
        if !write_out(queue, &mut batch, &mut lines, &mut outputs, clock, pace.retry) {
            return;
        }
        delays.note(batch.delay(delays.leave(pace.gather), clock));
        lines.show(&batch, queue, live, clock.now());
        lines.end(&batch);
        match queue.wrote(&batch, clock.now()) {
            None => {}
            Some(Unrecorded { lost: 0, refused }) => {
                info!(refused, "decisions are recorded again, and none was lost");
            }
            Some(Unrecorded { lost, refused }) => {
                warn!(lost, refused, "decisions are recorded again; some were lost");
            }
        }
        spare = batch.content.entries;
        spare.clear(LEAST, MAX);
    }
    for output in &mut outputs {
        if let Output::Sink { sink, .. } = output
            && let Err(error) = sink.sync()
        {
            warn!(log = sink.name(), %error, "the decision log may not outlive a power cut");
        }
    }
}

/// The latest delays between the end of gathering and the end of the write.
#[derive(Debug, Default)]
struct Delays {
    latest: [Duration; 8],
    /// The place of the oldest one.
    next: usize,
}

impl Delays {
    /// Notes a delay in place of the oldest one.
    fn note(&mut self, delay: Duration) {
        if let Some(oldest) = self.latest.get_mut(self.next) {
            *oldest = delay;
        }
        self.next = (self.next + 1) % self.latest.len();
    }

    /// Returns what is left to gather for, so that a batch that takes twice as long as the latest ones is still written in
    /// time. The longest of them does not count: now and then the store carries its log over, and the next batches take no
    /// longer for that.
    fn leave(&self, gather: Duration) -> Duration {
        let mut sorted = self.latest;
        sorted.sort_unstable();
        let [.., usual, _] = sorted;
        gather.saturating_sub(usual * 2).max(gather / 8)
    }
}

/// Writes `batch` to all `outputs`, with as many attempts as that takes. False if the queue was closed before it
/// worked.
fn write_out(
    queue: &Queue,
    batch: &mut Batch,
    lines: &mut DerivedLines,
    outputs: &mut [Output],
    clock: &Clock,
    retry: Duration,
) -> bool {
    while let Err((log, error)) = try_outputs(queue, batch, lines, outputs, clock) {
        let is_news = queue.failed(LogFailed::new(&log, &*error));
        if queue.is_closing() {
            // The caller of `Log::close` learns about the rest.
            return false;
        }
        if is_news {
            error!(log, %error, "decisions cannot be recorded; it is tried again until it works");
        }
        queue.pause(retry);
        if outputs.iter().all(Output::has_none) {
            lines.discard();
            for id in queue.take_withdrawn() {
                let entries = &mut batch.content.entries;
                match entries.withdraw(id) {
                    // An empty batch would be written to a full disk, too, and end the failure.
                    true if entries.is_empty() => {
                        add_withdrawal(&mut batch.content, id, clock.now());
                    }
                    true => queue.refused(clock.now()),
                    // The record had found no room, and counts as lost.
                    false => {}
                }
            }
        }
    }
    for output in outputs {
        match output {
            Output::Store { written, .. } => *written = false,
            Output::Sink { written, .. } => *written = 0,
        }
    }
    true
}

/// Tries once to write the missing part of `batch` to each outlet.
fn try_outputs(
    queue: &Queue,
    batch: &Batch,
    lines: &mut DerivedLines,
    outputs: &mut [Output],
    clock: &Clock,
) -> Result<(), (String, Box<dyn fmt::Display>)> {
    let mut first = Ok(());
    for output in outputs {
        let done = output.attempt(queue, batch, lines, clock);
        if done.is_err() {
            queue.counts.failed(output.place());
        }
        first = first.and(done);
    }
    first
}

impl Output {
    fn place(&self) -> OutputKind {
        match self {
            Self::Store { .. } => OutputKind::Store,
            Self::Sink { .. } => OutputKind::Log,
        }
    }

    /// Tells whether this output has nothing of the current batch.
    fn has_none(&self) -> bool {
        match self {
            Self::Store { written, .. } => !written,
            Self::Sink { written, .. } => *written == 0,
        }
    }

    /// Writes the missing part.
    fn attempt(
        &mut self,
        queue: &Queue,
        batch: &Batch,
        lines: &mut DerivedLines,
        clock: &Clock,
    ) -> Result<(), (String, Box<dyn fmt::Display>)> {
        match self {
            Self::Store { written: true, .. } => Ok(()),
            Self::Store { store, written } => {
                if batch.is_empty() {
                    // Only lines of events, which the store has.
                    return Ok(());
                }
                let start = clock.tick();
                let writing = store.write(batch.content.clone());
                match wait(writing, || queue.look(batch, clock)) {
                    Ok(()) => {
                        queue.counts.writes.observe(clock.tick().since(start));
                        *written = true;
                        Ok(())
                    }
                    Err(error) => Err(("the store".to_owned(), Box::new(error))),
                }
            }
            Self::Sink { sink, written } => {
                let lines = lines.of(batch, queue);
                let rest = lines.get(*written..).unwrap_or_default();
                if rest.is_empty() {
                    return Ok(());
                }
                match sink.write(rest, clock.now()) {
                    Ok(()) => {
                        *written = lines.len();
                        Ok(())
                    }
                    Err(stopped) => {
                        *written += stopped.written;
                        Err((sink.name(), Box::new(stopped.error)))
                    }
                }
            }
        }
    }
}

/// Waits for a future on this thread, outside any runtime: the futures need none, and a program with a log may have
/// none. Meanwhile runs `look`, again after the time that it returns.
pub(super) fn wait<F: Future>(future: F, look: impl Fn() -> Option<Duration>) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => match look() {
                Some(time) => thread::park_timeout(time),
                None => thread::park(),
            },
        }
    }
}

/// Marks the queue as ended on drop, so that no task waits for a writer that has gone.
struct End<'q>(&'q Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_disk_leaves_less_time_to_gather() {
        let ms = Duration::from_millis;
        let gather = ms(80);
        let mut delays = Delays::default();
        assert_eq!(delays.leave(gather), gather);
        delays.note(ms(24));
        assert_eq!(delays.leave(gather), gather, "one alone shortens nothing");
        delays.note(ms(24));
        assert_eq!(delays.leave(gather), ms(32));
        for _ in 0..6 {
            delays.note(ms(1));
            assert_eq!(delays.leave(gather), ms(32), "not at once");
        }
        delays.note(ms(1));
        assert_eq!(delays.leave(gather), ms(78));
        delays.note(ms(5_000));
        delays.note(ms(5_000));
        assert_eq!(delays.leave(gather), ms(10));
    }
}
