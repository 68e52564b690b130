//! Logs side by side: that of this gate and collected copies of others, each with its name.
//!
//! A question goes to [`Logs`], whether they are one or many:
//!
//! ```text
//! let logs = Logs::of(own, Some(&collection), OpenCopies::default())?.choose(&["*"])?;
//! logs.find(id).await                                      the decision, in whichever log it is
//! let mut list = MergedList::new(&logs, EntryKind::Decisions, query);
//! list.page(50).await                                      the decisions of all logs, by time
//! ```
//!
//! A log that cannot be read is named as a [`Fault`] and harms no other. Copies are opened when a question comes to them,
//! and few stay open ([`OpenCopies`]). Nothing here writes.

mod merge;
mod open;
mod places;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::merge::{EntryKind, MergedList, Reached};
pub use self::open::{MAX_OPEN, OpenCopies};
pub use self::places::{Place, Places, UnreadablePlaces};
use super::collection::{CollectedLog, Collection};
use super::log_key::log_key_file;
use super::{Store, StoreError, StoreErrorKind, StoredDecision, failed, kept_log_key};
use crawlgate_config::Config;
use crawlgate_text::DecisionId;
use crawlgate_text::json::Object;
use crawlgate_tlog::KeyName;

/// Returns the message that no store searched has a decision with this beginning of an identifier.
#[must_use]
pub fn unknown(id: &str) -> String {
    match DecisionId::with_prefix(id) {
        Some(_) => format!(
            "{id}: no such decision in the store; it was never stored ([log] decisions selects them; what was refused while \
             the log could not be written, or beyond [audit] refusals_per_minute, is counted in an event), or is older \
             than [audit] keep"
        ),
        None => format!(
            "{id}: not the beginning of an identifier, which is 26 digits and letters, like 01KB7W3Y5E000000000VY7H1Q2"
        ),
    }
}

/// The word for all logs.
pub const ALL: &str = "*";

/// The name of a log of this gate of which neither the key nor the configuration tells the name.
const UNNAMED: &str = "own";

/// Octets of a name in a line: more than the file of a collected log has.
const MAX_OF_NAME: usize = 4_096;

/// A log with its name.
#[derive(Clone, Debug)]
pub struct Log {
    name: KeyName,
    source: Source,
}

/// The store of a log.
#[derive(Clone, Debug)]
enum Source {
    /// That of this process.
    Running(Arc<Store>),
    /// That of this gate, in a file.
    Own(PathBuf),
    /// The collected copy of a log of another machine.
    Copy(PathBuf),
}

/// Logs that are read side by side, by their names.
#[derive(Clone, Debug)]
pub struct Logs {
    all: Vec<Log>,
    copies: OpenCopies,
    /// The directory of the collection.
    folder: Option<PathBuf>,
}

/// An entry of a list, and the log that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name of the log.
    pub log: KeyName,
    /// The entry.
    pub entry: StoredDecision,
}

/// A log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{log}: {error}")]
pub struct Fault {
    /// The name of the log.
    pub log: KeyName,
    /// The failure.
    pub error: StoreError,
}

/// The result of a search for one decision.
#[derive(Clone, Debug, Default)]
pub struct Lookup {
    /// The logs that have it; more than one if only the beginning of an identifier was given.
    pub found: Vec<Listed>,
    /// The logs that could not be searched.
    pub faults: Vec<Fault>,
}

impl Listed {
    /// Returns the line of the entry, with the name of the log as its first member, without a line feed.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = Vec::new();
        let mut object = Object::open(&mut line);
        object.text("log", self.log.as_str().as_bytes(), MAX_OF_NAME);
        let line = String::from_utf8_lossy(&line);
        // A record is an object with a member at least.
        let record = self.entry.record.strip_prefix('{');
        format!("{line},{}", record.unwrap_or("\"unreadable\":true}"))
    }
}

impl Log {
    /// Returns the log of this process, which has its store open.
    #[must_use]
    pub fn running(name: KeyName, store: Arc<Store>) -> Self {
        let source = Source::Running(store);
        Self { name, source }
    }

    /// Returns the log of the gate with this configuration; `None` if no store is configured.
    #[must_use]
    pub fn own(config: &Config) -> Option<Self> {
        let path = config.store.path.as_ref()?;
        Some(Self { name: own_name(config)?, source: Source::Own(path.clone()) })
    }

    /// Tells whether the store is there, or was: a key without a store is one that is gone, and opening it says so.
    #[must_use]
    pub fn exists(&self) -> bool {
        match &self.source {
            Source::Running(_) => true,
            Source::Own(path) | Source::Copy(path) => path.exists() || log_key_file(path).exists(),
        }
    }

    fn copy(log: CollectedLog) -> Self {
        Self { name: log.name, source: Source::Copy(log.path) }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// Tells whether it is the collected copy of a log of another machine.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        matches!(self.source, Source::Copy(_))
    }

    /// Returns the file of the store; `None` for that of this process.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::Running(_) => None,
            Source::Own(path) | Source::Copy(path) => Some(path),
        }
    }

    /// Puts the store of the log in the place of the configured one.
    pub fn put_in(&self, config: &mut Config) {
        if let Source::Copy(path) = &self.source {
            config.store.path = Some(path.clone());
            // The copy has a key under the name of its log.
            config.audit.log_name = None;
        }
    }

    /// Returns the configuration of a gate that has this log.
    #[must_use]
    pub fn config(&self, config: &Config) -> Config {
        let mut config = config.clone();
        self.put_in(&mut config);
        config
    }
}

/// Returns the name of the log of the gate with this configuration.
#[must_use]
pub fn own_name(config: &Config) -> Option<KeyName> {
    match kept_log_key(config) {
        Ok(key) => Some(key.vkey().name().clone()),
        Err(_) => config.audit.log_name.clone().or(UNNAMED.parse().ok()),
    }
}

impl Logs {
    /// Returns the log of this gate and all collected ones. The log itself takes the place of its copy.
    ///
    /// # Errors
    /// When the collection cannot be read.
    pub fn of(
        own: Option<Log>,
        collection: Option<&Collection>,
        copies: OpenCopies,
    ) -> Result<Self, StoreError> {
        Self::of_all(own.into_iter().collect(), collection, copies)
    }

    /// Returns these logs and all collected ones.
    ///
    /// # Errors
    /// When the collection cannot be read.
    pub fn of_all(
        mut all: Vec<Log>,
        collection: Option<&Collection>,
        copies: OpenCopies,
    ) -> Result<Self, StoreError> {
        if let Some(collection) = collection {
            for log in collection.logs()? {
                if all.iter().all(|known| known.name != log.name) {
                    all.push(Log::copy(log));
                }
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self {
            all,
            copies,
            folder: collection.map(|collection| collection.folder().to_owned()),
        })
    }

    /// Returns only this log.
    #[must_use]
    pub fn one(log: Log) -> Self {
        Self { all: vec![log], copies: OpenCopies::default(), folder: None }
    }

    /// Returns the logs of these names. [`ALL`] stands for all; a name may be given by its end behind a slash, or by a part
    /// that no other name has.
    ///
    /// # Errors
    /// When there is no such log, or more than one; the message has the names.
    pub fn choose<N: AsRef<str>>(&self, wanted: &[N]) -> Result<Self, StoreError> {
        let mut chosen = Vec::new();
        for one in wanted {
            match one.as_ref() {
                ALL => return Ok(self.clone()),
                name => chosen.push(self.named(name)?.name.clone()),
            }
        }
        let mut logs = self.clone();
        logs.all.retain(|log| chosen.contains(&log.name));
        Ok(logs)
    }

    /// Returns the log of this name, or of the one name that ends in it behind a slash, or of the one that has it as a part.
    ///
    /// # Errors
    /// When no log has it, or more than one; the message has the names.
    pub fn named(&self, name: &str) -> Result<&Log, StoreError> {
        let logs = &self.all;
        let end = format!("/{name}");
        let mut ends = logs.iter().filter(|log| log.name.as_str().ends_with(&end));
        let end = ends.next().filter(|_| ends.next().is_none());
        let exact = logs.iter().find(|log| log.name.as_str() == name);
        if let Some(found) = exact.or(end) {
            return Ok(found);
        }
        let found: Vec<&Log> = logs.iter().filter(|log| log.name.as_str().contains(name)).collect();
        let message = match (&*found, &**logs, &self.folder) {
            ([one], ..) => return Ok(one),
            ([], [], Some(folder)) => format!("{}: no log is collected there", folder.display()),
            ([], _, folder) => format!(
                "{name}: there is no log of this name; there are {}{}",
                list_names(logs),
                match folder {
                    Some(_) => "",
                    None => ", and none is collected: [audit] collection is \"\"",
                }
            ),
            (found, ..) => format!(
                "{name}: more than one log has this in its name: {}",
                list_names(found.iter().copied())
            ),
        };
        Err(StoreErrorKind::Missing.error(message))
    }

    /// Returns the logs, by their names.
    pub fn iter(&self) -> std::slice::Iter<'_, Log> {
        self.all.iter()
    }

    /// Returns the number of logs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Tells whether there is no log.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the only log, if there is exactly one.
    #[must_use]
    pub fn only(&self) -> Option<&Log> {
        match &*self.all {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Returns the names, with commas between them.
    #[must_use]
    pub fn names(&self) -> String {
        list_names(&self.all)
    }

    /// Returns the open store of a log.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open(&self, log: &Log) -> Result<Arc<Store>, StoreError> {
        match &log.source {
            Source::Running(store) => Ok(Arc::clone(store)),
            Source::Own(path) | Source::Copy(path) => self.copies.get(path).await,
        }
    }

    /// Finds the decision with this beginning of an identifier in each log.
    pub async fn find(&self, id: &str) -> Lookup {
        let id = id.to_ascii_uppercase();
        let mut lookup = Lookup::default();
        for log in &self.all {
            let found = async { self.open(log).await?.decision(&id).await };
            let name = log.name.clone();
            match found.await {
                Ok(None) => {}
                Ok(Some(entry)) => lookup.found.push(Listed { log: name, entry }),
                Err(error) => lookup.faults.push(Fault { log: name, error }),
            }
        }
        lookup
    }

    /// Returns the number of the newest entry of each log, of any kind; 0 for an empty log.
    pub async fn ends(&self) -> (Places, Vec<Fault>) {
        let (mut ends, mut faults) = (Places::default(), Vec::new());
        for log in &self.all {
            let extent = async { self.open(log).await?.extent().await };
            match extent.await {
                Ok(extent) => ends.insert(&log.name, Place::At(extent.size)),
                Err(error) => faults.push(Fault { log: log.name.clone(), error }),
            }
        }
        (ends, faults)
    }
}

impl<'l> IntoIterator for &'l Logs {
    type Item = &'l Log;
    type IntoIter = std::slice::Iter<'l, Log>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

fn list_names<'l>(logs: impl IntoIterator<Item = &'l Log>) -> String {
    let names: Vec<&str> = logs.into_iter().map(|log| log.name.as_str()).collect();
    names.join(", ")
}

/// Returns the failure to run work on a separate thread.
fn lost(path: &Path) -> StoreError {
    failed(format!("{}: no thread to open it", path.display()))
}

#[cfg(test)]
mod tests;
