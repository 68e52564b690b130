//! The framing check in front of hyper on a connection to the admin side.
//!
//! Two readers can read a target with a fragment, or the end of a request, in two ways. A decision must not be about
//! another URL than the one that is fetched, so [`Framer`] reads each head first. In the place of a head
//! that it refuses, and in its turn, hyper reads one that hyper refuses, too: hyper answers and closes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crawlgate_net::read_filter::ReadFilter;
use crawlgate_proxy::framing::{Bounds, Framer, Scan, USUAL_FIELDS, Violation};

/// No beginning of a request: hyper answers 400.
const MALFORMED: &[u8] = b"\0";

/// The octets of a connection on their way through the framer.
#[derive(Debug)]
pub(super) struct FramingFilter {
    framer: Framer,
    /// Octets read, but not yet fit to pass.
    held: Vec<u8>,
    /// Octets fit to pass, but not yet read by hyper.
    passing: Vec<u8>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Requests come.
    Open,
    /// A request was refused: nothing more is read.
    Refused,
    /// The framing of a body is broken.
    Broken,
}

impl FramingFilter {
    /// Checks a connection from which nothing was read yet; a head has at most `head` octets.
    pub(super) fn new(head: usize) -> FramingFilter {
        let bounds = Bounds { head, target: head, fields: USUAL_FIELDS };
        FramingFilter {
            framer: Framer::to_origin_server(bounds),
            held: Vec::new(),
            passing: Vec::new(),
            phase: Phase::Open,
        }
    }

    /// Takes octets from the connection.
    fn take(&mut self, octets: &[u8]) {
        self.held.extend_from_slice(octets);
        let (passed, refused) = match self.framer.scan(&self.held) {
            Scan::Pass(passed) => (passed, None),
            Scan::Refuse(passed, violation) => (passed, Some(violation)),
            // No target of this server has such characters.
            Scan::Escape(passed, _) => (passed, Some(Violation::Target)),
            Scan::Broken(passed) => {
                self.phase = Phase::Broken;
                (passed, None)
            }
        };
        self.passing.extend(self.held.drain(..passed));
        if let Some(violation) = refused {
            self.phase = Phase::Refused;
            self.passing.extend(stand_in(violation));
        }
        if self.phase != Phase::Open {
            self.held = Vec::new();
        }
    }

    /// Moves octets that may pass into `buf`. Returns false if there are none.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let octets = self.passing.len().min(buf.remaining());
        buf.put_slice(self.passing.get(..octets).unwrap_or_default());
        self.passing.drain(..octets);
        octets > 0
    }
}

/// Returns a head that hyper refuses for a like reason, by 400 or 431.
fn stand_in(violation: Violation) -> Vec<u8> {
    match violation {
        Violation::HeadTooLarge | Violation::TooManyFields | Violation::TargetTooLong => {
            let fields = "a:\r\n".repeat(USUAL_FIELDS + 1);
            format!("GET / HTTP/1.1\r\n{fields}\r\n").into_bytes()
        }
        _ => MALFORMED.to_vec(),
    }
}

impl ReadFilter for FramingFilter {
    fn poll_read(
        &mut self,
        mut inner: Pin<&mut (impl AsyncRead + Unpin)>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.give(buf) {
                return Poll::Ready(Ok(()));
            }
            match self.phase {
                Phase::Open => {}
                // Pending, not an end of file: hyper has yet to answer.
                Phase::Refused => return Poll::Pending,
                Phase::Broken => {
                    let broken = "the framing of the request body is broken";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, broken)));
                }
            }
            let before = buf.filled().len();
            ready!(inner.as_mut().poll_read(cx, buf))?;
            let fresh = buf.filled().get(before..).unwrap_or_default();
            if fresh.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.take(fresh);
            buf.set_filled(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the octets that pass and the phase after them, if they come so many at a time.
    fn passed(said: &[u8], length: usize) -> (String, Phase) {
        let mut filter = FramingFilter::new(1024);
        let mut passed = Vec::new();
        for piece in said.chunks(length) {
            if filter.phase == Phase::Open {
                filter.take(piece);
            }
            let mut room = [0; 4096];
            let mut buf = ReadBuf::new(&mut room);
            while filter.give(&mut buf) {
                passed.extend_from_slice(buf.filled());
                buf.clear();
            }
        }
        (String::from_utf8_lossy(&passed).into_owned(), filter.phase)
    }

    #[test]
    fn a_target_with_a_fragment_does_not_pass_and_a_body_that_looks_alike_does() {
        let fine = "GET /a HTTP/1.1\r\nReferer: http://a/#b\r\n\r\n";
        let one = "GET /#b HTTP/1.1\r\nHost: a\r\n\r\n";
        let lines = "a # comment HTTP/1.1\r\nGET /#b HTTP/1.1\r\n\r\n";
        let sized = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n{lines}", lines.len());
        let chunked = format!(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{lines}\r\n0\r\n\r\n",
            lines.len()
        );
        for (name, before, refused) in [
            ("none", fine, ""),
            ("one", "", one),
            ("an empty one", "", "GET /a# HTTP/1.0\r\n\r\n"),
            ("in a whole URL", "", "GET http://a/#b HTTP/1.1\r\n\r\n"),
            ("a second request", fine, one),
            ("a body", &sized, ""),
            ("behind a body", &sized, one),
            ("a chunked body", &chunked, ""),
            ("behind a chunked body", &chunked, one),
            ("behind a CONNECT", "CONNECT a:1 HTTP/1.1\r\n\r\n", one),
            ("behind an upgrade", "GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", one),
        ] {
            let said = format!("{before}{refused}");
            let (expected, phase) = match refused {
                "" => (before.to_owned(), Phase::Open),
                _ => (format!("{before}\0"), Phase::Refused),
            };
            for length in 1..=said.len() {
                let found = passed(said.as_bytes(), length);
                assert_eq!(found, (expected.clone(), phase), "{name}, {length} at once");
            }
        }
    }

    #[test]
    fn a_head_that_is_too_large_is_refused_as_such_and_a_broken_body_ends_all() {
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(2000));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a:\r\n".repeat(101));
        for (name, said) in [("a long target", long), ("many fields", many)] {
            let (passed, phase) = passed(said.as_bytes(), 100);
            assert_eq!(phase, Phase::Refused, "{name}");
            let mut fields = [httparse::EMPTY_HEADER; USUAL_FIELDS];
            let found = httparse::Request::new(&mut fields).parse(passed.as_bytes());
            assert_eq!(found, Err(httparse::Error::TooManyHeaders), "{name}");
        }
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let said = format!("{head}x");
        assert_eq!(passed(said.as_bytes(), 9), (head.to_owned(), Phase::Broken));
    }
}
