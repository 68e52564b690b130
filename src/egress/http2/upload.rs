//! The body of a request on its stream: as fast as the origin's windows permit, one frame in hand.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::Body as _;

use super::super::RequestBody;

/// A body under way. Dropped before its end, it resets its stream.
pub(super) struct Upload {
    stream: SendStream<Bytes>,
    body: RequestBody,
    /// Octets that wait for the origin's window.
    waiting: Bytes,
    /// True once the body was asked for octets: some of it may be gone.
    has_begun: bool,
}

/// The end of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The whole body was handed over.
    Whole,
    /// The origin takes no more of it. The response tells why.
    Unwanted,
    /// The crawler's body broke off.
    Broken,
}

impl Upload {
    pub(super) fn new(stream: SendStream<Bytes>, body: RequestBody) -> Upload {
        Upload {
            stream,
            body,
            waiting: Bytes::new(),
            has_begun: false,
        }
    }

    /// Returns the body if nothing of it was taken.
    pub(super) fn untouched(self) -> Option<RequestBody> {
        (!self.has_begun).then_some(self.body)
    }

    /// Sends the waiting octets that the windows permit. Ready when none wait any more.
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        while !self.waiting.is_empty() {
            self.stream.reserve_capacity(self.waiting.len());
            let mut room = self.stream.capacity();
            while room == 0 {
                room = match ready!(self.stream.poll_capacity(cx)) {
                    Some(room) => room?,
                    // The stream is closed.
                    None => return Poll::Ready(Err(Reason::STREAM_CLOSED.into())),
                };
            }
            let part = self.waiting.split_to(room.min(self.waiting.len()));
            let is_last = self.waiting.is_empty() && self.body.is_end_stream();
            self.stream.send_data(part, is_last)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<End, h2::Error>> {
        loop {
            if self.stream.poll_reset(cx)?.is_ready() {
                return Poll::Ready(Ok(End::Unwanted));
            }
            let had_octets = !self.waiting.is_empty();
            ready!(self.poll_waiting(cx))?;
            if had_octets && self.body.is_end_stream() {
                return Poll::Ready(Ok(End::Whole));
            }
            self.has_begun = true;
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => {
                    self.stream.send_data(Bytes::new(), true)?;
                    return Poll::Ready(Ok(End::Whole));
                }
                Some(Err(_)) => {
                    self.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(Ok(End::Broken));
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(octets) => self.waiting = octets,
                    Err(frame) => {
                        if let Ok(trailers) = frame.into_trailers() {
                            self.stream.send_trailers(trailers)?;
                            return Poll::Ready(Ok(End::Whole));
                        }
                    }
                },
            }
        }
    }
}

impl Future for Upload {
    type Output = End;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let end = ready!(self.get_mut().poll_send(cx));
        Poll::Ready(end.unwrap_or(End::Unwanted))
    }
}
