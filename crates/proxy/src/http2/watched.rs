//! The frames that a crawler sends, watched as they are read: `h2` tells neither of half a head, nor of frames that it
//! answers itself, nor of trailers of which it drops a part.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::abuse::Abuse;
use crawlgate_net::http2_frames::{CONTINUATION, FrameHeader, FrameReader, HEADER, HEADERS};
use crawlgate_net::read_filter::{Filtered, ReadFilter};

/// Octets before the first frame (RFC 9113 3.4).
const PREFACE: usize = 24;

/// Octets of the smallest part of an answer, a DATA frame of one octet.
const SMALLEST_DATA: usize = HEADER + 1;

/// Written octets that let one WINDOW_UPDATE pass uncounted: for each DATA frame, a crawler may open the window of its
/// stream and that of the connection.
const OCTETS_PER_UPDATE: usize = SMALLEST_DATA / 2;

/// Written octets that are remembered at most: crawlers open windows late, but not that late.
const MAX_WRITTEN: usize = 1 << 20;

/// Frame types and flags (RFC 9113 6).
const DATA: u8 = 0;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A crawler's connection, watched.
pub(super) type Watched<S> = Filtered<S, Watch>;

/// The state of a connection that is watched.
pub(super) struct Watch {
    frames: Frames,
    abuse: Arc<Abuse>,
    /// Written octets for which no WINDOW_UPDATE has come.
    written: usize,
    /// Octets of a trailer section on the wire, at most.
    most_trailers: usize,
    /// Time for the rest of a head.
    patience: Duration,
    /// Set while the rest of a head is awaited.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// Watches a connection from which nothing was read yet.
    pub(super) fn new(patience: Duration, most_trailers: usize, abuse: Arc<Abuse>) -> Watch {
        Watch { frames: Frames::default(), abuse, written: 0, most_trailers, patience, timer: None }
    }

    /// Returns the number of those WINDOW_UPDATEs that no written octets call for.
    fn excess_updates(&mut self, updates: u32) -> u32 {
        let updates = updates as usize;
        let called_for = updates.min(self.written / OCTETS_PER_UPDATE);
        self.written -= called_for * OCTETS_PER_UPDATE;
        u32::try_from(updates - called_for).unwrap_or(u32::MAX)
    }
}

impl ReadFilter for Watch {
    fn poll_read(
        &mut self,
        inner: Pin<&mut (impl AsyncRead + Unpin)>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.abuse.is_exceeded() {
            // The connection's task ends the connection, and reads no more.
            return Poll::Pending;
        }
        let before = buf.filled().len();
        match inner.poll_read(cx, buf) {
            Poll::Ready(read) => {
                let octets = buf.filled().get(before..).unwrap_or_default();
                let passed = self.frames.follow(octets);
                if passed.trailers > self.most_trailers {
                    // Before `h2` sees their end: the request must not pass as whole.
                    buf.set_filled(before);
                    self.abuse.refuse_trailers();
                    return Poll::Pending;
                }
                let frames = passed.others + self.excess_updates(passed.window_updates);
                if frames > 0 {
                    self.abuse.count_frames(frames);
                }
                if passed.ends_head {
                    // The next head, if it has begun, has its own time.
                    self.timer = None;
                }
                Poll::Ready(read)
            }
            Poll::Pending if self.frames.is_in_head => {
                let patience = self.patience;
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
                ready!(timer.as_mut().poll(cx));
                self.abuse.time_out();
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn wrote(&mut self, octets: usize) {
        self.written = self.written.saturating_add(octets).min(MAX_WRITTEN);
    }
}

/// The frames in some octets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Passed {
    /// Frames begun that are no part of a request.
    others: u32,
    /// WINDOW_UPDATE frames begun.
    window_updates: u32,
    /// Octets of the longest trailer section that has begun, on the wire.
    trailers: usize,
    /// True if a head has come to its end.
    ends_head: bool,
}

/// The part of a frame in the exchange.
enum Kind {
    /// It belongs to a request.
    Request,
    /// It opens a window for the answer.
    WindowUpdate,
    /// It is no part of a request.
    Other,
}

/// Follows the frames of one direction.
#[derive(Debug)]
struct Frames {
    reader: FrameReader,
    /// True from the header of a HEADERS frame to the last octet of its field section.
    is_in_head: bool,
    /// True if the frame under way ends a field section.
    ends_head: bool,
    /// The last stream that a head has opened: a later head on it, or on an earlier one, is a trailer section.
    last_stream: u32,
    /// Octets of the trailer section that has begun last.
    trailers: usize,
    are_trailers: bool,
}

impl Default for Frames {
    fn default() -> Frames {
        Frames {
            reader: FrameReader::behind(PREFACE),
            is_in_head: false,
            ends_head: false,
            last_stream: 0,
            trailers: 0,
            are_trailers: false,
        }
    }
}

impl Frames {
    /// Follows these octets.
    fn follow(&mut self, mut octets: &[u8]) -> Passed {
        let mut in_these = Passed::default();
        while self.reader.advance(&mut octets) {
            if std::mem::take(&mut self.ends_head) {
                self.is_in_head = false;
                in_these.ends_head = true;
            }
            let Some(header) = self.reader.header(&mut octets) else {
                break;
            };
            match self.begin(header) {
                Kind::Request => in_these.trailers = in_these.trailers.max(self.trailers),
                Kind::WindowUpdate => in_these.window_updates += 1,
                Kind::Other => in_these.others += 1,
            }
        }
        in_these
    }

    /// Begins the frame with this header, and returns its kind.
    fn begin(&mut self, header: FrameHeader) -> Kind {
        match header.kind {
            HEADERS | CONTINUATION => {
                self.count_trailers(header);
                self.is_in_head = true;
                self.ends_head = header.flags & END_HEADERS != 0;
                Kind::Request
            }
            WINDOW_UPDATE => Kind::WindowUpdate,
            DATA if header.length > 0 || header.flags & END_STREAM != 0 => Kind::Request,
            // Resets have a bound of their own.
            RST_STREAM => Kind::Request,
            _ => Kind::Other,
        }
    }

    /// Counts the frame that begins if it belongs to a trailer section.
    fn count_trailers(&mut self, header: FrameHeader) {
        if header.kind == HEADERS {
            self.are_trailers = header.stream <= self.last_stream;
            self.last_stream = self.last_stream.max(header.stream);
            self.trailers = 0;
        }
        if self.are_trailers {
            self.trailers = self.trailers.saturating_add(header.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::timeout;

    use super::*;
    use crawlgate_config::Config;
    use crawlgate_system::clock::Clock;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.extend(vec![0; length.into()]);
        frame
    }

    #[test]
    fn a_head_is_under_way_until_its_last_octet() {
        for (name, sent, is_in_head, others) in [
            ("nothing", vec![], false, 0),
            ("a head", frame(HEADERS, END_HEADERS, 20), false, 0),
            ("an empty head", frame(HEADERS, END_HEADERS, 0), false, 0),
            ("a part of a frame", frame(HEADERS, END_HEADERS, 20)[..28].to_vec(), true, 0),
            ("a part of a head", frame(HEADERS, END_STREAM, 20), true, 0),
            (
                "a head of three parts",
                [
                    frame(HEADERS, 0, 20),
                    frame(CONTINUATION, 0, 3),
                    frame(CONTINUATION, END_HEADERS, 0),
                ]
                .concat(),
                false,
                0,
            ),
            (
                "a head and a part of another",
                [frame(HEADERS, END_HEADERS, 1), frame(HEADERS, 0, 1)].concat(),
                true,
                0,
            ),
            ("a body", [frame(DATA, 0, 9), frame(DATA, END_STREAM, 0)].concat(), false, 0),
            (
                "frames that are no part of a request",
                [
                    frame(DATA, 0, 0),
                    frame(2, 0, 5),
                    frame(4, 0, 0),
                    frame(6, 0, 8),
                    frame(99, 0, 8),
                ]
                .concat(),
                false,
                5,
            ),
            (
                "a window and a reset",
                [frame(WINDOW_UPDATE, 0, 4), frame(RST_STREAM, 0, 4)].concat(),
                false,
                0,
            ),
        ] {
            let octets = [vec![0; PREFACE], sent].concat();
            // In one piece, and octet by octet.
            for size in [octets.len(), 1] {
                let mut frames = Frames::default();
                let parts = octets.chunks(size).map(|part| frames.follow(part));
                let found: u32 = parts.map(|passed| passed.others).sum();
                assert_eq!((frames.is_in_head, found), (is_in_head, others), "{name} by {size}");
            }
        }
    }

    #[test]
    fn the_octets_of_trailers_are_counted_and_those_of_heads_are_not() {
        let on = |stream: u8, kind: u8, length: u8| {
            let mut frame = frame(kind, 0, length);
            frame[8] = stream;
            frame
        };
        for (name, sent, octets) in [
            ("heads", [on(1, HEADERS, 90), on(3, HEADERS, 90)].concat(), 0),
            ("a head in parts", [on(1, HEADERS, 90), on(1, CONTINUATION, 90)].concat(), 0),
            ("trailers", [on(1, HEADERS, 90), on(1, HEADERS, 20)].concat(), 20),
            (
                "trailers in parts",
                [on(1, HEADERS, 9), on(1, HEADERS, 20), on(1, CONTINUATION, 5)].concat(),
                25,
            ),
            (
                "trailers of an earlier stream, and of the last",
                [on(1, HEADERS, 9), on(3, HEADERS, 9), on(1, HEADERS, 20), on(3, HEADERS, 7)]
                    .concat(),
                20,
            ),
        ] {
            let octets_sent = [vec![0; PREFACE], sent].concat();
            for size in [octets_sent.len(), 1] {
                let mut frames = Frames::default();
                let parts = octets_sent.chunks(size).map(|part| frames.follow(part));
                let found = parts.map(|passed| passed.trailers).max();
                assert_eq!(found, Some(octets), "{name} by {size}");
            }
        }
    }

    #[tokio::test]
    async fn trailers_that_are_too_long_are_not_passed_on() {
        for (length, is_passed) in [(250, true), (251, false)] {
            let abuse = Arc::new(Abuse::new(&Config::default().limits, &Clock::system()));
            let (mut crawler, proxy) = duplex(1 << 16);
            let watch = Watch::new(Duration::from_secs(10), 250, Arc::clone(&abuse));
            let mut watched = Filtered::new(proxy, watch);
            let head = frame(HEADERS, END_HEADERS, 255);
            let trailers = frame(HEADERS, END_HEADERS, length);
            let sent = [vec![0; PREFACE], head, trailers].concat();
            crawler.write_all(&sent).await.unwrap();
            let mut octets = vec![0; 1_024];
            let read = timeout(Duration::from_millis(1), watched.read(&mut octets)).await;
            assert_eq!(read.is_ok(), is_passed, "{length}");
            assert_eq!(abuse.is_exceeded(), !is_passed, "{length}");
        }
    }

    #[test]
    fn window_updates_without_an_answer_are_counted() {
        let abuse = Arc::new(Abuse::new(&Config::default().limits, &Clock::system()));
        let mut watch = Watch::new(Duration::from_secs(10), 1_000, abuse);
        for (written, updates, excess_updates) in [
            (0, 3, 3),
            (10, 3, 1),
            (4, 1, 1),
            (1, 1, 0),
            (usize::MAX, 0, 0),
            (usize::MAX, 300_000, 300_000 - (1 << 20) / 5),
        ] {
            watch.wrote(written);
            let found = watch.excess_updates(updates);
            assert_eq!(found, excess_updates, "{written} octets, {updates} frames");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_head_has_its_own_time() {
        let patience = Duration::from_secs(10);
        let abuse = Arc::new(Abuse::new(&Config::default().limits, &Clock::system()));
        let (mut crawler, proxy) = duplex(1 << 16);
        let mut watched = Filtered::new(proxy, Watch::new(patience, 1_000, Arc::clone(&abuse)));
        let head = frame(HEADERS, END_HEADERS, 20);
        let (begin, end) = head.split_at(12);
        crawler.write_all(&[0; PREFACE]).await.unwrap();
        crawler.write_all(begin).await.unwrap();
        let read = async |watched: &mut Watched<DuplexStream>, time: u64| {
            let mut octets = vec![0; 1_024];
            let reading = async { while watched.read(&mut octets).await.is_ok() {} };
            drop(timeout(Duration::from_secs(time), reading).await);
        };
        for _ in 0..3 {
            read(&mut watched, 7).await;
            // The end of one head, and the beginning of the next.
            crawler.write_all(&[end, begin].concat()).await.unwrap();
        }
        read(&mut watched, 9).await;
        assert!(!abuse.is_exceeded(), "after thirty seconds");
        read(&mut watched, 2).await;
        assert!(abuse.is_exceeded(), "the last head has had its time");
    }
}
