//! Limits the fetches of robots.txt over all origins: their number at the same time, their starts per second, and the
//! number of those that wait.
//!
//! A crawl that meets ten thousand new hosts at once would fetch as many files at once; name servers and the network
//! are shared with others. For each fetch that may be in progress, [`WAITING`] may wait. One client has at most half of
//! the waiting ones, and the clients get slots in rounds: a crawler that asks for hosts that never answer delays another
//! client's fetch by one slot.

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::queue::Queue;
use super::turn::Turn;
use crate::client::ClientKey;
use crate::rate_limit::RateLimit;
use crawlgate_config::RobotsConfig;
use crawlgate_system::clock::Clock;

/// Fetches that may wait, for each one that may be in progress.
const WAITING: usize = 4;

/// The client that fetches without a request count against: no peer has this address.
const OURSELVES: ClientKey = ClientKey::At(IpAddr::V6(Ipv6Addr::UNSPECIFIED));

/// The bound on fetches.
pub struct Fetches {
    slots: Arc<Slots>,
    waiting: Mutex<WaitingCounts>,
    /// Fetches that may wait, of all clients together.
    most_waiting: usize,
    rate: Option<RateLimit>,
}

/// The slots for fetches in progress.
#[derive(Debug)]
struct Slots(Mutex<SlotState>);

#[derive(Debug)]
struct SlotState {
    free: usize,
    queue: Queue<oneshot::Sender<Slot>>,
}

/// A slot, given to the next fetch when it is dropped.
#[derive(Debug)]
struct Slot(Arc<Slots>);

/// The fetches that have not begun, in all and by client.
#[derive(Debug, Default)]
struct WaitingCounts {
    all: usize,
    by_client: HashMap<ClientKey, usize, ahash::RandomState>,
}

/// A fetch that has not begun.
#[derive(Debug)]
pub struct WaitingFetch<'a> {
    fetches: &'a Fetches,
    client: ClientKey,
}

/// The slot of a fetch in progress, and its turn at its origin.
#[derive(Debug)]
pub struct FetchSlot<'a> {
    fetches: &'a Fetches,
    client: ClientKey,
    turn: Option<Turn>,
    slot: Option<Slot>,
}

impl FetchSlot<'_> {
    /// Returns its turn, if it has one.
    pub fn turn(&self) -> Option<&Turn> {
        self.turn.as_ref()
    }

    /// Waits for a future that other fetches may have to serve. The slot and the turn are free for them meanwhile.
    pub async fn outside<T>(&mut self, waited_for: impl Future<Output = T>) -> T {
        self.turn = None;
        self.slot = None;
        let result = waited_for.await;
        self.slot = self.fetches.slots.slot(&self.client).await;
        result
    }
}

impl Fetches {
    /// Builds the limit as configured, on `clock`.
    pub fn new(config: &RobotsConfig, clock: Clock) -> Fetches {
        let interval =
            config.fetches_per_second.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        let slots = config.max_fetches.max(1);
        Fetches {
            slots: Slots::new(slots),
            waiting: Mutex::default(),
            most_waiting: slots.saturating_mul(WAITING),
            rate: interval.map(|interval| RateLimit::new(interval, 1, clock)),
        }
    }

    /// Lets a fetch of this client wait for its beginning; without a client, it counts as one of crawlgate's own. `None` if
    /// too many wait.
    pub fn enter(&self, client: Option<&ClientKey>) -> Option<WaitingFetch<'_>> {
        let client = client.unwrap_or(&OURSELVES);
        let mut waiting = self.waiting.lock();
        let of_client = waiting.by_client.get(client).copied().unwrap_or_default();
        if waiting.all >= self.most_waiting || of_client >= self.most_waiting / 2 {
            return None;
        }
        waiting.all += 1;
        waiting.by_client.insert(client.clone(), of_client + 1);
        Some(WaitingFetch { fetches: self, client: client.clone() })
    }

    /// Takes a turn, or returns the time to wait before the next try.
    fn wait(&self) -> Option<Duration> {
        let early = self.rate.as_ref()?.take().err()?;
        // A sleep has whole milliseconds.
        Some(early.max(Duration::from_millis(1)))
    }
}

impl<'a> WaitingFetch<'a> {
    /// Waits until the fetch may begin with this `turn`. It counts as in progress until the result is dropped.
    pub async fn begin(self, turn: Option<Turn>) -> FetchSlot<'a> {
        let (fetches, client) = (self.fetches, self.client.clone());
        let slot = fetches.slots.slot(&client).await;
        // It has a slot while it waits for the rate.
        drop(self);
        while let Some(wait) = fetches.wait() {
            tokio::time::sleep(wait).await;
        }
        FetchSlot { fetches, client, turn, slot }
    }
}

impl Drop for WaitingFetch<'_> {
    fn drop(&mut self) {
        let mut waiting = self.fetches.waiting.lock();
        waiting.all -= 1;
        let Some(of_client) = waiting.by_client.get_mut(&self.client) else {
            return;
        };
        *of_client -= 1;
        if *of_client == 0 {
            waiting.by_client.remove(&self.client);
        }
    }
}

impl Slots {
    fn new(free: usize) -> Arc<Slots> {
        let queue = Queue::default();
        Arc::new(Slots(Mutex::new(SlotState { free, queue })))
    }

    /// Waits for a slot. Clients that wait get theirs in rounds.
    async fn slot(self: &Arc<Self>, client: &ClientKey) -> Option<Slot> {
        let given = {
            let mut state = self.0.lock();
            if let Some(left) = state.free.checked_sub(1) {
                state.free = left;
                return Some(Slot(Arc::clone(self)));
            }
            let (give, given) = oneshot::channel();
            state.queue.push(client, None, give);
            given
        };
        // Each sender in the queue is used.
        given.await.ok()
    }

    /// Returns the next fetch that waits; without one, the slot becomes free.
    fn next(&self) -> Option<oneshot::Sender<Slot>> {
        let mut state = self.0.lock();
        let next = std::iter::from_fn(|| state.queue.pop(|_| true)).find(|next| !next.is_closed());
        if next.is_none() {
            state.free += 1;
        }
        next
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(next) = self.0.next() {
            // A fetch that has just ended drops the slot, which goes to the next one.
            drop(next.send(Slot(Arc::clone(&self.0))));
        }
    }
}

impl std::fmt::Debug for Fetches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetches").field("free", &self.slots.0.lock().free).finish_non_exhaustive()
    }
}
