//! Bounds on what costs a crawler nothing: streams that it resets, frames that ask for nothing, heads without an end.

use std::sync::OnceLock;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::counts::Http2End;
use crawlgate_config::Limits;
use crawlgate_turns::gcra::{Gcra, Rate};

/// The bounds of one connection. The first that is exceeded ends it.
pub(super) struct Abuse {
    /// Streams that the crawler reset before their answer began. To open and reset streams without end costs a crawler
    /// nothing, and an origin and the proxy a request each (CVE-2023-44487).
    resets: PerMinute,
    /// Frames that are no part of a request: each is read, and some are answered.
    frames: PerMinute,
    since: Instant,
    end: OnceLock<Http2End>,
    exceeded: CancellationToken,
}

impl Abuse {
    /// Creates the bounds of a connection that begins.
    pub(super) fn new(limits: &Limits) -> Abuse {
        Abuse {
            resets: PerMinute::new(limits.http2_resets),
            frames: PerMinute::new(limits.http2_control_frames),
            since: Instant::now(),
            end: OnceLock::new(),
            exceeded: CancellationToken::new(),
        }
    }

    /// Counts a stream that the crawler reset.
    pub(super) fn count_reset(&self) {
        if self.resets.are_exceeded(1, self.now()) {
            self.exceed(Http2End::Resets);
        }
    }

    /// Counts frames that are no part of a request.
    pub(super) fn count_frames(&self, frames: u32) {
        if self.frames.are_exceeded(frames, self.now()) {
            self.exceed(Http2End::Frames);
        }
    }

    /// Notes that a head did not come to its end in time.
    pub(super) fn time_out(&self) {
        self.exceed(Http2End::Slow);
    }

    /// Notes that a trailer section is longer than `h2` keeps whole.
    pub(super) fn refuse_trailers(&self) {
        self.exceed(Http2End::Protocol);
    }

    /// Tells whether a bound is exceeded.
    pub(super) fn is_exceeded(&self) -> bool {
        self.end.get().is_some()
    }

    /// Waits until a bound is exceeded, and returns the end of the connection.
    pub(super) async fn exceeded(&self) -> Http2End {
        self.exceeded.cancelled().await;
        self.end.get().copied().unwrap_or(Http2End::Closed)
    }

    fn exceed(&self, end: Http2End) {
        // The first one counts.
        let _ = self.end.set(end);
        self.exceeded.cancel();
    }

    /// Returns the time in microseconds, from an hour on: the first burst is not before the beginning of time.
    fn now(&self) -> u64 {
        let micros = self.since.elapsed().as_micros();
        u64::try_from(micros)
            .unwrap_or(u64::MAX)
            .saturating_add(3_600_000_000)
    }
}

/// A number per minute, all of them at once.
struct PerMinute {
    rate: Rate,
    taken: Mutex<Gcra>,
}

impl PerMinute {
    fn new(most: u32) -> PerMinute {
        let most = most.max(1);
        PerMinute {
            rate: Rate {
                interval: (60_000_000 / u64::from(most)).max(1),
                burst: most,
            },
            taken: Mutex::default(),
        }
    }

    /// Counts so many more, and tells whether they are too many.
    fn are_exceeded(&self, count: u32, now: u64) -> bool {
        let mut taken = self.taken.lock();
        taken.take(count, self.rate, now);
        taken.owed(self.rate, now) > u64::from(self.rate.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;
    use crawlgate_config::Config;

    fn abuse() -> Abuse {
        let mut limits = Config::default().limits;
        (limits.http2_resets, limits.http2_control_frames) = (3, 5);
        Abuse::new(&limits)
    }

    #[tokio::test(start_paused = true)]
    async fn resets_beyond_the_rate_are_too_many() {
        let abuse = abuse();
        let are_too_many = |times: usize| {
            (0..times).for_each(|_| abuse.count_reset());
            abuse.is_exceeded()
        };
        assert!(!are_too_many(3));
        advance(Duration::from_secs(60)).await;
        assert!(!are_too_many(3), "a minute later");
        assert!(are_too_many(1));
        assert_eq!(abuse.exceeded().await, Http2End::Resets);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_bound_that_is_exceeded_ends_the_connection() {
        let abuse = abuse();
        abuse.count_frames(4);
        abuse.count_frames(1);
        assert!(!abuse.is_exceeded());
        advance(Duration::from_secs(12)).await;
        abuse.count_frames(1);
        assert!(!abuse.is_exceeded(), "a fifth of a minute later");
        abuse.count_frames(1);
        abuse.time_out();
        assert_eq!(abuse.exceeded().await, Http2End::Frames);
    }
}
