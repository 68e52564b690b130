//! The judgement of an open tunnel or WebSocket, made again after each change.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::Proxy;
use crate::downstream::Downstream;
use crate::recorder::{Answered, Exchange};
use crate::relay::{GOODBYE, Relay};
use crawlgate_gate::{Kind, Requester};
use crawlgate_policy::Target;
use crawlgate_policy::agent::Agent;
use crawlgate_turns::client::{AuthCache, Client, Peer};

/// Resolves when a change of settings or overrides would deny the exchange with `target`, which goes to the address
/// `dialled`, or has removed its client.
pub(super) async fn denied(
    downstream: &Downstream,
    kind: Kind,
    (target, dialled): (Target, Option<SocketAddr>),
    client: Arc<Client>,
    agent: Arc<Agent>,
    mut changes: watch::Receiver<()>,
) {
    let gate = &downstream.proxy.gate;
    while changes.changed().await.is_ok() {
        let Some(client) = current_client(&downstream.proxy, &client, &downstream.peer) else {
            return;
        };
        let requester = Requester {
            address: downstream.peer.address.ip(),
            client: &client,
            agent: &agent,
            generation: gate.generation(),
        };
        // Boxed: it should not burden a tunnel for as long as it is open.
        if Box::pin(gate.denies(kind, target.clone(), dialled, &requester)).await {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Returns the tunnel's client under the current configuration; `None` if it was removed or its conditions changed.
pub(super) fn current_client(
    proxy: &Proxy,
    client: &Arc<Client>,
    peer: &Peer,
) -> Option<Arc<Client>> {
    let clients = proxy.gate.clients();
    clients.again(client, peer, &AuthCache::default()).ok()
}

/// A protocol switch under way, with the inputs to judge it again while the other protocol is spoken.
pub struct Switching {
    target: Target,
    changes: watch::Receiver<()>,
}

impl Switching {
    /// Keeps `target` and a subscription from before it was judged, so that no change is missed.
    pub fn to(target: &Target, changes: watch::Receiver<()>) -> Switching {
        let target = target.clone();
        Switching { target, changes }
    }

    /// Relays octets both ways until one side has finished, then drops the exchange. Breaks off when the request that
    /// began it would be denied.
    pub async fn relay(
        self,
        downstream: &Downstream,
        client_stream: impl AsyncRead + AsyncWrite + Unpin,
        upstream: impl AsyncRead + AsyncWrite + Unpin,
        exchange: Exchange<Answered>,
    ) {
        let Switching { target, changes } = self;
        let (client, agent) = (Arc::clone(exchange.client()), Arc::clone(exchange.agent()));
        let kind = Kind::Request;
        let to = (target, exchange.upstream());
        let denied = denied(downstream, kind, to, client, agent, changes);
        let relay = Relay::of(downstream, Some(GOODBYE));
        relay.run(client_stream, upstream, exchange, denied).await;
    }
}
