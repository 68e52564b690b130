//! Signals that this process catches: a service to end, `crawlgate run` to pass them on. Once caught, a signal stays caught.

use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tracing::warn;

/// Signals, caught.
#[derive(Debug)]
pub(super) struct CaughtSignals(Vec<(Signal, unix::Signal)>);

impl CaughtSignals {
    /// Catches these signals from now on.
    pub(super) fn listen(signals: &[Signal]) -> io::Result<Self> {
        let caught = signals.iter().map(|one| {
            let kind = SignalKind::from_raw(one.as_raw());
            Ok((*one, signal(kind)?))
        });
        caught.collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            let next = self.0.iter_mut().find_map(|(signal, caught)| {
                let is_here = caught.poll_recv(context).is_ready();
                is_here.then_some(*signal)
            });
            next.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Signals that other services have a use for: unhandled, they would end this one.
const OTHERS: [(&str, SignalKind); 4] = [
    ("SIGUSR1", SignalKind::user_defined1()),
    ("SIGUSR2", SignalKind::user_defined2()),
    ("SIGALRM", SignalKind::alarm()),
    ("SIGIO", SignalKind::io()),
];

/// Logs the signals without a meaning for a service from now on, and ignores them.
pub(super) fn ignore_others() -> io::Result<()> {
    for (name, kind) in OTHERS {
        let mut ignored = signal(kind)?;
        tokio::spawn(async move {
            while ignored.recv().await.is_some() {
                warn!("{name} has no meaning here and is ignored; SIGTERM ends the service");
            }
        });
    }
    Ok(())
}
