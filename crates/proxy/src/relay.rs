//! Relays octets both ways: an opaque tunnel, or a WebSocket.
//!
//! Relayed octets are not read. A relay ends when both sides have finished, when it would be denied by now, after too
//! long a silence, or when it is silent and its slot is needed.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::connection::Downstream;
use super::limits::ConnectionSlot;
use super::recorder::{Answered, Exchange};

/// Time that one side of a WebSocket has to close after the other: no side half-closes (RFC 6455 7.1.1), and a side
/// that has gone should not hold its slot and its turn.
pub const GOODBYE: Duration = Duration::from_secs(2);

/// Silence after which a relay may be evicted to make room.
const SILENT: Duration = Duration::from_secs(10);

/// Reason that a relay ended.
enum End {
    /// Both sides have finished.
    Finished,
    /// A connection broke.
    Broken,
    /// It would be denied by now.
    Denied,
    /// Nothing has passed for too long.
    Silent,
    /// Its slot was needed.
    Evicted,
    /// This side has finished, and the other one did not follow.
    Of(Side),
}

/// The side that has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Crawler,
    Origin,
}

/// Relays octets both ways until the end, then drops the exchange. `denied` resolves when the relay would be denied;
/// `goodbye` is the time for one side to finish after the other, `None` for no limit.
pub async fn relay(
    downstream: &Downstream,
    goodbye: Option<Duration>,
    (mut client_stream, mut upstream): (
        impl AsyncRead + AsyncWrite + Unpin,
        impl AsyncRead + AsyncWrite + Unpin,
    ),
    mut exchange: Exchange<Answered>,
    denied: impl Future<Output = ()>,
) {
    let slot = &downstream.slot;
    let (_open, bytes_in) = exchange.relay();
    let idle = exchange.settings().limits.tunnel_idle_timeout;
    let (first, ended) = oneshot::channel();
    let activity = Activity::of(slot);
    let mut counted = Counted {
        inner: &mut client_stream,
        bytes_in: &bytes_in,
        activity: &activity,
        exchange: &mut exchange,
        first: Some(first),
        is_broken: false,
    };
    let overdue = async {
        let (Some(goodbye), Ok(side)) = (goodbye, ended.await) else {
            return std::future::pending().await;
        };
        sleep(goodbye).await;
        side
    };
    let end = tokio::select! {
        copied = copy_bidirectional(&mut counted, &mut upstream) => match copied {
            Ok(_) => End::Finished,
            Err(_) => End::Broken,
        },
        () = denied => End::Denied,
        () = activity.wait_idle(idle) => End::Silent,
        () = slot.has_to_leave() => End::Evicted,
        side = overdue => End::Of(side),
    };
    let has_gone = counted.is_broken;
    match end {
        End::Finished | End::Of(Side::Origin) => exchange.finish(),
        // Recorded as a hang-up, which it most likely is.
        End::Of(Side::Crawler) => {}
        End::Broken if has_gone => {}
        End::Broken => exchange.fail("connection_terminated"),
        End::Denied => exchange.fail("http_request_denied"),
        End::Silent => exchange.fail("connection_read_timeout"),
        End::Evicted => exchange.fail("connection_limit_reached"),
    }
    let _ = client_stream.shutdown().await; // the peer may be gone
}

/// Traffic of a relay.
struct Activity<'a> {
    slot: &'a ConnectionSlot,
    passed: AtomicU64,
    is_silent: AtomicBool,
}

impl Activity<'_> {
    fn of(slot: &ConnectionSlot) -> Activity<'_> {
        Activity { slot, passed: AtomicU64::new(0), is_silent: AtomicBool::new(false) }
    }

    /// Counts octets that pass.
    fn passes(&self, octets: u64) {
        if octets == 0 {
            return;
        }
        self.passed.fetch_add(octets, Ordering::Relaxed);
        self.mark_active();
    }

    fn mark_active(&self) {
        if self.is_silent.swap(false, Ordering::Relaxed) {
            self.slot.mark_active();
        }
    }

    /// Waits until nothing has passed for `idle`. Before that, marks the slot as silent, so that it can make room.
    async fn wait_idle(&self, idle: Duration) {
        let tick = SILENT.min(idle / 4);
        let mut seen = 0;
        let mut since = Instant::now();
        loop {
            sleep(tick).await;
            let now = self.passed.load(Ordering::Relaxed);
            if std::mem::replace(&mut seen, now) != now {
                since = Instant::now();
            } else if since.elapsed() >= idle {
                return;
            } else if !self.is_silent.swap(true, Ordering::Relaxed) {
                self.slot.mark_silent();
            }
        }
    }
}

impl Drop for Activity<'_> {
    fn drop(&mut self) {
        self.mark_active();
    }
}

/// The crawler's side of a relay, counting octets. Reports the side that finishes first.
struct Counted<'a, S> {
    inner: &'a mut S,
    bytes_in: &'a AtomicU64,
    activity: &'a Activity<'a>,
    exchange: &'a mut Exchange<Answered>,
    first: Option<oneshot::Sender<Side>>,
    /// True if the crawler's connection has failed.
    is_broken: bool,
}

impl<S> Counted<'_, S> {
    fn has_finished(&mut self, side: Side) {
        if let Some(first) = self.first.take() {
            let _ = first.send(side); // the receiver may be gone
        }
    }

    /// Notes a failure of the crawler's connection.
    fn noted<T>(&mut self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.is_broken |= matches!(poll, Poll::Ready(Err(_)));
        poll
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let has_room = buf.remaining() > 0;
        let poll = Pin::new(&mut *self.inner).poll_read(cx, buf);
        let octets = (buf.filled().len() - before) as u64;
        self.bytes_in.fetch_add(octets, Ordering::Relaxed);
        self.activity.passes(octets);
        if has_room && octets == 0 && matches!(poll, Poll::Ready(Ok(()))) {
            self.has_finished(Side::Crawler);
        }
        self.noted(poll)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut *self.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(octets)) = poll {
            self.exchange.add_octets_out(octets as u64);
            self.activity.passes(octets as u64);
        }
        self.noted(poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut *self.inner).poll_flush(cx);
        self.noted(poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The origin has finished, and all its octets have been passed on.
        self.has_finished(Side::Origin);
        let poll = Pin::new(&mut *self.inner).poll_shutdown(cx);
        self.noted(poll)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::timeout;

    use super::super::limits::Limiter;
    use super::*;

    /// Waits for at most this many ticks; tells whether it ceased meanwhile.
    async fn within(mut wait_idle: Pin<&mut impl Future<Output = ()>>, ticks: u32) -> bool {
        for _ in 0..ticks {
            let a_tick = SILENT + Duration::from_millis(1);
            if timeout(a_tick, wait_idle.as_mut()).await.is_ok() {
                return true;
            }
        }
        false
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_relay_makes_room_and_ends_after_its_time() {
        let limiter = Arc::<Limiter>::default();
        let slot = Arc::new(limiter.slot(1).expect("room"));
        slot.begin();
        let activity = Activity::of(&slot);
        let idle = Duration::from_secs(100);
        let mut wait_idle = std::pin::pin!(activity.wait_idle(idle));
        let began = Instant::now();
        // Octets pass all the time: the relay keeps its slot.
        for _ in 0..20 {
            activity.passes(1);
            assert!(!within(wait_idle.as_mut(), 1).await);
        }
        assert!(!limiter.make_room(), "it is in use");
        assert!(began.elapsed() > idle);
        // After ten to twenty seconds without an octet its slot may be taken; the next octet keeps it.
        assert!(!within(wait_idle.as_mut(), 3).await);
        activity.passes(1);
        assert!(!limiter.make_room(), "it is in use again");
        assert!(!within(wait_idle.as_mut(), 4).await);
        assert!(limiter.make_room(), "it is silent");
        slot.has_to_leave().await;
        assert!(within(wait_idle, 12).await, "nothing has passed for a hundred seconds");
    }
}
