//! Overrides of a fleet: changed by the running process, which knows the other instances.

use std::time::Duration;

use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Failure, terminal};
use crawlgate_admin::{self as admin, AskError, Reach};
use crawlgate_config::Config;

/// Time for a running process to bring a change to the fleet, and to hear that it is in force.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Has the running process do it; `None` if no process runs, or it does not know the override.
///
/// # Errors
/// When the process cannot do it, or does not answer. It may have done it then.
pub(super) async fn through_process<T: DeserializeOwned>(
    config: &Config,
    method: Method,
    target: &str,
    body: Option<Value>,
) -> Result<Option<T>, Failure> {
    let Some(socket) = &config.admin.socket else {
        return Ok(None);
    };
    match admin::ask(socket, method, target, body, TIMEOUT).await {
        Ok(answer) => Ok(Some(answer)),
        Err(AskError::Refused { status, .. }) if status == StatusCode::NOT_FOUND => Ok(None),
        Err(AskError::Refused { detail, .. }) => Err(detail.into()),
        Err(AskError::NotRunning(_)) => Ok(None),
        Err(error) => {
            Err(format!("{error}; `crawlgate override list` tells whether it was done").into())
        }
    }
}

/// Says how far a change has reached.
pub(super) fn say(reach: Option<&Reach>) -> Result<(), Failure> {
    let Some(reach) = reach else {
        return Ok(());
    };
    let text = reach.to_string();
    terminal::print(format!("{}\n", terminal::printable(&text)).as_bytes()).map(drop)
}
