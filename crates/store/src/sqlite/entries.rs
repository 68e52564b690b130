//! The decision log in the database: entries in their order, and the tree over them.
//!
//! New entries rest in the table `tail`, a row for each batch. Once there are enough, whole bundles of 256 become
//! compressed [blocks](crate::block), and each 65,536 entries are a segment. Of the tree ([`crawlgate_tlog`]) the
//! database keeps only the roots of bundles and segments; everything below is computed from the entries, everything
//! above from the roots. So an entry may go while each proof that rests on it stays possible.
//!
//! - [`TABLES`]: the tables
//! - [`head`]: the tree at its end, which a writing process keeps in memory; entries one after the other in a row
//! - [`append`]: new entries, and the making of blocks, with what a search asks of a whole segment
//! - [`read`]: entries by their places; `lines`: their lines; `uses`: what they count for
//! - [`tree`]: roots and proofs
//! - [`checkpoint`]: signed roots
//! - [`retention`]: blocks that go; `check`: blocks that are damaged
//!
//! An *index* counts entries from 0, as proofs do. A column `first` is the index of a row's first entry.

mod append;
mod check;
pub(super) mod checkpoint;
mod head;
mod lines;
mod read;
pub(super) mod retention;
mod tree;
mod uses;

pub(super) use self::append::{append, event_frames, fold};
pub(super) use self::check::{
    BlockPlace, Relation, blocks_from, entries_at, latest_blocks, set_aside, take_aside,
    wrong_segments, wrong_tail_times,
};
pub(super) use self::head::{Head, Memory, reading};
pub(super) use self::lines::{Frames, Lines};
pub(super) use self::read::{Blocks, Placed, Run, damaged, extent, runs, salvage, walk, with_ids};

pub(super) use self::tree::{StoredTree, roots};
pub(super) use self::uses::Uses;

/// Creates the tables.
pub(super) const TABLES: &str = r#"
-- Entries that are in no block yet, those of a batch in each row: for each its length in two octets, then its octets.
CREATE TABLE tail (
    first INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    min_time INTEGER NOT NULL,
    max_time INTEGER NOT NULL,
    entries BLOB NOT NULL
) STRICT;

-- Entries in columns, compressed. `roots` are the roots of their bundles of 256, 32 octets each. `body` is NULL once
-- the entries are dropped.
CREATE TABLE block (
    first INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    min_time INTEGER NOT NULL,
    max_time INTEGER NOT NULL,
    denials INTEGER NOT NULL,
    roots BLOB NOT NULL,
    body BLOB
) STRICT;
CREATE INDEX block_time ON block (max_time, min_time);

-- 65,536 entries each: the root over them, and what a search asks before it reads a block. `keys` and `sums` can be made
-- anew from the blocks.
CREATE TABLE segment (
    number INTEGER PRIMARY KEY,
    root BLOB NOT NULL,
    min_time INTEGER NOT NULL,
    max_time INTEGER NOT NULL,
    keys BLOB,
    sums BLOB
) STRICT;

-- What entries name by its SHA-256: settings (kind 0), states of a robots.txt (1), overrides (2). `names` is the SHA-256
-- of the robots.txt in a state; `used` a time up to which entries may name the object, at least.
CREATE TABLE object (
    sha256 BLOB PRIMARY KEY,
    kind INTEGER NOT NULL,
    body BLOB NOT NULL,
    used INTEGER NOT NULL,
    names BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX object_names ON object (names) WHERE names IS NOT NULL;
CREATE INDEX object_used ON object (used);

-- The root of the tree at some size, signed: a note of c2sp.org/tlog-checkpoint. `edge` holds the hashes that proofs need
-- once the entries around that size are dropped. The note has a line of each witness that cosigned;
-- `cosigned` counts them.
CREATE TABLE checkpoint (
    size INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    note TEXT NOT NULL,
    edge BLOB,
    cosigned INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Witnesses that know a checkpoint of a log of this name which the store does not have, and the size in it. No checkpoint
-- of that name is signed meanwhile.
CREATE TABLE ahead (
    witness TEXT NOT NULL,
    log TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (witness, log)
) STRICT, WITHOUT ROWID;
"#;

#[cfg(test)]
mod tests;
