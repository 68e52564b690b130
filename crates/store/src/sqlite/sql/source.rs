//! The source of the views' rows: pages of matching decisions, and the values of one decision.
//!
//! It has its own connection and reads one row by each statement, as every search here: a statement over only the views
//! keeps no state of the database, however long it takes, and the write-ahead log stays short.

use std::collections::VecDeque;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::super::engine::{Failure, Statements as _, integer, moment};
use super::super::entries::{self, Blocks, Lines, Placed, Run};
use super::super::search::{is_without, places};
use super::columns::{BESIDE, value};
use crate::search::Search;
use crate::{DecisionQuery, failed};
use crawlgate_record::{COLUMNS, Column, Entry, Told};
use crawlgate_text::time_text;

/// Runs of entries to keep: a statement may join the views with themselves.
const HELD: usize = 4;

/// The verdict of the view `denials`.
const DENY: &str = "deny";

/// Which of the views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Decisions = 0,
    Denials = 1,
}

/// Notes the work done: entries that were passed, and all of them.
pub(super) type Progress = Box<dyn FnMut(u64, u64) + Send>;

/// The reader behind the views.
pub(super) struct Source {
    connection: Connection,
    blocks: Blocks,
    decisions: Search,
    /// `None` if the conditions ask for another verdict.
    denials: Option<Search>,
    /// The first entry and the end of the log when a statement began, or when the log was opened again.
    extent: (u64, u64),
    held: VecDeque<Placed>,
    lines: Lines,
    /// The entry that was read last, with its index.
    entry: Option<(u64, Vec<u8>)>,
    progress: Option<Progress>,
}

/// Matching decisions of one run.
pub(super) struct Page {
    /// The index to go on from.
    pub(super) next: u64,
    /// The indices.
    pub(super) found: Vec<u64>,
}

impl Source {
    /// Makes a source of the decisions that meet `query`.
    pub(super) fn new(
        connection: Connection,
        query: &DecisionQuery,
        progress: Option<Progress>,
    ) -> Result<Self, Failure> {
        let denials = match query.verdict.as_deref() {
            None | Some(DENY) => Some(Search::new(&DecisionQuery {
                verdict: Some(DENY.to_owned()),
                ..query.clone()
            })?),
            Some(_) => None,
        };
        Ok(Self {
            connection,
            blocks: Blocks::default(),
            decisions: Search::new(query)?,
            denials,
            extent: (0, 0),
            held: VecDeque::new(),
            lines: Lines::default(),
            entry: None,
            progress,
        })
    }

    /// Returns the matching decisions in the next run that has some, from the index `from` on. `None` at the end.
    pub(super) fn page(&mut self, view: View, from: u64) -> Result<Option<Page>, Failure> {
        // A source that was closed meanwhile continues where another one has stopped.
        if from == 0 || self.extent == (0, 0) {
            self.extent = entries::extent(&self.connection)?;
        }
        let (first, end) = self.extent;
        let search = match view {
            View::Decisions => Some(&self.decisions),
            View::Denials => self.denials.as_ref(),
        };
        let (Some(search), Some(last)) = (search, end.checked_sub(1)) else {
            return Ok(None);
        };
        let mut found = None;
        let connection = &self.connection;
        entries::runs(
            connection,
            &self.blocks,
            from..=last,
            false,
            |segment| is_without(connection, search, segment),
            |placed, range| {
                let next = placed.first.saturating_add(placed.count);
                if let Some(progress) = &mut self.progress {
                    progress(next.saturating_sub(first), end.saturating_sub(first));
                }
                let places = places(connection, search, placed, range, false, usize::MAX)?;
                if places.is_empty() {
                    return Ok(true);
                }
                let page =
                    Page { next, found: places.iter().map(|place| placed.first + place).collect() };
                found = Some((page, placed.clone()));
                Ok(false)
            },
        )?;
        let Some((page, held)) = found else {
            return Ok(None);
        };
        self.hold(held);
        Ok(Some(page))
    }

    /// Returns the value of a column for the decision at an index.
    pub(super) fn value(&mut self, index: u64, column: usize) -> Result<Value, Failure> {
        if let Some(column) = COLUMNS.get(column) {
            return self.of_decision(index, column);
        }
        match BESIDE.get(column - COLUMNS.len()) {
            Some((_, Some(name))) => self.acknowledgement(index, name),
            Some((_, None)) => {
                self.entry(index)?;
                let entry = self.entry.as_ref().map(|(_, entry)| entry.as_slice());
                let line = self.lines.line(&self.connection, entry.unwrap_or_default())?;
                Ok(Value::Text(line))
            }
            None => Err(failed("there is no such column").into()),
        }
    }

    fn of_decision(&mut self, index: u64, column: &Column) -> Result<Value, Failure> {
        self.entry(index)?;
        let entry = self.entry.as_ref().map(|(_, entry)| entry.as_slice());
        let Ok(Entry::Decision(decision)) = Entry::read(entry.unwrap_or_default()) else {
            return Ok(Value::Null);
        };
        let bodies = if column.is_of_object {
            self.lines.bodies(&self.connection, &Entry::Decision(decision))?
        } else {
            Vec::new()
        };
        Ok(value(&column.of(&Told::of(decision, &bodies))))
    }

    fn acknowledgement(&self, index: u64, name: &str) -> Result<Value, Failure> {
        let text = format!("SELECT {name} FROM acknowledgement WHERE seq = ?1");
        Ok(match self.connection.value(&text, [integer(index + 1)])? {
            Some(Value::Integer(time)) => Value::Text(time_text(moment(time))),
            other => other.unwrap_or(Value::Null),
        })
    }

    fn entry(&mut self, index: u64) -> Result<&[u8], Failure> {
        let is_at_hand = |(known, _): &(u64, Vec<u8>)| *known == index;
        if !self.entry.as_ref().is_some_and(is_at_hand) {
            let has = |placed: &&Placed| {
                (placed.first..placed.first.saturating_add(placed.count)).contains(&index)
            };
            if self.held.iter().find(has).is_none() {
                self.read(index)?;
            }
            let held = self.held.iter().find(has);
            let mut octets = self.entry.take().map(|(_, octets)| octets).unwrap_or_default();
            octets.clear();
            let kept = held.filter(|placed| !matches!(placed.run, Run::Dropped));
            let placed = kept.ok_or_else(|| gone(index))?;
            placed.read(index - placed.first, &mut octets)?;
            self.entry = Some((index, octets));
        }
        let entry = self.entry.as_ref().map(|(_, entry)| entry.as_slice());
        Ok(entry.unwrap_or_default())
    }

    /// Reads the run of an index again, which a statement has left for others.
    fn read(&mut self, index: u64) -> Result<(), Failure> {
        let mut found = None;
        let none = |_| Ok(false);
        let range = index..=index;
        entries::runs(&self.connection, &self.blocks, range, false, none, |placed, _| {
            found = Some(placed.clone());
            Ok(false)
        })?;
        self.hold(found.ok_or_else(|| gone(index))?);
        Ok(())
    }

    fn hold(&mut self, held: Placed) {
        self.held.retain(|other| other.first != held.first);
        self.held.truncate(HELD - 1);
        self.held.push_front(held);
    }
}

/// Reports a decision that retention has dropped while a statement ran.
fn gone(index: u64) -> Failure {
    let seq = index + 1;
    failed(format!("record {seq} was dropped while the statement ran; run it again")).into()
}
