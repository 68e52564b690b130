//! A connection as it was accepted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::proxy::limits::Seat;

/// A connection as it was accepted: one type, so that what serves it is compiled once.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP, with the seat that may have it end with a reset.
    Tcp(TcpStream, Option<Arc<Seat>>),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Sets what a crawler's connection should have.
    ///
    /// # Errors
    /// What the system says; the connection works without.
    pub fn tune(&self) -> io::Result<()> {
        if let Stream::Tcp(stream, _) = self {
            stream.set_nodelay(true)?;
            // A crawler that vanished from a tunnel or a WebSocket is noticed by nothing else.
            rustix::net::sockopt::set_socket_keepalive(stream, true)?;
        }
        Ok(())
    }
}

impl Stream {
    /// Has it end with a reset where its `seat` says so when it is dropped.
    pub fn obey(&mut self, seat: &Arc<Seat>) {
        if let Stream::Tcp(_, resets) = self {
            *resets = Some(Arc::clone(seat));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Stream::Tcp(stream, Some(seat)) = self
            && seat.resets()
        {
            // What the system says to that changes nothing: the connection ends.
            let _ = stream.set_zero_linger();
        }
    }
}

/// Does the same with either.
macro_rules! either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream.get_mut() {
            Stream::Tcp($inner, _) => $call,
            Stream::Unix($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, inner => Pin::new(inner).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, inner => Pin::new(inner).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, inner => Pin::new(inner).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, inner => Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, inner => Pin::new(inner).poll_shutdown(cx))
    }
}
