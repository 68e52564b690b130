//! A new file that is in its place whole, or not at all.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

use crate::whole_file::sync_folder;

/// A file under construction, beside its place. It goes if it is dropped.
#[derive(Debug)]
pub(super) struct NewFile {
    file: NamedTempFile,
    place: PathBuf,
}

impl NewFile {
    /// Makes an empty file, which its owner alone can read, in the directory of `place`.
    ///
    /// # Errors
    /// When there is something in that place already, or the directory cannot be written.
    pub(super) fn beside(place: &Path) -> io::Result<Self> {
        if place.symlink_metadata().is_ok() {
            return Err(exists());
        }
        let folder = place.parent().filter(|folder| *folder != Path::new(""));
        let mut builder = Builder::new();
        builder.prefix(".crawlgate-").suffix(".partial");
        Ok(Self {
            file: builder.tempfile_in(folder.unwrap_or(Path::new(".")))?,
            place: place.to_owned(),
        })
    }

    /// Returns the path of the file until it is in its place.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Puts the file in its place, after its content is on the disk.
    ///
    /// # Errors
    /// When something is in that place by now, or the disk fails.
    pub(super) fn place(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        let placed = self.file.persist_noclobber(&self.place);
        placed.map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => error.error,
        })?;
        sync_folder(&self.place)
    }
}

fn exists() -> io::Error {
    let what = "there is a file already, which is left as it is; name another one";
    io::Error::new(io::ErrorKind::AlreadyExists, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_placed_whole_and_never_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new.db");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let new = NewFile::beside(&place).unwrap();
        fs::write(new.path(), "content").unwrap();
        assert!(!place.exists(), "it is not there before it is whole");
        new.place().unwrap();
        assert_eq!((fs::read(&place).unwrap(), names()), (b"content".into(), 1));

        let refused = NewFile::beside(&place).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        let other = folder.path().join("other.db");
        let new = NewFile::beside(&other).unwrap();
        fs::write(&other, "came between").unwrap();
        let refused = new.place().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&other).unwrap(), b"came between");
        assert_eq!(names(), 2, "nothing is left over");
    }
}
