//! The gate's part in an exchange: it takes the request with turn and charge, may hold it, and gives it back.

use std::time::Duration;

use http::Response;

use super::{Exchange, Judged, Phase, Recorder, Sent};
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

impl Recorder {
    /// Hands the request to the gate until it is [released](Recorder::release).
    pub fn hold(&mut self) -> Held<'_> {
        let judgement = &mut self.judgement;
        self.phase.enter(Phase::Held { before: judgement.pace });
        judgement.is_charged = true;
        let is_used = judgement.prior.is_used;
        let prior = std::mem::take(&mut judgement.prior);
        judgement.prior.is_used = is_used;
        Held {
            requester: self.identified.requester(self.facts.address),
            asked: self.facts.time,
            prior,
            outcome: HeldOutcome { decision: &mut judgement.decision, pace: &mut judgement.pace },
        }
    }

    /// Takes the request back from the gate after it has `waited`, and returns the ruling. It is not the decision yet:
    /// a change may have overtaken it.
    pub fn release(&mut self, cleared: Cleared, waited: Duration) -> Ruling {
        let judgement = &mut self.judgement;
        judgement.waited += waited;
        // After the first sending, time counts as the origin's.
        if !judgement.prior.is_used {
            // One that is judged again has waited before, too.
            judgement.hold = cleared.hold.max(judgement.waited);
        }
        judgement.prior.turn = cleared.turn;
        judgement.prior.charged = cleared.charged;
        // A request that keeps its turn is recorded with the limit that first held it.
        let before = match self.phase {
            Phase::Held { before } if judgement.prior.turn.is_some() => before,
            _ => None,
        };
        judgement.pace = cleared.pace.or(before);
        self.phase.enter(Phase::Pending);
        cleared.ruling
    }

    /// Enters the decision of a ruling that stands.
    pub fn rule(&mut self, decision: Decision) -> Judged {
        self.enter(decision);
        Judged(())
    }

    /// Enters a refusal that is no ruling of the gate, and gives up the request's turn.
    pub fn withdraw(&mut self, decision: Decision) -> Judged {
        self.judgement.prior.turn = None;
        self.rule(decision)
    }
}

impl Exchange<Sent> {
    /// Waits for another turn of a request that was sent once and is to be sent again, and tells whether it may be.
    pub async fn retry_turn(&mut self) -> bool {
        let recorder = &mut *self.recorder;
        recorder.judgement.prior.is_used = true;
        match &recorder.judgement.prior.turn {
            Some(turn) => recorder.proxy.gate.pace().again(turn).await,
            None => true,
        }
    }

    /// Reports the origin's response, and whether the request had to wait for a place on a connection, or the origin's
    /// failure to its pace, which adapts to it.
    pub fn observe<B>(&self, received: Result<(&Response<B>, bool), &Failure>) {
        if received.is_ok() {
            self.proxy.gate.robots_cache().reached();
        }
        let Some(turn) = &self.judgement.prior.turn else {
            return;
        };
        let pace = self.proxy.gate.pace();
        match received {
            Ok((response, was_crowded)) => {
                let wish = || retry_after(response.headers(), &self.proxy.clock);
                // With a body, the time depends on the crawler, too.
                let is_telling = self.sending.bytes_in.is_none() && !was_crowded;
                pace.answered(turn, response.status().as_u16(), wish, is_telling);
            }
            Err(failure) if failure.is_of_the_origin() => pace.failed(turn),
            Err(_) => {}
        }
    }
}
