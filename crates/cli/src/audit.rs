//! `crawlgate audit`: proves that the store's records are unaltered, and that its decisions follow from the evidence.

mod all;
pub(super) mod evidence;
mod excerpt;
mod export;
mod file;
mod fork;
mod key;
mod one;
mod prove;
pub(super) mod several;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};

pub(super) use self::all::verification;
use super::collected::{CollectedArgs, LogSelection, StoreFileArgs};
use super::{Failure, fail};
use crawlgate_config::Config;
use crawlgate_evidence::verify::case::{Trusted, Uncovered};
use crawlgate_evidence::verify::fault::LogFault;
use crawlgate_evidence::verify::keys::CoveringCheckpoint;
use crawlgate_store::log_key::last_witnessed;
use crawlgate_store::state_file::State;
use crawlgate_store::{self as store, Access, Store, StoredCheckpoint, state_file};
use crawlgate_text::time_text;
use crawlgate_tlog::hash_text;

/// Exit code for a fault in the store's records.
const WRONG: u8 = 1;

const NO_CHECKPOINT: &str =
    "there is no checkpoint yet: `crawlgate serve` signs one soon after its first record";

/// Returns the newest checkpoint that a trusted key has signed. `None` without one, which is told.
///
/// # Errors
/// When nothing is signed yet, or the store cannot be read.
async fn newest_trusted(
    store: &Arc<Store>,
    trusted: &Trusted,
) -> Result<Option<CoveringCheckpoint>, Failure> {
    let checkpoints = store.checkpoints().await?;
    match trusted.covering(0, &checkpoints) {
        Ok(newest) => Ok(Some(newest)),
        Err(Uncovered::Unsigned) => Err(NO_CHECKPOINT.into()),
        Err(Uncovered::Keyless(fault)) => {
            prove::tell(&fault);
            Ok(None)
        }
    }
}

/// Arguments of `crawlgate audit`.
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    #[command(flatten)]
    pub(super) collected: CollectedArgs,
    #[command(subcommand)]
    command: Command,
}

impl AuditArgs {
    /// Fails if several logs are chosen for a command that needs one.
    pub(super) fn require_logs(&self, chosen: &LogSelection) -> Result<(), Failure> {
        let what = match &self.command {
            Command::Verify(_) => return Ok(()),
            Command::Prove(args) if args.id.is_some() => return Ok(()),
            Command::Prove(_) => "`crawlgate audit prove` with conditions",
            Command::VerifyEvidence(_) => "`crawlgate audit verify-evidence`",
            Command::Checkpoint { .. } => "`crawlgate audit checkpoint`",
            Command::Consistency { .. } => "`crawlgate audit consistency`",
            Command::Tiles(_) => "`crawlgate audit tiles`",
            Command::Export(_) => "`crawlgate audit export`",
            Command::Key(_) => "`crawlgate audit key`",
            Command::Fork(_) => "`crawlgate audit fork`",
        };
        chosen.require_one(what)
    }

    /// Returns the option that names the file of a store, if the command has it.
    pub(super) fn store_file(&self) -> Option<&StoreFileArgs> {
        match &self.command {
            Command::Verify(args) => Some(&args.store),
            _ => None,
        }
    }

    /// Tells whether the command reads the records of the store.
    pub(super) fn reads_records(&self) -> bool {
        match &self.command {
            Command::Verify(_)
            | Command::Prove(_)
            | Command::Checkpoint { .. }
            | Command::Consistency { .. }
            | Command::Tiles(_)
            | Command::Export(_) => true,
            Command::VerifyEvidence(_) | Command::Key(_) | Command::Fork(_) => false,
        }
    }
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Prove a decision, or all of them, from the stored evidence
    ///
    /// Replays the decision from its record and the robots.txt of that time, and checks that neither was altered since:
    /// records are leaves of a tree (RFC 9162), and its root is signed.
    #[command(override_usage = VERIFY_USAGE, after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Prove the records of an evidence file by the key of the log; needs no store
    ///
    /// Checks that each record is in the log that the key has signed, and makes the decision again from the file alone.
    #[command(after_help = file::HELP)]
    VerifyEvidence(file::FileArgs),
    /// Write the evidence of a decision, or of many, for a reader without the store
    ///
    /// The file holds the record, its proof under the newest checkpoint, and all that the decision rests on: settings,
    /// robots.txt, override. `audit verify-evidence` and docs/verify-evidence.py prove it. It shows the client's address.
    #[command(override_usage = prove::USAGE, after_help = prove::HELP)]
    Prove(prove::ProveArgs),
    /// Print the newest signed root of the log, to keep it out of reach of this machine's users
    ///
    /// A signed note of c2sp.org/tlog-checkpoint. `audit verify --all --checkpoint` checks later whether any record up to
    /// it was altered or removed, even by a holder of the key.
    Checkpoint {
        /// The newest one that enough witnesses have cosigned ([audit] quorum); the time of each goes to standard error
        #[arg(long)]
        cosigned: bool,
    },
    /// Prove that the log only grew between two sizes, each that of a checkpoint
    ///
    /// Prints the hashes of the proof (RFC 9162, section 2.1.4), in base64, a line each, and checks it.
    Consistency {
        /// The older size
        old: u64,
        /// The later size
        new: u64,
    },
    /// Write the log as a tree of files, which other programs read and verify (c2sp.org/tlog-tiles)
    #[command(after_help = export::TILES_HELP)]
    Tiles(export::TilesArgs),
    /// Write the log as immutable files, which any tool can carry to another machine
    ///
    /// Writes what is new up to the newest checkpoint: entries, all that they name, and the checkpoint. A running `crawlgate
    /// serve` goes on undisturbed.
    #[command(after_help = export::EXPORT_HELP)]
    Export(export::ExportArgs),
    /// Print the public key that checkpoints are checked with (c2sp.org/signed-note), or replace the key
    Key(key::KeyArgs),
    /// Begin a new log where signed records are missing, as after an older copy of the store was brought back
    ///
    /// The new log continues after the records of this store, under another name and with another key; its next record
    /// names the lost log and the reason. Nothing is deleted. No other process may have the store open.
    #[command(after_help = fork::HELP)]
    Fork(fork::ForkArgs),
}

/// The trusted key of the log.
#[derive(Args, Clone, Debug)]
struct TrustArgs {
    /// The trusted key of the log: a file, or what `crawlgate audit key` prints; repeat it if the key has changed
    /// [default: the key beside the store]
    #[arg(long, value_name = "FILE|KEY")]
    key: Vec<String>,
}

/// The usage of `audit verify`: without arguments, the error shows both ways to name decisions.
const VERIFY_USAGE: &str = "\
crawlgate audit verify [OPTIONS] <ID>
       crawlgate audit verify [OPTIONS] --all";

const VERIFY_HELP: &str = "\
Exit codes: 0 no fault; 1 a decision does not follow from its evidence, a record was altered or \
removed, or there is no key to check the log with; 2 crawlgate itself failed.

Attested only: the store never had the evidence of such a decision, as when a robots.txt was late. \
Its record is still checked for alterations.

Of several logs (--log), each is verified with the keys that have its name, and all must be without fault; a decision \
is proven in the log that has it.

Examples:
  crawlgate audit verify 01KB7W3Y5E000000000VY7H1Q2
  crawlgate audit verify --all --key auditor/crawlgate.pub
  crawlgate audit verify --all --checkpoint safe/checkpoint
  crawlgate audit verify --all --store backup/crawlgate.db
  crawlgate audit verify --all --log '*'";

#[derive(Args, Clone, Debug)]
struct VerifyArgs {
    /// The decision's id, as answers and records have it
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// Verify the whole log, and every decision
    #[arg(long)]
    all: bool,
    /// Replay only decisions from this time on; the log is checked whole
    #[arg(long, value_name = "TIME", requires = "all")]
    since: Option<String>,
    /// Replay only decisions up to this time
    #[arg(long, value_name = "TIME", requires = "all")]
    until: Option<String>,
    #[command(flatten)]
    trusted: TrustArgs,
    /// A checkpoint that was kept elsewhere (`crawlgate audit checkpoint`); may be repeated
    #[arg(long, value_name = "FILE", requires = "all")]
    checkpoint: Vec<PathBuf>,
    #[command(flatten)]
    store: StoreFileArgs,
    /// Show the whole robots.txt, not only the lines around the deciding one
    #[arg(long, conflicts_with = "all")]
    full: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs `crawlgate audit`; exits 0, 1 for a fault in the store's records, or 2.
#[must_use]
pub fn run(args: &AuditArgs, config: &Config, chosen: &LogSelection) -> ExitCode {
    let found = match chosen {
        LogSelection::One => execute(args, config),
        LogSelection::Several(logs) => several::run(&args.command, logs, config),
    };
    match found {
        Ok(CheckResult::Clean) => ExitCode::SUCCESS,
        Ok(CheckResult::Faults) => ExitCode::from(WRONG),
        Err(error) => fail(&error),
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckResult {
    Clean,
    Faults,
}

fn execute(args: &AuditArgs, config: &Config) -> Result<CheckResult, Failure> {
    match &args.command {
        Command::Key(args) => return key::run(args, config),
        Command::VerifyEvidence(args) => return file::verify(args, config),
        Command::Fork(args) => return fork::fork(args, config),
        _ => {}
    }
    let store = store::open(config, Access::Read)?;
    let runtime = super::small_runtime()?;
    runtime.block_on(async {
        match &args.command {
            Command::Verify(args) => {
                let trusted = Trusted::of_store(&args.trusted.key, config, &store).await?;
                let state = state(config)?;
                match &args.id {
                    Some(id) => {
                        let state = state.unwrap_or_default();
                        one::verify(id, args, &store, config, &trusted, state).await
                    }
                    None => {
                        let kept = all::kept_checkpoints(args)?;
                        all::verify(args, store, &trusted, state, config, &kept, None).await
                    }
                }
            }
            Command::Prove(args) => prove::prove(args, &store, config).await,
            Command::Tiles(args) => export::tiles(args, &store, config).await,
            Command::Export(args) => export::export(args, &store, config).await,
            Command::Checkpoint { cosigned: false } => checkpoint(&store).await,
            Command::Checkpoint { cosigned: true } => cosigned(&store, config).await,
            Command::Consistency { old, new } => consistency(&store, *old, *new).await,
            Command::Key(_) | Command::VerifyEvidence(_) | Command::Fork(_) => {
                Ok(CheckResult::Clean)
            }
        }
    })
}

/// Reads the state file; a fault if it is gone. It comes before the records: the file is never ahead of them.
fn state(config: &Config) -> Result<Result<Option<State>, LogFault>, Failure> {
    let path = store::named(config)?;
    if let Some((state, _)) = state_file::read(path)? {
        return Ok(Ok(Some(state)));
    }
    Ok(if store::sqlite::is_state_gone(path)? {
        Err(LogFault::NoState { store: path.to_owned() })
    } else {
        Ok(None)
    })
}

async fn checkpoint(store: &Arc<Store>) -> Result<CheckResult, Failure> {
    let checkpoints = store.checkpoints().await?;
    let last = checkpoints.last().ok_or(NO_CHECKPOINT)?;
    super::terminal::print(last.note.as_bytes())?;
    Ok(CheckResult::Clean)
}

/// Prints the newest checkpoint that a quorum of the configured witnesses have cosigned.
async fn cosigned(store: &Arc<Store>, config: &Config) -> Result<CheckResult, Failure> {
    let witnesses = &config.audit.witnesses;
    if witnesses.is_empty() {
        bail!("no [[audit.witness]] is configured");
    }
    let (vkeys, quorum) = (config.audit.witness_keys(), config.audit.quorum);
    let checkpoints = store.checkpoints().await?;
    let Some((checkpoint, _)) = last_witnessed(&checkpoints, &vkeys, quorum) else {
        let count = vkeys.len();
        prove::tell(&format!(
            "no checkpoint is cosigned by {quorum} of the {count} configured witnesses ([audit] quorum)"
        ));
        return Ok(CheckResult::Faults);
    };
    super::terminal::print(checkpoint.note.as_bytes())?;
    for (vkey, time) in checkpoint.cosigned(&vkeys) {
        let named = witnesses.iter().find(|one| one.vkey == *vkey);
        let name = named.map_or("", |one| one.name.as_str());
        prove::tell(&format!("cosigned by {name} at {}", time_text(time)));
    }
    Ok(CheckResult::Clean)
}

async fn consistency(store: &Arc<Store>, old: u64, new: u64) -> Result<CheckResult, Failure> {
    let checkpoints = store.checkpoints().await?;
    let root = |size| {
        root_of(&checkpoints, size).ok_or_else(|| {
            let sizes: Vec<String> = checkpoints.iter().map(|one| one.size.to_string()).collect();
            format!(
                "{size}: there is no checkpoint of this size; there are those of {}",
                sizes.join(", ")
            )
        })
    };
    if old > new {
        bail!("a log of {new} records cannot continue one of {old}: give the older size first");
    }
    let (before, after) = (root(old)?, root(new)?);
    let proof = store.consistency(old, new).await?;
    let mut text: String = proof.path.iter().map(|hash| hash_text(hash) + "\n").collect();
    let found = match proof.verify(&before, &after) {
        Ok(()) => CheckResult::Clean,
        Err(error) => {
            text = format!("the log of {new} records does not continue that of {old}: {error}\n");
            CheckResult::Faults
        }
    };
    super::terminal::print(text.as_bytes())?;
    Ok(found)
}

/// Returns the root that a checkpoint of this size names.
fn root_of(checkpoints: &[StoredCheckpoint], size: u64) -> Option<[u8; 32]> {
    let checkpoint = checkpoints.iter().find(|one| one.size == size)?;
    checkpoint.content().map(|content| content.root)
}
