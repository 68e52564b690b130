//! Decisions that the counts of a store know and its log does not have.
//!
//! Counts by hour, and the size of the log when it was signed last, are written beside the log. Where records were taken out
//! of the log, its checkpoints and the state file, they still tell of them.

use std::fmt;

use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;

/// The missing records that the counts tell of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Miscount {
    /// Number of decisions without a record, the beginning of their first hour and the end of their last one.
    pub decisions: Option<(u64, Moment, Moment)>,
    /// The number of records that were signed, and the smaller one that the log has.
    pub signed: Option<(u64, u64)>,
}

impl fmt::Display for Miscount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((count, since, until)) = self.decisions {
            let (since, until) = (time_text(since), time_text(until));
            write!(
                f,
                "the counts of the hours from {since} to {until} have {count} decisions more than the log"
            )?;
        }
        if let Some((counted, size)) = self.signed {
            let and = if self.decisions.is_some() {
                ", and "
            } else {
                ""
            };
            write!(
                f,
                "{and}the store notes that {counted} records were signed, and the log has {size}"
            )?;
        }
        Ok(())
    }
}
