//! The effects of entries beside the log: counts of their hours, and notes on the objects that they name.

use std::collections::{HashMap, HashSet};

use rusqlite::{Transaction, params};

use super::super::error::Failure;
use super::super::hours::Hours;
use super::super::rows::integer;
use crate::entry::Outline;
use crate::store::{Entries, Object, Sha256, failed};

/// Precision of the time that an object was last used, in milliseconds: a week. A note costs three rows and an index, and
/// an object stays a week longer at most than it need.
pub(in crate::store::sqlite) const WEEK: u64 = 7 * 86_400_000;

/// Objects to remember.
const MAX: usize = 65_536;

/// The objects that this process has noted as used, with the week.
#[derive(Debug, Default)]
pub(in crate::store::sqlite) struct Uses(HashMap<Sha256, u64, ahash::RandomState>);

/// The notes of one batch.
#[derive(Debug, Default)]
pub(in crate::store::sqlite) struct Noted(HashMap<Sha256, u64, ahash::RandomState>);

impl Uses {
    /// Counts the entries of a batch, and notes the objects that they name. The objects that were written with the batch have
    /// such a note.
    pub(in crate::store::sqlite) fn count(
        &self,
        transaction: &Transaction<'_>,
        entries: &Entries,
        written: &[Object],
    ) -> Result<Noted, Failure> {
        let mut hours = Hours::default();
        let mut noted = Noted::default();
        for octets in entries.iter() {
            let entry =
                Outline::read(octets).map_err(|error| failed(format!("an entry: {error}")))?;
            hours.count(&entry);
            let week = entry.time / WEEK;
            for sha256 in entry.named.into_iter().flatten() {
                if self.0.get(sha256).is_none_or(|known| *known < week) {
                    let last = noted.0.entry(*sha256).or_default();
                    *last = week.max(*last);
                }
            }
        }
        hours.write(transaction)?;
        let mut note = transaction
            .prepare_cached("UPDATE object SET used = ?2 WHERE sha256 = ?1 AND used < ?2")?;
        let written = written.iter().map(|object| &object.sha256);
        let written: HashSet<&Sha256, ahash::RandomState> = written.collect();
        let notes = noted.0.iter();
        for (sha256, week) in notes.filter(|(sha256, _)| !written.contains(sha256)) {
            note.execute(params![sha256, integer(week * WEEK)])?;
        }
        Ok(noted)
    }

    /// Remembers the notes of a batch after its commit.
    pub(in crate::store::sqlite) fn committed(&mut self, noted: Noted) {
        if self.0.len() + noted.0.len() > MAX {
            self.0.clear();
        }
        self.0.extend(noted.0);
    }

    /// Forgets all notes.
    pub(in crate::store::sqlite) fn forget(&mut self) {
        self.0.clear();
    }
}
