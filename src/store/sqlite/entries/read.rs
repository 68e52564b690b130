//! Entries by their places, times and identifiers.
//!
//! Each statement reads one row, so that no long statement keeps the engine from carrying over its log. Entries move from
//! the tail to blocks and never back: a reader that asks the tail first misses none.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _};

use super::super::error::Failure;
use super::super::rows::{integer, number};
use super::frames::Frames;
use super::head::end_of_blocks;
use crate::entry::{id_of, time_of};
use crate::store::block::Block;

/// Unpacked blocks to remember.
const REMEMBERED: usize = 4;

/// The unpacked blocks that were read last, by their first entry. A block never changes.
#[derive(Debug, Default)]
pub(in crate::store::sqlite) struct Blocks(Mutex<VecDeque<(u64, Arc<Block<'static>>)>>);

impl Blocks {
    fn get(&self, first: u64) -> Option<Arc<Block<'static>>> {
        let remembered = self.0.lock();
        let mut all = remembered.iter();
        all.find(|(known, _)| *known == first)
            .map(|(_, block)| Arc::clone(block))
    }

    fn put(&self, first: u64, block: &Arc<Block<'static>>) {
        let mut remembered = self.0.lock();
        if remembered.len() == REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back((first, Arc::clone(block)));
    }
}

/// A run of entries that lie together.
#[derive(Debug)]
pub(in crate::store::sqlite) enum Run {
    /// A row of the tail.
    Tail(Vec<u8>),
    /// A block.
    Block(Arc<Block<'static>>),
    /// A block whose entries were dropped.
    Dropped,
}

/// A run with its place.
#[derive(Debug)]
pub(in crate::store::sqlite) struct Placed {
    /// The index of the first entry.
    pub(super) first: u64,
    /// Number of entries.
    pub(super) count: u64,
    pub(super) run: Run,
}

impl Placed {
    /// Returns the entries, each with its index, as far as they are in `range`.
    pub(super) fn entries(
        &self,
        range: &RangeInclusive<u64>,
    ) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
        let mut entries = Vec::new();
        match &self.run {
            Run::Dropped => {}
            Run::Tail(frames) => {
                for (index, entry) in (self.first..).zip(Frames(frames)) {
                    let entry = entry?;
                    if range.contains(&index) {
                        entries.push((index, entry.to_vec()));
                    }
                }
            }
            Run::Block(block) => {
                for index in self.first..self.first + self.count {
                    if range.contains(&index) {
                        entries.push((index, entry_of(block, index - self.first)?));
                    }
                }
            }
        }
        Ok(entries)
    }
}

fn entry_of(block: &Block<'_>, place: u64) -> Result<Vec<u8>, Failure> {
    let mut entry = Vec::new();
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    block
        .entry(place, &mut entry)
        .map_err(|error| damaged(&error))?;
    Ok(entry)
}

fn damaged(error: &dyn std::fmt::Display) -> Failure {
    Failure::Damaged(format!("a block of records: {error}"))
}

/// Returns the run that holds an entry. `None` if there is no such entry.
pub(super) fn run_of(
    connection: &Connection,
    blocks: &Blocks,
    index: u64,
) -> Result<Option<Placed>, Failure> {
    let mut tail = connection.prepare_cached(
        "SELECT first, count, entries FROM tail WHERE first <= ?1 ORDER BY first DESC LIMIT 1",
    )?;
    let mut rows = tail.query([integer(index)])?;
    if let Some(row) = rows.next()? {
        let (first, count) = (number(row.get(0)?), number(row.get(1)?));
        let run = Run::Tail(row.get(2)?);
        return Ok((index < first + count).then_some(Placed { first, count, run }));
    }
    let mut block = connection.prepare_cached(
        "SELECT first, count, body FROM block WHERE first <= ?1 ORDER BY first DESC LIMIT 1",
    )?;
    let mut rows = block.query([integer(index)])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let (first, count) = (number(row.get(0)?), number(row.get(1)?));
    if index >= first + count {
        return Ok(None);
    }
    let body = row.get_ref(2)?.as_blob_or_null();
    let run = match body.map_err(|error| damaged(&error))? {
        None => Run::Dropped,
        Some(body) => Run::Block(unpacked(blocks, first, count, body)?),
    };
    Ok(Some(Placed { first, count, run }))
}

fn unpacked(
    blocks: &Blocks,
    first: u64,
    count: u64,
    body: &[u8],
) -> Result<Arc<Block<'static>>, Failure> {
    if let Some(block) = blocks.get(first) {
        return Ok(block);
    }
    let block = Block::read(body.to_vec()).map_err(|error| damaged(&error))?;
    if block.len() as u64 != count {
        return Err(damaged(&"another number of records than its row says"));
    }
    let block = Arc::new(block);
    blocks.put(first, &block);
    Ok(block)
}

/// Returns the first index whose entry is kept, and the number of entries that the log has ever taken.
pub(in crate::store::sqlite) fn extent(connection: &Connection) -> Result<(u64, u64), Failure> {
    let one = |text: &str| -> Result<Option<u64>, Failure> {
        let mut statement = connection.prepare_cached(text)?;
        let found: Option<i64> = statement.query_row([], |row| row.get(0)).optional()?;
        Ok(found.map(number))
    };
    // The tail first: its entries may become a block meanwhile.
    let tail = one("SELECT first FROM tail ORDER BY first LIMIT 1")?;
    let end = one("SELECT first + count FROM tail ORDER BY first DESC LIMIT 1")?;
    let blocks = end_of_blocks(connection)?;
    let kept = one("SELECT first FROM block WHERE body IS NOT NULL ORDER BY first LIMIT 1")?;
    let size = end.unwrap_or(0).max(blocks);
    Ok((kept.or(tail).unwrap_or(size), size))
}

/// Gives `visit` the entries of a range, in order or from the newest on, until it returns false.
pub(in crate::store::sqlite) fn walk(
    connection: &Connection,
    blocks: &Blocks,
    range: RangeInclusive<u64>,
    newest_first: bool,
    mut visit: impl FnMut(u64, &[u8]) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let (first, size) = extent(connection)?;
    let (mut least, end) = (
        (*range.start()).max(first),
        (*range.end()).saturating_add(1).min(size),
    );
    let mut end = end;
    while least < end {
        let at = if newest_first { end - 1 } else { least };
        let Some(placed) = run_of(connection, blocks, at)? else {
            // Retention drops the oldest meanwhile, whole segments with their rows.
            let (first, _) = extent(connection)?;
            if first <= least {
                return Err(Failure::Damaged(format!("record {} is missing", at + 1)));
            }
            least = first;
            continue;
        };
        let mut entries = placed.entries(&(least..=end - 1))?;
        if newest_first {
            entries.reverse();
        }
        for (index, entry) in &entries {
            if !visit(*index, entry)? {
                return Ok(());
            }
        }
        match newest_first {
            true => end = placed.first,
            false => least = placed.first + placed.count,
        }
    }
    Ok(())
}

/// Returns the entry of an index.
#[cfg(test)]
pub(super) fn entry(
    connection: &Connection,
    blocks: &Blocks,
    index: u64,
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(placed) = run_of(connection, blocks, index)? else {
        return Ok(None);
    };
    let entries = placed.entries(&(index..=index))?;
    Ok(entries.into_iter().next().map(|(_, entry)| entry))
}

/// Returns the entries with identifiers of a range, each with its index, at most `most`.
pub(in crate::store::sqlite) fn with_ids(
    connection: &Connection,
    blocks: &Blocks,
    ids: &RangeInclusive<u128>,
    most: usize,
) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
    let millis = |id: &u128| i64::try_from(id >> 80).unwrap_or(i64::MAX);
    let times = [millis(ids.start()), millis(ids.end())];
    let mut starts: Vec<u64> = Vec::new();
    // The tail first: its entries may become a block meanwhile.
    for text in [
        "SELECT first FROM tail WHERE max_time >= ?1 AND min_time <= ?2",
        "SELECT first FROM block WHERE max_time >= ?1 AND min_time <= ?2 AND body IS NOT NULL ORDER BY first",
    ] {
        let mut statement = connection.prepare_cached(text)?;
        let rows = statement.query_map(times, |row| row.get::<_, i64>(0))?;
        for first in rows {
            starts.push(number(first?));
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
    let is_its =
        |entry: &[u8]| id_of(entry).is_some_and(|id| ids.contains(&u128::from_be_bytes(*id)));
    for first in starts {
        let Some(placed) = run_of(connection, blocks, first)? else {
            continue;
        };
        let range = (millis(ids.start()), millis(ids.end()));
        for (index, entry) in placed.entries_of(range)? {
            if is_its(&entry) && found.iter().all(|(known, _)| *known != index) {
                found.push((index, entry));
            }
            if found.len() == most {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

impl Placed {
    /// Returns the entries of these times, and others that are cheap to tell.
    fn entries_of(&self, (from, to): (i64, i64)) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
        let is_between = |time: u64| (from..=to).contains(&integer(time));
        let Run::Block(block) = &self.run else {
            let mut all = self.entries(&(0..=u64::MAX))?;
            all.retain(|(_, entry)| is_between(time_of(entry)));
            return Ok(all);
        };
        // Decisions by their column, then what is no decision.
        let rows = block.rows();
        let mut places: Vec<u64> = Vec::new();
        let mut next = 0;
        for row in rows {
            let place = u64::from(row.place);
            places.extend(next..place);
            next = place + 1;
            if is_between(row.time) {
                places.push(place);
            }
        }
        places.extend(next..self.count);
        let mut entries = Vec::new();
        for place in places {
            let entry = entry_of(block, place)?;
            if is_between(time_of(&entry)) {
                entries.push((self.first + place, entry));
            }
        }
        Ok(entries)
    }
}
