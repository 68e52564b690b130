//! A crawler's connection: the context of its exchanges, and the state that they share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Proxy;
use super::limits::ConnectionSlot;
use super::target::Scope;
use crawlgate_egress::{Pinned, ViaChain};
use crawlgate_policy::Reason;
use crawlgate_turns::client::{AuthCache, Client, Peer};

/// A downstream connection. Clones go along with anything that the connection becomes.
#[derive(Debug, Clone)]
pub struct Downstream {
    /// The proxy.
    pub proxy: Arc<Proxy>,
    /// The peer, as far as the connection identifies it.
    pub peer: Arc<Peer>,
    /// The client, as far as it is known without a request.
    pub client: Arc<Client>,
    /// Reason that the connection is not served; it is answered once.
    pub turned_away: Option<Reason>,
    /// The proxies that the CONNECT around it has passed, if it named some.
    pub via: Option<ViaChain>,
    /// The slot under `[limits] connections`, free again when the last clone has gone: a tunnel outlives the HTTP
    /// connection that it was opened on.
    pub slot: Arc<ConnectionSlot>,
}

/// State that all exchanges of a connection share.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The client_stream connection.
    pub downstream: Downstream,
    /// The way that requests come.
    pub scope: Scope,
    /// Authentication cache of the connection.
    pub auth_cache: AuthCache,
    /// Connections to origins that end with it.
    pub pinned: Arc<Pinned>,
}

impl Connection {
    /// Returns the proxy that serves the connection.
    pub fn proxy(&self) -> &Arc<Proxy> {
        &self.downstream.proxy
    }
}

/// State of a connection. Each exchange has an [`ExchangeState`](super::exchange_state::ExchangeState) beside it.
#[derive(Debug, Default)]
pub struct ConnectionState {
    /// `None` if no crawler's connection carries the exchange: another proxy asks.
    slot: Option<Arc<ConnectionSlot>>,
    /// True if the crawler took its answer too slowly.
    is_stalled: AtomicBool,
    /// True if the connection must make room, without lingering.
    is_leaving: AtomicBool,
    /// True if the proxy stops: exchanges that have begun are answered, and the connection ends.
    is_draining: AtomicBool,
}

impl ConnectionState {
    /// Creates the state of a connection with this slot.
    pub fn of(slot: &Arc<ConnectionSlot>) -> ConnectionState {
        ConnectionState { slot: Some(Arc::clone(slot)), ..ConnectionState::default() }
    }

    /// Returns the connection's slot, which counts its exchanges.
    pub fn slot(&self) -> Option<&ConnectionSlot> {
        self.slot.as_deref()
    }

    /// Has the connection end with a reset.
    pub fn reset(&self) {
        if let Some(slot) = &self.slot {
            slot.reset();
        }
    }

    /// Notes that the crawler took its answer too slowly: the connection ends.
    pub fn stall(&self) {
        self.is_stalled.store(true, Ordering::Relaxed);
    }

    /// Tells whether the crawler took its answer too slowly.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Notes that the connection must make room for another.
    pub fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Tells whether the connection must make room.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Ends the connection as soon as nothing is under way on it, because the proxy stops.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Tells whether the connection ends because the proxy stops.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}
