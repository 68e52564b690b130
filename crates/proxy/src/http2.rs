//! Serves HTTP/2 to crawlers: inside intercepted tunnels, and on listeners with TLS.
//!
//! Each stream is an exchange like any other; [`stream`] runs one. This module accepts the streams of a connection and
//! ends it: when it is idle, when it has to make room, when the proxy stops, behind an answer that says so, and when the
//! crawler exceeds a bound of [`abuse`]. It stands on the `h2` crate and not on hyper's server, which sends no interim
//! responses and ends the body of a request that the crawler resets with NO_ERROR as if it were whole: an origin would be
//! sent half of an upload.
//! The rules on a request's form that `h2` leaves open are in [`form`].

mod abuse;
pub mod form;
mod stream;
mod upload;
mod watched;
mod websocket;

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use tokio::time::{Instant, Interval, interval_at, timeout};
use tracing::debug;

use self::abuse::Abuse;
use self::stream::Shared;
pub use self::upload::Upload;
use self::watched::{Watch, Watched};
use super::checked_stream::{CHANCE, ConnectionTimeouts};
use super::connection::Downstream;
use super::counts::Http2End;
use super::limits::ConnectionSlot;
use super::linger::{Activity, Lingering};
use super::target::Scope;
use crawlgate_config::Limits;
use crawlgate_net::read_filter::Filtered;
use crawlgate_net::turn_flush::{HeldWrites, Holding, Release, hold};

/// The protocol's name in a TLS handshake (RFC 9113 3.1).
pub const ALPN: &[u8] = b"h2";

/// Octets of one stream's answer that wait for the crawler.
const SEND_BUFFER: usize = 65_536;

/// Octets that SETTINGS_MAX_HEADER_LIST_SIZE counts for a field beside its name and value (RFC 9113 6.5.2).
const FIELD: usize = 32;

/// Octets of the table that a crawler's fields may refer to (RFC 7541 4.2), counted with [`FIELD`] for each entry.
const TABLE: usize = 4096;

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
    S: Holding + Send + 'static,
{
    // Held before the first step: each step's future would have room for a session.
    let held = hold(io);
    Box::pin(async move {
        let proxy = Arc::clone(&downstream.proxy);
        let ended = run(held, downstream, scope).await;
        proxy.counts.http2_ended(ended);
    })
}

/// A connection that has exchanged its prefaces.
type Http2<S> = h2::server::Connection<Io<S>, Bytes>;

/// The octets of a connection, as `h2` reads and writes them.
type Io<S> = Watched<Lingering<HeldWrites<S>>>;

/// Progress of a connection towards its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// New streams are served.
    Open,
    /// The proxy stops: streams that have begun are served to their end.
    Draining,
    /// New streams are refused. The crawler may still read the last answers, and confirms the end behind them.
    Drained,
    /// The connection is idle, makes room or has had its last answer: streams that are on their way are served to their
    /// end.
    Leaving,
    /// New streams are refused. The crawler may not have confirmed the end: it cannot put it off.
    Ending,
}

/// Exchanges the prefaces.
async fn handshake<S>(
    io: Io<S>,
    release: &Release<S>,
    builder: Builder,
    patience: Duration,
    downstream: &Downstream,
) -> Result<Http2<S>, Http2End>
where
    S: Holding,
{
    let mut handshake = pin!(builder.handshake(io));
    let handshake = poll_fn(|cx| {
        let shaken = handshake.as_mut().poll(cx);
        // `h2` reports the end of a connection that cannot be written to.
        let _ = release.poll_send(cx);
        shaken
    });
    let handshake = timeout(patience, handshake);
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

/// Waits for the next stream. Before it waits, it has all frames sent that are ready.
async fn accept<S: Holding>(
    connection: &mut Http2<S>,
    release: &Release<S>,
) -> Option<Result<(Request<RecvStream>, SendResponse<Bytes>), h2::Error>> {
    let mut accepting = pin!(connection.accept());
    poll_fn(|cx| {
        if let Poll::Ready(accepted) = accepting.as_mut().poll(cx) {
            return Poll::Ready(accepted);
        }
        match release.poll_send(cx) {
            // The crawler has gone.
            Poll::Ready(Err(_)) => Poll::Ready(None),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Ends the connection of a crawler that exceeds a bound, whether it reads on or not.
async fn terminate<S: Holding>(mut connection: Http2<S>) {
    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
    let closed = poll_fn(|cx| connection.poll_closed(cx));
    drop(timeout(CHANCE, closed).await);
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

async fn run<S>(
    (io, release): (HeldWrites<S>, Release<S>),
    downstream: Downstream,
    scope: Scope,
) -> Http2End
where
    S: Holding + Send + 'static,
{
    let is_turned_away = downstream.turned_away.is_some();
    let (builder, timeouts, most_trailers, abuse) = {
        let settings = downstream.proxy.settings.load();
        let limits = &settings.limits;
        let timeouts = ConnectionTimeouts::of(limits, is_turned_away);
        (
            builder(limits),
            timeouts,
            most_trailers(limits),
            Arc::new(Abuse::new(limits, downstream.proxy.clock())),
        )
    };
    let io = Lingering::new(io, timeouts.linger);
    let activity = io.activity();
    let io = Filtered::new(io, Watch::new(timeouts.header, most_trailers, Arc::clone(&abuse)));
    let shaken = Box::pin(handshake(io, &release, builder, timeouts.header, &downstream));
    let connection = match shaken.await {
        Ok(connection) => connection,
        Err(end) => return end,
    };
    let quiet = timeouts.idle / QUIET_PERIODS;
    let serving = Box::new(Serving {
        connection,
        release,
        activity,
        shared: Arc::new(Shared::new(downstream, scope, timeouts, abuse)),
        is_turned_away,
        phase: Phase::Open,
        idleness: Idleness::default(),
        ticks: interval_at(Instant::now() + quiet, quiet),
    });
    serving.run().await
}

/// A connection that is served.
struct Serving<S> {
    connection: Http2<S>,
    release: Release<S>,
    activity: Activity,
    /// Each stream under way holds a clone.
    shared: Arc<Shared>,
    is_turned_away: bool,
    phase: Phase,
    idleness: Idleness,
    ticks: Interval,
}

impl<S> Serving<S>
where
    S: Holding + Send + 'static,
{
    async fn run(mut self: Box<Self>) -> Http2End {
        let (proxy, slot) = {
            let downstream = &self.shared.connection.downstream;
            (Arc::clone(&downstream.proxy), Arc::clone(&downstream.slot))
        };
        let abuse = Arc::clone(&self.shared.abuse);
        let pinned = Arc::clone(&self.shared.connection.pinned);
        let mut exceeded = pin!(abuse.exceeded());
        let mut stops = pin!(proxy.stop.cancelled());
        let mut loses_login = pin!(pinned.lost());
        let mut has_to_leave = pin!(slot.has_to_leave());
        loop {
            let may_leave = matches!(self.phase, Phase::Open | Phase::Draining);
            tokio::select! {
                biased;
                // First: no flood of streams puts the end off.
                _ = self.ticks.tick() => if self.ends_with_period() {
                    return Http2End::Closed;
                },
                accepted = accept(&mut self.connection, &self.release) => match accepted {
                    Some(Ok((request, respond))) => self.begin(request, respond),
                    Some(Err(error)) => {
                        return broken(self.shared.connection.downstream.peer.address, &error);
                    }
                    None => return Http2End::Closed,
                },
                // Behind `accept`, which has then written all frames.
                () = self.shared.flush.asked() => self.shared.flush.done(),
                end = &mut exceeded => {
                    let client = self.shared.connection.downstream.peer.address;
                    debug!(%client, ?end, "an HTTP/2 connection exceeded a bound");
                    Box::pin(terminate(self.connection)).await;
                    return end;
                }
                () = &mut stops, if self.phase == Phase::Open => self.drain(),
                () = &mut has_to_leave, if may_leave => self.leave(),
                () = self.shared.last_answer.cancelled(), if may_leave => self.leave(),
                () = &mut loses_login, if may_leave => self.leave(),
            }
        }
    }

    /// Tells whether a stream is under way: one may have begun no exchange yet, or send the rest of an answer after it.
    fn carries(&self) -> bool {
        Arc::strong_count(&self.shared) > 1 || self.shared.connection.downstream.slot.is_busy()
    }

    /// Ends a period, and tells whether the connection ends with it.
    fn ends_with_period(&mut self) -> bool {
        let carries = self.carries();
        match self.phase {
            Phase::Open => {
                let slot = &self.shared.connection.downstream.slot;
                let is_active = !self.is_turned_away && (carries || self.idleness.has_ended(slot));
                if self.idleness.is_reached(is_active) {
                    self.leave();
                }
                false
            }
            Phase::Draining | Phase::Drained => {
                self.phase = Phase::Drained;
                let is_active = self.activity.take();
                !carries && !is_active
            }
            Phase::Leaving | Phase::Ending => {
                self.phase = Phase::Ending;
                !carries
            }
        }
    }

    /// Begins a stream.
    fn begin(&self, request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        if matches!(self.phase, Phase::Drained | Phase::Ending) {
            respond.send_reset(Reason::REFUSED_STREAM);
            return;
        }
        let stream = stream::run(Arc::clone(&self.shared), request, respond);
        self.shared.connection.downstream.proxy.spawn(stream);
    }

    /// Ends the connection with the streams that are on their way.
    fn leave(&mut self) {
        self.end_after(CHANCE, Phase::Leaving);
    }

    /// Ends the connection because the proxy stops.
    fn drain(&mut self) {
        self.shared.state.drain();
        self.activity.take();
        self.end_after(DRAINING, Phase::Draining);
    }

    fn end_after(&mut self, patience: Duration, phase: Phase) {
        self.phase = phase;
        self.ticks = interval_at(Instant::now() + patience, CHANCE);
        self.connection.graceful_shutdown();
    }
}

fn builder(limits: &Limits) -> Builder {
    // Beyond this size `h2` answers a head on its own, without a record: one between the two is refused like any other.
    // The room for a table is for [`most_trailers`].
    let head = limits.header_bytes.saturating_mul(3).saturating_add(TABLE);
    let head = head.saturating_add(limits.header_fields.saturating_mul(FIELD));
    // `h2` counts the resets that it sees before the connection's task does, and those that it answers a malformed
    // request with.
    let resets = usize::try_from(limits.http2_resets).unwrap_or(usize::MAX);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.http2_streams)
        .initial_window_size(limits.http2_window)
        .initial_connection_window_size(limits.http2_window.saturating_mul(4))
        .max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX))
        .max_send_buffer_size(SEND_BUFFER)
        .max_pending_accept_reset_streams(resets)
        .max_local_error_reset_streams(Some(resets))
        .enable_connect_protocol();
    builder
}

/// Returns the octets that a trailer section may have on the wire.
///
/// From its maximum on, `h2` drops the fields of a trailer section and passes the others on. Their sum is beyond
/// `header_bytes`, for which [`form::check_trailers`] refuses them, or the first field that is dropped counts for at
/// least twice that and a whole table. The table has no room for such a field. If it has the name, the value is at least twice
/// as long as `header_bytes`. Its shortest code has five bits for an octet (RFC 7541, appendix B), and so five quarters of
/// `header_bytes` in all: no section that is permitted has as many.
fn most_trailers(limits: &Limits) -> usize {
    limits.header_bytes.saturating_add(limits.header_bytes / 4)
}
