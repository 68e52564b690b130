//! The command itself: starts it, passes signals on, waits for its end.
//!
//! `tests/child.rs` tests it in a separate process: signals go to the whole process, and once caught stay caught.

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
use tokio::process::{Child, Command};

use super::confine;
use super::environment::Variables;
use crate::FAILED;
use crate::signals::CaughtSignals;

/// The end of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// The command returned this code.
    Exited(u8),
    /// This signal killed the command.
    Killed(u8),
}

impl CommandEnd {
    /// Returns the exit code to use for the command: its own, or 128 and the signal's number, as shells do.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => signal.saturating_add(128),
        }
    }
}

impl From<ExitStatus> for CommandEnd {
    fn from(status: ExitStatus) -> Self {
        // A code is an octet and a signal's number is smaller still; 255 stands for an impossible value.
        let octet = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(octet(code)),
            (None, signal) => Self::Killed(octet(signal.unwrap_or(i32::MAX))),
        }
    }
}

/// The destinations of the command's TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reachable {
    /// Anywhere, as far as the command's own user may.
    Anywhere,
    /// Only this port: the proxy's.
    Port(u16),
}

/// The command could not be started: the reason, for the operator.
#[derive(Debug)]
pub struct SpawnError {
    why: String,
    exit_code: u8,
}

impl SpawnError {
    /// An error of the program itself. Its exit code is that of shells: 127 if there is no such program, 126 if it cannot be
    /// run.
    pub(super) fn of_program(program: &OsStr, error: &io::Error) -> Self {
        let program = program.display();
        let (why, exit_code) = match error.kind() {
            io::ErrorKind::NotFound => (format!("{program}: no such program"), 127),
            io::ErrorKind::PermissionDenied => (format!("{program}: not executable"), 126),
            _ => (format!("{program}: cannot be run: {error}"), 126),
        };
        Self { why, exit_code }
    }

    /// Returns the exit code.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl Error for SpawnError {}

/// The signals to pass on.
const SIGNALS: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// A started command, killed on drop.
#[derive(Debug)]
pub struct Running {
    program: OsString,
    child: Child,
    signals: CaughtSignals,
}

/// Starts `program` with `arguments`, and its inherited variables as `environment` changes them. The command and its children
/// share our standard input, output and error, and can connect to `reachable` only.
///
/// # Errors
///
/// If the command cannot be started, or the kernel does not confine it: then nothing was started.
pub fn start(
    program: &OsStr,
    arguments: &[OsString],
    environment: &Variables,
    reachable: Reachable,
) -> Result<Running, SpawnError> {
    let failed = |error: io::Error| SpawnError::of_program(program, &error);
    // Before the start: a signal right after it must be caught already.
    let signals = CaughtSignals::listen(&SIGNALS).map_err(failed)?;
    let mut command = Command::new(program);
    command.args(arguments).kill_on_drop(true);
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let child = match reachable {
        Reachable::Anywhere => command.spawn().map_err(failed)?,
        Reachable::Port(port) => confine::spawn(&mut command, port)
            .map_err(|refusal| SpawnError {
                why: format!("{} was not started: {refusal}", program.display()),
                exit_code: FAILED,
            })?
            .map_err(failed)?,
    };
    Ok(Running { program: program.to_owned(), child, signals })
}

impl Running {
    /// Waits for the end of the command. Meanwhile, signals that would end crawlgate go to the command, which decides.
    /// The future may be dropped and called again.
    ///
    /// # Errors
    ///
    /// If the system does not report the command's end.
    pub async fn end(&mut self) -> Result<CommandEnd, SpawnError> {
        // The process exists until it has been waited for.
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        loop {
            tokio::select! {
                status = self.child.wait() => {
                    let status = status.map_err(|error| SpawnError::of_program(&self.program, &error))?;
                    return Ok(status.into());
                }
                signal = self.signals.next() => {
                    if let Some(pid) = pid && !terminal_sends_it_too(signal) {
                        // The command may have ended this very moment; `wait` reports that.
                        let _ = rustix::process::kill_process(pid, signal);
                    }
                }
            }
        }
    }
}

/// Tells whether the terminal sends `signal` to the command, too. A key such as Ctrl-C signals the terminal's whole
/// foreground process group, crawlgate and the command alike; passed on, the signal would arrive twice, and many
/// programs take the second for "at once".
fn terminal_sends_it_too(signal: Signal) -> bool {
    matches!(signal, Signal::INT | Signal::QUIT)
        && File::open("/dev/tty")
            .ok()
            .and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok())
            .is_some_and(|foreground| foreground == rustix::process::getpgrp())
}
