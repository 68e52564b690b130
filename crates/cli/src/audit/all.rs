//! Walks the whole log, and proves every decision.

mod report;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use self::report::{as_json, as_text};
use super::{CheckResult, VerifyArgs};
use crate::Failure;
use crate::terminal::{self, Unit, printable};
use crawlgate_admin::query::when::{self, Edge};
use crawlgate_config::{AuditConfig, Config, WitnessConfig};
use crawlgate_evidence::report::Verification;
use crawlgate_evidence::verify::all::{LogResult, MAX_SHOWN, Progress, Span, examine};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_evidence::verify::fault::LogFault;
use crawlgate_store::log_key::last_witnessed;
use crawlgate_store::state_file::State;
use crawlgate_store::{self as store, Store, StoredCheckpoint};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_text::time_text;
use crawlgate_tlog::{KeyName, Note, VerifierKey};

impl VerifyArgs {
    fn span(&self) -> Result<Span, Failure> {
        let now = Clock::system().now();
        let time = |name, text: &Option<String>, edge| {
            let time = text.as_deref().map(|text| when::moment(text, edge, now));
            time.transpose().map_err(|error| format!("{name} {error}"))
        };
        Ok(Span {
            since: time("--since", &self.since, Edge::Since)?,
            until: time("--until", &self.until, Edge::Until)?,
        })
    }
}

/// Verifies the whole log, also by checkpoints that were kept elsewhere, and tells the result; with the `name` of the log,
/// if several are verified.
pub(super) async fn verify(
    args: &VerifyArgs,
    store: Arc<Store>,
    trusted: &Trusted,
    state: Result<Option<State>, LogFault>,
    config: &Config,
    kept: &[Note],
    name: Option<&KeyName>,
) -> Result<CheckResult, Failure> {
    let span = args.span()?;
    let examined = examined(&store, trusted, state, &span, kept).await?;
    let LogResult { counts, verification, faults, last } = &examined;
    let is_whole = faults.is_empty();
    let faults: Vec<String> = faults.iter().map(LogFault::to_string).collect();
    let checkpoints = store.checkpoints().await?;
    let seen = Witnessed::of(&config.audit, &checkpoints);
    let seen = seen.with_ahead(&store, trusted).await?;
    let path = store::named(config)?;
    let path = path.display().to_string();
    let text = if args.json {
        let mut json = as_json(counts, verification, &faults, trusted, &seen);
        if let Value::Object(members) = &mut json {
            let name = name.map(|name| ("log".to_owned(), name.as_str().into()));
            members.extend(name);
            members.insert("store".to_owned(), path.into());
        }
        terminal::json_line(&json)
    } else {
        let last = last.as_ref();
        let heading = name.map(|name| format!("{}\n", printable(name.as_str())));
        let heading = heading.unwrap_or_default() + &format!("store     {}\n", printable(&path));
        let text = as_text(counts, verification, is_whole, &faults, last, trusted, &seen);
        (heading + &text).into_bytes()
    };
    terminal::print(&text)?;
    Ok(if examined.is_ok() { CheckResult::Clean } else { CheckResult::Faults })
}

/// Verifies the whole log for a report, and the decisions of a span.
pub(crate) async fn verification(
    store: &Arc<Store>,
    trusted: &Trusted,
    config: &Config,
    (since, until): (Moment, Moment),
) -> Result<Verification, Failure> {
    let span = Span { since: Some(since), until: Some(until) };
    let state = super::state(config)?;
    let examined = examined(store, trusted, state, &span, &[]).await?;
    let LogResult { counts, verification, faults, .. } = &examined;
    let wrong = counts.shown.iter().map(|wrong| format!("record {}: {}", wrong.seq, wrong.message));
    let checkpoints = store.checkpoints().await?;
    let seen = Witnessed::of(&config.audit, &checkpoints);
    let all = faults.iter().map(LogFault::to_string).chain(wrong);
    Ok(Verification {
        ok: examined.is_ok(),
        records: counts.records,
        signed: verification.signed,
        witnesses: seen.each.len(),
        quorum: seen.quorum,
        witnessed: seen.last.map(|last| last.0),
        witnessed_at: seen.last.map(|last| time_text(last.1)),
        proven: counts.proven,
        attested: counts.attested.values().sum(),
        wrong: counts.wrong,
        faults: all.take(MAX_SHOWN).collect(),
    })
}

/// Examines the whole log, with a bar of its progress.
async fn examined(
    store: &Arc<Store>,
    trusted: &Trusted,
    state: Result<Option<State>, LogFault>,
    span: &Span,
    kept: &[Note],
) -> Result<LogResult, Failure> {
    let bar = terminal::bar(Unit::Records, 0);
    let tell = |progress| match progress {
        Progress::Of(records) => bar.set_length(records),
        Progress::Read(records) => bar.inc(records),
    };
    let examined = examine(store, trusted, state, span, kept, &tell).await;
    bar.finish_and_clear();
    examined.map_err(Into::into)
}

/// Reads the checkpoints that were kept elsewhere.
pub(super) fn kept_checkpoints(args: &VerifyArgs) -> Result<Vec<Note>, Failure> {
    args.checkpoint.iter().map(kept).collect()
}

/// Reads a checkpoint that was kept elsewhere.
fn kept(path: &PathBuf) -> Result<Note, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| format!("--checkpoint {}: {error}", path.display());
    let octets = std::fs::read(path).map_err(|error| failed(&error))?;
    Ok(Note::parse(&octets).map_err(|error| failed(&error))?)
}

/// The size of a checkpoint, and the time by which it was cosigned.
type CosignedSize = Option<(u64, Moment)>;

/// The newest checkpoints that the configured witnesses have cosigned.
struct Witnessed<'c> {
    /// The name of each witness, and the newest that it has cosigned.
    each: Vec<(&'c str, CosignedSize)>,
    /// The number of witnesses that a witnessed checkpoint has.
    quorum: usize,
    /// The newest that so many have cosigned.
    last: CosignedSize,
    /// The witnesses that know a checkpoint of this size, which the store does not have.
    ahead: Vec<(String, u64)>,
}

impl<'c> Witnessed<'c> {
    fn of(config: &'c AuditConfig, checkpoints: &[StoredCheckpoint]) -> Self {
        let last = |keys: &[VerifierKey], quorum| {
            let last = last_witnessed(checkpoints, keys, quorum);
            last.map(|(one, time)| (one.size, time))
        };
        let one = |one: &'c WitnessConfig| {
            let vkey = std::slice::from_ref(&one.vkey);
            (one.name.as_str(), last(vkey, 1))
        };
        Self {
            each: config.witnesses.iter().map(one).collect(),
            quorum: config.quorum,
            last: last(&config.witness_keys(), config.quorum),
            ahead: Vec::new(),
        }
    }

    /// Reads which witnesses know more than the store: no checkpoint is signed any more then.
    async fn with_ahead(mut self, store: &Store, trusted: &Trusted) -> Result<Self, Failure> {
        let names: BTreeSet<&KeyName> = trusted.keys.all.iter().map(VerifierKey::name).collect();
        for name in names {
            let ahead = store.ahead(name).await;
            self.ahead.extend(ahead?);
        }
        Ok(self)
    }
}
