//! Refusals of exchanges, each with its decision.

use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Response};

use super::body::Answer;
use super::limits::LimitExceeded;
use super::recorder::{Decided, Exchange, Ruled, Unanswered};
use super::respond::Refusal;
use super::target::{NamedBy, Unreadable};
use crawlgate_egress::{Failure, Prohibited};
use crawlgate_policy::{Decision, Reason};
use crawlgate_system::clock::Moment;
use crawlgate_turns::client::AuthError;

/// An exchange that crawlgate answers itself, with the reason.
#[derive(Debug)]
pub struct Refused {
    pub refusal: Refusal,
    pub exchange: Exchange<Decided>,
}

/// `Retry-After` sent when a limit is reached.
const A_MOMENT: Duration = Duration::from_secs(1);

/// Marks an answer as the last one of its connection, if it is.
pub fn last_if(is_last: bool, mut response: Response<Answer>) -> Response<Answer> {
    if is_last {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// Returns the decision on a request without an identified client.
pub fn unidentified(auth_error: AuthError, now: Moment) -> Decision {
    let (reason, retry_at) = match auth_error {
        AuthError::UnknownClient => (Reason::UnknownClient, None),
        AuthError::Unauthenticated => (Reason::Unauthenticated, None),
        AuthError::TooManyAttempts(again) => (Reason::Unauthenticated, Some(again)),
        AuthError::Busy => (Reason::Overloaded, Some(now + A_MOMENT)),
    };
    Decision { retry_at, ..Decision::bare(reason, now) }
}

impl<S: Ruled> Exchange<S> {
    /// Refuses the request under its decision.
    pub fn refuse(self, refusal: Refusal) -> Refused {
        let exchange = self.stand();
        Refused { refusal, exchange }
    }

    /// Refuses an allowed request that got no answer. A name that led to a prohibited address is a denial.
    pub fn unsent(self, failure: Failure) -> Refused {
        match failure {
            Failure::Prohibited(prohibited) => self.prohibited(prohibited),
            // A shortage here says nothing about the origin.
            Failure::Exhausted | Failure::Crowded => {
                self.exceeded(LimitExceeded::Requests(Reason::Overloaded))
            }
            failure => self.refuse(Refusal::Upstream(failure)),
        }
    }
}

impl<S: Unanswered> Exchange<S> {
    /// Refuses a request by a decision that is made without the gate.
    pub fn deny(self, decision: Decision) -> Refused {
        self.decide(decision).refuse(Refusal::Decided)
    }

    /// Refuses a request for a prohibited address.
    pub fn prohibited(self, prohibited: Prohibited) -> Refused {
        let time = self.time();
        self.deny(Decision::prohibited(prohibited, time))
    }

    /// Refuses a request beyond a limit.
    pub fn exceeded(self, exceeded: LimitExceeded) -> Refused {
        let (LimitExceeded::Connections(reason) | LimitExceeded::Requests(reason)) = exceeded;
        let now = self.time();
        self.deny(Decision { retry_at: Some(now + A_MOMENT), ..Decision::bare(reason, now) })
    }

    /// Refuses a request for its form.
    pub fn bad(self, refusal: Refusal) -> Refused {
        self.decide_by(Reason::BadRequest).refuse(refusal)
    }

    /// Refuses a request with a target that cannot be judged.
    pub fn unread(mut self, unreadable: Unreadable) -> Refused {
        let reason = match &unreadable {
            Unreadable::Misdirected { found, by, .. } => {
                if *by == NamedBy::Request {
                    self.set_misdirected(found);
                }
                Reason::Misdirected
            }
            _ => Reason::BadRequest,
        };
        self.decide_by(reason).refuse(Refusal::Target(unreadable))
    }
}
