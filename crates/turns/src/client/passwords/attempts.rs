//! Rate limit for password attempts, per source address and user name.
//!
//! Attempts are counted for each address (or IPv6 network of 64 bits) and each user name, known or not. Each pair has a
//! few attempts at once, and another one every few seconds. The room is bounded: when it is full, the oldest entries
//! are forgotten, so that an attacker cannot lock out others. To be forgotten, a guesser must guess at more names than
//! it gains guesses.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::client::ClientKey;
use crate::gcra::{Gcra, Rate};
use crawlgate_system::clock::Moment;

/// Attempts at one user that an address has at once.
pub(super) const AT_ONCE: u32 = 10;

/// Time until the pair has another attempt.
pub(super) const ANOTHER: Duration = Duration::from_secs(6);

/// Pairs of address and user that are counted, twice over.
const COUNTED: usize = 32_768;

/// Attempts with the same key are counted together.
type Key = (ClientKey, At);

/// The target of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    /// A user, by a hash of the name as it was sent, which may be long.
    User(u64),
    /// All unknown users together.
    UnknownUsers,
}

/// The attempts of each key, in milliseconds since 1970.
type Counts = HashMap<Key, Gcra, ahash::RandomState>;

/// The rate of attempts, in milliseconds.
const RATE: Rate = Rate { interval: ANOTHER.as_millis() as u64, burst: AT_ONCE };

/// All attempts that still count.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    counts: Mutex<Generations>,
    names: ahash::RandomState,
}

/// The recent entries and the older ones. When the younger map is full it becomes the older one.
#[derive(Debug, Default)]
struct Generations {
    young: Counts,
    old: Counts,
}

/// An attempt that was counted.
#[derive(Debug)]
pub(super) struct Attempt {
    of: Arc<Attempts>,
    key: Key,
}

impl Attempts {
    /// Counts an attempt at `user`.
    ///
    /// # Errors
    /// When there were too many: the moment of the next attempt.
    pub(super) fn at(
        self: &Arc<Self>,
        user: &[u8],
        address: IpAddr,
        now: Moment,
    ) -> Result<Attempt, Moment> {
        let user = self.names.hash_one(user);
        self.take((ClientKey::at(address), At::User(user)), now)
    }

    /// Counts an attempt at an unknown user.
    ///
    /// # Errors
    /// When there were too many: the moment of the next attempt.
    pub(super) fn take_for_unknown_user(
        self: &Arc<Self>,
        address: IpAddr,
        now: Moment,
    ) -> Result<Attempt, Moment> {
        self.take((ClientKey::at(address), At::UnknownUsers), now)
    }

    fn take(self: &Arc<Self>, key: Key, now: Moment) -> Result<Attempt, Moment> {
        let mut counts = self.counts.lock();
        let Generations { young, old } = &mut *counts;
        let known = young.get(&key).or_else(|| old.get(&key)).copied();
        let (mut gcra, time) = (known.unwrap_or_default(), now.as_millis());
        // A clock that was set back must not prolong the wait.
        gcra.limit((now + ANOTHER * AT_ONCE).as_millis());
        let next = gcra.next(RATE);
        if next > time {
            return Err(Moment::from_millis(next));
        }
        gcra.take(1, RATE, time);
        if young.len() >= COUNTED && !young.contains_key(&key) {
            *old = std::mem::take(young);
        }
        young.insert(key.clone(), gcra);
        let of = Arc::clone(self);
        Ok(Attempt { of, key })
    }
}

impl Attempt {
    /// Removes the attempt from the count.
    pub(super) fn give_back(self) {
        let mut counts = self.of.counts.lock();
        if let Some(gcra) = counts.young.get_mut(&self.key) {
            gcra.give_back(RATE.interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Moment = Moment::from_millis(1_795_176_000_000);

    fn from(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    #[test]
    fn each_user_has_a_few_attempts_from_each_address_and_then_one_at_a_time() {
        let attempts = Arc::<Attempts>::default();
        for _ in 0..AT_ONCE {
            assert!(attempts.at(b"news", from(1), NOON).is_ok());
        }
        let again = attempts.at(b"news", from(1), NOON).err();
        assert_eq!(again, Some(NOON + ANOTHER));
        assert!(attempts.at(b"news", from(2), NOON).is_ok(), "elsewhere");
        assert!(attempts.at(b"side", from(1), NOON).is_ok(), "another user");
        let later = NOON + ANOTHER;
        assert!(attempts.at(b"news", from(1), later).is_ok());
        assert!(attempts.at(b"news", from(1), later).is_err());
        // The clock is set back by a day.
        let before = NOON - Duration::from_secs(86_400);
        let again = attempts.at(b"news", from(1), before).err();
        assert_eq!(again, Some(before + ANOTHER));
    }

    #[test]
    fn an_attempt_given_back_does_not_count() {
        let attempts = Arc::<Attempts>::default();
        for _ in 0..100 {
            let attempt = attempts.at(b"news", from(1), NOON).expect("free");
            attempt.give_back();
        }
    }

    #[test]
    fn at_the_limit_the_oldest_entries_are_forgotten_and_none_is_locked_out() {
        let attempts = Arc::<Attempts>::default();
        for n in 0..100_000_u32 {
            let counted = attempts.at(&n.to_be_bytes(), from(1), NOON);
            assert!(counted.is_ok(), "{n}");
        }
        let counts = attempts.counts.lock();
        assert!(counts.young.len() + counts.old.len() <= 2 * COUNTED);
    }
}
