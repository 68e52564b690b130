//! The decision log in the database: entries in their order, and the tree over them.
//!
//! New entries rest in the table `tail`, a row for each batch. Once there are enough, whole bundles of 256 become
//! compressed [blocks](crate::store::block), and each 65,536 entries are a segment. Of the tree ([`crate::tlog`]) the
//! database keeps the roots of bundles and segments alone; everything below is computed from the entries, everything
//! above from the roots. So an entry may go while each proof that rests on it stays possible.
//!
//! - [`schema`]: the tables; `frames`: entries one after the other in a row
//! - [`head`]: the tree at its end, which a writing process keeps in memory
//! - [`append`]: new entries, and the making of blocks
//! - [`read`]: entries by their places
//! - [`tree`]: roots and proofs
//! - [`checkpoint`]: signed roots
//! - [`retention`]: blocks that go
//!
//! An *index* counts entries from 0, as proofs do. A column `first` is the index of a row's first entry.

mod append;
mod checkpoint;
mod frames;
mod head;
mod read;
mod retention;
mod schema;
mod tree;

#[cfg(test)]
mod tests;
