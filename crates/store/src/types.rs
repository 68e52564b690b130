//! Words that all parts of the store have in common.

use std::time::Duration;

/// Fetches kept per origin and identity; newer ones replace older ones.
pub const FETCHES_KEPT: usize = 32;

/// The span over which decisions are counted.
pub const HOUR: Duration = Duration::from_secs(3_600);

/// Precision of the time that an object was last used, in milliseconds: a week. A note costs three rows and an index, and
/// an object stays a week longer at most than it need.
pub(crate) const WEEK: u64 = 7 * 86_400_000;

/// A SHA-256.
pub type Sha256 = [u8; 32];

/// The purpose of opening a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads only: the store must exist and stays unchanged.
    Read,
    /// Reads and writes: a missing store is created.
    Write,
}
