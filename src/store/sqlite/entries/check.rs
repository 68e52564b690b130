//! Whether blocks are what was written.

use rusqlite::Connection;

use super::super::error::Failure;
use super::super::rows::{integer, number};
use super::frames::Frames;
use super::read::{Blocks, run_of};
use crate::store::block::Block;
use crate::tlog::{BUNDLE, Tree, leaf_hash};

/// The place of a block.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::sqlite) struct BlockPlace {
    /// The index of its first entry.
    pub(in crate::store::sqlite) first: u64,
    /// Number of entries.
    count: u64,
}

/// The relation of a block to the roots stored for it.
#[derive(Debug)]
pub(in crate::store::sqlite) enum Roots {
    /// The roots are those of its entries.
    Right,
    /// The roots are others.
    Differ,
    /// Retention has dropped the entries.
    Dropped,
    /// The block cannot be read.
    Unreadable(String),
}

impl BlockPlace {
    /// Returns the records in words.
    pub(in crate::store::sqlite) fn told(&self) -> String {
        format!("records {} to {}", self.first + 1, self.first + self.count)
    }

    /// Reads the block, and compares its roots.
    pub(in crate::store::sqlite) fn roots_of(
        &self,
        connection: &Connection,
    ) -> Result<Roots, Failure> {
        let mut block =
            connection.prepare_cached("SELECT roots, body FROM block WHERE first = ?1")?;
        let mut rows = block.query([integer(self.first)])?;
        let Some(row) = rows.next()? else {
            return Ok(Roots::Dropped);
        };
        let (roots, rest) = row.get_ref(0)?.as_blob().unwrap_or_default().as_chunks();
        let body = match row.get_ref(1)?.as_blob_or_null() {
            Ok(Some(body)) => body,
            Ok(None) => return Ok(Roots::Dropped),
            Err(error) => return Ok(Roots::Unreadable(error.to_string())),
        };
        let found = match found(body, self.count) {
            Ok(found) => found,
            Err(why) => return Ok(Roots::Unreadable(why)),
        };
        Ok(match rest.is_empty() && found == roots {
            true => Roots::Right,
            false => Roots::Differ,
        })
    }
}

/// Returns the roots of the bundles of a block.
fn found(body: &[u8], count: u64) -> Result<Vec<[u8; 32]>, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let block = Block::read(body).map_err(|error| told(&error))?;
    if block.len() as u64 != count {
        return Err("another number of records than its row says".to_owned());
    }
    let (mut roots, mut leaves, mut entry) = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..block.len() {
        entry.clear();
        block
            .entry(place, &mut entry)
            .map_err(|error| told(&error))?;
        leaves.push(leaf_hash(&entry));
        if leaves.len() as u64 == BUNDLE {
            roots.push(Tree::root_of(&leaves));
            leaves.clear();
        }
    }
    Ok(roots)
}

/// Returns the places of the blocks that end behind an index.
pub(in crate::store::sqlite) fn blocks_from(
    connection: &Connection,
    index: u64,
) -> Result<Vec<BlockPlace>, Failure> {
    let mut all = connection
        .prepare("SELECT first, count FROM block WHERE first + count > ?1 ORDER BY first")?;
    let all = all.query_map([integer(index)], |row| {
        Ok(BlockPlace {
            first: number(row.get(0)?),
            count: number(row.get(1)?),
        })
    })?;
    Ok(all.collect::<Result<_, _>>()?)
}

/// Returns the entries of the row that begins with `first`, each with its index.
pub(in crate::store::sqlite) fn entries_at(
    connection: &Connection,
    first: u64,
) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
    let mut tail = connection.prepare_cached("SELECT entries FROM tail WHERE first = ?1")?;
    let mut rows = tail.query([integer(first)])?;
    if let Some(row) = rows.next()? {
        let frames: Vec<u8> = row.get(0)?;
        let entries = (first..).zip(Frames(&frames));
        // Up to where the row breaks off.
        let entries = entries.map_while(|(index, entry)| Some((index, entry.ok()?.to_vec())));
        return Ok(entries.collect());
    }
    match run_of(connection, &Blocks::default(), first)? {
        Some(placed) => placed.entries(&(0..=u64::MAX)),
        None => Ok(Vec::new()),
    }
}
