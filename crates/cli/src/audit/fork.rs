//! Begins a new log where signed records are missing.

use std::sync::Arc;

use clap::Args;

use super::CheckResult;
use crate::terminal::{self, printable};
use crate::{Failure, small_runtime, words};
use crawlgate_config::Config;
use crawlgate_evidence::witness::Witnesses;
use crawlgate_store::log_key::{LogKey, log_key_file};
use crawlgate_store::sqlite::fork::Fork;
use crawlgate_store::{self as store, Access};
use crawlgate_system::clock::Clock;

pub(super) const HELP: &str = "\
Without --yes it tells what is missing and what would happen, changes nothing, and exits 1. It asks the configured \
witnesses first: one that knows a checkpoint which the store does not have shows an older copy, too.

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

/// Asks the configured witnesses, tells what they know, and returns the largest size that the store does not have.
fn known(config: &Config) -> Result<Option<u64>, Failure> {
    if config.audit.witnesses.is_empty() {
        return Ok(None);
    }
    let path = store::named(config)?;
    let store = store::open(config, Access::Read)?;
    let runtime = small_runtime()?;
    let signed = runtime.block_on(store.checkpoints())?;
    // A witness knows the log by the name that it had; the configuration may have that of the new log already.
    let name = signed.last().and_then(|last| Some(last.content()?.origin));
    let name = name.or_else(|| config.audit.log_name.clone());
    // A fork that was cut short may have no key: it was asked about before.
    let Ok(key) = LogKey::load(&log_key_file(path), name).map(Arc::new) else {
        return Ok(None);
    };
    let now = Clock::system().now();
    let answers = runtime.block_on(Witnesses::ask(config, &store, &key, now))?;
    let (mut text, mut largest) = (String::new(), None);
    for (name, answer) in answers {
        let said = match answer {
            Ok(Some(size)) => {
                largest = largest.max(Some(size));
                format!("knows a checkpoint of {size} records, which the store does not have")
            }
            Ok(None) => "knows nothing of this log that the store does not have".to_owned(),
            Err(why) => format!("does not tell: {why}"),
        };
        text += &format!("{}\n", printable(&format!("witness   {name} {said}")));
    }
    terminal::print(text.as_bytes())?;
    Ok(largest)
}

/// Begins a new log, or tells what that would do.
pub(super) fn fork(args: &ForkArgs, config: &Config) -> Result<CheckResult, Failure> {
    let reason = words("--reason", &args.reason)?;
    let path = store::named(config)?;
    let known = known(config)?;
    let fork = Fork::of(path, config.audit.log_name.clone(), known)?;
    terminal::print(fork.describe().as_bytes())?;
    if !args.yes {
        let text = "nothing is changed yet: with --yes a new log continues after the records of this store, under another \
                    name and with another key\n";
        terminal::print(text.as_bytes())?;
        return Ok(CheckResult::Faults);
    }
    let now = Clock::system().now();
    let forked = fork.carry_out(&reason, now)?;
    // As every other process opens it, so that what is left to find is found now.
    let store = store::open(config, Access::Write)?;
    let key = store::log_key(config)?;
    small_runtime()?.block_on(store.checkpoint(key, now))?;
    let mut text = format!(
        "new log   {} begins with record {}, which names the lost log\nkey       {}\n",
        forked.new.name(),
        forked.seq,
        forked.new
    );
    for file in forked.aside {
        let file = file.display().to_string();
        text += &format!("kept      {}\n", printable(&file));
    }
    terminal::print(text.as_bytes())?;
    Ok(CheckResult::Clean)
}
