//! The side of the client: a connection, and the context of its exchanges.

use std::sync::Arc;

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
