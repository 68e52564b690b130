//! A stream that is read through a filter and written as it is.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A look at octets between a stream and its reader.
pub trait ReadFilter {
    /// Reads from `inner`, or gives other octets, as [`AsyncRead::poll_read`] does.
    fn poll_read(
        &mut self,
        inner: Pin<&mut (impl AsyncRead + Unpin)>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;

    /// Takes note of octets that were written.
    fn wrote(&mut self, _octets: usize) {}
}

/// The stream.
#[derive(Debug)]
pub struct Filtered<S, F> {
    inner: S,
    filter: F,
}

impl<S, F> Filtered<S, F> {
    /// Puts a filter in front of a stream.
    pub fn new(inner: S, filter: F) -> Filtered<S, F> {
        Filtered { inner, filter }
    }
}

impl<S: AsyncRead + Unpin, F: ReadFilter + Unpin> AsyncRead for Filtered<S, F> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Filtered { inner, filter } = self.get_mut();
        filter.poll_read(Pin::new(inner), cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, F: ReadFilter + Unpin> AsyncWrite for Filtered<S, F> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Filtered { inner, filter } = self.get_mut();
        let written = Pin::new(inner).poll_write(cx, buf);
        written.map_ok(|octets| noted(filter, octets))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Filtered { inner, filter } = self.get_mut();
        let written = Pin::new(inner).poll_write_vectored(cx, bufs);
        written.map_ok(|octets| noted(filter, octets))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

fn noted(filter: &mut impl ReadFilter, octets: usize) -> usize {
    filter.wrote(octets);
    octets
}
