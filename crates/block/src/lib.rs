//! Blocks: entries of the decision log in columns, compressed, each octet of them restored on demand.
//!
//! A block is self-contained: its words are in it, and no table outside is needed to read it. It is a head and
//! sections; each section is one zstd frame with a checksum:
//!
//! | part | content |
//! |---|---|
//! | head | `cgb1`, number of sections, number of entries; for each section: its id, its raw and its packed length |
//! | 1 `keys` | time, counter of the identifier, shape, client, requester, origin, rule of each decision |
//! | 2 `measures` | the numbers of each decision, its basis and upstream, and rare values |
//! | 3 `paths` | lengths and octets of paths and URLs |
//! | 4 `words` | the dictionaries that the other sections count in |
//! | 5 `others` | entries that are no decisions, or no entries: place, length, octets |
//! | 6 `erased` | reserved for the leaf hashes of erased entries |
//!
//! A *shape* is an entry with holes: the values of few kinds (verdict, reason, method, status, …) stand in it as they are,
//! and a hole for each value that a column holds. A requester is the chain of product tokens with the User-Agent, a
//! client is the address without its port, with the name. Basis and upstream are usually those of the decision before,
//! on the same origin, which takes no octet to say.
//!
//! [`BlockWriter`] makes blocks, [`Block`] reads them: [`Block::read`] unpacks keys and words, which a search needs, and
//! each other section is unpacked when it is needed first. What a reader restores from foreign octets is bounded, but may be
//! any octets: the digest over the entries tells whether they are the right ones.
//!
//! The crate knows no IO, clock or log.

mod columns;
pub mod frame;
mod keys;
mod measures;
mod read;
mod rebuild;
mod shape;
pub mod varint;
pub mod words;
mod write;

pub use self::frame::{BlockError, MAX_ENTRIES, MAX_OCTETS, unpack_frame};
pub use self::keys::{Found, Keys, NO_WORD, Row};
pub use self::read::{Block, Word, WordKind};
pub use self::write::{BlockSummary, BlockWriter, PushError};

#[cfg(test)]
mod tests;
