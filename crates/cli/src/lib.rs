//! The command line: one file per command, exit codes in one place.

/// Returns a failure with these words from the function around it.
macro_rules! bail {
    ($($words:tt)*) => {
        return Err(format!($($words)*).into())
    };
}

pub mod admin;
pub mod audit;
pub mod ca;
pub mod check;
pub mod client;
pub mod collect;
mod collected;
pub mod completions;
pub mod config;
mod credentials;
pub mod fleet;
mod log;
pub mod origins;
pub mod overrides;
pub mod report;
pub mod run;
mod running;
pub mod serve;
pub mod service;
mod signals;
pub mod signing;
pub mod sql;
pub mod squid_helper;
pub mod store;
mod terminal;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};

use self::collected::{CollectedArgs, LogSelection, StoreFileArgs};
use crawlgate_admin::{FLUSH, FLUSH_COUNTS, version};
use crawlgate_config::{Config, Destination, Holder, Kept, Source};

/// The reason why a command fails, in words for the operator.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Exit code when crawlgate itself fails: a wrong configuration, a port in use, no store.
pub const FAILED: u8 = 2;

/// Hold every crawler to robots.txt: a forward proxy for HTTP and HTTPS
///
/// Set http_proxy and https_proxy of any crawler to its address. A disallowed URL gets a 403 with the rule that denies
/// it, an allowed request is forwarded unchanged, and denials are kept in a log.
#[derive(Debug, Parser)]
#[command(name = "crawlgate", version, long_version = long_version(), max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    /// Configuration file [default: $CRAWLGATE_CONFIG, else the first that exists of ./crawlgate.toml,
    /// $XDG_CONFIG_HOME/crawlgate/config.toml (~/.config) and /etc/crawlgate/config.toml]. Variables of the form
    /// CRAWLGATE_SECTION__KEY set keys, too
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The command; `serve` by default
    #[command(subcommand)]
    pub command: Option<Command>,
}

const AFTER_HELP: &str = "\
Examples:
  crawlgate                                    listen on 127.0.0.1:8118
  crawlgate run --confine -- scrapy crawl news one crawl, held to robots.txt
  crawlgate check https://example.com/private --agent MyBot
  crawlgate log --since 24h --verdict deny     list denials since yesterday
  crawlgate audit verify --all                 prove decisions and the record chain
  crawlgate ca setup                           print the set-up of each client

Exit codes: 0 done (check: allowed), 1 denied (check), stored data damaged or altered (audit, \
collect, report, store), an engine that is not as its fleet needs it (fleet check), a wrong password (client check), not ready (ready) or cut off by a second signal (serve), 2 crawlgate itself failed; run: the command's own code, \
or 3 if no request came through (--require-traffic), or 4 if one was denied (--fail-on-denied).";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Listen for crawlers (the default)
    #[command(about = serve::about(), long_about = serve::long_about())]
    Serve(serve::ServeArgs),
    /// Tell whether the running `serve` is ready for requests: a health check that needs no other program
    ///
    /// Prints `ready`, or a line with the reasons why it is not. Asks through the admin socket, as /ready answers over HTTP.
    /// Exits 0 if it is ready, 1 if it is not or does not run, or 2 on failure.
    Ready,
    /// Run one command with a proxy of its own
    Run(run::RunArgs),
    /// Decide about URLs without sending them, and explain; lint a robots.txt
    Check(check::CheckArgs),
    /// List, follow, count and acknowledge decisions
    Log(log::LogArgs),
    /// Read decisions and the tables of the store with SQL
    Sql(sql::SqlArgs),
    /// Prove decisions from the stored evidence, and that no record was altered
    Audit(audit::AuditArgs),
    /// Write a report on a span: requests, refusals, grounds, exceptions, and what of it is proven
    ///
    /// One HTML file that prints on A4, for readers outside, and the same figures as JSON.
    Report(report::ReportArgs),
    /// File the exported logs of other machines, verified, in one directory
    Collect(collect::CollectArgs),
    /// Show the states of origins and the changes of their robots.txt
    Origins(origins::OriginsArgs),
    /// Allow or deny paths regardless of robots.txt, by name and until a date
    Override(overrides::OverrideArgs),
    /// Add and list the users of the console and the API
    Admin(admin::AdminArgs),
    /// Add and list clients, and check their passwords
    Client(client::ClientArgs),
    /// Create, show, rotate and export the local CA that intercepts HTTPS
    Ca(ca::CaArgs),
    /// Make the keys that requests are signed with, publish and replace them (Web Bot Auth)
    Signing(signing::SigningArgs),
    /// Check, back up, rebuild and measure the store
    Store(store::StoreArgs),
    /// Show the members of a fleet, check its engine, and make its key
    Fleet(fleet::FleetArgs),
    /// Answer Squid, which asks a running instance whether a request may go out
    SquidHelper(squid_helper::SquidHelperArgs),
    /// Check and print the configuration
    Config(config::ConfigArgs),
    /// Print the completions of a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write the pages of all commands
    Man(completions::ManArgs),
    /// Become a command in a network of its own: `run --confine=net` starts itself as this
    #[command(hide = true)]
    Confined(run::ConfinedArgs),
}

impl Command {
    /// Returns the logs that the command reads.
    fn collected(&self) -> Option<&CollectedArgs> {
        match self {
            Self::Check(args) => args.collected(),
            Self::Log(args) => Some(&args.collected),
            Self::Sql(args) => Some(&args.collected),
            Self::Audit(args) => Some(&args.collected),
            Self::Report(args) => Some(&args.collected),
            Self::Store(args) => Some(&args.collected),
            _ => None,
        }
    }

    /// Returns the option that names the file of a store.
    fn store_file(&self) -> Option<&StoreFileArgs> {
        match self {
            Self::Sql(args) => Some(&args.store),
            Self::Audit(args) => args.store_file(),
            Self::Store(args) => args.store_file(),
            _ => None,
        }
    }

    /// Returns what the command reads, if that may be the service's.
    fn reads(&self) -> Option<Kept> {
        match self {
            Self::Check(args) if args.reads_store() => Some(Kept::Store),
            Self::Log(_)
            | Self::Sql(_)
            | Self::Audit(_)
            | Self::Report(_)
            | Self::Origins(_)
            | Self::Override(_)
            | Self::Ready
            | Self::Store(_) => Some(Kept::Store),
            Self::Ca(args) if args.reads() => Some(Kept::Authority),
            _ => None,
        }
    }

    /// Returns the route by which the running processes write what the command reads.
    fn reads_records(&self) -> Option<&'static str> {
        let reads = match self {
            Self::Report(_) => return Some(FLUSH_COUNTS),
            Self::Check(args) => args.reads_store(),
            Self::Log(_) | Self::Sql(_) => true,
            Self::Audit(args) => args.reads_records(),
            Self::Store(args) => args.reads_records(),
            Self::Origins(args) => args.reads_records(),
            _ => false,
        };
        reads.then_some(FLUSH)
    }

    /// Tells whether the command gets the configuration. The others read none, or read it by themselves.
    fn is_configured(&self) -> bool {
        match self {
            Self::Config(_) | Self::Completions(_) | Self::Man(_) => false,
            // Squid starts the helper in any directory and as any user: it reads no configuration but a named one.
            Self::SquidHelper(_) => false,
            // The confined process must have one thread, and shares only a socket with the process that started it.
            Self::Confined(_) => false,
            // The key comes before the configuration that names it.
            Self::Fleet(args) => !args.is_key(),
            _ => true,
        }
    }

    /// Puts the store that the options name in the place of the configured one, and returns the logs to read.
    ///
    /// # Errors
    /// When there is no such log, or several are chosen and the command needs exactly one.
    fn choose(&self, config: &mut Config) -> Result<LogSelection, Failure> {
        if let Some(args) = self.store_file() {
            args.put_in(self.collected(), config)?;
        }
        let chosen = match self.collected() {
            Some(args) => args.choose(config)?,
            None => LogSelection::One,
        };
        match self {
            Self::Log(args) => args.require_logs(&chosen),
            Self::Audit(args) => args.require_logs(&chosen),
            Self::Store(_) => chosen.require_one("`crawlgate store`"),
            _ => Ok(()),
        }?;
        Ok(chosen)
    }
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not failures.
            let code = if error.use_stderr() { FAILED } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let command = cli.command.unwrap_or(Command::Serve(serve::ServeArgs::default()));
    perform(command, cli.config.as_deref()).unwrap_or_else(|error| fail(&error))
}

/// Runs a command, and returns its exit code.
fn perform(command: Command, explicit: Option<&Path>) -> Result<ExitCode, Failure> {
    let of_user = |config| (config, Holder::User);
    let (mut config, holder) = match (&command, command.reads()) {
        (Command::Serve(args), _) => args.load(explicit).map(of_user),
        (_, Some(kept)) => Config::load_to_read(explicit, kept),
        (command, None) if command.is_configured() => Config::load(explicit).map(of_user),
        (_, None) => Ok(of_user(Config::default())),
    }?;
    let found = config.store.path.clone();
    // The file may have come with another user's files, as in a checkout; its own [log] level cannot hide it.
    if let Source::Nearby(file) = &config.source {
        terminal::tell(format_args!(
            "the configuration is {}, found in the working directory",
            file.display()
        ));
    }
    let chosen = command.choose(&mut config).map_err(escaped)?;
    // A collected log and a named store have another place.
    if config.store.path == found {
        tell_holder(&holder);
        if chosen.has_own()
            && let Some(route) = command.reads_records()
        {
            running::before_reading(&config, route);
        }
    }
    match command {
        Command::Serve(args) => serve::run(&args, config, explicit),
        Command::Ready => running::ready(&config),
        Command::Run(args) => run::run(&args, config),
        Command::Check(args) => {
            args.reach.add_to(&mut config);
            Ok(check::run(&args, &config, &chosen))
        }
        Command::Log(args) => Ok(log::run(&args, &config, &chosen)),
        Command::Sql(args) => Ok(sql::run(&args, &config, &chosen)),
        Command::Audit(args) => Ok(audit::run(&args, &config, &chosen)),
        Command::Report(args) => Ok(report::run(&args, &config, &chosen)),
        Command::Collect(args) => Ok(collect::run(&args, &config)),
        Command::Origins(args) => Ok(origins::run(&args, &config)),
        Command::Override(args) => overrides::run(&args, &config),
        Command::Admin(args) => admin::run(&args, &config),
        Command::Client(args) => client::run(&args, &config),
        Command::Ca(args) => ca::run(&args, &config),
        Command::Signing(args) => signing::run(&args, &config).map_err(escaped),
        Command::Store(args) => store::run(&args, &config),
        Command::Fleet(args) => Ok(fleet::run(&args, &config)),
        Command::SquidHelper(args) => squid_helper::run(&args, explicit),
        Command::Config(args) => config::run(&args, explicit),
        Command::Completions(args) => completions::completions(&args),
        Command::Man(args) => completions::man(&args),
        Command::Confined(args) => run::run_confined(&args),
    }
}

/// Destinations of one command besides the public internet.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ExtraDestinations {
    /// Allow this destination, too, though it is not on the public internet: 127.0.0.1, 10.0.0.0/8:8080, site.example.
    /// As [egress] allow in the configuration; may be repeated
    #[arg(long, value_name = "PLACE")]
    allow: Vec<Destination>,
}

impl ExtraDestinations {
    fn add_to(&self, config: &mut Config) {
        config.egress.allow.extend(self.allow.iter().cloned());
    }
}

/// Reports that a command reads what is the service's, or could not.
fn tell_holder(holder: &Holder) {
    let message = match holder {
        Holder::User => return,
        Holder::Service(directory) => format!(
            "this user has none of its own: reading the service's in {}",
            directory.display()
        ),
        Holder::Closed(directory) => format!(
            "this user may not read the service's in {}: try the command with sudo, as in `sudo crawlgate log`",
            directory.display()
        ),
    };
    terminal::tell(message);
}

/// Returns what `--version` prints after the name; `-V` prints only the version.
fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(version::text);
    &TEXT
}

/// Reports why crawlgate cannot go on.
pub(crate) fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    terminal::tell(error);
    ExitCode::from(FAILED)
}

/// Returns a failure that is shown without control characters of others.
fn escaped(error: Failure) -> Failure {
    terminal::printable(&error.to_string()).into_owned().into()
}

/// Checks the value of an option that goes into the log or a report, and returns it without surrounding white space.
///
/// # Errors
/// When it is empty, too long, or not one line; the message names the option.
pub(crate) fn words(option: &str, text: &str) -> Result<String, Failure> {
    Ok(crawlgate_policy::overrides::words(text).map_err(|error| format!("{option}: {error}"))?)
}

/// Creates a runtime for a command with one request at a time.
pub(crate) fn small_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build();
    Ok(runtime.map_err(|error| format!("the runtime cannot be started: {error}"))?)
}
