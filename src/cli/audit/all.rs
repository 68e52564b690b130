//! Walks the whole log, and proves every decision.

mod report;
mod witnessed;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use indicatif::ProgressBar;
use serde_json::Value;

use self::report::{as_json, as_text};
use self::witnessed::Witnessed;
use super::{CheckResult, VerifyArgs};
use crate::admin::query::when::{self, Edge};
use crate::audit::replay::{Evidence, Outcome, evidence};
use crate::audit::report::Verification;
use crate::audit::verify::acknowledged::Acknowledged;
use crate::audit::verify::case::Trusted;
use crate::audit::verify::fault::LogFault;
use crate::audit::verify::review::{Finding, Replayer};
use crate::audit::verify::walk::{Known, LogVerification, LogVerifier, Subtree};
use crate::cli::terminal::{self, Unit, printable};
use crawlgate_config::Config;
use crawlgate_record::{Entry, EventKind};
use crawlgate_store::state_file::State;
use crawlgate_store::{
    self as store, Store, StoreError, StoredCheckpoint, StoredDecision, StoredRoot,
};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_text::time_text;
use crawlgate_tlog::{KeyName, Note};

/// Records to read at once.
const PAGE: usize = 1_000;

/// Faults to print one by one; the others are counted.
const MAX_SHOWN: usize = 100;

/// The result for all decisions.
#[derive(Default)]
struct DecisionCounts {
    records: u64,
    proven: u64,
    /// Of these, decisions after the last record that a checkpoint confirms.
    proven_since: u64,
    /// Replayed, but the record is among some that the log contradicts.
    unlinked: u64,
    /// Attested decisions by reason.
    attested: BTreeMap<&'static str, u64>,
    /// Lines that are no decisions, by kind.
    events: BTreeMap<String, u64>,
    /// The entries that name a log before this one, in words.
    forks: Vec<String>,
    /// The acknowledgements that the store shows, beside those of the log.
    acknowledged: Acknowledged,
    /// Decisions outside the requested time: in the log, not replayed.
    passed: u64,
    wrong: u64,
    /// The first faults.
    shown: Vec<FaultyDecision>,
}

/// A decision with a fault.
struct FaultyDecision {
    seq: u64,
    id: Option<String>,
    code: &'static str,
    message: String,
}

/// The time of the decisions to replay.
struct Span {
    since: Option<Moment>,
    until: Option<Moment>,
}

impl Span {
    fn of(args: &VerifyArgs) -> Result<Span, String> {
        let now = Clock::system().now();
        let time = |name, text: &Option<String>, edge| {
            let time = text.as_deref().map(|text| when::moment(text, edge, now));
            time.transpose().map_err(|error| format!("{name} {error}"))
        };
        Ok(Span {
            since: time("--since", &args.since, Edge::Since)?,
            until: time("--until", &args.until, Edge::Until)?,
        })
    }
}

/// The result for the whole log.
struct LogResult {
    counts: DecisionCounts,
    verification: LogVerification,
    faults: Vec<LogFault>,
    last: Option<StoredCheckpoint>,
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
) -> Result<CheckResult, String> {
    let span = Span::of(args)?;
    let examined = examine(&store, trusted, state, &span, kept).await?;
    let LogResult {
        counts,
        verification,
        faults,
        last,
    } = &examined;
    let is_whole = faults.is_empty();
    let faults: Vec<String> = faults.iter().map(LogFault::to_string).collect();
    let checkpoints = store.checkpoints().await;
    let checkpoints = checkpoints.map_err(|error| error.to_string())?;
    let seen = Witnessed::of(&config.audit, &checkpoints);
    let seen = seen.with_ahead(&store, trusted).await?;
    let path = store::named(config).map_err(|error| error.to_string())?;
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
        let text = as_text(
            counts,
            verification,
            is_whole,
            &faults,
            last,
            trusted,
            &seen,
        );
        (heading + &text).into_bytes()
    };
    terminal::print(&text)?;
    Ok(match examined.is_ok() {
        true => CheckResult::Clean,
        false => CheckResult::Faults,
    })
}

/// Verifies the whole log for a report, and the decisions of a span.
pub(in crate::cli) async fn verification(
    store: &Arc<Store>,
    trusted: &Trusted,
    config: &Config,
    (since, until): (Moment, Moment),
) -> Result<Verification, String> {
    let span = Span {
        since: Some(since),
        until: Some(until),
    };
    let state = super::state(config)?;
    let examined = examine(store, trusted, state, &span, &[]).await?;
    let LogResult {
        counts,
        verification,
        faults,
        ..
    } = &examined;
    let wrong = counts
        .shown
        .iter()
        .map(|wrong| format!("record {}: {}", wrong.seq, wrong.message));
    let checkpoints = store.checkpoints().await;
    let checkpoints = checkpoints.map_err(|error| error.to_string())?;
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

impl LogResult {
    fn is_ok(&self) -> bool {
        self.faults.is_empty() && self.counts.wrong == 0
    }
}

async fn examine(
    store: &Arc<Store>,
    trusted: &Trusted,
    state: Result<Option<State>, LogFault>,
    span: &Span,
    kept: &[Note],
) -> Result<LogResult, String> {
    let failed = |error: StoreError| error.to_string();
    let checkpoints = store.checkpoints().await.map_err(failed)?;
    let extent = store.extent().await.map_err(failed)?;
    let roots = store.roots().await.map_err(failed)?;
    let damaged = store.damaged_rotations().await.map_err(failed)?;
    let damaged = damaged.into_iter().map(|seq| LogFault::Rotation { seq });
    let mut faults: Vec<LogFault> = damaged.collect();
    let state = state.unwrap_or_else(|gone| {
        faults.push(gone);
        None
    });
    let known = Known {
        keys: trusted.keys.clone(),
        checkpoints: &checkpoints,
        kept,
        written: state
            .map(|state| state.written)
            .filter(|(size, _)| *size > 0),
    };
    let signed = state.map_or(0, |state| state.signed.0);
    if checkpoints.last().map_or(0, |last| last.size) < signed {
        faults.push(LogFault::Unsigned { size: signed });
    }
    let mut verifier = LogVerifier::new(&known, subtrees(&roots, 0), &mut faults);
    verifier.learn(extent.first, []);
    let mut counts = DecisionCounts::default();
    let bar = terminal::bar(Unit::Records, extent.size.saturating_sub(extent.first));
    walk(store, span, &mut verifier, &mut counts, &mut faults, &bar).await?;
    bridge(&mut verifier, store, &mut faults).await;
    let verification = verifier.end(&mut faults);
    let dropped = store.extent().await.map_err(failed)?.first;
    let acknowledged = std::mem::take(&mut counts.acknowledged);
    let compared = acknowledged.end(store, dropped, &mut faults).await;
    compared.map_err(failed)?;
    let counted = store.miscounted().await.map_err(failed)?;
    faults.extend(counted.map(LogFault::Counted));
    bar.finish_and_clear();
    counts.doubt(&faults);
    Ok(LogResult {
        counts,
        verification,
        faults,
        last: checkpoints.last().cloned(),
    })
}

/// Steps through all records of the store.
async fn walk(
    store: &Arc<Store>,
    span: &Span,
    verifier: &mut LogVerifier,
    counts: &mut DecisionCounts,
    faults: &mut Vec<LogFault>,
    bar: &ProgressBar,
) -> Result<(), String> {
    let failed = |error: StoreError| error.to_string();
    let mut review = Replayer::new(store);
    let mut after = 0;
    let mut page = store.records(after, PAGE).await.map_err(failed)?;
    while let Some(last) = page.last() {
        // The next page is read while this one is processed.
        let next = tokio::spawn({
            let (store, after) = (Arc::clone(store), last.seq);
            async move { store.records(after, PAGE).await }
        });
        tokio::task::yield_now().await;
        let is_gap = |first: &StoredDecision| first.seq > after.saturating_add(1);
        if page.first().is_some_and(is_gap) {
            // Retention may have dropped the next records since the last page.
            let extent = store.extent().await.map_err(failed)?;
            let roots = store.roots().await.map_err(failed)?;
            verifier.learn(extent.first, subtrees(&roots, after));
        }
        after = last.seq;
        for decision in &page {
            let index = decision.seq.saturating_sub(1);
            verifier.step(index, &decision.entry, faults);
            let counted = counts.count(decision, span, &mut review);
            counted.await.map_err(failed)?;
            if verifier.signed() == Some(decision.seq) {
                counts.proven_since = 0;
            }
        }
        bar.inc(page.len() as u64);
        let read = next.await.map_err(|error| error.to_string())?;
        page = read.map_err(failed)?;
    }
    Ok(())
}

/// Reads the checkpoints that were kept elsewhere.
pub(super) fn kept_checkpoints(args: &VerifyArgs) -> Result<Vec<Note>, String> {
    args.checkpoint.iter().map(kept).collect()
}

/// Reads a checkpoint that was kept elsewhere.
fn kept(path: &PathBuf) -> Result<Note, String> {
    let failed =
        |error: &dyn std::fmt::Display| format!("--checkpoint {}: {error}", path.display());
    let octets = std::fs::read(path).map_err(|error| failed(&error))?;
    Note::parse(&octets).map_err(|error| failed(&error))
}

/// Returns the stored roots of what lies from an index on.
fn subtrees(roots: &[StoredRoot], from: u64) -> impl Iterator<Item = Subtree> {
    let later = roots.iter().filter(move |one| one.first >= from);
    later.filter_map(|one| Subtree::of(one.first, one.count, one.root))
}

/// Compares the checkpoints in dropped ground, each by a proof that the log continues it.
async fn bridge(verifier: &mut LogVerifier, store: &Arc<Store>, faults: &mut Vec<LogFault>) {
    let sizes: Vec<u64> = verifier.unreached().collect();
    for size in sizes {
        // A checkpoint without a proof stays uncompared, and the result says so.
        if let Ok(proof) = store.consistency(size, verifier.size()).await {
            verifier.bridge(&proof, faults);
        }
    }
}

impl DecisionCounts {
    /// Counts a decision that the evidence confirms, or does not contradict.
    fn replayed(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Attested(why) => *self.attested.entry(why.as_str()).or_default() += 1,
            _ => {
                self.proven += 1;
                self.proven_since += 1;
            }
        }
    }

    /// Takes proofs back that rest on records which the log contradicts.
    fn doubt(&mut self, faults: &[LogFault]) {
        let span = |from: u64, to: u64| to.saturating_sub(from).saturating_add(1);
        let mut doubted = 0;
        for fault in faults {
            doubted += match fault {
                LogFault::Bundle { from, to } => span(*from, *to),
                LogFault::Anchor { .. } => self.proven_since,
                LogFault::Order { .. } => 1,
                _ => 0,
            };
        }
        let doubted = doubted.min(self.proven);
        self.proven -= doubted;
        self.unlinked += doubted;
    }

    async fn count(
        &mut self,
        decision: &StoredDecision,
        span: &Span,
        review: &mut Replayer<'_>,
    ) -> Result<(), StoreError> {
        self.records += 1;
        self.acknowledged.step(decision);
        let evidence = Evidence::read(&decision.record);
        if evidence
            .as_ref()
            .is_ok_and(|evidence| !span.holds(evidence))
        {
            self.passed += 1;
            return Ok(());
        }
        match review.look(decision, &evidence).await? {
            Finding::Replayed(outcome @ (Outcome::Same | Outcome::Attested(_))) => {
                self.replayed(&outcome);
            }
            Finding::Dropped => self.records -= 1,
            Finding::Event(event) => {
                self.acknowledged.event(decision);
                self.forks.extend(fork(decision));
                *self.events.entry(event).or_default() += 1;
            }
            wrong => {
                self.wrong += 1;
                if self.shown.len() < MAX_SHOWN {
                    self.shown.push(FaultyDecision {
                        seq: decision.seq,
                        id: evidence.ok().map(|evidence| evidence.id.to_string()),
                        code: wrong.code(),
                        message: wrong.to_string(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Returns the words of an entry that names a log before this one.
fn fork(record: &StoredDecision) -> Option<String> {
    let Ok(Entry::Event(event)) = Entry::read(&record.entry) else {
        return None;
    };
    let EventKind::Forked {
        log, size, reason, ..
    } = event.kind
    else {
        return None;
    };
    let seq = record.seq;
    Some(format!(
        "record {seq}: here begins a log in the place of {log}, of {size} records: {}",
        reason.kept
    ))
}

impl Span {
    fn holds(&self, record: &Evidence<'_>) -> bool {
        if self.since.is_none() && self.until.is_none() {
            return true;
        }
        // A record without a time has a fault: look at it.
        evidence::moment(&record.time).is_none_or(|time| {
            self.since.is_none_or(|since| time >= since)
                && self.until.is_none_or(|until| time < until)
        })
    }
}
