//! The heads of responses by HTTP/1.1, mended as they are read.
//!
//! hyper leaves a field line out if its value has a control octet, and a reason phrase with octets above ASCII, without a word.
//! Here each control octet becomes a space, as RFC 9110 (section 5.5) and RFC 9112 (section 2.2) permit, and the phrase is kept. A
//! CR without LF that ends a read cannot be mended any more: it ends the connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use hyper::ext::ReasonPhrase;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};

use crawlgate_net::read_filter::ReadFilter;

/// Octets of a status line that are kept.
const STATUS_LINE: usize = 1024;

/// The state that an exchange shares with the filter of its connection.
#[derive(Debug, Default)]
pub(super) struct ResponseHead {
    is_expected: AtomicBool,
    reason: Mutex<Option<ReasonPhrase>>,
}

impl ResponseHead {
    /// Expects a head: a request is about to be sent.
    pub(super) fn expect(&self) {
        self.is_expected.store(true, Ordering::Release);
    }

    /// Takes the reason phrase, if it has octets above ASCII.
    pub(super) fn reason(&self) -> Option<ReasonPhrase> {
        self.reason.lock().take()
    }
}

/// Follows the heads on a connection.
#[derive(Debug)]
pub(super) struct Heads {
    shared: Arc<ResponseHead>,
    place: Place,
    /// The last octet was a CR.
    is_after_cr: bool,
}

/// The place in the octets that come.
#[derive(Debug)]
enum Place {
    /// Behind a head.
    Outside,
    /// In the status line, with its first octets.
    Status(Vec<u8>),
    /// In a field line.
    Field { is_empty: bool, is_interim: bool },
}

impl Heads {
    pub(super) fn of(shared: &Arc<ResponseHead>) -> Heads {
        Heads { shared: Arc::clone(shared), place: Place::Outside, is_after_cr: false }
    }

    /// Mends the octets of heads among these. False if no LF follows a CR that was passed on.
    fn mend(&mut self, octets: &mut [u8]) -> bool {
        if matches!(self.place, Place::Outside) {
            if !self.shared.is_expected.swap(false, Ordering::AcqRel) {
                return true;
            }
            self.place = Place::Status(Vec::new());
        }
        if std::mem::take(&mut self.is_after_cr) && octets.first() != Some(&b'\n') {
            return false;
        }
        let mut rest = octets;
        while let [octet, behind @ ..] = rest {
            match (*octet, behind.first()) {
                (b'\r', Some(b'\n') | None) | (b'\n' | b'\t', _) => {}
                (b'\r' | ..=0x1f | 0x7f, _) => *octet = b' ',
                _ => {}
            }
            if !self.pass(*octet) {
                return true;
            }
            self.is_after_cr = *octet == b'\r' && behind.is_empty();
            rest = behind;
        }
        true
    }

    /// Follows an octet of a head. False if it was the last one.
    fn pass(&mut self, octet: u8) -> bool {
        let is_end = octet == b'\n';
        match &mut self.place {
            Place::Outside => return false,
            // Empty lines before a response mean nothing.
            Place::Status(line) if is_end && line.trim_ascii().is_empty() => line.clear(),
            Place::Status(line) if is_end => {
                let is_interim = self.shared.read(line);
                self.place = Place::Field { is_empty: true, is_interim };
            }
            Place::Status(line) if line.len() < STATUS_LINE => line.push(octet),
            Place::Status(_) => {}
            Place::Field { is_empty: true, is_interim } if is_end => {
                let is_interim = *is_interim;
                self.place = if is_interim { Place::Status(Vec::new()) } else { Place::Outside };
                return is_interim;
            }
            Place::Field { is_empty, .. } => *is_empty = is_end || *is_empty && octet == b'\r',
        }
        true
    }
}

impl ResponseHead {
    /// Reads a status line: keeps a phrase that hyper would leave out, and tells whether the response is an interim one.
    fn read(&self, line: &[u8]) -> bool {
        let mut words = line.trim_ascii_end().splitn(3, |octet| *octet == b' ');
        let (_, status, reason) = (words.next(), words.next(), words.next());
        let reason = reason.filter(|reason| !reason.is_ascii());
        *self.reason.lock() = reason.and_then(|reason| ReasonPhrase::try_from(reason).ok());
        status.is_some_and(|status| status.starts_with(b"1") && status != b"101")
    }
}

impl ReadFilter for Heads {
    fn poll_read(
        &mut self,
        inner: Pin<&mut (impl AsyncRead + Unpin)>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(inner.poll_read(cx, buf))?;
        let fresh = buf.filled_mut().get_mut(before..).unwrap_or_default();
        Poll::Ready(if fresh.is_empty() || self.mend(fresh) {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a response in pieces of this size; returns what passes, and the reason phrase that is kept.
    fn mended(sent: &[u8], size: usize) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let shared = Arc::<ResponseHead>::default();
        let mut heads = Heads::of(&shared);
        shared.expect();
        let mut octets = sent.to_vec();
        let is_sound = octets.chunks_mut(size).all(|part| heads.mend(part));
        let reason = shared.reason().map(|reason| reason.as_bytes().to_vec());
        (is_sound.then_some(octets), reason)
    }

    #[test]
    fn control_octets_of_a_head_become_spaces() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            (&b"HTTP/1.1 200 OK\r\nX: a\x01b\x7fc\0d\te\r\n\r\n\x01\0"[..], Some(&b"HTTP/1.1 200 OK\r\nX: a b c d\te\r\n\r\n\x01\0"[..])),
            (b"HTTP/1.1 200 O\x02K\r\n\r\n", Some(b"HTTP/1.1 200 O K\r\n\r\n")),
            (b"\r\nHTTP/1.1 200 OK\nX: \x01\n\n\x01", Some(b"\r\nHTTP/1.1 200 OK\nX:  \n\n\x01")),
            (
                b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nX: \x01\r\n\r\n\x01",
                Some(b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nX:  \r\n\r\n\x01"),
            ),
            (b"HTTP/1.1 101 Switching\r\n\r\n\x01\x02", Some(b"HTTP/1.1 101 Switching\r\n\r\n\x01\x02")),
        ];
        for (sent, expected) in cases {
            for size in [sent.len(), 3, 1] {
                assert_eq!(mended(sent, size).0.as_deref(), expected, "by {size}");
            }
        }
        let sent = b"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n";
        let expected = b"HTTP/1.1 200 OK\r\nX: a b\r\n\r\n";
        assert_eq!(mended(sent, sent.len()).0.as_deref(), Some(&expected[..]));
        assert_eq!(mended(sent, 1).0, None, "a CR that was passed on");
    }

    #[test]
    fn a_reason_phrase_above_ascii_is_kept() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            (&b"HTTP/1.1 200 OK"[..], None),
            (b"HTTP/1.1 404 Introuvable \xe9", Some(&b"Introuvable \xe9"[..])),
            ("HTTP/1.1 200 Gefunden \u{fc}".as_bytes(), Some("Gefunden \u{fc}".as_bytes())),
        ];
        for (line, expected) in cases {
            let sent = [line, b"\r\n\r\n"].concat();
            assert_eq!(mended(&sent, 4).1.as_deref(), expected);
        }
    }

    #[test]
    fn octets_behind_a_head_are_the_bodys() {
        let shared = Arc::<ResponseHead>::default();
        let mut heads = Heads::of(&shared);
        let mut unasked = *b"HTTP/1.1 200 O\x01K\r\n\r\n";
        assert!(heads.mend(&mut unasked));
        assert_eq!(unasked, *b"HTTP/1.1 200 O\x01K\r\n\r\n");
    }
}
