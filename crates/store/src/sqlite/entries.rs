//! The decision log in the database: entries in their order, and the tree over them.
//!
//! New entries rest in the table `tail`, a row for each batch. Once there are enough, whole bundles of 256 become
//! compressed [blocks](crate::block), and each 65,536 entries are a segment. Of the tree ([`crawlgate_tlog`]) the
//! database keeps the roots of bundles and segments alone; everything below is computed from the entries, everything
//! above from the roots. So an entry may go while each proof that rests on it stays possible.
//!
//! - [`schema`]: the tables; `frames`: entries one after the other in a row
//! - [`head`]: the tree at its end, which a writing process keeps in memory
//! - [`append`]: new entries, and the making of blocks; `segment`: what a search asks of a whole segment
//! - [`read`]: entries by their places; `lines`: their lines; `uses`: what they count for
//! - [`tree`]: roots and proofs
//! - [`checkpoint`]: signed roots
//! - [`retention`]: blocks that go; `check`: blocks that are damaged
//!
//! An *index* counts entries from 0, as proofs do. A column `first` is the index of a row's first entry.

mod append;
mod check;
pub(super) mod checkpoint;
mod frames;
mod head;
mod lines;
pub(super) mod oldest;
mod read;
pub(super) mod retention;
mod schema;
mod segment;
mod tree;
mod uses;

pub(super) use self::append::{append, event_frames, fold};
pub(super) use self::check::{
    BlockPlace, Relation, blocks_from, entries_at, latest_blocks, set_aside, take_aside,
    wrong_segments, wrong_tail_times,
};
pub(super) use self::frames::Frames;
pub(super) use self::head::{Head, Memory, reading};
pub(super) use self::lines::Lines;
pub(super) use self::read::{Blocks, Placed, Run, damaged, extent, runs, salvage, walk, with_ids};

pub(super) use self::schema::TABLES;
pub(super) use self::tree::{StoredTree, roots};
pub(super) use self::uses::Uses;

#[cfg(test)]
mod tests;
