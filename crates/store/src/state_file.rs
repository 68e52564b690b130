//! The state file: a short note beside the store of how far its log went.
//!
//! A database cannot tell that its end is missing: a log that is deleted after a kill, or an older copy in its place,
//! looks whole. The note lies in a separate file and names the size and the root of the log after its last write, and at
//! its last checkpoint. It is at most as new as the store: the store commits first. It is made before the key and the first
//! record, so a store without it has lost it.
//!
//! The note of a write costs one write without a wait for the disk, so a kill of the process leaves it true. The note of a
//! checkpoint replaces the file (temporary file, fsync, rename), after the checkpoint itself is on the disk. Neither ever
//! goes back to a smaller size, but where a loss is noted in the log.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tracing::warn;

use super::{Sha256, StoreError, StoreErrorKind};
use crawlgate_system::atomic_file::{lock_in_place, place, replace};
use crawlgate_system::clock::Moment;
use crawlgate_text::{from_hex, hex};
use crawlgate_tlog::EMPTY_ROOT;

const TITLE: &str = "crawlgate log state 1";

/// A size of the log, and the root of its tree at that size.
pub type End = (u64, Sha256);

/// The content of the state file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The public half of the key that signs the log; zeros before there is one.
    pub key: [u8; 32],
    /// The log at its last checkpoint.
    pub signed: End,
    /// The log after the last write.
    pub written: End,
}

impl Default for State {
    fn default() -> Self {
        Self { key: [0; 32], signed: (0, EMPTY_ROOT), written: (0, EMPTY_ROOT) }
    }
}

impl State {
    /// Returns the text: it has the same length for every state.
    fn text(&self) -> String {
        let end = |name: &str, (seq, hash): End| format!("{name} {seq:020} {}\n", hex(hash));
        let key = hex(self.key);
        let signed = end("signed", self.signed);
        let written = end("written", self.written);
        let text = format!("{TITLE}\nkey {key}\n{signed}{written}");
        let sum = sum(&text);
        format!("{text}sum {sum}\n")
    }

    fn parse(text: &str) -> Option<Self> {
        let (body, _) = text.split_once("sum ")?;
        let mut lines = body.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let key = from_hex(lines.next()?.strip_prefix("key ")?)?;
        let mut end = |name: &str| -> Option<End> {
            let rest = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?;
            let (seq, hash) = rest.split_once(' ')?;
            Some((seq.parse().ok()?, from_hex(hash)?))
        };
        let state = Self { key, signed: end("signed")?, written: end("written")? };
        (state.text() == text).then_some(state)
    }

    /// Notes a record that was written, unless a later one is noted.
    fn note_written(&mut self, end: End) {
        if end.0 > self.written.0 {
            self.written = end;
        }
    }

    fn note_signed(&mut self, end: End) {
        if end.0 > self.signed.0 {
            self.signed = end;
        }
        self.note_written(end);
    }
}

fn sum(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let mut sum = hex(digest.as_ref());
    sum.truncate(16);
    sum
}

/// Returns the place of a store's state file: `crawlgate.log.state` for `crawlgate.db`.
#[must_use]
pub fn state_file(store: &Path) -> PathBuf {
    store.with_extension("log.state")
}

/// Reads the state file of a store, and the time at which it was last written. `None` without one.
///
/// # Errors
/// When the file cannot be read, or is damaged.
pub fn read(store: &Path) -> Result<Option<(State, Moment)>, StoreError> {
    let path = state_file(store);
    let store_error = |kind: StoreErrorKind, what: &str| {
        kind.at(&path, format_args!(
            "{what}; it names the last record of the store. Bring it back; or move it away, and let `crawlgate audit \
             fork` begin a new log, which says that later records may be missing"
        ))
    };
    let read = || -> io::Result<(String, Moment)> {
        let file = File::open(&path)?;
        // Some file systems have no locks. A read that meets a write there reports damage.
        let _ = file.lock_shared();
        let written = file.metadata()?.modified()?;
        let mut text = Vec::new();
        file.take(4_096).read_to_end(&mut text)?;
        Ok((String::from_utf8_lossy(&text).into_owned(), written.into()))
    };
    match read() {
        Ok((text, written)) => match State::parse(&text) {
            Some(state) => Ok(Some((state, written))),
            None => {
                Err(store_error(StoreErrorKind::Corrupt, "the state file of the store is damaged"))
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(store_error(
            StoreErrorKind::Denied,
            &format!("the state file of the store cannot be read: {error}"),
        )),
    }
}

/// Returns the words about a state file that is not there, and the way out.
#[must_use]
pub fn gone(store: &Path) -> String {
    format!(
        "{}: the state file of the store is gone, which names its last record: nothing tells whether the latest records are \
         missing. Bring it back, with a backup its copy; or let `crawlgate audit fork` begin a new log behind the records at \
         hand, which says that later ones may be missing",
        state_file(store).display()
    )
}

/// Writes a state file beside a copy of the store, unless one lies there.
pub(super) fn copy_beside(state: &State, copy: &Path) -> io::Result<()> {
    place(&state_file(copy), &state.text()).map(drop)
}

/// Returns the error of a state file that cannot be made.
pub(super) fn unwritable(store: &Path, error: &io::Error) -> StoreError {
    StoreErrorKind::of_write(error).at(&state_file(store), format_args!(
        "the state file of the store cannot be written: {error}; let this user write there, or set [store] path to another \
         place"
    ))
}

/// The state file of an open store.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
    is_told: AtomicBool,
    /// The content that this process has last read or written: a file that goes meanwhile is made anew with it.
    known: Mutex<Option<State>>,
    /// True once a record is noted.
    has_record: AtomicBool,
}

impl StateFile {
    pub(super) fn of(store: &Path) -> Self {
        Self {
            path: state_file(store),
            is_told: AtomicBool::default(),
            known: Mutex::default(),
            has_record: AtomicBool::default(),
        }
    }

    /// Tells whether this process has noted no record yet.
    pub(super) fn is_first(&self) -> bool {
        !self.has_record.load(Ordering::Relaxed)
    }

    /// Notes a record that was written. The store has it already, so a failure is only told.
    pub(super) fn wrote(&self, end: End) {
        self.has_record.store(true, Ordering::Relaxed);
        self.tell(self.update(false, |state| state.note_written(end)));
    }

    /// Notes a checkpoint that is on the disk.
    pub(super) fn signed(&self, end: End) {
        self.tell(self.update(true, |state| state.note_signed(end)));
    }

    /// Notes that the store has lost what was written behind `end`, and says so itself.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn lost(&self, end: End) -> io::Result<()> {
        self.update(true, |state| state.written = end)
    }

    /// Makes the file if it is missing, with the record that the store ends with.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn begin(&self, end: End) -> io::Result<()> {
        if self.path.try_exists()? {
            let text = fs::read_to_string(&self.path).unwrap_or_default(); // told by the first write
            *self.known.lock() = State::parse(&text);
            Ok(())
        } else {
            self.update(true, |state| state.note_written(end))
        }
    }

    /// Begins the notes of a new log, which ends so, with the key that signs it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn reset(&self, key: [u8; 32], end: End) -> io::Result<()> {
        self.update(true, |state| *state = State { key, written: end, ..State::default() })
    }

    /// Notes the key that signs the log.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn set_key(&self, key: [u8; 32]) -> io::Result<()> {
        self.update(true, |state| state.key = key)
    }

    fn tell(&self, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => self.is_told.store(false, Ordering::Relaxed),
            Err(error) if !self.is_told.swap(true, Ordering::Relaxed) => warn!(
                file = %self.path.display(), %error,
                "the state file of the store cannot be written: until it can, a loss of the latest records would not be \
                 noticed"
            ),
            Err(_) => {}
        }
    }

    /// Changes the file under a lock, so that several processes may write it.
    fn update(&self, is_durable: bool, change: impl FnOnce(&mut State)) -> io::Result<()> {
        let old = self.lock()?;
        let mut text = String::new();
        if let Some(mut old) = old.as_ref() {
            old.read_to_string(&mut text)?;
        }
        let before = State::parse(&text);
        let mut known = self.known.lock();
        let mut state = before.or(*known).unwrap_or_default();
        change(&mut state);
        *known = Some(state);
        if before == Some(state) {
            return Ok(());
        }
        match old {
            Some(old) if !is_durable && before.is_some() => {
                old.write_all_at(state.text().as_bytes(), 0)
            }
            _ => self.replace(&state),
        }
    }

    /// Opens the file and locks it. `None` if it is missing.
    fn lock(&self) -> io::Result<Option<File>> {
        match lock_in_place(&self.path, File::options().read(true).write(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            locked => locked.map(Some),
        }
    }

    fn replace(&self, state: &State) -> io::Result<()> {
        replace(&self.path, &state.text())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_note_never_goes_back_and_a_damaged_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("crawlgate.db");
        let file = StateFile::of(&store);
        assert_eq!(read(&store).unwrap(), None);
        file.begin((3, [3; 32])).unwrap();
        let state = || read(&store).unwrap().unwrap().0;
        assert_eq!(state().written, (3, [3; 32]));
        file.begin((1, [1; 32])).unwrap();
        file.set_key([9; 32]).unwrap();
        for (written, signed) in [((7, [7; 32]), (5, [5; 32])), ((4, [4; 32]), (2, [2; 32]))] {
            file.wrote(written);
            file.signed(signed);
            let want = State { key: [9; 32], signed: (5, [5; 32]), written: (7, [7; 32]) };
            assert_eq!(state(), want);
        }
        file.signed((8, [8; 32]));
        assert_eq!(state().written, (8, [8; 32]), "what is signed was written");
        let path = state_file(&store);
        let whole = fs::read(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).unwrap();
            assert!(read(&store).is_err(), "octet {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(read(&store).is_err(), "cut at {at}");
        }
        fs::remove_file(&path).unwrap();
        file.wrote((9, [9; 32]));
        let anew = State { key: [9; 32], signed: (8, [8; 32]), written: (9, [9; 32]) };
        assert_eq!(state(), anew, "made anew, with all that was known");
    }

    #[test]
    fn writers_at_once_leave_the_latest() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("crawlgate.db");
        let file = StateFile::of(&store);
        file.begin((0, [0; 32])).unwrap();
        std::thread::scope(|scope| {
            for offset in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for n in 0..100 {
                        let seq = n * 4 + offset;
                        match n % 10 {
                            0 => file.signed((seq, [1; 32])),
                            _ => file.wrote((seq, [1; 32])),
                        }
                    }
                });
            }
        });
        let (state, _) = read(&store).unwrap().unwrap();
        assert_eq!((state.written.0, state.signed.0), (399, 363));
    }
}
