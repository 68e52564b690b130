//! The counting of a span, step by step, log by log.

use super::ReportQuery;
use crawlgate_store::figures::Figures;
use crawlgate_store::logs::{Fault, Log, Logs};
use crawlgate_store::{DecisionQuery, Extent, Store, StoreError};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{KeyName, SEGMENT};

/// The counting of a span, step by step, log by log.
#[derive(Debug)]
pub struct Gathering {
    pub(super) question: ReportQuery,
    pub(super) parts: Vec<Part>,
    pub(super) figures: Figures,
    /// The current log.
    at: usize,
}

/// A log that is counted.
#[derive(Clone, Debug)]
pub(super) struct Part {
    name: KeyName,
    pub(super) extent: Extent,
    /// The time of the first entry that is kept.
    pub(super) kept_since: Option<Moment>,
    next: u64,
    /// The figures without this log, if there are others.
    before: Option<Box<Figures>>,
    pub(super) fault: Option<StoreError>,
}

impl Gathering {
    /// Begins to count. Entries that come later are left out.
    ///
    /// # Errors
    /// When there is only one log, and it cannot be read.
    pub async fn begin(logs: &Logs, question: ReportQuery) -> Result<Self, StoreError> {
        let mut parts = Vec::new();
        for log in logs {
            let part = async { Part::begin(log, &*logs.open(log).await?).await };
            parts.push(match part.await {
                Ok(part) => part,
                Err(error) if logs.only().is_some() => return Err(error),
                Err(error) => Part { fault: Some(error), ..Part::of(log) },
            });
        }
        Ok(Self { question, parts, figures: Figures::default(), at: 0 })
    }

    /// Returns the number of entries that the steps pass.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let entries = |part: &Part| part.extent.size.saturating_sub(part.extent.first);
        self.parts.iter().map(entries).sum()
    }

    /// Counts the next entries, at most those of one segment of one log. Returns their number; `None` at the end. Of a log
    /// that cannot be read to its end, nothing is counted.
    ///
    /// # Errors
    /// When there is only one log, and it cannot be read.
    pub async fn step(&mut self, logs: &Logs) -> Result<Option<u64>, StoreError> {
        let is_alone = self.parts.len() == 1;
        loop {
            let (number, query) = (self.at, self.question.query());
            let (Some(part), Some(log)) = (self.parts.get_mut(number), logs.iter().nth(number))
            else {
                return Ok(None);
            };
            let (first, size) = (part.next, part.extent.size);
            if first >= size || part.fault.is_some() {
                part.before = None;
                self.at += 1;
                continue;
            }
            if first == part.extent.first {
                self.figures.begin_log(number);
                part.before = (!is_alone).then(|| Box::new(self.figures.clone()));
            }
            let end = ((first / SEGMENT + 1) * SEGMENT).min(size);
            let query = DecisionQuery { from: Some(first + 1), to: Some(end), ..query };
            let figures = std::mem::take(&mut self.figures);
            let counted = async { logs.open(log).await?.figures(query, figures).await };
            match counted.await {
                Ok(figures) => self.figures = figures,
                Err(error) if is_alone => return Err(error),
                Err(error) => {
                    self.figures = part.before.take().map(|figures| *figures).unwrap_or_default();
                    part.fault = Some(error);
                    continue;
                }
            }
            part.next = end;
            return Ok(Some(end - first));
        }
    }

    /// Returns the figures so far.
    #[must_use]
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Returns the time from which on the logs keep records; `None` if all are empty.
    #[must_use]
    pub fn kept_since(&self) -> Option<Moment> {
        self.parts.iter().filter_map(|part| part.kept_since).min()
    }

    /// Returns the logs that could not be read.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        let fault = |part: &Part| {
            let (log, error) = (part.name.clone(), part.fault.clone()?);
            Some(Fault { log, error })
        };
        self.parts.iter().filter_map(fault).collect()
    }
}

impl Part {
    fn of(log: &Log) -> Self {
        Self {
            name: log.name().clone(),
            extent: Extent { first: 0, size: 0 },
            kept_since: None,
            next: 0,
            before: None,
            fault: None,
        }
    }

    async fn begin(log: &Log, store: &Store) -> Result<Self, StoreError> {
        let extent = store.extent().await?;
        let first = store.records(extent.first, 1).await?;
        let first = first.first().filter(|_| extent.first < extent.size);
        Ok(Self {
            extent,
            kept_since: first.map(|first| first.time),
            next: extent.first,
            ..Self::of(log)
        })
    }
}
