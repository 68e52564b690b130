//! `crawlgate audit`: proves that the store's records are unaltered, and that its decisions follow from the evidence.

mod all;
pub(super) mod evidence;
mod excerpt;
mod file;
mod one;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::fail;
use crate::audit::verify::Head;
use crate::audit::verify::case::Trusted;
use crate::config::Config;
use crate::store::{self, Access, Store, chain, state_file};
use crate::text::hex;

/// Exit code for a fault in the store's records.
const WRONG: u8 = 1;

/// Arguments of `crawlgate audit`.
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Prove a decision, or all of them, from the stored evidence
    ///
    /// Replays the decision from its record and the robots.txt of that time, and checks that neither was altered since:
    /// records are chained, and the chain is sealed.
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Prove the records of an evidence file by the key of the log; needs no store
    ///
    /// Checks that each record is in the log that the key has signed, and makes the decision again from the file alone.
    #[command(after_help = file::HELP)]
    VerifyEvidence(file::FileArgs),
    /// Print the end of the chain, to keep it out of reach of this machine's users
    ///
    /// `audit verify --all --head` checks later whether any record up to it was altered or removed, even by a holder of
    /// the sealing key.
    Head {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the public key that seals are checked with, in hexadecimal
    Key,
}

const VERIFY_HELP: &str = "\
Exit codes: 0 no fault; 1 a decision does not follow from its evidence, a record was altered or \
removed, or there is no key to check the seals; 2 crawlgate itself failed.

Attested only: the store never had the evidence of such a decision, as when a robots.txt was late. \
Its record is still checked for alterations.

Examples:
  crawlgate audit verify 01KB7W3Y5E000000000VY7H1Q2
  crawlgate audit verify --all --key auditor/crawlgate.pub
  crawlgate audit verify --all --head \"$(cat safe/head)\"";

#[derive(Args, Clone, Debug)]
struct VerifyArgs {
    /// The decision's id, as answers and records have it
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// Verify the whole chain, and every decision
    #[arg(long)]
    all: bool,
    /// Replay only decisions from this time on; the chain is checked whole
    #[arg(long, value_name = "TIME", requires = "all")]
    since: Option<String>,
    /// Replay only decisions up to this time
    #[arg(long, value_name = "TIME", requires = "all")]
    until: Option<String>,
    /// The trusted sealing key: a file, or the public key in hexadecimal; repeat it if the key has changed [default:
    /// the key beside the store]
    #[arg(long, value_name = "FILE|HEX")]
    key: Vec<String>,
    /// The end of the chain, noted earlier (`crawlgate audit head`)
    #[arg(long, value_name = "SEQ:HASH", requires = "all")]
    head: Option<Head>,
    /// Show the whole robots.txt, not only the lines around the deciding one
    #[arg(long, conflicts_with = "all")]
    full: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs `crawlgate audit`; exits 0, 1 for a fault in the store's records, or 2.
#[must_use]
pub fn run(args: &AuditArgs, config: &Config) -> ExitCode {
    match told(args, config) {
        Ok(Found::Nothing) => ExitCode::SUCCESS,
        Ok(Found::Faults) => ExitCode::from(WRONG),
        Err(error) => fail(&error),
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Faults,
}

fn told(args: &AuditArgs, config: &Config) -> Result<Found, String> {
    if let Command::Key = args.command {
        let trusted = Trusted::of(&[], config).map_err(|error| error.to_string())?;
        let key = trusted
            .keys
            .first()
            .ok_or("there is no key yet: it is made when the store is first written")?;
        super::screen::say(format!("{}\n", hex(key)).as_bytes())?;
        return Ok(Found::Nothing);
    }
    if let Command::VerifyEvidence(args) = &args.command {
        return file::verify(args, config);
    }
    let store = store::open(config, Access::Read).map_err(|error| error.to_string())?;
    let runtime = super::small_runtime()?;
    runtime.block_on(async {
        match &args.command {
            Command::Verify(args) => {
                let trusted = Trusted::of(&args.key, config).map_err(|error| error.to_string())?;
                match &args.id {
                    Some(id) => one::verify(id, args, &store, &trusted).await,
                    None => all::verify(args, store, &trusted, written(config)?).await,
                }
            }
            Command::Head { json } => head(&store, *json).await,
            Command::Key | Command::VerifyEvidence(_) => Ok(Found::Nothing),
        }
    })
}

/// Returns the last record that the state file of the store names. Read before the records: the file is never ahead of
/// them.
fn written(config: &Config) -> Result<Option<Head>, String> {
    let path = store::named(config).map_err(|error| error.to_string())?;
    let read = state_file::read(path).map_err(|error| error.to_string())?;
    Ok(read
        .map(|(state, _)| state.written)
        .filter(|(seq, _)| *seq > 0)
        .map(|(seq, hash)| Head { seq, hash }))
}

async fn head(store: &Arc<dyn Store>, json: bool) -> Result<Found, String> {
    let failed = |error: store::StoreError| error.to_string();
    let newest = store::DecisionQuery {
        newest_first: true,
        limit: 1,
        ..store::DecisionQuery::default()
    };
    let seals = store.seals().await.map_err(failed)?;
    // Decisions are not the only chained records; few follow the newest decision.
    let newest = store.decisions(newest).await.map_err(failed)?;
    let sealed = seals.last();
    let mut head = sealed.map_or(
        Head {
            seq: 0,
            hash: chain::GENESIS,
        },
        |seal| Head {
            seq: seal.seq,
            hash: seal.hash,
        },
    );
    if let Some(newest) = newest.first().filter(|newest| newest.seq > head.seq) {
        (head.seq, head.hash) = (newest.seq, newest.hash);
    }
    loop {
        let page = store.links(head.seq, 1_000).await.map_err(failed)?;
        let Some(last) = page.last() else { break };
        (head.seq, head.hash) = (last.seq, last.hash);
    }
    let text = if json {
        let seal = sealed.map(|seal| {
            serde_json::json!({
                "seq": seal.seq,
                "hash": hex(seal.hash),
                "time": crate::text::time_text(seal.time),
                "key": hex(seal.key),
            })
        });
        format!(
            "{}\n",
            serde_json::json!({"head": head.to_string(), "seal": seal})
        )
    } else {
        format!("{head}\n")
    };
    super::screen::say(text.as_bytes())?;
    Ok(Found::Nothing)
}
