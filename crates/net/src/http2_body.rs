//! Bodies on the streams of HTTP/2, those of crawlers and those of origins.
//!
//! The peer's windows set the pace of a body that is sent; one frame of it is in hand. The octets of a body that is
//! received make room for as many more once they are passed on: a reader that stops holds the peer back.

mod tunnel;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http_body::{Body, Frame};

pub use self::tunnel::Tunnel;

/// Octets of a DATA frame that fills a TLS record together with its header (RFC 8446 5.1, RFC 9113 4.1): one octet more
/// makes a second record.
pub const MAX_DATA: usize = 16_384 - 9;

/// A body that is sent on a stream. Dropped before its end, it resets the stream.
pub struct Sending<B> {
    stream: SendStream<Bytes>,
    body: B,
    /// Octets that wait for the peer's window.
    waiting: Bytes,
    /// Octets that the stream has taken.
    sent: u64,
    has_begun: bool,
}

/// The end of a body that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The stream has taken the whole body.
    Whole,
    /// The peer has reset the stream, or has gone.
    Reset,
    /// The body broke off. The stream is still open.
    Broken,
}

impl<B> Sending<B> {
    /// Sends `body` on this stream when it is polled.
    pub fn new(stream: SendStream<Bytes>, body: B) -> Sending<B> {
        Sending { stream, body, waiting: Bytes::new(), sent: 0, has_begun: false }
    }

    /// Returns the number of octets that the stream has taken.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Tells whether octets wait for the peer's window.
    pub fn is_held_back(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Tells whether nothing of the body was taken.
    pub fn is_untouched(&self) -> bool {
        !self.has_begun
    }

    /// Returns the body if nothing of it was taken.
    pub fn untouched(self) -> Option<B> {
        self.is_untouched().then_some(self.body)
    }

    /// Resets the stream.
    pub fn reset(&mut self, reason: Reason) {
        self.stream.send_reset(reason);
    }
}

impl<B: Body<Data = Bytes> + Unpin> Sending<B> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<End, h2::Error>> {
        loop {
            while !self.waiting.is_empty() {
                let room = ready!(poll_room(&mut self.stream, self.waiting.len(), cx))?;
                let part = self.waiting.split_to(room.min(self.waiting.len()).min(MAX_DATA));
                let (count, is_last) =
                    (part.len() as u64, self.waiting.is_empty() && self.body.is_end_stream());
                self.stream.send_data(part, is_last)?;
                self.sent += count;
                if is_last {
                    return Poll::Ready(Ok(End::Whole));
                }
            }
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            self.has_begun = true;
            match frame.map(|frame| frame.map(Frame::into_data)) {
                None => {
                    self.stream.send_data(Bytes::new(), true)?;
                    return Poll::Ready(Ok(End::Whole));
                }
                Some(Err(_)) => return Poll::Ready(Ok(End::Broken)),
                Some(Ok(Ok(octets))) => self.waiting = octets,
                Some(Ok(Err(frame))) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        self.stream.send_trailers(trailers)?;
                        return Poll::Ready(Ok(End::Whole));
                    }
                }
            }
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Future for Sending<B> {
    type Output = End;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let this = self.get_mut();
        match this.poll_send(cx) {
            Poll::Ready(end) => Poll::Ready(end.unwrap_or(End::Reset)),
            Poll::Pending => this.stream.poll_reset(cx).map(|_| End::Reset),
        }
    }
}

/// Waits until the peer's windows have room for some of `wanted` octets, and returns the room.
pub fn poll_room(
    stream: &mut SendStream<Bytes>,
    wanted: usize,
    cx: &mut Context<'_>,
) -> Poll<Result<usize, h2::Error>> {
    stream.reserve_capacity(wanted);
    while stream.capacity() == 0 {
        match ready!(stream.poll_capacity(cx)) {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Poll::Ready(Err(error)),
            None => return Poll::Ready(Err(Reason::STREAM_CLOSED.into())),
        }
    }
    Poll::Ready(Ok(stream.capacity()))
}

/// Polls the next frame of a body that is received.
pub fn poll_frame(
    stream: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
    while let Some(octets) = ready!(stream.poll_data(cx)) {
        let octets = match octets {
            Ok(octets) if octets.is_empty() => continue,
            Ok(octets) => octets,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        let released = stream.flow_control().release_capacity(octets.len());
        return Poll::Ready(Some(released.map(|()| Frame::data(octets))));
    }
    let trailers = ready!(stream.poll_trailers(cx)).transpose();
    Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)))
}

impl<B> std::fmt::Debug for Sending<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sending").field("sent", &self.sent).finish_non_exhaustive()
    }
}
