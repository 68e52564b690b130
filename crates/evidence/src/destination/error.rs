//! The reasons why a destination takes no file.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::export::Faulty;
use crawlgate_store::StoreError;
use crawlgate_tlog::{Checkpoint, CheckpointError, KeyName, NoteError, ProofError};

/// The reason why a destination does not take a file, in words that name the file.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct DestinationError(Box<dyn StdError + Send + Sync>);

impl DestinationError {
    /// Returns the failure of a destination.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// The reason why a directory takes no log, or not this one.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of the export in it cannot be read.
    #[error(transparent)]
    Faulty(#[from] Faulty),
    /// Another process writes to it.
    #[error("{}: another export to this directory is under way", .0.display())]
    Busy(PathBuf),
    /// The directory, or a file in it, has a fault.
    #[error("{}: {fault}", path.display())]
    Fault {
        /// The path.
        path: PathBuf,
        /// The fault.
        fault: FolderFault,
    },
}

impl FolderError {
    pub(super) fn at(path: &Path, fault: impl Into<FolderFault>) -> Self {
        let (path, fault) = (path.to_owned(), fault.into());
        Self::Fault { path, fault }
    }
}

/// A fault of a directory, or of a file in it. `named` is the option or the key that names the directory.
#[derive(Debug, Error)]
pub enum FolderFault {
    /// It cannot be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
    /// It is no export.
    #[error("this is no export of crawlgate; name another directory with {0}")]
    Foreign(&'static str),
    /// It has another log.
    #[error(
        "this belongs to the log {theirs}, and the store has the log {ours}; name another directory with {named}"
    )]
    OtherLog {
        /// The log of the directory.
        theirs: String,
        /// The log of the store.
        ours: KeyName,
        /// Said above.
        named: &'static str,
    },
    /// Its newest checkpoint cannot be read.
    #[error("{error}; move the file away, or name another directory with {named}")]
    Checkpoint {
        /// The fault.
        error: NoteError,
        /// Said above.
        named: &'static str,
    },
    /// No trusted key has signed its newest checkpoint.
    #[error(
        "{error}; name another directory with {named}, or the key that has signed it with --key"
    )]
    Signature {
        /// The fault.
        error: CheckpointError,
        /// Said above.
        named: &'static str,
    },
    /// Another file stands in the place of one.
    #[error(
        "there is another file in its place, damaged or of other content, which is not overwritten; move it away, or name \
         another directory with {0}"
    )]
    Other(&'static str),
    /// The store is an older copy than the directory.
    #[error(
        "it has {records} records, and the newest checkpoint of the store covers {signed}: the store is an older copy; \
         bring back the newer store, or name another directory with {named}"
    )]
    Newer {
        /// Number of records in it.
        records: u64,
        /// Number of records that the store has signed.
        signed: u64,
        /// Said above.
        named: &'static str,
    },
    /// The log of the store is another one.
    #[error(
        "the log of the store does not continue the one in it, of {size} records: {error}; `crawlgate audit verify \
         --all --checkpoint {}` tells more; name another directory with {named}",
        checkpoint.display()
    )]
    NotContinued {
        /// The newest checkpoint in it.
        checkpoint: PathBuf,
        /// Number of records in it.
        size: u64,
        /// The fault of the proof.
        error: ProofError,
        /// Said above.
        named: &'static str,
    },
}

impl FolderFault {
    pub(super) fn other_log(theirs: String, ours: &Checkpoint, named: &'static str) -> Self {
        let ours = ours.origin.clone();
        Self::OtherLog { theirs, ours, named }
    }
}
