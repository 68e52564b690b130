//! `[pace]`.

use std::time::Duration;

use super::super::{
    PaceConfig, hours,
    read::Section,
    values::{duration, integer, number, unless},
};
use super::UNLIMITED;

pub(super) fn pace(mut section: Section<'_, '_>, to: &mut PaceConfig) {
    section.set(
        "requests_per_second",
        &mut to.requests_per_second,
        // One request a day, up to what a clock of nanoseconds can tell apart.
        unless(UNLIMITED, number(0.00001..=1_000_000.0)),
    );
    section.set("burst", &mut to.burst, integer(1..=1_000_000));
    section.set(
        "max_hold",
        &mut to.max_hold,
        duration(Duration::ZERO..=hours(24)),
    );
    section.finish();
}
