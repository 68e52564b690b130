//! States over restarts: several caches after each other, on one store.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::audit::Log;
use crate::policy::overrides::Override;
use crate::store::chain::{Gap, Seal, SealingKey};
use crate::store::in_memory::InMemoryStore;
use crate::store::{
    Acknowledgement, Batch, DecisionQuery, OriginMemory, OriginQuery, Pending, Pruned, Retention,
    Sha256, Size, Store, StoreErrorKind, StoredDecision, StoredState, Tally, TallyKey,
};

/// The parts that outlive the process.
struct World {
    store: Arc<Faulty>,
    /// The directory of a store on disk, if the test uses one.
    disk: Option<tempfile::TempDir>,
    clock: Clock,
    change: fn(&mut RobotsConfig),
}

impl World {
    fn new() -> World {
        World {
            store: Arc::default(),
            disk: None,
            clock: Clock::manual(START),
            change: |_| {},
        }
    }

    /// Returns a world in which each process opens the store anew, from its file.
    fn on_disk() -> World {
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
    fn life(&self) -> Life {
        let mut everything = Config::builtin(&Places::default());
        everything.log.file = None;
        let log = Log::open(&everything, Some(self.engine()), &self.clock).expect("a log");
        let log = Arc::new(log);
        let memory = PersistentStates::of(&log);
        assert!(memory.is_some());
        let lab = Laboratory::on(self.clock.clone(), memory, self.change);
        Life { lab, log }
    }

    /// Sends one request in a process of its own; the fetch, if there is one, ends with `result`. Returns the stance
    /// and the number of fetches.
    async fn once(&self, origin: &Origin, result: AccessResult) -> (Stance, usize) {
        let life = self.life();
        life.lab.end(result);
        let stance = life.lab.stance(origin).await;
        let fetches = life.lab.fetches();
        life.end();
        (stance, fetches)
    }

    async fn kept(&self, origin: &Origin) -> Option<OriginMemory> {
        self.engine().origin(origin).await.expect("a store").pop()
    }

    async fn outage(&self, origin: &Origin) -> crate::robots::state::Outage {
        match self.kept(origin).await.expect("it is known").state {
            StoredState::Unreachable { outage, .. } => outage,
            other => panic!("reachable: {other:?}"),
        }
    }
}

struct Life {
    lab: Laboratory,
    log: Arc<Log>,
}

impl Life {
    /// Ends the process in an orderly way.
    fn end(self) {
        self.log.close().expect("all is written");
    }
}

fn days(count: u32) -> Duration {
    DAY * count
}

fn is_disallowed(stance: &Stance) -> bool {
    matches!(stance, Stance::DisallowAll { .. })
}

#[tokio::test]
async fn a_fresh_state_is_not_fetched_again() {
    let world = World::new();
    let a = origin("a");
    assert_eq!(world.once(&a, file(200)).await.1, 1);
    for hours in [0, 1, 10, 20] {
        world
            .clock
            .advance_to(START + Duration::from_secs(hours * 3600));
        let (stance, fetches) = world.once(&a, file(203)).await;
        assert_eq!((file_of(&stance), fetches), (Some(200), 0), "{hours} h");
    }
    world.clock.advance_to(START + DAY);
    let (stance, fetches) = world.once(&a, file(203)).await;
    assert_eq!((file_of(&stance), fetches), (Some(203), 1), "stale");
}

#[tokio::test]
async fn an_earlier_copy_is_refreshed_ahead_in_the_background() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    world.clock.advance(DAY.mul_f64(0.95));
    let life = world.life();
    for _ in 0..2 {
        assert_eq!(file_of(&life.lab.stance(&a).await), Some(200));
    }
    life.lab.until(|lab| lab.fetches() == 1).await;
}

#[tokio::test]
async fn a_file_that_was_put_in_the_place_of_another_is_not_believed() {
    for named in ["b.example", "long.example"] {
        let world = World::on_disk();
        let a = origin("a");
        for (host, text) in [
            ("a", "User-agent: *\nDisallow: /a"),
            ("b", "User-agent: *\nDisallow: /b"),
            ("long", "User-agent: *\nDisallow: /long"),
        ] {
            let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
            let result = AccessResult::Successful {
                snapshot: Snapshot::new(robots, START, 200, "").into(),
                freshness: Freshness::Unsaid,
            };
            assert_eq!(world.once(&origin(host), result).await.1, 1);
        }
        let folder = world.disk.as_ref().expect("a disk").path();
        let engine = rusqlite::Connection::open(folder.join("crawlgate.db")).expect("a store");
        let put = "UPDATE origin SET sha256 = (SELECT sha256 FROM origin WHERE origin LIKE '%' || ?1) \
                   WHERE origin LIKE '%//a.example'";
        assert_eq!(engine.execute(put, [named]), Ok(1));
        drop(engine);
        let (stance, fetches) = world.once(&a, file(203)).await;
        assert_eq!((file_of(&stance), fetches), (Some(203), 1), "{named}");
        assert_eq!(world.once(&a, file(200)).await.1, 0, "healed");
    }
}

#[tokio::test]
async fn a_missing_file_is_remembered_as_missing() {
    let world = World::new();
    let a = origin("a");
    let gone = AccessResult::Unavailable {
        why: Absence::Status(404),
        freshness: Freshness::MaxAge(Duration::from_secs(3600)),
    };
    assert_eq!(world.once(&a, gone).await.1, 1);
    world.clock.advance(Duration::from_secs(3599));
    let (stance, fetches) = world.once(&a, file(200)).await;
    assert!(matches!(stance, Stance::AllowAll), "{stance:?}");
    assert_eq!(fetches, 0);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.once(&a, file(200)).await.1, 1);
}

#[tokio::test]
async fn thirty_days_are_counted_from_the_first_failure_however_often_the_process_restarts() {
    for (name, world, first, after) in [
        (
            "a last good copy rules afterwards",
            World::new(),
            Some(file(200)),
            Some(200),
        ),
        (
            "a last good copy rules afterwards, on disk",
            World::on_disk(),
            Some(file(200)),
            Some(200),
        ),
        (
            "without one, nothing is restricted",
            World::new(),
            None,
            None,
        ),
        (
            "without one, nothing is restricted, on disk",
            World::on_disk(),
            None,
            None,
        ),
    ] {
        let a = origin("a");
        if let Some(first) = first {
            world.once(&a, first).await;
            world.clock.advance(DAY);
        }
        let start = world.clock.now();
        for day in 0..40 {
            world.clock.advance_to(start + days(day));
            let (stance, fetches) = world.once(&a, down()).await;
            assert_eq!(fetches, 1, "{name}: day {day}, each day it is tried again");
            assert_eq!(world.outage(&a).await.since, start, "{name}: day {day}");
            if day < 30 {
                assert!(is_disallowed(&stance), "{name}: day {day}: {stance:?}");
                continue;
            }
            let meant = match after {
                Some(_) => file_of(&stance) == after,
                None => matches!(stance, Stance::AllowAll),
            };
            assert!(meant, "{name}: day {day}: {stance:?}");
        }
        let (stance, _) = world.once(&a, down()).await;
        assert!(!is_disallowed(&stance), "{name}: between two attempts, too");
        world.clock.advance(DAY);
        let (stance, _) = world.once(&a, file(201)).await;
        assert_eq!(file_of(&stance), Some(201), "{name}: it is back");
        world.clock.advance(DAY);
        world.once(&a, down()).await;
        let since = world.outage(&a).await.since;
        assert_eq!(since, world.clock.now(), "{name}: a new outage is new");
    }
}

#[tokio::test]
async fn a_restart_in_an_outage_neither_asks_early_nor_forgets_to_back_off() {
    for world in [World::new(), World::on_disk()] {
        let a = origin("a");
        world.once(&a, down()).await;
        let mut waits = Vec::new();
        for attempts in 1..=8 {
            let outage = world.outage(&a).await;
            assert_eq!(outage.attempts, attempts);
            waits.push(outage.next_attempt.since(world.clock.now()).as_secs());
            world
                .clock
                .advance_to(outage.next_attempt - Duration::from_millis(1));
            let (stance, fetches) = world.once(&a, file(200)).await;
            assert!(is_disallowed(&stance), "{stance:?}");
            assert_eq!(fetches, 0, "attempt {attempts} is not due yet");
            world.clock.advance_to(outage.next_attempt);
            assert_eq!(world.once(&a, down()).await.1, 1);
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640]);
    }
}

#[tokio::test]
async fn a_failed_refresh_of_a_fresh_copy_is_remembered_beside_it() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    let due = START + DAY.mul_f64(0.9);
    world.clock.advance_to(due);
    let life = world.life();
    life.lab.end(down());
    for _ in 0..2 {
        assert_eq!(file_of(&life.lab.stance(&a).await), Some(200));
    }
    let failed = |lab: &Laboratory| lab.known(&a).is_some_and(|s| s.outage().is_some());
    life.lab.until(failed).await;
    life.end();
    world.clock.advance_to(START + DAY);
    world.once(&a, down()).await;
    assert_eq!(world.outage(&a).await.since, due);
}

#[tokio::test]
async fn every_fetch_is_stored_before_a_request_sees_its_state() {
    let world = World::new();
    let a = origin("a");
    let life = world.life();
    life.lab.end(file(200));
    life.lab.stance(&a).await;
    // Later records are written later.
    life.log.flush().await.expect("it is written");
    let kept = world.kept(&a).await.expect("it is known");
    let copy = kept.state.copy().expect("a file");
    let text = world.store.snapshot(copy.sha256).await.expect("a store");
    assert_eq!(text.as_deref(), Some(&b"User-agent: *\nDisallow: /x"[..]));
    assert_eq!(world.store.fetches(&a, 9).await.expect("a store").len(), 1);
    // An unfinished fetch says nothing about the origin, and is not stored.
    let b = origin("b");
    life.lab.ends.send(End::InPanic).expect("it lives");
    assert!(is_disallowed(&life.lab.stance(&b).await));
    life.end();
    assert_eq!(world.kept(&b).await, None);
}

#[tokio::test]
async fn a_thousand_first_requests_after_a_restart_ask_the_store_once() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    let asked = world.store.asked.load(Ordering::Relaxed);
    let life = world.life();
    let views = (0..1000).map(|_| life.lab.stance(&a));
    for view in views.collect::<Vec<_>>() {
        assert_eq!(file_of(&view.await), Some(200));
    }
    assert_eq!(world.store.asked.load(Ordering::Relaxed) - asked, 1);
    assert_eq!(life.lab.fetches(), 0);
}

#[tokio::test]
async fn an_evicted_state_comes_back_unchanged_even_before_it_is_written() {
    let mut world = World::new();
    world.change = |config| config.cache.origins = 1;
    let [a, b] = ["a", "b"].map(origin);
    world.store.holds_writes.store(true, Ordering::Relaxed);
    let life = world.life();
    life.lab.learn(&a).await;
    life.lab.learn(&b).await;
    life.lab.until(|lab| !lab.knows(&a)).await;
    assert_eq!(world.kept(&a).await, None, "the store has not heard of it");
    assert_eq!(file_of(&life.lab.stance(&a).await), Some(1));
    assert_eq!(life.lab.fetches(), 2);
    world.store.holds_writes.store(false, Ordering::Relaxed);
    life.end();
    assert!(world.kept(&a).await.is_some());
}

#[tokio::test]
async fn an_unreadable_store_defers_requests() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, down()).await;
    world.clock.advance(Duration::from_secs(20 * 3600));
    world.store.fails_reads.store(true, Ordering::Relaxed);
    let life = world.life();
    for _ in 0..3 {
        assert!(matches!(life.lab.stance(&a).await, Stance::Unknown));
    }
    let refused = life.lab.refresh(&a).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::Busy);
    assert_eq!(
        life.lab.fetches(),
        0,
        "a fetch could only start from nothing"
    );
    world.store.fails_reads.store(false, Ordering::Relaxed);
    let stance = life.lab.stance(&a).await;
    assert!(matches!(stance, Stance::Unknown), "not asked again at once");
    world.clock.advance(config().timing.retry_min);
    life.lab.end(down());
    assert!(is_disallowed(&life.lab.stance(&a).await));
    life.end();
    assert_eq!(world.outage(&a).await.since, START);
}

#[tokio::test]
async fn a_file_that_the_store_has_lost_is_fetched_anew() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    world.store.loses_texts.store(true, Ordering::Relaxed);
    let (stance, fetches) = world.once(&a, file(203)).await;
    assert_eq!(file_of(&stance), Some(203), "it is no empty file");
    assert_eq!(fetches, 1);
    let (stance, fetches) = world.once(&a, down()).await;
    assert!(is_disallowed(&stance), "and nothing goes out without it");
    assert_eq!(fetches, 1);
}

#[test]
fn a_process_that_ends_while_it_asks_the_store_leaves_it_as_it_was() {
    let world = World::new();
    let a = origin("a");
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime")
    };
    runtime().block_on(world.once(&a, down()));
    let before = runtime().block_on(world.kept(&a));
    world.clock.advance(days(1));
    world.store.hangs_reads.store(true, Ordering::Relaxed);
    let life = world.life();
    let ends = runtime();
    ends.block_on(async {
        assert!(poll(&mut Box::pin(life.lab.stance(&a))).is_pending());
        tokio::task::yield_now().await;
    });
    drop(ends);
    assert!(life.lab.known(&a).is_none());
    world.store.hangs_reads.store(false, Ordering::Relaxed);
    life.end();
    assert_eq!(runtime().block_on(world.kept(&a)), before);
}

#[tokio::test]
async fn a_refresh_fetches_fresh_states_and_those_not_due() {
    let world = World::new();
    let a = origin("a");
    world.once(&a, file(200)).await;
    let life = world.life();
    for (number, result) in [(1, file(201)), (2, down()), (3, file(203))] {
        life.lab.end(result);
        let state = life.lab.refresh(&a).await.expect("a store");
        assert_eq!(life.lab.fetches(), number);
        let status = state.snapshot().map(|snapshot| snapshot.status);
        assert_eq!(status, Some([0, 201, 201, 203][number]));
        assert_eq!(state.outage().is_some(), number == 2);
    }
    // A fetch in progress began before this call.
    world.clock.advance(DAY);
    let mut view = Box::pin(life.lab.stance(&a));
    assert!(poll(&mut view).is_pending());
    let mut refresh = Box::pin(life.lab.refresh(&a));
    assert!(poll(&mut refresh).is_pending());
    life.lab.end(file(204));
    assert_eq!(file_of(&view.await), Some(204));
    life.lab.end(file(205));
    let state = refresh.await.expect("a store");
    let status = state.snapshot().map(|snapshot| snapshot.status);
    assert_eq!(status, Some(205));
}

#[tokio::test]
async fn a_forgotten_origin_is_forgotten_in_memory_and_in_the_store() {
    let world = World::new();
    let [a, b] = ["a", "b"].map(origin);
    world.once(&a, down()).await;
    world.clock.advance(days(1));
    let life = world.life();
    let cache = &life.lab.cache;
    assert!(
        !cache.forget(&b, None).await.expect("a store"),
        "never heard of"
    );
    assert!(
        cache.forget(&a, None).await.expect("a store"),
        "in the store"
    );
    assert_eq!(world.kept(&a).await, None);
    life.lab.end(down());
    life.lab.stance(&a).await;
    assert!(cache.forget(&a, None).await.expect("a store"), "in both");
    // A fetch in progress ends without a state to change.
    life.lab.end(down());
    life.lab.stance(&a).await;
    world.clock.advance(days(1));
    let mut view = Box::pin(life.lab.stance(&a));
    assert!(poll(&mut view).is_pending());
    life.lab.until(|lab| lab.fetches() == 3).await;
    assert!(cache.forget(&a, None).await.expect("a store"));
    life.lab.end(down());
    assert!(is_disallowed(&view.await));
    life.end();
    assert_eq!(world.outage(&a).await.since, world.clock.now());
}

#[tokio::test]
async fn a_state_that_the_store_cannot_drop_is_not_forgotten() {
    let world = World::new();
    let a = origin("a");
    let life = world.life();
    life.lab.end(file(200));
    life.lab.stance(&a).await;
    life.log.flush().await.expect("it is written");
    world.store.fails_reads.store(true, Ordering::Relaxed);
    assert!(life.lab.cache.forget(&a, None).await.is_err());
    assert_eq!(file_of(&life.lab.stance(&a).await), Some(200));
}

/// A store in memory that fails on command.
#[derive(Debug, Default)]
struct Faulty {
    inner: InMemoryStore,
    /// Number of look-ups of an origin.
    asked: std::sync::atomic::AtomicUsize,
    fails_reads: AtomicBool,
    hangs_reads: AtomicBool,
    loses_texts: AtomicBool,
    holds_writes: AtomicBool,
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

    fn origin(&self, origin: &Origin) -> Pending<'_, Vec<OriginMemory>> {
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

    fn origins(&self, query: OriginQuery) -> Pending<'_, Vec<OriginMemory>> {
        self.inner.origins(query)
    }

    fn fetches(&self, origin: &Origin, limit: usize) -> Pending<'_, Vec<store::Fetch>> {
        self.inner.fetches(origin, limit)
    }

    fn policy(&self, digest: &str) -> Pending<'_, Option<String>> {
        self.inner.policy(digest)
    }

    fn decisions(&self, query: DecisionQuery) -> Pending<'_, Vec<StoredDecision>> {
        self.inner.decisions(query)
    }

    fn decision(&self, id: &str) -> Pending<'_, Option<StoredDecision>> {
        self.inner.decision(id)
    }

    fn tally(&self, query: DecisionQuery, key: TallyKey, limit: usize) -> Pending<'_, Vec<Tally>> {
        self.inner.tally(query, key, limit)
    }

    fn hours(&self, since: Moment, until: Moment) -> Pending<'_, Vec<store::Hourly>> {
        self.inner.hours(since, until)
    }

    fn acknowledge(&self, id: &str, note: Acknowledgement) -> Pending<'_, bool> {
        self.inner.acknowledge(id, note)
    }

    fn links(&self, after: u64, limit: usize) -> Pending<'_, Vec<StoredDecision>> {
        self.inner.links(after, limit)
    }

    fn seals(&self) -> Pending<'_, Vec<Seal>> {
        self.inner.seals()
    }

    fn seal(&self, key: Arc<SealingKey>, now: Moment) -> Pending<'_, Option<Seal>> {
        self.inner.seal(key, now)
    }

    fn overrides(&self) -> Pending<'_, Vec<Override>> {
        self.inner.overrides()
    }

    fn removed_overrides(&self) -> Pending<'_, Vec<store::Removed>> {
        self.inner.removed_overrides()
    }

    fn add_override(&self, new: Override) -> Pending<'_, u64> {
        self.inner.add_override(new)
    }

    fn remove_override(&self, number: u64, by: String, now: Moment) -> Pending<'_, bool> {
        self.inner.remove_override(number, by, now)
    }

    fn gaps(&self, from: u64, to: u64) -> Pending<'_, Vec<Gap>> {
        self.inner.gaps(from, to)
    }

    fn is_dropped(&self, sha256: Sha256) -> Pending<'_, bool> {
        self.inner.is_dropped(sha256)
    }

    fn version(&self) -> Pending<'_, u64> {
        self.inner.version()
    }

    fn prune(
        &self,
        retention: Retention,
        key: Arc<SealingKey>,
        now: Moment,
    ) -> Pending<'_, Pruned> {
        self.inner.prune(retention, key, now)
    }

    fn size(&self) -> Pending<'_, Size> {
        self.inner.size()
    }
}
