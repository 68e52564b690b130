//! The decision log as a file: opened, locked, mended, followed and rotated.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, Metadata},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use tracing::{info, warn};

use super::{
    lines::{Lines, Storage as _, end_of_whole_lines},
    rotate::{self, Rotation},
    sink::{Sink, Stopped, Stream},
};
use crawlgate_system::clock::Moment;
use crawlgate_text::timestamp;

/// Readable by the group, so that log readers may have another user than crawlgate; closed to all others.
const MODE: u32 = 0o640;

/// Half a line of ours is shorter; a file with a longer unfinished line is not ours.
const LONGEST_TORN: u64 = 1024 * 1024;

/// A regular file of whole lines with this process as its only writer.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    lines: Lines<File>,
    /// The file that `lines` writes, after any renaming: device and inode.
    identity: (u64, u64),
    /// The day of the last write to the file.
    day: u64,
    rotation: Rotation,
    /// True after a failed rotation that was reported.
    rotation_failed: bool,
}

/// Opens the decision log at `path`, creating the file and its folder if need be. A device or a pipe is written as it
/// is.
pub(super) fn open(path: &Path, rotation: Rotation, now: Moment) -> io::Result<Box<dyn Sink>> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
    }
    let file = open_for_append(path)?;
    if !file.metadata()?.is_file() {
        let stream = Stream::new(file, path.display().to_string());
        return Ok(Box::new(stream));
    }
    // The real path, so that rotation puts aside the file rather than a link to it.
    let path = path.canonicalize()?;
    Ok(Box::new(LogFile::claim(path, file, rotation, now)?))
}

impl LogFile {
    /// Locks `file` for this process, and repairs its end.
    fn claim(path: PathBuf, file: File, rotation: Rotation, now: Moment) -> io::Result<Self> {
        lock(&file)?;
        move_torn_line_aside(&path, &file, now)?;
        let metadata = file.metadata()?;
        Ok(Self {
            path,
            identity: identity(&metadata),
            day: timestamp::day(metadata.modified()?.into()),
            lines: Lines::new(file),
            rotation,
            rotation_failed: false,
        })
    }

    /// Opens the file anew if another program, such as logrotate, has moved or deleted it.
    fn follow(&mut self, now: Moment) -> io::Result<()> {
        match fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == self.identity => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // The name is unreadable, but the open file can still be written.
            Err(_) => return Ok(()),
        }
        self.lines.mend()?;
        let file = open_for_append(&self.path)?;
        *self = Self::claim(self.path.clone(), file, self.rotation, now)?;
        info!(file = %self.path.display(), "the decision log was moved away; a new one is begun");
        Ok(())
    }

    fn rotate_if_due(&mut self, more: usize, now: Moment) {
        let due = self
            .lines
            .storage()
            .len()
            .is_ok_and(|len| self.rotation.is_due(len, more, self.day, now));
        if !due {
            return;
        }
        match self.rotate(now) {
            Ok(()) => self.rotation_failed = false,
            // Lines go on into the same file; the next write tries again.
            Err(error) if !self.rotation_failed => {
                self.rotation_failed = true;
                warn!(file = %self.path.display(), %error, "the decision log cannot be rotated and grows on");
            }
            Err(_) => {}
        }
    }

    fn rotate(&mut self, now: Moment) -> io::Result<()> {
        self.lines.mend()?;
        let aside = rotate::free_name(&self.path, now)?;
        fs::rename(&self.path, &aside)?;
        let next = open_for_append(&self.path)
            .and_then(|file| Self::claim(self.path.clone(), file, self.rotation, now));
        match next {
            Ok(next) => *self = next,
            Err(error) => {
                // The open file keeps its name, and with it its lines.
                fs::rename(&aside, &self.path)?;
                return Err(error);
            }
        }
        if let Err(error) = rotate::prune(&self.path, self.rotation.keep) {
            warn!(file = %self.path.display(), %error, "old decision logs cannot be deleted");
        }
        Ok(())
    }
}

impl Sink for LogFile {
    fn write(&mut self, lines: &[u8], now: Moment) -> Result<(), Stopped> {
        self.follow(now).map_err(|error| Stopped { written: 0, error })?;
        self.rotate_if_due(lines.len(), now);
        self.lines.append(lines)?;
        self.day = timestamp::day(now);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.lines.storage().sync_data()
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

fn open_for_append(path: &Path) -> io::Result<File> {
    File::options().read(true).append(true).create(true).mode(MODE).open(path)
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Locks the file: two processes that append to one would mix their lines and cut off each other's.
fn lock(file: &File) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => {
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process writes to it"))
        }
        // On a file system without locks, the operator has to run only one process.
        Err(Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Moves half a line that a crash has left at the end of `file` into a separate file, and reports it.
fn move_torn_line_aside(path: &Path, file: &File, now: Moment) -> io::Result<()> {
    let whole = end_of_whole_lines(file)?;
    let torn = file.metadata()?.len().saturating_sub(whole);
    if torn == 0 {
        return Ok(());
    }
    if torn > LONGEST_TORN {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it does not end in a line, so it is no decision log",
        ));
    }
    let mut octets = vec![0; torn as usize];
    file.read_exact_at(&mut octets, whole)?;
    let mut name = OsString::from(path);
    name.push(format!(".torn-{}", timestamp::compact(now)));
    // Appended, should there be one of this second already: never overwritten. On the disk before it is cut off here.
    let mut aside = open_for_append(Path::new(&name))?;
    aside.write_all(&octets)?;
    aside.write_all(b"\n")?;
    aside.sync_data()?;
    file.set_len(whole)?;
    let aside = name.display();
    warn!(file = %path.display(), %aside, "the decision log ended in half a line, which was moved aside");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;

    const NEVER: Rotation = Rotation { bytes: u64::MAX, daily: false, keep: 3 };

    /// 2026-11-20T12:00:00Z
    const NOON: Moment = Moment::from_millis(1_795_176_000_000);

    fn place() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        (folder, path)
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    /// Names in the folder of `path` and what is in them, sorted.
    fn folder(path: &Path) -> Vec<(String, String)> {
        let mut files: Vec<_> = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), text(&entry.path())))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn a_log_goes_on_where_it_ended() {
        let (folder, _) = place();
        let path = folder.path().join("new/folder/decisions.jsonl");
        for line in [b"first\n".as_slice(), b"second\n"] {
            open(&path, NEVER, NOON).unwrap().write(line, NOON).unwrap();
        }
        assert_eq!(text(&path), "first\nsecond\n");
        let mode = fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o137, 0, "the group may read, the owner alone may write");
    }

    #[test]
    fn a_second_writer_is_refused() {
        let (_folder, path) = place();
        let first = open(&path, NEVER, NOON).unwrap();
        let Err(error) = open(&path, NEVER, NOON) else { panic!("two writers") };
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        drop(first);
        open(&path, NEVER, NOON).unwrap();
    }

    #[test]
    fn half_a_line_of_a_crash_is_moved_aside_not_lost() {
        let (_folder, path) = place();
        fs::write(&path, "whole\nhal").unwrap();
        let mut log = open(&path, NEVER, NOON).unwrap();
        log.write(b"next\n", NOON).unwrap();
        drop(log);
        // A second one in the same second joins the first.
        fs::write(&path, "whole\nnext\nf").unwrap();
        open(&path, NEVER, NOON).unwrap();
        let want = [
            ("decisions.jsonl", "whole\nnext\n"),
            ("decisions.jsonl.torn-2026-11-20T120000Z", "hal\nf\n"),
        ];
        assert_eq!(folder(&path), want.map(|(name, text)| (name.into(), text.into())));
    }

    #[test]
    fn a_file_that_is_no_log_is_left_alone() {
        let (_folder, path) = place();
        let content = "x".repeat(LONGEST_TORN as usize + 1);
        fs::write(&path, &content).unwrap();
        assert!(open(&path, NEVER, NOON).is_err());
        assert!(text(&path) == content);
    }

    #[test]
    fn a_full_file_is_put_aside_and_the_oldest_go() {
        let (_folder, path) = place();
        let rotation = Rotation { bytes: 10, keep: 2, ..NEVER };
        let mut log = open(&path, rotation, NOON).unwrap();
        for (second, line) in
            ["1st\n", "2nd\n", "3rd\n", "4th, longer than a file\n", "5th\n", "6th\n"]
                .into_iter()
                .enumerate()
        {
            let now = NOON + Duration::from_secs(second as u64);
            log.write(line.as_bytes(), now).unwrap();
        }
        let want = [
            ("decisions-2026-11-20T120003Z.jsonl", "3rd\n"),
            ("decisions-2026-11-20T120004Z.jsonl", "4th, longer than a file\n"),
            ("decisions.jsonl", "5th\n6th\n"),
        ];
        assert_eq!(folder(&path), want.map(|(name, text)| (name.into(), text.into())));
    }

    #[test]
    fn a_new_day_begins_a_new_file_also_after_a_restart() {
        let (_folder, path) = place();
        let rotation = Rotation { daily: true, ..NEVER };
        let day = Duration::from_secs(86_400);
        let mut log = open(&path, rotation, NOON).unwrap();
        log.write(b"today\n", NOON).unwrap();
        log.write(b"today, too\n", NOON + day / 3).unwrap();
        log.write(b"tomorrow\n", NOON + day).unwrap();
        drop(log);
        let file = File::options().append(true).open(&path).unwrap();
        file.set_modified((NOON + day).into()).unwrap();
        let mut log = open(&path, rotation, NOON + 2 * day).unwrap();
        log.write(b"the day after\n", NOON + 2 * day).unwrap();
        let want = [
            ("decisions-2026-11-21T120000Z.jsonl", "today\ntoday, too\n"),
            ("decisions-2026-11-22T120000Z.jsonl", "tomorrow\n"),
            ("decisions.jsonl", "the day after\n"),
        ];
        assert_eq!(folder(&path), want.map(|(name, text)| (name.into(), text.into())));
    }

    #[test]
    fn a_failed_rotation_loses_nothing_and_is_repeated() {
        let (_folder, path) = place();
        let rotation = Rotation { bytes: 10, ..NEVER };
        let mut log = open(&path, rotation, NOON).unwrap();
        log.write(b"first line\n", NOON).unwrap();
        for _ in 0..1_000 {
            let taken = rotate::free_name(&path, NOON).unwrap();
            fs::create_dir(taken).unwrap();
        }
        log.write(b"second line\n", NOON).unwrap();
        assert_eq!(text(&path), "first line\nsecond line\n");
        let later = NOON + Duration::from_secs(1);
        log.write(b"third line\n", later).unwrap();
        assert_eq!(text(&path), "third line\n");
        let aside = path.with_file_name("decisions-2026-11-20T120001Z.jsonl");
        assert_eq!(text(&aside), "first line\nsecond line\n");
    }

    #[test]
    fn a_log_moved_or_deleted_or_emptied_by_others_is_followed() {
        let (_folder, path) = place();
        let moved = path.with_file_name("decisions.jsonl.1");
        let mut log = open(&path, NEVER, NOON).unwrap();
        log.write(b"first\n", NOON).unwrap();
        fs::rename(&path, &moved).unwrap();
        log.write(b"second\n", NOON).unwrap();
        assert_eq!((text(&moved), text(&path)), ("first\n".into(), "second\n".into()));
        fs::remove_file(&path).unwrap();
        log.write(b"third\n", NOON).unwrap();
        assert_eq!(text(&path), "third\n");
        File::create(&path).unwrap(); // as logrotate's copytruncate does
        log.write(b"fourth\n", NOON).unwrap();
        assert_eq!(text(&path), "fourth\n");
    }

    #[test]
    fn a_folder_that_vanishes_stops_the_log_until_it_is_back() {
        let (folder, _) = place();
        let path = folder.path().join("logs/decisions.jsonl");
        let mut log = open(&path, NEVER, NOON).unwrap();
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert_eq!(log.write(b"first\n", NOON).unwrap_err().written, 0);
        fs::create_dir(path.parent().unwrap()).unwrap();
        log.write(b"first\n", NOON).unwrap();
        assert_eq!(text(&path), "first\n");
    }
}
