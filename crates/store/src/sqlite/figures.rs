//! The figures of a span of the log: one pass over its blocks and its tail.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use rusqlite::Connection;

use super::entries::{self, Blocks, Run};
use super::error::Failure;
use super::objects;
use super::rows::{integer, number};
use super::search::{bounds, in_block, is_outside};
use crate::DecisionQuery;
use crate::figures::Figures;
use crate::search::Search;
use crawlgate_record::Entry;

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
    let skip = |segment| is_outside(connection, &search, segment);
    entries::runs(connection, blocks, range, false, skip, |placed, range| {
        match &placed.run {
            Run::Dropped => {}
            Run::Block(block) => {
                let seen = |place| seen.contains(&(placed.first + u64::from(place)));
                let range = in_block(placed, range);
                let counted = figures.count_block(&search, block, range, seen, &mut object);
                counted.map_err(|error| entries::damaged(&error))?;
            }
            Run::Tail(_) => {
                for (index, entry) in placed.entries(range)? {
                    if let Ok(entry) = Entry::read(&entry) {
                        figures.count_entry(&search, &entry, seen.contains(&index), &mut object);
                    }
                }
            }
        }
        Ok(true)
    })?;
    Ok(figures)
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
