//! The store in its SQLite file.
//!
//! One thread writes the file and a few read it (`worker`), through a write-ahead log, so that readers and the writer,
//! in this process and in others, do not wait for each other. An answered write is in the file's log: a kill of the
//! process loses nothing of it; a power cut loses the octets that the disk had not taken yet (`[store] synchronous`).
//!
//! - `questions`, `acts`: what a [`Store`] answers and does, most of it a call into a part
//! - `schema`: tables, and views for people with the `sqlite3` shell
//! - `file`: the files of a database; `open`: the checks before one is used as a store; `agree`: its agreement with the files
//!   beside it; `still`: reading where nothing can be written
//! - `engine`: a statement in one call, and transactions; `rows`: values as columns; `digests`: whether a row is what was
//!   written; `error`: failures as sentences
//! - `guard`: the files of an open store stay as they are; `bounds`: the room of each part, the write-ahead log included
//! - `log`: the end of the log in memory, and the transactions that append to it
//! - `write`, `read`, `search`, `prune`: the work on it; `origin_update`: the update of an origin; `overrides`: those that
//!   people add
//! - `hours`, `fetches`: counts of decisions, and of fetches of robots.txt, by hour
//! - `entries`: the decision log and the tree over it; `objects`: what its entries name
//! - `rotations`: the keys that others have replaced
//! - `robots`: which texts give room; `notes`: the numbers of the table `meta`
//! - [`repair`]: checks and rebuilds of a damaged database; [`fork`]: the way on behind a lost end of the log
//! - [`collected`]: the copy of a log of another machine
//! - `backup`: a copy while it is in use
//! - [`sql`]: statements that people write

mod acts;
mod agree;
mod backup;
mod bounds;
pub mod collected;
mod digests;
mod engine;
mod entries;
mod error;
mod fetches;
mod file;
pub mod fork;
mod guard;
mod hours;
mod log;
mod notes;
mod objects;
mod open;
mod origin_update;
mod overrides;
mod prune;
mod questions;
mod read;
pub mod repair;
mod robots;
mod rotations;
mod rows;
mod schema;
mod search;
pub mod sql;
mod still;
mod worker;
mod write;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use rusqlite::Connection;

pub use self::agree::is_state_gone;
pub(super) use self::agree::{finish_rotation, require_name};
pub use self::backup::backup;
use self::bounds::CarryOver;
use self::engine::Failure;
use self::entries::{Blocks, Head};
pub(super) use self::file::kind_of;
use self::guard::Guard;
pub use self::hours::Miscount;
use self::log::LogMemory;
use self::prune::BatchRetention;
use self::worker::Workers;
use super::changes::Announcer;
#[cfg(any(test, feature = "test-support"))]
use super::faults::Faults;
use super::state_file::{StateFile, unwritable};
use super::{Access, StoreError, StoreErrorKind};
use crawlgate_config::Synchronous;

/// Threads that read beside the one that writes.
const READERS: usize = 2;

/// A store in an SQLite file.
#[derive(Debug)]
pub struct Store {
    held: Arc<Held>,
    readers: Workers,
    /// The reader for long searches through many records, so that a request's own read never waits behind one.
    walker: Workers,
    blocks: Arc<Blocks>,
    /// `None` for a store opened to be read. Dropped last: the last connection that writes carries the log over.
    writer: Option<Writer>,
    /// The place of a temporary store, which goes with it.
    #[cfg(any(test, feature = "test-support"))]
    _folder: Option<tempfile::TempDir>,
    /// The faults that a test asks for.
    #[cfg(any(test, feature = "test-support"))]
    pub faults: Faults,
}

/// The facts of an open store that its threads share.
#[derive(Debug)]
struct Held {
    path: Arc<Path>,
    /// The end of the log. Only the writer locks it.
    memory: Mutex<LogMemory>,
    /// The bounds of a batch; `None` until maintenance begins. Only the writer locks it.
    batch_retention: Mutex<Option<BatchRetention>>,
    announcer: Announcer,
    /// Announces checkpoints.
    signing: Announcer,
    state: StateFile,
    log: CarryOver,
}

/// The thread that writes.
#[derive(Debug)]
struct Writer {
    thread: Workers,
    guard: Arc<Guard>,
}

impl Store {
    /// Opens the store at `path`; with [`Access::Write`] it is created if it is missing.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or belongs to another program or a newer crawlgate.
    pub fn open(path: &Path, access: Access, synchronous: Synchronous) -> Result<Self, StoreError> {
        open::require(path, access)?;
        let path: Arc<Path> = path.into();
        let state = StateFile::of(&path);
        let writer = match access {
            Access::Read => None,
            Access::Write => {
                let at = |failure: Failure| failure.at(&path);
                agree::refuse_foreign_log(&path).map_err(at)?;
                let mut connection = open::writer(&path, synchronous)?;
                agree::require(&mut connection, &path, &state).map_err(at)?;
                let head = Head::read(&connection).map_err(at)?;
                let end = (head.size(), head.root());
                state.begin(end).map_err(|error| unwritable(&path, &error))?;
                let guard = Arc::new(Guard::of(&path)?);
                let thread = Workers::start("store-writer", &path, vec![connection])?;
                Some(Writer { thread, guard })
            }
        };
        let blocks = Arc::new(Blocks::default());
        // Beside a writer, a connection that leaves the log out would miss records.
        let reader = match access {
            Access::Read => still::reader,
            Access::Write => open::reader,
        };
        let start = |name, count: usize| {
            let readers = (0..count).map(|_| reader(&path));
            Workers::start(name, &path, readers.collect::<Result<_, _>>()?)
        };
        let (readers, walker) = (start("store-reader", READERS)?, start("store-walker", 1)?);
        Ok(Self {
            readers,
            walker,
            held: Arc::new(Held {
                path,
                memory: Mutex::new(LogMemory::new(Arc::clone(&blocks))),
                batch_retention: Mutex::default(),
                announcer: Announcer::default(),
                signing: Announcer::default(),
                state,
                log: CarryOver::default(),
            }),
            blocks,
            writer,
            #[cfg(any(test, feature = "test-support"))]
            _folder: None,
            #[cfg(any(test, feature = "test-support"))]
            faults: Faults::default(),
        })
    }

    /// Opens a new store that goes with this value.
    #[cfg(any(test, feature = "test-support"))]
    #[must_use]
    #[expect(
        clippy::unwrap_used,
        clippy::missing_panics_doc,
        reason = "a failed unwrap is a failed test"
    )]
    pub fn temporary() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crawlgate.db");
        let store = Self::open(&path, Access::Write, Synchronous::Normal);
        Self { _folder: Some(folder), ..store.unwrap() }
    }

    /// Asks one of the readers.
    async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.ask(question).await
    }

    /// Asks one of the readers for what may stand in a block.
    async fn read_blocks<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Connection, &Blocks) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let blocks = Arc::clone(&self.blocks);
        self.read(move |connection| question(connection, &blocks)).await
    }

    /// Asks the reader for long searches.
    async fn walk<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Connection, &Blocks) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let blocks = Arc::clone(&self.blocks);
        let work = move |connection: &mut Connection| question(connection, &blocks);
        self.walker.ask(work).await
    }

    /// Runs a closure on the writing thread.
    async fn on_writer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &Held) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Some(Writer { thread, guard }) = &self.writer else {
            return Err(
                StoreErrorKind::Denied.at(&self.held.path, "the store was opened to be read")
            );
        };
        let (guard, held) = (Arc::clone(guard), Arc::clone(&self.held));
        thread.ask(move |connection| guard.during(|| work(connection, &held))).await
    }
}

#[cfg(test)]
mod tests;
