//! The command itself: started, sent the signals that we are sent, waited for.
//!
//! Tested in `tests/child.rs`, a process of its own: signals go to the whole process, and once caught stay caught.

use std::{
    error::Error,
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io,
    os::unix::process::ExitStatusExt as _,
    process::ExitStatus,
};

use rustix::process::{Pid, Signal};
use tokio::{
    process::Command,
    signal::unix::{self, SignalKind},
};

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It returned this code.
    Exited(u8),
    /// This signal killed it.
    Killed(u8),
}

impl Ended {
    /// The code to exit with in the command's place: its own, or 128 and the signal's number, as shells do.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => signal.saturating_add(128),
        }
    }
}

impl From<ExitStatus> for Ended {
    fn from(status: ExitStatus) -> Self {
        // A code is an octet and a signal's number is smaller still; 255 stands for what cannot happen.
        let octet = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(octet(code)),
            (None, signal) => Self::Killed(octet(signal.unwrap_or(i32::MAX))),
        }
    }
}

/// The command could not be started.
#[derive(Debug)]
pub struct SpawnError {
    program: OsString,
    source: io::Error,
}

impl SpawnError {
    /// The code to exit with, as shells do: 127 if there is no such program, 126 if it cannot be run.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.source.kind() {
            io::ErrorKind::NotFound => 127,
            _ => 126,
        }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = self.program.display();
        match self.source.kind() {
            io::ErrorKind::NotFound => write!(f, "{program}: no such program"),
            io::ErrorKind::PermissionDenied => write!(f, "{program}: not executable"),
            _ => write!(f, "{program}: cannot be run: {}", self.source),
        }
    }
}

impl Error for SpawnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// The signals that are passed on.
const SIGNALS: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// Runs `program` with `arguments` and, beside what it inherits, the variables `environment`, until it ends. It has our
/// standard input, output and error. While it runs, signals that would end us go to it instead; it decides.
///
/// If the future is dropped, the command is killed.
///
/// # Errors
///
/// If the command cannot be started.
pub async fn supervise(
    program: &OsStr,
    arguments: &[OsString],
    environment: &[(String, String)],
) -> Result<Ended, SpawnError> {
    let failed = |source| SpawnError {
        program: program.to_owned(),
        source,
    };
    // Before the start: a signal that comes right after it must find someone listening.
    let mut signals = Signals::listen().map_err(failed)?;
    let mut child = Command::new(program)
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    // Gone only once it has been waited for.
    let pid = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    loop {
        tokio::select! {
            status = child.wait() => return status.map(Ended::from).map_err(failed),
            signal = signals.next() => {
                if let Some(pid) = pid && !terminal_sends_it_too(signal) {
                    // It may have ended this very moment, which `wait` will tell.
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
        }
    }
}

/// Whether the command gets `signal` without us. A key such as Ctrl-C signals the terminal's whole foreground process
/// group, us and the command alike; passed on, it would arrive twice, and many programs take the second for "at once".
fn terminal_sends_it_too(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::QUIT)
        && File::open("/dev/tty")
            .ok()
            .and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok())
            .is_some_and(|foreground| foreground == rustix::process::getpgrp())
}

/// [`SIGNALS`], caught.
struct Signals([unix::Signal; SIGNALS.len()]);

impl Signals {
    fn listen() -> io::Result<Self> {
        let [hup, int, quit, term, usr1, usr2] =
            SIGNALS.map(|signal| unix::signal(SignalKind::from_raw(signal.as_raw())));
        Ok(Self([hup?, int?, quit?, term?, usr1?, usr2?]))
    }

    /// The next one that comes.
    async fn next(&mut self) -> Signal {
        std::future::poll_fn(|context| {
            for (listener, signal) in self.0.iter_mut().zip(SIGNALS) {
                if listener.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
