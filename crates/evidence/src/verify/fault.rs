//! Contradictions in the log.
//!
//! A fault names entries by their index, from 0; its sentence names records by their number, from 1.

use std::fmt;
use std::path::PathBuf;

use crawlgate_store::{Miscount, Records, state_file};
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;

/// A contradiction in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFault {
    /// An entry of these bundles was altered: they do not have the stored roots.
    Bundle {
        /// The first entry of the first bundle.
        from: u64,
        /// The last entry of the last bundle.
        to: u64,
    },
    /// The stored roots of these bundles were altered: a checkpoint confirms the entries.
    Root {
        /// The first entry of the first bundle.
        from: u64,
        /// The last entry of the last bundle.
        to: u64,
    },
    /// The stored root of a segment does not follow from its bundles.
    Segment {
        /// The first entry.
        from: u64,
        /// The last entry.
        to: u64,
    },
    /// Entries are missing, or cannot be read.
    Gap {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// An entry stands at a place that another one has already.
    Order {
        /// Its index.
        index: u64,
    },
    /// Entries are missing at the front, and no entry says that retention has dropped them.
    Front {
        /// The first entry present.
        first: u64,
    },
    /// Entries are missing, and not all roots of them are present.
    Roots {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// Entries are missing, as an entry behind them says: the log had lost them, and went on.
    Lost {
        /// The index of the entry that says so.
        index: u64,
        /// Number of entries.
        count: u64,
        /// Number of entries that the log had before.
        size: u64,
    },
    /// Entries are missing at the end.
    Tail {
        /// Entries present, those dropped by retention included.
        size: u64,
        /// The number of entries that the anchor names.
        named: u64,
        /// The anchor.
        by: Anchor,
    },
    /// The log has another root than an earlier statement says.
    Anchor {
        /// The size of which the root differs.
        size: u64,
        /// The largest size before it that a checkpoint confirms.
        good: u64,
        /// The statement.
        by: Anchor,
    },
    /// A checkpoint is damaged, or of another size than its place says.
    Note {
        /// Its size.
        size: u64,
        /// The checkpoint.
        by: Anchor,
    },
    /// A trusted key has not made the signature in its name.
    Signature {
        /// The size of the checkpoint.
        size: u64,
        /// The checkpoint.
        by: Anchor,
    },
    /// The checkpoint that the state file names is missing, and so is every later one.
    Unsigned {
        /// Its size.
        size: u64,
    },
    /// The state file is gone.
    NoState {
        /// The store beside which it was.
        store: PathBuf,
    },
    /// The store counts decisions of which the log has no record.
    Counted(Miscount),
    /// No trusted key has signed these checkpoints.
    Key {
        /// The name of the key that has.
        name: String,
        /// The size of the first such checkpoint.
        size: u64,
        /// Their number.
        count: u64,
        /// True if a trusted key signed them, as the key of a log of that name.
        is_renamed: bool,
    },
    /// The acknowledgement that the store shows of a decision is not the one that the log tells of.
    Acknowledgement {
        /// The number of the decision's record.
        seq: u64,
    },
    /// The proof that another key has replaced the key of the log is missing or damaged.
    Rotation {
        /// The number of the record that says so.
        seq: u64,
    },
}

/// The source of a statement about the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// A checkpoint of the store, of this time.
    Checkpoint(Moment),
    /// A checkpoint that was kept elsewhere.
    Kept,
    /// The state file, which names the last size that was written. It is not signed.
    Written,
    /// A stored root.
    Roots,
}

impl Anchor {
    pub(super) const fn is_signed(self) -> bool {
        matches!(self, Self::Checkpoint(_) | Self::Kept)
    }

    pub(super) const fn is_same_kind(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Checkpoint(_), Self::Checkpoint(_))
                | (Self::Kept, Self::Kept)
                | (Self::Written, Self::Written)
        )
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checkpoint(time) => write!(f, "the checkpoint of {}", time_text(*time)),
            Self::Kept => f.write_str("the checkpoint that was kept"),
            Self::Written => f.write_str("the state file beside the store"),
            Self::Roots => f.write_str("a stored root"),
        }
    }
}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bundle { from, to } => write!(
                f,
                "an entry of {} was altered, removed or moved: they do not have the root that is stored for them",
                Records::at(from, to)
            ),
            Self::Root { from, to } => write!(
                f,
                "the stored root of {} was altered: the records agree with the next checkpoint",
                Records::at(from, to)
            ),
            Self::Segment { from, to } => write!(
                f,
                "the stored root of the segment with {} does not follow from its bundles",
                Records::at(from, to)
            ),
            Self::Gap { from, to } => {
                let records = Records::at(from, to);
                write!(f, "{records} {} missing or cannot be read", records.are())
            }
            Self::Order { index } => {
                write!(f, "{} is there more than once, or out of order", Records::at(index, index))
            }
            Self::Front { first } => write!(
                f,
                "records before {} are missing, and no entry says that retention has dropped them",
                first.saturating_add(1)
            ),
            Self::Roots { from, to } => write!(
                f,
                "the roots of {} are missing: checkpoints from there on cannot be compared",
                Records::at(from, to)
            ),
            Self::Lost { index, count, size } => write!(
                f,
                "record {} says that {count} of {size} records are missing: the store had lost them",
                index.saturating_add(1)
            ),
            Self::Tail { size, named, by } => {
                let records = Records::at(size, named.saturating_sub(1));
                let are = records.are();
                write!(f, "{records} {are} missing: {by} speaks of {named}")
            }
            Self::Anchor { size, good, by } => write!(
                f,
                "with record {size} the log is not what {by} says: something from record {} on was altered, and the \
                 roots made anew",
                good.saturating_add(1)
            ),
            Self::Note { size, by } => {
                write!(f, "{by}, of {size} records, is damaged or out of place")
            }
            Self::Unsigned { size } => write!(
                f,
                "the checkpoint of {size} records is missing: the state file beside the store names it"
            ),
            Self::NoState { ref store } => f.write_str(&state_file::gone(store)),
            Self::Counted(counted) => write!(f, "records are missing at the end: {counted}"),
            Self::Signature { size, by } => write!(
                f,
                "the signature of {by}, of {size} records, is not valid: the checkpoint was altered"
            ),
            Self::Key { ref name, size, count, is_renamed: false } => write!(
                f,
                "{count} checkpoints, the first of {size} records, are signed by no trusted key but by {name}; if that \
                 is an earlier key of this log, name it beside the present one (--key, more than once)"
            ),
            Self::Key { ref name, size, count, is_renamed: true } => write!(
                f,
                "{count} checkpoints, the first of {size} records, are signed by the trusted key, but under the name {name}; \
                 the configuration gives the log another one, or none: set [audit] log_name = \"{name}\" there, or name the \
                 key as `crawlgate audit key` prints it where that name is set (--key)"
            ),
            Self::Acknowledgement { seq } => write!(
                f,
                "the acknowledgement of record {seq} was altered, added or removed: the log tells of another one, or of none"
            ),
            Self::Rotation { seq } => write!(
                f,
                "the proof that record {seq} replaced the key of the log is missing or damaged: it does not tell up to \
                 which record the earlier key counts"
            ),
        }
    }
}
