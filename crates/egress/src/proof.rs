//! The permit of a request, and the proof that it holds at the moment of sending.

use std::time::Duration;

use http::Request;
use http::header::{SEC_WEBSOCKET_KEY, UPGRADE};
use http::uri::PathAndQuery;
use hyper::body::Body as _;

use super::key::Key;
use super::key::{Protocols, Sharing};
use super::pinned::Pinned;
use super::{Crawler, RequestBody};
use crawlgate_policy::generation::Changes;
use crawlgate_policy::{Current, Permit};
use crawlgate_robots::{Origin, Scheme};

/// The time-outs of a fetch.
#[derive(Debug, Clone, Copy)]
pub struct FetchTimeouts {
    /// For a connection, name look-up and TLS included.
    pub connect: Duration,
    /// For the head of the answer from then on.
    pub first_byte: Duration,
}

/// The target of a fetch.
#[derive(Debug)]
pub(super) struct RobotsTarget {
    pub(super) origin: Origin,
    pub(super) path: PathAndQuery,
    pub(super) timeouts: FetchTimeouts,
}

/// The purpose of a request, with its permit.
#[derive(Debug, Clone, Copy)]
pub(super) enum SendPermit<'a> {
    /// A cleared page, for this crawler: no other client's requests share its connections.
    Page(&'a Permit, &'a Crawler),
    /// A robots.txt, which needs no clearance.
    Robots(&'a RobotsTarget),
}

/// The proof that one request may leave right now.
#[derive(Debug, Clone, Copy)]
pub(super) enum Proof<'a> {
    Page(#[allow(dead_code, reason = "held, not read")] Current<'a>),
    Robots(#[allow(dead_code, reason = "held, not read")] &'a RobotsTarget),
}

impl<'a> SendPermit<'a> {
    /// Returns the proof that the request may leave; `None` if a change has overtaken the permit.
    pub(super) fn proof(self, changes: &Changes) -> Option<Proof<'a>> {
        match self {
            SendPermit::Page(permit, _) => permit.current(changes).map(Proof::Page),
            SendPermit::Robots(target) => Some(Proof::Robots(target)),
        }
    }

    /// Returns the pinned connections of the crawler connection that the request came by.
    pub(super) fn pinned(self) -> Option<&'a Pinned> {
        match self {
            SendPermit::Page(_, crawler) => Some(&crawler.pinned),
            SendPermit::Robots(_) => None,
        }
    }

    /// Returns the time-outs for a connection and, from then on, for the response head: a page waits for the head
    /// as long as its caller does.
    pub(super) fn timeouts(self, to_connect: Duration) -> (Duration, Option<Duration>) {
        match self {
            SendPermit::Page(..) => (to_connect, None),
            SendPermit::Robots(target) => {
                let FetchTimeouts { connect, first_byte } = target.timeouts;
                (connect, Some(first_byte))
            }
        }
    }

    /// Returns the connections that may carry the request, and its path there.
    pub(super) fn destination(self) -> (Key, &'a PathAndQuery) {
        match self {
            SendPermit::Page(permit, crawler) => {
                let target = permit.target();
                (Key::new(&target.origin, crawler.client.clone()), &target.path)
            }
            SendPermit::Robots(target) => (Key::new(&target.origin, None), &target.path),
        }
    }

    /// A server that does not expect a body leaves it unread, and then reads it as the next request. That request was
    /// not judged, and its answer goes to the next request on the connection. No method is safe from this: a handler of
    /// POST may answer without reading, too. A robots.txt binds all crawlers, so its fetch trusts no connection that
    /// carried a crawler's request.
    ///
    /// The login of a pinned connection is needed for a body, too: it goes by that connection, as its last request.
    pub(super) fn sharing(self, request: &Request<RequestBody>, is_pinned: bool) -> Sharing {
        match self {
            SendPermit::Page(..) if request.body().is_end_stream() => Sharing::Pooled,
            SendPermit::Page(..) if is_pinned => Sharing::Last,
            SendPermit::Page(..) => Sharing::Alone,
            SendPermit::Robots(_) => Sharing::Whole,
        }
    }

    /// Returns the protocols for a request to an origin of this scheme.
    pub(super) fn protocols(self, scheme: Scheme, request: &Request<RequestBody>) -> Protocols {
        match self {
            _ if scheme != Scheme::Https => Protocols::Http1,
            SendPermit::Robots(_) => Protocols::New,
            SendPermit::Page(..) if request.headers().contains_key(UPGRADE) => {
                if request.headers().contains_key(SEC_WEBSOCKET_KEY) {
                    Protocols::WebSocket
                } else {
                    Protocols::Http1
                }
            }
            SendPermit::Page(..) => Protocols::Shared,
        }
    }
}
