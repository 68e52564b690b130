//! `[limits]`: bounds for one crawler or one connection.
//!
//! `[pace]`: politeness per origin.

use std::time::Duration;

use super::*;

section! {
    /// `[limits]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits "limits" {
        /// Open connections from crawlers; at least 1. At the limit, the longest idle one makes room for a new one.
        connections: usize = 4_096, integer(1..=1_000_000), AtReload;
        /// Open connections of one client; `None`: unlimited. A client is a `[[client]]`, or else an address.
        connections_per_client: Option<usize> = None, most(), AtReload;
        /// Requests in progress, open tunnels among them; `None`: unlimited.
        requests: Option<usize> = None, most(), AtReload;
        /// Requests in progress of one client; `None`: unlimited.
        requests_per_client: Option<usize> = None, most(), AtReload;
        /// Longest time from the first octet of a request to the end of its head.
        header_timeout: Duration = secs(10), timeout(), AtReload;
        /// Longest time that a crawler stalls a body, in either direction.
        body_timeout: Duration = secs(60), timeout(), AtReload;
        /// Minimum body rate in octets per second: a slower body uses up `body_timeout`; 0: any progress is enough.
        body_rate: u32 = 100, integer(0..=1_000_000), AtReload;
        /// Longest time that a connection stays open between requests.
        idle_timeout: Duration = secs(120), timeout(), AtReload;
        /// Longest silence of a WebSocket or an opaque tunnel.
        tunnel_idle_timeout: Duration = secs(5 * 60), timeout(), AtReload;
        /// Fields of a request head; at least 8.
        header_fields: usize = 100, integer(8..=1_000), AtReload;
        /// Octets of a request head.
        header_bytes: usize = 64 * KIB, bytes(KIB as u64..=MIB as u64), AtReload;
        /// Octets of a request target; never more than `header_bytes`, and than hyper takes.
        uri_bytes: usize = 16 * KIB, bytes(256..=65_534), AtReload;
        /// Requests in progress on one HTTP/2 connection (RFC 9113 6.5.2, SETTINGS_MAX_CONCURRENT_STREAMS); at least 1.
        http2_streams: u32 = 100, integer(1..=10_000), AtReload;
        /// Octets that a crawler may send on one HTTP/2 stream ahead of the origin (RFC 9113 6.9); a connection has four
        /// times as many. The initial window is the least: a crawler may use it before it has seen our settings.
        http2_window: u32 = 256 * KIB as u32, bytes(64 * KIB as u64..=16 * MIB as u64), AtReload;
        /// Streams per minute that a crawler may reset before they are answered, and malformed requests of one connection; a
        /// connection with more is closed.
        http2_resets: u32 = 200, integer(1..=1_000_000), AtReload;
        /// Frames per minute that are no part of a request; a connection with more is closed.
        http2_control_frames: u32 = 6_000, integer(100..=10_000_000), AtReload;
        /// Time for exchanges to end after SIGTERM.
        drain: Duration = secs(30), duration(Duration::ZERO..=hours(24)), AtReload;
    }
}

impl Limits {
    /// Checks the rule between its keys.
    pub(crate) fn check(&self, section: &mut Section<'_, '_>) {
        let why = format_args!(
            "uri_bytes ({}) must not exceed header_bytes ({}), which counts the request line too",
            format_bytes(self.uri_bytes as u64),
            format_bytes(self.header_bytes as u64),
        );
        let holds = self.uri_bytes <= self.header_bytes;
        section.require(holds, &["uri_bytes", "header_bytes"], why);
    }
}

fn most() -> Form<Option<usize>> {
    unlimited(integer(1..=1_000_000))
}

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
