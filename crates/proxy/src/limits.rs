//! Limits on connections and requests under way, in all and for each client.
//!
//! Each counted thing is a value that is dropped when it ends: a connection has a [`ConnectionSlot`], a request a
//! [`RequestSlot`]. So nothing is counted twice and nothing is forgotten, also where a task is cancelled.
//!
//! If all slots are taken, the connection that has been idle for longest makes room for a new one (`connection_limit`).
//! Only if every slot has an exchange under way is a new connection turned away, with an answer; a limited number is
//! answered at once, the others are closed. A silent tunnel or WebSocket goes after all idle connections, and when the
//! request slot that it holds is needed.
//!
//! A tunnel on a stream of HTTP/2 has a slot beside its connection's.
//!
//! A request costs a few additions and one uncontended lock; the shared map is asked once per connection.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;

use crawlgate_config::Limits;
use crawlgate_net::connection_limit::{Candidates, ConnectionLimit, Owner, Slot};
use crawlgate_policy::Reason;
use crawlgate_system::clock::Moment;
use crawlgate_turns::client::{Client, ClientKey};

/// Connections that are answered at the same time that there is no room for them.
const SPARE_SLOTS: usize = 128;

/// Milliseconds between two warnings that there is no room.
const BETWEEN_WARNINGS: u64 = 60_000;

/// Counts of everything under way.
#[derive(Debug, Default)]
pub struct Limiter {
    connections: Arc<ConnectionLimit<SlotOwner>>,
    /// Connections that are only answered that there is no room.
    spare: Arc<ConnectionLimit<SlotOwner>>,
    usages: DashMap<ClientKey, Arc<Counts>, ahash::RandomState>,
    requests: AtomicUsize,
    turned_away: AtomicU64,
    closed: AtomicU64,
    /// Time of the last warning that there is no room, in milliseconds.
    warned_at: AtomicU64,
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

/// The owner of a connection, as far as it is known.
#[derive(Debug, Default)]
struct SlotOwner {
    /// The client of the last request.
    client: Option<Arc<Client>>,
    usage: Option<Arc<ClientUsage>>,
    /// True if the connection counts in its client's counters, until it is asked to leave.
    is_counted: bool,
}

/// The slot of a connection, or of a tunnel on a stream, given back when it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    limiter: Arc<Limiter>,
    slot: Slot<SlotOwner>,
    /// Held while the connection comes to belong to another client.
    entering: Mutex<()>,
    is_spare: bool,
    /// True if the connection ends with a reset.
    resets: AtomicBool,
    /// The slot of the connection that carries this one's tunnel: busy until this one is given back.
    _carrier: Option<Carrier>,
}

/// The connection that carries a tunnel on a stream, busy until this is dropped.
#[derive(Debug)]
struct Carrier(Arc<ConnectionSlot>);

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

impl Limiter {
    /// Returns the connections and requests under way, and the counts of connections without room.
    pub fn occupied(&self) -> Occupied {
        Occupied {
            connections: self.connections.taken(),
            requests: self.requests.load(Ordering::Relaxed),
            evicted: self.connections.evicted(),
            turned_away: self.turned_away.load(Ordering::Relaxed),
            closed: self.closed.load(Ordering::Relaxed),
        }
    }

    /// Takes a slot for a new connection; if no slot is free, evicts the connection that has been idle for longest.
    pub fn slot(self: &Arc<Self>, most: usize) -> Option<ConnectionSlot> {
        let slot = self.connections.slot(most)?;
        Some(self.give(slot))
    }

    /// Takes a slot for a tunnel on a stream of the connection with the slot `carrier`: a tunnel counts, idles and makes
    /// room as a connection does.
    pub fn tunnel_slot(
        self: &Arc<Self>,
        most: usize,
        carrier: &Arc<ConnectionSlot>,
    ) -> Option<ConnectionSlot> {
        // Before the search for room: the connection must not go for its own tunnel.
        let carrier = Carrier::of(carrier);
        let slot = self.slot(most)?;
        Some(ConnectionSlot { _carrier: Some(carrier), ..slot })
    }

    fn give(self: &Arc<Self>, slot: Slot<SlotOwner>) -> ConnectionSlot {
        ConnectionSlot {
            limiter: Arc::clone(self),
            slot,
            entering: Mutex::default(),
            is_spare: false,
            resets: AtomicBool::new(false),
            _carrier: None,
        }
    }

    /// Takes a spare slot for a connection that is only answered that there is no room; `None` if too many are taken.
    pub fn spare_slot(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let Some(slot) = self.spare.free_slot(SPARE_SLOTS) else {
            self.closed.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionSlot { is_spare: true, ..self.give(slot) })
    }

    /// Closes the connection that has been idle for longest, and tells whether there was one.
    pub fn make_room(&self) -> bool {
        self.connections.make_room()
    }

    /// Tells whether to warn the operator that there is no room: not for each connection.
    pub fn should_warn(&self, now: Moment) -> bool {
        let (now, warned_at) = (now.as_millis(), self.warned_at.load(Ordering::Relaxed));
        let is_due = warned_at == 0 || now.saturating_sub(warned_at) >= BETWEEN_WARNINGS;
        let relaxed = Ordering::Relaxed;
        is_due && self.warned_at.compare_exchange(warned_at, now, relaxed, relaxed).is_ok()
    }

    /// Evicts this client's connection that has been idle for longest, and tells whether there was one.
    fn evict_of(&self, usage: &ClientUsage) -> bool {
        let is_its = |owner: &SlotOwner| owner.is_counted_by(usage);
        self.connections.evict(Candidates::Resting, is_its)
    }

    /// Evicts the tunnel or WebSocket, of this client or of all, that has been silent for longest: its request slot is
    /// needed. Tells whether there was one.
    fn evict_silent(&self, of: Option<&ClientUsage>) -> bool {
        let is_its = |owner: &SlotOwner| of.is_none_or(|usage| owner.is_counted_by(usage));
        self.connections.evict(Candidates::Silent, is_its)
    }

    fn usage(self: &Arc<Self>, key: ClientKey) -> Arc<ClientUsage> {
        let counts = Arc::clone(self.usages.entry(key.clone()).or_default().value());
        Arc::new(ClientUsage { limiter: Arc::clone(self), key, counts: Some(counts) })
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
    /// When no slot is free.
    pub fn request(
        &self,
        client: &Arc<Client>,
        address: IpAddr,
        limits: &Limits,
    ) -> Result<RequestSlot, LimitExceeded> {
        let usage = self.enter(client, address, limits).map_err(LimitExceeded::Connections)?;
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
        if let Some(usage) = self.entered(client, address) {
            return Ok(usage);
        }
        // The first streams of a connection come together, and it counts once.
        let _entering = self.entering.lock();
        if let Some(usage) = self.entered(client, address) {
            return Ok(usage);
        }
        let usage = self.limiter.usage(client.key(address));
        let connections = usage.counts.as_ref().map(|counts| &counts.connections);
        let now = connections.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed) + 1);
        let most = client.max_connections.or(limits.connections_per_client);
        if exceeds(now, most) && !self.is_spare && !self.limiter.evict_of(&usage) {
            usage.connection_ended();
            return Err(Reason::ClientLimit);
        }
        let mut owner = self.slot.owner();
        owner.leave();
        *owner = SlotOwner {
            client: Some(Arc::clone(client)),
            usage: Some(Arc::clone(&usage)),
            is_counted: true,
        };
        Ok(usage)
    }

    /// Returns the usage of this client if the connection belongs to it already.
    fn entered(&self, client: &Arc<Client>, address: IpAddr) -> Option<Arc<ClientUsage>> {
        let mut owner = self.slot.owner();
        let is_same = |last: &Arc<Client>| Arc::ptr_eq(last, client);
        if owner.client.as_ref().is_some_and(is_same)
            && let Some(usage) = &owner.usage
        {
            return Some(Arc::clone(usage));
        }
        let key = client.key(address);
        // The same client with another configuration.
        let usage = owner.usage.as_ref().filter(|usage| usage.key == key);
        let usage = usage.map(Arc::clone)?;
        owner.client = Some(Arc::clone(client));
        Some(usage)
    }

    /// Counts an exchange that begins: the connection is busy.
    pub fn begin(&self) {
        self.slot.begin();
    }

    /// Tells whether an exchange is under way.
    pub fn is_busy(&self) -> bool {
        self.slot.is_busy()
    }

    /// Returns the number of the last end or silence of an exchange: another number tells of another one.
    pub fn last_end(&self) -> u64 {
        self.slot.last_end()
    }

    /// Counts an exchange that has ended, or waits for the crawler before it asks for anything. Called once after each
    /// [`begin`](ConnectionSlot::begin); without another exchange under way, the connection is idle.
    pub fn end(&self) {
        self.slot.end();
    }

    /// Counts an exchange under way as silent: nothing has passed for some time through its tunnel or WebSocket.
    pub fn mark_silent(&self) {
        self.slot.mark_silent();
    }

    /// Counts an exchange as silent no longer. Called once after each [`mark_silent`](ConnectionSlot::mark_silent), and
    /// before the exchange ends.
    pub fn mark_active(&self) {
        self.slot.mark_active();
    }

    /// Has the connection end with a reset.
    pub fn reset(&self) {
        self.resets.store(true, Ordering::Relaxed);
    }

    /// Tells whether the connection ends with a reset.
    pub fn resets(&self) -> bool {
        self.resets.load(Ordering::Relaxed)
    }

    /// Waits until the connection must make room. Its slot has then been given away.
    pub async fn has_to_leave(&self) {
        self.slot.has_to_leave().await;
    }
}

impl Carrier {
    fn of(connection: &Arc<ConnectionSlot>) -> Carrier {
        connection.begin();
        Carrier(Arc::clone(connection))
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl SlotOwner {
    fn is_counted_by(&self, usage: &ClientUsage) -> bool {
        let is_same = |held: &Arc<ClientUsage>| held.key == usage.key;
        self.is_counted && self.usage.as_ref().is_some_and(is_same)
    }
}

impl Owner for SlotOwner {
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
        self.limiter.usages.remove_if(&self.key, |_, counts| Arc::strong_count(counts) == 1);
    }
}

fn exceeds(count: usize, most: Option<usize>) -> bool {
    most.is_some_and(|most| count > most)
}

#[cfg(test)]
mod tests;
