//! One attempt: a request on one connection, up to the head of its response.
//!
//! An origin may send interim responses (1xx) before the final one, and RFC 9110 (section 15.2) sets no bound to them.
//! This module does: an origin that sends more counts as one without an answer.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use super::http2::{self, Rejected};
use super::idle::UseCount;
use super::key::say_close;
use super::multiplexer::Place;
use super::pinned::Claim;
use super::pool;
use super::proof::Proof;
use super::{Failure, OutgoingRequest, Received, RequestBody, ResponseBody, Reuse};

/// HTTP/2 connections that are made for one permit, if each ends before it takes a stream: an origin that reads its
/// configuration again accepts connections that it ends at once.
const MAX_NEW: usize = 3;

/// The number of connections that were made for one permit.
#[derive(Debug, Default)]
pub(super) struct NewConnections(usize);

impl NewConnections {
    /// Counts a new connection, and tells whether no other is made after it.
    pub(super) fn count(&mut self, is_http1: bool) -> bool {
        self.0 += 1;
        is_http1 || self.0 >= MAX_NEW
    }
}

/// A connection, or a place on one, on loan to one exchange.
pub(super) enum Lease {
    /// An HTTP/1.1 connection: the exchange has it to itself.
    Http1(pool::Lease),
    /// A stream of an HTTP/2 connection, which other exchanges use at the same time.
    Http2(Place),
}

impl Lease {
    /// Returns the history of the connection, and the time for which it was idle.
    pub(super) fn past(&self) -> (UseCount, Duration) {
        match self {
            Lease::Http1(lease) => (lease.past, lease.idle_for),
            Lease::Http2(place) => (place.past, place.idle_for),
        }
    }

    /// Gives an unused connection back.
    pub(super) fn give_back(self) {
        match self {
            Lease::Http1(lease) => lease.give_back(),
            Lease::Http2(place) => drop(place),
        }
    }
}

/// A request that got no answer.
pub(super) enum Lost {
    /// Nothing of it was sent.
    Unsent(OutgoingRequest),
    /// It was sent, and the origin says that it did nothing with it (RFC 9113 8.7).
    Unprocessed(OutgoingRequest),
    /// It was sent on a connection that goes away, and the origin says that it did nothing with it (RFC 9113 6.8).
    /// True if it has processed another one there.
    LeftBehind(OutgoingRequest, bool),
    /// It was sent on a connection that ended, and it may have been processed.
    Cut(OutgoingRequest),
    /// The origin did nothing with it and wants it by HTTP/1.1. `None` if a part of its body is gone.
    WantsHttp1(Option<OutgoingRequest>),
    /// It may have been processed by an origin with broken HTTP/2. `None` if a part of its body is gone.
    Broken(Failure, Option<OutgoingRequest>),
    /// It may have been processed.
    Sent(Failure),
}

/// The end of an attempt without an answer. The same permit makes no other attempt.
pub(super) enum AttemptEnd {
    /// The attempt failed.
    Failed(Failure),
    /// Nothing was sent: a change has overtaken the permit.
    Overtaken(OutgoingRequest),
    /// The request may be sent again.
    Lost(OutgoingRequest),
    /// The request may be sent again: the origin did nothing with it, but processed others on its connection.
    LeftBehind(OutgoingRequest),
}

impl Lost {
    /// Returns the request if the same permit may send it again. `spare` is its copy, if it may be sent twice; `is_last` is
    /// true if no further connection is made for a request that was not sent.
    pub(super) fn send_again(
        self,
        is_last: bool,
        spare: Option<OutgoingRequest>,
        reuse: Reuse,
    ) -> Result<OutgoingRequest, AttemptEnd> {
        let halt = match (self, reuse) {
            (Lost::Unsent(_), _) if is_last => AttemptEnd::Failed(Failure::Terminated),
            (Lost::Unsent(request), _) => return Ok(request),
            (Lost::WantsHttp1(Some(request)), Reuse::Allowed) => AttemptEnd::Lost(request),
            // An origin that closes each connection after some requests has another one to make for the rest of them.
            (Lost::LeftBehind(request, true), _) => AttemptEnd::LeftBehind(request),
            // A new connection may go away, too: an origin that reads its configuration again accepts some that it ends
            // at once.
            (Lost::LeftBehind(request, false) | Lost::Unprocessed(request), _) => {
                AttemptEnd::Lost(request)
            }
            // The origin has said how it is to be asked.
            (Lost::WantsHttp1(Some(request)), Reuse::Forbidden) => return Ok(request),
            (Lost::WantsHttp1(None), _) => AttemptEnd::Failed(Failure::Reset),
            // The origin may have closed the connection while the request was on its way: try once more, on a new
            // connection.
            (Lost::Cut(request), Reuse::Allowed) if may_be_sent_twice(&request) => {
                AttemptEnd::Lost(request)
            }
            (Lost::Cut(_), _) => AttemptEnd::Failed(Failure::Terminated),
            (Lost::Sent(Failure::Terminated), Reuse::Allowed) => match spare {
                Some(spare) => AttemptEnd::Lost(spare),
                None => AttemptEnd::Failed(Failure::Terminated),
            },
            (Lost::Sent(failure) | Lost::Broken(failure, _), _) => AttemptEnd::Failed(failure),
        };
        Err(halt)
    }
}

/// Makes an attempt with the time-out `patience` for its response head; without one, it waits any time.
pub(super) async fn answer(
    proof: Proof<'_>,
    (lease, claim): (Lease, &Claim<'_>),
    request: OutgoingRequest,
    interim: impl Fn(StatusCode, &HeaderMap) + Send + Sync + 'static,
    patience: Option<Duration>,
) -> Result<Received, Lost> {
    match patience {
        None => attempt(proof, (lease, claim), request, interim).await,
        // Boxed, as a connect is: the future of a page needs no second attempt.
        Some(patience) => {
            let attempt = attempt(proof, (lease, claim), request, interim);
            Box::pin(timeout(patience, attempt))
                .await
                .unwrap_or(Err(Lost::Sent(Failure::ResponseTimeout)))
        }
    }
}

/// Sends the request: the only function that does. It cannot be called without a proof that nothing has changed.
async fn attempt(
    proof: Proof<'_>,
    (lease, claim): (Lease, &Claim<'_>),
    request: OutgoingRequest,
    interim: impl Fn(StatusCode, &HeaderMap) + Send + Sync + 'static,
) -> Result<Received, Lost> {
    match lease {
        Lease::Http1(lease) => by_http1(proof, (lease, claim), request, interim).await,
        // Boxed: it is larger, and should not burden the requests by HTTP/1.1.
        Lease::Http2(place) => Box::pin(by_http2(proof, (place, claim), request, interim)).await,
    }
}

async fn by_http1(
    _: Proof<'_>,
    (mut lease, claim): (pool::Lease, &Claim<'_>),
    mut request: OutgoingRequest,
    interim: impl Fn(StatusCode, &HeaderMap) + Send + Sync + 'static,
) -> Result<Received, Lost> {
    *request.version_mut() = Version::HTTP_11;
    if lease.is_alone() {
        say_close(request.headers_mut());
    }
    let taken = request.body().taken();
    let bound = lease.connection.interim.clone();
    bound.begin();
    lease.connection.head.expect();
    hyper::ext::on_informational(&mut request, move |response| {
        if bound.holds(response.headers()) {
            interim(response.status(), response.headers());
        }
    });
    let sent = lease.connection.sender.try_send_request(*request).await;
    // The final response may have come together with the excess interim ones.
    if lease.connection.interim.is_exceeded() {
        return Err(Lost::Sent(Failure::Interim));
    }
    match sent {
        Ok(mut response) => {
            let peer = lease.connection.peer;
            if !taken.is_whole() {
                // The origin answered before the request was over: it may read the rest of the body as another request.
                lease.is_the_last();
            }
            claim.answered(&mut lease, &mut response);
            if let Some(reason) = lease.connection.head.reason() {
                response.extensions_mut().insert(reason);
            }
            let response = response.map(|incoming: Incoming| ResponseBody::http1(incoming, lease));
            Ok(Received { response: Box::new(response), peer, was_crowded: false })
        }
        Err(mut error) => Err(match error.take_message() {
            Some(request) => Lost::Unsent(Box::new(request)),
            None => Lost::Sent(Failure::of(error.error())),
        }),
    }
}

async fn by_http2(
    proof: Proof<'_>,
    (place, claim): (Place, &Claim<'_>),
    request: OutgoingRequest,
    interim: impl Fn(StatusCode, &HeaderMap),
) -> Result<Received, Lost> {
    let method = request.method().clone();
    let is_whole = matches!(proof, Proof::Robots(_));
    match http2::open(proof, &place.connection, request, interim).await {
        Ok(opened) => {
            let peer = place.connection.peer;
            claim.offered(&opened.response);
            let response = match opened.switch(place) {
                Ok(switched) => switched.map(ResponseBody::switched),
                Err((opened, place)) => {
                    let connection = Arc::clone(&place.connection);
                    http2::Body::of(&method, opened, connection, (place, is_whole))
                        .map(ResponseBody::http2)
                }
            };
            Ok(Received { response: Box::new(response), peer, was_crowded: false })
        }
        Err(rejected) => Err(match rejected {
            Rejected::Unsent(request) => Lost::Unsent(request),
            Rejected::Unprocessed(request) => Lost::Unprocessed(request),
            Rejected::LeftBehind(request, served) => Lost::LeftBehind(request, served),
            Rejected::Cut(request) => Lost::Cut(request),
            Rejected::WantsHttp1(request) => Lost::WantsHttp1(request),
            Rejected::Broken(failure, request) => {
                let request = request.filter(|request| may_be_sent_twice(request));
                Lost::Broken(failure, request)
            }
            Rejected::Failed(failure) => Lost::Sent(failure),
        }),
    }
}

/// Tells whether a request is safe, and without a body.
fn may_be_sent_twice(request: &Request<RequestBody>) -> bool {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    is_safe && request.body().is_end_stream()
}

/// Copies a request that may be sent twice.
pub(super) fn copy_if_safe(request: &Request<RequestBody>) -> Option<OutgoingRequest> {
    if !may_be_sent_twice(request) {
        return None;
    }
    let mut copy = Box::new(Request::new(RequestBody::Empty));
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method) -> OutgoingRequest {
        let request = Request::builder().method(method).uri("/page");
        Box::new(request.body(RequestBody::Empty).unwrap())
    }

    #[test]
    fn a_request_is_sent_again_only_where_the_origin_cannot_have_processed_it() {
        use Failure::{Reset, Terminated};
        use Reuse::{Allowed, Forbidden};
        let get = || request(Method::GET);
        let post = || request(Method::POST);
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("not sent", Lost::Unsent(post()), false, Allowed, Ok("at once")),
            ("not sent, on the last connection", Lost::Unsent(get()), true, Allowed, Err(Terminated)),
            ("refused", Lost::Unprocessed(post()), true, Allowed, Ok("judged again")),
            ("refused again", Lost::Unprocessed(post()), false, Forbidden, Ok("judged again")),
            ("left behind", Lost::LeftBehind(post(), false), true, Forbidden, Ok("judged again")),
            ("left behind by others", Lost::LeftBehind(post(), true), true, Forbidden, Ok("not counted")),
            ("cut", Lost::Cut(get()), true, Allowed, Ok("judged again")),
            ("cut, and not safe", Lost::Cut(post()), true, Allowed, Err(Terminated)),
            ("cut again", Lost::Cut(get()), true, Forbidden, Err(Terminated)),
            ("wanted by HTTP/1.1", Lost::WantsHttp1(Some(post())), true, Forbidden, Ok("at once")),
            ("wanted by HTTP/1.1, body begun", Lost::WantsHttp1(None), true, Allowed, Err(Reset)),
            ("reset", Lost::Sent(Reset), false, Allowed, Err(Reset)),
        ];
        for (name, lost, is_last, reuse, expected) in cases {
            let found = match lost.send_again(is_last, None, reuse) {
                Ok(_) => Ok("at once"),
                Err(AttemptEnd::Lost(_)) => Ok("judged again"),
                Err(AttemptEnd::LeftBehind(_)) => Ok("not counted"),
                Err(AttemptEnd::Failed(failure)) => Err(failure),
                Err(AttemptEnd::Overtaken(_)) => Ok("overtaken"),
            };
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn three_new_connections_are_made_for_a_request_that_was_not_sent() {
        let by = |is_http1: bool| {
            let mut new = NewConnections::default();
            (1..=5).find(|_| new.count(is_http1))
        };
        assert_eq!(by(false), Some(3), "by HTTP/2");
        assert_eq!(by(true), Some(1), "by HTTP/1.1");
    }
}
