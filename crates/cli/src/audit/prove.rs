//! Writes evidence files out of the store.

use std::collections::HashSet;
use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::{CheckResult, TrustArgs};
use crate::Failure;
use crate::log::filter::FilterArgs;
use crate::terminal::{self, printable};
use crawlgate_config::Config;
use crawlgate_evidence::bundle::{LinesWriter, write};
use crawlgate_evidence::prove::{Missing, ProvenRecord, Prover, Unproven};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_store::logs::unknown;
use crawlgate_store::{self as store, Access, DecisionQuery, Store, StoreError, StoredDecision};
use crawlgate_system::atomic_file::NewFile;
use crawlgate_system::clock::Clock;

/// The usage: without arguments, the error shows both ways to name decisions.
pub(super) const USAGE: &str = "\
crawlgate audit prove [OPTIONS] <ID>
       crawlgate audit prove [OPTIONS] <CONDITIONS>";

pub(super) const HELP: &str = "\
Conditions are the options from --since to --unacknowledged. With them, as of `crawlgate log`, the file is JSON Lines: all decisions that meet them, oldest first.

If no checkpoint covers the decision yet, this command opens the store for writing and signs one; a running \
`crawlgate serve` is not disturbed.

Exit codes: 0 the file proves every decision; 1 a decision is unknown or altered, or something that \
it rests on is missing: the file then proves its record alone; 2 crawlgate itself failed.

Examples:
  crawlgate audit prove 01KB7W3Y5E000000000VY7H1Q2 -o evidence.json
  crawlgate audit prove --origin https://example.com --since 30d -o example.com.jsonl";

/// Decisions to read at once.
const PAGE: usize = 100;

#[derive(Args, Clone, Debug)]
pub(super) struct ProveArgs {
    /// The decision's id, as answers and records have it
    #[arg(required_unless_present = "FilterArgs", conflicts_with = "FilterArgs")]
    pub(super) id: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// The file to write; it is replaced as a whole, and open to its owner alone [default: the standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    trusted: TrustArgs,
}

/// Writes the evidence that the arguments ask for.
pub(super) async fn prove(
    args: &ProveArgs,
    store: &Arc<Store>,
    config: &Config,
) -> Result<CheckResult, Failure> {
    let trusted = Trusted::of_store(&args.trusted.key, config, store).await?;
    let query = args.filter.query(Clock::system().now())?;
    let newest = match &args.id {
        Some(id) => {
            let found = store.decision(&id.to_ascii_uppercase()).await;
            found?.ok_or_else(|| unknown(id))
        }
        None => {
            let newest = DecisionQuery { newest_first: true, limit: 1, ..query.clone() };
            let found = store.decisions(newest).await?.pop();
            found.ok_or_else(|| "no decision that is kept meets all of these conditions".to_owned())
        }
    };
    let newest = match newest {
        Ok(newest) => newest,
        Err(why) => {
            tell(&why);
            return Ok(CheckResult::Faults);
        }
    };
    let prover = match Prover::of(newest.seq, store, &trusted).await {
        Err(why @ Unproven::Unsigned(_)) => {
            sign(config, &why).await?;
            Prover::of(newest.seq, store, &trusted).await
        }
        prover => prover,
    };
    let prover = match prover {
        Ok(prover) => prover,
        Err(Unproven::Store(error)) => return Err(error.into()),
        Err(why) => {
            tell(&why);
            return Ok(CheckResult::Faults);
        }
    };
    let mut writer = EvidenceWriter::new(args.output.as_deref(), prover)?;
    match args.id {
        Some(_) => {
            if let Some(shown) = writer.show(&newest, store).await? {
                let mut file = Vec::new();
                write(&writer.prover.header(), &shown.exhibit, &mut file);
                writer.put(&file)?;
            }
        }
        None => writer.many(query, newest.seq, store).await?,
    }
    writer.end()
}

/// Signs the log as it is now, by the key beside the store. A store without its key gets none: it may be a copy.
async fn sign(config: &Config, why: &Unproven) -> Result<(), Failure> {
    let failed = |error: StoreError| format!("{why}, and none can be made: {error}");
    let key = store::kept_log_key(config).map_err(failed)?;
    let store = store::open(config, Access::Write).map_err(failed)?;
    let signed = store.checkpoint(key, Clock::system().now());
    Ok(signed.await.map(drop).map_err(failed)?)
}

/// The writer of an evidence file.
struct EvidenceWriter {
    prover: Prover,
    /// The file; `None` for the standard output.
    file: Option<NewFile>,
    records: u64,
    found: CheckResult,
    reported: HashSet<Missing>,
}

impl EvidenceWriter {
    fn new(path: Option<&Path>, prover: Prover) -> Result<Self, Failure> {
        let file = path.map(|path| {
            let failed = |error: &dyn Display| format!("{}: {error}", path.display());
            NewFile::beside(path).map_err(|error| failed(&error))
        });
        Ok(Self {
            prover,
            file: file.transpose()?,
            records: 0,
            found: CheckResult::Clean,
            reported: HashSet::new(),
        })
    }

    /// Collects the evidence of a record, and reports what is missing. `None` if the log holds another record there.
    async fn show(
        &mut self,
        decision: &StoredDecision,
        store: &Arc<Store>,
    ) -> Result<Option<ProvenRecord>, Failure> {
        let shown = match self.prover.show(decision, store).await {
            Ok(shown) => shown,
            Err(Unproven::Store(error)) => return Err(error.into()),
            Err(why) => {
                self.found = CheckResult::Faults;
                tell(&why);
                return Ok(None);
            }
        };
        for one in &shown.missing {
            self.found = CheckResult::Faults;
            if self.reported.insert(*one) {
                let seq = decision.seq;
                tell(&format!("record {seq}: {one}; the file goes without it"));
            }
        }
        Ok(Some(shown))
    }

    /// Writes all records that meet the conditions, up to the record `last`.
    async fn many(
        &mut self,
        query: DecisionQuery,
        last: u64,
        store: &Arc<Store>,
    ) -> Result<(), Failure> {
        let mut text = Vec::new();
        let mut lines = LinesWriter::new(&self.prover.header(), &mut text);
        let mut after = 0;
        loop {
            let page =
                DecisionQuery { after: Some(after), to: Some(last), limit: PAGE, ..query.clone() };
            let page = store.decisions(page).await?;
            let Some(end) = page.last() else {
                return Ok(());
            };
            after = end.seq;
            for decision in &page {
                let Some(shown) = self.show(decision, store).await? else {
                    continue;
                };
                lines.line(&shown.exhibit, &mut text);
                if !self.put(&text)? {
                    return Ok(());
                }
                text.clear();
            }
        }
    }

    /// Writes the next record. False when the reader has gone.
    fn put(&mut self, text: &[u8]) -> Result<bool, Failure> {
        self.records += 1;
        match &mut self.file {
            None => terminal::print(text),
            Some(file) => {
                let written = file.write(text);
                written.map_err(|error| format!("{}: {error}", file.place().display()))?;
                Ok(true)
            }
        }
    }

    /// Puts the file in its place, if it holds a record.
    fn end(self) -> Result<CheckResult, Failure> {
        if let Some(file) = self.file.filter(|_| self.records > 0) {
            let path = file.place().to_owned();
            let placed = file.replace();
            placed.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(self.found)
    }
}

/// Reports on standard error: the standard output may be the file.
pub(super) fn tell(what: &dyn Display) {
    let text = what.to_string();
    let _ = writeln!(std::io::stderr(), "crawlgate: {}", printable(&text)); // stderr may be closed
}
