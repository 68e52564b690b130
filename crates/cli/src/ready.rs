//! `crawlgate ready`: tells whether the running process would forward a request, for health checks of containers.
//!
//! The image has no shell and no other program, and the console stays on the container's loopback. The command asks through
//! the admin socket, which needs neither an address nor a token.

use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

use http::Method;

use super::{Failure, fail, small_runtime, terminal};
use crawlgate_admin::{self as admin, AskError, Readiness};
use crawlgate_config::Config;

/// Exit code for a process that is not ready or does not run.
const NOT_READY: u8 = 1;

/// Time for the running process to answer. Its store may take two seconds of it.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Asks the running process; exits 0 if it is ready, 1 if it is not or does not run, or 2 on failure.
#[must_use]
pub fn run(config: &Config) -> ExitCode {
    let result = small_runtime().and_then(|runtime| runtime.block_on(ask(config)));
    let (code, text) = match result {
        Ok(reasons) if reasons.is_empty() => (0, "ready\n".to_owned()),
        Ok(reasons) => {
            let reasons = reasons.join("; ");
            (
                NOT_READY,
                format!("not ready: {}\n", terminal::printable(&reasons)),
            )
        }
        Err(error) => return fail(&error),
    };
    match terminal::print(text.as_bytes()) {
        Ok(_) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

/// Returns the reasons why the process is not ready.
async fn ask(config: &Config) -> Result<Vec<String>, Failure> {
    let no_socket =
        "[admin] socket is \"\": name one and restart, or ask /ready at [admin] address";
    let socket = config.admin.socket.as_ref().ok_or(no_socket)?;
    match admin::ask(socket, Method::GET, "/ready", None, TIMEOUT).await {
        Ok(found) => Ok(reasons(found)),
        Err(error @ AskError::NotRunning(_)) => Ok(vec![error.to_string()]),
        Err(AskError::Failed { error, .. }) if error.kind() == ErrorKind::TimedOut => {
            Ok(vec!["the process does not answer".to_owned()])
        }
        Err(error) => Err(error.into()),
    }
}

fn reasons(found: Readiness) -> Vec<String> {
    let failed = found.checks.into_iter().filter(|check| !check.ok);
    failed
        .map(|check| format!("{}: {}", check.name, check.detail))
        .collect()
}
