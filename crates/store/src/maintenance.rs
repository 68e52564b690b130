//! Maintenance of a store while a process serves: checkpoints at intervals, and removal of expired data.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    Belief, HOUR, LogKey, Pruned, Reading, Retention, Store, StoreError, StoredCheckpoint,
};
use crawlgate_config::{AuditConfig, format_bytes, format_moment};
use crawlgate_system::clock::{Clock, Moment};

/// Interval between two checks for due work.
const LOOK: Duration = Duration::from_secs(10);

/// Shortest interval: more frequent checks would leave no time for anything else.
const LEAST: Duration = Duration::from_secs(1);

/// A pause between two steps, in which others write.
const BREATH: Duration = Duration::from_millis(20);

/// Maintains a store until the future is dropped; `settings` returns the settings in force. Begins with a checkpoint,
/// because a killed process leaves unsigned records.
///
/// The caller that ends it signs once more after the last record ([`Store::checkpoint`]).
pub async fn maintain(
    store: Arc<Store>,
    key: Arc<LogKey>,
    settings: impl Fn() -> AuditConfig + Send + Sync,
    clock: Clock,
) {
    let mut maintenance = Maintenance::new(store, key);
    loop {
        let settings = settings();
        maintenance.look(&settings, &clock).await;
        sleep(LOOK.min(settings.checkpoint_every.max(LEAST))).await;
    }
}

struct Maintenance {
    store: Arc<Store>,
    key: Arc<LogKey>,
    /// Time of the last checkpoint by this process.
    signed: Option<Moment>,
    signing: WarnOnce,
    pruning: WarnOnce,
    early: Early,
    doubt: Doubt,
    is_log_reported: bool,
    held: Held,
}

impl Maintenance {
    fn new(store: Arc<Store>, key: Arc<LogKey>) -> Self {
        Self {
            store,
            key,
            signed: None,
            signing: WarnOnce::default(),
            pruning: WarnOnce::default(),
            early: Early::default(),
            doubt: Doubt::default(),
            is_log_reported: false,
            held: Held::default(),
        }
    }

    /// Does the due work.
    async fn look(&mut self, config: &AuditConfig, clock: &Clock) {
        let now = clock.now();
        let is_due = |last| now.since(last) >= config.checkpoint_every || now < last;
        if self.signed.is_none_or(is_due) {
            let outcome = self.store.checkpoint(Arc::clone(&self.key), now).await;
            let what = "no checkpoint of the log can be signed";
            // The first record of this process is signed soon: a young log has no other checkpoint.
            if self.signing.is_over(&outcome, what) && (self.signed.is_some() || is_made(&outcome))
            {
                self.signed = Some(now);
            }
        }
        let retention = Retention { keep: config.keep, max_size: config.max_size };
        let outcome = self.prune(retention, clock).await;
        let what = "old decisions cannot be dropped";
        if self.pruning.is_over(&outcome, what)
            && let Ok(gone) = outcome
        {
            let (decisions, robots) = (gone.decisions - gone.early, gone.snapshots);
            if decisions + robots > 0 {
                info!(decisions, robots, "expired data was dropped from the store");
            }
            if gone.origins > 0 {
                info!(
                    origins = gone.origins,
                    "the states of some origins were dropped for lack of room in the store ([audit] max_size): their \
                     robots.txt are fetched again after a restart"
                );
            }
            self.early.count(&gone, now);
            self.held.tell(&gone);
            if gone.waits_for_checkpoint {
                self.signed = None;
            }
            if gone.long_log > 0 && !self.is_log_reported {
                warn!(
                    log = %format_bytes(gone.long_log),
                    "the write-ahead log of the store (-wal) grows beyond its part of [audit] max_size: a program reads \
                     the store in one long transaction; end that transaction (a shell, a backup, `crawlgate store \
                     check`), and the log is cut back"
                );
            }
            self.is_log_reported = gone.long_log > 0;
        }
    }

    /// Drops expired data step by step and returns the amounts.
    async fn prune(&mut self, retention: Retention, clock: &Clock) -> Result<Pruned, StoreError> {
        let now = self.believe(retention.keep, clock).await?;
        let mut all = Pruned::default();
        loop {
            let step = self.store.prune(retention, now).await?;
            let is_over = !step.more;
            all.add(step);
            if is_over {
                return Ok(all);
            }
            sleep(BREATH).await;
        }
    }

    /// Returns the time by which data expires, notes it, and warns while it is not the wall clock's.
    async fn believe(
        &mut self,
        keep: Option<Duration>,
        clock: &Clock,
    ) -> Result<Moment, StoreError> {
        let reading = Reading::of(clock);
        let progress = self.store.progress().await?;
        let belief = progress.believe(reading, keep);
        if keep.is_some() {
            self.doubt.tell(&belief, reading.wall);
        }
        if belief.should_replace(progress.belief.as_ref()) {
            self.store.note_belief(belief).await?;
        }
        Ok(belief.time)
    }
}

fn is_made(outcome: &Result<Option<StoredCheckpoint>, StoreError>) -> bool {
    matches!(outcome, Ok(Some(_)))
}

/// A wall clock ahead of the log, warned about once before it expires anything, and once when it begins to.
#[derive(Default)]
enum Doubt {
    #[default]
    None,
    Began,
    CatchesUp,
}

impl Doubt {
    fn tell(&mut self, belief: &Belief, wall: Moment) {
        let hours = wall.since(belief.time).as_secs() / 3_600;
        match (&*self, belief.doubted, belief.catches_up()) {
            (Self::None, Some(_), false) => {
                warn!(
                    hours,
                    believed = %format_moment(belief.time),
                    "the wall clock is ahead of the time that the records in the store show: for an hour no decision expires \
                     by it ([audit] keep), and then at most a day's decisions expire in an hour; if the clock is wrong, \
                     set it"
                );
                *self = Self::Began;
            }
            (Self::None | Self::Began, Some(_), true) => {
                warn!(
                    hours,
                    believed = %format_moment(belief.time),
                    "the wall clock has been ahead of the records in the store for an hour: decisions expire by it again, at \
                     most a day's in an hour ([audit] keep); if the clock is wrong, set it"
                );
                *self = Self::CatchesUp;
            }
            (Self::Began | Self::CatchesUp, None, _) => {
                info!("the wall clock agrees with the records in the store again");
                *self = Self::None;
            }
            _ => {}
        }
    }
}

/// Decisions that stay because they are not shipped yet, warned about once.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Held {
    #[default]
    None,
    Expired,
    Full,
}

impl Held {
    fn tell(&mut self, gone: &Pruned) {
        let now = match (gone.is_full, gone.is_held) {
            (true, _) => Self::Full,
            (false, true) => Self::Expired,
            (false, false) => Self::None,
        };
        match now {
            _ if now == *self => {}
            Self::Full => warn!(
                "the store has no room for new decisions ([audit] max_size), and its oldest ones are not at [ship] to yet: they \
                 stay, and requests are denied until that place has them; bring it back, or raise max_size; `crawlgate store release` lets \
                 go of them, once no process ships them"
            ),
            Self::Expired => warn!(
                "decisions have expired that are not at [ship] to yet: they stay in the store until that place has them"
            ),
            Self::None => info!("no decision stays in the store for [ship] alone any more"),
        }
        *self = now;
    }
}

/// Decisions dropped before their time, warned about at once and then at most once an hour.
#[derive(Default)]
struct Early {
    count: u64,
    warned: Option<Moment>,
}

impl Early {
    fn count(&mut self, gone: &Pruned, now: Moment) {
        self.count += gone.early;
        let is_due = |warned| now.since(warned) >= HOUR || now < warned;
        if self.count == 0 || !self.warned.is_none_or(is_due) {
            return;
        }
        warn!(
            decisions = self.count,
            "decisions were dropped from the store before their time ([audit] keep): it has no more room ([audit] \
             max_size). The oldest went first; raise max_size, or lower what is recorded"
        );
        self.count = 0;
        self.warned = Some(now);
    }
}

/// A repeated failure, warned about once.
#[derive(Default)]
enum WarnOnce {
    #[default]
    None,
    Told,
}

impl WarnOnce {
    fn is_over<T>(&mut self, outcome: &Result<T, StoreError>, what: &str) -> bool {
        match (&*self, outcome) {
            (_, Ok(_)) => *self = Self::None,
            (Self::Told, Err(_)) => {}
            (Self::None, Err(error)) => {
                warn!("{what}: {error}");
                *self = Self::Told;
            }
        }
        outcome.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;
    use crate::Store;
    use crate::tests::{ROW, Row};
    use crawlgate_config::{Config, Places};

    #[tokio::test]
    async fn the_log_is_signed_at_intervals_and_old_records_go() {
        const DAY: Duration = Duration::from_secs(86_400);
        let noon = Moment::from_millis(1_795_176_000_000);
        let store = Arc::new(Store::temporary());
        let config = AuditConfig {
            keep: Some(DAY),
            checkpoint_every: Duration::from_secs(600),
            ..Config::builtin(&Places::default()).audit
        };
        let write = async |now| {
            let mut batch = Batch::default();
            for _ in 0..256 {
                Row { time: now, ..ROW }.file(&mut batch);
            }
            store.write(batch).await.unwrap();
        };
        let key = Arc::new(LogKey::generate(None).unwrap());
        let mut maintenance = Maintenance::new(Arc::clone(&store), key);
        let clock = Clock::manual(noon);
        // The drop is a separate record, after the checkpoint.
        let cases = [
            ("what was left is signed at once", Duration::ZERO, 256, 1),
            ("not yet", Duration::from_secs(599), 256, 1),
            ("it is time", Duration::from_secs(600), 768, 1),
            ("a day later all but the last is old", DAY * 2, 1_024, 769),
        ];
        for (name, after, signed, first) in cases {
            let now = noon + after;
            write(now).await;
            clock.advance_to(now);
            maintenance.look(&config, &clock).await;
            let checkpoints = store.checkpoints().await.unwrap();
            assert_eq!(checkpoints.last().unwrap().size, signed, "{name}");
            let left = store.records(0, 100).await.unwrap();
            assert_eq!(left[0].seq, first, "{name}");
        }
    }

    #[tokio::test]
    async fn a_clock_that_jumps_expires_no_record() {
        const DAY: Duration = Duration::from_secs(86_400);
        let noon = Moment::from_millis(1_795_176_000_000);
        {
            let store: Arc<Store> = Arc::new(Store::temporary());
            let config =
                AuditConfig { keep: Some(DAY * 30), ..Config::builtin(&Places::default()).audit };
            let clock = Clock::manual(noon - DAY * 20);
            let key = Arc::new(LogKey::generate(None).unwrap());
            let mut maintenance = Maintenance::new(Arc::clone(&store), Arc::clone(&key));
            let count = async || store.size().await.unwrap().decisions;
            // Ten bundles a day.
            for _ in 0..200 {
                let mut batch = Batch::default();
                for _ in 0..256 {
                    let row = Row { time: clock.now(), ..ROW };
                    row.file(&mut batch);
                }
                store.write(batch).await.unwrap();
                clock.advance(DAY / 10);
            }
            let bundles = async || count().await / 256;
            maintenance.look(&config, &clock).await;
            assert_eq!(bundles().await, 200);
            let right = clock.now();
            clock.set(right + DAY * 31);
            for _ in 0..2 {
                maintenance.look(&config, &clock).await;
                clock.advance(LOOK);
            }
            assert_eq!(bundles().await, 200, "for some seconds");
            // A process that starts meanwhile believes no more.
            maintenance = Maintenance::new(Arc::clone(&store), key);
            const MINUTES: Duration = Duration::from_secs(290);
            for _ in 0..12 {
                maintenance.look(&config, &clock).await;
                clock.advance(MINUTES);
            }
            assert_eq!(bundles().await, 200, "for an hour");
            for _ in 0..150 {
                maintenance.look(&config, &clock).await;
                clock.advance(MINUTES);
            }
            let left = bundles().await;
            assert!((170..=190).contains(&left), "{left} after 13 hours");
            clock.set(right + DAY / 2);
            maintenance.look(&config, &clock).await;
            assert_eq!(bundles().await, left, "and none once it is right");
        }
    }
}
