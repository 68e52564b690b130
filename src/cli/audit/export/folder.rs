//! The directory of an export.

use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::audit::export::{FORMAT, HEAD, Place, checkpoint_file, indices, number};
use crate::store::Store;
use crate::tlog::{Checkpoint, Hash, KeyKind, Note, VerifierKey};
use crate::whole_file::NewFile;

/// The directory, locked against a second export.
pub(super) struct Folder<'p> {
    path: &'p Path,
    /// The newest checkpoint in it.
    newest: Option<(u64, Hash)>,
    _lock: File,
}

impl<'p> Folder<'p> {
    /// Opens the directory of a log, or begins one.
    pub(super) fn open(
        path: &'p Path,
        ours: &Checkpoint,
        keys: &[VerifierKey],
    ) -> Result<Self, String> {
        let failed = |path: &Path, error: &dyn Display| format!("{}: {error}", path.display());
        for place in Place::ALL {
            let place = path.join(place.name());
            fs::create_dir_all(&place).map_err(|error| failed(&place, &error))?;
        }
        let head = path.join(HEAD);
        if !head.exists() {
            let is_log =
                |key: &&VerifierKey| key.kind() == KeyKind::Ed25519 && *key.name() == ours.origin;
            let vkey = keys.iter().find(is_log).map(ToString::to_string);
            let text = json!({"format": FORMAT, "log": ours.origin.as_str(), "vkey": vkey});
            put(path, HEAD, format!("{text}\n").as_bytes())?;
        }
        let lock = File::open(&head).map_err(|error| failed(&head, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(failed(
                    path,
                    &"another export to this directory is under way",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&head, &error)),
        }
        let text = fs::read_to_string(&head).map_err(|error| failed(&head, &error))?;
        let found: Value = serde_json::from_str(&text).unwrap_or_default();
        let word = |name| found.get(name).and_then(Value::as_str).unwrap_or_default();
        if word("format") != FORMAT {
            return Err(failed(
                &head,
                &"this is no export of crawlgate; name another directory with --to",
            ));
        }
        if word("log") != ours.origin.as_str() {
            let (other, ours) = (word("log"), &ours.origin);
            let told = format!(
                "this is the export of the log {other}, and the store has the log {ours}; name another directory with --to"
            );
            return Err(failed(&head, &told));
        }
        let mut folder = Self {
            path,
            newest: None,
            _lock: lock,
        };
        let sizes = folder.names(Place::Checkpoints)?;
        let sizes = sizes.iter().filter_map(|name| number(name));
        if let Some(size) = sizes.max() {
            let file = path.join(checkpoint_file(size));
            let octets = fs::read(&file).map_err(|error| failed(&file, &error))?;
            let note = Note::parse(&octets).map_err(|error| failed(&file, &error))?;
            let opened = Checkpoint::open(&note, keys).map_err(|error| {
                let told = format!("{error}; name another directory with --to, or the key that has signed it with --key");
                failed(&file, &told)
            })?;
            folder.newest = Some((opened.0.size, opened.0.root));
        }
        Ok(folder)
    }

    /// Fails unless the log of the store continues the one in the directory.
    pub(super) async fn require_continued(
        &self,
        store: &Arc<dyn Store>,
        ours: &Checkpoint,
    ) -> Result<(), String> {
        let Some((size, root)) = self.newest else {
            return Ok(());
        };
        let place = self.path.display();
        if size > ours.size {
            return Err(format!(
                "{place}: it has {size} records, and the newest checkpoint of the store covers {}: the store is an older copy; \
                 bring back the newer store, or name another directory with --to",
                ours.size
            ));
        }
        let proof = store.consistency(size, ours.size).await;
        let proof = proof.map_err(|error| error.to_string())?;
        proof.verify(&root, &ours.root).map_err(|error| {
            format!(
                "{place}: the log of the store does not continue the one in it, of {size} records: {error}; `crawlgate audit \
                 verify --all --checkpoint {place}/checkpoints/{size:020}` tells more; name another directory with --to"
            )
        })
    }

    /// Returns the index after the last entry in the directory.
    pub(super) fn end(&self) -> Result<u64, String> {
        let names = self.names(Place::Entries)?;
        let ends = names.iter().filter_map(|name| Some(indices(name)?.1));
        Ok(ends.max().unwrap_or(0))
    }

    fn names(&self, place: Place) -> Result<Vec<String>, String> {
        let place = self.path.join(place.name());
        let read = || -> io::Result<Vec<String>> {
            let names = fs::read_dir(&place)?;
            let names = names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect()
        };
        read().map_err(|error| format!("{}: {error}", place.display()))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Puts a file in its place as a whole, unless it is there already.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> Result<(), String> {
        match self.has(name) {
            true => Ok(()),
            false => put(self.path, name, content),
        }
    }
}

fn put(folder: &Path, name: &str, content: &[u8]) -> Result<(), String> {
    let path = folder.join(name);
    let written = || -> io::Result<()> {
        let mut file = NewFile::beside(&path)?;
        file.write(content)?;
        file.replace()
    };
    written().map_err(|error| format!("{}: {error}", path.display()))
}
