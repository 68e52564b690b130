//! The file of a database: what lies in its place and beside it, its bounds, and its header, read without the engine.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

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
    /// The identity of the log: the engine continues to write to a log without a name, too. The log exists as long as the
    /// database is open.
    log: Option<Inode>,
}

type Inode = (u64, u64);

impl Identity {
    /// Returns the identity of the file at `path`.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let inode = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
        Ok(Self { file: inode(path)?, log: inode(&beside(path, "-wal")).ok() })
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

/// The facts in the header of the file.
pub(super) struct Header {
    /// The number of the program that owns the database.
    pub(super) application: i32,
    /// Octets that the file has, as the header says.
    pub(super) size: u64,
}

impl Header {
    /// Reads the engine's header, the first 100 octets: the size of a page in 16 and 17, the number of pages in 28 to 31,
    /// the application's number in 68 to 71, all of them big-endian. `None` if there is no such header.
    ///
    /// The caller keeps the file open as long as its process has connections to it: the end of any descriptor of a file
    /// releases the locks of the whole process on it.
    pub(super) fn read(file: &File) -> Option<Self> {
        let mut octets = [0; 100];
        file.read_exact_at(&mut octets, 0).ok()?;
        if !octets.starts_with(b"SQLite format 3\0") {
            return None;
        }
        let number = |at: usize| -> Option<u32> {
            let octets = octets.get(at..at + 4)?;
            octets.try_into().ok().map(u32::from_be_bytes)
        };
        let page = match number(16)? >> 16 {
            // The code for 65,536, which does not fit into two octets.
            1 => 65_536,
            size => size,
        };
        Some(Self {
            application: number(68)?.cast_signed(),
            size: u64::from(page) * u64::from(number(28)?),
        })
    }
}
