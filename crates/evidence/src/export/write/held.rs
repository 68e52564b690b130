//! The newest checkpoint that a directory holds of a log.
//!
//! A log is written into the directory only if it continues the tree of this checkpoint: neither another log nor an older copy of the
//! store takes its place. `crawlgate audit export`, `[ship]` and `crawlgate audit tiles` ask for that before they write.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::FolderError;
use crawlgate_store::Store;
use crawlgate_tlog::{Checkpoint, Note, VerifierKey};

/// The newest checkpoint in a directory, signed by a trusted key.
#[derive(Debug)]
pub struct HeldCheckpoint {
    /// The directory.
    folder: PathBuf,
    /// The file.
    file: PathBuf,
    /// The option or the key that names the directory, for messages.
    named: &'static str,
    checkpoint: Checkpoint,
}

impl HeldCheckpoint {
    /// Reads a checkpoint of the log of `ours`. `None` if the file is not there. `named` is the option or the key that names the
    /// directory.
    ///
    /// # Errors
    /// When it cannot be read, is of another log, or no trusted key has signed it.
    pub fn read(
        (folder, file): (&Path, PathBuf),
        ours: &Checkpoint,
        keys: &[VerifierKey],
        named: &'static str,
    ) -> Result<Option<Self>, FolderError> {
        let octets = match fs::read(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| FolderError::file(&file, error))?,
        };
        let note = match Note::parse(&octets) {
            Ok(note) => note,
            Err(error) => {
                let path = file;
                return Err(FolderError::Checkpoint { path, error, named });
            }
        };
        // No key of this log has signed one of another log: the name tells more than the signature.
        let theirs = Checkpoint::from_text(note.text()).map(|found| found.origin);
        if let Some(theirs) = theirs.filter(|theirs| *theirs != ours.origin) {
            return Err(FolderError::OtherLog {
                theirs: theirs.to_string(),
                ours: ours.origin.clone(),
                path: file,
                named,
            });
        }
        match Checkpoint::open(&note, keys) {
            Ok((checkpoint, _)) => Ok(Some(Self {
                folder: folder.to_owned(),
                file,
                named,
                checkpoint,
            })),
            Err(error) => Err(FolderError::Signature {
                path: file,
                error,
                named,
            }),
        }
    }

    /// Returns the number of records that it covers.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.checkpoint.size
    }

    /// Fails unless the tree of `ours`, a checkpoint of the store, continues that of this one.
    ///
    /// # Errors
    /// When it does not, or the store cannot be read.
    pub async fn require_continued(
        &self,
        store: &Arc<Store>,
        ours: &Checkpoint,
    ) -> Result<(), FolderError> {
        let (size, named) = (self.checkpoint.size, self.named);
        if size > ours.size {
            return Err(FolderError::Newer {
                path: self.folder.clone(),
                records: size,
                signed: ours.size,
                named,
            });
        }
        let proof = store.consistency(size, ours.size).await?;
        let proven = proof.verify(&self.checkpoint.root, &ours.root);
        proven.map_err(|error| FolderError::NotContinued {
            path: self.folder.clone(),
            checkpoint: self.file.clone(),
            size,
            error,
            named,
        })
    }
}
