//! The one thread that writes.
//!
//! Each outlet gets every batch: the store as a whole or not at all, a sink as far as it takes it. One may fail where
//! another has not, so each remembers what it has of the batch at hand.

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
    counts::{Counts, Place},
    log::LogFailed,
    queue::{Batch, Queue},
    sink::Sink,
};
use crate::clock::Clock;
use crate::store::Store;

/// The writer's two delays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Lines gather for this long after the first one, to be written together.
    pub(super) gather: Duration,
    /// A failed write is tried again after this.
    pub(super) retry: Duration,
}

/// Where a batch goes, and what of it is there already.
pub(super) enum Outlet {
    /// The store.
    Store {
        /// The store.
        store: Arc<dyn Store>,
        /// The batch at hand is in it.
        written: bool,
    },
    /// The lines alone.
    Sink {
        /// Where.
        sink: Box<dyn Sink>,
        /// Octets of the batch at hand that it has.
        written: usize,
    },
}

/// Writes what comes into `queue` to all of `outlets` until the queue is closed and empty, or closed and failing.
pub(super) fn run(queue: &Queue, mut outlets: Vec<Outlet>, clock: &Clock, pace: Pace) {
    /// Buffers that had to grow far are not kept.
    const SPARE: usize = 1024 * 1024;

    let _end = End(queue);
    let mut spare = Vec::new();
    while let Some(batch) = queue.take(spare, pace.gather, clock) {
        if !write_out(queue, &batch, &mut outlets, clock, pace.retry) {
            return;
        }
        match queue.wrote(&batch, clock.now()) {
            None => {}
            Some(0) => info!("decisions are recorded again, and none was lost"),
            Some(lost) => warn!(lost, "decisions are recorded again; some were lost"),
        }
        spare = batch.content.lines;
        spare.clear();
        spare.shrink_to(SPARE);
    }
    for outlet in &mut outlets {
        if let Outlet::Sink { sink, .. } = outlet
            && let Err(error) = sink.sync()
        {
            warn!(log = sink.name(), %error, "the decision log may not outlive a power cut");
        }
    }
}

/// Writes `batch` to all `outlets`, however often that takes. False if the queue was closed before it worked.
fn write_out(
    queue: &Queue,
    batch: &Batch,
    outlets: &mut [Outlet],
    clock: &Clock,
    retry: Duration,
) -> bool {
    while let Err((log, error)) = try_outlets(batch, outlets, clock, &queue.counts) {
        let is_news = queue.failed(LogFailed::new(&log, &*error));
        if queue.is_closing() {
            // Whoever closes it is told what is left, see `Log::close`.
            return false;
        }
        if is_news {
            error!(log, %error, "decisions cannot be recorded; it is tried again until it works");
        }
        queue.pause(retry);
    }
    for outlet in outlets {
        match outlet {
            Outlet::Store { written, .. } => *written = false,
            Outlet::Sink { written, .. } => *written = 0,
        }
    }
    true
}

/// One attempt at what each outlet still lacks of `batch`.
fn try_outlets(
    batch: &Batch,
    outlets: &mut [Outlet],
    clock: &Clock,
    counts: &Counts,
) -> Result<(), (String, Box<dyn fmt::Display>)> {
    let mut first = Ok(());
    for outlet in outlets {
        let done = outlet.attempt(batch, clock, counts);
        if done.is_err() {
            counts.failed(outlet.place());
        }
        first = first.and(done);
    }
    first
}

impl Outlet {
    fn place(&self) -> Place {
        match self {
            Self::Store { .. } => Place::Store,
            Self::Sink { .. } => Place::Log,
        }
    }

    /// Writes what is lacking.
    fn attempt(
        &mut self,
        batch: &Batch,
        clock: &Clock,
        counts: &Counts,
    ) -> Result<(), (String, Box<dyn fmt::Display>)> {
        match self {
            Self::Store { written: true, .. } => Ok(()),
            Self::Store { store, written } => {
                let start = clock.tick();
                match wait(store.write(batch.content.clone())) {
                    Ok(()) => {
                        counts.writes.observe(clock.tick().since(start));
                        *written = true;
                        Ok(())
                    }
                    Err(error) => Err(("the store".to_owned(), Box::new(error))),
                }
            }
            Self::Sink { sink, written } => {
                let lines = &batch.content.lines;
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

/// Waits for a future on this thread, which is not a runtime's: nothing needs one here, nor is there one in every
/// program that keeps a log.
fn wait<F: Future>(future: F) -> F::Output {
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
            Poll::Pending => thread::park(),
        }
    }
}

/// However the writer ends, nobody waits for it after.
struct End<'q>(&'q Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
