//! The way a request shares its connection with other requests.

use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue};

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
    /// Only HTTP/1.1: the request is not encrypted, or asks to switch protocols, which HTTP/2 does otherwise.
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
