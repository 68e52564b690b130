//! One HTTP/2 connection to an origin, which carries several exchanges at once (RFC 9113).
//!
//! The `h2` crate is used directly. hyper's client would pass a request on through a queue after its permit was
//! checked; it drops interim responses, ends a body that the origin resets with `NO_ERROR` as if it were whole, and does
//! not give back a request that the origin has refused.
//!
//! Windows bound the memory of a stream: an origin sends no more than a window before the crawler has taken it. The
//! window of the connection holds the windows of all its streams, so that crawlers that do not read keep no other
//! stream waiting.

mod body;
mod exchange;
mod fields;
mod sections;
mod websocket;

use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Ping, PingPong};
use http::HeaderMap;
use http::uri::Authority;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

pub(super) use self::body::Body;
pub(super) use self::exchange::{Rejected, open};
pub(super) use self::sections::TOO_LONG;
use self::sections::{Measured, Sections};
pub(super) use self::websocket::Switched;
use super::Failure;
use crawlgate_net::http2_body::MAX_DATA;
use crawlgate_net::turn_flush::{Holding, hold};

/// Longest DATA frame that an origin may send: it makes four that are full for the crawler.
const FRAME: u32 = 4 * MAX_DATA as u32;

/// Largest window (RFC 9113 6.9.1).
const MAX_WINDOW: u32 = (1 << 31) - 1;

/// Most octets of the fields of a head or of trailers, each with 32 more (RFC 9113 6.5.2).
const FIELDS: usize = 256 * 1024;

/// Octets of fields from which on `h2` drops those of trailers, and resets the stream of a head. What it keeps of such trailers
/// is beyond [`FIELDS`], unless a single field has twice as many octets and a whole table (RFC 7541 4.2): `sections` finds
/// that one.
const SECTION: u32 = 3 * FIELDS as u32 + TABLE;

/// Octets of the table of fields, by default.
const TABLE: u32 = 4096;

/// Streams that were reset here and that late frames of the origin may still name.
const RESET_STREAMS: usize = 256;

/// Time between two PINGs on a connection with exchanges. An idle one is not kept alive.
const PING_EVERY: Duration = Duration::from_secs(15);

/// Time that an origin has to answer a PING before its connection counts as lost.
const PONG_WITHIN: Duration = Duration::from_secs(10);

/// Bounds of each connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Most streams, even if the origin permits more.
    pub(super) streams: u32,
    /// Octets of a response that the origin may send before the crawler has taken any.
    pub(super) window: u32,
}

impl Bounds {
    /// Returns the window of a connection: that of all its streams.
    fn of_connection(self) -> u32 {
        self.window.saturating_mul(self.streams).min(MAX_WINDOW)
    }
}

/// The sending side of a connection.
pub(super) struct Connection {
    sender: SendRequest<Bytes>,
    authority: Authority,
    /// The address that was dialled.
    pub(super) peer: SocketAddr,
    status: Arc<Status>,
}

/// The state of a connection, shared with the task that moves its octets.
#[derive(Debug, Default)]
struct Status {
    /// The origin's first SETTINGS are there.
    is_settled: AtomicBool,
    /// It takes no further stream.
    is_over: AtomicBool,
    /// A request on it got the head of its response.
    has_answered: AtomicBool,
    /// The origin broke the rules of HTTP/2 on it.
    is_broken: AtomicBool,
    /// The last stream that the origin has processed, as its GOAWAY says; 0 before one.
    last_stream: AtomicU32,
    /// Exchanges on it.
    exchanges: AtomicUsize,
    /// Asks for a PING at once.
    probe: Notify,
}

impl Connection {
    /// Prepares a stream for requests. `changed` is notified when the origin's SETTINGS have arrived and when the
    /// connection has ended; `held` is dropped at its end.
    pub(super) async fn handshake<S>(
        io: S,
        (peer, authority): (SocketAddr, Authority),
        bounds: Bounds,
        changed: Arc<Notify>,
        held: impl Send + 'static,
    ) -> Result<Connection, Failure>
    where
        S: Holding + Send + 'static,
    {
        let (io, release) = hold(io);
        let status = Arc::<Status>::default();
        let io = Measured::new(io, Sections::of(&status));
        let (sender, mut connection) = client::Builder::new()
            .enable_push(false)
            // One request may go at once; the origin's SETTINGS tell how many others may.
            .initial_max_send_streams(1)
            .initial_window_size(bounds.window)
            .initial_connection_window_size(bounds.of_connection())
            .max_frame_size(FRAME)
            .max_header_list_size(SECTION)
            .max_concurrent_reset_streams(RESET_STREAMS)
            .handshake(io)
            .await
            .map_err(|error| Failure::of(&error))?;
        let seen = Arc::clone(&status);
        let pings = connection.ping_pong();
        tokio::spawn(async move {
            let moving = poll_fn(move |cx| {
                if Pin::new(&mut connection).poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                // A connection that cannot be written to has ended.
                match release.poll_send(cx) {
                    Poll::Ready(Err(_)) => Poll::Ready(()),
                    Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
                }
            });
            tokio::select! {
                () = moving => {}
                () = keep_alive(pings, &seen, &changed) => {}
            }
            seen.is_over.store(true, Ordering::Release);
            changed.notify_waiters();
            drop(held);
        });
        Ok(Connection {
            sender,
            authority,
            peer,
            status,
        })
    }

    /// Returns the number of streams that the origin permits at present.
    pub(super) fn most_streams(&self) -> usize {
        self.sender.current_max_send_streams()
    }

    /// Tells whether the origin takes WebSockets on streams (RFC 8441 3).
    pub(super) fn takes_websockets(&self) -> bool {
        self.sender.is_extended_connect_protocol_enabled()
    }

    /// Tells whether the number of streams that the origin permits is known.
    pub(super) fn is_settled(&self) -> bool {
        self.status.is_settled.load(Ordering::Acquire)
    }

    /// Tells whether no further stream can be opened.
    pub(super) fn is_over(&self) -> bool {
        self.status.is_over.load(Ordering::Acquire)
    }

    /// Opens no further stream. Open ones go on.
    pub(super) fn retire(&self) {
        self.status.is_over.store(true, Ordering::Release);
    }

    /// Tells whether the origin has processed a request on a connection that goes away.
    pub(super) fn has_served(&self) -> bool {
        self.status.last_stream.load(Ordering::Acquire) > 0
    }

    /// Notes that the origin breaks the rules of HTTP/2.
    pub(super) fn break_off(&self) {
        self.status.is_broken.store(true, Ordering::Release);
        self.retire();
    }

    /// Tells whether the origin breaks the rules of HTTP/2.
    pub(super) fn is_broken(&self) -> bool {
        self.status.is_broken.load(Ordering::Acquire)
    }

    /// Counts an exchange that begins.
    pub(super) fn begin(&self) {
        self.status.exchanges.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an exchange that has ended.
    pub(super) fn end(&self) {
        self.status.exchanges.fetch_sub(1, Ordering::Relaxed);
    }

    /// Asks the origin for a sign of life: the connection was silent, and may have been lost.
    pub(super) fn probe(&self) {
        self.status.probe.notify_one();
    }
}

/// Tells whether fields have more than [`FIELDS`] octets.
fn are_too_long(fields: &HeaderMap) -> bool {
    let sizes = fields
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 32);
    sizes.sum::<usize>() > FIELDS
}

/// Sends PINGs while there are exchanges, and returns when one gets no answer. The first one tells that the origin's SETTINGS have arrived: they
/// are its first frame (RFC 9113 3.4).
async fn keep_alive(pings: Option<PingPong>, status: &Status, changed: &Notify) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        match timeout(PONG_WITHIN, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection reports its own end.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
        if !status.is_settled.swap(true, Ordering::AcqRel) {
            changed.notify_waiters();
        }
        loop {
            tokio::select! {
                () = sleep(PING_EVERY) => {}
                () = status.probe.notified() => break,
            }
            if status.exchanges.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests;
