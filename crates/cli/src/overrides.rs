//! `crawlgate override`: paths that a person allows or denies regardless of robots.txt, by name and until a date.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Failure, running, small_runtime, terminal, words};
use crate::service::join::name;
use crawlgate_admin::query::Asserted;
use crawlgate_admin::view::{Action, OverrideEntry};
use crawlgate_admin::{AskError, OVERRIDES_CHANGED, Reach, encoded};
use crawlgate_config::Config;
use crawlgate_policy::overrides::{self, Override, OverrideId};
use crawlgate_store::{self as store, Access, Store, StoreErrorKind};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_text::{DecisionId, time_text};

/// Time for a running process to confirm a change.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Time for it to bring a change to the fleet, and to hear that it is in force.
const FLEET_TIMEOUT: Duration = Duration::from_secs(15);

/// Arguments of `crawlgate override`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct OverrideArgs {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
An override comes before robots.txt, which is not even fetched if an override decides. The most specific pattern \
decides, a deny on a tie. /robots.txt itself is always allowed. The record of such a decision \
names the override, its person and its reason; a denial tells the crawler its number and the reason.

An origin may read /a/../b as /b: a deny that matches any such reading denies, an allow must match all of them. \
A tunnel without interception is denied by any deny, and allowed by an allow of the whole origin.

Overrides without an end stand in the configuration, as [[override]].

Examples:
  crawlgate override add https://site.example /press/ allow \\
    --until 2026-12-31 --by 'Ada Example' --reason 'a letter of 2026-11-02'
  crawlgate override add https://site.example deny --until 30d --by Ada \\
    --reason 'complaint 4711'
  crawlgate override list
  crawlgate override remove 12 --by Ada";

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Allow or deny paths of an origin regardless of robots.txt
    #[command(allow_missing_positional = true)]
    Add(AddArgs),
    /// List the overrides in force, those of the configuration included
    List {
        /// List expired and removed overrides, too
        #[arg(long)]
        all: bool,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Take an override out of force
    Remove {
        /// The number of the override, or its identifier in the fleet
        #[arg(value_name = "ID")]
        id: String,
        /// The person who removes the override
        #[arg(long, value_name = "NAME")]
        by: String,
    },
}

#[derive(Args, Clone, Debug)]
struct AddArgs {
    /// The origin: https://site.example, http://site.example:8080
    #[arg(value_name = "ORIGIN")]
    origin: String,
    /// A path pattern as in robots.txt [default: /, the whole origin]
    #[arg(value_name = "PATTERN")]
    pattern: Option<String>,
    /// The effect on these paths
    #[arg(value_name = "ACTION")]
    action: Action,
    /// The end: a day (2026-12-31, UTC), a time (2026-12-31T12:00:00Z), or a span (30d); at most a year ahead
    #[arg(long, value_name = "DATE")]
    until: String,
    /// The person who answers for the override
    #[arg(long, value_name = "NAME")]
    by: String,
    /// The reason
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// The answer of the process to a new override.
#[derive(Deserialize)]
struct Added {
    id: String,
    reach: Option<Reach>,
}

/// Runs `crawlgate override`; exits 0, or 2 on failure.
pub(super) fn run(args: &OverrideArgs, config: &Config) -> Result<ExitCode, Failure> {
    let now = Clock::system().now();
    small_runtime()?.block_on(async {
        match &args.command {
            Command::Add(args) => add(args, config, now).await,
            Command::List { all, json } => list(*all, *json, config, now).await,
            Command::Remove { id, by } => remove(id, by, config, now).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn add(args: &AddArgs, config: &Config, now: Moment) -> Result<(), Failure> {
    let mut new = new(args, now)?;
    if config.fleet.is_on() {
        let body = json!({
            "origin": args.origin,
            "pattern": args.pattern,
            "action": overrides::Action::from(args.action).as_str(),
            "until": args.until,
            "by": args.by,
            "reason": args.reason,
        });
        let target = "/api/v1/overrides";
        match through_process(config, Method::POST, target, Some(body)).await? {
            Some(Added { id, reach }) => {
                let id = OverrideId::in_store(&id).unwrap_or(new.id);
                let added = Override { id, ..new };
                terminal::print(&format!("override {}\n", sentence(&added)))?;
                return tell_reach(reach.as_ref());
            }
            None => {
                new.id = OverrideId::Shared(DecisionId::mint(now));
                new.instance = Some(name(config)?);
            }
        }
    }
    let store = store::open(config, Access::Write)?;
    let added = new.clone();
    let id = store.add_override(new).await?;
    let added = Override { id, ..added };
    terminal::print(&format!("override {}\n", sentence(&added)))?;
    tell(config).await
}

/// Returns the override that the arguments describe.
fn new(args: &AddArgs, now: Moment) -> Result<Override, Failure> {
    let asserted = Asserted {
        origin: &args.origin,
        pattern: args.pattern.as_deref(),
        action: args.action.into(),
        until: &args.until,
        by: &args.by,
        reason: &args.reason,
    };
    let read = asserted.read(now).map_err(|wrong| match &*wrong.name {
        // These two have no option name on the command line.
        "origin" | "pattern" => wrong.message,
        "until" => format!("--{wrong}"),
        name => format!("--{name}: {}", wrong.message),
    });
    Ok(read?)
}

async fn list(all: bool, json: bool, config: &Config, now: Moment) -> Result<(), Failure> {
    let (stored, removed) = match readable(config)? {
        None => Default::default(),
        Some(store) if all => (store.overrides().await?, store.removed_overrides().await?),
        Some(store) => (store.overrides().await?, Vec::new()),
    };
    let shown = OverrideEntry::list(&config.policy.overrides, &stored, &removed, all, now);
    let text = if json {
        shown.iter().flat_map(terminal::json_line).collect()
    } else if !shown.is_empty() {
        table(&shown, terminal::width()).into_bytes()
    } else if all {
        b"there are no overrides, and there never were\n".to_vec()
    } else {
        b"no overrides are in force\n".to_vec()
    };
    terminal::print(&text).map(drop)
}

/// Returns all overrides: those of the configuration, and those of the store, if there is one.
///
/// # Errors
/// When the store cannot be read.
pub(super) async fn known(config: &Config) -> Result<Vec<Override>, Failure> {
    let mut known = config.policy.overrides.clone();
    if let Some(store) = readable(config)? {
        known.extend(store.overrides().await?);
    }
    Ok(known)
}

/// Opens the store; `None` without one.
fn readable(config: &Config) -> Result<Option<Arc<Store>>, Failure> {
    match store::open(config, Access::Read) {
        Ok(store) => Ok(Some(store)),
        Err(error) if error.kind == StoreErrorKind::Missing => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn remove(id: &str, by: &str, config: &Config, now: Moment) -> Result<(), Failure> {
    let by = words("--by", by)?;
    if id.starts_with("config-") {
        bail!(
            "override {id} stands in the configuration: take it out of {} and have that read again (SIGHUP)",
            config.source
        );
    }
    let unknown = || format!("{id}: no such override; see `crawlgate override list --all`");
    let known = OverrideId::in_store(id).ok_or_else(unknown)?;
    if config.fleet.is_on() {
        let target = format!("/api/v1/overrides/{known}?by={}", encoded(&by));
        // For one that is not there, the store tells the reason below.
        if let Some::<Option<Reach>>(reach) =
            through_process(config, Method::DELETE, &target, None).await?
        {
            terminal::print(&format!("override {known} removed\n"))?;
            return tell_reach(reach.as_ref());
        }
    }
    let store = store::open(config, Access::Write)?;
    let removed = store.remove_override(known, by, now).await;
    if !removed? {
        let before = store.removed_overrides().await?;
        let mut before = before.into_iter();
        let before = before.find(|one| one.asserted.id == known);
        let why = before.map_or_else(unknown, |one| {
            let one = OverrideEntry::of_removed(&one, now);
            format!("override {known} was {} already", end(&one))
        });
        return Err(why.into());
    }
    terminal::print(&format!("override {known} removed\n"))?;
    tell(config).await
}

/// Tells the running process, if there is one, to read the overrides now.
async fn tell(config: &Config) -> Result<(), Failure> {
    const LATER: &str = "a process that uses this store takes it over within a second\n";
    let asked = running::ask(config, Method::POST, OVERRIDES_CHANGED, None, TIMEOUT).await;
    let said = match asked {
        Ok(Some(())) => "the running process takes it over now\n",
        Ok(None) if !config.fleet.is_on() => LATER,
        Ok(None) if config.admin.socket.is_some() => {
            "no process of this store runs: the one that starts next brings it to the fleet\n"
        }
        // Without a socket, this command cannot tell whether one runs.
        Ok(None) => {
            "a process that uses this store takes it over within a second and brings it to the fleet; without one, the one that \
             starts next does. [admin] socket is \"\", so this command cannot tell how far it reaches\n"
        }
        Err(error) => {
            terminal::tell(error);
            LATER
        }
    };
    terminal::print(said).map(drop)
}

/// Has the running process change an override of its fleet; `None` if no process runs, or it does not know the override.
///
/// # Errors
/// When the process cannot do it, or does not answer. It may have done it then.
async fn through_process<T: DeserializeOwned>(
    config: &Config,
    method: Method,
    target: &str,
    body: Option<Value>,
) -> Result<Option<T>, Failure> {
    let asked = running::ask(config, method, target, body, FLEET_TIMEOUT).await;
    asked.or_else(|error| match error {
        AskError::Refused { status, .. } if status == StatusCode::NOT_FOUND => Ok(None),
        AskError::Refused { detail, .. } => Err(detail.into()),
        error => {
            Err(format!("{error}; `crawlgate override list` tells whether it was done").into())
        }
    })
}

/// Says how far a change has reached in the fleet.
fn tell_reach(reach: Option<&Reach>) -> Result<(), Failure> {
    let Some(reach) = reach else {
        return Ok(());
    };
    let text = reach.to_string();
    terminal::print(&format!("{}\n", terminal::printable(&text))).map(drop)
}

/// Returns `12: deny /private/ of https://site.example until 2026-12-31T00:00:00.000Z, by Ada Example: a letter`.
pub(super) fn sentence(asserted: &Override) -> String {
    let until = asserted.until.map_or_else(
        || "while it stands in the configuration".to_owned(),
        |until| format!("until {}", time_text(until)),
    );
    let text = format!(
        "{}: {} {} of {} {until}, by {}: {}",
        asserted.id,
        asserted.action.as_str(),
        asserted.pattern,
        asserted.origin,
        asserted.by,
        asserted.reason,
    );
    terminal::printable(&text).into_owned()
}

/// Returns when the override ends, or how it has ended.
fn end(one: &OverrideEntry) -> String {
    match (&one.removed, &one.until) {
        (Some(time), _) => {
            let by = one.removed_by.as_deref().unwrap_or_default();
            format!("removed {time} by {}", terminal::printable(by))
        }
        (None, None) => "-".to_owned(),
        (None, Some(until)) if one.in_force => until.clone(),
        (None, Some(until)) => format!("expired {until}"),
    }
}

/// Writes a table for people.
fn table(shown: &[OverrideEntry], width: Option<usize>) -> String {
    const HEADING: [&str; 7] = ["ID", "ACTION", "ORIGIN", "PATTERN", "UNTIL", "BY", "REASON"];
    let rows = shown.iter().map(|one| {
        // A fleet's override says where it was added; without a fleet, nothing is added elsewhere.
        let by = match &one.instance {
            Some(instance) => format!("{} at {instance}", one.by),
            None => one.by.clone(),
        };
        [
            one.id.clone(),
            one.action.to_owned(),
            one.origin.clone(),
            one.pattern.clone(),
            end(one),
            by,
            one.reason.clone(),
        ]
    });
    terminal::table(HEADING, rows, width)
}

#[cfg(test)]
mod tests;
