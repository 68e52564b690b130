//! Acknowledges all decisions that meet conditions, in batches.
//!
//! ```text
//! let mut bulk = BulkReview::begin(&store, query, Earlier::Kept).await?;
//! bulk.count().await                    the decisions that are meant
//! while let Some(step) = bulk.step(&note).await? { … }
//! ```
//!
//! The end of the log is fixed at the beginning: decisions that come later are not acknowledged unseen. Each batch is a
//! separate transaction, so an interruption leaves whole batches behind, and the same review can be done again: it continues
//! with the rest. A step visits a bounded part of the log, so that other searches get their turn between two steps.

use super::{Acknowledgement, DecisionQuery, GroupBy, Review, Reviewed, Store, StoreError};

/// Decisions in one transaction.
const BATCH: usize = 500;

/// Records that one step visits.
const REACH: u64 = 65_536;

/// The treatment of decisions that are acknowledged already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// They keep their acknowledgement, and are not counted.
    Kept,
    /// The new acknowledgement replaces the one that the step has read. One in the same words stays.
    Replaced,
}

/// The review of all decisions that meet conditions.
#[derive(Debug)]
pub struct BulkReview<'s> {
    store: &'s Store,
    query: DecisionQuery,
    /// The last record that was visited.
    done: u64,
    /// The last record of the log at the beginning.
    end: u64,
}

/// The results of one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Number of decisions that are acknowledged now.
    pub acknowledged: u64,
    /// The decisions that another review has reached first.
    pub refused: Vec<NotAcknowledged>,
}

/// A decision that was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAcknowledged {
    /// The octets of its identifier.
    pub id: [u8; 16],
    /// The acknowledgement that it has.
    pub present: Option<Acknowledgement>,
}

impl<'s> BulkReview<'s> {
    /// Begins the review of the decisions of a query that are in the log now. Of the query, places narrow it, too; order and
    /// limit do not matter.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn begin(
        store: &'s Store,
        query: DecisionQuery,
        earlier: Earlier,
    ) -> Result<Self, StoreError> {
        let extent = store.extent().await?;
        Ok(Self {
            store,
            done: query.from.map_or(extent.first, |from| from.saturating_sub(1).max(extent.first)),
            end: query.to.map_or(extent.size, |to| to.min(extent.size)),
            query: DecisionQuery {
                acknowledged: match earlier {
                    Earlier::Kept => Some(false),
                    Earlier::Replaced => query.acknowledged,
                },
                after: None,
                newest_first: false,
                limit: BATCH,
                ..query
            },
        })
    }

    /// Returns the last record that the review may reach.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Counts the decisions that are left to review.
    ///
    /// # Errors
    /// When the store cannot be read, or a condition makes no sense.
    pub async fn count(&self) -> Result<u64, StoreError> {
        let (mut count, mut done) = (0, self.done);
        while done < self.end {
            let last = (done + REACH).min(self.end);
            let part = self.part(done, last);
            let counts = self.store.count_by(part, GroupBy::Reason, usize::MAX).await?;
            count += counts.iter().map(|group| group.count).sum::<u64>();
            done = last;
        }
        Ok(count)
    }

    /// Acknowledges the next decisions, a batch at most; `None` at the end.
    ///
    /// # Errors
    /// When the store cannot be read or written. The batches before stay acknowledged.
    pub async fn step(&mut self, note: &Acknowledgement) -> Result<Option<Step>, StoreError> {
        if self.done >= self.end {
            return Ok(None);
        }
        let last = (self.done + REACH).min(self.end);
        let page = self.store.decisions(self.part(self.done, last)).await?;
        let reached = match page.last() {
            Some(full) if page.len() >= BATCH => full.seq,
            _ => last,
        };
        let is_said = |seen: &Acknowledgement| seen.by == note.by && seen.note == note.note;
        let wanted = page.iter().filter(|one| !one.acknowledged.as_ref().is_some_and(is_said));
        let (ids, all): (Vec<_>, Vec<_>) =
            wanted.map(|one| (crawlgate_record::id_of(&one.entry), Review::of(one))).unzip();
        let mut step = Step::default();
        if !all.is_empty() {
            let results = self.store.acknowledge(all, note.clone()).await?;
            for (id, result) in ids.into_iter().zip(results) {
                match result {
                    Reviewed::Done => step.acknowledged += 1,
                    Reviewed::Differs(present) => step
                        .refused
                        .push(NotAcknowledged { id: id.copied().unwrap_or_default(), present }),
                    // Retention has dropped it.
                    Reviewed::Unknown => {}
                }
            }
        }
        self.done = reached;
        Ok(Some(step))
    }

    /// Returns the query for the records after `done`, up to `last`.
    fn part(&self, done: u64, last: u64) -> DecisionQuery {
        DecisionQuery { from: Some(done.saturating_add(1)), to: Some(last), ..self.query.clone() }
    }
}
