//! Bodies in transit: at most one frame is held at a time, and every octet is counted.

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
use super::recorder::ExchangeRecorder;
use super::stall::{StallLimit, StallTimer};
use super::upstream::{ContinueSignal, Timer};
use crate::egress::{BodyError, Failure, ResponseBody};

/// The body of an answer to a crawler. Holds the exchange recorder, so that the record is written when the last octet
/// has been sent or the crawler has disconnected.
#[derive(Debug)]
pub struct Answer {
    content: Content,
    /// `None` if the recorder goes on elsewhere: with a tunnel or a WebSocket.
    recorder: Option<Box<ExchangeRecorder>>,
    /// Fires when the origin may have been silent for too long.
    silence: Option<Silence>,
    /// True if only the end of the connection tells the crawler where the body ends.
    is_open_ended: bool,
    /// Keeps an upload that was not asked for waiting until the answer is over.
    continue_signal: Option<Arc<ContinueSignal>>,
}

#[derive(Debug)]
enum Content {
    /// Written by crawlgate.
    Own(Option<Bytes>),
    /// From the origin, as it comes.
    Origins(ResponseBody),
    /// Broken off.
    Broken(Option<BodyError>),
}

/// Facts about a response that is passed on.
#[derive(Debug)]
pub struct Passing {
    /// Kept while the body is read: without it the request's body breaks off.
    pub continue_signal: Option<Arc<ContinueSignal>>,
    /// Fires when the origin may have been silent for too long.
    pub timer: Timer,
    /// Longest silence of the origin.
    pub patience: Duration,
    /// True if only the end of the connection tells the crawler where the body ends, as in HTTP/1.0 without a length.
    pub is_open_ended: bool,
}

impl Answer {
    /// Creates a body that crawlgate wrote.
    pub fn own(bytes: Bytes, recorder: Box<ExchangeRecorder>) -> Answer {
        let content = Content::Own((!bytes.is_empty()).then_some(bytes));
        Answer {
            content,
            recorder: Some(recorder),
            silence: None,
            is_open_ended: false,
            continue_signal: None,
        }
    }

    /// Creates an empty body before another protocol.
    pub fn empty() -> Answer {
        Answer {
            content: Content::Own(None),
            recorder: None,
            silence: None,
            is_open_ended: false,
            continue_signal: None,
        }
    }

    /// Creates a body from the origin's.
    pub fn forwarded(
        incoming: ResponseBody,
        recorder: Box<ExchangeRecorder>,
        passing: Passing,
    ) -> Answer {
        let Passing {
            continue_signal,
            timer,
            patience,
            is_open_ended,
        } = passing;
        Answer {
            content: Content::Origins(incoming),
            recorder: Some(recorder),
            silence: Some(Silence {
                timer,
                patience,
                is_broken: true,
            }),
            is_open_ended,
            continue_signal,
        }
    }

    /// Counts a frame, and releases the origin's body after its last one.
    fn passes(
        &mut self,
        frame: Option<Frame<Bytes>>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut frame = frame.map(Ok);
        mend_trailers(&mut frame);
        if let (Some(Ok(frame)), Some(recorder)) = (&frame, &mut self.recorder) {
            recorder.bytes_out += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        // Nothing follows a trailer section (RFC 9112 7.1.2), and hyper asks for nothing after it.
        let is_last = match &frame {
            Some(Ok(frame)) => frame.is_trailers(),
            Some(Err(_)) => false,
            None => true,
        };
        if is_last {
            self.content = Content::Own(None);
            self.continue_signal = None;
        }
        Poll::Ready(frame)
    }

    /// Enters that the body broke off, and why.
    fn break_off(&mut self, why: &'static str, error: BodyError) {
        self.content = Content::Broken(Some(error));
        if let Some(recorder) = &mut self.recorder {
            recorder.failed(why);
            if self.is_open_ended {
                recorder.resets();
            }
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
        let frame = match &mut this.content {
            Content::Own(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Content::Broken(error) => error.take().map(Err),
            Content::Origins(incoming) => {
                let broken = match (Pin::new(incoming).poll_frame(cx), &mut this.silence) {
                    (Poll::Ready(Some(Err(error))), _) => (Failure::of_body(&error), error.into()),
                    (Poll::Ready(frame), silence) => {
                        if let Some(silence) = silence {
                            silence.is_broken = true;
                        }
                        return this.passes(frame.and_then(Result::ok));
                    }
                    (Poll::Pending, None) => return Poll::Pending,
                    (Poll::Pending, Some(silence)) => {
                        ready!(silence.poll_too_long(cx));
                        ("http_response_timeout", "the origin fell silent".into())
                    }
                };
                let (why, error) = broken;
                this.break_off(why, error);
                // Pending once more, so that hyper flushes: when a body fails, it drops unflushed octets, even the
                // head.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        };
        match frame {
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            Some(Ok(frame)) => this.passes(Some(frame)),
            None => this.passes(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Own(bytes) => bytes.is_none(),
            Content::Origins(incoming) => incoming.is_end_stream(),
            Content::Broken(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Origins(incoming) => incoming.size_hint(),
            Content::Broken(_) => SizeHint::default(),
        }
    }
}

/// Removes fields that must not stand in trailers.
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
            && let Some(recorder) = &mut self.recorder
        {
            recorder.client_closed();
        }
    }
}

/// An origin's silence in the middle of a body. A crawler that hangs up meanwhile is not always noticed earlier: a
/// request behind the one under way keeps hyper from reading.
#[derive(Debug)]
struct Silence {
    timer: Timer,
    /// Longest silence; noticed after twice that time at the latest, so that no frame costs a look at a clock.
    patience: Duration,
    /// True if octets came since the timer was set.
    is_broken: bool,
}

impl Silence {
    fn poll_too_long(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.timer.poll_fire(cx));
            if !std::mem::take(&mut self.is_broken) {
                return Poll::Ready(());
            }
            self.timer.restart(self.patience);
        }
    }
}

/// Progress of a request's body on its way.
#[derive(Debug, Default)]
pub struct UploadProgress {
    /// Octets so far.
    pub octets: Arc<AtomicU64>,
    /// A [`UploadState`].
    flow: AtomicU8,
}

/// State of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum UploadState {
    /// Ended, or not taken by the origin.
    Still = 0,
    /// StallTimer for the crawler.
    Awaited = 1,
    /// The crawler took too long.
    Stalled = 2,
}

impl UploadProgress {
    /// Starts a progress that counts in `octets`.
    pub fn new(octets: Arc<AtomicU64>) -> UploadProgress {
        UploadProgress {
            octets,
            flow: AtomicU8::default(),
        }
    }

    /// Returns the state of the body.
    pub fn flow(&self) -> UploadState {
        match self.flow.load(Ordering::Relaxed) {
            1 => UploadState::Awaited,
            2 => UploadState::Stalled,
            _ => UploadState::Still,
        }
    }

    fn turn(&self, flow: UploadState) {
        self.flow.store(flow as u8, Ordering::Relaxed);
    }
}

/// The body of a crawler's request on its way to the origin.
#[derive(Debug)]
pub struct Upload {
    incoming: Incoming,
    upload: Arc<UploadProgress>,
    stall: StallTimer,
    /// Set while the crawler waits for `100 Continue`: the body is not read, and so not asked for, until the origin
    /// wants it (RFC 9110 10.1.1).
    invited: Option<oneshot::Receiver<()>>,
}

impl Upload {
    /// Creates an upload that reports to `upload` and waits for the crawler within `grant`. With `invited`, the first
    /// octet waits for that signal; if its sender is dropped, the origin has answered and does not want the body.
    pub fn new(
        incoming: Incoming,
        upload: Arc<UploadProgress>,
        grant: StallLimit,
        invited: Option<oneshot::Receiver<()>>,
    ) -> Upload {
        Upload {
            incoming,
            upload,
            stall: StallTimer::new(grant),
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
            this.upload.turn(UploadState::Awaited);
            ready!(this.stall.poll_too_long(cx));
            this.upload.turn(UploadState::Stalled);
            return Poll::Ready(Some(Err("the crawler's body came too slowly".into())));
        };
        this.upload.turn(UploadState::Still);
        mend_trailers(&mut frame);
        if let Some(Ok(frame)) = &frame {
            let octets = frame.data_ref().map_or(0, |data| data.len() as u64);
            this.upload.octets.fetch_add(octets, Ordering::Relaxed);
            this.stall.moved(octets);
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
