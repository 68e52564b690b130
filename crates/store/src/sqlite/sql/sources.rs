//! The decisions of several logs, one log after the other, behind one pair of views.
//!
//! A row of the views is one number: the number of a log among those that are read, and the index of an entry in it. Few
//! logs are open at a time, so that hundreds of logs need few descriptors.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;

use super::super::engine::Failure;
use super::super::still;
use super::source::{Page, Source, View};
use crate::{DecisionQuery, StoreError};

/// Bits of an index in the number of a row.
const BITS: u32 = 40;

/// The index in the number of a row.
pub(super) const INDEX: u64 = (1 << BITS) - 1;

/// Logs that are open at a time.
pub(super) const MAX_OPEN: usize = 16;

/// A log that is read.
struct Log {
    name: Option<String>,
    path: PathBuf,
}

/// The readers behind the views.
pub(super) struct Sources {
    logs: Vec<Log>,
    query: DecisionQuery,
    /// Those that were asked last, by the numbers of their logs.
    open: VecDeque<(usize, Source)>,
}

impl Sources {
    /// Returns the decisions of `source`, the store at `path`.
    pub(super) fn one(path: &Path, query: &DecisionQuery, source: Source) -> Self {
        Self {
            logs: vec![Log { name: None, path: path.to_owned() }],
            query: query.clone(),
            open: [(0, source)].into(),
        }
    }

    /// Returns the decisions that meet `query` of stores, each with the name of its log. The first one is opened.
    ///
    /// # Errors
    /// When it cannot be read, or a condition is wrong.
    pub(super) fn several<'s>(
        stores: impl IntoIterator<Item = (&'s str, &'s Path)>,
        query: &DecisionQuery,
    ) -> Result<Self, StoreError> {
        let stores = stores.into_iter();
        let logs =
            stores.map(|(name, path)| Log { name: Some(name.to_owned()), path: path.to_owned() });
        let mut sources =
            Self { logs: logs.collect(), query: query.clone(), open: VecDeque::new() };
        sources.with(0, |_| Ok(()))?;
        Ok(sources)
    }

    /// Returns the numbers of the next matching decisions from the number `from` on, as JSON: `{"next":N,"found":[…]}`.
    /// The next call continues from `next`. `None` at the end.
    pub(super) fn page(&mut self, view: View, from: u64) -> Result<Option<String>, StoreError> {
        let (mut log, mut index) = split(from);
        while log < self.logs.len() {
            if let Some(page) = self.with(log, |source| source.page(view, index))? {
                return Ok(Some(text(log, &page)));
            }
            (log, index) = (log + 1, 0);
        }
        Ok(None)
    }

    /// Returns the value of a column for the decision of a number.
    pub(super) fn value(&mut self, number: u64, column: usize) -> Result<Value, StoreError> {
        let (log, index) = split(number);
        self.with(log, |source| source.value(index, column))
    }

    /// Returns the name of the log of a decision.
    pub(super) fn name(&self, number: u64) -> Option<String> {
        self.logs.get(split(number).0)?.name.clone()
    }

    /// Asks the source of a log, opened if it is not.
    fn with<T>(
        &mut self,
        log: usize,
        ask: impl FnOnce(&mut Source) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let Some(Log { path, .. }) = self.logs.get(log) else {
            return Err(crate::failed("there is no such log"));
        };
        let at = |failure: Failure| failure.at(path);
        let known = self.open.iter().position(|(known, _)| *known == log);
        let (_, mut source) = match known.and_then(|known| self.open.remove(known)) {
            Some(known) => known,
            None => {
                let reader = still::reader(path)?;
                (log, Source::new(reader, &self.query, None).map_err(at)?)
            }
        };
        let answer = ask(&mut source).map_err(at);
        self.open.truncate(MAX_OPEN - 1);
        self.open.push_front((log, source));
        answer
    }
}

/// Returns the number of the log and the index in the number of a row.
fn split(number: u64) -> (usize, u64) {
    let log = usize::try_from(number >> BITS).unwrap_or(usize::MAX);
    (log, number & INDEX)
}

fn text(log: usize, page: &Page) -> String {
    let log = (log as u64) << BITS;
    let mut text = format!("{{\"next\":{},\"found\":[", log | page.next);
    for (nth, index) in page.found.iter().enumerate() {
        let comma = if nth > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{}", log | index); // a String takes all
    }
    text.push_str("]}");
    text
}
