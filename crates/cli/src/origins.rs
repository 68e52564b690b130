//! `crawlgate origins`: the states of origins, the changes of their robots.txt, and refreshes.
//!
//! The store has all of it. Only work that a running process must do (`refresh`) or should know of (`forget`) goes
//! through its admin socket.

mod change;
mod diff;
mod list;
mod paging;
mod show;
mod sitemaps;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};

use self::list::ListArgs;
use self::show::ShowArgs;
use self::sitemaps::SitemapsArgs;
use super::{Failure, fail, small_runtime};
use crawlgate_admin::query::{identity, origin};
use crawlgate_config::Config;
use crawlgate_origins::identity::Identity;
use crawlgate_proxy::telemetry::tell_on_stderr;
use crawlgate_robots::Origin;
use crawlgate_store::{self as store, Access, Store};
use crawlgate_system::clock::Clock;

/// Exit code for an unknown origin, or for a robots.txt that could not be fetched.
const NOTHING: u8 = 1;

/// Arguments of `crawlgate origins`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct OriginsArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListArgs,
}

const AFTER_HELP: &str = "\
Examples:
  crawlgate origins --state unreachable
  crawlgate origins show https://example.com --robots
  crawlgate origins show https://example.com --diff
  crawlgate origins show https://example.com --diff 2026-11-01 2026-11-20
  crawlgate origins sitemaps --agent ExampleBot --json
  crawlgate origins refresh https://example.com

Exit codes: 0 done, 1 the origin is unknown (show, forget), nothing is listed or its robots.txt could not be fetched (refresh), \
2 crawlgate itself failed.";

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// List the origins, as without a command
    List(ListArgs),
    /// Show the state of one origin
    Show(ShowArgs),
    /// List the Sitemap lines of all origins, and whether a crawler may fetch each
    ///
    /// The robots.txt of a sitemap's own origin decides: the one that the crawler itself got, otherwise that of `*` or of
    /// another crawler. Nothing is fetched: the answer is unknown where that robots.txt is.
    Sitemaps(SitemapsArgs),
    /// Have the running process fetch robots.txt now, even if its state is fresh
    Refresh {
        /// The origins, such as https://example.com
        #[arg(required = true, value_name = "ORIGIN", value_parser = origin)]
        origins: Vec<Origin>,
        /// Only this identity: a product token, or * [default: every identity with a stored state]
        #[arg(long = "as", value_name = "IDENTITY", value_parser = identity)]
        identity: Option<Identity>,
    },
    /// Drop the state of an origin, the time of an outage included
    ///
    /// The next request treats the origin as unknown. Decisions, and the robots.txt that they rest on, stay.
    Forget {
        /// The origins, such as https://example.com
        #[arg(required = true, value_name = "ORIGIN", value_parser = origin)]
        origins: Vec<Origin>,
        /// Only this identity: a product token, or * [default: all]
        #[arg(long = "as", value_name = "IDENTITY", value_parser = identity)]
        identity: Option<Identity>,
    },
}

impl OriginsArgs {
    /// Tells whether the command reads states in the store.
    pub(super) fn reads_records(&self) -> bool {
        match &self.command {
            None | Some(Command::List(_) | Command::Show(_) | Command::Sitemaps(_)) => true,
            Some(Command::Refresh { .. } | Command::Forget { .. }) => false,
        }
    }
}

/// The states of a list.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum StateName {
    /// The origin has a robots.txt
    Successful,
    /// The origin has none
    Unavailable,
    /// The origin's robots.txt cannot be fetched
    Unreachable,
}

impl StateName {
    fn as_str(self) -> &'static str {
        match self {
            Self::Successful => "successful",
            Self::Unavailable => "unavailable",
            Self::Unreachable => "unreachable",
        }
    }
}

/// Runs `crawlgate origins`; exits 0, 1 for an unknown origin, or 2 on failure.
#[must_use]
pub fn run(args: &OriginsArgs, config: &Config) -> ExitCode {
    if let Err(error) = tell_on_stderr("warn") {
        return fail(&error.to_string());
    }
    match execute(args, config) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

fn execute(args: &OriginsArgs, config: &Config) -> Result<u8, Failure> {
    // clap cannot refuse this: it would refuse --config before a command, too.
    if args.command.is_some() && args.list != ListArgs::default() {
        bail!("the options of the list stand without a command");
    }
    let now = Clock::system().now();
    small_runtime()?.block_on(async {
        match &args.command {
            None => list::list(&args.list, &*open(config, Access::Read)?, now).await,
            Some(Command::List(args)) => list::list(args, &*open(config, Access::Read)?, now).await,
            Some(Command::Show(args)) => {
                show::show(args, &*open(config, Access::Read)?, config, now).await
            }
            Some(Command::Sitemaps(args)) => {
                sitemaps::sitemaps(args, &*open(config, Access::Read)?, config, now).await
            }
            Some(Command::Refresh { origins, identity }) => {
                change::refresh(origins, identity.as_ref(), config).await
            }
            Some(Command::Forget { origins, identity }) => {
                change::forget(origins, identity.as_ref(), config).await
            }
        }
    })
}

fn open(config: &Config, access: Access) -> Result<Arc<Store>, Failure> {
    store::open(config, access).map_err(Into::into)
}
