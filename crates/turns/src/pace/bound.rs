//! The bounds that delay a request, as people and records see them.

use std::sync::Arc;
use std::time::Duration;

use crawlgate_system::clock::Moment;

/// The group of a robots.txt that an interval belongs to.
pub(super) type Group = Arc<str>;

/// The bound on requests to an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectivePace {
    /// The least time from one request to the next; the length of a rest; zero if the wait is not for time.
    pub interval: Duration,
    /// The source of the bound.
    pub source: Source,
    /// True if the robots.txt asks for more than the operator's `max_crawl_delay`.
    pub clamped: bool,
}

crawlgate_text::spelled! {
    /// The source of a bound that makes a request wait.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Source {
        /// `[pace] requests_per_second`.
        Own = "own",
        /// `Crawl-delay` in the origin's robots.txt.
        CrawlDelay = "crawl_delay",
        /// `Request-rate` there.
        RequestRate = "request_rate",
        /// The origin has reported overload, slows down or cannot be reached.
        Backoff = "backoff",
        /// The limit of requests in flight to the origin is reached.
        Concurrency = "concurrency",
        /// The same bounds, for all origins at the address (`[pace] per_address`).
        Address = "address",
        /// The limit of held requests is reached.
        MaxHeld = "max_held",
    }
}

/// A request that came too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooEarly {
    /// The moment at which it may come again.
    pub at: Moment,
    /// The bound that delays it.
    pub pace: EffectivePace,
}

/// The earliest moment for a request, and the bound that decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: Moment,
    pub(super) pace: EffectivePace,
}

impl EffectivePace {
    pub(super) const fn plain(interval: Duration, source: Source) -> EffectivePace {
        EffectivePace { interval, source, clamped: false }
    }

    /// Tells whether it bounds anything.
    pub(super) fn is_bound(&self) -> bool {
        !self.interval.is_zero() || self.source != Source::Own
    }
}
