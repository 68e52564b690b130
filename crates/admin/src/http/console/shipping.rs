//! The shipping of the decision log to another place, on the overview.

use super::format::{Timestamp, line, number};
use crate::ShipReport;
use crawlgate_system::clock::Moment;

/// The shipping in words.
pub(super) struct ShipRow {
    pub(super) to: String,
    /// `good`, `fair` or `bad`.
    pub(super) class: &'static str,
    pub(super) said: String,
    /// The number of records that the place has.
    pub(super) shipped: String,
    /// The number of signed records that it does not have.
    pub(super) pending: String,
    /// The time of the last pass that came to its end.
    pub(super) passed: Option<Timestamp>,
    /// The last failure, and its time.
    pub(super) failed: Option<(Timestamp, String)>,
}

impl ShipRow {
    pub(super) fn of(report: &ShipReport, now: Moment) -> ShipRow {
        let (class, said) = match (&report.failure, report.missing) {
            (Some(why), _) => ("bad", line(why)),
            (None, missing @ 1..) => (
                "fair",
                format!(
                    "{} records were damaged before they were shipped: the place has the statement of a gap instead",
                    number(missing)
                ),
            ),
            (None, 0) if report.passed_at.is_none() => ("fair", "no pass has ended yet".to_owned()),
            (None, 0) => ("good", "is shipped".to_owned()),
        };
        let when = |time: &Option<String>| Timestamp::of(time.as_deref()?, now);
        let last = report.last_failure.as_deref().map(line);
        ShipRow {
            to: line(&report.to),
            class,
            said,
            shipped: number(report.shipped_size),
            pending: number(report.pending),
            passed: when(&report.passed_at),
            failed: when(&report.last_failure_at).zip(last),
        }
    }
}
