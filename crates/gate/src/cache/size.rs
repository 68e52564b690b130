//! The size of the cache: counts its states and octets, and evicts the least recently used origins beyond its bounds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::debug;

use super::Shared;
use super::counts::Known;
use super::entry::{Change, ENTRY_BYTES, SLOT_BYTES, Slot, Slots};
use crawlgate_robots::Origin;

/// Fraction of the cache that one eviction frees, so that many insertions share the cost of its scan.
const EVICTED_SHARE: usize = 16;

/// Pause after a pass that left the cache over its bounds because its origins are in use: each pass reads all of them.
pub(super) const REST: Duration = Duration::from_secs(1);

impl Shared {
    /// Counts a slot that was added or removed.
    pub(super) fn count(&self, change: Change<'_>) {
        match change {
            Change::Came(slot) => {
                self.counts.state_added(slot.identity.document(), slot.known);
                self.bytes.fetch_add(slot.bytes, Ordering::Relaxed);
            }
            Change::Went(slot) => {
                self.counts.state_removed(slot.identity.document(), slot.known);
                self.bytes.fetch_sub(slot.bytes, Ordering::Relaxed);
            }
        }
    }

    /// Updates the number of states for an origin; tells whether it has grown.
    pub(super) fn recount(&self, slots: &mut Slots) -> bool {
        let count = slots.count();
        let before = std::mem::replace(&mut slots.counted, count);
        if count != before {
            // Added before the subtraction, so that the sum never wraps.
            self.states.fetch_add(count, Ordering::Relaxed);
            self.states.fetch_sub(before, Ordering::Relaxed);
        }
        count > before
    }

    /// Sets the weight of a new slot; [`Shared::count`] adds it later.
    pub(super) fn measure_new(slot: &mut Slot) {
        slot.known = Known::of(&slot.state);
        slot.bytes = SLOT_BYTES + slot.state.snapshot().map_or(0, |snapshot| snapshot.bytes());
    }

    /// Updates the sum of octets for a slot, with rules compiled since; tells whether it has grown.
    pub(super) fn update_size(&self, slot: &mut Slot) -> bool {
        let known = Known::of(&slot.state);
        if known != slot.known {
            let document = slot.identity.document();
            self.counts.state_added(document, known);
            let before = std::mem::replace(&mut slot.known, known);
            self.counts.state_removed(document, before);
        }
        let snapshot = slot.state.snapshot();
        let bytes = SLOT_BYTES + snapshot.map_or(0, |snapshot| snapshot.bytes());
        let before = std::mem::replace(&mut slot.bytes, bytes);
        if bytes != before {
            // Added before the subtraction, so that the sum never wraps.
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.bytes.fetch_sub(before, Ordering::Relaxed);
        }
        bytes > before
    }

    /// Evicts origins after a flight has ended, which may go now.
    pub(super) fn bound_after_flight(&self) {
        if let Some(mut rests_until) = self.evicting.try_lock() {
            *rests_until = None;
        }
        self.bound();
    }

    /// Evicts the least recently used origins while the cache is over its bounds.
    pub(super) fn bound(&self) {
        let over = || {
            self.states.load(Ordering::Relaxed) > self.bounds.origins
                || self.bytes.load(Ordering::Relaxed) > self.bounds.bytes
        };
        if !over() {
            return;
        }
        let Some(mut rests_until) = self.evicting.try_lock() else {
            return;
        };
        if rests_until.is_some_and(|until| self.clock.uptime() < until) {
            return;
        }
        let mut by_age: Vec<(u64, Origin)> = self
            .entries
            .iter()
            .map(|entry| (entry.used.load(Ordering::Relaxed), entry.key().clone()))
            .collect();
        by_age.sort_unstable_by_key(|(used, _)| *used);
        let enough = by_age.len() / EVICTED_SHARE;
        let mut evicted = 0_usize;
        for (_, origin) in by_age {
            if evicted > enough && !over() {
                break;
            }
            // A flight holds a second reference to its entry; so does a waiting request.
            let gone = self.entries.remove_if(&origin, |_, entry| Arc::strong_count(entry) == 1);
            if let Some((_, entry)) = gone {
                // A permit from this entry would not notice an update of the entry that replaces it.
                self.changes.origin_updated(entry.group);
                let slots = entry.slots.lock();
                slots.iter().for_each(|slot| self.count(Change::Went(slot)));
                self.bytes.fetch_sub(ENTRY_BYTES, Ordering::Relaxed);
                self.states.fetch_sub(slots.counted, Ordering::Relaxed);
                evicted += 1;
            }
        }
        *rests_until = over().then(|| self.clock.uptime() + REST);
        debug!(evicted, held = self.entries.len(), "evicted the least recently used origins");
    }
}
