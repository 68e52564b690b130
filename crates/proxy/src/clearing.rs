//! The question to the gate, asked again while the answer is overtaken: for exchanges, and for other proxies.

use std::pin::pin;
use std::time::Duration;

use super::Proxy;
use super::connection::Connection;
use super::recorder::{Admitted, Decided, Exchange, Held, Judged, Recorder};
use super::refused::{Refused, unidentified};
use super::respond::Refusal;
use super::target::Scope;
use crawlgate_gate::{self as gate, Kind, MAX_JUDGEMENTS, Pacing};
use crawlgate_policy::{Permit, Ruling, Target};
use crawlgate_turns::client::AuthError;

/// The sender of the request in question.
#[derive(Debug, Clone, Copy)]
pub enum Sender {
    /// This proxy.
    Us,
    /// Another proxy, which asks for a decision.
    AnotherProxy(Pacing),
}

impl Proxy {
    /// Asks the gate and enters its decision. Asks again if settings, overrides, clients or a robots.txt changed while
    /// the request waited; `identify` finds client and agent again before each question.
    pub(super) async fn gate_and_record(
        &self,
        kind: Kind,
        target: Target,
        sender: Sender,
        recorder: &mut Recorder,
        mut identify: impl FnMut(&mut Recorder) -> Result<(), AuthError>,
    ) -> (Option<Permit>, Judged) {
        for _ in 0..MAX_JUDGEMENTS {
            if let Err(auth_error) = identify(recorder) {
                let refusal = unidentified(auth_error, self.clock.now());
                return (None, recorder.withdraw(refusal));
            }
            let ruling = self.ask(kind, target.clone(), sender, recorder).await;
            if self.gate.stands(&ruling, recorder.generation()) {
                let (permit, decision) = match ruling {
                    Ruling::Allow(permit, decision) => (Some(permit), decision),
                    Ruling::Refuse(decision) => (None, decision),
                };
                return (permit, recorder.rule(*decision));
            }
        }
        (None, self.give_up(recorder))
    }

    /// Refuses a request that was overtaken by one change after another.
    pub(super) fn give_up(&self, recorder: &mut Recorder) -> Judged {
        recorder.withdraw(gate::always_overtaken(self.clock.now()))
    }

    /// Asks the gate once.
    async fn ask(
        &self,
        kind: Kind,
        target: Target,
        sender: Sender,
        recorder: &mut Recorder,
    ) -> Ruling {
        let Held { requester, asked, prior, outcome } = recorder.hold();
        let gate = &self.gate;
        let (cleared, waited) = match sender {
            Sender::Us => {
                let clearing = pin!(gate.clear(kind, target, &requester, asked, prior, outcome));
                self.counts.holding(clearing, &self.clock).await
            }
            // Boxed: few questions come from other proxies. They count as held there, if anywhere.
            Sender::AnotherProxy(pacing) => {
                let cleared = Box::pin(async {
                    match pacing {
                        Pacing::InTurn => {
                            gate.clear(kind, target, &requester, asked, prior, outcome).await
                        }
                        Pacing::AtOnce => gate.clear_at_once(kind, target, &requester, asked).await,
                    }
                });
                (cleared.await, Duration::ZERO)
            }
        };
        recorder.release(cleared, waited)
    }
}

impl Connection {
    /// Asks the gate whether the exchange's request may be sent, which decides it.
    ///
    /// # Errors
    /// When the request may not be sent.
    pub async fn clear(
        &self,
        kind: Kind,
        target: Target,
        mut exchange: Exchange<Admitted>,
    ) -> Result<(Permit, Exchange<Decided>), Refused> {
        let (permit, judged) = self.judge(kind, target, exchange.gated()).await;
        let exchange = exchange.decided(judged);
        match permit {
            Some(permit) => Ok((permit, exchange)),
            None => Err(exchange.refuse(Refusal::Decided)),
        }
    }

    /// Asks the gate about the exchange's request, and enters its decision.
    pub async fn judge(
        &self,
        kind: Kind,
        target: Target,
        recorder: &mut Recorder,
    ) -> (Option<Permit>, Judged) {
        let proxy = self.proxy();
        let identify = |recorder: &mut Recorder| self.keep_identified(recorder);
        proxy.gate_and_record(kind, target, Sender::Us, recorder, identify).await
    }

    /// Identifies the client and the agent of a request again if they may have changed, under the settings of now.
    ///
    /// # Errors
    /// When the request has no client any more.
    pub fn keep_identified(&self, recorder: &mut Recorder) -> Result<(), AuthError> {
        if !recorder.renew() {
            return Ok(());
        }
        let gate = &self.proxy().gate;
        let client = gate.clients().reidentify(recorder.client(), &self.downstream.peer);
        let client = client.map_err(|auth_error| match self.scope {
            Scope::Plain => auth_error,
            // Inside a tunnel no answer can ask for credentials any more.
            Scope::Inside { .. } => AuthError::UnknownClient,
        })?;
        let agent = gate.identify(&client, &recorder.user_agents());
        recorder.identify(client, agent);
        Ok(())
    }
}
