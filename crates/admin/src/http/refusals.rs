//! Requests that the admin side refuses for their credentials or their role: counted, and told of in the program's messages.
//!
//! A flood of refusals writes few messages: a message says how many came without one since the last.

use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::warn;

use crawlgate_system::clock::Clock;
use crawlgate_system::metrics::{Counters, Registry};
use crawlgate_turns::rate_limit::RateLimit;

/// The reason of a refusal, in the order of the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The credentials are wrong.
    Credentials,
    /// The address has sent too many wrong passwords.
    Attempts,
    /// Too many passwords wait for their check.
    Busy,
    /// The user's role does not allow the act.
    Role,
}

/// The labels of [`Reason`].
const REASONS: [&str; 4] = ["credentials", "attempts", "busy", "role"];

/// The counts, and the messages so far.
#[derive(Debug)]
pub(super) struct Refusals {
    counts: Counters,
    limiter: Mutex<MessageLimiter>,
}

#[derive(Debug)]
struct MessageLimiter {
    messages: RateLimit,
    /// Refusals without a message since the last message.
    untold: u64,
}

impl Refusals {
    /// Creates the counts; messages are limited by `clock`.
    pub(super) fn new(clock: Clock) -> Refusals {
        Refusals {
            counts: Counters::by("reason", &REASONS),
            limiter: Mutex::new(MessageLimiter::new(clock)),
        }
    }

    /// Registers the metric.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "crawlgate_admin_refusals",
            "Requests that the admin side refused, by reason; attempts: the address has sent too many wrong passwords; role: \
             the user may not do this",
            self.counts.clone(),
        );
    }

    /// Counts a refusal of a request from `peer`, in the name of a known `user`, and tells of it.
    pub(super) fn refuse(&self, reason: Reason, peer: SocketAddr, user: Option<&str>) {
        self.counts.add(reason as usize, 1);
        let Some(untold) = self.limiter.lock().message() else {
            return;
        };
        let why = REASONS.get(reason as usize).copied().unwrap_or_default();
        let user = user.unwrap_or("unknown");
        warn!(%peer, user, why, untold, "a request to the admin side is refused");
    }
}

impl MessageLimiter {
    /// Permits ten messages at once, then one in six seconds.
    fn new(clock: Clock) -> MessageLimiter {
        MessageLimiter { messages: RateLimit::new(Duration::from_secs(6), 10, clock), untold: 0 }
    }

    /// Takes a message, and returns how many refusals had none since the last one; none if there were too many.
    fn message(&mut self) -> Option<u64> {
        if self.messages.take().is_err() {
            self.untold += 1;
            return None;
        }
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_system::clock::Moment;

    const NOON: Moment = Moment::from_millis(1_795_176_000_000);

    #[test]
    fn a_flood_writes_few_messages_and_the_next_one_counts_the_others() {
        let clock = Clock::manual(NOON);
        let mut limiter = MessageLimiter::new(clock.clone());
        let messages = (0..100).filter_map(|_| limiter.message()).count();
        assert_eq!(messages, 10);
        clock.advance(Duration::from_secs(6));
        assert_eq!(limiter.message(), Some(90));
        assert_eq!(limiter.message(), None);
        // The clock is set back by a day.
        clock.set(NOON - Duration::from_secs(86_400));
        assert_eq!(limiter.message(), None);
        clock.advance(Duration::from_secs(6));
        assert_eq!(limiter.message(), Some(2));
    }
}
