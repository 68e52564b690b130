//! Bodies in transit: nothing is held beyond the frame at hand, every octet is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::fields;
use super::ledger::Ledger;
use super::upstream::{Invitation, Timer};
use super::waiting::{Grant, Waiting};
use crate::egress::{BodyError, Inbound};

/// How long an origin may be silent in the middle of a body. A crawler that hangs up meanwhile is not always noticed
/// before, since a request behind the one under way keeps hyper from reading.
const SILENCE: Duration = Duration::from_secs(300);

/// The body of an answer to a crawler. Holds the exchange's ledger, so that the record is written when the
/// last octet has gone, or the crawler.
#[derive(Debug)]
pub struct Answer {
    content: Content,
    /// None where the ledger goes on elsewhere: with a tunnel or a WebSocket.
    ledger: Option<Box<Ledger>>,
    /// Fires when the origin may have been silent for too long.
    silence: Option<Silence>,
    /// Keeps a request's body that was not asked for waiting until the answer is over.
    invitation: Option<Arc<Invitation>>,
}

#[derive(Debug)]
enum Content {
    /// Written by crawlgate.
    Own(Option<Bytes>),
    /// From the origin, as it comes.
    Origins(Inbound),
}

impl Answer {
    /// A body that crawlgate wrote.
    pub fn own(bytes: Bytes, ledger: Box<Ledger>) -> Answer {
        let content = Content::Own((!bytes.is_empty()).then_some(bytes));
        Answer {
            content,
            ledger: Some(ledger),
            silence: None,
            invitation: None,
        }
    }

    /// No body: what follows is not HTTP.
    pub fn empty() -> Answer {
        Answer {
            content: Content::Own(None),
            ledger: None,
            silence: None,
            invitation: None,
        }
    }

    /// The origin's body.
    pub fn forwarded(
        incoming: Inbound,
        ledger: Box<Ledger>,
        invitation: Option<Arc<Invitation>>,
        timer: Timer,
    ) -> Answer {
        Answer {
            content: Content::Origins(incoming),
            ledger: Some(ledger),
            silence: Some(Silence {
                timer,
                is_broken: true,
            }),
            invitation,
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let mut frame = match &mut this.content {
            Content::Own(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Content::Origins(incoming) => {
                match (Pin::new(incoming).poll_frame(cx), &mut this.silence) {
                    (Poll::Ready(frame), silence) => {
                        if let Some(silence) = silence {
                            silence.is_broken = true;
                        }
                        frame.map(|frame| frame.map_err(Into::into))
                    }
                    (Poll::Pending, None) => return Poll::Pending,
                    (Poll::Pending, Some(silence)) => {
                        ready!(silence.poll_too_long(cx));
                        Some(Err("the origin fell silent".into()))
                    }
                }
            }
        };
        mend_trailers(&mut frame);
        match (&frame, &mut this.ledger) {
            (Some(Ok(frame)), Some(ledger)) => {
                ledger.bytes_out += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            (Some(Err(_)), Some(ledger)) => ledger.failed("http_response_incomplete"),
            (Some(_), None) => {}
            (None, _) => {
                this.content = Content::Own(None);
                this.invitation = None;
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Own(bytes) => bytes.is_none(),
            Content::Origins(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Origins(incoming) => incoming.size_hint(),
        }
    }
}

/// Takes out of a frame of trailers what must not stand in one.
fn mend_trailers<E>(frame: &mut Option<Result<Frame<Bytes>, E>>) {
    if let Some(Ok(frame)) = frame
        && let Some(trailers) = frame.trailers_mut()
    {
        fields::to_trailers(trailers);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.is_end_stream()
            && let Some(ledger) = &mut self.ledger
        {
            ledger.hung_up();
        }
    }
}

/// An origin's silence in the middle of a body.
#[derive(Debug)]
struct Silence {
    timer: Timer,
    /// Something came since the timer was set.
    is_broken: bool,
}

impl Silence {
    fn poll_too_long(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.poll_fire(cx));
            if !std::mem::take(&mut self.is_broken) {
                return Poll::Ready(());
            }
            self.timer.restart(SILENCE);
        }
    }
}

/// What the exchange knows of a request's body that is on its way.
#[derive(Debug, Default)]
pub struct Intake {
    /// Octets so far.
    pub octets: Arc<AtomicU64>,
    /// A [`Flow`].
    flow: AtomicU8,
}

/// What a request's body is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Flow {
    /// It has ended, or the origin does not take it.
    Still = 0,
    /// The crawler is waited for.
    Awaited = 1,
    /// The crawler was waited for too long.
    Stalled = 2,
}

impl Intake {
    /// Counts in `octets`.
    pub fn new(octets: Arc<AtomicU64>) -> Intake {
        Intake {
            octets,
            flow: AtomicU8::default(),
        }
    }

    /// What the body is doing.
    pub fn flow(&self) -> Flow {
        match self.flow.load(Ordering::Relaxed) {
            1 => Flow::Awaited,
            2 => Flow::Stalled,
            _ => Flow::Still,
        }
    }

    fn turn(&self, flow: Flow) {
        self.flow.store(flow as u8, Ordering::Relaxed);
    }
}

/// The body of a crawler's request on its way to the origin.
#[derive(Debug)]
pub struct Upload {
    incoming: Incoming,
    intake: Arc<Intake>,
    waiting: Waiting,
    /// Set while the crawler waits for `100 Continue`: nothing is read, and so nothing asked for,
    /// until the origin wants it (RFC 9110 10.1.1).
    invited: Option<oneshot::Receiver<()>>,
}

impl Upload {
    /// Tells what passes by `intake`, and waits for the crawler as `grant` has it. With `invited`, waits for that before
    /// the first octet; when its sender goes away without a word, the origin has answered and the body is not wanted.
    pub fn new(
        incoming: Incoming,
        intake: Arc<Intake>,
        grant: Grant,
        invited: Option<oneshot::Receiver<()>>,
    ) -> Upload {
        Upload {
            incoming,
            intake,
            waiting: Waiting::new(grant),
            invited,
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(invited) = &mut this.invited {
            let word = ready!(Pin::new(invited).poll(cx));
            this.invited = None;
            if word.is_err() {
                return Poll::Ready(Some(Err("the origin did not ask for the body".into())));
            }
        }
        let Poll::Ready(mut frame) = Pin::new(&mut this.incoming).poll_frame(cx) else {
            this.intake.turn(Flow::Awaited);
            ready!(this.waiting.poll_too_long(cx));
            this.intake.turn(Flow::Stalled);
            return Poll::Ready(Some(Err("the crawler's body came too slowly".into())));
        };
        this.intake.turn(Flow::Still);
        mend_trailers(&mut frame);
        if let Some(Ok(frame)) = &frame {
            let octets = frame.data_ref().map_or(0, |data| data.len() as u64);
            this.intake.octets.fetch_add(octets, Ordering::Relaxed);
            this.waiting.moved(octets);
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
