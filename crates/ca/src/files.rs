//! The authority's two files: read together, written together; and the files of a rotation beside them.
//!
//! Two files cannot be replaced in one step, so each reader or writer holds a lock on the key's directory: the
//! directory itself, so that no lock file is left behind. Each file appears whole or not at all (written beside its
//! place, then renamed), and the key is never open to others, not even for a moment.
//!
//! A key is read only from a regular file that belongs to this process's user or to root and that other users may
//! neither read nor write. Root, which looks after the files of services, reads those of a directory's owner, and gives
//! new files to that owner. A symbolic link is followed; the checks apply to the opened file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, Gid, OFlags, Uid, flock},
    process::geteuid,
};

use super::CaError;
use crawlgate_config::TlsConfig;
use crawlgate_system::atomic_file::{
    create_private_folder, exposed_mode, fill_and_rename, folder, owner_for,
};
use crawlgate_system::clock::Moment;

/// No certificate or key comes near this many octets; a larger file is something else.
const LARGEST: u64 = 1 << 20;

/// The keys of `[tls]` that name the two files, for messages about failures.
pub(super) const CA_CERT: &str = "ca_cert";
pub(super) const CA_KEY: &str = "ca_key";

/// A new authority, PEM.
pub(super) struct NewAuthority {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// Contents of the files, PEM.
pub(super) struct Contents {
    pub(super) certificate: Vec<u8>,
    pub(super) key: Vec<u8>,
    /// The certificate of the next authority, and the time since which it has been there.
    pub(super) next: Option<(Vec<u8>, Moment)>,
    /// Certificates of earlier authorities.
    pub(super) retired: Option<Vec<u8>>,
}

impl From<NewAuthority> for Contents {
    fn from(new_authority: NewAuthority) -> Self {
        Self {
            certificate: new_authority.certificate,
            key: new_authority.key,
            next: None,
            retired: None,
        }
    }
}

/// The places of the files.
pub(super) struct Pair<'a> {
    pub(super) certificate: &'a Path,
    pub(super) key: &'a Path,
    pub(super) next_certificate: PathBuf,
    pub(super) next_key: PathBuf,
    pub(super) retired: PathBuf,
}

impl<'a> Pair<'a> {
    pub(super) fn of(config: &'a TlsConfig) -> Self {
        Self {
            certificate: &config.ca_cert,
            key: &config.ca_key,
            next_certificate: named(&config.ca_cert, "next"),
            next_key: named(&config.ca_key, "next"),
            retired: named(&config.ca_cert, "old"),
        }
    }

    /// Reads both files.
    pub(super) fn read(&self) -> Result<Contents, CaError> {
        // Best effort: a directory that cannot be locked (read-only, remote) has no writers, either.
        let _lock = File::open(folder(self.key)).and_then(|directory| {
            Ok(flock(&directory, FlockOperation::LockShared).map(|()| directory)?)
        });
        self.read_unlocked()
    }

    /// Reads both files, or writes what `make` returns if there is neither.
    pub(super) fn read_or_write(
        &self,
        make: impl FnOnce() -> Result<NewAuthority, CaError>,
    ) -> Result<Contents, CaError> {
        if is_there(self.key) && is_there(self.certificate) {
            return self.read();
        }
        let _lock = self.lock_to_write()?;
        // Another process may have written them before this one had the lock.
        if is_there(self.key) || is_there(self.certificate) {
            return self.read_unlocked();
        }
        self.write_unlocked(make()?)
    }

    /// Writes the result of `make`, over existing files only with `force`. Files of a rotation beside them go: a forced
    /// new authority means that the others may no longer be trusted.
    pub(super) fn write(
        &self,
        force: bool,
        make: impl FnOnce() -> Result<NewAuthority, CaError>,
    ) -> Result<Contents, CaError> {
        let _lock = self.lock_to_write()?;
        if !force && let Some(path) = [self.certificate, self.key].into_iter().find(|p| is_there(p))
        {
            return Err(CaError::Exists { path: path.into() });
        }
        let written = self.write_unlocked(make()?)?;
        self.remove_beside([&self.next_certificate, &self.next_key, &self.retired])?;
        Ok(written)
    }

    /// Removes files that may be missing.
    pub(super) fn remove_beside<const N: usize>(
        &self,
        paths: [&PathBuf; N],
    ) -> Result<(), CaError> {
        for path in paths {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(CaError::io(CA_CERT, "remove", path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the directories and locks the key's. The lock ends with the returned file.
    pub(super) fn lock_to_write(&self) -> Result<File, CaError> {
        for (key, path) in [(CA_CERT, self.certificate), (CA_KEY, self.key)] {
            let directory = folder(path);
            create_private_folder(directory)
                .map_err(|error| CaError::io(key, "create the directory", directory, error))?;
        }
        let directory = folder(self.key);
        let lock =
            File::open(directory).map_err(|error| CaError::io(CA_KEY, "open", directory, error))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| CaError::io(CA_KEY, "lock", directory, error.into()))?;
        Ok(lock)
    }

    pub(super) fn read_unlocked(&self) -> Result<Contents, CaError> {
        let half = |present: &Path, missing: &Path| CaError::Half {
            present: present.into(),
            missing: missing.into(),
        };
        match (is_there(self.certificate), is_there(self.key)) {
            (false, false) => Err(CaError::Missing { certificate: self.certificate.into() }),
            (true, false) => Err(half(self.certificate, self.key)),
            (false, true) => Err(half(self.key, self.certificate)),
            (true, true) => Ok(Contents {
                key: read(self.key, Access::Private)?.0,
                certificate: read(self.certificate, Access::Public)?.0,
                next: read_if_there(&self.next_certificate)?,
                retired: read_if_there(&self.retired)?.map(|(octets, _)| octets),
            }),
        }
    }

    fn write_unlocked(&self, new_authority: NewAuthority) -> Result<Contents, CaError> {
        write(CA_KEY, self.key, 0o600, &new_authority.key)?;
        write(CA_CERT, self.certificate, 0o644, &new_authority.certificate)?;
        Ok(new_authority.into())
    }
}

/// Returns `ca.crt` with a word before its extension: `ca.next.crt`.
fn named(path: &Path, word: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(word);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// The users that may read a file.
pub(super) enum Access {
    Public,
    Private,
}

fn read_if_there(path: &Path) -> Result<Option<(Vec<u8>, Moment)>, CaError> {
    if is_there(path) { read(path, Access::Public).map(Some) } else { Ok(None) }
}

/// Returns the content of a file, and the time of its last change.
pub(super) fn read(path: &Path, access: Access) -> Result<(Vec<u8>, Moment), CaError> {
    let key = match access {
        Access::Public => CA_CERT,
        Access::Private => CA_KEY,
    };
    let failed = |error| CaError::io(key, "read", path, error);
    // Not blocking: opening a pipe in the file's place would wait for a writer.
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file =
        OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
    // Of the open file, not of the path, so that the check applies to the content read.
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Err(failed(io::Error::other("not a regular file")));
    }
    if matches!(access, Access::Private) {
        if let Some(mode) = exposed_mode(&facts) {
            return Err(CaError::Exposed { path: path.into(), mode });
        }
        let owner = facts.uid();
        // A file's owner can always grant themselves access. Root looks after a service's files, too: those in a
        // directory of the same owner.
        let is_services = || {
            geteuid().is_root()
                && fs::metadata(folder(path)).is_ok_and(|directory| directory.uid() == owner)
        };
        if owner != 0 && owner != geteuid().as_raw() && !is_services() {
            return Err(CaError::Foreign { path: path.into(), owner });
        }
    }
    let mut octets = Vec::new();
    file.take(LARGEST).read_to_end(&mut octets).map_err(failed)?;
    let written = facts.modified().map_err(failed)?;
    Ok((octets, written.into()))
}

/// Puts a file in its place in one step, with its mode from the start. The mode is subject to the umask.
pub fn replace(path: &Path, mode: u32, octets: &[u8]) -> io::Result<()> {
    replace_for(None, path, mode, octets)
}

/// Puts a file in its place in one step, and gives it to `owner`, a user and a group.
fn replace_for(owner: Option<(Uid, Gid)>, path: &Path, mode: u32, octets: &[u8]) -> io::Result<()> {
    let beside = beside(path)?;
    let mut new = OpenOptions::new();
    let file = new.write(true).create_new(true).mode(mode).open(&beside)?;
    fill_and_rename((file, &beside), path, octets, owner)
}

pub(super) fn write(
    key: &'static str,
    path: &Path,
    mode: u32,
    octets: &[u8],
) -> Result<(), CaError> {
    replace_for(owner_for(path), path, mode, octets)
        .map_err(|error| CaError::io(key, "write", path, error))
}

/// Returns an unpredictable name in the same directory.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| io::Error::other("no randomness"))?;
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", crawlgate_text::hex(random)));
    Ok(path.with_file_name(hidden))
}

/// Tells whether there is a file at `path`. An invisible one counts as present: opening it gives the reason.
pub(super) fn is_there(path: &Path) -> bool {
    !matches!(fs::metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}
