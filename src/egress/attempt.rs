//! One attempt: a request on one connection, up to the head of its response.
//!
//! An origin may send interim responses (1xx) before the final one, and RFC 9110 (section 15.2) sets no bound to them.
//! This module does: an origin that sends more counts as one without an answer.

use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use super::pool::Lease;
use super::proof::Proof;
use super::{Failure, Received, RequestBody, ResponseBody};

/// A request that got no answer.
#[allow(
    clippy::large_enum_variant,
    reason = "it lives for an instant, and a box would cost more"
)]
pub(super) enum Lost {
    /// Nothing of it was sent.
    Unsent(Request<RequestBody>),
    /// It may have been sent.
    Sent(Failure),
}

/// Makes an attempt with the time-out `patience` for its response head; without one, it waits any time.
pub(super) async fn answer(
    proof: Proof<'_>,
    lease: Lease,
    request: Request<RequestBody>,
    interim: impl Fn(StatusCode, &HeaderMap) + Send + Sync + 'static,
    patience: Option<Duration>,
) -> Result<Received, Lost> {
    match patience {
        None => attempt(proof, lease, request, interim).await,
        // Boxed, as a connect is: the future of a page needs no second attempt.
        Some(patience) => Box::pin(timeout(patience, attempt(proof, lease, request, interim)))
            .await
            .unwrap_or(Err(Lost::Sent(Failure::ResponseTimeout))),
    }
}

/// Sends the request: the only function that does. It cannot be called without a proof that nothing has changed.
async fn attempt(
    _: Proof<'_>,
    mut lease: Lease,
    mut request: Request<RequestBody>,
    interim: impl Fn(StatusCode, &HeaderMap) + Send + Sync + 'static,
) -> Result<Received, Lost> {
    let taken = request.body().taken();
    let bound = lease.connection.interim.clone();
    bound.begin();
    hyper::ext::on_informational(&mut request, move |response| {
        if bound.holds(response.headers()) {
            interim(response.status(), response.headers());
        }
    });
    let sent = lease.connection.sender.try_send_request(request).await;
    // The final response may have come together with the excess interim ones.
    if lease.connection.interim.is_exceeded() {
        return Err(Lost::Sent(Failure::Interim));
    }
    match sent {
        Ok(response) => {
            let peer = lease.connection.peer;
            if !taken.is_whole() {
                // The origin answered before the request was over: it may read the rest of the body as another request.
                lease.is_the_last();
            }
            let response = response.map(|incoming: Incoming| ResponseBody::new(incoming, lease));
            Ok(Received { response, peer })
        }
        Err(mut error) => Err(match error.take_message() {
            Some(request) => Lost::Unsent(request),
            None => Lost::Sent(Failure::of(error.error())),
        }),
    }
}

/// Copies a request that may be sent twice: safe, and without a body.
pub(super) fn copy_if_safe(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let is_safe = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    if !is_safe || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(RequestBody::Empty);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}
