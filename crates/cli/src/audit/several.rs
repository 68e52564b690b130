//! Several logs: each is verified by itself, and a decision is proven in the log that has it.

use super::{CheckResult, Command, VerifyArgs, all, one, prove, state};
use crate::log::found;
use crate::terminal;
use crate::{Failure, small_runtime};
use crawlgate_config::Config;
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_evidence::verify::named_keys::named_keys;
use crawlgate_store::logs::{Log, Logs};
use crawlgate_store::{self as store, Access};
use crawlgate_tlog::{KeyKind, Note, VerifierKey};

/// Runs a command over several logs.
pub(super) fn run(command: &Command, logs: &Logs, config: &Config) -> Result<CheckResult, Failure> {
    let runtime = small_runtime()?;
    runtime.block_on(async {
        match command {
            Command::Verify(VerifyArgs { id: None, .. }) => {
                verify_each(command, logs, config).await
            }
            Command::Verify(args) => {
                let id = args.id.as_deref().unwrap_or_default();
                let config = of_decision(logs, id, config).await?;
                let store = store::open(&config, Access::Read)?;
                let trusted = Trusted::of_store(&args.trusted.key, &config, &store).await?;
                let state = state(&config)?.unwrap_or_default();
                one::verify(id, args, &store, &config, &trusted, state).await
            }
            Command::Prove(args) => {
                let id = args.id.as_deref().unwrap_or_default();
                let config = of_decision(logs, id, config).await?;
                let store = store::open(&config, Access::Read);
                prove::prove(args, &store?, &config).await
            }
            _ => Err("the command needs exactly one log".into()),
        }
    })
}

/// Returns the configuration of a gate that has the log with a decision.
async fn of_decision(logs: &Logs, id: &str, config: &Config) -> Result<Config, Failure> {
    let listed = found(logs, id).await?;
    let log = logs.named(listed.log.as_str());
    log.map(|log| log.config(config)).map_err(Into::into)
}

/// Verifies the whole of each log. One that cannot be read does not keep the others from it.
async fn verify_each(
    command: &Command,
    logs: &Logs,
    config: &Config,
) -> Result<CheckResult, Failure> {
    let Command::Verify(args) = command else {
        return Ok(CheckResult::Clean);
    };
    let kept = all::kept_checkpoints(args)?;
    let (keys, notes) = (keys_of_each(&args.trusted.key, logs)?, &kept);
    for note in notes {
        let name = origin(note);
        if logs.iter().all(|log| log.name().as_str() != name) {
            bail!(
                "--checkpoint: this one belongs to the log {name}, and the logs are {}",
                logs.names()
            );
        }
    }
    let (mut found, mut unread) = (CheckResult::Clean, Vec::new());
    for log in logs {
        let is_its = |key: &&VerifierKey| key.name() == log.name();
        let keys = keys.iter().filter(is_its).map(ToString::to_string);
        let notes = notes.iter().filter(|note| origin(note) == log.name().as_str());
        let (keys, notes) = (keys.collect::<Vec<_>>(), notes.cloned().collect::<Vec<_>>());
        match verify_one(args, log, logs, config, &keys, &notes).await {
            Ok(CheckResult::Clean) => {}
            Ok(CheckResult::Faults) => found = CheckResult::Faults,
            Err(error) => {
                terminal::eprint(&format!("{}: {error}", log.name()));
                unread.push(log.name().as_str());
            }
        }
    }
    if unread.is_empty() {
        Ok(found)
    } else {
        Err(format!("these logs could not be verified: {}", unread.join(", ")).into())
    }
}

async fn verify_one(
    args: &VerifyArgs,
    log: &Log,
    logs: &Logs,
    config: &Config,
    keys: &[String],
    kept: &[Note],
) -> Result<CheckResult, Failure> {
    let config = log.config(config);
    let store = logs.open(log).await?;
    let trusted = Trusted::of_store(keys, &config, &store).await?;
    let state = state(&config)?;
    let name = Some(log.name());
    all::verify(args, store, &trusted, state, &config, kept, name).await
}

/// Returns the keys of an option, each of which must be of one of the logs.
pub(crate) fn keys_of_each(named: &[String], logs: &Logs) -> Result<Vec<VerifierKey>, Failure> {
    let keys = named_keys("--key", named, KeyKind::Ed25519, None)?;
    let strange = |key: &&VerifierKey| logs.iter().all(|log| log.name() != key.name());
    match keys.iter().find(strange) {
        Some(key) => Err(Failure::from(format!(
            "--key {key}: none of the logs has this name; they are {}",
            logs.names()
        ))),
        None => Ok(keys),
    }
}

/// Returns the name of the log that a checkpoint is of.
fn origin(note: &Note) -> &str {
    note.text().lines().next().unwrap_or_default()
}
