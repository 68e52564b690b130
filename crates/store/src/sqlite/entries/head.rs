//! The end of the log: the tree over all entries, and the entries that are in no block yet.

use rusqlite::{Connection, Transaction};

use super::super::engine::{Failure, Statements as _, hashes, integer, number};
use super::lines::Frames;
use crate::Sha256;
use crawlgate_tlog::{BUNDLE, Full, Hash, SEGMENT, Tree, leaf_hash};

/// The end of the log as of one transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    /// The tree over all entries.
    pub(super) tree: Tree,
    /// The index of the first entry that is in no block.
    pub(super) tail: u64,
    /// Octets of the rows of the tail.
    pub(super) tail_octets: u64,
    /// Roots of the whole bundles of the tail.
    pub(super) bundles: Vec<Hash>,
    /// Roots of the segments that end in the tail.
    pub(super) segments: Vec<Hash>,
}

/// The end of the log that the writing process remembers, with the version of the database that it belongs to.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    head: Head,
    version: Option<i64>,
}

impl Memory {
    /// Returns the end of the log. Inside a transaction that writes, no other process changes it.
    pub(crate) fn head(&mut self, connection: &Connection) -> Result<Head, Failure> {
        // The number changes with each commit of another connection.
        let version = connection.only("PRAGMA data_version", [])?;
        if self.version != Some(version) {
            let head = match self.head.tree.size() {
                0 => Head::read(connection)?,
                _ => self.head.clone().follow(connection)?,
            };
            // Rows of the tail that are gone leave the remembered end as it is.
            let (size, end) = (self.head.size(), super::read::extent(connection)?.1);
            if end < size {
                return Err(Failure::Damaged(format!(
                    "the log was cut from {size} records to {end} while it was open"
                )));
            }
            self.head = head;
            self.version = Some(version);
        }
        Ok(self.head.clone())
    }

    /// Remembers the end of the log after a commit of this process.
    pub(crate) fn committed(&mut self, head: Head) {
        self.head = head;
    }

    /// Returns the end of the log after the last commit of this process.
    pub(crate) fn last(&self) -> &Head {
        &self.head
    }

    /// Forgets the end of the log: the database was changed in another way.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Head {
    /// Returns the number of entries that the log has ever taken.
    pub(crate) fn size(&self) -> u64 {
        self.tree.size()
    }

    /// Returns the tree over all entries.
    pub(crate) fn tree(&self) -> Tree {
        self.tree.clone()
    }

    /// Returns the root of the tree.
    pub(crate) fn root(&self) -> Sha256 {
        self.tree.root()
    }

    /// Returns the number of entries of the tail.
    pub(super) fn tail_count(&self) -> u64 {
        self.tree.size() - self.tail
    }

    /// Adds an entry to the tree.
    pub(super) fn push(&mut self, entry: &[u8]) {
        if let Some(Full { bundle, segment }) = self.tree.push(leaf_hash(entry)) {
            self.bundles.push(bundle);
            self.segments.extend(segment);
        }
    }

    /// Reads the end of the log: the roots of segments, those of the bundles behind them, and the entries of the tail.
    pub(crate) fn read(connection: &Connection) -> Result<Self, Failure> {
        // The tail may become a block between two statements.
        let _reading = reading(connection)?;
        let mut head = Self::default();
        let text = "SELECT number, root FROM segment ORDER BY number";
        connection.each(text, [], |row| {
            if number(row.get(0)?) * SEGMENT != head.size() {
                return Err(hole(head.size()));
            }
            let pushed = head.tree.push_segment(row.get(1)?);
            pushed.map_err(|_| hole(head.tree.size())).map(drop)
        })?;
        let text = "SELECT first, roots FROM block WHERE first >= ?1 ORDER BY first";
        connection.each(text, [integer(head.size())], |row| {
            let (roots, rest) = hashes(row, 1)?;
            if number(row.get(0)?) != head.size() || !rest.is_empty() {
                return Err(hole(head.size()));
            }
            for root in roots {
                let pushed = head.tree.push_bundle(*root);
                pushed.map_err(|_| hole(head.tree.size()))?;
            }
            Ok(())
        })?;
        head.tail = head.size();
        head.read_tail(connection)?;
        Ok(head)
    }

    /// Takes what other processes have appended.
    fn follow(mut self, connection: &Connection) -> Result<Self, Failure> {
        let text = "SELECT first FROM tail ORDER BY first LIMIT 1";
        let is_same = match connection.value(text, [])? {
            Some(first) => number(first) == self.tail,
            None => self.tail_count() == 0 && super::read::end_of_blocks(connection)? == self.tail,
        };
        if !is_same {
            return Self::read(connection);
        }
        self.read_tail(connection)?;
        Ok(self)
    }

    /// Takes the rows of the tail behind the end.
    fn read_tail(&mut self, connection: &Connection) -> Result<(), Failure> {
        let text = "SELECT first, count, entries FROM tail WHERE first + count > ?1 ORDER BY first";
        connection.each(text, [integer(self.size())], |row| {
            let (first, count) = (number(row.get(0)?), number(row.get(1)?));
            if first != self.size() {
                return Err(hole(self.size()));
            }
            let octets = row.get_ref(2)?.as_blob().unwrap_or_default();
            for entry in Frames(octets) {
                self.push(entry?);
            }
            if self.size() != first + count {
                return Err(hole(self.size()));
            }
            self.tail_octets += octets.len() as u64;
            Ok(())
        })
    }

    /// Moves the beginning of the tail to `to`. The entries before it are in blocks now.
    pub(super) fn move_tail(&mut self, to: u64) {
        let bundles = usize::try_from((to - self.tail) / BUNDLE).unwrap_or(usize::MAX);
        self.bundles.drain(..bundles.min(self.bundles.len()));
        let segments = usize::try_from(to / SEGMENT - self.tail / SEGMENT).unwrap_or(usize::MAX);
        self.segments.drain(..segments.min(self.segments.len()));
        self.tail = to;
    }
}

/// Begins a transaction, unless one is under way: all statements before its end read the same state of the database.
pub(crate) fn reading(connection: &Connection) -> Result<Option<Transaction<'_>>, Failure> {
    let begin = connection.is_autocommit().then(|| connection.unchecked_transaction());
    Ok(begin.transpose()?)
}

pub(super) fn hole(index: u64) -> Failure {
    Failure::Damaged(format!("the log of decisions breaks off behind record {index}"))
}
