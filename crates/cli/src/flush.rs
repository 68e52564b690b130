//! Asks the processes that write a store to write what they hold, before a command reads the store.
//!
//! A decision waits for up to 100 ms in the process that made it, to be written together with others. A command that runs
//! right behind a crawl would miss it. `run_command` calls [`before_reading`] once for each command of which
//! [`Command::reads_records`](super::Command::reads_records) is true; no command asks by itself.
//!
//! The process at `[admin] socket` and each `crawlgate run` beside the store are asked. Where none listens, or the sockets
//! belong to another user, the command reads the store as it is. A process that does not answer in time costs the command
//! [`PATIENCE`] and a line on standard error, and never its success.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use tokio::task::JoinSet;

use super::{Failure, small_runtime, terminal};
use crawlgate_admin::{self as admin, AskError};
use crawlgate_config::Config;

/// Time for all processes to answer.
const PATIENCE: Duration = Duration::from_secs(1);

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
    let place = socket.display();
    match answer {
        Ok(()) => Ok(()),
        Err(AskError::Refused { detail, .. }) => {
            Err(format!("the process at {place} answers: {detail}").into())
        }
        Err(AskError::NotRunning(_) | AskError::OtherUser(_)) => Ok(()),
        Err(AskError::Failed { error, .. }) => match error.kind() {
            // The socket of another user, or a path at which no process can listen.
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput => Ok(()),
            ErrorKind::TimedOut => {
                Err(format!("the process at {place} does not answer within {PATIENCE:?}").into())
            }
            _ => Err(format!("the process at {place} does not answer: {error}").into()),
        },
    }
}

/// Tells whether the process has closed the connection without an answer.
fn is_cut_off(error: ErrorKind) -> bool {
    matches!(
        error,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}
