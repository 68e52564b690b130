//! Connections to origins that wait for their next request, shared by all crawlers.
//!
//! One connection carries one request at a time. It is lent with the request, travels with the response's
//! body, and comes back when that has ended; a body that is dropped half-way closes it. A request
//! that finds its connection closed before it was sent takes another; one that was sent on a connection
//! that had been used before, and lost with it, is sent once more where that is safe (RFC 9110 9.2.2).

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use dashmap::DashMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use super::Outgoing;
use crate::clock::{Clock, Moment};
use crate::rep::Origin;

/// Idle connections kept in all, whatever their origins.
const MOST_IDLE: usize = 8192;

/// Idle connections by origin.
pub(super) struct Pool {
    idle: DashMap<Origin, Vec<Idle>, ahash::RandomState>,
    count: AtomicUsize,
    /// How often the pool was emptied: what was lent before does not come back.
    generation: AtomicU64,
    per_origin: usize,
    timeout: Duration,
    clock: Clock,
}

struct Idle {
    sender: SendRequest<Outgoing>,
    peer: SocketAddr,
    since: Moment,
    past: Past,
}

/// What is known of how an origin treats a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// Nothing: it is new.
    New,
    /// It has carried one exchange. Some origins close it then without saying so.
    Once,
    /// It was used again: its origin keeps it open.
    Kept,
}

impl Past {
    fn with_one_more(self) -> Past {
        match self {
            Past::New => Past::Once,
            Past::Once | Past::Kept => Past::Kept,
        }
    }
}

/// A connection on loan.
pub(super) struct Lease {
    pub(super) sender: SendRequest<Outgoing>,
    /// The address that was dialled.
    pub(super) peer: SocketAddr,
    /// How long it was idle; nothing for a new one.
    pub(super) idle_for: Duration,
    /// What it has carried before.
    pub(super) past: Past,
    origin: Origin,
    generation: u64,
    pool: Arc<Pool>,
}

impl Pool {
    pub(super) fn new(per_origin: usize, timeout: Duration, clock: Clock) -> Arc<Pool> {
        Arc::new(Pool {
            idle: DashMap::default(),
            count: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            per_origin,
            timeout,
            clock,
        })
    }

    /// An idle connection to `origin`: the one used last, so that those not needed grow old.
    /// `now` saves a look at the clock, where somebody has just looked.
    pub(super) fn take(self: &Arc<Self>, origin: &Origin, now: Option<Moment>) -> Option<Lease> {
        let mut idle = self.idle.get_mut(origin)?;
        let now = now.unwrap_or_else(|| self.clock.now());
        while let Some(connection) = idle.pop() {
            self.count.fetch_sub(1, Ordering::Relaxed);
            let idle_for = now.since(connection.since);
            if connection.sender.is_ready() && idle_for < self.timeout {
                return Some(Lease {
                    idle_for,
                    past: connection.past,
                    ..self.lease(origin, connection.sender, connection.peer)
                });
            }
        }
        None
    }

    /// Lends a connection that was just made.
    pub(super) fn lease(
        self: &Arc<Self>,
        origin: &Origin,
        sender: SendRequest<Outgoing>,
        peer: SocketAddr,
    ) -> Lease {
        Lease {
            sender,
            peer,
            idle_for: Duration::ZERO,
            past: Past::New,
            origin: origin.clone(),
            generation: self.generation.load(Ordering::Acquire),
            pool: Arc::clone(self),
        }
    }

    /// How many connections are idle.
    pub(super) fn idle(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Closes all that is idle, and what is lent as soon as it comes back.
    pub(super) fn empty(&self) {
        // First: what comes back meanwhile is of an earlier generation, or is found below.
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.idle.retain(|_, idle| {
            self.count.fetch_sub(idle.len(), Ordering::Relaxed);
            false
        });
    }

    fn put(
        &self,
        origin: Origin,
        sender: SendRequest<Outgoing>,
        peer: SocketAddr,
        past: Past,
        generation: u64,
    ) {
        if self.count.load(Ordering::Relaxed) >= MOST_IDLE {
            return;
        }
        let mut idle = self.idle.entry(origin).or_default();
        let is_current = self.generation.load(Ordering::Acquire) == generation;
        if is_current && idle.len() < self.per_origin {
            self.count.fetch_add(1, Ordering::Relaxed);
            let since = self.clock.now();
            idle.push(Idle {
                sender,
                peer,
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
                idle.retain(|connection| {
                    !connection.sender.is_closed() && now.since(connection.since) < pool.timeout
                });
                pool.count.fetch_sub(before - idle.len(), Ordering::Relaxed);
                !idle.is_empty()
            });
        }
    }
}

impl Lease {
    /// Gives the connection back, as soon as it can take another request.
    pub(super) fn give_back(mut self) {
        if self.sender.is_ready() {
            self.put();
        } else if !self.sender.is_closed() {
            tokio::spawn(async move {
                if self.sender.ready().await.is_ok() {
                    self.put();
                }
            });
        }
    }

    fn put(self) {
        let Lease {
            pool,
            origin,
            sender,
            peer,
            past,
            generation,
            ..
        } = self;
        pool.put(origin, sender, peer, past.with_one_more(), generation);
    }
}

/// The body of an origin's response, holding the connection that it comes on.
pub struct Inbound {
    incoming: Incoming,
    lease: Option<Lease>,
}

impl Inbound {
    pub(super) fn new(incoming: Incoming, lease: Lease) -> Inbound {
        let mut inbound = Inbound {
            incoming,
            lease: Some(lease),
        };
        inbound.finish();
        inbound
    }

    fn finish(&mut self) {
        if self.incoming.is_end_stream()
            && let Some(lease) = self.lease.take()
        {
            lease.give_back();
        }
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.incoming).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => this.finish(),
            Some(Err(_)) => this.lease = None,
            None => {
                if let Some(lease) = this.lease.take() {
                    lease.give_back();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbound").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("idle", &self.count.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}
