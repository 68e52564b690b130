//! The reasons why an export is not written.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crawlgate_block::{BlockError, PushError};
use crawlgate_record::Malformed;
use crawlgate_store::{Records, StoreError};
use crawlgate_tlog::{CheckpointError, EntryProofError, KeyName, NoteError, ProofError, Unaligned};

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

/// The reason why an export, or the rest of it, is not written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The destination cannot be written.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// An entry of the store cannot be read.
    #[error(transparent)]
    Entry(#[from] Malformed),
    /// An entry of the store fits into no block.
    #[error(transparent)]
    Refused(#[from] PushError),
    /// A block cannot be made.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A body cannot be compressed.
    #[error(transparent)]
    Body(#[from] io::Error),
    /// The proof of a change of the key cannot be read.
    #[error(transparent)]
    Rotation(#[from] EntryProofError),
    /// The roots in the store make no tree.
    #[error(transparent)]
    Tree(#[from] Unaligned),
    /// Retention has dropped everything that is signed.
    #[error(
        "retention has dropped every record that the newest checkpoint covers, of {size} records: export again after the next \
         checkpoint"
    )]
    Dropped {
        /// The size of the checkpoint.
        size: u64,
    },
    /// Retention has dropped records during the export.
    #[error("records are missing after record {after}: retention has dropped them just now")]
    DroppedMeanwhile {
        /// The number of the record before them.
        after: u64,
    },
    /// Records are missing, and so is what shows their place in the tree.
    #[error("{0}: their place in the tree is not known")]
    NoPlace(Records),
    /// The first part of a bundle is exported, and nothing shows how its damaged rest continues it.
    #[error(
        "{records} cannot be read, and nothing shows how they continue the {before} before them: {why}; export to another \
         directory, from the first record on"
    )]
    NotContinued {
        /// The damaged records.
        records: Records,
        /// Number of records before them.
        before: u64,
        /// The reason.
        why: NoProof,
    },
}

/// The reason why nothing shows how a bundle continues.
#[derive(Debug, Error)]
pub enum NoProof {
    /// The store gives no proof.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The proof does not hold.
    #[error(transparent)]
    Wrong(#[from] ProofError),
    /// The root over the records before is not kept.
    #[error("no checkpoint ends there")]
    NoCheckpoint,
    /// The root over the bundle is not kept.
    #[error("its root is not kept")]
    NoRoot,
}

/// The reason why a directory takes no export, or not this one.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory, or a file in it, cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The fault.
        error: io::Error,
    },
    /// Another process writes to it.
    #[error("{}: another export to this directory is under way", .0.display())]
    Busy(PathBuf),
    /// It is no export.
    #[error("{}: this is no export of crawlgate; name another directory with {named}", path.display())]
    Foreign {
        /// The file that would name the log.
        path: PathBuf,
        /// The option or the key that names the directory.
        named: &'static str,
    },
    /// It has another log.
    #[error(
        "{}: this belongs to the log {theirs}, and the store has the log {ours}; name another directory with {named}",
        path.display()
    )]
    OtherLog {
        /// The file that names the log.
        path: PathBuf,
        /// The log of the directory.
        theirs: String,
        /// The log of the store.
        ours: KeyName,
        /// The option or the key that names the directory.
        named: &'static str,
    },
    /// Its newest checkpoint cannot be read.
    #[error("{}: {error}; move the file away, or name another directory with {named}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: NoteError,
        /// The option or the key that names the directory.
        named: &'static str,
    },
    /// No trusted key has signed its newest checkpoint.
    #[error(
        "{}: {error}; name another directory with {named}, or the key that has signed it with --key",
        path.display()
    )]
    Signature {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: CheckpointError,
        /// The option or the key that names the directory.
        named: &'static str,
    },
    /// Another file stands in the place of one.
    #[error(
        "{}: there is another file in its place, damaged or of other content, which is not overwritten; move it away, or name \
         another directory with {named}",
        path.display()
    )]
    Other {
        /// The path.
        path: PathBuf,
        /// The option or the key that names the directory.
        named: &'static str,
    },
    /// The store is an older copy than the directory.
    #[error(
        "{}: it has {records} records, and the newest checkpoint of the store covers {signed}: the store is an older copy; \
         bring back the newer store, or name another directory with {named}",
        path.display()
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Number of records in it.
        records: u64,
        /// Number of records that the store has signed.
        signed: u64,
        /// The option or the key that names the directory.
        named: &'static str,
    },
    /// The log of the store is another one.
    #[error(
        "{place}: the log of the store does not continue the one in it, of {size} records: {error}; `crawlgate audit verify \
         --all --checkpoint {}` tells more; name another directory with {named}",
        checkpoint.display(),
        place = path.display()
    )]
    NotContinued {
        /// The directory.
        path: PathBuf,
        /// The newest checkpoint in it.
        checkpoint: PathBuf,
        /// Number of records in it.
        size: u64,
        /// The fault of the proof.
        error: ProofError,
        /// The option or the key that names the directory.
        named: &'static str,
    },
}

impl FolderError {
    /// Returns the error of a file that cannot be read or written.
    pub(super) fn file(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::File { path, error }
    }
}
