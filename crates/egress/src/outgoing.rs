//! A request on its way out, and the ends that it may come to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response, StatusCode, Version};

use super::failure::Failure;
use super::pinned::Pinned;
use super::request_body::RequestBody;
use super::response_body::ResponseBody;
use crawlgate_policy::Target;

/// The proxies that a request has passed, as `Via` names them. It is carried beside the request and sent to upstream
/// proxies, so that requests that go in a circle are detected even if they carry no `Via`.
#[derive(Clone, Debug)]
pub struct ViaChain(pub(super) Arc<str>);

impl From<String> for ViaChain {
    fn from(via: String) -> ViaChain {
        ViaChain(via.into())
    }
}

/// The connections that a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Any connection.
    Allowed,
    /// No used HTTP/1.1 connection: one was lost with the request before. A shared connection that was lost takes no
    /// request anyway.
    Forbidden,
}

/// A page that got no answer.
#[derive(Debug)]
pub enum Unsent {
    /// The attempt failed.
    Failed(Failure),
    /// Nothing was sent, because a change has overtaken the permit. The request is to be judged again, then sent.
    Overtaken(Box<Resend>),
    /// Its connection had been used before and was lost with the request, which is safe to be sent twice (RFC 9110
    /// 9.2.2); or the origin says that it did not process the request (RFC 9113 8.7). The request is to be judged again,
    /// then sent once more.
    Lost(Box<Resend>),
    /// The same, on a connection on which the origin has processed other requests: it closes each connection after some.
    LeftBehind(Box<Resend>),
}

/// The mark of a request that asks for the server as a whole, and not for the root, which it is judged as (RFC 9112 3.2.4).
#[derive(Debug, Clone, Copy)]
pub struct AsteriskForm;

/// The crawler that a request comes from.
#[derive(Debug)]
pub struct Crawler {
    /// The client's name, if clients are told apart.
    pub client: Option<Arc<str>>,
    /// The connections that belong to the crawler connection that the request came by.
    pub pinned: Arc<Pinned>,
}

/// A request on its way to its origin. Boxed: it passes through many futures, each of which would have room for it.
pub type OutgoingRequest = Box<Request<RequestBody>>;

/// The parts of a page request that are needed to send it again.
pub struct Resend {
    /// The target that it asks for.
    pub target: Target,
    /// Its head, and its body if it has one.
    pub request: OutgoingRequest,
}

impl fmt::Debug for Resend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Resend").field(&self.target).finish()
    }
}

/// A response head and the address that sent it.
#[derive(Debug)]
pub struct Received {
    /// The head, with the body to come. Boxed, as the request is.
    pub response: Box<Response<ResponseBody>>,
    /// The address that was dialled.
    pub peer: SocketAddr,
    /// True if the request had to wait for a place on a connection: the time to the response says nothing about the
    /// origin.
    pub was_crowded: bool,
}

impl Received {
    /// Tells whether the origin wants the request by another connection than a shared one (RFC 9110 15.5.20).
    pub(super) fn is_misdirected(&self) -> bool {
        self.response.status() == StatusCode::MISDIRECTED_REQUEST
            && self.response.version() == Version::HTTP_2
    }
}

/// A tunnel that got no connection.
#[derive(Debug)]
pub enum Unconnected {
    /// The attempt failed.
    Failed(Failure),
    /// A change has overtaken its permit: the tunnel is to be judged again.
    Overtaken(Target),
}
