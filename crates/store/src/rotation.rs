//! The rotation of the key that signs the log.
//!
//! An entry of the log ([`KeyRotated`](EventKind::KeyRotated)) names the old key and the new one. Both sign the checkpoint
//! right behind it. With that proof, a reader who trusts the old key knows that the new key is the log's. Both keys sign
//! each checkpoint for [`BOTH`], then only the new one signs.
//!
//! # Steps, and a kill between them
//!
//! 1. The file `crawlgate.log.key.next` gets the new key, with the old one behind it. Nothing refers to it yet.
//! 2. One transaction appends the entry, and keeps the checkpoint and the proof. From here on the log has the new key: a
//!    process that holds the old one finds that in its next transaction, and reads the new one from the file.
//! 3. The file takes the place of `crawlgate.log.key`. A process that was killed before leaves that to the next process
//!    that opens the store (`finish`).
//! 4. The state file names the new key.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use super::log_key::{LogKey, log_key_file, next_key_file};
use super::{Sha256, StoreError, StoreErrorKind};
use crawlgate_record::{Entry, EventKind};
use crawlgate_system::atomic_file::{lock_in_place, sync_folder};
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;
use crawlgate_tlog::{EntryProof, KeyKind, Note, VerifierKey, leaf_hash};

/// The time for which the old key signs beside the new one.
pub const BOTH: Duration = Duration::from_secs(30 * 86_400);

/// A change of the key, with its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The number of the entry.
    pub seq: u64,
    /// The time of the entry.
    pub time: Moment,
    /// The key that signed the log before.
    pub old: VerifierKey,
    /// The key that signs it since.
    pub new: VerifierKey,
    /// The entry, octet for octet.
    pub entry: Vec<u8>,
    /// The path of the entry to a checkpoint that both keys have signed (c2sp.org/tlog-proof).
    pub proof: String,
}

/// The person who replaces a key, and the reason.
#[derive(Clone, Debug)]
pub struct RotationReason {
    /// The person.
    pub by: String,
    /// The reason.
    pub reason: String,
}

impl Rotation {
    /// Reads an entry with its proof. `None` unless both keys have signed a checkpoint over the entry.
    #[must_use]
    pub fn read(entry: Vec<u8>, proof: String) -> Option<Self> {
        let Ok(Entry::Event(event)) = Entry::read(&entry) else {
            return None;
        };
        let EventKind::KeyRotated { old, new, .. } = event.kind else {
            return None;
        };
        let (old, new): (VerifierKey, VerifierKey) = (old.parse().ok()?, new.parse().ok()?);
        let are_keys = [&old, &new].map(|key| key.kind() == KeyKind::Ed25519) == [true; 2];
        if !are_keys || old == new || old.name() != new.name() {
            return None;
        }
        let path = EntryProof::parse(proof.as_bytes()).ok()?;
        let leaf = leaf_hash(&entry);
        for key in [&old, &new] {
            path.verify(&leaf, std::slice::from_ref(key)).ok()?;
        }
        Some(Self {
            seq: path.index.saturating_add(1),
            time: Moment::from_millis(event.time()),
            old,
            new,
            entry,
            proof,
        })
    }

    /// Returns the time up to which the old key signs, too.
    #[must_use]
    pub fn until(&self) -> Moment {
        self.time + BOTH
    }
}

/// Returns the key that has replaced this one, at last; or this one.
pub(crate) fn present(key: Sha256, rotations: &[Rotation]) -> Sha256 {
    rotations.iter().fold(
        key,
        |key, one| {
            if *one.old.public() == key { *one.new.public() } else { key }
        },
    )
}

/// Tells whether one of these keys has replaced the other.
pub(crate) fn are_of_one_log(one: Sha256, other: Sha256, rotations: &[Rotation]) -> bool {
    present(one, rotations) == present(other, rotations)
}

/// Returns the keys that this one has replaced and that still sign beside it.
fn beside(key: Sha256, rotations: &[Rotation], now: Moment) -> Vec<Sha256> {
    let (mut key, mut earlier) = (key, Vec::new());
    for one in rotations.iter().rev() {
        if *one.new.public() == key {
            key = *one.old.public();
            if now < one.until() {
                earlier.push(key);
            }
        }
    }
    earlier
}

/// Signs a size and root of the log by a key, and by those that still sign beside it, as far as their private halves are
/// there.
pub(crate) fn sign(
    key: &LogKey,
    rotations: &[Rotation],
    now: Moment,
    (size, root): (u64, Sha256),
) -> Note {
    let due = beside(*key.vkey().public(), rotations, now);
    signed_by(key, &due, (size, root))
}

/// Signs as [`sign`] does, by a key that replaces the first earlier one just now.
pub(crate) fn sign_as_new(
    key: &LogKey,
    old: Sha256,
    rotations: &[Rotation],
    now: Moment,
    end: (u64, Sha256),
) -> Note {
    let mut due = beside(old, rotations, now);
    due.push(old);
    signed_by(key, &due, end)
}

fn signed_by(key: &LogKey, due: &[Sha256], (size, root): (u64, Sha256)) -> Note {
    let mut note = key.checkpoint(size, root);
    for signer in key.signers().skip(1) {
        if due.contains(signer.key().public()) {
            let line = signer.sign(note.text());
            let _ = note.push(line); // There is room for many more.
        }
    }
    note
}

/// Returns the key that has replaced a held one, from the files beside the store. `None` if none has.
///
/// # Errors
/// When neither file has it.
pub(crate) fn follow(
    held: &LogKey,
    store: &Path,
    rotations: &[Rotation],
) -> Result<Option<LogKey>, StoreError> {
    let key = *held.vkey().public();
    let present = present(key, rotations);
    if present == key {
        return Ok(None);
    }
    // In this order: the first becomes the second.
    for file in [next_key_file(store), log_key_file(store)] {
        if let Ok(found) = LogKey::load(&file, Some(held.name().clone()))
            && *found.vkey().public() == present
        {
            return Ok(Some(found));
        }
    }
    Err(gone(store, present, rotations))
}

/// Puts the new key in its place, if a process was killed before it could.
///
/// # Errors
/// When the key was replaced, and the new one is not there.
pub(crate) fn finish(store: &Path, rotations: &[Rotation]) -> Result<(), StoreError> {
    let file = log_key_file(store);
    if rotations.is_empty() || !file.exists() {
        return Ok(());
    }
    let lock = lock(&file).map_err(|error| unwritable(&file, &error))?;
    // A key that cannot be read is told by those who need it.
    let Ok(held) = LogKey::load(&file, None) else {
        return Ok(());
    };
    match follow(&held, store, rotations)? {
        None => Ok(()),
        Some(_) => put_in_place(store, &lock),
    }
}

/// Writes a new key beside the old one, for the same user.
///
/// # Errors
/// When it cannot be written, or the old one belongs to another user, who could not read the new one.
pub(crate) fn prepare(store: &Path, new: &LogKey) -> Result<(), StoreError> {
    let (file, next) = (log_key_file(store), next_key_file(store));
    let owner = |path: &Path| fs::metadata(path).map(|file| file.uid());
    let written = new.write(&next).and_then(|()| Ok((owner(&file)?, owner(&next)?)));
    let (old, new) = written.map_err(|error| unwritable(&next, &error))?;
    if old == new {
        return Ok(());
    }
    let _ = fs::remove_file(&next); // It signs nothing.
    Err(StoreErrorKind::Denied.at(&file, format_args!(
        "the key belongs to the user {old}, who could not read a new one of the user {new}: call this as that user"
    )))
}

/// Puts the new key in the place of the old one. The caller has locked the file of that.
pub(crate) fn put_in_place(store: &Path, _lock: &File) -> Result<(), StoreError> {
    let file = log_key_file(store);
    fs::rename(next_key_file(store), &file)
        .and_then(|()| sync_folder(&file))
        .map_err(|error| unwritable(&file, &error))
}

/// Locks the file of a key against another rotation.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    lock_in_place(path, File::options().read(true))
}

pub(crate) fn unwritable(path: &Path, error: &io::Error) -> StoreError {
    StoreErrorKind::Denied.at(path, format_args!(
        "{error}; the key that signs the log is kept there: let this user write there, and call this again"
    ))
}

fn gone(store: &Path, present: Sha256, rotations: &[Rotation]) -> StoreError {
    let last = rotations.iter().rev();
    let mut last = last.filter(|one| *one.new.public() == present);
    let (key, time) =
        last.next().map_or_else(Default::default, |one| (one.new.to_string(), time_text(one.time)));
    let file = log_key_file(store);
    StoreErrorKind::Denied.error(format!(
        "{0}: this key signs the log no more: {key} has replaced it at {time}, and is not there; bring back the file \
         with that key; or, if it is lost, move {0} away: a new key is made then and signs from then on, and what the \
         others have signed is checked with their public halves (`crawlgate audit verify --key`, for each of them)",
        file.display(),
    ))
}

#[cfg(test)]
mod tests;
