//! Bodies in transit: at most one frame is in hand at a time, [`transit`](crawlgate_net::transit) bounds those that the crawler has
//! not taken, and every octet is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::fields;
use super::recorder::{Answered, Exchange};
use super::stall::Timer;
use super::upload::ContinueSignal;
use crawlgate_egress::{BodyError, Failure, ResponseBody};
use crawlgate_net::transit::Transit;
use crawlgate_policy::usage::Release;

/// The body of an answer to a crawler. Holds the exchange, so that the record is written when the last octet
/// has been sent or the crawler has disconnected.
#[derive(Debug)]
pub struct Answer {
    content: Content,
    /// `None` if it has moved elsewhere: with a tunnel or a WebSocket.
    exchange: Option<Exchange<Answered>>,
    /// Fires when the origin may have been silent for too long.
    silence: Option<Silence>,
    /// True if only the end of the connection tells the crawler where the body ends.
    is_open_ended: bool,
    /// Keeps an upload that was not asked for waiting until the answer is over.
    continue_signal: Option<Arc<ContinueSignal>>,
}

#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the frequent one, and a box would cost each answer an allocation"
)]
enum Content {
    /// Written by crawlgate.
    Own(Option<Bytes>),
    /// From the origin, as it comes.
    Origins(ResponseBody, Transit),
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
    pub fn own(bytes: Bytes, exchange: Exchange<Answered>) -> Answer {
        let mut answer = Answer::empty();
        answer.content = Content::Own((!bytes.is_empty()).then_some(bytes));
        answer.exchange = Some(exchange);
        answer
    }

    /// Creates an empty body before another protocol.
    pub fn empty() -> Answer {
        Answer {
            content: Content::Own(None),
            exchange: None,
            silence: None,
            is_open_ended: false,
            continue_signal: None,
        }
    }

    /// Creates a body from the origin's. The release proves that the response was judged.
    pub fn forwarded(
        incoming: ResponseBody,
        _release: Release,
        exchange: Exchange<Answered>,
        passing: Passing,
    ) -> Answer {
        let Passing { continue_signal, timer, patience, is_open_ended } = passing;
        Answer {
            content: Content::Origins(incoming, Transit::default()),
            exchange: Some(exchange),
            silence: Some(Silence { timer, patience, is_broken: true }),
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
        fields::mend_trailers(&mut frame);
        if let (Some(Ok(frame)), Some(exchange)) = (&frame, &mut self.exchange) {
            exchange.add_octets_out(frame.data_ref().map_or(0, |data| data.len() as u64));
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
    fn abort(&mut self, why: &'static str, error: BodyError) {
        self.content = Content::Broken(Some(error));
        if let Some(exchange) = &mut self.exchange {
            exchange.fail(why);
            if self.is_open_ended {
                exchange.reset();
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
            Content::Origins(incoming, transit) => {
                // The crawler is slow, not the origin.
                ready!(transit.poll_next(cx));
                let broken = match (Pin::new(incoming).poll_frame(cx), &mut this.silence) {
                    (Poll::Ready(Some(Err(error))), _) => (Failure::of_body(&error), error.into()),
                    (Poll::Ready(frame), silence) => {
                        if let Some(silence) = silence {
                            silence.is_broken = true;
                        }
                        let frame = frame.and_then(Result::ok);
                        let frame = frame.map(|frame| transit.counted(frame));
                        return this.passes(frame);
                    }
                    (Poll::Pending, None) => return Poll::Pending,
                    (Poll::Pending, Some(silence)) => {
                        ready!(silence.poll_too_long(cx));
                        ("http_response_timeout", "the origin fell silent".into())
                    }
                };
                let (why, error) = broken;
                this.abort(why, error);
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
            Content::Origins(incoming, _) => incoming.is_end_stream(),
            Content::Broken(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Origins(incoming, _) => incoming.size_hint(),
            Content::Broken(_) => SizeHint::default(),
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.is_end_stream()
            && let Some(exchange) = &mut self.exchange
        {
            exchange.leave();
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
