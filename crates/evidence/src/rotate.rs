//! Names of rotated files, and their removal.
//!
//! `decisions.jsonl` becomes `decisions-2026-11-20T120000Z.jsonl`: unique, and sorted by time as text. A second file of
//! the same second gets the suffix `_001`, which sorts after the name without one. A file with a name of another form
//! is never deleted.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use crawlgate_system::clock::Moment;
use crawlgate_text::timestamp;

/// The conditions for putting a file aside, and the number of files to keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    /// Approximate size, in octets, at which a file is put aside.
    pub(super) bytes: u64,
    /// True if a file is put aside at the end of a day, UTC.
    pub(super) daily: bool,
    /// Number of rotated files to keep, the newest ones.
    pub(super) keep: usize,
}

impl Rotation {
    /// Tells whether a file of `len` octets, last written on `day`, is put aside before `more` octets are written
    /// `now`.
    pub(super) fn is_due(self, len: u64, more: usize, day: u64, now: Moment) -> bool {
        let full = len.saturating_add(more as u64) > self.bytes;
        // A clock that is set back ends no day.
        let over = self.daily && timestamp::day(now) > day;
        len > 0 && (full || over)
    }
}

/// Returns a free name for the file at `path` to be put aside at `now`.
pub(super) fn free_name(path: &Path, now: Moment) -> io::Result<PathBuf> {
    let stamp = timestamp::compact(now);
    for count in 0..1_000 {
        let mut name = OsString::from(path.file_stem().unwrap_or_default());
        name.push("-");
        name.push(&stamp);
        if count > 0 {
            name.push(format!("_{count:03}"));
        }
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        let candidate = path.with_file_name(name);
        match fs::symlink_metadata(&candidate) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(candidate),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Deletes rotated files of `path` except the `keep` newest.
pub(super) fn prune(path: &Path, keep: usize) -> io::Result<()> {
    let mut rotated = Vec::new();
    let folder = path.parent().filter(|parent| *parent != Path::new(""));
    for entry in fs::read_dir(folder.unwrap_or(Path::new(".")))? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(mark) = name.to_str().and_then(|name| rotation_mark(path, name)) else {
            continue;
        };
        if entry.file_type()?.is_file() {
            rotated.push((mark.to_owned(), entry.path()));
        }
    }
    rotated.sort_unstable();
    let surplus = rotated.len().saturating_sub(keep);
    for (_, old) in rotated.into_iter().take(surplus) {
        fs::remove_file(old)?;
    }
    Ok(())
}

/// Returns the part of `name` that distinguishes it among the rotated files of `path`, if it is one.
fn rotation_mark<'n>(path: &Path, name: &'n str) -> Option<&'n str> {
    let name = match path.extension() {
        Some(extension) => name.strip_suffix(extension.to_str()?)?.strip_suffix('.')?,
        None => name,
    };
    let mark = name.strip_prefix(path.file_stem()?.to_str()?)?.strip_prefix('-')?;
    let stamp = mark
        .rsplit_once('_')
        .filter(|(_, count)| count.len() == 3 && count.bytes().all(|o| o.is_ascii_digit()))
        .map_or(mark, |(stamp, _)| stamp);
    timestamp::is_compact(stamp).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Moment = Moment::from_millis(1_795_176_000_000); // 2026-11-20T12:00:00Z

    #[test]
    fn names_are_free_and_sort_by_time() {
        let folder = tempfile::tempdir().unwrap();
        for (file, wanted) in [
            (
                "decisions.jsonl",
                ["decisions-2026-11-20T120000Z.jsonl", "decisions-2026-11-20T120000Z_001.jsonl"],
            ),
            ("bare", ["bare-2026-11-20T120000Z", "bare-2026-11-20T120000Z_001"]),
        ] {
            let path = folder.path().join(file);
            for wanted in wanted {
                let name = free_name(&path, NOON).unwrap();
                assert_eq!(name, folder.path().join(wanted));
                fs::write(name, "").unwrap();
            }
        }
    }

    #[test]
    fn only_the_oldest_rotated_files_of_this_log_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let gone = ["decisions-2026-11-19T120000Z.jsonl", "decisions-2026-11-20T120000Z.jsonl"];
        let kept = [
            "decisions.jsonl",
            "decisions-2026-11-20T120000Z_001.jsonl",
            "decisions-2026-11-20T120001Z.jsonl",
            // Not ours, or not only ours.
            "decisions-2026-11-18T120000Z.jsonl.gz",
            "decisions-2026-11-18.jsonl",
            "decisions-important.jsonl",
            "decisions-old-2026-11-18T120000Z.jsonl",
            "other-2026-11-18T120000Z.jsonl",
            "decisions.jsonl.torn-2026-11-18T120000Z",
        ];
        for name in gone.iter().chain(&kept) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let lookalike = folder.path().join("decisions-2026-11-17T120000Z.jsonl");
        fs::create_dir(&lookalike).unwrap();

        prune(&folder.path().join("decisions.jsonl"), 2).unwrap();

        for name in gone {
            assert!(!folder.path().join(name).exists(), "{name} is gone");
        }
        for name in kept {
            assert!(folder.path().join(name).exists(), "{name} is kept");
        }
        assert!(lookalike.exists(), "a folder is kept");
    }

    #[test]
    fn rotation_is_due_by_size_or_day() {
        let both = Rotation { bytes: 100, daily: true, keep: 1 };
        let by_size = Rotation { daily: false, ..both };
        let today = timestamp::day(NOON);
        let cases = [
            ("room left, same day", both, (50, 50, today), false),
            ("no room left", both, (50, 51, today), true),
            ("a new day", both, (1, 1, today - 1), true),
            ("a new day, but days do not count", by_size, (1, 1, today - 1), false),
            ("a clock that was set back", both, (1, 1, today + 1), false),
            ("an empty file stays", both, (0, 1_000, today - 1), false),
        ];
        for (name, rotation, (len, more, day), want) in cases {
            assert_eq!(rotation.is_due(len, more, day, NOON), want, "{name}");
        }
    }
}
