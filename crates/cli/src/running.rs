//! Commands that ask the running processes of a store by their sockets.
//!
//! `crawlgate ready` asks whether one would forward a request, for health checks of containers: the image has no shell and no
//! other program, and the console stays on the container's loopback. The socket needs neither an address nor a token.
//!
//! A decision waits for up to 100 ms in the process that made it, to be written together with others. A command that runs
//! right behind a crawl would miss it. `perform` calls [`before_reading`] once for each command of which
//! [`Command::reads_records`](super::Command::reads_records) is true; no command asks by itself.
//!
//! The process at `[admin] socket` and each `crawlgate run` beside the store are asked. Where none listens, or the sockets
//! belong to another user, the command reads the store as it is. A process that does not answer in time costs the command
//! [`PATIENCE`] and a line on standard error, and never its success.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{Failure, small_runtime, terminal};
use crawlgate_admin::{self as admin, AskError, Readiness};
use crawlgate_config::Config;

/// Exit code for a process that is not ready or does not run.
const NOT_READY: u8 = 1;

/// Time for the running process to tell whether it is ready. Its store may take two seconds of it.
const READY_TIMEOUT: Duration = Duration::from_secs(4);

/// Time for all processes to write their records.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks the process at `[admin] socket`; `None` without a socket, or where no process listens.
///
/// # Errors
/// When a process listens there and refuses, or sends no valid answer in time.
pub(super) async fn ask<T: DeserializeOwned>(
    config: &Config,
    method: Method,
    target: &str,
    body: Option<Value>,
    patience: Duration,
) -> Result<Option<T>, AskError> {
    let Some(socket) = &config.admin.socket else {
        return Ok(None);
    };
    match admin::ask(socket, method, target, body, patience).await {
        Ok(answer) => Ok(Some(answer)),
        Err(AskError::NotRunning(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs `crawlgate ready`: exits 0 if the running process is ready, 1 if it is not or does not run, or 2 on failure.
pub(super) fn ready(config: &Config) -> Result<ExitCode, Failure> {
    let faults = small_runtime()?.block_on(faults(config))?;
    if faults.is_empty() {
        terminal::print("ready\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let faults = faults.join("; ");
    terminal::print(&format!("not ready: {}\n", terminal::printable(&faults)))?;
    Ok(ExitCode::from(NOT_READY))
}

/// Returns the reasons why the process is not ready.
async fn faults(config: &Config) -> Result<Vec<String>, Failure> {
    let no_socket =
        "[admin] socket is \"\": name one and restart, or ask /ready at [admin] address";
    let socket = config.admin.socket.as_ref().ok_or(no_socket)?;
    match admin::ask(socket, Method::GET, "/ready", None, READY_TIMEOUT).await {
        Ok(Readiness { checks, .. }) => {
            let failed = checks.into_iter().filter(|check| !check.ok);
            let faults = failed.map(|check| format!("{}: {}", check.name, check.detail));
            Ok(faults.collect())
        }
        Err(error @ AskError::NotRunning(_)) => Ok(vec![error.to_string()]),
        Err(AskError::Failed { error, .. }) if error.kind() == ErrorKind::TimedOut => {
            Ok(vec!["the process does not answer".to_owned()])
        }
        Err(error) => Err(error.into()),
    }
}

/// Has the running processes write the records that they hold for the configured store, by this route.
pub(super) fn before_reading(config: &Config, route: &'static str) {
    let (Some(socket), Some(store)) = (&config.admin.socket, &config.store.path) else {
        return;
    };
    let mut sockets = admin::run_sockets(store);
    sockets.push(socket.clone());
    sockets.retain(|socket| socket.exists());
    if sockets.is_empty() {
        return;
    }
    // Without a runtime, the command itself fails.
    let Ok(runtime) = small_runtime() else {
        return;
    };
    let failures = runtime.block_on(flush(sockets, route));
    if !failures.is_empty() {
        let failures = failures.join("; ");
        terminal::eprint(&format!("the newest decisions may be missing: {failures}"));
    }
}

/// Asks all processes at once, and returns the failures.
async fn flush(sockets: Vec<PathBuf>, route: &'static str) -> Vec<String> {
    let mut asked = JoinSet::new();
    for socket in sockets {
        asked.spawn(async move { flush_at(&socket, route).await.err() });
    }
    let failures = asked.join_all().await.into_iter().flatten();
    failures.map(|failure| failure.to_string()).collect()
}

async fn flush_at(socket: &Path, route: &'static str) -> Result<(), Failure> {
    let mut answer = admin::ask(socket, Method::POST, route, None, PATIENCE).await;
    if matches!(&answer, Err(AskError::Failed { error, .. }) if is_cut_off(error.kind())) {
        // A process that ends cuts its connections off, and has written all records before. The second attempt finds it gone.
        answer = admin::ask(socket, Method::POST, route, None, PATIENCE).await;
    }
    let why = match answer {
        Ok(()) | Err(AskError::NotRunning(_) | AskError::OtherUser(_)) => return Ok(()),
        Err(AskError::Refused { detail, .. }) => format!("answers: {detail}"),
        Err(AskError::Failed { error, .. }) => match error.kind() {
            // The socket of another user, or a path at which no process can listen.
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput => return Ok(()),
            ErrorKind::TimedOut => format!("does not answer within {PATIENCE:?}"),
            _ => format!("does not answer: {error}"),
        },
    };
    bail!("the process at {} {why}", socket.display())
}

/// Tells whether the process has closed the connection without an answer.
fn is_cut_off(error: ErrorKind) -> bool {
    matches!(error, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
