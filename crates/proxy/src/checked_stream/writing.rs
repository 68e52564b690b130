//! Answers and interim responses on their way to the crawler, and the lingering close after the last one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};

use super::{CheckedStream, Phase};
use crate::exchange_state::Stage;
use crate::linger::{self, Linger};
use crate::stall::StallTimer;

impl<S> CheckedStream<S> {
    /// Accounts for an attempt to send; `octets` returns the number sent. An attempt that waits for too long fails.
    fn sent<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
        octets: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        match attempt {
            Poll::Ready(Ok(done)) => {
                if let Some(stall) = &mut self.stall {
                    stall.moved(octets(&done) as u64);
                }
                Poll::Ready(Ok(done))
            }
            Poll::Ready(Err(error)) => {
                // The checked stream below this one waited for the same crawler.
                if error.kind() == io::ErrorKind::TimedOut {
                    self.exchange.connection().stall();
                }
                Poll::Ready(Err(error))
            }
            Poll::Pending => {
                let limit = self.timeouts.taking;
                let stall = self.stall.get_or_insert_with(|| Box::new(StallTimer::new(limit)));
                ready!(stall.poll_too_long(cx));
                self.exchange.connection().stall();
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> CheckedStream<S> {
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.interim.is_empty() {
            let interim = self.http1.take_interim();
            // While an earlier answer is being written, an interim response would land in its middle.
            if self.is_flushed {
                self.interim = interim;
            }
        }
        while !self.interim.is_empty() {
            let attempt = Pin::new(&mut self.inner).poll_write(cx, &self.interim);
            let written = ready!(self.sent(cx, attempt, |written| *written))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.interim.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    /// Drops the rest of the answered request, up to its end.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let total = self.timeouts.linger;
        let linger =
            self.linger.get_or_insert_with(|| Box::new(Linger::new(total, linger::SILENCE)));
        if self.exchange.connection().is_draining() {
            linger.end_within(linger::LAST_SILENCE);
        }
        let framer = &mut self.framer;
        linger.poll_drop(cx, &mut self.inner, |octets| {
            framer.scan(octets);
            !framer.is_in_body()
        })
    }

    /// Prepares to drop octets that come after the shutdown: few, if the request had ended.
    fn begin_last_silence(&mut self, has_ended: bool) {
        let total = if has_ended {
            linger::LAST_SILENCE.min(self.timeouts.linger)
        } else {
            self.timeouts.linger
        };
        match &mut self.linger {
            Some(linger) => linger.allow_silence(linger::LAST_SILENCE),
            None => self.linger = Some(Box::new(Linger::new(total, linger::LAST_SILENCE))),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for CheckedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_interim(cx))?;
        this.is_flushed = false;
        let attempt = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.sent(cx, attempt, |written| *written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_interim(cx))?;
        this.is_flushed = false;
        let attempt = Pin::new(&mut this.inner).poll_write_vectored(cx, bufs);
        this.sent(cx, attempt, |written| *written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.exchange.stage() == Stage::Waiting {
            this.http1.await_interim(cx);
        }
        ready!(this.poll_interim(cx))?;
        let attempt = Pin::new(&mut this.inner).poll_flush(cx);
        ready!(this.sent(cx, attempt, |()| 0))?;
        this.is_flushed = true;
        if this.exchange.connection().is_draining() {
            // The connection may be idle now, and a read finds out.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let is_leaving = this.exchange.connection().is_leaving();
            match this.phase {
                Phase::Closed => return Poll::Ready(Ok(())),
                Phase::Open if this.framer.is_in_body() => this.phase = Phase::Draining,
                Phase::Draining if is_leaving => this.phase = Phase::Drained,
                Phase::Draining => {
                    let attempt = Pin::new(&mut this.inner).poll_flush(cx);
                    ready!(this.sent(cx, attempt, |()| 0))?;
                    ready!(this.poll_drain(cx));
                    this.phase = Phase::Drained;
                }
                Phase::Open | Phase::Refused | Phase::Broken | Phase::Drained => {
                    let attempt = Pin::new(&mut this.inner).poll_shutdown(cx);
                    ready!(this.sent(cx, attempt, |()| 0))?;
                    let has_ended = this.phase == Phase::Open;
                    if has_ended && this.framer.is_opaque() && !this.http1.is_tunnel_refused() {
                        // A tunnel may be half closed; its other half is still read.
                        return Poll::Ready(Ok(()));
                    }
                    this.begin_last_silence(has_ended);
                    this.phase = Phase::Lingering;
                }
                Phase::Lingering if is_leaving => this.phase = Phase::Closed,
                Phase::Lingering => {
                    if let Some(linger) = &mut this.linger {
                        if this.exchange.connection().is_draining() {
                            linger.end_within(linger::LAST_SILENCE);
                        }
                        ready!(linger.poll_drop(cx, &mut this.inner, |_| false));
                    }
                    this.phase = Phase::Closed;
                }
            }
        }
    }
}
