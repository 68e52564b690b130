//! Walks the whole log of a store, and proves every decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;
use tokio::task::JoinError;

use super::acknowledged::Acknowledged;
use super::case::Trusted;
use super::fault::LogFault;
use super::review::{Finding, Replayer};
use super::walk::{Known, LogVerification, LogVerifier, Subtree};
use crate::replay::Outcome;
use crawlgate_record::{Entry, EventKind};
use crawlgate_store::state_file::State;
use crawlgate_store::{Store, StoreError, StoredCheckpoint, StoredDecision, StoredRoot};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::Note;

/// Records to read at once.
const PAGE: usize = 1_000;

/// Faulty decisions to name one by one; the others are counted.
pub const MAX_SHOWN: usize = 100;

/// The result for all decisions.
#[derive(Default)]
pub struct DecisionCounts {
    /// Records that were read.
    pub records: u64,
    /// Decisions that the evidence confirms.
    pub proven: u64,
    /// Of these, decisions after the last record that a checkpoint confirms.
    pub proven_since: u64,
    /// Replayed, but the record is among some that the log contradicts.
    pub unlinked: u64,
    /// Attested decisions by reason.
    pub attested: BTreeMap<&'static str, u64>,
    /// Lines that are no decisions, by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// The entries that name a log before this one, in words.
    pub forks: Vec<String>,
    /// The acknowledgements that the store shows, beside those of the log.
    pub acknowledged: Acknowledged,
    /// Decisions outside the requested time: in the log, not replayed.
    pub passed: u64,
    /// Decisions that the evidence contradicts, or does not suffice for.
    pub wrong: u64,
    /// The first faults.
    pub shown: Vec<FaultyDecision>,
}

/// A decision with a fault.
pub struct FaultyDecision {
    /// The number of its record.
    pub seq: u64,
    /// Its identifier, if the record can be read.
    pub id: Option<String>,
    /// The kind of fault.
    pub code: &'static str,
    /// The fault in words.
    pub message: String,
}

/// The time of the decisions to replay.
pub struct Span {
    /// The earliest.
    pub since: Option<Moment>,
    /// The end, exclusive.
    pub until: Option<Moment>,
}

/// The result for the whole log.
pub struct LogResult {
    /// The decisions.
    pub counts: DecisionCounts,
    /// The log and its checkpoints.
    pub verification: LogVerification,
    /// The facts that contradict the log.
    pub faults: Vec<LogFault>,
    /// The newest checkpoint.
    pub last: Option<StoredCheckpoint>,
}

/// The progress of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There are so many records.
    Of(u64),
    /// So many more are read.
    Read(u64),
}

/// The reason why a log cannot be examined.
#[derive(Debug, Error)]
pub enum ExamineError {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A task was cut off.
    #[error(transparent)]
    Task(#[from] JoinError),
}

impl LogResult {
    /// Tells whether nothing contradicts the log and its decisions.
    pub fn is_ok(&self) -> bool {
        self.faults.is_empty() && self.counts.wrong == 0
    }
}

/// Examines the whole log, also by checkpoints that were `kept` elsewhere, and replays the decisions of a span. `tell` learns how
/// far it is.
///
/// # Errors
/// When the store cannot be read. A record that the log contradicts is a fault of the result.
pub async fn examine(
    store: &Arc<Store>,
    trusted: &Trusted,
    state: Result<Option<State>, LogFault>,
    span: &Span,
    kept: &[Note],
    tell: &(dyn Fn(Progress) + Sync),
) -> Result<LogResult, ExamineError> {
    let checkpoints = store.checkpoints().await?;
    let extent = store.extent().await?;
    let roots = store.roots().await?;
    let damaged = store.damaged_rotations().await?;
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
        written: state.map(|state| state.written).filter(|(size, _)| *size > 0),
    };
    let signed = state.map_or(0, |state| state.signed.0);
    if checkpoints.last().map_or(0, |last| last.size) < signed {
        faults.push(LogFault::Unsigned { size: signed });
    }
    let mut verifier = LogVerifier::new(&known, subtrees(&roots, 0), &mut faults);
    verifier.learn(extent.first, []);
    let mut counts = DecisionCounts::default();
    tell(Progress::Of(extent.size.saturating_sub(extent.first)));
    walk(store, span, &mut verifier, &mut counts, &mut faults, tell).await?;
    bridge(&mut verifier, store, &mut faults).await;
    let verification = verifier.end(&mut faults);
    let dropped = store.extent().await?.first;
    let acknowledged = std::mem::take(&mut counts.acknowledged);
    acknowledged.end(store.as_ref(), dropped, &mut faults).await?;
    let counted = store.miscounted().await?;
    faults.extend(counted.map(LogFault::Counted));
    counts.doubt(&faults);
    Ok(LogResult { counts, verification, faults, last: checkpoints.last().cloned() })
}

/// Steps through all records of the store.
async fn walk(
    store: &Arc<Store>,
    span: &Span,
    verifier: &mut LogVerifier,
    counts: &mut DecisionCounts,
    faults: &mut Vec<LogFault>,
    tell: &(dyn Fn(Progress) + Sync),
) -> Result<(), ExamineError> {
    let mut review = Replayer::new(store.as_ref());
    let mut after = 0;
    let mut page = store.records(after, PAGE).await?;
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
            let extent = store.extent().await?;
            let roots = store.roots().await?;
            verifier.learn(extent.first, subtrees(&roots, after));
        }
        after = last.seq;
        for decision in &page {
            let index = decision.seq.saturating_sub(1);
            verifier.step(index, &decision.entry, faults);
            counts.count(decision, span, &mut review).await?;
            if verifier.signed() == Some(decision.seq) {
                counts.proven_since = 0;
            }
        }
        tell(Progress::Read(page.len() as u64));
        page = next.await??;
    }
    Ok(())
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
        let told = decision.told();
        if told.as_ref().is_ok_and(|one| !span.holds(one.time())) {
            self.passed += 1;
            return Ok(());
        }
        match review.look(decision, &told).await? {
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
                        id: told.ok().map(|one| one.id_text()),
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
    let EventKind::Forked { log, size, reason, .. } = event.kind else {
        return None;
    };
    let seq = record.seq;
    Some(format!(
        "record {seq}: here begins a log in the place of {log}, of {size} records: {}",
        reason.kept
    ))
}

impl Span {
    fn holds(&self, millis: u64) -> bool {
        let time = Moment::from_millis(millis);
        self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time < until)
    }
}
