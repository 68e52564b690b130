//! The key of the log: its public half, and its replacement.

use clap::{Args, Subcommand};

use super::CheckResult;
use crate::collected::NoCollectedArgs;
use crate::terminal::{self, printable};
use crate::{Failure, log, small_runtime, words};
use crawlgate_config::Config;
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_store as store;
use crawlgate_store::rotation::RotationReason;
use crawlgate_system::clock::Clock;
use crawlgate_text::time_text;

const ROTATE_HELP: &str = "\
Both keys sign each checkpoint for 30 days. Give the new public key to witnesses and auditors in that time.

Example:
  crawlgate audit key rotate --reason \"yearly\"";

#[derive(Args, Clone, Debug)]
pub(super) struct KeyArgs {
    #[command(subcommand)]
    command: Option<KeyCommand>,
}

#[derive(Subcommand, Clone, Debug)]
enum KeyCommand {
    /// Replace the key that signs the log
    ///
    /// A record of the log names both keys and the reason, and both sign it: that proves the new key to those who know the
    /// old one. The log keeps its name. A running `crawlgate serve` goes on undisturbed, and signs with both from then on.
    #[command(after_help = ROTATE_HELP)]
    Rotate {
        /// The reason, for the record
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// The person who replaces the key; needed where neither $USER nor $LOGNAME is set [default: $USER, else $LOGNAME]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        #[command(flatten)]
        _no_log: NoCollectedArgs,
    },
}

/// Prints the public key, or replaces the key.
pub(super) fn run(args: &KeyArgs, config: &Config) -> Result<CheckResult, Failure> {
    match &args.command {
        None => print(config),
        Some(KeyCommand::Rotate { reason, by, .. }) => rotate(reason, by.as_deref(), config),
    }
}

fn print(config: &Config) -> Result<CheckResult, Failure> {
    let trusted = Trusted::of(&[], config)?;
    let key = trusted
        .keys
        .all
        .first()
        .ok_or("there is no key yet: it is made when the store is first written")?;
    terminal::print(format!("{key}\n").as_bytes())?;
    Ok(CheckResult::Clean)
}

fn rotate(reason: &str, by: Option<&str>, config: &Config) -> Result<CheckResult, Failure> {
    let by = log::person(
        by,
        "neither $USER nor $LOGNAME tells who replaces the key, and nothing is replaced; name the person: --by NAME",
    )?;
    let reason = RotationReason { by, reason: words("--reason", reason)? };
    let now = Clock::system().now();
    let runtime = small_runtime()?;
    let rotation = runtime.block_on(store::rotate_key(config, reason, now))?;
    let text = format!(
        "new key   {}\nold key   {}\n          signs beside the new one until {}\nrecord    {} of the log, signed by both\n",
        rotation.new,
        rotation.old,
        time_text(rotation.until()),
        rotation.seq
    );
    terminal::print(printable_lines(&text).as_bytes())?;
    Ok(CheckResult::Clean)
}

fn printable_lines(text: &str) -> String {
    let lines = text.lines().map(printable);
    lines.map(|line| format!("{line}\n")).collect()
}
