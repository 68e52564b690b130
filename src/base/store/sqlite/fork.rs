//! The way on behind a lost end of the log: a new log, which continues the records at hand.
//!
//! The old key has signed records that are missing. Whatever it signs from here on would contradict that, so another key
//! signs the records at hand and all that follow, under another name; an entry names the log that was lost. Records keep
//! their places, so what the old key has signed of them still holds.
//!
//! A process that is killed on the way leaves a store that is refused as before, and the next fork goes on from there:
//! the entry comes first, then the old key goes aside, then comes the new one, and the state file is written last.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::agree::{self, Relation};
use super::entries::{self, Blocks, Head, checkpoint};
use super::error::Failure;
use super::kind;
use super::open::{self, beside};
use super::repair::{beyond, refuse_if_open};
use super::write;
use crate::clock::Moment;
use crate::config::Synchronous;
use crate::entry::{Entry, EventKind};
use crate::store::log_key::{self, LogKey, log_key_file};
use crate::store::public_keys;
use crate::store::state_file::{self, End, State, StateFile};
use crate::store::{Access, Records, StoreError, StoreErrorKind};
use crate::tlog::{KeyName, VerifierKey, hash_text};
use crate::whole_file::sync_folder;

/// A log that lost its signed end, and the one to continue it.
#[derive(Debug)]
pub struct Fork {
    path: PathBuf,
    /// The name of the new log, if it has one of its own.
    name: Option<KeyName>,
    /// The key of the lost log, under the name of that log.
    old: VerifierKey,
    state: State,
    /// The size and root of the lost log.
    lost: End,
    /// Records at hand.
    size: u64,
    /// Time of the last write to the lost log.
    at: Moment,
    /// True if the entry is there already.
    is_noted: bool,
    /// The size that a witness knows and the store does not have.
    known: Option<u64>,
}

/// The files of a lost log, and the place of the entry about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// The number of the entry.
    pub seq: u64,
    /// The key of the new log.
    pub new: VerifierKey,
    /// The files of the lost log, where they are kept now.
    pub aside: Vec<PathBuf>,
}

impl Fork {
    /// Finds what a store has lost, without a change to it. `name` is the configured name of the log, `known` a size that a
    /// witness knows and the store does not have.
    ///
    /// # Errors
    /// When it lacks nothing that another log would help with, another process has it open, or it cannot be read.
    pub fn of(path: &Path, name: Option<KeyName>, known: Option<u64>) -> Result<Self, StoreError> {
        open::require(path, Access::Read)?;
        let at = |failure: Failure| failure.at(path);
        agree::refuse_foreign_log(path).map_err(at)?;
        refuse_if_open(path)?;
        let connection = open::reader(path)?;
        kind::refuse_collected(&connection, path).map_err(at)?;
        let Some((state, written)) = state_file::read(path)? else {
            return Err(refused(format!(
                "{}: there is no such file, and it alone would tell which records are missing",
                state_file::state_file(path).display()
            )));
        };
        let fork = Self::look(&connection, path, name, (state, written), known).map_err(at)?;
        if fork.name.as_ref() == Some(fork.old.name()) {
            return Err(refused(format!(
                "[audit] log_name = \"{0}\" names the log that the missing records belong to, and another history needs \
                 another name: set one, such as \"{0}-2\", and call this again",
                fork.old.name()
            )));
        }
        Ok(fork)
    }

    fn look(
        connection: &Connection,
        path: &Path,
        name: Option<KeyName>,
        (state, at): (State, Moment),
        known: Option<u64>,
    ) -> Result<Self, Failure> {
        if let Some((size, signed)) = beyond(connection)? {
            let records = Records::new(size + 1, signed);
            return Err(refused(format!(
                "{}: {records} {} missing, and a checkpoint in the store itself covers more: it is damaged, and \
                 `crawlgate store rebuild` saves what can be read",
                path.display(),
                records.are()
            ))
            .into());
        }
        let (_, size) = entries::extent(connection)?;
        let noted = fork_at_end(connection, size)?;
        let is_noted = noted.is_some_and(|lost| [state.signed, state.written].contains(&lost));
        let size = size - u64::from(is_noted);
        if !is_noted {
            require_loss(connection, path, &state, known.is_some())?;
        }
        let public = match (state.key, LogKey::load(&log_key_file(path), None)) {
            // A process that was killed before it could note its key.
            ([0, ..], Ok(key)) if state.key == [0; 32] => *key.vkey().public(),
            (noted, _) => noted,
        };
        let last = checkpoint::last(connection)?;
        let old = last.and_then(|last| checkpoint::signer(&last, public));
        // The key may have been replaced after the last checkpoint at hand: its file has the name of the log.
        let old = old.or_else(|| {
            let key = LogKey::load(&log_key_file(path), None).ok()?;
            (*key.vkey().public() == public).then(|| key.vkey())
        });
        Ok(Self {
            path: path.to_owned(),
            name,
            old: match old {
                Some(old) => old,
                None => log_key::default_key(public)?,
            },
            lost: match noted.filter(|_| is_noted) {
                Some(lost) => lost,
                None if state.signed.0 > size || known.is_some() => state.signed,
                None => state.written,
            },
            state,
            size,
            at,
            is_noted,
            known,
        })
    }

    /// Returns the loss in words, a line each.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { lost, size, .. } = self;
        let written = self.state.written.0;
        let unsigned = written.saturating_sub(self.state.signed.0);
        let missing = written.saturating_sub(*size);
        let mut text = match self.known {
            Some(known) => format!(
                "missing   the end of the log: a witness knows a checkpoint of {known} records, which the store does not have\n"
            ),
            None => String::new(),
        };
        if missing > 0 || self.known.is_none() {
            text += &format!(
                "missing   {} ({}), the last of them written at {}; {unsigned} of them were not signed\n",
                Records::new(size + 1, written),
                missing,
                crate::text::time_text(self.at),
            );
        }
        text += &format!(
            "lost log  {} of {} records, root {}\n",
            self.old.name(),
            lost.0,
            hash_text(&lost.1)
        );
        text + &format!("at hand   {size} records\n")
    }

    /// Begins the new log. The store is then opened as always.
    ///
    /// # Errors
    /// When a file cannot be written. Another call goes on from there.
    pub fn carry_out(&self, reason: &str, now: Moment) -> Result<Forked, StoreError> {
        let path = &*self.path;
        public_keys::add_earlier_key(path, &self.old)
            .map_err(|error| unwritable(&public_keys::earlier_keys_file(path), &error))?;
        if !self.is_noted {
            self.note(reason, now).map_err(|failure| failure.at(path))?;
        }
        let connection = open::reader(path)?;
        let head = Head::read(&connection).map_err(|failure| failure.at(path))?;
        let mut aside = Vec::new();
        let key = log_key_file(path);
        if let Ok(present) = LogKey::load(&key, None)
            && present
                .vkeys()
                .iter()
                .any(|one| one.public() == self.old.public())
        {
            let to = self.aside(&key, now);
            fs::rename(&key, &to)
                .and_then(|()| sync_folder(&key))
                .map_err(|error| unwritable(&to, &error))?;
            aside.push(to);
        }
        let new = LogKey::load_or_create(&key, self.name.clone())?.vkey();
        let state = state_file::state_file(path);
        let to = self.aside(&state, now);
        fs::copy(&state, &to)
            .and_then(|_| File::open(&to)?.sync_all())
            .map_err(|error| unwritable(&to, &error))?;
        aside.push(to);
        StateFile::of(path)
            .reset(*new.public(), (head.size(), head.root()))
            .map_err(|error| state_file::unwritable(path, &error))?;
        Ok(Forked {
            seq: head.size(),
            new,
            aside,
        })
    }

    /// Appends the entry.
    fn note(&self, reason: &str, now: Moment) -> Result<(), Failure> {
        let mut connection = open::writer(&self.path, Synchronous::Full)?;
        let transaction = write::begin(&mut connection)?;
        let mut head = Head::read(&transaction)?;
        let (size, root) = self.lost;
        let kind = EventKind::Forked {
            log: self.old.name().as_str(),
            size,
            root: &root,
            reason: reason.into(),
        };
        write::event(&transaction, &mut head, now, kind)?;
        transaction.commit()?;
        Ok(())
    }

    /// Returns the place of a file of the lost log.
    fn aside(&self, file: &Path, now: Moment) -> PathBuf {
        beside(file, &format!(".before-fork-{}", now.as_millis()))
    }
}

/// Returns the size and root that the last entry of the log names as those of a lost one.
fn fork_at_end(connection: &Connection, size: u64) -> Result<Option<End>, Failure> {
    let Some(last) = size.checked_sub(1) else {
        return Ok(None);
    };
    let mut found = None;
    entries::walk(
        connection,
        &Blocks::default(),
        last..=last,
        false,
        |_, entry| {
            if let Ok(Entry::Event(event)) = Entry::read(entry)
                && let EventKind::Forked { size, root, .. } = event.kind
            {
                found = Some((size, *root));
            }
            Ok(false)
        },
    )?;
    Ok(found)
}

/// Fails unless the store lacks records for which it is refused, or which a witness knows.
fn require_loss(
    connection: &Connection,
    path: &Path,
    state: &State,
    is_known: bool,
) -> Result<(), Failure> {
    agree::require_key(connection, path, Some(state))?;
    let loss = match agree::look(connection, path)? {
        Relation::Misses(missing) if agree::is_anothers_key(connection, path)? => {
            return Err(agree::foreign(path, missing.written()));
        }
        Relation::Misses(missing) if missing.is_refused() || is_known => return Ok(()),
        Relation::Agrees if is_known => return Ok(()),
        Relation::Misses(missing) => format!(
            "{}; none of them was signed, so `crawlgate serve` notes the loss and goes on with the same log",
            missing.describe()
        ),
        Relation::Agrees => {
            "no record that its state file names is missing, so its log goes on as it is".to_owned()
        }
        Relation::Differs(size) => return Err(agree::foreign(path, size)),
    };
    Err(refused(format!("{}: {loss}", path.display())).into())
}

fn refused(message: String) -> StoreError {
    StoreError {
        kind: StoreErrorKind::Failed,
        message,
    }
}

fn unwritable(path: &Path, error: &io::Error) -> StoreError {
    StoreError {
        kind: match error.kind() {
            io::ErrorKind::StorageFull => StoreErrorKind::Full,
            _ => StoreErrorKind::Denied,
        },
        message: format!(
            "{}: {error}; see to that, and call this again",
            path.display()
        ),
    }
}
