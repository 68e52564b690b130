//! Requests to the running process: fetch, forget.

use std::time::Duration;

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::{NOTHING, open};
use crate::Failure;
use crate::running::ask;
use crate::terminal::{print, printable};
use crawlgate_admin::{self as admin, AskError, RefreshedState, encoded};
use crawlgate_config::Config;
use crawlgate_origins::identity::Identity;
use crawlgate_robots::Origin;
use crawlgate_store::Access;

/// Time for the process besides the fetches.
const GRACE: Duration = Duration::from_secs(10);

/// The answer of the process to a fetch.
#[derive(Deserialize)]
struct Refreshed {
    states: Vec<RefreshedState>,
}

/// Asks the process to fetch robots.txt.
pub(super) async fn refresh(
    origins: &[Origin],
    identity: Option<&Identity>,
    config: &Config,
) -> Result<u8, Failure> {
    let socket = config.admin.socket.as_deref().ok_or(
        "no process can be reached: [admin] socket is empty; name a path there and restart crawlgate",
    )?;
    // Another fetch may be in progress already.
    let patience = config.robots.fetch_timeout * 2 + GRACE;
    let mut code = 0;
    for origin in origins {
        let asked =
            json!({ "origin": origin.to_string(), "identity": identity.map(Identity::to_string) });
        let answer = admin::ask(socket, Method::POST, "/api/v1/refresh", Some(asked), patience);
        match answer.await {
            Ok(Refreshed { states }) => {
                if states.is_empty() {
                    code = NOTHING;
                    print(format!("{origin}: nothing was fetched: no such state, or the file may not be fetched\n").as_bytes())?;
                }
                for one in &states {
                    if one.failure.is_some() {
                        code = NOTHING;
                    }
                    let why = match (&one.failure, &one.absence) {
                        (Some(failure), _) => format!(", the fetch failed: {failure}"),
                        (None, Some(absence)) => format!(": {absence}"),
                        (None, None) => String::new(),
                    };
                    let name = match states.len() {
                        1 => String::new(),
                        _ => format!(" as {}", one.identity),
                    };
                    let text = format!("{name}: {}{why}", one.state);
                    print(format!("{origin}{}\n", printable(&text)).as_bytes())?;
                }
            }
            Err(AskError::NotRunning(_)) => {
                bail!(
                    "it cannot be fetched: no crawlgate listens at {}; start `crawlgate serve`, or let the next \
                     request fetch it when that is due; `crawlgate origins forget {origin}` makes it due at once",
                    socket.display()
                );
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(code)
}

/// Drops the state of origins: by the process that listens, else in the store.
pub(super) async fn forget(
    origins: &[Origin],
    identity: Option<&Identity>,
    config: &Config,
) -> Result<u8, Failure> {
    let mut code = 0;
    for origin in origins {
        let (was_known, by) = match ask_to_forget(config, origin, identity).await? {
            Some(was_known) => (was_known, "the running process"),
            None => {
                // Open an existing store only: `forget` creates none.
                open(config, Access::Read)?;
                let store = open(config, Access::Write)?;
                let forgotten = store.forget(origin, identity).await;
                let was_known = forgotten?;
                (was_known, "the store; no running process was told")
            }
        };
        let text = if was_known {
            format!("{origin}: forgotten by {by}\n")
        } else {
            code = NOTHING;
            format!("{origin}: nothing was known of it\n")
        };
        print(text.as_bytes())?;
    }
    Ok(code)
}

/// Has the running process forget; none if no process listens. True if something was known.
async fn ask_to_forget(
    config: &Config,
    origin: &Origin,
    identity: Option<&Identity>,
) -> Result<Option<bool>, Failure> {
    let mut target = format!("/api/v1/origins/{}", encoded(&origin.to_string()));
    if let Some(identity) = identity {
        target = format!("{target}?identity={}", encoded(&identity.to_string()));
    }
    match ask::<()>(config, Method::DELETE, &target, None, GRACE).await {
        Ok(answer) => Ok(answer.map(|()| true)),
        Err(AskError::Refused { status, .. }) if status == StatusCode::NOT_FOUND => Ok(Some(false)),
        Err(error) => Err(error.into()),
    }
}
