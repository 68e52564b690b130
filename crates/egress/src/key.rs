//! The requests that may share a connection, and the way in which a request shares its own.

use std::sync::Arc;

use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue};

use crawlgate_robots::Origin;

/// The requests that may share a connection: those of one client to one origin, which always takes the same route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    origin: Origin,
    /// The client's name, if clients are told apart: one client's requests cannot affect another's answers.
    client: Option<Arc<str>>,
    /// The number of the crawler connection's pin, if the connection belongs only to that.
    pin: Option<u64>,
}

impl Key {
    pub(super) fn new(origin: &Origin, client: Option<Arc<str>>) -> Key {
        Key { origin: origin.clone(), client, pin: None }
    }

    /// Returns the key of the pinned connection with this number.
    pub(super) fn pinned(&self, number: u64) -> Key {
        Key { pin: Some(number), ..self.clone() }
    }

    /// Tells whether a pinned connection has this key.
    pub(super) fn is_pinned(&self) -> bool {
        self.pin.is_some()
    }

    /// Tells whether this is the key of a pinned connection for requests with that other key.
    pub(super) fn is_pin_of(&self, other: &Key) -> bool {
        self.origin == other.origin && self.client == other.client
    }

    /// Returns the origin of the connection.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
}

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
    /// The same, and octets behind the response make it invalid ([`http1`](super::http1)).
    Whole,
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
    /// Returns the protocols to offer on a new connection: none is made for a WebSocket by HTTP/2, since the origin may
    /// not take one.
    pub(super) fn of_new_connection(self) -> Protocols {
        match self {
            Protocols::WebSocket => Protocols::Http1,
            protocols => protocols,
        }
    }
}
