//! Admission: a connection takes a slot; a request continues if its connection has room, its client is known and a
//! request slot is free; a tunnel on a stream takes a slot like a connection.

use std::sync::Arc;

use http::HeaderMap;
use tracing::warn;

use super::Proxy;
use super::downstream::{Connection, Downstream};
use super::limits::{ConnectionSlot, LimitExceeded};
use super::recorder::ExchangeRecorder;
use super::refused::{limit_exceeded, unidentified};
use super::respond::Refusal;
use super::target::Scope;
use crawlgate_policy::Reason;
use crawlgate_turns::client::{AuthError, Client};

/// The refusal of a request before its target is read.
#[derive(Debug)]
pub(super) struct NotAdmitted {
    pub(super) refusal: Refusal,
    /// True if its answer is the last one of its connection.
    pub(super) is_last: bool,
}

impl NotAdmitted {
    /// The recorder's decision refuses the request.
    const DECIDED: NotAdmitted = NotAdmitted {
        refusal: Refusal::Decided,
        is_last: false,
    };

    /// Refuses a request beyond a limit. One beyond a limit on connections ends its connection.
    fn by(exceeded: LimitExceeded) -> NotAdmitted {
        NotAdmitted {
            is_last: matches!(exceeded, LimitExceeded::Connections(_)),
            ..NotAdmitted::DECIDED
        }
    }
}

impl Connection {
    /// Admits a request if its connection has room, its client is identified, a request slot is free and its User-Agent
    /// is clear. Identifies client and agent.
    ///
    /// # Errors
    /// When the request is refused; the recorder has the decision.
    pub(super) async fn admit(
        &self,
        headers: &HeaderMap,
        recorder: &mut ExchangeRecorder,
    ) -> Result<(), NotAdmitted> {
        if let Some(reason) = self.downstream.turned_away {
            let exceeded = LimitExceeded::Connections(reason);
            recorder.decide(limit_exceeded(exceeded, recorder.time()));
            return Err(NotAdmitted::by(exceeded));
        }
        let gate = &self.downstream.proxy.gate;
        let client = match gate.clients().cached(&self.auth_cache, headers) {
            Some(client) => client,
            None => {
                // Recorded if the crawler disconnects before it is identified.
                recorder.decide_by(Reason::Unauthenticated);
                // Boxed: the authentication cache answers most requests.
                let recognised = Box::pin(self.recognise(headers)).await;
                recorder.decide_by(Reason::RobotsPending);
                recognised.map_err(|auth_error| {
                    recorder.decide(unidentified(auth_error, recorder.time()));
                    NotAdmitted::DECIDED
                })?
            }
        };
        recorder.set_client(client);
        if let Err(exceeded) = self.find_request_slot(recorder) {
            recorder.decide(limit_exceeded(exceeded, recorder.time()));
            return Err(NotAdmitted::by(exceeded));
        }
        recorder.set_agent(gate.identify(recorder.client(), headers));
        if self.downstream.proxy.is_ambiguous(recorder) {
            recorder.decide_by(Reason::BadRequest);
            return Err(NotAdmitted {
                refusal: Refusal::Agents,
                is_last: false,
            });
        }
        Ok(())
    }

    /// Takes a request slot for the exchange.
    fn find_request_slot(&self, recorder: &mut ExchangeRecorder) -> Result<(), LimitExceeded> {
        let Downstream {
            proxy, peer, slot, ..
        } = &self.downstream;
        let settings = proxy.settings.load();
        let place = slot.request(recorder.client(), peer.address.ip(), &settings.limits)?;
        recorder.set_request_slot(place);
        Ok(())
    }

    /// Takes a connection slot for a tunnel on a stream, and returns the connection with that slot.
    ///
    /// # Errors
    /// When none is free; the recorder has the decision.
    pub(super) fn of_tunnel(
        &self,
        recorder: &mut ExchangeRecorder,
    ) -> Result<Box<Connection>, NotAdmitted> {
        let Downstream {
            proxy, peer, slot, ..
        } = &self.downstream;
        let settings = proxy.settings.load();
        let taken = match proxy.tunnel_slot(slot) {
            Some(slot) => slot
                .belongs_to(recorder.client(), peer.address.ip(), &settings.limits)
                .map(|()| Arc::new(slot)),
            None => Err(Reason::Overloaded),
        };
        let slot = taken.map_err(|reason| {
            let exceeded = LimitExceeded::Connections(reason);
            recorder.decide(limit_exceeded(exceeded, recorder.time()));
            // The connection that carries it continues.
            NotAdmitted::DECIDED
        })?;
        recorder.state().move_to(&slot);
        // Boxed: it should not burden the future of every request.
        let mut tunnel = Box::new(self.clone());
        tunnel.downstream.slot = slot;
        Ok(tunnel)
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
    fn tunnel_slot(&self, carrier: &Arc<ConnectionSlot>) -> Option<ConnectionSlot> {
        let most = self.settings.load().limits.connections;
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
