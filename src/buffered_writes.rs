//! A stream that gathers small writes until they are flushed.
//!
//! `h2` writes each DATA frame by itself, and over TLS each write is a record and a system call. Frames that are ready
//! at the same time go out together here. `tokio::io::BufWriter` would do, but it keeps its buffer for as long as a
//! connection lives, and most of a proxy's connections are idle.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Octets that wait at most: two of the largest TLS records.
const MOST: usize = 32 * 1024;

/// A stream with a buffer for writes, which lives from a write to the next flush.
pub struct BufferedWrites<S> {
    io: S,
    held: Vec<u8>,
    /// Octets of `held` that `io` has taken.
    taken: usize,
}

impl<S: AsyncWrite + Unpin> BufferedWrites<S> {
    /// Gathers what is written to `io`.
    pub fn new(io: S) -> BufferedWrites<S> {
        BufferedWrites {
            io,
            held: Vec::new(),
            taken: 0,
        }
    }

    /// Hands all octets that wait to the stream.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(waiting @ [_, ..]) = self.held.get(self.taken..) {
            match ready!(Pin::new(&mut self.io).poll_write(cx, waiting))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                taken => self.taken += taken,
            }
        }
        self.held.clear();
        self.taken = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BufferedWrites<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(octets)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.held.len() >= MOST {
            ready!(self.poll_drain(cx))?;
        }
        let before = self.held.len();
        for part in parts {
            let room = MOST - self.held.len();
            let fits = part.get(..room).unwrap_or(part);
            self.held.extend_from_slice(fits);
        }
        Poll::Ready(Ok(self.held.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        self.held = Vec::new();
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BufferedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// Remembers each write, and takes at most `most` octets of it; every other one has to wait.
    #[derive(Default)]
    struct Slow {
        writes: Vec<Vec<u8>>,
        most: usize,
        waits: bool,
        is_shut: bool,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            octets: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.waits = !self.waits;
            if self.waits {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let taken = octets.len().min(self.most);
            self.writes.push(octets[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.is_shut = true;
            Poll::Ready(Ok(()))
        }
    }

    fn slow(most: usize) -> BufferedWrites<Slow> {
        BufferedWrites::new(Slow {
            most,
            ..Slow::default()
        })
    }

    #[tokio::test]
    async fn what_is_written_between_two_flushes_goes_out_as_one() {
        let mut io = slow(usize::MAX);
        io.write_all(b"head").await.unwrap();
        let parts = [IoSlice::new(b" and"), IoSlice::new(b" body")];
        assert_eq!(io.write_vectored(&parts).await.unwrap(), 9);
        assert!(io.io.writes.is_empty());
        io.flush().await.unwrap();
        assert_eq!(io.io.writes, [b"head and body"]);
        assert_eq!(io.held.capacity(), 0, "an idle connection keeps no buffer");
        io.write_all(b"next").await.unwrap();
        io.shutdown().await.unwrap();
        assert_eq!(io.io.writes.last().unwrap(), b"next");
        assert!(io.io.is_shut);
    }

    #[tokio::test]
    async fn no_octet_is_lost_doubled_or_held_beyond_the_bound() {
        for most in [1_000, 7_001, MOST, usize::MAX] {
            let octets: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
            let mut io = slow(most);
            for piece in octets.chunks(9_001) {
                let (one, other) = piece.split_at(piece.len() / 3);
                let mut rest = [IoSlice::new(one), IoSlice::new(other)];
                let mut rest = &mut rest[..];
                while !rest.is_empty() {
                    let taken = io.write_vectored(rest).await.unwrap();
                    assert!(taken > 0 && io.held.len() <= MOST);
                    IoSlice::advance_slices(&mut rest, taken);
                }
            }
            io.flush().await.unwrap();
            assert_eq!(io.io.writes.concat(), octets, "{most}");
        }
    }

    #[tokio::test]
    async fn a_stream_that_takes_nothing_more_is_an_error() {
        let mut io = slow(0);
        io.write_all(b"x").await.unwrap();
        let error = poll_fn(|cx| Pin::new(&mut io).poll_flush(cx)).await;
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}
