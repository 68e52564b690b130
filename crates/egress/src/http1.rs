//! One HTTP/1.1 connection to an origin. It carries one exchange at a time.

pub(super) mod surplus;

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::client::conn::http1::{self, Builder, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;

use self::surplus::Followed;
use super::interim::InterimBound;
use super::pin::EndsWith;
use super::response_head::{Heads, ResponseHead};
use super::{Failure, RequestBody};
use crawlgate_net::read_filter::Filtered;

/// Fields of a response. Some origins send more than the hundred that are hyper's default.
const RESPONSE_FIELDS: usize = 512;

/// A connection to an origin.
pub(super) struct Connection {
    pub(super) sender: SendRequest<RequestBody>,
    /// The address that was dialled.
    pub(super) peer: SocketAddr,
    /// The bound on interim responses of its present exchange.
    pub(super) interim: Arc<InterimBound>,
    /// Tells what followed the response; none if nothing looks for it.
    pub(super) followed: Option<Followed>,
    /// The crawler connection that ends with it.
    pub(super) ends_with: Arc<EndsWith>,
    /// The head of the response that comes.
    pub(super) head: Arc<ResponseHead>,
}

/// The octets of a connection, with the heads mended.
type Mended<S> = TokioIo<Filtered<TokioIo<S>, Heads>>;

/// The part of a connection that moves its octets.
type Moving<S> = http1::Connection<Mended<S>, RequestBody>;

impl Connection {
    /// Returns a connection with the task that moves its octets.
    pub(super) fn new(
        (sender, head): (SendRequest<RequestBody>, Arc<ResponseHead>),
        peer: SocketAddr,
        task: AbortHandle,
        ends_with: Arc<EndsWith>,
    ) -> Connection {
        Connection {
            sender,
            peer,
            interim: Arc::new(InterimBound::new(task)),
            followed: None,
            ends_with,
            head,
        }
    }
}

/// Prepares a stream for requests. The last part of the result moves their octets.
pub(super) async fn handshake<S: Read + Write + Unpin>(
    io: S,
) -> Result<(SendRequest<RequestBody>, Arc<ResponseHead>, Moving<S>), Failure> {
    let head = Arc::<ResponseHead>::default();
    let io = TokioIo::new(Filtered::new(TokioIo::new(io), Heads::of(&head)));
    let (sender, connection) = Builder::new()
        // Field names as the crawler writes them, and in the usual case if it gives no case.
        .preserve_header_case(true)
        .title_case_headers(true)
        // A proxy mends these before it forwards (RFC 9112 5.1 and 5.2); hyper does.
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        // Clients accept such lines from origins, so crawlers would lose pages that they get without a proxy. A
        // line that is no field is left out: a well-formed answer cannot hold it.
        .ignore_invalid_headers_in_responses(true)
        .max_headers(RESPONSE_FIELDS)
        .handshake(io)
        .await
        .map_err(|error| Failure::of(&error))?;
    Ok((sender, head, connection))
}
