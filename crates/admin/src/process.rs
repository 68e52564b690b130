//! The running process, for the admin side: the work that only it can do, and its state.

use std::sync::Arc;

use thiserror::Error;
use tokio::sync::Notify;

use super::status::{RefreshedState, ShipReport, Status, WitnessReport};
use crawlgate_evidence::LogFailed;
use crawlgate_evidence::ship::Shipper;
use crawlgate_evidence::witness::Witnesses;
use crawlgate_origins::identity::Identity;
use crawlgate_proxy::Proxy;
use crawlgate_proxy::override_sync::{MessageKind, OverrideSync};
use crawlgate_robots::Origin;
use crawlgate_store::StoreError;
use crawlgate_system::clock::Moment;
use crawlgate_system::metrics::Registry;
use crawlgate_text::time_text;
use crawlgate_turns::fleet::overview::FleetView;

/// A running process: its proxy, and the tasks beside it.
pub struct Process {
    /// The proxy.
    pub proxy: Arc<Proxy>,
    /// Tells the task that follows the store of overrides that another process has changed.
    pub overrides_changed: Arc<Notify>,
    /// The overrides of the store; none without a store.
    pub override_sync: Option<Arc<OverrideSync>>,
    /// The witnesses of the decision log; none without a store.
    pub witnesses: Option<Arc<Witnesses>>,
    /// The task that ships the log, if it is shipped.
    pub shipper: Option<Arc<Shipper>>,
    /// When the process started.
    pub started: Moment,
}

/// The reason why the process has not done the work, or not all of it.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store cannot keep what was fetched.
    #[error("it was fetched and cannot be kept yet: {0}")]
    NotKept(#[source] LogFailed),
    /// The process ends before the work does.
    #[error("the process is about to end")]
    Ending,
    /// The other instances of the fleet do not know of it.
    #[error(
        "this instance has done it and cannot tell the other ones of the fleet: {0}; repeat the command"
    )]
    Untold(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Does work to its end, also if the client that waits for it hangs up: half of it would leave memory, store and fleet apart.
pub(super) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ProcessError>> + Send + 'static,
) -> Result<T, ProcessError> {
    let work = tokio::spawn(work).await;
    work.unwrap_or(Err(ProcessError::Ending))
}

impl Process {
    /// Registers the instruments of the tasks beside the proxy.
    pub(super) fn register(&self, registry: &mut Registry) {
        if let Some(witnesses) = &self.witnesses {
            witnesses.register(registry);
        }
        if let Some(shipper) = &self.shipper {
            shipper.register(registry);
        }
    }

    /// Fetches the robots.txt of this origin now, even if the stored state is fresh, for one identity or for each with a
    /// state. Returns the result for each, that of `*` first; the store has them then.
    ///
    /// # Errors
    /// When the store fails, or the fleet cannot be told.
    pub async fn refresh(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<Vec<RefreshedState>, ProcessError> {
        let cache = self.proxy.gate().robots_cache();
        let states = cache.refresh(origin, which).await?;
        self.announce(MessageKind::Refresh, origin, which).await?;
        // The command that sent the request reads the store next.
        let kept = self.proxy.log().flush().await;
        kept.map_err(ProcessError::NotKept)?;
        let states = states.iter();
        Ok(states.map(|(identity, state)| RefreshedState::of(identity, state)).collect())
    }

    /// Drops the state of this origin, in memory and in the store, for one identity or for all. True if there was one.
    ///
    /// # Errors
    /// When the store fails, or the fleet cannot be told.
    pub async fn forget(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<bool, ProcessError> {
        let cache = self.proxy.gate().robots_cache();
        let in_fleet = cache.forget_in_fleet(origin, which).await;
        let was_known = cache.forget(origin, which).await?;
        in_fleet.map_err(|error| ProcessError::Untold(error.into()))?;
        self.announce(MessageKind::Forget, origin, which).await?;
        Ok(was_known)
    }

    /// Tells the other instances of the fleet to do the same.
    async fn announce(
        &self,
        kind: MessageKind,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<(), ProcessError> {
        let Some(override_sync) = &self.override_sync else {
            return Ok(());
        };
        let told = override_sync.announce(kind, origin, which).await;
        told.map_err(|error| ProcessError::Untold(error.into()))
    }

    /// Puts the overrides in force that a command has changed in the store, before this resolves.
    pub(super) async fn take_over_overrides(&self) {
        let taken_over = match &self.override_sync {
            Some(override_sync) => override_sync.take_over_now().await.is_ok(),
            None => false,
        };
        if !taken_over {
            // The task that follows the store tries again, and says why.
            self.overrides_changed.notify_one();
        }
    }

    /// Returns the fleet as this process sees it; none if it has no fleet.
    pub(super) async fn fleet(&self) -> Option<FleetView> {
        let fleet = self.proxy.gate().fleet()?;
        fleet.observe().await;
        Some(fleet.view())
    }

    /// Returns the status of the process.
    pub(super) fn status(&self) -> Status {
        let cache = self.proxy.gate().robots_cache();
        let settings = self.proxy.settings();
        let witnessed = self.witnesses.as_ref().and_then(|all| all.witnessed());
        let witnesses = self.witnesses.as_ref().map(|all| all.status());
        let witnesses = witnesses.unwrap_or_default();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started: time_text(self.started),
            mode: settings.policy.mode.as_str().to_owned(),
            origins: cache.len(),
            bytes: cache.bytes(),
            quorum: (!witnesses.is_empty()).then_some(settings.audit.quorum),
            witnessed_size: witnessed.map(|(size, _)| size),
            witnessed_at: witnessed.map(|(_, time)| time_text(time)),
            witnesses: witnesses.into_iter().map(WitnessReport::of).collect(),
            ship: self.shipper.as_ref().map(|shipper| Box::new(ShipReport::of(shipper.status()))),
        }
    }
}
