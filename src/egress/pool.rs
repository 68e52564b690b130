//! Connections to origins that wait for their next request, shared by all crawlers of one client.
//!
//! One connection carries one request at a time. It is lent with the request, travels with the response's body, and
//! comes back at the body's end. A body that is dropped half-way closes it, and so do octets that the origin sends
//! unasked: hyper looks for them before it takes another request. A request that finds its connection closed before it
//! was sent takes another one; a request that was sent on a used connection, and lost with it, is sent once more if
//! that is safe (RFC 9110 9.2.2).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;

use super::http1::Connection;
use super::sharing::Sharing;
use crate::clock::{Clock, Moment};
use crate::rep::Origin;

/// Idle connections by origin and client.
pub(super) struct Pool {
    idle: DashMap<Key, Vec<Idle>, ahash::RandomState>,
    count: AtomicUsize,
    /// Number of times the pool was emptied: connections lent before do not come back.
    generation: AtomicU64,
    per_origin: usize,
    /// Limit of idle connections over all origins.
    most: AtomicUsize,
    timeout: Duration,
    clock: Clock,
}

/// The requests that may share a connection, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    origin: Origin,
    /// The client's name, if clients are told apart: one client's requests cannot affect another's answers.
    client: Option<Arc<str>>,
}

impl Key {
    pub(super) fn new(origin: &Origin, client: Option<Arc<str>>) -> Key {
        Key {
            origin: origin.clone(),
            client,
        }
    }

    /// Returns the origin of the connection.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
}

struct Idle {
    connection: Connection,
    since: Moment,
    past: UseCount,
}

/// The history of a connection, which hints at how long its origin keeps it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UseCount {
    /// New: no history.
    Fresh,
    /// It has carried one exchange. Some origins then close it without notice.
    Once,
    /// It was used again: its origin keeps it open.
    Proven,
}

impl UseCount {
    fn with_one_more(self) -> UseCount {
        match self {
            UseCount::Fresh => UseCount::Once,
            UseCount::Once | UseCount::Proven => UseCount::Proven,
        }
    }
}

/// A connection on loan.
pub(super) struct Lease {
    pub(super) connection: Connection,
    /// Time that it was idle; zero for a new one.
    pub(super) idle_for: Duration,
    /// Its history before this request.
    pub(super) past: UseCount,
    /// The way back to the pool at the end of the exchange; none: it is closed.
    home: Option<Home>,
}

/// The place in the pool that a connection comes back to.
struct Home {
    key: Key,
    generation: u64,
    pool: Arc<Pool>,
}

impl Pool {
    pub(super) fn new(
        per_origin: usize,
        most: usize,
        timeout: Duration,
        clock: Clock,
    ) -> Arc<Pool> {
        Arc::new(Pool {
            idle: DashMap::default(),
            count: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            per_origin,
            most: AtomicUsize::new(most),
            timeout,
            clock,
        })
    }

    /// Limits the idle connections to `most` from now on.
    pub(super) fn keep_at_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Takes an idle connection for a request with this sharing: the one used last, so that unneeded ones age. `now`
    /// saves a reading of the clock.
    pub(super) fn take_for(
        self: &Arc<Self>,
        sharing: Sharing,
        key: &Key,
        now: Option<Moment>,
    ) -> Option<Lease> {
        match sharing {
            Sharing::Pooled => self.take(key, now),
            Sharing::Alone => None,
        }
    }

    fn take(self: &Arc<Self>, key: &Key, now: Option<Moment>) -> Option<Lease> {
        let mut idle = self.idle.get_mut(key)?;
        let now = now.unwrap_or_else(|| self.clock.now());
        while let Some(found) = idle.pop() {
            self.count.fetch_sub(1, Ordering::Relaxed);
            let idle_for = now.since(found.since);
            if found.connection.sender.is_ready() && idle_for < self.timeout {
                return Some(Lease {
                    idle_for,
                    past: found.past,
                    ..self.lease(key.clone(), found.connection, Sharing::Pooled)
                });
            }
        }
        None
    }

    /// Lends a new connection.
    pub(super) fn lease(
        self: &Arc<Self>,
        key: Key,
        connection: Connection,
        sharing: Sharing,
    ) -> Lease {
        let home = || Home {
            key,
            generation: self.generation.load(Ordering::Acquire),
            pool: Arc::clone(self),
        };
        Lease {
            connection,
            idle_for: Duration::ZERO,
            past: UseCount::Fresh,
            home: match sharing {
                Sharing::Pooled => Some(home()),
                Sharing::Alone => None,
            },
        }
    }

    /// Returns the number of idle connections.
    pub(super) fn idle(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Closes all idle connections, and lent ones as soon as they come back.
    pub(super) fn empty(&self) {
        // First: a connection that comes back meanwhile has an older generation, or is found below.
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.close_idle();
    }

    /// Closes all idle connections and returns their number.
    pub(super) fn close_idle(&self) -> usize {
        let mut closed = 0;
        self.idle.retain(|_, idle| {
            closed += idle.len();
            self.count.fetch_sub(idle.len(), Ordering::Relaxed);
            false
        });
        closed
    }

    fn put(&self, key: Key, generation: u64, connection: Connection, past: UseCount) {
        if self.count.load(Ordering::Relaxed) >= self.most.load(Ordering::Relaxed) {
            return;
        }
        let mut idle = self.idle.entry(key).or_default();
        let is_current = self.generation.load(Ordering::Acquire) == generation;
        if is_current && idle.len() < self.per_origin {
            self.count.fetch_add(1, Ordering::Relaxed);
            let since = self.clock.now();
            idle.push(Idle {
                connection,
                since,
                past,
            });
        }
    }

    /// Closes connections that have been idle for too long, again and again, while the pool is in use.
    pub(super) async fn sweep(pool: std::sync::Weak<Pool>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let Some(pool) = pool.upgrade() else { return };
            let now = pool.clock.now();
            pool.idle.retain(|_, idle| {
                let before = idle.len();
                idle.retain(|idle| {
                    !idle.connection.sender.is_closed() && now.since(idle.since) < pool.timeout
                });
                pool.count.fetch_sub(before - idle.len(), Ordering::Relaxed);
                !idle.is_empty()
            });
        }
    }
}

impl Lease {
    /// Marks this exchange as the connection's last one.
    pub(super) fn is_the_last(&mut self) {
        self.home = None;
    }

    /// Gives the connection back, as soon as it can take another request.
    pub(super) fn give_back(mut self) {
        let sender = &mut self.connection.sender;
        if self.home.is_none() || sender.is_closed() {
            return;
        }
        if sender.is_ready() {
            self.put();
        } else {
            tokio::spawn(async move {
                if self.connection.sender.ready().await.is_ok() {
                    self.put();
                }
            });
        }
    }

    fn put(self) {
        if let Some(Home {
            key,
            generation,
            pool,
        }) = self.home
        {
            pool.put(key, generation, self.connection, self.past.with_one_more());
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("idle", &self.count.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}
