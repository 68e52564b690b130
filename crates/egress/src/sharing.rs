//! The way a request shares its connection with other requests.

use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderMap, HeaderValue, Request};
use hyper::body::Body as _;

use super::RequestBody;
use super::proof::SendPermit;
use crawlgate_robots::Scheme;

/// The way a request shares an HTTP/1.1 connection. With HTTP/2 a request is a stream, and its body cannot be read as
/// another request: all pages share. A robots.txt gets a new connection there, too, and is the first request on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Other requests use the connection before and after it.
    Pooled,
    /// Other requests have used the connection before, and none does after it: it sends `Connection: close`.
    Last,
    /// No other request uses the connection: it sends `Connection: close`.
    Alone,
    /// The same, and octets behind the response make it invalid ([`surplus`](super::http1::surplus)).
    Whole,
}

impl Sharing {
    /// A server that does not expect a body leaves it unread, and then reads it as the next request. That request was
    /// not judged, and its answer goes to the next request on the connection. No method is safe from this: a handler of
    /// POST may answer without reading, too. A robots.txt binds all crawlers, so its fetch trusts no connection that
    /// carried a crawler's request.
    ///
    /// The login of a pinned connection is needed for a body, too: it goes by that connection, as its last request.
    pub(super) fn of(
        send_permit: SendPermit<'_>,
        request: &Request<RequestBody>,
        is_pinned: bool,
    ) -> Sharing {
        match send_permit {
            SendPermit::Page(..) if request.body().is_end_stream() => Sharing::Pooled,
            SendPermit::Page(..) if is_pinned => Sharing::Last,
            SendPermit::Page(..) => Sharing::Alone,
            SendPermit::Robots(_) => Sharing::Whole,
        }
    }
}

/// Adds `close` to the options of the Connection field (RFC 9110 7.6.1). A request that was judged again has it
/// already.
pub(super) fn say_close(headers: &mut HeaderMap) {
    let mut options = headers.get_all(CONNECTION).iter();
    if !options.any(|option| option.as_bytes() == b"close") {
        headers.append(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// The protocols that a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocols {
    /// HTTP/1.1 alone: it is not encrypted, or asks to switch protocols, which HTTP/2 does otherwise.
    Http1,
    /// HTTP/1.1, or a stream of a connection that is there already and takes WebSockets (RFC 8441).
    WebSocket,
    /// Also a stream of a shared HTTP/2 connection.
    Shared,
    /// Also HTTP/2, on a new connection. Others may use that afterwards.
    New,
}

impl Protocols {
    /// Returns the protocols for a request to an origin of this scheme.
    pub(super) fn of(
        send_permit: SendPermit<'_>,
        scheme: Scheme,
        request: &Request<RequestBody>,
    ) -> Protocols {
        match send_permit {
            _ if scheme != Scheme::Https => Protocols::Http1,
            SendPermit::Robots(_) => Protocols::New,
            SendPermit::Page(..) if request.headers().contains_key(UPGRADE) => {
                match request.headers().contains_key(SEC_WEBSOCKET_KEY) {
                    true => Protocols::WebSocket,
                    false => Protocols::Http1,
                }
            }
            SendPermit::Page(..) => Protocols::Shared,
        }
    }

    /// Returns the protocols to offer on a new connection: none is made for a WebSocket by HTTP/2, since the origin may
    /// not take one.
    pub(super) fn of_new_connection(self) -> Protocols {
        match self {
            Protocols::WebSocket => Protocols::Http1,
            protocols => protocols,
        }
    }
}
