//! The members that this instance knew before the engine forgot them.
//!
//! An engine that has lost what it knew names only the members that have come back. The others may go on for as long as
//! their patience, without a change that is made meanwhile, so the change has not reached them. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use crawlgate_system::clock::Uptime;

/// The age at which a list is taken again: another member may have come for each that left.
const MAX_AGE: Duration = Duration::from_secs(5);

/// The members of a fleet, as this instance has seen them.
#[derive(Debug, Default)]
pub(super) struct KnownMembers {
    /// The generation of the engine and the number of members in it.
    seen: (u64, u64),
    /// When the list was taken.
    at: Uptime,
    names: BTreeSet<String>,
    /// Those of earlier generations, until this time.
    before: BTreeSet<String>,
    until: Uptime,
}

impl KnownMembers {
    /// Tells whether the list of members has changed since it was taken in, or may have.
    pub(super) fn is_stale(&self, generation: u64, members: u64, now: Uptime) -> bool {
        self.seen != (generation, members) || now.since(self.at) >= MAX_AGE
    }

    /// Takes in the list of members in a generation.
    pub(super) fn take_in(
        &mut self,
        generation: u64,
        names: BTreeSet<String>,
        now: Uptime,
        patience: Duration,
    ) {
        let (earlier, _) = self.seen;
        if earlier != generation {
            if self.until <= now {
                self.before.clear();
            }
            self.before.append(&mut self.names);
            self.until = now + patience;
        }
        self.seen = (generation, names.len() as u64);
        self.names = names;
        self.at = now;
    }

    /// Returns those members that have not come back since the engine forgot them, and may still forward.
    pub(super) fn missing(&self, present: &BTreeSet<String>, now: Uptime) -> Vec<String> {
        if self.until > now {
            self.before.difference(present).cloned().collect()
        } else {
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn members_that_the_engine_forgot_are_missing_until_they_are_back_or_have_stopped() {
        let patience = Duration::from_secs(15);
        let at = |seconds| Uptime::default() + Duration::from_secs(seconds);
        let mut known = KnownMembers::default();
        known.take_in(1, set(&["a1", "a2", "a3"]), at(1), patience);
        assert!(known.missing(&set(&["a1"]), at(1)).is_empty(), "a3 and a2 left");
        known.take_in(2, set(&["a1"]), at(10), patience);
        assert_eq!(known.missing(&set(&["a1", "a2"]), at(11)), ["a3"]);
        // Another loss forgets none of them, and those of long ago have stopped.
        known.take_in(3, set(&["a1"]), at(20), patience);
        assert_eq!(known.missing(&set(&["a1"]), at(34)), ["a2", "a3"]);
        assert!(known.missing(&set(&["a1"]), at(35)).is_empty());
        known.take_in(4, set(&["a1"]), at(40), patience);
        assert!(known.missing(&set(&["a1"]), at(41)).is_empty());
        assert!(known.is_stale(4, 2, at(40)) && known.is_stale(5, 1, at(40)));
        assert!(!known.is_stale(4, 1, at(44)) && known.is_stale(4, 1, at(45)));
    }
}
