//! Persists the states of the robots cache: reads them from the store, writes them through the log.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tracing::{error, info, warn};

use crawlgate_config::RobotsConfig;
use crawlgate_evidence::{Log, QueuedState};
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{FetchedAs, Identity, OWN_STATES};
use crawlgate_origins::state::State;
use crawlgate_robots::Origin;
use crawlgate_store::persist::{BrokenCopy, from_stored};
use crawlgate_store::{FETCHES_KEPT, OriginUpdate, Store, StoreError, StoreErrorKind};
use crawlgate_system::clock::Moment;

/// Moments of equal states that are no further apart are those of one fetch.
const ALIKE: Duration = Duration::from_secs(1);

/// A store to read from, and the log that writes to it: states are written in order with records, so that no record is
/// written before the robots.txt that it rests on.
#[derive(Clone)]
pub struct PersistentStates {
    store: Arc<Store>,
    /// None: the states are another process's, and only read.
    log: Option<Arc<Log>>,
    /// True if the latest read failed and the failure was logged.
    fails: Arc<AtomicBool>,
}

impl PersistentStates {
    /// Returns the persistence behind `log`, if it has a store.
    #[must_use]
    pub fn of(log: &Arc<Log>) -> Option<PersistentStates> {
        Some(PersistentStates {
            store: Arc::clone(log.store()?),
            log: Some(Arc::clone(log)),
            fails: Arc::default(),
        })
    }

    /// Returns the states that other processes keep in `store`. Nothing is written there.
    #[must_use]
    pub fn of_others(store: Arc<Store>) -> PersistentStates {
        PersistentStates { store, log: None, fails: Arc::default() }
    }

    /// Tells whether the states are another process's.
    pub(super) fn are_of_others(&self) -> bool {
        self.log.is_none()
    }

    /// Returns the stored states of an origin. An error has been logged when this resolves.
    pub(super) async fn recall(
        &self,
        origin: &Origin,
        config: &RobotsConfig,
    ) -> Result<Vec<Recalled>, StoreError> {
        let recalled = match self.read(origin, config).await {
            // Another process may have written a new state and dropped the file between the reads of the two.
            Err(Unread::Broken(_)) => self.read(origin, config).await,
            recalled => recalled,
        };
        match recalled {
            Ok(states) => {
                if self.fails.swap(false, Ordering::Relaxed) {
                    info!("the store can be read again");
                }
                Ok(states)
            }
            Err(Unread::Failed(failure)) => {
                if !self.fails.swap(true, Ordering::Relaxed) {
                    warn!(
                        %origin,
                        "the store cannot be read, and requests to origins that are not in memory are deferred until it \
                         can: {failure}"
                    );
                }
                Err(failure)
            }
            // No fetch produced this state: the origin is fetched like a new one before any request goes there.
            Err(Unread::Broken(broken)) => {
                error!(
                    %origin,
                    "the stored state of this origin was altered, so it is fetched again: {broken}; \
                     `crawlgate store check` finds other damage"
                );
                Ok(Vec::new())
            }
        }
    }

    async fn read(&self, origin: &Origin, config: &RobotsConfig) -> Result<Vec<Recalled>, Unread> {
        // First: a state that was evicted before it was written is on its way to the store, which has an older state or
        // none.
        let unwritten = self.log.as_ref().map(|log| log.unwritten(origin));
        let unwritten = unwritten.into_iter().flatten();
        let mut recalled: Vec<Recalled> = unwritten.map(Recalled::of).collect();
        let kept = self.store.origin(origin).await.map_err(Unread::Failed)?;
        let kept: Vec<_> = kept
            .into_iter()
            .filter(|kept| {
                let is_newer = |one: &Recalled| one.fetched_as.identity == kept.identity;
                !recalled.iter().any(is_newer)
            })
            .collect();
        if kept.is_empty() {
            return Ok(recalled);
        }
        let most = FETCHES_KEPT * (OWN_STATES + 1) * Document::ALL.len();
        let fetches = self.store.fetches(origin, most).await;
        let fetches = fetches.map_err(Unread::Failed)?;
        for found in kept {
            let text = match found.state.copy() {
                Some(copy) => {
                    let text = self.store.snapshot(copy.sha256).await;
                    text.map_err(Unread::Failed)?
                }
                None => None,
            };
            let state = from_stored(&found.state, text.as_deref(), config.lenient);
            let of_identity = fetches.iter().filter(|one| one.identity == found.identity);
            let state = found.state.agrees_with(of_identity).and(state);
            recalled.push(Recalled {
                state: state.map_err(Unread::Broken)?,
                updated: found.updated,
                fetched_as: FetchedAs::new(found.identity, found.user_agent.into()),
            });
        }
        Ok(recalled)
    }

    /// Hands over a new state. Never waits.
    pub(super) fn record(&self, update: OriginUpdate) {
        if let Some(log) = &self.log {
            log.origin_updated(update);
        }
    }

    /// Drops the stored states of an origin, for one identity or all, also unwritten ones.
    pub(super) async fn forget(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<bool, StoreError> {
        let Some(log) = &self.log else {
            return Ok(false);
        };
        log.flush().await.map_err(|failure| StoreError {
            kind: StoreErrorKind::Failed,
            message: failure.to_string(),
        })?;
        self.store.forget(origin, which).await
    }
}

/// A state of an origin from the store.
pub(super) struct Recalled {
    pub(super) state: State,
    pub(super) updated: Moment,
    pub(super) fetched_as: FetchedAs,
}

impl Recalled {
    fn of(pending: QueuedState) -> Recalled {
        Recalled {
            state: State::clone(&pending.state),
            updated: learnt(&pending.state),
            fetched_as: FetchedAs::new(pending.identity, pending.user_agent),
        }
    }
}

/// Returns when a state was fetched, or began to fail.
fn learnt(state: &State) -> Moment {
    match state {
        State::NeverFetched => Moment::default(),
        State::Successful { snapshot, .. } => snapshot.fetched,
        State::Unavailable { fetched, .. } => *fetched,
        State::Unreachable { outage, .. } => outage.since,
    }
}

/// Tells whether a fetch behind `own` ended after every fetch behind `other`. Instances with different clocks write slightly
/// different moments for one fetch.
pub(super) fn is_later(own: &State, other: &State) -> bool {
    let text = |state: &State| state.snapshot().map(|snapshot| snapshot.sha256);
    let apart = match text(own) == text(other) && own.name() == other.name() {
        true => ALIKE,
        false => Duration::ZERO,
    };
    let latest = |state: &State| {
        let attempt = state.outage().map(|outage| outage.last_attempt);
        attempt.unwrap_or_default().max(learnt(state))
    };
    latest(own) > latest(other) + apart
}

/// The reason that a state cannot be read from the store.
enum Unread {
    Failed(StoreError),
    Broken(BrokenCopy),
}

impl fmt::Debug for PersistentStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentStates").field("store", &self.store).finish_non_exhaustive()
    }
}
