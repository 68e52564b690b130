//! The memory of a witness: the size and root of each log, as it has cosigned them last, in a file.
//!
//! The file is on the disk before the answer leaves (temporary file, fsync, rename), so a witness never cosigns two
//! histories, whenever it is killed. A lock keeps a second process away. The file names the key that it belongs to:
//! without the file, a witness does not begin anew with a key that may have cosigned before.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use thiserror::Error;

use super::judge::{NOTHING, TreeHead};
use crawlgate_store::{LogKey, StoreError, StoreErrorKind};
use crawlgate_system::atomic_file::replace;
use crawlgate_text::{from_hex, hex};
use crawlgate_tlog::{KeyName, hash_from_text, hash_text};

const TITLE: &str = "crawlgate witness state 1";

/// The reason why a witness of one's own cannot begin.
#[derive(Debug, Error)]
pub enum StateError {
    /// The key cannot be read or made.
    #[error(transparent)]
    Key(#[from] StoreError),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The fault.
        error: io::Error,
    },
    /// Another process has the state open.
    #[error("{}: another process has the state of this witness open; end it first", .0.display())]
    Taken(PathBuf),
    /// The state is damaged.
    #[error(
        "{}: the state of the witness is damaged: what it has cosigned is unknown; bring the file back; or move it and the \
         key away: a new key is a new witness",
        .0.display()
    )]
    Damaged(PathBuf),
    /// The state names another key.
    #[error(
        "{}: this is the state of another witness: it names another key than the key file has; bring back what belongs \
         together",
        .0.display()
    )]
    OtherKey(PathBuf),
    /// There is a key, and no state.
    #[error(
        "{}: there is no such file, and {} may have cosigned before: without the sizes in it, the witness could cosign a \
         second history; bring the file back; or move the key away, too: a new key is a new witness",
        state.display(),
        key.display()
    )]
    NoState {
        /// The place of the state.
        state: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// The key has another name than the one that was given.
    #[error(
        "--name {named}: the key in {} has the name {name}, and its witness signs under that; leave --name out; or name another \
         file with --key for a new key",
        key.display()
    )]
    OtherName {
        /// The file of the key.
        key: PathBuf,
        /// The name of the key.
        name: KeyName,
        /// The name that was given.
        named: KeyName,
    },
    /// There is the state of a key, and no key.
    #[error(
        "{}: there is no key here, and {} is the state of one; name that key, or bring it back; or move the state away, too: a \
         new key is a new witness",
        key.display(),
        state.display()
    )]
    NoKey {
        /// The place of the key.
        key: PathBuf,
        /// The state.
        state: PathBuf,
    },
}

impl StateError {
    fn file(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::File { path, error }
    }
}

/// The memory of a witness, locked.
#[derive(Debug)]
pub(super) struct WitnessState {
    path: PathBuf,
    public: [u8; 32],
    logs: BTreeMap<KeyName, TreeHead>,
    _lock: File,
}

/// Opens the memory and the key of a witness, and begins both if neither is there.
///
/// # Errors
/// When another process has them open, one is missing, or they do not belong together; the message names the way out.
pub(super) fn open(
    path: &Path,
    key: &Path,
    name: Option<KeyName>,
) -> Result<(WitnessState, LogKey), StateError> {
    let lock = lock(path)?;
    let loaded = load(key, name.as_ref())?;
    let read = read(path)?;
    let (key, logs) = match (loaded, read) {
        (Some(key), Some((public, logs))) if public == *key.vkey().public() => (key, logs),
        (Some(_), Some(_)) => {
            return Err(StateError::OtherKey(path.to_owned()));
        }
        (Some(_), None) => {
            return Err(StateError::NoState {
                state: path.to_owned(),
                key: key.to_owned(),
            });
        }
        // Also of a key that has cosigned nothing yet: it may have its place elsewhere.
        (None, Some(_)) => {
            return Err(StateError::NoKey {
                key: key.to_owned(),
                state: path.to_owned(),
            });
        }
        (None, None) => {
            let new = LogKey::generate(name)?;
            let memory = WitnessState {
                path: path.to_owned(),
                public: *new.vkey().public(),
                logs: BTreeMap::new(),
                _lock: lock,
            };
            // The state first: a key without one is never begun with.
            let written = memory.write();
            written.map_err(|error| StateError::file(path, error))?;
            let written = new.write(key);
            written.map_err(|error| StateError::file(key, error))?;
            return Ok((memory, new));
        }
    };
    let memory = WitnessState {
        path: path.to_owned(),
        public: *key.vkey().public(),
        logs,
        _lock: lock,
    };
    Ok((memory, key))
}

/// Loads the key of a witness; `None` if there is none. The key file has the name: no witness signs under two.
///
/// # Errors
/// When the key cannot be read, or has another name.
pub(super) fn load(path: &Path, named: Option<&KeyName>) -> Result<Option<LogKey>, StateError> {
    let key = match LogKey::load(path, None) {
        Ok(key) => key,
        Err(error) if error.kind == StoreErrorKind::Missing => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match named.filter(|named| *named != key.name()) {
        Some(named) => Err(StateError::OtherName {
            key: path.to_owned(),
            name: key.name().clone(),
            named: named.clone(),
        }),
        None => Ok(Some(key)),
    }
}

/// Locks the state for the life of the process. The file of the lock stays: the state itself is replaced with each write.
fn lock(path: &Path) -> Result<File, StateError> {
    let place = beside(path, ".lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&place);
    let file = file.map_err(|error| StateError::file(&place, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StateError::Taken(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(StateError::file(&place, error)),
    }
}

/// Returns a place beside a file, with this end behind its name.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

type Content = ([u8; 32], BTreeMap<KeyName, TreeHead>);

fn read(path: &Path) -> Result<Option<Content>, StateError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StateError::file(path, error)),
    };
    match parse(&text) {
        Some(content) => Ok(Some(content)),
        None => Err(StateError::Damaged(path.to_owned())),
    }
}

fn parse(text: &str) -> Option<Content> {
    let (body, stated) = text.rsplit_once("sum ")?;
    if stated != format!("{}\n", sum(body)) {
        return None;
    }
    let mut lines = body.strip_suffix('\n')?.split('\n');
    if lines.next()? != TITLE {
        return None;
    }
    let public = from_hex(lines.next()?.strip_prefix("key ")?)?;
    let log = |line: &str| {
        let mut words = line.strip_prefix("log ")?.split(' ');
        let (name, size, root) = (words.next()?, words.next()?, words.next()?);
        let seen = (size.parse().ok()?, hash_from_text(root)?);
        words.next().is_none().then_some((name.parse().ok()?, seen))
    };
    let logs: BTreeMap<_, _> = lines.map(log).collect::<Option<_>>()?;
    Some((public, logs))
}

fn sum(text: &str) -> String {
    let mut sum = hex(digest(&SHA256, text.as_bytes()));
    sum.truncate(16);
    sum
}

impl WitnessState {
    /// Returns what was cosigned last of a log.
    pub(super) fn of(&self, log: &KeyName) -> TreeHead {
        self.logs.get(log).copied().unwrap_or(NOTHING)
    }

    /// Keeps what is to be cosigned now. It is on the disk when the call has returned.
    ///
    /// # Errors
    /// When the file cannot be written: nothing may be cosigned then.
    pub(super) fn keep(&mut self, log: KeyName, seen: TreeHead) -> io::Result<()> {
        let before = self.logs.insert(log.clone(), seen);
        if before == Some(seen) {
            return Ok(());
        }
        let written = self.write();
        if written.is_err() {
            match before {
                Some(before) => self.logs.insert(log, before),
                None => self.logs.remove(&log),
            };
        }
        written
    }

    fn write(&self) -> io::Result<()> {
        let mut text = format!("{TITLE}\nkey {}\n", hex(self.public));
        for (name, (size, root)) in &self.logs {
            text += &format!("log {name} {size} {}\n", hash_text(root));
        }
        let sum = sum(&text);
        text += &format!("sum {sum}\n");
        replace(&self.path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_outlives_its_process_and_admits_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let (path, key) = (folder.path().join("w.state"), folder.path().join("w.key"));
        let name = || Some("witness.test/w1".parse().unwrap());
        let log: KeyName = "log".parse().unwrap();
        let (mut memory, first) = open(&path, &key, name()).unwrap();
        assert_eq!(memory.of(&log), NOTHING);
        memory.keep(log.clone(), (7, [7; 32])).unwrap();
        let second = open(&path, &key, name()).unwrap_err();
        assert!(matches!(second, StateError::Taken(_)), "{second}");
        drop(memory);
        let (memory, again) = open(&path, &key, None).unwrap();
        assert_eq!(memory.of(&log), (7, [7; 32]));
        assert_eq!(again.vkey(), first.vkey(), "the key file has the name");
        drop(memory);
        let other = Some("witness.test/other".parse().unwrap());
        let error = open(&path, &key, other).unwrap_err().to_string();
        assert!(error.contains("has the name witness.test/w1"), "{error}");

        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            assert!(open(&path, &key, None).is_err(), "bit {at}");
        }
        for at in 0..whole.len() {
            fs::write(&path, &whole[..at]).unwrap();
            assert!(open(&path, &key, None).is_err(), "cut at {at}");
        }
        fs::write(&path, &whole).unwrap();
        open(&path, &key, None).unwrap();

        let other = tempfile::tempdir().unwrap();
        let (of_other, its_key) = (other.path().join("w.state"), other.path().join("w.key"));
        open(&of_other, &its_key, name()).unwrap();
        let nowhere = other.path().join("nowhere.key");
        let away = |file: &Path| fs::remove_file(file).unwrap();
        for (name, path, key, gone, want) in [
            ("another's state", &of_other, &key, None, "another witness"),
            (
                "without a state",
                &path,
                &key,
                Some(&path),
                "could cosign a second history",
            ),
            (
                "without a key",
                &path,
                &key,
                Some(&key),
                "there is no key here",
            ),
            (
                "another's state, and no key",
                &of_other,
                &nowhere,
                None,
                "is the state of one; name that key",
            ),
        ] {
            let kept = gone.map(|gone| fs::read(gone).unwrap());
            if let Some(gone) = gone {
                away(gone);
            }
            let error = open(path, key, None).unwrap_err().to_string();
            assert!(error.contains(want), "{name}: {error}");
            if let (Some(gone), Some(kept)) = (gone, kept) {
                fs::write(gone, kept).unwrap();
                use std::os::unix::fs::PermissionsExt as _;
                fs::set_permissions(gone, fs::Permissions::from_mode(0o600)).unwrap();
            }
        }
        // Both away: another witness begins.
        away(&path);
        away(&key);
        let (memory, new) = open(&path, &key, name()).unwrap();
        assert_ne!(new.vkey(), first.vkey());
        assert_eq!(memory.of(&log), NOTHING);
        drop(memory);
        assert!(!nowhere.exists());
        open(&of_other, &its_key, None).expect("the state is as it was");
    }

    #[test]
    fn what_cannot_be_kept_is_not_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (path, key) = (folder.path().join("w.state"), folder.path().join("w.key"));
        let log: KeyName = "log".parse().unwrap();
        let (mut memory, _) = open(&path, &key, None).unwrap();
        memory.keep(log.clone(), (7, [7; 32])).unwrap();
        // No file can be written in this place.
        fs::create_dir(beside(&path, ".new")).unwrap();
        memory.keep(log.clone(), (8, [8; 32])).unwrap_err();
        assert_eq!(memory.of(&log), (7, [7; 32]));
        memory
            .keep("other".parse().unwrap(), (1, [1; 32]))
            .unwrap_err();
        assert_eq!(memory.of(&"other".parse().unwrap()), NOTHING);
        memory.keep(log.clone(), (7, [7; 32])).unwrap();
        fs::remove_dir(beside(&path, ".new")).unwrap();
        memory.keep(log.clone(), (8, [8; 32])).unwrap();
        assert_eq!(memory.of(&log), (8, [8; 32]));
    }
}
