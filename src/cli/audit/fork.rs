//! Begins a new log where signed records are missing.

use clap::Args;

use super::Found;
use crate::cli::screen::{self, printable};
use crate::cli::small_runtime;
use crate::clock::Clock;
use crate::config::Config;
use crate::store::sqlite::fork::Fork;
use crate::store::{self, Access};

pub(super) const HELP: &str = "\
Without --yes it tells what is missing and what would happen, changes nothing, and exits 1.

Example:
  crawlgate audit fork --reason \"restored the backup of Sunday after the disk failed\" --yes";

#[derive(Args, Clone, Debug)]
pub(super) struct ForkArgs {
    /// The reason, for the record that names the lost log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Do it
    #[arg(long)]
    yes: bool,
}

/// Begins a new log, or tells what that would do.
pub(super) fn fork(args: &ForkArgs, config: &Config) -> Result<Found, String> {
    let path = store::named(config).map_err(|error| error.to_string())?;
    let fork = Fork::of(path, config.audit.log_name.clone()).map_err(|error| error.to_string())?;
    screen::say(fork.told().as_bytes())?;
    if !args.yes {
        let text = "nothing is changed yet: with --yes a new log goes on behind the records at hand, under another name \
                    and with another key\n";
        screen::say(text.as_bytes())?;
        return Ok(Found::Faults);
    }
    let now = Clock::system().now();
    let forked = fork
        .carry_out(&args.reason, now)
        .map_err(|error| error.to_string())?;
    // As every other process opens it, so that what is left to find is found now.
    let failed = |error: store::StoreError| error.to_string();
    let store = store::open(config, Access::Write).map_err(failed)?;
    let key = store::log_key(config).map_err(failed)?;
    small_runtime()?
        .block_on(store.checkpoint(key, now))
        .map_err(failed)?;
    let mut text = format!(
        "new log   {} goes on with record {}, which names the lost one\nkey       {}\n",
        forked.new.name(),
        forked.seq,
        forked.new
    );
    for file in forked.aside {
        let file = file.display().to_string();
        text += &format!("kept      {}\n", printable(&file));
    }
    screen::say(text.as_bytes())?;
    Ok(Found::Nothing)
}
