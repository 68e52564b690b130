//! A collection: a directory with a store for each log of another machine.
//!
//! One damaged copy harms no other, and each is read as the store of a gate is.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::log_key::log_key_file;
use super::public_keys::collected_keys_file;
use super::{StoreError, StoreErrorKind, failed};
use crawlgate_system::atomic_file::create_private_folder;
use crawlgate_tlog::KeyName;

/// Maximum octets of a file name without its ending.
const MAX: usize = 200;

/// The ending of the store of a log.
const ENDING: &str = ".db";

/// The file by which a writer locks a collection.
const LOCK: &str = "collect.lock";

/// The way out of damage to a collected copy. No command mends one: the export has all of it.
pub const COLLECT_ANEW: &str = "move this collected copy away, with the files of its name beside it, and `crawlgate collect` files the log anew";

/// Tells whether a file is in the place of a collected copy, damaged or not: the public key of a collected log stands beside it, or the
/// lock of a collection and no private key.
#[must_use]
pub fn is_in_collection(path: &Path) -> bool {
    let is_locked = || path.with_file_name(LOCK).exists();
    collected_keys_file(path).exists() || (is_locked() && !log_key_file(path).exists())
}

/// Returns the error of an empty file in the place of a collected copy. `None` in another place.
pub(super) fn foreign_file(path: &Path) -> Option<StoreError> {
    is_in_collection(path).then(|| StoreErrorKind::Corrupt.at(path,
        "this is no collected copy of a log: the file is empty; move it out of the collection, and `crawlgate collect` \
         files a log of that name anew"
    ))
}

/// A collected log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectedLog {
    /// Its name.
    pub name: KeyName,
    /// The file of its store.
    pub path: PathBuf,
}

/// A directory of collected logs.
#[derive(Debug, Clone)]
pub struct Collection {
    folder: PathBuf,
}

/// The right to write to a collection, which one process has at a time.
#[derive(Debug)]
pub struct CollectionLock {
    _file: File,
}

impl Collection {
    /// Returns the collection in a directory.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Returns the directory.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the directory if it is missing, open only to its owner, and locks it against a second writer.
    ///
    /// # Errors
    /// When it cannot be made, or another process writes to it.
    pub fn lock(&self) -> Result<CollectionLock, StoreError> {
        let denied = |error: io::Error| StoreErrorKind::Denied.at(&self.folder, error);
        create_private_folder(&self.folder).map_err(denied)?;
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.folder.join(LOCK))
            .map_err(denied)?;
        match file.try_lock() {
            Ok(()) => Ok(CollectionLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreErrorKind::Busy
                .at(&self.folder, "another `crawlgate collect` is writing to it")),
            Err(TryLockError::Error(error)) => Err(denied(error)),
        }
    }

    /// Returns the place of a log, collected or not.
    ///
    /// # Errors
    /// When the name is too long for a file.
    pub fn place(&self, name: &KeyName) -> Result<PathBuf, StoreError> {
        let file = encoded(name.as_str());
        if file.len() <= MAX {
            Ok(self.folder.join(file + ENDING))
        } else {
            Err(failed(format!(
                "the name of the log takes {} octets as a file, and at most {MAX} fit",
                file.len()
            )))
        }
    }

    /// Returns the collected logs, by their names.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn logs(&self) -> Result<Vec<CollectedLog>, StoreError> {
        let denied = |error: io::Error| {
            let kind = match error.kind() {
                io::ErrorKind::NotFound => StoreErrorKind::Missing,
                _ => StoreErrorKind::Denied,
            };
            kind.at(&self.folder, format_args!(
                "{error}; `crawlgate collect` makes a collection, and [audit] collection or --collection names it"
            ))
        };
        let mut logs = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(denied)? {
            let path = entry.map_err(denied)?.path();
            let file = path.file_name().and_then(|name| name.to_str());
            let name = file.and_then(|name| decoded(name.strip_suffix(ENDING)?));
            if let Some(name) = name.and_then(|name| name.parse().ok()) {
                logs.push(CollectedLog { name, path });
            }
        }
        logs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(logs)
    }
}

/// Returns a name as that of a file: each name has another one, and none leads out of the directory.
pub fn encoded(name: &str) -> String {
    let mut file = String::new();
    for (place, octet) in name.bytes().enumerate() {
        match octet {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => file.push(char::from(octet)),
            b'.' if place > 0 => file.push('.'),
            _ => file += &format!("%{octet:02X}"),
        }
    }
    file
}

/// Returns the name that a file has. `None` for a file of another kind.
fn decoded(file: &str) -> Option<String> {
    let mut octets = Vec::new();
    let mut rest = file.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let octet = match (first, after) {
            (b'%', [high, low, behind @ ..]) => {
                rest = behind;
                let digits = [*high, *low];
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            (octet, _) => *octet,
        };
        octets.push(octet);
    }
    let name = String::from_utf8(octets).ok()?;
    // One name has one file.
    (encoded(&name) == file).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_file_of_its_own_in_the_directory() {
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("crawlgate/0123456789abcdef", "crawlgate%2F0123456789abcdef"),
            ("logs.example.org/fra-1", "logs.example.org%2Ffra-1"),
            ("..", "%2E."),
            ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
            ("/", "%2F"),
            ("A", "%41"),
            ("a", "a"),
            ("%41", "%2541"),
            ("é\u{7f}\u{0}", "%C3%A9%7F%00"),
            (".hidden", "%2Ehidden"),
        ];
        for (name, file) in rows {
            assert_eq!(encoded(name), file, "{name}");
            assert_eq!(decoded(file).as_deref(), Some(name), "{file}");
        }
        for file in ["%2f", "A", "%", "%4", "%zz", "a/b", ".x", "%61", "%+1"] {
            assert_eq!(decoded(file), None, "{file}");
        }
        let collection = Collection::at(Path::new("/c"));
        let long: KeyName = "x".repeat(201).parse().unwrap();
        let error = collection.place(&long).unwrap_err();
        assert!(error.message.contains("201 octets"), "{error}");
    }
}
