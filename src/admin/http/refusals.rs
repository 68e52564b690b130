//! Requests that the admin side refuses for their credentials or their role: counted, and told of in the program's messages.
//!
//! A flood of refusals writes few messages: a message says how many came without one since the last.

use std::net::SocketAddr;

use parking_lot::Mutex;
use tracing::warn;

use crawlgate_system::clock::Moment;
use crawlgate_system::metrics::{Counters, Registry};
use crawlgate_turns::gcra::{Gcra, Rate};

/// The messages, in milliseconds: ten at once, then one in six seconds.
const RATE: Rate = Rate {
    interval: 6_000,
    burst: 10,
};

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

#[derive(Debug, Default)]
struct MessageLimiter {
    messages: Gcra,
    /// Refusals without a message since the last message.
    untold: u64,
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals {
            counts: Counters::by("reason", &REASONS),
            limiter: Mutex::default(),
        }
    }
}

impl Refusals {
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
    pub(super) fn refuse(&self, reason: Reason, peer: SocketAddr, user: Option<&str>, now: Moment) {
        self.counts.add(reason as usize, 1);
        let Some(untold) = self.limiter.lock().message(now) else {
            return;
        };
        let why = REASONS.get(reason as usize).copied().unwrap_or_default();
        let user = user.unwrap_or("unknown");
        warn!(%peer, user, why, untold, "a request to the admin side is refused");
    }
}

impl MessageLimiter {
    /// Takes a message, and returns how many refusals had none since the last one; none if there were too many.
    fn message(&mut self, now: Moment) -> Option<u64> {
        let time = now.as_millis();
        // A clock that was set back must not silence the messages.
        self.messages
            .limit(time + RATE.interval * u64::from(RATE.burst));
        if self.messages.next(RATE) > time {
            self.untold += 1;
            return None;
        }
        self.messages.take(1, RATE, time);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOON: Moment = Moment::from_millis(1_795_176_000_000);

    #[test]
    fn a_flood_writes_few_messages_and_the_next_one_counts_the_others() {
        let mut limiter = MessageLimiter::default();
        let messages = |limiter: &mut MessageLimiter, now| {
            (0..100).filter_map(|_| limiter.message(now)).count()
        };
        assert_eq!(messages(&mut limiter, NOON), 10);
        let later = NOON + Duration::from_secs(6);
        assert_eq!(limiter.message(later), Some(90));
        assert_eq!(limiter.message(later), None);
        // The clock is set back by a day.
        let before = NOON - Duration::from_secs(86_400);
        assert_eq!(limiter.message(before), None);
        assert_eq!(limiter.message(before + Duration::from_secs(6)), Some(2));
    }
}
