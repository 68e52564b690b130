//! Serves HTTP/2 to crawlers: inside intercepted tunnels, and on listeners with TLS.
//!
//! Each stream is an exchange like any other; [`stream`] runs one. This module accepts the streams of a connection and
//! ends it: when it is idle, when it has to make room, when the proxy stops, and when the crawler resets streams too
//! often. It stands on the `h2` crate and not on hyper's server, which sends no interim responses and ends the body of a
//! request that the crawler resets with NO_ERROR as if it were whole: an origin would be sent half of an upload.
//! The rules on a request's form that `h2` leaves open are in [`form`].

pub mod form;
mod resets;
mod stream;
mod tunnel;
mod upload;
mod websocket;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, interval_at, timeout};
use tracing::debug;

use self::resets::Resets;
pub use self::stream::Http2Exchange;
use self::stream::{Flush, Stream};
pub use self::tunnel::Tunnel;
pub use self::upload::Upload;
use super::checked_stream::{CHANCE, ConnectionTimeouts};
use super::connection_state::ConnectionState;
use super::counts::Http2End;
use super::downstream::{Connection, Downstream};
use super::limits::ConnectionSlot;
use super::target::Scope;
use crate::client::AuthCache;
use crate::config::Limits;

/// The protocol's name in a TLS handshake (RFC 9113 3.1).
pub const ALPN: &[u8] = b"h2";

/// Octets of one stream's answer that wait for the crawler.
const SEND_BUFFER: usize = 65_536;

/// Streams that a crawler may reset before the connection's task has seen them.
const PENDING_RESETS: usize = 20;

/// Streams that the proxy reset because of their form; a connection with more is closed.
const LOCAL_RESETS: usize = 256;

/// Periods of silence that make a connection idle.
const QUIET_PERIODS: u32 = 4;

/// Time for new streams when the proxy stops: a tunnel that was opened just now may be in its handshake.
const DRAINING: Duration = Duration::from_secs(5);

/// Serves HTTP/2 on `io` until either side closes it. Boxed: a tunnel is served inside this same function.
pub fn serve<S>(
    io: S,
    downstream: Downstream,
    scope: Scope,
) -> Pin<Box<dyn Future<Output = ()> + Send>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(async move {
        let proxy = Arc::clone(&downstream.proxy);
        let ended = run(io, downstream, scope).await;
        proxy.counts.http2_ended(ended);
    })
}

/// A connection that has exchanged its prefaces.
type Http2<S> = h2::server::Connection<S, Bytes>;

/// Progress of a connection towards its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// New streams are served.
    Open,
    /// The proxy stops: streams that have begun are served to their end.
    Draining,
    /// The connection is idle or makes room: streams that are on their way are served to their end.
    Leaving,
    /// New streams are refused. The crawler may not have confirmed the end: it cannot put it off.
    Ending,
}

/// Exchanges the prefaces.
async fn shake<S>(
    io: S,
    builder: Builder,
    patience: Duration,
    downstream: &Downstream,
) -> Result<Http2<S>, Http2End>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = timeout(patience, builder.handshake(io));
    tokio::select! {
        shaken = handshake => match shaken {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(broken(downstream.peer.address, &error)),
            Err(_) => Err(Http2End::Closed),
        },
        () = downstream.proxy.stop.cancelled() => Err(Http2End::Closed),
        () = downstream.slot.has_to_leave() => Err(Http2End::Closed),
    }
}

fn broken(client: SocketAddr, error: &h2::Error) -> Http2End {
    debug!(%client, %error, "an HTTP/2 connection ended early");
    Http2End::of(error)
}

/// Ends the connection of a crawler that resets too many streams, whether it reads on or not.
async fn expel<S: AsyncRead + AsyncWrite + Unpin>(mut connection: Http2<S>) -> Http2End {
    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
    let closed = poll_fn(|cx| connection.poll_closed(cx));
    drop(timeout(CHANCE, closed).await);
    Http2End::Resets
}

/// Periods in which a connection has carried nothing.
#[derive(Default)]
struct Idleness {
    periods: u32,
    last_end: u64,
}

impl Idleness {
    /// Tells whether an exchange has ended since the last call.
    fn has_ended(&mut self, slot: &ConnectionSlot) -> bool {
        let last_end = slot.last_end();
        std::mem::replace(&mut self.last_end, last_end) != last_end
    }

    /// Counts a period, and tells whether the connection is idle.
    fn is_reached(&mut self, is_active: bool) -> bool {
        self.periods = if is_active { 0 } else { self.periods + 1 };
        self.periods >= QUIET_PERIODS
    }
}

async fn run<S>(io: S, downstream: Downstream, scope: Scope) -> Http2End
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (proxy, slot) = (Arc::clone(&downstream.proxy), Arc::clone(&downstream.slot));
    let client = downstream.peer.address;
    let is_turned_away = downstream.turned_away.is_some();
    let (builder, timeouts, resets) = {
        let settings = proxy.settings.load();
        let limits = &settings.limits;
        let timeouts = ConnectionTimeouts::of(limits, is_turned_away);
        let resets = Arc::new(Resets::new(limits.http2_resets));
        (builder(limits), timeouts, resets)
    };
    let mut connection = match shake(io, builder, timeouts.header, &downstream).await {
        Ok(connection) => connection,
        Err(end) => return end,
    };
    let state = Arc::new(ConnectionState::of(&slot));
    let shared = Arc::new(Connection {
        downstream,
        scope,
        auth_cache: AuthCache::default(),
    });
    let flush = Arc::<Flush>::default();
    // A stream's task has begun no exchange when it is accepted, and may send the rest of an answer after it.
    let carries = || Arc::strong_count(&shared) > 1 || slot.is_busy();
    let mut phase = Phase::Open;
    let mut idleness = Idleness::default();
    let quiet = timeouts.idle / QUIET_PERIODS;
    let mut ticks = interval_at(Instant::now() + quiet, quiet);
    loop {
        tokio::select! {
            biased;
            // First: no flood of streams puts the end off.
            _ = ticks.tick() => match phase {
                Phase::Open => {
                    let is_active = !is_turned_away && (carries() || idleness.has_ended(&slot));
                    if idleness.is_reached(is_active) {
                        phase = Phase::Leaving;
                        ticks = interval_at(Instant::now() + CHANCE, CHANCE);
                        connection.graceful_shutdown();
                    }
                }
                Phase::Draining | Phase::Leaving | Phase::Ending => {
                    if !carries() {
                        return Http2End::Closed;
                    }
                    phase = Phase::Ending;
                }
            },
            accepted = connection.accept() => match accepted {
                Some(Ok((_, mut respond))) if phase == Phase::Ending => {
                    respond.send_reset(Reason::REFUSED_STREAM);
                }
                Some(Ok((request, respond))) => {
                    let stream = Stream {
                        connection: Arc::clone(&shared),
                        state: Arc::clone(&state),
                        resets: Arc::clone(&resets),
                        flush: Arc::clone(&flush),
                        bounds: timeouts.bounds,
                        taking: timeouts.taking,
                    };
                    proxy.spawn(stream.run(request, respond));
                }
                Some(Err(error)) => return broken(client, &error),
                None => return Http2End::Closed,
            },
            // Behind `accept`, which has written all frames by then.
            () = flush.asked() => flush.done(),
            () = resets.exceeded() => {
                debug!(%client, "an HTTP/2 connection reset too many streams");
                return expel(connection).await;
            }
            () = proxy.stop.cancelled(), if phase == Phase::Open => {
                phase = Phase::Draining;
                ticks = interval_at(Instant::now() + DRAINING, CHANCE);
                state.drain();
                connection.graceful_shutdown();
            }
            () = slot.has_to_leave(), if matches!(phase, Phase::Open | Phase::Draining) => {
                phase = Phase::Leaving;
                ticks = interval_at(Instant::now() + CHANCE, CHANCE);
                connection.graceful_shutdown();
            }
        }
    }
}

fn builder(limits: &Limits) -> Builder {
    // Beyond this size `h2` answers on its own, without a record: a head between the two is refused like any other.
    let head = limits.header_bytes.saturating_mul(2);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.http2_streams)
        .initial_window_size(limits.http2_window)
        .initial_connection_window_size(limits.http2_window.saturating_mul(4))
        .max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(Some(LOCAL_RESETS))
        .enable_connect_protocol();
    builder
}
