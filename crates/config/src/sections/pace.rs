//! `[pace]`: politeness per origin.

use std::time::Duration;

use super::*;

section! {
    /// `[pace]`
    #[derive(Clone, Debug, PartialEq)]
    pub struct PaceConfig "pace" {
        /// Requests per second to one origin: from one a day, up to what a clock of nanoseconds can tell apart; `None`:
        /// unlimited.
        requests_per_second: Option<f64> = None, unlimited(number(0.00001..=1_000_000.0)), AtReload;
        /// Requests that may follow each other at once; at least 1. Applies to the rate above only.
        burst: u32 = 1, integer(1..=1_000_000), AtReload;
        /// Requests in progress to one origin, from all crawlers together; at least 1. `None`: unlimited.
        concurrency: Option<u32> = None, unlimited(integer(1..=1_000_000)), AtReload;
        /// True to apply the limits above to all origins at one address together, too.
        per_address: bool = false, boolean(), AtReload;
        /// The treatment of `Crawl-delay` and `Request-rate` in a robots.txt.
        crawl_delay: CrawlDelayMode = CrawlDelayMode::Record, word(), AtReload;
        /// The longest interval that a robots.txt can demand.
        max_crawl_delay: Duration = secs(30), duration(ONE_MS..=hours(24)), AtReload;
        /// True to request an origin less often for a while if it asks for that (429, 503), slows down or cannot be
        /// reached.
        backoff: bool = true, boolean(), AtReload;
        /// Longest pause that an origin can demand, and longest interval between requests after it. Below a second, a back-off
        /// has hardly any effect.
        backoff_max: Duration = secs(5 * 60), duration(secs(1)..=hours(24)), AtReload;
        /// Longest time a request is held back before it is deferred as `paced`.
        max_hold: Duration = secs(30), duration(Duration::ZERO..=hours(24)), AtReload;
        /// Requests held at the same time, of all clients at all origins; one client at one origin may hold half of them.
        max_held: usize = 10_000, integer(2..=1_000_000), AtReload;
    }
}

words! {
    /// The treatment of the interval in a robots.txt. RFC 9309 defines none: some crawlers follow it, some do not.
    pub enum CrawlDelayMode {
        /// Keep the interval.
        Honour = "honour",
        /// Show the interval, and nothing else.
        Record = "record",
    }
}
