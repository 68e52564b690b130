//! A bounded number of connections, of which the longest idle makes room for a new one.
//!
//! Each connection is a [`Slot`] that is dropped when it ends, so nothing is counted twice and nothing is forgotten, also
//! where a task is cancelled. A connection is idle while no exchange is under way on it: in silence between two
//! requests, in half a head, in half a handshake. So thousands of connections that send nothing, or send slowly, take
//! each other's slots and no exchange's. A connection that carries only silent exchanges, such as a tunnel, goes after
//! all that carry none.
//!
//! The proxy and the admin side have limits of their own. An [`Owner`] tells the other counts that a connection is part
//! of.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// Idle connections found in one search; the next newcomers evict the next of them.
const FOUND_AT_ONCE: usize = 64;

/// Stands for the start of idleness of a connection that is not idle.
const BUSY: u64 = 0;

/// Flag on the start of idleness: the connection carries only silent exchanges. It goes after all that carry nothing.
const SILENT: u64 = 1 << 63;

/// One silent exchange in [`Shared::exchanges`], beside the exchanges under way in its lower half.
const ONE_SILENT: u64 = 1 << 32;

/// The counts of others that a connection is part of.
pub trait Owner: Default {
    /// Takes the connection out of them: it was asked to leave, or has ended. The second call changes nothing.
    fn leave(&mut self);
}

/// A connection that counts for nothing else.
impl Owner for () {
    fn leave(&mut self) {}
}

/// The connections that share one bound.
#[derive(Debug, Default)]
pub struct ConnectionLimit<O> {
    slots: Mutex<Slots<O>>,
    /// Counts the ends of exchanges: a smaller number is a longer idleness, and costs no look at a clock.
    ends: AtomicU64,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct Slots<O> {
    next: u64,
    taken: HashMap<u64, Arc<Shared<O>>, ahash::RandomState>,
    /// The connections that were idle for longest at the last search, each with the start of its idleness.
    idle: VecDeque<(u64, u64)>,
}

/// State shared by a connection and the search for room.
#[derive(Debug, Default)]
struct Shared<O> {
    /// Exchanges under way, and those of them that are silent, as multiples of [`ONE_SILENT`]. In one number, so that
    /// they are read together.
    exchanges: AtomicU64,
    /// Number of the last end or silence of an exchange. Written before `exchanges`, so that it is never older.
    last_end: AtomicU64,
    /// Asks the connection to leave.
    leave: CancellationToken,
    owner: Mutex<O>,
}

/// The slot of a connection, given back when it is dropped.
#[derive(Debug)]
pub struct Slot<O: Owner> {
    limit: Arc<ConnectionLimit<O>>,
    shared: Arc<Shared<O>>,
    number: u64,
}

/// The connections that may be asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Candidates {
    /// Each that is not busy: the idle ones, then the silent ones.
    Resting,
    /// Those with only silent exchanges.
    Silent,
}

impl<O> Shared<O> {
    /// Returns the number of the end since which the connection has been idle, or [`BUSY`].
    fn idle_since(&self) -> u64 {
        let exchanges = self.exchanges.load(Ordering::Acquire);
        let (silent, under_way) = (exchanges / ONE_SILENT, exchanges % ONE_SILENT);
        match self.last_end.load(Ordering::Relaxed) {
            _ if under_way > silent => BUSY,
            since if silent > 0 => since | SILENT,
            since => since,
        }
    }
}

impl<O: Owner> ConnectionLimit<O> {
    /// Returns the number of taken slots.
    pub fn taken(&self) -> usize {
        self.slots.lock().taken.len()
    }

    /// Returns the number of connections that were asked to leave, so far.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Takes one of `most` slots for a new connection; if no slot is free, evicts the connection that has been idle for
    /// longest.
    pub fn slot(self: &Arc<Self>, most: usize) -> Option<Slot<O>> {
        let mut slots = self.slots.lock();
        let has_room = slots.taken.len() < most || self.evict_longest_idle(&mut slots);
        has_room.then(|| self.take(&mut slots))
    }

    /// Takes one of `most` slots, if one is free; evicts no connection.
    pub fn free_slot(self: &Arc<Self>, most: usize) -> Option<Slot<O>> {
        let mut slots = self.slots.lock();
        (slots.taken.len() < most).then(|| self.take(&mut slots))
    }

    fn take(self: &Arc<Self>, slots: &mut Slots<O>) -> Slot<O> {
        let shared =
            Arc::new(Shared { last_end: AtomicU64::new(self.next_end()), ..Shared::default() });
        let number = slots.next;
        slots.next += 1;
        slots.taken.insert(number, Arc::clone(&shared));
        Slot { limit: Arc::clone(self), shared, number }
    }

    /// Evicts the connection that has been idle for longest, and tells whether there was one.
    pub fn make_room(&self) -> bool {
        self.evict_longest_idle(&mut self.slots.lock())
    }

    /// Evicts the connection that has been idle for longest, among the candidates with an owner that `is_meant` accepts.
    /// Returns false if there is no candidate. Looks at each connection.
    pub fn evict(&self, candidates: Candidates, is_meant: impl Fn(&O) -> bool) -> bool {
        let mut slots = self.slots.lock();
        let resting = slots.taken.iter().filter_map(|(number, shared)| {
            let since = shared.idle_since();
            let is_candidate = match candidates {
                Candidates::Resting => since != BUSY,
                Candidates::Silent => since & SILENT != 0,
            };
            (is_candidate && is_meant(&shared.owner.lock())).then_some((since, *number))
        });
        let longest = resting.min();
        longest.is_some_and(|(_, number)| self.evict_at(&mut slots, number))
    }

    fn next_end(&self) -> u64 {
        1 + self.ends.fetch_add(1, Ordering::Relaxed)
    }

    fn evict_longest_idle(&self, slots: &mut Slots<O>) -> bool {
        // A silent connection goes only if a new search finds no idle one.
        if self.evict_found(slots, |since| since & SILENT == 0) {
            return true;
        }
        let mut idle: Vec<(u64, u64)> = slots
            .taken
            .iter()
            .map(|(number, shared)| (shared.idle_since(), *number))
            .filter(|(since, _)| *since != BUSY)
            .collect();
        if idle.len() > FOUND_AT_ONCE {
            idle.select_nth_unstable(FOUND_AT_ONCE);
            idle.truncate(FOUND_AT_ONCE);
        }
        idle.sort_unstable();
        slots.idle = idle.into();
        self.evict_found(slots, |_| true)
    }

    /// Evicts the first connection of those found that was idle ever since. Stops at the first one that must stay.
    fn evict_found(&self, slots: &mut Slots<O>, may_go: impl Fn(u64) -> bool) -> bool {
        while let Some(&(since, number)) = slots.idle.front() {
            if !may_go(since) {
                return false;
            }
            slots.idle.pop_front();
            let is_same = |shared: &Arc<Shared<O>>| shared.idle_since() == since;
            if slots.taken.get(&number).is_some_and(is_same) {
                return self.evict_at(slots, number);
            }
        }
        false
    }

    fn evict_at(&self, slots: &mut Slots<O>, number: u64) -> bool {
        let Some(shared) = slots.taken.remove(&number) else {
            return false;
        };
        shared.owner.lock().leave();
        shared.leave.cancel();
        self.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl<O: Owner> Slot<O> {
    /// Returns the owner, locked.
    pub fn owner(&self) -> MutexGuard<'_, O> {
        self.shared.owner.lock()
    }

    /// Counts an exchange that begins: the connection is busy.
    pub fn begin(&self) {
        self.shared.exchanges.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells whether an exchange is under way.
    pub fn is_busy(&self) -> bool {
        let exchanges = self.shared.exchanges.load(Ordering::Relaxed);
        !exchanges.is_multiple_of(ONE_SILENT)
    }

    /// Returns the number of the last end or silence of an exchange: another number tells of another one.
    pub fn last_end(&self) -> u64 {
        self.shared.last_end.load(Ordering::Relaxed)
    }

    /// Counts an exchange that has ended, or waits for its client before it asks for anything. Called once after each
    /// [`begin`](Slot::begin); without another exchange under way, the connection is idle.
    pub fn end(&self) {
        self.note_end();
        self.shared.exchanges.fetch_sub(1, Ordering::Release);
    }

    /// Counts an exchange under way as silent: nothing has passed through it for some time.
    pub fn mark_silent(&self) {
        self.note_end();
        let exchanges = &self.shared.exchanges;
        exchanges.fetch_add(ONE_SILENT, Ordering::Release);
    }

    /// Counts an exchange as silent no longer. Called once after each [`mark_silent`](Slot::mark_silent), and before
    /// the exchange ends.
    pub fn mark_active(&self) {
        let exchanges = &self.shared.exchanges;
        exchanges.fetch_sub(ONE_SILENT, Ordering::Relaxed);
    }

    fn note_end(&self) {
        let end = self.limit.next_end();
        self.shared.last_end.store(end, Ordering::Relaxed);
    }

    /// Waits until the connection must make room. Its slot has then been given away.
    pub async fn has_to_leave(&self) {
        self.shared.leave.cancelled().await;
    }
}

impl<O: Owner> Drop for Slot<O> {
    fn drop(&mut self) {
        self.limit.slots.lock().taken.remove(&self.number);
        let mut owner = std::mem::take(&mut *self.shared.owner.lock());
        owner.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Limit = Arc<ConnectionLimit<()>>;

    #[test]
    fn a_connection_is_idle_when_its_last_exchange_has_ended() {
        let limit = Limit::default();
        let slot = limit.slot(1).unwrap();
        slot.begin();
        slot.begin();
        slot.end();
        assert!(!limit.make_room(), "one of two is under way");
        slot.mark_silent();
        slot.begin();
        assert!(!limit.make_room(), "one is silent, and one is not");
        slot.end();
        let since = slot.shared.idle_since();
        assert!(since & SILENT != 0 && since != BUSY, "all are silent");
        slot.mark_active();
        assert!(!limit.make_room(), "it is silent no longer");
        slot.end();
        assert!(limit.make_room(), "none is under way");
        drop(slot);
        assert_eq!((limit.taken(), limit.evicted()), (0, 1));
    }

    #[test]
    fn a_free_slot_is_taken_from_no_other() {
        let limit = Limit::default();
        let idle = limit.free_slot(1).unwrap();
        assert!(limit.free_slot(1).is_none(), "none is free");
        assert!(limit.slot(1).is_some(), "the idle one makes room");
        assert_eq!((limit.taken(), limit.evicted()), (0, 1));
        drop(idle);
        assert!(limit.free_slot(1).is_some());
    }

    #[derive(Debug, Default)]
    struct Counted {
        name: &'static str,
        left: u32,
    }

    impl Owner for Counted {
        fn leave(&mut self) {
            self.left += 1;
        }
    }

    #[test]
    fn an_owner_loses_its_own_connection_that_has_been_idle_for_longest() {
        let limit = Arc::<ConnectionLimit<Counted>>::default();
        let slots = ["a", "b", "b", "b"].map(|name| {
            let slot = limit.slot(9).unwrap();
            slot.owner().name = name;
            slot
        });
        slots[1].begin();
        let evict = |candidates, name| limit.evict(candidates, |owner| owner.name == name);
        let left = || slots.each_ref().map(|slot| slot.owner().left);
        assert!(!evict(Candidates::Silent, "b"), "none is silent");
        assert!(evict(Candidates::Resting, "b"));
        assert_eq!(left(), [0, 0, 1, 0], "the first is another's, the second is busy");
        slots[1].mark_silent();
        assert!(evict(Candidates::Silent, "b"));
        assert_eq!(left(), [0, 1, 1, 0]);
        assert!(evict(Candidates::Resting, "b") && !evict(Candidates::Resting, "b"));
        assert_eq!((limit.taken(), limit.evicted()), (1, 3));
    }
}
