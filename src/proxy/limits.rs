//! Limits on connections and requests under way, in all and for each client.
//!
//! Each counted thing is a value that is dropped when it ends: a connection has a [`ConnectionSlot`], a request a [`RequestSlot`]. So
//! nothing is counted twice and nothing is forgotten, also where a task is cancelled.
//!
//! An idle connection is the first to go: when all slots are taken, the connection that has been idle for longest makes
//! room for a new one. Idle is everything that is not an exchange: silence between two requests, half a head, half a
//! handshake. So thousands of connections that send nothing, or send slowly, take each other's slots and no exchange's.
//! Only if every slot has an exchange under way is a new connection turned away, with an answer; a limited number is
//! answered at once, the others are closed. A silent tunnel or WebSocket is not idle: it goes after all idle
//! connections, and when the request slot that it holds is needed.
//!
//! A request costs a few additions and one uncontended lock; the shared map is asked once per connection.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::client::{Client, ClientKey};
use crate::clock::Moment;
use crate::config::Limits;
use crate::policy::Reason;

/// Connections that are answered at the same time that there is no room for them.
const SPARE_SLOTS: usize = 128;

/// Idle connections found in one search; the next newcomers evict the next of them.
const FOUND_AT_ONCE: usize = 64;

/// Milliseconds between two warnings that there is no room.
const BETWEEN_WARNINGS: u64 = 60_000;

/// Stands for the start of idleness of a connection that is not idle.
const BUSY: u64 = 0;

/// Flag on the start of idleness: the connection carries silent tunnels or WebSockets alone. It goes after all that
/// carry nothing.
const SILENT: u64 = 1 << 63;

/// One silent exchange in [`Shared::exchanges`], beside the exchanges under way in its lower half.
const ONE_SILENT: u64 = 1 << 32;

/// Counts of everything under way.
#[derive(Debug, Default)]
pub struct Limiter {
    slots: Mutex<ConnectionSlots>,
    usages: DashMap<ClientKey, Arc<Counts>, ahash::RandomState>,
    requests: AtomicUsize,
    /// Counts the ends of exchanges: a smaller number is a longer idleness, and costs no look at a clock.
    ends: AtomicU64,
    spare: AtomicUsize,
    evicted: AtomicU64,
    turned_away: AtomicU64,
    closed: AtomicU64,
    /// Time of the last warning that there is no room, in milliseconds.
    told: AtomicU64,
}

/// Connections and requests under way, and counts of connections without room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupied {
    /// Open connections.
    pub connections: usize,
    /// Requests and tunnels under way.
    pub requests: usize,
    /// Idle connections that were closed to make room, so far.
    pub evicted: u64,
    /// Connections that were answered that there is no room, so far.
    pub turned_away: u64,
    /// Connections that were closed without an answer, so far.
    pub closed: u64,
}

#[derive(Debug, Default)]
struct ConnectionSlots {
    next: u64,
    taken: HashMap<u64, Arc<Shared>, ahash::RandomState>,
    /// The connections that were idle for longest at the last search, each with the start of its idleness.
    idle: VecDeque<(u64, u64)>,
}

/// State shared by a connection and the search for room.
#[derive(Debug)]
struct Shared {
    /// Exchanges under way, and those of them that are silent, as multiples of [`ONE_SILENT`]. In one number, so that
    /// they are read together.
    exchanges: AtomicU64,
    /// Number of the last end or silence of an exchange. Written before `exchanges`, so that it is never older.
    last_end: AtomicU64,
    /// Asks the connection to leave.
    leave: CancellationToken,
    owner: Mutex<SlotOwner>,
}

/// The owner of a connection, as far as it is known.
#[derive(Debug, Default)]
struct SlotOwner {
    /// The client of the last request.
    client: Option<Arc<Client>>,
    usage: Option<Arc<ClientUsage>>,
    /// True if the connection counts in its client's counters, until it is asked to leave.
    is_counted: bool,
}

/// The slot of a connection, given back when it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    limiter: Arc<Limiter>,
    shared: Arc<Shared>,
    kind: Kind,
    /// True if the connection ends with a reset.
    resets: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A counted slot of this number.
    Counted(u64),
    /// A spare slot, for as long as it takes to answer that there is no room.
    Spare,
}

/// The limit that leaves no slot for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitExceeded {
    /// The connection is one too many of the client that it turned out to belong to.
    Connections(Reason),
    /// The request is one too many.
    Requests(Reason),
}

/// The slot of a request, given back when it is dropped.
#[derive(Debug)]
pub struct RequestSlot(Arc<ClientUsage>);

/// One client's connections and requests under way. Stays in the map while it is held.
#[derive(Debug)]
struct ClientUsage {
    limiter: Arc<Limiter>,
    key: ClientKey,
    /// `None` only while it is dropped.
    counts: Option<Arc<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    requests: AtomicUsize,
}

impl Shared {
    /// Creates the state of a connection that has been idle since this end of an exchange.
    fn idle(last_end: u64) -> Arc<Shared> {
        Arc::new(Shared {
            exchanges: AtomicU64::new(0),
            last_end: AtomicU64::new(last_end),
            leave: CancellationToken::new(),
            owner: Mutex::default(),
        })
    }

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

impl Limiter {
    /// Returns the connections and requests under way, and the counts of connections without room.
    pub fn occupied(&self) -> Occupied {
        Occupied {
            connections: self.slots.lock().taken.len(),
            requests: self.requests.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
            turned_away: self.turned_away.load(Ordering::Relaxed),
            closed: self.closed.load(Ordering::Relaxed),
        }
    }

    /// Takes a slot for a new connection; if there is none, evicts the connection that has been idle for longest.
    pub fn slot(self: &Arc<Self>, most: usize) -> Option<ConnectionSlot> {
        let shared = Shared::idle(self.next_end());
        let mut slots = self.slots.lock();
        if slots.taken.len() >= most && !self.evict_longest_idle(&mut slots) {
            return None;
        }
        let number = slots.next;
        slots.next += 1;
        slots.taken.insert(number, Arc::clone(&shared));
        drop(slots);
        Some(ConnectionSlot {
            limiter: Arc::clone(self),
            shared,
            kind: Kind::Counted(number),
            resets: AtomicBool::new(false),
        })
    }

    /// Takes a spare slot for a connection that is only answered that there is no room; `None` if too many are taken.
    pub fn spare_slot(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let taken = self
            .spare
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                (taken < SPARE_SLOTS).then_some(taken + 1)
            });
        if taken.is_err() {
            self.closed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionSlot {
            limiter: Arc::clone(self),
            // No search for room finds it.
            shared: Shared::idle(BUSY),
            kind: Kind::Spare,
            resets: AtomicBool::new(false),
        })
    }

    /// Closes the connection that has been idle for longest, and tells whether there was one.
    pub fn make_room(&self) -> bool {
        self.evict_longest_idle(&mut self.slots.lock())
    }

    /// Tells whether to warn the operator that there is no room: not for each connection.
    pub fn is_to_be_told(&self, now: Moment) -> bool {
        let (now, told) = (now.as_millis(), self.told.load(Ordering::Relaxed));
        let is_due = told == 0 || now.saturating_sub(told) >= BETWEEN_WARNINGS;
        let relaxed = Ordering::Relaxed;
        is_due
            && self
                .told
                .compare_exchange(told, now, relaxed, relaxed)
                .is_ok()
    }

    fn next_end(&self) -> u64 {
        1 + self.ends.fetch_add(1, Ordering::Relaxed)
    }

    fn evict_longest_idle(&self, slots: &mut ConnectionSlots) -> bool {
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

    /// Evicts the first of those found that is still as idle as it was; stops at the first that may not go.
    fn evict_found(&self, slots: &mut ConnectionSlots, may_go: impl Fn(u64) -> bool) -> bool {
        while let Some(&(since, number)) = slots.idle.front() {
            if !may_go(since) {
                return false;
            }
            slots.idle.pop_front();
            let is_same = |shared: &Arc<Shared>| shared.idle_since() == since;
            if slots.taken.get(&number).is_some_and(is_same) {
                self.evict(slots, number);
                return true;
            }
        }
        false
    }

    /// Evicts this client's connection that has been idle for longest, and tells whether there was one.
    fn evict_of(&self, usage: &ClientUsage) -> bool {
        self.evict_where(|since, shared| since != BUSY && shared.owner.lock().is_counted_by(usage))
    }

    /// Evicts the tunnel or WebSocket, of this client or of all, that has been silent for longest: its request slot is
    /// needed. Tells whether there was one.
    fn evict_silent(&self, of: Option<&ClientUsage>) -> bool {
        self.evict_where(|since, shared| {
            since & SILENT != 0 && of.is_none_or(|usage| shared.owner.lock().is_counted_by(usage))
        })
    }

    fn evict_where(&self, may_go: impl Fn(u64, &Shared) -> bool) -> bool {
        let mut slots = self.slots.lock();
        let candidates = slots
            .taken
            .iter()
            .filter(|(_, shared)| may_go(shared.idle_since(), shared));
        let longest = candidates
            .min_by_key(|(_, shared)| shared.idle_since())
            .map(|(number, _)| *number);
        longest.is_some_and(|number| self.evict(&mut slots, number))
    }

    fn evict(&self, slots: &mut ConnectionSlots, number: u64) -> bool {
        let Some(shared) = slots.taken.remove(&number) else {
            return false;
        };
        shared.owner.lock().leave();
        shared.leave.cancel();
        self.evicted.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn usage(self: &Arc<Self>, key: ClientKey) -> Arc<ClientUsage> {
        let counts = Arc::clone(self.usages.entry(key.clone()).or_default().value());
        Arc::new(ClientUsage {
            limiter: Arc::clone(self),
            key,
            counts: Some(counts),
        })
    }
}

impl ConnectionSlot {
    /// Assigns the connection to a client.
    ///
    /// # Errors
    /// The reason to turn the connection away, if the client is at its limit of connections and none of them is idle.
    pub fn belongs_to(
        &self,
        client: &Arc<Client>,
        address: IpAddr,
        limits: &Limits,
    ) -> Result<(), Reason> {
        self.enter(client, address, limits).map(drop)
    }

    /// Takes a slot for a request of this client.
    ///
    /// # Errors
    /// When there is none.
    pub fn request(
        &self,
        client: &Arc<Client>,
        address: IpAddr,
        limits: &Limits,
    ) -> Result<RequestSlot, LimitExceeded> {
        let usage = self
            .enter(client, address, limits)
            .map_err(LimitExceeded::Connections)?;
        let in_all = &self.limiter.requests;
        // From here on, dropping the slot gives it back.
        in_all.fetch_add(1, Ordering::Relaxed);
        let place = RequestSlot(usage);
        let Some(counts) = place.0.counts.as_ref() else {
            return Err(LimitExceeded::Requests(Reason::Overloaded));
        };
        let of_client = counts.requests.fetch_add(1, Ordering::Relaxed) + 1;
        // The slot of a silent tunnel is free as soon as its connection has noticed.
        let most = client.max_requests.or(limits.requests_per_client);
        if exceeds(of_client, most) && !self.limiter.evict_silent(Some(&place.0)) {
            return Err(LimitExceeded::Requests(Reason::ClientLimit));
        }
        let now = in_all.load(Ordering::Relaxed);
        if exceeds(now, limits.requests) && !self.limiter.evict_silent(None) {
            return Err(LimitExceeded::Requests(Reason::Overloaded));
        }
        Ok(place)
    }

    fn enter(
        &self,
        client: &Arc<Client>,
        address: IpAddr,
        limits: &Limits,
    ) -> Result<Arc<ClientUsage>, Reason> {
        {
            let mut owner = self.shared.owner.lock();
            let is_same = |last: &Arc<Client>| Arc::ptr_eq(last, client);
            if owner.client.as_ref().is_some_and(is_same)
                && let Some(usage) = &owner.usage
            {
                return Ok(Arc::clone(usage));
            }
            let key = client.key(address);
            // The same client with another configuration.
            if let Some(usage) = owner.usage.as_ref().filter(|usage| usage.key == key) {
                let usage = Arc::clone(usage);
                owner.client = Some(Arc::clone(client));
                return Ok(usage);
            }
        }
        let usage = self.limiter.usage(client.key(address));
        let connections = usage.counts.as_ref().map(|counts| &counts.connections);
        let now = connections.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed) + 1);
        let most = client.max_connections.or(limits.connections_per_client);
        if exceeds(now, most) && self.kind != Kind::Spare && !self.limiter.evict_of(&usage) {
            usage.connection_ended();
            return Err(Reason::ClientLimit);
        }
        let mut owner = self.shared.owner.lock();
        owner.leave();
        *owner = SlotOwner {
            client: Some(Arc::clone(client)),
            usage: Some(Arc::clone(&usage)),
            is_counted: true,
        };
        Ok(usage)
    }

    /// Counts an exchange that begins: the connection is busy.
    pub fn begin(&self) {
        self.shared.exchanges.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells whether an exchange is under way.
    pub fn is_busy(&self) -> bool {
        !self
            .shared
            .exchanges
            .load(Ordering::Relaxed)
            .is_multiple_of(ONE_SILENT)
    }

    /// Counts an exchange that has ended, or waits for the crawler before it asks for anything. Called once after each
    /// [`begin`](ConnectionSlot::begin); without another exchange under way, the connection is idle.
    pub fn end(&self) {
        self.note_end();
        self.shared.exchanges.fetch_sub(1, Ordering::Release);
    }

    /// Counts an exchange under way as silent: nothing has passed for some time through its tunnel or WebSocket.
    pub fn fall_silent(&self) {
        self.note_end();
        self.shared
            .exchanges
            .fetch_add(ONE_SILENT, Ordering::Release);
    }

    /// Counts an exchange as silent no longer. Called once after each [`fall_silent`](ConnectionSlot::fall_silent), and
    /// before the exchange ends.
    pub fn break_silence(&self) {
        self.shared
            .exchanges
            .fetch_sub(ONE_SILENT, Ordering::Relaxed);
    }

    fn note_end(&self) {
        let end = self.limiter.next_end();
        self.shared.last_end.store(end, Ordering::Relaxed);
    }

    /// Has the connection end with a reset.
    pub fn reset(&self) {
        self.resets.store(true, Ordering::Relaxed);
    }

    /// Tells whether the connection ends with a reset.
    pub fn resets(&self) -> bool {
        self.resets.load(Ordering::Relaxed)
    }

    /// Waits until the connection must make room. Its slot has been given away by then.
    pub async fn has_to_leave(&self) {
        self.shared.leave.cancelled().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        match self.kind {
            Kind::Counted(number) => {
                self.limiter.slots.lock().taken.remove(&number);
            }
            Kind::Spare => {
                self.limiter.spare.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let mut owner = std::mem::take(&mut *self.shared.owner.lock());
        owner.leave();
    }
}

impl SlotOwner {
    fn is_counted_by(&self, usage: &ClientUsage) -> bool {
        let is_same = |held: &Arc<ClientUsage>| held.key == usage.key;
        self.is_counted && self.usage.as_ref().is_some_and(is_same)
    }

    /// Stops counting the connection.
    fn leave(&mut self) {
        if std::mem::take(&mut self.is_counted)
            && let Some(usage) = &self.usage
        {
            usage.connection_ended();
        }
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.0.limiter.requests.fetch_sub(1, Ordering::Relaxed);
        if let Some(counts) = &self.0.counts {
            counts.requests.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl ClientUsage {
    fn connection_ended(&self) {
        if let Some(counts) = &self.counts {
            counts.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for ClientUsage {
    fn drop(&mut self) {
        // Ours first: of several dropped at the same time, the last one sees that only the map is left.
        self.counts = None;
        self.limiter
            .usages
            .remove_if(&self.key, |_, counts| Arc::strong_count(counts) == 1);
    }
}

fn exceeds(count: usize, most: Option<usize>) -> bool {
    most.is_some_and(|most| count > most)
}

#[cfg(test)]
mod tests;
