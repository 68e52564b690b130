//! The figures of a span of the log: one pass over its blocks, and over its tail as one block more.

use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};

use rusqlite::Connection;

use super::engine::{Failure, integer, number};
use super::entries::{self, Blocks, Run};
use super::objects;
use super::search::{bounds, in_block, is_outside};
use crate::DecisionQuery;
use crate::figures::Figures;
use crate::search::Search;
use crawlgate_block::{Block, BlockWriter};

/// See [`Store::figures`](crate::Store::figures).
pub(super) fn count(
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
            Run::Block(block) => count(block, in_block(placed, range), &|place| {
                placed.first + u64::from(place)
            })?,
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
        Ok(Self {
            writer,
            indices: Vec::new(),
        })
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
