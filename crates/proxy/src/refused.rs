//! Refusals of exchanges, with the recorder that enters them.

use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Response};

use super::body::Answer;
use super::limits::LimitExceeded;
use super::recorder::ExchangeRecorder;
use super::respond::Refusal;
use super::target::{NamedBy, Unreadable};
use crawlgate_egress::Failure;
use crawlgate_policy::{Decision, Reason};
use crawlgate_system::clock::Moment;
use crawlgate_turns::client::AuthError;

/// A refusal, with the recorder of its exchange.
pub type RefusedExchange = (Refusal, Box<ExchangeRecorder>);

/// `Retry-After` sent when a limit is reached.
const A_MOMENT: Duration = Duration::from_secs(1);

/// Returns the decision on a request beyond a limit.
pub fn limit_exceeded(exceeded: LimitExceeded, now: Moment) -> Decision {
    let (LimitExceeded::Connections(reason) | LimitExceeded::Requests(reason)) = exceeded;
    Decision {
        retry_at: Some(now + A_MOMENT),
        ..Decision::bare(reason, now)
    }
}

/// Marks an answer as the last one of its connection.
pub fn last(mut response: Response<Answer>) -> Response<Answer> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
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
    Decision {
        retry_at,
        ..Decision::bare(reason, now)
    }
}

/// Refuses a request for its form.
pub fn bad(refusal: Refusal, recorder: &mut ExchangeRecorder) -> Refusal {
    recorder.decide_by(Reason::BadRequest);
    refusal
}

/// Refuses an allowed request that got no answer. A name that led to a prohibited address is a denial.
pub fn unsent(failure: Failure, recorder: &mut ExchangeRecorder) -> Refusal {
    match failure {
        Failure::Prohibited(prohibited) => {
            recorder.decide(Decision::prohibited(prohibited, recorder.time()));
            Refusal::Decided
        }
        // A shortage here says nothing about the origin.
        Failure::Exhausted | Failure::Crowded => {
            let exceeded = LimitExceeded::Requests(Reason::Overloaded);
            recorder.decide(limit_exceeded(exceeded, recorder.time()));
            Refusal::Decided
        }
        failure => Refusal::Upstream(failure),
    }
}

/// Refuses a request with a target that cannot be judged.
pub fn unread(unreadable: Unreadable, recorder: &mut ExchangeRecorder) -> Refusal {
    let reason = match &unreadable {
        Unreadable::Misdirected { found, by, .. } => {
            if *by == NamedBy::Request {
                recorder.set_misdirected(found);
            }
            Reason::Misdirected
        }
        _ => Reason::BadRequest,
    };
    recorder.decide_by(reason);
    Refusal::Target(unreadable)
}
