//! One HTTP/1.1 connection to an origin. It carries one exchange at a time.
//!
//! The octets behind a response that has its connection to itself are surplus. A Content-Length that is too small cuts a
//! file: rules behind the cut vanish, and a line that it cuts is obeyed as a shorter one. The request says `Connection: close`, so what the origin sends behind the end of the response belongs to
//! it, and the length is wrong. CR and LF are no such octets: old servers send them, and they end a line at most.
//!
//! The end of the connection shows that nothing follows. An origin that keeps it open is told that no other request
//! comes, and has a moment to close it.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http1::{self, Builder, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

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

/// Time for an origin to close the connection, as the request asks.
const CLOSING: Duration = Duration::from_millis(100);

/// Time for one that keeps it open, once our side is closed.
const CLOSED_HERE: Duration = Duration::from_millis(400);

/// Octets that are read at once.
const READ: usize = 1024;

/// Tells whether octets followed the response; an error if the connection was given up before that was known.
pub(super) type Followed = oneshot::Receiver<bool>;

/// Moves the octets of a connection until its exchange has ended, then tells whether others follow.
pub(super) async fn drive<S>(
    mut connection: http1::Connection<S, RequestBody>,
    told: oneshot::Sender<bool>,
) where
    S: Read + Write + Unpin,
{
    // An error is one of the exchange, which has it, or is about the octets that are looked at below.
    let _ = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    if told.is_closed() {
        return;
    }
    let parts = connection.into_parts();
    let mut io = TokioIo::new(parts.io);
    let follows = are_surplus(&parts.read_buf)
        || match timeout(CLOSING, follow(&mut io)).await {
            Ok(follows) => follows,
            Err(_) => {
                let closing = async {
                    let _ = io.shutdown().await;
                    follow(&mut io).await
                };
                timeout(CLOSED_HERE, closing).await.unwrap_or(false)
            }
        };
    let _ = told.send(follows);
}

/// Reads to the end of the connection; tells at once when surplus octets come.
async fn follow(io: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut octets = [0; READ];
    loop {
        match io.read(&mut octets).await {
            Ok(0) | Err(_) => return false,
            Ok(count) if are_surplus(octets.get(..count).unwrap_or_default()) => return true,
            Ok(_) => {}
        }
    }
}

fn are_surplus(octets: &[u8]) -> bool {
    !octets.iter().all(|octet| matches!(octet, b'\r' | b'\n'))
}
