//! The reason that a transfer is not whole.

use std::io;

use thiserror::Error;

use crawlgate_ftp::reply::Reply;

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
