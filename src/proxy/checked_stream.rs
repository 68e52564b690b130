//! The downstream connection as hyper sees it: every octet read has passed the [`framing`](super::framing) check,
//! interim responses are written between hyper's own, and silence is limited.
//!
//! A request that is refused for its form never reaches hyper. In its place, and in its turn, hyper reads a well-formed
//! request for a *refusal_token*: a path that only this process knows. The exchange recognises the refusal_token and answers through the
//! same exit as everything else, after the answers to earlier requests.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::exchange_state::{ExchangeState, Stage};
use super::framing::{Bounds, Framer, Scan, Violation};
use super::http1_exchange::{Http1Exchange, Refused};
use super::linger::{self, Linger};
use super::stall::{StallLimit, StallTimer};

/// Octets kept while the answer to a request to switch protocols is awaited.
const MAX_EARLY: usize = 65_536;

/// Quiet periods that make a connection idle.
const QUIET_PERIODS: u8 = 4;

/// Time that a connection without any octet so far has for its first request when the proxy stops: it was accepted, so
/// its client takes it for open.
pub const CHANCE: Duration = Duration::from_secs(2);

/// Octets of a refused request that are kept for its record.
const EXCERPT: usize = 512;

/// Limits of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionTimeouts {
    /// Size limits of a head.
    pub bounds: Bounds,
    /// Time from the first octet of a head to its last.
    pub header: Duration,
    /// Time between requests; kept to within a quarter.
    pub idle: Duration,
    /// Limit on waiting for the crawler to take octets.
    pub taking: StallLimit,
    /// Time for the rest of a request that already has its answer.
    pub linger: Duration,
}

/// A path that only this process knows.
#[derive(Debug, Clone)]
pub struct RefusalToken(Arc<str>);

impl RefusalToken {
    /// Generates a new refusal_token.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new() -> io::Result<RefusalToken> {
        let mut bytes = [0; 16];
        aws_lc_rs::rand::fill(&mut bytes)
            .map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(RefusalToken(
            format!("/{:032x}", u128::from_ne_bytes(bytes)).into(),
        ))
    }

    /// Tells whether a request's path is the refusal_token.
    pub fn is(&self, path: &str) -> bool {
        path == &*self.0
    }

    fn request(&self) -> Vec<u8> {
        format!(
            "GET {} HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n",
            self.0
        )
        .into_bytes()
    }
}

/// A checked downstream connection.
pub struct CheckedStream<S> {
    inner: S,
    framer: Framer,
    timeouts: ConnectionTimeouts,
    refusal_token: RefusalToken,
    /// State of the exchange under way.
    exchange: Arc<ExchangeState>,
    http1: Arc<Http1Exchange>,
    /// Octets read, but not yet fit to pass.
    held: Vec<u8>,
    /// Octets fit to pass, but not yet read by hyper.
    passing: Vec<u8>,
    interim: Vec<u8>,
    /// True if something was read.
    has_read: bool,
    /// True if everything written so far has left, so that an interim response may follow.
    is_flushed: bool,
    phase: Phase,
    timer: Option<Pin<Box<Sleep>>>,
    timed: TimerKind,
    quiet: u8,
    /// Timer for answers that the crawler is slow to take; `None` while it never was.
    stall: Option<Box<StallTimer>>,
    /// The lingering close; `None` before the last answer was written.
    linger: Option<Box<Linger>>,
    /// True if the exchange was last told of a body under way.
    is_in_body: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// A request was refused: nothing more is read.
    Refused,
    /// The framing of a body is broken.
    Broken,
    /// The last answer was written; the rest of its request is read and dropped.
    Draining,
    /// The rest has ended or was given up.
    Drained,
    /// Shut down by us; still read to keep the last answer from being reset.
    Lingering,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimerKind {
    Quiet,
    Head,
    Chance,
}

impl<S> CheckedStream<S> {
    /// Wraps a connection from which nothing was read yet.
    pub fn new(
        inner: S,
        timeouts: ConnectionTimeouts,
        refusal_token: RefusalToken,
        exchange: Arc<ExchangeState>,
        http1: Arc<Http1Exchange>,
    ) -> CheckedStream<S> {
        CheckedStream {
            inner,
            framer: Framer::new(timeouts.bounds),
            timeouts,
            refusal_token,
            exchange,
            http1,
            held: Vec::new(),
            passing: Vec::new(),
            interim: Vec::new(),
            has_read: false,
            is_flushed: true,
            phase: Phase::Open,
            timer: None,
            timed: TimerKind::Quiet,
            quiet: 0,
            stall: None,
            linger: None,
            is_in_body: false,
        }
    }

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
                let grant = self.timeouts.taking;
                let stall = self
                    .stall
                    .get_or_insert_with(|| Box::new(StallTimer::new(grant)));
                ready!(stall.poll_too_long(cx));
                self.exchange.connection().stall();
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }

    fn refuse(&mut self, violation: Violation, rest: &[u8]) {
        let excerpt = Some(rest.get(..EXCERPT).unwrap_or(rest).into());
        self.http1.leave_refused(Refused { violation, excerpt });
        self.passing
            .extend_from_slice(&self.refusal_token.request());
        self.phase = Phase::Refused;
        self.held = Vec::new();
    }

    /// Scans the held octets and moves those that may pass.
    fn rescan(&mut self) {
        let held = std::mem::take(&mut self.held);
        let passed = match self.framer.scan(&held) {
            Scan::Pass(passed) => passed,
            Scan::Refuse(passed, violation) => {
                self.passing
                    .extend_from_slice(held.get(..passed).unwrap_or_default());
                self.refuse(violation, held.get(passed..).unwrap_or_default());
                return;
            }
            Scan::Broken(passed) => {
                self.phase = Phase::Broken;
                passed
            }
        };
        self.passing
            .extend_from_slice(held.get(..passed).unwrap_or_default());
        if self.phase == Phase::Open {
            self.held = held;
            self.held.drain(..passed);
        }
    }

    /// Scans the octets just read into `buf` behind `before`, and takes back those that may not pass yet.
    fn admit(&mut self, buf: &mut ReadBuf<'_>, before: usize) {
        let fresh = buf.filled().get(before..).unwrap_or_default();
        let passed = match self.framer.scan(fresh) {
            Scan::Pass(passed) => {
                if let Some(rest) = fresh.get(passed..).filter(|rest| !rest.is_empty()) {
                    self.held.extend_from_slice(rest);
                }
                passed
            }
            Scan::Refuse(passed, violation) => {
                let rest = fresh.get(passed..).unwrap_or_default().to_vec();
                self.refuse(violation, &rest);
                passed
            }
            Scan::Broken(passed) => {
                self.phase = Phase::Broken;
                passed
            }
        };
        buf.set_filled(before + passed);
    }

    fn arm(&mut self, timed: TimerKind, after: Duration) {
        self.timed = timed;
        self.timer = Some(Box::pin(sleep(after)));
    }

    /// Waits until the connection has been silent for too long. Polled only while a read is pending.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<TimerKind> {
        let in_head = self.framer.is_between_requests() && !self.held.is_empty();
        match (&self.timer, self.timed) {
            (Some(_), TimerKind::Head) if !in_head => self.timer = None,
            (Some(_), TimerKind::Quiet) if in_head => self.timer = None,
            (Some(_), TimerKind::Chance) => self.timer = None,
            _ => {}
        }
        loop {
            let Some(timer) = &mut self.timer else {
                if in_head {
                    self.arm(TimerKind::Head, self.timeouts.header);
                } else {
                    self.quiet = 0;
                    self.arm(
                        TimerKind::Quiet,
                        self.timeouts.idle / u32::from(QUIET_PERIODS),
                    );
                }
                continue;
            };
            ready!(timer.as_mut().poll(cx));
            self.timer = None;
            if self.timed == TimerKind::Head {
                return Poll::Ready(TimerKind::Head);
            }
            self.quiet = match self.exchange.stage() {
                Stage::Idle => self.quiet + 1,
                Stage::Waiting | Stage::Answering => 0,
            };
            if self.quiet >= QUIET_PERIODS {
                return Poll::Ready(TimerKind::Quiet);
            }
            self.arm(
                TimerKind::Quiet,
                self.timeouts.idle / u32::from(QUIET_PERIODS),
            );
        }
    }
}

impl<S> CheckedStream<S> {
    /// Tells whether nothing is under way: no part of a request was read, none of an answer is still to be written.
    fn is_resting(&self) -> bool {
        self.framer.is_between_requests()
            && self.held.is_empty()
            && self.is_flushed
            && self.exchange.stage() == Stage::Idle
    }

    /// Waits for the first octets of a connection that has brought none, and for nothing else.
    fn poll_chance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_read {
            return Poll::Ready(());
        }
        if self.timed != TimerKind::Chance {
            self.arm(TimerKind::Chance, CHANCE);
        }
        match &mut self.timer {
            Some(timer) => timer.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CheckedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = this.poll_checked(cx, buf);
        let is_in_body = this.framer.is_in_body() || !this.passing.is_empty();
        if is_in_body != this.is_in_body {
            this.is_in_body = is_in_body;
            this.http1.set_in_body(is_in_body);
        }
        read
    }
}

impl<S: AsyncRead + Unpin> CheckedStream<S> {
    /// Reads octets that have passed the check.
    fn poll_checked(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self;
        loop {
            if !this.passing.is_empty() {
                let n = this.passing.len().min(buf.remaining());
                buf.put_slice(this.passing.get(..n).unwrap_or_default());
                this.passing.drain(..n);
                if this.passing.is_empty() {
                    this.passing = Vec::new();
                }
                return Poll::Ready(Ok(()));
            }
            match this.phase {
                Phase::Open => {}
                // Pending, not an end of file: hyper would take that for a crawler that hung up, and drop the answer.
                Phase::Refused => return Poll::Pending,
                Phase::Broken => {
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the framing of the request body is broken",
                    )));
                }
                Phase::Draining | Phase::Drained | Phase::Lingering | Phase::Closed => {
                    return Poll::Ready(Ok(()));
                }
            }
            if this.framer.is_undecided() {
                if let Some(switch) = this.http1.take_switch(cx) {
                    this.framer.decide(switch);
                    this.rescan();
                    continue;
                }
                if this.held.len() > MAX_EARLY {
                    return Poll::Pending;
                }
            }
            let before = buf.filled().len();
            match Pin::new(&mut this.inner).poll_read(cx, buf) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if this.framer.is_opaque() => return Poll::Pending,
                // An end of file: hyper sees a closed client.
                Poll::Pending if this.exchange.connection().is_draining() && this.is_resting() => {
                    return this.poll_chance(cx).map(Ok);
                }
                Poll::Pending => match ready!(this.poll_timer(cx)) {
                    TimerKind::Head => {
                        let held = std::mem::take(&mut this.held);
                        this.refuse(Violation::Slow, &held);
                        continue;
                    }
                    TimerKind::Quiet | TimerKind::Chance => return Poll::Ready(Ok(())),
                },
            }
            if buf.filled().len() == before {
                return Poll::Ready(Ok(()));
            }
            this.has_read = true;
            this.quiet = 0;
            if this.held.is_empty() {
                this.admit(buf, before);
                if buf.filled().len() > before {
                    return Poll::Ready(Ok(()));
                }
            } else {
                this.held
                    .extend_from_slice(buf.filled().get(before..).unwrap_or_default());
                buf.set_filled(before);
                this.rescan();
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
        let linger = self
            .linger
            .get_or_insert_with(|| Box::new(Linger::new(total, linger::SILENCE)));
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
        let total = match has_ended {
            true => linger::LAST_SILENCE.min(self.timeouts.linger),
            false => self.timeouts.linger,
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
