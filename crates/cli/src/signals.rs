//! Signals that end a service, and those that have no meaning for it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

/// The signals that end a service.
#[derive(Debug)]
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl EndSignals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

/// Signals that other services have a use for: unhandled, they would end this one.
pub(super) const OTHERS: [(&str, SignalKind); 4] = [
    ("SIGUSR1", SignalKind::user_defined1()),
    ("SIGUSR2", SignalKind::user_defined2()),
    ("SIGALRM", SignalKind::alarm()),
    ("SIGIO", SignalKind::io()),
];

/// The signal that reads the configuration again.
pub(super) const HANG_UP: (&str, SignalKind) = ("SIGHUP", SignalKind::hangup());

/// Logs these signals from now on, and ignores them.
pub(super) fn ignore(
    signals: impl IntoIterator<Item = (&'static str, SignalKind)>,
) -> io::Result<()> {
    for (name, kind) in signals {
        let mut ignored = signal(kind)?;
        tokio::spawn(async move {
            while ignored.recv().await.is_some() {
                warn!("{name} has no meaning here and is ignored; SIGTERM ends the service");
            }
        });
    }
    Ok(())
}
