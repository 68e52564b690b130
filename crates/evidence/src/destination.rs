//! The places that take the files of a log.
//!
//! A [`Destination`] takes an export, by hand or continuously: a [`Folder`] or a service that takes files by PUT. A folder takes the tiles
//! of `crawlgate audit tiles`, too. It is written only if the log of the store continues the tree of the newest checkpoint in it: neither
//! another log nor an older copy of the store takes its place.

mod error;

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

pub use self::error::{DestinationError, FolderError, FolderFault};
use crate::export::same::{is_same, is_whole_body};
use crate::export::{ExportDir, Exported, Faulty, HEAD, Head, checkpoint_file};
use crawlgate_store::Store;
use crawlgate_system::atomic_file::NewFile;
use crawlgate_tlog::{Checkpoint, Note, Resource, VerifierKey};

/// The future of a destination's answer.
pub type Placing<'a, T> = Pin<Box<dyn Future<Output = Result<T, DestinationError>> + Send + 'a>>;

/// A place that takes the files of a log.
pub trait Destination: Send + Sync {
    /// Tells whether a file is surely there, as far as that is known without a question.
    fn has(&self, name: &str) -> bool;

    /// Puts a file in its place as a whole, unless it is there already.
    fn put<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Placing<'a, ()>;
}

/// A listener to the writing of a log.
pub trait Listener: Send {
    /// Takes note of something that is missing or wrong.
    fn fault(&mut self, what: &str);

    /// Takes note of something that is as it must be, and that a reader may miss.
    fn remark(&mut self, _what: &str) {}

    /// Takes note of records that are lost, or in the place of which a gap is written. A fault tells of them, too.
    fn missing(&mut self, _records: u64) {}

    /// Takes note of how many of how many records are written.
    fn written(&mut self, _records: u64, _of: u64) {}
}

/// A directory of an export, locked against a second one, or of tiles.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The option or the key that names the directory, for messages.
    named: &'static str,
    /// The newest checkpoint in it, with its file.
    newest: Option<(PathBuf, Checkpoint)>,
    /// The export, with its lock; `None` of tiles. No file of an export changes, and a damaged tile is made anew.
    export: Option<(Exported, File)>,
}

impl Folder {
    /// Opens the directory of an export, or begins one. `named` is the option or the key that names it.
    ///
    /// # Errors
    /// When it cannot be written, or is the export of another log, or another process writes to it.
    pub fn of_export(
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
                made => made.map_err(|error| FolderError::at(&place, error))?,
            }
        }
        let head = path.join(HEAD);
        let failed = |error: io::Error| FolderError::at(&head, error);
        if !head.exists() {
            place(&head, &Head::of(ours, keys).to_bytes()).map_err(failed)?;
        }
        // For writing: NFS has no exclusive locks for readers.
        let lock = File::options().read(true).write(true).open(&head);
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::Busy(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let text = fs::read(&head).map_err(failed)?;
        let Some(found) = Head::read(&text) else {
            return Err(FolderError::at(&head, FolderFault::Foreign(named)));
        };
        if found.log != ours.origin.as_str() {
            let fault = FolderFault::other_log(found.log, ours, named);
            return Err(FolderError::at(&head, fault));
        }
        let export = Exported::open(path)?;
        let newest = export.checkpoints.last();
        let newest = newest.map(|size| held(path.join(checkpoint_file(*size)), ours, keys, named));
        Ok(Self {
            path: path.to_owned(),
            named,
            newest: newest.transpose()?.flatten(),
            export: Some((export, lock)),
        })
    }

    /// Opens the directory of tiles, or begins one. `named` is the argument that names it.
    ///
    /// # Errors
    /// When it cannot be read, or has the tiles of another log.
    pub fn of_tiles(
        path: &Path,
        ours: &Checkpoint,
        keys: &[VerifierKey],
        named: &'static str,
    ) -> Result<Self, FolderError> {
        let file = path.join(Resource::Checkpoint.to_string());
        Ok(Self {
            path: path.to_owned(),
            named,
            newest: held(file, ours, keys, named)?,
            export: None,
        })
    }

    /// Fails unless the tree of `ours`, a checkpoint of the store, continues that of the newest checkpoint in the directory.
    ///
    /// # Errors
    /// When it does not, or the store cannot be read.
    pub async fn require_continued(
        &self,
        store: &Arc<Store>,
        ours: &Checkpoint,
    ) -> Result<(), FolderError> {
        let Some((file, Checkpoint { size, root, .. })) = &self.newest else {
            return Ok(());
        };
        let (size, named) = (*size, self.named);
        if size > ours.size {
            let fault = FolderFault::Newer { records: size, signed: ours.size, named };
            return Err(FolderError::at(&self.path, fault));
        }
        let proof = store.consistency(size, ours.size).await?;
        proof.verify(root, &ours.root).map_err(|error| {
            let fault = FolderFault::NotContinued { checkpoint: file.clone(), size, error, named };
            FolderError::at(&self.path, fault)
        })
    }

    /// Returns the number of records that the newest checkpoint in the directory covers.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.newest.as_ref().map_or(0, |(_, newest)| newest.size)
    }

    /// Returns the index after the last entry of the export that was here when it was opened, or after the last gap that is stated.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.export.as_ref().map_or(0, |(export, _)| export.end())
    }

    /// Fails unless the latest entries of the export can be read.
    ///
    /// # Errors
    /// When they cannot; the message names the file.
    pub fn require_whole_end(&self) -> Result<(), Faulty> {
        let export = self.export.as_ref().map(|(export, _)| export);
        match export.and_then(|export| Some((export, export.last()?))) {
            Some((export, last)) => export.entries(last, |_, _| Ok(())),
            None => Ok(()),
        }
    }

    /// Returns a file, if it is there.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.path.join(name)).ok()
    }

    fn put_file(&self, name: &str, content: &[u8]) -> Result<(), FolderError> {
        let path = self.path.join(name);
        let placed = match fs::read(&path) {
            Ok(found) if is_same(name, content, &found) => return Ok(()),
            Ok(_) if self.export.is_some() => {
                return Err(FolderError::at(&path, FolderFault::Other(self.named)));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ if self.export.is_some() => place(&path, content),
            _ => place_tile(&path, content),
        };
        placed.map_err(|error| FolderError::at(&path, error))
    }
}

impl Destination for Folder {
    fn has(&self, name: &str) -> bool {
        let octets = self.read(name);
        octets.is_some_and(|octets| is_whole_body(name, &octets))
    }

    fn put<'a>(&'a self, name: &'a str, content: &'a [u8]) -> Placing<'a, ()> {
        let outcome = self.put_file(name, content).map_err(DestinationError::new);
        Box::pin(std::future::ready(outcome))
    }
}

/// Reads a checkpoint of the log of `ours` that a directory holds. `None` if the file is not there.
fn held(
    file: PathBuf,
    ours: &Checkpoint,
    keys: &[VerifierKey],
    named: &'static str,
) -> Result<Option<(PathBuf, Checkpoint)>, FolderError> {
    let octets = match fs::read(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| FolderError::at(&file, error))?,
    };
    let note = Note::parse(&octets)
        .map_err(|error| FolderError::at(&file, FolderFault::Checkpoint { error, named }))?;
    // No key of this log has signed one of another log: the name tells more than the signature.
    let theirs = Checkpoint::from_text(note.text()).map(|found| found.origin);
    if let Some(theirs) = theirs.filter(|theirs| *theirs != ours.origin) {
        let fault = FolderFault::other_log(theirs.to_string(), ours, named);
        return Err(FolderError::at(&file, fault));
    }
    match Checkpoint::open(&note, keys) {
        Ok((checkpoint, _)) => Ok(Some((file, checkpoint))),
        Err(error) => Err(FolderError::at(&file, FolderFault::Signature { error, named })),
    }
}

fn place(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = NewFile::beside(path)?;
    file.write(content)?;
    file.replace()
}

/// Puts a tile in its place, without waiting for the disk: there are thousands, and a later run mends one that a power cut has emptied.
fn place_tile(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut file = NewFile::beside(path)?;
    file.write(content)?;
    file.replace_unsynced()
}
