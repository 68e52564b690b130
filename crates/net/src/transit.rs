//! Octets of bodies in transit: read from one side, and not yet taken by the connection to the other.
//!
//! A crawler that reads slowly, or an origin that takes an upload slowly, leaves octets in this process. A body has at most
//! `OF_ONE` octets in transit and one piece more; it gets its next piece when the connection has taken an earlier one. While
//! all bodies together have more than `OF_ALL`, each has one piece at a time, and pieces are small: no body stops, and
//! many slow peers take little more than few. A piece that is on its way to its body counts with the body's next one.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::Frame;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};

/// Octets of one body in transit, from which on its next piece waits.
const OF_ONE: usize = 64 * 1024;

/// Octets of all bodies in transit, from which on each has one small piece at a time.
const OF_ALL: usize = 32 * 1024 * 1024;

/// Octets of a piece: one octet less than hyper's buffer, which doubles when a read fills it.
const PIECE: usize = 64 * 1024 - 1;

/// Octets of a piece while all bodies have more than [`OF_ALL`] octets in transit.
const SMALL_PIECE: usize = 8 * 1024 - 1;

/// Octets of a piece that is not counted: hyper has a bound on the number of pieces that wait.
const UNCOUNTED: usize = 2 * 1024;

/// The octets of all bodies in transit.
static ALL: InTransit = InTransit::new(OF_ALL);

/// Returns the number of octets that a body may be given at once.
pub fn piece() -> usize {
    ALL.piece()
}

/// The octets of all bodies, with their bound.
#[derive(Debug)]
struct InTransit {
    octets: AtomicUsize,
    bound: usize,
}

impl InTransit {
    const fn new(bound: usize) -> InTransit {
        InTransit { octets: AtomicUsize::new(0), bound }
    }

    fn piece(&self) -> usize {
        if !self.are_many() { PIECE } else { SMALL_PIECE }
    }

    fn are_many(&self) -> bool {
        self.octets.load(Ordering::Relaxed) >= self.bound
    }
}

/// The octets of one body.
#[derive(Debug)]
pub struct Transit {
    all: &'static InTransit,
    /// `None` before the first piece that counts.
    own: Option<Arc<Own>>,
}

impl Default for Transit {
    fn default() -> Transit {
        Transit { all: &ALL, own: None }
    }
}

impl Transit {
    /// Waits until the next piece of the body may come.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(own) = &self.own else {
            return Poll::Ready(());
        };
        if own.has_room() {
            return Poll::Ready(());
        }
        *own.waiting.lock() = Some(cx.waker().clone());
        // A piece may have been taken just before.
        if own.has_room() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Counts the octets of a frame until they are dropped.
    pub fn counted(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        frame.map_data(|octets| self.piece(octets))
    }

    fn piece(&mut self, octets: Bytes) -> Bytes {
        if octets.len() <= UNCOUNTED {
            return octets;
        }
        let own = self.own.get_or_insert_with(|| {
            Arc::new(Own { all: self.all, octets: AtomicUsize::new(0), waiting: Mutex::new(None) })
        });
        own.all.octets.fetch_add(octets.len(), Ordering::Relaxed);
        own.octets.fetch_add(octets.len(), Ordering::Relaxed);
        Bytes::from_owner(Piece { octets, own: Arc::clone(own) })
    }
}

/// The octets of one body, shared with its pieces.
#[derive(Debug)]
struct Own {
    all: &'static InTransit,
    octets: AtomicUsize,
    /// Wakes the body when a piece was taken.
    waiting: Mutex<Option<Waker>>,
}

impl Own {
    fn has_room(&self) -> bool {
        match self.octets.load(Ordering::Acquire) {
            0 => true,
            octets => octets < OF_ONE && !self.all.are_many(),
        }
    }
}

/// A piece that counts.
struct Piece {
    octets: Bytes,
    own: Arc<Own>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let count = self.octets.len();
        self.own.all.octets.fetch_sub(count, Ordering::Relaxed);
        self.own.octets.fetch_sub(count, Ordering::AcqRel);
        let waiting = self.own.waiting.lock().take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

/// A stream that is read in pieces.
#[derive(Debug)]
pub struct InPieces<S>(Take<S>);

impl<S: AsyncRead> InPieces<S> {
    /// Reads this stream in pieces.
    pub fn new(stream: S) -> InPieces<S> {
        InPieces(stream.take(0))
    }

    /// Returns the stream.
    pub fn get_ref(&self) -> &S {
        self.0.get_ref()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for InPieces<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.set_limit(piece() as u64);
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for InPieces<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.0.get_mut()).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.0.get_mut()).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.0.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.0.get_mut()).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a body among others that have this many octets in transit, of a bound of as many.
    fn body(bound: usize) -> Transit {
        Transit { all: Box::leak(Box::new(InTransit::new(bound))), own: None }
    }

    fn beside(other: &Transit) -> Transit {
        Transit { all: other.all, own: None }
    }

    fn is_open(body: &Transit) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        body.poll_next(&mut cx).is_ready()
    }

    fn piece_of(octets: usize) -> Bytes {
        Bytes::from(vec![0; octets])
    }

    #[test]
    fn a_body_waits_until_its_pieces_are_taken() {
        let mut body = body(OF_ALL);
        let first = body.piece(piece_of(PIECE));
        assert!(is_open(&body), "a piece is less than the bound");
        let second = body.piece(piece_of(PIECE));
        assert!(!is_open(&body));
        // A part of a piece holds all of it.
        let mut rest = first;
        let part = rest.split_to(1);
        drop(rest);
        assert!(!is_open(&body));
        drop(part);
        assert!(is_open(&body));
        drop(second);
        assert_eq!(body.all.octets.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_bodies_have_one_small_piece_each() {
        let mut slow = body(2 * PIECE);
        let mut other = beside(&slow);
        let mut pieces: Vec<Bytes> = (0..2).map(|_| slow.piece(piece_of(PIECE))).collect();
        assert_eq!(slow.all.piece(), SMALL_PIECE);
        for _ in 0..3 {
            assert!(is_open(&other), "no body stops because of others");
            let piece = other.piece(piece_of(SMALL_PIECE));
            assert!(!is_open(&other), "one piece at a time");
            drop(piece);
        }
        pieces.pop();
        assert_eq!(slow.all.piece(), PIECE);
        let _piece = other.piece(piece_of(SMALL_PIECE));
        assert!(is_open(&other));
    }

    #[test]
    fn a_piece_that_is_taken_wakes_its_body() {
        struct Woken(AtomicUsize);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut body = body(1);
        let piece = body.piece(piece_of(PIECE));
        let waiting = body.poll_next(&mut Context::from_waker(&waker));
        assert!(waiting.is_pending());
        drop(piece);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}
