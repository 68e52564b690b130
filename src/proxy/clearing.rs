//! The question to the gate, asked again while the answer is overtaken.

use std::pin::pin;

use super::downstream::Connection;
use super::recorder::{Charge, ExchangeRecorder};
use super::refused::turned_away;
use super::target::Scope;
use crate::client::AuthError;
use crate::gate::{self, Had, HeldOutcome, Kind, MOST_JUDGEMENTS, Requester};
use crate::policy::{Permit, Ruling, Target};

impl Connection {
    /// Asks the gate and enters its decision. Asks again if settings, overrides, clients or a robots.txt changed while
    /// the request waited.
    pub async fn clear(
        &self,
        kind: Kind,
        target: Target,
        recorder: &mut ExchangeRecorder,
    ) -> Option<Permit> {
        for _ in 0..MOST_JUDGEMENTS {
            if let Err(auth_error) = self.keep_identified(recorder) {
                recorder.turn = None;
                recorder.decision = turned_away(auth_error, self.downstream.proxy.clock.now());
                return None;
            }
            let ruling = self.judge(kind, target.clone(), recorder).await;
            if self
                .downstream
                .proxy
                .gate
                .stands(&ruling, recorder.generation)
            {
                let (permit, decision) = match ruling {
                    Ruling::Clear(permit, decision) => (Some(permit), decision),
                    Ruling::Refuse(decision) => (None, decision),
                };
                recorder.decision = decision;
                return permit;
            }
        }
        self.give_up(recorder);
        None
    }

    /// Refuses a request that was overtaken by one change after another.
    pub fn give_up(&self, recorder: &mut ExchangeRecorder) {
        recorder.turn = None;
        recorder.decision = gate::unsettled(self.downstream.proxy.clock.now());
    }

    /// Identifies the client and the agent of a request again if they may have changed.
    ///
    /// # Errors
    /// When the request has no client any more.
    pub fn keep_identified(&self, recorder: &mut ExchangeRecorder) -> Result<(), AuthError> {
        let gate = &self.downstream.proxy.gate;
        let generation = gate.generation();
        if generation == recorder.generation {
            return Ok(());
        }
        recorder.generation = generation;
        let client = gate
            .clients()
            .reidentify(&recorder.client, &self.downstream.peer);
        recorder.client = client.map_err(|auth_error| match self.scope {
            Scope::Plain => auth_error,
            // Inside a tunnel no answer can ask for credentials any more.
            Scope::Inside { .. } => AuthError::UnknownClient,
        })?;
        recorder.agent = gate.identify(&recorder.client, &recorder.user_agents());
        Ok(())
    }

    /// Asks the gate once.
    async fn judge(&self, kind: Kind, target: Target, recorder: &mut ExchangeRecorder) -> Ruling {
        let gate = &self.downstream.proxy.gate;
        let requester = Requester {
            address: self.downstream.peer.address.ip(),
            client: &recorder.client,
            agent: &recorder.agent,
            generation: recorder.generation,
        };
        let had = Had {
            turn: recorder.turn.take(),
            is_used: recorder.was_sent,
            charged: recorder.charged.take(),
        };
        let held = recorder.hold.take();
        recorder.account = Charge::Entered;
        let held_by = recorder.pace;
        let (cleared, waited) = {
            let outcome = HeldOutcome {
                decision: &mut recorder.decision,
                pace: &mut recorder.pace,
            };
            let clearing = pin!(gate.clear(kind, target, &requester, recorder.time, had, outcome));
            let proxy = &self.downstream.proxy;
            proxy.counts.holding(clearing, &proxy.clock).await
        };
        recorder.waited += waited;
        // After the first sending, time counts as the origin's.
        recorder.hold = held.filter(|_| recorder.was_sent).or(Some(cleared.hold));
        recorder.turn = cleared.turn;
        recorder.charged = cleared.charged;
        // A request that keeps its turn is recorded with the limit that first held it.
        recorder.pace = cleared.pace.or(held_by.filter(|_| recorder.turn.is_some()));
        cleared.ruling
    }
}
