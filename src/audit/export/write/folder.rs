//! The directory of an export.

use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use thiserror::Error;

use super::{Destination, Placing};
use crate::audit::export::same::{is_same, is_whole_body};
use crate::audit::export::{
    Exported, FORMAT, Faulty, HEAD, Place, checkpoint_file, gap_indices, indices, number,
};
use crate::store::Store;
use crate::tlog::{Checkpoint, Hash, KeyKind, Note, VerifierKey};
use crate::whole_file::NewFile;

/// The reason why a directory takes no export.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}: {1}")]
pub enum NotOpened {
    /// Another process writes to it.
    #[error("{0}: another export to this directory is under way")]
    Busy(String),
    /// Anything else: the path, and the reason.
    Failed(String, String),
}

/// The directory, locked against a second export.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The option or the key that names the directory, for messages.
    named: &'static str,
    /// The newest checkpoint in it.
    newest: Option<(u64, Hash)>,
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
    ) -> Result<Self, NotOpened> {
        let failed = |path: &Path, error: &dyn Display| {
            NotOpened::Failed(path.display().to_string(), error.to_string())
        };
        for place in Place::ALL {
            let place = path.join(place.name());
            // Not its parents: a mount that is gone must not become a directory of this machine.
            match fs::create_dir(&place) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made.map_err(|error| failed(&place, &error))?,
            }
        }
        let head = path.join(HEAD);
        if !head.exists() {
            let text = head_text(ours, keys);
            place(path, HEAD, text.as_bytes()).map_err(|error| failed(&head, &error))?;
        }
        // For writing: NFS has no exclusive locks for readers.
        let lock = File::options()
            .read(true)
            .write(true)
            .open(&head)
            .map_err(|error| failed(&head, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(NotOpened::Busy(path.display().to_string()));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&head, &error)),
        }
        let text = fs::read_to_string(&head).map_err(|error| failed(&head, &error))?;
        let found: Value = serde_json::from_str(&text).unwrap_or_default();
        let word = |name| found.get(name).and_then(Value::as_str).unwrap_or_default();
        if word("format") != FORMAT {
            return Err(failed(
                &head,
                &format!("this is no export of crawlgate; name another directory with {named}"),
            ));
        }
        if word("log") != ours.origin.as_str() {
            let (other, ours) = (word("log"), &ours.origin);
            let told = format!(
                "this is the export of the log {other}, and the store has the log {ours}; name another directory with \
                 {named}"
            );
            return Err(failed(&head, &told));
        }
        let mut folder = Self {
            path: path.to_owned(),
            named,
            newest: None,
            _lock: lock,
        };
        let sizes = folder.names(Place::Checkpoints);
        let sizes = sizes.map_err(|error| failed(&path.join(Place::Checkpoints.name()), &error))?;
        let sizes = sizes.iter().filter_map(|name| number(name));
        if let Some(size) = sizes.max() {
            let file = path.join(checkpoint_file(size));
            let octets = fs::read(&file).map_err(|error| failed(&file, &error))?;
            let note = Note::parse(&octets).map_err(|error| failed(&file, &error))?;
            let opened = Checkpoint::open(&note, keys).map_err(|error| {
                let told = format!("{error}; name another directory with {named}, or the key that has signed it with --key");
                failed(&file, &told)
            })?;
            folder.newest = Some((opened.0.size, opened.0.root));
        }
        Ok(folder)
    }

    /// Fails unless the log of the store continues the one in the directory.
    ///
    /// # Errors
    /// When it does not, or the store cannot be read.
    pub async fn require_continued(
        &self,
        store: &Arc<dyn Store>,
        ours: &Checkpoint,
    ) -> Result<(), String> {
        let Some((size, root)) = self.newest else {
            return Ok(());
        };
        let (place, named) = (self.path.display(), self.named);
        if size > ours.size {
            return Err(format!(
                "{place}: it has {size} records, and the newest checkpoint of the store covers {}: the store is an older copy; \
                 bring back the newer store, or name another directory with {named}",
                ours.size
            ));
        }
        let proof = store.consistency(size, ours.size).await;
        let proof = proof.map_err(|error| error.to_string())?;
        proof.verify(&root, &ours.root).map_err(|error| {
            format!(
                "{place}: the log of the store does not continue the one in it, of {size} records: {error}; `crawlgate audit \
                 verify --all --checkpoint {place}/checkpoints/{size:020}` tells more; name another directory with {named}"
            )
        })
    }

    /// Returns the number of records that the newest checkpoint in the directory covers.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.newest.map_or(0, |(size, _)| size)
    }

    /// Returns the index after the last entry in the directory, or after the last gap that is stated there.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn end(&self) -> Result<u64, String> {
        let mut end = 0;
        for place in [Place::Entries, Place::Gaps] {
            let names = self.names(place);
            let names = names.map_err(|error| format!("{}: {error}", self.path.display()))?;
            let ranges = names.iter().filter_map(|name| match place {
                Place::Gaps => gap_indices(name),
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

    fn names(&self, place: Place) -> io::Result<Vec<String>> {
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
        let path = self.path.join(name);
        let put = || match fs::read(&path) {
            Ok(found) if is_same(name, content, &found) => Ok(()),
            Ok(_) => {
                let named = self.named;
                let what = format!(
                    "there is another file in its place, damaged or of other content, which is not overwritten; move it \
                     away, or name another directory with {named}"
                );
                Err(io::Error::other(what))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                place(&self.path, name, content)
            }
            Err(error) => Err(error),
        };
        let outcome = put().map_err(|error| format!("{}: {error}", path.display()));
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
