//! Small files that are whole at every moment, power cut included: keys, states, tokens.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Makes a file that its owner alone can read. False if there is one already.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn place(path: &Path, text: &str) -> io::Result<bool> {
    // Best effort: a directory that cannot be locked (remote) has one process.
    let folder = File::open(folder(path))?;
    let _ = folder.lock();
    if path.symlink_metadata().is_ok() {
        return Ok(false);
    }
    replace(path, text)?;
    Ok(true)
}

/// Writes a file anew, by way of one beside it (`.new`), for its owner alone. It is on the disk when the call has returned.
///
/// # Errors
/// When it cannot be written. The old file stays then.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    sync_folder(path)
}

/// Makes the names in the folder of `path` outlive a power cut.
///
/// # Errors
/// When the folder cannot be synced.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_placed_once_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        // The remains of a process that was cut off.
        fs::write(folder.path().join("key.new"), "a longer half of ano").unwrap();
        fs::set_permissions(
            folder.path().join("key.new"),
            fs::Permissions::from_mode(0o600),
        )
        .unwrap();
        assert!(place(&path, "one").unwrap());
        assert!(!place(&path, "two").unwrap(), "it is there");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        replace(&path, "three").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::create_dir(folder.path().join("key.new")).unwrap();
        replace(&path, "four").unwrap_err();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
    }
}
