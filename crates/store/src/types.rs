//! Words that all parts of the store have in common.

use std::fmt;
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

/// Records by the numbers of the first and the last, from 1: `record 5`, or `records 5 to 7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
}

impl Records {
    /// Returns the records from the first number to the last.
    #[must_use]
    pub const fn new(first: u64, last: u64) -> Self {
        Self { first, last }
    }

    /// Returns the records of these indices, which count from 0.
    #[must_use]
    pub const fn at(first: u64, last: u64) -> Self {
        Self { first: first.saturating_add(1), last: last.saturating_add(1) }
    }

    /// Returns the verb that follows them: `is` or `are`.
    #[must_use]
    pub const fn are(self) -> &'static str {
        if self.first == self.last { "is" } else { "are" }
    }

    /// Returns the verb of the past that follows them: `was` or `were`.
    #[must_use]
    pub const fn verb(self) -> &'static str {
        if self.first == self.last { "was" } else { "were" }
    }
}

impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        if first == last {
            write!(f, "record {first}")
        } else {
            write!(f, "records {first} to {last}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_record_is_no_range() {
        let text = |records: Records| format!("{records} {} {}", records.are(), records.verb());
        assert_eq!(text(Records::new(10, 10)), "record 10 is was");
        assert_eq!(text(Records::at(9, 11)), "records 10 to 12 are were");
    }
}
