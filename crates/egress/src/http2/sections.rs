//! Facts that `h2` does not tell of an origin's frames: it drops the last fields of trailers that are too long, and
//! keeps the last stream that a GOAWAY names to itself.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

use super::fields::{FIELDS, TOO_LONG};
use crawlgate_net::http2_frames::{CONTINUATION, FrameReader, GOAWAY, HEADERS};
use crawlgate_net::read_filter::{Filtered, ReadFilter};

/// Most octets of a field section on the wire. No section with [`FIELDS`] octets has as many: a code has at most as many
/// octets as its text in a reasonable encoding. Of a single field that `h2` drops, the value by itself has twice as
/// many as [`FIELDS`], and its shortest code five bits for an octet (RFC 7541, appendix B).
const MAX: usize = FIELDS + FIELDS / 4;

/// A connection that ends before the end of a section that is too long.
pub(super) type Measured<S> = Filtered<S, Sections>;

/// Octets of the last stream that a GOAWAY names, at its beginning (RFC 9113 6.8).
const LAST_STREAM: u8 = 4;

/// Follows the field sections that come, from the first octet of a connection on.
#[derive(Debug, Default)]
pub(super) struct Sections {
    reader: FrameReader,
    /// Octets of the section that has begun last.
    section: usize,
    /// The last stream that a GOAWAY names, as far as it has come, and its octets so far.
    leaving: Option<(u32, u8)>,
    status: Arc<Status>,
}

impl Sections {
    /// Begins with the first octet of a connection, for its status.
    pub(super) fn of(status: &Arc<Status>) -> Sections {
        Sections { status: Arc::clone(status), ..Sections::default() }
    }

    /// Reads the last stream that a GOAWAY names off its first octets.
    fn read_last_stream(&mut self, octets: &[u8]) {
        let Some((stream, count)) = &mut self.leaving else {
            return;
        };
        for octet in octets {
            *stream = *stream << 8 | u32::from(*octet);
            *count += 1;
            if *count == LAST_STREAM {
                self.status.last_stream.store(*stream, Ordering::Release);
                self.leaving = None;
                return;
            }
        }
    }

    /// Follows these octets, and returns the octets of the longest section that they begin or continue.
    fn follow(&mut self, mut octets: &[u8]) -> usize {
        let mut longest = 0;
        loop {
            self.read_last_stream(octets);
            if !self.reader.advance(&mut octets) {
                return longest;
            }
            let Some(header) = self.reader.header(&mut octets) else {
                return longest;
            };
            self.section = match header.kind {
                HEADERS => header.length,
                CONTINUATION => self.section.saturating_add(header.length),
                GOAWAY => {
                    self.leaving = Some((0, 0));
                    continue;
                }
                _ => continue,
            };
            longest = longest.max(self.section);
        }
    }
}

impl ReadFilter for Sections {
    fn poll_read(
        &mut self,
        inner: Pin<&mut (impl AsyncRead + Unpin)>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(inner.poll_read(cx, buf))?;
        let octets = buf.filled().get(before..).unwrap_or_default();
        if self.follow(octets) > MAX {
            // Before `h2` sees its end: the answer must not pass as whole.
            buf.set_filled(before);
            return Poll::Ready(Err(TOO_LONG.into()));
        }
        Poll::Ready(Ok(()))
    }
}

/// The state of a connection, shared with the task that moves its octets.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// The origin's first SETTINGS are there.
    pub(super) is_settled: AtomicBool,
    /// It takes no further stream.
    pub(super) is_over: AtomicBool,
    /// A request on it got the head of its response.
    pub(super) has_answered: AtomicBool,
    /// The origin broke the rules of HTTP/2 on it.
    pub(super) is_broken: AtomicBool,
    /// The last stream that the origin has processed, as its GOAWAY says; 0 before one.
    pub(super) last_stream: AtomicU32,
    /// Exchanges on it.
    pub(super) exchanges: AtomicUsize,
    /// Asks for a PING at once.
    pub(super) probe: Notify,
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
    fn the_last_stream_of_a_goaway_is_read() {
        let mut leaving = vec![0, 0, 8, GOAWAY, 0, 0, 0, 0, 0];
        leaving.extend([0, 0, 1, 7, 0, 0, 0, 0]);
        let sent = [frame(HEADERS, 30), leaving, frame(0, 20)].concat();
        for size in [sent.len(), 3, 1] {
            let status = Arc::<Status>::default();
            let mut sections = Sections::of(&status);
            for part in sent.chunks(size) {
                sections.follow(part);
            }
            assert_eq!(status.last_stream.load(Ordering::Acquire), 263, "by {size}");
        }
    }

    #[test]
    fn the_octets_of_a_section_are_counted_over_its_frames() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("nothing", vec![], 0),
            ("a body", frame(0, 200), 0),
            ("a head", frame(HEADERS, 90), 90),
            ("a head, a body and trailers", [frame(HEADERS, 90), frame(0, 200), frame(HEADERS, 20)].concat(), 90),
            ("trailers in parts", [frame(HEADERS, 30), frame(HEADERS, 20), frame(CONTINUATION, 0), frame(CONTINUATION, 25)].concat(), 45),
            ("the header of a frame", frame(HEADERS, 250)[..9].to_vec(), 250),
        ];
        for (name, sent, longest) in cases {
            // In one piece, and octet by octet.
            for size in [sent.len().max(1), 1] {
                let mut sections = Sections::default();
                let found = sent.chunks(size).map(|part| sections.follow(part)).max();
                assert_eq!(found.unwrap_or_default(), longest, "{name} by {size}");
            }
        }
    }
}
