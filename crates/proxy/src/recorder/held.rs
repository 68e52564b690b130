//! The gate's part in an exchange: it takes the request with turn and charge, may hold it, and gives it back.

use std::time::Duration;

use http::Response;

use super::ExchangeRecorder;
use super::phase::Phase;
use crawlgate_egress::Failure;
use crawlgate_gate::cache::fetch::retry_after;
use crawlgate_gate::{Cleared, HeldOutcome, PriorClaim, Requester};
use crawlgate_policy::{Decision, Ruling};
use crawlgate_system::clock::Moment;
use crawlgate_turns::pace::SharedPace as _;

/// A request at the gate. A crawler that disconnects meanwhile leaves the record of a held request.
pub struct Held<'a> {
    /// The requester.
    pub requester: Requester<'a>,
    /// Time that the request came.
    pub asked: Moment,
    /// Turn and charge that it had before.
    pub prior: PriorClaim,
    /// The outcome to record.
    pub outcome: HeldOutcome<'a>,
}

impl ExchangeRecorder {
    /// Hands the request to the gate until it is [released](ExchangeRecorder::release).
    pub fn hold(&mut self) -> Held<'_> {
        self.phase.enter(Phase::Held { before: self.pace });
        self.is_charged = true;
        let is_used = self.prior.is_used;
        let prior = std::mem::take(&mut self.prior);
        self.prior.is_used = is_used;
        Held {
            requester: Requester {
                address: self.address.ip(),
                client: &self.client,
                agent: &self.agent,
                generation: self.generation,
            },
            asked: self.time,
            prior,
            outcome: HeldOutcome {
                decision: &mut self.decision,
                pace: &mut self.pace,
            },
        }
    }

    /// Takes the request back from the gate after it has `waited`, and returns the ruling. It is not the decision yet:
    /// a change may have overtaken it.
    pub fn release(&mut self, cleared: Cleared, waited: Duration) -> Ruling {
        self.waited += waited;
        // After the first sending, time counts as the origin's.
        if !self.prior.is_used {
            // One that is judged again has waited before, too.
            self.hold = cleared.hold.max(self.waited);
        }
        self.prior.turn = cleared.turn;
        self.prior.charged = cleared.charged;
        // A request that keeps its turn is recorded with the limit that first held it.
        let before = match self.phase {
            Phase::Held { before } if self.prior.turn.is_some() => before,
            _ => None,
        };
        self.pace = cleared.pace.or(before);
        self.phase.enter(Phase::Pending);
        cleared.ruling
    }

    /// Enters a refusal that is no ruling of the gate, and gives up the request's turn.
    pub fn withdraw(&mut self, decision: Decision) {
        self.give_up_turn();
        self.decide(decision);
    }

    /// Gives up the turn of a request that crawlgate does not send.
    pub fn give_up_turn(&mut self) {
        self.prior.turn = None;
    }

    /// Waits for another turn of a request that was sent once and is to be sent again, and tells whether it may be.
    pub async fn retry_turn(&mut self) -> bool {
        self.prior.is_used = true;
        match &self.prior.turn {
            Some(turn) => self.proxy.gate.pace().again(turn).await,
            None => true,
        }
    }

    /// Reports the origin's response, and whether the request had to wait for a place on a connection, or the origin's
    /// failure to its pace, which adapts to it.
    pub fn observe<B>(&self, received: Result<(&Response<B>, bool), &Failure>) {
        if received.is_ok() {
            self.proxy.gate.robots_cache().reached();
        }
        let Some(turn) = &self.prior.turn else { return };
        let pace = self.proxy.gate.pace();
        match received {
            Ok((response, was_crowded)) => {
                let wish = || retry_after(response.headers(), &self.proxy.clock);
                // With a body, the time depends on the crawler, too.
                let is_telling = self.bytes_in.is_none() && !was_crowded;
                pace.answered(turn, response.status().as_u16(), wish, is_telling);
            }
            Err(failure) if failure.is_of_the_origin() => pace.failed(turn),
            Err(_) => {}
        }
    }
}
