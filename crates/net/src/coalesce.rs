//! Writes of few octets in one piece: a `send` of them all costs the kernel less than a `writev` of their parts.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tokio::io::AsyncWrite;

/// Octets that are copied to be written in one piece: the head of a message and a short body.
const SHORT: usize = 2048;

/// Writes these parts to `stream`, or the first octets of them, as [`AsyncWrite::poll_write_vectored`] does.
pub fn poll_write<S: AsyncWrite>(
    stream: Pin<&mut S>,
    cx: &mut Context<'_>,
    parts: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    if let [one] = parts {
        return stream.poll_write(cx, one);
    }
    let length: usize = parts.iter().map(|part| part.len()).sum();
    if length > SHORT {
        return stream.poll_write_vectored(cx, parts);
    }
    let mut whole = SmallVec::<[u8; SHORT]>::new();
    for part in parts {
        whole.extend_from_slice(part);
    }
    stream.poll_write(cx, &whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that takes at most this many octets at once, and keeps them by calls.
    struct Peer {
        at_once: usize,
        calls: Vec<(bool, Vec<u8>)>,
    }

    impl Peer {
        fn take(&mut self, is_vectored: bool, octets: &[u8]) -> Poll<io::Result<usize>> {
            let taken = octets.iter().copied().take(self.at_once);
            self.calls.push((is_vectored, taken.collect()));
            Poll::Ready(Ok(octets.len().min(self.at_once)))
        }
    }

    impl AsyncWrite for Peer {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.take(false, buf)
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let octets: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            self.take(true, &octets)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn few_octets_are_written_in_one_piece_and_many_by_their_parts() {
        let (short, long) = (vec![b'a'; SHORT - 1], vec![b'b'; SHORT]);
        #[rustfmt::skip] // one row, one case
        let cases: [(&str, &[&[u8]], usize, bool); 7] = [
            ("no part", &[], usize::MAX, false),
            ("one part", &[b"head"], usize::MAX, false),
            ("one long part", &[&long], usize::MAX, false),
            ("two parts", &[b"head", b"body"], usize::MAX, false),
            ("two parts, of which the peer takes a piece", &[b"head", b"body"], 6, false),
            ("as many as are copied", &[&short, b"1"], usize::MAX, false),
            ("one more", &[&short, b"12"], usize::MAX, true),
        ];
        for (name, parts, at_once, is_vectored) in cases {
            let mut stream = Peer { at_once, calls: Vec::new() };
            let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let written = poll_write(Pin::new(&mut stream), &mut cx, &slices);
            let mut all = parts.concat();
            all.truncate(at_once);
            assert!(matches!(written, Poll::Ready(Ok(octets)) if octets == all.len()), "{name}");
            assert_eq!(stream.calls, [(is_vectored, all)], "{name}");
        }
    }
}
