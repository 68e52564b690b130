//! Files that no option names, and which of them are trusted.
//!
//! A directory that is shared (`/tmp`), mounted or unpacked can hold another user's file under a name that crawlgate
//! looks for. The file would decide denials and destinations, so crawlgate trusts it only if no other user but root can
//! have written it, as ssh and git do. An operator who trusts the file names it.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use rustix::fs::OFlags;

/// The reason why a found file is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// The file, or the link that leads to it, belongs to this user.
    #[error("it belongs to user {0}, and is believed only if it is your own or root's")]
    Owner(u32),
    /// These permissions let others write the file.
    #[error("others may write it (mode {0:04o}); chmod go-w takes that away")]
    Permissions(u32),
}

/// The reason why an existing file was not read.
#[derive(Debug)]
pub(super) enum SearchError {
    /// The system denies access.
    Unreadable(io::Error),
    /// Another user may have written the file.
    Distrusted(Distrust),
}

impl From<io::Error> for SearchError {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// Reads a file if it exists and no other user but root can have written it.
///
/// # Errors
/// When the file exists and is not read.
pub(super) fn read(file: &Path) -> Result<Option<Vec<u8>>, SearchError> {
    // Opening a pipe would wait for its other end.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(nonblocking).open(file);
    let mut opened = match opened {
        Ok(opened) => opened,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Of the opened file, which stays the same even if its name changes.
    let metadata = opened.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file").into());
    }
    let ours = rustix::process::geteuid().as_raw();
    let owners = [metadata.uid(), fs::symlink_metadata(file)?.uid()];
    if let Some(distrust) = distrust(owners, metadata.mode(), ours) {
        return Err(SearchError::Distrusted(distrust));
    }
    let mut octets = Vec::new();
    opened.read_to_end(&mut octets)?;
    Ok(Some(octets))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Judges a file by the owners of it and of the link that leads to it, and by its permissions.
fn distrust(owners: [u32; 2], mode: u32, ours: u32) -> Option<Distrust> {
    const ROOT: u32 = 0;
    const OTHERS_WRITE: u32 = 0o022;
    let stranger = owners.into_iter().find(|owner| *owner != ours && *owner != ROOT);
    match stranger {
        Some(stranger) => Some(Distrust::Owner(stranger)),
        None if mode & OTHERS_WRITE != 0 => Some(Distrust::Permissions(mode & 0o7777)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_is_believed_if_only_its_user_and_root_could_write_it() {
        const ME: u32 = 1000;
        const OTHER: u32 = 1001;
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("my own", [ME, ME], 0o100_644, None),
            ("root's", [0, 0], 0o100_644, None),
            ("my link to root's", [0, ME], 0o100_600, None),
            ("another's", [OTHER, OTHER], 0o100_600, Some(Distrust::Owner(OTHER))),
            ("another's link to mine", [ME, OTHER], 0o100_600, Some(Distrust::Owner(OTHER))),
            ("the group may write", [ME, ME], 0o100_664, Some(Distrust::Permissions(0o664))),
            ("all may write", [0, 0], 0o100_602, Some(Distrust::Permissions(0o602))),
        ];
        for (name, owners, mode, want) in cases {
            assert_eq!(distrust(owners, mode, ME), want, "{name}");
        }
    }

    #[test]
    fn a_found_file_is_read_whole_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("crawlgate.toml");
        let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        assert!(matches!(read(&file), Ok(None)));
        assert!(matches!(read(&file.join("below")), Ok(None)));
        fs::write(&file, "# a comment").unwrap();
        mode(0o644);
        assert_eq!(read(&file).unwrap().unwrap(), b"# a comment");
        assert!(matches!(read(&file.join("below")), Ok(None)));
        mode(0o666);
        let error = read(&file).unwrap_err();
        assert!(matches!(error, SearchError::Distrusted(Distrust::Permissions(0o666))));
        let link = directory.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(matches!(read(&link).unwrap_err(), SearchError::Distrusted(_)));
        let pipe = directory.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(status.unwrap().success());
        for odd in [pipe.as_path(), directory.path()] {
            let error = read(odd).unwrap_err();
            assert!(matches!(error, SearchError::Unreadable(_)), "{error:?}");
        }
    }
}
