//! The facts of a segment of 65,536 entries that spare a search its blocks.
//!
//! ```text
//! let mut keys = SegmentKeysBuilder::new();
//! keys.add_block(&block);
//! let octets = keys.finish();
//! search.wanted().may_be_in(SegmentKeys::read(&octets)?)
//!
//! let mut sums = SumsBuilder::new();
//! sums.add_block(&block);
//! let octets = sums.finish()?;          None: too long, the segment has no sums
//! let sums = Sums::read(&octets)?;
//! sums.count_by(&search, &mut counts)     false: count its blocks instead
//! ```
//!
//! All of it follows from the blocks, and can be made anew from them. Where retention has dropped a part of a segment, its
//! sums still count that part, and its key set may say yes for it.
//!
//! The room knows no IO, clock or log.

pub mod keys;
pub mod sums;
