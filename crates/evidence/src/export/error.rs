//! The reasons why an export is not written.

use std::io;

use thiserror::Error;

use crate::destination::DestinationError;
use crawlgate_block::{BlockError, PushError};
use crawlgate_record::Malformed;
use crawlgate_store::{Records, StoreError};
use crawlgate_tlog::{EntryProofError, ProofError};

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
