//! Blocks that go: the oldest first, their entries at once.
//!
//! The roots of a block stay, and those of its segment when the whole segment is gone. Before, each checkpoint in that
//! part gets the few hashes that proofs from it still need. An entry of the log says what was dropped. The times of the
//! oldest entries tell what other data may go.

use rusqlite::{Connection, Transaction};

use super::super::engine::{Failure, Statements as _, integer, moment, number};
use super::read::{Blocks, extent};
use super::tree::{StoredTree, keep_edges};
use crate::HOUR;
use crawlgate_system::clock::Moment;
use crawlgate_tlog as tlog;
use crawlgate_tlog::SEGMENT;

/// The oldest block with its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Oldest {
    /// The index of its first entry.
    pub(crate) first: u64,
    /// Number of entries.
    pub(crate) count: u64,
    /// The latest time of an entry.
    pub(crate) max_time: Moment,
}

/// Returns the oldest block that still has its entries.
pub(crate) fn oldest(connection: &Connection) -> Result<Option<Oldest>, Failure> {
    let text =
        "SELECT first, count, max_time FROM block WHERE body IS NOT NULL ORDER BY first LIMIT 1";
    connection.first(text, [], |row| {
        Ok(Oldest {
            first: number(row.get(0)?),
            count: number(row.get(1)?),
            max_time: moment(row.get(2)?),
        })
    })
}

/// Drops the entries of the oldest blocks, up to `end`, the end of a block.
pub(crate) fn drop_before(
    transaction: &Transaction<'_>,
    blocks: &Blocks,
    end: u64,
) -> Result<(), Failure> {
    let tree = StoredTree::new(transaction, blocks);
    let first = |text| transaction.only(text, []).map(number);
    let from = first("SELECT coalesce(min(first), 0) FROM block WHERE body IS NOT NULL")?;
    // The whole segments that go with their rows.
    let first_row = first("SELECT coalesce(min(first), 0) FROM block")?;
    let gone = end / SEGMENT * SEGMENT;
    keep_edges(transaction, &tree, (from, end), tlog::DropUnit::Bundle)?;
    if gone > first_row {
        keep_edges(transaction, &tree, (first_row, gone), tlog::DropUnit::Segment)?;
    }
    let (end, gone) = (integer(end), integer(gone));
    let text = "UPDATE block SET body = NULL WHERE first < ?1 AND body IS NOT NULL";
    transaction.run(text, [end])?;
    transaction.run("DELETE FROM block WHERE first < ?1", [gone])?;
    // Of the checkpoints in dropped segments, one for each day stays, and those that a witness has cosigned.
    let day = integer(24 * u64::try_from(HOUR.as_millis()).unwrap_or(1));
    transaction.run(
        "DELETE FROM checkpoint WHERE size < ?1 AND cosigned = 0 AND size NOT IN \
         (SELECT max(size) FROM checkpoint WHERE size < ?1 GROUP BY time / ?2)",
        [gone, day],
    )?;
    let text = "DELETE FROM acknowledgement WHERE seq <= ?1";
    transaction.run(text, [end]).map(drop)
}

/// Returns the time of the oldest entry that is kept. It need not be the first one: a clock may have been wrong.
pub(crate) fn oldest_kept(connection: &Connection) -> Result<Option<Moment>, Failure> {
    let (first, _) = extent(connection)?;
    let text = "SELECT min(min_time) FROM (SELECT min_time FROM block INDEXED BY block_time WHERE first >= ?1 \
                UNION ALL SELECT min_time FROM tail)";
    let oldest: Option<i64> = connection.only(text, [integer(first)])?;
    Ok(oldest.map(moment))
}

/// Returns the time of the first entry that is kept.
pub(crate) fn first_kept(connection: &Connection) -> Result<Option<Moment>, Failure> {
    let text = "SELECT min_time FROM (SELECT first, min_time FROM block WHERE body IS NOT NULL \
                UNION ALL SELECT first, min_time FROM tail) ORDER BY first LIMIT 1";
    Ok(connection.value(text, [])?.map(moment))
}
