//! The directory of an export.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Destination, DestinationError, FolderError, HeldCheckpoint, Placing};
use crate::export::same::{is_same, is_whole_body};
use crate::export::{
    ExportDir, Exported, FORMAT, Faulty, HEAD, checkpoint_file, gap_indices, indices, number,
};
use crawlgate_store::Store;
use crawlgate_system::atomic_file::NewFile;
use crawlgate_tlog::{Checkpoint, KeyKind, VerifierKey};

/// The directory, locked against a second export.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The option or the key that names the directory, for messages.
    named: &'static str,
    /// The newest checkpoint in it.
    newest: Option<HeldCheckpoint>,
    _lock: File,
}

impl Folder {
    /// Opens the directory of a log, or begins one. `named` is the option or the key that names it.
    ///
    /// # Errors
    /// When it cannot be written, or is the export of another log, or another process writes to it.
    pub fn open(
        path: &Path,
        ours: &Checkpoint,
        keys: &[VerifierKey],
        named: &'static str,
    ) -> Result<Self, FolderError> {
        for place in ExportDir::ALL {
            let place = path.join(place.name());
            // Not its parents: a mount that is gone must not become a directory of this machine.
            match fs::create_dir(&place) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made.map_err(|error| FolderError::file(&place, error))?,
            }
        }
        let head = path.join(HEAD);
        let failed = |error| FolderError::file(&head, error);
        if !head.exists() {
            let text = head_text(ours, keys);
            place(path, HEAD, text.as_bytes()).map_err(failed)?;
        }
        // For writing: NFS has no exclusive locks for readers.
        let lock = File::options()
            .read(true)
            .write(true)
            .open(&head)
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::Busy(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let text = fs::read_to_string(&head).map_err(failed)?;
        let found: Value = serde_json::from_str(&text).unwrap_or_default();
        let word = |name| found.get(name).and_then(Value::as_str).unwrap_or_default();
        if word("format") != FORMAT {
            return Err(FolderError::Foreign { path: head, named });
        }
        if word("log") != ours.origin.as_str() {
            return Err(FolderError::OtherLog {
                theirs: word("log").to_owned(),
                ours: ours.origin.clone(),
                path: head,
                named,
            });
        }
        let mut folder = Self {
            path: path.to_owned(),
            named,
            newest: None,
            _lock: lock,
        };
        let sizes = folder.names(ExportDir::Checkpoints);
        let sizes = sizes
            .map_err(|error| FolderError::file(&path.join(ExportDir::Checkpoints.name()), error))?;
        let sizes = sizes.iter().filter_map(|name| number(name));
        if let Some(size) = sizes.max() {
            let file = path.join(checkpoint_file(size));
            folder.newest = HeldCheckpoint::read((path, file), ours, keys, named)?;
        }
        Ok(folder)
    }

    /// Fails unless the log of the store continues the one in the directory.
    ///
    /// # Errors
    /// When it does not, or the store cannot be read.
    pub async fn require_continued(
        &self,
        store: &Arc<Store>,
        ours: &Checkpoint,
    ) -> Result<(), FolderError> {
        match &self.newest {
            Some(newest) => newest.require_continued(store, ours).await,
            None => Ok(()),
        }
    }

    /// Returns the number of records that the newest checkpoint in the directory covers.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.newest.as_ref().map_or(0, HeldCheckpoint::size)
    }

    /// Returns the index after the last entry in the directory, or after the last gap that is stated there.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn end(&self) -> Result<u64, FolderError> {
        let mut end = 0;
        for place in [ExportDir::Entries, ExportDir::Gaps] {
            let names = self.names(place);
            let names = names.map_err(|error| FolderError::file(&self.path, error))?;
            let ranges = names.iter().filter_map(|name| match place {
                ExportDir::Gaps => gap_indices(name),
                _ => indices(name),
            });
            end = ranges.map(|(_, end)| end).max().unwrap_or(0).max(end);
        }
        Ok(end)
    }

    /// Fails unless the latest entries in the directory can be read.
    ///
    /// # Errors
    /// When they cannot; the message names the file.
    pub fn require_whole_end(&self) -> Result<(), Faulty> {
        let export = Exported::open(&self.path)?;
        match export.last() {
            Some(last) => export.entries(last, |_, _| Ok(())),
            None => Ok(()),
        }
    }

    /// Puts a file in its place, unless it is there.
    fn put_file(&self, name: &str, content: &[u8]) -> Result<(), FolderError> {
        let path = self.path.join(name);
        let placed = match fs::read(&path) {
            Ok(found) if is_same(name, content, &found) => return Ok(()),
            Ok(_) => {
                let named = self.named;
                return Err(FolderError::Other { path, named });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => place(&self.path, name, content),
            Err(error) => Err(error),
        };
        placed.map_err(|error| FolderError::File { path, error })
    }

    fn names(&self, place: ExportDir) -> io::Result<Vec<String>> {
        let names = fs::read_dir(self.path.join(place.name()))?;
        let names = names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect()
    }
}

impl Destination for Folder {
    fn has(&self, name: &str) -> bool {
        let octets = fs::read(self.path.join(name));
        octets.is_ok_and(|octets| is_whole_body(name, &octets))
    }

    fn put<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Placing<'a, ()> {
        let outcome = self.put_file(name, content).map_err(DestinationError::new);
        Box::pin(std::future::ready(outcome))
    }
}

/// Returns the file that names a log, with its key.
#[must_use]
pub fn head_text(ours: &Checkpoint, keys: &[VerifierKey]) -> String {
    let is_log = |key: &&VerifierKey| key.kind() == KeyKind::Ed25519 && *key.name() == ours.origin;
    let vkey = keys.iter().find(is_log).map(ToString::to_string);
    let text = json!({"format": FORMAT, "log": ours.origin.as_str(), "vkey": vkey});
    format!("{text}\n")
}

fn place(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let mut file = NewFile::beside(&folder.join(name))?;
    file.write(content)?;
    file.replace()
}
