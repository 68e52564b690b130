//! The control connection of one session: a command out, its reply in.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use thiserror::Error;
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;

use super::super::Failure;
use super::super::idle::SecondPlace;
use crawlgate_ftp::command::Command;
use crawlgate_ftp::reply::{Replies, Reply};
use crawlgate_ftp::status::{Refusal, Step};
use crawlgate_system::metrics::GaugeGuard;

/// Preliminary replies before one that decides: a server may say that it is about to.
const MAX_PRELIMINARY: usize = 4;

/// The end of a session before its answer.
#[derive(Debug)]
pub(super) enum SessionEnd {
    /// The connection or the protocol failed.
    Failed(Failure),
    /// The server at this address refused.
    Refused(Refusal, SocketAddr),
    /// A change has overtaken the permit before a command has named the file.
    Overtaken,
    /// A change has overtaken the permit before the transfer, and the server knows the name of the file.
    OvertakenLate,
}

impl From<Failure> for SessionEnd {
    fn from(failure: Failure) -> SessionEnd {
        SessionEnd::Failed(failure)
    }
}

/// The reply that a transfer begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TransferStart {
    /// The octets come now; another reply follows them.
    Now,
    /// All octets have been sent already; no reply follows.
    AndEnded,
    /// There is no transfer.
    Refused(Reply),
}

/// A control connection. Its port and address are those that the address policy has checked.
#[derive(Debug)]
pub(super) struct Control {
    stream: TcpStream,
    replies: Replies,
    /// Preliminary replies during the transfer.
    preliminary: usize,
    peer: SocketAddr,
    _open: GaugeGuard,
    _place: SecondPlace,
}

impl Control {
    /// Takes over a connection that nothing was read from.
    pub(super) fn new(
        stream: TcpStream,
        open: GaugeGuard,
        place: SecondPlace,
    ) -> Result<Control, Failure> {
        let peer = stream.peer_addr().map_err(|error| Failure::of(&error))?;
        Ok(Control {
            stream,
            replies: Replies::default(),
            preliminary: 0,
            peer,
            _open: open,
            _place: place,
        })
    }

    /// Returns the address of the server, or of the proxy that leads to it.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads the greeting and logs in as an anonymous user.
    pub(super) async fn log_in(&mut self) -> Result<(), SessionEnd> {
        let mut greeting = self.reply().await?;
        if greeting.code == 120 {
            greeting = self.reply().await?;
        }
        if greeting.code != 220 {
            return Err(self.refused(Step::Login, greeting));
        }
        let mut login = self.ask(&Command::User).await?;
        if login.code == 331 {
            login = self.ask(&Command::Pass).await?;
        }
        match login.code {
            230 | 202 => Ok(()),
            _ => Err(self.refused(Step::Login, login)),
        }
    }

    /// Returns the end of the session by a reply that refuses, or that nothing called for.
    pub(super) fn refused(&self, step: Step, reply: Reply) -> SessionEnd {
        match reply.code {
            400..=599 | 332 => SessionEnd::Refused(Refusal { step, reply }, self.peer),
            _ => Failure::Ftp.into(),
        }
    }

    /// Sends a command and waits for its reply.
    pub(super) async fn ask(&mut self, command: &Command<'_>) -> Result<Reply, Failure> {
        self.send(command).await?;
        match self.reply().await? {
            reply if reply.code < 200 => Err(Failure::Ftp),
            reply => Ok(reply),
        }
    }

    /// Sends a command that must be done.
    pub(super) async fn must(
        &mut self,
        command: &Command<'_>,
        step: Step,
    ) -> Result<(), SessionEnd> {
        let reply = self.ask(command).await?;
        match reply.code {
            200..=299 => Ok(()),
            _ => Err(self.refused(step, reply)),
        }
    }

    /// Sends a command that begins a transfer, and waits for the reply that tells whether it does.
    pub(super) async fn begin(&mut self, command: &Command<'_>) -> Result<TransferStart, Failure> {
        self.send(command).await?;
        let reply = self.reply().await?;
        Ok(match reply.code {
            125 | 150 => TransferStart::Now,
            226 | 250 => TransferStart::AndEnded,
            400..=599 => TransferStart::Refused(reply),
            _ => return Err(Failure::Ftp),
        })
    }

    /// Polls for the reply that ends a transfer. It may come before the last octet; a refusal, or the end of the
    /// connection, means that no further octet is worth waiting for.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Cut>> {
        loop {
            let reply = ready!(self.poll_reply(cx)).map_err(|_| Cut::Unconfirmed)?;
            match reply.code {
                226 | 250 => return Poll::Ready(Ok(())),
                100..=199 if self.preliminary < MAX_PRELIMINARY => self.preliminary += 1,
                400..=599 => return Poll::Ready(Err(Cut::Refused(reply))),
                _ => return Poll::Ready(Err(Cut::Unconfirmed)),
            }
        }
    }

    /// Says goodbye, if the system takes the octets at once: nothing waits for it.
    pub(super) fn quit(&self) {
        let _ = self.stream.try_write(&Command::Quit.line()); // the connection closes anyway
    }

    async fn send(&mut self, command: &Command<'_>) -> Result<(), Failure> {
        // A reply that came unasked would be taken for the answer to this command.
        if !self.replies.is_empty() {
            return Err(Failure::Ftp);
        }
        let written = self.stream.write_all(&command.line()).await;
        written.map_err(|error| Failure::of(&error))
    }

    async fn reply(&mut self) -> Result<Reply, Failure> {
        poll_fn(|cx| self.poll_reply(cx)).await
    }

    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply, Failure>> {
        loop {
            match self.replies.take() {
                Ok(Some(reply)) => return Poll::Ready(Ok(reply)),
                Ok(None) => {}
                Err(_) => return Poll::Ready(Err(Failure::Ftp)),
            }
            let mut octets = [0; 1024];
            let mut octets = ReadBuf::new(&mut octets);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut octets));
            read.map_err(|error| Failure::of(&error))?;
            match octets.filled() {
                [] => return Poll::Ready(Err(Failure::Terminated)),
                read => self.replies.push(read),
            }
        }
    }
}

/// The reason that a transfer is not whole, as the error that its body ends with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Cut {
    /// The server says so.
    #[error("the server replied {0} during the transfer")]
    Refused(Reply),
    /// The control connection has ended, or its octets are no reply.
    #[error("the server has not confirmed the transfer")]
    Unconfirmed,
    /// The file has fewer octets than SIZE has told.
    #[error("the file is shorter than SIZE has told")]
    Shorter,
    /// The file has more octets than SIZE has told.
    #[error("the file is longer than SIZE has told")]
    Longer,
    /// The listing has more lines or octets than crawlgate reads.
    #[error("the listing exceeds the bounds of crawlgate")]
    Endless,
}

impl From<Cut> for io::Error {
    fn from(cut: Cut) -> io::Error {
        let kind = match cut {
            Cut::Endless => io::ErrorKind::FileTooLarge,
            _ => io::ErrorKind::UnexpectedEof,
        };
        io::Error::new(kind, cut)
    }
}
