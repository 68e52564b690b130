//! Files that are in their places whole, or not at all, power cut included.
//!
//! [`place`] and [`replace`] write small ones that no other process writes at the same time: keys, states, tokens. A
//! [`NewFile`] takes any content, and has a temporary name until it is in its place. `read_private` reads a secret.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid, fchown};
use rustix::process::geteuid;
use tempfile::{Builder, NamedTempFile};
use thiserror::Error;

/// Most octets of a file with a secret.
const LONGEST_SECRET: u64 = 1 << 16;

/// The reason that a file with a secret is not read.
#[derive(Debug, Error)]
pub enum PrivateFileError {
    /// There is no such file.
    #[error("there is no such file")]
    Missing,
    /// It is something else: a directory, a pipe, a device.
    #[error("this is not a regular file")]
    NotAFile(fs::FileType),
    /// Others than its owner can read or change it.
    #[error("others than its owner can read it or write to it (mode {0:o}); chmod 600 it")]
    Exposed(u32),
    /// The system does not let it be read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
}

/// Reads a file that only its owner can read.
///
/// # Errors
/// When it cannot be read, or others can.
pub fn read_private(path: &Path) -> Result<String, PrivateFileError> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => PrivateFileError::Missing,
        _ => PrivateFileError::Unreadable(error),
    };
    // Check before opening: opening a pipe would wait for ever.
    let found = fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(PrivateFileError::NotAFile(found.file_type()));
    }
    let file = File::open(path).map_err(unreadable)?;
    if let Some(mode) = exposed_mode(&file.metadata().map_err(unreadable)?) {
        return Err(PrivateFileError::Exposed(mode));
    }
    let mut text = String::new();
    file.take(LONGEST_SECRET).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

/// Returns the mode of a file that others than its owner can read or change; `None` for one that they cannot. The facts are
/// those of the open file, not of its path: the file that is checked is the one that is read.
#[must_use]
pub fn exposed_mode(facts: &fs::Metadata) -> Option<u32> {
    let mode = facts.mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Makes a directory, and those above it, open only to their owner. One that is there stays as it is.
///
/// # Errors
/// When one cannot be made.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens and locks the file at `path`, which another process may replace while this one waits: the locked file is the one in
/// that place.
///
/// # Errors
/// When the file cannot be opened or locked.
pub fn lock_in_place(path: &Path, open: &OpenOptions) -> io::Result<File> {
    loop {
        let file = open.open(path)?;
        file.lock()?;
        let ours = file.metadata()?;
        match fs::metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => {
                return Ok(file);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
}

/// Makes a file that only its owner can read. False if there is one already.
///
/// # Errors
/// When it cannot be written.
pub fn place(path: &Path, text: &str) -> io::Result<bool> {
    // Best effort: a directory that cannot be locked (remote) has one process.
    let folder = File::open(folder(path))?;
    let _ = folder.lock();
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    replace(path, text)?;
    Ok(true)
}

/// Writes a file anew, by way of one beside it (`.new`), only for its owner. It is on the disk when the call has
/// returned. A file that root writes into the directory of another user belongs to that user: a service, which could
/// not read it otherwise.
///
/// # Errors
/// When it cannot be written. The old file stays then.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    let file = create_private(new)?;
    fill_and_rename((file, new), path, text.as_bytes(), owner_for(path))?;
    sync_folder(path)
}

/// Writes a new file, gives it to `owner`, and puts it in its place after its content is on the disk.
///
/// # Errors
/// When it cannot be written or put there. The new file is gone then.
pub fn fill_and_rename(
    (mut file, new): (File, &Path),
    place: &Path,
    octets: &[u8],
    owner: Option<(Uid, Gid)>,
) -> io::Result<()> {
    let written = file.write_all(octets).and_then(|()| {
        if let Some((user, group)) = owner {
            // The open file: a name could have become a link to something else.
            fchown(&file, Some(user), Some(group))?;
        }
        file.sync_all()
    });
    written.and_then(|()| fs::rename(new, place)).inspect_err(|_| {
        // The first error matters.
        let _ = fs::remove_file(new);
    })
}

/// Makes an empty file that only its owner can read. It is never one that was there before, or that a link leads to.
fn create_private(path: &Path) -> io::Result<File> {
    let make = || {
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600).open(path)
    };
    match make() {
        // The remains of a process that was cut off.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            make()
        }
        made => made,
    }
}

/// Returns the owner for a new file that root writes into the directory of another user.
pub fn owner_for(path: &Path) -> Option<(Uid, Gid)> {
    let folder = fs::metadata(folder(path)).ok()?;
    let is_foreign = geteuid().is_root() && folder.uid() != 0;
    is_foreign.then(|| (Uid::from_raw(folder.uid()), Gid::from_raw(folder.gid())))
}

/// A file under construction beside its place, which only its owner can read. It goes if it is dropped.
#[derive(Debug)]
pub struct NewFile {
    file: NamedTempFile,
    place: PathBuf,
}

impl NewFile {
    /// Makes an empty file in the directory of `place`; if a link stands there, in that of the file that it leads to.
    ///
    /// # Errors
    /// When the directory cannot be written, or something else than a regular file is there: a device or a pipe would be
    /// gone, and what reads it would wait for ever.
    pub fn beside(place: &Path) -> io::Result<Self> {
        let place = match place.metadata() {
            Ok(found) if found.is_file() => fs::canonicalize(place)?,
            Ok(found) => return Err(no_file(&found)),
            Err(_) if place.is_symlink() => return Err(dangling()),
            Err(_) => place.to_owned(),
        };
        let mut builder = Builder::new();
        builder.prefix(".crawlgate-").suffix(".partial");
        Ok(Self { file: builder.tempfile_in(folder(&place))?, place })
    }

    /// Does the same for a place where there is nothing.
    ///
    /// # Errors
    /// When there is something in that place already, or the directory cannot be written.
    pub fn create_new(place: &Path) -> io::Result<Self> {
        match place.symlink_metadata() {
            Ok(_) => Err(exists()),
            Err(_) => Self::beside(place),
        }
    }

    /// Returns the path of the file until it is in its place.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the place.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Returns the file, to set its permissions.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Adds content.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)
    }

    /// Puts the file in its place, after its content is on the disk. Another file there goes.
    ///
    /// # Errors
    /// When it cannot be put there.
    pub fn replace(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        let place = self.place.clone();
        self.replace_unsynced()?;
        sync_folder(&place)
    }

    /// Puts the file in its place. Another file there goes. A power cut may leave an empty one.
    ///
    /// # Errors
    /// When it cannot be put there.
    pub fn replace_unsynced(self) -> io::Result<()> {
        let placed = self.file.persist(&self.place);
        placed.map(drop).map_err(|error| error.error)
    }

    /// Puts the file in its place, after its content is on the disk, unless something is there.
    ///
    /// # Errors
    /// When something is in that place by now, or the disk fails.
    pub fn persist(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        let placed = self.file.persist_noclobber(&self.place);
        placed.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => error.error,
        })?;
        sync_folder(&self.place)
    }
}

fn no_file(found: &fs::Metadata) -> io::Error {
    let what = if found.is_dir() {
        "this is a directory; name a file in it"
    } else {
        "this is no regular file, and is left as it is; name another one"
    };
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn dangling() -> io::Error {
    let what = "this is a link to a file that is not there; name another one";
    io::Error::new(io::ErrorKind::NotFound, what)
}

fn exists() -> io::Error {
    let what = "there is a file already, which is left as it is; name another one";
    io::Error::new(io::ErrorKind::AlreadyExists, what)
}

/// Makes the names in the folder of `path` outlive a power cut.
///
/// # Errors
/// When the folder cannot be synced.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// Returns the directory of a file.
pub fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_new_file_replaces_regular_files_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "old").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("nothing", at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let pipe = at("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for (name, told) in [
            ("pipe", "no regular file"),
            ("folder", "a directory"),
            ("dangling", "a link to a file that is not there"),
        ] {
            let refused = NewFile::beside(&at(name)).unwrap_err().to_string();
            assert!(refused.contains(told), "{name}: {refused}");
        }
        let mut new = NewFile::beside(&at("link")).unwrap();
        new.write(b"new").unwrap();
        new.replace().unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "new");
    }

    #[test]
    fn a_file_is_placed_once_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        // The remains of a process that was cut off.
        fs::write(folder.path().join("key.new"), "a longer half of ano").unwrap();
        fs::set_permissions(folder.path().join("key.new"), fs::Permissions::from_mode(0o600))
            .unwrap();
        assert!(place(&path, "one").unwrap());
        assert!(!place(&path, "two").unwrap(), "it is there");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        replace(&path, "three").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::create_dir(folder.path().join("key.new")).unwrap();
        replace(&path, "four").unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
    }

    #[test]
    fn the_file_beside_is_never_one_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("key"), folder.path().join("victim"));
        fs::write(&victim, "untouched").unwrap();
        // Who may write into the directory could wait for the secret with a link, or with a file that all can read.
        std::os::unix::fs::symlink(&victim, folder.path().join("key.new")).unwrap();
        replace(&path, "secret").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert!(path.symlink_metadata().unwrap().is_file());
        fs::write(folder.path().join("key.new"), "").unwrap();
        let mut watching = File::open(folder.path().join("key.new")).unwrap();
        replace(&path, "another secret").unwrap();
        let mut seen = String::new();
        watching.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "", "the open file is another one");
        assert_eq!(fs::read_to_string(&path).unwrap(), "another secret");
    }

    #[test]
    fn what_root_writes_belongs_to_the_owner_of_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        if !geteuid().is_root() {
            assert_eq!(owner_for(&path), None, "nobody else may give files away");
            return;
        }
        assert_eq!(owner_for(&path), None, "the directory is root's");
        std::os::unix::fs::chown(folder.path(), Some(1234), Some(1235)).unwrap();
        assert!(place(&path, "secret").unwrap());
        let found = fs::metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (1234, 1235, 0o600));
    }

    #[test]
    fn a_secret_is_read_from_a_file_that_its_owner_alone_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let read = || read_private(&path);
        assert!(matches!(read(), Err(PrivateFileError::Missing)));
        fs::create_dir(&path).unwrap();
        assert!(matches!(read(), Err(PrivateFileError::NotAFile(_))));
        fs::remove_dir(&path).unwrap();
        place(&path, "abc").unwrap();
        assert_eq!(read().unwrap(), "abc");
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = read().unwrap_err();
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn a_file_is_placed_whole_and_never_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new.db");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let new = NewFile::beside(&place).unwrap();
        fs::write(new.path(), "content").unwrap();
        assert!(!place.exists(), "it is not there before it is whole");
        new.persist().unwrap();
        assert_eq!((fs::read(&place).unwrap(), names()), (b"content".into(), 1));

        let refused = NewFile::create_new(&place).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        let other = folder.path().join("other.db");
        let new = NewFile::beside(&other).unwrap();
        fs::write(&other, "came between").unwrap();
        let refused = new.persist().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&other).unwrap(), b"came between");
        let mut new = NewFile::beside(&other).unwrap();
        new.write(b"instead").unwrap();
        new.replace().unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"instead");
        assert_eq!(names(), 2, "nothing is left over");
    }
}
