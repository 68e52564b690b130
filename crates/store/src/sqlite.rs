//! The embedded engine: one SQLite file.
//!
//! One thread writes the file and a few read it (`worker`), through a write-ahead log, so that readers and the writer,
//! in this process and in others, do not wait for each other. An answered write is in the file's log: a kill of the
//! process loses nothing of it; a power cut loses the octets that the disk had not taken yet (`[store] synchronous`).
//!
//! Longer than 400 lines of code because it is the implementation of one trait, [`Store`], most of it a call into a part.
//!
//! - `schema`: tables, and views for people with the `sqlite3` shell
//! - `open`: the checks before a file is used as a store; `agree`: its agreement with the files beside it; `still`:
//!   reading where nothing can be written
//! - `rows`: values as columns; `digests`: whether a row is what was written; `error`: failures as sentences
//! - `guard`: the files of an open store stay as they are; `log`: the write-ahead log stays bounded
//! - `write`, `read`, `search`, `figures`, `prune`: the work on it; `origin_update`: the update of an origin; `overrides`: those that people add
//! - `review`: acknowledgements
//! - `hours`, `fetches`: counts of decisions, and of fetches of robots.txt, by hour
//! - `denials`: denials as rows, for programs that read the database without crawlgate
//! - `entries`: the decision log and the tree over it; `objects`: what its entries name
//! - `rotate`: a new key for the log; `rotations`: the keys that others have replaced
//! - `append_notifier`: the entries that the store appends by itself, told to the rest of the process
//! - `bounds`: the room of each part; `robots`: which texts give room; `belief`: the time that retention believes
//! - [`repair`]: checks and rebuilds of a damaged database; [`fork`]: the way on behind a lost end of the log
//! - [`collected`]: the copy of a log of another machine; `kind`: what tells it from the store of a gate
//! - `backup`: a copy while it is in use; `shipping`: the place up to which another place has the log, too
//! - [`sql`]: statements that people write

mod agree;
mod append_notifier;
mod backup;
mod batch_retention;
mod belief;
mod bounds;
pub mod collected;
mod denials;
mod digests;
mod entries;
mod error;
mod fetches;
mod figures;
pub mod fork;
mod guard;
mod header;
mod hours;
mod kind;
mod log;
mod objects;
mod open;
mod origin_update;
mod overrides;
mod prune;
mod read;
pub mod repair;
mod review;
mod robots;
mod rotate;
mod rotations;
mod rows;
mod schema;
mod search;
mod shipping;
pub mod sql;
mod still;
mod worker;
mod write;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

pub use self::agree::is_state_gone;
pub(super) use self::agree::{finish_rotation, require_name};
pub use self::backup::backup;
use self::batch_retention::BatchRetention;
use self::bounds::Parts;
use self::denials::{Room, daily, recent};
use self::entries::{Blocks, Head, StoredTree};
use self::guard::Guard;
use self::log::CarryOver;
pub(super) use self::open::kind_of;
use self::worker::Workers;
use self::write::LogMemory;
use super::changes::Announcer;
use super::figures::Figures;
use super::rotation::{Rotation, RotationReason};
use super::state_file::{StateFile, unwritable};
use super::{
    Access, Acknowledgement, Appended, Batch, Belief, DecisionQuery, Extent, Fetch, FetchSums,
    FleetOverrides, GroupBy, GroupCount, Hourly, LogKey, Miscount, OriginQuery, Pending, Progress,
    Pruned, Removed, Retention, Review, Reviewed, Sha256, ShipMark, Size, Store, StoreError,
    StoreErrorKind, StoredCheckpoint, StoredDecision, StoredOrigin, StoredRoot,
};
use crawlgate_config::Synchronous;
use crawlgate_origins::identity;
use crawlgate_policy::overrides::{Override, OverrideId};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{ConsistencyProof, InclusionProof, KeyName, Signature};

/// Threads that read beside the one that writes.
const READERS: usize = 2;

/// A store in an SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    path: Arc<Path>,
    readers: Workers,
    /// The reader for long searches through many records, so that a request's own read never waits behind one.
    walker: Workers,
    blocks: Arc<Blocks>,
    /// The end of the log. The writer alone locks it.
    memory: Arc<Mutex<LogMemory>>,
    /// The bounds of a batch; `None` until maintenance begins. The writer alone locks it.
    batch_retention: Arc<Mutex<Option<BatchRetention>>>,
    announcer: Announcer,
    /// Announces checkpoints.
    signing: Announcer,
    state: Arc<StateFile>,
    log: Arc<CarryOver>,
    /// `None` for a store opened to be read. Dropped last: the last connection that writes carries the log over.
    writer: Option<Writer>,
    /// The place of a temporary store, which goes with it.
    #[cfg(any(test, feature = "test-support"))]
    _folder: Option<tempfile::TempDir>,
}

/// The thread that writes.
#[derive(Debug)]
struct Writer {
    thread: Workers,
    guard: Arc<Guard>,
}

impl Sqlite {
    /// Opens the store at `path`; with [`Access::Write`] it is created if it is missing.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or belongs to another program or a newer crawlgate.
    pub fn open(path: &Path, access: Access, synchronous: Synchronous) -> Result<Self, StoreError> {
        open::require(path, access)?;
        let path: Arc<Path> = path.into();
        let state = Arc::new(StateFile::of(&path));
        let writer = match access {
            Access::Read => None,
            Access::Write => {
                let at = |failure: error::Failure| failure.at(&path);
                agree::refuse_foreign_log(&path).map_err(at)?;
                let mut connection = open::writer(&path, synchronous)?;
                agree::require(&mut connection, &path, &state).map_err(at)?;
                let head = Head::read(&connection).map_err(at)?;
                let end = (head.size(), head.root());
                state
                    .begin(end)
                    .map_err(|error| unwritable(&path, &error))?;
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
        let readers = (0..READERS).map(|_| reader(&path));
        let readers = readers.collect::<Result<_, _>>()?;
        let walker = vec![reader(&path)?];
        Ok(Self {
            readers: Workers::start("store-reader", &path, readers)?,
            walker: Workers::start("store-walker", &path, walker)?,
            memory: Arc::new(Mutex::new(LogMemory::new(Arc::clone(&blocks)))),
            blocks,
            batch_retention: Arc::default(),
            announcer: Announcer::default(),
            signing: Announcer::default(),
            state,
            log: Arc::default(),
            writer,
            path,
            #[cfg(any(test, feature = "test-support"))]
            _folder: None,
        })
    }

    /// Replaces the key of the log by the first one of `new`, in one transaction. It is on the disk when the call has
    /// resolved.
    pub(super) fn rotate(
        &self,
        new: LogKey,
        words: RotationReason,
        now: Moment,
    ) -> Pending<'_, Rotation> {
        let (memory, state) = (Arc::clone(&self.memory), Arc::clone(&self.state));
        let signing = self.signing.clone();
        self.write(move |connection| {
            let mut memory = memory.lock();
            let (rotation, end) = write::durably(connection, |connection| {
                rotate::rotate(connection, &mut memory, &new, &words, now)
            })?;
            state.signed(end);
            signing.announce();
            Ok(rotation)
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
        Self {
            _folder: Some(folder),
            ..store.unwrap()
        }
    }

    /// Runs a closure on the writing thread.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut rusqlite::Connection) -> Result<T, error::Failure> + Send + 'static,
    ) -> Pending<'static, T> {
        match &self.writer {
            Some(Writer { thread, guard }) => {
                let guard = Arc::clone(guard);
                thread.ask(move |connection| guard.during(|| work(connection)))
            }
            None => {
                let error = StoreError {
                    kind: StoreErrorKind::Denied,
                    message: format!("{}: the store was opened to be read", self.path.display()),
                };
                Box::pin(std::future::ready(Err(error)))
            }
        }
    }

    /// Changes overrides on the writing thread, and announces it.
    fn change_overrides<T: Send + 'static>(
        &self,
        change: impl FnOnce(
            &mut rusqlite::Connection,
            &mut write::LogMemory,
        ) -> Result<T, error::Failure>
        + Send
        + 'static,
    ) -> Pending<'_, T> {
        let announcer = self.announcer.clone();
        let (memory, state) = (Arc::clone(&self.memory), Arc::clone(&self.state));
        self.write(move |connection| {
            let mut memory = memory.lock();
            let result = write::durably(connection, |connection| change(connection, &mut memory))?;
            announcer.announce();
            state.wrote(memory.end());
            Ok(result)
        })
    }
}

impl Store for Sqlite {
    fn write(&self, batch: Batch) -> Pending<'_, ()> {
        let (path, batch_retention) = (Arc::clone(&self.path), Arc::clone(&self.batch_retention));
        let (state, log) = (Arc::clone(&self.state), Arc::clone(&self.log));
        let memory = Arc::clone(&self.memory);
        self.write(move |connection| {
            let mut batch_retention = batch_retention.lock();
            let mut memory = memory.lock();
            let parts = batch_retention.as_ref().and_then(BatchRetention::parts);
            log.before(connection, &path, parts)?;
            let mut work = |connection: &mut rusqlite::Connection| {
                write::batch(connection, &batch, batch_retention.as_mut(), &mut memory)
            };
            // The first record must not vanish with the store's whole memory.
            let end = match batch.is_durable || state.is_first() {
                true => write::durably(connection, work)?,
                false => work(connection)?,
            };
            if let Some(end) = end {
                state.wrote(end);
            }
            log.after(connection, &path, parts);
            Ok(())
        })
    }

    fn tell_appended(&self, tell: Arc<dyn Fn(Appended) + Send + Sync>) -> Pending<'_, ()> {
        let memory = Arc::clone(&self.memory);
        self.write(move |connection| memory.lock().tell(connection, tell))
    }

    fn origin(&self, origin: &Origin) -> Pending<'_, Vec<StoredOrigin>> {
        let origin = origin.clone();
        self.readers
            .ask(move |connection| read::origin(connection, origin.as_str()))
    }

    fn origins(&self, query: OriginQuery) -> Pending<'_, Vec<StoredOrigin>> {
        self.readers
            .ask(move |connection| read::origins(connection, &query))
    }

    fn fetches(&self, origin: &Origin, limit: usize) -> Pending<'_, Vec<Fetch>> {
        let origin = origin.clone();
        self.readers
            .ask(move |connection| read::fetches(connection, origin.as_str(), limit))
    }

    fn forget(&self, origin: &Origin, identity: Option<&identity::Identity>) -> Pending<'_, bool> {
        let (origin, identity) = (origin.clone(), identity.map(ToString::to_string));
        self.write(move |connection| {
            write::forget(connection, origin.as_str(), identity.as_deref())
        })
    }

    fn snapshot(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>> {
        self.readers
            .ask(move |connection| read::snapshot(connection, sha256))
    }

    fn object(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>> {
        self.readers
            .ask(move |connection| objects::body(connection, &sha256))
    }

    fn policy(&self, sha256: Sha256) -> Pending<'_, Option<String>> {
        self.readers
            .ask(move |connection| objects::policy_settings(connection, &sha256))
    }

    fn decisions(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>> {
        let blocks = Arc::clone(&self.blocks);
        self.walker
            .ask(move |connection| search::decisions(connection, &blocks, &query))
    }

    fn events(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>> {
        let blocks = Arc::clone(&self.blocks);
        self.walker
            .ask(move |connection| search::events(connection, &blocks, &query))
    }

    fn decision(&self, id: &str) -> Pending<'_, Option<StoredDecision>> {
        let (id, blocks) = (id.to_owned(), Arc::clone(&self.blocks));
        self.readers
            .ask(move |connection| read::decision(connection, &blocks, &id))
    }

    fn count_by(
        &self,
        query: DecisionQuery,
        key: GroupBy,
        limit: usize,
    ) -> Pending<'_, Vec<GroupCount>> {
        let blocks = Arc::clone(&self.blocks);
        self.walker
            .ask(move |connection| search::count_by(connection, &blocks, &query, key, limit))
    }

    fn figures(&self, query: DecisionQuery, figures: Figures) -> Pending<'_, Figures> {
        let blocks = Arc::clone(&self.blocks);
        self.walker
            .ask(move |connection| figures::count(connection, &blocks, &query, figures))
    }

    fn hours(&self, since: Moment, until: Moment) -> Pending<'_, Vec<Hourly>> {
        self.readers
            .ask(move |connection| hours::read(connection, since, until))
    }

    fn fetch_sums(&self, since: Moment, until: Moment) -> Pending<'_, FetchSums> {
        self.readers
            .ask(move |connection| fetches::read(connection, since, until))
    }

    fn acknowledge(&self, all: Vec<Review>, note: Acknowledgement) -> Pending<'_, Vec<Reviewed>> {
        let (memory, state) = (Arc::clone(&self.memory), Arc::clone(&self.state));
        self.write(move |connection| {
            let mut memory = memory.lock();
            let results = write::durably(connection, |connection| {
                review::acknowledge(connection, &mut memory, &all, &note)
            })?;
            if results.contains(&Reviewed::Done) {
                state.wrote(memory.end());
            }
            Ok(results)
        })
    }

    fn records(&self, after: u64, limit: usize) -> Pending<'_, Vec<StoredDecision>> {
        let blocks = Arc::clone(&self.blocks);
        self.readers
            .ask(move |connection| read::records(connection, &blocks, after, limit))
    }

    fn checkpoints(&self) -> Pending<'_, Vec<StoredCheckpoint>> {
        self.readers
            .ask(|connection| entries::checkpoint::all(connection))
    }

    fn extent(&self) -> Pending<'_, Extent> {
        self.readers.ask(|connection| {
            let (first, size) = entries::extent(connection)?;
            Ok(Extent { first, size })
        })
    }

    fn roots(&self) -> Pending<'_, Vec<StoredRoot>> {
        self.readers.ask(|connection| entries::roots(connection))
    }

    fn inclusion(&self, index: u64, size: u64) -> Pending<'_, InclusionProof> {
        let blocks = Arc::clone(&self.blocks);
        self.readers
            .ask(move |connection| StoredTree::new(connection, &blocks).inclusion(index, size))
    }

    fn consistency(&self, old: u64, new: u64) -> Pending<'_, ConsistencyProof> {
        let blocks = Arc::clone(&self.blocks);
        self.readers
            .ask(move |connection| StoredTree::new(connection, &blocks).consistency(old, new))
    }

    fn is_dropped(&self, sha256: Sha256) -> Pending<'_, bool> {
        self.readers
            .ask(move |connection| robots::is_dropped(connection, sha256))
    }

    fn checkpoint(&self, key: Arc<LogKey>, now: Moment) -> Pending<'_, Option<StoredCheckpoint>> {
        let (memory, state) = (Arc::clone(&self.memory), Arc::clone(&self.state));
        let (signing, path) = (self.signing.clone(), Arc::clone(&self.path));
        self.write(move |connection| {
            let mut memory = memory.lock();
            let signed = write::durably(connection, |connection| {
                write::checkpoint(connection, &mut memory, &path, &key, now)
            })?;
            Ok(signed.map(|(checkpoint, root)| {
                state.signed((checkpoint.size, root));
                signing.announce();
                checkpoint
            }))
        })
    }

    fn rotations(&self) -> Pending<'_, Vec<Rotation>> {
        self.readers
            .ask(|connection| rotations::readable(connection))
    }

    fn damaged_rotations(&self) -> Pending<'_, Vec<u64>> {
        self.readers
            .ask(|connection| rotations::damaged(connection))
    }

    fn miscounted(&self) -> Pending<'_, Option<Miscount>> {
        let blocks = Arc::clone(&self.blocks);
        self.walker
            .ask(move |connection| hours::miscounted(connection, &blocks))
    }

    fn signed(&self, seen: u64) -> Pending<'_, u64> {
        let newest = || {
            self.readers.ask(|connection| {
                let newest = entries::checkpoint::last(connection)?;
                Ok(newest.map_or(0, |newest| newest.size))
            })
        };
        Box::pin(self.signing.changed(seen, newest))
    }

    fn cosign(&self, size: u64, line: Signature) -> Pending<'_, bool> {
        self.write(move |connection| write::cosign(connection, size, &line))
    }

    fn note_ahead(&self, witness: &str, log: &KeyName, size: Option<u64>) -> Pending<'_, ()> {
        let (witness, log) = (witness.to_owned(), log.clone());
        self.write(move |connection| write::note_ahead(connection, &witness, log.as_str(), size))
    }

    fn ahead(&self, log: &KeyName) -> Pending<'_, Vec<(String, u64)>> {
        let log = log.clone();
        self.readers
            .ask(move |connection| entries::checkpoint::ahead(connection, log.as_str()))
    }

    fn overrides(&self) -> Pending<'_, Vec<Override>> {
        self.readers.ask(|connection| read::overrides(connection))
    }

    fn removed_overrides(&self) -> Pending<'_, Vec<Removed>> {
        self.readers
            .ask(|connection| read::removed_overrides(connection))
    }

    fn add_override(&self, new: Override) -> Pending<'_, OverrideId> {
        self.change_overrides(move |connection, memory| overrides::add(connection, memory, &new))
    }

    fn remove_override(&self, id: OverrideId, by: String, now: Moment) -> Pending<'_, bool> {
        self.change_overrides(move |connection, memory| {
            overrides::remove(connection, memory, id, &by, now)
        })
    }

    fn merge_overrides(&self, all: FleetOverrides, now: Moment) -> Pending<'_, bool> {
        self.change_overrides(move |connection, memory| {
            overrides::fleet::merge(connection, memory, &all, now)
        })
    }

    fn share_overrides(&self, instance: String, now: Moment) -> Pending<'_, bool> {
        self.change_overrides(move |connection, memory| {
            overrides::fleet::share(connection, memory, &instance, now)
        })
    }

    fn version(&self) -> Pending<'_, u64> {
        let guard = self.writer.as_ref().map(|writer| Arc::clone(&writer.guard));
        self.readers.ask(move |connection| {
            // Asked every second, with requests or without.
            guard.map_or(Ok(()), |guard| guard.look())?;
            read::version(connection)
        })
    }

    fn fault(&self) -> Option<&'static str> {
        let what = "its write-ahead log cannot be carried over into the database";
        self.log.is_failing().then_some(what)
    }

    fn changes(&self, seen: u64) -> Pending<'_, u64> {
        Box::pin(self.announcer.changed(seen, || self.version()))
    }

    fn progress(&self) -> Pending<'_, Progress> {
        self.readers.ask(|connection| belief::progress(connection))
    }

    fn note_belief(&self, belief: Belief) -> Pending<'_, ()> {
        self.write(move |connection| belief::note(connection, &belief))
    }

    fn ship_to(&self, to: Option<ShipMark>) -> Pending<'_, u64> {
        self.write(move |connection| {
            write::durably(connection, |connection| shipping::ship_to(connection, to))
        })
    }

    fn note_shipped(&self, size: u64) -> Pending<'_, ()> {
        self.write(move |connection| {
            write::durably(connection, |connection| shipping::note(connection, size))
        })
    }

    fn shipped(&self) -> Pending<'_, Option<u64>> {
        self.readers.ask(|connection| shipping::until(connection))
    }

    fn prune(&self, retention: Retention, now: Moment) -> Pending<'_, Pruned> {
        let (path, batch_retention) = (Arc::clone(&self.path), Arc::clone(&self.batch_retention));
        let (log, memory) = (Arc::clone(&self.log), Arc::clone(&self.memory));
        let state = Arc::clone(&self.state);
        self.write(move |connection| {
            log.again(connection, &path, retention.max_size.map(Parts::of));
            let params = prune::RemovalParams {
                keep: retention.keep,
                now,
            };
            let mut memory = memory.lock();
            let mut step = prune::step(connection, &mut memory, &path, retention, &params)?;
            if step.decisions > 0 {
                state.wrote(memory.end());
            }
            let mut batch_retention = batch_retention.lock();
            if let Some(batch_retention) = batch_retention.as_mut() {
                step.add(batch_retention.take());
            }
            let next = BatchRetention::new(retention, now);
            bounds::bound_log(connection, next.parts())?;
            *batch_retention = Some(next);
            Ok(step)
        })
    }

    fn list_denials(&self, max_size: Option<u64>) -> Pending<'_, ()> {
        // A log that cannot be carried over has room for records alone.
        if self.log.is_failing() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let (room, blocks) = (Room::of(max_size), Arc::clone(&self.blocks));
        Box::pin(async move {
            let look = self
                .walker
                .ask(move |connection| recent::look(connection, &blocks, room));
            let Some(refresh) = look.await? else {
                return Ok(());
            };
            let (parts, done) = refresh.into_parts();
            for rows in parts {
                self.write(move |connection| recent::put(connection, &rows))
                    .await?;
            }
            self.write(move |connection| done.note(connection)).await
        })
    }

    fn count_denied_rules(&self, max_size: Option<u64>) -> Pending<'_, ()> {
        if self.log.is_failing() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let room = Room::of(max_size);
        Box::pin(async move {
            let blocks = Arc::clone(&self.blocks);
            let look = self
                .walker
                .ask(move |connection| daily::look(connection, &blocks));
            let Some(refresh) = look.await? else {
                return Ok(());
            };
            let refresh = Arc::new(refresh);
            for day in &refresh.days {
                let (mut count, mut more) = (daily::Count::of(*day), true);
                while more {
                    let blocks = Arc::clone(&self.blocks);
                    let step = self.walker.ask(move |connection| {
                        let more = count.step(connection, &blocks)?;
                        Ok((count, more))
                    });
                    (count, more) = step.await?;
                }
                let refresh = Arc::clone(&refresh);
                self.write(move |connection| refresh.put(connection, count, room))
                    .await?;
            }
            let refresh = Arc::clone(&refresh);
            self.write(move |connection| refresh.note(connection, room))
                .await
        })
    }

    fn size(&self) -> Pending<'_, Size> {
        let path = Arc::clone(&self.path);
        self.readers.ask(move |connection| {
            let size = read::size(connection)?;
            let bytes = bounds::on_disk(connection, &path)?;
            Ok(Size { bytes, ..size })
        })
    }
}

#[cfg(test)]
mod tests;
