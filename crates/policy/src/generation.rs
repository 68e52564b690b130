//! Tells whether a permit is still valid under the settings in force.
//!
//! Settings, overrides and clients change while requests wait: for a robots.txt, for their turn, for a connection. A
//! robots.txt may be updated in the meantime, too. [`Changes`] counts both kinds of change, a decision carries the
//! [`Generation`] that it was made under, and a permit of an older generation sends nothing.
//!
//! One counter covers all settings; updates of robots.txt are counted in groups of origins. An update of another origin
//! in the same group causes one needless judgement, which costs microseconds.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of update counters. More of them mean fewer needless judgements.
const GROUPS: usize = 256;

/// Counts the changes that decisions depend on.
#[derive(Debug)]
pub struct Changes {
    settings: AtomicU64,
    robots: Box<[AtomicU64]>,
    next_group: AtomicUsize,
}

/// A group of origins with one update counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group(usize);

/// The updates of a group of origins so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OriginUpdates {
    group: Group,
    count: u64,
}

/// The changes that a decision takes into account. The default one is never current: a judgement that is never sent
/// needs no other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Generation {
    settings: u64,
    robots: Option<OriginUpdates>,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes {
            // Not zero: the generation that is never current has zero.
            settings: AtomicU64::new(1),
            robots: (0..GROUPS).map(|_| AtomicU64::new(0)).collect(),
            next_group: AtomicUsize::new(0),
        }
    }
}

impl Changes {
    /// Returns the generation of a decision that rests only on settings. Call it before reading the settings.
    #[must_use]
    pub fn generation(&self) -> Generation {
        Generation { settings: self.settings.load(Ordering::Acquire), robots: None }
    }

    /// Counts a change of settings, overrides or clients, once it is in force.
    pub fn settings_changed(&self) {
        self.settings.fetch_add(1, Ordering::AcqRel);
    }

    /// Assigns an origin to a group.
    pub fn group(&self) -> Group {
        Group(self.next_group.fetch_add(1, Ordering::Relaxed) % GROUPS)
    }

    /// Returns the updates of a group. Call it before reading the state of the origin, or under the same lock.
    #[must_use]
    pub fn updates_of(&self, group: Group) -> OriginUpdates {
        let count = self.robots.get(group.0);
        let count = count.map_or(0, |count| count.load(Ordering::Acquire));
        OriginUpdates { group, count }
    }

    /// Counts an update, after the origin's state has changed.
    pub fn origin_updated(&self, group: Group) {
        if let Some(count) = self.robots.get(group.0) {
            count.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Tells whether nothing has changed since `generation`.
    #[must_use]
    pub fn is_current(&self, generation: Generation) -> bool {
        let Generation { settings, robots } = generation;
        settings == self.settings.load(Ordering::Acquire)
            && robots.is_none_or(|updates| self.updates_of(updates.group) == updates)
    }
}

impl Generation {
    /// Returns the generation of a decision that rests on a robots.txt, too.
    #[must_use]
    pub fn with(self, updates: OriginUpdates) -> Generation {
        Generation { robots: Some(updates), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_current_until_what_it_rests_on_changes() {
        let changes = Changes::default();
        let (one, other) = (changes.group(), changes.group());
        let by_settings = changes.generation();
        let by_robots = by_settings.with(changes.updates_of(one));
        assert!(changes.is_current(by_settings) && changes.is_current(by_robots));
        changes.origin_updated(other);
        assert!(changes.is_current(by_robots), "another group's update");
        changes.origin_updated(one);
        assert!(changes.is_current(by_settings) && !changes.is_current(by_robots));
        changes.settings_changed();
        assert!(!changes.is_current(by_settings));
        assert!(changes.is_current(changes.generation()));
        assert!(!changes.is_current(Generation::default()), "never");
    }
}
