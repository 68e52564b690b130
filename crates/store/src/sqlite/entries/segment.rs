//! The keys and sums of a segment, which a search asks before it reads the blocks.

use rusqlite::Connection;

use super::super::engine::{Failure, Statements as _, integer};
use crate::segment::keys::SegmentKeysBuilder;
use crate::segment::sums::SumsBuilder;
use crawlgate_block::Block;
use crawlgate_tlog::SEGMENT;

/// The columns of a segment that spare a search its blocks.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) keys: Option<Vec<u8>>,
    pub(super) sums: Option<Vec<u8>>,
}

/// Returns the index of a segment, from its blocks.
///
/// With a damaged block the index is empty. That is no failure: a search without the index reads the blocks.
pub(super) fn index(connection: &Connection, number: u64) -> Result<Index, Failure> {
    let text = "SELECT body FROM block WHERE first >= ?1 AND first < ?2 AND body IS NOT NULL ORDER BY first";
    let bounds = [integer(number * SEGMENT), integer((number + 1) * SEGMENT)];
    let (mut keys, mut sums) = (SegmentKeysBuilder::new(), SumsBuilder::new());
    let mut is_readable = true;
    connection.each(text, bounds, |row| {
        let body = row.get_ref(0)?.as_blob().unwrap_or_default();
        if is_readable && let Ok(block) = Block::read(body) {
            keys.add_block(&block);
            sums.add_block(&block);
        } else {
            is_readable = false;
        }
        Ok(())
    })?;
    if !is_readable {
        return Ok(Index::default());
    }
    Ok(Index {
        keys: Some(keys.finish()),
        sums: sums.finish().ok().flatten(),
    })
}
