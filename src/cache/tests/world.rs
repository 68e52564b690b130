//! Several caches after each other, on one store that fails on command.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::audit::Log;
use crawlgate_policy::overrides::{Override, OverrideId};
use crawlgate_store::figures::Figures;
use crawlgate_store::sqlite::Sqlite;
use crawlgate_store::{
    Acknowledgement, Batch, DecisionQuery, GroupBy, GroupCount, LogKey, OriginQuery, Pending,
    Pruned, Retention, Sha256, ShipMark, Size, Store, StoreErrorKind, StoredCheckpoint,
    StoredDecision, StoredOrigin, StoredState,
};
use crawlgate_tlog::{ConsistencyProof, InclusionProof, KeyName, Signature};

/// The parts that outlive the process.
pub(super) struct World {
    pub(super) store: Arc<Faulty>,
    /// The directory of a store on disk, if the test uses one.
    pub(super) disk: Option<tempfile::TempDir>,
    pub(super) clock: Clock,
    pub(super) change: fn(&mut RobotsConfig),
}

impl World {
    pub(super) fn new() -> World {
        World {
            store: Arc::default(),
            disk: None,
            clock: Clock::manual(START),
            change: |_| {},
        }
    }

    /// Returns a world in which each process opens the store anew, from its file.
    pub(super) fn on_disk() -> World {
        World {
            disk: Some(tempfile::tempdir().expect("a folder")),
            ..World::new()
        }
    }

    fn engine(&self) -> Arc<dyn Store> {
        let Some(disk) = &self.disk else {
            return Arc::clone(&self.store) as _;
        };
        let mut config = Config::builtin(&Places::default());
        config.store.path = Some(disk.path().join("crawlgate.db"));
        store::open(&config, store::Access::Write).expect("a store")
    }

    /// Starts a new process.
    pub(super) fn life(&self) -> ProcessLife {
        let mut everything = Config::builtin(&Places::default());
        everything.log.file = None;
        let log = Log::open(&everything, Some(self.engine()), &self.clock).expect("a log");
        let log = Arc::new(log);
        let persistent = PersistentStates::of(&log);
        assert!(persistent.is_some());
        let lab = Harness::on(self.clock.clone(), persistent, self.change);
        ProcessLife { lab, log }
    }

    /// Sends one request in a process of its own; the fetch, if there is one, ends with `result`. Returns the stance
    /// and the number of fetches.
    pub(super) async fn once(&self, origin: &Origin, result: AccessResult) -> (Stance, usize) {
        let life = self.life();
        life.lab.end(result);
        let stance = life.lab.stance(origin).await;
        let fetches = life.lab.fetches();
        life.end();
        (stance, fetches)
    }

    pub(super) async fn kept(&self, origin: &Origin) -> Option<StoredOrigin> {
        self.engine().origin(origin).await.expect("a store").pop()
    }

    pub(super) async fn outage(&self, origin: &Origin) -> crawlgate_origins::state::Outage {
        match self.kept(origin).await.expect("it is known").state {
            StoredState::Unreachable { outage, .. } => outage,
            other => panic!("reachable: {other:?}"),
        }
    }
}

pub(super) struct ProcessLife {
    pub(super) lab: Harness,
    pub(super) log: Arc<Log>,
}

impl ProcessLife {
    /// Ends the process in an orderly way.
    pub(super) fn end(self) {
        self.log.close().expect("all is written");
    }
}

pub(super) fn days(count: u32) -> Duration {
    DAY * count
}

pub(super) fn is_disallowed(stance: &Stance) -> bool {
    matches!(stance, Stance::DisallowAll { .. })
}

/// A store that fails on command.
#[derive(Debug)]
pub(super) struct Faulty {
    inner: Sqlite,
    /// Number of look-ups of an origin.
    pub(super) asked: std::sync::atomic::AtomicUsize,
    pub(super) fails_reads: AtomicBool,
    pub(super) hangs_reads: AtomicBool,
    pub(super) loses_texts: AtomicBool,
    pub(super) holds_writes: AtomicBool,
}

impl Default for Faulty {
    fn default() -> Self {
        Self {
            inner: Sqlite::temporary(),
            asked: Default::default(),
            fails_reads: AtomicBool::default(),
            hangs_reads: AtomicBool::default(),
            loses_texts: AtomicBool::default(),
            holds_writes: AtomicBool::default(),
        }
    }
}

impl Faulty {
    fn checked<'a, T: Send + 'a>(&'a self, pending: Pending<'a, T>) -> Pending<'a, T> {
        let error = StoreError {
            kind: StoreErrorKind::Busy,
            message: "as the test asked".to_owned(),
        };
        Box::pin(async move {
            if self.hangs_reads.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if self.fails_reads.load(Ordering::Relaxed) {
                return Err(error);
            }
            pending.await
        })
    }
}

impl Store for Faulty {
    fn write(&self, batch: Batch) -> Pending<'_, ()> {
        Box::pin(async move {
            while self.holds_writes.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            self.inner.write(batch).await
        })
    }

    fn tell_appended(&self, tell: Arc<dyn Fn(store::Appended) + Send + Sync>) -> Pending<'_, ()> {
        self.inner.tell_appended(tell)
    }

    fn origin(&self, origin: &Origin) -> Pending<'_, Vec<StoredOrigin>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.checked(self.inner.origin(origin))
    }

    fn snapshot(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>> {
        if self.loses_texts.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        self.checked(self.inner.snapshot(sha256))
    }

    fn forget(&self, origin: &Origin, which: Option<&Identity>) -> Pending<'_, bool> {
        if self.fails_reads.load(Ordering::Relaxed) {
            return self.checked(Box::pin(std::future::ready(Ok(false))));
        }
        self.inner.forget(origin, which)
    }

    fn origins(&self, query: OriginQuery) -> Pending<'_, Vec<StoredOrigin>> {
        self.inner.origins(query)
    }

    fn fetches(&self, origin: &Origin, limit: usize) -> Pending<'_, Vec<store::Fetch>> {
        self.inner.fetches(origin, limit)
    }

    fn object(&self, sha256: Sha256) -> Pending<'_, Option<Vec<u8>>> {
        self.inner.object(sha256)
    }

    fn policy(&self, sha256: Sha256) -> Pending<'_, Option<String>> {
        self.inner.policy(sha256)
    }

    fn decisions(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>> {
        self.inner.decisions(query)
    }

    fn events(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>> {
        self.inner.events(query)
    }

    fn decision(&self, id: &str) -> Pending<'_, Option<StoredDecision>> {
        self.inner.decision(id)
    }

    fn count_by(
        &self,
        query: DecisionQuery,
        key: GroupBy,
        limit: usize,
    ) -> Pending<'_, Vec<GroupCount>> {
        self.inner.count_by(query, key, limit)
    }

    fn figures(&self, query: DecisionQuery, figures: Figures) -> Pending<'_, Figures> {
        self.inner.figures(query, figures)
    }

    fn hours(&self, since: Moment, until: Moment) -> Pending<'_, Vec<store::Hourly>> {
        self.inner.hours(since, until)
    }

    fn fetch_sums(&self, since: Moment, until: Moment) -> Pending<'_, store::FetchSums> {
        self.inner.fetch_sums(since, until)
    }

    fn acknowledge(
        &self,
        all: Vec<store::Review>,
        note: Acknowledgement,
    ) -> Pending<'_, Vec<store::Reviewed>> {
        self.inner.acknowledge(all, note)
    }

    fn records(&self, after: u64, limit: usize) -> Pending<'_, Vec<StoredDecision>> {
        self.inner.records(after, limit)
    }

    fn checkpoints(&self) -> Pending<'_, Vec<StoredCheckpoint>> {
        self.inner.checkpoints()
    }

    fn checkpoint(&self, key: Arc<LogKey>, now: Moment) -> Pending<'_, Option<StoredCheckpoint>> {
        self.inner.checkpoint(key, now)
    }

    fn signed(&self, seen: u64) -> Pending<'_, u64> {
        self.inner.signed(seen)
    }

    fn cosign(&self, size: u64, line: Signature) -> Pending<'_, bool> {
        self.inner.cosign(size, line)
    }

    fn note_ahead(&self, witness: &str, log: &KeyName, size: Option<u64>) -> Pending<'_, ()> {
        self.inner.note_ahead(witness, log, size)
    }

    fn ahead(&self, log: &KeyName) -> Pending<'_, Vec<(String, u64)>> {
        self.inner.ahead(log)
    }

    fn extent(&self) -> Pending<'_, store::Extent> {
        self.inner.extent()
    }

    fn roots(&self) -> Pending<'_, Vec<store::StoredRoot>> {
        self.inner.roots()
    }

    fn inclusion(&self, index: u64, size: u64) -> Pending<'_, InclusionProof> {
        self.inner.inclusion(index, size)
    }

    fn consistency(&self, old: u64, new: u64) -> Pending<'_, ConsistencyProof> {
        self.inner.consistency(old, new)
    }

    fn overrides(&self) -> Pending<'_, Vec<Override>> {
        self.inner.overrides()
    }

    fn removed_overrides(&self) -> Pending<'_, Vec<store::Removed>> {
        self.inner.removed_overrides()
    }

    fn add_override(&self, new: Override) -> Pending<'_, OverrideId> {
        self.inner.add_override(new)
    }

    fn remove_override(&self, id: OverrideId, by: String, now: Moment) -> Pending<'_, bool> {
        self.inner.remove_override(id, by, now)
    }

    fn merge_overrides(&self, all: store::FleetOverrides, now: Moment) -> Pending<'_, bool> {
        self.inner.merge_overrides(all, now)
    }

    fn share_overrides(&self, instance: String, now: Moment) -> Pending<'_, bool> {
        self.inner.share_overrides(instance, now)
    }

    fn is_dropped(&self, sha256: Sha256) -> Pending<'_, bool> {
        self.inner.is_dropped(sha256)
    }

    fn version(&self) -> Pending<'_, u64> {
        self.inner.version()
    }

    fn changes(&self, seen: u64) -> Pending<'_, u64> {
        self.inner.changes(seen)
    }

    fn progress(&self) -> Pending<'_, store::Progress> {
        self.inner.progress()
    }

    fn note_belief(&self, belief: store::Belief) -> Pending<'_, ()> {
        self.inner.note_belief(belief)
    }

    fn ship_to(&self, to: Option<ShipMark>) -> Pending<'_, u64> {
        self.inner.ship_to(to)
    }

    fn note_shipped(&self, size: u64) -> Pending<'_, ()> {
        self.inner.note_shipped(size)
    }

    fn shipped(&self) -> Pending<'_, Option<u64>> {
        self.inner.shipped()
    }

    fn prune(&self, retention: Retention, now: Moment) -> Pending<'_, Pruned> {
        self.inner.prune(retention, now)
    }

    fn size(&self) -> Pending<'_, Size> {
        self.inner.size()
    }
}
