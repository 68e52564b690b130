//! Records in a row, in words.

use std::fmt;

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
        Self {
            first: first.saturating_add(1),
            last: last.saturating_add(1),
        }
    }

    /// Returns the verb that follows them: `is` or `are`.
    #[must_use]
    pub const fn are(self) -> &'static str {
        if self.first == self.last { "is" } else { "are" }
    }

    /// Returns the verb of the past that follows them: `was` or `were`.
    #[must_use]
    pub const fn verb(self) -> &'static str {
        if self.first == self.last {
            "was"
        } else {
            "were"
        }
    }
}

impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        match first == last {
            true => write!(f, "record {first}"),
            false => write!(f, "records {first} to {last}"),
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
