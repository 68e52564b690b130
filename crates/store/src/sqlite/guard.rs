//! The guard of an open store's files.
//!
//! The engine does not look at the file again that it has opened. If another program moves, deletes, empties or overwrites
//! the database or its log meanwhile, the engine continues in files without a name, or in pages that it remembers. So the
//! files are compared with what this process has left there: before each write, and every second.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::agree::{self, Depth};
use super::bounds::log_size;
use super::engine::Failure;
use super::file::Header;
use super::file::Identity;
use super::schema::APPLICATION;
use crate::{StoreError, StoreErrorKind, failed};

/// Looks at a file that is shorter than its header says: another process may be carrying its log over.
const LOOKS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// The guard.
#[derive(Debug)]
pub(super) struct Guard {
    path: Arc<Path>,
    identity: Identity,
    /// The open database, to read its header. Dropped after the connections: its end releases their locks.
    file: File,
    /// The database as it was after the last write of this process.
    left: Mutex<Stamp>,
}

/// The size of a file, and the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self { size: file.len(), changed: (file.mtime(), file.mtime_nsec()) })
    }
}

impl Guard {
    /// Returns the guard of a store that was opened just now.
    pub(super) fn of(path: &Arc<Path>) -> Result<Self, StoreError> {
        let error_of =
            |error: &dyn std::fmt::Display| failed(format!("{}: {error}", path.display()));
        let identity = Identity::of(path).map_err(|error| error_of(&error))?;
        let left = Stamp::of(path).ok_or_else(|| error_of(&"the store has gone"))?;
        Ok(Self {
            path: Arc::clone(path),
            file: File::open(path).map_err(|error| error_of(&error))?,
            identity,
            left: Mutex::new(left),
        })
    }

    /// Runs a write, unless the files are no longer those that this process has left.
    pub(super) fn during<T>(
        &self,
        write: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut left = self.left.lock();
        self.check(&mut left)?;
        let outcome = write();
        // A change by others meanwhile is found before the next write. This one is nearly always our own: the engine has
        // carried the log over.
        if let Some(now) = Stamp::of(&self.path)
            && now != *left
            && self.examine(Depth::End).is_ok()
        {
            *left = now;
        }
        outcome
    }

    /// Looks at the files, unless a write is in progress.
    pub(super) fn look(&self) -> Result<(), Failure> {
        match self.left.try_lock() {
            Some(mut left) => self.check(&mut left),
            None => Ok(()),
        }
    }

    fn check(&self, left: &mut Stamp) -> Result<(), Failure> {
        self.identity.require(&self.path)?;
        let now = Stamp::of(&self.path);
        if now == Some(*left) {
            return Ok(());
        }
        // Another process may have carried the log over.
        for _ in 1..LOOKS {
            if self.is_whole() {
                break;
            }
            thread::sleep(PAUSE);
        }
        self.examine(Depth::Whole)?;
        if let Some(now) = now {
            *left = now;
        }
        Ok(())
    }

    /// Tells whether the database begins as ours, and is as long as it says. The last pages may still be only in the log.
    fn is_whole(&self) -> bool {
        let size = self.file.metadata().map_or(0, |file| file.len()) + log_size(&self.path);
        Header::read(&self.file)
            .is_some_and(|header| header.application == APPLICATION && header.size <= size)
    }

    fn examine(&self, depth: Depth) -> Result<(), Failure> {
        let why = if self.is_whole() {
            agree::examine(&self.path, depth)?
        } else {
            Some("the file is cut off, or another program's".to_owned())
        };
        let Some(why) = why else { return Ok(()) };
        Err(Failure::Store(StoreErrorKind::Missing.at(&self.path, format_args!(
            "the store was cut off or overwritten while it was open ({why}), and nothing can be kept any more; end \
             crawlgate, bring the store back as it was, and start anew"
        ))))
    }
}
