//! The bound on streams that a crawler resets.

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::gcra::{Gcra, Rate};

/// Streams of one connection that the crawler reset before their answer began. To open and reset streams without end
/// costs a crawler nothing, and an origin and the proxy a request each (CVE-2023-44487).
pub(super) struct Resets {
    rate: Rate,
    taken: Mutex<Gcra>,
    since: Instant,
    exceeded: CancellationToken,
}

impl Resets {
    /// Allows this many per minute, all of them at once.
    pub(super) fn new(per_minute: u32) -> Resets {
        let per_minute = per_minute.max(1);
        Resets {
            rate: Rate {
                interval: (60_000_000 / u64::from(per_minute)).max(1),
                burst: per_minute,
            },
            taken: Mutex::default(),
            since: Instant::now(),
            exceeded: CancellationToken::new(),
        }
    }

    /// Counts a reset.
    pub(super) fn count(&self) {
        let micros = self.since.elapsed().as_micros();
        // From an hour on, so that the first burst is not before the beginning of time.
        let now = u64::try_from(micros)
            .unwrap_or(u64::MAX)
            .saturating_add(3_600_000_000);
        let mut taken = self.taken.lock();
        if taken.next(self.rate) > now {
            self.exceeded.cancel();
        } else {
            taken.take(1, self.rate, now);
        }
    }

    /// Waits until there are too many.
    pub(super) async fn exceeded(&self) {
        self.exceeded.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn resets_beyond_the_rate_are_too_many() {
        let resets = Resets::new(3);
        let are_too_many = |times: usize| {
            (0..times).for_each(|_| resets.count());
            resets.exceeded.is_cancelled()
        };
        assert!(!are_too_many(3));
        advance(Duration::from_secs(60)).await;
        assert!(!are_too_many(3), "a minute later");
        assert!(are_too_many(1));
    }
}
