//! The field sections that an origin sends, measured as they are read: `h2` drops the last fields of trailers that are too
//! long, and does not tell.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::FIELDS;

/// Most octets of a field section on the wire. No section with [`FIELDS`] octets has as many: a code has at most as many
/// octets as its text in a reasonable encoding. Of a single field that `h2` drops, the value alone has twice as many as
/// [`FIELDS`], and its shortest code five bits for an octet (RFC 7541, appendix B).
const MOST: usize = FIELDS + FIELDS / 4;

/// The kind of the error that ends a connection with a longer section: `h2` keeps the kind alone, and no other error of a
/// socket has it.
pub(in super::super) const TOO_LONG: io::ErrorKind = io::ErrorKind::FileTooLarge;

/// Octets of a frame's header (RFC 9113 4.1).
const HEADER: usize = 9;

/// Frame types (RFC 9113 6).
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

/// A connection that ends before the end of a section that is too long.
pub(super) struct Measured<S> {
    inner: S,
    frames: Frames,
}

/// Follows the frames that come.
#[derive(Debug, Default)]
struct Frames {
    /// Octets of the frame under way that are still to come.
    rest: usize,
    /// The part of a frame's header that has come.
    header: [u8; HEADER],
    count: usize,
    /// Octets of the section that has begun last.
    section: usize,
}

impl<S> Measured<S> {
    /// Measures a connection from which nothing was read yet.
    pub(super) fn new(inner: S) -> Measured<S> {
        Measured {
            inner,
            frames: Frames::default(),
        }
    }
}

impl Frames {
    /// Follows these octets, and returns the octets of the longest section that they begin or continue.
    fn follow(&mut self, mut octets: &[u8]) -> usize {
        let mut longest = 0;
        loop {
            let passed = self.rest.min(octets.len());
            self.rest -= passed;
            octets = octets.get(passed..).unwrap_or_default();
            if self.rest > 0 {
                return longest;
            }
            while let (Some(place), [first, after @ ..]) = (self.header.get_mut(self.count), octets)
            {
                *place = *first;
                self.count += 1;
                octets = after;
            }
            if self.count < HEADER {
                return longest;
            }
            self.count = 0;
            let [first, second, third, kind, ..] = self.header;
            let length = u32::from_be_bytes([0, first, second, third]);
            self.rest = usize::try_from(length).unwrap_or(usize::MAX);
            self.section = match kind {
                HEADERS => self.rest,
                CONTINUATION => self.section.saturating_add(self.rest),
                _ => continue,
            };
            longest = longest.max(self.section);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Measured<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Measured { inner, frames } = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(inner).poll_read(cx, buf))?;
        let octets = buf.filled().get(before..).unwrap_or_default();
        if frames.follow(octets) > MOST {
            // Before `h2` sees its end: the answer must not pass as whole.
            buf.set_filled(before);
            return Poll::Ready(Err(TOO_LONG.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Measured<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, bufs)
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

    fn frame(kind: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, 1];
        frame.extend(vec![0; length.into()]);
        frame
    }

    #[test]
    fn the_octets_of_a_section_are_counted_over_its_frames() {
        for (name, sent, longest) in [
            ("nothing", vec![], 0),
            ("a body", frame(0, 200), 0),
            ("a head", frame(HEADERS, 90), 90),
            (
                "a head, a body and trailers",
                [frame(HEADERS, 90), frame(0, 200), frame(HEADERS, 20)].concat(),
                90,
            ),
            (
                "trailers in parts",
                [
                    frame(HEADERS, 30),
                    frame(HEADERS, 20),
                    frame(CONTINUATION, 0),
                    frame(CONTINUATION, 25),
                ]
                .concat(),
                45,
            ),
            (
                "the header of a frame",
                frame(HEADERS, 250)[..9].to_vec(),
                250,
            ),
        ] {
            // In one piece, and octet by octet.
            for size in [sent.len().max(1), 1] {
                let mut frames = Frames::default();
                let found = sent.chunks(size).map(|part| frames.follow(part)).max();
                assert_eq!(found.unwrap_or_default(), longest, "{name} by {size}");
            }
        }
    }
}
