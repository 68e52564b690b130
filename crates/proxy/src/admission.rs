//! Admission: a connection takes a slot; a request continues if its connection has room, its client is known and a
//! request slot is free; a tunnel on a stream takes a slot like a connection.

use std::sync::Arc;

use http::HeaderMap;
use tracing::warn;

use super::Proxy;
use super::connection::{Connection, Downstream};
use super::limits::{ConnectionSlot, LimitExceeded};
use super::recorder::{Admitted, Exchange, Opened};
use super::refused::{Refused, unidentified};
use super::respond::Refusal;
use super::target::Scope;
use crawlgate_policy::Reason;
use crawlgate_turns::client::{AuthError, Client};

/// The refusal of a request before its target is read.
#[derive(Debug)]
pub(super) struct NotAdmitted {
    pub(super) refused: Refused,
    /// True if its answer is the last one of its connection.
    pub(super) is_last: bool,
}

impl NotAdmitted {
    /// Refuses a request beyond a limit. One beyond a limit on connections ends its connection.
    fn by(exceeded: LimitExceeded, exchange: Exchange<Opened>) -> NotAdmitted {
        NotAdmitted {
            is_last: matches!(exceeded, LimitExceeded::Connections(_)),
            ..exchange.exceeded(exceeded).into()
        }
    }
}

impl From<Refused> for NotAdmitted {
    fn from(refused: Refused) -> NotAdmitted {
        NotAdmitted { refused, is_last: false }
    }
}

impl Connection {
    /// Admits a request if its connection has room, its client is identified, a request slot is free and its User-Agent
    /// is clear. Identifies client and agent.
    ///
    /// # Errors
    /// When the request is refused.
    pub(super) async fn admit(
        &self,
        headers: &HeaderMap,
        mut exchange: Exchange<Opened>,
    ) -> Result<Exchange<Admitted>, NotAdmitted> {
        let Downstream { peer, slot, .. } = &self.downstream;
        if let Some(reason) = self.downstream.turned_away {
            return Err(NotAdmitted::by(LimitExceeded::Connections(reason), exchange));
        }
        let gate = &self.proxy().gate;
        let client = match gate.clients().cached(&self.auth_cache, headers) {
            Some(client) => client,
            None => {
                // Recorded if the crawler disconnects before it is identified.
                exchange.presume(Reason::Unauthenticated);
                // Boxed: the authentication cache answers most requests.
                let recognised = Box::pin(self.recognise(headers)).await;
                exchange.presume(Reason::RobotsPending);
                match recognised {
                    Ok(client) => client,
                    Err(auth_error) => {
                        let unidentified = unidentified(auth_error, exchange.time());
                        return Err(exchange.deny(unidentified).into());
                    }
                }
            }
        };
        exchange.set_client(client);
        let limits = &exchange.settings().limits;
        let taken = slot.request(exchange.client(), peer.address.ip(), limits);
        let slot = match taken {
            Ok(slot) => slot,
            Err(exceeded) => return Err(NotAdmitted::by(exceeded, exchange)),
        };
        let agent = gate.identify(exchange.client(), headers);
        let exchange = exchange.admit(agent, Some(slot));
        if exchange.is_ambiguous() {
            return Err(exchange.bad(Refusal::Agents).into());
        }
        Ok(exchange)
    }

    /// Takes a connection slot for a tunnel on a stream, and returns the connection with that slot.
    ///
    /// # Errors
    /// When none is free. The connection that carries the tunnel continues.
    pub(super) fn of_tunnel(
        &self,
        exchange: Exchange<Admitted>,
    ) -> Result<(Box<Connection>, Exchange<Admitted>), NotAdmitted> {
        let Downstream { proxy, peer, slot, .. } = &self.downstream;
        let limits = &exchange.settings().limits;
        let taken = match proxy.tunnel_slot(limits.connections, slot) {
            Some(slot) => slot
                .belongs_to(exchange.client(), peer.address.ip(), limits)
                .map(|()| Arc::new(slot)),
            None => Err(Reason::Overloaded),
        };
        let slot = match taken {
            Ok(slot) => slot,
            Err(reason) => {
                let exceeded = LimitExceeded::Connections(reason);
                return Err(exchange.exceeded(exceeded).into());
            }
        };
        exchange.state().move_to(&slot);
        // Boxed: it should not burden the future of every request.
        let mut tunnel = Box::new(self.clone());
        tunnel.downstream.slot = slot;
        Ok((tunnel, exchange))
    }

    /// Identifies the client of a request with these fields.
    async fn recognise(&self, headers: &HeaderMap) -> Result<Arc<Client>, AuthError> {
        let clients = self.downstream.proxy.gate.clients();
        let peer = &self.downstream.peer;
        match &self.scope {
            Scope::Plain => clients.recognise(peer, headers, &self.auth_cache).await,
            // The client of the CONNECT.
            Scope::Inside { .. } => clients.again(&self.downstream.client, peer, &self.auth_cache),
        }
    }
}

impl Proxy {
    /// Takes a slot for a new connection, with the reason to turn it away if it is a spare slot; `None` if even those
    /// are taken.
    pub(super) fn slot(&self) -> Option<(ConnectionSlot, Option<Reason>)> {
        let most = self.settings.load().limits.connections;
        match self.limiter.slot(most) {
            Some(slot) => Some((slot, None)),
            None => {
                self.warn_of_no_room(most);
                Some((self.limiter.spare_slot()?, Some(Reason::Overloaded)))
            }
        }
    }

    /// Takes a slot for a tunnel on a stream of the connection with the slot `carrier`.
    fn tunnel_slot(&self, most: usize, carrier: &Arc<ConnectionSlot>) -> Option<ConnectionSlot> {
        let slot = self.limiter.tunnel_slot(most, carrier);
        if slot.is_none() {
            self.warn_of_no_room(most);
        }
        slot
    }

    fn warn_of_no_room(&self, most: usize) {
        if self.limiter.should_warn(self.clock.now()) {
            warn!(
                most,
                "as many connections as [limits] connections allows have something under way: new connections are \
                 turned away"
            );
        }
    }
}
