//! The effects of entries beside the log: counts of their hours, and notes on the objects that they name.

use std::collections::{HashMap, HashSet};

use rusqlite::{Transaction, params};

use super::super::engine::{Failure, Statements as _, integer};
use super::super::hours::Hours;
use crate::types::WEEK;
use crate::{Object, Sha256, StoreError, failed};
use crawlgate_record::Outline;

/// Objects to remember.
const MAX: usize = 65_536;

/// The objects that this process has noted as used, with the week.
#[derive(Debug, Default)]
pub(crate) struct Uses(HashMap<Sha256, u64, ahash::RandomState>);

/// The notes of one batch.
#[derive(Debug, Default)]
pub(crate) struct Noted(HashMap<Sha256, u64, ahash::RandomState>);

#[cfg(test)]
impl Noted {
    /// Returns the objects with their weeks.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Sha256, &u64)> {
        self.0.iter()
    }
}

/// The effects of one batch, collected as its entries are read.
#[derive(Debug)]
pub(crate) struct Effects<'u> {
    known: &'u Uses,
    hours: Hours,
    noted: Noted,
    /// The week of the last entry, and the objects that were named in it last: the next entry mostly names the same.
    last: (u64, [Option<Sha256>; 4]),
}

impl Effects<'_> {
    /// Counts an entry, and notes the objects that it names.
    ///
    /// # Errors
    /// When the octets are no entry.
    pub(super) fn read(&mut self, entry: &[u8]) -> Result<(), StoreError> {
        let outline = Outline::read(entry).map_err(|error| failed(format!("an entry: {error}")))?;
        self.count(&outline);
        Ok(())
    }

    /// Counts an entry that is read.
    pub(super) fn count(&mut self, entry: &Outline<'_>) {
        self.hours.count(entry);
        let week = entry.time / WEEK;
        if self.last.0 != week {
            self.last = (week, Default::default());
        }
        for (sha256, last) in entry.named.iter().zip(&mut self.last.1) {
            let Some(sha256) = sha256 else { continue };
            if last.as_ref() == Some(*sha256) {
                continue;
            }
            *last = Some(**sha256);
            if self.known.0.get(*sha256).is_none_or(|known| *known < week) {
                let noted = self.noted.0.entry(**sha256).or_default();
                *noted = week.max(*noted);
            }
        }
    }

    /// Writes the counts and the notes. The objects that were written with the batch have such a note.
    pub(crate) fn write(
        self,
        transaction: &Transaction<'_>,
        written: &[Object],
    ) -> Result<Noted, Failure> {
        self.hours.write(transaction)?;
        let note = "UPDATE object SET used = ?2 WHERE sha256 = ?1 AND used < ?2";
        let written = written.iter().map(|object| &object.sha256);
        let written: HashSet<&Sha256, ahash::RandomState> = written.collect();
        let notes = self.noted.0.iter();
        for (sha256, week) in notes.filter(|(sha256, _)| !written.contains(sha256)) {
            transaction.run(note, params![sha256, integer(week * WEEK)])?;
        }
        Ok(self.noted)
    }
}

impl Uses {
    /// Begins a batch.
    pub(crate) fn begin(&self) -> Effects<'_> {
        Effects {
            known: self,
            hours: Hours::default(),
            noted: Noted::default(),
            last: Default::default(),
        }
    }

    /// Remembers the notes of a batch after its commit.
    pub(crate) fn committed(&mut self, noted: Noted) {
        if self.0.len() + noted.0.len() > MAX {
            self.0.clear();
        }
        self.0.extend(noted.0);
    }

    /// Forgets all notes.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}
