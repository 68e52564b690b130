//! The reasons why nothing is shipped.

use std::path::PathBuf;

use thiserror::Error;

use super::remote::{ServiceError, TokenError};
use crate::destination::FolderError;
use crate::export::Faulty;
use crate::export::write::{WriteError, contradiction};
use crate::verify::named_keys::KeyError;
use crawlgate_store::StoreError;
use crawlgate_text::json::printable;
use crawlgate_tlog::{CheckpointError, NoteError};
use crawlgate_trust::TrustError;

/// The reason why shipping cannot begin.
#[derive(Debug, Error)]
pub enum ShipError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The trusted roots cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
}

/// The reason why a pass came to nothing.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// Another process ships the log.
    #[error("another process ships the log")]
    Busy,
    /// The thread of the pass has ended.
    #[error("the thread of the pass has ended")]
    Ended,
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key of the log cannot be read.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// No trusted key has signed the log.
    #[error("{0}")]
    Keyless(String),
    /// A witness keeps the log from being signed.
    #[error(
        "everything signed is there, and no newer checkpoint is signed, because the witness {} knows one of {size} records that \
         the store does not have: bring back the newer store, go on with `crawlgate audit fork`, or remove the witness if it is \
         wrong",
        printable(witness)
    )]
    Ahead {
        /// The name of the witness.
        witness: String,
        /// The size that it knows.
        size: u64,
    },
    /// The directory is not there.
    #[error("{}: there is no such directory; make it, or mount what it lies on", .0.display())]
    NoFolder(PathBuf),
    /// The directory has nothing of the log any more.
    #[error(
        "{}: it is empty, and {shipped} records were shipped there: mount what lay there, or name another directory with [ship] to",
        path.display()
    )]
    Empty {
        /// The directory.
        path: PathBuf,
        /// Number of records shipped.
        shipped: u64,
    },
    /// The directory takes no export, or not this one.
    #[error(transparent)]
    Folder(FolderError),
    /// The latest entries in the directory are damaged.
    #[error(transparent)]
    Faulty(#[from] Faulty),
    /// The token of the service cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The service does not do as asked.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The service has nothing of the log any more.
    #[error(
        "{url}: nothing is there, and {shipped} records were shipped there: bring them back, or name another URL with [ship] to"
    )]
    Gone {
        /// The URL of the log.
        url: String,
        /// Number of records shipped.
        shipped: u64,
    },
    /// The service has another checkpoint than the store.
    #[error("{url}: {fault}")]
    Checkpoint {
        /// The URL of the checkpoint.
        url: String,
        /// The difference.
        fault: CheckpointFault,
    },
    /// The export is not written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The store does not lead to the root that was signed over so many records.
    #[error("{}", contradiction(*_0))]
    Contradiction(u64),
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Busy(_) => Self::Busy,
            error => Self::Folder(error),
        }
    }
}

/// The fault of a checkpoint that a service has.
#[derive(Debug, Error)]
pub(super) enum CheckpointFault {
    /// It is no signed note.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// No trusted key has signed it.
    #[error(transparent)]
    Signature(#[from] CheckpointError),
    /// The log of the store is another one.
    #[error(
        "the log of the store does not continue the one that was shipped there; name another URL with [ship] to"
    )]
    NotContinued,
}
