//! The way on behind a lost end of the log: a new log, which continues the records that are left.
//!
//! The old key has signed records that are missing. Whatever it signs from here on would contradict that, so another key
//! signs the records that are left and all that follow, under another name; an entry names the log that was lost. Records keep
//! their places, so what the old key has signed of them still holds.
//!
//! A process that is killed on the way leaves a store that is refused as before, and the next fork continues there:
//! the entry comes first, then the old key goes aside, then comes the new one, and the state file is written last.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::agree::{self, Relation};
use super::engine;
use super::engine::Failure;
use super::entries::{self, Blocks, Head, checkpoint};
use super::file::beside;
use super::hours;
use super::log;
use super::notes;
use super::open;
use super::repair::{beyond, refuse_if_open};
use crate::log_key::{self, LogKey, log_key_file};
use crate::public_keys;
use crate::state_file::{self, End, State, StateFile};
use crate::{Access, Miscount, Records, StoreError, StoreErrorKind};
use crawlgate_config::Synchronous;
use crawlgate_record::{Entry, EventKind};
use crawlgate_system::atomic_file::sync_folder;
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{KeyName, VerifierKey, hash_text};

/// A log that lost its signed end, and the one to continue it.
#[derive(Debug)]
pub struct Fork {
    path: PathBuf,
    /// The name of the new log, if the configuration has one.
    name: Option<KeyName>,
    /// The name of the lost log.
    old: KeyName,
    /// Its key; `None` where neither the key nor the state file is there.
    old_key: Option<VerifierKey>,
    /// The state file, and the time of the last write to the lost log; `None` if it is gone.
    state: Option<(State, Moment)>,
    /// The size and root of the lost log; as far as the records tell, if the state file is gone.
    lost: End,
    /// Records that are left.
    size: u64,
    /// Decisions that the store has counted and has no record of.
    counted: Option<Miscount>,
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
        notes::refuse_collected(&connection, path).map_err(at)?;
        let state = state_file::read(path)?;
        let fork = Self::look(&connection, path, name, state, known).map_err(at)?;
        if fork.name.as_ref() == Some(&fork.old) {
            return Err(refused(format!(
                "[audit] log_name = \"{0}\" names the log that the missing records belong to, and another history needs \
                 another name: set one, such as \"{0}-2\", and call this again",
                fork.old
            )));
        }
        Ok(fork)
    }

    fn look(
        connection: &Connection,
        path: &Path,
        name: Option<KeyName>,
        state: Option<(State, Moment)>,
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
        let key = LogKey::load(&log_key_file(path), None).ok();
        let noted = noted(connection, state.as_ref(), key.as_ref())?;
        let (_, size) = entries::extent(connection)?;
        let size = size - u64::from(noted.is_some());
        let counted = hours::miscounted(connection, &Blocks::default())?;
        if noted.is_none() {
            require_loss(connection, path, state.as_ref(), known.is_some() || counted.is_some())?;
        }
        let present = key.as_ref().map(LogKey::vkey);
        let public = match (&state, &present) {
            // A process that was killed before it could note its key.
            (Some((state, _)), present) if state.key == [0; 32] => {
                present.as_ref().map(|key| *key.public())
            }
            (Some((state, _)), _) => Some(state.key),
            (None, present) => present.as_ref().map(|key| *key.public()),
        };
        let last = checkpoint::last(connection)?;
        let named = last.as_ref().and_then(|last| Some(last.content()?.origin));
        let old_key = match public {
            None => None,
            Some(public) => Some({
                let signer = last.and_then(|last| checkpoint::signer(&last, public));
                // The key may have been replaced after the last checkpoint that is left: its file has the name of the log.
                let signer = signer.or_else(|| present.filter(|key| *key.public() == public));
                match signer {
                    Some(key) => key,
                    None => log_key::default_key(public)?,
                }
            }),
        };
        let old = old_key.as_ref().map(|key| key.name().clone()).or(named);
        Ok(Self {
            path: path.to_owned(),
            name,
            old: match old {
                Some(old) => old,
                None => log_key::unknown_name()?,
            },
            old_key,
            lost: match (noted, &state) {
                (Some(lost), _) => lost,
                (None, Some((state, _))) if state.signed.0 > size || known.is_some() => {
                    state.signed
                }
                (None, Some((state, _))) => state.written,
                (None, None) => {
                    let head = Head::read(connection)?;
                    (head.size(), head.root())
                }
            },
            state,
            size,
            is_noted: noted.is_some(),
            known,
            counted,
        })
    }

    /// Returns the loss in words, a line each.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { lost, size, .. } = self;
        let mut text = match self.known {
            Some(known) => format!(
                "missing   the end of the log: a witness knows a checkpoint of {known} records, which the store does not have\n"
            ),
            None => String::new(),
        };
        match &self.state {
            None => {
                text += "missing   unknown: the state file is gone, which names the last record\n";
            }
            Some((state, at)) => {
                let (written, signed) = (state.written.0, state.signed.0);
                let missing = written.saturating_sub(*size);
                if missing > 0 || self.known.is_none() && self.counted.is_none() {
                    text += &format!(
                        "missing   {} ({}), the last of them written at {}; {} of them were not signed\n",
                        Records::new(size + 1, written),
                        missing,
                        crawlgate_text::time_text(*at),
                        written.saturating_sub(signed),
                    );
                }
            }
        }
        if let Some(counted) = &self.counted {
            text += &format!("counted   {counted}\n");
        }
        let at_least = if self.state.is_none() { "at least " } else { "" };
        text += &format!(
            "lost log  {} of {at_least}{} records, root {}\n",
            self.old,
            lost.0,
            hash_text(&lost.1)
        );
        text + &format!("at hand   {size} records\n")
    }

    /// Returns the reason of the entry: what the operator says, and what no number of it tells.
    fn reason(&self, reason: &str) -> String {
        let unknown = self.state.is_none().then(|| {
            "the state file was gone, so later records of that log may be missing".to_owned()
        });
        let counted = self.counted.as_ref().map(Miscount::to_string);
        let more: Vec<String> = [unknown, counted].into_iter().flatten().collect();
        if more.is_empty() { reason.to_owned() } else { format!("{reason} ({})", more.join("; ")) }
    }

    /// Begins the new log. The store is then opened as always.
    ///
    /// # Errors
    /// When a file cannot be written. Another call continues there.
    pub fn carry_out(&self, reason: &str, now: Moment) -> Result<Forked, StoreError> {
        let path = &*self.path;
        if let Some(old) = &self.old_key {
            public_keys::add_earlier_key(path, old)
                .map_err(|error| unwritable(&public_keys::earlier_keys_file(path), &error))?;
        }
        if !self.is_noted {
            self.note(reason, now).map_err(|failure| failure.at(path))?;
        }
        let connection = open::reader(path)?;
        let head = Head::read(&connection).map_err(|failure| failure.at(path))?;
        let mut aside = Vec::new();
        let key = log_key_file(path);
        if let Ok(present) = LogKey::load(&key, None)
            && let Some(old) = &self.old_key
            && present.vkeys().iter().any(|one| one.public() == old.public())
        {
            let to = self.aside(&key, now);
            fs::rename(&key, &to)
                .and_then(|()| sync_folder(&key))
                .map_err(|error| unwritable(&to, &error))?;
            aside.push(to);
        }
        let new = LogKey::load_or_create(&key, self.name.clone())?.vkey();
        let state = state_file::state_file(path);
        if self.state.is_some() {
            let to = self.aside(&state, now);
            fs::copy(&state, &to)
                .and_then(|_| File::open(&to)?.sync_all())
                .map_err(|error| unwritable(&to, &error))?;
            aside.push(to);
        }
        StateFile::of(path)
            .reset(*new.public(), (head.size(), head.root()))
            .map_err(|error| state_file::unwritable(path, &error))?;
        Ok(Forked { seq: head.size(), new, aside })
    }

    /// Appends the entry.
    fn note(&self, reason: &str, now: Moment) -> Result<(), Failure> {
        let mut connection = open::writer(&self.path, Synchronous::Full)?;
        let transaction = engine::begin(&mut connection)?;
        let mut head = Head::read(&transaction)?;
        let (size, root) = self.lost;
        let reason = self.reason(reason);
        let kind = EventKind::Forked {
            log: self.old.as_str(),
            size,
            root: &root,
            reason: reason.as_str().into(),
        };
        log::event(&transaction, &mut head, now, kind)?;
        if self.counted.is_some() {
            // The entry says it from here on.
            hours::recount(&transaction, &Blocks::default())?;
            checkpoint::forget_size(&transaction)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Returns the place of a file of the lost log.
    fn aside(&self, file: &Path, now: Moment) -> PathBuf {
        beside(file, &format!(".before-fork-{}", now.as_millis()))
    }
}

/// Returns what the last entry says of a lost log, if a process that was killed on the way has written it.
fn noted(
    connection: &Connection,
    state: Option<&(State, Moment)>,
    key: Option<&LogKey>,
) -> Result<Option<End>, Failure> {
    let (_, size) = entries::extent(connection)?;
    let Some((log, lost)) = fork_at_end(connection, size)? else {
        return Ok(None);
    };
    let is_noted = match state {
        Some((state, _)) => [state.signed, state.written].contains(&lost),
        // Without a state file, only the key of that log, which goes aside next, tells that the entry is of this fork: the
        // log may have been cut back to an earlier one.
        None => lost.0 + 1 == size && key.is_some_and(|key| key.name().as_str() == log),
    };
    Ok(is_noted.then_some(lost))
}

/// Returns the name, the size and the root that the last entry of the log names as those of a lost one.
fn fork_at_end(connection: &Connection, size: u64) -> Result<Option<(String, End)>, Failure> {
    let Some(last) = size.checked_sub(1) else {
        return Ok(None);
    };
    let mut found = None;
    entries::walk(connection, &Blocks::default(), last..=last, false, |_, entry| {
        if let Ok(Entry::Event(event)) = Entry::read(entry)
            && let EventKind::Forked { log, size, root, .. } = event.kind
        {
            found = Some((log.to_owned(), (size, *root)));
        }
        Ok(false)
    })?;
    Ok(found)
}

/// Fails unless the store lacks records for which it is refused, or which a witness or the store's own counts know.
fn require_loss(
    connection: &Connection,
    path: &Path,
    state: Option<&(State, Moment)>,
    is_known: bool,
) -> Result<(), Failure> {
    agree::require_key(connection, path, state.map(|(state, _)| state))?;
    let loss = match agree::look(connection, path)? {
        Relation::Misses(missing) if agree::is_anothers_key(connection, path)? => {
            return Err(agree::foreign(path, missing.written()));
        }
        Relation::Misses(missing) if missing.is_refused() || is_known => return Ok(()),
        Relation::Agrees if is_known => return Ok(()),
        Relation::Unknown => return Ok(()),
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
    StoreErrorKind::Failed.error(message)
}

fn unwritable(path: &Path, error: &io::Error) -> StoreError {
    let words = format_args!("{error}; see to that, and call this again");
    StoreErrorKind::of_write(error).at(path, words)
}
