//! Several caches after each other, on one store that fails on command.

use super::*;
use crawlgate_evidence::Log;
use crawlgate_store::{Store, StoredOrigin, StoredState};

/// The parts that outlive the process.
pub(super) struct World {
    pub(super) store: Arc<Store>,
    /// The directory of a store on disk, if the test uses one.
    pub(super) disk: Option<tempfile::TempDir>,
    pub(super) clock: Clock,
    pub(super) change: fn(&mut RobotsConfig),
}

impl World {
    pub(super) fn new() -> World {
        World {
            store: Arc::new(Store::temporary()),
            disk: None,
            clock: Clock::manual(START),
            change: |_| {},
        }
    }

    /// Returns a world in which each process opens the store anew, from its file.
    pub(super) fn on_disk() -> World {
        World { disk: Some(tempfile::tempdir().expect("a folder")), ..World::new() }
    }

    fn engine(&self) -> Arc<Store> {
        let Some(disk) = &self.disk else {
            return Arc::clone(&self.store);
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

    /// Sends one request in a new process; the fetch, if there is one, ends with `result`. Returns the stance
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
