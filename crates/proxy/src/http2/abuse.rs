//! Bounds on what costs a crawler nothing: streams that it resets, frames that ask for nothing, heads without an end.

use std::sync::OnceLock;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::super::counts::Http2End;
use crawlgate_config::Limits;
use crawlgate_system::clock::Clock;
use crawlgate_turns::rate_limit::RateLimit;

const MINUTE: Duration = Duration::from_secs(60);

/// The bounds of one connection. The first that is exceeded ends it.
pub(super) struct Abuse {
    /// Streams that the crawler reset before their answer began. To open and reset streams without end costs a crawler
    /// nothing, and an origin and the proxy a request each (CVE-2023-44487).
    resets: RateLimit,
    /// Frames that are no part of a request: each is read, and some are answered.
    frames: RateLimit,
    end: OnceLock<Http2End>,
    exceeded: CancellationToken,
}

impl Abuse {
    /// Creates the bounds of a connection that begins.
    pub(super) fn new(limits: &Limits, clock: &Clock) -> Abuse {
        Abuse {
            resets: per_minute(limits.http2_resets, clock),
            frames: per_minute(limits.http2_control_frames, clock),
            end: OnceLock::new(),
            exceeded: CancellationToken::new(),
        }
    }

    /// Counts a stream that the crawler reset.
    pub(super) fn count_reset(&self) {
        if !self.resets.take_all(1) {
            self.exceed(Http2End::Resets);
        }
    }

    /// Counts frames that are no part of a request.
    pub(super) fn count_frames(&self, frames: u32) {
        if !self.frames.take_all(frames) {
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
}

/// Permits a number per minute, all of them at once.
fn per_minute(most: u32, clock: &Clock) -> RateLimit {
    RateLimit::new(MINUTE / most.max(1), most, clock.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_config::Config;
    use crawlgate_system::clock::Moment;

    fn abuse(clock: &Clock) -> Abuse {
        let mut limits = Config::default().limits;
        (limits.http2_resets, limits.http2_control_frames) = (3, 5);
        Abuse::new(&limits, clock)
    }

    #[tokio::test]
    async fn resets_beyond_the_rate_are_too_many() {
        let clock = Clock::manual(Moment::default());
        let abuse = abuse(&clock);
        let are_too_many = |times: usize| {
            (0..times).for_each(|_| abuse.count_reset());
            abuse.is_exceeded()
        };
        assert!(!are_too_many(3));
        clock.advance(MINUTE);
        assert!(!are_too_many(3), "a minute later");
        assert!(are_too_many(1));
        assert_eq!(abuse.exceeded().await, Http2End::Resets);
    }

    #[tokio::test]
    async fn the_first_bound_that_is_exceeded_ends_the_connection() {
        let clock = Clock::manual(Moment::default());
        let abuse = abuse(&clock);
        abuse.count_frames(4);
        abuse.count_frames(1);
        assert!(!abuse.is_exceeded());
        clock.advance(MINUTE / 5);
        abuse.count_frames(1);
        assert!(!abuse.is_exceeded(), "a fifth of a minute later");
        abuse.count_frames(1);
        abuse.time_out();
        assert_eq!(abuse.exceeded().await, Http2End::Frames);
    }
}
