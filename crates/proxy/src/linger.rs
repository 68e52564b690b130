//! The lingering close: octets that a client still sends after its answer are read and dropped (RFC 9112 9.6).
//!
//! Many HTTP clients send the whole request before they read the answer. A connection that is closed while octets still
//! arrive on it is reset, the reset overtakes the answer, and the client reports a broken connection instead of our
//! reason. So the connection stays open until the request has ended, within limits of time, silence and octets. Until
//! then nothing is shut down either: some clients give up their upload, and the answer with it, at a close_notify or a
//! FIN.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// The longest time from the answer to the end of the connection.
pub const TOTAL: Duration = Duration::from_secs(30);

/// The longest silence of a client that has not ended its request.
pub const SILENCE: Duration = Duration::from_secs(5);

/// The longest silence of a client after the connection was shut down.
pub const LAST_SILENCE: Duration = Duration::from_secs(1);

/// The most octets that are dropped.
pub const MAX_OCTETS: u64 = 256 << 20;

/// Reading and dropping under way.
#[derive(Debug)]
pub struct Linger {
    until: Instant,
    octets_left: u64,
    silence: Duration,
    has_moved: bool,
    timer: Pin<Box<Sleep>>,
}

impl Linger {
    /// Starts the clocks: `total` in all, `silence` between octets.
    pub fn new(total: Duration, silence: Duration) -> Linger {
        let silence = silence.min(total);
        Linger {
            until: Instant::now() + total,
            octets_left: MAX_OCTETS,
            silence,
            has_moved: false,
            timer: Box::pin(sleep(silence)),
        }
    }

    /// Sets another limit on silence from now on.
    pub fn allow_silence(&mut self, silence: Duration) {
        self.silence = silence;
        self.has_moved = true;
    }

    /// Ends within `rest`, or earlier.
    pub fn end_within(&mut self, rest: Duration) {
        self.until = self.until.min(Instant::now() + rest);
        self.has_moved = true;
    }

    /// Reads and drops until `is_last` recognises the last octets, the other side closes, or a limit is reached.
    pub fn poll_drop(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut (impl AsyncRead + Unpin),
        mut is_last: impl FnMut(&[u8]) -> bool,
    ) -> Poll<()> {
        let mut scratch = [0; 8192];
        loop {
            let mut buf = ReadBuf::new(&mut scratch);
            match pin!(&mut *io).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    self.has_moved = true;
                    let octets = buf.filled().len() as u64;
                    self.octets_left = self.octets_left.saturating_sub(octets);
                    if is_last(buf.filled()) || self.octets_left == 0 {
                        return Poll::Ready(());
                    }
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => {
                    if std::mem::take(&mut self.has_moved) {
                        let end = (Instant::now() + self.silence).min(self.until);
                        self.timer.as_mut().reset(end);
                    }
                    return self.timer.as_mut().poll(cx);
                }
            }
        }
    }
}

/// A connection that lingers from its shutdown until the client closes its side.
///
/// HTTP/2 needs it: a client that still reads the last answers opens windows. If the connection were closed, that would
/// reset it, and the client would lose what it had not read.
#[derive(Debug)]
pub struct Lingering<S> {
    inner: S,
    total: Duration,
    linger: Option<Box<Linger>>,
    activity: Activity,
}

/// A mark that octets have passed a [`Lingering`] connection, for the task that serves it.
#[derive(Debug, Clone, Default)]
pub struct Activity(Arc<AtomicBool>);

impl Activity {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Tells whether octets have passed since the last call.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl<S> Lingering<S> {
    /// Lets a connection linger for `total` at most after its shutdown.
    pub fn new(inner: S, total: Duration) -> Lingering<S> {
        Lingering { inner, total, linger: None, activity: Activity::default() }
    }

    /// Returns the mark of octets that pass.
    pub fn activity(&self) -> Activity {
        self.activity.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        Pin::new(&mut this.inner).poll_read(cx, buf).map_ok(|()| this.activity.set())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        Pin::new(&mut this.inner).poll_write(cx, buf).map_ok(|octets| {
            this.activity.set();
            octets
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        Pin::new(&mut this.inner).poll_write_vectored(cx, bufs).map_ok(|octets| {
            this.activity.set();
            octets
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Lingering { inner, total, linger, activity } = self.get_mut();
        if linger.is_none() {
            ready!(Pin::new(&mut *inner).poll_shutdown(cx))?;
        }
        let linger = linger.get_or_insert_with(|| Box::new(Linger::new(*total, LAST_SILENCE)));
        let dropped = linger.poll_drop(cx, inner, |_| {
            activity.set();
            false
        });
        dropped.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;
    use crate::checked_stream::{CheckedStream, ConnectionTimeouts, RefusalToken};
    use crate::exchange_state::ExchangeState;
    use crate::framing::Bounds;
    use crate::stall::StallLimit;

    const ANSWER: &[u8] = b"answer";

    /// Returns a connection on which `request` was read and answered, and its client.
    async fn answered(
        request: &str,
        linger: Duration,
    ) -> (CheckedStream<DuplexStream>, DuplexStream, Arc<ExchangeState>) {
        let (mut client, server) = duplex(1 << 16);
        let hour = Duration::from_secs(3600);
        let patience = ConnectionTimeouts {
            bounds: Bounds { head: 65_536, target: 8192, fields: 100 },
            header: hour,
            idle: hour,
            taking: StallLimit { span: hour, rate: 0 },
            linger,
        };
        let http1 = Arc::default();
        let state = Arc::new(ExchangeState::of_http1(&Arc::default(), &http1));
        let mut wire = CheckedStream::new(
            server,
            patience,
            RefusalToken::new().unwrap(),
            Arc::clone(&state),
            http1,
        );
        client.write_all(request.as_bytes()).await.unwrap();
        let mut read = vec![0; 1 << 16];
        assert!(wire.read(&mut read).await.unwrap() > 0);
        wire.write_all(ANSWER).await.unwrap();
        (wire, client, state)
    }

    fn upload(length: u64) -> String {
        format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\nabc")
    }

    /// Returns the time that the connection outlives its answer.
    async fn lingers(mut wire: CheckedStream<DuplexStream>) -> Duration {
        let start = Instant::now();
        wire.shutdown().await.unwrap();
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_its_request_whole_gets_its_answer_first() {
        for (request, rest) in [
            (upload(100_000), vec![b'x'; 99_997]),
            (
                "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
                    .to_owned(),
                b"cde\r\n0\r\nX-Sum: 1\r\n\r\n".to_vec(),
            ),
        ] {
            let (wire, mut client, state) = answered(&request, TOTAL).await;
            assert!(state.needs_whole_body(false));
            let closing = tokio::spawn(lingers(wire));
            let mut seen = [0; ANSWER.len()];
            client.read_exact(&mut seen).await.unwrap();
            assert_eq!(seen, ANSWER);
            let mut next = [0];
            let early = timeout(Duration::from_secs(1), client.read(&mut next)).await;
            assert!(early.is_err(), "shut down before the request had ended");
            client.write_all(&rest).await.unwrap();
            assert_eq!(client.read(&mut next).await.unwrap(), 0);
            drop(client);
            assert!(closing.await.unwrap() < Duration::from_secs(2));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_end_its_request_is_cut_within_bounds() {
        let s = Duration::from_secs;
        for (name, linger, pause, octets, from, to) in [
            ("silence", TOTAL, s(3600), 0, s(6), s(7)),
            ("an octet now and then", TOTAL, s(4), 1, s(30), s(31)),
            ("a client that is turned away", s(2), s(1), 1, s(2), s(3)),
            ("no end of octets", TOTAL, s(0), 1 << 16, s(0), s(2)),
        ] {
            let (wire, mut client, _) = answered(&upload(1 << 40), linger).await;
            let sender = tokio::spawn(async move {
                let octets = vec![b'x'; octets];
                loop {
                    tokio::time::sleep(pause).await;
                    if client.write_all(&octets).await.is_err() {
                        return;
                    }
                }
            });
            let lasted = lingers(wire).await;
            assert!((from..to).contains(&lasted), "{name}: {lasted:?}");
            sender.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_has_ended_or_has_to_make_room_is_not_waited_for() {
        let (wire, client, state) = answered(&upload(3), TOTAL).await;
        assert!(!state.needs_whole_body(false));
        assert_eq!(lingers(wire).await, LAST_SILENCE);
        drop(client);
        let (wire, client, state) = answered(&upload(1000), TOTAL).await;
        state.connection().leave();
        assert_eq!(lingers(wire).await, Duration::ZERO);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_shut_down_reads_on_until_its_client_closes() {
        let (mut client, server) = duplex(1 << 16);
        let mut server = Lingering::new(server, TOTAL);
        let closing = tokio::spawn(async move { server.shutdown().await });
        let mut next = [0];
        assert_eq!(client.read(&mut next).await.unwrap(), 0, "at once");
        for _ in 0..5 {
            client.write_all(&[0; 1 << 16]).await.unwrap();
            assert!(!closing.is_finished());
        }
        drop(client);
        closing.await.unwrap().unwrap();

        for (total, pause, expected) in [(TOTAL, 3600, 1), (Duration::from_millis(500), 0, 0)] {
            let (mut client, server) = duplex(1 << 16);
            let sender = tokio::spawn(async move {
                while client.write_all(&[0]).await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(100) + Duration::from_secs(pause))
                        .await;
                }
            });
            let start = Instant::now();
            Lingering::new(server, total).shutdown().await.unwrap();
            assert_eq!(start.elapsed().as_secs(), expected, "{total:?}");
            sender.abort();
        }
    }
}
