//! A connection on which no request target has a fragment.
//!
//! A request target has no fragment (RFC 9112, section 3.2), and readers treat a `#` differently: `http` drops it with
//! all that follows, another proxy may send it on or cut it elsewhere. A decision about such a target would be about
//! another URL than the one in the request. So this connection cuts the end of such a request line, and hyper answers
//! 400 and closes.
//!
//! Only hyper knows where request lines are, and only after parsing them. So this connection checks every line that
//! could be the end of one: a body with such a line is refused, too.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The end of a request line, without its last digit.
const ENDS: &[u8] = b" HTTP/1.";

/// Octets of a line's end to look at: the digit and a carriage return may follow.
const TAIL: usize = ENDS.len() + 2;

/// A connection that checks each request line.
#[derive(Debug)]
pub struct Unfragmented<S> {
    inner: S,
    line: Line,
}

/// The part of a line read so far.
#[derive(Debug, Default)]
enum Line {
    /// Nothing that matters.
    #[default]
    Plain,
    /// A `#`, and the octets behind it that may be the end of a request line.
    Fragment(Vec<u8>),
}

impl<S> Unfragmented<S> {
    /// Wraps a connection that was not read yet.
    pub fn new(inner: S) -> Unfragmented<S> {
        Unfragmented {
            inner,
            line: Line::Plain,
        }
    }
}

impl Line {
    /// Reads the next octets, and cuts the request lines among them that have a fragment.
    fn pass(&mut self, octets: &mut [u8]) {
        let mut rest = octets;
        loop {
            let sought = match self {
                Line::Plain => b'#',
                Line::Fragment(_) => b'\n',
            };
            let found = memchr::memchr(sought, rest);
            let (before, after) = rest.split_at_mut(found.unwrap_or(rest.len()));
            if let Line::Fragment(tail) = self {
                tail.extend_from_slice(before);
                tail.drain(..tail.len().saturating_sub(TAIL));
            }
            let Some((end, after)) = after.split_first_mut() else {
                return;
            };
            *self = match self {
                Line::Plain => Line::Fragment(Vec::with_capacity(TAIL)),
                Line::Fragment(tail) => {
                    if ends_request_line(tail) {
                        *end = 0;
                    }
                    Line::Plain
                }
            };
            rest = after;
        }
    }
}

fn ends_request_line(tail: &[u8]) -> bool {
    let tail = tail.strip_suffix(b"\r").unwrap_or(tail);
    tail.split_last()
        .is_some_and(|(_, before)| before.ends_with(ENDS))
}

impl<S: AsyncRead + Unpin> AsyncRead for Unfragmented<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        let read = buf.filled_mut().get_mut(before..);
        this.line.pass(read.unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unfragmented<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, slices)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_line_with_a_fragment_is_cut_in_any_pieces() {
        for (name, said, passed) in [
            (
                "none",
                "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "one",
                "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
                "GET /a#b HTTP/1.1\r\0Host: a\r\n\r\n",
            ),
            (
                "an older version",
                "GET /a# HTTP/1.0\r\n\r\n",
                "GET /a# HTTP/1.0\r\0\r\n",
            ),
            (
                "a line end without a carriage return",
                "GET /# HTTP/1.1\n\n",
                "GET /# HTTP/1.1\0\n",
            ),
            (
                "several",
                "GET /#a#b HTTP/1.1\r\n\r\nGET /# HTTP/1.1\r\n\r\n",
                "GET /#a#b HTTP/1.1\r\0\r\nGET /# HTTP/1.1\r\0\r\n",
            ),
            (
                "a second request",
                "GET / HTTP/1.1\r\n\r\nGET /#a HTTP/1.1\r\n\r\n",
                "GET / HTTP/1.1\r\n\r\nGET /#a HTTP/1.1\r\0\r\n",
            ),
            (
                "one behind a body without a line end",
                "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nxGET /#a HTTP/1.1\r\n\r\n",
                "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nxGET /#a HTTP/1.1\r\0\r\n",
            ),
            (
                "in a field",
                "GET / HTTP/1.1\r\nReferer: http://a/#b\r\n\r\n",
                "GET / HTTP/1.1\r\nReferer: http://a/#b\r\n\r\n",
            ),
            (
                "in a body",
                "# a comment\nUser-agent: *\n#\nHTTP/1.1\n",
                "# a comment\nUser-agent: *\n#\nHTTP/1.1\n",
            ),
        ] {
            for length in 1..=said.len() {
                let mut line = Line::default();
                let mut octets = said.as_bytes().to_vec();
                for piece in octets.chunks_mut(length) {
                    line.pass(piece);
                }
                assert_eq!(
                    String::from_utf8_lossy(&octets),
                    passed,
                    "{name}, {length} octets at a time"
                );
            }
        }
    }
}
