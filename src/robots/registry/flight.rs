//! A flight: what finds out about one origin while all who ask wait for it.

use std::sync::Arc;

use http::HeaderValue;
use tokio::sync::watch;
use tracing::{debug, info};

use super::{Entry, Recall, Shared};
use crate::clock::Moment;
use crate::config::{ProfileName, ProfileRules};
use crate::rep::Origin;
use crate::robots::access::{AccessResult, Cause};
use crate::robots::state::{Due, FetchEnd, State};
use crate::store::{self, Landing};

/// What a flight is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To know: what the store has is enough while it holds, for a client with such a profile of its own.
    Learn(Option<ProfileName>),
    /// To fetch, whatever is known.
    Refresh,
}

/// One flight. Lands exactly once, also when its task panics or is dropped.
struct Flight {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
    origin: Origin,
    stage: Stage,
    /// Dropped last: waiters then find the new state.
    _landing: watch::Sender<()>,
}

/// What asking the store came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recalled {
    /// It was asked earlier, or there is none.
    Before,
    /// It has told what it knows, and so whether a fetch is due.
    Now(Due),
    /// It cannot tell.
    InVain,
}

/// How far a flight is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It asks the store, or has no need to ask anybody.
    Recalling,
    /// It asks the origin.
    Fetching,
    /// It has landed.
    Landed,
}

impl Shared {
    pub(super) fn take_off(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        user_agent: Option<&HeaderValue>,
        purpose: Purpose,
    ) -> watch::Receiver<()> {
        let (landing, flight) = watch::channel(());
        let flight_of = Flight {
            shared: Arc::clone(self),
            entry: Arc::clone(entry),
            origin: origin.clone(),
            stage: Stage::Recalling,
            _landing: landing,
        };
        let user_agent = user_agent.cloned();
        tokio::spawn(flight_of.fly(user_agent, purpose));
        flight
    }
}

impl Flight {
    async fn fly(mut self, user_agent: Option<HeaderValue>, purpose: Purpose) {
        let shared = Arc::clone(&self.shared);
        let profile = match purpose {
            Purpose::Learn(profile) => profile,
            Purpose::Refresh => None,
        };
        let goes_on = match self.recall(profile).await {
            Recalled::Before => true,
            // A copy that only wants to be refreshed ahead is good for those who wait; the next request sees to it.
            Recalled::Now(due) => due == Due::Now || purpose == Purpose::Refresh,
            Recalled::InVain => false,
        };
        if goes_on {
            self.stage = Stage::Fetching;
            let config = Arc::clone(&shared.settings.load().ours.config);
            let fetching = (shared.fetch)(self.origin.clone(), user_agent, config);
            let (result, fetch) = fetching.await;
            self.land(result, Some(fetch));
        }
        drop(self);
        shared.bound();
    }

    /// Asks the store, where that was not done yet.
    async fn recall(&mut self, profile: Option<ProfileName>) -> Recalled {
        let is_done = self.entry.slot.lock().recall == Recall::Done;
        let Some(memory) = self.shared.memory.as_ref().filter(|_| !is_done) else {
            return Recalled::Before;
        };
        let config = Arc::clone(&self.shared.settings.load().ours.config);
        let recalled = memory.recall(&self.origin, &config).await;
        let mut slot = self.entry.slot.lock();
        let now = self.shared.clock.now();
        match recalled {
            // Forgotten meanwhile.
            Ok(_) if slot.recall == Recall::Done => {}
            Ok(state) => {
                slot.recall = Recall::Done;
                slot.state = Arc::new(state.unwrap_or_default());
                slot.failed = None;
                self.shared.weigh(&mut slot);
            }
            Err(error) => {
                let until = now + config.timing.retry_min;
                slot.recall = Recall::Failed { until, error };
                return Recalled::InVain;
            }
        }
        let state = slot.settle(now, &config);
        let profile = profile.map_or(config.timing.profile.clone(), ProfileRules::of);
        Recalled::Now(state.due(now, &profile))
    }

    /// Ends with what a fetch meant. Without a `fetch`, none has ended, and nothing is kept of it.
    fn land(&mut self, result: AccessResult, fetch: Option<store::Fetch>) {
        self.stage = Stage::Landed;
        tell(&self.origin, &result);
        self.shared.counts.fetched(&result, fetch.as_ref());
        let config = Arc::clone(&self.shared.settings.load().ours.config);
        let mut slot = self.entry.slot.lock();
        let now = self.shared.clock.now();
        // First, so that whatever goes wrong below cannot leave a flight up that never lands.
        slot.flight = None;
        let uptime = self.shared.clock.uptime();
        let end = FetchEnd {
            now,
            since_failure: slot.failed.map(|failed| uptime.since(failed)),
            reach: self.shared.reach.fetched(&self.origin, &result),
        };
        let before = State::clone(&slot.settle(now, &config));
        let state = before.after(result, end, &config.timing, luck(&self.origin, now));
        match state.outage().map(|outage| outage.last_failure) {
            Some(Some(last)) if last == now => slot.failed = Some(uptime),
            // The gate's own failure: the origin's is as long ago as before.
            Some(_) => {}
            None => slot.failed = None,
        }
        slot.state = Arc::new(state);
        self.shared.changes.landed(self.entry.group);
        self.shared.weigh(&mut slot);
        if let (Some(memory), Some(fetch)) = (&self.shared.memory, fetch) {
            // Under the lock: nobody decides by this state before the log has it, and records come after it.
            memory.keep(Landing {
                origin: self.origin.clone(),
                state: Arc::clone(&slot.state),
                fetch,
            });
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        match self.stage {
            // Nothing was fetched, so nothing has failed.
            Stage::Recalling => self.entry.slot.lock().flight = None,
            Stage::Fetching => {
                let result = AccessResult::Unreachable {
                    cause: Cause::Internal,
                    retry_after: None,
                };
                self.land(result, None);
            }
            Stage::Landed => {}
        }
    }
}

fn tell(origin: &Origin, result: &AccessResult) {
    match result {
        AccessResult::Successful { snapshot, .. } => {
            debug!(%origin, status = snapshot.status, from = %snapshot.final_url, "robots.txt fetched");
        }
        AccessResult::Unavailable { why, .. } => debug!(%origin, "no robots.txt: {why}"),
        AccessResult::Unreachable { cause, .. } => {
            info!(%origin, "robots.txt cannot be had: {cause}");
        }
    }
}

/// A number in `0.0..1.0` that differs between origins and attempts: enough to spread retries.
fn luck(origin: &Origin, now: Moment) -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let hash = RandomState::new().hash_one((origin, now.as_millis()));
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}
