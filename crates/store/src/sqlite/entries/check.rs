//! Checks of the rows of the log against their entries.

use rusqlite::types::FromSqlError;
use rusqlite::{Connection, Row, Transaction};
use thiserror::Error;

use super::super::engine::{Failure, Statements as _, hashes, integer, number};
use super::append;
use super::lines::Frames;
use super::read::{Blocks, run_of};
use crate::Records;
use crawlgate_block::{Block, BlockError};
use crawlgate_record::{Entry, Verdict, time_of};
use crawlgate_tlog::{BUNDLE, Hash, SEGMENT, Tree, leaf_hash};

/// The place of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockPlace {
    /// The index of its first entry.
    pub(crate) first: u64,
    /// Number of entries.
    count: u64,
}

/// The relation of a block to the row that it lies in.
#[derive(Debug)]
pub(crate) enum Relation {
    /// The row says what its entries are.
    Right,
    /// The roots are others than these, which its entries have.
    Roots(Vec<Hash>),
    /// The times, or the number of denials, are others than these, which its entries have.
    Facts(Facts),
    /// Retention has dropped the entries.
    Dropped,
    /// The block cannot be read.
    Unreadable(Unreadable),
}

/// The reason why a block cannot be read.
#[derive(Debug, Error)]
pub(crate) enum Unreadable {
    /// The block is damaged.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The row has no octets in the place of the block.
    #[error(transparent)]
    Row(#[from] FromSqlError),
    /// The row has another number of roots than the block has whole bundles.
    #[error("another number of roots than of bundles")]
    Roots,
    /// The block has another number of records than its row says.
    #[error("another number of records than its row says")]
    Records,
}

/// The facts that the row of some entries holds about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The earliest time.
    pub(crate) min_time: u64,
    /// The latest time.
    pub(crate) max_time: u64,
    /// Number of decisions that deny.
    pub(crate) denials: u64,
}

impl Facts {
    const NONE: Self = Self { min_time: u64::MAX, max_time: 0, denials: 0 };

    fn add(&mut self, entry: &[u8]) {
        let time = time_of(entry);
        self.min_time = self.min_time.min(time);
        self.max_time = self.max_time.max(time);
        let is_denial =
            matches!(Entry::read(entry), Ok(Entry::Decision(one)) if one.verdict == Verdict::Deny);
        self.denials += u64::from(is_denial);
    }

    /// Returns the facts of entries.
    fn of<'e>(entries: impl Iterator<Item = &'e [u8]>) -> Self {
        let mut facts = Self::NONE;
        entries.for_each(|entry| facts.add(entry));
        facts
    }
}

impl BlockPlace {
    /// Returns the index behind its last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }

    /// Returns the records in words.
    pub(crate) fn records(&self) -> Records {
        Records::new(self.first + 1, self.end())
    }

    /// Reads the block, and compares it with its row.
    pub(crate) fn relation(&self, connection: &Connection) -> Result<Relation, Failure> {
        let text = "SELECT roots, body, min_time, max_time, denials FROM block WHERE first = ?1";
        let found = connection.first(text, [integer(self.first)], |row| self.relation_of(row))?;
        Ok(found.unwrap_or(Relation::Dropped))
    }

    fn relation_of(&self, row: &Row<'_>) -> Result<Relation, Failure> {
        let (roots, rest) = hashes(row, 0)?;
        if !rest.is_empty() || roots.len() as u64 != self.count / BUNDLE {
            return Ok(Relation::Unreadable(Unreadable::Roots));
        }
        let body = match row.get_ref(1)?.as_blob_or_null() {
            Ok(Some(body)) => body,
            Ok(None) => return Ok(Relation::Dropped),
            Err(error) => return Ok(Relation::Unreadable(error.into())),
        };
        let (found, facts) = match found(body, self.count) {
            Ok(found) => found,
            Err(why) => return Ok(Relation::Unreadable(why)),
        };
        if found != roots {
            return Ok(Relation::Roots(found));
        }
        let stored = Facts {
            min_time: number(row.get(2)?),
            max_time: number(row.get(3)?),
            denials: number(row.get(4)?),
        };
        Ok(if stored == facts { Relation::Right } else { Relation::Facts(facts) })
    }
}

/// Returns the roots of the bundles of a block, and the facts of its entries.
fn found(body: &[u8], count: u64) -> Result<(Vec<Hash>, Facts), Unreadable> {
    let block = Block::read(body)?;
    if block.len() as u64 != count {
        return Err(Unreadable::Records);
    }
    let mut facts = Facts::NONE;
    let (mut roots, mut leaves, mut entry) = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..block.len() {
        entry.clear();
        block.entry(place, &mut entry)?;
        facts.add(&entry);
        leaves.push(leaf_hash(&entry));
        if leaves.len() as u64 == BUNDLE {
            roots.push(Tree::root_of(&leaves));
            leaves.clear();
        }
    }
    Ok((roots, facts))
}

/// Returns the rows of the tail with other times than their entries have: the first index, and the right times.
pub(crate) fn wrong_tail_times(connection: &Connection) -> Result<Vec<(u64, Facts)>, Failure> {
    let mut wrong = Vec::new();
    let text = "SELECT first, min_time, max_time, entries FROM tail";
    connection.each(text, [], |row| {
        let frames: Vec<u8> = row.get(3)?;
        let facts = Facts::of(Frames(&frames).filter_map(Result::ok));
        let stored = (number(row.get(1)?), number(row.get(2)?));
        if stored != (facts.min_time, facts.max_time) {
            wrong.push((number(row.get(0)?), facts));
        }
        Ok(())
    })?;
    Ok(wrong)
}

/// A segment with a row that differs from its blocks. The values are those of the blocks.
#[derive(Debug)]
pub(crate) struct WrongSegment {
    pub(crate) number: u64,
    pub(crate) root: Hash,
    pub(crate) times: (i64, i64),
    pub(crate) keys: Option<Vec<u8>>,
    pub(crate) sums: Option<Vec<u8>>,
}

/// Returns the segments that differ from their blocks, as far as those are there.
pub(crate) fn wrong_segments(connection: &Connection) -> Result<Vec<WrongSegment>, Failure> {
    let mut wrong = Vec::new();
    let text = "SELECT number, root, min_time, max_time, keys, sums FROM segment";
    connection.each(text, [], |row| {
        let at = number(row.get(0)?);
        let range = [
            integer(at.saturating_mul(SEGMENT)),
            integer(at.saturating_add(1).saturating_mul(SEGMENT)),
        ];
        let (mut bundles, mut times): (Vec<Hash>, _) = (Vec::new(), (i64::MAX, i64::MIN));
        let mut is_kept = true;
        let text = "SELECT roots, min_time, max_time, body IS NOT NULL FROM block \
                    WHERE first >= ?1 AND first < ?2 ORDER BY first";
        connection.each(text, range, |block| {
            bundles.extend(hashes(block, 0)?.0);
            times.0 = times.0.min(block.get(1)?);
            times.1 = times.1.max(block.get(2)?);
            is_kept &= block.get::<_, bool>(3)?;
            Ok(())
        })?;
        if bundles.len() as u64 != SEGMENT / BUNDLE {
            return Ok(());
        }
        let root = Tree::root_of(&bundles);
        let stored: (Option<Vec<u8>>, Option<Vec<u8>>) = (row.get(4)?, row.get(5)?);
        // Keys and sums count dropped entries, too. A row without them costs time, and no answer.
        let (keys, sums) = if is_kept {
            let index = append::index(connection, at)?;
            (index.keys, index.sums)
        } else {
            stored.clone()
        };
        let is_right = stored.0.is_none_or(|stored| Some(stored) == keys)
            && stored.1.is_none_or(|stored| Some(stored) == sums)
            && row.get_ref(1)?.as_blob().unwrap_or_default() == root
            && times == (row.get(2)?, row.get(3)?);
        if !is_right {
            wrong.push(WrongSegment { number: at, root, times, keys, sums });
        }
        Ok(())
    })?;
    Ok(wrong)
}

/// Returns the places of the blocks that end behind an index.
pub(crate) fn blocks_from(connection: &Connection, index: u64) -> Result<Vec<BlockPlace>, Failure> {
    let text = "SELECT first, count FROM block WHERE first + count > ?1 ORDER BY first";
    connection.all(text, [integer(index)], place)
}

/// Returns the last blocks, at most `most`, the newest first.
pub(crate) fn latest_blocks(
    connection: &Connection,
    most: usize,
) -> Result<Vec<BlockPlace>, Failure> {
    let text = "SELECT first, count FROM block ORDER BY first DESC LIMIT ?1";
    connection.all(text, [integer(most as u64)], place)
}

fn place(row: &Row<'_>) -> Result<BlockPlace, Failure> {
    Ok(BlockPlace { first: number(row.get(0)?), count: number(row.get(1)?) })
}

/// Returns the entries of the row that begins with `first`, each with its index.
pub(crate) fn entries_at(
    connection: &Connection,
    first: u64,
) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
    let text = "SELECT entries FROM tail WHERE first = ?1";
    if let Some(frames) = connection.value::<Vec<u8>>(text, [integer(first)])? {
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

/// Entries, each with its index.
pub(crate) type Indexed = Vec<(u64, Vec<u8>)>;

/// Takes the rows of all entries out of the log, for [`take_aside`].
pub(crate) fn set_aside(target: &Transaction<'_>) -> Result<(), Failure> {
    target.execute_batch(
        "CREATE TABLE aside (first INTEGER PRIMARY KEY, is_tail INTEGER NOT NULL, entries BLOB) STRICT",
    )?;
    for (first, copy, drop) in [
        (
            "SELECT first FROM tail ORDER BY first LIMIT 1",
            "INSERT INTO aside SELECT first, 1, entries FROM tail WHERE first = ?1",
            "DELETE FROM tail WHERE first = ?1",
        ),
        (
            "SELECT first FROM block ORDER BY first LIMIT 1",
            "INSERT OR IGNORE INTO aside SELECT first, 0, body FROM block WHERE first = ?1",
            "DELETE FROM block WHERE first = ?1",
        ),
    ] {
        // One by one, so that each takes the room of the one before.
        while let Some(first) = target.value::<i64>(first, [])? {
            target.run(copy, [first])?;
            target.run(drop, [first])?;
        }
    }
    Ok(())
}

/// Takes the next row that was set aside, and returns its entries, each with its index. Those that cannot be read are lost.
/// `None` at the end.
pub(crate) fn take_aside(target: &Transaction<'_>) -> Result<Option<Indexed>, Failure> {
    let text = "SELECT first, is_tail, entries FROM aside ORDER BY first LIMIT 1";
    let row = target.first(text, [], |row| {
        let octets: Option<Vec<u8>> = row.get(2)?;
        Ok((row.get(0)?, row.get(1)?, octets.unwrap_or_default()))
    })?;
    let Some((first, is_tail, octets)) = row else {
        target.execute_batch("DROP TABLE aside")?;
        return Ok(None);
    };
    let index = number(first);
    target.run("DELETE FROM aside WHERE first = ?1", [first])?;
    let entries = if is_tail {
        // Up to where the row breaks off.
        let entries = Frames(&octets).map_while(|entry| Some(entry.ok()?.to_vec()));
        entries.collect()
    } else {
        unpacked(&octets).unwrap_or_default()
    };
    Ok(Some((index..).zip(entries).collect()))
}

fn unpacked(body: &[u8]) -> Result<Vec<Vec<u8>>, BlockError> {
    let block = Block::read(body)?;
    let entry = |place| {
        let mut entry = Vec::new();
        block.entry(place, &mut entry).map(|()| entry)
    };
    (0..block.len()).map(entry).collect()
}
