//! `[pace]`.

use std::time::Duration;

use super::super::{
    PaceConfig, hours,
    read::Section,
    secs,
    values::{boolean, choice, duration, integer, number, unless},
};
use super::{CRAWL_DELAY, ONE_MS, UNLIMITED};

pub(super) fn pace(mut section: Section<'_, '_>, to: &mut PaceConfig) {
    section.set(
        "requests_per_second",
        &mut to.requests_per_second,
        // One request a day, up to what a clock of nanoseconds can tell apart.
        unless(UNLIMITED, number(0.00001..=1_000_000.0)),
    );
    section.set("burst", &mut to.burst, integer(1..=1_000_000));
    section.set(
        "concurrency",
        &mut to.concurrency,
        unless(UNLIMITED, integer(1..=1_000_000)),
    );
    section.set("per_address", &mut to.per_address, boolean);
    section.set("crawl_delay", &mut to.crawl_delay, choice(&CRAWL_DELAY));
    section.set(
        "max_crawl_delay",
        &mut to.max_crawl_delay,
        duration(ONE_MS..=hours(24)),
    );
    section.set("backoff", &mut to.backoff, boolean);
    section.set(
        "backoff_max",
        &mut to.backoff_max,
        // Below a second, a back-off has hardly any effect.
        duration(secs(1)..=hours(24)),
    );
    section.set(
        "max_hold",
        &mut to.max_hold,
        duration(Duration::ZERO..=hours(24)),
    );
    section.set("max_held", &mut to.max_held, integer(2..=1_000_000));
    section.finish();
}
