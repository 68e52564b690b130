//! The octets of a CONNECT on an HTTP/2 stream (RFC 9113 8.5, RFC 8441).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use h2::{Reason, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::poll_room;

/// A stream as a pair of octet streams. Dropped before its end, it resets the stream.
pub struct Tunnel {
    receiving: RecvStream,
    sending: SendStream<Bytes>,
    /// Octets of the last DATA frame that were not read yet.
    rest: Bytes,
    has_ended: bool,
    /// Tells whether the stream is to end with a reset.
    resets: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Tunnel {
    /// Reads and writes the octets of these two halves of a stream.
    pub fn new(receiving: RecvStream, sending: SendStream<Bytes>) -> Tunnel {
        Tunnel { receiving, sending, rest: Bytes::new(), has_ended: false, resets: None }
    }

    /// Ends the stream with a reset if `resets` says so at its end.
    pub fn obey(&mut self, resets: impl Fn() -> bool + Send + Sync + 'static) {
        self.resets = Some(Box::new(resets));
    }

    /// Tells whether the stream ends with a reset: the only sign that its octets are incomplete.
    fn resets(&self) -> bool {
        self.resets.as_ref().is_some_and(|resets| resets())
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(self.receiving.poll_data(cx)) {
                Some(Ok(data)) => self.rest = data,
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let count = self.rest.len().min(buf.remaining());
        buf.put_slice(self.rest.get(..count).unwrap_or_default());
        self.rest.advance(count);
        // Only octets that were read make room for more.
        let released = self.receiving.flow_control().release_capacity(count);
        Poll::Ready(released.map_err(broken))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let room = ready!(poll_room(&mut self.sending, buf.len(), cx)).map_err(broken)?;
        let count = room.min(buf.len());
        let data = Bytes::copy_from_slice(buf.get(..count).unwrap_or_default());
        let sent = self.sending.send_data(data, false);
        Poll::Ready(sent.map(|()| count).map_err(broken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection's task writes what is queued.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_ended || self.resets() {
            return Poll::Ready(Ok(()));
        }
        self.has_ended = true;
        Poll::Ready(self.sending.send_data(Bytes::new(), true).map_err(broken))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        if !self.has_ended {
            // RFC 9113 8.5: the counterpart of a TCP reset.
            let reason = if self.resets() { Reason::CONNECT_ERROR } else { Reason::CANCEL };
            self.sending.send_reset(reason);
        }
    }
}

fn broken(error: h2::Error) -> io::Error {
    if error.is_io() {
        error.into_io().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    } else {
        io::Error::new(io::ErrorKind::ConnectionReset, error)
    }
}

impl std::fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tunnel").field("has_ended", &self.has_ended).finish_non_exhaustive()
    }
}
