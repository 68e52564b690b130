//! An accepted connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::limits::ConnectionSlot;
use crawlgate_net::coalesce;

/// An accepted connection of any kind: one type, so that the code that serves it is compiled once.
#[derive(Debug)]
pub enum Stream {
    /// A connection over TCP, with the slot that may have it end with a reset.
    Tcp(TcpStream, Option<Arc<ConnectionSlot>>),
    /// A connection over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Sets the socket options of a crawler's connection.
    ///
    /// # Errors
    /// The system's error; the connection works without the options.
    pub fn tune(&self) -> io::Result<()> {
        if let Stream::Tcp(stream, _) = self {
            stream.set_nodelay(true)?;
            // Only keep-alive notices a crawler that vanished from a tunnel or a WebSocket.
            rustix::net::sockopt::set_socket_keepalive(stream, true)?;
        }
        Ok(())
    }
}

impl Stream {
    /// Ends the connection with a reset if its `slot` says so when it is dropped.
    pub fn obey(&mut self, slot: &Arc<ConnectionSlot>) {
        if let Stream::Tcp(_, resets) = self {
            *resets = Some(Arc::clone(slot));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Stream::Tcp(stream, Some(slot)) = self
            && slot.resets()
        {
            // A failure changes nothing: the connection ends.
            let _ = stream.set_zero_linger();
        }
    }
}

/// Makes the same call on either kind.
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
        either!(self, inner => coalesce::poll_write(Pin::new(inner), cx, bufs))
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
