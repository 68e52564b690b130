//! The facts of a segment of 65,536 entries that spare a search its blocks.
//!
//! ```text
//! let mut keys = SegmentKeysBuilder::new();
//! keys.add_block(&block)?; keys.add(&decision);
//! let octets = keys.finish();
//! search.wanted().may_be_in(SegmentKeys::read(&octets)?)
//! ```
//!
//! All of it follows from the blocks, and can be made anew from them.
//!
//! The room knows no IO, clock or log.

pub mod keys;
