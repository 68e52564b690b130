//! HTTP/1.1 connections to origins that wait for their next request, shared by all crawlers of one client.
//!
//! One connection carries one request at a time. It is lent with the request, travels with the response's body, and
//! comes back at the body's end. A body that is dropped half-way closes it, unless little of it is left
//! ([`discard`](super::ResponseBody::discard)), and so do octets that the origin sends
//! unasked: hyper looks for them before it takes another request. A request that finds its connection closed before it
//! was sent takes another one; a request that was sent on a used connection, and lost with it, is sent once more if
//! that is safe (RFC 9110 9.2.2).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;

use super::http1::Connection;
use super::idle::{IdleBudget, UseCount};
use super::key::{Key, Sharing};
use super::pin::Turn;
use crawlgate_system::clock::{Clock, Moment};

/// Idle HTTP/1.1 connections by origin and client.
pub(super) struct Pool {
    idle: DashMap<Key, Vec<Idle>, ahash::RandomState>,
    budget: Arc<IdleBudget>,
    /// Number of times the pool was emptied: connections lent before do not come back.
    generation: AtomicU64,
    per_origin: usize,
    timeout: Duration,
    pub(super) clock: Clock,
}

struct Idle {
    connection: Connection,
    since: Moment,
    past: UseCount,
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
    /// The turn on it, if it is pinned: given up behind everything else, so that the next request finds the connection.
    pub(super) turn: Option<Arc<Turn>>,
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
        budget: Arc<IdleBudget>,
        timeout: Duration,
        clock: Clock,
    ) -> Arc<Pool> {
        Arc::new(Pool {
            idle: DashMap::default(),
            budget,
            generation: AtomicU64::new(0),
            per_origin,
            timeout,
            clock,
        })
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
            Sharing::Last => self.take(key, now).map(|mut lease| {
                lease.is_the_last();
                lease
            }),
            Sharing::Alone | Sharing::Whole => None,
        }
    }

    fn take(self: &Arc<Self>, key: &Key, now: Option<Moment>) -> Option<Lease> {
        let mut idle = self.idle.get_mut(key)?;
        let now = now.unwrap_or_else(|| self.clock.now());
        // Before a connection is taken: one that is taken while the pool is emptied does not come back.
        let generation = self.generation();
        while let Some(found) = idle.pop() {
            self.budget.leave(1);
            let idle_for = now.since(found.since);
            if found.connection.sender.is_ready() && idle_for < self.timeout {
                return Some(Lease {
                    idle_for,
                    past: found.past,
                    ..self.lease(key.clone(), found.connection, Sharing::Pooled, generation)
                });
            }
        }
        None
    }

    /// Returns the generation of connections that are made from now on.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Lends a new connection that was made in this `generation`.
    pub(super) fn lease(
        self: &Arc<Self>,
        key: Key,
        connection: Connection,
        sharing: Sharing,
        generation: u64,
    ) -> Lease {
        let home = || Home { key, generation, pool: Arc::clone(self) };
        Lease {
            connection,
            idle_for: Duration::ZERO,
            past: UseCount::Fresh,
            home: match sharing {
                Sharing::Pooled => Some(home()),
                Sharing::Last | Sharing::Alone | Sharing::Whole => None,
            },
            turn: None,
        }
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
            self.budget.leave(idle.len());
            false
        });
        closed
    }

    /// Closes the idle connections of a key that no request has any more.
    pub(super) fn forget(&self, key: &Key) {
        if let Some((_, idle)) = self.idle.remove(key) {
            self.budget.leave(idle.len());
        }
    }

    fn put(&self, key: Key, generation: u64, connection: Connection, past: UseCount) {
        if !self.budget.has_room() {
            return;
        }
        let is_pinned = key.is_pinned();
        let mut idle = self.idle.entry(key).or_default();
        let is_current = self.generation() == generation;
        if is_current && (is_pinned || idle.len() < self.per_origin) {
            self.budget.enter();
            let since = self.clock.now();
            idle.push(Idle { connection, since, past });
        }
    }

    /// Closes connections that have been idle for too long.
    pub(super) fn sweep(&self) {
        let now = self.clock.now();
        self.idle.retain(|_, idle| {
            let before = idle.len();
            idle.retain(|idle| {
                !idle.connection.sender.is_closed() && now.since(idle.since) < self.timeout
            });
            self.budget.leave(before - idle.len());
            !idle.is_empty()
        });
    }
}

impl Lease {
    /// Tells whether no other exchange uses the connection.
    pub(super) fn is_alone(&self) -> bool {
        self.home.is_none()
    }

    /// Marks this exchange as the connection's last one.
    pub(super) fn is_the_last(&mut self) {
        self.home = None;
    }

    /// Pins the connection: it comes back only for requests with the key of this turn.
    pub(super) fn pin(&mut self, turn: Arc<Turn>) {
        if let Some(home) = &mut self.home {
            home.key = turn.key().clone();
            self.turn = Some(turn);
        }
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

    /// Closes the connection at once, and breaks off an exchange on it.
    pub(super) fn close(self) {
        self.connection.interim.end_connection();
    }

    fn put(self) {
        if let Some(Home { key, generation, pool }) = self.home {
            pool.put(key, generation, self.connection, self.past.with_one_more());
            // Its crawler connection may have ended meanwhile.
            if let Some(turn) = self.turn.filter(|turn| turn.is_over()) {
                pool.forget(turn.key());
            }
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("idle", &self.budget).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{DuplexStream, duplex};

    use super::super::http1;
    use super::*;
    use crawlgate_robots::Origin;

    const IDLE: Duration = Duration::from_secs(90);

    fn pool() -> (Arc<Pool>, Key) {
        let clock = Clock::manual(Moment::from_millis(1_000_000));
        let pool = Pool::new(8, Arc::new(IdleBudget::new(10)), IDLE, clock);
        let (origin, _) = Origin::parse("https://a.example/").expect("a URL");
        (pool, Key::new(&origin, None))
    }

    /// Makes a connection that can take a request, and returns the end of its origin.
    async fn connect() -> (Connection, DuplexStream) {
        let (ours, theirs) = duplex(1024);
        let connecting = http1::handshake(TokioIo::new(ours)).await;
        let (mut sender, head, connection) = connecting.expect("nothing is exchanged yet");
        let task = tokio::spawn(async move { drop(connection.await) });
        sender.ready().await.expect("it is open");
        let peer = ([192, 0, 2, 1], 443).into();
        let connection = Connection::new((sender, head), peer, task.abort_handle(), Arc::default());
        (connection, theirs)
    }

    #[tokio::test]
    async fn a_connection_comes_back_unless_the_pool_was_emptied_since_it_was_dialled() {
        for is_emptied in [false, true] {
            let (pool, key) = pool();
            let dialled = pool.generation();
            if is_emptied {
                pool.empty();
            }
            let (connection, _origin) = connect().await;
            let lease = pool.lease(key.clone(), connection, Sharing::Pooled, dialled);
            lease.give_back();
            let taken = pool.take_for(Sharing::Pooled, &key, None);
            assert_eq!(taken.is_none(), is_emptied);
            // A connection on loan does not come back either.
            pool.empty();
            if let Some(lease) = taken {
                lease.give_back();
            }
            assert!(pool.take_for(Sharing::Pooled, &key, None).is_none());
        }
    }
}
