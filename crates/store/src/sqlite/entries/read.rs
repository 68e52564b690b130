//! Entries by their places, times and identifiers.
//!
//! Each statement reads one row, so that no long statement keeps the engine from carrying over its log. Entries move from
//! the tail to blocks and never back: a reader that asks the tail first misses none.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, Row};

use super::super::engine::{Failure, Statements as _, integer, number};
use super::lines::Frames;
use crate::search::decisions_by_id;
use crawlgate_block::Block;
use crawlgate_record::{Entry, time_of};
use crawlgate_text::DecisionId;
use crawlgate_tlog::SEGMENT;

/// Unpacked blocks to remember.
const REMEMBERED: usize = 4;

/// The unpacked blocks that were read last, by their first entry. A block never changes.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Mutex<VecDeque<(u64, Arc<Block<'static>>)>>);

impl Blocks {
    fn get(&self, first: u64) -> Option<Arc<Block<'static>>> {
        let remembered = self.0.lock();
        let mut all = remembered.iter();
        all.find(|(known, _)| *known == first).map(|(_, block)| Arc::clone(block))
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
#[derive(Clone, Debug)]
pub(crate) enum Run {
    /// A row of the tail.
    Tail(Vec<u8>),
    /// A block.
    Block(Arc<Block<'static>>),
    /// A block that has lost its entries to the retention.
    Dropped,
}

/// A run with its place.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// The index of the first entry.
    pub(crate) first: u64,
    /// Number of entries.
    pub(crate) count: u64,
    /// The earliest and the latest time of them, by which queries find the run.
    times: (u64, u64),
    pub(crate) run: Run,
}

impl Placed {
    /// Returns the entries, each with its index, as far as they are in `range`.
    pub(crate) fn entries(
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
            Run::Block(_) => {
                let last = (*range.end()).saturating_add(1);
                let end = last.min(self.first + self.count);
                for index in self.first.max(*range.start())..end {
                    entries.push((index, self.entry(index - self.first)?));
                }
            }
        }
        Ok(entries)
    }

    fn with_ids(&self, ids: &RangeInclusive<DecisionId>) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
        let Run::Block(block) = &self.run else {
            let mut all = self.entries(&(0..=u64::MAX))?;
            all.retain(|(_, entry)| match Entry::read(entry) {
                Ok(Entry::Decision(one)) => ids.contains(&DecisionId::from_octets(one.id)),
                _ => false,
            });
            return Ok(all);
        };
        let entries = decisions_by_id(block, ids).map(|(place, _)| {
            let place = u64::from(place);
            Ok((self.first + place, self.entry(place)?))
        });
        entries.collect()
    }

    /// Returns the entry at a place of the run.
    pub(crate) fn entry(&self, place: u64) -> Result<Vec<u8>, Failure> {
        let mut entry = Vec::new();
        self.read(place, &mut entry).map(|()| entry)
    }

    /// Appends the entry at a place of the run to `out`.
    pub(crate) fn read(&self, place: u64, out: &mut Vec<u8>) -> Result<(), Failure> {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        let found = match &self.run {
            Run::Block(block) => {
                return block.entry(place, out).map_err(|error| damaged(&error));
            }
            Run::Tail(frames) => Frames(frames).nth(place).transpose()?,
            Run::Dropped => None,
        };
        let found = found.ok_or_else(|| damaged(&"a record that is not there"))?;
        out.extend_from_slice(found);
        Ok(())
    }

    /// Returns the entries from an index on, each with its index, as far as they can be read.
    fn readable(&self, from: u64) -> Vec<(u64, Vec<u8>)> {
        let end = self.first.saturating_add(self.count);
        match &self.run {
            Run::Dropped => Vec::new(),
            Run::Tail(frames) => {
                let entries = (self.first..end).zip(Frames(frames));
                let entries = entries.map_while(|(index, entry)| Some((index, entry.ok()?)));
                let entries = entries.filter(|(index, _)| *index >= from);
                entries.map(|(index, entry)| (index, entry.to_vec())).collect()
            }
            Run::Block(_) => {
                let entries = (from..end)
                    .map_while(|index| Some((index, self.entry(index - self.first).ok()?)));
                entries.collect()
            }
        }
    }
}

pub(crate) fn damaged(error: &dyn std::fmt::Display) -> Failure {
    Failure::Damaged(format!("a block of records: {error}"))
}

/// Returns the run that holds an entry. `None` if there is no such entry.
pub(super) fn run_of(
    connection: &Connection,
    blocks: &Blocks,
    index: u64,
) -> Result<Option<Placed>, Failure> {
    let read = |row: &Row<'_>, run: &dyn Fn(u64, u64) -> Result<Run, Failure>| {
        let (first, count) = (number(row.get(0)?), number(row.get(1)?));
        if index >= first.saturating_add(count) {
            return Ok(None);
        }
        Ok(Some(Placed {
            first,
            count,
            times: (number(row.get(2)?), number(row.get(3)?)),
            run: run(first, count)?,
        }))
    };
    let text = "SELECT first, count, min_time, max_time, entries FROM tail WHERE first <= ?1 ORDER BY first DESC LIMIT 1";
    let tail = connection
        .first(text, [integer(index)], |row| read(row, &|_, _| Ok(Run::Tail(row.get(4)?))))?;
    if let Some(found) = tail {
        return Ok(found);
    }
    let text = "SELECT first, count, min_time, max_time, body FROM block WHERE first <= ?1 ORDER BY first DESC LIMIT 1";
    let block = connection.first(text, [integer(index)], |row| {
        read(row, &|first, count| {
            let body = row.get_ref(4)?.as_blob_or_null();
            Ok(match body.map_err(|error| damaged(&error))? {
                None => Run::Dropped,
                Some(body) => Run::Block(unpacked(blocks, first, count, body)?),
            })
        })
    })?;
    Ok(block.flatten())
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

/// Returns the index of the first kept entry and the size of the log, which counts dropped entries, too.
pub(crate) fn extent(connection: &Connection) -> Result<(u64, u64), Failure> {
    let one = |text: &str| Ok::<_, Failure>(connection.value(text, [])?.map(number));
    // The tail first: its entries may become a block meanwhile.
    let tail = one("SELECT first FROM tail ORDER BY first LIMIT 1")?;
    let end = one("SELECT first + count FROM tail ORDER BY first DESC LIMIT 1")?;
    let blocks = end_of_blocks(connection)?;
    let kept = one("SELECT first FROM block WHERE body IS NOT NULL ORDER BY first LIMIT 1")?;
    let size = end.unwrap_or(0).max(blocks);
    Ok((kept.or(tail).unwrap_or(size), size))
}

/// Gives `visit` the runs of a range, each with the part of the range in it, in order or from the newest on, until it
/// returns false. `skip` is asked before the blocks of each whole segment.
pub(crate) fn runs(
    connection: &Connection,
    blocks: &Blocks,
    range: RangeInclusive<u64>,
    newest_first: bool,
    skip: impl Fn(u64) -> Result<bool, Failure>,
    mut visit: impl FnMut(&Placed, &RangeInclusive<u64>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let (first, size) = extent(connection)?;
    let mut least = (*range.start()).max(first);
    let mut end = (*range.end()).saturating_add(1).min(size);
    let mut asked = None;
    while least < end {
        let at = if newest_first { end - 1 } else { least };
        let segment = at / SEGMENT;
        if asked != Some(segment) {
            asked = Some(segment);
            if skip(segment)? {
                if newest_first {
                    end = segment * SEGMENT;
                } else {
                    least = (segment + 1) * SEGMENT;
                }
                continue;
            }
        }
        let Some(placed) = run_of(connection, blocks, at)? else {
            // Retention drops the oldest meanwhile, whole segments with their rows.
            let (first, _) = extent(connection)?;
            if first <= least {
                return Err(Failure::Damaged(format!("record {} is missing", at + 1)));
            }
            least = first;
            continue;
        };
        if !visit(&placed, &(least..=end - 1))? {
            return Ok(());
        }
        if newest_first {
            end = placed.first;
        } else {
            least = placed.first + placed.count;
        }
    }
    Ok(())
}

/// Gives `visit` the entries of a range, in order or from the newest on, until it returns false.
pub(crate) fn walk(
    connection: &Connection,
    blocks: &Blocks,
    range: RangeInclusive<u64>,
    newest_first: bool,
    mut visit: impl FnMut(u64, &[u8]) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    runs(
        connection,
        blocks,
        range,
        newest_first,
        |_| Ok(false),
        |placed, range| {
            let mut entries = placed.entries(range)?;
            if newest_first {
                entries.reverse();
            }
            for (index, entry) in &entries {
                if !visit(*index, entry)? {
                    return Ok(false);
                }
            }
            Ok(true)
        },
    )
}

/// Gives `visit` the entries from an index on, in order, until it returns false, each with the time by which queries find
/// it. Passes over what is missing or cannot be read.
pub(crate) fn salvage(
    connection: &Connection,
    blocks: &Blocks,
    from: u64,
    mut visit: impl FnMut(u64, u64, &[u8]) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let (first, size) = extent(connection)?;
    let mut at = from.max(first);
    while at < size {
        let placed = match run_of(connection, blocks, at) {
            Ok(placed) => placed,
            Err(Failure::Damaged(_)) => None,
            Err(failure) => return Err(failure),
        };
        let next = match &placed {
            Some(placed) => placed.first.saturating_add(placed.count),
            None => next_run(connection, at)?.unwrap_or(size),
        };
        if let Some(placed) = placed {
            for (index, entry) in placed.readable(at) {
                let (min, max) = placed.times;
                let time = time_of(&entry).clamp(min, max.max(min));
                if !visit(index, time, &entry)? {
                    return Ok(());
                }
            }
        }
        at = next;
    }
    Ok(())
}

/// Returns the first index behind `at` at which a run begins.
fn next_run(connection: &Connection, at: u64) -> Result<Option<u64>, Failure> {
    let text = "SELECT min(first) FROM (SELECT min(first) AS first FROM tail WHERE first > ?1 \
                UNION ALL SELECT min(first) FROM block WHERE first > ?1)";
    let next: Option<i64> = connection.only(text, [integer(at)])?;
    Ok(next.map(number))
}

/// Returns the index behind the last block.
pub(super) fn end_of_blocks(connection: &Connection) -> Result<u64, Failure> {
    let text = "SELECT first + count FROM block ORDER BY first DESC LIMIT 1";
    if let Some(end) = connection.value(text, [])? {
        return Ok(number(end));
    }
    // Blocks of the last segment may be gone; its root stays.
    let text = "SELECT coalesce(max(number) + 1, 0) FROM segment";
    Ok(number(connection.only(text, [])?) * SEGMENT)
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

/// Returns the decisions with identifiers of a range, each with its index, at most `most`.
pub(crate) fn with_ids(
    connection: &Connection,
    blocks: &Blocks,
    ids: &RangeInclusive<DecisionId>,
    most: usize,
) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
    let times = [ids.start(), ids.end()].map(|id| integer(id.time().as_millis()));
    let mut starts: Vec<u64> = Vec::new();
    // The tail first: its entries may become a block meanwhile.
    for text in [
        "SELECT first FROM tail WHERE max_time >= ?1 AND min_time <= ?2",
        "SELECT first FROM block WHERE max_time >= ?1 AND min_time <= ?2 AND body IS NOT NULL ORDER BY first",
    ] {
        connection.each(text, times, |row| {
            starts.push(number(row.get(0)?));
            Ok(())
        })?;
    }
    starts.sort_unstable();
    starts.dedup();
    let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
    for first in starts {
        let Some(placed) = run_of(connection, blocks, first)? else {
            continue;
        };
        for (index, entry) in placed.with_ids(ids)? {
            if found.iter().all(|(known, _)| *known != index) {
                found.push((index, entry));
            }
            if found.len() == most {
                return Ok(found);
            }
        }
    }
    Ok(found)
}
