//! The file of a database: what lies in its place and beside it, and its bounds.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{StoreError, StoreErrorKind};

/// Time that one process waits for another's write.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Octets of a page: several records fit, so that little is left over behind the last one.
pub(super) const PAGE: i32 = 8_192;

/// Pages in the write-ahead log after which it is carried over into the database: 16 MiB.
pub(super) const CHECKPOINT: i32 = 2_048;

/// Octets to which a larger write-ahead log is cut back.
pub(super) const LOG_SIZE: i64 = 32 * 1024 * 1024;

/// The identity of an open file, independent of its present name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    file: Inode,
    /// The identity of the log: the engine goes on writing to a log without a name, too. The log exists as long as the
    /// database is open.
    log: Option<Inode>,
}

type Inode = (u64, u64);

impl Identity {
    /// Returns the identity of the file at `path`.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let inode = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
        Ok(Self {
            file: inode(path)?,
            log: inode(&beside(path, "-wal")).ok(),
        })
    }

    /// Fails if `path` names another file by now, or none: writes to the open one would be lost.
    pub(super) fn require(self, path: &Path) -> Result<(), StoreError> {
        if Self::of(path).is_ok_and(|now| now == self) {
            return Ok(());
        }
        Err(StoreErrorKind::Missing.at(path,
            "the store or its log (-wal) was moved, replaced or deleted while it was open, and nothing can be kept any \
             more; put those very files back, or start crawlgate anew"
        ))
    }
}

/// Names the kind of file in a file's place.
pub(crate) fn kind_of(kind: fs::FileType) -> &'static str {
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => "no file",
    }
}

/// Returns the place of one of the engine's files beside the database.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
