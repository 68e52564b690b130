//! The reasons why records of an export are not filed.

use thiserror::Error;

use super::super::read::Faulty;
use crawlgate_record::Malformed;
use crawlgate_store::{Records, StoreError};
use crawlgate_tlog::CheckpointError;

/// The reason why the records of an export, or the latest of them, were not filed.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A file is missing or damaged.
    #[error(transparent)]
    Faulty(#[from] Faulty),
    /// The copy cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No checkpoint is there.
    #[error("there is no checkpoint in it")]
    NoCheckpoint,
    /// No trusted key has signed a checkpoint.
    #[error("the checkpoint of {size} records: {error}")]
    Signature {
        /// Its size.
        size: u64,
        /// The fault.
        error: CheckpointError,
    },
    /// No trusted key has signed the copy.
    #[error(
        "the newest checkpoint of the collected records is signed by no trusted key: the key beside them was exchanged"
    )]
    Copy,
    /// A checkpoint is another than its name says.
    #[error("the checkpoint of {0} records is another one than its name says")]
    Misnamed(u64),
    /// Entries are not there.
    #[error(
        "{} {} not in it: files are missing, or retention dropped what they would hold before it was exported",
        Records::new(*.first, *.last),
        Records::new(*.first, *.last).are()
    )]
    Gap {
        /// The number of the first.
        first: u64,
        /// The number of the last.
        last: u64,
    },
    /// Entries are stated to be missing, and the copy cannot go on behind them with all that it has.
    #[error(
        "{} {} stated to be missing, and {given_up} collected before them {} in the same bundle of 256: to go on without these, \
         which stay in the export, add --past-gaps",
        Records::new(*.first, *.last),
        Records::new(*.first, *.last).are(),
        if *.given_up == 1 { "lies" } else { "lie" }
    )]
    Joined {
        /// The number of the first.
        first: u64,
        /// The number of the last.
        last: u64,
        /// Number of records that the copy would give up.
        given_up: u64,
    },
    /// A record is invalid.
    #[error("record {record} cannot be read here: {error}")]
    Entry {
        /// Its number.
        record: u64,
        /// The fault.
        error: Malformed,
    },
    /// The entries do not lead to the signed root.
    #[error(
        "its records up to {size} do not lead to the root that was signed: a file was altered, or they continue another \
         history than the {known} records that are collected"
    )]
    Root {
        /// The size of the checkpoint.
        size: u64,
        /// Number of records collected.
        known: u64,
    },
    /// The key has signed another history.
    #[error(
        "the key of the log has signed another history of its first {0} records than the collected one: keep both as \
         evidence; a log must never do that, unless an older copy of its store went on"
    )]
    Contradiction(u64),
}
