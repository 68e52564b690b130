//! The body of an answer over FTP: octets as the data connection brings them, one piece at a time.
//!
//! FTP ends a file by closing its connection, so a file that was cut short looks whole. It counts as whole only if the
//! control connection confirms it, and if it has the length that SIZE told. The last piece of a file of known length is
//! held back until then: a crawler sees that a file is not whole. The control connection is read whenever no octet is
//! there: what it says of the transfer ends the wait for more.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use tokio::net::TcpStream;

use super::control::{Control, Cut, TransferStart};
use crawlgate_ftp::listing::Endless;
use crawlgate_ftp::page::Page;
use crawlgate_ftp::range::Range;
use crawlgate_net::transit;

/// Octets of the memory that pieces are read into, one behind the other.
const ROOM: usize = 32 * 1024;

/// The least room that is worth a read.
const LEAST_ROOM: usize = 4 * 1024;

/// Octets of a listing that are read before other tasks have their turn: lines cost time, and a server may send them
/// without a pause. A page has up to ten times as many octets.
const TURN: usize = 16 * 1024;

/// The body of an answer over FTP.
pub(in super::super) struct Body(Content);

enum Content {
    /// A text of ours.
    Text(Option<Bytes>),
    /// Octets of the server. Boxed: it holds both connections.
    Transfer(Box<Transfer>),
}

/// The end of the octets that an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// The end of the file, after as many octets if that is known.
    End(Option<u64>),
    /// So many octets, with more of the file behind them.
    Octet(u64),
}

impl BodyEnd {
    /// Returns the end of a range of a file, which has `size` octets if that is known.
    pub(super) fn of(range: Range, size: Option<u64>) -> BodyEnd {
        match (range, size) {
            (Range::Part { from, to }, Some(size)) if to + 1 < size => {
                BodyEnd::Octet(to + 1 - from)
            }
            (Range::Part { from, to }, _) => BodyEnd::End(Some(to + 1 - from)),
            (_, size) => BodyEnd::End(size),
        }
    }

    /// Returns the number of octets, if it is known.
    pub(super) fn length(self) -> Option<u64> {
        match self {
            BodyEnd::End(length) => length,
            BodyEnd::Octet(length) => Some(length),
        }
    }
}

/// The octets of a data connection.
pub(super) struct Transfer {
    state: State,
    payload: Payload,
    /// The room for the next pieces. It is empty between two reads.
    room: BytesMut,
    /// The last piece, until the transfer is confirmed.
    held: Option<Bytes>,
}

enum Payload {
    File(BodyEnd),
    Listing {
        page: Page,
        /// True if lines were read in this turn.
        has_read: bool,
    },
}

enum State {
    /// Octets come, and the control connection has not confirmed them.
    Open(TcpStream, Control),
    /// Octets come, and the control connection has confirmed them already.
    OpenConfirmed(TcpStream, Control),
    /// All octets have come.
    Confirming(Control),
    /// They are confirmed.
    Confirmed,
    /// The body is over.
    Ended,
}

impl Transfer {
    /// Returns the transfer of a file.
    pub(super) fn file(
        data: TcpStream,
        control: Control,
        begun: TransferStart,
        until: BodyEnd,
    ) -> Transfer {
        Transfer::new(data, control, begun, Payload::File(until))
    }

    /// Returns the transfer of a listing, which becomes a page.
    pub(super) fn listing(
        data: TcpStream,
        control: Control,
        begun: TransferStart,
        page: Page,
    ) -> Transfer {
        Transfer::new(data, control, begun, Payload::Listing { page, has_read: false })
    }

    fn new(data: TcpStream, control: Control, begun: TransferStart, payload: Payload) -> Transfer {
        let state = match begun {
            TransferStart::AndEnded => State::OpenConfirmed(data, control),
            TransferStart::Now | TransferStart::Refused(_) => State::Open(data, control),
        };
        Transfer { state, payload, room: BytesMut::new(), held: None }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let (data, control) = match &mut self.state {
                State::Ended => return Poll::Ready(None),
                State::Confirmed => {
                    self.state = State::Ended;
                    let last = match &mut self.payload {
                        Payload::File(_) => self.held.take(),
                        Payload::Listing { page, .. } => Some(page.finish().into()),
                    };
                    match last {
                        Some(last) => return Poll::Ready(Some(Ok(last))),
                        None => continue,
                    }
                }
                State::Confirming(control) => {
                    match ready!(control.poll_end(cx)) {
                        Ok(()) => {
                            control.quit();
                            self.state = State::Confirmed;
                        }
                        Err(cut) => return Poll::Ready(self.cut(cut)),
                    }
                    continue;
                }
                State::Open(data, control) => (data, Some(control)),
                State::OpenConfirmed(data, _) => (data, None),
            };
            ready!(self.payload.poll_turn(cx));
            let most = self.payload.most_at_once();
            let piece = match (poll_read(data, &mut self.room, most, cx), control) {
                (Poll::Ready(Ok(piece)), _) => piece,
                (Poll::Ready(Err(error)), _) => {
                    self.state = State::Ended;
                    return Poll::Ready(Some(Err(error)));
                }
                (Poll::Pending, None) => return Poll::Pending,
                (Poll::Pending, Some(control)) => {
                    match ready!(control.poll_end(cx)) {
                        Ok(()) => self.confirm(),
                        Err(cut) => return Poll::Ready(self.cut(cut)),
                    }
                    continue;
                }
            };
            let taken = if piece.is_empty() { self.close() } else { self.take(piece) };
            match taken {
                Ok(None) => {}
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Err(cut) => return Poll::Ready(self.cut(cut)),
            }
        }
    }

    /// Takes note of the confirmation, which has come before the last octets.
    fn confirm(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Ended) {
            State::Open(data, control) => State::OpenConfirmed(data, control),
            state => state,
        };
    }

    /// Takes a piece from the data connection, and returns what may be passed on.
    fn take(&mut self, mut piece: Bytes) -> Result<Option<Bytes>, Cut> {
        let octets = piece.len() as u64;
        match &mut self.payload {
            Payload::Listing { page, has_read } => {
                *has_read = true;
                let text = page.push(&piece).map_err(|Endless| Cut::Endless)?;
                Ok((!text.is_empty()).then(|| text.into()))
            }
            Payload::File(BodyEnd::End(None)) => Ok(Some(piece)),
            Payload::File(BodyEnd::End(Some(left))) => match left.checked_sub(octets) {
                None => Err(Cut::Longer),
                Some(rest) => {
                    *left = rest;
                    match rest {
                        0 => {
                            self.held = Some(piece);
                            Ok(None)
                        }
                        _ => Ok(Some(piece)),
                    }
                }
            },
            Payload::File(BodyEnd::Octet(left)) => {
                let wanted = usize::try_from(*left).unwrap_or(usize::MAX);
                piece.truncate(wanted);
                *left = left.saturating_sub(octets);
                if *left == 0 {
                    // The rest of the file is not asked for: both connections close.
                    self.state = State::Ended;
                }
                Ok(Some(piece))
            }
        }
    }

    /// Continues after the last octet of the data connection.
    fn close(&mut self) -> Result<Option<Bytes>, Cut> {
        match self.payload {
            Payload::File(BodyEnd::End(Some(1..)) | BodyEnd::Octet(_)) => {
                return Err(Cut::Shorter);
            }
            Payload::File(BodyEnd::End(_)) | Payload::Listing { .. } => {}
        }
        self.state = match std::mem::replace(&mut self.state, State::Ended) {
            State::OpenConfirmed(_, control) => {
                control.quit();
                State::Confirmed
            }
            State::Open(data, control) => {
                // Some servers say nothing more until this side is closed, too.
                drop(data);
                State::Confirming(control)
            }
            state => state,
        };
        Ok(None)
    }

    fn cut(&mut self, cut: Cut) -> Option<io::Result<Bytes>> {
        self.state = State::Ended;
        self.held = None;
        Some(Err(cut.into()))
    }
}

impl Payload {
    /// Gives other tasks their turn.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Payload::Listing { has_read, .. } if *has_read => {
                *has_read = false;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Payload::Listing { .. } | Payload::File(_) => Poll::Ready(()),
        }
    }

    fn most_at_once(&self) -> usize {
        match self {
            Payload::File(_) => transit::piece(),
            Payload::Listing { .. } => TURN,
        }
    }
}

/// Reads one piece of at most so many octets; an empty one at the end. Small pieces share one room, so that each keeps little more than its octets.
fn poll_read(
    data: &TcpStream,
    room: &mut BytesMut,
    most: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Bytes>> {
    loop {
        ready!(data.poll_read_ready(cx))?;
        if room.capacity() < LEAST_ROOM {
            room.reserve(ROOM);
        }
        match data.try_read_buf(&mut room.limit(most)) {
            Ok(_) => return Poll::Ready(Ok(room.split().freeze())),
            // It was not ready after all.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
}

impl Body {
    /// Returns an empty body.
    pub(super) fn none() -> Body {
        Body(Content::Text(None))
    }

    /// Returns a body that crawlgate wrote.
    pub(super) fn text(text: Bytes) -> Body {
        Body(Content::Text((!text.is_empty()).then_some(text)))
    }

    /// Returns a body of the server's octets.
    pub(super) fn transfer(transfer: Transfer) -> Body {
        Body(Content::Transfer(Box::new(transfer)))
    }

    pub(in super::super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let piece = match &mut self.0 {
            Content::Text(text) => text.take().map(Ok),
            Content::Transfer(transfer) => ready!(transfer.poll_piece(cx)),
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    pub(in super::super) fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Text(text) => text.is_none(),
            Content::Transfer(transfer) => matches!(transfer.state, State::Ended),
        }
    }

    pub(in super::super) fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            Content::Transfer(transfer) => match &transfer.payload {
                Payload::File(until) => {
                    let held = transfer.held.as_ref().map_or(0, |held| held.len() as u64);
                    until
                        .length()
                        .map_or_else(SizeHint::default, |left| SizeHint::with_exact(left + held))
                }
                Payload::Listing { .. } => SizeHint::default(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::super::super::idle::IdleBudget;
    use super::*;
    use crawlgate_ftp::listing::{Format, Listing};
    use crawlgate_system::metrics::Gauge;

    /// Counts the wakes of a task by itself: each of them is a turn for other tasks.
    struct OwnWakes {
        task: Waker,
        is_polled: AtomicBool,
        count: AtomicUsize,
    }

    impl Wake for OwnWakes {
        fn wake(self: Arc<Self>) {
            if self.is_polled.load(Ordering::Relaxed) {
                self.count.fetch_add(1, Ordering::Relaxed);
            }
            self.task.wake_by_ref();
        }
    }

    /// Returns both ends of a connection: theirs, and ours.
    async fn connection(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let ours = TcpStream::connect(listener.local_addr().unwrap());
        let (ours, theirs) = tokio::join!(ours, listener.accept());
        (theirs.unwrap().0, ours.unwrap())
    }

    #[tokio::test]
    async fn lines_of_a_listing_give_other_tasks_their_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut server, data) = connection(&listener).await;
        let (_control_of_server, control) = connection(&listener).await;
        let place = Arc::new(IdleBudget::new(1)).second().unwrap();
        let control = Control::new(control, Gauge::default().raise(), place).unwrap();
        let page = Page::new("ftp://a.example/".to_owned(), Listing::new(Format::Facts));
        let mut body = Transfer::listing(data, control, TransferStart::AndEnded, page);
        // All octets are there before the first poll, and none of them makes a piece of the page.
        let octets = vec![b'\n'; 8 * TURN];
        server.write_all(&octets).await.unwrap();
        drop(server);
        let mut wakes = None;
        while let Some(piece) = poll_fn(|cx| {
            let wakes = wakes.get_or_insert_with(|| {
                Arc::new(OwnWakes {
                    task: cx.waker().clone(),
                    is_polled: AtomicBool::new(false),
                    count: AtomicUsize::new(0),
                })
            });
            wakes.is_polled.store(true, Ordering::Relaxed);
            let waker = Waker::from(Arc::clone(wakes));
            let polled = body.poll_piece(&mut Context::from_waker(&waker));
            wakes.is_polled.store(false, Ordering::Relaxed);
            polled
        })
        .await
        {
            piece.unwrap();
        }
        let turns = wakes.unwrap().count.load(Ordering::Relaxed);
        assert!(turns >= 7, "{turns} turns");
    }
}
