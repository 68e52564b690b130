//! The authority's two files: read together, written together.
//!
//! Two files cannot be replaced in one step, so whoever reads or writes them holds a lock on the key's directory: the
//! directory itself, so that no lock file is left behind. Each file appears whole or not at all (written beside its
//! place, then renamed), and the key is never open to others, not even for a moment.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{CaError, text};
use crate::config::TlsConfig;

/// No certificate or key comes near this many octets; whatever is larger is something else.
const LARGEST: u64 = 1 << 20;

/// The keys of `[tls]` that name the two files, for what is said when one fails.
const CA_CERT: &str = "ca_cert";
const CA_KEY: &str = "ca_key";

/// What the two files hold, PEM.
pub(super) struct Contents {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// Where the two files are.
pub(super) struct Pair<'a> {
    certificate: &'a Path,
    key: &'a Path,
}

impl<'a> Pair<'a> {
    pub(super) fn of(config: &'a TlsConfig) -> Self {
        Self {
            certificate: &config.ca_cert,
            key: &config.ca_key,
        }
    }

    /// Reads both files.
    pub(super) fn read(&self) -> Result<Contents, CaError> {
        // Best effort: a directory that cannot be locked (read-only, remote) is one that nobody writes to, either.
        let _lock = File::open(directory(self.key)).and_then(|directory| {
            Ok(flock(&directory, FlockOperation::LockShared).map(|()| directory)?)
        });
        self.read_unlocked()
    }

    /// Reads both files, or writes what `make` returns if there is neither.
    pub(super) fn read_or_write(
        &self,
        make: impl FnOnce() -> Result<Contents, CaError>,
    ) -> Result<Contents, CaError> {
        if is_there(self.key) && is_there(self.certificate) {
            return self.read();
        }
        let _lock = self.lock_to_write()?;
        // Another process may have written them before the lock was had.
        if is_there(self.key) || is_there(self.certificate) {
            return self.read_unlocked();
        }
        self.write_unlocked(make()?)
    }

    /// Writes what `make` returns, over existing files only with `force`.
    pub(super) fn write(
        &self,
        force: bool,
        make: impl FnOnce() -> Result<Contents, CaError>,
    ) -> Result<Contents, CaError> {
        let _lock = self.lock_to_write()?;
        if !force
            && let Some(path) = [self.certificate, self.key]
                .into_iter()
                .find(|p| is_there(p))
        {
            return Err(CaError::Exists { path: path.into() });
        }
        self.write_unlocked(make()?)
    }

    /// Makes the directories and locks the key's. The lock ends with the returned file.
    fn lock_to_write(&self) -> Result<File, CaError> {
        for (key, path) in [(CA_CERT, self.certificate), (CA_KEY, self.key)] {
            let directory = directory(path);
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|error| CaError::io(key, "create the directory", directory, error))?;
        }
        let directory = directory(self.key);
        let lock =
            File::open(directory).map_err(|error| CaError::io(CA_KEY, "open", directory, error))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| CaError::io(CA_KEY, "lock", directory, error.into()))?;
        Ok(lock)
    }

    fn read_unlocked(&self) -> Result<Contents, CaError> {
        let half = |present: &Path, missing: &Path| CaError::Half {
            present: present.into(),
            missing: missing.into(),
        };
        match (is_there(self.certificate), is_there(self.key)) {
            (false, false) => Err(CaError::Missing {
                certificate: self.certificate.into(),
            }),
            (true, false) => Err(half(self.certificate, self.key)),
            (false, true) => Err(half(self.key, self.certificate)),
            (true, true) => Ok(Contents {
                key: read(self.key, Access::Private)?,
                certificate: read(self.certificate, Access::Public)?,
            }),
        }
    }

    fn write_unlocked(&self, contents: Contents) -> Result<Contents, CaError> {
        write(CA_KEY, self.key, 0o600, &contents.key)?;
        write(CA_CERT, self.certificate, 0o644, &contents.certificate)?;
        Ok(contents)
    }
}

/// Who may read a file.
enum Access {
    Public,
    Private,
}

fn read(path: &Path, access: Access) -> Result<Vec<u8>, CaError> {
    let key = match access {
        Access::Public => CA_CERT,
        Access::Private => CA_KEY,
    };
    let failed = |error| CaError::io(key, "read", path, error);
    let file = File::open(path).map_err(failed)?;
    // Of the open file, not of the path: what is checked is what is read.
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if matches!(access, Access::Private) && mode & 0o077 != 0 {
        return Err(CaError::Exposed {
            path: path.into(),
            mode,
        });
    }
    let mut octets = Vec::new();
    file.take(LARGEST)
        .read_to_end(&mut octets)
        .map_err(failed)?;
    Ok(octets)
}

/// Puts a file in its place in one step, with its mode from the start. The mode is subject to the umask.
pub(crate) fn replace(path: &Path, mode: u32, octets: &[u8]) -> io::Result<()> {
    let beside = beside(path)?;
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)
        .and_then(|mut file| {
            file.write_all(octets)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What matters is the first error; the remains are a courtesy.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write(key: &'static str, path: &Path, mode: u32, octets: &[u8]) -> Result<(), CaError> {
    replace(path, mode, octets).map_err(|error| CaError::io(key, "write", path, error))
}

/// A name in the same directory that nobody can foresee.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| io::Error::other("no randomness"))?;
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", text::colon_hex(&random).replace(':', "")));
    Ok(path.with_file_name(hidden))
}

/// Whether something stands at `path`. What cannot be seen counts as there: opening it will tell why.
fn is_there(path: &Path) -> bool {
    !matches!(fs::metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
