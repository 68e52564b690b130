//! Questions to the decision log.
//!
//! A search goes from run to run of entries: rows of the tail are read entry by entry, blocks by their columns
//! ([`Search`]). Before the blocks of a whole segment it asks the keys of the segment, and a count its sums. Figures take
//! the tail as one block more.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use rusqlite::Connection;

use super::engine::{Failure, Statements as _, integer, number};
use super::entries::{Blocks, Lines, Placed, Run};
use super::read::{is_acknowledged, stored};
use super::{entries, objects};
use crate::figures::Figures;
use crate::search::{GroupCounts, Search};
use crate::segment::SegmentKeys;
use crate::segment::sums::Sums;
use crate::{DecisionQuery, GroupBy, GroupCount, StoredDecision};
use crawlgate_block::{Block, BlockWriter};
use crawlgate_record::Entry;
use crawlgate_tlog::SEGMENT;

/// See [`Store::decisions`](crate::Store::decisions).
pub(super) fn decisions(
    connection: &Connection,
    blocks: &Blocks,
    query: &DecisionQuery,
) -> Result<Vec<StoredDecision>, Failure> {
    let search = Search::new(query)?;
    let skip = |segment| is_without(connection, &search, segment);
    page(connection, blocks, query, skip, |placed, range, most| {
        places(connection, &search, placed, range, query.newest_first, most)
    })
}

/// See [`Store::events`](crate::Store::events).
pub(super) fn events(
    connection: &Connection,
    blocks: &Blocks,
    query: &DecisionQuery,
) -> Result<Vec<StoredDecision>, Failure> {
    let search = Search::new(query)?;
    let skip = |segment| is_outside(connection, &search, segment);
    page(connection, blocks, query, skip, |placed, range, most| {
        let others = others(placed, range)?.into_iter();
        let events = others.filter(|(_, entry)| {
            matches!(Entry::read(entry), Ok(Entry::Event(event)) if search.holds_time(event.time()))
        });
        let mut places: Vec<u64> = events.map(|(index, _)| index - placed.first).collect();
        if query.newest_first {
            places.reverse();
        }
        places.truncate(most);
        Ok(places)
    })
}

/// Returns the entries of a query that `places` names in each run, given the most that are wanted, in the order of the
/// query. Runs of segments that `skip` names are passed over.
fn page(
    connection: &Connection,
    blocks: &Blocks,
    query: &DecisionQuery,
    skip: impl Fn(u64) -> Result<bool, Failure>,
    places: impl Fn(&Placed, &RangeInclusive<u64>, usize) -> Result<Vec<u64>, Failure>,
) -> Result<Vec<StoredDecision>, Failure> {
    let (mut page, mut lines) = (Vec::new(), Lines::default());
    let Some(range) = bounds(query).filter(|_| query.limit > 0) else {
        return Ok(page);
    };
    let newest_first = query.newest_first;
    entries::runs(connection, blocks, range, newest_first, skip, |placed, range| {
        for place in places(placed, range, query.limit - page.len())? {
            let entry = placed.entry(place)?;
            let index = placed.first + place;
            page.push(stored(connection, &mut lines, index, &entry)?);
        }
        Ok(page.len() < query.limit)
    })?;
    Ok(page)
}

/// Returns the entries of a run among which its events are, each with its index.
fn others(placed: &Placed, range: &RangeInclusive<u64>) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
    let Run::Block(block) = &placed.run else {
        return placed.entries(range);
    };
    let places = block.other_places().iter().map(|place| u64::from(*place));
    let inside = places.filter(|place| range.contains(&(placed.first + place)));
    inside.map(|place| Ok((placed.first + place, placed.entry(place)?))).collect()
}

/// See [`Store::count_by`](crate::Store::count_by).
pub(super) fn count_by(
    connection: &Connection,
    blocks: &Blocks,
    query: &DecisionQuery,
    key: GroupBy,
    most: usize,
) -> Result<Vec<GroupCount>, Failure> {
    let search = Search::new(query)?;
    let counts = RefCell::new(GroupCounts::new(key));
    let Some(range) = bounds(query) else {
        return Ok(Vec::new());
    };
    let (first, _) = entries::extent(connection)?;
    let whole = range.clone();
    let skip = |segment: u64| {
        if is_without(connection, &search, segment)? {
            return Ok(true);
        }
        // Sums count dropped entries, too.
        let start = segment * SEGMENT;
        let is_whole =
            start >= first && whole.contains(&start) && whole.contains(&(start + SEGMENT - 1));
        let sums = is_whole.then(|| column(connection, segment, "sums"));
        let sums = sums.transpose()?.flatten();
        let sums = sums.and_then(|sums| Sums::read(&sums).ok());
        Ok(sums.is_some_and(|sums| sums.count_by(&search, &mut counts.borrow_mut())))
    };
    entries::runs(connection, blocks, range, false, skip, |placed, range| {
        let mut counts = counts.borrow_mut();
        match &placed.run {
            Run::Dropped => {}
            Run::Block(block) => {
                let seen = |place| is_acknowledged(connection, placed.first + u64::from(place));
                let counted = counts.count_block(&search, block, in_block(placed, range), seen);
                counted.map_err(|error| entries::damaged(&error))?;
            }
            Run::Tail(_) => {
                for (index, entry) in placed.entries(range)? {
                    if let Some(decision) = admitted(connection, &search, index, &entry) {
                        counts.count(&decision);
                    }
                }
            }
        }
        Ok(true)
    })?;
    Ok(counts.into_inner().into_most_frequent(most))
}

/// Tells whether a segment has none of the wanted decisions, by its times, its acknowledgements and its keys.
pub(super) fn is_without(
    connection: &Connection,
    search: &Search,
    segment: u64,
) -> Result<bool, Failure> {
    if is_outside(connection, search, segment)? || is_unseen(connection, search, segment)? {
        return Ok(true);
    }
    let keys = column(connection, segment, "keys")?;
    let keys = keys.as_deref().and_then(SegmentKeys::read);
    Ok(keys.is_some_and(|keys| !search.wanted().may_be_in(keys)))
}

/// Tells whether all entries of a segment lie outside the time of a query.
pub(super) fn is_outside(
    connection: &Connection,
    search: &Search,
    segment: u64,
) -> Result<bool, Failure> {
    let text = "SELECT min_time, max_time FROM segment WHERE number = ?1";
    let meets = connection.first(text, [integer(segment)], |row| {
        Ok(search.meets_time(number(row.get(0)?), number(row.get(1)?)))
    })?;
    Ok(meets == Some(false))
}

/// Tells whether no decision of a segment was acknowledged, though a query asks only for such.
fn is_unseen(connection: &Connection, search: &Search, segment: u64) -> Result<bool, Failure> {
    if !search.is_of_acknowledged() {
        return Ok(false);
    }
    let text = "SELECT 1 FROM acknowledgement WHERE seq > ?1 AND seq <= ?2 LIMIT 1";
    let start = segment * SEGMENT;
    Ok(!connection.has(text, [integer(start), integer(start + SEGMENT)])?)
}

/// Returns the places of the matching decisions of a run, at most `most`.
pub(super) fn places(
    connection: &Connection,
    search: &Search,
    placed: &Placed,
    range: &RangeInclusive<u64>,
    newest_first: bool,
    most: usize,
) -> Result<Vec<u64>, Failure> {
    match &placed.run {
        Run::Dropped => Ok(Vec::new()),
        Run::Block(block) => {
            let seen = |place| is_acknowledged(connection, placed.first + u64::from(place));
            let found = search.places(block, in_block(placed, range), newest_first, seen);
            let found = found.take(most).map(|place| place.map(u64::from));
            found.collect::<Result<_, _>>().map_err(|error| entries::damaged(&error))
        }
        Run::Tail(_) => {
            let mut found = Vec::new();
            for (index, entry) in placed.entries(range)? {
                if admitted(connection, search, index, &entry).is_some() {
                    found.push(index - placed.first);
                }
            }
            if newest_first {
                found.reverse();
            }
            found.truncate(most);
            Ok(found)
        }
    }
}

/// Returns a decision that matches.
fn admitted<'e>(
    connection: &Connection,
    search: &Search,
    index: u64,
    entry: &'e [u8],
) -> Option<crawlgate_record::Decision<'e>> {
    let Ok(Entry::Decision(decision)) = Entry::read(entry) else {
        return None;
    };
    let is_seen = is_acknowledged(connection, index);
    search.admits(&decision, is_seen).then_some(decision)
}

/// Returns the part of a range that lies in a block, by places.
pub(super) fn in_block(placed: &Placed, range: &RangeInclusive<u64>) -> Range<usize> {
    let place =
        |index: u64| usize::try_from(index.saturating_sub(placed.first)).unwrap_or(usize::MAX);
    let end = (*range.end()).saturating_add(1).min(placed.first + placed.count);
    place(*range.start())..place(end)
}

/// Returns the indices of the candidates.
pub(super) fn bounds(query: &DecisionQuery) -> Option<RangeInclusive<u64>> {
    let (mut least, mut most) = (query.from.unwrap_or(1), query.to.unwrap_or(u64::MAX));
    match (query.after, query.newest_first) {
        (Some(after), true) => most = most.min(after.checked_sub(1)?),
        (Some(after), false) => least = least.max(after.checked_add(1)?),
        (None, _) => {}
    }
    Some(least.saturating_sub(1)..=most.checked_sub(1)?)
}

/// Reads `keys` or `sums` of a segment.
fn column(connection: &Connection, segment: u64, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let text = format!("SELECT {name} FROM segment WHERE number = ?1");
    let found: Option<Option<Vec<u8>>> = connection.value(&text, [integer(segment)])?;
    Ok(found.flatten())
}

/// See [`Store::figures`](crate::Store::figures).
pub(super) fn count_figures(
    connection: &Connection,
    blocks: &Blocks,
    query: &DecisionQuery,
    mut figures: Figures,
) -> Result<Figures, Failure> {
    let search = Search::new(query)?;
    let Some(range) = bounds(query) else {
        return Ok(figures);
    };
    let seen = acknowledged(connection, &range)?;
    let mut object = |sha256: &[u8; 32]| objects::body(connection, sha256).ok().flatten();
    let mut count = |block: &Block<'_>, range, index: &dyn Fn(u32) -> u64| {
        let seen = |place| seen.contains(&index(place));
        let counted = figures.count_block(&search, block, range, seen, &mut object);
        counted.map_err(|error| entries::damaged(&error))
    };
    let skip = |segment| is_outside(connection, &search, segment);
    let mut tail = Tail::new()?;
    entries::runs(connection, blocks, range, false, skip, |placed, range| {
        match &placed.run {
            Run::Dropped => {}
            Run::Block(block) => {
                count(block, in_block(placed, range), &|place| placed.first + u64::from(place))?;
            }
            Run::Tail(_) => {
                for (index, entry) in placed.entries(range)? {
                    if tail.writer.push(&entry).is_err() {
                        tail.count(&mut count)?;
                        // The first entry of a block always fits.
                        let _ = tail.writer.push(&entry);
                    }
                    tail.indices.push(index);
                }
            }
        }
        Ok(true)
    })?;
    tail.count(&mut count)?;
    Ok(figures)
}

/// Entries of the tail on their way into a block.
struct Tail {
    writer: BlockWriter,
    /// The index of the entry at each place.
    indices: Vec<u64>,
}

impl Tail {
    fn new() -> Result<Self, Failure> {
        let writer = BlockWriter::new().map_err(|error| crate::failed(error.to_string()))?;
        Ok(Self { writer, indices: Vec::new() })
    }

    /// Makes a block of the entries, if there are some, and counts it.
    fn count(
        &mut self,
        count: &mut impl FnMut(&Block<'_>, Range<usize>, &dyn Fn(u32) -> u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let indices = std::mem::take(&mut self.indices);
        if indices.is_empty() {
            return Ok(());
        }
        let mut octets = Vec::new();
        let made = self.writer.finish(&mut octets);
        let block = made.and_then(|_| Block::read(octets));
        let block = block.map_err(|error| crate::failed(error.to_string()))?;
        count(&block, 0..indices.len(), &|place| {
            indices.get(place as usize).copied().unwrap_or_default()
        })
    }
}

/// Returns the indices of acknowledged decisions.
fn acknowledged(
    connection: &Connection,
    range: &RangeInclusive<u64>,
) -> Result<HashSet<u64>, Failure> {
    let mut seen = connection
        .prepare_cached("SELECT seq FROM acknowledgement WHERE seq > ?1 AND seq - 1 <= ?2")?;
    let bounds = [integer(*range.start()), integer(*range.end())];
    let seqs = seen.query_map(bounds, |row| row.get::<_, i64>(0))?;
    seqs.map(|seq| Ok(number(seq?).saturating_sub(1))).collect()
}
