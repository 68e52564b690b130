//! The file of a Unix socket.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The file of a socket, with its identity: a later process may have put another one there. Removed on drop.
#[derive(Debug)]
pub struct SocketFile {
    /// The place of the file.
    pub path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    /// Names the file at `path` as this process's own.
    ///
    /// # Errors
    /// When there is no file.
    pub fn of(path: &Path) -> io::Result<SocketFile> {
        Ok(SocketFile { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            // A file that stays is removed by the next process.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns device and inode.
pub fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}
