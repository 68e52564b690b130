//! The body of an answer over FTP: octets as the data connection brings them, one piece at a time.
//!
//! FTP ends a file by closing its connection, so a file that was cut short looks whole. It counts as whole only if the
//! control connection confirms it, and if it has the length that SIZE told. The last piece of a file of known length is
//! held back until then: a crawler sees that a file is not whole.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use tokio::net::TcpStream;

use super::super::Failure;
use super::control::{Control, TransferStart};
use crate::ftp::page::Page;
use crate::ftp::range::Range;

/// Octets of the memory that pieces are read into, one behind the other.
const ROOM: usize = 32 * 1024;

/// The least room that is worth a read.
const LEAST_ROOM: usize = 4 * 1024;

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
    Listing(Page),
}

enum State {
    /// Octets come. Afterwards the control connection confirms them, unless it has done so already.
    Open(TcpStream, Control, TransferStart),
    /// All octets have come.
    Confirming(Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + Sync>>),
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
        Transfer {
            state: State::Open(data, control, begun),
            payload: Payload::File(until),
            room: BytesMut::new(),
            held: None,
        }
    }

    /// Returns the transfer of a listing, which becomes a page.
    pub(super) fn listing(
        data: TcpStream,
        control: Control,
        begun: TransferStart,
        page: Page,
    ) -> Transfer {
        Transfer {
            state: State::Open(data, control, begun),
            payload: Payload::Listing(page),
            room: BytesMut::new(),
            held: None,
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match &mut self.state {
                State::Ended => return Poll::Ready(None),
                State::Confirmed => {
                    self.state = State::Ended;
                    let last = match &mut self.payload {
                        Payload::File(_) => self.held.take(),
                        Payload::Listing(page) => Some(page.finish().into()),
                    };
                    if let Some(last) = last {
                        return Poll::Ready(Some(Ok(last)));
                    }
                }
                State::Confirming(confirming) => match ready!(confirming.as_mut().poll(cx)) {
                    Ok(()) => self.state = State::Confirmed,
                    Err(_) => return Poll::Ready(self.cut("the transfer was not confirmed")),
                },
                State::Open(data, ..) => {
                    let piece = match ready!(poll_read(data, &mut self.room, cx)) {
                        Ok(piece) => piece,
                        Err(error) => {
                            self.state = State::Ended;
                            return Poll::Ready(Some(Err(error)));
                        }
                    };
                    let taken = match piece.is_empty() {
                        true => self.close(),
                        false => self.take(piece),
                    };
                    match taken {
                        Ok(None) => {}
                        Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                        Err(why) => return Poll::Ready(self.cut(why)),
                    }
                }
            }
        }
    }

    /// Takes a piece from the data connection, and returns what may be passed on.
    fn take(&mut self, mut piece: Bytes) -> Result<Option<Bytes>, &'static str> {
        let octets = piece.len() as u64;
        match &mut self.payload {
            Payload::Listing(page) => {
                let text = page.push(&piece);
                Ok((!text.is_empty()).then(|| text.into()))
            }
            Payload::File(BodyEnd::End(None)) => Ok(Some(piece)),
            Payload::File(BodyEnd::End(Some(left))) => match left.checked_sub(octets) {
                None => Err("the file is longer than SIZE has told"),
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

    /// Goes on after the last octet of the data connection.
    fn close(&mut self) -> Result<Option<Bytes>, &'static str> {
        match self.payload {
            Payload::File(BodyEnd::End(Some(1..)) | BodyEnd::Octet(_)) => {
                return Err("the file is shorter than SIZE has told");
            }
            Payload::File(BodyEnd::End(_)) | Payload::Listing(_) => {}
        }
        self.state = match std::mem::replace(&mut self.state, State::Ended) {
            State::Open(_, control, TransferStart::AndEnded) => {
                control.quit();
                State::Confirmed
            }
            State::Open(data, mut control, _) => {
                // Some servers say nothing more until this side is closed, too.
                drop(data);
                State::Confirming(Box::pin(async move { control.end().await }))
            }
            state => state,
        };
        Ok(None)
    }

    fn cut(&mut self, why: &'static str) -> Option<io::Result<Bytes>> {
        self.state = State::Ended;
        self.held = None;
        Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, why)))
    }
}

/// Reads one piece; an empty one at the end. Small pieces share one room, so that each keeps little more than its octets.
fn poll_read(
    data: &TcpStream,
    room: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Bytes>> {
    loop {
        ready!(data.poll_read_ready(cx))?;
        if room.capacity() < LEAST_ROOM {
            room.reserve(ROOM);
        }
        match data.try_read_buf(room) {
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
                Payload::Listing(_) => SizeHint::default(),
            },
        }
    }
}
