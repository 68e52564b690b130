//! The downstream connection as hyper sees it: every octet read has passed the [`framing`](super::framing) check,
//! interim responses are written between hyper's own, and silence is limited.
//!
//! A request that is refused for its form never reaches hyper. In its place, and in its turn, hyper reads a well-formed
//! request for the refusal token, a path that only this process knows. The exchange recognises the token and answers
//! through the same exit as everything else, after the answers to earlier requests.

mod silence;
mod writing;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Sleep;

pub use self::silence::CHANCE;
use self::silence::TimerKind;
use super::carrier::{Http1Exchange, MalformedRequest};
use super::exchange_state::ExchangeState;
use super::framing::{Bounds, Framer, Scan, Violation, escape};
use super::linger::{self, Linger};
use super::stall::{StallLimit, StallTimer};
use crawlgate_config::Limits;

/// Octets kept while the answer to a request to switch protocols is awaited.
const MAX_EARLY: usize = 65_536;

/// Octets of a refused request that are kept for its record.
const EXCERPT: usize = 512;

/// Time for a client that is turned away to send a request and be answered.
const FAREWELL: Duration = Duration::from_secs(2);

/// Limits of a connection, whatever version of HTTP it carries.
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

impl ConnectionTimeouts {
    /// Returns the limits in force. A connection that is turned away has less time.
    pub fn of(limits: &Limits, is_turned_away: bool) -> ConnectionTimeouts {
        let most = if is_turned_away { FAREWELL } else { Duration::MAX };
        ConnectionTimeouts {
            bounds: Bounds {
                head: limits.header_bytes,
                target: limits.uri_bytes,
                fields: limits.header_fields,
            },
            header: limits.header_timeout.min(most),
            idle: limits.idle_timeout.min(most),
            taking: StallLimit { span: limits.body_timeout.min(most), ..StallLimit::of(limits) },
            linger: linger::TOTAL.min(most),
        }
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

    fn refuse(&mut self, violation: Violation, rest: &[u8]) {
        let excerpt = Some(rest.get(..EXCERPT).unwrap_or(rest).into());
        self.http1.leave_refused(MalformedRequest { violation, excerpt });
        self.passing.extend_from_slice(&self.refusal_token.request());
        self.phase = Phase::Refused;
        self.held = Vec::new();
    }

    /// Scans the held octets and moves those that may pass.
    fn rescan(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let passed = loop {
            match self.framer.scan(&held) {
                Scan::Escape(passed, length) => {
                    let head = held.split_off(passed);
                    self.passing.extend_from_slice(&held);
                    let (head, rest) = head.split_at_checked(length).unwrap_or_default();
                    self.passing.extend_from_slice(&escape(head));
                    held = rest.to_vec();
                }
                Scan::Pass(passed) => break passed,
                Scan::Refuse(passed, violation) => {
                    self.passing.extend_from_slice(held.get(..passed).unwrap_or_default());
                    self.refuse(violation, held.get(passed..).unwrap_or_default());
                    return;
                }
                Scan::Broken(passed) => {
                    self.phase = Phase::Broken;
                    break passed;
                }
            }
        };
        self.passing.extend_from_slice(held.get(..passed).unwrap_or_default());
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
            Scan::Escape(passed, length) => {
                let head = fresh.get(passed..).unwrap_or_default();
                let (head, rest) = head.split_at_checked(length).unwrap_or_default();
                self.passing.extend_from_slice(&escape(head));
                self.held.extend_from_slice(rest);
                self.rescan();
                passed
            }
            Scan::Broken(passed) => {
                self.phase = Phase::Broken;
                passed
            }
        };
        buf.set_filled(before + passed);
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
                this.held.extend_from_slice(buf.filled().get(before..).unwrap_or_default());
                buf.set_filled(before);
                this.rescan();
            }
        }
    }
}

/// A path that only this process knows: it stands for a refused request.
#[derive(Debug, Clone)]
pub struct RefusalToken(Arc<str>);

impl RefusalToken {
    /// Generates a new token.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new() -> io::Result<RefusalToken> {
        let mut bytes = [0; 16];
        aws_lc_rs::rand::fill(&mut bytes)
            .map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(RefusalToken(format!("/{:032x}", u128::from_ne_bytes(bytes)).into()))
    }

    /// Tells whether a request's path is the token.
    pub fn is(&self, path: &str) -> bool {
        path == &*self.0
    }

    fn request(&self) -> Vec<u8> {
        format!("GET {} HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n", self.0)
            .into_bytes()
    }
}
