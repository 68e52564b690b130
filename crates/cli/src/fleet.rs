//! `crawlgate fleet`: the key of a fleet, its engine, and its members.

mod check;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::terminal::{self, printable};
use super::{Failure, fail};
use crawlgate_config::Config;
use crawlgate_system::atomic_file::NewFile;
use crawlgate_turns::fleet::FleetKey;

/// Arguments of `crawlgate fleet`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct FleetArgs {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
The engine is that of [fleet] in the configuration.

Examples:
  crawlgate fleet key fleet.key  make the key for all instances
  crawlgate fleet check         check an engine before the first instance uses it
  crawlgate fleet status        show the link, the engine and the members
  crawlgate fleet check --json  the same for a monitoring program";

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Check that the engine and its sentinels are set up as the fleet needs it
    ///
    /// A line for each matter: reachable, TLS, version, role, memory, persistence, replicas, sentinels, permissions of the
    /// user. A failure says what breaks, and the command that mends it. Changes nothing at the engine. `serve`
    /// need not run. Exits 0 if no line is a failure, 1 if one is.
    Check(check::CheckArgs),
    /// Show the link, the engine and the members
    ///
    /// Asks the running `crawlgate serve`; without one, the engine itself, and shows the members alone.
    Status(status::StatusArgs),
    /// Make the key that the instances share, in a new file that its owner alone can read
    ///
    /// Reads no configuration. Copy the file to every instance.
    Key(KeyArgs),
}

impl FleetArgs {
    /// Tells whether the command needs no configuration: the key comes before the configuration that names it.
    #[must_use]
    pub fn is_key(&self) -> bool {
        matches!(self.command, Command::Key(_))
    }
}

/// Runs `crawlgate fleet`; exits 0, 1 for an engine that is not as it should be, or 2 on failure.
#[must_use]
pub fn run(args: &FleetArgs, config: &Config) -> ExitCode {
    let done = match &args.command {
        Command::Check(args) => check::run(args, config),
        Command::Status(args) => status::run(args, config).map(|()| ExitCode::SUCCESS),
        Command::Key(args) => make_key(args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| fail(&error))
}

/// Fails where the configuration names no fleet.
fn require(config: &Config) -> Result<(), Failure> {
    if config.fleet.is_on() {
        Ok(())
    } else {
        Err(Failure::from(format!(
            "{}: there is no fleet; name its engine in [fleet] engine, or its sentinels in [fleet] sentinels",
            config.source
        )))
    }
}

/// Arguments of `crawlgate fleet key`.
#[derive(Args, Clone, Debug)]
struct KeyArgs {
    /// The new file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Makes a key in a new file, which only its owner can read.
fn make_key(args: &KeyArgs) -> Result<(), Failure> {
    let path = &args.file;
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = NewFile::create_new(path).map_err(failed)?;
    let text = FleetKey::generate().ok_or("this system gives no random numbers")?;
    file.write(text.as_bytes()).map_err(failed)?;
    file.persist().map_err(failed)?;
    let shown = path.display().to_string();
    let shown = printable(&shown);
    let text = format!(
        "{shown}: a new key; copy it to every instance of the fleet, and name it in [fleet] key_file\n"
    );
    terminal::print(text.as_bytes()).map(drop)
}
