//! The one thread that writes.

use std::{io, time::Duration};

use tracing::{error, info, warn};

use super::{
    log::LogFailed,
    queue::{Batch, Queue},
    sink::Sink,
};
use crate::clock::Clock;

/// The writer's two delays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Lines gather for this long after the first one, to be written together.
    pub(super) gather: Duration,
    /// A failed write is tried again after this.
    pub(super) retry: Duration,
}

/// A sink, and how much of the batch at hand it already has: one may fail where another has not.
struct Outlet {
    sink: Box<dyn Sink>,
    written: usize,
}

/// Writes what comes into `queue` to all of `sinks` until the queue is closed and empty, or closed and failing.
pub(super) fn run(queue: &Queue, sinks: Vec<Box<dyn Sink>>, clock: &Clock, pace: Pace) {
    /// Buffers that had to grow far are not kept.
    const SPARE: usize = 1024 * 1024;

    let _end = End(queue);
    let mut outlets: Vec<_> = sinks
        .into_iter()
        .map(|sink| Outlet { sink, written: 0 })
        .collect();
    let mut spare = Vec::new();
    while let Some(batch) = queue.take(spare, pace.gather) {
        if !write_out(queue, &batch, &mut outlets, clock, pace.retry) {
            return;
        }
        match queue.wrote(&batch, clock.now()) {
            None => {}
            Some(0) => info!("decisions are recorded again, and none was lost"),
            Some(lost) => warn!(lost, "decisions are recorded again; some were lost"),
        }
        spare = batch.lines;
        spare.clear();
        spare.shrink_to(SPARE);
    }
    for outlet in &mut outlets {
        if let Err(error) = outlet.sink.sync() {
            warn!(log = outlet.sink.name(), %error, "the decision log may not outlive a power cut");
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
    while let Err((log, error)) = try_outlets(batch, outlets, clock) {
        let is_news = queue.failed(LogFailed::new(&log, &error));
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
        outlet.written = 0;
    }
    true
}

/// One attempt at what each outlet still lacks of `batch`.
fn try_outlets(
    batch: &Batch,
    outlets: &mut [Outlet],
    clock: &Clock,
) -> Result<(), (String, io::Error)> {
    let mut first = Ok(());
    for Outlet { sink, written } in outlets {
        let rest = batch.lines.get(*written..).unwrap_or_default();
        if rest.is_empty() {
            continue;
        }
        match sink.write(rest, clock.now()) {
            Ok(()) => *written = batch.lines.len(),
            Err(stopped) => {
                *written += stopped.written;
                if first.is_ok() {
                    first = Err((sink.name(), stopped.error));
                }
            }
        }
    }
    first
}

/// However the writer ends, nobody waits for it after.
struct End<'q>(&'q Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
