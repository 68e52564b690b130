//! The connection itself: its settings, its signs of life, its end.

use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Ping, PingPong};
use http::uri::Authority;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::super::Failure;
use super::fields::FIELDS;
use super::sections::{Measured, Sections, Status};
use crawlgate_net::http2_body::MAX_DATA;
use crawlgate_net::turn_flush::{Holding, hold};

/// Longest DATA frame that an origin may send: it makes four that are full for the crawler.
const FRAME: u32 = 4 * MAX_DATA as u32;

/// Largest window (RFC 9113 6.9.1).
const MAX_WINDOW: u32 = (1 << 31) - 1;

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
pub(in super::super) struct Bounds {
    /// Most streams, even if the origin permits more.
    pub(in super::super) streams: u32,
    /// Octets of a response that the origin may send before the crawler has taken any.
    pub(in super::super) window: u32,
}

impl Bounds {
    /// Returns the window of a connection: that of all its streams.
    fn of_connection(self) -> u32 {
        self.window.saturating_mul(self.streams).min(MAX_WINDOW)
    }
}

/// The sending side of a connection.
pub(in super::super) struct Connection {
    pub(super) sender: SendRequest<Bytes>,
    pub(super) authority: Authority,
    /// The address that was dialled.
    pub(in super::super) peer: SocketAddr,
    pub(super) status: Arc<Status>,
}

impl Connection {
    /// Prepares a stream for requests. `changed` is notified when the origin's SETTINGS have arrived and when the
    /// connection has ended; `held` is dropped at its end.
    pub(in super::super) async fn handshake<S>(
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
        Ok(Connection { sender, authority, peer, status })
    }

    /// Returns the number of streams that the origin permits at present.
    pub(in super::super) fn most_streams(&self) -> usize {
        self.sender.current_max_send_streams()
    }

    /// Tells whether the origin takes WebSockets on streams (RFC 8441 3).
    pub(in super::super) fn takes_websockets(&self) -> bool {
        self.sender.is_extended_connect_protocol_enabled()
    }

    /// Tells whether the number of streams that the origin permits is known.
    pub(in super::super) fn is_settled(&self) -> bool {
        self.status.is_settled.load(Ordering::Acquire)
    }

    /// Tells whether no further stream can be opened.
    pub(in super::super) fn is_over(&self) -> bool {
        self.status.is_over.load(Ordering::Acquire)
    }

    /// Opens no further stream. Open ones go on.
    pub(in super::super) fn retire(&self) {
        self.status.is_over.store(true, Ordering::Release);
    }

    /// Tells whether the origin has processed a request on a connection that goes away.
    pub(in super::super) fn has_served(&self) -> bool {
        self.status.last_stream.load(Ordering::Acquire) > 0
    }

    /// Notes that the origin breaks the rules of HTTP/2.
    pub(in super::super) fn break_off(&self) {
        self.status.is_broken.store(true, Ordering::Release);
        self.retire();
    }

    /// Tells whether the origin breaks the rules of HTTP/2.
    pub(in super::super) fn is_broken(&self) -> bool {
        self.status.is_broken.load(Ordering::Acquire)
    }

    /// Counts an exchange that begins.
    pub(in super::super) fn begin(&self) {
        self.status.exchanges.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an exchange that has ended.
    pub(in super::super) fn end(&self) {
        self.status.exchanges.fetch_sub(1, Ordering::Relaxed);
    }

    /// Asks the origin for a sign of life: the connection was silent, and may have been lost.
    pub(in super::super) fn probe(&self) {
        self.status.probe.notify_one();
    }
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
pub(in super::super) mod tests;
