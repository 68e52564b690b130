//! `crawlgate override`: paths that a person allows or denies regardless of robots.txt, by name and until a date.

mod fleet;
mod list;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use http::Method;
use serde::Deserialize;
use serde_json::json;

use self::list::{end, table};
use super::{Failure, fail, terminal, words};
use crate::service::join::name;
use crawlgate_admin::query::Asserted;
use crawlgate_admin::view::{Action, OverrideEntry};
use crawlgate_admin::{self as admin, AskError, OVERRIDES_CHANGED, Reach, encoded};
use crawlgate_config::Config;
use crawlgate_policy::overrides::{self, Override, OverrideId};
use crawlgate_store::{self as store, Access, Removed, Store, StoreErrorKind};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_text::{DecisionId, time_text};

/// Time for a running process to confirm a change.
const TIMEOUT: Duration = Duration::from_secs(2);

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
#[must_use]
pub fn run(args: &OverrideArgs, config: &Config) -> ExitCode {
    let now = Clock::system().now();
    let done = super::small_runtime().and_then(|runtime| {
        runtime.block_on(async {
            match &args.command {
                Command::Add(args) => add(args, config, now).await,
                Command::List { all, json } => list(*all, *json, config, now).await,
                Command::Remove { id, by } => remove(id, by, config, now).await,
            }
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
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
        match fleet::through_process(config, Method::POST, target, Some(body)).await? {
            Some(Added { id, reach }) => {
                let id = OverrideId::in_store(&id).unwrap_or(new.id);
                let added = Override { id, ..new };
                terminal::print(format!("override {}\n", sentence(&added)).as_bytes())?;
                return fleet::say(reach.as_ref());
            }
            None => {
                new.id = OverrideId::Shared(DecisionId::mint(now));
                new.instance = Some(name(config)?);
            }
        }
    }
    let store = open(config, Access::Write)?;
    let added = new.clone();
    let id = store.add_override(new).await?;
    let added = Override { id, ..added };
    terminal::print(format!("override {}\n", sentence(&added)).as_bytes())?;
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
    let removed = match all {
        true => removed(config).await?,
        false => Vec::new(),
    };
    let (configured, stored) = (&config.policy.overrides, stored(config).await?);
    let shown = OverrideEntry::list(configured, &stored, &removed, all, now);
    let text = if json {
        shown.iter().flat_map(terminal::json_line).collect()
    } else if shown.is_empty() {
        let text = match all {
            true => "there are no overrides, and there never were\n",
            false => "no overrides are in force\n",
        };
        text.as_bytes().to_vec()
    } else {
        table(&shown, terminal::width()).into_bytes()
    };
    terminal::print(&text).map(drop)
}

/// Returns all overrides: those of the configuration, and those of the store, if there is one.
///
/// # Errors
/// When the store cannot be read.
pub(super) async fn known(config: &Config) -> Result<Vec<Override>, Failure> {
    let configured = config.policy.overrides.iter().cloned();
    Ok(configured.chain(stored(config).await?).collect())
}

/// Returns the overrides of the store; none without a store.
async fn stored(config: &Config) -> Result<Vec<Override>, Failure> {
    match store::open(config, Access::Read) {
        Ok(store) => store.overrides().await.map_err(Into::into),
        Err(error) if error.kind == StoreErrorKind::Missing => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the removed overrides of the store.
async fn removed(config: &Config) -> Result<Vec<Removed>, Failure> {
    match store::open(config, Access::Read) {
        Ok(store) => store.removed_overrides().await.map_err(Into::into),
        Err(error) if error.kind == StoreErrorKind::Missing => Ok(Vec::new()),
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
            fleet::through_process(config, Method::DELETE, &target, None).await?
        {
            terminal::print(format!("override {known} removed\n").as_bytes())?;
            return fleet::say(reach.as_ref());
        }
    }
    let store = open(config, Access::Write)?;
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
    terminal::print(format!("override {known} removed\n").as_bytes())?;
    tell(config).await
}

fn open(config: &Config, access: Access) -> Result<Arc<Store>, Failure> {
    store::open(config, access).map_err(Into::into)
}

/// Tells the running process, if there is one, to read the overrides now.
async fn tell(config: &Config) -> Result<(), Failure> {
    let answer = match &config.admin.socket {
        Some(socket) => {
            Some(admin::ask(socket, Method::POST, OVERRIDES_CHANGED, None, TIMEOUT).await)
        }
        None => None,
    };
    let said = match answer {
        Some(Err(AskError::NotRunning(_))) if config.fleet.is_on() => {
            "no process of this store runs: the one that starts next brings it to the fleet\n"
        }
        // Without a socket, this command cannot tell whether one runs.
        None if config.fleet.is_on() => {
            "a process that uses this store takes it over within a second and brings it to the fleet; without one, the one that \
             starts next does. [admin] socket is \"\", so this command cannot tell how far it reaches\n"
        }
        Some(Ok(())) => "the running process takes it over now\n",
        None | Some(Err(AskError::NotRunning(_))) => {
            "a process that uses this store takes it over within a second\n"
        }
        Some(Err(error)) => {
            let _ = writeln!(io::stderr(), "crawlgate: {error}"); // stderr may be closed
            "a process that uses this store takes it over within a second\n"
        }
    };
    terminal::print(said.as_bytes()).map(drop)
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    const NOW: Moment = Moment::from_millis(1_795_176_000_123); // 2026-11-20T12:00:00.123Z

    fn parsed(words: &[&str]) -> Option<Override> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: OverrideArgs,
        }
        let rest = [
            "--until",
            "2026-12-31",
            "--by",
            "Ada",
            "--reason",
            "a letter",
        ];
        let words = ["crawlgate", "add"].iter().chain(words).chain(&rest);
        match Line::try_parse_from(words).ok()?.args.command {
            Command::Add(args) => new(&args, NOW).ok(),
            _ => None,
        }
    }

    #[test]
    fn the_pattern_may_be_left_out() {
        let found = |words: &[&str]| {
            let one = parsed(words)?;
            Some((one.origin.to_string(), one.pattern, one.action))
        };
        let expected = |origin: &str, pattern: &str, action| {
            Some((origin.to_owned(), pattern.to_owned(), action))
        };
        use overrides::Action::{Allow, Deny};
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("the whole origin", &["https://a.example", "deny"][..], expected("https://a.example", "/", Deny)),
            ("some paths", &["https://a.example", "/p*.html$", "allow"], expected("https://a.example", "/p*.html$", Allow)),
            ("an origin in another spelling", &["HTTPS://A.example:443/", "deny"], expected("https://a.example", "/", Deny)),
            ("no action", &["https://a.example", "/p"], None),
            ("no scheme", &["a.example", "deny"], None),
            ("a URL", &["https://a.example/p", "deny"], None),
            ("an origin of files", &["ftp://a.example:21", "/pub/", "allow"], expected("ftp://a.example", "/pub/", Allow)),
            ("a scheme that is not forwarded", &["gopher://a.example", "deny"], None),
            ("a pattern that matches nothing", &["https://a.example", "p", "deny"], None),
        ];
        for (name, words, expected) in cases {
            assert_eq!(found(words), expected, "{name}");
        }
    }

    #[test]
    fn lists_are_for_people_and_for_programs() {
        let one = Override {
            id: OverrideId::Stored(12),
            ..parsed(&["https://a.example", "/p", "deny"]).expect("valid")
        };
        let expired = Override {
            id: OverrideId::Configured(1),
            until: Some(NOW),
            reason: "\u{1b}[2J".to_owned(),
            ..one.clone()
        };
        let removed = Removed {
            asserted: one.clone(),
            time: NOW,
            by: "Grace".to_owned(),
        };
        let all = [
            OverrideEntry::of(&one, NOW),
            OverrideEntry::of(&expired, NOW),
            OverrideEntry::of_removed(&removed, NOW),
        ];
        let text = table(&all, None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines[3].contains("removed 2026-11-20T12:00:00.123Z by Grace"),
            "{text}"
        );
        assert!(
            lines[1].starts_with("12        deny    https://a.example  /p       2027-01-01T"),
            "{text}"
        );
        assert!(
            lines[2].contains("expired 2026-11-20T12:00:00.123Z"),
            "{text}"
        );
        assert!(lines[2].contains("\\u{1b}[2J"), "{text}");
        let narrow = table(&all[..1], Some(20));
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 20),
            "{narrow}"
        );

        let text: Vec<u8> = all.iter().flat_map(terminal::json_line).collect();
        let text = String::from_utf8(text).expect("UTF-8");
        let objects: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(objects[0]["id"], "12");
        assert_eq!(objects[0]["created"], "2026-11-20T12:00:00.123Z");
        assert_eq!(objects[1]["id"], "config-1");
        assert!(objects[1]["created"].is_null());
        assert!(objects[1]["removed"].is_null());
        assert_eq!(objects[2]["removed"], "2026-11-20T12:00:00.123Z");
        assert_eq!(objects[2]["removed_by"], "Grace");
    }

    #[test]
    fn a_removed_override_is_listed_and_not_removed_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::default();
        config.store.path = Some(folder.path().join("crawlgate.db"));
        config.admin.socket = None;
        let one = parsed(&["https://a.example", "/p", "deny"]).expect("valid");
        let runtime = crate::small_runtime().expect("a runtime");
        runtime.block_on(async {
            let store = open(&config, Access::Write).expect("a store");
            let number = store.add_override(one).await.expect("added");
            let by = "Grace".to_owned();
            assert!(store.remove_override(number, by, NOW).await.expect("kept"));
            let again = remove(&number.to_string(), "Ada", &config, NOW).await;
            assert_eq!(
                again.expect_err("it is removed").to_string(),
                "override 1 was removed 2026-11-20T12:00:00.123Z by Grace already"
            );
            let unknown = remove("2", "Ada", &config, NOW).await;
            let unknown = unknown.expect_err("there is none").to_string();
            assert!(unknown.starts_with("2: no such override"), "{unknown}");
            assert_eq!(removed(&config).await.expect("read").len(), 1);
            assert!(known(&config).await.expect("read").is_empty());
        });
    }
}
