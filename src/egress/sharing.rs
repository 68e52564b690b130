//! The way a request shares its connection with other requests.

use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Request};
use hyper::body::Body as _;

use super::RequestBody;
use super::proof::SendPermit;

/// The way a request shares its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Other requests use the connection before and after it.
    Pooled,
    /// No other request uses the connection: it sends `Connection: close`.
    Alone,
}

impl Sharing {
    /// A server that does not expect a body leaves it unread, and then reads it as the next request. That request was
    /// not judged, and its answer goes to the next request on the connection. No method is safe from this: a handler of
    /// POST may answer without reading, too. A robots.txt binds all crawlers, so its fetch trusts no connection that
    /// carried a crawler's request.
    pub(super) fn of(send_permit: SendPermit<'_>, request: &Request<RequestBody>) -> Sharing {
        match send_permit {
            SendPermit::Page(..) if request.body().is_end_stream() => Sharing::Pooled,
            SendPermit::Page(..) | SendPermit::Robots(_) => Sharing::Alone,
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
